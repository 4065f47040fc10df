//! The bench of `real_servers`: starts the pinned servers, the direct client and the `callboard`
//! program in a folder of their own, and ends what it started. Knows no expectation.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The real servers, by the names that the tests use.
pub(crate) const NAMES: [&str; 6] =
    ["everything", "filesystem", "memory", "sequential-thinking", "git", "time"];

/// The servers' tools alone, and not the host's own beside them.
const WITHOUT_OUR_TOOLS: (&str, &str) = ("CALLBOARD_SERVE_BUILTINS", "none");

/// Longest run of one program.
const RUN_MAX: Duration = Duration::from_secs(90);

/// How to reach one server.
#[derive(Clone)]
pub(crate) enum Launch {
    /// A child process.
    Stdio { command: PathBuf, args: Vec<String>, env: Vec<(String, String)> },
    /// Streamable HTTP.
    Http(String),
}

impl Launch {
    /// Its entry in a configuration.
    pub(crate) fn entry(&self) -> Value {
        match self {
            Self::Stdio { command, args, env } => {
                let env: Value = env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
                json!({"command": command, "args": args, "env": env, "allowedTools": ["*"]})
            }
            Self::Http(url) => json!({"url": url, "allowedTools": ["*"]}),
        }
    }
}

/// A folder with what the servers work on.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// Lays it out: files, and a git repository with one commit.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bench = Self { folder };
        for inner in ["home", "config", "files"] {
            fs::create_dir(bench.path(inner)).unwrap();
        }
        fs::write(bench.path("files/a.txt"), "first line\nzweite Zeile: äöü \u{1F375}\n").unwrap();
        fs::write(bench.path("files/tone.wav"), silent_wav()).unwrap();
        let graph = json!({"type": "entity", "name": "tea", "entityType": "drink", "observations": ["hot"]});
        fs::write(bench.path("memory.jsonl"), format!("{graph}\n")).unwrap();
        bench
    }

    /// A path in the folder; symbolic links resolved, as some servers compare them.
    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        let root = self.folder.path().canonicalize().unwrap();
        if inner.is_empty() { root } else { root.join(inner) }
    }

    /// The pinned server of that name. None when it is not installed, said aloud; with CI=true that
    /// is a failure.
    pub(crate) fn real(&self, name: &str) -> Option<Launch> {
        let npm = |package: &str| {
            let script = format!("node_modules/@modelcontextprotocol/server-{package}/dist/index.js");
            installed(name, &script).map(|script| (node(), vec![text(&script)]))
        };
        let pip = |program: &str| {
            let program = installed(name, &format!(".venv/bin/{program}"))?;
            Some((program, Vec::new()))
        };
        let (command, mut args) = match name {
            "git" => pip("mcp-server-git"),
            "time" => pip("mcp-server-time"),
            npm_name => npm(npm_name),
        }?;
        let mut env = Vec::new();
        match name {
            "filesystem" => args.push(text(&self.path("files"))),
            "memory" => env.push(("MEMORY_FILE_PATH".to_owned(), text(&self.path("memory.jsonl")))),
            "git" => args.extend(["--repository".to_owned(), text(&self.repository())]),
            "time" => args.extend(["--local-timezone".to_owned(), "UTC".to_owned()]),
            _ => {}
        }
        Some(Launch::Stdio { command, args, env })
    }

    fn repository(&self) -> PathBuf {
        let repo = self.path("repo");
        if !repo.exists() {
            fs::create_dir(&repo).unwrap();
            fs::write(repo.join("a.txt"), "a\n").unwrap();
            for args in [
                &["init", "--quiet", "--initial-branch", "main"][..],
                &["add", "a.txt"],
                &["commit", "--quiet", "--message", "first"],
            ] {
                let mut git = Command::new("git");
                git.args(args).current_dir(&repo).env("HOME", self.path("home"));
                git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
                for who in ["AUTHOR", "COMMITTER"] {
                    git.env(format!("GIT_{who}_NAME"), "Test")
                        .env(format!("GIT_{who}_EMAIL"), "test@example.com");
                    git.env(format!("GIT_{who}_DATE"), "2026-01-02T03:04:05Z");
                }
                assert!(git.status().unwrap().success(), "git {args:?}");
            }
        }
        repo
    }

    /// A configuration file with these entries.
    pub(crate) fn config(&self, name: &str, entries: &[(&str, Value)]) -> Config<'_> {
        let servers: Value =
            entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        let file = self.path(&format!("config/{name}.json"));
        fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
        Config { bench: self, file }
    }
}

