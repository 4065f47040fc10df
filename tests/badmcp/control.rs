//! `--control FILE`: commands that change the server while it runs. The file is polled; each appended line is one command.
//! Owns the command words, must never change what flags said at start. Called by `main`.
//!
//! `add-tool NAME` · `remove-tool NAME` · `rename-tool OLD NEW` · `notify tools|resources|prompts|log` · `notify updated URI` ·
//! `ask roots|sampling|elicitation|ping|unknown` · `token VALUE` · `expire-sessions` · `stall` · `recover` ·
//! `close-stdout` · `crash [CODE]` (SIGKILL without a code). Each gives a `control` event in the trace once it is done.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, lock, pause};
use crate::values::{Ask, Value as _};
use crate::{calls, life, wire};

const POLL: Duration = Duration::from_millis(10);

/// Starts the poller when there is a control file.
pub(crate) fn start(server: &Arc<Server>) {
    if let Some(file) = server.flags.control.clone() {
        let server = Arc::clone(server);
        std::thread::spawn(move || poll(&server, &file));
    }
}

fn poll(server: &Arc<Server>, file: &PathBuf) {
    let mut done = 0;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.len() < done {
            done = 0;
        }
        // Only whole lines: a writer may be in the middle of one.
        while let Some(end) = text[done..].find('\n') {
            let line = text[done..done + end].trim();
            done += end + 1;
            if !line.is_empty() {
                run(server, line);
            }
        }
        pause(POLL);
    }
}

fn run(server: &Arc<Server>, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let known = match words.as_slice() {
        ["add-tool", name] => lock(&server.catalog).add_plain(name),
        ["remove-tool", name] => lock(&server.catalog).remove(name),
        ["rename-tool", old, new] => lock(&server.catalog).rename(old, new),
        ["notify", "updated", uri] => tell(server, "notifications/resources/updated", json!({"uri": uri})),
        ["notify", what @ ("tools" | "resources" | "prompts")] => {
            tell(server, &format!("notifications/{what}/list_changed"), json!({}))
        }
        ["notify", "log"] => {
            let data = wire::paint(&server.flags, "a log message");
            tell(server, "notifications/message", json!({"level": "info", "logger": "badmcp", "data": data}))
        }
        ["ask", what] => Ask::read(what).is_ok_and(|ask| {
            let (method, params) = calls::ask_of(ask);
            let id = server.fresh("control");
            server.hub.ask(&crate::rpc::request(&id, method, &params))
        }),
        ["token", value] => {
            *lock(&server.token) = (*value).to_owned();
            true
        }
        ["expire-sessions"] => {
            for (_, session) in lock(&server.sessions).drain() {
                session.ended.store(true, Ordering::SeqCst);
            }
            true
        }
        ["stall"] => stall(server, true),
        ["recover"] => stall(server, false),
        ["close-stdout"] => {
            life::close_stdout();
            true
        }
        ["crash"] => {
            server.trace.event("control", json!({"command": line, "known": true}));
            life::kill_self(server, "control")
        }
        ["crash", code] => {
            server.trace.event("control", json!({"command": line, "known": true}));
            server.exit(code.parse().unwrap_or(1), "control")
        }
        _ => false,
    };
    server.trace.event("control", json!({"command": line, "known": known}));
}

fn tell(server: &Server, method: &str, params: Value) -> bool {
    server.hub.tell(method, &params);
    true
}

fn stall(server: &Server, stalled: bool) -> bool {
    server.gate.set(stalled);
    true
}
