//! What a server is told and sees of the machine: roots, variables; and what its failure says
//! about variables that it did not see.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::call::ErrorCode;
use callboard::runtime::Runtime;
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::*;

/// What a server is told about roots: the capability, and the answer when it asks.
async fn told_roots(files: Files) -> (Value, Value) {
    let answers: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (seen, tape) = (answers.clone(), Tape::default());
    let asks = tape.of(move |message: &Value, wire: &Wire| {
        if message["id"] == "r" {
            seen.lock().unwrap().push(message.clone());
        }
        if method_of(message) == "notifications/initialized" {
            wire.line(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
        }
        quick(message, wire);
    });
    let runtime = files.server(asks).ready().await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    let capabilities = tape.received("initialize")[0]["params"]["capabilities"].clone();
    let answer = answers.lock().unwrap().remove(0);
    (capabilities, answer)
}

#[tokio::test(start_paused = true)]
async fn roots_are_declared_and_told_to_a_server_that_asks() {
    let files = Files::with(&json!({})).host("roots = [\"~/my notes\", \"/\"]");
    std::fs::create_dir(files.path().join("my notes")).unwrap();
    let uri = format!("file://{}/my%20notes", files.path().display());
    let (capabilities, answer) = told_roots(files).await;
    assert_eq!(capabilities, json!({"roots": {"listChanged": false}}));
    let roots = json!([{"uri": uri, "name": "my notes"}, {"uri": "file:///"}]);
    assert_eq!(answer["result"], json!({"roots": roots}));
}

#[tokio::test(start_paused = true)]
async fn without_roots_nothing_is_declared_and_who_asks_is_refused() {
    let (capabilities, answer) = told_roots(Files::with(&json!({}))).await;
    assert_eq!(capabilities, json!({}));
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_told_no_roots_because_nobody_would_answer_it() {
    let files = Files::with(&json!({"protocol": "modern"})).host("roots = [\"/\"]");
    let tape = Tape::default();
    let runtime = files.server(tape.of(modern)).ready().await;
    call(&runtime, "s", "echo").await.unwrap();
    for method in ["server/discover", "tools/list", "tools/call"] {
        let meta = &tape.received(method)[0]["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_roots_are_a_reason_to_connect_again() {
    let files = Files::with(&json!({})).server(quick);
    let runtime = files.ready().await;
    let before = runtime.status()[0].generation;
    runtime.reload(&files.plan()).await.unwrap();
    assert_eq!(runtime.status()[0].generation, before, "nothing changed");
    let files = files.host("roots = [\"/\"]");
    runtime.reload(&files.plan()).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    assert!(runtime.status()[0].generation > before);
}

#[tokio::test]
async fn what_the_child_would_get_differently_is_a_reason_to_start_it_again_and_nothing_else_is() {
    let entry = json!({"command": "sh", "args": ["-c", NEEDY, "needy", "got"],
        "env": {"READ": "${READ}", "OWN": "fixed"}});
    let vars = |acme, read, unrelated| [("ACME_KEY", acme), ("READ", read), ("UNRELATED", unrelated)];
    let files = Files::with(&entry);
    let runtime = Runtime::start(files.plan_with(&vars("one", "r", "u"))).await.unwrap();
    runtime.settle(&[], Duration::from_secs(600)).await;
    let mut generation = runtime.status()[0].generation;
    for (what, passed, values, starts) in [
        ("nothing", "", vars("one", "r", "u"), false),
        ("a variable that it does not see", "", vars("two", "r", "v"), false),
        ("one that it sees under a value of its own", "\"OWN\"", vars("two", "r", "v"), false),
        ("one that is passed through", "\"ACME_KEY\"", vars("two", "r", "v"), true),
        ("the value of that", "\"ACME_KEY\"", vars("three", "r", "v"), true),
        ("the value of one that the entry reads", "\"ACME_KEY\"", vars("three", "s", "v"), true),
        ("the end of passing it through", "", vars("three", "s", "v"), true),
    ] {
        files.write("callboard.toml", &format!("[env]\npassthrough = [{passed}]"));
        runtime.reload(&files.plan_with(&values)).await.unwrap();
        runtime.settle(&[], Duration::from_secs(600)).await;
        let view = runtime.status().remove(0);
        assert_eq!(view.state, LifeState::Ready, "{what}: {view:?}");
        assert_eq!(view.generation > generation, starts, "{what}");
        generation = view.generation;
    }
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert!(error.message.contains("got ACME_KEY is not set"), "{error:?}");
    runtime.shutdown().await;
}

/// A child that says what it misses and leaves, or that leaves in a call. (`$$` is a `$` in an entry.)
const NEEDY: &str = r#"
    [ "$1" = start ] && { echo "fatal: ACME_KEY is not set" >&2; exit 3; }
    while read -r line; do
        id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
        case "$line" in
            *'"initialize"'*) r='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{}}';;
            *'"tools/list"'*) r='{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}';;
            *'"tools/call"'*) echo "$1 $${ACME_KEY:-ACME_KEY is not set}" >&2; exit 3;;
            *) continue;;
        esac
        echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$r}"
    done"#;

