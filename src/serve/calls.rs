//! Requests that a server answers: finds the server, checks the arguments, sends, and hands the answer
//! back under the client's own id. What policy refuses or a server fails is a result of the tool that a
//! model can read; for everything else it is a JSON-RPC error.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use super::client::Client;
use super::message::{Request, RpcError, success, with_member};
use super::refusal;
use super::sink::{Outgoing, Sink};
use crate::actors::frontend::CALL_EVENTS_MAX;
use crate::call::{
    CallError, CallEvent, CallLimits, CallReply, CallRequest, ErrorCode, ItemKind, Origin, Phase, Target,
};
use crate::catalog::items::Item;
use crate::catalog::schema;
use crate::catalog::violation;
use crate::id::{CallId, ServerId};
use crate::wire::era::Era;
use crate::wire::splice::{self, AnswerSplice};

/// Look-alikes that a refusal names.
const SIMILAR_MAX: usize = 3;

/// `tools/call`
pub(super) fn tool(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let name = request.named("name")?;
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let mut view = me.host.view();
        if view.tool(&name, me.who()).is_none() {
            // It may be on its way.
            view = me.settled_view().await;
        }
        let Some(row) = view.tool(&name, me.who()) else {
            let similar = view.catalog.similar(&name, None, SIMILAR_MAX);
            let seen = similar.into_iter().filter(|name| view.tool(name, me.who()).is_some());
            return Some(unknown("tool", &name, &seen.collect::<Vec<_>>()).answer(&request.id));
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
        let mut view = me.host.view();
        if view.owner(&uri, me.who()).is_none() {
            view = me.settled_view().await;
        }
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
        let mut view = me.host.view();
        if view.prompt(&name, me.who()).is_none() {
            view = me.settled_view().await;
        }
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

fn no_resource(client: &Client, uri: &str) -> RpcError {
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
    if let Target::Direct { server, .. } = &target {
        client.runs_at(&request.id, server);
    }
    let tool = matches!(target, Target::Direct { kind: ItemKind::Tool, .. });
    let refused = |error: &CallError| match tool {
        true => refusal::of_tool(client, &request.id, error),
        false => refusal::of_request(client, &request.id, error),
    };
    if let Err(wait) = client.take_turn() {
        let text = "too many requests of this client (serve.rate); nothing was sent";
        let error = CallError::refused(ErrorCode::RateLimited, Phase::Admission, Origin::Caller, text);
        return Some(refused(&error.after(wait)));
    }
    let call = CallRequest {
        id: CallId::fresh(),
        session: client.session(),
        target,
        params: request.params.clone(),
        limits: CallLimits::default(),
        grant: None,
    };
    let (events, mut heard) = mpsc::channel(CALL_EVENTS_MAX);
    let token = request.token();
    let mut running = pin!(client.host.frontend(client.who().door).call(call, Some(events)));
    let reply = loop {
        tokio::select! {
            biased;
            Some(event) = heard.recv() => on_event(event, token.as_ref(), to),
            reply = &mut running => break reply,
        }
    };
    Some(match reply {
        Ok(reply) => answer(client, request, &reply),
        Err(error) => refused(&error),
    })
}

fn on_event(event: CallEvent, token: Option<&Bytes>, to: &Sink) {
    match event {
        CallEvent::Progress(params) => {
            // Who gave no token wants none.
            let Some(token) = token else { return };
            let params = with_member(&params, "progressToken", token);
            let params = String::from_utf8_lossy(&params);
            to.note(splice::notification("notifications/progress", Some(&params)));
        }
        CallEvent::Waits { .. } | CallEvent::Sent => {}
    }
}

/// The server's answer under the client's id, in the client's era.
fn answer(client: &Client, request: &Request, reply: &CallReply) -> Outgoing {
    let theirs = client.host.revision_of(&reply.server).map(crate::wire::era::Revision::era);
    let ours = client.era();
    Outgoing::Answer(splice::answer(&AnswerSplice {
        frame: &reply.frame,
        id: reply.id.clone(),
        body: reply.body.clone(),
        is_error: reply.is_error,
        caller_id: &request.id,
        method: &request.method,
        adapt: theirs.filter(|theirs| *theirs != ours).map(|_| ours),
    }))
}

impl Client {
    /// Checks the arguments of a call against the schema of the tool. A schema that can't be used
    /// checks nothing: the server decides.
    fn check(&self, server: &ServerId, item: &Item, name: &str, request: &Request) -> Result<(), CallError> {
        let compiled = item.schema_bytes().map(|raw| self.host.schema(raw));
        let compiled = compiled.as_ref().and_then(|compiled| compiled.as_ref().as_ref().ok());
        let arguments = request.param("arguments");
        schema::check(compiled, arguments.as_deref()).map_err(|violations| {
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
