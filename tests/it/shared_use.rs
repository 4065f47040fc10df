//! The use verbs and `why` on a running host: real processes, the servers that its clients use already.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli_call::{badmcp, interrupt, received};
use crate::cli_home::Home;
use crate::cli_terminal::Screen;
use crate::shared_host::{Client, gone, hosts, servers, with_server};
use crate::support::bad::until;

/// A home with one server `s` of these flags, and the file where it writes what happens.
fn traced(flags: &[&str]) -> (Home, std::path::PathBuf) {
    let home = Home::new();
    let trace = home.project().join("trace");
    let mut args = vec!["--trace", trace.to_str().unwrap()];
    args.extend(flags);
    home.user(&json!({"mcpServers": {"s": {"command": badmcp(), "args": args}}}).to_string());
    (home, trace)
}

fn starts(trace: &Path) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"start\"")).count()
}

#[tokio::test]
async fn use_verbs_go_through_the_running_host_and_answer_as_without_one() {
    let (home, trace) = traced(&[]);
    let all: [&[&str]; 8] = [
        &["mcp", "tools", "s", "--json"],
        &["mcp", "tools", "--json"],
        &["mcp", "resources", "s", "--json"],
        &["mcp", "prompts", "--json"],
        &["mcp", "call", "s", "echo", r#"{"text":"h\u00e9","n":1.00}"#, "-y", "--json"],
        &["mcp", "call", "s", "echo", "--help", "--json"],
        &["mcp", "call", "s", "none", "--json"],
        &["mcp", "prompt", "s", "none", "--json"],
    ];
    let answer = |words: &[&str]| {
        let ran = home.run(words);
        let mut json: Value = serde_json::from_str(&ran.stdout).unwrap();
        if let Some(data) = json["data"].as_object_mut() {
            data.remove("elapsed_ms");
            // How names look to clients is a matter of the host.
            data.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten().for_each(|tool| {
                tool.as_object_mut().unwrap().remove("exposed_name");
            });
        }
        (ran.code, json)
    };
    let alone: Vec<_> = all.iter().map(|words| answer(words)).collect();
    let before = starts(&trace);
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    for (words, expected) in all.iter().zip(&alone) {
        assert_eq!(answer(words), *expected, "{words:?}");
    }
    assert_eq!(starts(&trace), before + 1, "the client's server, and no other");
    let raw = r#"{"content":[{"type":"text","text":"\u00e9\/"}],"n":1.0000,"new":[1e2]}"#;
    let arguments = format!("{{\"raw\":{raw}}}");
    let ran = home.run(&["mcp", "call", "s", "echo", &arguments, "-y", "--json"]);
    assert!(ran.stdout.contains(&format!("\"result\":{raw}")), "byte for byte: {}", ran.stdout);
    let why = home.run(&["mcp", "why", "s", "echo", "--json"]).json(0);
    assert_eq!((&why["data"]["healthy"], &why["data"]["tool"]["listing"]), (&json!(true), &json!("listed")));
    assert!(starts(&trace) == before + 1 && servers(&home).len() == 1);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn what_the_host_does_not_run_in_the_same_way_runs_for_the_command_alone() {
    let (home, trace) = traced(&[]);
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let file = home.project().join("other.json");
    std::fs::write(&file, json!({"mcpServers": {"x": {"command": badmcp()}}}).to_string()).unwrap();
    home.run(&["mcp", "call", "x", "echo", "-y", "--mcp-config", file.to_str().unwrap()]).expect(0);
    home.run(&["mcp", "call", "echo", "-y", "--", &badmcp()]).expect(0);
    assert_eq!(starts(&trace), 1);
    let project = json!({"mcpServers": {"s": {"command": badmcp()}}}).to_string();
    home.project_file(&project);
    home.run(&["mcp", "approve", "s", "-y"]).expect(0);
    let why = home.run(&["mcp", "why", "s", "--json"]).json(0);
    assert_eq!((&why["data"]["healthy"], starts(&trace)), (&json!(true), 1), "it is not the host's entry");
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn a_call_through_the_host_is_asked_about_at_the_terminal_of_its_caller() {
    let (home, trace) = traced(&[]);
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let deaf = home.run(&["mcp", "call", "s", "count", "--json"]).json(5);
    assert_eq!(deaf["error"]["code"], "needs_approval");
    let said = deaf["error"]["message"].as_str().unwrap();
    assert!(said.contains("nobody was there to give it"), "{said}");
    assert!(deaf["error"]["fix"].as_str().is_some_and(|fix| fix.contains("-y")), "{deaf}");
    for (typed, code) in [("n\n", 5), ("y\n", 0), ("a\n", 0)] {
        let mut screen = Screen::run(&home, 80, &["mcp", "call", "s", "count"], &[("NO_COLOR", "1")]);
        screen.until("Call count of s?").until("[y/a/N] ").type_in(typed);
        let (shown, ended) = screen.end();
        assert_eq!(ended, code, "{typed:?}: {shown}");
    }
    let rules = home.run(&["mcp", "rules", "--json"]).json(0);
    assert_eq!(rules["data"]["rules"], json!([{"scope": "user", "rule": "s/count"}]));
    until("the host goes by the rule", || home.run(&["mcp", "call", "s", "count"]).code == 0).await;
    assert_eq!(starts(&trace), 1);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn ctrl_c_cancels_a_call_of_the_host_and_so_does_the_death_of_its_caller() {
    let (home, trace) = traced(&["--slow", "60000"]);
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    for (nth, dies) in [(1, false), (2, true)] {
        let mut call = home.command(&["mcp", "call", "s", "echo", "-y", "--json"]);
        let mut child = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the server has it", || received(&trace, "tools/call") == nth).await;
        if dies {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            interrupt(&child);
            let output = child.wait_with_output().unwrap();
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((output.status.code(), &json["error"]["code"]), (Some(130), &json!("cancelled")));
            assert_eq!(json["error"]["delivery"], "unknown");
        }
        until("the server is told", || received(&trace, "notifications/cancelled") == nth).await;
    }
    assert_eq!(starts(&trace), 1);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn what_is_off_in_the_host_is_off_for_every_door() {
    let home = with_server(&json!({}));
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    home.run(&["mcp", "off"]).expect(0);
    for words in [
        &["mcp", "call", "s", "echo", "-y", "--json"][..],
        &["mcp", "tools", "s", "--json"],
        &["mcp", "why", "s", "--json"],
    ] {
        let refused = home.run(words).json(5);
        assert_eq!(refused["error"]["code"], "disabled", "{words:?}");
        assert_eq!(refused["error"]["fix"], "callboard mcp on");
    }
    // Whoever comes from another environment has no other door either.
    let mut other = Client::ready_with(&home, |command| _ = command.env("PATH", "/usr/bin:/bin:/none"));
    assert_eq!((client.tools(), other.tools()), (0, 0));
    let env = [("PATH", "/usr/bin:/bin:/elsewhere")];
    assert_eq!(home.run_env(&env, &["mcp", "call", "s", "echo", "-y"]).code, 5);
    assert!(servers(&home).is_empty());
    home.run(&["mcp", "on"]).expect(0);
    home.run(&["mcp", "wait", "--timeout", "60s"]).expect(0);
    home.run(&["mcp", "call", "s", "echo", "-y"]).expect(0);
    for client in [client, other] {
        assert_eq!(client.leave(), 0);
    }
    gone(&home).await;
}

#[tokio::test]
async fn a_watched_status_follows_the_running_host_until_ctrl_c_or_its_end() {
    let home = with_server(&json!({}));
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let watch = || {
        let mut command = home.command(&["mcp", "status", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let next = |lines: &mut std::io::Lines<BufReader<std::process::ChildStdout>>| {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["schema"], &line["ok"]), (&json!("callboard.status/1"), &json!(true)));
        line["data"]["servers"][0].clone()
    };
    let (mut child, mut lines) = watch();
    assert_eq!(next(&mut lines)["pid"], servers(&home)[0], "the servers of the host, not others");
    let mut screen = Screen::run(&home, 100, &["mcp", "status", "s", "--watch"], &[("NO_COLOR", "1")]);
    screen.until("ready");
    home.run(&["mcp", "stop", "s"]).expect(0);
    while next(&mut lines)["reason"] != "disabled" {}
    screen.until("by hand");
    let pid = Pid::from_child(&screen.child);
    kill_process(pid, Signal::INT).unwrap();
    let (shown, code) = screen.end();
    assert!(code == 130 && !shown.contains("error"), "{code}: {shown}");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (mut child, mut lines) = watch();
    next(&mut lines);
    kill_process(Pid::from_raw(hosts(&home)[0]).unwrap(), Signal::TERM).unwrap();
    let last = lines.last().unwrap().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["ok"], &last["error"]["code"]), (&json!(false), &json!("host_gone")));
    assert_eq!(child.wait().unwrap().code(), Some(7));
    drop(client);
    gone(&home).await;
}

/// The lines that a command writes, each as JSON, as they come.
struct Lines(std::process::Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Lines {
    fn of(home: &Home, words: &[&str]) -> Self {
        let mut command = home.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// The next one for which `is` holds; the command says so sooner or later, or ends.
    fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.1.next().expect("it ended").unwrap();
            let json: Value = serde_json::from_str(&line).unwrap();
            if is(&json["data"]) {
                return json;
            }
        }
    }

    fn interrupt(mut self) -> Option<i32> {
        interrupt(&self.0);
        self.0.wait().unwrap().code()
    }
}

#[tokio::test]
async fn logs_are_followed_line_by_line_also_across_a_restart_of_the_server() {
    let (home, _) = traced(&["--stderr", "hello from the server"]);
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    until("it is kept", || home.run(&["mcp", "logs", "s"]).stdout.contains("hello from the server")).await;
    let kept = home.run(&["mcp", "logs", "s", "--json"]).json(0);
    assert_eq!(kept["data"]["lines"], json!(["hello from the server"]));
    let mut log = Lines::of(&home, &["mcp", "logs", "s", "-f", "--json"]);
    let first = log.until(|part| part["kind"] == "stderr");
    assert_eq!(first["schema"], "callboard.log/1");
    assert_eq!(
        (&first["data"]["line"], &first["data"]["server"]),
        (&json!("hello from the server"), &json!("s"))
    );
    home.run(&["mcp", "restart", "s"]).expect(0);
    log.until(|part| part["line"] == "hello from the server");
    assert_eq!(log.interrupt(), Some(130));
    assert_eq!(home.run(&["mcp", "logs", "none", "-f"]).code, 4);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn frames_are_shown_both_ways_without_secrets_and_pass_unchanged() {
    const CANARY: &str = "canary-0f4c1d9e7b";
    let home = Home::new();
    let entry = json!({"command": badmcp(), "env": {"API_TOKEN": CANARY}});
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let mut wire = Lines::of(&home, &["mcp", "logs", "s", "--wire", "--json"]);
    let mut screen = Screen::run(&home, 100, &["mcp", "logs", "s", "--wire"], &[("NO_COLOR", "1")]);
    let text = format!("a {CANARY} and {CANARY}");
    let mut call = |text: &str| {
        let params = json!({"name": "s__echo", "arguments": {"text": text}});
        client.ask("tools/call", params).unwrap()["result"]["content"][0]["text"].clone()
    };
    // Whoever listens may come a moment later.
    home.run(&["mcp", "allow", "s", "echo"]).expect(0);
    until("calls run", || call("x") == "x").await;
    assert_eq!(call(&text), text, "what passes is not touched");
    let sent = wire
        .until(|part| part["direction"] == "to_server" && part["frame"].as_str().unwrap().contains(" and "));
    let came = wire.until(|part| {
        part["direction"] == "from_server" && part["frame"].as_str().unwrap().contains(" and ")
    });
    for part in [&sent["data"], &came["data"]] {
        let frame = part["frame"].as_str().unwrap();
        assert!(!frame.contains(CANARY) && frame.contains("[redacted]"), "{frame}");
        assert_eq!(part["is_cut"], false);
        assert!(part["size_bytes"].as_u64().is_some_and(|size| size > 40) && part["time"].is_string());
    }
    screen.until("→").until("←").until(" and ");
    assert!(!screen.shown.contains(CANARY), "{}", screen.shown);
    assert_eq!(wire.interrupt(), Some(130));
    kill_process(Pid::from_child(&screen.child), Signal::INT).unwrap();
    assert_eq!(screen.end().1, 130);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn what_is_turned_off_for_good_stays_off_across_hosts_and_without_one() {
    let home = with_server(&json!({}));
    assert_eq!(home.run(&["mcp", "off"]).code, 7, "there is nothing to turn off, and nothing is kept");
    let mut client = Client::ready(&home);
    assert!(client.tools() > 3);
    let done = home.run(&["mcp", "off", "--save", "--json"]).json(0);
    assert_eq!((&done["data"]["all"], &done["data"]["host"]), (&json!("off"), &json!(true)));
    until("the servers have ended", || servers(&home).is_empty()).await;
    assert_eq!(client.tools(), 0);
    assert_eq!(client.leave(), 0);
    gone(&home).await;
    let refused = home.run(&["mcp", "call", "s", "echo", "-y", "--json"]).json(5);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["fix"]),
        (&json!("disabled"), &json!("callboard mcp on --save"))
    );
    for verb in ["list", "status"] {
        let shown = home.run(&["mcp", verb]);
        assert!(
            format!("{}{}", shown.stdout, shown.stderr).contains("all servers are turned off since"),
            "{shown:?}"
        );
    }
    let mut next = Client::ready(&home);
    assert_eq!(next.tools(), 0, "a host that comes later goes by it");
    let on = home.run(&["mcp", "on"]);
    assert!(on.code == 0 && on.stderr.contains("callboard mcp on --save"), "{on:?}");
    assert_eq!(next.tools(), 0);
    home.run(&["mcp", "on", "--save"]).expect(0);
    home.run(&["mcp", "wait", "--timeout", "60s"]).expect(0);
    until("all is there again", || next.tools() > 3).await;
    assert_eq!(next.leave(), 0);
    gone(&home).await;
}

#[tokio::test]
async fn a_setting_that_a_reload_can_not_bring_into_force_is_told() {
    let home = with_server(&json!({}));
    let mut client = Client::ready_with(&home, |command| _ = command.env_remove("CALLBOARD_SERVE_LINGER"));
    assert!(client.tools() > 3);
    let settings = "[serve]\nlinger = \"90s\"\nnaming = \"mcp_server_tool\"\n[limits]\nin_flight_max = 77\n";
    std::fs::write(home.home().join("callboard.toml"), settings).unwrap();
    let told = home.run(&["mcp", "reload", "--json"]).json(0)["warnings"].to_string();
    for part in ["serve.linger", "limits.in_flight_max", "next host"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("naming"), "that acts: {told}");
    drop(client);
    kill_process(Pid::from_raw(hosts(&home)[0]).unwrap(), Signal::TERM).unwrap();
    gone(&home).await;
}
