//! The program on a terminal: a pseudo-terminal in place of the three streams, so that it
//! asks, fits the width and colours as it does for a person.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::cli_home::Home;

/// Seconds of silence after which a program counts as stuck.
const SILENCE_S_MAX: i64 = 60;

/// A program that runs on a terminal, and the terminal's other end.
pub(crate) struct Screen {
    pub(crate) child: Child,
    master: File,
    pub(crate) shown: String,
}

impl Screen {
    pub(crate) fn run(home: &Home, columns: u16, words: &[&str], env: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let peer =
            || -> OwnedFd { ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap() };
        let child = home
            .command(words)
            .envs(env.iter().copied())
            .env("TERM", "xterm")
            .stdin(Stdio::from(peer()))
            .stdout(Stdio::from(peer()))
            .stderr(Stdio::from(peer()))
            .spawn()
            .unwrap();
        Self { child, master: File::from(master), shown: String::new() }
    }

    /// Reads until that text has appeared.
    pub(crate) fn until(&mut self, text: &str) -> &mut Self {
        while !self.shown.contains(text) {
            assert!(self.more(), "{text:?} never appeared:\n{}", self.shown);
        }
        self
    }

    /// Reads once; `false` when the program has gone.
    fn more(&mut self) -> bool {
        let mut waits = [PollFd::new(&self.master, PollFlags::IN)];
        if rustix::event::poll(&mut waits, Some(&Timespec { tv_sec: SILENCE_S_MAX, tv_nsec: 0 })).unwrap()
            == 0
        {
            self.child.kill().unwrap();
            panic!("it neither says anything nor ends:\n{}", self.shown);
        }
        let mut bytes = [0; 4096];
        match self.master.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.shown.push_str(&String::from_utf8_lossy(&bytes[..n]));
                true
            }
        }
    }

    pub(crate) fn type_in(&mut self, text: &str) -> &mut Self {
        self.master.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Reads to the end: everything shown, and the exit code.
    pub(crate) fn end(mut self) -> (String, i32) {
        while self.more() {}
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (self.shown, code)
    }
}

fn demo_server(home: &Home, name: &str) {
    let program = env!("CARGO_BIN_EXE_callboard");
    home.user(
        &json!({"mcpServers": {name: {"command": program, "args": ["__demo-server", name]}}}).to_string(),
    );
}

const CALL: [&str; 6] = ["mcp", "call", "crashy", "divide", "dividend=6", "divisor=2"];

#[test]
fn a_person_is_asked_with_server_tool_and_arguments() {
    let home = Home::new();
    demo_server(&home, "crashy");
    let mut screen = Screen::run(&home, 80, &CALL, &[]);
    screen.until("[y/a/N] ");
    for part in ["divide", "crashy", r#"{"dividend":6,"divisor":2}"#] {
        assert!(screen.shown.contains(part), "{part:?} is not in the question:\n{}", screen.shown);
    }
    screen.type_in("y\n");
    let (shown, code) = screen.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.trim_end().ends_with('3'), "{shown:?}");
}

