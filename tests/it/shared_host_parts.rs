//! Clients of one host that differ in some of their entries: real processes in real folders, and which of
//! them are one server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cli_call::badmcp;
use crate::cli_home::Home;
use crate::shared_host::{Client, gone, hosts, servers};
use crate::support::bad::until;

/// An entry of a server with a tool of that name besides.
fn entry(tool: &str) -> Value {
    json!({"command": badmcp(), "args": ["--tools", "1", "--tool", tool]})
}

/// A user with these servers, each with a tool of the server's own name.
fn user(names: &[&str]) -> Home {
    let home = Home::new();
    let all: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), entry(&format!("of_{name}")))).collect();
    home.user(&json!({ "mcpServers": all }).to_string());
    home
}

/// A folder beside the others.
fn folder(home: &Home, name: &str) -> PathBuf {
    let folder = home.home().parent().unwrap().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A client in a folder, whose project's file counts.
fn within(home: &Home, folder: &Path) -> Client {
    within_as(home, folder, |_| {})
}

fn within_as(home: &Home, folder: &Path, with: impl FnOnce(&mut Command)) -> Client {
    Client::ready_with(home, |command| {
        command.current_dir(folder).env("CALLBOARD_SERVE_READ_PROJECT_MCP", "true");
        with(command);
    })
}

/// The project's file of a folder, with one server, approved.
fn project(home: &Home, folder: &Path, name: &str, entry: Value) {
    let all = serde_json::Map::from_iter([(name.to_owned(), entry)]);
    std::fs::write(folder.join(".mcp.json"), json!({ "mcpServers": all }).to_string()).unwrap();
    let ran = home.command(&["mcp", "approve", name, "-y"]).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one == name)
}

fn pids(home: &Home) -> BTreeSet<i32> {
    servers(home).into_iter().collect()
}

fn call(client: &mut Client, tool: &str) -> Value {
    client.ask("tools/call", json!({"name": tool, "arguments": {}})).unwrap()["result"].clone()
}

fn leave(clients: impl IntoIterator<Item = Client>) {
    clients.into_iter().for_each(|client| assert_eq!(client.leave(), 0));
}

#[tokio::test]
async fn ten_clients_in_ten_folders_have_each_server_of_the_user_once() {
    let home = user(&["a", "b", "c"]);
    let folders: Vec<PathBuf> = (0..10).map(|n| folder(&home, &format!("p{n}"))).collect();
    let mut first = within(&home, &folders[0]);
    assert!(has(&first.names(), "a__of_a"));
    let before = pids(&home);
    assert_eq!(before.len(), 3);
    let mut clients: Vec<Client> = folders[1..].iter().map(|folder| within(&home, folder)).collect();
    let names = first.names();
    for client in &mut clients {
        assert_eq!(client.names(), names);
    }
    assert_eq!(
        (hosts(&home).len(), pids(&home)),
        (1, before.clone()),
        "who comes starts nothing a second time"
    );
    assert_eq!(clients.pop().unwrap().leave(), 0);
    assert_eq!(first.leave(), 0);
    for client in &mut clients {
        assert_eq!(client.names(), names);
    }
    assert_eq!(pids(&home), before, "who goes ends none");
    leave(clients);
    gone(&home).await;
}

#[tokio::test]
async fn the_entry_of_a_project_is_there_for_its_own_clients_and_ends_with_the_last_of_them() {
    let home = user(&["a"]);
    let (here, there) = (folder(&home, "here"), folder(&home, "there"));
    project(&home, &here, "own", entry("of_here"));
    let (mut one, mut two) = (within(&home, &here), within(&home, &here));
    let mut other = within(&home, &there);
    assert!(has(&one.names(), "own__of_here") && one.names() == two.names());
    let names = other.names();
    assert!(has(&names, "a__of_a") && !names.iter().any(|name| name.starts_with("own__")), "{names:?}");
    assert_eq!(pids(&home).len(), 2);
    let answer = other.ask("tools/call", json!({"name": "own__of_here", "arguments": {}})).unwrap();
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("unknown tool") && !text.contains("mean own"), "{text}");
    let shown = home.command(&["mcp", "status", "--json"]).current_dir(&there).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["data"]["servers"].as_array().unwrap().len(), 1, "{shown}");
    leave([one, two]);
    until("the project's server has ended", || pids(&home).len() == 1).await;
    assert!(has(&other.names(), "a__of_a"));
    leave([other]);
    gone(&home).await;
}

