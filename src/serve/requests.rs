//! Which part answers a request, by era and method; what may not be asked now is refused here.

use std::sync::Arc;

use bytes::Bytes;

use super::client::Client;
use super::message::{CLIENT_CAPABILITIES, PROTOCOL_VERSION, Request, RpcError, success};
use super::sink::Sink;
use super::{calls, handshake, lists, notes, subscriptions};
use crate::catalog::items::ListKind;
use crate::wire::envelope::{member, text};
use crate::wire::era::{Era, Revision};

/// Methods of the protocol that are not asked of us: of the other era, of the other side, or of no server
/// in particular. No server sees them.
const KNOWN_ELSEWHERE: [&str; 12] = [
    "initialize",
    "ping",
    "server/discover",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "sampling/createMessage",
    "elicitation/create",
];

/// Answers one request, now or later.
pub(super) fn handle(client: &Arc<Client>, request: Request, to: &Sink) {
    let id = request.id.clone();
    let outcome = match gate(client, &request) {
        Ok(era) => answer(client, era, request, to),
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        client.reply(to, error.answer(&id));
    }
}

/// The era in which a request is understood; the first one fixes it.
fn gate(client: &Client, request: &Request) -> Result<Era, RpcError> {
    let method = request.method.as_str();
    let mut state = client.state();
    match state.era {
        Some(Era::Legacy) if state.welcomed || matches!(method, "initialize" | "ping") => Ok(Era::Legacy),
        Some(Era::Modern) => {
            state.capabilities = modern(request)?;
            Ok(Era::Modern)
        }
        None if matches!(method, "initialize" | "ping") => Ok(Era::Legacy),
        None if method == "server/discover" || request.meta(PROTOCOL_VERSION).is_some() => {
            state.capabilities = modern(request)?;
            state.era = Some(Era::Modern);
            state.revision = Some(Revision::LATEST);
            Ok(Era::Modern)
        }
        None | Some(Era::Legacy) => Err(RpcError::request(
            "not initialized: send `initialize` first, or say the revision in `_meta` (2026-07-28)",
        )
        .data(&serde_json::json!({"supported": handshake::supported()}))),
    }
}

/// What every modern request has to say: its revision, and what its client can, which is returned.
fn modern(request: &Request) -> Result<Bytes, RpcError> {
    let said = request.meta(PROTOCOL_VERSION);
    let version = said.as_ref().and_then(|said| text(said));
    if version.as_deref().and_then(Revision::parse).is_some_and(|r| r.era() == Era::Modern) {
        let can = request.meta(CLIENT_CAPABILITIES).filter(|can| can.first() == Some(&b'{'));
        let missing = || RpcError::params(format!("`_meta` has no object under {CLIENT_CAPABILITIES}"));
        return can.map(|can| Bytes::copy_from_slice(&can)).ok_or_else(missing);
    }
    let text = match &version {
        Some(version) => format!("revision {version:.64} is not supported in `_meta`"),
        None => format!("`_meta` has no text under {PROTOCOL_VERSION}"),
    };
    let data = serde_json::json!({"supported": handshake::supported(), "requested": version});
    Err(RpcError::new(-32022, text).data(&data))
}

fn answer(client: &Arc<Client>, era: Era, request: Request, to: &Sink) -> Result<(), RpcError> {
    let list = ListKind::ALL.into_iter().find(|kind| kind.method() == request.method);
    if let Some(kind) = list {
        lists::list(client, kind, request, to);
        return Ok(());
    }
    match (request.method.as_str(), era) {
        ("initialize", Era::Legacy) => handshake::initialize(client, request, to),
        ("server/discover", Era::Modern) => {
            handshake::discover(client, request, to);
            Ok(())
        }
        ("ping", Era::Legacy) => {
            client.reply(to, success(&request.id, "{}"));
            Ok(())
        }
        ("tools/call", _) => calls::tool(client, request, to),
        ("resources/read", _) => calls::resource(client, request, to),
        ("prompts/get", _) => calls::prompt(client, request, to),
        ("completion/complete", _) => calls::complete(client, request, to),
        ("resources/subscribe", Era::Legacy) => subscriptions::subscribe(client, request, to),
        ("resources/unsubscribe", Era::Legacy) => subscriptions::unsubscribe(client, &request, to),
        ("tasks/get" | "tasks/cancel", _) | ("tasks/result", Era::Legacy) | ("tasks/update", Era::Modern) => {
            calls::task(client, request, to)
        }
        ("logging/setLevel", Era::Legacy) => notes::set_level(client, &request, to),
        ("subscriptions/listen", Era::Modern) => notes::listen(client, request, to),
        (method, _) if KNOWN_ELSEWHERE.contains(&method) => Err(RpcError::method(method)),
        _ => calls::unknown_method(client, request, to),
    }
}

/// Takes a notification of the client; those that we don't know change nothing.
pub(super) fn note(client: &Arc<Client>, method: &str, params: &Bytes) {
    match method {
        "notifications/initialized" => {
            {
                let mut state = client.state();
                state.initialized |= state.welcomed;
            }
            // What changed since it was welcomed.
            client.tell_changes(&client.view());
        }
        "notifications/cancelled" => {
            if let Some(id) = member(params, "requestId") {
                client.cancel(&params[id]);
            }
        }
        _ => tracing::debug!(session = client.session().0, method, "a notification that changes nothing"),
    }
}
