//! Calls that need a person's word: who is asked, what an answer covers, and that nothing runs
//! which nobody approved.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::actors::approvals::{ListenerRef, RulePlace};
use callboard::call::{CallError, CallReply, ErrorCode};
use callboard::config::spec::ServerSpec;
use callboard::id::SessionId;
use callboard::policy::approve::{Answer, Notice, Prompt};
use callboard::runtime::Runtime;
use serde_json::Value;

use crate::support::{Fleet, Tape, Wire, good, idle, method_of, request, spec};

fn asking(name: &str) -> ServerSpec {
    ServerSpec { allow_all_tools: false, ..spec(name) }
}

/// A server that takes any call, and what it received.
fn fleet() -> (Fleet, Tape) {
    let tape = Tape::default();
    let script = |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(message, r#"{"content":[]}"#);
        }
    };
    (Fleet::default().with(asking("s"), tape.of(script)), tape)
}

/// Numbers of the calls that reached the server.
fn ran(tape: &Tape) -> Vec<u64> {
    tape.received("tools/call").iter().filter_map(|call| call["params"]["arguments"]["n"].as_u64()).collect()
}

fn call(
    runtime: &Runtime,
    session: u64,
    tool: &str,
    n: u64,
) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
    let mut request = request("s", tool, &format!("{{\"arguments\":{{\"n\":{n}}}}}"));
    request.session = SessionId(session);
    runtime.frontend().call(request, None)
}

async fn asked(listener: &mut ListenerRef) -> Prompt {
    match listener.next().await {
        Some(Notice::Asked(prompt)) => prompt,
        other => panic!("{other:?}"),
    }
}

