//! A client of the HTTP front at the wire: bytes out, bytes in, on a socket of its own.

use std::sync::Arc;

use callboard::serve::Host;
use callboard::serve::http::{HttpFront, HttpLimits, HttpPlan, Served};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A front on this host, on a free port, for the same user.
pub async fn front(host: &Arc<Host>, change: impl FnOnce(&mut HttpPlan)) -> HttpFront {
    let mut plan = HttpPlan {
        addresses: vec!["127.0.0.1".parse().unwrap()],
        port: 0,
        hosts: Vec::new(),
        origins: Vec::new(),
        home: None,
        open: false,
        limits: HttpLimits::default(),
    };
    change(&mut plan);
    HttpFront::bind(plan).await.unwrap().serve(Arc::new(Served { host: host.clone(), only: None }))
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// One connection.
pub struct Wire {
    pub stream: BufReader<TcpStream>,
    port: u16,
}

impl Wire {
    pub async fn open(front: &HttpFront) -> Self {
        let at = front.addresses()[0];
        Self { stream: BufReader::new(TcpStream::connect(at).await.unwrap()), port: at.port() }
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// A request with the headers that a well-behaved client sends, and these.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        let has = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        if !has("host") {
            text += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        if method == "POST" && !has("content-type") {
            text += "Content-Type: application/json\r\n";
        }
        if !has("accept") {
            text += "Accept: application/json, text/event-stream\r\n";
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.write(text).await;
    }

    /// The head of the next answer.
    pub async fn head(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).await.unwrap();
            assert_ne!(read, 0, "closed after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::new() }
    }

    /// The next answer, whole; of a stream of events, up to its end.
    pub async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        if let Some(length) = answer.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut body).await.unwrap();
            answer.body = String::from_utf8(body).unwrap();
        } else if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                answer.body += &chunk;
            }
        }
        answer
    }

    /// The next chunk; `None` at the end.
    pub async fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.stream.read_line(&mut size).await.ok().filter(|read| *read > 0)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    /// The next event with data.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            let chunk = self.chunk().await?;
            let field = |name: &str| chunk.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let id = field("id:").map(str::to_owned);
            match field("data:") {
                Some("") => return Some(Event { id, data: Value::Null }),
                Some(data) => return Some(Event { id, data: serde_json::from_str(data).unwrap() }),
                None => {}
            }
        }
    }

    pub async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send(method, path, headers, body).await;
        self.answer().await
    }

    pub async fn post(&mut self, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.ask("POST", "/mcp", headers, &body.to_string()).await
    }

    /// Opens a legacy session.
    pub async fn session(&mut self, revision: &str) -> String {
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let answer = self.post(&[], &request(0, "initialize", params)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], &done).await.status, 202);
        id
    }

    /// Whether the other end closed.
    pub async fn closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
    }
}

/// One event.
#[derive(Debug)]
pub struct Event {
    pub id: Option<String>,
    pub data: Value,
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A modern request with its `_meta`.
pub fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "c", "version": "1"});
    request(id, method, params)
}

/// The headers of a modern request.
pub fn mirrored<'a>(method: &'a str, name: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    headers
}
