//! What each method answers, in both eras.
//! Owns the protocol's meaning, must never touch bytes of a transport. Called by `stdio` and `http`.
//!
//! Legacy: `initialize` for 2024-11-05 to 2025-11-25. Modern: 2026-07-28, where each request carries its own `_meta`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::calls;
use crate::catalog;
use crate::results;
use crate::rpc::{self, Body, FILLER, Obj, Request, RpcError};
use crate::server::{Cancel, Era, Filter, Outlet, Server, Session, lock};
use crate::values::{Capability, EraFlag, Place, Strictness, at};
use crate::wire::paint;

pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
const RESOURCE_NOT_FOUND_LEGACY: i64 = -32002;
const ROOTS_LIMIT: Duration = Duration::from_secs(60);

/// One request's surroundings.
pub(crate) struct Ctx {
    pub(crate) server: Arc<Server>,
    pub(crate) session: Arc<Session>,
    pub(crate) outlet: Arc<dyn Outlet>,
    pub(crate) era: Era,
    pub(crate) http: bool,
    pub(crate) cancel: Arc<Cancel>,
}

/// What the transport shall do.
pub(crate) enum Reply {
    /// Nothing is ever sent.
    Silent,
    /// An answer; the code of its error, for the HTTP status.
    Text { text: String, code: Option<i64> },
    /// Bytes from a file.
    Raw(Vec<u8>),
    /// A subscription is open: say so first, then tell what it wants to hear.
    Listen { ack: String, filter: Filter },
}

/// Where behaviours of this method are placed.
pub(crate) fn place_of(method: &str) -> Option<Place> {
    match method {
        "initialize" | "server/discover" => Some(Place::Start),
        "tools/call" => Some(Place::Call),
        _ if method.ends_with("/list") => Some(Place::List),
        _ => None,
    }
}

/// The era of a request on a transport that tells nothing about it (stdio).
pub(crate) fn era_of(server: &Server, request: &Request) -> Era {
    match server.flags.era {
        Some(EraFlag::Modern) => Era::Modern,
        Some(EraFlag::Both) => {
            let modern =
                request.method == "server/discover" || request.value()["_meta"][VERSION_KEY].is_string();
            if modern { Era::Modern } else { Era::Legacy }
        }
        Some(EraFlag::Legacy) | None => Era::Legacy,
    }
}

/// A notification of the client.
pub(crate) fn notice(ctx: &Ctx, request: &Request) {
    match request.method.as_str() {
        "notifications/initialized" => {
            ctx.session.initialized.store(true, Ordering::SeqCst);
        }
        "notifications/cancelled" => {
            let id = request.value()["requestId"].clone();
            let running = lock(&ctx.session.running).get(&id.to_string()).cloned();
            ctx.server.trace.event("cancelled", json!({"id": id, "running": running.is_some()}));
            if let Some(cancel) = running {
                cancel.set();
            }
            ctx.server.hub.leave_subscription(&id);
        }
        _ => {}
    }
}

/// Answers a request.
pub(crate) fn answer(ctx: &Ctx, request: &Request) -> Reply {
    let server = &ctx.server;
    let flags = &server.flags;
    let Some(id) = &request.id else { return Reply::Silent };
    let place = place_of(&request.method);
    let handshake = place == Some(Place::Start);
    if flags.exit_on_unknown_first
        && !ctx.session.opened.load(Ordering::SeqCst)
        && !matches!(request.method.as_str(), "initialize" | "ping")
    {
        server.exit(1, "exit-on-unknown-first");
    }
    if (handshake && flags.never_initialize) || (flags.discover_silent && request.method == "server/discover")
    {
        return Reply::Silent;
    }
    lock(&ctx.session.running).insert(id.clone(), Arc::clone(&ctx.cancel));
    let outcome = outcome(ctx, request, id);
    lock(&ctx.session.running).remove(id);
    server.gate.pass();
    if let Some(file) = place.and_then(|place| at(&flags.raw_answer, place, Place::Call)) {
        return raw_answer(server, file, id);
    }
    let outcome = match outcome {
        Outcome::None => return Reply::Silent,
        Outcome::Listen(ack, filter) => return Reply::Listen { ack, filter },
        Outcome::Answer(outcome) => decorate(ctx, request, outcome),
    };
    let exact = place.and_then(|place| at(&flags.huge_line, place, Place::Call)).map(|size| size.0);
    let shown_id = rpc::answer_id(flags, id, handshake, || server.random());
    let code = outcome.as_ref().err().map(|e| e.code);
    let text = rpc::answer(&shown_id, &outcome, exact);
    Reply::Text { text, code }
}