#[test]
fn a_long_question_keeps_its_subject_in_sight_and_shows_all_when_asked_to() {
    let home = Home::new();
    demo_server(&home, "crashy");
    let arguments = format!(r#"{{"dividend":6,{}"divisor":2}}"#, " ".repeat(6000));
    let mut screen = Screen::run(&home, 80, &["mcp", "call", "crashy", "divide", &arguments], &[]);
    screen.until("[y/a/N, s shows all] ");
    assert!(!screen.shown.contains("divisor") && screen.shown.lines().count() < 24, "{}", screen.shown);
    let last = screen.shown.lines().last().unwrap();
    assert!(last.contains("divide of crashy"), "{last:?}");
    screen.type_in("s\n").until("divisor").until("shows all] ").type_in("n\n");
    let (shown, code) = screen.end();
    assert_eq!(code, 5, "{shown}");
}

#[test]
fn a_no_calls_nothing() {
    let home = Home::new();
    demo_server(&home, "crashy");
    for answer in ["n\n", "\n", "\u{4}"] {
        let mut screen = Screen::run(&home, 80, &CALL, &[]);
        screen.until("[y/a/N] ").type_in(answer);
        let (shown, code) = screen.end();
        assert_eq!(code, 5, "{answer:?}: {shown}");
        assert!(shown.contains("error:"), "{shown}");
    }
}

#[tokio::test]
async fn a_wait_that_the_server_asked_for_is_shown_and_ending_it_says_that_nothing_ran() {
    let home = Home::new();
    let bad = crate::http::Bad::start("--http-fail 429x1:200@call").await;
    let url = bad.web.url("/mcp");
    let words = ["mcp", "call", &url, "count", "-y"];
    let mut screen = Screen::run(&home, 100, &words, &[("NO_COLOR", "1")]);
    screen.until("asks to wait 3m");
    let pid = rustix::process::Pid::from_child(&screen.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (shown, code) = screen.end();
    assert_eq!((code, bad.executed()), (130, 0), "{shown}");
    assert!(shown.contains("interrupted: the server had put the call off, and it did not run"), "{shown}");
}

#[test]
fn always_writes_a_rule_and_the_next_call_is_not_asked_about() {
    let home = Home::new();
    demo_server(&home, "crashy");
    let mut screen = Screen::run(&home, 80, &CALL, &[]);
    screen.until("[y/a/N] ").type_in("a\n");
    let (shown, code) = screen.end();
    assert_eq!(code, 0, "{shown}");
    let rules: Value = home.run(&["mcp", "rules", "--json"]).json(0);
    assert_eq!(rules["data"]["rules"], json!([{"scope": "user", "rule": "crashy/divide"}]));
    home.run(&CALL).expect(0);
    home.run(&["mcp", "allow", "crashy", "divide", "--revoke"]).expect(0);
    home.run(&CALL).expect(5);
}

#[test]
fn tables_fit_the_screen_and_are_coloured_unless_told_otherwise() {
    let home = Home::new();
    home.user(
        &json!({"mcpServers": {
            "one": {"command": "some-program", "args": ["with", "many", "words", "that", "will", "not", "fit", "in", "here"]},
            "two": {"command": "x", "enabled": false},
        }})
        .to_string(),
    );
    let list = ["mcp", "list"];
    let (colored, code) = Screen::run(&home, 50, &list, &[]).end();
    assert_eq!(code, 0);
    assert!(colored.contains("\u{1b}["), "{colored:?}");
    for env in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let mut command = Screen::run(&home, 50, &list, env);
        command.until("two");
        let (plain, _) = command.end();
        if env[0].0 == "NO_COLOR" {
            assert!(!plain.contains('\u{1b}'), "{plain:?}");
            let widest = plain.lines().map(|line| line.trim_end().chars().count()).max();
            assert!(widest.is_some_and(|n| n <= 50), "{plain}");
            assert!(plain.lines().count() > 4, "a long command wraps: {plain}");
        }
    }
    let (flag, _) = Screen::run(&home, 50, &["mcp", "list", "--no-color"], &[]).end();
    assert!(!flag.contains('\u{1b}'), "{flag:?}");
}

#[test]
fn a_secret_is_asked_for_kept_apart_and_never_shown() {
    let home = Home::new();
    let program =
        std::path::Path::new(env!("CARGO_BIN_EXE_callboard")).parent().unwrap().join("examples/badmcp");
    let words = ["mcp", "add", "s", "-e", "API_TOKEN", "--", program.to_str().unwrap()];
    let mut screen = Screen::run(&home, 80, &words, &[]);
    screen.until("API_TOKEN (not shown): ").type_in("s3cr3t-value-9\n");
    let (shown, code) = screen.end();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
    let file = std::fs::read_to_string(home.home().join("mcp.json")).unwrap();
    assert!(file.contains("${secret:API_TOKEN}") && !file.contains("s3cr3t"), "{file}");
    let raw = home.run(&["mcp", "call", "s", "env", "key=API_TOKEN", "-y", "--json"]).json(0);
    let text = raw["data"]["result"].to_string();
    assert!(text.contains("s3cr3t-value-9"), "the server gets it, and a result passes whole: {text}");
    let seen = home.run(&["mcp", "call", "s", "env", "key=API_TOKEN", "-y"]);
    assert!(!seen.expect(0).stdout.contains("s3cr3t"), "a person sees no known secret: {seen:?}");
}

#[test]
fn an_approval_shows_what_it_covers() {
    let home = Home::new();
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"sh","args":["${HOME}"],"trust":"trusted"}}}"#);
    let mut screen = Screen::run(&home, 80, &["mcp", "approve", "theirs"], &[("NO_COLOR", "1")]);
    screen.until("[y/N] ");
    for part in ["/sh", "HOME", "trust: trusted", ".mcp.json"] {
        assert!(screen.shown.contains(part), "{part:?} is not shown:\n{}", screen.shown);
    }
    screen.type_in("yes\n");
    assert_eq!(screen.end().1, 0);
    let list: Value = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"][0]["state"], "usable");
}