/// The `callboard` program on one configuration file, and nothing else of this machine.
pub(crate) struct Config<'a> {
    bench: &'a Bench,
    file: PathBuf,
}

/// One item of a list as the program shows it.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// The name, URI or template that the server gave it.
    #[serde(alias = "name", alias = "uri", alias = "uri_template")]
    pub(crate) raw_name: String,
    /// The definition, raw.
    #[serde(deserialize_with = "raw")]
    pub(crate) definition: String,
}

fn raw<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    <Box<RawValue>>::deserialize(from).map(|raw| raw.get().to_owned())
}

impl Config<'_> {
    fn command(&self, verb: &[&str]) -> Command {
        self.program(&[&["--json", "mcp"], verb].concat())
    }

    /// How a client starts the program as its server over stdio.
    pub(crate) fn served(&self) -> Launch {
        let words = ["--mcp-serve", "--private", "--strict-mcp-config", "--mcp-config"];
        let args = words.into_iter().map(str::to_owned).chain([text(&self.file)]).collect();
        let home = self.bench.path("home");
        let env = [("HOME", home.clone()), ("CALLBOARD_HOME", home.join(".callboard"))];
        let mut env: Vec<_> = env.into_iter().map(|(key, path)| (key.to_owned(), text(&path))).collect();
        env.push((WITHOUT_OUR_TOOLS.0.to_owned(), WITHOUT_OUR_TOOLS.1.to_owned()));
        Launch::Stdio { command: env!("CARGO_BIN_EXE_callboard").into(), args, env }
    }

    /// The program as a server over HTTP.
    pub(crate) fn served_over_http(&self) -> HttpServer {
        let mut host = self.program(&["--mcp-http", "--mcp-port", "0"]);
        host.stdout(Stdio::null()).env(WITHOUT_OUR_TOOLS.0, WITHOUT_OUR_TOOLS.1);
        let mut child = host.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let at = |line: String| Some(line.split_once("http://127.0.0.1:")?.1.split('/').next()?.to_owned());
        let port = lines.find_map(|line| at(line.ok()?)).expect("the host listens");
        std::thread::spawn(move || lines.for_each(drop));
        HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), child }
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.arg("--strict-mcp-config").arg("--mcp-config").arg(&self.file).args(words);
        let home = self.bench.path("home");
        let path = std::env::split_paths(&search_path()).collect::<Vec<_>>();
        command.env_clear().env("PATH", std::env::join_paths(path).unwrap());
        command.env("HOME", &home).env("CALLBOARD_HOME", home.join(".callboard"));
        command.current_dir(&home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The items under `data.KEY` of a list verb.
    pub(crate) fn list(&self, verb: &str, server: &str, key: &str) -> Vec<Seen> {
        let out = output(self.command(&[verb, server]));
        let answer: Value =
            serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{verb}: {e}: {out:?}"));
        assert_eq!(answer["ok"], true, "{verb} {server}: {out:?}");
        let (data, _) = raw_member(&out.stdout, "data");
        let (list, _) = raw_member(&data, key);
        serde_json::from_str(&list).unwrap_or_else(|e| panic!("{verb}.{key}: {e}: {list}"))
    }

    /// The raw `data.result` of a verb that uses a server, or the raw error that it answered.
    pub(crate) fn result(&self, verb: &[&str]) -> String {
        let out = output(self.command(verb));
        let member = |path: [&str; 2]| {
            let outer = raw_member(&out.stdout, path[0]).0;
            Some(raw_member(&outer, path[1])).filter(|(_, found)| *found).map(|(text, _)| text)
        };
        let raw = member(["data", "result"]).or_else(|| member(["error", "rpc_error"]));
        raw.unwrap_or_else(|| panic!("{verb:?} has no answer of the server: {out:?}"))
    }

    /// The one line of an answer, and when it was there.
    pub(crate) fn first_line(&self, verb: &[&str]) -> (Value, SystemTime) {
        let mut child = self.command(verb).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at = callboard::time::wall();
        let out = wait(child);
        let value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{verb:?}: {e}: {line:?} {out:?}"));
        (value, at)
    }
}

/// The raw text of one member of an object; false when it has none.
fn raw_member(text: &str, key: &str) -> (String, bool) {
    let members: Option<std::collections::HashMap<String, Box<RawValue>>> = serde_json::from_str(text).ok();
    let member = members.and_then(|mut members| members.remove(key));
    member.map_or_else(|| (String::new(), false), |raw| (raw.get().to_owned(), true))
}

