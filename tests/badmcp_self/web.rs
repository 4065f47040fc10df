//! Drives badmcp over HTTP with raw sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::pipe::{LIMIT, Pipe, eventually};

pub(crate) const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
pub(crate) const MODERN: &str = "2026-07-28";

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lowercase.
    pub(crate) headers: Vec<(String, String)>,
    /// Without chunk framing.
    pub(crate) body: String,
    /// Whether the connection was cut before the body's end.
    pub(crate) cut: bool,
}

impl Answer {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }
    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_default()
    }
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
    pub(crate) fn code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }
    pub(crate) fn streams(&self) -> bool {
        self.header("content-type").starts_with("text/event-stream")
    }
    pub(crate) fn events(&self) -> Vec<Event> {
        events(&self.body)
    }
    /// The JSON-RPC message: the body, or the last event that has data.
    pub(crate) fn message(&self) -> Value {
        if !self.streams() {
            return self.json();
        }
        let events = self.events();
        // A comment may still come behind the answer.
        let last =
            events.iter().rfind(|event| event.data_lines > 0).unwrap_or_else(|| panic!("no event: {self:?}"));
        serde_json::from_str(&last.data).unwrap_or_else(|e| panic!("{e}: {last:?}"))
    }
}

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
    pub(crate) data_lines: usize,
    pub(crate) comments: usize,
}

/// Reads events as the HTML standard says: LF, CRLF or CR.
pub(crate) fn events(body: &str) -> Vec<Event> {
    let text = body.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut event = Event::default();
    for line in text.split('\n') {
        match line.split_once(':') {
            None if line.is_empty() && (event.data_lines > 0 || event.comments > 0) => {
                found.push(std::mem::take(&mut event));
            }
            Some(("", _)) => event.comments += 1,
            Some(("event", value)) => event.name = Some(value.trim_start().to_owned()),
            Some(("id", value)) => event.id = Some(value.trim_start().to_owned()),
            Some(("data", value)) => {
                if event.data_lines > 0 {
                    event.data.push('\n');
                }
                event.data_lines += 1;
                event.data.push_str(value.strip_prefix(' ').unwrap_or(value));
            }
            _ => {}
        }
    }
    found
}

/// A connection whose bytes are read one step at a time.
pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(crate) fn connect(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("badmcp listens");
        socket.set_read_timeout(Some(LIMIT)).expect("limit");
        socket.set_nodelay(true).expect("nodelay");
        Self { socket, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        self.socket.write_all(format!("{text}\r\n{body}").as_bytes()).expect("badmcp reads");
    }

    /// One read; false at the end.
    fn fill(&mut self) -> bool {
        let mut part = [0; 65536];
        match self.socket.read(&mut part) {
            Ok(len) => {
                self.buffer.extend_from_slice(&part[..len]);
                len > 0
            }
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(e) => panic!("nothing came: {e}"),
        }
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|w| w == end) {
                let rest = self.buffer.split_off(at + end.len());
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Status and headers; none when the connection was closed.
    pub(crate) fn head(&mut self) -> Option<Answer> {
        let head = String::from_utf8(self.until(b"\r\n\r\n")?).expect("ascii");
        let mut lines = head.lines();
        let status =
            lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).expect("status");
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Answer { status, headers, body: String::new(), cut: false })
    }

    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < len {
            if !self.fill() {
                return None;
            }
        }
        let rest = self.buffer.split_off(len);
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    /// The next chunk of a stream: none at its end, `Err` when it was cut.
    pub(crate) fn chunk(&mut self) -> Result<Option<String>, ()> {
        let size = self.until(b"\r\n").ok_or(())?;
        let size = usize::from_str_radix(String::from_utf8_lossy(&size).trim(), 16).expect("a chunk size");
        let chunk = self.take(size).ok_or(())?;
        self.take(2).ok_or(())?;
        if size == 0 { Ok(None) } else { Ok(Some(String::from_utf8(chunk).expect("utf-8"))) }
    }

    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        if answer.header("transfer-encoding") == "chunked" {
            loop {
                match self.chunk() {
                    Ok(Some(chunk)) => answer.body.push_str(&chunk),
                    Ok(None) => break,
                    Err(()) => {
                        answer.cut = true;
                        break;
                    }
                }
            }
        } else {
            let len = answer.header("content-length").parse().expect("a length");
            match self.take(len) {
                Some(body) => answer.body = String::from_utf8(body).expect("utf-8"),
                None => answer.cut = true,
            }
        }
        Some(answer)
    }

    /// The next event that has data (a chunk is an event).
    pub(crate) fn event(&mut self) -> Option<Event> {
        loop {
            let chunk = self.chunk().ok()??;
            if let Some(event) = events(&chunk).into_iter().find(|event| event.data_lines > 0) {
                return Some(event);
            }
        }
    }

    /// The next event's message.
    pub(crate) fn message(&mut self) -> Value {
        let event = self.event().expect("the stream goes on");
        serde_json::from_str(&event.data).unwrap_or_else(|e| panic!("{e}: {event:?}"))
    }
}

