//! The host before independent software: the official conformance suite and clients of other makes,
//! pinned in `tests/real`. What they see through the host is compared with what they see without it.
//! Uses only what `tests/real/install` put there: with CI=true a missing part fails, elsewhere it is
//! left out aloud.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "real/fixture.rs"]
mod fixture;

use fixture::{Client, Fixture, Home, Verdict, odd_server, suite};
use serde_json::{Value, json};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn entry(url: &str) -> Value {
    json!({"url": url, "allowedTools": ["*"], "trust": "trusted"})
}

/// Whatever passes without the host passes through it, and what is required passes in any case.
fn assert_nothing_lost(alone: &Verdict, through: &Verdict, revision: &str) {
    assert_eq!(
        alone.passed, through.passed,
        "{revision}: required scenarios fail through the host: {:?}\n{}",
        through.bad, through.text
    );
    let lost: Vec<_> = alone.good.iter().filter(|name| through.bad.contains(name)).collect();
    assert!(lost.is_empty(), "{revision}: lost through the host: {lost:?}\n{}", through.text);
    let missing: Vec<_> = alone.good.iter().filter(|name| !through.good.contains(name)).collect();
    assert!(missing.is_empty(), "{revision}: not run through the host: {missing:?}\n{}", through.text);
}

#[test]
fn what_passes_the_official_suite_alone_passes_it_through_the_host() {
    let Some(server) = Fixture::Modern.start() else { return };
    let home = Home::in_front_of(&entry(&server.url), "");
    let host = home.serve_http();
    for revision in REVISIONS {
        let alone = suite(&server.url, revision);
        assert!(alone.passed && alone.good.len() > 20, "the control run: {}", alone.text);
        assert_nothing_lost(&alone, &suite(&host.url, revision), revision);
    }
}

#[test]
fn a_legacy_server_passes_through_the_host_what_it_passes_alone() {
    let Some(server) = Fixture::Legacy.start() else { return };
    let home = Home::in_front_of(&entry(&server.url), "");
    let host = home.serve_http();
    let alone = suite(&server.url, "2025-11-25");
    assert!(alone.passed && alone.good.len() > 20, "the control run: {}", alone.text);
    assert_nothing_lost(&alone, &suite(&host.url, "2025-11-25"), "2025-11-25");
}

