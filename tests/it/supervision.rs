//! Lives of servers: starting, failing, coming back; and that nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard::call::{Delivery, ErrorCode};
use callboard::config::spec::{EntryState, StartMode};
use callboard::id::Generation;
use callboard::view::{LifeState, ParkReason};
use serde_json::Value;

use crate::support::*;

fn echo(m: &Value, w: &Wire) {
    if !good(m, w) {
        w.result(m, r#"{"ok":1}"#);
    }
}

/// Answers like `echo`, but hangs up when `other` is called.
fn dies_on_other(m: &Value, w: &Wire) {
    if m["params"]["name"] == "other" { w.hang_up() } else { echo(m, w) }
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_fail_at_once_when_the_connection_ends_and_the_server_comes_back() {
    let runtime = Fleet::default().with(spec("s"), dies_on_other).with(spec("fine"), echo).ready().await;
    let before = runtime.status();
    let began = tokio::time::Instant::now();
    let error = call(&runtime, "s", "other").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown));
    assert!(error.message.contains("outcome unknown"), "{error}");
    let reply = call(&runtime, "s", "echo").await.expect("a call waits for the restart");
    assert_eq!(reply.generation, before[1].generation.next());
    let after = runtime.status();
    assert_eq!((after[1].restarts, after[1].state), (1, LifeState::Ready));
    assert_eq!((after[0].restarts, after[0].generation), (0, before[0].generation), "nobody else notices");
}

/// A server that hangs up as soon as it gets a message of that method, given up; and the count of
/// its connections.
async fn crash_loop_at(method: &'static str) -> (callboard::runtime::Runtime, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let crasher = move |m: &Value, w: &Wire| {
        if method_of(m) == "initialize" {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if method_of(m) == method { w.hang_up() } else { echo(m, w) }
    };
    let runtime = Fleet::default().with(spec("s"), crasher).with(spec("fine"), echo).start().await;
    let parked = async {
        let mut watch = runtime.watch(&["s".into()]);
        while !matches!(watch.look()[0].state, LifeState::Parked(_)) {
            watch.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), parked).await.expect("it gives up");
    let view = runtime.status().remove(1);
    assert_eq!(view.state, LifeState::Parked(ParkReason::GivenUp), "{view:?}");
    assert!(view.why.as_ref().is_some_and(|why| why.contains("closed the connection")), "{view:?}");
    call(&runtime, "fine", "echo").await.expect("nobody else notices");
    let starts = connections.load(Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(3600)).await;
    idle().await;
    assert_eq!(connections.load(Ordering::Relaxed), starts, "no timer is left");
    (runtime, connections)
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_gives_up_after_five_restarts_and_says_why() {
    let (_runtime, connections) = crash_loop_at("tools/list").await;
    assert_eq!(connections.load(Ordering::Relaxed), 6, "one start and five restarts");
}

#[tokio::test(start_paused = true)]
async fn five_starts_in_a_row_that_never_became_ready_give_up() {
    let (runtime, connections) = crash_loop_at("initialize").await;
    assert_eq!(connections.load(Ordering::Relaxed), 5);
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::GivenUp, Delivery::NotSent));
    assert_eq!(connections.load(Ordering::Relaxed), 5, "never ready: no call starts it");
}

