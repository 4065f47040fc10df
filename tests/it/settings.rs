//! From the file to the behaviour: each key of an entry acts, and so does each setting of the
//! host. What is written is loaded, planned and run against a scripted server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::call::{CallError, Delivery, ErrorCode, Target};
use callboard::runtime::Runtime;
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cli_home::Home;
use crate::support::*;

/// A correct server that never answers a call.
fn mute(message: &Value, wire: &Wire) {
    good(message, wire);
}

/// The error of a call, and how long it took.
async fn failed(runtime: &Runtime) -> (CallError, Duration) {
    let began = Instant::now();
    let error = call(runtime, "s", "echo").await.unwrap_err();
    (error, began.elapsed())
}

/// The exposed names of all tools.
fn names(runtime: &Runtime) -> Vec<String> {
    runtime.catalog().tools.iter().map(|tool| tool.name.clone()).collect()
}

/// A call that runs beside the test.
fn beside(runtime: &Runtime) -> JoinHandle<Result<callboard::call::CallReply, CallError>> {
    let frontend = runtime.frontend();
    tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await })
}

#[tokio::test(start_paused = true)]
async fn rate_refuses_what_is_over_it() {
    for (files, burst) in [
        (Files::with(&json!({"rate": {"per_second": 1, "burst": 3}})), 3),
        (Files::with(&json!({"rate": {"per_second": 2}})), 2),
        (Files::with(&json!({})).host("[rate]\nper_second = 1\nburst = 4"), 4),
    ] {
        let runtime = files.server(quick).ready().await;
        for _ in 0..burst {
            call(&runtime, "s", "echo").await.unwrap();
        }
        let (refused, _) = failed(&runtime).await;
        assert_eq!((refused.code, refused.delivery), (ErrorCode::RateLimited, Delivery::NotSent));
        tokio::time::advance(refused.retry_after.unwrap()).await;
        call(&runtime, "s", "echo").await.unwrap();
    }
    let off = Files::with(&json!({"rate": {"per_second": 0}})).host("[rate]\nper_second = 1");
    let runtime = off.server(quick).ready().await;
    for _ in 0..50 {
        call(&runtime, "s", "echo").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn tools_include_and_exclude_decide_what_is_offered() {
    for tools in [
        json!({"include": ["ec*"]}),
        json!({"exclude": ["oth?r"]}),
        json!({"include": ["echo"], "exclude": ["echo"]}),
        json!({"include": [], "exclude": ["other"]}),
    ] {
        let runtime = Files::with(&json!({"tools": tools})).server(quick).ready().await;
        let names = names(&runtime);
        assert_eq!(names, ["mcp__s__echo"], "{tools}");
        let counts = runtime.status()[0].counts;
        assert_eq!((counts.tools, counts.filtered), (1, 1), "{tools}");
        call(&runtime, "s", "echo").await.unwrap();
        let refused = call(&runtime, "s", "other").await.unwrap_err();
        assert_eq!((refused.code, refused.delivery), (ErrorCode::Denied, Delivery::NotSent), "{tools}");
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_and_denied_tools_decide_what_runs() {
    for (keys, echo, other) in [
        (json!({"deniedTools": ["e*"]}), Some(ErrorCode::Denied), None),
        (json!({"allowedTools": ["other"]}), Some(ErrorCode::Denied), None),
        (json!({"allowedTools": ["*"], "deniedTools": ["other"]}), None, Some(ErrorCode::Denied)),
        (json!({"allowAllTools": false}), Some(ErrorCode::NeedsApproval), Some(ErrorCode::NeedsApproval)),
    ] {
        let runtime = Files::with(&keys).server(quick).ready().await;
        for (tool, expected) in [("echo", echo), ("other", other)] {
            let code = call(&runtime, "s", tool).await.err().map(|error| error.code);
            assert_eq!(code, expected, "{tool} under {keys}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trust_decides_whether_the_word_of_a_server_counts() {
    let hinted = |message: &Value, wire: &Wire| {
        if method_of(message) == "tools/list" {
            let echo = json!({"name": "echo", "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": true}});
            wire.result(message, &json!({"tools": [echo]}).to_string());
        } else {
            quick(message, wire);
        }
    };
    for (keys, runs) in [
        (json!({"allowAllTools": false, "trust": "trusted"}), true),
        (json!({"allowAllTools": false, "trust": "untrusted"}), false),
        (json!({"allowAllTools": false}), false),
    ] {
        let runtime = Files::with(&keys).server(hinted).ready().await;
        assert_eq!(call(&runtime, "s", "echo").await.is_ok(), runs, "{keys}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_is_the_longest_silence_of_a_call() {
    for (files, millis) in [
        (Files::with(&json!({"timeout": 7})), 7000),
        (Files::with(&json!({"timeout": "3m"})), 180_000),
        (Files::with(&json!({"requestTimeoutMs": 1500})), 1500),
        (Files::with(&json!({})).host("[timeouts]\nidle = 9"), 9000),
        (Files::with(&json!({})), 120_000),
    ] {
        let runtime = files.server(mute).ready().await;
        let (error, took) = failed(&runtime).await;
        assert_eq!((error.code, took.as_millis()), (ErrorCode::TimeoutIdle, millis));
    }
}

#[tokio::test(start_paused = true)]
async fn max_timeout_is_the_longest_duration_of_a_call_whatever_it_reports() {
    let reports = |message: &Value, wire: &Wire| {
        if good(message, wire) || method_of(message) != "tools/call" {
            return;
        }
        let (token, wire) = (message["params"]["_meta"]["progressToken"].clone(), wire.clone());
        tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_secs(1));
            for progress in 0..60 {
                every.tick().await;
                let params = json!({"progressToken": token, "progress": progress});
                let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                wire.line(report.to_string());
            }
        });
    };
    for (files, secs) in [
        (Files::with(&json!({"timeout": 2, "max_timeout": 11})), 11),
        (Files::with(&json!({"timeout": 2})).host("[timeouts]\ntotal = 13"), 13),
    ] {
        let runtime = files.server(reports).ready().await;
        let (error, took) = failed(&runtime).await;
        assert_eq!((error.code, took.as_secs()), (ErrorCode::TimeoutTotal, secs));
    }
}

#[tokio::test(start_paused = true)]
async fn connect_timeout_is_when_a_start_is_late_and_max_start_when_it_has_failed() {
    for (files, late, max) in [
        (Files::with(&json!({"connect_timeout": 3})), 3, 120),
        (Files::with(&json!({"startupTimeoutMs": 40_000})), 40, 120),
        (Files::with(&json!({})).host("[timeouts]\nconnect = 5\nmax_start = 20"), 5, 20),
    ] {
        let runtime = Runtime::start(files.server(|_: &Value, _: &Wire| {}).plan()).await.unwrap();
        let look = async |secs: u64| {
            tokio::time::advance(Duration::from_secs(secs)).await;
            idle().await;
            runtime.status().remove(0)
        };
        assert!(!look(late - 1).await.late);
        let view = look(2).await;
        assert!(view.late && view.state == LifeState::Connecting, "{view:?}");
        assert_eq!(look(max - late - 2).await.restarts, 0);
        let view = look(2).await;
        assert!(view.restarts == 1 && view.why.unwrap().contains("max_start"));
    }
}

#[tokio::test(start_paused = true)]
async fn in_flight_bounds_what_runs_and_queue_what_waits() {
    for files in [
        Files::with(&json!({"limits": {"in_flight": 2, "queue": 1}})),
        Files::with(&json!({})).host("[limits]\nin_flight = 2\nqueue = 1"),
    ] {
        let tape = Tape::default();
        let runtime = files.server(tape.of(mute)).ready().await;
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(beside(&runtime));
            idle().await;
        }
        assert_eq!(tape.received("tools/call").len(), 2);
        let (refused, _) = failed(&runtime).await;
        assert_eq!((refused.code, refused.delivery), (ErrorCode::Busy, Delivery::NotSent));
        assert!(refused.message.contains("1 calls waiting already (limits.queue)"), "{refused}");
        running.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn permit_bounds_the_wait_for_a_place_and_in_flight_max_the_whole_host() {
    let files = Files::with(&json!({"limits": {"in_flight": 1}}));
    let files = files.host("[limits]\nin_flight_max = 2\n[timeouts]\npermit = 3");
    let runtime = files.server(mute).ready().await;
    let running = beside(&runtime);
    idle().await;
    let (refused, took) = failed(&runtime).await;
    assert_eq!((refused.code, took.as_secs()), (ErrorCode::Busy, 3), "{refused}");
    let waiting = beside(&runtime);
    idle().await;
    let (refused, took) = failed(&runtime).await;
    assert_eq!((refused.code, took), (ErrorCode::Busy, Duration::ZERO));
    assert!(refused.message.contains("in_flight_max"), "{refused}");
    running.abort();
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn frame_max_bounds_what_is_taken_from_a_server() {
    for files in [
        Files::with(&json!({"limits": {"frame_max": "4KiB"}})),
        Files::with(&json!({})).host("[limits]\nframe_max = 4096"),
    ] {
        let sized = |message: &Value, wire: &Wire| {
            if !good(message, wire) {
                let size = if message["params"]["name"] == "echo" { 4096 } else { 3000 };
                wire.result(message, &json!({"text": "x".repeat(size)}).to_string());
            }
        };
        let runtime = files.server(sized).ready().await;
        let (error, _) = failed(&runtime).await;
        assert_eq!(error.code, ErrorCode::FrameTooLarge);
        assert!(error.message.contains("4 KiB (limits.frame_max)"), "{error}");
        call(&runtime, "s", "other").await.unwrap();
    }
}

/// What comes of a server that becomes ready and then hangs up, again and again.
struct Crashes {
    runtime: Runtime,
    starts: Arc<Mutex<Vec<Instant>>>,
}

impl Crashes {
    async fn of(files: Files) -> Self {
        let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let seen = starts.clone();
        let crasher = move |message: &Value, wire: &Wire| {
            if method_of(message) == "initialize" {
                seen.lock().unwrap().push(Instant::now());
            }
            if method_of(message) == "tools/list" { wire.hang_up() } else { quick(message, wire) }
        };
        let runtime = Runtime::start(files.server(crasher).plan()).await.unwrap();
        Self { runtime, starts }
    }

    fn starts(&self) -> usize {
        self.starts.lock().unwrap().len()
    }

    /// Seconds between the starts.
    fn waits(&self) -> Vec<u64> {
        let starts = self.starts.lock().unwrap();
        starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect()
    }

    /// Waits until the server is parked; `None` when it is not within that time.
    async fn parked(&self, within: Duration) -> Option<LifeState> {
        let mut watch = self.runtime.watch(&[]);
        let parked = async {
            loop {
                match watch.look()[0].state {
                    state @ LifeState::Parked(_) => return state,
                    _ => watch.changed().await,
                }
            }
        };
        tokio::time::timeout(within, parked).await.ok()
    }
}

const GIVEN_UP: Option<LifeState> = Some(LifeState::Parked(ParkReason::GivenUp));
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn restart_max_is_how_often_a_server_comes_back() {
    for (files, starts) in [
        (Files::with(&json!({"restart": {"max": 2}})), 3),
        (Files::with(&json!({})).host("[restart]\nmax = 3"), 4),
    ] {
        let crashes = Crashes::of(files).await;
        assert_eq!((crashes.parked(LONG).await, crashes.starts()), (GIVEN_UP, starts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_max_of_zero_means_for_ever() {
    let crashes = Crashes::of(Files::with(&json!({"restart": {"max": 0, "max_delay": 1}}))).await;
    assert_eq!(crashes.parked(LONG).await, None);
    assert!(crashes.starts() > 600, "{}", crashes.starts());
}

#[tokio::test(start_paused = true)]
async fn restart_window_is_the_time_within_which_restarts_count() {
    for (files, outcome) in [
        // Delays of 4 to 8 s: after the immediate one, no two restarts are within 3 s.
        (Files::with(&json!({"restart": {"max": 2, "window": 3, "min": 8, "max_delay": 8}})), None),
        (Files::with(&json!({"restart": {"max": 2, "window": 30, "min": 8, "max_delay": 8}})), GIVEN_UP),
        (
            Files::with(&json!({"restart": {"max": 2, "min": 8, "max_delay": 8}}))
                .host("[restart]\nwindow = 3"),
            None,
        ),
    ] {
        let crashes = Crashes::of(files).await;
        assert_eq!(crashes.parked(LONG).await, outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn restart_min_and_max_delay_bound_the_wait() {
    for (restart, host, first, later) in [
        (json!({"max": 5, "window": "9m", "min": "20s", "max_delay": "30s"}), "", 10..=20, 15..=30),
        (json!({"max": 5, "window": "9m"}), "[restart]\nmin = 40\nmax_delay = 50", 20..=40, 25..=50),
    ] {
        let crashes = Crashes::of(Files::with(&json!({"restart": restart})).host(host)).await;
        assert_eq!(crashes.parked(LONG).await, GIVEN_UP);
        let waits = crashes.waits();
        assert!(waits.len() == 5 && waits[0] == 0, "the first restart comes at once: {waits:?}");
        assert!(first.contains(&waits[1]), "{waits:?}");
        assert!(waits[2..].iter().all(|secs| later.contains(secs)), "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn protocol_is_the_only_era_that_is_tried() {
    for (protocol, opens, never) in [
        ("auto", "initialize", "server/discover"),
        ("legacy", "initialize", "server/discover"),
        ("modern", "server/discover", "initialize"),
    ] {
        let tape = Tape::default();
        let both = tape.of(|message: &Value, wire: &Wire| {
            if message["params"]["_meta"].is_object() { modern(message, wire) } else { quick(message, wire) }
        });
        let runtime = Files::with(&json!({"protocol": protocol})).server(both).ready().await;
        let view = runtime.status().remove(0);
        let expected = if protocol == "modern" { "2026-07-28" } else { "2025-11-25" };
        assert_eq!((view.state, view.revision), (LifeState::Ready, Some(expected)), "{protocol}");
        assert_eq!((tape.received(opens).len(), tape.received(never).len()), (1, 0), "{protocol}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_starts_when_it_is_first_used() {
    for files in [Files::with(&json!({"start": "lazy"})), Files::with(&json!({})).host("start = \"lazy\"")] {
        let tape = Tape::default();
        let runtime = files.server(tape.of(quick)).ready().await;
        // It was started to learn what it offers, and rests.
        rest(11).await;
        assert_eq!(runtime.status()[0].state, LifeState::Dormant);
        assert_eq!(tape.received("initialize").len(), 1);
        call(&runtime, "s", "echo").await.unwrap();
        rest(60).await;
        assert_eq!(runtime.status()[0].state, LifeState::Ready);
    }
    let eager = Files::with(&json!({"start": "eager"})).host("start = \"lazy\"").server(quick).ready().await;
    rest(60).await;
    assert_eq!(eager.status()[0].state, LifeState::Ready);
}

#[tokio::test(start_paused = true)]
async fn idle_stop_is_how_long_nobody_may_call_a_server() {
    for (keys, state) in [(json!({"idle_stop": 30}), LifeState::Dormant), (json!({}), LifeState::Ready)] {
        let runtime = Files::with(&keys).server(quick).ready().await;
        rest(29).await;
        assert_eq!(runtime.status()[0].state, LifeState::Ready);
        rest(2).await;
        assert_eq!(runtime.status()[0].state, state, "{keys}");
    }
}

/// Lets that many seconds pass in which nobody calls.
async fn rest(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    idle().await;
}

#[tokio::test(start_paused = true)]
async fn list_bounds_the_wait_for_a_list() {
    let listless = |message: &Value, wire: &Wire| {
        if method_of(message) != "tools/list" {
            quick(message, wire);
        }
    };
    let began = Instant::now();
    let runtime = Files::with(&json!({})).host("[timeouts]\nlist = 4").server(listless).ready().await;
    let warnings = runtime.status().remove(0).warnings;
    assert!(warnings[0].contains("4s (list limit)") && began.elapsed().as_secs() == 4, "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn naming_shapes_the_exposed_names() {
    for (naming, name) in [
        ("style = \"server__tool\"", "s__echo"),
        ("style = \"mcp_server_tool\"", "mcp_s_echo"),
        ("style = \"bare\"", "echo"),
    ] {
        let files =
            Files::with(&json!({"tools": {"include": ["echo"]}})).host(&format!("[naming]\n{naming}"));
        let runtime = files.server(quick).ready().await;
        let mut named = request("s", "echo", "{}");
        named.target = Target::Exposed(name.to_owned());
        runtime.frontend().call(named, None).await.unwrap();
    }
    let long = "a-tool-with-a-very-long-name";
    let offers = move |message: &Value, wire: &Wire| {
        if method_of(message) == "tools/list" {
            let tools = [long, "taken"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            wire.result(message, &json!({"tools": tools}).to_string());
        } else {
            quick(message, wire);
        }
    };
    let host = "[naming]\nstyle = \"bare\"\nname_len_max = 24\nreserved = [\"taken\"]";
    let runtime = Files::with(&json!({})).host(host).server(offers).ready().await;
    let names = names(&runtime);
    assert!(names.iter().all(|name| name.len() <= 24 && name != "taken"), "{names:?}");
    assert!(!names.is_empty());
}

#[test]
fn a_label_is_shown_beside_the_name_and_steers_no_terminal() {
    let home = Home::new();
    let label = "My \u{1b}[31mfiles\u{202e}\n  ready";
    let entries = json!({"mcpServers": {
        "fs": {"command": "/no/such/program", "label": label, "description": "of\u{1b}]0;x\u{7} mine"},
        "off": {"command": "x", "enabled": false, "title": "Later"},
        "same": {"command": "x", "enabled": false, "label": "same"},
    }});
    home.user(&entries.to_string());
    let shown = "fs (My files\\u{202e} ready)";
    for words in [&["mcp", "list"][..], &["mcp", "get", "fs"], &["mcp", "status"], &["mcp", "status", "fs"]] {
        let ran = home.run(words);
        assert!(ran.stdout.contains(shown), "{ran:?}");
        assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{ran:?}");
    }
    for verb in ["list", "status"] {
        let ran = home.run(&["mcp", verb]);
        assert!(ran.stdout.contains("off (Later)") && ran.stdout.contains("\nsame  "), "{ran:?}");
    }
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    let status = home.run(&["mcp", "status", "--json"]).json(1);
    for shown in [&list, &status] {
        let labels: Vec<_> =
            shown["data"]["servers"].as_array().unwrap().iter().map(|s| &s["label"]).collect();
        assert_eq!(labels, [&json!("My files\\u{202e} ready"), &json!("Later"), &json!(null)]);
    }
    assert_eq!(list["data"]["servers"][0]["description"], "of mine");
}

#[test]
fn a_required_server_that_is_off_or_unapproved_makes_the_status_unhealthy() {
    let home = Home::new();
    let entry = |required: bool| json!({"command": "x", "enabled": false, "required": required});
    let file = |entry: serde_json::Value| json!({"mcpServers": {"db": entry}}).to_string();
    home.user(&file(entry(false)));
    assert_eq!(home.run(&["mcp", "status", "--json"]).json(0)["data"]["healthy"], true);
    home.user(&file(entry(true)));
    let json = home.run(&["mcp", "status", "--json"]).json(1);
    let db = &json["data"]["servers"][0];
    assert_eq!((&json["data"]["healthy"], &db["required"]), (&json!(false), &json!(true)));
    assert_eq!(db["reason"], "disabled");
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; turned off in user"), "{ran:?}");
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"][0]["required"], true);

    home.user("{}");
    home.project_file(&file(json!({"command": "x"})));
    home.run(&["mcp", "status"]).expect(0);
    home.project_file(&file(json!({"command": "x", "required": true})));
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; ") && ran.stdout.contains("pending"), "{ran:?}");
}

#[test]
fn a_server_that_should_run_and_does_not_makes_the_status_unhealthy_required_or_not() {
    let home = Home::new();
    for required in [false, true] {
        let entry = json!({"command": "/no/such/program", "required": required});
        home.user(&json!({"mcpServers": {"s": entry}}).to_string());
        let json = home.run(&["mcp", "status", "--json"]).json(1);
        assert_eq!(json["data"]["servers"][0]["required"], required);
        assert_eq!(json["data"]["servers"][0]["reason"], "config_error");
    }
    let help = home.run(&["mcp", "status", "--help"]);
    assert!(help.expect(0).stdout.contains("required: true"), "{help:?}");
}
