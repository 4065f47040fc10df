//! What servers say and ask in the middle of calls: it reaches the caller it is for, and nobody else.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use callboard::call::{ASKED_MAX, Asked, AskedAnswer, CallError, CallEvent, CallReply, CallRequest};
use callboard::id::SessionId;
use callboard::runtime::Runtime;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::support::*;

const EVENTS: usize = 256;

/// A server that asks with the id `ask-1` as soon as it is called, and answers once it is answered.
fn asks(message: &Value, wire: &Wire) {
    if good(message, wire) {
        return;
    }
    if method_of(message) == "tools/call" {
        wire.line(r#"{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"who?",  "n":1.50}}"#);
    }
}

type Running = (JoinHandle<Result<CallReply, CallError>>, mpsc::Receiver<CallEvent>);

fn start(runtime: &Runtime, request: CallRequest) -> Running {
    let (events, seen) = mpsc::channel(EVENTS);
    let frontend = runtime.frontend();
    (tokio::spawn(async move { frontend.call(request, Some(events)).await }), seen)
}

fn of_session(session: u64) -> CallRequest {
    CallRequest { session: SessionId(session), ..request("s", "echo", "{}") }
}

async fn asked(seen: &mut mpsc::Receiver<CallEvent>) -> Asked {
    match seen.recv().await {
        Some(CallEvent::Asked(asked)) => asked,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_goes_to_the_caller_and_the_answer_back_byte_for_byte() {
    let (tape, asking) = (Tape::default(), Mutex::new(Value::Null));
    let runtime = one(tape.of(move |message: &Value, wire: &Wire| {
        asks(message, wire);
        if method_of(message) == "tools/call" {
            *asking.lock().unwrap() = message.clone();
        } else if message["id"] == "ask-1" {
            wire.result(&asking.lock().unwrap(), "{}");
        }
    }))
    .await;
    let (call, mut seen) = start(&runtime, of_session(1));
    let question = asked(&mut seen).await;
    assert_eq!((question.server.as_str(), question.method.as_str()), ("s", "elicitation/create"));
    assert_eq!(
        (&question.id[..], &question.params[..]),
        (&b"\"ask-1\""[..], &br#"{"message":"who?",  "n":1.50}"#[..])
    );
    question.answer(AskedAnswer::Result(Bytes::from_static(br#"{"action":"accept"}"#)));
    call.await.unwrap().unwrap();
    let back = tape.answers();
    assert_eq!(back, [json!({"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept"}})]);
}

#[tokio::test(start_paused = true)]
async fn while_clients_of_two_sessions_have_calls_running_neither_is_asked() {
    let tape = Tape::default();
    let runtime = one(tape.of(|message: &Value, wire: &Wire| {
        if method_of(message) == "tools/call" && message["params"]["arguments"]["quiet"] == true {
            return;
        }
        asks(message, wire);
    }))
    .await;
    let mut quiet = of_session(1);
    quiet.params = Bytes::from_static(br#"{"arguments":{"quiet":true}}"#);
    let (first, mut seen_first) = start(&runtime, quiet);
    idle().await;
    let (second, mut seen_second) = start(&runtime, of_session(2));
    idle().await;
    let back = tape.answers();
    assert_eq!(back.len(), 1);
    assert_eq!((&back[0]["id"], &back[0]["error"]["code"]), (&json!("ask-1"), &json!(-32010)));
    assert!(back[0]["error"]["message"].as_str().unwrap().contains("`sharing: session`"), "{back:?}");
    assert!(seen_first.try_recv().is_err() && seen_second.try_recv().is_err());
    first.abort();
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_call_and_the_server_is_told() {
    let tape = Tape::default();
    let runtime = one(tape.of(asks)).await;
    let (call, mut seen) = start(&runtime, of_session(1));
    let question = asked(&mut seen).await;
    call.abort();
    idle().await;
    let back = tape.answers();
    assert_eq!(back.len(), 1, "{back:?}");
    assert!(back[0]["error"].is_object() && back[0]["id"] == "ask-1");
    question.answer(AskedAnswer::Result(Bytes::from_static(b"{}")));
    idle().await;
    assert_eq!(tape.answers().len(), 1, "too late changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_takes_is_refused_at_once() {
    let tape = Tape::default();
    let runtime = one(tape.of(asks)).await;
    let frontend = runtime.frontend();
    let call = tokio::spawn(async move { frontend.call(of_session(1), None).await });
    idle().await;
    assert_eq!(tape.answers()[0]["error"]["code"], -32601);
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_server_takes_back_is_withdrawn_and_not_answered() {
    let tape = Tape::default();
    let runtime = one(tape.of(|message: &Value, wire: &Wire| {
        asks(message, wire);
        if method_of(message) == "tools/call" {
            wire.line(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ask-1"}}"#,
            );
            wire.result(message, "{}");
        }
    }))
    .await;
    let (call, mut seen) = start(&runtime, of_session(1));
    let question = asked(&mut seen).await;
    assert!(matches!(seen.recv().await, Some(CallEvent::Withdrawn(id)) if id == "\"ask-1\""));
    question.answer(AskedAnswer::Result(Bytes::from_static(b"{}")));
    call.await.unwrap().unwrap();
    idle().await;
    assert!(tape.answers().is_empty(), "it asked for no answer any more");
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_call_are_bounded() {
    let tape = Tape::default();
    let runtime = one(tape.of(|message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            for id in 0..=ASKED_MAX {
                wire.line(
                    json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage"}).to_string(),
                );
            }
        }
    }))
    .await;
    let (call, mut seen) = start(&runtime, of_session(1));
    let mut open = Vec::new();
    for _ in 0..ASKED_MAX {
        open.push(asked(&mut seen).await);
    }
    idle().await;
    let back = tape.answers();
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!((&back[0]["id"], back[0]["error"]["code"].as_i64()), (&json!(ASKED_MAX), Some(-32010)));
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn a_log_line_reaches_its_call_before_the_answer_and_otherwise_everybody_and_each_once() {
    let said = |text: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}});
    let runtime = one(move |message: &Value, wire: &Wire| {
        if good(message, wire) || method_of(message) != "tools/call" {
            return;
        }
        wire.line(said("one").to_string());
        wire.line(said("two").to_string());
        wire.result(message, "{}");
        wire.line(said("after").to_string());
    })
    .await;
    let mut notices = runtime.notices();
    let (call, mut seen) = start(&runtime, of_session(1));
    call.await.unwrap().unwrap();
    let mut heard = Vec::new();
    while let Some(event) = seen.recv().await {
        if let CallEvent::Note { frame, .. } = event {
            let frame: Value = serde_json::from_slice(&frame).unwrap();
            heard.push(frame["params"]["data"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(heard, ["one", "two"]);
    let notice = notices.recv().await.unwrap();
    assert_eq!((notice.server.as_str(), notice.method.as_str()), ("s", "notifications/message"));
    assert!(String::from_utf8_lossy(&notice.frame).contains("after"));
    idle().await;
    assert!(notices.try_recv().is_err(), "each once");
}

#[tokio::test(start_paused = true)]
async fn a_person_who_thinks_does_not_run_the_clock_of_silence_out() {
    let tape = Tape::default();
    let mut spec = spec("s");
    spec.timeouts.idle = Duration::from_secs(30);
    let runtime = Fleet::default().with(spec, tape.of(asks)).ready().await;
    let (call, mut seen) = start(&runtime, of_session(1));
    let question = asked(&mut seen).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    idle().await;
    assert!(!call.is_finished(), "it waits for a person, not for the server");
    question.answer(AskedAnswer::Result(Bytes::from_static(b"{}")));
    idle().await;
    tokio::time::advance(Duration::from_secs(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code.as_str(), "timeout_idle");
}
