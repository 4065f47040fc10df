//! Servers whose files are watched: a change restarts the server, and nobody else.

use std::path::Path;
use std::time::Duration;

use callboard::config::spec::ServerSpec;
use callboard::view::LifeState;
use serde_json::{Value, json};

use crate::support::*;

fn echo(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, &json!({"connection": wire.connection}).to_string());
    }
}

fn watching(name: &str, folder: &Path) -> ServerSpec {
    let mut spec = spec(name);
    spec.watch = vec![folder.join("src/**/*.py").display().to_string()];
    spec
}

fn write(folder: &Path, text: &str) {
    std::fs::create_dir_all(folder.join("src/deep")).unwrap();
    std::fs::write(folder.join("src/deep/server.py"), text).unwrap();
}

/// Lets the clock run; looks at files take time of the real world, which holds it.
async fn pass(seconds: u64) {
    tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_restarts_its_server_alone_and_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1");
    let fleet = Fleet::default().with(spec("other"), echo).with(watching("s", folder.path()), echo);
    let runtime = fleet.ready().await;
    pass(60).await;
    let before = runtime.status();
    for text in ["22", "333"] {
        write(folder.path(), text);
        pass(10).await;
    }
    let after = runtime.status();
    assert_eq!(after[0].generation, before[0].generation);
    assert_eq!(after[1].generation.0, before[1].generation.0 + 2);
    assert_eq!((after[1].state, after[1].restarts), (LifeState::Ready, 0));
    assert_eq!(text(&call(&runtime, "s", "echo").await.unwrap()), r#"{"connection":3}"#);
}

#[tokio::test(start_paused = true)]
async fn calls_that_run_when_a_file_changes_may_end_and_later_ones_meet_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1");
    let tape = Tape::default();
    // `echo` takes a second from its arrival on, `other` for ever.
    let slow = tape.of(|message: &Value, wire: &Wire| {
        if method_of(message) != "tools/call" || wire.connection > 1 {
            return echo(message, wire);
        }
        let (message, wire) = (message.clone(), wire.clone());
        tokio::spawn(async move {
            let never = message["params"]["name"] == "other";
            pass(if never { 3_600 } else { 1 }).await;
            echo(&message, &wire);
        });
    });
    let runtime = Fleet::default().with(watching("s", folder.path()), slow).ready().await;
    pass(60).await;
    write(folder.path(), "22");
    let generation = runtime.status()[0].generation;
    let restarted = async {
        // Looks are a second apart or so: from now on one call is always under way.
        while runtime.status()[0].generation == generation {
            text(&call(&runtime, "s", "echo").await.expect("no call is cut"));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), restarted).await.expect("the file is seen");
    assert_eq!(text(&call(&runtime, "s", "echo").await.unwrap()), r#"{"connection":2}"#);
    assert_eq!(runtime.status()[0].calls_failed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rests_is_not_woken_by_its_files() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1");
    let tape = Tape::default();
    let fleet = Fleet::default().with(watching("s", folder.path()), tape.of(echo));
    let runtime = fleet.plan(|plan| plan.only = Some([].into())).start().await;
    pass(10).await;
    write(folder.path(), "22");
    pass(60).await;
    assert_eq!(runtime.status()[0].state, LifeState::Dormant);
    assert!(tape.received("initialize").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_mends_a_server_that_was_given_up() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1");
    let broken = |message: &Value, wire: &Wire| {
        if wire.connection <= 5 { wire.hang_up() } else { echo(message, wire) }
    };
    let runtime = Fleet::default().with(watching("s", folder.path()), broken).ready().await;
    assert!(matches!(runtime.status()[0].state, LifeState::Parked(_)));
    write(folder.path(), "22");
    pass(60).await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
}
