//! Ids and envelopes, and requests from server to client.

use serde_json::{Value, json};

use super::pipe::Pipe;
use super::web::{Web, timed};

#[test]
fn wrong_ids_follow_a_right_handshake() {
    for (word, fits) in [
        ("zero", (|id| *id == json!(0)) as fn(&Value) -> bool),
        ("null", Value::is_null),
        ("random", |id| id.as_u64() > Some(999_999)),
    ] {
        let mut pipe = Pipe::opened(&["--wrong-id", word]);
        pipe.begin("tools/list", &json!({}));
        let answer = pipe.message();
        assert!(fits(&answer["id"]) && answer["result"]["tools"].is_array(), "{word}: {answer}");
    }
}

#[test]
fn numeric_ids_come_back_as_strings() {
    let mut pipe = Pipe::start(&["--string-id"]);
    pipe.begin("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(pipe.message()["id"], "1");
    pipe.send(&json!({"jsonrpc": "2.0", "id": "text", "method": "ping"}));
    assert_eq!(pipe.message()["id"], "text");
}

#[test]
fn a_late_response_comes_even_if_cancelled_and_echo_is_prompt() {
    let mut pipe = Pipe::opened(&["--late-response", "250"]);
    let (late, took) = timed(|| {
        let late = pipe.begin_call("t0", &json!({}));
        pipe.notify("notifications/cancelled", &json!({"requestId": late}));
        assert_eq!(pipe.text("echo", &json!({"text": "now"})), "now");
        assert!(pipe.aside.is_empty());
        pipe.answer(late)
    });
    assert_eq!(late["result"]["content"][0]["text"], "t0 {}");
    assert!(took.as_millis() >= 250, "{took:?}");
}

#[test]
fn answers_leave_in_reverse_order() {
    let mut pipe = Pipe::opened(&["--slow", "100", "--reorder"]);
    let ids: Vec<u64> = (0..5).map(|n| pipe.begin_call("echo", &json!({"text": n.to_string()}))).collect();
    for (n, id) in ids.iter().enumerate().rev() {
        let answer = pipe.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(id), &json!(n.to_string()))
        );
    }
    let mut quick = Pipe::opened(&["--reorder"]);
    quick.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":71,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":72,\"method\":\"ping\"}\n");
    assert_eq!([quick.message()["id"].clone(), quick.message()["id"].clone()], [72, 71]);
}

#[test]
fn every_answer_comes_twice() {
    let mut pipe = Pipe::start(&["--answer-twice"]);
    let id = pipe.begin("ping", &json!({}));
    assert_eq!([pipe.message()["id"].clone(), pipe.message()["id"].clone()], [id, id]);
    let mut web = Web::opened(&["--answer-twice", "--http-answer", "sse"]);
    assert_eq!(web.ask("ping", &json!({})).events().len(), 2);
}

#[test]
fn errors_stand_where_they_are_asked_for() {
    let mut pipe = Pipe::opened(&["--rpc-error", "-32042", "--error-data", r#"{"k":1}"#]);
    assert_eq!(pipe.tools().len(), 13);
    let error = pipe.call("t0", &json!({}))["error"].clone();
    assert_eq!(
        error,
        json!({"code": -32042, "message": "badmcp answers with error -32042", "data": {"k": 1}})
    );
    let mut lists = Pipe::opened(&["--rpc-error", "-32000@list"]);
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        assert_eq!(lists.ask(method, &json!({}))["error"]["code"], -32000, "{method}");
    }
    assert_eq!(lists.text("t0", &json!({})), "t0 {}");
    let mut start = Pipe::start(&["--rpc-error", "-32603@start"]);
    assert_eq!(start.initialize("2025-11-25")["error"]["code"], -32603);
}

#[test]
fn the_client_is_asked_and_its_codes_are_listed() {
    let mut pipe = Pipe::opened(&["--request", "sampling,elicitation,unknown@call", "--request-wait"]);
    let call = pipe.begin_call("t0", &json!({}));
    let asked: Vec<Value> = (0..3).map(|_| pipe.message()).collect();
    let methods: Vec<&str> = asked.iter().filter_map(|m| m["method"].as_str()).collect();
    assert_eq!(methods, ["sampling/createMessage", "elicitation/create", "vendor/unknown"]);
    assert_eq!(asked[1]["params"]["requestedSchema"]["type"], "object");
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    for (question, code) in asked.iter().zip([-32601, -32602]) {
        pipe.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": code, "message": "no"}}));
    }
    pipe.send(&json!({"jsonrpc": "2.0", "id": asked[2]["id"], "result": {}}));
    let answer = pipe.answer(call);
    let codes: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(
        codes,
        json!({"sampling/createMessage": -32601, "elicitation/create": -32602, "vendor/unknown": "result"})
    );
    let codes: Vec<Value> =
        pipe.trace().iter().filter(|e| e["ev"] == "replied").map(|e| e["code"].clone()).collect();
    assert_eq!(codes, [json!(-32601), json!(-32602), Value::Null]);
}

#[test]
fn without_waiting_the_call_is_answered_at_once() {
    let mut pipe = Pipe::opened(&["--request", "roots,ping", "@call"]);
    assert_eq!(pipe.text("t0", &json!({})), "t0 {}");
    let methods: Vec<&str> = pipe.aside.iter().filter_map(|m| m["method"].as_str()).collect();
    assert_eq!(methods, ["roots/list", "ping"]);
}

#[test]
fn over_http_the_questions_come_on_the_calls_stream() {
    let mut web = Web::opened(&["--request", "sampling,ping@call", "--request-wait"]);
    let call = web.message("tools/call", &json!({"name": "t0", "arguments": {}}));
    let mut wire = web.send("/mcp", &call);
    assert!(wire.head().expect("a head").streams());
    for _ in 0..2 {
        let question = wire.message();
        let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
        assert_eq!(web.post(&reply).status, 202);
    }
    let text = wire.message()["result"]["content"][0]["text"].clone();
    assert_eq!(text, r#"{"sampling/createMessage":"result","ping":"result"}"#);
}

#[test]
fn ping_is_silent_or_unsupported() {
    let mut silent = Pipe::opened(&["--ping-silent"]);
    silent.begin("ping", &json!({}));
    assert_eq!(silent.tools().len(), 13);
    assert!(silent.aside.is_empty());
    let mut unsupported = Pipe::opened(&["--ping-unsupported"]);
    assert_eq!(unsupported.ask("ping", &json!({}))["error"]["code"], -32601);
}

#[test]
fn a_log_message_comes_before_the_answer_of_a_call() {
    let mut pipe = Pipe::opened(&["--log-on-call"]);
    pipe.call("t0", &json!({}));
    assert_eq!(pipe.aside[0]["params"]["data"], "t0 is called");
    let mut web = Web::opened(&["--log-on-call"]);
    let answer = web.call("t0", &json!({}));
    assert_eq!((answer.streams(), answer.events().len()), (true, 2));
}