#[test]
fn a_watched_status_is_drawn_over_and_ends_on_ctrl_c() {
    let home = Home::new();
    demo_server(&home, "clock");
    let mut screen = Screen::run(&home, 100, &["mcp", "status", "--watch"], &[("NO_COLOR", "1")]);
    screen.until("1 ready");
    assert!(screen.shown.contains("F\u{1b}[0J"), "drawn over: {:?}", screen.shown);
    let pid = rustix::process::Pid::from_raw(screen.child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (shown, code) = screen.end();
    assert_eq!(code, 130, "{shown}");
    assert!(!shown.contains("error"), "it was asked to end: {shown}");
}

#[test]
fn a_server_that_lingers_at_the_end_is_named_and_the_others_are_not() {
    let home = Home::new();
    let gate = home.project().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let server = |name: &str| format!("{} __demo-server {name}", env!("CARGO_BIN_EXE_callboard"));
    let lingers = format!("trap '' TERM; {}; read -r line <'{}'", server("notes"), gate.display());
    let quick = format!("exec {}", server("clock"));
    let entry = |script: String| json!({"command": "sh", "args": ["-c", script]});
    home.user(&json!({"mcpServers": {"lingers": entry(lingers), "quick": entry(quick)}}).to_string());
    let mut open = File::options().read(true).write(true).open(&gate).unwrap();
    let mut screen = Screen::run(&home, 80, &["mcp", "status"], &[]);
    screen.until("waiting for lingers to end; Ctrl-C does not wait");
    open.write_all(b"leave\n").unwrap();
    let (_, code) = screen.end();
    assert_eq!(code, 0);
}

#[test]
fn a_secret_is_asked_for_and_not_echoed() {
    let home = Home::new();
    let mut screen = Screen::run(&home, 80, &["secret", "set", "API_TOKEN"], &[]);
    screen.until("API_TOKEN (not shown): ").type_in("s3cr3t-value-9\n");
    let (shown, code) = screen.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Stored API_TOKEN in ") && !shown.contains("s3cr3t"), "{shown:?}");
    let stored = std::fs::read_to_string(home.home().join("secrets.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), json!({"API_TOKEN": "s3cr3t-value-9"}));
}

#[test]
fn a_live_table_counts_down_to_the_next_start_and_fits_the_screen() {
    let home = Home::new();
    let restart = json!({"max": 0, "min": "40s", "max_delay": "60s"});
    let entry = json!({"command": "sh", "args": ["-c", "exit 3"], "restart": restart});
    home.user(&json!({"mcpServers": {"crashy": entry}}).to_string());
    let mut screen = Screen::run(&home, 80, &["mcp", "status", "--watch"], &[("NO_COLOR", "1")]);
    let left = |shown: &str| -> Vec<u64> {
        let seconds = shown.split("next start in ").skip(1).filter_map(|rest| rest.split(" s").next());
        seconds.filter_map(|number| number.parse().ok()).collect()
    };
    // The first restart is at once; the second waits 20 to 40 s.
    while left(&screen.shown).iter().collect::<std::collections::BTreeSet<_>>().len() < 3 {
        assert!(screen.more(), "{}", screen.shown);
    }
    let seen = left(&screen.shown);
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    let pid = rustix::process::Pid::from_child(&screen.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (shown, code) = screen.end();
    assert_eq!(code, 130, "{shown}");
    let plain = shown.replace('\r', "");
    for line in plain.split('\n') {
        let line = line.rsplit("\u{1b}[0J").next().unwrap_or_default();
        assert!(!line.contains("\u{1b}[3") && line.chars().count() <= 80, "{line:?}");
    }
}
