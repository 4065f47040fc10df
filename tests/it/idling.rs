//! Servers that nobody uses: stopped after a while, still listed, back with the next call.

use std::time::Duration;

use callboard::config::spec::StartMode;
use callboard::view::{LifeState, ServerView};
use serde_json::{Value, json};

use crate::support::bad::{Host, flags};
use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

fn echo(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, r#"{"ok":1}"#);
    }
}

async fn pass(time: Duration) {
    for _ in 0..time.as_secs() / 5 {
        tokio::time::advance(Duration::from_secs(5)).await;
        idle().await;
    }
}

fn looks(view: &ServerView) -> (LifeState, u32, usize) {
    (view.state, view.restarts, view.counts.tools)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_calls_rests_listed_and_the_next_call_starts_it() {
    let mut spec = spec("s");
    spec.idle_stop = Some(MINUTE * 10);
    let tape = Tape::default();
    let runtime = Fleet::default().with(spec, tape.of(echo)).ready().await;
    let catalog = runtime.catalog();
    for round in 1..=3 {
        pass(MINUTE * 9).await;
        assert_eq!(looks(&runtime.status()[0]), (LifeState::Ready, 0, 2), "round {round}");
        call(&runtime, "s", "echo").await.unwrap();
        pass(MINUTE * 9).await;
        assert_eq!(looks(&runtime.status()[0]), (LifeState::Ready, 0, 2), "a call begins the time anew");
        pass(MINUTE + Duration::from_secs(5)).await;
        let view = runtime.status().remove(0);
        assert_eq!(looks(&view), (LifeState::Dormant, 0, 2));
        assert!(view.why.is_some_and(|why| why.contains("10m")) && view.pid.is_none());
        assert_eq!(catalog.version, runtime.catalog().version, "its tools stay listed");
        assert_eq!(tape.received("initialize").len(), round);
        call(&runtime, "s", "echo").await.unwrap();
        assert_eq!(looks(&runtime.status()[0]), (LifeState::Ready, 0, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_with_a_call_in_flight_is_never_stopped_for_being_idle() {
    let slow = |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        let (message, wire) = (message.clone(), wire.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(tokio::time::Instant::now() + MINUTE * 20).await;
            wire.result(&message, r#"{"ok":1}"#);
        });
    };
    let mut spec = spec("s");
    spec.idle_stop = Some(MINUTE);
    spec.timeouts.idle = MINUTE * 25;
    let runtime = Fleet::default().with(spec, slow).ready().await;
    let frontend = runtime.frontend();
    let running = tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await });
    pass(MINUTE * 19).await;
    assert_eq!(looks(&runtime.status()[0]), (LifeState::Ready, 0, 2));
    pass(MINUTE + Duration::from_secs(30)).await;
    running.await.unwrap().expect("the call was answered");
    assert_eq!(looks(&runtime.status()[0]), (LifeState::Ready, 0, 2));
    pass(MINUTE).await;
    assert_eq!(looks(&runtime.status()[0]), (LifeState::Dormant, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn the_poll_is_no_use_and_does_not_wake_a_server_that_rests() {
    let tape = Tape::default();
    let silent = |message: &Value, wire: &Wire| {
        if method_of(message) == "initialize" {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "silent", "version": "1"}});
            wire.result(message, &result.to_string());
        } else {
            echo(message, wire);
        }
    };
    let mut spec = spec("s");
    spec.idle_stop = Some(MINUTE * 5);
    let fleet = Fleet::default().with(spec, tape.of(silent)).plan(|plan| plan.poll = Some(MINUTE));
    let runtime = fleet.ready().await;
    pass(MINUTE * 5 + Duration::from_secs(10)).await;
    assert_eq!(runtime.status()[0].state, LifeState::Dormant);
    let lists = tape.received("tools/list").len();
    assert!(lists >= 5, "{lists}");
    pass(MINUTE * 10).await;
    assert_eq!((tape.received("tools/list").len(), tape.received("initialize").len()), (lists, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_starts_once_to_learn_what_it_offers_and_then_rests() {
    for used in [false, true] {
        let mut lazy = spec("s");
        lazy.start = StartMode::Lazy;
        let tape = Tape::default();
        let runtime = Fleet::default().with(lazy, tape.of(echo)).ready().await;
        assert_eq!(runtime.catalog().tools.len(), 2);
        if used {
            call(&runtime, "s", "echo").await.unwrap();
        }
        pass(MINUTE * 60).await;
        let state = if used { LifeState::Ready } else { LifeState::Dormant };
        assert_eq!(looks(&runtime.status()[0]), (state, 0, 2));
        assert_eq!(runtime.catalog().tools.len(), 2);
        call(&runtime, "s", "echo").await.unwrap();
        pass(MINUTE * 60).await;
        assert_eq!(runtime.status()[0].state, LifeState::Ready, "once in use it stays");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_in_the_moment_of_the_stop_is_answered() {
    let mut spec = spec("s");
    spec.idle_stop = Some(MINUTE);
    let runtime = Fleet::default().with(spec, echo).ready().await;
    for _ in 0..50 {
        tokio::time::advance(MINUTE).await;
        call(&runtime, "s", "echo").await.unwrap();
    }
    let view = runtime.status().remove(0);
    assert_eq!((view.restarts, view.calls_failed), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_itself_when_idle_is_noticed_at_once_and_the_next_call_is_answered() {
    let host = Host::of(&flags("B008")).await;
    let first = host.pid("s");
    let view = host.until("s", "it was started again", |view| {
        view.state == LifeState::Ready && view.pid.is_some_and(|pid| pid != first)
    });
    assert_eq!(view.await.restarts, 1);
    host.echo("s", "by the new one").await;
    assert_ne!(host.pid("s"), first);
    host.end().await;
}
