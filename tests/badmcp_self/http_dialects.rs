//! Dialects of server-sent events, and other shapes of HTTP answers.

use serde_json::{Value, json};

use super::web::{Event, Web, timed};

/// The call's answer, its bytes, and its last event.
fn call(flags: &[&str]) -> (Value, String, Event) {
    let mut web = Web::opened(flags);
    let answer = web.call("echo", &json!({"text": "é, \"x\", y"}));
    assert!(answer.streams(), "{answer:?}");
    assert_eq!(answer.message()["result"]["content"][0]["text"], "é, \"x\", y");
    let event = answer.events().into_iter().rfind(|event| event.data_lines > 0).expect("an event");
    (answer.message(), answer.body, event)
}

#[test]
fn answers_are_json_unless_a_stream_is_asked_for() {
    let mut web = Web::opened(&[]);
    assert_eq!(web.call("t0", &json!({})).header("content-type"), "application/json");
    let (_, body, event) = call(&["--http-answer", "sse"]);
    assert_eq!((event.name.as_deref(), event.data_lines), (Some("message"), 1));
    assert!(body.ends_with("\n\n") && !body.contains('\r'));
    let mut forced = Web::opened(&["--http-answer", "json", "--sse-crlf"]);
    assert_eq!(forced.call("t0", &json!({})).header("content-type"), "application/json");
}

#[test]
fn lines_end_in_crlf_or_cr() {
    let (_, crlf, _) = call(&["--sse-crlf"]);
    assert!(crlf.ends_with("\r\n\r\n") && crlf.matches('\n').count() == crlf.matches("\r\n").count());
    let (_, cr, _) = call(&["--sse-cr"]);
    assert!(cr.ends_with("\r\r") && !cr.contains('\n'));
}

#[test]
fn data_stands_on_several_lines_and_is_the_same_json() {
    let (message, _, event) = call(&["--sse-multiline"]);
    assert!(event.data_lines >= 3, "{event:?}");
    assert_eq!(message["jsonrpc"], "2.0");
}

#[test]
fn comments_stand_before_events_and_names_can_be_missing() {
    let (_, body, event) = call(&["--sse-comments", "--sse-no-event-name"]);
    assert!(body.starts_with(": comment") && body.contains("x-unknown-field:"), "{body:?}");
    assert_eq!((event.name, event.comments), (None, 1));
}

#[test]
fn comments_keep_coming_while_a_call_takes_its_time() {
    let mut web = Web::opened(&["--sse-comments", "50/s", "--slow", "200"]);
    let (answer, took) = timed(|| web.call("t0", &json!({})));
    assert!(took.as_millis() >= 200);
    let comments: usize = answer.events().iter().map(|event| event.comments).sum();
    assert!((2..=13).contains(&comments), "{comments} comments");
    assert_eq!(answer.message()["result"]["content"][0]["text"], "t0 {}");
}

#[test]
fn a_stream_begins_with_an_empty_event_when_primed() {
    let (_, body, event) = call(&["--sse-prime"]);
    assert!(body.starts_with("id: 0\nretry: 100\ndata: \n\n"), "{body:?}");
    assert_eq!(event.id.as_deref(), Some("1"));
}

#[test]
fn content_types_may_name_a_charset() {
    let mut web = Web::opened(&["--content-charset"]);
    assert_eq!(web.call("t0", &json!({})).header("content-type"), "application/json; charset=utf-8");
    let mut streamed = Web::opened(&["--content-charset", "--http-answer", "sse"]);
    assert_eq!(streamed.call("t0", &json!({})).header("content-type"), "text/event-stream; charset=utf-8");
}

#[test]
fn all_dialects_at_once_arrive_byte_by_byte() {
    let flags = ["--sse-crlf", "--sse-multiline", "--sse-comments", "--sse-no-event-name", "--dribble", "1"];
    let (_, _, event) = call(&flags);
    assert!(event.data_lines >= 3);
}

#[test]
fn progress_turns_an_answer_into_a_stream() {
    let mut web = Web::opened(&["--slow", "100", "--progress-every", "20"]);
    let params = json!({"name": "t0", "arguments": {}, "_meta": {"progressToken": 5}});
    let answer = web.ask("tools/call", &params);
    assert_eq!((answer.streams(), answer.events().len()), (true, 4 + 1), "{answer:?}");
    let first: Value = serde_json::from_str(&answer.events()[0].data).expect("JSON");
    assert_eq!(first["params"]["progressToken"], 5);
}

#[test]
fn batches_and_huge_answers_travel_over_http_too() {
    let mut web = Web::start(&["--batch"]);
    assert!(web.ask("initialize", &json!({"protocolVersion": "2025-11-25"})).json().is_array());
    let mut huge = Web::opened(&["--huge-line", "1", "--http-answer", "sse"]);
    let answer = huge.call("t0", &json!({}));
    assert_eq!(answer.events()[0].data.len(), 1024 * 1024);
}
