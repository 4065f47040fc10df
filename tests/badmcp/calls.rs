//! `tools/call`: the order of what can happen in a call, waiting, progress, requests to the client.
//! Owns a call's course, must never build envelopes of answers. Called by `methods`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::methods::Ctx;
use crate::rpc::{self, Body, Obj, Request, RpcError};
use crate::server::{Era, Server, lock, pause};
use crate::values::{Ask, OnCancel, Place, at};
use crate::{life, results, trace, wire};

/// How often a waiting HTTP call looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(20);
const REPLY_LIMIT: Duration = Duration::from_secs(120);
const PROGRESS_DEFAULT: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    #[serde(rename = "inputResponses")]
    responses: Option<Value>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

type Answer = Option<Result<Body, RpcError>>;

fn refuse(code: i64, message: impl Into<String>) -> Answer {
    Some(Err(RpcError::new(code, message)))
}

/// A call that runs: the server is not idle until it ends.
struct Busy<'a>(&'a Server);

impl<'a> Busy<'a> {
    fn new(server: &'a Server) -> Self {
        server.busy.fetch_add(1, Ordering::SeqCst);
        Self(server)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(&self.0.last_call) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs a call. None: it is never answered.
pub(crate) fn call(ctx: &Ctx, request: &Request) -> Answer {
    let server = &ctx.server;
    let flags = &server.flags;
    let _busy = Busy::new(server);
    if flags.kill_self_mid_call {
        life::kill_self(server, "kill-self-mid-call");
    }
    if flags.crash_calls.is_some_and(|limit| life::bump(server, "crash-calls") <= limit) {
        life::kill_self(server, "crash-calls");
    }
    life::flood(flags, Place::Call);
    let params: Params<'_> = match serde_json::from_str(request.params.as_deref().unwrap_or("{}")) {
        Ok(params) => params,
        Err(e) => return refuse(rpc::INVALID_PARAMS, format!("tools/call: {e}")),
    };
    let arguments = params.arguments.map(RawValue::get).filter(|text| *text != "null");
    if let Err(e) = check_arguments(ctx, &params.name, arguments) {
        return Some(Err(e));
    }
    let token = params.meta.as_ref().and_then(|meta| meta.get("progressToken")).cloned();
    if !wait(ctx, &params.name, arguments, token.as_ref()) {
        return None;
    }
    let replies = match requests(ctx, &params) {
        Ok(replies) => replies,
        Err(answer) => return Some(answer),
    };
    if flags.log_on_call {
        let data = wire::paint(flags, &format!("{} is called", params.name));
        let message = json!({"level": "info", "logger": "badmcp", "data": data});
        ctx.outlet.send(&rpc::notification("notifications/message", &message));
    }
    if let Some(code) = at(&flags.rpc_error, Place::Call, Place::Call) {
        return Some(Err(forced_error(server, *code)));
    }
    let counted = execute(server, &params.name);
    if let Some(replies) = replies.filter(|_| flags.request_wait || ctx.era == Era::Modern) {
        let content = json!([{"type": "text", "text": replies.to_string()}]);
        return Some(Ok(Body::Obj(Obj::of(json!({"content": content})))));
    }
    Some(Ok(results::of_call(server, &params.name, arguments, counted)))
}

fn check_arguments(ctx: &Ctx, tool: &str, arguments: Option<&str>) -> Result<(), RpcError> {
    let server = &ctx.server;
    let is_object = |text: &str| text.starts_with('{');
    if server.flags.strict_args && !arguments.is_some_and(is_object) {
        return Err(RpcError::new(rpc::INVALID_PARAMS, "arguments must be an object"));
    }
    if arguments.is_some_and(|text| !is_object(text)) {
        return Err(RpcError::new(rpc::INVALID_PARAMS, "arguments must be an object when they are given"));
    }
    if !lock(&server.catalog).has(tool) {
        return Err(RpcError::new(
            rpc::INVALID_PARAMS,
            wire::paint(&server.flags, &format!("Unknown tool: {tool}")),
        ));
    }
    Ok(())
}

/// The error that `--rpc-error` asks for.
pub(crate) fn forced_error(server: &Server, code: i64) -> RpcError {
    let message = results::forced_text(server).unwrap_or_else(|| format!("badmcp answers with error {code}"));
    let mut error = RpcError::new(code, wire::paint(&server.flags, &message));
    error.data = server.flags.error_data.as_ref().map(|json| json.0.clone());
    error
}

/// Does what the call is for; the number of this execution when it is `count`.
fn execute(server: &Server, tool: &str) -> u64 {
    server.trace.event("executed", json!({"tool": tool}));
    let mut counted = 0;
    if tool == "count" {
        counted = server.counted.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(file) = &server.flags.count {
            trace::append_line(file, &counted.to_string());
        }
    }
    if server.flags.exit_after_execute {
        server.exit(1, "exit-after-execute");
    }
    counted
}

/// Takes the time that the flags or the arguments ask for. False: the call ends without an answer.
fn wait(ctx: &Ctx, tool: &str, arguments: Option<&str>, token: Option<&Value>) -> bool {
    let flags = &ctx.server.flags;
    let late = flags.late_response.filter(|_| tool != "echo");
    let asked = if tool == "sleep" { results::Args::read(arguments).ms.unwrap_or(0) } else { 0 };
    let ms = late.unwrap_or(0).max(flags.slow.unwrap_or(0)).max(asked);
    let deaf = late.is_some() || flags.on_cancel == Some(OnCancel::Ignore);
    if ms == 0 && !flags.progress_forever {
        return true;
    }
    let limit = if flags.progress_forever { Duration::MAX } else { Duration::from_millis(ms) };
    let period = match flags.progress_every {
        Some(ms) => Some(Duration::from_millis(ms.max(1))),
        None => flags.progress_forever.then_some(PROGRESS_DEFAULT),
    }
    .filter(|_| token.is_some());
    let total = period
        .filter(|_| !flags.progress_forever)
        .map(|period| (ms as f64 / period.as_secs_f64() / 1e3).ceil());
    let started = Instant::now();
    let mut sent = 0u32;
    let mut left = false;
    loop {
        let passed = started.elapsed();
        if let (Some(period), Some(token)) = (period, token) {
            // All that is due before the end, so that the number of steps never depends on the machine's load.
            while passed >= period * (sent + 1) && period * (sent + 1) < limit {
                sent += 1;
                progress(ctx, token, sent, total);
            }
        }
        if passed >= limit {
            return true;
        }
        let next =
            period.map_or(limit, |period| (period * (sent + 1)).min(limit)).saturating_sub(started.elapsed());
        let step = if ctx.http { next.min(LOOK) } else { next.min(Duration::from_secs(3600)) };
        let cancelled = if deaf {
            pause(step);
            false
        } else {
            ctx.cancel.wait(step)
        };
        if !left && ctx.outlet.gone() {
            left = true;
            ctx.server.trace.event("client-left", json!({"tool": tool}));
            if ctx.era == Era::Modern && !deaf {
                return false;
            }
        }
        if cancelled {
            return false;
        }
    }
}

fn progress(ctx: &Ctx, token: &Value, step: u32, total: Option<f64>) {
    let message = wire::paint(&ctx.server.flags, &format!("step {step}"));
    let mut params = json!({"progressToken": token, "progress": step, "message": message});
    if let Some(total) = total {
        params["total"] = json!(total.max(f64::from(step)) as u64);
    }
    ctx.outlet.send(&rpc::notification("notifications/progress", &params));
}

/// Method and parameters of a request to the client.
pub(crate) fn ask_of(ask: Ask) -> (&'static str, Value) {
    match ask {
        Ask::Roots => ("roots/list", json!({})),
        Ask::Sampling => (
            "sampling/createMessage",
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}], "maxTokens": 10}),
        ),
        Ask::Elicitation => (
            "elicitation/create",
            json!({"message": "Your name?",
                   "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}),
        ),
        Ask::Ping => ("ping", json!({})),
        Ask::Unknown => ("vendor/unknown", json!({})),
    }
}

