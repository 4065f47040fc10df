//! A scripted HTTP server on a loopback socket for the tests of this link: it records
//! every request and answers by a function of the test. Written on the raw socket, so
//! that every byte and every cut of an answer is the test's own.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Limit of every wait in the tests.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// One request as it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Which connection brought it, counted from 0.
    pub(super) connection: usize,
}

impl Seen {
    /// All values of a header.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// The value of a header that is there once.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} is there {} times", all.len());
        all.first().copied()
    }

    /// The body as JSON; null when there is none.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method.
    pub(super) fn method(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    /// The JSON-RPC id.
    pub(super) fn id(&self) -> serde_json::Value {
        self.json()["id"].clone()
    }
}

/// What to answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// A whole answer with its length.
    Full { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// A stream that the test feeds; it ends when the sender is dropped.
    Stream { status: u16, content_type: String, feed: mpsc::UnboundedReceiver<Vec<u8>> },
    /// A stream that breaks without its end once the sender is dropped.
    Broken { feed: mpsc::UnboundedReceiver<Vec<u8>> },
    /// The connection is closed without an answer.
    Hangup,
    /// Nothing, for ever.
    Silence,
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self::Full { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn json(body: impl Into<String>) -> Self {
        Self::status(200).with("content-type", "application/json").body(body)
    }

    /// The answer to `seen` with this result.
    pub(super) fn result(seen: &Seen, result: &str) -> Self {
        Self::json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id()))
    }

    /// An error answer to `seen` under any status.
    pub(super) fn error(status: u16, id: &serde_json::Value, code: i64, message: &str) -> Self {
        let body =
            serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        Self::status(status).with("content-type", "application/json").body(body.to_string())
    }

    /// A whole event stream.
    pub(super) fn events(text: impl Into<String>) -> Self {
        Self::status(200).with("content-type", "text/event-stream").body(text)
    }

    /// A stream and the end that feeds it.
    pub(super) fn stream() -> (mpsc::UnboundedSender<Vec<u8>>, Self) {
        let (tx, feed) = feed();
        (tx, Self::Stream { status: 200, content_type: "text/event-stream".into(), feed })
    }

    pub(super) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Full { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Full { status, headers, body }
            }
            other => other,
        }
    }

    pub(super) fn body(self, text: impl Into<String>) -> Self {
        match self {
            Self::Full { status, headers, .. } => {
                Self::Full { status, headers, body: text.into().into_bytes() }
            }
            other => other,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the test itself bounds what it feeds")]
pub(super) fn feed() -> (mpsc::UnboundedSender<Vec<u8>>, mpsc::UnboundedReceiver<Vec<u8>>) {
    mpsc::unbounded_channel()
}

/// One event with this data.
pub(super) fn event(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// The server; it ends when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) origin: String,
    log: watch::Receiver<Vec<Seen>>,
    gone: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (log_in, log) = watch::channel(Vec::new());
        let (gone_in, gone) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(script), log_in, gone_in));
        Self { origin, log, gone, _tasks: tasks }
    }

    /// The usual endpoint.
    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.log.borrow().clone()
    }

    /// The requests with this JSON-RPC method so far.
    pub(super) fn calls(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    /// Waits until the requests fulfil a condition.
    pub(super) async fn until(&self, what: &str, wanted: impl FnMut(&Vec<Seen>) -> bool) -> Vec<Seen> {
        let mut log = self.log.clone();
        let seen = tokio::time::timeout(PATIENCE, log.wait_for(wanted)).await;
        match seen {
            Ok(Ok(seen)) => seen.clone(),
            _ => panic!("never {what}; seen: {:#?}", self.seen()),
        }
    }

    /// Waits until the client has left that many connections in the middle of an answer.
    pub(super) async fn until_left(&self, count: usize) {
        let mut gone = self.gone.clone();
        tokio::time::timeout(PATIENCE, gone.wait_for(|n| *n >= count))
            .await
            .expect("no client left")
            .unwrap();
    }
}

