//! Chat Completions, both ways.

use serde_json::json;

use super::*;
use crate::agent::chat::ToolCall;

fn read(chunks: &[Value]) -> Result<Vec<ModelEvent>, ModelError> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for chunk in chunks {
        decoder.event(chunk.to_string().as_bytes(), &mut out)?;
    }
    decoder.event(b"[DONE]", &mut out)?;
    decoder.end(&mut out)?;
    Ok(out)
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn call(id: &str, name: &str, arguments: &str) -> ModelEvent {
    ModelEvent::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

#[test]
fn a_request_has_each_call_with_its_answer_and_images_behind_them() {
    let wishes =
        Wishes { model: "m".into(), max_output: 9, temperature: Some(0.5), sees: true, ..Wishes::default() };
    let body: Value = serde_json::from_slice(&body(&sample(), &wishes).unwrap()).unwrap();
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"n":1.00}"#);
    assert_eq!(body["messages"][2]["tool_calls"][1]["function"]["arguments"], "{}");
    assert_eq!(body["messages"][3], json!({"role": "tool", "tool_call_id": "a", "content": "one"}));
    assert_eq!(body["messages"][5]["content"][1]["image_url"]["url"], "data:image/png;base64,AAAA");
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(9), &json!(0.5)));
    assert_eq!(body["tools"][0]["function"]["parameters"]["type"], "object");
    let blind = Wishes { own_place: true, max_output: 9, ..Wishes::default() };
    let body: Value = serde_json::from_slice(&super::body(&sample(), &blind).unwrap()).unwrap();
    assert_eq!(body["messages"].as_array().unwrap().len(), 6);
    assert!(body["messages"][3]["content"].as_str().unwrap().contains("not shown images"));
    assert_eq!(body["max_completion_tokens"], 9);
}

#[test]
fn text_reasoning_and_calls_come_out_of_their_pieces() {
    let told = read(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "he"})),
        delta(json!({"content": "llo"})),
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "y", "arguments": "{\"k\""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"n\":1.0}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "function": {"arguments": ":2}"}}]})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}}),
    ]);
    let usage = Usage { input: 6, cache_read: 4, cache_write: 0, output: 3 };
    assert_eq!(
        told.unwrap(),
        [
            ModelEvent::Reasoning("hm".into()),
            ModelEvent::Text("he".into()),
            ModelEvent::Text("llo".into()),
            ModelEvent::Calling("x".into()),
            ModelEvent::Calling("y".into()),
            ModelEvent::Usage(usage),
            call("a", "x", "{\"n\":1.0}"),
            call("b", "y", "{\"k\":2}"),
            ModelEvent::Stop(Stop::Calls),
        ]
    );
}

#[test]
fn calls_in_one_piece_without_index_or_under_one_index_are_told_apart() {
    let whole = json!([
        {"id": "a", "function": {"name": "x", "arguments": {"n": 1}}},
        {"id": "b", "function": {"name": "x", "arguments": null}},
    ]);
    let told = read(&[delta(json!({"tool_calls": whole}))]).unwrap();
    assert!(told.contains(&call("a", "x", "{\"n\":1}")) && told.contains(&call("b", "x", "")), "{told:?}");
    let same = |id: &str| {
        delta(json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "x", "arguments": "{}"}}]}))
    };
    let told = read(&[same("a"), same("b")]).unwrap();
    assert!(told.contains(&call("a", "x", "{}")) && told.contains(&call("b", "x", "{}")), "{told:?}");
}

#[test]
fn an_answer_that_comes_whole_is_read_like_one_in_pieces() {
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, "finish_reason": "stop"}]});
    assert_eq!(read(&[whole]).unwrap(), [ModelEvent::Text("hi".into()), ModelEvent::Stop(Stop::Done)]);
}

#[test]
fn an_error_in_the_stream_and_a_stream_that_breaks_off_are_errors() {
    let error = read(&[json!({"error": {"message": "too busy", "type": "server_error"}})]).unwrap_err();
    assert!(error.message.contains("too busy") && error.may_pass, "{error:?}");
    let mut decoder = Decoder::default();
    decoder.event(delta(json!({"content": "he"})).to_string().as_bytes(), &mut Vec::new()).unwrap();
    assert!(decoder.end(&mut Vec::new()).is_err());
    assert!(Decoder::default().event(b"<html>", &mut Vec::new()).is_err());
}

proptest::proptest! {
    #[test]
    fn no_stream_makes_the_decoder_panic(data in ".{0,80}") {
        let mut decoder = Decoder::default();
        let _ = decoder.event(data.as_bytes(), &mut Vec::new());
        let _ = decoder.end(&mut Vec::new());
    }
}