#[tokio::test]
async fn servers_of_one_name_run_side_by_side_and_each_client_has_its_own() {
    let home = user(&["s"]);
    let inline = |tool: &str| json!({"s": entry(tool)}).to_string();
    let mut plain = Client::ready(&home);
    let mut other = Client::ready_with(&home, |c| _ = c.env("CALLBOARD_MCP_SERVERS", inline("of_other")));
    let (of_plain, of_other) = (plain.names(), other.names());
    assert!(has(&of_plain, "s__of_s") && has(&of_other, "s__of_other"));
    assert!(!has(&of_plain, "s__of_other") && !has(&of_other, "s__of_s"));
    assert_eq!(pids(&home).len(), 2);
    let refused = call(&mut other, "s__of_other");
    let text = refused.to_string();
    assert!(text.contains("of_other of s needs a person's approval"), "the name of the entry alone: {text}");
    leave([plain]);
    assert!(has(&other.names(), "s__of_other"));
    leave([other]);
    gone(&home).await;
}

#[tokio::test]
async fn a_change_of_one_clients_file_changes_its_own_servers_and_restarts_nothing_of_others() {
    let home = user(&["a", "b"]);
    let file = home.project().join("more.json");
    let write =
        |tool: &str| std::fs::write(&file, json!({"mcpServers": {"m": entry(tool)}}).to_string()).unwrap();
    write("first");
    let mut one = Client::ready_with(&home, |command| _ = command.arg("--mcp-config").arg(&file));
    let mut other = Client::ready(&home);
    assert!(has(&one.names(), "m__first") && !has(&other.names(), "m__first"));
    let before = pids(&home);
    assert_eq!(before.len(), 3);
    write("another_one");
    until("the file was read again", || has(&one.names(), "m__another_one")).await;
    assert!(!has(&one.names(), "m__first") && !has(&other.names(), "m__another_one"));
    until("the one before has ended", || pids(&home).len() == 3).await;
    assert_eq!(pids(&home).intersection(&before).count(), 2, "the others run on");
    // The user's file is that of both: one server changes, once.
    let all = json!({"mcpServers": {"a": entry("changed"), "b": entry("of_b")}});
    home.user(&all.to_string());
    until("both see it", || has(&one.names(), "a__changed") && has(&other.names(), "a__changed")).await;
    until("the one before has ended", || pids(&home).len() == 3).await;
    assert_eq!(pids(&home).intersection(&before).count(), 1, "`b` runs on");
    leave([one, other]);
    gone(&home).await;
}

#[tokio::test]
async fn a_client_that_wants_something_else_of_the_whole_host_is_served_by_one_of_its_own() {
    let home = user(&["a"]);
    let mut one = Client::ready(&home);
    let mut quiet = Client::ready_with(&home, |command| _ = command.env("CALLBOARD_AUDIT_MODE", "off"));
    assert!(has(&one.names(), "a__of_a") && has(&quiet.names(), "a__of_a"));
    assert_eq!((hosts(&home).len(), pids(&home).len()), (1, 2));
    leave([one, quiet]);
    gone(&home).await;
}

