//! The session id that a legacy server hands out, and how to tell that the server has
//! forgotten it: 404 by the protocol, and the other spellings that servers use. Pure.
//! Wrongly reading an answer as "session lost" would send a call twice, so every
//! spelling but 404 must speak of nothing else than the session.

use crate::wire::envelope::{self, Envelope, EnvelopeError};

/// Longest body that can be a "session lost" message outside of 404, in bytes.
const LOST_BODY_MAX: usize = 4096;
/// Longest message that is looked at, in words.
const LOST_WORDS_MAX: usize = 24;

/// One id out of the `Mcp-Session-Id` header lines of an answer. A header sent twice,
/// also when a proxy joined it to `a, a`, is one id. `None`: no usable id.
pub(super) fn id<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let first =
        lines.filter_map(|line| std::str::from_utf8(line).ok()).find(|line| !line.trim().is_empty())?;
    let mut parts = first.split(',').map(str::trim);
    let head = parts.next().unwrap_or_default();
    let one = if parts.all(|part| part == head) { head } else { first.trim() };
    let legal = !one.is_empty() && one.bytes().all(|b| (0x20..=0x7e).contains(&b));
    legal.then(|| one.to_owned())
}

/// Whether the answer to request `ours`, which was sent with a session id, says that
/// the server does not know that session.
pub(super) fn is_lost(status: u16, body: &[u8], ours: u64) -> bool {
    match status {
        404 => !is_own_answer(body, ours),
        200 => body.len() <= LOST_BODY_MAX && rpc_error(body, ours).is_some_and(|e| e.speaks_of_session()),
        400 | 410 if body.len() <= LOST_BODY_MAX => match rpc_error(body, ours) {
            Some(error) => error.speaks_of_session(),
            None => texts(body).iter().any(|text| says_lost(text)),
        },
        _ => false,
    }
}

/// A 404 that is the answer itself: a result, or an error about the method or its
/// parameters (servers send −32601 with 404).
fn is_own_answer(body: &[u8], ours: u64) -> bool {
    match envelope::parse(body) {
        Ok(Envelope::Response(response)) if response.number == Some(ours) => {
            !response.is_error
                || rpc_error(body, ours)
                    .is_some_and(|e| matches!(e.code, -32601 | -32602) && !says_lost(&e.message))
        }
        _ => false,
    }
}

struct RpcError {
    code: i64,
    message: String,
}

impl RpcError {
    /// Errors of the protocol layer have codes from −32768 to −32000; what tools
    /// report about sessions of their own has others.
    fn speaks_of_session(&self) -> bool {
        (-32768..=-32000).contains(&self.code) && says_lost(&self.message)
    }
}

/// The JSON-RPC error in `body`, if it is one that can belong to request `ours`:
/// its own id, or an id of no number (`null`, `"server-error"`, none).
fn rpc_error(body: &[u8], ours: u64) -> Option<RpcError> {
    match envelope::parse(body) {
        Ok(Envelope::Response(r)) if r.is_error && r.number.is_none_or(|n| n == ours) => {}
        // An error without an id is no valid message, and common for this very case.
        Err(EnvelopeError::Malformed { number, .. }) if number.is_none_or(|n| n == ours) => {}
        _ => return None,
    }
    if envelope::member(body, "result").is_some() {
        return None;
    }
    let error = &body[envelope::member(body, "error")?];
    let code = std::str::from_utf8(&error[envelope::member(error, "code")?]).ok()?.parse().ok()?;
    let message = serde_json::from_slice(&error[envelope::member(error, "message")?]).ok()?;
    Some(RpcError { code, message })
}

/// The texts in which an HTTP error says what is wrong: the usual members of a JSON
/// object, or the plain text itself.
fn texts(body: &[u8]) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return std::str::from_utf8(body).map(|text| vec![text.to_owned()]).unwrap_or_default();
    };
    let nested = ["message", "error", "detail", "description", "title", "reason"];
    let mut found = Vec::new();
    let mut objects = vec![&value];
    while let Some(object) = objects.pop() {
        for key in nested {
            match object.get(key) {
                Some(serde_json::Value::String(text)) => found.push(text.clone()),
                Some(inner @ serde_json::Value::Object(_)) => objects.push(inner),
                _ => {}
            }
        }
    }
    found
}

/// Words that such a message is made of. Anything else in it, and it is about
/// something else ("your login session expired", "browser session not found").
const WORDS: &str = "a active again an and anymore associated bad been by client closed could does doesn error \
    exist exists expired for found given gone has have header http id identifier in \
    initialise initialize invalid is it longer mcp missing must new no not of on or please \
    provided re reconnect reinitialize request server session sessionid stale start such t \
    terminated the this to transport unknown valid was with your";

