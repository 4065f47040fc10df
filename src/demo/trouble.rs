//! Demo servers `crashy` and `hang`: well-behaved until they are asked the wrong thing.
//! Called through `peer`.

use serde_json::{Map, Value, json};

use super::peer::{Answer, Call, Server};

/// Exit code of a `crashy` that was asked to divide by zero (EX_SOFTWARE).
pub(super) const CRASH_CODE: u8 = 70;

/// Divides, and dies in mid-call when the divisor is zero.
pub(super) struct Crashy;

impl Server for Crashy {
    fn name(&self) -> &'static str {
        "crashy"
    }

    fn instructions(&self) -> &'static str {
        "Divides whole numbers. Its process dies on a division by zero, without an answer."
    }

    fn tools(&self) -> Vec<Value> {
        vec![json!({
            "name": "divide",
            "title": "Divide",
            "description": "Divides two whole numbers. A divisor of zero ends the process.",
            "inputSchema": {
                "type": "object",
                "properties": {"dividend": {"type": "integer"}, "divisor": {"type": "integer"}},
                "required": ["dividend", "divisor"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })]
    }

    fn call(&self, _tool: &str, arguments: &Map<String, Value>, _call: &Call) -> Answer {
        let number = |key: &str| arguments.get(key).and_then(Value::as_i64);
        let (Some(dividend), Some(divisor)) = (number("dividend"), number("divisor")) else {
            return Answer::refused("dividend and divisor must be whole numbers");
        };
        if divisor == 0 {
            return Answer::Die { code: CRASH_CODE, last_words: "crashy: division by zero, giving up" };
        }
        match dividend.checked_div(divisor) {
            Some(quotient) => Answer::text(quotient.to_string(), None),
            None => Answer::refused("the quotient does not fit into 64 bits"),
        }
    }
}

/// Connects, lists, and never answers a call.
pub(super) struct Hang;

impl Server for Hang {
    fn name(&self) -> &'static str {
        "hang"
    }

    fn instructions(&self) -> &'static str {
        "Takes every question and never answers one."
    }

    fn tools(&self) -> Vec<Value> {
        vec![json!({
            "name": "think",
            "title": "Think",
            "description": "Thinks about a question, for ever.",
            "inputSchema": {
                "type": "object",
                "properties": {"question": {"type": "string"}},
                "required": ["question"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })]
    }

    fn call(&self, _tool: &str, _arguments: &Map<String, Value>, _call: &Call) -> Answer {
        Answer::Never
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::End;
    use super::super::peer::tests::Piped;
    use super::*;

    #[test]
    fn a_division_by_zero_ends_the_process_without_an_answer() {
        let mut peer = Piped::start("crashy");
        assert_eq!(peer.call("divide", json!({"dividend": 84, "divisor": 2}))["content"][0]["text"], "42");
        let params = json!({"name": "divide", "arguments": {"dividend": 1, "divisor": 0}});
        peer.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}).to_string());
        let (rest, end) = peer.end();
        assert_eq!(rest, "");
        assert!(matches!(end, End::Died { code: CRASH_CODE, last_words } if last_words.contains("zero")));
    }

    #[test]
    fn what_cannot_be_divided_is_a_readable_error() {
        let mut peer = Piped::start("crashy");
        for arguments in [json!({}), json!({"dividend": i64::MIN, "divisor": -1}), json!({"dividend": 0.5})] {
            assert_eq!(peer.call("divide", arguments)["isError"], true);
        }
    }

    #[test]
    fn a_hanging_call_gets_no_answer_and_everything_else_does() {
        let mut peer = Piped::start("hang");
        for id in 0..100 {
            let params = json!({"name": "think", "arguments": {"question": "why?"}});
            peer.send(
                &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string(),
            );
        }
        assert_eq!(peer.ask("ping", json!({}))["result"], json!({}));
        assert_eq!(peer.ask("tools/list", json!({}))["result"]["tools"][0]["name"], "think");
        assert_eq!(peer.end(), (String::new(), End::Eof));
    }
}
