//! Confined servers: everything that a server tries to get out, at every level, by a real child
//! below a real guard. Without a sandbox each try succeeds, which shows that it is one.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use callboard::config::spec::{Sandbox, SecretText, ServerSpec, TransportSpec};
use callboard::runtime::Runtime;
use callboard::transport::guard::powers;
use callboard::view::{LifeState, ParkReason};
use serde_json::json;

use crate::support::bad::{program, until};
use crate::support::spec;
use crate::trees::plan;

/// What came of each try: nothing, or why it failed.
type Report = BTreeMap<String, Option<String>>;

/// Tries that need more than an ordinary user has, so that they may fail without a sandbox too.
const OF_ROOT: [&str; 2] = ["device", "mount"];
const NETWORK: [&str; 4] = ["tcp-connect", "tcp-bind", "udp-send", "tcp-connect-grandchild"];
const NEEDS: [&str; 7] = ["own-write", "own-read", "own-rename", "temporary", "run", "random", "unix-pair"];

/// A home with secrets, and a folder to work in.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for inner in ["home/.ssh", "home/.callboard", "home/work"] {
            std::fs::create_dir_all(folder.path().join(inner)).unwrap();
        }
        std::fs::write(folder.path().join("home/.callboard/mcp.json"), "{}").unwrap();
        Self { folder }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(inner)
    }

    fn server(&self, sandbox: Sandbox, args: Vec<String>, cwd: Option<PathBuf>) -> ServerSpec {
        let mut one = spec("s");
        let env = vec![("PATH".to_owned(), SecretText::new("/usr/local/bin:/usr/bin:/bin"))];
        one.transport = TransportSpec::Stdio {
            command: program().display().to_string(),
            args: args.into_iter().map(SecretText::new).collect(),
            env,
            cwd,
        };
        one.sandbox = sandbox;
        one
    }

    async fn start(&self, spec: ServerSpec) -> Runtime {
        let mut plan = plan(vec![spec]);
        plan.host_env.insert("HOME".to_owned(), self.path("home").display().to_string());
        plan.own = Some(self.path("home/.callboard"));
        Runtime::start(plan).await.unwrap()
    }
}

/// Runs every try at that level.
async fn escape(sandbox: Sandbox) -> Report {
    let desk = Desk::new();
    let (outside, work) = (desk.path("home/.ssh"), desk.path("home/work"));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = work.display().to_string();
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let target = json!({
        "outside": outside, "host": std::process::id(), "tcp": tcp.local_addr().unwrap(),
        "udp": udp.local_addr().unwrap(), "name": name, "report": work.join("report.json"),
    });
    let file = work.join("target.json");
    std::fs::write(&file, target.to_string()).unwrap();
    for name in names() {
        std::fs::write(outside.join(name), "secret").unwrap();
    }
    // What a careless parent of the host leaves open.
    let _open = rustix::io::dup(std::fs::File::open(&outside).unwrap()).unwrap();
    let args = vec!["--escape".to_owned(), file.display().to_string()];
    let confined = sandbox != Sandbox::Off;
    let runtime = desk.start(desk.server(sandbox, args, Some(work.clone()))).await;
    until("it is ready", || runtime.status()[0].state == LifeState::Ready).await;
    assert_eq!(runtime.status()[0].sandbox.is_some(), confined);
    let report: Report = serde_json::from_slice(&std::fs::read(work.join("report.json")).unwrap()).unwrap();
    if confined {
        let created = ["created", "folder", "through", "own"].map(|name| outside.join(name).exists());
        assert_eq!(created, [false; 4]);
        assert!(names().iter().all(|name| std::fs::read(outside.join(name)).unwrap() == b"secret"));
    }
    runtime.shutdown().await;
    report
}

