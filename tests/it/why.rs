//! `why`: the history of a server, and the verdict over it.

use std::sync::Arc;
use std::time::Duration;

use callboard::config::spec::{RestartSpec, ServerSpec, StartMode};
use callboard::policy::blame::{Fault, Next, blame};
use callboard::runtime::Runtime;
use callboard::time::wall;
use callboard::view::history::{EVENTS_MAX, StartWhy, What};
use callboard::view::{LifeState, ParkReason, ServerView};
use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::bad::program;
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

fn view(runtime: &Runtime, server: &str) -> ServerView {
    runtime.status().into_iter().find(|view| view.id.as_str() == server).expect("it is configured")
}

/// The kinds of what happened, in order.
fn told(view: &ServerView) -> Vec<String> {
    let words = |what: &What| match what {
        What::Started(why) => format!("started {}", why.as_str()),
        What::Connected { .. } => "connected".to_owned(),
        What::Listed(_) => "listed".to_owned(),
        What::Lost { calls, .. } => format!("lost {calls}"),
        What::CallFailed { item, code, .. } => format!("{code} {}", item.as_str()),
        What::BackingOff(_) => "waits".to_owned(),
        What::Parked { reason, .. } => format!("parked {}", reason.as_str()),
        What::StartFailed { cause, .. } => format!("failed {cause}"),
        What::BreakerOpened { .. } => "opened".to_owned(),
        What::BreakerProbing => "probing".to_owned(),
        What::BreakerClosed => "closed".to_owned(),
        What::Answered => "answered".to_owned(),
        What::Refused => "refused".to_owned(),
        What::EntryChanged => "changed".to_owned(),
        What::IdleStopped(_) => "idle".to_owned(),
        What::RestartAsked => "restart".to_owned(),
        other => format!("{other:?}"),
    };
    let history = view.whole_history();
    history.records().map(|record| words(&record.what)).collect()
}

async fn settled(runtime: &Runtime) -> ServerView {
    runtime.settle(&["s".into()], Duration::from_secs(600)).await;
    view(runtime, "s")
}