#[tokio::test(start_paused = true)]
async fn a_call_tries_a_server_that_was_ready_once_a_minute_after_it_was_given_up() {
    let (runtime, connections) = crash_loop_at("tools/list").await;
    call(&runtime, "s", "echo").await.expect("it is started for the call, and answers");
    let mut watch = runtime.watch(&["s".into()]);
    while !matches!(watch.look()[0].state, LifeState::Parked(_)) {
        watch.changed().await;
    }
    assert_eq!(connections.load(Ordering::Relaxed), 7, "one attempt, no new budget");
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::GivenUp, Delivery::NotSent));
    assert_eq!(connections.load(Ordering::Relaxed), 7, "at most one attempt a minute");
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_a_person_asks_for_leaves_given_up() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let late_bloomer = move |m: &Value, w: &Wire| {
        let starts = if method_of(m) == "initialize" {
            count.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            count.load(Ordering::Relaxed)
        };
        if starts <= 6 { w.hang_up() } else { echo(m, w) }
    };
    let runtime = one(late_bloomer).await;
    assert_eq!(runtime.status()[0].state, LifeState::Parked(ParkReason::GivenUp));
    assert!(runtime.restart_server(&"s".into()));
    idle().await;
    runtime.settle(&[], Duration::from_secs(60)).await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    call(&runtime, "s", "echo").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_late_then_failed_and_delays_nobody() {
    let mute = |_: &Value, _: &Wire| {};
    let runtime = Fleet::default().with(spec("mute"), mute).with(spec("s"), echo).start().await;
    let began = tokio::time::Instant::now();
    runtime.settle(&["s".into()], Duration::from_secs(60)).await;
    call(&runtime, "s", "echo").await.expect("the good one is usable while the other still starts");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(runtime.status()[0].state, LifeState::Connecting);
    tokio::time::advance(Duration::from_secs(16)).await;
    idle().await;
    let view = runtime.status().remove(0);
    assert!(view.late && view.state == LifeState::Connecting, "late is not failed: {view:?}");
    tokio::time::advance(Duration::from_secs(105)).await;
    idle().await;
    let view = runtime.status().remove(0);
    assert!(view.restarts > 0, "{view:?}");
    assert!(view.why.is_some_and(|why| why.contains("max_start")));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_starting_server_up_to_its_own_deadline() {
    let mute = |_: &Value, _: &Wire| {};
    let runtime = Fleet::default().with(spec("mute"), mute).start().await;
    let mut short = request("mute", "echo", "{}");
    short.limits.total = Some(Duration::from_secs(7));
    let began = tokio::time::Instant::now();
    let error = runtime.frontend().call(short, None).await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::NotReady, Delivery::NotSent));
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_starts_at_its_first_call() {
    let mut lazy = spec("s");
    lazy.start = StartMode::Lazy;
    let tape = Tape::default();
    // Nothing starts by itself here.
    let fleet = Fleet::default().with(lazy, tape.of(echo)).plan(|plan| plan.only = Some([].into()));
    let runtime = fleet.ready().await;
    assert_eq!(runtime.status()[0].state, LifeState::Dormant);
    assert!(tape.received("initialize").is_empty());
    call(&runtime, "s", "echo").await.unwrap();
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_reload_restarts_only_what_changed() {
    let plan = |keep_b: bool| {
        let mut changed = spec("a");
        changed.restart.max = if keep_b { 5 } else { 4 };
        let fleet = Fleet::default().with(changed, echo).with(spec("keeps"), echo);
        if keep_b { fleet.with(spec("goes"), echo) } else { fleet.with(spec("new"), echo) }.into_plan()
    };
    let runtime = callboard::runtime::Runtime::start(plan(true)).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let before = runtime.status();
    runtime.reload(&plan(false)).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let after = runtime.status();
    let names: Vec<_> = after.iter().map(|view| view.id.as_str().to_owned()).collect();
    assert_eq!(names, ["a", "keeps", "new"]);
    assert!(after[0].generation > before[0].generation, "a changed");
    assert_eq!(after[1].generation, before[2].generation, "keeps kept its connection");
    let gone = call(&runtime, "goes", "echo").await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::UnknownServer);
    assert!(!runtime.catalog().servers.contains_key(&"goes".into()), "its tools are gone");
    call(&runtime, "new", "echo").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn entries_that_cannot_run_are_shown_and_refuse_with_their_cure() {
    let states = [
        (EntryState::Disabled, ParkReason::Disabled, ErrorCode::Disabled),
        (EntryState::Pending, ParkReason::PendingApproval, ErrorCode::PendingApproval),
        (EntryState::Invalid, ParkReason::ConfigError, ErrorCode::ConfigError),
    ];
    for (state, reason, code) in states {
        let fleet = Fleet::default().with(spec("fine"), echo).plan(|plan| {
            let mut bad = entry(spec("bad"));
            bad.state = state;
            plan.servers.entries.push(bad);
        });
        let runtime = fleet.ready().await;
        let view = runtime.status().remove(0);
        assert_eq!(view.state, LifeState::Parked(reason));
        assert_eq!(view.generation, Generation::default(), "nothing of it was started");
        let error = call(&runtime, "bad", "echo").await.unwrap_err();
        assert_eq!((error.code, error.delivery), (code, Delivery::NotSent));
        assert!(!error.message.is_empty());
        call(&runtime, "fine", "echo").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_refuses_new_calls_drains_running_ones_and_leaves_nothing() {
    let slow = |m: &Value, w: &Wire| {
        if good(m, w) {
            return;
        }
        let (m, w) = (m.clone(), w.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(1)).await;
            w.result(&m, r#"{"ok":1}"#);
        });
    };
    let runtime = one(slow).await;
    let frontend = runtime.frontend();
    let running = {
        let frontend = frontend.clone();
        tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await })
    };
    idle().await;
    let ending = tokio::spawn(runtime.shutdown());
    idle().await;
    let refused = frontend.call(request("s", "echo", "{}"), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Draining);
    running.await.unwrap().expect("a call that runs is drained, not cut");
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_does_not_slow_the_others() {
    let hangs = |m: &Value, w: &Wire| {
        good(m, w);
    };
    let runtime = Fleet::default().with(spec("hangs"), hangs).with(spec("s"), echo).ready().await;
    let stuck: Vec<_> = (0..64)
        .map(|_| {
            let frontend = runtime.frontend();
            tokio::spawn(async move { frontend.call(request("hangs", "echo", "{}"), None).await })
        })
        .collect();
    idle().await;
    let began = tokio::time::Instant::now();
    for _ in 0..100 {
        call(&runtime, "s", "echo").await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_millis(1), "no time passes for the healthy one");
    stuck.iter().for_each(tokio::task::JoinHandle::abort);
}
