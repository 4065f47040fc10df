//! Field reports about looks at a server's health, the breaker in front of it, and calls that
//! must not run twice.

use std::time::Duration;

use callboard::call::{CallError, CallLimits, CallReply, Delivery, ErrorCode};
use callboard::config::spec::{BreakerSpec, RestartSpec, ServerSpec, Trust};
use callboard::time::Monotonic;
use callboard::view::{BreakerState, LifeState};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::bad::{self, Host, Yard};
use crate::support::request;

/// Calls a tool that takes a minute, and leaves after a second: its server's life is looked at.
async fn given_a_second(host: &Host, server: &str) -> CallError {
    let params = json!({"name": "sleep", "arguments": {"ms": 60_000}}).to_string();
    let mut asked = request(server, "sleep", &params);
    asked.limits = CallLimits { idle: Some(Duration::from_secs(1)), total: None };
    host.runtime.frontend().call(asked, None).await.unwrap_err()
}

#[tokio::test]
async fn a_ping_without_an_answer_restarts_nobody() {
    let [silent, unsupported] = bad::runs("B094");
    let yard = Yard::new().with("silent", &silent).await;
    let host = yard.with("unsupported", &unsupported).await.ready().await;
    let pids = ["silent", "unsupported"].map(|server| host.pid(server));
    for round in 1..=3 {
        for server in ["silent", "unsupported"] {
            assert_eq!(given_a_second(&host, server).await.code, ErrorCode::TimeoutIdle);
            bad::until("it is asked", || host.received(server, "ping").len() == round).await;
        }
        // Silence counts for the breaker, in time; nothing is restarted for it.
        host.until("silent", "it is judged", |view| view.breaker.failures as usize == round).await;
    }
    for (server, pid) in ["silent", "unsupported"].into_iter().zip(pids) {
        let view = host.view(server);
        assert_eq!((view.state, view.pid, view.restarts), (LifeState::Ready, Some(pid), 0), "{server}");
    }
    let unsupported = host.view("unsupported").breaker;
    assert_eq!((unsupported.state, unsupported.failures), (BreakerState::Closed, 0), "-32601 proves life");
    host.echo("unsupported", "still here").await;
    host.end().await;
}

#[tokio::test]
async fn a_look_at_a_busy_server_never_costs_its_running_call() {
    let host = Host::of(&bad::flags("B095")).await;
    let pid = host.pid("s");
    let long = host.runtime.frontend().call(request("s", "count", r#"{"name":"count"}"#), None);
    bad::until("it works", || host.received("s", "tools/call").len() == 1).await;
    // Its only hand is busy: those behind it time out, and the ping after each is not heard.
    let others = async {
        for _ in 0..2 {
            assert_eq!(given_a_second(&host, "s").await.code, ErrorCode::TimeoutIdle);
        }
    };
    let (answer, ()) = tokio::join!(long, others);
    assert_eq!(bad::text_of(&answer.expect("the long call")), "1");
    let view = host.view("s");
    assert_eq!((view.state, view.pid, view.restarts), (LifeState::Ready, Some(pid), 0));
    host.end().await;
}

/// Opens after five failures, for a moment; restarted as often and as soon as it takes.
fn hasty(spec: &mut ServerSpec) {
    spec.breaker = BreakerSpec { failures: 5, open_for: Duration::from_secs(3), ..spec.breaker };
    let soon = Duration::from_millis(1);
    spec.restart = RestartSpec { max: 0, min_delay: soon, max_delay: soon, ..spec.restart };
}

#[tokio::test]
async fn an_open_breaker_refuses_at_once_and_then_one_call_tries_a_fresh_connection() {
    let host = Yard::new().tuned("s", &bad::flags("B097"), hasty).await.ready().await;
    let arguments = json!({"text": "x"});
    for _ in 0..5 {
        let error = host.call("s", "echo", &arguments).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ConnectionLost, "{error}");
    }
    let refusals = async || {
        let began = Monotonic::now();
        let all: Vec<Result<CallReply, CallError>> =
            join_all((0..20).map(|_| host.call("s", "echo", &arguments))).await;
        (all, Monotonic::now() - began)
    };
    let (all, took) = refusals().await;
    assert!(took < bad::SOON, "{took:?}");
    for error in all.into_iter().map(Result::unwrap_err) {
        assert_eq!((error.code, error.delivery), (ErrorCode::BreakerOpen, Delivery::NotSent), "{error}");
        assert!(error.message.contains("s more"), "{error}");
    }
    let seen = host.until("s", "it is back", |view| view.state == LifeState::Ready).await;
    assert_eq!((seen.breaker.state, host.received("s", "tools/call").len()), (BreakerState::Open, 5));
    let until = seen.breaker.until.expect("an open breaker says until when");
    let left = until.duration_since(std::time::SystemTime::now()).unwrap_or_default();
    let over = std::time::Instant::now() + left + Duration::from_millis(50);
    bad::until("the pause is over", || std::time::Instant::now() >= over).await;
    let (all, _) = refusals().await;
    let (tried, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert!(!tried.is_empty(), "one is let through, and the rest as soon as it has come back");
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!((error.code, error.delivery), (ErrorCode::BreakerOpen, Delivery::NotSent), "{error}");
    }
    let (all, _) = refusals().await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(host.view("s").breaker.state, BreakerState::Closed);
    assert_eq!(host.trace("s", "start").len(), 6, "one start after the last crash");
    host.end().await;
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_sent_again_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let [flags] = bad::runs_in("B098", folder.path());
    // No word of a hint: even from a server that is trusted, this tool is not sent again.
    let trusted = |spec: &mut ServerSpec| spec.trust = Trust::Trusted;
    let host = Yard::new().tuned("s", &flags, trusted).await.ready().await;
    let error = host.call("s", "count", &json!({})).await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown));
    assert!(error.message.contains("outcome unknown"), "{error}");
    host.until("s", "it is back", |view| view.state == LifeState::Ready && view.restarts == 1).await;
    let counted = std::fs::read_to_string(folder.path().join("count")).unwrap();
    assert_eq!(counted.lines().count(), 1);
    host.end().await;
}