fn refused(reply: Result<CallReply, CallError>, why: &str) {
    let error = reply.expect_err("it is refused");
    assert_eq!(error.code, ErrorCode::NeedsApproval);
    assert!(error.message.contains(why) && error.fix.is_some(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_listener_what_asks_is_refused_at_once_and_never_sent() {
    let (fleet, tape) = fleet();
    let runtime = fleet.ready().await;
    let before = tokio::time::Instant::now();
    refused(call(&runtime, 1, "echo", 1).await, "nobody was there");
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(ran(&tape).is_empty());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_yes_lets_exactly_that_call_run_once() {
    let (fleet, tape) = fleet();
    let runtime = fleet.ready().await;
    let mut listener = runtime.approvals().listen();
    let running = tokio::spawn(call(&runtime, 1, "echo", 1));
    let prompt = asked(&mut listener).await;
    assert_eq!((prompt.server.as_str(), prompt.tool.as_str()), ("s", "echo"));
    assert_eq!((prompt.arguments.as_str(), prompt.rule.as_str()), ("{\"n\":1}", "mode readonly"));
    // Somebody takes as long as one may: that is not the tool's time.
    tokio::time::advance(Duration::from_secs(299)).await;
    listener.answer(prompt.id, Answer::Once);
    running.await.unwrap().expect("it was approved");

    let again = tokio::spawn(call(&runtime, 1, "echo", 1));
    let second = asked(&mut listener).await;
    listener.answer(prompt.id, Answer::Once);
    idle().await;
    assert!(!again.is_finished(), "the answer of before is used up");
    listener.answer(second.id, Answer::Deny);
    refused(again.await.unwrap(), "the answer was no");
    assert_eq!(ran(&tape), [1]);
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_answers_expires_and_a_listener_that_leaves_denies() {
    let (fleet, tape) = fleet();
    let runtime = fleet.ready().await;
    let mut listener = runtime.approvals().listen();
    let before = tokio::time::Instant::now();
    refused(call(&runtime, 1, "echo", 1).await, "nobody gave it in time");
    assert_eq!(before.elapsed(), Duration::from_secs(300));
    let prompt = asked(&mut listener).await;
    assert_eq!(listener.next().await, Some(Notice::Settled(prompt.id)));

    let running = tokio::spawn(call(&runtime, 1, "echo", 2));
    asked(&mut listener).await;
    drop(listener);
    refused(running.await.unwrap(), "went away");
    assert!(ran(&tape).is_empty());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_takes_its_request_with_it() {
    let (fleet, tape) = fleet();
    let runtime = fleet.ready().await;
    let mut listener = runtime.approvals().listen();
    let running = tokio::spawn(call(&runtime, 1, "echo", 1));
    let prompt = asked(&mut listener).await;
    running.abort();
    assert_eq!(listener.next().await, Some(Notice::Settled(prompt.id)));
    listener.answer(prompt.id, Answer::Once);
    idle().await;
    assert!(ran(&tape).is_empty());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_edited_while_a_person_thinks_is_asked_about_again() {
    let (fleet, tape) = fleet();
    let plan = fleet.into_plan();
    let runtime = Runtime::start(plan.clone()).await.unwrap();
    runtime.settle(&[], Duration::from_secs(600)).await;
    let mut listener = runtime.approvals().listen();
    let running = tokio::spawn(call(&runtime, 1, "echo", 1));
    let before = asked(&mut listener).await;
    let mut edited = plan;
    let spec = ServerSpec { hash: "another".to_owned(), ..asking("s") };
    edited.servers.entries = vec![crate::support::entry(spec)];
    runtime.reload(&edited).await.unwrap();
    listener.answer(before.id, Answer::Session);
    let after = asked(&mut listener).await;
    assert_ne!(before.id, after.id);
    listener.answer(after.id, Answer::Deny);
    refused(running.await.unwrap(), "the answer was no");
    assert!(ran(&tape).is_empty());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_forbids_counts_for_what_waits_already() {
    let (fleet, tape) = fleet();
    let plan = fleet.into_plan();
    let runtime = Runtime::start(plan.clone()).await.unwrap();
    runtime.settle(&[], Duration::from_secs(600)).await;
    let mut listener = runtime.approvals().listen();
    let running = tokio::spawn(call(&runtime, 1, "echo", 1));
    let prompt = asked(&mut listener).await;
    let mut planning = plan;
    planning.gate.mode = callboard::policy::access::Mode::Plan;
    runtime.reload(&planning).await.unwrap();
    listener.answer(prompt.id, Answer::Once);
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Denied);
    assert!(ran(&tape).is_empty());
    runtime.shutdown().await;
}

/// A rule that somebody writes, here or in another process, counts in a host that runs.
#[tokio::test(start_paused = true)]
async fn always_writes_a_rule_and_taking_it_back_counts_at_once() {
    let home = tempfile::tempdir().unwrap();
    let place = RulePlace { home: home.path().to_path_buf(), root: "/p".into(), servers: Default::default() };
    let (fleet, _) = fleet();
    let runtime = fleet.plan(|plan| plan.gate.place = Some(place.clone())).ready().await;
    let until = async |want: bool| {
        while call(&runtime, 2, "echo", 2).await.is_ok() != want {
            // The next look at the file is due soon.
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    };
    // Again and again: a rule that is taken back while it is still being kept must not come back.
    for session in 10..20 {
        let mut listener = runtime.approvals().listen();
        let running = tokio::spawn(call(&runtime, session, "echo", 1));
        let prompt = asked(&mut listener).await;
        assert!(prompt.can_keep);
        listener.answer(prompt.id, Answer::Always);
        running.await.unwrap().unwrap();
        drop(listener);
        until(true).await;
        refused(call(&runtime, 2, "other", 3).await, "nobody was there");
        std::fs::remove_file(home.path().join("allow.json")).unwrap();
        until(false).await;
    }
    std::fs::write(home.path().join("allow.json"), ALLOWED).unwrap();
    until(true).await;
    std::fs::write(home.path().join("allow.json"), "{ broken").unwrap();
    until(false).await;
    runtime.shutdown().await;
}

const ALLOWED: &str = r#"{"version":1,"servers":[{"scope":"flag","server":"s","tools":["*"]}]}"#;

/// What one person would say to call `n`, or nothing: spread, and the same in every run.
fn mood(n: u64) -> Option<Answer> {
    match n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 {
        0..5 => Some(Answer::Once),
        5..7 => Some(Answer::Session),
        7..13 => Some(Answer::Deny),
        _ => None,
    }
}

/// C4
#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_at_once_and_no_approval_is_borrowed() {
    const ROUNDS: u64 = 500;
    const CALLS: u64 = 20;
    let (fleet, tape) = fleet();
    let runtime = fleet.ready().await;
    // (session, tool) and numbers that somebody approved.
    let tools: Arc<Mutex<BTreeSet<(u64, String)>>> = Arc::default();
    let numbers: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let mut listener = runtime.approvals().listen();
    let clerk = tokio::spawn({
        let (tools, numbers) = (tools.clone(), numbers.clone());
        async move {
            let mut last = None;
            while let Some(notice) = listener.next().await {
                let Notice::Asked(prompt) = notice else { continue };
                let n = serde_json::from_str::<Value>(&prompt.arguments).unwrap()["n"].as_u64().unwrap();
                match mood(n) {
                    Some(Answer::Session) => {
                        tools.lock().unwrap().insert((prompt.session.0, prompt.tool.clone()));
                    }
                    Some(Answer::Once) => _ = numbers.lock().unwrap().insert(n),
                    _ => {}
                }
                if let Some(answer) = mood(n) {
                    listener.answer(prompt.id, answer);
                }
                // An answer that comes again, for a request that may be settled.
                if let Some((id, answer)) = last.replace((prompt.id, mood(n).unwrap_or(Answer::Deny))) {
                    listener.answer(id, answer);
                }
            }
        }
    });
    let mut granted = 0;
    for round in 0..ROUNDS {
        let calls = (0..CALLS).map(|k| {
            let n = round * CALLS + k;
            let (session, tool) = (round * 3 + n % 3, ["echo", "other"][usize::from(n % 7 < 3)]);
            let running = call(&runtime, session, tool, n);
            async move { (n, session, tool, running.await) }
        });
        for (n, session, tool, reply) in futures_util::future::join_all(calls).await {
            let by_number = numbers.lock().unwrap().contains(&n);
            let by_tool = tools.lock().unwrap().contains(&(session, tool.to_owned()));
            assert!(reply.is_err() || by_number || by_tool, "{n} was borrowed");
            assert!(reply.is_ok() || !by_number, "{n} was approved: {reply:?}");
            granted += u64::from(reply.is_ok());
        }
    }
    let ran = ran(&tape);
    assert_eq!(ran.len() as u64, granted, "each ran once");
    assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), ran.len());
    assert!(granted > 2_000 && granted < ROUNDS * CALLS - 2_000, "{granted}");
    runtime.shutdown().await;
    clerk.await.unwrap();
}
