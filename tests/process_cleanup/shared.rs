//! Ends of clients and of the host that they share, in every order: nothing is left, and the next
//! client is served.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::bad::until;
use crate::trees::{MARK, Mark, Running, SHAPES, command, command_line, is_alive, rounds, signal};

/// A user with servers of two shapes, and one mark on all that runs for them.
struct Desk {
    home: tempfile::TempDir,
    mark: Mark,
}

/// One client: the process that a program of the user starts, and that program's ends of its pipes.
struct Client {
    process: Running,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Desk {
    fn new() -> Self {
        Self::with(&json!({}))
    }

    /// One with a third server, of the first shape, whose entry says this besides.
    fn with(more: &Value) -> Self {
        let desk = Self { home: tempfile::tempdir().unwrap(), mark: Mark::new() };
        for folder in [".callboard", "tmp"] {
            std::fs::create_dir(desk.home.path().join(folder)).unwrap();
        }
        let entry = |shape: &crate::trees::Shape| {
            (
                shape.name.to_owned(),
                json!({"command": "/bin/sh", "args": shape.args(), "env": {MARK: desk.mark.0}}),
            )
        };
        // One whose child stays behind at the end of its input, one with a daemon.
        let mut servers: serde_json::Map<String, Value> =
            [&SHAPES[0], &SHAPES[5]].map(entry).into_iter().collect();
        if let Some(more) = more.as_object().filter(|more| !more.is_empty()) {
            let (_, mut own) = entry(&SHAPES[0]);
            own.as_object_mut().unwrap().extend(more.clone());
            servers.insert("own".to_owned(), own);
        }
        let text = json!({ "mcpServers": servers }).to_string();
        std::fs::write(desk.home.path().join(".callboard/mcp.json"), text).unwrap();
        desk
    }

    /// A client that has just been started.
    fn start(&self) -> Client {
        self.start_in(self.home.path())
    }

    /// The same in that folder.
    fn start_in(&self, folder: &std::path::Path) -> Client {
        let mut command = command(self.home.path(), &["--mcp-serve"]);
        command.current_dir(folder);
        command
            .env(MARK, &self.mark.0)
            .env("TMPDIR", self.home.path().join("tmp"))
            .env("CALLBOARD_SERVE_LINGER", "100ms");
        let mut process =
            Running::of(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let output = BufReader::new(process.0.stdout.take().unwrap());
        Client { input: process.0.stdin.take(), process, output }
    }

    /// One that is served.
    fn client(&self) -> Client {
        let mut client = self.start();
        client.greet();
        client
    }

    /// Clients that are served, each in a folder of its own.
    fn clients_in_folders(&self, count: usize) -> Vec<Client> {
        let client = |n| {
            let folder = self.home.path().join(format!("p{n}"));
            std::fs::create_dir_all(&folder).unwrap();
            let mut client = self.start_in(&folder);
            client.greet();
            client
        };
        (0..count).map(client).collect()
    }

    /// How many servers run: each has one guard.
    fn guards(&self) -> usize {
        crate::trees::children(self.host()).len()
    }

    /// The only host.
    fn host(&self) -> i32 {
        let hosts = self.with_word(" __host");
        assert_eq!(hosts.len(), 1, "{hosts:?}");
        hosts[0]
    }

    fn with_word(&self, word: &str) -> Vec<i32> {
        self.mark.carriers().into_iter().filter(|pid| command_line(*pid).contains(word)).collect()
    }

    /// All that the two servers are made of runs, each once.
    async fn grown(&self) {
        until("both servers run, with what they started", || {
            self.with_word("badmcp").len() >= 2 && self.with_word("sleep 600").len() >= 2
        })
        .await;
    }

    /// No process is left.
    async fn empty(&self) {
        until("no process is left", || self.mark.carriers().is_empty()).await;
    }

    /// What an orderly end leaves: neither socket, nor lease, nor temporary file.
    fn assert_clean(&self) {
        let run = self.home.path().join(".callboard/run");
        let files = |folder: PathBuf| -> Vec<PathBuf> {
            std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        let sockets =
            files(run.clone()).into_iter().filter(|path| path.extension().is_some_and(|end| end == "sock"));
        let left: Vec<PathBuf> =
            sockets.chain(files(run.join("leases"))).chain(files(self.home.path().join("tmp"))).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// The next client is served; when it leaves, nothing is left.
    async fn goes_on(&self) {
        let client = self.client();
        client.leaves();
        self.empty().await;
        self.assert_clean();
    }
}

impl Client {
    /// Shakes hands and reads the tools.
    fn greet(&mut self) {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        self.ask("initialize", hello);
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let tools = self.ask("tools/list", json!({}));
        assert!(tools["result"]["tools"].is_array(), "{tools}");
    }

    fn say(&mut self, message: Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it ended: {}", self.told());
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == method {
                return answer;
            }
        }
    }

    /// What it wrote to stderr, once it has ended.
    fn told(&mut self) -> String {
        let mut text = String::new();
        self.process.0.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Its end of its own accord; the exit code.
    fn code(&mut self) -> i32 {
        self.process.0.wait().unwrap().code().unwrap_or(-1)
    }

    /// Ends its input, as a program does that needs it no more.
    fn leaves(mut self) {
        drop(self.input.take());
        assert_eq!(self.code(), 0, "{}", self.told());
    }
}

fn times() -> u32 {
    rounds("CALLBOARD_SHARED_ROUNDS", 4)
}

#[tokio::test]
async fn a_killed_client_takes_nobody_with_it_and_the_last_one_takes_all() {
    let desk = Desk::new();
    for _ in 0..times() {
        let (one, mut two) = (desk.client(), desk.client());
        desk.grown().await;
        let host = desk.host();
        signal(one.process.pid(), Signal::KILL);
        drop(one);
        assert!(two.ask("ping", json!({}))["result"].is_object());
        assert_eq!(desk.host(), host);
        signal(two.process.pid(), Signal::KILL);
        drop(two);
        desk.empty().await;
        desk.assert_clean();
    }
    desk.goes_on().await;
}

#[tokio::test]
async fn nothing_outlives_a_shared_host_that_was_killed() {
    let desk = Desk::new();
    for _ in 0..times() {
        let mut clients = [desk.client(), desk.client()];
        desk.grown().await;
        signal(desk.host(), Signal::KILL);
        for client in &mut clients {
            assert_eq!(client.code(), 8, "{}", client.told());
        }
        desk.empty().await;
    }
    desk.goes_on().await;
}

#[tokio::test]
async fn nothing_outlives_clients_and_host_that_were_killed_together() {
    let desk = Desk::new();
    for _ in 0..times() {
        let clients = [desk.client(), desk.client()];
        desk.grown().await;
        let all = [desk.host(), clients[0].process.pid(), clients[1].process.pid()];
        // Stopped first, so that none sees another go.
        for one in [Signal::STOP, Signal::KILL] {
            all.iter().for_each(|pid| signal(*pid, one));
        }
        drop(clients);
        until("they are dead", || !all.iter().any(|pid| is_alive(*pid))).await;
        desk.empty().await;
    }
    desk.goes_on().await;
}

#[tokio::test]
async fn of_two_that_start_at_once_one_host_stays_each_time() {
    let desk = Desk::new();
    for _ in 0..rounds("CALLBOARD_RACES", 20) {
        let mut racers = [desk.start(), desk.start()];
        racers.iter_mut().for_each(Client::greet);
        // The loser of the race is on its way out.
        until("one host is left", || desk.with_word(" __host").len() == 1).await;
        racers.into_iter().for_each(Client::leaves);
        desk.empty().await;
        desk.assert_clean();
    }
}

#[tokio::test]
async fn ten_clients_have_each_server_once() {
    let desk = Desk::new();
    let clients: Vec<Client> = (0..10).map(|_| desk.client()).collect();
    desk.grown().await;
    assert_eq!(desk.guards(), 2, "one guard for each of two servers");
    clients.into_iter().for_each(Client::leaves);
    desk.empty().await;
    desk.assert_clean();
}

#[tokio::test]
async fn clients_in_ten_folders_have_each_server_once_and_the_end_of_one_ends_its_own_alone() {
    let desk = Desk::with(&json!({"sharing": "session"}));
    let mut clients = desk.clients_in_folders(10);
    until("two for all, and one for each", || desk.guards() == 12).await;
    desk.grown().await;
    let killed = clients.pop().unwrap();
    signal(killed.process.pid(), Signal::KILL);
    drop(killed);
    clients.pop().unwrap().leaves();
    until("those of the two are gone", || desk.guards() == 10).await;
    for client in &mut clients {
        assert!(client.ask("ping", json!({}))["result"].is_object());
    }
    assert_eq!(desk.guards(), 10);
    clients.into_iter().for_each(Client::leaves);
    desk.empty().await;
    desk.assert_clean();
}

#[tokio::test]
async fn a_client_that_is_killed_as_it_starts_leaves_nothing() {
    let desk = Desk::new();
    for _ in 0..times() {
        let client = desk.start();
        until("it has started a host", || !desk.with_word(" __host").is_empty()).await;
        signal(client.process.pid(), Signal::KILL);
    }
    desk.empty().await;
    desk.goes_on().await;
}
