//! Requests that a server answers: finds the server, checks the arguments, sends, and hands the answer
//! back under the client's own id. What policy refuses or a server fails is a result of the tool that a
//! model can read; for everything else it is a JSON-RPC error.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio::time::Sleep;

use super::client::Client;
use super::message::{CLIENT_CAPABILITIES, Request, RpcError, success, with_member};
use super::rounds::Flight;
use super::sink::{Outgoing, Sink};
use super::view::View;
use super::{asks, levels, refusal, rounds};
use crate::builtins::tool::Tool;
use crate::call::{
    Asked, CallError, CallEvent, CallLimits, CallReply, CallRequest, ErrorCode, ItemKind, Origin, Phase,
    Target, events,
};
use crate::catalog::items::Item;
use crate::catalog::schema;
use crate::catalog::violation;
use crate::id::{BUILTINS, CallId, ServerId};
use crate::transport::task;
use crate::wire::envelope::{member, text};
use crate::wire::era::Era;
use crate::wire::rounds as wire_rounds;
use crate::wire::splice::{self, AnswerSplice};

/// The key of `_meta` under which a client names the server for a method that only that one knows.
const SERVER_KEY: &str = "callboard/server";
/// Look-alikes that a refusal names.
const SIMILAR_MAX: usize = 3;

/// `tools/call`
pub(super) fn tool(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let name = request.named("name")?;
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        // It may be on its way.
        let view = me.view_with(|view| view.tool(&name, me.who()).is_some()).await;
        let Some(row) = view.tool(&name, me.who()) else {
            let similar = view.catalog.similar(&name, None, SIMILAR_MAX);
            let seen = similar.into_iter().filter(|name| view.tool(name, me.who()).is_some());
            let unknown = unknown("tool", &name, &seen.collect::<Vec<_>>());
            return Some(still_starting(&me, unknown).answer(&request.id));
        };
        if let Err(error) = me.check(row.server, row.item, &name, &request) {
            return Some(refusal::of_tool(&me, &request.id, &error));
        }
        let target = direct(row.server, ItemKind::Tool, &row.item.name);
        forward(&me, target, &request, &out).await
    });
    Ok(())
}

/// `resources/read`
pub(super) fn resource(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let uri = request.named("uri")?;
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.view_with(|view| view.owner(&uri, me.who()).is_some()).await;
        let Some(server) = view.owner(&uri, me.who()) else {
            return Some(no_resource(&me, &uri).answer(&request.id));
        };
        forward(&me, direct(server, ItemKind::Resource, &uri), &request, &out).await
    });
    Ok(())
}

/// `prompts/get`
pub(super) fn prompt(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let name = request.named("name")?;
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.view_with(|view| view.prompt(&name, me.who()).is_some()).await;
        let Some(row) = view.prompt(&name, me.who()) else {
            return Some(unknown("prompt", &name, &[]).answer(&request.id));
        };
        let target = direct(row.server, ItemKind::Prompt, &row.item.name);
        forward(&me, target, &request, &out).await
    });
    Ok(())
}

fn direct(server: &ServerId, kind: ItemKind, name: &str) -> Target {
    Target::Direct { server: server.clone(), kind, name: name.to_owned() }
}

fn unknown(what: &str, name: &str, similar: &[String]) -> RpcError {
    let shown: String = name.chars().take(128).collect();
    let hint = match similar {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    };
    RpcError::params(format!("unknown {what}: {shown}{hint}"))
}

/// A name may be one of a server that has not shown its lists yet: the client is told whose.
fn still_starting(client: &Client, mut error: RpcError) -> RpcError {
    let late = client.host.on_their_way(client);
    if !late.is_empty() {
        let late = client.host.clean(&late.join(", "));
        error.message.push_str(&format!("; not known yet, because still starting: {late}"));
    }
    error
}

pub(super) fn no_resource(client: &Client, uri: &str) -> RpcError {
    let code = match client.era() {
        Era::Legacy => -32002,
        Era::Modern => -32602,
    };
    RpcError::new(code, "no server has this resource").data(&json!({"uri": uri}))
}

