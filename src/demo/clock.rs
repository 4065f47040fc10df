//! Demo server `clock`: tells the time, and waits with progress. Called through `peer`.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::peer::{Answer, Call, Server};
use crate::time;

/// Longest wait, in seconds.
const WAIT_MAX: f64 = 30.0;

/// Progress reports in one wait.
const PROGRESS_STEPS: u32 = 5;

pub(super) struct Clock;

impl Server for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn instructions(&self) -> &'static str {
        "Tells the time in UTC and can wait."
    }

    fn tools(&self) -> Vec<Value> {
        let hints = json!({"readOnlyHint": true, "openWorldHint": false});
        vec![
            json!({
                "name": "now",
                "title": "Time now",
                "description": "The time in UTC, as text and in milliseconds since 1970.",
                "inputSchema": {"type": "object", "additionalProperties": false},
                "outputSchema": {
                    "type": "object",
                    "properties": {"utc": {"type": "string"}, "unix_ms": {"type": "integer"}},
                    "required": ["utc", "unix_ms"],
                },
                "annotations": hints,
            }),
            json!({
                "name": "wait",
                "title": "Wait",
                "description": "Waits, and reports progress while it does.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"seconds": {
                        "type": "number", "minimum": 0, "maximum": WAIT_MAX, "description": "How long",
                    }},
                    "required": ["seconds"],
                    "additionalProperties": false,
                },
                "annotations": hints,
            }),
        ]
    }

    fn is_slow(&self, tool: &str) -> bool {
        tool == "wait"
    }

    fn call(&self, tool: &str, arguments: &Map<String, Value>, call: &Call) -> Answer {
        if tool == "now" {
            let now = time::wall();
            let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default();
            let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
            let utc = time::rfc3339(now);
            return Answer::text(utc.clone(), Some(json!({"utc": utc, "unix_ms": unix_ms})));
        }
        let Some(seconds) = arguments.get("seconds").and_then(Value::as_f64) else {
            return Answer::refused("seconds is missing: a number from 0 to 30");
        };
        if !(0.0..=WAIT_MAX).contains(&seconds) {
            return Answer::refused(format!("seconds is {seconds}; it must be from 0 to {WAIT_MAX}"));
        }
        let step = Duration::from_secs_f64(seconds) / PROGRESS_STEPS;
        for done in 1..=PROGRESS_STEPS {
            if call.wait(step) {
                return Answer::Never;
            }
            call.progress(done, PROGRESS_STEPS, "waiting");
        }
        Answer::text(format!("waited {seconds} s"), None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::tests::Piped;
    use super::*;

    #[test]
    fn now_is_told_as_text_and_as_a_number() {
        let mut peer = Piped::start("clock");
        let result = peer.call("now", json!({}));
        assert_eq!(result["content"][0]["text"], result["structuredContent"]["utc"]);
        assert!(result["structuredContent"]["unix_ms"].as_u64().unwrap() > 1_700_000_000_000);
    }

    #[test]
    fn a_wait_reports_progress_to_the_token_that_asked() {
        let mut peer = Piped::start("clock");
        let params = json!({"name": "wait", "arguments": {"seconds": 0.01}, "_meta": {"progressToken": "p"}});
        peer.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string());
        for done in 1..=PROGRESS_STEPS {
            let report = peer.receive();
            assert_eq!(report["method"], "notifications/progress");
            assert_eq!(report["params"]["progressToken"], "p");
            assert_eq!(report["params"]["progress"], done);
        }
        assert_eq!(peer.receive()["result"]["content"][0]["text"], "waited 0.01 s");
    }

    #[test]
    fn others_are_answered_during_a_wait_and_a_cancelled_wait_stays_silent() {
        let mut peer = Piped::start("clock");
        let params = json!({"name": "wait", "arguments": {"seconds": 30}});
        peer.send(
            &json!({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params}).to_string(),
        );
        assert_eq!(peer.ask("ping", json!({}))["result"], json!({}));
        let cancelled = json!({"requestId": "w"});
        peer.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}).to_string(),
        );
        assert!(peer.call("now", json!({})).is_object());
        assert_eq!(peer.end().0, "");
    }

    #[test]
    fn a_wait_that_is_too_long_or_no_number_is_a_readable_error() {
        let mut peer = Piped::start("clock");
        for arguments in [json!({}), json!({"seconds": "3"}), json!({"seconds": 31}), json!({"seconds": -1})]
        {
            let result = peer.call("wait", arguments);
            assert_eq!(result["isError"], true);
            assert!(result["content"][0]["text"].as_str().unwrap().contains("30"));
        }
    }
}
