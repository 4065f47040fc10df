//! Ends of the host that nobody wanted: every way in which it can die, with all shapes of trees
//! below it; and what the next start finds when host and guards died together.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::bad::until;
use crate::trees::{Host, Mark, all_processes, command, is_alive, rounds, signal, time_until};

/// A host with everything running.
async fn running(mark: &Mark) -> Host {
    let host = Host::start(mark);
    mark.grown(all_processes()).await;
    until("each has its lease", || {
        std::fs::read_dir(host.leases()).map_or(0, Iterator::count) == crate::trees::SHAPES.len()
    })
    .await;
    host
}

/// Sends the signals to a host; returns how long it took until nothing was left.
async fn dies_of(signals: &[Signal]) -> Duration {
    let mark = Mark::new();
    let host = running(&mark).await;
    let guards = host.guards();
    assert_eq!(guards.len(), crate::trees::SHAPES.len());
    for one in signals {
        signal(host.pid(), *one);
    }
    let gone = || mark.carriers().is_empty() && !guards.iter().any(|guard| is_alive(*guard));
    time_until(&format!("nothing is left after {signals:?}"), gone).await
}

#[tokio::test]
async fn nothing_outlives_a_host_that_was_killed() {
    let mut times = Vec::new();
    for _ in 0..rounds("CALLBOARD_KILL_ROUNDS", 20) {
        times.push(dies_of(&[Signal::KILL]).await);
    }
    times.sort();
    let (half, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{} rounds: empty after {half:?} (half), {longest:?} (longest)", times.len());
}

#[tokio::test]
async fn nothing_outlives_a_host_that_dies_of_any_signal() {
    for one in [Signal::ABORT, Signal::HUP, Signal::QUIT] {
        dies_of(&[one]).await;
    }
}

#[tokio::test]
async fn nothing_outlives_a_host_that_crashes() {
    let mark = Mark::new();
    let host = running(&mark).await;
    // The first one that is only sent meets the check for an overflown stack, and is forgiven.
    until("the host is dead", || {
        signal(host.pid(), Signal::SEGV);
        !is_alive(host.pid())
    })
    .await;
    until("nothing is left", || mark.carriers().is_empty()).await;
}

#[tokio::test]
async fn nothing_outlives_a_host_that_was_stopped_and_then_killed() {
    dies_of(&[Signal::STOP, Signal::KILL]).await;
}

#[tokio::test]
async fn nothing_outlives_a_host_that_is_asked_to_end() {
    for one in [Signal::TERM, Signal::INT] {
        dies_of(&[one]).await;
    }
}

/// The findings of `doctor` about left-overs.
fn doctor(host: &Host) -> Vec<(String, String)> {
    let mut doctor = command(host.home.path(), &["doctor", "--json"]);
    let output = doctor.stdout(std::process::Stdio::piped()).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = answer["data"]["findings"].as_array().or(answer["findings"].as_array()).unwrap();
    let ours = findings.iter().filter(|finding| finding["check"] == "left-overs");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    ours.map(|finding| (text(&finding["level"]), text(&finding["message"]))).collect()
}

#[tokio::test]
async fn what_outlived_host_and_guards_is_ended_by_the_next_start() {
    let mark = Mark::new();
    let host = running(&mark).await;
    assert!(doctor(&host).is_empty(), "a living host leaves nothing");
    let guards = host.guards();
    // Stopped first, so that neither sees the other go.
    for pid in guards.iter().chain([&host.pid()]) {
        signal(*pid, Signal::STOP);
    }
    for pid in guards.iter().chain([&host.pid()]) {
        signal(*pid, Signal::KILL);
    }
    until("host and guards are dead", || !guards.iter().chain([&host.pid()]).any(|pid| is_alive(*pid))).await;
    until("what was a child of a guard died with it", || mark.carriers().len() < all_processes()).await;
    let found = doctor(&host);
    assert!(!found.is_empty() && found.iter().all(|(level, _)| level == "warning"), "{found:?}");
    assert!(found[0].1.contains(&host.pid().to_string()), "{found:?}");

    // Any start will do; a configuration with one server makes it short.
    let one = r#"{"mcpServers":{"clock":{"command":"PROGRAM","args":["__demo-server","clock"]}}}"#;
    let one = one.replace("PROGRAM", env!("CARGO_BIN_EXE_callboard"));
    std::fs::write(host.home.path().join(".callboard/mcp.json"), one).unwrap();
    assert!(command(host.home.path(), &["mcp", "status"]).status().unwrap().success());
    assert!(doctor(&host).is_empty(), "{:?}", doctor(&host));
    assert_eq!(std::fs::read_dir(host.leases()).unwrap().count(), 0);
    // The documented rest: who left the session of its guard before both died.
    let left: Vec<String> = mark.carriers().into_iter().map(crate::trees::command_line).collect();
    assert!(left.iter().all(|line| line.contains("sleep")), "{left:?}");
    let daemons = crate::trees::SHAPES.iter().filter(|shape| shape.escapes).count();
    assert!(left.len() <= daemons + 1, "{left:?}");
}
