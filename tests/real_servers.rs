//! Real servers of other makes, pinned in `tests/real`, run through the `callboard` program and
//! compared byte for byte with what a direct client of another make sees. Uses only what
//! `tests/real/install` put there: with CI=true a missing one fails, elsewhere it is left out aloud.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]

#[path = "real/attacks.rs"]
mod attacks;
#[path = "real/bench.rs"]
mod bench;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use bench::{Bench, Launch, NAMES, Seen, direct, direct_with, everything_over_http};
use serde_json::{Value, json};

/// How long `mcp status` goes on after the last healthy server, and what a busy machine may add.
const STATUS_GRACE: Duration = Duration::from_secs(2);
const STATUS_SLACK: Duration = Duration::from_secs(1);

/// Calls of every content kind that these servers have: text, several texts, image, audio,
/// resource link, embedded text and blob, structured content, annotations, tool errors.
fn calls(name: &str, bench: &Bench) -> Vec<(&'static str, Value)> {
    let at = |file: &str| bench.path(file).to_string_lossy().into_owned();
    match name {
        "everything" => vec![
            ("echo", json!({"message": "héllo \u{1F680} \"quoted\" \\ \u{7f}"})),
            ("get-tiny-image", json!({})),
            ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
            ("get-resource-links", json!({"count": 3})),
            ("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})),
            (
                "gzip-file-as-resource",
                json!({"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"}),
            ),
            ("get-structured-content", json!({"location": "Chicago"})),
            ("get-sum", json!({"a": 0.1, "b": 1e21})),
            ("trigger-long-running-operation", json!({"duration": 0.2, "steps": 2})),
        ],
        "filesystem" => vec![
            ("read_text_file", json!({"path": at("files/a.txt")})),
            ("read_media_file", json!({"path": at("files/tone.wav")})),
            ("list_directory", json!({"path": at("files")})),
            ("read_text_file", json!({"path": at("files/missing.txt")})),
        ],
        "memory" => vec![
            ("read_graph", json!({})),
            ("search_nodes", json!({"query": "HOT"})),
            ("open_nodes", json!({"names": ["nothing"]})),
        ],
        "sequential-thinking" => vec![(
            "sequentialthinking",
            json!({"thought": "x", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}),
        )],
        "git" => vec![
            ("git_log", json!({"repo_path": at("repo")})),
            ("git_status", json!({"repo_path": at("repo")})),
            ("git_show", json!({"repo_path": at("repo"), "revision": "no-such-revision"})),
        ],
        "time" => vec![(
            "convert_time",
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"}),
        )],
        _ => unreachable!("no calls for {name}"),
    }
}

fn reads(name: &str) -> Vec<&'static str> {
    match name {
        "everything" => {
            vec!["demo://resource/static/document/features.md", "demo://resource/static/document/none.md"]
        }
        _ => Vec::new(),
    }
}

fn gets(name: &str) -> Vec<(&'static str, Value)> {
    match name {
        "everything" => vec![("simple-prompt", json!({})), ("args-prompt", json!({"city": "Graz"}))],
        _ => Vec::new(),
    }
}

/// Two definitions are the same but for the value of `name`.
fn same_but_name(ours: &str, theirs: &str) -> bool {
    let name = |text: &str| serde_json::from_str::<Value>(text).ok()?["name"].as_str().map(str::to_owned);
    let (Some(our_name), Some(their_name)) = (name(ours), name(theirs)) else { return ours == theirs };
    let member = |name: &str| format!("\"name\":{}", json!(name));
    ours == theirs || theirs.replacen(&member(&their_name), &member(&our_name), 1) == ours
}

