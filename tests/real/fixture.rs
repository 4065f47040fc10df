//! The bench of `conformance`: the fixture servers of the official suite, the host in front of them,
//! the suite itself and clients of other makes. Ends what it started; knows no expectation.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Longest run of one program.
const RUN_MAX: Duration = Duration::from_secs(120);

/// The fixtures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixture {
    /// Of the Python SDK 2: both eras.
    Modern,
    /// Of the Python SDK 1: legacy alone.
    Legacy,
}

/// A server on loopback, ended when dropped.
pub(crate) struct Served {
    /// Its endpoint.
    pub(crate) url: String,
    child: Child,
    _reader: std::thread::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let (gone, ended) = mpsc::sync_channel::<()>(1);
        let pid = self.child.id().to_string();
        let watchdog = std::thread::spawn(move || {
            if ended.recv_timeout(Duration::from_secs(15)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        let _ = self.child.wait();
        drop(gone);
        let _ = watchdog.join();
    }
}

impl Served {
    /// Waits until the program names its address on stderr.
    fn of(mut command: Command, path: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let port = address(&line);
            seen.push(line);
            port
        });
        let port = port.unwrap_or_else(|| panic!("{command:?} ended: {seen:#?}"));
        // Somebody has to go on reading, or the server would stop at a full pipe.
        let reader = std::thread::spawn(move || lines.for_each(|line: Result<String, _>| drop(line)));
        Self { url: format!("http://127.0.0.1:{port}{path}"), child, _reader: reader }
    }
}

fn address(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("http://127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|port| *port != 0)
}

impl Fixture {
    fn number(self) -> (&'static str, &'static str) {
        match self {
            Self::Modern => ("2", ".venv"),
            Self::Legacy => ("1", ".venv-legacy"),
        }
    }

    /// Starts it; none when it is not installed, said aloud; with CI=true that is a failure.
    pub(crate) fn start(self) -> Option<Served> {
        let (number, venv) = self.number();
        let python = installed(&format!("{venv}/bin/python"))?;
        let source = installed(&format!(".fixtures/{number}"))?;
        installed("node_modules/@modelcontextprotocol/conformance/dist/index.js")?;
        let mut command = Command::new(python);
        // Port 0: uvicorn says on stderr which one it got.
        command.args(["-m", "mcp_everything_server", "--port", "0"]).env("PYTHONPATH", source);
        command.env("PYTHONUNBUFFERED", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        Some(Served::of(command, "/mcp"))
    }
}

/// A folder of the host's own, and how it is started there.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    /// The configuration of one server behind the host, under its own names.
    pub(crate) fn in_front_of(entry: &Value, settings: &str) -> Self {
        Self::of(
            &json!({"one": entry}),
            &format!("[serve]\nnaming = \"bare\"\nbuiltins = \"none\"\n{settings}"),
        )
    }

    /// The configuration of these servers.
    pub(crate) fn of(servers: &Value, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder };
        let own = home.path().join(".callboard");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
        std::fs::write(own.join("callboard.toml"), settings).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The variables that the program needs.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let home = self.path().to_string_lossy().into_owned();
        vec![
            ("CALLBOARD_HOME".to_owned(), format!("{home}/.callboard")),
            ("HOME".to_owned(), home),
            ("PATH".to_owned(), search_path()),
        ]
    }

    /// The program.
    pub(crate) fn callboard(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.args(words).env_clear().envs(self.environment()).current_dir(self.path());
        command
    }

    /// Starts each server once, so that what it has is known to the next host from its beginning.
    pub(crate) fn learn(&self) {
        let output = run(self.callboard(&["--json", "mcp", "status", "--wait", "60s"]));
        assert!(output.stdout.contains("\"ready\""), "{output:#?}");
    }

    /// The host on HTTP.
    pub(crate) fn serve_http(&self) -> Served {
        Served::of(self.callboard(&["--mcp-http", "--mcp-port", "0"]), "/mcp")
    }
}

/// What the suite found.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Exit code 0: everything required passed.
    pub(crate) passed: bool,
    /// Scenarios that passed and that failed, those that are not scored included.
    pub(crate) good: Vec<String>,
    /// Those that failed.
    pub(crate) bad: Vec<String>,
    /// All that it printed.
    pub(crate) text: String,
}

