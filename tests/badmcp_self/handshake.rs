//! Start and handshake flags.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::pipe::{Pipe, command};
use super::web::{Web, timed};

#[test]
fn a_start_delay_holds_the_answer_but_not_ping() {
    let mut pipe = Pipe::start(&["--start-delay", "150"]);
    let (_, took) = timed(|| {
        let held = pipe.begin("initialize", &json!({"protocolVersion": "2025-06-18"}));
        assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
        assert_eq!(pipe.answer(held)["result"]["protocolVersion"], "2025-06-18");
    });
    assert!(took.as_millis() >= 150, "{took:?}");
}

#[test]
fn never_initialize_reads_and_stays_silent() {
    let mut pipe = Pipe::start(&["--never-initialize"]);
    pipe.begin("initialize", &json!({"protocolVersion": "2025-06-18"}));
    pipe.begin("server/discover", &json!({}));
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    assert!(pipe.aside.is_empty());
    assert_eq!(pipe.trace().iter().filter(|e| e["ev"] == "in").count(), 3);
}

#[test]
fn exit_on_start_says_its_text_and_leaves_with_its_code() {
    let dir = TempDir::new().expect("folder");
    let output = command(&dir, &["--exit-on-start", "3", "--stderr", "missing db"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (b"".as_slice(), b"missing db\n".as_slice())
    );
}

#[test]
fn the_first_starts_fail_and_later_ones_are_healthy() {
    let mut dir = TempDir::new().expect("folder");
    for start in 1..=4 {
        let mut pipe = Pipe::start_in(dir, &["--fail-starts", "2", "--state", "{dir}/state"]);
        if start <= 2 {
            assert_eq!(pipe.raw_line(), None);
            assert_eq!(pipe.exit().code(), Some(1));
        } else {
            assert_eq!(pipe.open()["protocolVersion"], "2025-11-25");
        }
        dir = std::mem::replace(&mut pipe.dir, TempDir::new().expect("folder"));
    }
}

#[test]
fn init_version_is_answered_whatever_was_asked() {
    for version in ["2024-11-05", "2025-03-26", "1999-01-01"] {
        let mut pipe = Pipe::start(&["--init-version", version]);
        assert_eq!(pipe.initialize("2025-11-25")["result"]["protocolVersion"], version);
    }
}

#[test]
fn newer_versions_are_refused_with_a_supported_list() {
    let mut pipe = Pipe::start(&["--reject-newer-version", "2025-06-18"]);
    let error = pipe.initialize("2025-11-25")["error"].clone();
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["supported"], json!(["2025-06-18", "2025-03-26", "2024-11-05"]));
    assert_eq!(pipe.initialize("2025-06-18")["result"]["protocolVersion"], "2025-06-18");

    let mut web = Web::start(&["--reject-newer-version", "2025-06-18"]);
    let answer = web.initialize();
    assert_eq!((answer.status, answer.code()), (400, json!(-32602)));
    assert!(answer.all("mcp-session-id").is_empty());
    assert!(answer.body.contains("supported versions: 2025-06-18, 2025-03-26"), "{answer:?}");
    let older = web.ask("initialize", &json!({"protocolVersion": "2025-06-18"}));
    assert_eq!((older.status, older.all("mcp-session-id").len()), (200, 1));
}

#[test]
fn notifications_and_a_ping_come_before_the_answer() {
    let mut pipe = Pipe::start(&["--notify-before-init", "3"]);
    pipe.initialize("2025-11-25");
    let methods: Vec<&str> = pipe.aside.iter().filter_map(|m| m["method"].as_str()).collect();
    let changed = "notifications/tools/list_changed";
    assert_eq!(methods, [changed, "notifications/message", changed, "ping"]);
    assert!(pipe.aside[3]["id"].is_string());
}

#[test]
fn roots_are_awaited_before_the_answer() {
    let mut pipe = Pipe::start(&["--request-roots-before-init"]);
    let held = pipe.begin("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let asked = pipe.message();
    assert_eq!(asked["method"], "roots/list");
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    pipe.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}));
    assert_eq!(pipe.answer(held)["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(pipe.traced("replied", |_| true)["code"], -32601);
}

#[test]
fn a_tool_hides_until_initialized_was_seen() {
    let mut pipe = Pipe::start(&["--require-initialized"]);
    pipe.initialize("2025-11-25");
    assert_eq!(pipe.tools().len(), 12);
    pipe.notify("notifications/initialized", &json!({}));
    assert_eq!(pipe.tools().len(), 13);

    let mut strict = Pipe::start(&["--require-initialized", "error"]);
    strict.initialize("2025-11-25");
    assert_eq!(strict.ask("tools/list", &json!({}))["error"]["code"], -32002);
    assert_eq!(strict.ask("ping", &json!({}))["result"], json!({}));
    strict.notify("notifications/initialized", &json!({}));
    assert_eq!(strict.tools().len(), 13);
}

#[test]
fn a_request_before_initialize_ends_the_old_server() {
    let mut pipe = Pipe::start(&["--exit-on-unknown-first"]);
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    pipe.begin("server/discover", &json!({}));
    assert_eq!(pipe.raw_line(), None);
    assert_eq!(pipe.exit().code(), Some(1));
    let mut healthy = Pipe::opened(&["--exit-on-unknown-first"]);
    assert_eq!(healthy.ask("server/discover", &json!({}))["error"]["code"], -32601);
}

#[test]
fn a_silent_discover_leaves_initialize_alone() {
    let mut pipe = Pipe::start(&["--discover-silent", "--era", "both"]);
    pipe.begin("server/discover", &json!({}));
    assert_eq!(pipe.open()["protocolVersion"], "2025-11-25");
    assert!(pipe.aside.is_empty());
}

#[test]
fn accept_no_reply_takes_the_request_and_says_nothing() {
    let web = Web::start(&["--accept-no-reply"]);
    let wire = web.send("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}));
    web.pipe.traced("http", |e| e["method"] == "POST");
    wire.socket.set_nonblocking(true).expect("nonblocking");
    let error = wire.socket.peek(&mut [0]).expect_err("nothing was sent");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn capabilities_can_be_left_out() {
    let mut full = Pipe::start(&[]);
    let all = full.open()["capabilities"].clone();
    assert_eq!(
        all,
        json!({"tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true},
               "prompts": {"listChanged": true}, "completions": {}, "logging": {}})
    );
    let mut pipe = Pipe::start(&["--no-capability", "prompts,logging,completions,list-changed,subscribe"]);
    assert_eq!(pipe.open()["capabilities"], json!({"tools": {}, "resources": {}}));
    for method in
        ["prompts/list", "prompts/get", "logging/setLevel", "completion/complete", "resources/subscribe"]
    {
        assert_eq!(pipe.ask(method, &json!({}))["error"]["code"], -32601, "{method}");
    }
    let mut bare = Pipe::start(&["--no-capability", "tools,resources"]);
    assert!(bare.open()["capabilities"].get("tools").is_none());
    let refused: Vec<Value> = ["tools/list", "resources/list"]
        .iter()
        .map(|m| bare.ask(m, &json!({}))["error"]["code"].clone())
        .collect();
    assert_eq!(refused, [-32601, -32601]);
}
