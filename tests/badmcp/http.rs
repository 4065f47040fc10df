//! Streamable HTTP on 127.0.0.1: the listener, what holds for every request, GET and DELETE.
//! Owns connections and sessions, must never know what a method means. Called by `main`; POST is in `post`.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::conn::{Conn, Head, Response};
use crate::life;
use crate::methods::MODERN;
use crate::server::{Filter, Server, Session, lock};
use crate::sse::{self, SseStream};
use crate::values::{EraFlag, Redirect};

/// How long a request that is never answered is held when its client stays.
const SILENCE_MAX: Duration = Duration::from_secs(3600);

pub(crate) const SESSION: &str = "mcp-session-id";
pub(crate) const VERSION: &str = "mcp-protocol-version";

/// A session of the old transport and the stream on which it hears all.
type OldStream = (Arc<Session>, Arc<SseStream>);

/// What all connections share.
pub(crate) struct Http {
    pub(crate) server: Arc<Server>,
    pub(crate) port: u16,
    /// The modern era has no sessions; this is the state of all its requests.
    pub(crate) modern: Arc<Session>,
    /// Streams of the old transport by session.
    pub(crate) streams: Mutex<HashMap<String, OldStream>>,
}

/// Listens until the process ends. Returns never.
pub(crate) fn serve(server: &Arc<Server>) -> ! {
    let wanted = server.flags.http.value().copied().unwrap_or(0);
    let listener = match TcpListener::bind(("127.0.0.1", wanted)) {
        Ok(listener) => listener,
        Err(e) => {
            life::complain(&format!("badmcp: cannot listen on 127.0.0.1:{wanted}: {e}"));
            server.exit(71, "cannot listen");
        }
    };
    let port = listener.local_addr().map_or(0, |a| a.port());
    server.trace.event("listening", json!({"port": port}));
    if let Some(file) = &server.flags.port_file
        && let Err(e) = write_port(file, port)
    {
        life::complain(&format!("badmcp: {}: {e}", file.display()));
        server.exit(73, "the port file cannot be written");
    }
    life::complain(&format!("listening on 127.0.0.1:{port}"));
    let http = Arc::new(Http {
        server: Arc::clone(server),
        port,
        modern: Session::new(""),
        streams: Mutex::default(),
    });
    loop {
        if let Ok((stream, _)) = listener.accept() {
            let http = Arc::clone(&http);
            std::thread::spawn(move || {
                // A client that breaks off is no reason to complain.
                let _ = Conn::new(Arc::clone(&http.server), stream).and_then(|conn| http.converse(conn));
            });
        }
    }
}

/// Whole at once, so that a waiting test never reads half a number.
fn write_port(file: &Path, port: u16) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, port.to_string())?;
    std::fs::rename(part, file)
}