fn questions() -> Value {
    json!({
        "calls": [
            ["test_simple_text", {}],
            ["test_image_content", {}],
            ["test_multiple_content_types", {}],
            ["test_error_handling", {}],
            ["test_elicitation", {"message": "who?"}],
            ["test_sampling", {"prompt": "p"}],
        ],
        "reads": ["test://static-text", "test://static-binary", "test://template/7/data"],
        "gets": [["test_simple_prompt", {}], ["test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}]],
    })
}

fn with(mut spec: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

/// What is the host's own and not the server's: who it says it is, and what it negotiated.
fn without_greeting(mut seen: Value) -> Value {
    let seen_object = seen.as_object_mut().unwrap();
    seen_object.remove("server");
    seen_object.remove("revision");
    strip_cache_hints(&mut seen);
    seen
}

/// Keys that the modern era asks of whoever answers.
fn strip_cache_hints(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for key in ["ttlMs", "cacheScope", "resultType"] {
                members.remove(key);
            }
            if let Some(Value::Object(meta)) = members.get_mut("_meta") {
                meta.remove("io.modelcontextprotocol/serverInfo");
                if meta.is_empty() {
                    members.remove("_meta");
                }
            }
            members.values_mut().for_each(strip_cache_hints);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_cache_hints),
        _ => {}
    }
}

/// Each client, on each way to the host, against what the same client sees without it.
fn compare_clients(fixture: Fixture, clients: &[Client]) {
    let Some(server) = fixture.start() else { return };
    let home = Home::in_front_of(&entry(&server.url), "");
    let host = home.serve_http();
    let env: Value = home.environment().into_iter().map(|(k, v)| (k, Value::from(v))).collect();
    let program = env!("CARGO_BIN_EXE_callboard");
    for client in clients {
        let Some(direct) = client.look(&with(json!({"url": server.url}), &questions())) else { return };
        let over_http = client.look(&with(json!({"url": host.url}), &questions())).unwrap();
        let stdio = json!({"command": program, "args": ["--mcp-serve", "--private"], "env": env});
        let over_stdio = client.look(&with(stdio, &questions())).unwrap();
        let direct = without_greeting(direct);
        assert!(direct["tools"].as_array().is_some_and(|tools| tools.len() > 5), "{client:?}: {direct}");
        for (way, seen) in [("HTTP", over_http), ("stdio", over_stdio)] {
            let seen = without_greeting(seen);
            for key in ["tools", "resources", "templates", "prompts", "calls", "reads", "gets"] {
                assert_eq!(seen[key], direct[key], "{client:?} over {way}: {key}");
            }
        }
    }
}

#[test]
fn every_client_sees_through_the_host_what_it_sees_without_it() {
    compare_clients(Fixture::Modern, &Client::ALL);
}

#[test]
fn legacy_clients_see_a_legacy_server_through_the_host_as_without_it() {
    compare_clients(Fixture::Legacy, &[Client::PythonLegacy, Client::TypeScriptLegacy]);
}

#[test]
fn a_modern_client_reaches_a_legacy_server_across_eras_with_its_questions_in_mid_call() {
    let Some(server) = Fixture::Legacy.start() else { return };
    let home = Home::in_front_of(&entry(&server.url), "");
    let host = home.serve_http();
    let legacy = with(json!({"url": server.url}), &questions());
    let Some(direct) = Client::PythonLegacy.look(&legacy) else { return };
    for client in [Client::PythonModern, Client::TypeScriptModern] {
        let seen = client.look(&with(json!({"url": host.url}), &questions())).unwrap();
        assert_eq!(seen["revision"], "2026-07-28", "{client:?}");
        for (ours, theirs) in
            seen["calls"].as_array().unwrap().iter().zip(direct["calls"].as_array().unwrap())
        {
            assert_eq!(ours["content"], theirs["content"], "{client:?}");
        }
        assert_eq!(seen["calls"].as_array().map(Vec::len), direct["calls"].as_array().map(Vec::len));
    }
}

/// What stands before, and what after, the members that every definition here has.
type Oddity = (&'static str, &'static str);

/// Definitions that make one client or another refuse a whole list, or that are unusual: `@` is a sound
/// input schema.
const ODDITIES: [Oddity; 18] = [
    ("a name with dots and slashes", r#"{"name": "a.b/c", "inputSchema": @}"#),
    ("a name with a blank", r#"{"name": "a b", "inputSchema": @}"#),
    ("a name of signs", r#"{"name": "\uD83D\uDE80", "inputSchema": @}"#),
    ("no description", r#"{"name": "odd", "inputSchema": @}"#),
    (
        "a reference within",
        r##"{"name": "odd", "inputSchema": {"type": "object", "$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}}"##,
    ),
    (
        "a reference elsewhere",
        r#"{"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.org/x.json"}}}}"#,
    ),
    ("an output that is an array", r#"{"name": "odd", "inputSchema": @, "outputSchema": {"type": "array"}}"#),
    ("an empty input schema", r#"{"name": "odd", "inputSchema": {}}"#),
    ("no input schema", r#"{"name": "odd"}"#),
    ("an input schema that is null", r#"{"name": "odd", "inputSchema": null}"#),
    ("a hint that is text", r#"{"name": "odd", "inputSchema": @, "annotations": {"readOnlyHint": "yes"}}"#),
    (
        "a property that is true",
        r#"{"name": "odd", "inputSchema": {"type": "object", "properties": {"a": true}}}"#,
    ),
    ("a name that is there twice", r#"{"name": "good", "inputSchema": @}"#),
    ("a title that is a number", r#"{"name": "odd", "title": 7, "inputSchema": @}"#),
    ("a description that is null", r#"{"name": "odd", "description": null, "inputSchema": @}"#),
    ("icons that are text", r#"{"name": "odd", "inputSchema": @, "icons": "none"}"#),
    ("meta that is a list", r#"{"name": "odd", "inputSchema": @, "_meta": []}"#),
    (
        "an execution that nobody knows",
        r#"{"name": "odd", "inputSchema": @, "execution": {"taskSupport": "perhaps"}}"#,
    ),
];

#[test]
fn an_odd_definition_hides_no_good_one_from_any_client() {
    let mut servers = json!({});
    let schema = r#"{"type": "object"}"#;
    let good = format!(r#"{{"name": "good", "description": "Good.", "inputSchema": {schema}}}"#);
    for (n, (_, odd)) in ODDITIES.iter().enumerate() {
        let odd = odd.replace('@', schema);
        let Some(entry) = odd_server(&format!(r#"{{"tools": [{odd}, {good}]}}"#)) else { return };
        servers[format!("odd{n}")] = entry;
    }
    let long = format!(r#"{{"name": "{}", "inputSchema": {schema}}}"#, "n".repeat(130));
    servers["long"] = odd_server(&format!(r#"{{"tools": [{long}, {good}]}}"#)).unwrap();
    servers["cursor"] = odd_server(&format!(r#"{{"tools": [{good}], "nextCursor": null}}"#)).unwrap();
    let home = Home::of(&servers, "[serve]\nbuiltins = \"none\"\n");
    home.learn();
    let host = home.serve_http();
    let calls: Vec<_> = servers.as_object().unwrap().keys().map(|name| format!("{name}__good")).collect();
    let asked: Vec<_> = calls.iter().map(|name| json!([name, {}])).collect();
    for client in Client::ALL {
        let Some(seen) = client.look(&json!({"url": host.url, "calls": asked})) else { return };
        let names: Vec<_> = seen["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        for (n, (what, _)) in ODDITIES.iter().enumerate() {
            assert!(names.contains(&&json!(format!("odd{n}__good"))), "{client:?}: {what}: {names:?}");
        }
        for call in ["long__good", "cursor__good"] {
            assert!(names.contains(&&json!(call)), "{client:?}: {call}: {names:?}");
        }
        for (name, answer) in calls.iter().zip(seen["calls"].as_array().unwrap()) {
            assert_eq!(answer["content"][0]["text"], "good", "{client:?}: {name}: {answer}");
        }
    }
}
