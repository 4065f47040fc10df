//! From the file to the behaviour: each key of an entry, and each setting of the host, acts.
//! A JSON file is written, loaded, made a plan of, and what runs then is looked at.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::call::ErrorCode;
use callboard::config::load::{Env, LoadOptions, load};
use callboard::id::ServerId;
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::DuplexPeer;
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_home::Home;
use crate::support::*;

/// A user's files; scripted servers may stand in for the programs of its entries.
struct Files {
    folder: TempDir,
    env: Vec<(String, String)>,
    peers: BTreeMap<ServerId, DuplexPeer>,
}

impl Files {
    /// With the entry `s`, whose tools may all be called.
    fn with(keys: &Value) -> Self {
        let mut entry = json!({"command": "in-process", "allowAllTools": true});
        entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let files = Self { folder: tempfile::tempdir().unwrap(), env: Vec::new(), peers: BTreeMap::new() };
        files.write("mcp.json", &json!({"mcpServers": {"s": entry}}).to_string());
        files
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        let home = self.path().join(".callboard");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join(name), text).unwrap();
    }

    fn host(self, toml: &str) -> Self {
        self.write("callboard.toml", toml);
        self
    }

    /// A variable of this process.
    fn var(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What stands in for the program of `s`.
    fn server(mut self, script: impl Script) -> Self {
        self.peers.insert("s".into(), duplex(script));
        self
    }

    /// What the files mean.
    fn plan(&self) -> RuntimePlan {
        let mut env: Env = self.env.iter().cloned().collect();
        env.set("HOME", self.path().to_str().unwrap());
        env.set("PATH", "/usr/local/bin:/usr/bin:/bin");
        let mut options = LoadOptions::new(env, self.path());
        options.managed_dir = self.path().join("managed");
        let loaded = load(&options);
        let issues: Vec<String> = loaded.issues().map(ToString::to_string).collect();
        assert!(issues.is_empty(), "{issues:?}");
        let plan = RuntimePlan::of(&loaded, &options.env);
        RuntimePlan { in_process: self.peers.clone(), memory: None, ..plan }
    }

    /// What runs then, settled.
    async fn ready(&self) -> Runtime {
        let runtime = Runtime::start(self.plan()).await.unwrap();
        runtime.settle(&[], Duration::from_secs(600)).await;
        runtime
    }
}

/// Answers every call with `{}`.
fn quick(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, "{}");
    }
}

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
    runtime.reload(&files.plan()).await;
    assert_eq!(runtime.status()[0].generation, before, "nothing changed");
    let files = files.host("roots = [\"/\"]");
    runtime.reload(&files.plan()).await;
    runtime.settle(&[], Duration::from_secs(60)).await;
    assert!(runtime.status()[0].generation > before);
}

/// A server of the modern era only.
fn modern(message: &Value, wire: &Wire) {
    let result = match method_of(message) {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
        "tools/list" => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"resultType": "complete", "content": []}),
        _ => return,
    };
    wire.result(message, &result.to_string());
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

const WITHHELD: &str = "set here but withheld from the server: ACME_KEY (mentioned on its stderr), \
    HTTPS_PROXY (for the network); name what it needs in `env_passthrough`";

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
    assert_eq!(view.fix, Some(format!("callboard mcp check s; {WITHHELD}")));
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
    assert_eq!(error.fix, Some(format!("callboard mcp status s; {WITHHELD}")), "{error:?}");
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
        assert_eq!(error.fix.as_deref(), Some("callboard mcp status s"));
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

#[test]
fn a_label_is_shown_beside_the_name_and_steers_no_terminal() {
    let home = Home::new();
    let label = "My \u{1b}[31mfiles\u{202e}\n  ready";
    let entries = json!({"mcpServers": {
        "fs": {"command": "/no/such/program", "label": label, "description": "of\u{1b}]0;x\u{7} mine"},
        "off": {"command": "x", "enabled": false, "title": "Later"},
        "same": {"command": "x", "enabled": false, "label": "same"},
    }});
    home.user(&entries.to_string());
    let shown = "fs (My files\\u{202e} ready)";
    for words in [&["mcp", "list"][..], &["mcp", "get", "fs"], &["mcp", "status"], &["mcp", "status", "fs"]] {
        let ran = home.run(words);
        assert!(ran.stdout.contains(shown), "{ran:?}");
        assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{ran:?}");
    }
    for verb in ["list", "status"] {
        let ran = home.run(&["mcp", verb]);
        assert!(ran.stdout.contains("off (Later)") && ran.stdout.contains("\nsame  "), "{ran:?}");
    }
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    let status = home.run(&["mcp", "status", "--json"]).json(1);
    for shown in [&list, &status] {
        let labels: Vec<_> =
            shown["data"]["servers"].as_array().unwrap().iter().map(|s| &s["label"]).collect();
        assert_eq!(labels, [&json!("My files\\u{202e} ready"), &json!("Later"), &json!(null)]);
    }
    assert_eq!(list["data"]["servers"][0]["description"], "of mine");
}

#[test]
fn a_required_server_that_is_off_or_unapproved_makes_the_status_unhealthy() {
    let home = Home::new();
    let entry = |required: bool| json!({"command": "x", "enabled": false, "required": required});
    let file = |entry: serde_json::Value| json!({"mcpServers": {"db": entry}}).to_string();
    home.user(&file(entry(false)));
    assert_eq!(home.run(&["mcp", "status", "--json"]).json(0)["data"]["healthy"], true);
    home.user(&file(entry(true)));
    let json = home.run(&["mcp", "status", "--json"]).json(1);
    let db = &json["data"]["servers"][0];
    assert_eq!((&json["data"]["healthy"], &db["required"]), (&json!(false), &json!(true)));
    assert_eq!(db["reason"], "disabled");
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; turned off in user"), "{ran:?}");
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"][0]["required"], true);

    home.user("{}");
    home.project_file(&file(json!({"command": "x"})));
    home.run(&["mcp", "status"]).expect(0);
    home.project_file(&file(json!({"command": "x", "required": true})));
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; ") && ran.stdout.contains("pending"), "{ran:?}");
}

#[test]
fn a_server_that_should_run_and_does_not_makes_the_status_unhealthy_required_or_not() {
    let home = Home::new();
    for required in [false, true] {
        let entry = json!({"command": "/no/such/program", "required": required});
        home.user(&json!({"mcpServers": {"s": entry}}).to_string());
        let json = home.run(&["mcp", "status", "--json"]).json(1);
        assert_eq!(json["data"]["servers"][0]["required"], required);
        assert_eq!(json["data"]["servers"][0]["reason"], "config_error");
    }
    let help = home.run(&["mcp", "status", "--help"]);
    assert!(help.expect(0).stdout.contains("required: true"), "{help:?}");
}