impl Http {
    fn converse(self: &Arc<Self>, mut conn: Conn) -> io::Result<()> {
        while let Some((head, body)) = conn.read()? {
            self.server.trace.event(
                "http",
                json!({"method": head.method, "path": head.path, "headers": header_map(&head)}),
            );
            let close = head.get("connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
            if !self.route(&mut conn, &head, &body)? || close {
                break;
            }
        }
        Ok(())
    }

    /// Answers one request; false when the connection ends with it.
    fn route(self: &Arc<Self>, conn: &mut Conn, head: &Head, body: &[u8]) -> io::Result<bool> {
        if self.server.flags.accept_no_reply {
            sse::wait_closed(&conn.stream, SILENCE_MAX);
            return Ok(false);
        }
        if let Some(response) = self.gatekeeper(head, body) {
            return conn.respond(response, false);
        }
        match head.method.as_str() {
            "POST" if self.server.flags.old_sse => self.old_post(conn, head, body),
            "POST" => self.post(conn, head, body),
            "GET" if self.server.flags.old_sse => self.old_get(conn),
            "GET" => self.get(conn, head),
            "DELETE" => {
                let response = self.delete(head);
                conn.respond(response, false)
            }
            _ => conn.respond(Response::empty(405).with("allow", "GET, POST, DELETE"), false),
        }
    }

    /// What is refused whatever the message is.
    fn gatekeeper(&self, head: &Head, body: &[u8]) -> Option<Response> {
        let flags = &self.server.flags;
        let path = head.path.split('?').next().unwrap_or_default();
        let mut known = vec!["/", "/mcp", "/mcp/", "/sse", "/messages"];
        if let Some(redirect) = &flags.redirect {
            if let Redirect::To { target, .. } = redirect {
                known.push(target);
            }
            if head.method == "POST"
                && let Some(response) = redirected(redirect, &head.path)
            {
                return Some(response);
            }
        }
        if !known.contains(&path) {
            return Some(Response::empty(404));
        }
        if flags.auth.is_some() {
            let token = format!("Bearer {}", lock(&self.server.token));
            if head.get("authorization") != Some(&token) {
                return Some(self.unauthorized(head));
            }
        }
        if let Some(response) = self.forced_status(body) {
            return Some(response);
        }
        let wanted: &[&str] = match head.method.as_str() {
            "POST" => &["application/json", "text/event-stream"],
            "GET" => &["text/event-stream"],
            _ => return None,
        };
        let mut accepted = head.accepted();
        accepted.sort();
        let fits = if flags.strict_accept {
            accepted == wanted
        } else {
            head.method != "GET" || accepted.iter().any(|kind| kind == "text/event-stream" || kind == "*/*")
        };
        (!fits).then(|| {
            self.refuse(head, 406, &Value::Null, -32000, "Not Acceptable: Accept must name what MCP asks for")
        })
    }

    fn unauthorized(&self, head: &Head) -> Response {
        let own = format!("http://127.0.0.1:{}/.well-known/oauth-protected-resource", self.port);
        let metadata = self.server.flags.evil_urls.as_deref().unwrap_or(&own);
        self.refuse(head, 401, &Value::Null, -32001, "Unauthorized")
            .with("www-authenticate", &format!("Bearer realm=\"badmcp\", resource_metadata=\"{metadata}\""))
    }

    /// The status that `--http-fail` asks for.
    fn forced_status(&self, body: &[u8]) -> Option<Response> {
        let slot = &self.server.flags.http_fail;
        if slot.is_none() {
            return None;
        }
        let method =
            serde_json::from_slice::<Value>(body).ok().and_then(|m| m["method"].as_str().map(str::to_owned));
        let here = method.as_deref().and_then(crate::methods::place_of);
        let fail = slot.as_ref().and_then(|fail| fail.anywhere(here))?;
        if self.server.failed.fetch_add(1, Ordering::SeqCst) >= fail.times {
            return None;
        }
        self.server.trace.event("refused", json!({"method": method, "status": fail.status}));
        let response = Response::empty(fail.status);
        Some(match fail.retry_after_s {
            Some(seconds) => response.with("retry-after", &seconds.to_string()),
            None => response,
        })
    }

    /// An error as HTTP status with a JSON-RPC body.
    pub(crate) fn refuse(&self, head: &Head, status: u16, id: &Value, code: i64, message: &str) -> Response {
        let mut message = message.to_owned();
        if self.server.flags.echo_auth_in_error {
            let lines: Vec<String> = head.headers.iter().map(|(k, v)| format!("{k}: {v}")).collect();
            message = format!("{message}; request headers: {}", lines.join("; "));
        }
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        Response::json(&self.server, status, body.to_string())
    }

    /// The session of a legacy request, or the refusal that is due. `id` is the request's.
    pub(crate) fn session(&self, head: &Head, id: &Value) -> Result<Arc<Session>, Response> {
        let given = head.all(SESSION);
        let Some(first) = given.first() else {
            return Err(self.refuse(head, 400, id, -32000, "Bad Request: Mcp-Session-Id header is required"));
        };
        let session = lock(&self.server.sessions).get(*first).filter(|_| given.len() == 1).cloned();
        let Some(session) = session.filter(|_| self.server.flags.session_expire != Some(0)) else {
            return Err(self.session_lost(head, id));
        };
        self.version(head, id, &session)?;
        Ok(session)
    }

    fn version(&self, head: &Head, id: &Value, session: &Session) -> Result<(), Response> {
        let negotiated = lock(&session.version).clone();
        let refuse = |text: String| Err(self.refuse(head, 400, id, -32000, &text));
        match head.get(VERSION) {
            None if self.server.flags.strict_version_header => {
                refuse("Bad Request: MCP-Protocol-Version is required".into())
            }
            Some(given) if self.server.flags.strict_version_header && given != negotiated => {
                refuse(format!("Bad Request: MCP-Protocol-Version is {given}, negotiated was {negotiated}"))
            }
            _ => Ok(()),
        }
    }

    /// The session is unknown or over, in the spelling that the flags ask for.
    pub(crate) fn session_lost(&self, head: &Head, id: &Value) -> Response {
        let flags = &self.server.flags;
        self.server.trace.event("session", json!({"what": "refused", "id": head.get(SESSION)}));
        match (flags.session_expire_200, flags.session_400) {
            (true, _) => self.refuse(head, 200, id, -32001, "Session not found"),
            (_, true) => self.refuse(head, 400, id, -32000, "Bad Request: Session terminated"),
            _ => self.refuse(head, 404, id, -32001, "Session not found"),
        }
    }

    fn legacy(&self) -> bool {
        self.server.flags.era != Some(EraFlag::Modern)
    }

    fn get(&self, conn: &mut Conn, head: &Head) -> io::Result<bool> {
        let flags = &self.server.flags;
        let modern = !self.legacy() || head.get(VERSION) == Some(MODERN);
        if flags.no_get || flags.stateless || modern {
            return conn.respond(Response::empty(405).with("allow", "POST"), false);
        }
        let session = match self.session(head, &Value::Null) {
            Ok(session) => session,
            Err(response) => return conn.respond(response, false),
        };
        let stream = SseStream::new(&self.server, &conn.stream, Vec::new(), &session.id)?;
        stream.start()?;
        stream.comment_steadily();
        let key = self.server.hub.join(stream.clone(), Filter::default());
        stream.stay(|| session.ended.load(Ordering::SeqCst));
        self.server.hub.leave(key);
        self.server.trace.event("stream-end", json!({"session": session.id}));
        Ok(false)
    }

    fn delete(&self, head: &Head) -> Response {
        let flags = &self.server.flags;
        if flags.no_delete || flags.stateless || !self.legacy() {
            return Response::empty(405).with("allow", "POST");
        }
        match self.session(head, &Value::Null) {
            Err(response) => response,
            Ok(session) => {
                self.end(&session, "deleted");
                Response::empty(200)
            }
        }
    }

    pub(crate) fn end(&self, session: &Session, what: &str) {
        session.ended.store(true, Ordering::SeqCst);
        lock(&self.server.sessions).remove(&session.id);
        self.server.trace.event("session", json!({"what": what, "id": session.id}));
    }
}

fn header_map(head: &Head) -> Value {
    let mut map = json!({});
    for (name, value) in &head.headers {
        map[name] = match map[name].as_str() {
            Some(before) => json!(format!("{before}, {value}")),
            None => json!(value),
        };
    }
    map
}

fn redirected(redirect: &Redirect, path: &str) -> Option<Response> {
    match redirect {
        Redirect::Loop => {
            let hop: u64 = path.split_once("hop=").and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
            Some(Response::empty(307).with("location", &format!("/mcp?hop={}", hop + 1)))
        }
        Redirect::To { target, .. } if path == target => None,
        Redirect::To { code, target } => Some(Response::empty(*code).with("location", target)),
    }
}