#[tokio::test]
async fn a_server_that_asks_for_roots_is_its_clients_own_from_then_on() {
    let home = user(&["b"]);
    let asks = json!({"command": badmcp(), "args": ["--tools", "1", "--request", "roots", "--request-wait"],
        "allowAllTools": true});
    home.user(&json!({"mcpServers": {"r": asks, "b": entry("of_b")}}).to_string());
    let with_roots = || {
        let mut client = Client::start(&home, |_| {});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}},
            "clientInfo": {"name": "t", "version": "1"}});
        client.ask("initialize", hello).unwrap();
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    };
    let (mut one, mut two) = (with_roots(), with_roots());
    assert!(has(&one.names(), "r__echo") && has(&two.names(), "r__echo"));
    let before = pids(&home);
    assert_eq!(before.len(), 2);
    one.say(json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "r__echo", "arguments": {}}}));
    let asked = one.until(|message| message["method"] == "roots/list");
    until("the other client has its own", || pids(&home).len() == 3).await;
    one.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}));
    let answer = one.until(|message| message["id"] == "c");
    assert!(answer["result"].to_string().contains("result"), "{answer}");
    assert!(before.is_subset(&pids(&home)), "who was asked keeps its server");
    assert!(has(&two.names(), "r__echo"));
    let mut three = with_roots();
    assert!(has(&three.names(), "r__echo"));
    until("who comes later has its own too", || pids(&home).len() == 4).await;
    leave([one, two, three]);
    gone(&home).await;
}

#[tokio::test]
async fn an_allow_rule_of_one_project_counts_for_no_other() {
    let home = user(&[]);
    let folders = [folder(&home, "here"), folder(&home, "there")];
    folders.iter().for_each(|folder| project(&home, folder, "own", entry("t")));
    let mut clients = folders.each_ref().map(|folder| within(&home, folder));
    let runs = |client: &mut Client| call(client, "own__echo")["isError"] != true;
    assert!(clients.iter_mut().all(|client| !runs(client)), "nothing is allowed yet");
    assert_eq!(pids(&home).len(), 2, "equal words in two projects are two servers");
    let allowed = home.command(&["mcp", "allow", "own", "*"]).current_dir(&folders[0]).output().unwrap();
    assert!(allowed.status.success(), "{allowed:?}");
    until("the rule acts", || runs(&mut clients[0])).await;
    assert!(!runs(&mut clients[1]));
    // Who comes now finds the same.
    let mut more = folders.each_ref().map(|folder| within(&home, folder));
    assert!(runs(&mut more[0]) && !runs(&mut more[1]) && !runs(&mut clients[1]));
    leave(clients.into_iter().chain(more));
    gone(&home).await;
}

#[tokio::test]
async fn what_the_hosts_own_tools_describe_is_what_a_client_has() {
    let home = user(&["a"]);
    let (here, there) = (folder(&home, "here"), folder(&home, "there"));
    project(&home, &here, "own", entry("t"));
    let all = |command: &mut Command| _ = command.env("CALLBOARD_SERVE_BUILTINS", "all");
    let (mut one, mut other) = (within_as(&home, &here, all), within_as(&home, &there, all));
    assert!(has(&one.names(), "own__t") && has(&other.names(), "a__of_a"));
    let described = |client: &mut Client| call(client, "describe_capabilities")["structuredContent"].clone();
    let servers = |said: &Value| -> Vec<String> {
        let all = said["servers"].as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(servers(&described(&mut one)), ["a", "own"]);
    let said = described(&mut other);
    assert_eq!(servers(&said), ["a"]);
    assert!(!said.to_string().contains("own__"), "{said}");
    std::fs::write(there.join("x.txt"), "there").unwrap();
    let read = |client: &mut Client| {
        client.ask("tools/call", json!({"name": "read_text", "arguments": {"path": "x.txt"}})).unwrap()["result"].clone()
    };
    assert_eq!(read(&mut other)["structuredContent"]["text"], "there", "each in its own project");
    assert_eq!(read(&mut one)["isError"], true);
    leave([one, other]);
    gone(&home).await;
}
