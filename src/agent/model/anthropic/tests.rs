//! Messages, both ways.

use serde_json::json;

use super::super::openai::sample;
use super::*;
use crate::agent::chat::ToolCall;

fn read(events: &[Value]) -> Result<Vec<ModelEvent>, ModelError> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for event in events {
        decoder.event(event.to_string().as_bytes(), &mut out)?;
    }
    decoder.end(&mut out)?;
    Ok(out)
}

#[test]
fn a_request_pairs_results_with_calls_and_marks_what_is_to_be_kept() {
    let wishes = Wishes { model: "m".into(), sees: true, ..Wishes::default() };
    let body: Value = serde_json::from_slice(&body(&sample(), &wishes).unwrap()).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "roles alternate");
    assert_eq!(messages[1]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
    assert_eq!(messages[1]["content"][2]["input"], json!({"n": 1.0}));
    assert_eq!(messages[1]["content"][3]["input"], json!({}));
    let result = &messages[2]["content"][0];
    assert_eq!((&result["type"], &result["tool_use_id"]), (&json!("tool_result"), &json!("a")));
    assert_eq!(result["content"][1]["source"]["media_type"], "image/png");
    assert_eq!(messages[2]["content"][1]["is_error"], true);
    assert_eq!(messages[2]["content"][2]["cache_control"]["type"], "ephemeral");
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
    assert_eq!(body["max_tokens"], 8192);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
}

#[test]
fn text_reasoning_and_calls_come_out_of_their_blocks() {
    let told = read(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"n\""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
        json!({"type": "something_new"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]);
    let call = ToolCall { id: "a".into(), name: "x".into(), arguments: "{\"n\":1}".into() };
    assert_eq!(
        told.unwrap(),
        [
            ModelEvent::Reasoning("hm".into()),
            ModelEvent::Reasoned(Reasoning {
                text: "hm".into(),
                signature: "s".into(),
                hidden: String::new()
            }),
            ModelEvent::Text("hi".into()),
            ModelEvent::Calling("x".into()),
            ModelEvent::Usage(Usage { input: 5, cache_read: 7, cache_write: 0, output: 9 }),
            ModelEvent::Call(call),
            ModelEvent::Stop(Stop::Calls),
        ]
    );
}

#[test]
fn an_error_in_the_stream_and_a_stream_that_breaks_off_are_errors() {
    let busy = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert!(read(&[busy]).unwrap_err().may_pass);
    let begun =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}});
    assert!(read(&[begun]).is_err());
    assert!(Decoder::default().event(b"{}", &mut Vec::new()).is_err());
}
