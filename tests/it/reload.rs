//! A reload is a difference: what did not change does not notice, what is gone never comes back,
//! and what can't be read changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard::call::ErrorCode;
use callboard::config::diff::Change;
use callboard::config::spec::{EntryState, Issue, Scope, SecretText, Severity, Source, TransportSpec};
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};

use crate::support::bad::{PATIENCE, flags, program, until};
use crate::support::*;

fn echo(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, r#"{"ok":1}"#);
    }
}

/// Answers calls after that time.
fn slow(after: Duration) -> impl Script {
    move |message: &Value, wire: &Wire| {
        if !good(message, wire) {
            later(after, message, wire, "{}");
        }
    }
}

fn later(after: Duration, message: &Value, wire: &Wire, result: &str) {
    let (message, wire, result) = (message.clone(), wire.clone(), result.to_owned());
    tokio::spawn(async move {
        tokio::time::sleep_until(tokio::time::Instant::now() + after).await;
        wire.result(&message, &result);
    });
}

fn named(runtime: &Runtime) -> Vec<String> {
    runtime.catalog().servers.keys().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reload_tells_what_became_of_every_server() {
    let plan = |after: bool| {
        let mut changes = spec("changes");
        changes.timeouts.idle = Duration::from_secs(if after { 7 } else { 8 });
        let mut fleet = Fleet::default().with(changes, echo).with(spec("keeps"), echo);
        let mute = |_: &Value, _: &Wire| {};
        fleet = if after { fleet.with(spec("new"), mute) } else { fleet.with(spec("goes"), echo) };
        fleet.into_plan()
    };
    let runtime = Runtime::start(plan(false)).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let mut wanted = plan(true);
    let mut wrong = entry(spec("wrong"));
    wrong.state = EntryState::Invalid;
    wanted.servers.entries.push(wrong);
    let told = runtime.reload(&wanted).await.unwrap().servers;
    let changes: Vec<Change> = told.iter().map(|server| server.change.clone()).collect();
    assert_eq!(
        changes,
        [
            Change::Changed("changes".into()),
            Change::Removed("goes".into()),
            Change::Unchanged("keeps".into()),
            Change::Added("new".into()),
            Change::Added("wrong".into()),
        ]
    );
    let states: Vec<Option<LifeState>> = told.iter().map(|s| s.state.as_ref().map(|s| s.0)).collect();
    assert_eq!(states[1..3], [None, Some(LifeState::Ready)]);
    assert_eq!(states[3..], [Some(LifeState::Connecting), Some(LifeState::Parked(ParkReason::ConfigError))]);
    assert!(states[0].is_some_and(|state| matches!(state, LifeState::Connecting | LifeState::Ready)));
}

#[tokio::test(start_paused = true)]
async fn calls_of_unchanged_servers_never_notice_a_reload() {
    let plan = |round: u32| {
        let mut other = spec("other");
        other.restart.max = round;
        let fleet = Fleet::default().with(other, echo);
        fleet.with(spec("keeps"), slow(Duration::from_secs(60))).into_plan()
    };
    let runtime = Runtime::start(plan(1)).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let generation = runtime.status()[0].generation;
    let frontend = runtime.frontend();
    let running = tokio::spawn(async move { frontend.call(request("keeps", "echo", "{}"), None).await });
    idle().await;
    for round in 2..12 {
        runtime.reload(&plan(round)).await.unwrap();
    }
    let reply = running.await.unwrap().expect("it was answered");
    assert_eq!(reply.generation, generation);
    assert_eq!((runtime.status()[0].generation, runtime.status()[0].restarts), (generation, 0));
}

#[tokio::test(start_paused = true)]
async fn a_removed_server_drains_for_two_seconds_and_no_longer() {
    for (seconds, answered) in [(1, true), (60, false)] {
        let plan = Fleet::default().with(spec("s"), slow(Duration::from_secs(seconds))).into_plan();
        let runtime = Runtime::start(plan).await.unwrap();
        runtime.settle(&[], Duration::from_secs(60)).await;
        let frontend = runtime.frontend();
        let running = tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await });
        idle().await;
        let began = tokio::time::Instant::now();
        runtime.reload(&RuntimePlan::default()).await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(running.await.unwrap().is_ok(), answered);
        assert_eq!(named(&runtime), Vec::<String>::new());
        assert_eq!(call(&runtime, "s", "echo").await.unwrap_err().code, ErrorCode::UnknownServer);
    }
}

