//! Ends of guards that nobody wanted.

use std::time::Duration;

use callboard::view::LifeState;
use rustix::process::Signal;

use crate::support::bad::until;
use crate::trees::{self, Host, Mark, SHAPES, all_processes, children, is_alive, signal};

/// Sends a signal to every guard of a host; everything of theirs must go, and new ones come.
async fn guards_get(one: Signal) {
    let mark = Mark::new();
    let host = Host::start(&mark);
    let old = mark.grown(all_processes()).await;
    let guards = host.guards();
    assert_eq!(guards.len(), SHAPES.len());
    for guard in &guards {
        signal(*guard, one);
    }
    let gone = || mark.carriers().is_disjoint(&old) && !guards.iter().any(|guard| is_alive(*guard));
    until("everything of the old guards is gone", gone).await;
    until("new ones have come", || mark.carriers().len() == all_processes()).await;
    until("no zombie is left", || children(host.pid()).iter().all(|(_, state)| *state != 'Z')).await;
    let now: Vec<i32> = host.guards();
    assert_eq!(now.len(), SHAPES.len(), "one guard for each server, and no stray below the host");
}

#[tokio::test]
async fn the_tree_of_a_killed_guard_is_ended_by_the_host() {
    guards_get(Signal::KILL).await;
}

#[tokio::test]
async fn a_guard_that_is_asked_to_end_ends_its_tree_first() {
    for one in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        guards_get(one).await;
    }
}

#[tokio::test]
async fn a_lost_guard_is_told_and_the_server_comes_back() {
    let mark = Mark::new();
    let runtime = callboard::runtime::Runtime::start(trees::plan(vec![SHAPES[1].spec(&mark)])).await.unwrap();
    let before = runtime.settle(&[], Duration::from_secs(30)).await.remove(0);
    signal(trees::id(before.guard_pid.unwrap()), Signal::KILL);
    until("it came back", || {
        let view = runtime.status().remove(0);
        view.state == LifeState::Ready && view.guard_pid != before.guard_pid
    })
    .await;
    assert_eq!(runtime.status()[0].restarts, 1, "one incident");
    runtime.shutdown().await;
    mark.assert_gone("after the shutdown");
}

/// In a container the session of the host is often one from outside, which has no number there.
#[test]
fn in_a_container_whose_session_came_from_outside_the_same_holds() {
    let inside = |program: &std::path::Path, args: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program).args(args);
        command.stdin(std::process::Stdio::null()).output()
    };
    if !inside("true".as_ref(), &[]).is_ok_and(|output| output.status.success()) {
        println!("left out: this user may not make a process number space of its own (run it as root)");
        return;
    }
    let me = std::env::current_exe().unwrap();
    for name in
        ["the_tree_of_a_killed_guard_is_ended_by_the_host", "a_lost_guard_is_told_and_the_server_comes_back"]
    {
        let output = inside(&me, &["--exact", &format!("guard_death::{name}")]).unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
    }
}
