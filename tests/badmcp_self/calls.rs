//! How calls take their time: slowness, progress, cancellation, arguments.

use serde_json::{Value, json};

use super::pipe::Pipe;
use super::web::{Web, timed};

#[test]
fn slow_calls_take_their_time_side_by_side() {
    let mut pipe = Pipe::opened(&["--slow", "200"]);
    let (_, took) = timed(|| {
        let ids: Vec<u64> =
            (0..10).map(|n| pipe.begin_call("echo", &json!({"text": n.to_string()}))).collect();
        for (n, id) in ids.iter().enumerate() {
            let at = pipe.aside.iter().position(|m| m["id"] == *id);
            let answer = if let Some(at) = at { pipe.aside[at].clone() } else { pipe.answer(*id) };
            assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
        }
    });
    assert!((200..1500).contains(&took.as_millis()), "{took:?}");
}

fn call_with_token(pipe: &mut Pipe, token: &Value) -> u64 {
    pipe.begin("tools/call", &json!({"name": "t0", "arguments": {}, "_meta": {"progressToken": token}}))
}

#[test]
fn progress_carries_the_requests_token_and_grows() {
    let mut pipe = Pipe::opened(&["--slow", "130", "--progress-every", "20"]);
    let id = call_with_token(&mut pipe, &json!("tok-1"));
    assert_eq!(pipe.answer(id)["result"]["content"][0]["text"], "t0 {}");
    let steps: Vec<&Value> = pipe.aside.iter().map(|m| &m["params"]).collect();
    assert_eq!(steps.len(), 6, "at 20, 40, … 120 ms");
    assert!(steps.iter().all(|p| p["progressToken"] == "tok-1" && p["total"] == 7));
    assert!(steps.windows(2).all(|w| w[0]["progress"].as_u64() < w[1]["progress"].as_u64()));
    pipe.aside.clear();
    pipe.call("t0", &json!({}));
    assert!(pipe.aside.is_empty(), "no token, no progress");
}

#[test]
fn endless_progress_never_answers_and_ends_with_a_cancellation() {
    let mut pipe = Pipe::opened(&["--progress-forever", "--progress-every", "5"]);
    let id = call_with_token(&mut pipe, &json!(9));
    for _ in 0..5 {
        assert_eq!(pipe.message()["params"]["progressToken"], 9);
    }
    pipe.notify("notifications/cancelled", &json!({"requestId": id}));
    assert_eq!(pipe.traced("cancelled", |_| true), pipe.traced("cancelled", |e| e["running"] == true));
    let (rest, _) = pipe.finish();
    assert!(rest.iter().all(|line| line.contains("notifications/progress")));
}

#[test]
fn a_cancelled_call_is_honoured_by_default() {
    let mut pipe = Pipe::opened(&["--slow", "60000"]);
    let id = pipe.begin_call("t0", &json!({}));
    pipe.notify("notifications/cancelled", &json!({"requestId": id, "reason": "enough"}));
    pipe.traced("cancelled", |e| e["id"] == id && e["running"] == true);
    let (rest, status) = pipe.finish();
    assert_eq!((rest.len(), status.code()), (0, Some(0)));
    assert!(!pipe.trace().iter().any(|e| e["ev"] == "executed"));
}

#[test]
fn cancellation_is_ignored_on_request() {
    let mut pipe = Pipe::opened(&["--slow", "150", "--on-cancel", "ignore"]);
    let id = pipe.begin_call("t0", &json!({}));
    pipe.notify("notifications/cancelled", &json!({"requestId": id}));
    assert_eq!(pipe.answer(id)["result"]["content"][0]["text"], "t0 {}");
}

#[test]
fn strict_arguments_must_be_an_object() {
    let mut pipe = Pipe::opened(&["--strict-args"]);
    for params in [
        json!({"name": "t0"}),
        json!({"name": "t0", "arguments": null}),
        json!({"name": "t0", "arguments": []}),
    ] {
        assert_eq!(pipe.ask("tools/call", &params)["error"]["code"], -32602, "{params}");
    }
    assert_eq!(pipe.text("t0", &json!({})), "t0 {}");
}

#[test]
fn a_failing_tool_says_so_in_its_result() {
    let mut pipe = Pipe::opened(&["--is-error"]);
    let result = pipe.call("t0", &json!({}))["result"].clone();
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "the tool failed: t0 {}"}], "isError": true})
    );
}

#[test]
fn over_http_a_call_is_cancelled_by_notification_and_its_stream_ends() {
    let mut web = Web::opened(&["--slow", "60000"]);
    let call = web.message("tools/call", &json!({"name": "t0", "arguments": {}}));
    let mut wire = web.send("/mcp", &call);
    web.pipe.traced("in", |e| e["method"] == "tools/call");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call["id"]}});
    super::pipe::eventually("the call runs", || {
        web.post(&cancel);
        web.count("cancelled", |e| e["running"] == true).gt(&0).then_some(())
    });
    let answer = wire.read().expect("an end");
    assert_eq!((answer.streams(), answer.events().len(), answer.cut), (true, 0, false));
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let mut web = Web::opened(&["--slow", "60000"]);
    let call = web.message("tools/call", &json!({"name": "t0", "arguments": {}}));
    let wire = web.send("/mcp", &call);
    web.pipe.traced("in", |e| e["method"] == "tools/call");
    drop(wire);
    web.pipe.traced("client-left", |e| e["tool"] == "t0");
}
