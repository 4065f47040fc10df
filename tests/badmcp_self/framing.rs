//! Framing, stdout and stderr flags.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::pipe::{Pipe, alive, command, eventually};

fn raw(pipe: &mut Pipe) -> String {
    String::from_utf8(pipe.raw_line().expect("a line")).expect("utf-8")
}

#[test]
fn crlf_bom_and_blank_lines_frame_whole_messages() {
    let mut pipe = Pipe::start(&["--crlf", "--bom", "--blank-lines"]);
    pipe.begin("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let first = raw(&mut pipe);
    assert!(first.starts_with("\u{feff}{\"jsonrpc\"") && first.ends_with("}\r\n"), "{first:?}");
    assert_eq!([raw(&mut pipe), raw(&mut pipe), raw(&mut pipe)], ["\r\n", "   \r\n", "\t\r\n"]);
    pipe.begin("ping", &json!({}));
    let second = raw(&mut pipe);
    assert!(second.starts_with('{') && second.ends_with("}\r\n"), "{second:?}");
}

#[test]
fn a_banner_stands_before_the_first_message() {
    let mut pipe = Pipe::start(&["--banner", "Server v1.2 started 🚀\nready"]);
    assert_eq!([pipe.line(), pipe.line()], ["Server v1.2 started 🚀", "ready"]);
    assert_eq!(pipe.open()["protocolVersion"], "2025-11-25");
}

#[test]
fn noise_comes_before_every_nth_answer() {
    let mut pipe = Pipe::start(&["--noise-every", "2"]);
    let kinds: Vec<bool> = (0..4)
        .flat_map(|_| {
            let id = pipe.begin("ping", &json!({}));
            let mut lines = Vec::new();
            loop {
                let line = pipe.line();
                let answer = serde_json::from_str::<Value>(&line).is_ok_and(|m| m["id"] == id);
                lines.push(answer);
                if answer {
                    return lines;
                }
            }
        })
        .collect();
    assert_eq!(kinds, [true, false, true, true, false, true]);
}

#[test]
fn json_noise_is_json_but_no_message() {
    let mut pipe = Pipe::opened(&["--json-noise", "@call"]);
    assert_eq!(pipe.tools().len(), 13);
    let id = pipe.begin_call("t0", &json!({}));
    let noise: Vec<Value> = (0..6).map(|_| pipe.message()).collect();
    assert!(noise.iter().all(|line| line.get("jsonrpc").is_none()));
    assert!(
        [Value::is_object, Value::is_number, Value::is_string, Value::is_null]
            .iter()
            .all(|kind| noise.iter().any(kind))
    );
    assert_eq!(pipe.message()["id"], id);
    let mut always = Pipe::start(&["--json-noise"]);
    always.begin("ping", &json!({}));
    assert_eq!(always.line(), r#"{"level":"info","msg":"not a message"}"#);
}

/// Pieces as single reads see them.
fn pieces(flags: &[&str], text: &str) -> Vec<Vec<u8>> {
    let dir = TempDir::new().expect("folder");
    let mut child =
        command(&dir, flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let mut stdout = child.stdout.take().expect("stdout");
    let init = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": text}}});
    write!(stdin, "{init}\n{call}\n").expect("badmcp reads");
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut part = [0; 65536];
    while found.iter().flatten().filter(|b| **b == b'\n').count() < 2 {
        let len = stdout.read(&mut part).expect("badmcp writes");
        assert!(len > 0, "stdout ended");
        found.push(part[..len].to_vec());
    }
    drop(stdin);
    child.wait().expect("exit");
    found
}

#[test]
fn output_dribbles_in_pieces_and_stays_whole() {
    let found = pieces(&["--dribble", "1", "--split-utf8"], "é—🎉漢");
    assert!(found.iter().filter(|piece| piece.len() == 1).count() > 100, "{} pieces", found.len());
    assert!(String::from_utf8(found.concat()).expect("utf-8").contains(r#""text":"é—🎉漢""#));
    let larger = pieces(&["--dribble", "40"], "x");
    assert!(larger[0].len() <= 80 && larger.len() > 3, "{} pieces", larger.len());
}

#[test]
fn every_multibyte_character_is_split() {
    let found = pieces(&["--split-utf8"], "é—🎉漢");
    let broken = found.iter().filter(|piece| std::str::from_utf8(piece).is_err()).count();
    assert!(broken >= 4, "{broken} of {} pieces end inside a character", found.len());
    assert!(String::from_utf8(found.concat()).expect("utf-8").contains(r#""text":"é—🎉漢""#));
}

#[test]
fn a_huge_line_has_exactly_its_size() {
    let size = |mb: f64| (mb * 1024.0 * 1024.0) as usize;
    let line = |pipe: &mut Pipe| pipe.raw_line().expect("a line").len() - 1;
    let mut pipe = Pipe::opened(&["--huge-line", "0.13"]);
    pipe.begin_call("echo", &json!({"text": "short"}));
    assert_eq!(line(&mut pipe), size(0.13));
    assert_eq!(pipe.tools().len(), 13);
    let mut pipe = Pipe::opened(&["--huge-line", "1@list"]);
    assert_eq!(pipe.text("t0", &json!({})), "t0 {}");
    pipe.begin("tools/list", &json!({}));
    assert_eq!(line(&mut pipe), size(1.0));
    let mut pipe = Pipe::start(&["--huge-line", "5@start"]);
    pipe.begin("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let first = pipe.raw_line().expect("a line");
    assert_eq!(first.len() - 1, size(5.0));
    let message: Value = serde_json::from_slice(&first).expect("JSON");
    assert!(message["result"]["instructions"].as_str().is_some_and(|text| text.len() > 5_000_000));
}

#[test]
fn an_endless_line_follows_a_whole_message_and_never_ends() {
    let mut pipe = Pipe::opened(&["--endless-line", "1MB"]);
    pipe.begin_call("t0", &json!({}));
    assert_eq!(pipe.message()["params"]["data"], "before the flood");
    pipe.traced("out", |e| e["method"] == "notifications/message");
    let (rest, status) = pipe.finish();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1);
    assert!(!rest[0].ends_with('\n'));
}

#[test]
fn answers_come_packed_in_arrays() {
    let mut pipe = Pipe::start(&["--batch"]);
    pipe.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n");
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let batch = pipe.message();
        ids.extend(batch.as_array().expect("an array").iter().map(|m| m["id"].as_u64().expect("id")));
    }
    assert_eq!(ids, [1, 2]);
}

#[test]
fn stdout_closes_and_the_process_stays() {
    let mut pipe = Pipe::opened(&["--stdout-close"]);
    assert_eq!(pipe.tools().len(), 13);
    pipe.begin_call("t0", &json!({}));
    assert_eq!(pipe.raw_line(), None);
    assert!(alive(pipe.pid()));
    let mut early = Pipe::start(&["--stdout-close", "@start"]);
    assert_eq!(early.raw_line(), None);
    assert!(alive(early.pid()));
}

#[test]
fn a_raw_answer_is_the_files_bytes() {
    let dir = TempDir::new().expect("folder");
    let bytes = b"{\"id\":$ID,\"result\":{\"x\":1E400,\"bad\":\"\\ud800\xff\"},\"error\":null}";
    std::fs::write(dir.path().join("raw"), bytes).expect("file");
    let mut pipe = Pipe::start_in(dir, &["--raw-answer", "{dir}/raw"]);
    pipe.open();
    assert_eq!(pipe.tools().len(), 13);
    let id = pipe.begin_call("t0", &json!({}));
    let expected = String::from_utf8_lossy(bytes).replace("$ID", &id.to_string()) + "\n";
    assert_eq!(String::from_utf8_lossy(&pipe.raw_line().expect("a line")), expected);
}

#[test]
fn a_cut_answer_ends_in_the_middle() {
    let mut pipe = Pipe::opened(&["--cut-answer"]);
    pipe.begin_call("t0", &json!({}));
    let half = pipe.raw_line().expect("half a line");
    assert!(half.starts_with(b"{\"jsonrpc\"") && !half.ends_with(b"}\n"));
    assert_eq!(pipe.exit().code(), Some(1));
}

#[test]
fn a_flood_on_stderr_blocks_until_it_is_read() {
    let mut pipe = Pipe::deaf(TempDir::new().expect("folder"), &["--flood-stderr", "256KB@call"]);
    pipe.open();
    let id = pipe.begin_call("t0", &json!({}));
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    assert!(!pipe.trace().iter().any(|e| e["ev"] == "executed"), "the call must wait for its log");
    pipe.hear();
    assert_eq!(pipe.answer(id)["result"]["content"][0]["text"], "t0 {}");
    eventually("the flood", || (pipe.stderr().len() == 256 * 1024).then_some(()));
    assert!(pipe.stderr().contains(&b'\n'));
}

#[test]
fn a_flood_at_start_comes_before_everything() {
    let mut pipe = Pipe::deaf(TempDir::new().expect("folder"), &["--flood-stderr", "256KB@start"]);
    let id = pipe.begin("ping", &json!({}));
    pipe.traced("start", |_| true);
    assert!(!pipe.trace().iter().any(|e| e["ev"] == "in"));
    pipe.hear();
    pipe.answer(id);
    eventually("the flood", || (pipe.stderr().len() == 256 * 1024).then_some(()));
}

#[test]
fn stderr_without_newline_is_one_line_of_carriage_returns() {
    let mut pipe = Pipe::opened(&["--stderr-no-newline", "1MB"]);
    assert_eq!(pipe.text("t0", &json!({})), "t0 {}");
    eventually("the flood", || (pipe.stderr().len() == 1024 * 1024).then_some(()));
    assert!(pipe.stderr().contains(&b'\r') && !pipe.stderr().contains(&b'\n'));
}

#[test]
fn a_secret_is_printed_on_stderr() {
    let mut pipe = Pipe::opened(&["--stderr-secret", "canary-1"]);
    pipe.call("t0", &json!({}));
    let count = |text: Vec<u8>| String::from_utf8_lossy(&text).matches("canary-1\n").count();
    eventually("twice", || (count(pipe.stderr()) == 2).then_some(()));
}