/// The entry of a server whose answer to `tools/list` is this text. None when it is not installed.
pub(crate) fn odd_server(listed: &str) -> Option<Value> {
    let python = installed(".venv/bin/python")?;
    let args = [folder().join("odd_server.py").to_string_lossy().into_owned(), listed.to_owned()];
    Some(json!({"command": python, "args": args, "allowedTools": ["*"], "trust": "trusted"}))
}

/// Runs the official suite against a server.
pub(crate) fn suite(url: &str, requirements: &str) -> Verdict {
    let node = folder().join(format!("node_modules/node-linux-{}/bin/node", node_arch()));
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(node);
    command.arg(folder().join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    command.args(["server", "--url", url, "--requirements", requirements, "-o"]).arg(out.path());
    let output = run(command);
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for line in output.stdout.lines() {
        let line = line.trim();
        for (mark, to) in [("✓ ", &mut good), ("✗ ", &mut bad)] {
            if let Some(rest) = line.strip_prefix(mark) {
                let name = rest.split([':', ' ']).next().unwrap_or_default();
                if !to.iter().any(|known| known == name) {
                    to.push(name.to_owned());
                }
            }
        }
    }
    Verdict { passed: output.code == Some(0), good, bad, text: output.stdout + &output.stderr }
}

fn node_arch() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" }
}

/// Clients of other makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Python SDK 1.30
    PythonLegacy,
    /// Python SDK 2.3
    PythonModern,
    /// TypeScript SDK 1.32
    TypeScriptLegacy,
    /// TypeScript SDK 2.4
    TypeScriptModern,
}

impl Client {
    pub(crate) const ALL: [Self; 4] =
        [Self::PythonLegacy, Self::PythonModern, Self::TypeScriptLegacy, Self::TypeScriptModern];

    /// What it sees of a server; `spec` is that of `clients/modern.py`. None when it is not installed.
    pub(crate) fn look(self, spec: &Value) -> Option<Value> {
        let (program, script) = match self {
            Self::PythonLegacy => (installed(".venv-legacy/bin/python")?, "clients/legacy.py"),
            Self::PythonModern => (installed(".venv/bin/python")?, "clients/modern.py"),
            Self::TypeScriptLegacy => (node()?, "clients/legacy.mjs"),
            Self::TypeScriptModern => (node()?, "clients/modern.mjs"),
        };
        let mut command = Command::new(program);
        command.arg(folder().join(script)).arg(spec.to_string());
        let output = run(command);
        let seen = output.stdout.lines().last().and_then(|line| serde_json::from_str(line).ok());
        Some(seen.unwrap_or_else(|| panic!("{self:?} saw nothing: {output:#?}")))
    }
}

fn node() -> Option<PathBuf> {
    installed("node_modules/@modelcontextprotocol/client/dist/index.mjs")?;
    installed(&format!("node_modules/node-linux-{}/bin/node", node_arch()))
}

#[derive(Debug)]
struct Output {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr: ChildStderr = child.stderr.take().unwrap();
    let told = std::thread::spawn(move || text(stderr));
    let (ended, end) = mpsc::sync_channel::<()>(1);
    let pid = child.id().to_string();
    let watchdog = std::thread::spawn(move || {
        let late = end.recv_timeout(RUN_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
        late
    });
    let stdout = text(child.stdout.take().unwrap());
    let code = child.wait().unwrap().code();
    drop(ended);
    let output = Output { stdout, stderr: told.join().unwrap(), code };
    assert!(!watchdog.join().unwrap(), "not done after {RUN_MAX:?}: {command:?} {output:#?}");
    output
}

fn text(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

fn installed(part: &str) -> Option<PathBuf> {
    let path = folder().join(part);
    if path.exists() {
        return Some(path);
    }
    assert!(!in_ci(), "tests/real/{part} is missing: run tests/real/install");
    // Straight to stderr: the test runner keeps what a passing test prints.
    let _ =
        writeln!(std::io::stderr(), "LEFT OUT: tests/real/{part} is not there; tests/real/install brings it");
    None
}

#[expect(clippy::disallowed_methods, reason = "a test may ask whether it runs in CI")]
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

#[expect(clippy::disallowed_methods, reason = "programs are found on the PATH of the test")]
fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}
