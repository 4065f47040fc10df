//! What a client is told when there is no answer of a server: for a tool a result that says so, which
//! models read, for everything else a JSON-RPC error of our range.

use std::sync::Arc;

use serde_json::{Value, json};

use super::calls::own_result;
use super::client::Client;
use super::message::RpcError;
use super::sink::Outgoing;
use crate::call::{CallError, ErrorCode};
use crate::id::shell_word;

/// The key of a result's `_meta` under which the error is told to programs.
const META_KEY: &str = "callboard/error";

/// The answer to `tools/call`. A tool that does not exist is an error of the protocol.
pub(super) fn of_tool(client: &Arc<Client>, id: &[u8], error: &CallError) -> Outgoing {
    if matches!(error.code, ErrorCode::UnknownTool | ErrorCode::UnknownServer | ErrorCode::AmbiguousName) {
        return of_request(client, id, error);
    }
    let result = json!({
        "content": [{"type": "text", "text": text(client, error)}],
        "isError": true,
        "_meta": {META_KEY: data(client, error)},
    });
    own_result(client, id, result)
}

/// The answer to any other request.
pub(super) fn of_request(client: &Arc<Client>, id: &[u8], error: &CallError) -> Outgoing {
    let code = i64::from(error.code.json_rpc());
    RpcError::new(code, text(client, error)).data(&data(client, error)).answer(id)
}

/// The sentence, what is known about execution, and the cure.
fn text(client: &Arc<Client>, error: &CallError) -> String {
    let mut text = client.host.clean(&error.message);
    if error.code == ErrorCode::NeedsApproval && !client.can_be_asked() {
        let (server, tool) = (error.server.as_ref(), error.item.as_deref());
        let what = match (server, tool) {
            (Some(server), Some(tool)) => format!("{tool} of {server}"),
            _ => "this call".to_owned(),
        };
        text = format!("{what} needs a person's approval, and this client can't be asked for it");
    }
    if let Some(wait) = error.retry_after {
        text.push_str(&format!("; try again in {} ms", wait.as_millis().max(1)));
    }
    if let Some(fix) = fix_for(client, error) {
        text.push_str(&format!("\nCure: {}", client.host.clean(&fix)));
    }
    text
}

/// The cure, as far as it is one here: nobody can type an answer into a client's connection.
fn fix_for(client: &Arc<Client>, error: &CallError) -> Option<String> {
    if error.code != ErrorCode::NeedsApproval || client.can_be_asked() {
        return error.fix.clone();
    }
    let words = match (&error.server, &error.item) {
        (Some(server), Some(item)) => format!("{} {}", shell_word(server.as_str()), shell_word(item)),
        _ => "SERVER TOOL".to_owned(),
    };
    Some(format!(
        "allow it for good: callboard mcp allow {words}; or, if this client asks its user before it calls, start the host with --approval client"
    ))
}

fn data(client: &Arc<Client>, error: &CallError) -> Value {
    json!({
        "code": error.code.as_str(),
        "server": error.server.as_ref().map(ToString::to_string),
        "phase": error.phase,
        "delivery": error.delivery,
        "retry_after_ms": error.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        "fix": fix_for(client, error).map(|fix| client.host.clean(&fix)),
    })
}
