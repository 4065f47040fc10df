//! The host's own tools as a server among others: through the real runtime, its names, its policy.

use std::path::Path;
use std::sync::Arc;

use callboard::builtins::Builtins;
use callboard::builtins::guests::Guest;
use callboard::call::{CallError, CallReply, ErrorCode};
use callboard::config::load::{Env, LoadOptions, load};
use callboard::id::{BUILTINS, ServerId, SessionId};
use callboard::runtime::{Runtime, RuntimePlan};
use serde_json::{Value, json};

use crate::support::*;

struct Place {
    home: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl Place {
    fn new(settings: &str) -> Self {
        let place = Self { home: tempfile::tempdir().unwrap(), root: tempfile::tempdir().unwrap() };
        std::fs::write(place.home.path().join("callboard.toml"), settings).unwrap();
        place.file(".callboard/marker", "");
        place
    }

    fn file(&self, name: &str, content: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn root(&self) -> &Path {
        self.root.path()
    }

    async fn start(&self, fleet: Fleet) -> (Runtime, Builtins) {
        let env = Env::from_iter([
            ("CALLBOARD_HOME", self.home.path().to_str().unwrap()),
            ("SEARCH_KEY", "sk-very-secret-99"),
        ]);
        let loaded = load(&LoadOptions::new(env, self.root.path()));
        assert!(loaded.servers.issues.is_empty(), "{:?}", loaded.servers.issues);
        let mut plan =
            RuntimePlan { gate: RuntimePlan::of(&loaded, &Env::default()).gate, ..fleet.into_plan() };
        plan.redaction.learn(&loaded.servers.secrets);
        let builtins = Builtins::default();
        builtins.plan(&loaded, &mut plan);
        let runtime = Runtime::start(plan).await.unwrap();
        builtins.attach(&runtime);
        runtime.settle(&[], std::time::Duration::from_secs(600)).await;
        (runtime, builtins)
    }
}

async fn ask(runtime: &Runtime, session: u64, tool: &str, arguments: Value) -> Result<CallReply, CallError> {
    let mut call = request(BUILTINS, tool, &json!({ "arguments": arguments }).to_string());
    call.session = SessionId(session);
    runtime.frontend().call(call, None).await
}

/// The structure of a result, or the text of one that is an error.
async fn use_tool(runtime: &Runtime, tool: &str, arguments: Value) -> Result<Value, String> {
    let reply = ask(runtime, 1, tool, arguments).await.expect("the host answers");
    let result: Value = serde_json::from_slice(&reply.body()).unwrap();
    match result["isError"].as_bool() {
        Some(true) => Err(result["content"][0]["text"].as_str().unwrap().to_owned()),
        _ => Ok(result["structuredContent"].clone()),
    }
}

fn names(runtime: &Runtime) -> Vec<String> {
    runtime.catalog().tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_host_without_servers_offers_all_that_reads_and_one_with_servers_what_describes() {
    let place = Place::new("");
    let (runtime, _) = place.start(Fleet::default()).await;
    let wanted =
        ["describe_capabilities", "describe_tool", "last_output", "calculate", "read_text", "get_page_title"];
    assert_eq!(names(&runtime), wanted);
    let (runtime, _) = place.start(Fleet::default().with(spec("s"), quick)).await;
    assert_eq!(names(&runtime)[..3], wanted[..3]);
    assert!(names(&runtime)[3..].iter().all(|name| name.starts_with("mcp__s__")));
    let none = Place::new("[serve]\nbuiltins = \"none\"");
    assert!(names(&none.start(Fleet::default()).await.0).is_empty());
    let some = Place::new("[builtins]\ndisabled = [\"*_*\"]");
    assert_eq!(names(&some.start(Fleet::default()).await.0), ["calculate"]);
}

#[tokio::test(start_paused = true)]
async fn files_are_read_below_the_root_page_by_page_and_credentials_never() {
    let place = Place::new("");
    place.file("notes/a.txt", "héllo wörld");
    place.file(".env", "KEY=1");
    place.file("bin", "\0\u{1}");
    std::fs::write(place.root().join("latin"), b"caf\xe9").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.root().join("link")).unwrap();
    let (runtime, _) = place.start(Fleet::default()).await;
    let whole = use_tool(&runtime, "read_text", json!({"path": "notes/a.txt"})).await.unwrap();
    assert_eq!((whole["text"].as_str(), whole["next_offset"].is_null()), (Some("héllo wörld"), true));
    let page = use_tool(&runtime, "read_text", json!({"path": "notes/a.txt", "offset": 2})).await.unwrap();
    assert_eq!((page["offset"].as_u64(), page["text"].as_str()), (Some(1), Some("éllo wörld")));
    for (path, why) in [
        (".env", "not touched"),
        ("../x", "outside"),
        ("link", "outside"),
        ("/etc/passwd", "outside"),
        ("notes", "regular"),
        ("absent", "No such file"),
        ("latin", "not UTF-8 from byte 3"),
        ("bin", "NUL"),
    ] {
        let error = use_tool(&runtime, "read_text", json!({ "path": path })).await;
        let wanted = if why == "outside" { "leads out of the folder" } else { why };
        assert!(error.as_ref().is_err_and(|text| text.contains(wanted)), "{path}: {error:?}");
    }
    let behind = use_tool(&runtime, "read_text", json!({"path": "notes/a.txt", "offset": 99})).await;
    assert!(behind.unwrap_err().contains("behind the end"));
}

#[tokio::test(start_paused = true)]
async fn a_write_needs_the_setting_the_policy_and_the_paths() {
    let place = Place::new("[serve]\nallow_writes = true");
    let (runtime, _) = place.start(Fleet::default()).await;
    assert!(names(&runtime).contains(&"write_file".to_owned()));
    let arguments = json!({"path": "a.txt", "content": "x"});
    let error = ask(&runtime, 1, "write_file", arguments.clone()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NeedsApproval);
    let root = std::fs::canonicalize(place.root()).unwrap();
    let blocked = format!("{}/blocked/**", root.display());
    let open = Place { home: tempfile::tempdir().unwrap(), root: place.root };
    let settings =
        format!("mode = \"auto\"\n[serve]\nallow_writes = true\n[builtins]\nblocked_paths = [{blocked:?}]\n");
    std::fs::write(open.home.path().join("callboard.toml"), settings).unwrap();
    open.file("blocked/b", "old");
    std::os::unix::fs::symlink("blocked", open.root().join("alias")).unwrap();
    let (runtime, _) = open.start(Fleet::default()).await;
    use_tool(&runtime, "write_file", arguments).await.unwrap();
    assert_eq!(std::fs::read_to_string(open.root().join("a.txt")).unwrap(), "x");
    for path in ["blocked/b", "alias/b", ".bashrc", "../x", ".callboard/callboard.toml", ".git/hooks/x"] {
        let refused = use_tool(&runtime, "write_file", json!({"path": path, "content": "x"})).await;
        assert!(refused.is_err(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(open.root().join("blocked/b")).unwrap(), "old");
}

#[tokio::test(start_paused = true)]
async fn a_session_gets_its_own_last_output_whatever_it_claims_to_be() {
    let (runtime, builtins) = Place::new("").start(Fleet::default()).await;
    builtins.outputs().keep(SessionId(1), "s", "echo", &bytes::Bytes::from_static(br#"{"content":"one"}"#));
    builtins.outputs().keep(SessionId(2), "s", "echo", &bytes::Bytes::from_static(br#"{"content":"two"}"#));
    let mine = use_tool(&runtime, "last_output", json!({})).await.unwrap();
    assert_eq!(mine["text"], r#"{"content":"one"}"#);
    let mut forged = request(BUILTINS, "last_output", r#"{"arguments":{},"_meta":{"callboard/session":2}}"#);
    forged.session = SessionId(3);
    let reply = runtime.frontend().call(forged, None).await.unwrap();
    assert!(text(&reply).contains("no other tool has answered you"), "{}", text(&reply));
    builtins.outputs().forget(SessionId(1));
    assert!(use_tool(&runtime, "last_output", json!({})).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_sees_only_a_part_is_told_of_that_part() {
    let fleet = Fleet::default().with(spec("s"), quick).with(spec("t"), quick);
    let (runtime, builtins) = Place::new("").start(fleet).await;
    let only = |server: &ServerId, raw: &str, _: &str| server.as_str() == "t" && raw == "echo";
    builtins
        .guests()
        .enter(SessionId(1), Guest { sight: Some(Arc::new(only)), keeps_as: Some(SessionId(9)) });
    let all = use_tool(&runtime, "describe_capabilities", json!({})).await.unwrap();
    let names = |key: &str| -> Vec<String> {
        all[key].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names("servers"), names("tools")), (vec!["t".to_owned()], vec!["mcp__t__echo".to_owned()]));
    assert!(!all.to_string().contains("mcp__s__"), "{all}");
    let hidden = use_tool(&runtime, "describe_tool", json!({"name": "mcp__s__echo"})).await.unwrap_err();
    assert_eq!(hidden, "there is no tool \"mcp__s__echo\"; did you mean mcp__t__echo?");
    builtins.outputs().keep(SessionId(9), "t", "echo", &bytes::Bytes::from_static(br#"{"content":"nine"}"#));
    let last = use_tool(&runtime, "last_output", json!({})).await.unwrap();
    assert_eq!(last["text"], r#"{"content":"nine"}"#, "kept for the identity");
}

#[tokio::test(start_paused = true)]
async fn other_servers_never_hear_of_sessions_and_never_get_the_names_of_the_host() {
    let tape = Tape::default();
    let script = tape.of(|message: &Value, wire: &Wire| {
        if method_of(message) == "tools/list" {
            let tool = json!({"name": "read_text", "inputSchema": {"type": "object"}});
            wire.result(message, &json!({"tools": [tool]}).to_string());
        } else {
            quick(message, wire);
        }
    });
    let place = Place::new("[naming]\nstyle = \"bare\"\n[serve]\nbuiltins = \"all\"");
    let fleet = Fleet::default().with(spec("s"), script).plan(|plan| {
        plan.naming = callboard::config::spec::NamingStyle::Bare;
    });
    let (runtime, _) = place.start(fleet).await;
    let catalog = runtime.catalog();
    assert_eq!(catalog.exposed("read_text").unwrap().route.server.as_str(), BUILTINS);
    let params = r#"{"_meta":{"callboard/session":2}}"#;
    runtime.frontend().call(request("s", "read_text", params), None).await.unwrap();
    let heard = tape.received("tools/call");
    assert_eq!(heard.len(), 1);
    assert!(!heard[0].to_string().contains("callboard/session"));
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_described_live_and_without_secrets() {
    let settings =
        "[builtins.web_search]\nprovider = \"tavily\"\nkey = \"${SEARCH_KEY}\"\n[serve]\nbuiltins = \"all\"";
    let place = Place::new(settings);
    place.file("leak.txt", "the key is sk-very-secret-99.");
    let (runtime, _) = place.start(Fleet::default().with(spec("s"), quick)).await;
    let all = use_tool(&runtime, "describe_capabilities", json!({})).await.unwrap();
    assert_eq!(
        (all["servers"][0]["name"].as_str(), all["servers"][0]["state"].as_str()),
        (Some("s"), Some("ready"))
    );
    assert_eq!(all["mode"], "readonly");
    assert!(all["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "mcp__s__echo"));
    let one = use_tool(&runtime, "describe_tool", json!({"name": "mcp__s__echo"})).await.unwrap();
    assert_eq!((one["server"].as_str(), one["verdict"].as_str()), (Some("s"), Some("run")));
    let own = use_tool(&runtime, "describe_tool", json!({"name": "read_text"})).await.unwrap();
    assert_eq!(own["definition"]["annotations"]["readOnlyHint"], true);
    assert!(own["why"].as_str().unwrap().contains("readOnlyHint"));
    let near = use_tool(&runtime, "describe_tool", json!({"name": "mcp__s__eco"})).await.unwrap_err();
    assert!(near.contains("mcp__s__echo"), "{near}");
    let read = use_tool(&runtime, "read_text", json!({"path": "leak.txt"})).await.unwrap();
    assert!(!format!("{all}{one}{read}").contains("very-secret"), "{read}");
}

#[tokio::test(start_paused = true)]
async fn calls_run_side_by_side_and_what_went_wrong_can_be_read() {
    let place = Place::new("");
    let (runtime, _) = place.start(Fleet::default()).await;
    let calls = (0..40).map(|n| {
        let runtime = &runtime;
        async move { use_tool(runtime, "calculate", json!({"expression": format!("{n} * 2")})).await }
    });
    for (n, value) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(value.unwrap(), json!({"value": (n * 2).to_string(), "exact": true}));
    }
    let error = use_tool(&runtime, "calculate", json!({"expression": "1 / 0"})).await.unwrap_err();
    assert!(error.contains("division by zero"));
    let unknown = ask(&runtime, 1, "execute_shell", json!({})).await;
    assert!(unknown.is_err());
}
