//! POST: a message comes in, and its answer leaves as JSON, as a stream, or as a status.
//! Owns what eras and sessions mean for a POST, must never answer a method itself. Called by `http`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::conn::{Conn, Head, Response};
use crate::http::{Http, SESSION, VERSION};
use crate::methods::{self, Ctx, LEGACY, MODERN, Reply};
use crate::rpc::{self, Incoming, Request};
use crate::server::{Cancel, Era, Filter, Session, lock};
use crate::sse::{self, SseStream};
use crate::values::{EraFlag, HttpAnswer};
use crate::wire;

/// How long a request that is never answered is held when its client stays.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

impl Http {
    pub(crate) fn post(self: &Arc<Self>, conn: &mut Conn, head: &Head, body: &[u8]) -> io::Result<bool> {
        self.server.trace.message("in", body, head.get(SESSION).unwrap_or_default());
        let incoming = rpc::read(body);
        if let Incoming::Bad(id, error) = &incoming {
            let response = self.refuse(head, 400, &parsed(id.as_deref()), error.code, &error.message);
            return conn.respond(response, false);
        }
        let checked = match self.era(head, &incoming) {
            Era::Legacy => self.legacy_session(head, &incoming).map(|session| (Era::Legacy, session)),
            Era::Modern => {
                self.modern_headers(head, &incoming).map(|()| (Era::Modern, Arc::clone(&self.modern)))
            }
        };
        let (era, session) = match checked {
            Ok(checked) => checked,
            Err(response) => return conn.respond(response, false),
        };
        match incoming {
            Incoming::Request(request) if request.id.is_some() => {
                self.run(conn, head, era, session, &request)
            }
            Incoming::Request(request) => {
                let outlet = SseStream::new(&self.server, &conn.stream, Vec::new(), &session.id)?;
                methods::notice(&self.ctx(era, session, outlet), &request);
                conn.respond(Response::empty(202), false)
            }
            Incoming::Answer { id, code } => {
                self.server.replied(&session, &id, code);
                conn.respond(Response::empty(202), false)
            }
            Incoming::Bad(..) => Ok(false),
        }
    }

    fn era(&self, head: &Head, incoming: &Incoming) -> Era {
        match self.server.flags.era {
            Some(EraFlag::Modern) => Era::Modern,
            Some(EraFlag::Both) => {
                let body = match incoming {
                    Incoming::Request(request) => {
                        request.method == "server/discover"
                            || request.value()["_meta"][VERSION_KEY].is_string()
                    }
                    _ => false,
                };
                let legacy = matches!(incoming, Incoming::Request(r) if r.method == "initialize");
                if !legacy && (body || head.get(VERSION).is_some_and(|v| v >= MODERN)) {
                    Era::Modern
                } else {
                    Era::Legacy
                }
            }
            Some(EraFlag::Legacy) | None => Era::Legacy,
        }
    }

    /// The session of a legacy message: a fresh one for initialize.
    fn legacy_session(&self, head: &Head, incoming: &Incoming) -> Result<Arc<Session>, Response> {
        let (method, id) = match incoming {
            Incoming::Request(request) => (request.method.as_str(), parsed(request.id.as_deref())),
            _ => ("", Value::Null),
        };
        let flags = &self.server.flags;
        let known = methods::supported(&self.server);
        if let Some(given) = head.get(VERSION)
            && method != "initialize"
            && !known.contains(&given)
            && flags.init_version.as_deref() != Some(given)
        {
            let text = format!(
                "Bad Request: Unsupported protocol version: {given} (supported versions: {})",
                known.join(", ")
            );
            return Err(self.refuse(head, 400, &Value::Null, -32000, &text));
        }
        if method == "initialize" {
            return Ok(Session::new(&self.server.fresh(&format!("session-{}", std::process::id()))));
        }
        if flags.stateless {
            let session = Session::new("");
            *lock(&session.version) = head.get(VERSION).unwrap_or(LEGACY[1]).to_owned();
            session.opened.store(true, Ordering::SeqCst);
            session.initialized.store(true, Ordering::SeqCst);
            return Ok(session);
        }
        let session = self.session(head, &id)?;
        let lasts = flags.session_expire.or((flags.session_expire_200 || flags.session_400).then_some(1));
        let work = matches!(method, "tools/call" | "resources/read" | "prompts/get");
        if let Some(limit) = lasts.filter(|_| work)
            && session.work.fetch_add(1, Ordering::SeqCst) >= limit
        {
            self.end(&session, "expired");
            return Err(self.session_lost(head, &id));
        }
        Ok(session)
    }

