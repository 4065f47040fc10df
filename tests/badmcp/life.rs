//! Process life: start, signals, EOF, idle end, crashes and helpers.
//! Owns how the process begins and ends, must never write protocol. Called by `main`, `stdio`, `http`, `calls`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, kill_process};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::Flags;
use crate::server::{Server, lock, pause};
use crate::trace::{append_line, append_to};
use crate::values::{At, Place, Size, at};
use crate::wire;

/// How soon after a long call the idle clock looks again.
const IDLE_LOOK: Duration = Duration::from_millis(5);

/// One line on stderr; a closed stderr is no reason to stop.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Everything that happens before the first byte is read.
pub(crate) fn start(server: &Arc<Server>) {
    let flags = &server.flags;
    trace_start(server);
    let pid = std::process::id().to_string();
    for file in [&flags.count_starts, &flags.pid_file].into_iter().flatten() {
        append_line(file, &pid);
    }
    watch_signals(server);
    if let Some(text) = &flags.stderr {
        complain(&wire::paint(flags, text));
    }
    if let Some(value) = &flags.stderr_secret {
        complain(value);
    }
    if let Some(code) = flags.exit_on_start {
        server.exit(i32::from(code), "exit-on-start");
    }
    if let Some(limit) = flags.fail_starts
        && bump(server, "fail-starts") <= limit
    {
        complain("badmcp: this start fails");
        server.exit(1, "fail-starts");
    }
    flood(flags, Place::Start);
    if flags.fork_grandchild {
        fork_grandchild(server);
    }
    if flags.die_with_stdin {
        let server = Arc::clone(server);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            server.exit(0, "stdin ended");
        });
    }
    if let Some(ms) = flags.self_close_idle {
        close_when_idle(server, Duration::from_millis(ms));
    }
}

/// By /proc: rustix takes the number 0 for impossible, which a group from outside a container has.
fn own_group() -> i32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_ascii_whitespace().nth(2).and_then(|group| group.parse().ok()).unwrap_or(0)
}

fn trace_start(server: &Server) {
    if !server.trace.on() {
        return;
    }
    let mut names: Vec<String> = std::env::vars_os().map(|(k, _)| k.to_string_lossy().into_owned()).collect();
    names.sort();
    server.trace.event(
        "start",
        json!({
            "ppid": getppid().map_or(0, |p| p.as_raw_nonzero().get()),
            "pgid": own_group(),
            "cwd": std::env::current_dir().map_or_else(|e| e.to_string(), |d| d.display().to_string()),
            "argv": std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "env": names,
        }),
    );
}

/// Adds one to a counter that outlives the process, and returns it.
/// The counter is the file's length, so that two writers never lose a count.
pub(crate) fn bump(server: &Server, counter: &str) -> u64 {
    let Some(path) = server.flags.state_file(counter) else { return u64::MAX };
    bump_file(&path).unwrap_or_else(|e| {
        complain(&format!("badmcp: {}: {e}", path.display()));
        server.exit(70, "the counter file cannot be written")
    })
}

fn bump_file(path: &Path) -> std::io::Result<u64> {
    let mut file = append_to(path)?;
    file.write_all(b".")?;
    Ok(file.metadata()?.len())
}

/// Writes to stderr, blocking, what the flags ask for at this place.
pub(crate) fn flood(flags: &Flags, here: Place) {
    let lines = b"badmcp: a line of log that says nothing, over and over again.......\n";
    let bars = b"progress 42 % [#########.............]\r";
    for (slot, pattern) in
        [(&flags.flood_stderr, lines.as_slice()), (&flags.stderr_no_newline, bars.as_slice())]
    {
        write_flood(slot, here, pattern);
    }
    if here == Place::Call
        && let Some(value) = &flags.stderr_secret
    {
        complain(value);
    }
}

fn write_flood(slot: &Option<At<Size>>, here: Place, pattern: &[u8]) {
    if let Some(Size(bytes)) = at(slot, here, Place::Call) {
        // Unbuffered: a pipe that nobody reads blocks here, as it would block a real server.
        let _ = wire::write_filler(&mut std::io::stderr(), *bytes, pattern);
    }
}

fn fork_grandchild(server: &Server) {
    let spawned = Command::new("sleep")
        .arg("3600")
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn();
    match spawned {
        Ok(child) => {
            server.trace.event("grandchild", json!({"child": child.id()}));
            if let Some(file) = &server.flags.pid_file {
                append_line(file, &child.id().to_string());
            }
        }
        Err(e) => complain(&format!("badmcp: cannot start the helper: {e}")),
    }
}

/// Watches signals when somebody wants to know of them, or when they are to be ignored.
fn watch_signals(server: &Arc<Server>) {
    let flags = &server.flags;
    let ignore = flags.ignore_sigterm || flags.exit_only_on_eof;
    if !ignore && !server.trace.on() && flags.log_shutdown.is_none() {
        return;
    }
    let mut signals = match signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        Ok(signals) => signals,
        Err(e) => return complain(&format!("badmcp: cannot watch signals: {e}")),
    };
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let name = match signal {
                SIGTERM => "term",
                SIGINT => "int",
                _ => "hup",
            };
            log_shutdown(&server, name);
            server.trace.event("signal", json!({"signal": name}));
            if !ignore {
                server.trace.event("exit", json!({"signal": name, "why": "signal"}));
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
}

pub(crate) fn log_shutdown(server: &Server, word: &str) {
    if let Some(file) = &server.flags.log_shutdown {
        append_line(file, word);
    }
}

/// stdin has ended: leave, unless the flags say otherwise. Returns never.
pub(crate) fn stdin_ended(server: &Server) -> ! {
    server.trace.event("eof", json!({}));
    log_shutdown(server, "eof");
    if server.flags.exit_only_on_eof {
        pause(Duration::from_secs(1));
        server.exit(0, "eof, one second ago");
    }
    if server.flags.ignore_stdin_eof {
        loop {
            std::thread::park();
        }
    }
    server.exit(0, "eof")
}

fn close_when_idle(server: &Arc<Server>, limit: Duration) {
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        loop {
            let idle = lock(&server.last_call).elapsed();
            if idle >= limit && server.busy.load(Ordering::SeqCst) == 0 {
                close_stdout();
                server.exit(0, "idle");
            }
            pause(limit.saturating_sub(idle).max(IDLE_LOOK));
        }
    });
}

/// Closes the pipe behind stdout: the descriptor then leads to nowhere.
pub(crate) fn close_stdout() {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Ok(nowhere) = nowhere {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
}

/// SIGKILL to itself. Returns never.
pub(crate) fn kill_self(server: &Server, why: &str) -> ! {
    server.trace.event("exit", json!({"signal": "kill", "why": why}));
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}
