//! Lists stay fresh while a server runs: what it announces, what it does not, and no more of
//! either than is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callboard::config::spec::StartMode;
use callboard::runtime::Runtime;
use callboard::view::LifeState;
use serde_json::{Value, json};

use crate::support::bad::{self, Host, runs_in};
use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A server with as many tools as `tools` says, that announces nothing.
fn silent(tools: Arc<AtomicUsize>) -> impl Script {
    move |message: &Value, wire: &Wire| match method_of(message) {
        "initialize" => {
            let version = &message["params"]["protocolVersion"];
            let result = json!({"protocolVersion": version, "capabilities": {"tools": {}},
                "serverInfo": {"name": "silent", "version": "1"}});
            wire.result(message, &result.to_string());
        }
        "tools/list" => match tools.load(Ordering::Relaxed) {
            0 => wire.line(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"db down"}}}}"#,
                message["id"]
            )),
            count => {
                let all: Vec<Value> =
                    (0..count).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}})).collect();
                wire.result(message, &json!({ "tools": all }).to_string());
            }
        },
        "tools/call" => wire.result(message, "{}"),
        _ => {}
    }
}

async fn pass(time: Duration) {
    const STEP: Duration = Duration::from_millis(500);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        tokio::time::advance(STEP).await;
        idle().await;
    }
}