    /// The headers of a modern message must say what its body says.
    fn modern_headers(&self, head: &Head, incoming: &Incoming) -> Result<(), Response> {
        let Incoming::Request(request) = incoming else { return Ok(()) };
        if request.method == "initialize" {
            return Ok(());
        }
        let id = parsed(request.id.as_deref());
        let mismatch = |text: String| Err(self.refuse(head, 400, &id, rpc::HEADER_MISMATCH, &text));
        let params = request.value();
        let body_version = params["_meta"][VERSION_KEY].as_str();
        let notice = request.id.is_none();
        match (one(head, VERSION), body_version) {
            (Err(text), _) => return mismatch(text),
            (Ok(None), _) => return mismatch("the MCP-Protocol-Version header is missing".into()),
            (Ok(Some(given)), Some(said)) if given != said => {
                return mismatch(format!("MCP-Protocol-Version is {given}, _meta says {said}"));
            }
            // A wrong or absent version in _meta is told by the method itself.
            (Ok(Some(_)), _) => {}
        }
        match one(head, "mcp-method") {
            Ok(Some(given)) if given == request.method => {}
            Ok(Some(given)) => {
                return mismatch(format!("Mcp-Method is {given}, the body says {}", request.method));
            }
            Ok(None) => return mismatch("the Mcp-Method header is missing".into()),
            Err(text) => return mismatch(text),
        }
        let name = match request.method.as_str() {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            _ => None,
        };
        if let Some(name) = name.filter(|_| !notice)
            && let Err(text) = same(head, "mcp-name", name)
        {
            return mismatch(text);
        }
        if params["name"] == "located" && self.server.flags.param_headers {
            let region = params["arguments"]["region"].as_str();
            let fits = match region {
                Some(region) => same(head, "mcp-param-region", region),
                None if head.get("mcp-param-region").is_some() => Err("unexpected Mcp-Param-Region".into()),
                None => Ok(()),
            };
            if let Err(text) = fits {
                return mismatch(text);
            }
        }
        Ok(())
    }

    fn ctx(&self, era: Era, session: Arc<Session>, outlet: Arc<SseStream>) -> Ctx {
        Ctx {
            server: Arc::clone(&self.server),
            session,
            outlet,
            era,
            http: true,
            cancel: Arc::new(Cancel::default()),
        }
    }

    fn run(
        &self,
        conn: &mut Conn,
        head: &Head,
        era: Era,
        session: Arc<Session>,
        request: &Request,
    ) -> io::Result<bool> {
        let server = &self.server;
        let flags = &server.flags;
        let mut headers = Vec::new();
        if request.method == "initialize" && era == Era::Legacy && !flags.stateless {
            lock(&server.sessions).insert(session.id.clone(), Arc::clone(&session));
            server.trace.event("session", json!({"what": "new", "id": session.id}));
            for _ in 0..if flags.session_id_dup_header { 2 } else { 1 } {
                headers.push(("Mcp-Session-Id".to_owned(), session.id.clone()));
            }
        }
        let stream = SseStream::new(server, &conn.stream, headers.clone(), &session.id)?;
        let streams = head.accepted().iter().any(|kind| kind == "text/event-stream" || kind == "*/*");
        let dialect = flags.sse_crlf
            || flags.sse_cr
            || flags.sse_multiline
            || flags.sse_no_event_name
            || flags.sse_prime
            || flags.sse_comments.on();
        let as_stream = streams
            && match flags.http_answer {
                Some(HttpAnswer::Sse) => true,
                Some(HttpAnswer::Json) => false,
                Some(HttpAnswer::Auto) | None => dialect,
            };
        if as_stream {
            stream.start()?;
            stream.comment_steadily();
        }
        let ctx = self.ctx(era, Arc::clone(&session), Arc::clone(&stream));
        // Held until the answer has left.
        let turn = flags.serial.then(|| lock(&server.serial));
        let reply = methods::answer(&ctx, request);
        if !session.opened.load(Ordering::SeqCst) {
            // A refused initialize leaves no session.
            lock(&server.sessions).remove(&session.id);
            headers.clear();
        }
        let (text, code) = match reply {
            Reply::Silent => {
                drop(turn);
                return self.silent(conn, &ctx, &stream);
            }
            Reply::Listen { ack, filter } => {
                drop(turn);
                return self.listen(&stream, &ack, filter);
            }
            Reply::Text { text, code } => (text, code),
            Reply::Raw(bytes) => (String::from_utf8_lossy(&bytes).into_owned(), None),
        };
        let text = if flags.batch { format!("[{text}]") } else { text };
        let half = flags.drop_mid_answer && request.method == "tools/call";
        let keep = if as_stream || stream.started() {
            if half {
                stream.half(&text)?;
                return Ok(false);
            }
            for _ in 0..if flags.answer_twice { 2 } else { 1 } {
                stream.named("message", &text)?;
            }
            stream.finish()?;
            !flags.no_keep_alive
        } else {
            server.trace.message("out", text.as_bytes(), &session.id);
            let mut response = Response::json(server, status(era, request, code, &text), text);
            response.headers.extend(headers);
            conn.respond(response, half)?
        };
        methods::after(server, &request.method, code);
        Ok(keep)
    }

