//! What servers offer outlives their processes and the host: it is kept, listed before they
//! answer, and never mistaken for what another entry offers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard::call::{ErrorCode, Target};
use callboard::config::spec::{EntryState, StartMode};
use callboard::runtime::Runtime;
use callboard::view::LifeState;
use serde_json::Value;

use crate::support::bad::until;
use crate::support::*;

const TOOLS: &str = r#"{"tools":[ {"name":"echo","x-odd" : 1.00e1,"inputSchema":{"type":"object"}} , {"name":"other","inputSchema":{}}]}"#;

fn server(message: &Value, wire: &Wire) {
    if method_of(message) == "tools/list" {
        wire.result(message, TOOLS);
    } else if !good(message, wire) {
        wire.result(message, r#"{"ok":1}"#);
    }
}

fn mute(_: &Value, _: &Wire) {}

fn fleet(folder: &Path, start: StartMode, script: impl Script) -> Fleet {
    let mut spec = spec("s");
    spec.start = start;
    Fleet::default().with(spec, script).plan(|plan| plan.catalogs = Some(folder.join("catalogs")))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("catalogs")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn raws(runtime: &Runtime) -> Vec<String> {
    let catalog = runtime.catalog();
    let raw = |tool: &callboard::catalog::merge::ExposedTool| {
        String::from_utf8(tool.route.item.raw.to_vec()).unwrap()
    };
    catalog.tools.iter().map(raw).collect()
}

/// A first run, ended in order.
async fn learned(folder: &Path) -> Vec<String> {
    let runtime = fleet(folder, StartMode::Eager, server).ready().await;
    let offered = raws(&runtime);
    runtime.shutdown().await;
    assert_eq!((offered.len(), files(folder).len()), (2, 1));
    offered
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_byte_for_byte_before_their_server_answers() {
    let folder = tempfile::tempdir().unwrap();
    let offered = learned(folder.path()).await;
    assert!(offered[0].contains("1.00e1"));
    let runtime = fleet(folder.path(), StartMode::Eager, mute).start().await;
    runtime.settle(&[], Duration::from_millis(1)).await;
    assert_eq!(raws(&runtime), offered);
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.listed, view.counts.tools), (LifeState::Connecting, false, 2));
    assert!(view.kept_from.is_some());
    let mut asked = request("s", "", "{}");
    asked.target = Target::Exposed("mcp__s__echo".to_owned());
    asked.limits.total = Some(Duration::from_secs(5));
    let error = runtime.frontend().call(asked, None).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotReady, "it waits for its server up to its own deadline");
    runtime.shutdown().await;
    assert_eq!(files(folder.path()).len(), 1, "nothing was learned, nothing is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_that_is_known_is_not_started_to_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let offered = learned(folder.path()).await;
    let tape = Tape::default();
    let runtime = fleet(folder.path(), StartMode::Lazy, tape.of(server)).ready().await;
    assert_eq!(raws(&runtime), offered);
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.counts.tools), (LifeState::Dormant, 2));
    assert!(tape.received("initialize").is_empty() && view.kept_from.is_some());
    let mut asked = request("s", "", "{}");
    asked.target = Target::Exposed("mcp__s__other".to_owned());
    runtime.frontend().call(asked, None).await.unwrap();
    idle().await;
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.kept_from), (LifeState::Ready, None), "now it was asked");
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn another_entry_and_one_that_may_not_run_get_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    learned(folder.path()).await;
    let changes: [fn(&mut callboard::config::spec::Entry); 4] = [
        |entry| entry.hash = "changed".to_owned(),
        |entry| entry.source.origin = "elsewhere".into(),
        |entry| entry.state = EntryState::Pending,
        |entry| entry.state = EntryState::Disabled,
    ];
    for change in changes {
        let runtime = fleet(folder.path(), StartMode::Eager, mute)
            .plan(|plan| change(&mut plan.servers.entries[0]))
            .start()
            .await;
        runtime.settle(&[], Duration::from_millis(1)).await;
        assert_eq!(raws(&runtime), Vec::<String>::new());
        assert_eq!(runtime.status()[0].counts.tools, 0);
        runtime.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_changed_is_written_while_the_host_runs_and_what_did_not_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = fleet(folder.path(), StartMode::Eager, server).ready().await;
    until("it is written", || files(folder.path()).len() == 1).await;
    runtime.shutdown().await;
    let file = files(folder.path()).remove(0);
    let (text, old) = (std::fs::read(&file).unwrap(), std::time::SystemTime::UNIX_EPOCH);
    std::fs::File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
    let inode = |file: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(file).unwrap());
    let before = inode(&file);
    learned(folder.path()).await;
    assert_eq!((std::fs::read(&file).unwrap(), inode(&file)), (text, before));
    assert!(std::fs::metadata(&file).unwrap().modified().unwrap() > old, "it was seen to be so still");
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_costs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    learned(folder.path()).await;
    let file = files(folder.path()).remove(0);
    let whole = std::fs::read(&file).unwrap();
    for text in [&b"{"[..], &whole[..whole.len() - 9], &[0xff]] {
        std::fs::write(&file, text).unwrap();
        let runtime = fleet(folder.path(), StartMode::Lazy, server).ready().await;
        assert_eq!(runtime.status()[0].state, LifeState::Ready, "it was started to learn");
        assert_eq!(raws(&runtime).len(), 2);
        runtime.shutdown().await;
        assert_eq!(std::fs::read(&file).unwrap(), whole, "and is written anew");
    }
}

#[tokio::test(start_paused = true)]
async fn during_a_restart_tools_stay_listed_and_calls_wait() {
    let runtime = one(|message: &Value, wire: &Wire| {
        if method_of(message) == "tools/call" && wire.connection == 1 {
            return wire.hang_up();
        }
        if method_of(message) == "initialize" && wire.connection == 2 {
            return wire.hang_up();
        }
        server(message, wire);
    })
    .await;
    let before = runtime.catalog();
    call(&runtime, "s", "echo").await.unwrap_err();
    idle().await;
    assert_eq!(runtime.status()[0].state, LifeState::BackingOff);
    assert_eq!((runtime.catalog().version, runtime.catalog().tools.len()), (before.version, 2));
    let mut asked = request("s", "", "{}");
    asked.target = Target::Exposed("mcp__s__echo".to_owned());
    runtime.frontend().call(asked, None).await.expect("it waited for the next connection");
    assert_eq!(runtime.catalog().version, before.version, "nobody was told of anything");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_offered_goes_with_the_first_answer() {
    let folder = tempfile::tempdir().unwrap();
    learned(folder.path()).await;
    let less = |message: &Value, wire: &Wire| match method_of(message) {
        "tools/list" => wire.result(message, r#"{"tools":[{"name":"other","inputSchema":{}}]}"#),
        _ => server(message, wire),
    };
    let runtime = fleet(folder.path(), StartMode::Eager, less).ready().await;
    assert_eq!(raws(&runtime).len(), 1);
    assert_eq!(call(&runtime, "s", "echo").await.unwrap_err().code, ErrorCode::UnknownTool);
    runtime.shutdown().await;
}
