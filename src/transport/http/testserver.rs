//! A scripted HTTP server on a loopback socket for the tests of this link: it records
//! every request and answers by a function of the test. Written on the raw socket, so
//! that every byte and every cut of an answer is the test's own.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::testserver_h2 as h2;

/// Limit of every wait in the tests.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a flood written at once.
const FLOOD_LEN: usize = 64 * 1024;

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
    /// This answer, and no further request on this connection (HTTP/2: GOAWAY).
    Last(Box<Answer>),
    /// HTTP/2: the stream is refused, as one that did not run.
    Refused,
    /// HTTP/2: a goodbye that names the stream before this one as the last that was taken.
    NotTaken,
    /// HTTP/2: interim answers (103) without end.
    Hints,
    /// HTTP/1: these bytes, then those again and again without end.
    Flood { start: Vec<u8>, again: Vec<u8> },
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
        Self::start_with(None, script).await
    }

    /// A server that speaks TLS, and HTTP/2 where the acceptor agrees on it.
    pub(super) async fn start_tls(
        tls: TlsAcceptor,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(tls), script).await
    }

    async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (log_in, log) = watch::channel(Vec::new());
        let (gone_in, gone) = watch::channel(0);
        let mut tasks = JoinSet::new();
        let books = Books { script: Arc::new(script), log: log_in, gone: gone_in };
        tasks.spawn(accept(listener, tls, books));
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

/// What every connection of one server works with.
#[derive(Clone)]
pub(super) struct Books {
    pub(super) script: Script,
    pub(super) log: watch::Sender<Vec<Seen>>,
    pub(super) gone: watch::Sender<usize>,
}

impl Books {
    /// Answers by the script and keeps the request.
    pub(super) fn answer(&self, seen: Seen) -> Answer {
        let answer = (self.script)(&seen);
        self.log.send_modify(|log| log.push(seen));
        answer
    }

    /// A client left in the middle of an answer.
    pub(super) fn left(&self) {
        self.gone.send_modify(|gone| *gone += 1);
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, books: Books) {
    let mut connections = JoinSet::new();
    let mut count = 0;
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).unwrap();
        let (tls, books) = (tls.clone(), books.clone());
        connections.spawn(async move {
            let Some(tls) = tls else { return serve(socket, count, books).await };
            let Ok(socket) = tls.accept(socket).await else { return };
            if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
                h2::serve(socket, count, books).await;
            } else {
                serve(socket, count, books).await;
            }
        });
        count += 1;
    }
}

async fn serve(mut socket: impl AsyncRead + AsyncWrite + Unpin, connection: usize, books: Books) {
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut socket, &mut buffer, connection).await {
        let answer = books.answer(seen);
        match write(&mut socket, answer).await {
            Wrote::Whole => {}
            Wrote::Left => {
                books.left();
                return;
            }
            Wrote::Cut => return,
        }
    }
}

async fn read(
    socket: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<Seen> {
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

async fn write<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S, answer: Answer) -> Wrote {
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
        Answer::Hangup | Answer::Refused | Answer::NotTaken | Answer::Hints => Wrote::Cut,
        Answer::Last(answer) => match Box::pin(write(socket, *answer)).await {
            Wrote::Whole => Wrote::Cut,
            other => other,
        },
        Answer::Flood { start, again } => {
            let many = again.repeat(FLOOD_LEN.div_ceil(again.len()));
            if socket.write_all(&start).await.is_ok() {
                while socket.write_all(&many).await.is_ok() {}
            }
            Wrote::Left
        }
        Answer::Silence => {
            let mut byte = [0];
            let _ = socket.read(&mut byte).await;
            Wrote::Left
        }
    }
}

async fn chunks(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
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