/// Sends a request to the server that it is for, and makes the answer of what comes back.
pub(super) async fn forward(
    client: &Arc<Client>,
    target: Target,
    request: &Request,
    to: &Sink,
) -> Option<Outgoing> {
    let Target::Direct { server, kind, name } = &target else { return None };
    client.runs_at(&request.id, server);
    let tool = *kind == ItemKind::Tool;
    let refused = |error: &CallError| match tool {
        true => refusal::of_tool(client, &request.id, error),
        false => refusal::of_request(client, &request.id, error),
    };
    let answered = |reply: &CallReply| {
        if tool {
            client.keep_output(name, reply);
        }
        Some(answer(client, request, reply))
    };
    if let Err(wait) = client.take_turn() {
        let text = "too many requests of this client (serve.rate); nothing was sent";
        let error = CallError::refused(ErrorCode::RateLimited, Phase::Admission, Origin::Caller, text);
        return Some(refused(&error.after(wait)));
    }
    let (mut flight, mut asked) = if comes_back(client, server, request) {
        match rounds::resume(client, request) {
            Ok(resumed) => resumed,
            Err(error) => return Some(error.answer(&request.id)),
        }
    } else {
        (takes_off(client, &target, request, request.params.clone()), Vec::new())
    };
    for _ in 0..rounds::ROUNDS_MAX {
        let reply = match fly(client, request, flight, asked, to).await {
            Flown::Parked(told) => return Some(told),
            Flown::Landed(Err(error)) => return Some(refused(&error)),
            Flown::Landed(Ok(reply)) => reply,
        };
        // Only a server of the modern era asks by its result.
        if client.era() == Era::Modern || reply.is_error || reply.era == Era::Legacy {
            return answered(&reply);
        }
        // Apart: hardly any call needs the room.
        match Box::pin(rounds::next_round(client, request, &reply, to)).await {
            None => return answered(&reply),
            Some(Err(error)) => return Some(refused(&error)),
            Some(Ok(params)) => (flight, asked) = (takes_off(client, &target, request, params), Vec::new()),
        }
    }
    Some(refused(&rounds::endless(&flight.server)))
}

/// Whether a request comes back for a call that its server, which asks in mid-call, still runs.
fn comes_back(client: &Client, server: &ServerId, request: &Request) -> bool {
    let is_modern = || client.host.revision_of(server).is_some_and(|spoken| spoken.era() == Era::Modern);
    client.era() == Era::Modern && wire_rounds::retry(&request.params).is_some() && !is_modern()
}

fn takes_off(client: &Client, target: &Target, request: &Request, params: Bytes) -> Flight {
    let server = match target {
        Target::Direct { server, .. } => server.clone(),
        Target::Exposed(name) => ServerId::new(name),
    };
    let params = levels::cross(client, request, &server, params);
    let call = CallRequest {
        id: CallId::fresh(),
        session: client.session(),
        target: target.clone(),
        params,
        limits: CallLimits::default(),
        grant: None,
    };
    let (told, heard) = events();
    let capabilities = Some(capabilities(client, request)).filter(|said| !said.is_empty());
    let reply = Box::pin(client.call(capabilities, call, told));
    Flight { reply, heard, server, asked: 0, relay: None }
}

/// What the client of a request can: a modern one says it with each.
fn capabilities(client: &Client, request: &Request) -> Bytes {
    let said = if client.era() == Era::Modern { request.meta(CLIENT_CAPABILITIES) } else { None };
    said.map_or_else(|| client.state().capabilities.clone(), |said| Bytes::copy_from_slice(&said))
}

/// How a flight ended for the request that it belongs to.
enum Flown {
    /// The server answered, or there is a reason why not.
    Landed(Result<CallReply, CallError>),
    /// The server asks something; the client was told so, and comes back.
    Parked(Outgoing),
}

