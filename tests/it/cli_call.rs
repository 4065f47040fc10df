//! Using servers from the command line, each a real child: results byte for byte, exit
//! codes, refusals that never reach the server, Ctrl-C.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use callboard::time::Monotonic;
use serde_json::{Value, json};

use crate::cli_home::{Home, Ran};

/// The misbehaving server, built beside the program.
pub(crate) fn badmcp() -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_callboard")).parent().unwrap().join("examples/badmcp");
    assert!(built.is_file(), "{} is built by `cargo test`", built.display());
    built.to_str().unwrap().to_owned()
}

/// A home whose one server `s` has these flags, and a trace.
pub(crate) fn with_server(flags: &[&str]) -> (Home, PathBuf) {
    let home = Home::new();
    let trace = home.project().join("trace.jsonl");
    let mut args: Vec<String> = vec!["--trace".into(), trace.display().to_string()];
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let entry = json!({"mcpServers": {"s": {"command": badmcp(), "args": args}}});
    home.user(&entry.to_string());
    (home, trace)
}

pub(crate) fn call(home: &Home, words: &[&str]) -> Ran {
    let mut all = vec!["mcp", "call", "s"];
    all.extend_from_slice(words);
    home.run(&all)
}

/// What reached the server, by method.
pub(crate) fn received(trace: &Path, method: &str) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\\\"method\\\":\\\"{method}\\\""))).count()
}