/// Compares lists in any order: by the raw name, URI or template that identifies an item.
fn assert_same_list(what: &str, ours: &[Seen], theirs: Option<&Vec<String>>) {
    let theirs = theirs.map_or(&[][..], Vec::as_slice);
    let key = |text: &str| -> String {
        let value: Value = serde_json::from_str(text).unwrap();
        let keys = ["uri", "uriTemplate", "name"];
        keys.iter().find_map(|key| value[*key].as_str()).unwrap().to_owned()
    };
    let theirs: BTreeMap<String, &String> = theirs.iter().map(|text| (key(text), text)).collect();
    let names: Vec<&String> = ours.iter().map(|item| &item.raw_name).collect();
    assert_eq!(
        ours.len(),
        theirs.len(),
        "{what}: we list {names:?}, a direct client sees {:?}",
        theirs.keys()
    );
    for item in ours {
        let direct =
            theirs.get(&item.raw_name).unwrap_or_else(|| panic!("{what}: {} is ours alone", item.raw_name));
        assert!(
            same_but_name(&item.definition, direct),
            "{what}: {} differs\n  ours   {}\n  theirs {direct}",
            item.raw_name,
            item.definition
        );
    }
}

/// What a server makes anew for each call: the time of day.
fn without_clock(text: &str) -> String {
    let mut parts: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for part in &mut parts {
        if part.split(':').count() == 3 && part.chars().all(|c| c.is_ascii_digit() || c == ':') {
            *part = "TIME".to_owned();
        }
    }
    parts.join(" ")
}

fn compare_with_direct_client(name: &str, launch: &Launch, bench: &Bench) {
    let (calls, reads, gets) = (calls(name, bench), reads(name), gets(name));
    let theirs = direct(launch, &calls, &reads, &gets);
    let config = bench.config(name, &[(name, launch.entry())]);

    let tools = config.list("tools", name, "tools");
    assert!(!tools.is_empty(), "{name} has no tools");
    assert_same_list(&format!("{name} tools"), &tools, theirs.tools.as_ref());
    assert_same_list(
        &format!("{name} resources"),
        &config.list("resources", name, "resources"),
        theirs.resources.as_ref(),
    );
    assert_same_list(
        &format!("{name} templates"),
        &config.list("resources", name, "resource_templates"),
        theirs.templates.as_ref(),
    );
    assert_same_list(
        &format!("{name} prompts"),
        &config.list("prompts", name, "prompts"),
        theirs.prompts.as_ref(),
    );

    for ((tool, arguments), theirs) in calls.iter().zip(&theirs.calls) {
        let ours = config.result(&["call", name, tool, &arguments.to_string()]);
        assert_eq!(without_clock(&ours), without_clock(theirs), "{name} {tool} {arguments}");
    }
    for (uri, theirs) in reads.iter().zip(&theirs.reads) {
        assert_eq!(&config.result(&["read", name, uri]), theirs, "{name} {uri}");
    }
    for ((prompt, arguments), theirs) in gets.iter().zip(&theirs.gets) {
        let ours = config.result(&["prompt", name, prompt, &arguments.to_string()]);
        assert_eq!(&ours, theirs, "{name} {prompt}");
    }
}

fn stdio_server_is_carried_unchanged(name: &str) {
    let bench = Bench::new();
    let Some(launch) = bench.real(name) else { return };
    compare_with_direct_client(name, &launch, &bench);
}

#[test]
fn everything_is_carried_unchanged_over_stdio() {
    stdio_server_is_carried_unchanged("everything");
}

#[test]
fn filesystem_is_carried_unchanged() {
    stdio_server_is_carried_unchanged("filesystem");
}

#[test]
fn memory_is_carried_unchanged() {
    stdio_server_is_carried_unchanged("memory");
}

#[test]
fn sequential_thinking_is_carried_unchanged() {
    stdio_server_is_carried_unchanged("sequential-thinking");
}

#[test]
fn git_is_carried_unchanged() {
    stdio_server_is_carried_unchanged("git");
}

#[test]
fn time_is_carried_unchanged() {
    stdio_server_is_carried_unchanged("time");
}

#[test]
fn everything_is_carried_unchanged_over_streamable_http() {
    let bench = Bench::new();
    let Some(server) = everything_over_http(&bench) else { return };
    compare_with_direct_client("everything", &Launch::Http(server.url.clone()), &bench);
}

/// Definitions under the names that the host gives them.
fn named(server: &str, definitions: Option<Vec<String>>) -> Vec<String> {
    let under = |text: String| {
        let value: Value = serde_json::from_str(&text).unwrap();
        let name = value["name"].as_str().unwrap();
        let member = |name: &str| format!("\"name\":{}", json!(name));
        text.replacen(&member(name), &member(&format!("{server}__{name}")), 1)
    };
    definitions.unwrap_or_default().into_iter().map(under).collect()
}