/// Sends a request to the client; its id.
pub(crate) fn ask(ctx: &Ctx, ask: Ask) -> String {
    let (method, params) = ask_of(ask);
    let id = ctx.server.fresh("ask");
    ctx.session.ask(&id);
    ctx.server.trace.event("asked", json!({"id": id, "method": method}));
    ctx.outlet.send(&rpc::request(&id, method, &params));
    id
}

/// The requests that belong to the call: method → code, `"result"` or `"none"`. `Err` is the call's answer.
fn requests(ctx: &Ctx, params: &Params<'_>) -> Result<Option<Value>, Result<Body, RpcError>> {
    let flags = &ctx.server.flags;
    let Some(asks) = at(&flags.request, Place::Call, Place::Call) else { return Ok(None) };
    if ctx.era == Era::Modern {
        return input_required(params, &asks.0).map(Some);
    }
    let sent: Vec<_> = asks.0.iter().map(|what| (ask_of(*what).0, ask(ctx, *what))).collect();
    if !flags.request_wait {
        return Ok(None);
    }
    let mut replies = json!({});
    for (method, id) in sent {
        replies[method] = match ctx.session.await_reply(&id, REPLY_LIMIT) {
            Some(Some(code)) => json!(code),
            Some(None) => json!("result"),
            None => json!("none"),
        };
    }
    Ok(Some(replies))
}

const STATE: &str = "badmcp-state-1";

/// Modern: the questions go out as a result, and the answers come with the same call again.
fn input_required(params: &Params<'_>, asks: &[Ask]) -> Result<Value, Result<Body, RpcError>> {
    let questions: serde_json::Map<String, Value> = asks
        .iter()
        .filter(|ask| !matches!(ask, Ask::Ping | Ask::Unknown))
        .enumerate()
        .map(|(n, ask)| {
            let (method, params) = ask_of(*ask);
            (format!("q{n}"), json!({"method": method, "params": params}))
        })
        .collect();
    let Some(responses) = &params.responses else {
        let result =
            json!({"resultType": "input_required", "inputRequests": questions, "requestState": STATE});
        return Err(Ok(Body::Obj(Obj::of(result))));
    };
    if params.state.as_deref() != Some(STATE) {
        return Err(Err(RpcError::new(rpc::INVALID_PARAMS, "requestState did not come back as it was")));
    }
    let mut replies = json!({});
    for (key, question) in &questions {
        let method = question["method"].as_str().unwrap_or_default();
        replies[method] = json!(if responses.get(key).is_some() { "result" } else { "none" });
    }
    Ok(replies)
}