#[test]
fn a_result_reaches_scripts_byte_for_byte() {
    let (home, _) = with_server(&[]);
    let raw = r#"{"content":[{"type":"text","text":"\u00e9\/"}],"n":1.0000,"big":123456789012345678901234567890,"_meta":{"x/y":null},"new":[1e2]}"#;
    let arguments = format!("{{\"raw\":{raw}}}");
    let ran = call(&home, &["echo", &arguments, "-y", "--json"]);
    ran.expect(0);
    assert!(ran.stdout.contains(&format!("\"result\":{raw}")), "{ran:?}");
    assert_eq!(ran.json(0)["schema"], "callboard.call/1");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_lazy_server_that_is_known_is_listed_without_a_start_and_says_from_when() {
    let (home, trace) = with_server(&[]);
    let args = json!(["--trace", trace.display().to_string()]);
    let entry = json!({"mcpServers": {"s": {"command": badmcp(), "args": args, "start": "lazy"}}});
    home.user(&entry.to_string());
    let first = home.run(&["mcp", "tools", "s", "--json"]).json(0);
    assert_eq!((received(&trace, "initialize"), &first["warnings"]), (1, &json!([])));
    for words in [&["mcp", "tools", "s", "--json"][..], &["mcp", "tools", "--json"]] {
        let again = home.run(words).json(0);
        assert_eq!(received(&trace, "initialize"), 1);
        assert_eq!(again["data"], first["data"], "byte for byte the same");
        let told = again["warnings"][0].as_str().unwrap();
        assert!(told.starts_with("s: not started; its lists are those of 20"), "{told}");
    }
    call(&home, &["echo", "text=hi", "-y"]).expect(0);
    assert_eq!(received(&trace, "initialize"), 2, "a call starts it");
}

#[test]
fn arguments_may_be_typed_in_four_ways() {
    let (home, _) = with_server(&[]);
    let file = home.project().join("args.json");
    std::fs::write(&file, r#"{"bytes": 3}"#).unwrap();
    for words in
        [&["big", "bytes=3", "-y"][..], &["big", r#"{"bytes":3}"#, "-y"], &["big", "@args.json", "-y"]]
    {
        assert_eq!(call(&home, words).expect(0).stdout.trim_end().len(), 3, "{words:?}");
    }
    let piped = home.run_with(&["mcp", "call", "s", "big", "-", "-y"], r#"{"bytes":3}"#);
    assert_eq!(piped.expect(0).stdout.trim_end().len(), 3);
}

#[test]
fn what_is_refused_here_never_reaches_the_server() {
    let (home, trace) = with_server(&[]);
    for (words, code) in [
        (&["big", "bytes=many", "-y"][..], "invalid_arguments"),
        (&["big", "{}", "-y"], "invalid_arguments"),
        (&["big", "{\"bytes\":", "-y"], "invalid_arguments"),
        (&["big", "[]", "-y"], "invalid_arguments"),
        (&["big", "@missing.json", "-y"], "invalid_arguments"),
        (&["big", "-", "-y"], "invalid_arguments"),
    ] {
        let mut words = words.to_vec();
        words.push("--json");
        let json = call(&home, &words).json(2);
        assert_eq!(json["error"]["code"], code, "{words:?}");
        assert_eq!(json["error"]["delivery"], "not_sent");
    }
    let json = call(&home, &["echoo", "-y", "--json"]).json(4);
    assert_eq!((&json["error"]["code"], &json["error"]["tool"]), (&json!("unknown_tool"), &json!("echoo")));
    assert!(json["error"]["fix"].as_str().unwrap().contains("echo"), "{json}");
    let json = call(&home, &["count", "--json"]).json(5);
    assert_eq!(json["error"]["code"], "needs_approval");
    assert_eq!(received(&trace, "tools/call"), 0);
    assert!(received(&trace, "tools/list") > 0, "the trace sees what the server gets");
}

#[test]
fn a_tool_that_fails_is_exit_one_and_keeps_its_words() {
    let (home, _) = with_server(&["--is-error"]);
    let ran = call(&home, &["echo", "text=boom", "-y"]);
    ran.expect(1);
    assert!(!ran.stdout.trim().is_empty() && ran.stderr.contains("isError"), "{ran:?}");
    let json = call(&home, &["echo", "text=boom", "-y", "--json"]).json(1);
    assert_eq!((&json["ok"], &json["data"]["is_error"]), (&json!(true), &json!(true)));
}

#[test]
fn a_json_rpc_error_is_exit_one_and_comes_along_as_sent() {
    let (home, _) = with_server(&["--rpc-error", "-32050@call", "--error-data", r#"{"n":[1]}"#]);
    let ran = call(&home, &["echo", "text=x", "-y", "--json"]);
    let json = ran.json(1);
    assert_eq!(json["error"]["code"], "server_error");
    assert_eq!(json["error"]["delivery"], "executed");
    assert_eq!(json["error"]["rpc_error"]["code"], -32050);
    assert_eq!(json["error"]["rpc_error"]["data"], json!({"n": [1]}));
}

#[test]
fn a_death_in_mid_call_is_exit_eight() {
    let (home, _) = with_server(&["--kill-self-mid-call"]);
    let json = call(&home, &["echo", "text=x", "-y", "--json"]).json(8);
    assert_eq!(json["error"]["code"], "connection_lost");
    assert_eq!(json["error"]["delivery"], "unknown");
}

#[test]
fn a_call_over_its_time_is_exit_eight() {
    let (home, trace) = with_server(&["--slow", "60000"]);
    let json = call(&home, &["echo", "text=x", "-y", "--timeout", "500ms", "--json"]).json(8);
    assert_eq!(json["error"]["code"], "timeout_total");
    assert_eq!(received(&trace, "notifications/cancelled"), 1, "the server is told");
}

#[test]
fn a_server_that_can_not_start_is_told_from_one_that_is_misspelt() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"s":{"command":"no-such-program-anywhere"}}}"#);
    let json = call(&home, &["x", "-y", "--json"]).json(3);
    assert_eq!(json["error"]["code"], "config_error");
    assert!(json["error"]["message"].as_str().unwrap().contains("no-such-program-anywhere"), "{json}");
}

#[test]
fn an_approval_beforehand_counts_for_ones_own_servers_only() {
    let home = Home::new();
    let count = home.project().join("count");
    let entry = json!({"mcpServers": {"s": {"command": badmcp(), "args": ["--count", count]}}}).to_string();
    home.project_file(&entry);
    home.run(&["mcp", "approve", "s", "-y"]).expect(0);
    let json = call(&home, &["count", "-y", "--json"]).json(5);
    assert_eq!(json["error"]["code"], "needs_approval");
    assert!(!count.exists(), "it must not run");
    home.user(&entry);
    home.run(&["mcp", "remove", "s", "-s", "project"]).expect(0);
    call(&home, &["count", "-y"]).expect(0);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 1);
}

#[test]
fn binary_parts_are_saved_and_named() {
    let (home, _) = with_server(&["--content-kind", "text,image,audio"]);
    let ran = call(&home, &["echo", "-y", "-o", "out.bin"]);
    ran.expect(0);
    for file in ["out-1.bin", "out-2.bin"] {
        assert!(ran.stdout.contains(&format!("saved {file}")), "{ran:?}");
        assert!(std::fs::metadata(home.project().join(file)).unwrap().len() > 0);
    }
    let (home, _) = with_server(&[]);
    let ran = call(&home, &["echo", "text=x", "-y", "-o", "out.bin"]);
    assert!(ran.expect(0).stderr.contains("nothing was saved"), "{ran:?}");
}

#[test]
fn no_escape_sequence_of_a_server_reaches_the_terminal() {
    let (home, _) = with_server(&["--ansi", "everywhere", "--desc-kind", "ansi,bidi"]);
    for words in [
        &["mcp", "tools", "s"][..],
        &["mcp", "call", "s", "echo", "text=x", "-y"],
        &["mcp", "call", "s", "echo", "--help"],
        &["mcp", "status", "s"],
        &["mcp", "status"],
        &["mcp", "resources", "s"],
        &["mcp", "prompts", "s"],
        &["mcp", "check", "s"],
    ] {
        let ran = home.run(words);
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!shown.trim().is_empty(), "{ran:?}");
        let bad = shown.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
        assert_eq!(bad, None, "{ran:?}");
        assert!(!shown.contains('\u{202e}'), "{ran:?}");
    }
}

#[test]
fn definitions_are_listed_as_the_server_sent_them() {
    let (home, _) = with_server(&["--extra-fields"]);
    let json = home.run(&["mcp", "tools", "s", "--json"]).json(0);
    let tools = json["data"]["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["exposed_name"], "mcp__s__echo");
    assert!(echo["definition"]["_meta"].is_object(), "unknown fields come along: {echo}");
}

#[test]
fn the_help_of_a_tool_shows_its_parameters() {
    let (home, trace) = with_server(&[]);
    let ran = call(&home, &["big", "--help"]);
    assert!(ran.expect(0).stdout.contains("bytes*"), "{ran:?}");
    assert!(ran.stdout.contains("callboard mcp call s big bytes=…"), "{ran:?}");
    let json = call(&home, &["big", "--help", "--json"]).json(0);
    assert_eq!(json["data"]["parameters"][0]["name"], "bytes");
    assert_eq!(received(&trace, "tools/call"), 0);
}

#[test]
fn a_server_that_is_not_configured_runs_once() {
    let home = Home::new();
    let server = badmcp();
    let ran = home.run(&["mcp", "call", "echo", "text=a$HOME", "-y", "--", &server, "--name", "$HOME"]);
    assert_eq!(ran.expect(0).stdout, "a$HOME\n", "what was typed is not expanded again");
    assert!(home.run(&["mcp", "tools", "--", &server]).expect(0).stdout.contains("echo"));
    let read = home.run(&["mcp", "read", "badmcp://text/1", "--", &server]);
    assert!(!read.expect(0).stdout.trim().is_empty(), "{read:?}");
    home.run(&["mcp", "tools", "name", "--", &server]).expect(2);
    assert!(!home.home().join("mcp.json").exists(), "nothing is kept");
}

#[test]
fn resources_and_prompts_are_listed_read_and_filled_in() {
    let (home, _) = with_server(&[]);
    let json = home.run(&["mcp", "resources", "s", "--json"]).json(0);
    assert!(!json["data"]["resources"].as_array().unwrap().is_empty(), "{json}");
    assert!(!json["data"]["resource_templates"].as_array().unwrap().is_empty(), "{json}");
    let text = home.run(&["mcp", "read", "s", "badmcp://text/1", "--json"]).json(0);
    assert!(text["data"]["result"]["contents"][0]["text"].is_string(), "{text}");
    home.run(&["mcp", "read", "s", "badmcp://blob/1", "-o", "blob.bin"]).expect(0);
    assert!(std::fs::metadata(home.project().join("blob.bin")).unwrap().len() > 0);
    assert!(home.run(&["mcp", "prompts", "s"]).expect(0).stdout.contains("name*"));
    let prompt = home.run(&["mcp", "prompt", "s", "greet", "name=Ada", "--json"]).json(0);
    assert!(prompt["data"]["result"].to_string().contains("Ada"), "{prompt}");
    assert!(home.run(&["mcp", "prompt", "s", "greet", "name=Ada"]).expect(0).stdout.contains("Ada"));
    assert_eq!(
        home.run(&["mcp", "prompt", "s", "nobody", "--json"]).json(4)["error"]["code"],
        "unknown_prompt"
    );
}

#[test]
fn check_says_which_clients_would_reject_what() {
    let (home, _) = with_server(&["--bad-schema", "anyof-top,missing", "--bad-annotations"]);
    let ran = home.run(&["mcp", "check", "s"]);
    ran.expect(1);
    for client in ["TypeScript SDK 1.32", "Claude Code", "mcporter"] {
        assert!(ran.stdout.contains(client), "{client}: {ran:?}");
    }
    let json = home.run(&["mcp", "check", "s", "--json"]).json(1);
    let rules: Vec<&str> =
        json["data"]["findings"].as_array().unwrap().iter().filter_map(|f| f["rule"].as_str()).collect();
    for rule in ["input_schema_combined_root", "input_schema_missing", "hint_not_boolean"] {
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
    let (home, _) = with_server(&[]);
    home.run(&["mcp", "check", "s"]).expect(0);
}

#[test]
fn status_tells_the_truth_about_each_and_leaves_nothing_running() {
    let home = Home::new();
    let pid_file = home.project().join("pid");
    home.user(
        &json!({"mcpServers": {
            "good": {"command": badmcp(), "args": ["--pid-file", pid_file]},
            "broken": {"command": "no-such-program-anywhere"},
            "off": {"command": "x", "enabled": false},
            "wrong": {"command": 7},
        }})
        .to_string(),
    );
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"x"}}}"#);
    let json = home.run(&["mcp", "status", "--json"]).json(1);
    assert_eq!(json["schema"], "callboard.status/1");
    let state = |name: &str| {
        let servers = json["data"]["servers"].as_array().unwrap();
        let server = servers.iter().find(|s| s["name"] == name).unwrap();
        (server["state"].clone(), server["reason"].clone())
    };
    assert_eq!(state("good"), (json!("ready"), Value::Null));
    assert_eq!(state("broken"), (json!("parked"), json!("config_error")));
    assert_eq!(state("wrong"), (json!("parked"), json!("config_error")));
    assert_eq!(state("off"), (json!("parked"), json!("disabled")));
    assert_eq!(state("theirs"), (json!("parked"), json!("pending_approval")));
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the server must have ended");
    home.run(&["mcp", "status", "good"]).expect(0);
    home.run(&["mcp", "status", "off"]).expect(1);
    assert!(home.run(&["mcp", "status", "broken"]).expect(1).stdout.contains("no-such-program-anywhere"));
}

/// A home whose one server `s` leaves only when it has read a line from the second of these, a
/// FIFO, and writes the third then.
fn with_lingering_server() -> (Home, std::fs::File, PathBuf) {
    let home = Home::new();
    let (gate, left) = (home.project().join("gate"), home.project().join("left"));
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script = r#"trap "" TERM; "$0"; read -r line <"$1" && echo "$line" >"$2""#;
    let entry = json!({"mcpServers": {"s": {"command": "sh", "args": ["-c", script, badmcp(), gate, left]}}});
    home.user(&entry.to_string());
    let gate = std::fs::File::options().read(true).write(true).open(&gate).unwrap();
    (home, gate, left)
}

#[test]
fn an_answer_is_told_before_the_server_has_left_and_the_end_is_orderly() {
    let (home, mut gate, left) = with_lingering_server();
    for (words, code) in [
        (&["mcp", "call", "s", "echo", "text=x", "-y"][..], 0),
        (&["mcp", "call", "s", "nobody", "-y"], 4),
        (&["mcp", "call", "s", "echo", "--help"], 0),
        (&["mcp", "read", "s", "badmcp://text/1"], 0),
        (&["mcp", "prompt", "s", "greet", "name=Ada"], 0),
        (&["mcp", "tools", "s"], 0),
        (&["mcp", "tools"], 0),
        (&["mcp", "resources", "s"], 0),
        (&["mcp", "prompts", "s"], 0),
        (&["mcp", "check", "s"], 0),
        (&["mcp", "status"], 0),
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let mut child = home.command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        let json: Value =
            serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{words:?}: {e}: {answer}"));
        assert_eq!(json["ok"], code == 0, "{words:?}: {answer}");
        // Only now may the server leave: had the answer waited for that, the host would have killed it.
        gate.write_all(b"left\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{words:?}");
        assert_eq!(std::fs::read_to_string(&left).unwrap_or_default(), "left\n", "{words:?}");
        std::fs::remove_file(&left).unwrap();
    }
}

/// Runs it and hands it over as soon as the server has received that method.
pub(crate) fn running(home: &Home, words: &[&str], trace: &Path, method: &str) -> Child {
    let child = home.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Monotonic::now();
    while received(trace, method) == 0 {
        assert!(Monotonic::now().since(started) < Duration::from_secs(60), "{method} never arrived");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    child
}

pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[test]
fn ctrl_c_cancels_the_call_and_the_server_is_told() {
    let (home, trace) = with_server(&["--slow", "60000"]);
    let words = ["mcp", "call", "s", "echo", "text=x", "-y", "--json"];
    let child = running(&home, &words, &trace, "tools/call");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["error"]["code"], "cancelled");
    assert_eq!(json["error"]["delivery"], "unknown");
    assert_eq!(received(&trace, "notifications/cancelled"), 1);
}

#[test]
fn a_watched_status_tells_every_change_as_one_line() {
    let (home, _) = with_server(&[]);
    let mut child =
        home.command(&["mcp", "status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next().expect("it ended before the server was ready").unwrap();
        let json: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["schema"], "callboard.status/1");
        if json["data"]["servers"][0]["state"] == "ready" && json["data"]["servers"][0]["tools"] != 0 {
            break;
        }
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A server behind an address; it ends with the test.
struct Web {
    child: Child,
    url: String,
}

impl Web {
    fn start(flags: &[&str]) -> Self {
        let mut child = std::process::Command::new(badmcp())
            .args(["--http", "--die-with-stdin"])
            .args(flags)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, url: format!("http://{address}/mcp") }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_url_stands_for_a_server_and_its_troubles_have_their_codes() {
    let home = Home::new();
    let web = Web::start(&[]);
    let ran = home.run(&["mcp", "call", &web.url, "echo", "text=hi", "-y"]);
    assert_eq!(ran.expect(0).stdout, "hi\n");
    home.run(&["mcp", "add", "web", &web.url]).expect(0);
    assert!(home.run(&["mcp", "tools", "web"]).expect(0).stdout.contains("echo"));
    let url = web.url.clone();
    drop(web);
    let json = home.run(&["mcp", "call", &url, "echo", "text=hi", "-y", "--timeout", "1s", "--json"]).json(7);
    assert_eq!(json["error"]["delivery"], "not_sent");
    // One sentence and its cure for a person; the raw causes for a script.
    let error = &json["error"];
    let message = format!("once: could not connect to {url}: connection refused");
    assert_eq!(error["message"], message.as_str(), "{error}");
    assert!(error["detail"].as_str().unwrap().contains("os error"), "{error}");

    let guarded = Web::start(&["--auth", "bearer"]);
    let json = home.run(&["mcp", "tools", &guarded.url, "--json"]).json(6);
    assert_eq!(json["error"]["code"], "needs_auth");
}

#[test]
fn a_tool_that_may_stand_on_a_page_that_was_not_read_is_left_to_the_server() {
    // No list at all, and one of more pages than are read.
    for (flags, tool) in
        [(&["--rpc-error", "-32000@list"][..], "echo"), (&["--tools", "200", "--page-size", "2"], "t199")]
    {
        let (home, trace) = with_server(flags);
        let json = call(&home, &[tool, "text=hi", "-y", "--json"]).json(0);
        let warnings = json["warnings"].to_string();
        assert!(warnings.contains("is incomplete") && warnings.contains(tool), "{warnings}");
        assert_eq!(received(&trace, "tools/call"), 1);
        // One that is nowhere is refused by the server, not by us.
        let json = call(&home, &["nowhere", "-y", "--json"]).json(1);
        assert_eq!(json["error"]["code"], "server_error", "{json}");
        assert!(json["warnings"].to_string().contains("is incomplete"), "{json}");
        assert_eq!(received(&trace, "tools/call"), 2);
    }
}

#[test]
fn arguments_of_a_prompt_are_checked_before_they_are_sent() {
    let (home, trace) = with_server(&[]);
    for (words, part) in [
        (&["greet"][..], "name: is required"),
        (&["greet", "nmae=Ada"], "nmae: is unknown; did you mean \"name\"?"),
        (&["plain", "x=1"], "x: is unknown; the prompt takes no arguments"),
        (&["greet", r#"{"name":"Ada","more":"x"}"#], "more: is unknown; known: name"),
    ] {
        let json = home.run(&[&["mcp", "prompt", "s"], words, &["--json"]].concat()).json(2);
        assert_eq!(json["error"]["code"], "invalid_arguments", "{json}");
        assert_eq!(json["error"]["delivery"], "not_sent");
        assert!(json["error"]["message"].as_str().unwrap().contains(part), "{json}");
    }
    assert_eq!(received(&trace, "prompts/get"), 0);
    home.run(&["mcp", "prompt", "s", "plain"]).expect(0);
}

#[test]
fn a_list_that_could_not_be_read_is_no_empty_list() {
    let (home, _) = with_server(&["--rpc-error", "-32000@list"]);
    let cause = "tools/list failed";

    let ran = home.run(&["mcp", "tools", "s"]);
    assert_eq!(ran.expect(7).stdout, "The tools could not be listed.\n");
    assert!(ran.stderr.contains(cause), "{ran:?}");
    let json = home.run(&["mcp", "tools", "s", "--json"]).json(7);
    assert!(json["warnings"][0].as_str().unwrap().contains(cause), "{json}");
    let ran = home.run(&["mcp", "tools"]);
    assert!(ran.stderr.contains(cause), "{ran:?}");
    for kind in ["resources", "prompts"] {
        let ran = home.run(&["mcp", kind, "s"]);
        assert_eq!(ran.expect(7).stdout, format!("The {kind} could not be listed.\n"));
    }

    for words in [&["mcp", "check", "s"][..], &["mcp", "call", "s", "echo", "--help"]] {
        let json = home.run(&[words, &["--json"]].concat()).json(7);
        assert_eq!(json["error"]["code"], "not_ready", "{json}");
        assert!(json["error"]["message"].as_str().unwrap().contains(cause), "{json}");
    }
}

#[test]
fn the_end_of_stderr_is_shown_bounded_redacted_and_without_escape_sequences() {
    let home = Home::new();
    let script = "i=0; while [ $i -lt 60 ]; do echo \"line $i\" >&2; i=$((i+1)); done; \
        printf '\\033[31mkey correct-\\033[1mhorse-1\\033[0m\\n' >&2; \
        echo \"token $TOKEN\" >&2; printf 'half\\rwhole\\n' >&2; exit 127";
    let entry = json!({"mcpServers": {"s": {"command": "sh", "args": ["-c", script],
        "env": {"TOKEN": "correct-horse-1"}}}});
    home.user(&entry.to_string());
    let json = home.run(&["mcp", "status", "s", "--json"]).json(1);
    let server = &json["data"]["servers"][0];
    let lines: Vec<&str> =
        server["stderr_tail"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert_eq!(lines.len(), 20, "{lines:?}");
    assert_eq!(lines[..2], ["line 44", "line 45"]);
    assert_eq!(lines[16..], ["key [redacted]", "token [redacted]", "half", "whole"]);
    let shown = home.run(&["mcp", "status", "s"]).expect(1).stdout.clone();
    assert!(shown.contains("line 50\n") && !shown.contains("correct-horse"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

/// Words of every verb that uses servers, on the server `s`.
const USES: [&[&str]; 7] = [
    &["mcp", "call", "s", "echo", "text=hi", "-y"],
    &["mcp", "tools", "s"],
    &["mcp", "tools"],
    &["mcp", "resources", "s"],
    &["mcp", "prompts"],
    &["mcp", "read", "s", "a:b"],
    &["mcp", "check", "s"],
];

/// Variables and flags of a run, and the code that it ends with.
type Run<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

#[test]
fn a_named_source_that_can_not_be_read_ends_a_use_before_anything_starts() {
    let (home, trace) = with_server(&[]);
    let broken = home.project().join("broken.json");
    std::fs::write(&broken, "{ oops").unwrap();
    let runs: [Run<'_>; 6] = [
        (&[], &["--mcp-config", "broken.json"], "config_syntax"),
        (&[], &["--mcp-config", "nofile.json"], "config_unreadable"),
        (&[("CALLBOARD_MCP_CONFIG", "typo.json")], &[], "config_unreadable"),
        (&[("CALLBOARD_MCP_CONFIG_JSON", "{ oops")], &[], "config_syntax"),
        (&[("CALLBOARD_MCP_SERVERS", "[]")], &[], "config_shape"),
        (&[("CALLBOARD_MCP_CONFIG_JSON", r#"{"mcpServers": 7}"#)], &[], "config_shape"),
    ];
    for (env, flags, code) in runs {
        for words in USES {
            let json = home.run_env(env, &[flags, words, &["--json"]].concat()).json(3);
            assert_eq!(json["error"]["code"], code, "{env:?} {flags:?} {words:?}");
            assert_eq!(json["warnings"], json!([]), "told once");
        }
        let list = home.run_env(env, &[flags, &["mcp", "list", "--json"]].concat()).json(3);
        assert_eq!(list["data"]["servers"][0]["name"], "s", "what can be shown is shown");
    }
    assert_eq!(received(&trace, "initialize"), 0, "nothing was started");
}

#[test]
fn a_bad_entry_of_a_named_source_costs_only_itself() {
    let (home, _) = with_server(&[]);
    let env = [("CALLBOARD_MCP_SERVERS", r#"{"bad":{"command":7},"worse":5}"#)];
    home.run_env(&env, &["mcp", "call", "s", "echo", "text=hi", "-y"]).expect(0);
}

#[test]
fn every_verb_warns_of_a_source_or_setting_that_can_not_be_used() {
    let (home, _) = with_server(&[]);
    home.project_file("{ oops");
    std::fs::write(home.home().join("callboard.toml"), "[timeouts]\nidle = \"30x\"\n").unwrap();
    let env = [("CALLBOARD_LIMITS_QUEUE", "abc")];
    let others: [&[&str]; 5] = [
        &["mcp", "off", "s", "--json"],
        &["mcp", "on", "s"],
        &["mcp", "get", "s"],
        &["mcp", "revoke", "s"],
        &["secret", "list"],
    ];
    for words in USES.iter().chain(&others) {
        let ran = home.run_env(&env, words);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        for part in [".mcp.json:1:", "timeouts.idle", "CALLBOARD_LIMITS_QUEUE"] {
            assert_eq!(told.matches(part).count(), 1, "{part} of {ran:?}");
        }
    }
    let json = home.run_env(&env, &[USES[0], &["--json"]].concat()).json(0);
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(3), "{json}");
}

#[test]
fn a_folder_that_can_not_be_used_is_one_clear_line_and_the_call_goes_on() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_callboard");
    home.user(
        &json!({"mcpServers": {"clock": {"command": program, "args": ["__demo-server", "clock"]}}})
            .to_string(),
    );
    for folder in ["cache", "run"] {
        std::fs::write(home.home().join(folder), "").unwrap();
    }
    let ran = home.run(&["mcp", "tools", "clock"]);
    ran.expect(0);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("warning: ") && ran.stderr.contains("is a file where a folder has to be"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("callboard doctor"), "{}", ran.stderr);
}
