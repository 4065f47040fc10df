//! Ollama's own protocol, both ways.

use serde_json::{Value, json};

use super::super::openai::sample;
use super::*;
use crate::agent::chat::ToolCall;

#[test]
fn a_request_asks_for_the_window_and_has_arguments_as_objects() {
    let wishes = Wishes { model: "m".into(), window: Some(32_768), sees: true, ..Wishes::default() };
    let body: Value = serde_json::from_slice(&body(&sample(), &wishes).unwrap()).unwrap();
    assert_eq!(body["options"]["num_ctx"], 32_768);
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], json!({"n": 1.0}));
    assert_eq!(body["messages"][3]["tool_name"], "t");
    assert_eq!(body["messages"][5]["images"], json!(["AAAA"]));
}

#[test]
fn several_calls_of_one_answer_are_told_apart() {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    let function = |n: u64| json!({"function": {"name": "x", "arguments": {"n": n}}});
    for line in [
        json!({"message": {"role": "assistant", "content": "hi", "thinking": "hm"}, "done": false}),
        json!({"message": {"role": "assistant", "content": "", "tool_calls": [function(1), function(2)]}, "done": false}),
        json!({"message": {"role": "assistant", "content": "", "tool_calls": [function(3)]}, "done": false}),
        json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 4, "eval_count": 2}),
    ] {
        decoder.event(line.to_string().as_bytes(), &mut out).unwrap();
    }
    decoder.end(&mut out).unwrap();
    let call = |n: u64| {
        ModelEvent::Call(ToolCall {
            id: String::new(),
            name: "x".into(),
            arguments: format!("{{\"n\":{n}}}"),
        })
    };
    assert_eq!(out[..2], [ModelEvent::Reasoning("hm".into()), ModelEvent::Text("hi".into())]);
    assert_eq!(out[6..9], [call(1), call(2), call(3)]);
    assert_eq!(out[5], ModelEvent::Usage(Usage { input: 4, output: 2, ..Usage::default() }));
    assert_eq!(out[9], ModelEvent::Stop(Stop::Calls));
}

#[test]
fn an_error_line_and_a_stream_that_breaks_off_are_errors() {
    let mut decoder = Decoder::default();
    assert!(decoder.event(br#"{"error":"no such model"}"#, &mut Vec::new()).is_err());
    decoder.event(br#"{"message":{"content":"hi"},"done":false}"#, &mut Vec::new()).unwrap();
    assert!(decoder.end(&mut Vec::new()).is_err());
}