async fn accept(
    listener: TcpListener,
    script: Script,
    log: watch::Sender<Vec<Seen>>,
    gone: watch::Sender<usize>,
) {
    let mut connections = JoinSet::new();
    let mut count = 0;
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).unwrap();
        let (script, log, gone) = (script.clone(), log.clone(), gone.clone());
        connections.spawn(async move { serve(socket, count, script, log, gone).await });
        count += 1;
    }
}

async fn serve(
    mut socket: TcpStream,
    connection: usize,
    script: Script,
    log: watch::Sender<Vec<Seen>>,
    gone: watch::Sender<usize>,
) {
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut socket, &mut buffer, connection).await {
        let answer = script(&seen);
        log.send_modify(|log| log.push(seen));
        match write(&mut socket, answer).await {
            Wrote::Whole => {}
            Wrote::Left => {
                gone.send_modify(|gone| *gone += 1);
                return;
            }
            Wrote::Cut => return,
        }
    }
}

async fn read(socket: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Seen> {
    loop {
        match parse(buffer, connection) {
            Ok(Some((seen, length))) => {
                buffer.drain(..length);
                return Some(seen);
            }
            Ok(None) => {}
            // No HTTP: a server closes then.
            Err(_) => return None,
        }
        let mut chunk = [0; 65536];
        match socket.read(&mut chunk).await {
            Ok(n) if n > 0 => buffer.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
}

fn parse(buffer: &[u8], connection: usize) -> Result<Option<(Seen, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(buffer)? else { return Ok(None) };
    let headers: Vec<(String, String)> = request
        .headers
        .iter()
        .map(|h| (h.name.to_ascii_lowercase(), String::from_utf8(h.value.to_vec()).unwrap()))
        .collect();
    assert!(headers.iter().all(|(n, _)| n != "transfer-encoding"), "bodies come with their length");
    let length = headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    let Some(body) = buffer.get(head..head + length) else { return Ok(None) };
    let seen = Seen {
        verb: request.method.unwrap().to_owned(),
        path: request.path.unwrap().to_owned(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
        connection,
    };
    Ok(Some((seen, head + length)))
}

enum Wrote {
    /// The connection can go on.
    Whole,
    /// The client left first.
    Left,
    /// We cut it.
    Cut,
}

async fn write(socket: &mut TcpStream, answer: Answer) -> Wrote {
    match answer {
        Answer::Full { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Status\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            if !matches!(status, 204 | 304) {
                head.push_str(&format!("content-length: {}\r\n", body.len()));
            }
            head.push_str("\r\n");
            let whole = [head.into_bytes(), body].concat();
            if socket.write_all(&whole).await.is_ok() { Wrote::Whole } else { Wrote::Left }
        }
        Answer::Stream { status, content_type, feed } => {
            let head = format!("{status} Status\r\ncontent-type: {content_type}");
            chunks(socket, &head, feed, true).await
        }
        Answer::Broken { feed } => {
            chunks(socket, "200 OK\r\ncontent-type: text/event-stream", feed, false).await
        }
        Answer::Hangup => Wrote::Cut,
        Answer::Silence => {
            let mut byte = [0];
            let _ = socket.read(&mut byte).await;
            Wrote::Left
        }
    }
}

async fn chunks(
    socket: &mut TcpStream,
    head: &str,
    mut feed: mpsc::UnboundedReceiver<Vec<u8>>,
    clean_end: bool,
) -> Wrote {
    let head = format!("HTTP/1.1 {head}\r\ntransfer-encoding: chunked\r\n\r\n");
    if socket.write_all(head.as_bytes()).await.is_err() {
        return Wrote::Left;
    }
    let mut byte = [0];
    loop {
        let piece = tokio::select! {
            piece = feed.recv() => piece,
            // The client sends nothing here: whatever comes is its end.
            _ = socket.read(&mut byte) => return Wrote::Left,
        };
        let Some(piece) = piece else { break };
        let chunk = [format!("{:x}\r\n", piece.len()).into_bytes(), piece, b"\r\n".to_vec()].concat();
        if socket.write_all(&chunk).await.is_err() {
            return Wrote::Left;
        }
    }
    if !clean_end {
        return Wrote::Cut;
    }
    if socket.write_all(b"0\r\n\r\n").await.is_ok() { Wrote::Whole } else { Wrote::Left }
}