/// The needy child on a machine that has what it misses, and a proxy.
fn needy(when: &str) -> Files {
    let entry = json!({"command": "sh", "args": ["-c", NEEDY, "needy", when], "restart": {"max": 1}});
    let files = Files::with(&entry).var("HTTPS_PROXY", "http://me:pr0xy-pass@proxy.example:3128");
    files.var("ACME_KEY", "acme-s3cr3t-value").var("UNRELATED", "unrelated-s3cr3t")
}

const WITHHELD: &str = "set here but withheld from the server: ACME_KEY (mentioned on its stderr); \
    name what it needs in `env_passthrough` (`-e NAME='${NAME}'` of `mcp add`)";

fn holds_no_value(text: &str) {
    for value in ["acme-s3cr3t-value", "pr0xy-pass", "UNRELATED", "unrelated-s3cr3t"] {
        assert!(!text.contains(value), "{value} in {text}");
    }
}

#[tokio::test]
async fn a_failed_start_names_the_withheld_variables_that_its_stderr_mentions() {
    let runtime = needy("start").ready().await;
    let view = runtime.status().remove(0);
    assert_eq!(view.state, LifeState::Parked(ParkReason::GivenUp), "{view:?}");
    assert_eq!(
        view.fix,
        Some(format!("run its command by itself to see what it says, then correct the entry; {WITHHELD}"))
    );
    holds_no_value(&format!("{view:?}"));
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert!(error.fix.as_ref().is_some_and(|fix| fix.contains("ACME_KEY")), "{error:?}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn an_unexpected_end_names_them_to_the_caller_and_in_the_view() {
    let files = needy("call");
    let runtime = files.ready().await;
    let mut watch = runtime.watch(&[]);
    watch.look();
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ConnectionLost, "{error:?}");
    assert_eq!(error.fix, Some(format!("callboard mcp why s; {WITHHELD}")), "{error:?}");
    holds_no_value(&format!("{error:?}"));
    // One restart is all that it has: the second end parks it.
    let again = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!(again.code, ErrorCode::ConnectionLost, "{again:?}");
    while !matches!(watch.look()[0].state, LifeState::Parked(_)) {
        watch.changed().await;
    }
    let fix = watch.look().remove(0).fix.unwrap();
    assert!(fix.ends_with(WITHHELD), "{fix}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_variable_that_the_entry_or_the_host_passes_through_is_seen_and_not_told() {
    let passing = |files: Files, by_entry: bool| {
        if by_entry { files } else { files.host("[env]\npassthrough = [\"ACME_KEY\", \"HTTPS_PROXY\"]") }
    };
    for by_entry in [true, false] {
        let mut entry =
            json!({"command": "sh", "args": ["-c", NEEDY, "needy", "got"], "restart": {"max": 1}});
        if by_entry {
            entry["env_passthrough"] = json!(["ACME_KEY", "HTTPS_PROXY"]);
        }
        let files = Files::with(&entry).var("ACME_KEY", "plain").var("HTTPS_PROXY", "http://proxy/");
        let runtime = passing(files, by_entry).ready().await;
        let error = call(&runtime, "s", "echo").await.unwrap_err();
        assert!(error.message.contains("got plain"), "the child sees it: {error:?}");
        assert_eq!(error.fix.as_deref(), Some("callboard mcp why s"));
        runtime.shutdown().await;
    }
}

#[test]
fn the_command_line_shows_names_and_never_values() {
    let home = Home::new();
    let entry = json!({"command": "sh", "args": ["-c", NEEDY, "needy", "start"], "restart": {"max": 1}});
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    for words in [&["mcp", "status", "s"][..], &["mcp", "status", "--json"], &["mcp", "tools", "s"]] {
        let mut command = home.command(words);
        let output = command.env("ACME_KEY", "acme-s3cr3t-value").output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8(shown).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("ACME_KEY (mentioned on its stderr)"), "{words:?}: {shown}");
        assert!(shown.contains("env_passthrough"), "{shown}");
        holds_no_value(&shown);
    }
}
