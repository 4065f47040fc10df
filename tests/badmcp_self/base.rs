//! Without flags the server is correct; the oracle (trace, counters, control) tells the truth.

use serde_json::{Value, json};

use super::pipe::{Pipe, alive, command, program};
use super::web::timed;
use tempfile::TempDir;

#[test]
fn every_legacy_revision_is_agreed_on_and_an_unknown_one_gets_the_newest() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = Pipe::start(&[]).initialize(version);
        assert_eq!(answer["result"]["protocolVersion"], version);
        assert_eq!(answer["result"]["serverInfo"]["name"], "badmcp");
    }
    let answer = Pipe::start(&["--name", "other"]).initialize("1999-01-01");
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["serverInfo"]["name"], "other");
}

#[test]
fn lists_reads_and_gets_are_right_without_flags() {
    let mut pipe = Pipe::opened(&[]);
    let tools = pipe.tools();
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().expect("name")).collect();
    assert_eq!(
        names,
        ["echo", "sleep", "count", "big", "env", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]
    );
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
    let list = |pipe: &mut Pipe, method: &str, key: &str| {
        let answer = pipe.ask(method, &json!({}));
        assert!(answer["result"].get("nextCursor").is_none());
        answer["result"][key].as_array().unwrap_or_else(|| panic!("{answer}")).len()
    };
    assert_eq!(list(&mut pipe, "resources/list", "resources"), 3);
    assert_eq!(list(&mut pipe, "resources/templates/list", "resourceTemplates"), 2);
    assert_eq!(list(&mut pipe, "prompts/list", "prompts"), 2);
    let read = |pipe: &mut Pipe, uri: &str| pipe.ask("resources/read", &json!({"uri": uri}));
    assert_eq!(
        read(&mut pipe, "badmcp://text/1")["result"]["contents"][0]["text"],
        "text of badmcp://text/1"
    );
    assert_eq!(read(&mut pipe, "badmcp://blob/1")["result"]["contents"][0]["blob"], "AAEC/w==");
    assert_eq!(read(&mut pipe, "badmcp://item/7")["result"]["contents"][0]["text"], r#"{"item":"7"}"#);
    assert_eq!(read(&mut pipe, "badmcp://nothing")["error"]["code"], -32002);
    let greet = pipe.ask("prompts/get", &json!({"name": "greet", "arguments": {"name": "Ada"}}));
    assert_eq!(greet["result"]["messages"][0]["content"]["text"], "Please greet Ada.");
    for bad in [json!({"name": "greet"}), json!({"name": "none"})] {
        assert_eq!(pipe.ask("prompts/get", &bad)["error"]["code"], -32602);
    }
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}});
    assert_eq!(
        pipe.ask("completion/complete", &complete)["result"]["completion"]["values"],
        json!(["Ada", "Alan"])
    );
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(
            pipe.ask(method, &json!({"uri": "badmcp://text/1", "level": "info"}))["result"],
            json!({}),
            "{method}"
        );
    }
}