async fn polled(script: impl Script) -> Runtime {
    Fleet::default().with(spec("s"), script).plan(|plan| plan.poll = Some(MINUTE)).ready().await
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_announces_is_read_again_within_a_minute() {
    let tools = Arc::new(AtomicUsize::new(1));
    let tape = Tape::default();
    let runtime = polled(tape.of(silent(tools.clone()))).await;
    let before = runtime.catalog();
    for round in 1..=3 {
        pass(MINUTE).await;
        assert_eq!(tape.received("tools/list").len(), 1 + round);
        assert!(Arc::ptr_eq(&before, &runtime.catalog()), "nothing changed, nothing is published");
    }
    tools.store(2, Ordering::Relaxed);
    pass(MINUTE).await;
    assert_eq!(runtime.catalog().tools.len(), 2);
    assert_eq!(runtime.catalog().version, before.version + 1);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_fails_keeps_what_is_known_and_counts_for_nothing_else() {
    let tools = Arc::new(AtomicUsize::new(2));
    let runtime = polled(silent(tools.clone())).await;
    tools.store(0, Ordering::Relaxed);
    pass(MINUTE).await;
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.restarts, view.calls_failed), (LifeState::Ready, 0, 0));
    assert!(view.listed && view.warnings.iter().any(|w| w.contains("db down")), "{:?}", view.warnings);
    assert_eq!(runtime.catalog().tools.len(), 2);
    call(&runtime, "s", "t1").await.unwrap();
    tools.store(3, Ordering::Relaxed);
    pass(MINUTE).await;
    let view = runtime.status().remove(0);
    assert_eq!((view.warnings.len(), view.counts.tools), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn who_announces_its_changes_is_not_polled_and_off_means_never() {
    for (announces, poll) in [(true, Some(MINUTE)), (false, None)] {
        let tape = Tape::default();
        let script = move |message: &Value, wire: &Wire| {
            let silent = silent(Arc::new(AtomicUsize::new(1)));
            if !announces || !good(message, wire) {
                silent(message, wire);
            }
        };
        let fleet = Fleet::default().with(spec("s"), tape.of(script)).plan(|plan| plan.poll = poll);
        let _runtime = fleet.ready().await;
        pass(MINUTE * 3).await;
        assert_eq!(tape.received("tools/list").len(), 1, "announces: {announces}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_never_starts_a_server_and_ends_with_its_connection() {
    let tape = Tape::default();
    let mut lazy = spec("lazy");
    lazy.start = StartMode::Lazy;
    let dies = tape.of(|message: &Value, wire: &Wire| {
        if method_of(message) == "tools/call" {
            wire.hang_up();
        } else if wire.connection == 1 {
            silent(Arc::new(AtomicUsize::new(1)))(message, wire);
        }
    });
    let mut parked = spec("s");
    parked.restart.max = 1;
    let untouched = Tape::default();
    let runtime = Fleet::default()
        .with(parked, dies)
        .with(lazy, untouched.of(silent(Arc::new(AtomicUsize::new(1)))))
        .plan(|plan| {
            plan.poll = Some(MINUTE);
            plan.only = Some(["s".into()].into());
        })
        .ready()
        .await;
    let _ = call(&runtime, "s", "t0").await;
    pass(MINUTE * 4).await;
    assert_eq!(tape.received("tools/list").len(), 1, "the second connection never listed");
    assert!(untouched.received("initialize").is_empty());
    assert_eq!(runtime.status()[0].state, LifeState::Dormant);
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_poll_without_a_restart() {
    let tape = Tape::default();
    let plan = |poll| {
        let fleet = Fleet::default().with(spec("s"), tape.of(silent(Arc::new(AtomicUsize::new(1)))));
        fleet.plan(|plan| plan.poll = poll).into_plan()
    };
    let runtime = Runtime::start(plan(None)).await.unwrap();
    runtime.settle(&[], MINUTE).await;
    for (poll, lists) in [(Some(MINUTE), 4..=5), (None, 0..=0), (Some(MINUTE * 2), 2..=2)] {
        runtime.reload(&plan(poll)).await.unwrap();
        let before = tape.received("tools/list").len();
        pass(MINUTE * 4 + Duration::from_secs(40)).await;
        let now = tape.received("tools/list").len() - before;
        assert!(lists.contains(&now), "{poll:?}: {now}");
    }
    assert_eq!(tape.received("initialize").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_servers_are_not_polled_together() {
    let tape = Tape::default();
    let mut fleet = Fleet::default().plan(|plan| plan.poll = Some(MINUTE));
    for number in 0..200 {
        let script = tape.of(silent(Arc::new(AtomicUsize::new(1))));
        fleet = fleet.with(spec(&format!("s{number:03}")), script);
    }
    let _runtime = fleet.ready().await;
    let mut most = 0;
    let mut seen = tape.received("tools/list").len();
    for _ in 0..60 {
        tokio::time::advance(Duration::from_secs(1)).await;
        idle().await;
        let now = tape.received("tools/list").len();
        most = most.max(now - seen);
        seen = now;
    }
    assert_eq!(seen, 400, "each was polled once");
    assert!(most <= 40, "{most} in one second");
}

#[tokio::test(start_paused = true)]
async fn announcements_without_a_change_are_asked_about_less_and_less_and_told_to_nobody() {
    let tape = Tape::default();
    let runtime = one(tape.of(|message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(message, "{}");
        }
        if method_of(message) == "tools/list" {
            wire.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        }
    }))
    .await;
    let before = runtime.catalog();
    pass(MINUTE * 5).await;
    let lists = tape.received("tools/list").len();
    assert!((5..=11).contains(&lists), "{lists}");
    assert!(Arc::ptr_eq(&before, &runtime.catalog()));
}

#[tokio::test]
async fn a_flood_of_announcements_reaches_the_actor_as_a_trickle_and_calls_stay_fast() {
    let runtime = one(|message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        let mut flood = String::new();
        for _ in 0..50_000 {
            flood.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n");
            flood.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n");
        }
        wire.raw(format!("{flood}{}\n", answer(message, "{}")));
    })
    .await;
    for _ in 0..3 {
        call(&runtime, "s", "echo").await.unwrap();
    }
    assert_eq!(runtime.status()[0].calls_ok, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_appears_or_goes_is_known_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let [flags] = runs_in("B055", folder.path());
    let host = Host::of(&flags).await;
    let control = folder.path().join("control");
    let tell = |lines: &str| std::fs::write(&control, lines).unwrap();
    let version = host.runtime.catalog().version;
    tell("add-tool fresh\nnotify tools\n");
    host.until("s", "the new tool", |view| view.counts.tools == bad::TOOLS + 1).await;
    host.runtime.settle(&[], bad::PATIENCE).await;
    host.call("s", "fresh", &json!({})).await.unwrap();
    assert_eq!(host.runtime.catalog().version, version + 1, "one change, one announcement");
    tell("add-tool fresh\nnotify tools\nremove-tool fresh\nnotify tools\n");
    host.until("s", "the tool is gone", |view| view.counts.tools == bad::TOOLS).await;
    assert_eq!(host.trace("s", "start").len(), 1);
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_announcements_costs_few_lists_and_calls_stay_fast() {
    for flags in [flags_of(0), flags_of(1)] {
        let began = std::time::Instant::now();
        let host = Host::of(&flags).await;
        let catalog = host.runtime.catalog();
        let mut calls = 0;
        while host.received("s", "tools/list").len() < 3 || calls < 10 {
            host.echo("s", "still here").await;
            calls += 1;
        }
        let lists = host.received("s", "tools/list").len() as u64;
        // The first one, and then at most one for each second.
        assert!(lists <= 2 + began.elapsed().as_secs(), "{lists} lists in {:?}", began.elapsed());
        assert!(Arc::ptr_eq(&catalog, &host.runtime.catalog()), "what is the same is told to nobody");
        host.end().await;
    }
}

/// One of the two reproductions.
fn flags_of(run: usize) -> Vec<String> {
    let runs: [Vec<String>; 2] = bad::runs("B056");
    runs[run].clone()
}
