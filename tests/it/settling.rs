//! From the start of a host to the moment when its catalogue can be relied on, and what arrives
//! in the moment of an answer.

use std::time::Duration;

use callboard::call::CallEvent;
use callboard::config::spec::StartMode;
use callboard::view::LifeState;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::*;

fn quick(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, "{}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_by_itself_is_never_taken_for_one_that_waits_to_be_used() {
    for round in 0..20 {
        let mut lazy = spec("lazy");
        lazy.start = StartMode::Lazy;
        let names: Vec<String> = (0..8).map(|n| format!("eager{n}")).collect();
        let fleet = names.iter().fold(Fleet::default(), |fleet, name| fleet.with(spec(name), quick));
        let eager = names.iter().map(|name| name.as_str().into()).collect();
        let fleet = fleet.with(lazy, quick).plan(|plan| plan.only = Some(eager));
        let runtime = fleet.start().await;
        for view in runtime.status() {
            let waits = view.state == LifeState::Dormant;
            assert_eq!(waits, view.id.as_str() == "lazy", "round {round}: {} is {:?}", view.id, view.state);
        }
        let views = runtime.settle_or_grace(Duration::from_secs(60)).await;
        assert_eq!(views.iter().filter(|view| view.state == LifeState::Ready).count(), 8, "round {round}");
        runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_settled_servers_offer_is_in_the_catalogue() {
    const SERVERS: usize = 12;
    for round in 0..20 {
        let names: Vec<String> = (0..SERVERS).map(|n| format!("s{n:02}")).collect();
        let fleet = names.iter().fold(Fleet::default(), |fleet, name| fleet.with(spec(name), quick));
        let runtime = fleet.start().await;
        if round % 2 == 0 {
            runtime.settle(&[], Duration::from_secs(60)).await;
        } else {
            runtime.settle_or_grace(Duration::from_secs(60)).await;
        }
        assert_eq!(runtime.catalog().tools.len(), 2 * SERVERS, "round {round}");
        runtime.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn progress_told_right_before_the_answer_reaches_the_caller() {
    const REPORTS: u64 = 5;
    let runtime = one(|message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        // One write: all of it arrives at once.
        let token = &message["params"]["_meta"]["progressToken"];
        let mut lines = String::new();
        for progress in 1..=REPORTS {
            let params = json!({"progressToken": token, "progress": progress});
            let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            lines.push_str(&format!("{report}\n"));
        }
        wire.raw(format!("{lines}{}\n", answer(message, "{}")));
    })
    .await;
    let (events, mut seen) = mpsc::channel(64);
    runtime.frontend().call(request("s", "echo", "{}"), Some(events)).await.unwrap();
    let mut told = Vec::new();
    while let Some(CallEvent::Progress(params)) = seen.recv().await {
        let params: Value = serde_json::from_slice(&params).unwrap();
        told.push(params["progress"].as_u64().unwrap());
    }
    assert_eq!(told, (1..=REPORTS).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_truth_about_all_is_told_when_those_that_are_left_are_late() {
    let silent = |_: &serde_json::Value, wire: &Wire| wire.line("hello, I am no MCP server");
    let began = tokio::time::Instant::now();
    let runtime = Fleet::default().with(spec("s"), silent).start().await;
    let views = runtime.settle_or_grace(Duration::from_secs(2)).await;
    assert!(began.elapsed() <= Duration::from_secs(16), "{:?}", began.elapsed());
    let view = &views[0];
    assert!(view.late && view.state == callboard::view::LifeState::Connecting, "{view:?}");
    let why = view.why.as_deref().unwrap_or_default();
    assert!(why.contains("no answer to the handshake within 15s"), "{why}");
    assert!(why.contains("that is no protocol (1 line, last: hello, I am no MCP server)"), "{why}");
    assert!(view.fix.as_ref().is_some_and(|fix| fix.contains("by itself")), "{view:?}");
}