    /// No answer: a cancelled request's stream ends, any other waits for its client to leave.
    fn silent(&self, conn: &mut Conn, ctx: &Ctx, stream: &SseStream) -> io::Result<bool> {
        if ctx.cancel.is_set() {
            stream.finish()?;
            return Ok(true);
        }
        sse::wait_closed(&conn.stream, SILENCE_MAX);
        Ok(false)
    }

    fn listen(&self, stream: &Arc<SseStream>, ack: &str, filter: Filter) -> io::Result<bool> {
        let id = filter.subscription.clone();
        stream.named("message", ack)?;
        stream.comment_steadily();
        let key = self.server.hub.join(stream.clone(), filter);
        stream.stay(|| false);
        self.server.hub.leave(key);
        self.server.trace.event("stream-end", json!({"subscription": id}));
        Ok(false)
    }

    /// The transport of 2024-11-05: one stream, on which all answers come.
    pub(crate) fn old_get(&self, conn: &mut Conn) -> io::Result<bool> {
        let session = Session::new(&self.server.fresh("old"));
        let stream = SseStream::new(&self.server, &conn.stream, Vec::new(), &session.id)?;
        lock(&self.streams).insert(session.id.clone(), (Arc::clone(&session), Arc::clone(&stream)));
        stream.named("endpoint", &format!("/messages?sessionId={}", session.id))?;
        stream.comment_steadily();
        let key = self.server.hub.join(stream.clone(), Filter::default());
        stream.stay(|| false);
        self.server.hub.leave(key);
        lock(&self.streams).remove(&session.id);
        Ok(false)
    }

    pub(crate) fn old_post(self: &Arc<Self>, conn: &mut Conn, head: &Head, body: &[u8]) -> io::Result<bool> {
        let Some((_, id)) = head.path.split_once("sessionId=").filter(|_| head.path.starts_with("/messages"))
        else {
            return conn.respond(Response::empty(405).with("allow", "GET"), false);
        };
        let known = lock(&self.streams).get(id).cloned();
        let Some((session, stream)) = known else { return conn.respond(Response::empty(404), false) };
        self.server.trace.message("in", body, id);
        let ctx = self.ctx(Era::Legacy, Arc::clone(&session), stream);
        match rpc::read(body) {
            Incoming::Request(request) if request.id.is_some() => {
                std::thread::spawn(move || {
                    if let Reply::Text { text, code } = methods::answer(&ctx, &request) {
                        ctx.outlet.send(&text);
                        methods::after(&ctx.server, &request.method, code);
                    }
                });
            }
            Incoming::Request(request) => methods::notice(&ctx, &request),
            Incoming::Answer { id, code } => {
                self.server.replied(&session, &id, code);
            }
            Incoming::Bad(id, error) => {
                let bad = rpc::answer(id.as_deref().unwrap_or("null"), &Err(error), None);
                ctx.outlet.send(&bad);
            }
        }
        conn.respond(Response::empty(202), false)
    }
}

fn parsed(id: Option<&str>) -> Value {
    id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null)
}

/// The only value of a header; an error when there are several.
fn one<'a>(head: &'a Head, name: &str) -> Result<Option<&'a str>, String> {
    match head.all(name).as_slice() {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(format!("the header {name} comes more than once")),
    }
}

/// Whether a header says this, plainly or as `=?base64?…?=`.
fn same(head: &Head, name: &str, expected: &str) -> Result<(), String> {
    let Some(given) = one(head, name)? else { return Err(format!("the header {name} is missing")) };
    let decoded = match given.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => wire::from_base64(inner).and_then(|bytes| String::from_utf8(bytes).ok()),
        None => Some(given.to_owned()),
    };
    if decoded.as_deref() == Some(expected) {
        Ok(())
    } else {
        Err(format!("{name} is {given:?}, the body says {expected:?}"))
    }
}

/// The status of an answer. Legacy errors travel with 200; refused versions and modern errors have their own.
fn status(era: Era, request: &Request, code: Option<i64>, text: &str) -> u16 {
    let refused = request.method == "initialize" && text.contains("Unsupported protocol version");
    match (era, code) {
        (Era::Legacy, Some(_)) if refused => 400,
        (Era::Legacy, _) | (_, None) => 200,
        (Era::Modern, Some(rpc::HEADER_MISMATCH | rpc::UNSUPPORTED_VERSION)) => 400,
        (Era::Modern, Some(rpc::INVALID_PARAMS)) if text.contains("request _meta is missing") => 400,
        (Era::Modern, Some(rpc::METHOD_NOT_FOUND)) => 404,
        (Era::Modern, Some(_)) => 200,
    }
}
