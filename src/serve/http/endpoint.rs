//! The endpoint `/mcp`: sessions of the legacy era and requests of the modern one. Each request has
//! passed the doors and has an identity.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Body;

use super::doors;
use super::exchange::{self, Exchange, Leaves, Side};
use super::front::Front;
use super::inbody;
use super::log::EventId;
use super::mirror::{self, Clash, VERSION_HEADER};
use super::posted::{self, INVALID_REQUEST, Message, Posted};
use super::reply::{self, Reply};
use super::sessions::{NoRoom, Session};
use super::until::{Phase, Until};
use super::who::Pass;
use crate::serve::{ClientEra, Leave, Sink};
use crate::time::Monotonic;
use crate::wire::era::{Era, Revision};

/// The header that names a session.
const SESSION_HEADER: &str = "mcp-session-id";
/// JSON-RPC code of refusals that are about HTTP.
const REFUSED: i64 = -32000;
/// What a client without a session is told.
const NO_SESSION: &str = "Mcp-Session-Id is missing: begin with initialize by POST. The HTTP+SSE transport of \
    2024-11-05 is not served; such a client can use stdio: callboard --mcp-serve";
/// What a client is told whose session is not there.
const UNKNOWN_SESSION: &str = "there is no such session (any more); begin with initialize";

/// Answers one request to the endpoint.
pub async fn answer<B>(front: &Arc<Front>, pass: Pass, request: Request<B>) -> Reply
where
    B: Body<Data = Bytes>,
{
    match *request.method() {
        Method::POST => post(front, pass, request).await.unwrap_or_else(|refusal| refusal),
        Method::GET => get(front, &pass, request.headers()).unwrap_or_else(|refusal| refusal),
        Method::DELETE => delete(front, &pass, request.headers()).unwrap_or_else(|refusal| refusal),
        _ => not_allowed("GET, POST, DELETE"),
    }
}

fn not_allowed(allowed: &'static str) -> Reply {
    let text = format!("this method is not served here; use {allowed}");
    let mut reply = reply::refusal(StatusCode::METHOD_NOT_ALLOWED, b"null", REFUSED, &text);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn bad(id: &[u8], text: &str) -> Reply {
    reply::refusal(StatusCode::BAD_REQUEST, id, INVALID_REQUEST, text)
}

/// The session that the headers name.
fn session(front: &Front, pass: &Pass, headers: &HeaderMap, id: &[u8]) -> Result<Arc<Session>, Reply> {
    let named = doors::one(headers, SESSION_HEADER)
        .map_err(|_| bad(id, "Mcp-Session-Id is there more than once, or is no text"))?
        .ok_or_else(|| reply::refusal(StatusCode::BAD_REQUEST, id, REFUSED, NO_SESSION))?;
    let found = front.sessions.get(named, &pass.caller.identity);
    let session = found.ok_or_else(|| reply::refusal(StatusCode::NOT_FOUND, id, REFUSED, UNKNOWN_SESSION))?;
    match doors::one(headers, VERSION_HEADER) {
        Ok(None) => Ok(session),
        Ok(Some(text)) if Revision::parse(text).is_some_and(|revision| revision.era() == Era::Legacy) => {
            Ok(session)
        }
        _ => {
            let spoken = session.client.revision().unwrap_or(Revision::LATEST_LEGACY);
            Err(bad(
                id,
                &format!("MCP-Protocol-Version names no revision of this session; it speaks {spoken}"),
            ))
        }
    }
}

fn delete(front: &Front, pass: &Pass, headers: &HeaderMap) -> Result<Reply, Reply> {
    let session = session(front, pass, headers, b"null")?;
    front.sessions.end(&session.id, Leave::Gone);
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

fn get(front: &Front, pass: &Pass, headers: &HeaderMap) -> Result<Reply, Reply> {
    let modern = doors::one(headers, VERSION_HEADER).ok().flatten().and_then(Revision::parse);
    if modern.is_some_and(|revision| revision.era() == Era::Modern) {
        return Err(not_allowed("POST"));
    }
    if !doors::accepts(headers).events {
        let text = "a GET here is for events: send Accept: text/event-stream";
        return Err(reply::refusal(StatusCode::NOT_ACCEPTABLE, b"null", REFUSED, text));
    }
    let session = session(front, pass, headers, b"null")?;
    let last = doors::one(headers, "last-event-id")
        .map_err(|_| bad(b"null", "Last-Event-ID is there more than once, or is no text"))?;
    let reader = match last.filter(|id| !id.is_empty()) {
        Some(id) => EventId::parse(id).and_then(|id| session.resume(id)).ok_or_else(|| {
            let text = "what follows this Last-Event-ID is not kept any more; open the stream without it";
            bad(b"null", text)
        })?,
        None => session.listen().ok_or_else(|| {
            let text = "this session has too many open streams; close some";
            reply::refusal(StatusCode::CONFLICT, b"null", REFUSED, text)
        })?,
    };
    let primes = session.client.revision().is_some_and(|revision| revision >= Revision::R2025_11_25);
    Ok(reply::events(exchange::from_log(reader, primes)))
}

async fn post<B>(front: &Arc<Front>, pass: Pass, request: Request<B>) -> Result<Reply, Reply>
where
    B: Body<Data = Bytes>,
{
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    if !doors::is_json(headers) {
        let text = "send Content-Type: application/json, in UTF-8 and without Content-Encoding";
        return Err(reply::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, b"null", REFUSED, text));
    }
    let accepts = doors::accepts(headers);
    if !accepts.json && !accepts.events {
        let text = "send Accept: application/json, text/event-stream";
        return Err(reply::refusal(StatusCode::NOT_ACCEPTABLE, b"null", REFUSED, text));
    }
    front.take(&pass)?;
    if let Some(refusal) = inbody::too_long(headers, front.limits.body_max) {
        return Err(refusal);
    }
    let body = inbody::read(body, front.limits.body_max, &front.bodies).await?;
    let came = Came { front, pass, headers, accepts };
    match posted::read(body)? {
        Posted::One(message) => came.one(message).await,
        Posted::Batch(messages) => came.batch(messages).await,
    }
}

/// One POST, read.
struct Came<'a> {
    front: &'a Arc<Front>,
    pass: Pass,
    headers: &'a HeaderMap,
    accepts: doors::Accepts,
}

