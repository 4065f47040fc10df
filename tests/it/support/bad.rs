//! Real `badmcp` processes as the servers of a whole runtime, with the flags that
//! `tests/field_reports.toml` gives for a report, so that test and report can't drift
//! apart. Each server has a trace of its own: the judge of what it got and did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use callboard::call::{CallError, CallReply, Target};
use callboard::catalog::items::{Item, ListKind, ServerCatalog};
use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::id::ServerId;
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::view::{LifeState, ServerView};
use serde_json::{Value, json};

use super::{entry, request, spec};

/// How long anything may take before its test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// What comes at once, and not at a limit that somebody waits for, comes within that time on any machine.
pub const SOON: Duration = Duration::from_secs(10);
/// Between looks at files of other processes.
const LOOK: Duration = Duration::from_millis(5);
/// Tools that badmcp has without any flag.
pub const TOOLS: usize = 13;

/// The sets of flags of a report: `flags`, then `others`, exactly as many as the test runs.
#[track_caller]
pub fn runs<const N: usize>(report: &str) -> [Vec<String>; N] {
    let file: toml_edit::DocumentMut = include_str!("../../field_reports.toml").parse().unwrap();
    let words = |value: &toml_edit::Value| -> Vec<String> {
        let array = value.as_array().expect("flags are an array");
        array.iter().map(|word| word.as_str().expect("a flag is a text").to_owned()).collect()
    };
    let report_of = file.get(report).unwrap_or_else(|| panic!("{report} is not in field_reports.toml"));
    let mut runs = vec![words(report_of["flags"].as_value().expect("every report has flags"))];
    let others = report_of.get("others").and_then(|others| others.as_array());
    runs.extend(others.into_iter().flatten().map(words));
    let count = runs.len();
    runs.try_into().unwrap_or_else(|_| panic!("{report} has {count} sets of flags, the test runs {N}"))
}

/// The only set of flags of a report.
#[track_caller]
pub fn flags(report: &str) -> Vec<String> {
    let [flags] = runs(report);
    flags
}

/// As `runs`, with `{dir}` in a flag standing for this folder.
#[track_caller]
pub fn runs_in<const N: usize>(report: &str, dir: &Path) -> [Vec<String>; N] {
    let dir = dir.display().to_string();
    runs(report).map(|flags| flags.into_iter().map(|flag| flag.replace("{dir}", &dir)).collect())
}

/// The misbehaving server, built beside the tests.
pub fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_callboard")).parent().unwrap().join("examples/badmcp");
    assert!(built.is_file(), "{} is built by `cargo test`", built.display());
    built
}

/// Waits for a condition on files of other processes.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut tick = tokio::time::interval(LOOK);
    let wait = async {
        while !holds() {
            tick.tick().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "never: {what}");
}

/// The events of one kind in a trace. A line that is still being written does not count.
pub fn trace(file: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|event| event["ev"] == kind).collect()
}

/// A `badmcp --http` that the test itself started; it ends with its stdin, or here.
pub struct Web {
    /// The process.
    pub child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Web {
    /// Starts one with these flags and waits until it listens; `port` is a file that is not there yet.
    pub async fn start(flags: &[String], port: &Path) -> Self {
        let mut command = Command::new(program());
        command.args(flags).args(["--http", "--die-with-stdin", "--port-file"]).arg(port);
        let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut web = Self { child, port: 0 };
        until("it listens", || port.exists()).await;
        web.port = std::fs::read_to_string(port).unwrap().trim().parse().unwrap();
        web
    }

    /// Its address with a path, such as `/mcp`.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Servers on their way into one runtime.
pub struct Yard {
    folder: tempfile::TempDir,
    plan: RuntimePlan,
    web: Vec<Web>,
    traces: BTreeMap<String, PathBuf>,
}

impl Yard {
    /// None yet.
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            plan: RuntimePlan::default(),
            web: Vec::new(),
            traces: BTreeMap::new(),
        }
    }

