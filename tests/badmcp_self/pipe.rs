//! Drives badmcp through its pipes. Every wait has a limit and a condition.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing here takes that long, unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
const LINES_MAX: usize = 10_000;
const LOOK: Duration = Duration::from_millis(2);

/// The built example beside this test's own binary.
pub(crate) fn program() -> PathBuf {
    let own = std::env::current_exe().expect("own path");
    let path = own.parent().and_then(|deps| deps.parent()).expect("target folder").join("examples/badmcp");
    assert!(path.exists(), "{} is missing: cargo build --example badmcp", path.display());
    path
}

/// Waits until the condition gives a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::park_timeout(LOOK);
    }
}

/// Whether a process is there and is no zombie.
pub(crate) fn alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

/// `{dir}` in a flag becomes the test's folder.
pub(crate) fn command(dir: &TempDir, flags: &[&str]) -> Command {
    let mut command = Command::new(program());
    let place = dir.path().to_str().expect("utf-8");
    command.args(["--trace", &format!("{place}/trace")]);
    command.args(flags.iter().map(|flag| flag.replace("{dir}", place)));
    command
}

/// Parsed trace of that folder; a line that is being written is left out.
pub(crate) fn trace(dir: &TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.path().join("trace")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) struct Pipe {
    pub(crate) child: Child,
    pub(crate) dir: TempDir,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    unread: Option<ChildStderr>,
    next: u64,
    /// Messages that came while another was awaited.
    pub(crate) aside: Vec<Value>,
}

impl Pipe {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(TempDir::new().expect("folder"), flags)
    }

    pub(crate) fn start_in(dir: TempDir, flags: &[&str]) -> Self {
        let mut pipe = Self::deaf(dir, flags);
        pipe.hear();
        pipe
    }

    /// Nobody reads stderr until [`Pipe::hear`].
    pub(crate) fn deaf(dir: TempDir, flags: &[&str]) -> Self {
        let mut child = command(&dir, flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("badmcp starts");
        let stdin = child.stdin.take();
        let unread = child.stderr.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let (send, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(len) if len > 0 && send.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Self { child, dir, stdin, lines, stderr: Arc::default(), unread, next: 0, aside: Vec::new() }
    }

    pub(crate) fn hear(&mut self) {
        let mut from = self.unread.take().expect("not heard yet");
        let heard = Arc::clone(&self.stderr);
        std::thread::spawn(move || {
            let mut part = [0; 65536];
            while let Ok(len @ 1..) = from.read(&mut part) {
                heard.lock().expect("lock").extend_from_slice(&part[..len]);
            }
        });
    }

    pub(crate) fn pid(&self) -> u64 {
        u64::from(self.child.id())
    }

    pub(crate) fn stderr(&self) -> Vec<u8> {
        self.stderr.lock().expect("lock").clone()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("badmcp reads");
    }

    /// The next line with its end, or none when stdout has ended.
    pub(crate) fn raw_line(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("no line came; trace: {:#?}", self.trace())
            }
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let line = self.raw_line().expect("stdout is open");
        String::from_utf8(line).expect("utf-8").trim_end_matches(['\r', '\n']).to_owned()
    }

    pub(crate) fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Sends a request and returns its id.
    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.fresh();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer with that id; other messages go aside.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.aside.push(message);
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        self.ask(
            "initialize",
            &json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "self", "version": "1"}}),
        )
    }

    /// The whole handshake; the result of initialize.
    pub(crate) fn open(&mut self) -> Value {
        let answer = self.initialize("2025-11-25");
        self.notify("notifications/initialized", &json!({}));
        answer["result"].clone()
    }

    pub(crate) fn opened(flags: &[&str]) -> Self {
        let mut pipe = Self::start(flags);
        pipe.open();
        pipe
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin_call(tool, arguments);
        self.answer(id)
    }

    /// The text of a call's only block.
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.call(tool, arguments);
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text: {answer}"))
            .to_owned()
    }

    pub(crate) fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", &json!({}))["result"]["tools"].as_array().expect("tools").clone()
    }

    pub(crate) fn trace(&self) -> Vec<Value> {
        trace(&self.dir)
    }

    /// Waits for an event of that kind that fits.
    pub(crate) fn traced(&self, ev: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(ev, || self.trace().into_iter().find(|event| event["ev"] == ev && fits(event)))
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Appends a command to `{dir}/control`, and waits until it was done.
    pub(crate) fn control(&self, command: &str) {
        let path = self.dir.path().join("control");
        let done = |trace: &[Value]| trace.iter().filter(|e| e["ev"] == "control").count();
        let before = done(&self.trace());
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("control");
        file.write_all(format!("{command}\n").as_bytes()).expect("control");
        let event =
            eventually(command, || self.trace().into_iter().filter(|e| e["ev"] == "control").nth(before));
        assert_eq!(event["known"], true, "{event}");
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("exit", || child.try_wait().expect("wait"))
    }

    /// Ends stdin; all lines that still came, and the exit.
    pub(crate) fn finish(&mut self) -> (Vec<String>, ExitStatus) {
        self.close_stdin();
        let mut rest = Vec::new();
        while let Some(line) = self.raw_line() {
            rest.push(String::from_utf8_lossy(&line).into_owned());
        }
        (rest, self.exit())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that a test started.
pub(crate) fn signal(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    let _ = rustix::process::kill_process(pid, signal);
}