fn exposed(server: &str, all: &[(&str, Value)]) -> Vec<(String, Value)> {
    all.iter().map(|(raw, arguments)| (format!("{server}__{raw}"), arguments.clone())).collect()
}

fn refer(all: &[(String, Value)]) -> Vec<(&str, Value)> {
    all.iter().map(|(name, arguments)| (name.as_str(), arguments.clone())).collect()
}

/// A client that attaches to the host receives, byte for byte and in the same order, what it receives
/// of the server itself, but for the names of tools and prompts.
fn the_host_carries_unchanged(name: &str, launch: &Launch, bench: &Bench) {
    let (calls, reads, gets) = (calls(name, bench), reads(name), gets(name));
    let able = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}});
    let theirs = direct_with(&able, launch, &calls, &reads, &gets);
    let tools = named(name, theirs.tools);
    let prompts = named(name, theirs.prompts);
    assert!(!tools.is_empty(), "{name} has no tools");
    let times = |texts: &[String]| texts.iter().map(|text| without_clock(text)).collect::<Vec<_>>();

    let config = bench.config(name, &[(name, launch.entry())]);
    let http = config.served_over_http();
    let (our_calls, our_gets) = (exposed(name, &calls), exposed(name, &gets));
    for (way, host) in [("stdio", config.served()), ("HTTP", Launch::Http(http.url.clone()))] {
        let at = format!("{name} through the host over {way}");
        let ours = direct_with(&able, &host, &refer(&our_calls), &reads, &refer(&our_gets));
        assert_eq!(ours.tools.unwrap_or_default(), tools, "{at}: tools");
        assert_eq!(ours.resources.unwrap_or_default(), theirs.resources.clone().unwrap_or_default(), "{at}");
        assert_eq!(ours.templates.unwrap_or_default(), theirs.templates.clone().unwrap_or_default(), "{at}");
        assert_eq!(ours.prompts.unwrap_or_default(), prompts, "{at}: prompts");
        for (what, ours, theirs) in [
            ("calls", &ours.calls, &theirs.calls),
            ("reads", &ours.reads, &theirs.reads),
            ("gets", &ours.gets, &theirs.gets),
        ] {
            assert_eq!(times(ours), times(theirs), "{at}: {what}");
        }
    }
}

fn reaches_clients_of_the_host_unchanged(name: &str) {
    let bench = Bench::new();
    let Some(launch) = bench.real(name) else { return };
    the_host_carries_unchanged(name, &launch, &bench);
}

#[test]
fn everything_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("everything");
}

#[test]
fn filesystem_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("filesystem");
}

#[test]
fn memory_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("memory");
}

#[test]
fn sequential_thinking_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("sequential-thinking");
}

#[test]
fn git_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("git");
}

#[test]
fn time_reaches_clients_of_the_host_unchanged_but_for_names() {
    reaches_clients_of_the_host_unchanged("time");
}

#[test]
fn everything_over_http_reaches_clients_of_the_host_unchanged_but_for_names() {
    let bench = Bench::new();
    let Some(server) = everything_over_http(&bench) else { return };
    the_host_carries_unchanged("everything", &Launch::Http(server.url.clone()), &bench);
}

/// Servers of npm and of PyPI answer in a sandbox as they do without: their programs, scripts,
/// interpreters and libraries are found, their working folder is theirs.
#[test]
fn real_servers_work_in_a_sandbox() {
    let bench = Bench::new();
    for (name, cwd) in [("everything", "files"), ("filesystem", "files"), ("git", "repo"), ("time", "files")]
    {
        let Some(launch) = bench.real(name) else { return };
        let calls = calls(name, &bench);
        let theirs = direct(&launch, &calls, &[], &[]);
        let levels: &[&str] = if name == "everything" { &["fs", "fs+net"] } else { &["fs"] };
        for level in levels {
            let mut entry = launch.entry();
            entry["sandbox"] = json!(level);
            entry["cwd"] = json!(bench.path(cwd));
            let config = bench.config(name, &[(name, entry)]);
            let some = if *level == "fs" { calls.len() } else { 1 };
            for ((tool, arguments), theirs) in calls.iter().zip(&theirs.calls).take(some) {
                let ours = config.result(&["call", name, tool, &arguments.to_string()]);
                assert_eq!(without_clock(&ours), without_clock(theirs), "{name} {level} {tool} {arguments}");
            }
        }
    }
}