    /// Adds a server with these flags; with `--http` among them, one that runs already.
    pub async fn with(self, name: &str, flags: &[String]) -> Self {
        self.tuned(name, flags, |_| {}).await
    }

    /// The same with another specification.
    pub async fn tuned(mut self, name: &str, flags: &[String], tune: impl FnOnce(&mut ServerSpec)) -> Self {
        let number = self.traces.len();
        let file = |kind: &str| self.folder.path().join(format!("{kind}-{number}"));
        let (trace, port) = (file("trace"), file("port"));
        let mut args = flags.to_vec();
        args.extend(["--trace".to_owned(), trace.display().to_string()]);
        let mut spec = spec(name);
        if flags.iter().any(|flag| flag == "--http") {
            let web = Web::start(&args, &port).await;
            let url = SecretText::new(web.url("/mcp"));
            spec.transport = TransportSpec::Http { url, headers: Vec::new() };
            self.web.push(web);
        } else {
            spec.transport = TransportSpec::Stdio {
                command: program().display().to_string(),
                args: args.into_iter().map(SecretText::new).collect(),
                env: Vec::new(),
                cwd: None,
            };
        }
        tune(&mut spec);
        self.plan.servers.entries.push(entry(spec));
        self.traces.insert(name.to_owned(), trace);
        self
    }

    /// Adds correct servers.
    pub async fn good(mut self, names: &[&str]) -> Self {
        for name in names {
            self = self.with(name, &[]).await;
        }
        self
    }

    /// Changes the plan.
    pub fn plan(mut self, change: impl FnOnce(&mut RuntimePlan)) -> Self {
        change(&mut self.plan);
        self
    }

    /// Starts a runtime on them.
    pub async fn start(self) -> Host {
        let Self { folder, plan, web, traces } = self;
        let runtime = Runtime::start(plan).await.expect("the runtime starts");
        Host { runtime, traces, _web: web, _folder: folder }
    }

    /// Starts a runtime and waits until every server is ready and listed.
    pub async fn ready(self) -> Host {
        let host = self.start().await;
        for view in host.runtime.settle(&[], PATIENCE).await {
            assert!(view.state == LifeState::Ready && view.listed, "{view:?}");
        }
        host
    }
}

/// A runtime on real servers.
pub struct Host {
    /// The runtime.
    pub runtime: Runtime,
    traces: BTreeMap<String, PathBuf>,
    _web: Vec<Web>,
    _folder: tempfile::TempDir,
}

impl Host {
    /// One correct-but-for-its-flags server `s`, ready.
    pub async fn of(flags: &[String]) -> Self {
        Yard::new().with("s", flags).await.ready().await
    }

    /// The view of one server.
    pub fn view(&self, server: &str) -> ServerView {
        let mut views = self.runtime.status();
        views.retain(|view| view.id.as_str() == server);
        views.pop().expect("the server is configured")
    }

    /// Its process.
    pub fn pid(&self, server: &str) -> u32 {
        self.view(server).pid.expect("it runs")
    }