#[tokio::test(start_paused = true)]
async fn late_results_of_a_removed_server_never_list_it_again() {
    for late in ["initialize", "tools/list", "tools/call"] {
        let script = move |message: &Value, wire: &Wire| {
            let method = method_of(message);
            let tools = json!({"tools": [{"name": "late", "inputSchema": {}}]}).to_string();
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "late", "version": "1"}});
            match method {
                "initialize" if late == method => {
                    later(Duration::from_secs(3), message, wire, &hello.to_string());
                }
                "tools/list" if late == method => later(Duration::from_secs(1), message, wire, &tools),
                "tools/call" => later(Duration::from_secs(1), message, wire, "{}"),
                _ => echo(message, wire),
            }
        };
        let both = Fleet::default().with(spec("goes"), script).with(spec("keeps"), echo).into_plan();
        let without = Fleet::default().with(spec("keeps"), echo).into_plan();
        let runtime = Runtime::start(both).await.unwrap();
        runtime.settle(&["keeps".into()], Duration::from_secs(60)).await;
        let frontend = runtime.frontend();
        // A call in flight holds the server in its drain, so that a late list finds its actor alive.
        let running = tokio::spawn(async move { frontend.call(request("goes", "late", "{}"), None).await });
        idle().await;
        tokio::time::advance(Duration::from_millis(500)).await;
        runtime.reload(&without).await.unwrap();
        assert_eq!(named(&runtime), ["keeps"], "{late}");
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(1)).await;
            idle().await;
            assert_eq!(named(&runtime), ["keeps"], "{late}");
            assert_eq!(runtime.status().len(), 1);
        }
        let _ = running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_changed_entry_are_gone_when_the_reload_is_done() {
    let plan = |tool: &'static str, idle: u64| {
        let mut spec = spec("s");
        spec.timeouts.idle = Duration::from_secs(idle);
        let script = move |message: &Value, wire: &Wire| {
            if method_of(message) == "tools/list" {
                let tools = json!({"tools": [{"name": tool, "inputSchema": {}}]});
                wire.result(message, &tools.to_string());
            } else {
                echo(message, wire);
            }
        };
        Fleet::default().with(spec, script).into_plan()
    };
    let runtime = Runtime::start(plan("before", 1)).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let changed = plan("after", 2);
    runtime.reload(&changed).await.unwrap();
    assert!(runtime.catalog().exposed("mcp__s__before").is_none());
    runtime.settle(&[], Duration::from_secs(60)).await;
    assert!(runtime.catalog().exposed("mcp__s__before").is_none());
    assert!(runtime.catalog().exposed("mcp__s__after").is_some());
}

/// Badmcp servers by name, each with further flags, and a file with the pids of every start.
fn servers(folder: &Path, flags: &[(&str, Vec<String>)]) -> RuntimePlan {
    let mut plan = RuntimePlan::default();
    for (name, flags) in flags {
        let mut args = flags.clone();
        args.extend(["--count-starts".to_owned(), starts(folder, name).display().to_string()]);
        let mut spec = spec(name);
        spec.transport = TransportSpec::Stdio {
            command: program().display().to_string(),
            args: args.into_iter().map(SecretText::new).collect(),
            env: Vec::new(),
            cwd: None,
        };
        plan.servers.entries.push(entry(spec));
    }
    plan
}

fn starts(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("starts-{name}"))
}

/// The processes of these servers that still live.
fn living(folder: &Path, names: &[&str]) -> BTreeSet<u32> {
    let files = names.iter().map(|name| std::fs::read_to_string(starts(folder, name)).unwrap_or_default());
    let pids: Vec<u32> =
        files.flat_map(|f| f.lines().filter_map(|l| l.parse().ok()).collect::<Vec<_>>()).collect();
    pids.into_iter()
        .filter(|pid| Path::new(&format!("/proc/{pid}/cmdline")).exists() && !zombie(*pid))
        .collect()
}

