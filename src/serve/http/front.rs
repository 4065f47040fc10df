//! The front as a whole: what all connections share, the doors in their order, and the paths.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, StatusCode};
use http_body::Body;
use tokio::sync::{Semaphore, watch};

use super::core::Core;
use super::doors::Names;
use super::endpoint;
use super::inbody::BODIES_BYTES_MAX;
use super::pace::Pace;
use super::reply::{self, Reply};
use super::sessions::Sessions;
use super::until::Phase;
use super::who::{Gate, Pass, Stranger};
use crate::config::spec::Rate;
use crate::time::Monotonic;

/// The path of the endpoint.
pub const ENDPOINT: &str = "/mcp";

/// What clients over HTTP may take.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Largest message, bytes.
    pub body_max: usize,
    /// Legacy sessions at once.
    pub sessions_max: usize,
    /// Time after which an idle session is ended.
    pub session_idle: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Requests of one identity, unless its token has a limit of its own; `None`: no limit.
    pub rate: Option<Rate>,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_max: 16 << 20,
            sessions_max: 256,
            session_idle: Duration::from_secs(30 * 60),
            connections_max: 1024,
            rate: None,
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub struct Front {
    /// The host.
    pub core: Arc<dyn Core>,
    /// Names that lead here.
    pub names: Names,
    /// Who is let in.
    pub gate: Arc<Gate>,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Limits.
    pub limits: HttpLimits,
    /// Bytes that bodies may still take.
    pub bodies: Arc<Semaphore>,
    /// How far stopping has come.
    pub phase: watch::Sender<Phase>,
    running: watch::Sender<usize>,
    pace: Mutex<Pace>,
}

/// One end of a connection, and whose the other is.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The other end.
    pub at: SocketAddr,
    /// Its user, where the kernel says.
    pub uid: Option<u32>,
}

/// A request that runs, up to the last byte of its answer.
#[derive(Debug)]
struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Front {
    /// A front that takes requests.
    pub fn new(core: Arc<dyn Core>, names: Names, gate: Arc<Gate>, limits: HttpLimits) -> Arc<Self> {
        Arc::new(Self {
            core,
            names,
            gate,
            sessions: Sessions::new(limits.sessions_max, limits.session_idle),
            limits,
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX)),
            phase: watch::channel(Phase::Serving).0,
            running: watch::channel(0).0,
            pace: Mutex::default(),
        })
    }

    /// Answers one request. The doors come first, on every method and path, before the body is read.
    pub async fn answer<B>(self: &Arc<Self>, peer: Peer, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
    {
        if let Err(shut) = self.names.admit(request.headers(), request.uri()) {
            tracing::debug!(?shut, "a request was refused at the door");
            return closing(reply::refusal(StatusCode::FORBIDDEN, b"null", -32000, shut.text()));
        }
        let pass = match self.gate.admit(request.headers(), peer.uid, crate::time::wall()) {
            Ok(pass) => pass,
            Err(stranger) => return closing(unauthorized(stranger)),
        };
        if *self.phase.borrow() != Phase::Serving {
            let text = "this host is stopping";
            return closing(reply::later(StatusCode::SERVICE_UNAVAILABLE, text, Duration::from_secs(1)));
        }
        match request.uri().path() {
            ENDPOINT => {
                let streams = request.method() == Method::GET;
                let counted = (!streams).then(|| self.count());
                let reply = endpoint::answer(self, pass, request).await;
                reply::holding(reply, counted)
            }
            "/healthz" => probe(request.method(), || reply::text(StatusCode::OK, "ok")),
            "/readyz" => probe(request.method(), || self.ready()),
            "/sse" | "/messages" | "/message" => reply::text(
                StatusCode::NOT_FOUND,
                "the HTTP+SSE transport of 2024-11-05 is not served; use the Streamable HTTP endpoint /mcp, or stdio",
            ),
            _ => reply::text(StatusCode::NOT_FOUND, "nothing is here; the MCP endpoint is /mcp"),
        }
    }

    /// Takes one request of this identity's limit.
    ///
    /// # Errors
    /// The refusal, with when to come again.
    pub fn take(&self, pass: &Pass) -> Result<(), Reply> {
        let Some(rate) = pass.caller.rate.or(self.limits.rate) else { return Ok(()) };
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(&pass.caller.identity, rate, Monotonic::now()).map_err(|wait| {
            let text = format!("more than {} requests per second; try again later", rate.per_second);
            reply::later(StatusCode::TOO_MANY_REQUESTS, &text, wait)
        })
    }

    /// Waits until no request runs.
    pub async fn idle(&self) {
        let _ = self.running.subscribe().wait_for(|count| *count == 0).await;
    }

    fn count(&self) -> Counted {
        self.running.send_modify(|count| *count += 1);
        Counted(self.running.clone())
    }

    fn ready(&self) -> Reply {
        match self.core.waiting_for().as_slice() {
            [] => reply::text(StatusCode::OK, "ready"),
            names => reply::text(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("required servers that are not ready: {}", names.join(", ")),
            ),
        }
    }
}

fn probe(method: &Method, answer: impl FnOnce() -> Reply) -> Reply {
    if matches!(*method, Method::GET | Method::HEAD) {
        return answer();
    }
    let mut reply = reply::text(StatusCode::METHOD_NOT_ALLOWED, "use GET");
    reply.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    reply
}

/// What is refused before its body is read: the rest of the connection is not read either.
fn closing(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

fn unauthorized(stranger: Stranger) -> Reply {
    let (challenge, text) = match stranger {
        Stranger::Nameless => (
            r#"Bearer realm="callboard""#,
            "not known to be the same user: send Authorization: Bearer with the token in http-token of Callboard's home, or one of `callboard token add`",
        ),
        Stranger::BadToken => (
            r#"Bearer realm="callboard", error="invalid_token""#,
            "this token is unknown, removed or expired; `callboard token list` shows the names of those that count",
        ),
    };
    let mut reply = reply::refusal(StatusCode::UNAUTHORIZED, b"null", -32000, text);
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    reply
}