fn raw_answer(server: &Server, file: &std::path::Path, id: &str) -> Reply {
    let bytes = std::fs::read(file).unwrap_or_else(|e| {
        crate::life::complain(&format!("badmcp: {}: {e}", file.display()));
        server.exit(66, "raw-answer cannot be read")
    });
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some(found) = rest.windows(3).position(|w| w == b"$ID") {
        out.extend_from_slice(&rest[..found]);
        out.extend_from_slice(id.as_bytes());
        rest = &rest[found + 3..];
    }
    out.extend_from_slice(rest);
    while out.last() == Some(&b'\n') {
        out.pop();
    }
    Reply::Raw(out)
}

enum Outcome {
    None,
    Answer(Result<Body, RpcError>),
    Listen(String, Filter),
}

impl From<Result<Obj, RpcError>> for Outcome {
    fn from(result: Result<Obj, RpcError>) -> Self {
        Self::Answer(result.map(Body::Obj))
    }
}

fn outcome(ctx: &Ctx, request: &Request, id: &str) -> Outcome {
    let server = &ctx.server;
    let flags = &server.flags;
    if let Err(e) = admit(ctx, request) {
        return Outcome::Answer(Err(e));
    }
    if place_of(&request.method) == Some(Place::List)
        && let Some(code) = at(&flags.rpc_error, Place::List, Place::Call)
    {
        return Outcome::Answer(Err(calls::forced_error(server, *code)));
    }
    let params = request.value();
    let legacy = ctx.era == Era::Legacy;
    match request.method.as_str() {
        "initialize" if legacy => initialize(ctx, &params).into(),
        "server/discover" if !legacy => discover(ctx).into(),
        "ping" if legacy && flags.ping_silent => Outcome::None,
        "ping" if legacy && !flags.ping_unsupported => Ok(Obj::default()).into(),
        "tools/call" => calls::call(ctx, request).map_or(Outcome::None, Outcome::Answer),
        "subscriptions/listen" if !legacy => listen(server, id, &params),
        "logging/setLevel" if legacy && !flags.lacks(Capability::Logging) => Ok(Obj::default()).into(),
        "resources/subscribe" | "resources/unsubscribe" if legacy && !flags.lacks(Capability::Subscribe) => {
            Ok(Obj::default()).into()
        }
        method => offered(ctx, method, &params)
            .unwrap_or_else(|| {
                Err(RpcError::new(
                    rpc::METHOD_NOT_FOUND,
                    paint(flags, &format!("method not found: {method}")),
                ))
            })
            .into(),
    }
}

/// Lists, reads and gets; none when the method is unknown.
fn offered(ctx: &Ctx, method: &str, params: &Value) -> Option<Result<Obj, RpcError>> {
    let flags = &ctx.server.flags;
    let cursor = params["cursor"].as_str();
    let group = method.split('/').next().unwrap_or_default();
    let lacking = match group {
        "tools" => flags.lacks(Capability::Tools),
        "resources" => flags.lacks(Capability::Resources),
        "prompts" => flags.lacks(Capability::Prompts),
        "completion" => flags.lacks(Capability::Completions),
        _ => true,
    };
    if lacking {
        return None;
    }
    let not_found = if ctx.era == Era::Legacy { RESOURCE_NOT_FOUND_LEGACY } else { rpc::INVALID_PARAMS };
    Some(match method {
        "tools/list" => {
            let hide = flags.require_initialized.on() && !ctx.session.initialized.load(Ordering::SeqCst);
            lock(&ctx.server.catalog).list_tools(flags, cursor, hide)
        }
        "resources/list" => catalog::page("resources", catalog::resources(flags), flags, cursor),
        "resources/templates/list" => catalog::page("resourceTemplates", catalog::templates(), flags, cursor),
        "prompts/list" => catalog::page("prompts", catalog::prompts(), flags, cursor),
        "resources/read" => results::of_read(params["uri"].as_str().unwrap_or_default(), not_found),
        "prompts/get" => results::of_prompt(params),
        "completion/complete" => {
            let begun = params["argument"]["value"].as_str().unwrap_or_default();
            let values: Vec<&str> =
                ["Ada", "Alan", "Grace"].into_iter().filter(|name| name.starts_with(begun)).collect();
            Ok(Obj::of(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}})))
        }
        _ => return None,
    })
}