/// Flies until there is an answer, or a question that a modern client has to come back for; `asked` is
/// still open from the round before.
async fn fly(
    client: &Arc<Client>,
    request: &Request,
    mut flight: Flight,
    mut asked: Vec<Asked>,
    to: &Sink,
) -> Flown {
    let modern = client.era() == Era::Modern;
    let can = if modern { capabilities(client, request) } else { Bytes::new() };
    let level = levels::said(request);
    let mut course = Course { client, token: request.token(), level, to, asking: HashMap::new() };
    // How long further questions of the same moment are waited for.
    let mut gather: Option<Pin<Box<Sleep>>> = None;
    loop {
        tokio::select! {
            biased;
            Some(event) = flight.heard.recv() => match own_for_roots(client, request, event).await {
                CallEvent::Asked(one) if modern && rounds::may_ask(&can, &one) => {
                    if asked.is_empty() {
                        gather = None;
                    }
                    asked.push(one);
                }
                CallEvent::Withdrawn(id) if modern => asked.retain(|one| one.id != id),
                event => course.on(event),
            },
            reply = &mut flight.reply => return Flown::Landed(reply),
            () = gathered(&mut gather), if !asked.is_empty() => {
                match rounds::park(client, request, flight, std::mem::take(&mut asked)) {
                    Ok(told) => return Flown::Parked(told),
                    // Its questions were refused; it goes on without.
                    Err(without) => flight = without,
                }
            }
        }
    }
}

async fn gathered(wait: &mut Option<Pin<Box<Sleep>>>) {
    wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(rounds::GATHER))).await;
}

/// What is heard of a call. A server that is told a client's roots goes by them from then on, in every call:
/// before it is told, it is made that client's own.
async fn own_for_roots(client: &Client, request: &Request, event: CallEvent) -> CallEvent {
    if let CallEvent::Asked(one) = &event
        && one.method == "roots/list"
        && asks::declares(&capabilities(client, request), &one.method, &one.params)
    {
        client.host.bind(client.session(), &one.server).await;
    }
    event
}

/// A call on its way: what its client hears meanwhile.
struct Course<'a> {
    client: &'a Arc<Client>,
    /// Under which the client wants progress.
    token: Option<Bytes>,
    /// The least level of log messages that a modern client wants with this call.
    level: Option<usize>,
    to: &'a Sink,
    /// What its server asks, by the server's id; withdrawn with the call.
    asking: HashMap<Bytes, task::Owned>,
}

impl Course<'_> {
    fn on(&mut self, event: CallEvent) {
        match event {
            CallEvent::Progress(params) => {
                // Who gave no token wants none.
                let Some(token) = &self.token else { return };
                let params = with_member(&params, "progressToken", token);
                let params = String::from_utf8_lossy(&params);
                self.to.note(splice::notification("notifications/progress", Some(&params)));
            }
            CallEvent::Note { method, frame } => {
                let wanted = match self.client.era() {
                    Era::Legacy => self.client.wants(&method, &frame),
                    Era::Modern => levels::reaches(self.level, &method, &frame),
                };
                if wanted {
                    self.to.note(frame);
                }
            }
            CallEvent::Asked(asked) => {
                let (client, to, id) = (self.client.clone(), self.to.clone(), asked.id.clone());
                let asking = async move { asks::put(&client, asked, &to).await };
                self.asking.insert(id, task::spawn(asking));
            }
            CallEvent::Withdrawn(id) => {
                self.asking.remove(&id);
            }
            CallEvent::Waits { .. } | CallEvent::Sent => {}
        }
    }
}

/// The server's answer under the client's id, in the client's era.
pub(super) fn answer(client: &Client, request: &Request, reply: &CallReply) -> Outgoing {
    if !reply.is_error {
        client.note_task(&reply.server, &reply.body());
    }
    let ours = client.era();
    Outgoing::Answer(splice::answer(&AnswerSplice {
        frame: &reply.frame,
        id: reply.id.clone(),
        body: reply.body.clone(),
        is_error: reply.is_error,
        caller_id: &request.id,
        method: &request.method,
        adapt: (reply.era != ours).then_some(ours),
    }))
}

impl Client {
    /// Keeps a result for `last_output`, but for what that tool itself and its neighbours say.
    fn keep_output(&self, tool: &str, reply: &CallReply) {
        let server = reply.server.as_str();
        let describes = server == BUILTINS && Tool::of(tool).is_some_and(Tool::describes);
        if !describes && !reply.is_error {
            let passing = self.is_passing().then(|| self.host.keeps_as(&self.who().identity));
            let session = passing.unwrap_or(self.session());
            self.host.builtins().outputs().keep(session, server, tool, &reply.body());
        }
    }