impl Came<'_> {
    async fn one(self, message: Message) -> Result<Reply, Reply> {
        let session_named = self.headers.contains_key(SESSION_HEADER);
        let era = mirror::era(self.headers, message.method(), message.params(), session_named)
            .map_err(|clash| reply::clash(message.id(), &clash))?;
        match era {
            Era::Modern => self.modern(message).await,
            Era::Legacy if message.method() == "initialize" && message.is_request() => {
                self.initialize(message).await
            }
            Era::Legacy => {
                let session = session(self.front, &self.pass, self.headers, message.id())?;
                self.legacy(session, vec![message], false).await
            }
        }
    }

    async fn batch(self, messages: Vec<Message>) -> Result<Reply, Reply> {
        let session = session(self.front, &self.pass, self.headers, b"null")?;
        if !session.client.revision().is_none_or(Revision::has_batches) {
            return Err(bad(
                b"null",
                "the revision of this session has no batches; send messages one by one",
            ));
        }
        if messages.iter().any(|message| message.method() == "initialize") {
            return Err(bad(b"null", "initialize can't be part of a batch"));
        }
        self.legacy(session, messages, true).await
    }

    /// The messages of a session.
    async fn legacy(
        self,
        session: Arc<Session>,
        messages: Vec<Message>,
        batch: bool,
    ) -> Result<Reply, Reply> {
        let expected = messages.iter().filter(|message| message.is_request()).count();
        let Some(run) = session.run() else {
            let text = "this session has too many running requests; wait for some";
            let wait = std::time::Duration::from_secs(1);
            return Err(reply::later(StatusCode::SERVICE_UNAVAILABLE, text, wait));
        };
        let (sink, outlet) = Sink::pair();
        for message in messages {
            session.client.accept(message.frame, &sink);
        }
        if expected == 0 {
            return Ok(reply::empty(StatusCode::ACCEPTED));
        }
        let side = Side::Legacy(session, run);
        Ok(Exchange { outlet, sink, expected, batch, accepts: self.accepts, side }.reply().await)
    }

    /// The handshake: a session, if the core says yes.
    async fn initialize(self, message: Message) -> Result<Reply, Reply> {
        if self.headers.contains_key(SESSION_HEADER) {
            return Err(bad(message.id(), "initialize begins a session and can't be part of one"));
        }
        let front = self.front;
        let caller = self.pass.caller.clone();
        let open = || front.core.open(caller, ClientEra::Legacy);
        let session = front.sessions.open(&self.pass, open, Monotonic::now()).map_err(|no| match no {
            NoRoom::Full(wait) => {
                let text = "all sessions are in use (serve.sessions_max); close some, or try again";
                reply::later(StatusCode::SERVICE_UNAVAILABLE, text, wait)
            }
            NoRoom::NoChance => reply::refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                message.id(),
                -32603,
                "the system gives no random bytes",
            ),
        })?;
        let unproven = Unproven { front, session: Some(session.clone()) };
        let (sink, mut outlet) = Sink::pair();
        session.client.accept(message.frame, &sink);
        drop(sink);
        let answer = loop {
            match outlet.next().await {
                Some(crate::serve::Outgoing::Answer(answer)) => break answer,
                Some(_) => {}
                None => return Err(bad(b"null", "the handshake was not answered")),
            }
        };
        if exchange::error_code(&answer).is_some() {
            return Ok(reply::json(StatusCode::OK, answer));
        }
        let id = HeaderValue::from_str(&session.id);
        unproven.keep();
        let mut reply = if self.accepts.json {
            reply::json(StatusCode::OK, answer)
        } else {
            reply::events(futures_util::stream::iter(reply::event(None, &answer)))
        };
        if let Ok(id) = id {
            reply.headers_mut().insert(SESSION_HEADER, id);
        }
        Ok(reply)
    }

    /// A request that stands for itself.
    async fn modern(self, message: Message) -> Result<Reply, Reply> {
        let refuse = |clash: Clash| reply::clash(message.id(), &clash);
        if message.is_response() {
            return Err(bad(b"null", "there are no requests of the server in this revision, so no answers"));
        }
        mirror::agree(self.headers, message.method(), message.params()).map_err(refuse)?;
        if message.is_request() {
            mirror::complete(message.params()).map_err(refuse)?;
        }
        let listens = message.method() == "subscriptions/listen";
        if listens && !self.accepts.events {
            let text = "a subscription is a stream of events: send Accept: text/event-stream";
            return Err(reply::refusal(StatusCode::NOT_ACCEPTABLE, message.id(), REFUSED, text));
        }
        let front = self.front;
        let client = front.core.open(self.pass.caller.clone(), ClientEra::Modern);
        client.set_revision(Revision::LATEST);
        let leaves = Leaves(client.clone());
        if message.method() == "tools/call"
            && let Some(tool) = mirror::called(message.params())
            && let Some(schema) = client.schema(&tool).await
        {
            mirror::agree_params(self.headers, &schema, message.params()).map_err(refuse)?;
        }
        let (sink, outlet) = Sink::pair();
        let expected = usize::from(message.is_request());
        client.accept(message.frame, &sink);
        if expected == 0 {
            return Ok(reply::empty(StatusCode::ACCEPTED));
        }
        let until = Until {
            gate: front.gate.clone(),
            pass: self.pass,
            tokens: front.gate.watch(),
            phase: front.phase.subscribe(),
            at: if listens { Phase::Draining } else { Phase::Over },
        };
        let side = Side::Modern(leaves, until);
        Ok(Exchange { outlet, sink, expected, batch: false, accepts: self.accepts, side }.reply().await)
    }
}

/// A session whose handshake has not been answered; ended unless it is kept.
struct Unproven<'a> {
    front: &'a Front,
    session: Option<Arc<Session>>,
}

impl Unproven<'_> {
    fn keep(mut self) {
        self.session = None;
    }
}

impl Drop for Unproven<'_> {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.front.sessions.end(&session.id, Leave::Gone);
        }
    }
}
