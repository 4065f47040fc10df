//! One host for all clients of a user: real processes, a real socket, and what becomes of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli_call::badmcp;
use crate::cli_home::Home;
use crate::support::bad::until;

/// A client: the process that its user's program starts, and that program's ends of its pipes.
pub(crate) struct Client {
    process: Child,
    input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    pub(crate) fn start(home: &Home, with: impl FnOnce(&mut Command)) -> Self {
        let mut command = home.command(&["--mcp-serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("CALLBOARD_SERVE_LINGER", "200ms").env("CALLBOARD_SERVE_BUILTINS", "none");
        with(&mut command);
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { input: process.stdin.take(), process, output, last: 0 }
    }

    /// One that has shaken hands.
    pub(crate) fn ready(home: &Home) -> Self {
        Self::ready_with(home, |_| {})
    }

    pub(crate) fn ready_with(home: &Home, with: impl FnOnce(&mut Command)) -> Self {
        let mut client = Self::start(home, with);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        client.ask("initialize", hello).unwrap();
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(crate) fn say(&mut self, message: Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message that fits.
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the stream goes on");
            let message: Value = serde_json::from_str(&line).unwrap();
            if fits(&message) {
                return message;
            }
        }
    }

    /// The answer; `None` when the stream ended.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Option<Value> {
        self.last += 1;
        self.say(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.last {
                return Some(answer);
            }
        }
    }

    pub(crate) fn tools(&mut self) -> usize {
        self.ask("tools/list", json!({})).unwrap()["result"]["tools"].as_array().unwrap().len()
    }

    /// The names of its tools, in order.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends its input; the exit code.
    pub(crate) fn leave(mut self) -> i32 {
        drop(self.input.take());
        self.process.wait().unwrap().code().unwrap_or(-1)
    }
}

/// A home with one server, `s`, whose entry has these keys besides.
pub(crate) fn with_server(more: &Value) -> Home {
    let home = Home::new();
    let mut entry = json!({"command": badmcp()});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    home
}

/// Processes with that word in their arguments that belong to this home.
fn processes(home: &Home, word: &str) -> Vec<i32> {
    let mark = format!("CALLBOARD_HOME={}", home.home().display());
    let root = format!("HOME={}", home.home().parent().unwrap().display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = |pid: &i32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let has = |text: Vec<u8>, part: &str| text.split(|byte| *byte == 0).any(|one| one == part.as_bytes());
        has(read("cmdline"), word) && (has(read("environ"), &mark) || has(read("environ"), &root))
    };
    pids.filter(ours).collect()
}

pub(crate) fn hosts(home: &Home) -> Vec<i32> {
    processes(home, "__host")
}

pub(crate) fn servers(home: &Home) -> Vec<i32> {
    processes(home, &badmcp())
}

pub(crate) async fn gone(home: &Home) {
    until("the host has ended, and its servers with it", || {
        hosts(home).is_empty() && servers(home).is_empty()
    })
    .await;
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn ten_clients_share_one_host_and_one_process_of_each_server() {
    let home = with_server(&json!({}));
    let mut clients: Vec<Client> = (0..10).map(|_| Client::ready(&home)).collect();
    for client in &mut clients {
        assert!(client.tools() > 3);
    }
    assert_eq!((hosts(&home).len(), servers(&home).len()), (1, 1));
    let host = hosts(&home);
    let (status, socket) = (home.run(&["mcp", "status", "--json"]), home.home().join("run"));
    assert_eq!(status.json(0)["data"]["servers"][0]["pid"], servers(&home)[0]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o700);
    for entry in std::fs::read_dir(&socket).unwrap().flatten().filter(|entry| !entry.path().is_dir()) {
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
    }
    assert_eq!(clients.pop().unwrap().leave(), 0);
    let mut killed = clients.pop().unwrap();
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    for client in &mut clients {
        assert!(client.ask("ping", json!({})).is_some(), "the end of one is nobody else's");
    }
    assert_eq!(hosts(&home), host);
    for client in clients {
        assert_eq!(client.leave(), 0);
    }
    gone(&home).await;
}

#[tokio::test]
async fn clients_that_start_at_once_find_one_host() {
    for _ in 0..5 {
        let home = with_server(&json!({}));
        let mut racers: Vec<Client> = (0..10).map(|_| Client::start(&home, |_| {})).collect();
        for client in &mut racers {
            assert!(client.ask("ping", json!({})).is_some());
        }
        assert_eq!(hosts(&home).len(), 1);
        for client in racers {
            assert_eq!(client.leave(), 0);
        }
        gone(&home).await;
    }
}

#[tokio::test]
async fn nothing_outlives_a_shared_host_that_was_killed_and_the_next_client_gets_a_fresh_one() {
    let home = with_server(&json!({}));
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let first = hosts(&home);
    kill(first[0]);
    let ended = client.process.wait_with_output_of();
    assert_eq!(ended.0, 8, "{}", ended.1);
    assert!(ended.1.contains("the shared host ended"), "{}", ended.1);
    gone(&home).await;
    // The socket that it left behind is replaced.
    let mut next = Client::ready(&home);
    assert!(next.tools() > 3 && hosts(&home) != first);
    assert_eq!(next.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn a_client_that_has_said_nothing_yet_does_not_notice_the_end_of_its_host() {
    let home = with_server(&json!({}));
    let mut client = Client::start(&home, |_| {});
    until("its host runs", || hosts(&home).len() == 1).await;
    let first = hosts(&home);
    kill(first[0]);
    until("there is another one", || hosts(&home).first().is_some_and(|host| *host != first[0])).await;
    assert!(client.ask("ping", json!({})).is_some());
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn a_host_whose_socket_was_deleted_is_found_again() {
    let home = with_server(&json!({}));
    let mut one = Client::ready(&home);
    let host = hosts(&home);
    let door = || {
        let all = std::fs::read_dir(home.home().join("run")).unwrap().flatten();
        all.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "sock"))
    };
    std::fs::remove_file(door().unwrap()).unwrap();
    until("its door is open again", || door().is_some()).await;
    let mut two = Client::ready(&home);
    assert!(one.tools() > 3 && two.tools() > 3);
    assert_eq!((hosts(&home), servers(&home).len()), (host, 1));
    for client in [one, two] {
        assert_eq!(client.leave(), 0);
    }
    gone(&home).await;
}

/// The end of a process whose pipes are held elsewhere.
trait Ended {
    fn wait_with_output_of(&mut self) -> (i32, String);
}

impl Ended for Child {
    fn wait_with_output_of(&mut self) -> (i32, String) {
        let code = self.wait().unwrap().code().unwrap_or(-1);
        let mut text = String::new();
        std::io::Read::read_to_string(self.stderr.as_mut().unwrap(), &mut text).unwrap();
        (code, text)
    }
}

#[tokio::test]
async fn what_differs_is_apart_an_environment_and_a_server_of_ones_own() {
    let home = with_server(&json!({"env": {"X": "${X:-none}"}}));
    let mut one = Client::ready(&home);
    let mut two = Client::ready_with(&home, |command| _ = command.env("X", "other"));
    let mut three = Client::ready_with(&home, |command| _ = command.env("TERM", "dumb"));
    let mut elsewhere = Client::ready_with(&home, |command| _ = command.current_dir(home.home()));
    assert!(one.tools() > 3 && two.tools() > 3 && three.tools() > 3 && elsewhere.tools() > 3);
    assert_eq!((hosts(&home).len(), servers(&home).len()), (1, 2), "two environments, one host");
    let other = with_server(&json!({"sharing": "session"}));
    let (mut four, mut five) = (Client::ready(&other), Client::ready(&other));
    assert!(four.tools() > 3 && five.tools() > 3);
    assert_eq!((hosts(&other).len(), servers(&other).len()), (1, 2), "a process for each");
    for client in [one, two, three, elsewhere, four, five] {
        assert_eq!(client.leave(), 0);
    }
    gone(&home).await;
    gone(&other).await;
}

#[tokio::test]
async fn verbs_act_on_the_running_host_and_what_is_stopped_by_hand_stays_so() {
    let home = with_server(&json!({}));
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let before = servers(&home);
    home.run(&["mcp", "stop", "s"]).expect(0);
    until("it has ended", || servers(&home).is_empty()).await;
    assert_eq!(home.run(&["mcp", "wait", "s", "--timeout", "1s"]).code, 1);
    home.run(&["mcp", "reload"]).expect(0);
    assert!(servers(&home).is_empty(), "a reload starts nothing that was stopped by hand");
    home.run(&["mcp", "start", "s"]).expect(0);
    home.run(&["mcp", "wait", "s", "--timeout", "60s"]).expect(0);
    assert!(servers(&home).len() == 1 && servers(&home) != before);
    home.run(&["mcp", "off"]).expect(0);
    until("all have ended", || servers(&home).is_empty()).await;
    home.run(&["mcp", "on"]).expect(0);
    home.run(&["mcp", "wait", "--timeout", "60s"]).expect(0);
    assert_eq!(home.run(&["mcp", "restart", "none", "--json"]).json(4)["error"]["code"], "unknown_server");
    home.run(&["mcp", "logs", "s"]).expect(0);
    home.run(&["mcp", "stop"]).expect(2);
    // A changed file acts without a word from anybody.
    home.user(r#"{"mcpServers": {}}"#);
    until("the file was read again", || servers(&home).is_empty()).await;
    assert_eq!(client.tools(), 0);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn the_tools_of_the_host_itself_are_served_by_the_shared_host_too_and_outlive_a_reload() {
    let home = with_server(&json!({}));
    let all = |command: &mut Command| _ = command.env("CALLBOARD_SERVE_BUILTINS", "all");
    let (mut one, mut two) = (Client::ready_with(&home, all), Client::ready_with(&home, all));
    let mut none = Client::ready(&home);
    assert!(one.tools() > none.tools());
    let call = |client: &mut Client, tool: &str, arguments: Value| {
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments})).unwrap();
        answer["result"]["structuredContent"].clone()
    };
    assert_eq!(call(&mut one, "calculate", json!({"expression": "6*7"}))["value"], "42");
    let last = call(&mut one, "last_output", json!({}));
    assert!(last["text"].as_str().unwrap().contains("42"), "{last}");
    let other = call(&mut two, "last_output", json!({}));
    assert_eq!(other["text"], Value::Null, "what one client got is nobody else's: {other}");
    home.run(&["mcp", "reload"]).expect(0);
    assert_eq!(call(&mut two, "calculate", json!({"expression": "1+1"}))["value"], "2");
    assert!(call(&mut one, "last_output", json!({}))["text"].as_str().unwrap().contains("42"));
    for client in [one, two, none] {
        assert_eq!(client.leave(), 0);
    }
    gone(&home).await;
}