    /// Waits until the view of a server is as wanted.
    pub async fn until(
        &self,
        server: &str,
        what: &str,
        mut holds: impl FnMut(&ServerView) -> bool,
    ) -> ServerView {
        let mut watch = self.runtime.watch(&[ServerId::new(server)]);
        let wait = async {
            loop {
                let view = watch.look().remove(0);
                if holds(&view) {
                    return view;
                }
                watch.changed().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(view) => view,
            Err(_) => panic!("never: {what}: {:?}", self.view(server)),
        }
    }

    /// Waits until a warning of a server has these words.
    pub async fn warned(&self, server: &str, words: &str) -> ServerView {
        let has = |view: &ServerView| view.warnings.iter().any(|warning| warning.contains(words));
        self.until(server, words, has).await
    }

    /// What a server has in the merged catalogue, before any filter.
    pub fn catalog(&self, server: &str) -> std::sync::Arc<ServerCatalog> {
        self.runtime.catalog().servers[&ServerId::new(server)].clone()
    }

    /// The raw names of a server's usable tools, in its order.
    pub fn tools(&self, server: &str) -> Vec<String> {
        self.catalog(server).list(ListKind::Tools).items.iter().map(|item| item.name.clone()).collect()
    }

    /// One usable tool of a server.
    pub fn tool(&self, server: &str, tool: &str) -> std::sync::Arc<Item> {
        let catalog = self.catalog(server);
        let items = &catalog.list(ListKind::Tools).items;
        items.iter().find(|item| item.name == tool).unwrap_or_else(|| panic!("no tool {tool:?}")).clone()
    }

    /// Calls a tool by its raw name.
    pub async fn call(&self, server: &str, tool: &str, arguments: &Value) -> Result<CallReply, CallError> {
        let params = json!({"name": tool, "arguments": arguments}).to_string();
        let frontend = self.runtime.frontend();
        let call = frontend.call(request(server, tool, &params), None);
        tokio::time::timeout(PATIENCE, call).await.expect("the call takes too long")
    }

    /// The exposed names of a server's tools, by raw name.
    pub fn exposed(&self, server: &str) -> BTreeMap<String, String> {
        let catalog = self.runtime.catalog();
        let of_server = catalog.tools.iter().filter(|tool| tool.route.server.as_str() == server);
        of_server.map(|tool| (tool.route.item.name.clone(), tool.name.clone())).collect()
    }

    /// Calls whatever a name means in the merged catalogue.
    pub async fn call_named(&self, name: &str) -> Result<CallReply, CallError> {
        let mut asked = request("", "", &json!({"name": name, "arguments": {}}).to_string());
        asked.target = Target::Exposed(name.to_owned());
        let frontend = self.runtime.frontend();
        let call = frontend.call(asked, None);
        tokio::time::timeout(PATIENCE, call).await.expect("the call takes too long")
    }

    /// Calls `echo` and expects the text back.
    pub async fn echo(&self, server: &str, text: &str) {
        let reply = self.call(server, "echo", &json!({"text": text})).await;
        let reply = reply.unwrap_or_else(|e| panic!("{server}: {text}: {e:?}"));
        assert_eq!(text_of(&reply), text, "{server}");
    }

    /// The events of one kind in a server's trace.
    pub fn trace(&self, server: &str, kind: &str) -> Vec<Value> {
        trace(&self.traces[server], kind)
    }

    /// The messages with that method that reached a server, in order.
    pub fn received(&self, server: &str, method: &str) -> Vec<Value> {
        let events = self.trace(server, "in");
        let wanted = events.iter().filter(|event| event["method"] == method);
        wanted.map(|event| serde_json::from_str(event["raw"].as_str().unwrap()).unwrap()).collect()
    }

    /// The names of the tools that really ran on a server, in order.
    pub fn executed(&self, server: &str) -> Vec<String> {
        let events = self.trace(server, "executed");
        events.iter().map(|event| event["tool"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends it in order.
    pub async fn end(self) {
        self.runtime.shutdown().await;
    }
}

/// Runs the body in a process of its own, because what it measures is of the whole process.
/// `test` is the path of the test that calls this.
pub fn alone(test: &str, body: impl Future<Output = ()>) {
    const ALONE: &str = "--exact";
    if std::env::args().any(|word| word == ALONE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(body);
        return;
    }
    let out = Command::new(std::env::current_exe().unwrap()).args([test, ALONE, "--nocapture"]).output();
    let out = out.unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && told.contains("1 passed"), "{told}");
}

/// A size from `/proc/self/status`, in bytes: `VmRSS` now, `VmHWM` at its peak.
pub fn memory(key: &str) -> u64 {
    memory_of(std::process::id().cast_signed(), key)
}

/// The same of another process.
pub fn memory_of(pid: i32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The first text of a result.
pub fn text_of(reply: &CallReply) -> String {
    let body: Value = serde_json::from_slice(&reply.body()).unwrap();
    body["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {body}")).to_owned()
}
