//! What a client is told first: `initialize` (legacy) and `server/discover` (modern): revisions,
//! capabilities, who we are, and the servers' instructions, merged and capped.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::client::Client;
use super::message::{Request, RpcError, success};
use super::sink::Sink;
use super::view::View;
use crate::catalog::items::ListKind;
use crate::wire::era::{Era, Revision};

/// What stands behind an instruction that was cut.
const CUT: &str = " […]";

/// The revisions that we speak, newest first.
pub(super) fn supported() -> Vec<&'static str> {
    Revision::ALL.into_iter().rev().map(Revision::as_str).collect()
}

/// `initialize`: the client's revision when we speak it, else our newest that has a handshake.
pub(super) fn initialize(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let wanted = request.named("protocolVersion")?;
    let capabilities = request.param("capabilities").unwrap_or_else(|| Bytes::from_static(b"{}"));
    if capabilities.first() != Some(&b'{') {
        return Err(RpcError::params("`params.capabilities` must be an object"));
    }
    let known = Revision::parse(&wanted).filter(|revision| revision.era() == Era::Legacy);
    let revision = known.unwrap_or(Revision::LATEST_LEGACY);
    {
        let mut state = client.state();
        if state.welcomed {
            return Err(RpcError::request("initialized already: this connection has had its `initialize`"));
        }
        state.era = Some(Era::Legacy);
        state.welcomed = true;
        state.revision = Some(revision);
        state.capabilities = Bytes::copy_from_slice(&capabilities);
    }
    let (me, id) = (client.clone(), request.id.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.settled_view().await;
        {
            let mut state = me.state();
            state.seen = ListKind::ALL.map(|kind| Some(view.mark(kind, me.who())));
        }
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities_of(&me, Era::Legacy, &view),
            "serverInfo": server_info(),
        });
        add_instructions(&mut result, &me, &view);
        Some(success(&id, &result.to_string()))
    });
    Ok(())
}

/// `server/discover`
pub(super) fn discover(client: &Arc<Client>, request: Request, to: &Sink) {
    let (me, id) = (client.clone(), request.id.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.settled_view().await;
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": supported(),
            "capabilities": capabilities_of(&me, Era::Modern, &view),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        });
        add_instructions(&mut result, &me, &view);
        Some(success(&id, &result.to_string()))
    });
}

/// Who we are.
fn server_info() -> Value {
    json!({"name": "callboard", "title": "Callboard", "version": env!("CARGO_PKG_VERSION")})
}

/// What clients may use: lists always, the rest when a server has it. One that has not answered yet may
/// have any of it, and a client asks once.
fn capabilities_of(client: &Client, era: Era, view: &View) -> Value {
    let settling = client.host.is_settling(&client.pane());
    let known: Vec<Value> = view
        .catalog
        .servers
        .iter()
        .filter(|(server, _)| client.sees_server(server))
        .filter_map(|(_, all)| serde_json::from_slice(all.capabilities.as_ref()?).ok())
        .collect();
    let may = |pointer: &str| settling || known.iter().any(|can| can.pointer(pointer).is_some());
    let mut all = json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true},
        "prompts": {"listChanged": true},
    });
    if may("/completions") {
        all["completions"] = json!({});
    }
    // Modern servers are followed by listening, and don't say so.
    if may("/resources/subscribe") {
        all["resources"]["subscribe"] = json!(true);
    }
    if era == Era::Legacy && may("/logging") {
        all["logging"] = json!({});
    }
    if era == Era::Legacy && known.iter().any(|can| can.pointer("/tasks/requests/tools/call").is_some()) {
        all["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    }
    for key in ["experimental", "extensions"] {
        let mut merged = serde_json::Map::new();
        for (name, value) in known.iter().filter_map(|can| can[key].as_object()).flatten() {
            merged.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if !merged.is_empty() {
            all[key] = Value::Object(merged);
        }
    }
    all
}

fn add_instructions(result: &mut Value, client: &Client, view: &View) {
    let servers = view.catalog.servers.iter().filter(|(server, _)| client.sees_server(server));
    let parts: Vec<(&str, &str)> = servers
        .filter_map(|(server, all)| Some((server.as_str(), all.instructions.as_deref()?.trim())))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if let Some(text) = merged(&parts, client.pane().part.settings.instructions_max) {
        result["instructions"] = Value::from(text);
    }
}

/// The instructions of all servers as one text of at most `len_max` bytes: each part names its server;
/// what a short one leaves is there for the long ones.
fn merged(parts: &[(&str, &str)], len_max: usize) -> Option<String> {
    let heading = |name: &str| format!("# Server {name}\n");
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&index| parts[index].1.len());
    let mut cut: Vec<Option<&str>> = vec![None; parts.len()];
    let mut left = len_max;
    for (done, &index) in order.iter().enumerate() {
        let (name, text) = parts[index];
        let share = left / (parts.len() - done);
        // Two line ends part it from the next.
        let around = heading(name).len() + 2;
        let Some(room) = share.checked_sub(around + CUT.len()) else { continue };
        let whole = text.len() <= room + CUT.len();
        let fits = |at: &usize| text.is_char_boundary(*at);
        let end = if whole { text.len() } else { (0..=room).rev().find(fits).unwrap_or_default() };
        cut[index] = Some(&text[..end]);
        left -= around + end + if whole { 0 } else { CUT.len() };
    }
    let mut out = String::new();
    for ((name, text), kept) in parts.iter().zip(cut) {
        let Some(kept) = kept else { continue };
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(&heading(name));
        out.push_str(kept);
        out.push_str(if kept.len() < text.len() { CUT } else { "" });
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_name_their_server_and_fit() {
        assert_eq!(merged(&[], 100), None);
        assert_eq!(merged(&[("a", "use x")], 100).as_deref(), Some("# Server a\nuse x"));
        let long = "é".repeat(5000);
        let text = merged(&[("a", &long), ("b", "short"), ("c", &long)], 2000).unwrap();
        assert!(text.len() <= 2000 && text.len() > 1900, "{}", text.len());
        assert!(text.contains("# Server b\nshort\n\n") && text.matches(CUT).count() == 2);
        let many: Vec<(String, String)> = (0..200).map(|n| (format!("s{n}"), long.clone())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert!(merged(&many, 1024).is_none_or(|text| text.len() <= 1024));
    }
}