pub(crate) struct Web {
    pub(crate) pipe: Pipe,
    pub(crate) port: u16,
    pub(crate) session: Option<String>,
    pub(crate) version: Option<String>,
    /// Sent with each POST.
    pub(crate) extra: Vec<(String, String)>,
    next: u64,
}

impl Web {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let dir = TempDir::new().expect("folder");
        let all = [&["--http", "--port-file", "{dir}/port", "--die-with-stdin"], flags].concat();
        let pipe = Pipe::start_in(dir, &all);
        let port = eventually("port file", || pipe.file("port").parse().ok());
        Self { pipe, port, session: None, version: None, extra: Vec::new(), next: 0 }
    }

    pub(crate) fn exchange(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut wire = Wire::connect(self.port);
        wire.send(method, path, headers, body);
        wire.read().expect("an answer")
    }

    /// Accept, session, version and the extra headers, as a good client sends them.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![(ACCEPT.0.to_owned(), ACCEPT.1.to_owned())];
        headers.extend(self.session.iter().map(|id| ("mcp-session-id".to_owned(), id.clone())));
        headers.extend(self.version.iter().map(|v| ("mcp-protocol-version".to_owned(), v.clone())));
        headers.extend(self.extra.iter().cloned());
        headers
    }

    pub(crate) fn send(&self, path: &str, message: &Value) -> Wire {
        let mut wire = Wire::connect(self.port);
        let headers = self.headers();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        wire.send("POST", path, &headers, &message.to_string());
        wire
    }

    pub(crate) fn post(&self, message: &Value) -> Answer {
        self.send("/mcp", message).read().expect("an answer")
    }

    pub(crate) fn message(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Answer {
        let message = self.message(method, params);
        self.post(&message)
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn initialize(&mut self) -> Answer {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "self", "version": "1"}});
        self.session = None;
        self.version = None;
        let answer = self.ask("initialize", &params);
        if answer.status == 200 && answer.message().get("result").is_some() {
            self.session = answer.all("mcp-session-id").first().map(|id| (*id).to_owned());
            self.version = answer.message()["result"]["protocolVersion"].as_str().map(str::to_owned);
        }
        answer
    }

    pub(crate) fn open(&mut self) -> Value {
        let answer = self.initialize();
        let done = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(done.status, 202, "{done:?}");
        answer.message()["result"].clone()
    }

    pub(crate) fn opened(flags: &[&str]) -> Self {
        let mut web = Self::start(flags);
        web.open();
        web
    }

    /// An open GET stream.
    pub(crate) fn stream(&self) -> Wire {
        let mut wire = Wire::connect(self.port);
        let mut headers = self.headers();
        headers[0].1 = "text/event-stream".into();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        wire.send("GET", "/mcp", &headers, "");
        let head = wire.head().expect("a stream");
        assert_eq!((head.status, head.streams()), (200, true), "{head:?}");
        wire
    }

    /// A modern request with right `_meta` and headers; `change` may spoil the headers.
    pub(crate) fn modern_with(
        &mut self,
        method: &str,
        params: &Value,
        change: impl FnOnce(&mut Vec<(String, String)>),
    ) -> Wire {
        let message = modern(&self.message(method, params));
        let mut headers = vec![
            (ACCEPT.0.to_owned(), ACCEPT.1.to_owned()),
            ("mcp-protocol-version".into(), MODERN.into()),
            ("mcp-method".into(), method.to_owned()),
        ];
        if let Some(name) = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str) {
            headers.push(("mcp-name".into(), name.to_owned()));
        }
        change(&mut headers);
        let mut wire = Wire::connect(self.port);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        wire.send("POST", "/mcp", &headers, &message.to_string());
        wire
    }

    pub(crate) fn modern(&mut self, method: &str, params: &Value) -> Answer {
        self.modern_with(method, params, |_| {}).read().expect("an answer")
    }

    pub(crate) fn count(&self, ev: &str, fits: impl Fn(&Value) -> bool) -> usize {
        self.pipe.trace().iter().filter(|event| event["ev"] == ev && fits(event)).count()
    }
}

/// The message with the `_meta` that the modern era wants.
pub(crate) fn modern(message: &Value) -> Value {
    let mut message = message.clone();
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    message
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    (work(), started.elapsed())
}
