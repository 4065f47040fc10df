//! The few JSON-RPC messages that the HTTP link builds or looks into itself: the
//! `_meta` of a request, what a handshake answered, cancellation, `subscriptions/listen`.
//! Pure. Everything else passes through unread.

use bytes::Bytes;

use crate::wire::envelope::{self, Envelope};
use crate::wire::era::Revision;
use crate::wire::splice::{self, Parts};

/// `_meta` key that says which revision a request speaks.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` keys that every modern request carries.
const META_KEYS: [&str; 3] =
    [META_VERSION, "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities"];
/// Opens a stream of notifications in the modern era.
pub(super) const LISTEN: &str = "subscriptions/listen";
/// The filter of `subscriptions/listen` per capability.
const LISTS: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];

/// The method of a notification or request; `None` for answers and anything else.
pub(super) fn method(message: &[u8]) -> Option<String> {
    match envelope::parse(message) {
        Ok(Envelope::Notification { method, .. } | Envelope::Request { method, .. }) => {
            Some(String::from_utf8_lossy(&message[method]).into_owned())
        }
        _ => None,
    }
}

/// The `params._meta` object of a request.
pub(super) fn meta(message: &[u8]) -> Option<&[u8]> {
    let params = &message[envelope::member(message, "params")?];
    Some(&params[envelope::member(params, "_meta")?])
}

/// The revision that a request names in its `_meta`.
pub(super) fn meta_version(message: &[u8]) -> Option<Revision> {
    let meta = meta(message)?;
    text(meta, META_VERSION).and_then(|version| Revision::parse(&version))
}

/// The `protocolVersion` of an `initialize` answer, as text.
pub(super) fn negotiated(frame: &[u8]) -> Option<String> {
    let result = &frame[envelope::member(frame, "result")?];
    text(result, "protocolVersion")
}

/// The `message` of an error answer.
pub(super) fn error_message(frame: &[u8]) -> Option<String> {
    let error = &frame[envelope::member(frame, "error")?];
    text(error, "message")
}

/// The `params` for `subscriptions/listen` that ask for all list changes which the
/// server declares in its `server/discover` answer; `None` when it declares none.
pub(super) fn listen_params(discover_request: &[u8], discover_answer: &[u8]) -> Option<Bytes> {
    let result = &discover_answer[envelope::member(discover_answer, "result")?];
    let capabilities = &result[envelope::member(result, "capabilities")?];
    let wanted: Vec<String> = LISTS
        .iter()
        .filter(|(capability, _)| declares_changes(capabilities, capability))
        .map(|(_, filter)| format!("\"{filter}\":true"))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let meta = meta(discover_request)?;
    let kept: Vec<String> = META_KEYS
        .iter()
        .filter_map(|key| {
            let value = std::str::from_utf8(&meta[envelope::member(meta, key)?]).ok()?;
            Some(format!("\"{key}\":{value}"))
        })
        .collect();
    let (wanted, kept) = (wanted.join(","), kept.join(","));
    Some(format!("{{\"notifications\":{{{wanted}}},\"_meta\":{{{kept}}}}}").into())
}

/// `subscriptions/listen` with these params.
pub(super) fn listen(id: u64, params: Bytes) -> Parts {
    let mut parts = Parts::default();
    parts.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{LISTEN}\",\"params\":"));
    parts.push(params);
    parts.push(Bytes::from_static(b"}"));
    parts
}

/// `notifications/cancelled` for a request of ours.
pub(super) fn cancelled(id: u64, reason: &str) -> Bytes {
    let params = serde_json::json!({ "requestId": id, "reason": reason }).to_string();
    splice::notification("notifications/cancelled", Some(&params))
}

fn declares_changes(capabilities: &[u8], name: &str) -> bool {
    let Some(span) = envelope::member(capabilities, name) else { return false };
    let capability = &capabilities[span];
    envelope::member(capability, "listChanged").is_some_and(|span| &capability[span] == b"true")
}

fn text(object: &[u8], key: &str) -> Option<String> {
    serde_json::from_slice(&object[envelope::member(object, key)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVER: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    #[test]
    fn the_revision_of_a_modern_request_is_read_from_its_meta() {
        assert_eq!(meta_version(DISCOVER), Some(Revision::R2026_07_28));
        assert_eq!(meta_version(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#), None);
        assert_eq!(meta_version(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), None);
    }

    #[test]
    fn listen_asks_for_exactly_the_list_changes_that_the_server_declares() {
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"subscribe":true,"listChanged":true}}}}"#;
        let params = listen_params(DISCOVER, answer).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&params).unwrap();
        assert_eq!(
            value["notifications"],
            serde_json::json!({"toolsListChanged": true, "resourcesListChanged": true})
        );
        let meta = value["_meta"].as_object().unwrap();
        assert_eq!(meta.len(), 3);
        assert_eq!(meta[META_VERSION], "2026-07-28");
        let listen: serde_json::Value = serde_json::from_slice(&listen(9, params).to_bytes()).unwrap();
        assert_eq!((&listen["id"], &listen["method"]), (&9.into(), &"subscriptions/listen".into()));
    }

    #[test]
    fn a_server_without_list_changes_is_not_listened_to() {
        for capabilities in
            ["{}", r#"{"tools":{}}"#, r#"{"tools":{"listChanged":false}}"#, r#"{"tools":null}"#]
        {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"capabilities":{capabilities}}}}}"#);
            assert_eq!(listen_params(DISCOVER, answer.as_bytes()), None, "{capabilities}");
        }
        assert_eq!(
            listen_params(DISCOVER, br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#),
            None
        );
    }

    #[test]
    fn a_cancellation_names_the_request_as_it_was_sent() {
        let value: serde_json::Value = serde_json::from_slice(&cancelled(42, "user \"left\"\n")).unwrap();
        assert_eq!(value["method"], "notifications/cancelled");
        assert_eq!(value["params"], serde_json::json!({"requestId": 42, "reason": "user \"left\"\n"}));
    }

    #[test]
    fn handshake_answers_are_read() {
        let frame = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(negotiated(frame).as_deref(), Some("2025-06-18"));
        let frame = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!((negotiated(frame), error_message(frame).as_deref()), (None, Some("no")));
    }
}
