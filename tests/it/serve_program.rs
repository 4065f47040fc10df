//! The built program as a host of one client: what is on its stdout, and how it ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::bad::PATIENCE;

const WELCOME: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

fn notes(home: &Home) {
    let program = env!("CARGO_BIN_EXE_callboard");
    let notes = json!({"command": program, "args": ["__demo-server", "notes"], "allowAllTools": true});
    let own = json!({"command": program, "args": ["--mcp-serve"]});
    home.user(
        &json!({"mcpServers": {"notes": notes, "own": own, "broken": {"command": "/no/such/program"}}})
            .to_string(),
    );
    home.project_file(&json!({"mcpServers": {"theirs": {"command": "/no/such/program"}}}).to_string());
}

fn line(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Reads until the answer to that id.
fn answer(lines: &mut impl Iterator<Item = std::io::Result<String>>, id: u64) -> Value {
    loop {
        let line = lines.next().expect("the stream goes on").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == id {
            return message;
        }
    }
}

/// Asks until the server has settled and the call is answered by it.
fn call(to: &mut impl Write, lines: &mut impl Iterator<Item = std::io::Result<String>>, tool: &str) -> Value {
    for id in 10.. {
        to.write_all(line(id, "tools/call", &json!({"name": tool, "arguments": {}})).as_bytes()).unwrap();
        let said = answer(lines, id);
        if said["error"]["code"] != -32602 {
            return said;
        }
        // It has not listed yet: what says so is told when it has.
        loop {
            let message: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if message["method"] == "notifications/tools/list_changed" {
                break;
            }
        }
    }
    unreachable!()
}

#[test]
fn stdout_carries_only_the_protocol_and_the_host_ends_with_its_input() {
    let home = Home::new();
    notes(&home);
    for words in [
        &["--mcp-serve", "--private", "--log-level", "trace"][..],
        &["--json", "serve", "--private", "--log-level", "debug"],
    ] {
        let frames = format!(
            "{WELCOME}{}not json\n{}",
            line(1, "tools/list", &json!({})),
            line(2, "tools/call", &json!({"name": "nobody"})),
        );
        let ran = home.run_with(words, &frames);
        ran.expect(0);
        let messages: Vec<Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).expect("only JSON")).collect();
        assert!(messages.iter().all(|message| message["jsonrpc"] == "2.0"), "{messages:?}");
        let ids: std::collections::BTreeSet<String> =
            messages.iter().filter_map(|message| message.get("id")).map(ToString::to_string).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["0", "1", "2", "null"], "{messages:?}");
        assert!(ran.stderr.contains("left out: it is this host itself"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("theirs"), "the project's file is not read: {}", ran.stderr);
    }
    let failed = home.run_with(&["--json", "--mcp-serve", "--only", "{"], "");
    failed.expect(2);
    assert_eq!(failed.stdout, "");
}

fn start(home: &Home, stdin: Stdio, stdout: Stdio) -> Child {
    home.command(&["--mcp-serve", "--private"])
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_request_to_end_is_kept_in_order_over_pipes_and_over_sockets() {
    let home = Home::new();
    notes(&home);
    let mut child = start(&home, Stdio::piped(), Stdio::piped());
    let mut to = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    to.write_all(WELCOME.as_bytes()).unwrap();
    assert_eq!(answer(&mut lines, 0)["result"]["protocolVersion"], "2025-06-18");
    let said = call(&mut to, &mut lines, "notes__list_notes");
    assert!(said["result"]["content"].is_array(), "{said}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(lines.all(|line| serde_json::from_str::<Value>(&line.unwrap()).is_ok()));

    let (ours, theirs) = UnixStream::pair().unwrap();
    let (input, output) = (theirs.try_clone().unwrap(), theirs);
    let mut child = start(
        &home,
        Stdio::from(std::os::fd::OwnedFd::from(input)),
        Stdio::from(std::os::fd::OwnedFd::from(output)),
    );
    let mut to = ours.try_clone().unwrap();
    let mut lines = BufReader::new(ours).lines();
    to.write_all(WELCOME.as_bytes()).unwrap();
    answer(&mut lines, 0);
    call(&mut to, &mut lines, "notes__list_notes");
    to.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hangup_reads_the_configuration_again() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{}}"#);
    let mut child = start(&home, Stdio::piped(), Stdio::piped());
    let mut to = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    to.write_all(WELCOME.as_bytes()).unwrap();
    answer(&mut lines, 0);
    to.write_all(line(1, "tools/list", &json!({})).as_bytes()).unwrap();
    let tools = answer(&mut lines, 1)["result"]["tools"].clone();
    assert!(!tools.to_string().contains("notes__"), "{tools}");
    notes(&home);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A server that leaves a mark when it is started.
fn marking(home: &Home) -> std::path::PathBuf {
    let mark = home.project().join("started");
    let args = json!(["-c", "touch \"$0\"; exec cat", mark]);
    home.user(&json!({"mcpServers": {"m": {"command": "/bin/sh", "args": args}}}).to_string());
    mark
}

#[test]
fn a_port_in_use_and_tokens_that_can_not_be_used_are_told_before_a_server_is_started() {
    let home = Home::new();
    let mark = marking(&home);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = home.run(&["--mcp-http", "--mcp-port", &port]);
    assert!(ran.code != 0 && ran.stderr.contains(&port) && ran.stderr.contains("--mcp-port"), "{ran:?}");
    let ran = home.run_env(&[("CALLBOARD_HTTP_HOST", "0.0.0.0")], &["--mcp-http", "--mcp-port", "0"]);
    assert!(ran.code != 0 && ran.stderr.contains("--allow-remote"), "{ran:?}");
    std::fs::write(home.home().join("tokens.json"), "{}").unwrap();
    let ran = home.run(&["--mcp-http", "--mcp-port", "0"]);
    assert!(ran.code != 0 && ran.stderr.contains("tokens.json"), "{ran:?}");
    assert!(!mark.exists(), "a server was started");
}

#[test]
fn where_it_listens_is_a_setting_and_the_address_is_told() {
    let home = Home::new();
    let mark = marking(&home);
    let mut child = home
        .command(&["--mcp-http", "--mcp-port", "0"])
        .env("CALLBOARD_HTTP_HOST", "127.0.0.2")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.find(|line| line.contains("Serving MCP at http://127.0.0.2:")).unwrap();
    let (_, at) = told.split_once("http://").unwrap();
    assert!(std::net::TcpStream::connect(at.strip_suffix("/mcp").unwrap()).is_ok(), "{told}");
    let began = Instant::now();
    while !mark.exists() {
        assert!(began.elapsed() < PATIENCE, "never: its server is started");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