/// What the direct client printed: raw JSON texts.
#[derive(Debug, Deserialize)]
pub(crate) struct Direct {
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) resources: Option<Vec<String>>,
    pub(crate) templates: Option<Vec<String>>,
    pub(crate) prompts: Option<Vec<String>>,
    pub(crate) calls: Vec<String>,
    pub(crate) reads: Vec<String>,
    pub(crate) gets: Vec<String>,
}

/// Asks a server through the direct client, which can do nothing for it.
pub(crate) fn direct(
    launch: &Launch,
    calls: &[(&str, Value)],
    reads: &[&str],
    gets: &[(&str, Value)],
) -> Direct {
    direct_with(&json!({}), launch, calls, reads, gets)
}

/// The same of a client with these capabilities, as far as a server sees.
pub(crate) fn direct_with(
    capabilities: &Value,
    launch: &Launch,
    calls: &[(&str, Value)],
    reads: &[&str],
    gets: &[(&str, Value)],
) -> Direct {
    let mut spec = match launch {
        Launch::Stdio { command, args, env } => {
            let env: Value = env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            json!({"command": command, "args": args, "env": env})
        }
        Launch::Http(url) => json!({"url": url}),
    };
    spec["capabilities"] = capabilities.clone();
    spec["calls"] = json!(calls);
    spec["reads"] = json!(reads);
    spec["gets"] = json!(gets);
    let mut client = Command::new(node());
    client.arg(folder().join("direct-client.mjs")).arg(spec.to_string());
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let out = output(client);
    serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("direct client: {e}: {out:?}"))
}

/// server-everything behind Streamable HTTP on loopback.
pub(crate) struct HttpServer {
    /// Where it listens.
    pub(crate) url: String,
    child: Child,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it; none when it is not installed.
pub(crate) fn everything_over_http(bench: &Bench) -> Option<HttpServer> {
    let Launch::Stdio { command, args, .. } = bench.real("everything")? else { return None };
    let mut server = Command::new(command);
    server.arg("--import").arg(folder().join("loopback.mjs")).args(args).arg("streamableHttp");
    server.env("PORT", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = server.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| line.ok()?.strip_prefix("LISTENING ").map(str::to_owned));
    // Somebody has to go on reading, or the server would stop at a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let url = format!("http://127.0.0.1:{}/mcp", port.expect("the server listens"));
    Some(HttpServer { url, child })
}

#[derive(Debug)]
struct Output {
    stdout: String,
    #[expect(dead_code, reason = "shown by Debug when a test fails")]
    stderr: String,
    #[expect(dead_code, reason = "shown by Debug when a test fails")]
    code: Option<i32>,
}

fn output(mut command: Command) -> Output {
    wait(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
}

/// Waits for the end of a child, and ends it when it takes too long.
fn wait(mut child: Child) -> Output {
    let collect = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = collect(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = collect(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let (ended, end) = mpsc::sync_channel::<()>(1);
    let pid = child.id();
    let watchdog = std::thread::spawn(move || {
        let late = end.recv_timeout(RUN_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        late
    });
    let status = child.wait().unwrap();
    drop(ended);
    let output =
        Output { stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), code: status.code() };
    assert!(!watchdog.join().unwrap(), "not done after {RUN_MAX:?}: {output:?}");
    output
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

#[expect(clippy::disallowed_methods, reason = "a test may ask whether it runs in CI")]
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

#[expect(clippy::disallowed_methods, reason = "programs are found on the PATH of the test")]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn node() -> PathBuf {
    let names = std::env::split_paths(&search_path()).map(|folder| folder.join("node")).collect::<Vec<_>>();
    names.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("node"))
}

/// A file of `tests/real`, if it is installed.
pub(crate) fn installed(name: &str, inner: &str) -> Option<PathBuf> {
    let path = folder().join(inner);
    if path.is_file() {
        return Some(path);
    }
    assert!(!in_ci(), "{name}: {} is missing; tests/real/install brings it", path.display());
    // Straight to stderr: the test runner keeps what a passing test prints.
    let hint = "run tests/real/install to test it too";
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {name} is not installed; {hint}");
    None
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The shortest valid WAV file: no samples.
fn silent_wav() -> Vec<u8> {
    let mut wav = Vec::from(*b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(*b"\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0");
    wav
}