#[tokio::test(start_paused = true)]
async fn a_life_is_told_in_order_with_what_ended_the_calls_first() {
    let runtime = Fleet::default().with(spec("s"), dies_on_other).ready().await;
    for _ in 0..5 {
        call(&runtime, "s", "echo").await.unwrap();
    }
    let three = [call(&runtime, "s", "other"), call(&runtime, "s", "other"), call(&runtime, "s", "other")];
    assert!(futures_util::future::join_all(three).await.iter().all(Result::is_err));
    let seen = settled(&runtime).await;
    assert_eq!(
        told(&seen),
        [
            "started host_start",
            "connected",
            "listed",
            "answered",
            "lost 3",
            "connection_lost other",
            "waits",
            "started backoff_over",
            "connected",
            "listed"
        ]
    );
    let history = seen.whole_history();
    let times: Vec<u64> = history.records().map(|record| record.times).collect();
    assert_eq!((times[3], times[5]), (5, 3), "calls are counted, not listed");
    assert_eq!(blame(&seen, wall()).fault, Fault::Server);
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_answered_call_leaves_the_history_alone_and_only_counts_up() {
    let runtime = Fleet::default().with(spec("s"), echo).ready().await;
    let before = view(&runtime, "s").history;
    for _ in 0..1_000 {
        call(&runtime, "s", "echo").await.unwrap();
    }
    idle().await;
    let after = view(&runtime, "s");
    assert!(Arc::ptr_eq(&before, &after.history), "nothing was written");
    assert_eq!(after.tally.answered, 1_000);
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_breaker_tells_when_it_opened_what_counted_and_how_its_probe_went() {
    let restart = RestartSpec { max: 0, min_delay: Duration::from_millis(1), ..RestartSpec::default() };
    let lively = ServerSpec { restart: RestartSpec { max_delay: restart.min_delay, ..restart }, ..spec("s") };
    let runtime = Fleet::default().with(lively, dies_on_other).ready().await;
    for _ in 0..3 {
        call(&runtime, "s", "other").await.unwrap_err();
        idle().await;
        tokio::time::advance(Duration::from_millis(60)).await;
        settled(&runtime).await;
    }
    for _ in 0..4 {
        call(&runtime, "s", "echo").await.unwrap_err();
    }
    let open = view(&runtime, "s");
    let verdict = blame(&open, wall());
    assert_eq!(verdict.fault, Fault::Server);
    assert!(verdict.text.contains("call of other failed: connection_lost"), "{verdict:?}");
    assert!(matches!(verdict.next, Next::At("the next call is let through as a probe", _)), "{verdict:?}");
    assert_eq!(open.tally.refused, 4, "a refused call is no event");
    tokio::time::advance(Duration::from_secs(60)).await;
    call(&runtime, "s", "echo").await.unwrap();
    let closed = told(&settled(&runtime).await);
    let course: Vec<&str> = closed
        .iter()
        .map(String::as_str)
        .filter(|word| ["opened", "refused", "probing", "closed"].contains(word))
        .collect();
    assert_eq!(course, ["opened", "refused", "probing", "closed"], "{closed:?}");
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_ends_parked_with_its_cause_and_stays_within_its_bound() {
    let never = |m: &Value, w: &Wire| {
        if method_of(m) == "initialize" { w.hang_up() } else { echo(m, w) }
    };
    let runtime = Fleet::default().with(spec("s"), never).start().await;
    let seen = settled(&runtime).await;
    assert_eq!(seen.state, LifeState::Parked(ParkReason::GivenUp));
    let course = told(&seen);
    assert_eq!(course.iter().filter(|word| word.starts_with("failed")).count(), 5, "{course:?}");
    assert_eq!(course.last().map(String::as_str), Some("parked given_up"));
    let verdict = blame(&seen, wall());
    assert_eq!(
        (verdict.fault, verdict.next),
        (Fault::Server, Next::WaitsFor("a restart or a changed entry"))
    );
    runtime.shutdown().await;

    let restart = RestartSpec { max: 0, min_delay: Duration::from_millis(1), ..RestartSpec::default() };
    let endless =
        ServerSpec { restart: RestartSpec { max_delay: restart.min_delay, ..restart }, ..spec("s") };
    let runtime = Fleet::default().with(endless, never).start().await;
    runtime.settle(&["s".into()], Duration::from_secs(60)).await;
    let history = view(&runtime, "s").history;
    assert!(history.dropped() > 0 && history.records().len() <= EVENTS_MAX, "{}", history.dropped());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_outlives_the_change_of_its_entry_and_says_why_each_start_began() {
    let plan = |idle: u64| {
        let mut changes = spec("s");
        changes.timeouts.idle = Duration::from_secs(idle);
        Fleet::default().with(changes, echo).into_plan()
    };
    let runtime = Runtime::start(plan(7)).await.unwrap();
    settled(&runtime).await;
    runtime.restart_server(&"s".into());
    idle().await;
    settled(&runtime).await;
    runtime.reload(&plan(8)).await.unwrap();
    assert_eq!(
        told(&settled(&runtime).await),
        [
            "started host_start",
            "connected",
            "listed",
            "restart",
            "started asked",
            "connected",
            "listed",
            "changed",
            "started reload",
            "connected",
            "listed"
        ]
    );
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_tells_of_its_first_use_of_its_rest_and_of_who_woke_it() {
    let idle_stop = Some(Duration::from_secs(30));
    let lazy = ServerSpec { start: StartMode::Lazy, idle_stop, ..spec("s") };
    let runtime = Fleet::default().with(lazy, echo).plan(|plan| plan.only = Some([].into())).start().await;
    call(&runtime, "s", "echo").await.unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>()).await;
    assert_eq!(view(&runtime, "s").state, LifeState::Dormant);
    call(&runtime, "s", "echo").await.unwrap();
    let course = told(&settled(&runtime).await);
    let starts: Vec<&String> =
        course.iter().filter(|word| word.starts_with("started") || *word == "idle").collect();
    let woken = format!("started {}", StartWhy::IdleWake.as_str());
    assert_eq!(starts, ["started first_use", "idle", woken.as_str()], "{course:?}");
    runtime.shutdown().await;
}

/// A home whose one server `s` is that entry.
fn home(entry: Value) -> Home {
    let home = Home::new();
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    home
}

fn bad(args: &[&str]) -> Value {
    json!({"command": program().display().to_string(), "args": args})
}

fn events(answer: &Value) -> Vec<&str> {
    answer["data"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

#[test]
fn a_healthy_server_is_nobodys_fault() {
    let home = home(bad(&[]));
    let answer = home.run(&["mcp", "why", "s", "--json"]).json(0);
    assert_eq!(answer["schema"], "callboard.why/1");
    assert_eq!(answer["data"]["verdict"]["fault"], "nobody");
    assert_eq!(events(&answer), ["started", "spawned", "connected", "listed"]);
    assert_eq!(answer["data"]["events"][1]["pid"], answer["data"]["status"]["pid"]);
    let text = home.run(&["mcp", "why", "s"]);
    assert!(text.expect(0).stdout.contains("lists read: 13 tools"), "{text:?}");
}

#[test]
fn each_kind_of_trouble_has_its_fault_its_cure_and_its_exit_code() {
    for (entry, fault, last, fix) in [
        (json!({"command": "not-there-at-all"}), "configuration", "parked", "install it"),
        (json!({"command": 7}), "configuration", "", ""),
        (json!({"command": "x", "enabled": false}), "nobody", "", "callboard mcp enable s"),
        (
            bad(&["--exit-on-start", "3", "--stderr", "no luck"]),
            "server",
            "parked",
            "run its command by itself",
        ),
        (json!({"url": "http://127.0.0.1:9/mcp"}), "network", "parked", "start the server"),
    ] {
        let answer = home(entry.clone()).run(&["mcp", "why", "s", "--json"]).json(1);
        let data = &answer["data"];
        assert_eq!(
            (data["verdict"]["fault"].as_str(), &data["healthy"]),
            (Some(fault), &json!(false)),
            "{entry}"
        );
        assert_eq!(events(&answer).last().copied().unwrap_or_default(), last, "{entry}");
        let cure = data["verdict"]["fix"].as_str().unwrap_or_default();
        assert!(cure.contains(fix), "{entry}: {cure}");
    }
}

#[test]
fn the_last_words_of_a_crash_are_in_the_timeline_without_secrets() {
    let mut entry = bad(&["--exit-on-start", "3", "--stderr", "key s3cr3t-value-1 is wrong"]);
    entry["env"] = json!({"API_TOKEN": "s3cr3t-value-1"});
    entry["restart"] = json!({"max": 1});
    let home = home(entry);
    let shown = home.run(&["mcp", "why", "s"]);
    assert!(shown.expect(1).stdout.contains("stderr: key [redacted] is wrong"), "{shown:?}");
    assert!(!shown.stdout.contains("s3cr3t") && shown.stdout.contains("exited with code 3"), "{shown:?}");
}

#[test]
fn a_late_server_is_not_waited_for_unless_asked_to() {
    let home = home(json!({"command": "sleep", "args": ["600"], "connect_timeout": 1}));
    let answer = home.run(&["mcp", "why", "s", "--json"]).json(1);
    assert_eq!(events(&answer), ["started", "spawned", "late"]);
    assert_eq!(answer["data"]["verdict"]["next"], "waits_for");
    assert_eq!(answer["data"]["status"]["late"], true);
}

#[test]
fn a_tool_is_explained_and_what_is_not_there_ends_with_4() {
    let mut entry = bad(&[]);
    entry["deniedTools"] = json!(["big"]);
    let home = home(entry);
    for (tool, decision, rule) in [("big", "refuse", "deniedTools big"), ("echo", "ask", "mode readonly")] {
        let answer = home.run(&["mcp", "why", "s", tool, "--json"]).json(0);
        let seen = &answer["data"]["tool"];
        assert_eq!(
            (seen["decision"].as_str(), seen["rule"].as_str()),
            (Some(decision), Some(rule)),
            "{seen}"
        );
        assert_eq!(
            (seen["listing"].as_str(), seen["exposed_name"].as_str().is_some()),
            (Some("listed"), true)
        );
    }
    let missing = home.run(&["mcp", "why", "s", "bigg", "--json"]).json(4);
    assert_eq!(
        (&missing["error"]["code"], &missing["error"]["tool"]),
        (&json!("unknown_tool"), &json!("bigg"))
    );
    assert_eq!(home.run(&["mcp", "why", "t", "--json"]).json(4)["error"]["code"], "unknown_server");
}