fn zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn pids(runtime: &Runtime) -> BTreeSet<u32> {
    runtime.status().iter().filter_map(|view| view.pid).collect()
}

const NAMES: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_number_of_reloads_each_server_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = flags("B005");
    let plan = |round: usize| {
        let of = |index: usize, name| {
            let mut flags = flags.clone();
            if round % NAMES.len() == index {
                flags.extend(["--tool".to_owned(), format!("t{round}")]);
            }
            (name, flags)
        };
        let all: Vec<_> = NAMES.into_iter().enumerate().map(|(index, name)| of(index, name)).collect();
        servers(folder, &all)
    };
    let runtime = Runtime::start(plan(0)).await.unwrap();
    runtime.settle(&[], PATIENCE).await;
    for round in 0..20 {
        for _same in 0..2 {
            let before = pids(&runtime);
            let told = runtime.reload(&plan(round / 2)).await.unwrap();
            runtime.settle(&[], PATIENCE).await;
            let now = pids(&runtime);
            assert_eq!(now.len(), 3, "round {round}: {told:?}");
            assert_eq!(living(folder, &NAMES), now, "round {round}: {told:?}");
            let kept = told.servers.iter().filter(|s| matches!(s.change, Change::Unchanged(_))).count();
            assert_eq!(before.intersection(&now).count(), kept, "round {round}: {told:?}");
        }
    }
    runtime.shutdown().await;
    assert_eq!(living(folder, &NAMES), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_server_alone_gets_a_new_process_and_its_new_tools_count() {
    let folder = tempfile::tempdir().unwrap();
    let with = |tool: &str| {
        let changed: Vec<String> = flags("B118")
            .iter()
            .map(|flag| if flag == "old" { tool.to_owned() } else { flag.clone() })
            .collect();
        servers(folder.path(), &[("a", Vec::new()), ("b", changed), ("c", Vec::new())])
    };
    let runtime = Runtime::start(with("old")).await.unwrap();
    runtime.settle(&[], PATIENCE).await;
    let before = runtime.status();
    call(&runtime, "b", "old").await.unwrap();
    runtime.reload(&with("new")).await.unwrap();
    runtime.settle(&[], PATIENCE).await;
    let changed: Vec<bool> =
        before.iter().zip(runtime.status()).map(|(old, new)| old.pid != new.pid).collect();
    assert_eq!(changed, [false, true, false]);
    call(&runtime, "b", "new").await.unwrap();
    assert_eq!(call(&runtime, "b", "old").await.unwrap_err().code, ErrorCode::UnknownTool);
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_starter_that_was_removed_meanwhile_never_appears() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let good = ("good", Vec::new());
    let both = servers(folder, &[good.clone(), ("slow", flags("B119"))]);
    let runtime = Runtime::start(both).await.unwrap();
    until("the slow one was started", || starts(folder, "slow").exists()).await;
    runtime.settle(&["good".into()], PATIENCE).await;
    let told = runtime.reload(&servers(folder, std::slice::from_ref(&good))).await.unwrap();
    assert_eq!(told.servers[1].change, Change::Removed("slow".into()));
    assert_eq!(living(folder, &["slow"]), BTreeSet::new(), "it is gone when the reload says so");
    assert_eq!(named(&runtime), ["good"]);
    call(&runtime, "good", "count").await.unwrap();

    let mut broken = RuntimePlan::default();
    broken.servers.issues.push(Issue {
        code: callboard::config::spec::IssueCode::Syntax,
        severity: Severity::Error,
        source: Source { scope: Scope::User, origin: "mcp.json".into() },
        position: Some((3, 1)),
        path: String::new(),
        message: "not JSON".to_owned(),
        fix: None,
    });
    let before = pids(&runtime);
    let refused = runtime.reload(&broken).await.unwrap_err();
    assert!(refused.to_string().contains("mcp.json:3:1: not JSON"), "{refused}");
    assert_eq!((pids(&runtime), named(&runtime)), (before, vec!["good".to_owned()]));
    call(&runtime, "good", "count").await.unwrap();
    runtime.shutdown().await;
}