/// The tries that have a file of their own.
fn names() -> Vec<&'static str> {
    vec![
        "read",
        "append",
        "truncate",
        "remove",
        "symlink",
        "symlink-folder",
        "hard-link",
        "rename-in",
        "dot-dot",
        "open-folder",
        "proc-self-root",
        "proc-host-root",
        "grandchild",
        "daemon",
    ]
}

fn got_out(report: &Report, except: &[&[&str]]) -> Vec<String> {
    let excepted = |name: &str| except.iter().any(|list| list.contains(&name)) || NEEDS.contains(&name);
    let out = report.iter().filter(|(name, failed)| failed.is_none() && !excepted(name));
    out.map(|(name, _)| name.clone()).collect()
}

fn assert_needs(report: &Report, level: &str) {
    let failed: Vec<_> = NEEDS.iter().filter(|name| report[**name].is_some()).collect();
    assert!(failed.is_empty(), "{level}: {failed:?} {report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confined_server_gets_out_in_no_way_and_an_unconfined_one_in_each() {
    let powers = powers();
    assert!(powers.files && powers.tcp && powers.sockets, "this kernel can't run this test: {powers:?}");
    let off = escape(Sandbox::Off).await;
    let barred: Vec<_> = off
        .iter()
        .filter(|(name, failed)| {
            failed.is_some() && !OF_ROOT.contains(&name.as_str()) && *name != "descriptor"
        })
        .collect();
    assert!(barred.is_empty(), "tries that are none: {barred:?}");

    assert!(off["descriptor"].is_some(), "no server gets a descriptor that is not its own");
    let scoped: &[&str] =
        if powers.scope { &[] } else { &["signal-host", "signal-guard", "abstract-socket"] };
    let fs = escape(Sandbox::Fs).await;
    assert_eq!(got_out(&fs, &[&NETWORK, scoped]), Vec::<String>::new(), "fs");
    let shut: Vec<_> = NETWORK.iter().filter(|name| fs[**name].is_some()).collect();
    assert!(shut.is_empty(), "the network is open in fs: {fs:?}");
    let net = escape(Sandbox::FsNet).await;
    assert_eq!(got_out(&net, &[scoped]), Vec::<String>::new(), "fs+net");
    for (level, report) in [("off", &off), ("fs", &fs), ("fs+net", &net)] {
        assert_needs(report, level);
        assert_eq!(report.len(), 39, "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confined_server_gets_what_its_entry_names_and_nothing_more() {
    let read = |folder: &Path, level: bool| Sandbox::Custom {
        read: vec![folder.display().to_string()],
        write: Vec::new(),
        net: level,
    };
    let desk = Desk::new();
    std::fs::create_dir(desk.path("home/data")).unwrap();
    std::fs::write(desk.path("home/data/a"), "read me").unwrap();
    // A server that shows what it may read, by way of its own answers.
    let script = r#"{ cat "$1/data/a"; cat "$1/.ssh/id"; echo no > "$1/data/a"; ls "$2"; } >"$TMPDIR/out" 2>&1; cat "$TMPDIR/out" >&2; exec "$0""#;
    std::fs::write(desk.path("home/.ssh/id"), "secret").unwrap();
    let home = desk.path("home").display().to_string();
    let mut one = desk.server(read(&desk.path("home/data"), true), Vec::new(), None);
    let badmcp = program().display().to_string();
    one.sandbox = Sandbox::Custom {
        read: vec![desk.path("home/data").display().to_string(), badmcp.clone()],
        write: Vec::new(),
        net: true,
    };
    let words = ["-c", script, &badmcp, &home, "/var"];
    let env = vec![("PATH".to_owned(), SecretText::new("/usr/bin:/bin"))];
    one.transport = TransportSpec::Stdio {
        command: "/bin/sh".to_owned(),
        args: words.map(SecretText::new).into(),
        env,
        cwd: None,
    };
    let runtime = desk.start(one).await;
    until("it is ready", || runtime.status()[0].state == LifeState::Ready).await;
    // Its stderr comes by another pipe than its answers.
    let said = || runtime.status()[0].stderr_tail.join("\n");
    until("all is told", || said().matches("ermission denied").count() == 3).await;
    let said = said();
    runtime.shutdown().await;
    assert!(said.contains("read me") && !said.contains("secret"), "{said}");
    assert_eq!(std::fs::read(desk.path("home/data/a")).unwrap(), b"read me");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_would_give_everything_away_parks_its_server_with_the_cure() {
    let desk = Desk::new();
    let custom = |path: PathBuf| Sandbox::Custom {
        read: Vec::new(),
        write: vec![path.display().to_string()],
        net: false,
    };
    for (sandbox, cwd, told) in [
        (Sandbox::Fs, desk.path("home"), "the working folder"),
        (Sandbox::FsNet, desk.path(""), "the working folder"),
        (custom(desk.path("home/.callboard")), desk.path("home/work"), "Callboard's own folder"),
        (custom(desk.path("home/.callboard/run")), desk.path("home/work"), "create it, or correct the path"),
        (custom(desk.path("home")), desk.path("home/work"), "Callboard's own folder"),
        (custom(desk.path("home/gone")), desk.path("home/work"), "create it, or correct the path"),
    ] {
        let shown = format!("{sandbox:?} {}", cwd.display());
        let runtime = desk.start(desk.server(sandbox, Vec::new(), Some(cwd))).await;
        let parked = LifeState::Parked(ParkReason::ConfigError);
        until("it is parked", || runtime.status()[0].state == parked).await;
        let view = runtime.status().remove(0);
        let why = view.why.unwrap_or_default();
        assert!(why.contains("sandbox: ") && why.contains(told), "{shown}: {why}");
        assert!(view.fix.unwrap_or_default().contains("`sandbox`"), "{shown}");
        assert_eq!((view.pid, view.restarts), (None, 0), "{shown}");
        runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_without_a_guard_is_refused_and_never_weakened() {
    let desk = Desk::new();
    let one = desk.server(Sandbox::Fs, Vec::new(), Some(desk.path("home/work")));
    let mut plan = plan(vec![one]);
    plan.guard = None;
    let runtime = Runtime::start(plan).await.unwrap();
    let parked = LifeState::Parked(ParkReason::ConfigError);
    until("it is parked", || runtime.status()[0].state == parked).await;
    let why = runtime.status()[0].why.clone().unwrap_or_default();
    assert!(why.contains("needs the guard process"), "{why}");
    runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_private_folder_of_a_confined_server_goes_with_it() {
    let desk = Desk::new();
    let script = r#"echo "$TMPDIR" >"$HOME/x" && echo "$TMPDIR $HOME" >&2; exec "$0""#;
    let badmcp = program().display().to_string();
    let mut one = desk.server(Sandbox::Fs, Vec::new(), Some(desk.path("home/work")));
    let copy = desk.path("home/work/badmcp");
    std::fs::copy(&badmcp, &copy).unwrap();
    let words = ["-c".to_owned(), script.to_owned(), copy.display().to_string()];
    one.transport = TransportSpec::Stdio {
        command: "/bin/sh".to_owned(),
        args: words.map(SecretText::new).into(),
        env: vec![("PATH".to_owned(), SecretText::new("/usr/bin:/bin"))],
        cwd: Some(desk.path("home/work")),
    };
    let runtime = desk.start(one).await;
    until("it is ready", || runtime.status()[0].state == LifeState::Ready).await;
    until("it has told where", || !runtime.status()[0].stderr_tail.is_empty()).await;
    let said = runtime.status()[0].stderr_tail.join("\n");
    let (temporary, home) = said.trim().split_once(' ').unwrap();
    assert!(temporary == home && Path::new(temporary).join("x").is_file(), "{said}");
    runtime.shutdown().await;
    assert!(!Path::new(temporary).exists(), "{temporary}");
}