/// One configuration with healthy and broken servers: each is shown as it is, in time, and what is
/// healthy works.
#[test]
fn status_tells_the_truth_about_each_server_and_the_healthy_ones_work() {
    let bench = Bench::new();
    let mut entries: Vec<(&str, Value)> = Vec::new();
    for name in NAMES {
        let Some(launch) = bench.real(name) else { return };
        entries.push((name, launch.entry()));
    }
    let Some(http) = everything_over_http(&bench) else { return };
    entries.push(("everything-http", Launch::Http(http.url.clone()).entry()));
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    entries.push(("broken", json!({"command": ["not", "a", "text"]})));
    entries.push(("missing", json!({"command": "no-such-command-anywhere"})));
    entries.push(("unreachable", json!({"url": format!("http://{dead}/mcp")})));
    let config = bench.config("all", &entries);

    // At first, what is known after the grace: each row is true, late or not.
    let (answer, told_at) = config.first_line(&["status"]);
    let servers = rows(&answer);
    assert_eq!(servers.len(), entries.len(), "{:?}", servers.keys());
    let mut slowest = SystemTime::UNIX_EPOCH;
    for row in servers.values().filter(|row| row["state"] == "ready") {
        slowest = slowest.max(humantime::parse_rfc3339(row["since"].as_str().unwrap()).unwrap());
    }
    let waited = told_at.duration_since(slowest).unwrap_or_default();
    assert!(waited < STATUS_GRACE + STATUS_SLACK, "told {waited:?} after the slowest healthy server");
    assert_truth_about_the_broken(&servers);

    // Then with time for all, however busy the machine is.
    let servers = rows(&config.first_line(&["status", "--wait", "60s"]).0);
    for name in NAMES.into_iter().chain(["everything-http"]) {
        let row = &servers[name];
        assert_eq!((&row["state"], &row["healthy"]), (&json!("ready"), &json!(true)), "{row}");
        assert!(row["tools"].as_u64().unwrap() > 0, "{row}");
    }
    assert_truth_about_the_broken(&servers);

    for name in NAMES {
        let (tool, arguments) = calls(name, &bench).remove(0);
        let result = config.result(&["call", name, tool, &arguments.to_string()]);
        assert!(result.contains("\"content\""), "{name} {tool}: {result}");
    }
}

fn rows(answer: &Value) -> BTreeMap<String, Value> {
    let rows = answer["data"]["servers"].as_array().unwrap_or_else(|| panic!("no servers in {answer}"));
    rows.iter().map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

fn assert_truth_about_the_broken(servers: &BTreeMap<String, Value>) {
    for (name, reason, word) in [
        ("broken", Some("config_error"), "command"),
        ("missing", Some("config_error"), "no-such-command-anywhere"),
        ("unreachable", None, "refused"),
    ] {
        let row = &servers[name];
        assert_eq!(row["healthy"], false, "{row}");
        if let Some(reason) = reason {
            assert_eq!((&row["state"], &row["reason"]), (&json!("parked"), &json!(reason)), "{row}");
        }
        let why = row["why"].as_str().unwrap_or_default();
        assert!(why.to_lowercase().contains(word), "{name}: {why:?} does not say {word}");
    }
}

#[test]
fn definitions_are_compared_byte_for_byte_but_for_the_name() {
    assert!(same_but_name(r#"{"name":"b","x":1.0}"#, r#"{"name":"a","x":1.0}"#));
    assert!(!same_but_name(r#"{"name":"b","x":1}"#, r#"{"name":"a","x":1.0}"#));
    assert!(!same_but_name(r#"{"x":1,"name":"a"}"#, r#"{"name":"a","x":1}"#));
    assert_eq!(without_clock("created at 4:56:29 PM\"}"), "created at TIME PM\"}");
    assert_eq!(without_clock("a:b:c 1:2"), "a:b:c 1:2");
}
