//! The other side of the bench: a server as small as can be, in a child process or on
//! an in-process pipe. It finds the id of a request and writes a prepared answer.

use std::io::{BufRead, Write};

use crate::Shape;

/// The result that every call gets.
pub fn result(shape: Shape, size: usize) -> String {
    match shape {
        Shape::Plain => format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(size)),
        Shape::Escaped => {
            let piece = r#"{\n  \"key\": \"a \\\"quoted\\\" value\",\n  \"n\": 12345\n}\n"#;
            format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, piece.repeat(size / piece.len() + 1))
        }
        Shape::Structured => {
            let piece = r#"{"id":12345,"name":"item","tags":["a","b"],"price":12.5,"in":true}"#;
            let all = vec![piece; size / (piece.len() + 1) + 1].join(",");
            format!(r#"{{"content":[],"structuredContent":{{"items":[{all}]}}}}"#)
        }
    }
}

/// What a minimal server says to one line; `None` to a notification.
pub fn answer(line: &[u8], result: &str, out: &mut Vec<u8>) -> Option<()> {
    const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
    let rest = line.strip_prefix(HEAD)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (id, tail) = rest.split_at(digits);
    let result = if tail.starts_with(br#","method":"initialize""#) {
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"toy","version":"1"}}"#
    } else if tail.starts_with(br#","method":"tools/list""#) {
        r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#
    } else {
        result
    };
    out.extend_from_slice(HEAD);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result.as_bytes());
    out.extend_from_slice(b"}\n");
    Some(())
}

/// The child: blocking, one line at a time, writes what is ready in one go.
pub fn child(args: &[String]) {
    let shape = match args.first().map(String::as_str) {
        Some("Escaped") => Shape::Escaped,
        Some("Structured") => Shape::Structured,
        _ => Shape::Plain,
    };
    let size = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(1024);
    let result = result(shape, size);
    let mut input = std::io::BufReader::with_capacity(64 * 1024, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut out) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return;
        }
        let _ = answer(&line, &result, &mut out);
        if (input.buffer().is_empty() || out.len() > 256 * 1024) && !out.is_empty() {
            if output.write_all(&out).and_then(|()| output.flush()).is_err() {
                return;
            }
            out.clear();
        }
    }
}
