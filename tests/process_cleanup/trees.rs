//! Trees of processes in the shapes that servers come in, their mark, and who is left of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::runtime::RuntimePlan;
use callboard::transport::guard::Guarding;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::bad::{program, until};
use crate::support::{entry, spec};

/// The variable that marks a tree.
pub const MARK: &str = "CALLBOARD_TEST_MARK";
/// How long a helper that nobody ended sleeps, so that a failed test leaves nothing for long.
const NAP: &str = "600";

/// One shape: a script whose words are the server, flags of the server, and how many processes
/// there are once the server runs.
pub struct Shape {
    pub name: &'static str,
    script: &'static str,
    flags: &'static [&'static str],
    pub processes: usize,
    /// Has a process that left the session of its guard.
    pub escapes: bool,
}

const fn shape(
    name: &'static str,
    script: &'static str,
    flags: &'static [&'static str],
    processes: usize,
    escapes: bool,
) -> Shape {
    Shape { name, script, flags, processes, escapes }
}

const STAYS: &[&str] = &["--ignore-stdin-eof"];

/// Every shape (`NAP` stands for the sleep of a helper).
pub const SHAPES: [Shape; 8] = [
    shape("eof-leaves-child", r#"sleep NAP & exec "$0" "$@""#, &[], 2, false),
    shape("waiting-wrapper", r#"sh -c '"$0" "$@"; :' "$0" "$@"; :"#, STAYS, 3, false),
    shape(
        "ignores-term",
        r#"trap "" TERM; sleep NAP & "$0" "$@"; :"#,
        &["--ignore-stdin-eof", "--ignore-sigterm"],
        3,
        false,
    ),
    shape("own-session", r#"setsid sleep NAP & exec "$0" "$@""#, STAYS, 2, true),
    shape(
        "like-npx",
        r#"sh -c 'sh -c "sleep NAP & \"\$0\" \"\$@\"; :" "$0" "$@"; :' "$0" "$@"; :"#,
        &[],
        5,
        false,
    ),
    shape("daemon", r#"(setsid sh -c 'trap "" TERM HUP; sleep NAP; :' &) ; exec "$0" "$@""#, STAYS, 3, true),
    shape(
        "forks-on-term",
        r#"exec 3<&0; trap 'sleep NAP & sleep NAP & exit 0' TERM; "$0" "$@" <&3 & wait; :"#,
        STAYS,
        2,
        false,
    ),
    shape("stopped-child", r#"sleep NAP & kill -STOP $!; exec "$0" "$@""#, STAYS, 2, false),
];

impl Shape {
    /// What runs it.
    pub fn args(&self) -> Vec<String> {
        let mut args =
            vec!["-c".to_owned(), self.script.replace("NAP", NAP), program().display().to_string()];
        args.extend(self.flags.iter().map(|flag| (*flag).to_owned()));
        args
    }

    /// The server as a specification.
    pub fn spec(&self, mark: &Mark) -> ServerSpec {
        let mut spec = spec(self.name);
        spec.transport = TransportSpec::Stdio {
            command: "/bin/sh".to_owned(),
            args: self.args().into_iter().map(SecretText::new).collect(),
            env: vec![
                ("PATH".to_owned(), SecretText::new("/usr/local/bin:/usr/bin:/bin")),
                (MARK.to_owned(), SecretText::new(&mark.0)),
            ],
            cwd: None,
        };
        spec
    }
}

/// How many processes all shapes have.
pub fn all_processes() -> usize {
    SHAPES.iter().map(|shape| shape.processes).sum()
}

/// A value that no other tree carries.
pub struct Mark(pub String);

impl Mark {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Living processes that carry it.
    pub fn carriers(&self) -> BTreeSet<i32> {
        let wanted = format!("{MARK}={}", self.0);
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            env.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()) && is_alive(*pid)
        })
        .collect()
    }

    /// Waits until so many are there.
    pub async fn grown(&self, processes: usize) -> BTreeSet<i32> {
        until(&format!("{processes} processes"), || self.carriers().len() == processes).await;
        self.carriers()
    }

    /// Nothing is left now.
    #[track_caller]
    pub fn assert_gone(&self, when: &str) {
        let left = self.carriers();
        let words: Vec<String> = left.iter().map(|pid| format!("{pid} {}", command_line(*pid))).collect();
        assert!(left.is_empty(), "{when}: left {words:?}");
    }
}

impl Drop for Mark {
    /// What a failed test would leave.
    fn drop(&mut self) {
        for pid in self.carriers() {
            signal(pid, Signal::KILL);
        }
    }
}

/// A plan of these servers, below guards.
pub fn plan(specs: Vec<ServerSpec>) -> RuntimePlan {
    let mut plan = RuntimePlan { guard: Some(guarding(None)), ..RuntimePlan::default() };
    plan.servers.entries = specs.into_iter().map(entry).collect();
    plan
}

/// The guards of the built program.
pub fn guarding(leases: Option<PathBuf>) -> Guarding {
    Guarding { program: env!("CARGO_BIN_EXE_callboard").into(), spare: None, leases }
}

/// State and parent of a process that is there, zombies too.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The children of a process, each with its state.
pub fn children(parent: i32) -> Vec<(i32, char)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| stat(pid).filter(|(_, of)| *of == parent).map(|(state, _)| (pid, state))).collect()
}

pub fn command_line(pid: i32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

pub fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

pub fn id(pid: u32) -> i32 {
    i32::try_from(pid).unwrap()
}

/// The built program as a host of all shapes, in a home of its own.
pub struct Host {
    child: Running,
    pub home: tempfile::TempDir,
}

impl Host {
    /// `callboard mcp status --watch` on these shapes.
    pub fn start(mark: &Mark) -> Self {
        let home = tempfile::tempdir().unwrap();
        let servers: serde_json::Map<String, serde_json::Value> = SHAPES
            .iter()
            .map(|shape| {
                let entry = json!({"command": "/bin/sh", "args": shape.args(), "env": {MARK: mark.0}});
                (shape.name.to_owned(), entry)
            })
            .collect();
        std::fs::create_dir(home.path().join(".callboard")).unwrap();
        std::fs::write(home.path().join(".callboard/mcp.json"), json!({"mcpServers": servers}).to_string())
            .unwrap();
        let child = Running::of(&mut command(home.path(), &["mcp", "status", "--watch"]));
        Self { child, home }
    }

    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Its guards, which are its only children.
    pub fn guards(&self) -> Vec<i32> {
        children(self.pid()).into_iter().map(|(pid, _)| pid).collect()
    }

    pub fn leases(&self) -> PathBuf {
        self.home.path().join(".callboard/run/leases")
    }
}

/// A process that a test started; it ends with the test, also with one that fails.
pub struct Running(pub Child);

impl Running {
    pub fn of(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> i32 {
        id(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The built program with these words and nothing of our environment.
pub fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.args(words).env_clear().env("HOME", home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// How long it takes until it holds.
pub async fn time_until(what: &str, holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    until(what, holds).await;
    began.elapsed()
}

/// A number from the environment: how often the rounds of a test run.
pub fn rounds(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().map_or(default, |rounds| rounds.parse().expect("a number of rounds"))
}
