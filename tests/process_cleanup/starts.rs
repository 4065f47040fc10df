//! Starts of many servers: how many are on their way at once, and what those that hang cost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::runtime::Runtime;
use callboard::transport::guard::Guarding;
use callboard::view::LifeState;
use callboard::view::history::What;

use crate::support::bad::{program, until};
use crate::support::{call, spec};
use crate::trees::plan;

const SERVERS: usize = 50;

/// A guard that takes its time, and writes down when it begins and when it is on its way.
fn slow_guard(folder: &Path, log: &Path) -> PathBuf {
    let guard = env!("CARGO_BIN_EXE_callboard-guard");
    let script = format!(
        "#!/bin/sh\necho begins >>{log}\n/bin/sleep 0.1\necho is-there >>{log}\nexec {guard} \"$@\"\n",
        log = log.display()
    );
    let file = folder.join("guard");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// The most that were on their way at once, and how many began in all.
fn read(log: &Path) -> (usize, usize) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let (mut now, mut most, mut begun) = (0, 0, 0);
    for line in text.lines() {
        if line == "begins" {
            now += 1;
            begun += 1;
        } else {
            now -= 1;
        }
        most = most.max(now);
    }
    (most, begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_spawns_run_at_once_and_a_server_that_hangs_holds_none() {
    for (spawns_max, expected) in [(None, 8), (Some(2), 2)] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let servers = (0..SERVERS).map(|number| {
            let mut one = spec(&format!("s{number:02}"));
            // All but the last never answer, so whoever waited for an answer would hold up the rest.
            let hangs = number + 1 < SERVERS;
            let args = hangs.then(|| SecretText::new("--never-initialize")).into_iter().collect();
            let command = program().display().to_string();
            one.transport = TransportSpec::Stdio { command, args, env: Vec::new(), cwd: None };
            one
        });
        let mut plan = plan(servers.collect());
        let program = slow_guard(folder.path(), &log);
        plan.guard = Some(Guarding { program, spare: None, leases: None });
        if let Some(max) = spawns_max {
            plan.spawns_max = max;
        }
        let runtime = Runtime::start(plan).await.unwrap();
        until("all are spawned", || read(&log).1 == SERVERS).await;
        let last = || runtime.status().pop().unwrap().state;
        until("the one that answers is ready", || last() == LifeState::Ready).await;
        assert_eq!(read(&log).0, expected, "at once");
        let waiting = runtime.status().iter().filter(|view| view.state == LifeState::Connecting).count();
        assert_eq!(waiting, SERVERS - 1);
        runtime.shutdown().await;
    }
}

/// Takes a lock, and gives it back some time after its server has left.
const LOCKS: &str = r#"mkdir "$1" || exit 1; "$0"; sleep 0.4; rmdir "$1""#;

/// A server that can't start while another one has the lock.
fn locking(lock: &str) -> ServerSpec {
    let mut one = spec("s");
    let command = "/bin/sh".to_owned();
    let args = ["-c", LOCKS, &program().display().to_string(), lock].map(SecretText::new).into();
    let env = vec![("PATH".to_owned(), SecretText::new("/usr/local/bin:/usr/bin:/bin"))];
    one.transport = TransportSpec::Stdio { command, args, env, cwd: None };
    one
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_entry_starts_when_the_process_that_it_replaces_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock").display().to_string();
    let changed = |round: usize| {
        let mut one = locking(&lock);
        one.hash = format!("changed-{round}");
        one.limits.queue = 10 + round;
        plan(vec![one])
    };
    let runtime = Runtime::start(changed(0)).await.unwrap();
    for round in 1..=4 {
        until("it is ready", || runtime.status()[0].state == LifeState::Ready).await;
        let generation = runtime.status()[0].generation;
        // The second comes while the first is on its way.
        let (first, second) = (changed(2 * round), changed(2 * round + 1));
        let (first, second) = tokio::join!(runtime.reload(&first), runtime.reload(&second));
        assert!(first.is_ok() && second.is_ok());
        call(&runtime, "s", "t0").await.expect("it waits for the new one");
        assert!(runtime.status()[0].generation > generation);
        assert_eq!(runtime.status()[0].restarts, 0, "no start has failed");
    }
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_shown_as_soon_as_it_runs() {
    let mut one = spec("s");
    let command = program().display().to_string();
    let args = vec![SecretText::new("--never-initialize")];
    one.transport = TransportSpec::Stdio { command, args, env: Vec::new(), cwd: None };
    // Nothing else happens meanwhile.
    (one.timeouts.connect, one.timeouts.max_start) = (Duration::from_secs(600), Duration::from_secs(900));
    let runtime = Runtime::start(plan(vec![one])).await.unwrap();
    until("its process is shown", || runtime.status()[0].pid.is_some()).await;
    let view = runtime.status().remove(0);
    assert_eq!(view.state, LifeState::Connecting);
    assert!(view.history.records().any(|record| matches!(record.what, What::Spawned(_))), "{view:?}");
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_process_starts_when_the_one_that_was_ended_on_purpose_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock").display().to_string();
    let mut one = locking(&lock);
    one.idle_stop = Some(Duration::from_millis(500));
    let runtime = Runtime::start(plan(vec![one])).await.unwrap();
    let state = || runtime.status()[0].state;
    until("it is ready", || state() == LifeState::Ready).await;
    for _ in 0..2 {
        let generation = runtime.status()[0].generation;
        assert!(runtime.restart_server(&"s".into()));
        call(&runtime, "s", "t0").await.expect("it waits for the new one");
        assert!(runtime.status()[0].generation > generation);
        until("nobody calls it", || state() == LifeState::Dormant).await;
        call(&runtime, "s", "t0").await.expect("it starts again");
    }
    assert_eq!(runtime.status()[0].restarts, 0, "no start has failed");
    runtime.shutdown().await;
}