/// What can have happened to a session.
const FATES: &[&[&str]] = &[
    &["not", "found"],
    &["not", "exist"],
    &["t", "exist"],
    &["not", "valid"],
    &["no", "valid"],
    &["no", "such"],
    &["no", "session"],
    &["no", "active"],
    &["no", "longer"],
    &["terminated"],
    &["expired"],
    &["invalid"],
    &["unknown"],
    &["closed"],
    &["gone"],
    &["stale"],
];

/// Whether a text says that a session is lost, and nothing else. Ids in it are skipped.
fn says_lost(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty() && !looks_like_id(w))
        .take(LOST_WORDS_MAX + 1)
        .collect();
    words.len() <= LOST_WORDS_MAX
        && words.iter().any(|w| matches!(*w, "session" | "sessionid"))
        && words.iter().all(|w| WORDS.split(' ').any(|known| known == *w))
        && FATES.iter().any(|fate| words.windows(fate.len()).any(|run| run == *fate))
}

fn looks_like_id(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit()) || (word.len() >= 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(lines: &[&str]) -> Option<String> {
        id(lines.iter().map(|l| l.as_bytes()))
    }

    #[test]
    fn a_session_header_sent_twice_is_one_id() {
        let cases: [(&[&str], Option<&str>); 10] = [
            (&["abc"], Some("abc")),
            (&["abc", "abc"], Some("abc")),
            (&["abc, abc"], Some("abc")),
            (&["abc,abc,abc"], Some("abc")),
            (&["  abc "], Some("abc")),
            (&["a,b"], Some("a,b")),
            (&["", "abc"], Some("abc")),
            (&[], None),
            (&[" "], None),
            (&["bad\u{7f}id"], None),
        ];
        for (lines, want) in cases {
            assert_eq!(from(lines).as_deref(), want, "{lines:?}");
        }
    }

    #[test]
    fn messages_about_a_lost_session_are_recognised() {
        for text in [
            "Session not found",
            "session not found",
            "Session terminated",
            "Session has been terminated",
            "Session expired",
            "Invalid session ID",
            "Invalid or expired session id",
            "Invalid sessionId",
            "Unknown session",
            "Bad Request: No valid session ID provided",
            "Bad Request: Session not found",
            "Not Found: Session ID does not exist",
            "Session 0f8fad5b-d9cb-469f-a165-70867728950e not found.",
            "Error: session doesn't exist anymore",
            "Mcp-Session-Id is invalid",
            "No active session for this ID; please re-initialize",
        ] {
            assert!(says_lost(text), "{text}");
        }
    }

    #[test]
    fn messages_about_anything_else_are_not() {
        for text in [
            "Your login session expired",
            "Browser session not found",
            "User session invalid, run auth_login first",
            "Session created",
            "not found",
            "Unknown tool: session_expired",
            "tmux session not found",
            "chat session does not exist",
            "",
        ] {
            assert!(!says_lost(text), "{text}");
        }
    }

    #[test]
    fn each_spelling_of_a_lost_session_counts_with_its_status() {
        let own = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}"#;
        let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session terminated"}}"#;
        let bare = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
        let named =
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#;
        let cases = [
            (404, "", true),
            (404, "Not Found", true),
            (404, own, true),
            (404, null, true),
            (404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Not Found"}}"#, true),
            (404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}"#, false),
            (404, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, false),
            (200, own, true),
            (200, null, true),
            (200, bare, true),
            (400, own, true),
            (400, named, true),
            (400, bare, true),
            (400, "Session not found", true),
            (400, r#"{"error":"Invalid session ID"}"#, true),
            (400, r#"{"error":{"message":"Session expired"}}"#, true),
            (400, r#"{"detail":"missing field"}"#, false),
            (410, "session gone", true),
            (403, own, false),
            (500, own, false),
            (200, "Session not found", false),
            (200, r#"{"error":"Session not found"}"#, false),
        ];
        for (status, body, want) in cases {
            assert_eq!(is_lost(status, body.as_bytes(), 7), want, "{status} {body}");
        }
    }

    #[test]
    fn what_a_tool_says_about_its_own_sessions_is_its_answer() {
        for body in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"Session not found"}],"isError":true}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"Session expired"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Jira session expired"}}"#,
            r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32001,"message":"Session not found"}}"#,
        ] {
            assert!(!is_lost(200, body.as_bytes(), 7), "{body}");
        }
    }

    #[test]
    fn a_long_answer_is_never_a_lost_session() {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32001,"message":"Session not found","data":"{}"}}}}"#,
            "x".repeat(LOST_BODY_MAX)
        );
        assert!(!is_lost(200, body.as_bytes(), 7));
    }
}