    /// Checks the arguments of a call against the schema of the tool. A schema that can't be used
    /// checks nothing: the server decides.
    fn check(&self, server: &ServerId, item: &Item, name: &str, request: &Request) -> Result<(), CallError> {
        let compiled = item.schema_bytes().map(|raw| self.host.schema(raw));
        let compiled = compiled.as_ref().and_then(|compiled| compiled.as_ref().as_ref().ok());
        schema::check(compiled, request.raw("arguments")).map_err(|violations| {
            let text = self.host.clean(&violation::sentence(name, &violations));
            CallError::refused(ErrorCode::InvalidArguments, Phase::Validate, Origin::Caller, text)
                .on(server)
                .about(&item.name)
        })
    }
}

/// A result of ours: `result` is a JSON object; a modern client is told its kind.
pub(super) fn own_result(client: &Client, id: &[u8], mut result: serde_json::Value) -> Outgoing {
    if client.era() == Era::Modern {
        result["resultType"] = "complete".into();
    }
    success(id, &result.to_string())
}

/// A request of the protocol that uses no item.
pub(super) fn method(server: &ServerId, method: &str) -> Target {
    direct(server, ItemKind::Method, method)
}

/// `completion/complete`: of a prompt by its exposed name, or of a resource template.
pub(super) fn complete(client: &Arc<Client>, mut request: Request, to: &Sink) -> Result<(), RpcError> {
    let reference = request.param("ref").unwrap_or_default();
    let word = |key: &str| {
        let span = member(&reference, key)?;
        text(&reference[span]).map(std::borrow::Cow::into_owned)
    };
    let (name, uri) = match word("type").as_deref() {
        Some("ref/prompt") => (word("name"), None),
        Some("ref/resource") => (None, word("uri")),
        _ => (None, None),
    };
    if name.is_none() && uri.is_none() {
        return Err(RpcError::params("`params.ref` names neither a prompt nor a resource"));
    }
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let found = |view: &View| match (&name, &uri) {
            (Some(name), _) => view.prompt(name, me.who()).is_some(),
            (None, uri) => uri.as_ref().is_some_and(|uri| view.owner(uri, me.who()).is_some()),
        };
        let view = me.view_with(found).await;
        let server = match (&name, &uri) {
            (Some(name), _) => view.prompt(name, me.who()).map(|row| {
                let raw = serde_json::Value::from(row.item.name.as_str()).to_string();
                let reference = with_member(&reference, "name", raw.as_bytes());
                request =
                    std::mem::take(&mut request).with_params(|params| with_member(params, "ref", &reference));
                row.server
            }),
            (None, Some(uri)) => view.owner(uri, me.who()),
            (None, None) => None,
        };
        let Some(server) = server else {
            let what = if name.is_some() { "prompt" } else { "resource" };
            let shown = name.or(uri).unwrap_or_default();
            return Some(unknown(what, &shown, &[]).answer(&request.id));
        };
        forward(&me, method(server, "completion/complete"), &request, &out).await
    });
    Ok(())
}

/// `tasks/…` of one task: to the server that made it, if it is a task of this client.
pub(super) fn task(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let id = request.named("taskId")?;
    let Some(server) = client.task_at(&id) else {
        return Err(RpcError::params("no task of this client has this id"));
    };
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        forward(&me, method(&server, &request.method), &request, &out).await
    });
    Ok(())
}

/// A method that we don't know: to the server that `_meta` names, or to the only one there is.
pub(super) fn unknown_method(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let view = client.view();
    let named = request.meta(SERVER_KEY).and_then(|raw| text(&raw).map(std::borrow::Cow::into_owned));
    let mut seen = view.catalog.servers.keys().filter(|server| client.sees_server(server));
    let server = match named {
        Some(name) => seen.find(|server| server.as_str() == name),
        None => seen.next().filter(|_| seen.next().is_none()),
    };
    let server = server.cloned().ok_or_else(|| RpcError::method(&request.method))?;
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        forward(&me, method(&server, &request.method), &request, &out).await
    });
    Ok(())
}
