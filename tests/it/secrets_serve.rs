//! Canaries in a host that serves: in what it logs, keeps, counts down and says of its servers, whoever
//! started it. Results alone reach the client as their server wrote them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::secrets::{CANARIES, Cage, EACH, forms};

/// Lines of `status --watch` that are looked at: more than one picture.
const WATCHED_LINES: usize = 8;

fn line(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Serves one client that calls a server and asks the host what it can; its stderr, and what it said of
/// itself.
fn served(cage: &Cage, words: &[&str]) -> (String, String) {
    let log = cage.home.project().join("stderr");
    let mut child = cage
        .home
        .command(words)
        .env("FROM_HOST", &cage.canaries[3])
        .env("CALLBOARD_SERVE_LINGER", "200ms")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: u64, method: &str, params: &Value| -> Value {
        to.write_all(line(id, method, params).as_bytes()).unwrap();
        loop {
            let message: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    };
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let welcome = ask(0, "initialize", &hello);
    let said: String = cage.canaries.iter().map(|value| forms(value).join(" ") + "\n").collect();
    let echo = json!({"name": "s__echo", "arguments": {"text": said}});
    // Until it is listed there is no such tool; each try asks for the list first.
    let mut id = 1;
    while ask(id, "tools/call", &echo)["error"]["code"] == -32602 {
        ask(id + 1, "tools/list", &json!({}));
        id += 2;
    }
    let refused = ask(id + 2, "tools/call", &json!({"name": "s__nothing", "arguments": {"text": "x"}}));
    let list = ask(id + 3, "tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap().iter();
    let mut names = tools.filter_map(|tool| tool["name"].as_str());
    let mut all = Value::Null;
    if let Some(describes) = names.find(|name| name.ends_with("describe_capabilities")) {
        all = ask(id + 4, "tools/call", &json!({"name": describes, "arguments": {}}));
        assert!(all["result"]["content"].is_array(), "{all}");
    } else {
        assert!(!words.contains(&"--private"), "{list}");
    }
    drop(to);
    child.wait().unwrap();
    (std::fs::read_to_string(log).unwrap(), format!("{welcome}{refused}{list}{all}"))
}

#[test]
fn a_host_that_serves_shows_no_canary_in_its_logs_its_files_or_its_own_words() {
    for from in (0..CANARIES).step_by(EACH) {
        let cage = Cage::new(from);
        for words in [
            &["--mcp-serve", "--private", "--log-level", "trace"][..],
            &["--mcp-serve", "--private", "--log-level", "debug", "--log-format", "json"],
            &["--mcp-serve", "--log-level", "trace"],
        ] {
            let (stderr, said) = served(&cage, words);
            cage.clean(&format!("stderr of {words:?}"), &stderr);
            cage.clean(&format!("what {words:?} says of itself"), &said);
            // A client of the shared host only joins: that host has its own log.
            let told = stderr.contains("dies") || !words.contains(&"--private");
            assert!(told, "what went wrong with a server is logged: {stderr}");
        }
        let kept = cage.written();
        assert!(
            kept.contains("\"started\"") && kept.contains("inputSchema"),
            "the audit log and the kept lists"
        );
        cage.clean("files of the home", &kept);
    }
}

#[test]
fn a_status_that_goes_on_shows_no_canary() {
    for from in (0..CANARIES).step_by(EACH) {
        let cage = Cage::new(from);
        let mut child = cage
            .home
            .command(&["mcp", "status", "--watch", "--log-level", "trace"])
            .env("FROM_HOST", &cage.canaries[3])
            .stdout(Stdio::piped())
            .stderr(File::create(cage.home.project().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut shown = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        for _ in 0..WATCHED_LINES {
            assert_ne!(shown.read_line(&mut text).unwrap(), 0, "it goes on: {text}");
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        shown.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        cage.clean("status --watch", &text);
        let stderr = std::fs::read_to_string(cage.home.project().join("stderr")).unwrap();
        cage.clean("stderr of status --watch", &stderr);
    }
}
