//! One HTTP/1.1 connection: reading requests, writing plain answers.
//! Owns the bytes of HTTP, must never know MCP. Called by `http` and `post`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::server::Server;
use crate::wire;

const HEAD_BYTES_MAX: usize = 256 * 1024;
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;
const HEADERS_MAX: usize = 100;
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// The head of a request. Header names are lowercase.
pub(crate) struct Head {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
    /// The media types of the Accept headers, without parameters.
    pub(crate) fn accepted(&self) -> Vec<String> {
        self.all("accept")
            .iter()
            .flat_map(|value| value.split(','))
            .filter_map(|part| part.split(';').next())
            .map(|kind| kind.trim().to_ascii_lowercase())
            .filter(|kind| !kind.is_empty())
            .collect()
    }
}

/// A status, headers and a body.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }
    pub(crate) fn json(server: &Server, status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
            .with("content-type", &media(server, "application/json"))
    }
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A content type, with a charset when the flags ask for one.
pub(crate) fn media(server: &Server, kind: &str) -> String {
    if server.flags.content_charset { format!("{kind}; charset=utf-8") } else { kind.to_owned() }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

/// Status line and headers, with the empty line.
pub(crate) fn head_bytes(status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    (text + "\r\n").into_bytes()
}

pub(crate) struct Conn {
    pub(crate) server: Arc<Server>,
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

impl Conn {
    pub(crate) fn new(server: Arc<Server>, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        Ok(Self { server, stream, buffer: Vec::new() })
    }

    /// The next request; none when the client has closed.
    pub(crate) fn read(&mut self) -> io::Result<Option<(Head, Vec<u8>)>> {
        self.stream.set_read_timeout(None)?;
        let head = loop {
            match parse_head(&self.buffer)? {
                Some((head, used)) => {
                    self.buffer.drain(..used);
                    break head;
                }
                None if self.buffer.len() > HEAD_BYTES_MAX => return Err(invalid("the head is too long")),
                None if !self.fill()? => return Ok(None),
                None => {}
            }
        };
        if head.get("expect").is_some_and(|e| e.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let chunked = head.get("transfer-encoding").is_some_and(|e| e.eq_ignore_ascii_case("chunked"));
        let body = if chunked {
            self.read_chunks()?
        } else {
            let len = head
                .get("content-length")
                .map_or(Ok(0), str::parse)
                .map_err(|_| invalid("content-length"))?;
            self.take(len)?
        };
        Ok(Some((head, body)))
    }

    fn fill(&mut self) -> io::Result<bool> {
        let mut part = [0; 16 * 1024];
        let len = self.stream.read(&mut part)?;
        self.buffer.extend_from_slice(&part[..len]);
        Ok(len > 0)
    }

    fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        if len > BODY_BYTES_MAX {
            return Err(invalid("the body is too long"));
        }
        while self.buffer.len() < len {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..len).collect())
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let (used, size) = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) if self.fill()? => {}
                    _ => return Err(invalid("chunk size")),
                }
            };
            self.take(used)?;
            let chunk = self.take(size as usize)?;
            self.take(2)?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Writes an answer with a length; `half`: only half of the body, and then the connection is cut.
    pub(crate) fn respond(&mut self, response: Response, half: bool) -> io::Result<bool> {
        let keep = !self.server.flags.no_keep_alive;
        let mut headers = response.headers;
        headers.push(("content-length".into(), response.body.len().to_string()));
        if !keep {
            headers.push(("connection".into(), "close".into()));
        }
        self.server.trace.event(
            "http-out",
            json!({"status": response.status, "headers": headers, "bytes": response.body.len()}),
        );
        let mut bytes = head_bytes(response.status, &headers);
        let shown = if half { response.body.len() / 2 } else { response.body.len() };
        bytes.extend_from_slice(&response.body[..shown]);
        wire::write_shaped(&mut self.stream, None, &bytes, &self.server.flags)?;
        Ok(keep && !half)
    }
}

fn parse_head(buffer: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(buffer) {
        Ok(httparse::Status::Complete(used)) => {
            let headers = request
                .headers
                .iter()
                .map(|h| (h.name.to_ascii_lowercase(), String::from_utf8_lossy(h.value).into_owned()))
                .collect();
            let method = request.method.unwrap_or_default().to_owned();
            let path = request.path.unwrap_or_default().to_owned();
            Ok(Some((Head { method, path, headers }, used)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(e) => Err(invalid(&format!("not HTTP: {e}"))),
    }
}
