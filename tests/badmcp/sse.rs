//! A stream of server-sent events on one connection, in the dialect that the flags ask for.
//! Owns event framing and chunking, must never know a message's meaning. Called by `http` and `post`.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::conn::{head_bytes, media};
use crate::server::{Outlet, Server, lock, pause};
use crate::wire;

/// How often an open stream looks whether its client is still there.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

struct Inner {
    socket: TcpStream,
    started: bool,
    ended: bool,
    events: u64,
}

/// Starts by itself with the first event.
pub(crate) struct SseStream {
    server: Arc<Server>,
    headers: Vec<(String, String)>,
    session: String,
    inner: Mutex<Inner>,
}

impl SseStream {
    /// `headers` are added to the stream's own.
    pub(crate) fn new(
        server: &Arc<Server>,
        socket: &TcpStream,
        headers: Vec<(String, String)>,
        session: &str,
    ) -> io::Result<Arc<Self>> {
        let inner = Inner { socket: socket.try_clone()?, started: false, ended: false, events: 0 };
        let session = session.to_owned();
        Ok(Arc::new(Self { server: Arc::clone(server), headers, session, inner: Mutex::new(inner) }))
    }

    pub(crate) fn started(&self) -> bool {
        lock(&self.inner).started
    }

    /// Sends the head, if that has not happened.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.begin(&mut lock(&self.inner))
    }

    fn begin(&self, inner: &mut Inner) -> io::Result<()> {
        if inner.started {
            return Ok(());
        }
        inner.started = true;
        let mut headers = vec![
            ("content-type".to_owned(), media(&self.server, "text/event-stream")),
            ("cache-control".to_owned(), "no-cache".to_owned()),
            ("transfer-encoding".to_owned(), "chunked".to_owned()),
        ];
        headers.extend(self.headers.iter().cloned());
        self.server.trace.event("http-out", json!({"status": 200, "headers": headers, "stream": true}));
        inner.socket.write_all(&head_bytes(200, &headers))?;
        if self.server.flags.sse_prime {
            let end = self.line_end();
            self.chunk(inner, format!("id: 0{end}retry: 100{end}data: {end}{end}").as_bytes())?;
        }
        Ok(())
    }

    fn line_end(&self) -> &'static str {
        let flags = &self.server.flags;
        match (flags.sse_crlf, flags.sse_cr) {
            (true, _) => "\r\n",
            (_, true) => "\r",
            _ => "\n",
        }
    }

    fn chunk(&self, inner: &mut Inner, bytes: &[u8]) -> io::Result<()> {
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        wire::write_shaped(&mut inner.socket, None, &framed, &self.server.flags)
    }

    fn event_bytes(&self, name: &str, data: &str, number: u64) -> Vec<u8> {
        let flags = &self.server.flags;
        let end = self.line_end();
        let mut text = String::with_capacity(data.len() + 64);
        if flags.sse_comments.on() {
            text.push_str(&format!(": comment {number}{end}x-unknown-field: 1{end}"));
        }
        if !flags.sse_no_event_name || name != "message" {
            text.push_str(&format!("event: {name}{end}"));
        }
        if flags.sse_prime {
            text.push_str(&format!("id: {number}{end}"));
        }
        let data = if flags.sse_multiline { broken_up(data) } else { data.to_owned() };
        for line in data.split('\n') {
            text.push_str(&format!("data: {line}{end}"));
        }
        text.push_str(end);
        text.into_bytes()
    }

    /// Sends a named event.
    pub(crate) fn named(&self, name: &str, data: &str) -> io::Result<()> {
        self.server.trace.message("out", data.as_bytes(), &self.session);
        let mut inner = lock(&self.inner);
        if inner.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.begin(&mut inner)?;
        inner.events += 1;
        let bytes = self.event_bytes(name, data, inner.events);
        self.chunk(&mut inner, &bytes)
    }

    /// Sends half of an event; the caller then cuts the connection.
    pub(crate) fn half(&self, data: &str) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        self.begin(&mut inner)?;
        let bytes = self.event_bytes("message", data, 1);
        let head = format!("{:x}\r\n", bytes.len());
        inner.socket.write_all(head.as_bytes())?;
        inner.socket.write_all(&bytes[..bytes.len() / 2])?;
        inner.ended = true;
        inner.socket.shutdown(std::net::Shutdown::Both)
    }

    fn comment(&self) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        if inner.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.begin(&mut inner)?;
        let end = self.line_end();
        self.chunk(&mut inner, format!(": still here{end}{end}").as_bytes())
    }

    /// Ends the stream properly; the connection can go on.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        self.begin(&mut inner)?;
        inner.ended = true;
        wire::write_shaped(&mut inner.socket, None, b"0\r\n\r\n", &self.server.flags)
    }

    /// Sends comments at the flags' rate until the stream ends.
    pub(crate) fn comment_steadily(self: &Arc<Self>) {
        let Some(rate) = self.server.flags.sse_comments.value().copied() else { return };
        let stream = Arc::clone(self);
        std::thread::spawn(move || {
            while stream.comment().is_ok() {
                pause(rate.period());
            }
        });
    }

    /// Keeps the stream open until the client leaves or `over` says so.
    pub(crate) fn stay(self: &Arc<Self>, mut over: impl FnMut() -> bool) {
        while !over() && !self.gone() {
            pause(LOOK);
        }
        lock(&self.inner).ended = true;
    }
}

impl Outlet for SseStream {
    fn send(&self, message: &str) -> bool {
        self.named("message", message).is_ok()
    }

    fn gone(&self) -> bool {
        let inner = lock(&self.inner);
        closed(&inner.socket)
    }
}

/// Whether the other side has closed: looks without taking a byte.
pub(crate) fn closed(socket: &TcpStream) -> bool {
    if socket.set_read_timeout(Some(Duration::from_millis(1))).is_err() {
        return true;
    }
    match socket.peek(&mut [0]) {
        Ok(len) => len == 0,
        Err(e) => !matches!(
            e.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
        ),
    }
}

/// Line breaks after the commas between values, where JSON allows them.
fn broken_up(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 64);
    let (mut inside, mut escaped) = (false, false);
    for c in json.chars() {
        text.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            ',' if !inside => text.push('\n'),
            _ => {}
        }
    }
    text
}

/// Waits until the client leaves, at most that long.
pub(crate) fn wait_closed(socket: &TcpStream, limit: Duration) {
    let until = Instant::now() + limit;
    while !closed(socket) && Instant::now() < until {
        pause(LOOK);
    }
}
