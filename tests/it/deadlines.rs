//! Field reports about the limits of calls, and about calls that nobody waits for any more: which
//! limit fired, what the server is told, and what becomes of an answer that comes too late.

use std::time::Duration;

use callboard::call::{CallError, CallLimits, CallReply, Delivery, ErrorCode};
use callboard::config::spec::{ServerSpec, Timeouts};
use callboard::time::Monotonic;
use callboard::view::{LifeState, ServerView};
use serde_json::{Value, json};

use crate::support::bad::{self, Host, Yard};
use crate::support::request;

/// With an idle limit of so many seconds.
fn idle(seconds: u64) -> impl FnOnce(&mut ServerSpec) {
    move |spec| spec.timeouts = Timeouts { idle: Duration::from_secs(seconds), ..spec.timeouts }
}

/// Calls a tool, however long it takes.
async fn call(host: &Host, server: &str, tool: &str, limits: CallLimits) -> Result<CallReply, CallError> {
    let params = json!({"name": tool, "arguments": {"text": "x"}}).to_string();
    let mut asked = request(server, tool, &params);
    asked.limits = limits;
    host.runtime.frontend().call(asked, None).await
}

#[tokio::test]
async fn progress_keeps_a_long_call_alive_and_silence_ends_it() {
    let [telling, silent] = bad::runs("B037");
    let yard = Yard::new().tuned("telling", &telling, idle(5)).await;
    let host = yard.tuned("silent", &silent, idle(5)).await.ready().await;
    let began = Monotonic::now();
    let none = CallLimits::default();
    let (told, ended) = tokio::join!(call(&host, "telling", "echo", none), async {
        let error = call(&host, "silent", "echo", none).await.unwrap_err();
        (error, Monotonic::now() - began)
    });
    told.expect("twenty seconds of work, told every second");
    let (error, took) = ended;
    assert_eq!((error.code, error.delivery), (ErrorCode::TimeoutIdle, Delivery::Unknown));
    assert!(error.message.contains("5s (idle limit)"), "{error}");
    assert!((5..15).contains(&took.as_secs()), "{took:?}");
    for server in ["telling", "silent"] {
        let sent = host.received(server, "tools/call");
        assert!(!sent[0]["params"]["_meta"]["progressToken"].is_null(), "{}", sent[0]);
    }
    host.end().await;
}

#[tokio::test]
async fn endless_progress_ends_at_the_absolute_limit() {
    let absolute = |spec: &mut ServerSpec| {
        let (idle, total) = (Duration::from_secs(2), Duration::from_secs(10));
        spec.timeouts = Timeouts { idle, total, ..spec.timeouts };
    };
    let host = Yard::new().tuned("s", &bad::flags("B038"), absolute).await.ready().await;
    let began = Monotonic::now();
    let error = call(&host, "s", "echo", CallLimits::default()).await.unwrap_err();
    let took = Monotonic::now() - began;
    assert_eq!((error.code, error.delivery), (ErrorCode::TimeoutTotal, Delivery::Unknown));
    assert!(error.message.contains("10s (absolute limit)"), "{error}");
    assert!((10..20).contains(&took.as_secs()), "{took:?}");
    bad::until("it is told", || !host.received("s", "notifications/cancelled").is_empty()).await;
    host.end().await;
}

/// The ids that a server was told to forget, and those of the calls it got.
fn cancelled(host: &Host, server: &str) -> (Vec<Value>, Vec<Value>) {
    let told = host.received(server, "notifications/cancelled");
    let told = told.iter().map(|message| message["params"]["requestId"].clone());
    let calls = host.received(server, "tools/call");
    (told.collect(), calls.iter().map(|message| message["id"].clone()).collect())
}

#[tokio::test]
async fn a_server_is_told_once_when_its_caller_leaves_or_a_limit_fires() {
    let host = Host::of(&bad::flags("B040")).await;
    let mut leaving = Box::pin(call(&host, "s", "echo", CallLimits::default()));
    let arrived = bad::until("the call arrived", || host.received("s", "tools/call").len() == 1);
    tokio::select! {
        ended = &mut leaving => panic!("{ended:?}"),
        () = arrived => {}
    }
    drop(leaving);
    bad::until("it is told", || !cancelled(&host, "s").0.is_empty()).await;
    let limits = CallLimits { idle: Some(Duration::from_secs(1)), total: None };
    let error = call(&host, "s", "echo", limits).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TimeoutIdle);
    bad::until("it is told of the second", || cancelled(&host, "s").0.len() == 2).await;
    let (told, calls) = cancelled(&host, "s");
    assert_eq!(told, calls[..2], "once each, with the id of its call");
    host.end().await;
}

#[tokio::test]
async fn a_caller_is_free_at_once_whatever_the_server_does() {
    let narrow = |spec: &mut ServerSpec| spec.limits.in_flight = 1;
    let host = Yard::new().tuned("s", &bad::flags("B041"), narrow).await.ready().await;
    for count in 1..=3 {
        // One place: each call is only sent because the one before has given it back.
        let mut leaving = Box::pin(call(&host, "s", "echo", CallLimits::default()));
        let arrived = bad::until("the call arrived", || host.received("s", "tools/call").len() == count);
        tokio::select! {
            ended = &mut leaving => panic!("{ended:?}"),
            () = arrived => {}
        }
        let began = Monotonic::now();
        drop(leaving);
        bad::until("its place is free", || host.view("s").in_flight == 0).await;
        assert!(Monotonic::now() - began < bad::SOON, "{:?}", Monotonic::now() - began);
    }
    assert_eq!(host.view("s").restarts, 0);
    host.end().await;
}

#[tokio::test]
async fn an_answer_after_its_limit_hurts_nothing() {
    let host = Host::of(&bad::flags("B043")).await;
    let pid = host.pid("s");
    let limits = CallLimits { idle: Some(Duration::from_secs(1)), total: None };
    let error = call(&host, "s", "count", limits).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TimeoutIdle);
    host.echo("s", "while it is still at work").await;
    bad::until("it answers too late", || !host.executed("s").is_empty()).await;
    let noticed = bad::until("it is counted", || {
        host.view("s").warnings.iter().any(|text| text.contains("1 answer came late"))
    });
    let echoes = async {
        loop {
            host.echo("s", "after the late answer").await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = noticed => {}
        () = echoes => {}
    }
    let view = host.view("s");
    assert_eq!((view.state, view.pid, view.restarts), (LifeState::Ready, Some(pid), 0));
    host.end().await;
}

#[tokio::test]
async fn a_handshake_over_its_limit_ends_the_attempt_and_cancels_nothing() {
    let soon = |spec: &mut ServerSpec| {
        let (connect, max_start) = (Duration::from_secs(1), Duration::from_secs(2));
        spec.timeouts = Timeouts { connect, max_start, ..spec.timeouts };
    };
    let host = Yard::new().tuned("s", &bad::flags("B044"), soon).await.start().await;
    let told = |view: &ServerView| view.why.as_ref().is_some_and(|why| why.contains("within 2s (max_start)"));
    host.until("s", "the limit fires", told).await;
    bad::until("its process has left", || !host.trace("s", "exit").is_empty()).await;
    assert!(!host.received("s", "initialize").is_empty());
    assert_eq!(host.received("s", "notifications/cancelled").len(), 0);
    host.end().await;
}