/// Whether a request may be answered at this time, in this era.
fn admit(ctx: &Ctx, request: &Request) -> Result<(), RpcError> {
    let flags = &ctx.server.flags;
    match ctx.era {
        Era::Modern => modern_meta(ctx, request),
        Era::Legacy => {
            let free = matches!(request.method.as_str(), "initialize" | "ping" | "server/discover");
            if !free && !ctx.session.opened.load(Ordering::SeqCst) {
                return Err(RpcError::new(rpc::NOT_INITIALIZED, "the server is not initialized"));
            }
            let strict = matches!(flags.require_initialized.value(), Some(Strictness::Error));
            if !free && strict && !ctx.session.initialized.load(Ordering::SeqCst) {
                return Err(RpcError::new(rpc::NOT_INITIALIZED, "notifications/initialized was not seen"));
            }
            Ok(())
        }
    }
}

fn modern_meta(ctx: &Ctx, request: &Request) -> Result<(), RpcError> {
    let params = request.value();
    let refuse = |requested: &Value| {
        RpcError::new(rpc::UNSUPPORTED_VERSION, "Unsupported protocol version")
            .with(json!({"requested": requested, "supported": supported(&ctx.server)}))
    };
    if request.method == "initialize" {
        return Err(refuse(&params["protocolVersion"]));
    }
    let meta = &params["_meta"];
    let missing: Vec<&str> = [
        (VERSION_KEY, meta[VERSION_KEY].is_string()),
        (CAPABILITIES_KEY, meta[CAPABILITIES_KEY].is_object()),
    ]
    .into_iter()
    .filter_map(|(key, ok)| (!ok).then_some(key))
    .collect();
    if !missing.is_empty() {
        return Err(RpcError::new(
            rpc::INVALID_PARAMS,
            format!("request _meta is missing or has malformed fields: {}", missing.join(", ")),
        ));
    }
    if meta[VERSION_KEY] != MODERN { Err(refuse(&meta[VERSION_KEY])) } else { Ok(()) }
}

/// The versions that this server speaks, newest first.
pub(crate) fn supported(server: &Server) -> Vec<&str> {
    let newest = server.flags.reject_newer_version.as_deref().unwrap_or("9999");
    let legacy = LEGACY.into_iter().rev().filter(|v| *v <= newest);
    match server.flags.era {
        Some(EraFlag::Modern) => vec![MODERN],
        Some(EraFlag::Both) => std::iter::once(MODERN).filter(|v| *v <= newest).chain(legacy).collect(),
        Some(EraFlag::Legacy) | None => legacy.collect(),
    }
}

fn initialize(ctx: &Ctx, params: &Value) -> Result<Obj, RpcError> {
    let server = &ctx.server;
    let flags = &server.flags;
    before_initialized(ctx);
    if let Some(code) = at(&flags.rpc_error, Place::Start, Place::Call) {
        return Err(calls::forced_error(server, *code));
    }
    let requested = params["protocolVersion"].as_str().unwrap_or_default();
    if flags.reject_newer_version.as_deref().is_some_and(|newest| requested > newest) {
        return Err(RpcError::new(
            rpc::INVALID_PARAMS,
            format!(
                "Unsupported protocol version {requested} (supported versions: {})",
                supported(server).join(", ")
            ),
        )
        .with(json!({"requested": requested, "supported": supported(server)})));
    }
    let version = match &flags.init_version {
        Some(version) => version.clone(),
        None if LEGACY.contains(&requested) => requested.to_owned(),
        None => LEGACY[3].to_owned(),
    };
    lock(&ctx.session.version).clone_from(&version);
    ctx.session.opened.store(true, Ordering::SeqCst);
    let mut result = Obj::of(json!({"protocolVersion": version, "capabilities": capabilities(server, true)}));
    result.put("serverInfo", server_info(server));
    result.put("instructions", instructions(server));
    Ok(result)
}

/// What the flags put before the answer to initialize.
fn before_initialized(ctx: &Ctx) {
    let flags = &ctx.server.flags;
    if let Some(ms) = flags.start_delay {
        ctx.cancel.wait(Duration::from_millis(ms));
    }
    for n in 0..flags.notify_before_init.unwrap_or(0) {
        let (method, params) = match n % 2 {
            0 => ("notifications/tools/list_changed", json!({})),
            _ => ("notifications/message", json!({"level": "info", "logger": "badmcp", "data": "starting"})),
        };
        ctx.outlet.send(&rpc::notification(method, &params));
    }
    if flags.notify_before_init.is_some() {
        let id = ctx.server.fresh("early");
        ctx.outlet.send(&rpc::request(&id, "ping", &json!({})));
    }
    if flags.request_roots_before_init {
        let id = calls::ask(ctx, crate::values::Ask::Roots);
        ctx.session.await_reply(&id, ROOTS_LIMIT);
    }
}