#[test]
fn base_tools_do_what_they_say() {
    let mut pipe = Pipe::opened(&["--count", "{dir}/count"]);
    assert_eq!(pipe.text("echo", &json!({"text": "é—🎉漢\n"})), "é—🎉漢\n");
    assert_eq!(pipe.text("echo", &json!({"z": 1, "a": [null]})), r#"{"z":1,"a":[null]}"#);
    assert_eq!(pipe.text("t3", &json!({"b": 1})), r#"t3 {"b":1}"#);
    assert_eq!(pipe.text("count", &json!({})), "1");
    assert_eq!(pipe.text("count", &json!({})), "2");
    assert_eq!(pipe.file("count"), "1\n2\n");
    let big = pipe.text("big", &json!({"bytes": 100_000}));
    assert_eq!((big.len(), big.ends_with("[badmcp end]")), (100_000, true));
    assert_eq!(pipe.text("big", &json!({"bytes": 3})), "[ba");
    let (slept, took) = timed(|| pipe.text("sleep", &json!({"ms": 50})));
    assert_eq!(slept, "slept 50 ms");
    assert!(took.as_millis() >= 50);
    let names = pipe.text("env", &json!({}));
    let path = std::env::var_os("PATH").expect("PATH");
    assert!(names.lines().any(|name| name == "PATH") && !names.contains('='));
    assert_eq!(pipe.text("env", &json!({"key": "PATH"})), path.to_string_lossy());
}

#[test]
fn echo_gives_bytes_back_that_no_number_type_holds() {
    let mut pipe = Pipe::opened(&[]);
    let exact = r#"{"z":1.10,"a":1E400,"z":123456789012345678901234567890}"#;
    let call = |id: u64, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        )
    };
    pipe.send_raw(format!("{}\n", call(90, &format!(r#"{{"structured":{exact}}}"#))).as_bytes());
    assert!(pipe.line().ends_with(&format!(r#""structuredContent":{exact}}}}}"#)));
    pipe.send_raw(format!("{}\n", call(91, &format!(r#"{{"raw":{exact}}}"#))).as_bytes());
    assert_eq!(pipe.line(), format!(r#"{{"jsonrpc":"2.0","id":91,"result":{exact}}}"#));
}

#[test]
fn bad_messages_and_unknown_names_get_the_right_codes() {
    let mut pipe = Pipe::start(&[]);
    let early = pipe.ask("tools/list", &json!({}));
    assert_eq!(early["error"]["code"], -32002);
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    pipe.open();
    assert_eq!(pipe.ask("server/discover", &json!({}))["error"]["code"], -32601);
    assert_eq!(pipe.ask("no/such", &json!({}))["error"]["code"], -32601);
    assert_eq!(pipe.ask("resources/none", &json!({}))["error"]["code"], -32601);
    assert_eq!(pipe.call("none", &json!({}))["error"]["code"], -32602);
    assert_eq!(pipe.call("t0", &json!([1]))["error"]["code"], -32602);
    assert_eq!(pipe.ask("tools/call", &json!({}))["error"]["code"], -32602);
    assert_eq!(pipe.ask("tools/call", &json!({"name": "t0"}))["result"]["content"][0]["text"], "t0 {}");
    for (bytes, code) in [
        ("{oops\n", -32700),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        ("{\"id\":1,\"method\":\"ping\"}\n", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}\n", -32600),
        ("42\n", -32600),
    ] {
        pipe.send_raw(bytes.as_bytes());
        assert_eq!(pipe.message()["error"]["code"], code, "{bytes}");
    }
    pipe.send_raw(b"\n  \r\n");
    pipe.notify("notifications/unknown", &json!({}));
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
}

#[test]
fn string_ids_come_back_as_strings_and_calls_run_side_by_side() {
    let mut pipe = Pipe::opened(&[]);
    pipe.send(&json!({"jsonrpc": "2.0", "id": "a-1", "method": "ping"}));
    assert_eq!(pipe.message()["id"], "a-1");
    let slow = pipe.begin_call("sleep", &json!({"ms": 300}));
    assert_eq!(pipe.ask("ping", &json!({}))["result"], json!({}));
    assert!(pipe.aside.is_empty());
    assert_eq!(pipe.answer(slow)["result"]["content"][0]["text"], "slept 300 ms");
}

#[test]
fn a_serial_server_answers_ping_only_after_the_call() {
    let mut pipe = Pipe::opened(&["--serial"]);
    let slow = pipe.begin_call("sleep", &json!({"ms": 100}));
    let ping = pipe.begin("ping", &json!({}));
    assert_eq!(pipe.message()["id"], slow);
    assert_eq!(pipe.message()["id"], ping);
}

#[test]
fn more_tools_are_counted_and_named_as_asked() {
    let mut pipe = Pipe::opened(&["--tools", "101", "--tool", "send", "--tool=receive"]);
    let tools = pipe.tools();
    assert_eq!(tools.len(), 5 + 2 + 101);
    assert_eq!(tools.last().expect("last")["name"], "t100");
    assert_eq!(pipe.text("t100", &json!({})), "t100 {}");
    assert_eq!(pipe.text("send", &json!({})), "send {}");
    assert_eq!(pipe.text("receive", &json!({})), "receive {}");
}

#[test]
fn the_trace_holds_start_messages_eof_and_exit() {
    let mut pipe = Pipe::opened(&["--count-starts", "{dir}/starts", "--pid-file", "{dir}/pids"]);
    pipe.call("t1", &json!({"x": 1}));
    let (rest, status) = pipe.finish();
    assert_eq!((rest.len(), status.code()), (0, Some(0)));
    let trace = pipe.trace();
    let start = &trace[0];
    assert_eq!((&start["ev"], start["pid"].as_u64()), (&json!("start"), Some(pipe.pid())));
    assert_eq!(start["ppid"], std::process::id());
    assert_eq!(start["argv"][3], "--count-starts");
    // In a container the group may be one from outside, which has the number 0 there.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    let group =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(2)).expect("a group");
    assert_eq!(start["pgid"].to_string(), group, "it stays in the group of its parent");
    assert!(start["cwd"].as_str().is_some_and(|c| c.starts_with('/')));
    assert!(start["env"].as_array().expect("names").contains(&json!("PATH")));
    let call = trace.iter().find(|e| e["method"] == "tools/call").expect("the call");
    assert_eq!((&call["ev"], &call["tool"], &call["id"]), (&json!("in"), &json!("t1"), &json!(2)));
    assert!(call["raw"].as_str().is_some_and(|raw| raw.contains(r#""arguments":{"x":1}"#)));
    assert!(trace.iter().any(|e| e["ev"] == "out" && e["id"] == 2));
    let tail: Vec<&Value> = trace[trace.len() - 2..].iter().map(|e| &e["ev"]).collect();
    assert_eq!(tail, ["eof", "exit"]);
    assert!(trace.iter().all(|e| e["at"].as_u64() > Some(1_700_000_000_000_000)));
    let pid = format!("{}\n", pipe.pid());
    assert_eq!((pipe.file("starts"), pipe.file("pids")), (pid.clone(), pid));
}

#[test]
fn control_changes_a_running_server() {
    let mut pipe = Pipe::opened(&["--control", "{dir}/control"]);
    let notice = |pipe: &mut Pipe, method: &str| assert_eq!(pipe.message()["method"], method);
    pipe.control("add-tool extra");
    pipe.control("rename-tool t0 zero");
    pipe.control("remove-tool t1");
    pipe.control("notify tools");
    notice(&mut pipe, "notifications/tools/list_changed");
    let names: Vec<String> =
        pipe.tools().iter().map(|t| t["name"].as_str().expect("name").to_owned()).collect();
    assert!(names.contains(&"extra".into()) && names.contains(&"zero".into()));
    assert!(!names.contains(&"t0".into()) && !names.contains(&"t1".into()));
    assert_eq!(pipe.text("zero", &json!({})), "zero {}");
    for what in ["resources", "prompts"] {
        pipe.control(&format!("notify {what}"));
        notice(&mut pipe, &format!("notifications/{what}/list_changed"));
    }
    pipe.control("notify log");
    notice(&mut pipe, "notifications/message");
    pipe.control("notify updated badmcp://text/1");
    assert_eq!(pipe.message()["params"]["uri"], "badmcp://text/1");
    pipe.control("ask elicitation");
    notice(&mut pipe, "elicitation/create");
    pipe.control("stall");
    let held = pipe.begin("ping", &json!({}));
    pipe.traced("in", |e| e["id"] == held);
    pipe.control("recover");
    assert_eq!(pipe.answer(held)["result"], json!({}));
    pipe.control("crash 7");
    assert_eq!(pipe.exit().code(), Some(7));
}

#[test]
fn control_kills_and_closes() {
    use std::os::unix::process::ExitStatusExt;
    let mut pipe = Pipe::opened(&["--control", "{dir}/control"]);
    pipe.control("close-stdout");
    assert_eq!(pipe.raw_line(), None);
    assert!(alive(pipe.pid()));
    pipe.control("crash");
    assert_eq!(pipe.exit().signal(), Some(9));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let ids = |seed: &str| -> Vec<Value> {
        let mut pipe = Pipe::opened(&["--seed", seed, "--wrong-id", "random"]);
        for _ in 0..3 {
            pipe.begin("ping", &json!({}));
        }
        (0..3).map(|_| pipe.message()["id"].clone()).collect()
    };
    assert_eq!(ids("7"), ids("7"));
    assert_ne!(ids("7"), ids("8"));
}

#[test]
fn a_wrong_command_line_is_refused_with_its_reason() {
    let dir = TempDir::new().expect("folder");
    for (flags, part) in [
        (vec!["--bogus"], "unknown flag --bogus"),
        (vec!["--redirect"], "needs a value"),
        (vec!["--crlf=1"], "takes no value"),
        (vec!["--rpc-error", "x@list"], "not a number"),
        (vec!["--era", "ancient"], "legacy, modern, both"),
        (vec!["--page-size", "0"], "at least 1"),
    ] {
        let output = command(&dir, &flags).output().expect("runs");
        assert_eq!(output.status.code(), Some(64), "{flags:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(part), "{flags:?}: {output:?}");
    }
    let output = std::process::Command::new(program()).args(["--fail-starts", "1"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--state FILE"));
}

#[test]
fn a_start_takes_no_time() {
    let (_, took) = timed(|| {
        for _ in 0..20 {
            let (rest, status) = Pipe::start(&[]).finish();
            assert_eq!((rest.len(), status.code()), (0, Some(0)));
        }
    });
    assert!(took.as_millis() < 4000, "20 starts took {took:?}");
}

/// Every flag of the table is proved somewhere in this folder.
#[test]
fn every_flag_is_proved() {
    let sources = [
        include_str!("base.rs"),
        include_str!("calls.rs"),
        include_str!("catalog.rs"),
        include_str!("framing.rs"),
        include_str!("handshake.rs"),
        include_str!("hostile.rs"),
        include_str!("http.rs"),
        include_str!("http_dialects.rs"),
        include_str!("ids.rs"),
        include_str!("life.rs"),
        include_str!("modern.rs"),
        include_str!("results.rs"),
        include_str!("web.rs"),
        include_str!("pipe.rs"),
    ]
    .concat();
    let output = std::process::Command::new(program()).arg("--help").output().expect("runs");
    let help = String::from_utf8(output.stderr).expect("utf-8");
    let flags: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  --"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(flags.len() > 100, "{help}");
    let unproved: Vec<&&str> = flags
        .iter()
        .filter(|flag| !["\"", "="].iter().any(|end| sources.contains(&format!("\"--{flag}{end}"))))
        .collect();
    assert!(unproved.is_empty(), "no test uses {unproved:?}");
}
