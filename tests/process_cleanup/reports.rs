//! Reports of other hosts' users about processes (LIFE), with the flags of their reproduction.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::runtime::Runtime;
use callboard::view::LifeState;
use rustix::process::Signal;
use serde_json::json;

use crate::support::bad::{PATIENCE, SOON, Yard, flags, program, runs, until};
use crate::support::spec;
use crate::trees::{Running, command, guarding, is_alive, plan, signal};

/// Processes that a pid file names and that live.
fn living(file: &Path) -> BTreeSet<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| is_alive(*pid)).collect()
}

/// A server with these flags that writes down its processes.
fn server(name: &str, flags: &[String], pids: &Path) -> ServerSpec {
    let mut args: Vec<SecretText> = flags.iter().map(SecretText::new).collect();
    args.extend([SecretText::new("--pid-file"), SecretText::new(pids.display().to_string())]);
    let mut spec = spec(name);
    spec.transport =
        TransportSpec::Stdio { command: program().display().to_string(), args, env: Vec::new(), cwd: None };
    spec
}

#[tokio::test]
async fn the_worker_below_two_launchers_ends_with_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let mut one = server("s", &flags("B001"), &pids);
    if let TransportSpec::Stdio { command, args, .. } = &mut one.transport {
        let script = ["-c", r#"sh -c '"$0" "$@"; :' "$0" "$@"; :"#, command].map(SecretText::new);
        args.splice(..0, script);
        *command = "/bin/sh".to_owned();
    }
    let runtime = Runtime::start(plan(vec![one])).await.unwrap();
    assert_eq!(runtime.settle(&[], PATIENCE).await[0].state, LifeState::Ready);
    assert_eq!(living(&pids).len(), 2, "the worker and its helper");
    runtime.shutdown().await;
    assert_eq!(living(&pids), BTreeSet::new());
}

#[tokio::test]
async fn servers_do_not_outlive_a_killed_host() {
    let folder = tempfile::tempdir().unwrap();
    for (number, flags) in runs::<2>("B002").into_iter().enumerate() {
        let pids = folder.path().join(format!("pids-{number}"));
        let mut words = flags.clone();
        words.extend(["--pid-file".to_owned(), pids.display().to_string()]);
        let one = json!({"command": program(), "args": words});
        let config = json!({"mcpServers": {"a": one, "b": one, "c": one}}).to_string();
        std::fs::write(folder.path().join("mcp.json"), config).unwrap();
        let mut host = command(folder.path(), &["mcp", "status", "--watch", "--mcp-config", "mcp.json"]);
        let host = Running::of(&mut host);
        until("three servers and their helpers", || living(&pids).len() == 6).await;
        signal(host.pid(), Signal::KILL);
        until("all are gone", || living(&pids).is_empty()).await;
    }
}

#[tokio::test]
async fn stuck_servers_hold_neither_an_answer_nor_the_end() {
    let stuck = flags("B004");
    let mut yard = Yard::new();
    for name in ["a", "b", "c", "d", "e"] {
        yard = yard.with(name, &stuck).await;
    }
    let host = yard.plan(|plan| plan.guard = Some(guarding(None))).ready().await;
    host.echo("c", "an answer").await;
    let began = Instant::now();
    host.end().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn any_number_of_reloads_leaves_one_process_for_each_server() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let flags = flags("B005");
    let servers = |hash: usize| {
        let one = |name: &str| {
            let mut one = server(name, &flags, &pids);
            one.hash = format!("{name}-{hash}");
            one.limits.queue = 10 + hash;
            one
        };
        plan(["a", "b", "c"].map(one).into())
    };
    let runtime = Runtime::start(servers(0)).await.unwrap();
    for round in 0..20 {
        // Every second reload changes every entry.
        runtime.reload(&servers(round / 2)).await.expect("it can be read");
        for view in runtime.settle(&[], PATIENCE).await {
            assert_eq!(view.state, LifeState::Ready, "{view:?}");
        }
        assert_eq!(living(&pids).len(), 3, "after reload {round}");
    }
    runtime.shutdown().await;
    assert_eq!(living(&pids), BTreeSet::new());
}

#[tokio::test]
async fn a_server_that_needs_eof_gets_it_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut flags = flags("B007");
    flags.extend(["--log-shutdown".to_owned(), log.display().to_string()]);
    let yard = Yard::new().with("s", &flags).await;
    yard.plan(|plan| plan.guard = Some(guarding(None))).ready().await.end().await;
    assert_eq!(std::fs::read_to_string(log).unwrap(), "eof\n");
}

#[tokio::test]
async fn a_server_that_left_because_it_was_idle_answers_the_next_call() {
    let yard = Yard::new().with("s", &flags("B008")).await;
    let host = yard.plan(|plan| plan.guard = Some(guarding(None))).ready().await;
    let first = host.pid("s");
    until("it left by itself", || !is_alive(crate::trees::id(first))).await;
    let began = Instant::now();
    host.until("s", "its end is noticed", |view| view.pid != Some(first)).await;
    host.echo("s", "back").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_ne!(host.pid("s"), first);
    host.end().await;
}