fn discover(ctx: &Ctx) -> Result<Obj, RpcError> {
    let server = &ctx.server;
    if let Some(ms) = server.flags.start_delay {
        ctx.cancel.wait(Duration::from_millis(ms));
    }
    if let Some(code) = at(&server.flags.rpc_error, Place::Start, Place::Call) {
        return Err(calls::forced_error(server, *code));
    }
    let mut result =
        Obj::of(json!({"supportedVersions": supported(server), "capabilities": capabilities(server, false)}));
    result.put("instructions", instructions(server));
    Ok(result)
}

fn instructions(server: &Server) -> String {
    if at(&server.flags.huge_line, Place::Start, Place::Call).is_some() {
        return FILLER.to_owned();
    }
    paint(&server.flags, "badmcp is a test server.")
}

fn server_info(server: &Server) -> Value {
    let flags = &server.flags;
    let mut info = json!({
        "name": paint(flags, flags.name.as_deref().unwrap_or("badmcp")),
        "version": paint(flags, env!("CARGO_PKG_VERSION")),
    });
    if let Some(url) = &flags.evil_urls {
        info["websiteUrl"] = json!(url);
        info["icons"] = json!([{"src": url}]);
    }
    info
}

fn capabilities(server: &Server, legacy: bool) -> Value {
    let flags = &server.flags;
    let has = |capability| !flags.lacks(capability);
    let mut all = json!({});
    for (name, capability) in
        [("tools", Capability::Tools), ("resources", Capability::Resources), ("prompts", Capability::Prompts)]
    {
        if has(capability) {
            all[name] = if has(Capability::ListChanged) { json!({"listChanged": true}) } else { json!({}) };
        }
    }
    if has(Capability::Resources) && has(Capability::Subscribe) {
        all["resources"]["subscribe"] = json!(true);
    }
    if has(Capability::Completions) {
        all["completions"] = json!({});
    }
    if legacy && has(Capability::Logging) {
        all["logging"] = json!({});
    }
    all
}

fn listen(server: &Server, id: &str, params: &Value) -> Outcome {
    let wanted = &params["notifications"];
    let has = |capability| !server.flags.lacks(capability) && !server.flags.lacks(Capability::ListChanged);
    let mut accepted = json!({});
    let mut filter = Filter { subscription: serde_json::from_str(id).ok(), ..Filter::default() };
    for (key, capability, method) in [
        ("toolsListChanged", Capability::Tools, "notifications/tools/list_changed"),
        ("promptsListChanged", Capability::Prompts, "notifications/prompts/list_changed"),
        ("resourcesListChanged", Capability::Resources, "notifications/resources/list_changed"),
    ] {
        if wanted[key] == true && has(capability) {
            accepted[key] = json!(true);
            filter.methods.push(method);
        }
    }
    if let Some(uris) = wanted["resourceSubscriptions"].as_array()
        && !server.flags.lacks(Capability::Subscribe)
    {
        filter.uris = uris.iter().filter_map(|uri| uri.as_str().map(str::to_owned)).collect();
        accepted["resourceSubscriptions"] = json!(filter.uris);
    }
    let meta = json!({"io.modelcontextprotocol/subscriptionId": filter.subscription});
    let ack = json!({"_meta": meta, "notifications": accepted});
    Outcome::Listen(rpc::notification("notifications/subscriptions/acknowledged", &ack), filter)
}

/// What the modern era wants in every result.
fn decorate(ctx: &Ctx, request: &Request, outcome: Result<Body, RpcError>) -> Result<Body, RpcError> {
    let mut outcome = outcome;
    if ctx.era == Era::Modern
        && let Ok(Body::Obj(obj)) = &mut outcome
    {
        if obj.get("resultType").is_none() {
            obj.put("resultType", "complete");
        }
        let cacheable = matches!(place_of(&request.method), Some(Place::List))
            || matches!(request.method.as_str(), "resources/read" | "server/discover");
        if cacheable {
            obj.put("ttlMs", 0);
            obj.put("cacheScope", "private");
        }
        let mut meta: Value =
            obj.get("_meta").and_then(|m| serde_json::from_str(m).ok()).unwrap_or_else(|| json!({}));
        meta[SERVER_INFO_KEY] = server_info(&ctx.server);
        obj.put("_meta", meta);
    }
    outcome
}

/// What the flags put after an answer has left.
pub(crate) fn after(server: &Server, method: &str, code: Option<i64>) {
    if method == "tools/list" {
        if server.flags.exit_after_handshake {
            server.exit(0, "exit-after-handshake");
        }
        if server.flags.list_changed_on_list {
            server.hub.tell("notifications/tools/list_changed", &json!({}));
        }
    }
    if server.flags.exit_on_unsupported && code == Some(rpc::UNSUPPORTED_VERSION) {
        server.exit(0, "exit-on-unsupported");
    }
}
