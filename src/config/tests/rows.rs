//! The keys that say how an entry is used, row by row of the manual: what each means, its other
//! spellings, and that a wrong value disables its entry alone and says where and why.

use std::path::Path;
use std::time::Duration;

use super::desk::{Desk, entry, errors, load_one, spec, warnings};
use crate::config::spec::{
    EntryState, Protocol, Rate, Sandbox, Sharing, StartMode, Timeouts, TransportSpec, Trust,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The errors of an entry that must not be usable.
pub(super) fn refused(text: &str) -> String {
    let loaded = load_one(text);
    assert!(matches!(entry(&loaded, "s").state, EntryState::Invalid), "{text}");
    assert!(loaded.servers.secrets.is_empty());
    errors(&loaded).join("\n")
}

#[test]
fn filters_and_policy_lists_are_globs_on_raw_names() {
    let loaded = load_one(
        r#"{"command": "x", "tools": {"include": ["read_*"], "exclude": ["*"]}, "allowedTools": ["a/*"], "deniedTools": ["a/del?te"]}"#,
    );
    let spec = spec(&loaded, "s");
    assert!(spec.filter.keeps("read_file") && !spec.filter.keeps("Read_file"));
    assert!(spec.allowed_tools.as_ref().unwrap().matches("a/b/c"));
    assert!(spec.denied_tools.matches("a/delete") && !spec.denied_tools.matches("a/delete2"));
    // An empty include is no include; an empty allowedTools allows nothing, and says so.
    let loaded =
        load_one(r#"{"command": "x", "tools": {"include": [], "exclude": ["z*"]}, "allowedTools": []}"#);
    let empty = super::desk::spec(&loaded, "s");
    assert!(empty.filter.keeps("a") && !empty.filter.keeps("zz"));
    assert!(empty.allowed_tools.as_ref().unwrap().is_empty());
    assert!(warnings(&loaded)[0].contains("no tool of this server may be called"));
    assert!(refused(r#"{"command": "x", "deniedTools": ["[a"]}"#).contains("deniedTools: bad pattern"));
    assert!(refused(r#"{"command": "x", "tools": ["a"]}"#).contains("tools: must be an object"));
    assert!(refused(r#"{"command": "x", "allowedTools": "a,b"}"#).contains("list of strings"));
    assert!(refused(r#"{"command": "x", "tools": {"include": ["a", 1]}}"#).contains("tools.include[1]"));
}

#[test]
fn spellings_of_other_tools_keep_their_policy_meaning() {
    let loaded =
        load_one(r#"{"command": "x", "allow": ["a"], "deny": ["b"], "policy": "trusted", "title": "T"}"#);
    let spec = spec(&loaded, "s");
    assert!(spec.allowed_tools.as_ref().unwrap().matches("a") && spec.denied_tools.matches("b"));
    assert_eq!(spec.trust, Trust::Trusted);
    assert_eq!(entry(&loaded, "s").label.as_deref(), Some("T"));
    assert!(warnings(&loaded).is_empty());
}

#[test]
fn trust_is_one_of_three_words_and_read_only_is_short_for_one() {
    let trust = |text: &str| spec(&load_one(text), "s").trust;
    assert_eq!(trust(r#"{"command": "x"}"#), Trust::Untrusted);
    assert_eq!(trust(r#"{"command": "x", "trust": "untrusted"}"#), Trust::Untrusted);
    assert_eq!(trust(r#"{"command": "x", "trust": "read-only"}"#), Trust::ReadOnly);
    assert_eq!(trust(r#"{"command": "x", "trust": "trusted"}"#), Trust::Trusted);
    assert_eq!(trust(r#"{"command": "x", "readOnly": true}"#), Trust::ReadOnly);
    assert_eq!(trust(r#"{"command": "x", "readOnly": false}"#), Trust::Untrusted);
    assert_eq!(trust(r#"{"command": "x", "readOnly": true, "trust": "trusted"}"#), Trust::Trusted);
    for wrong in ["readonly", "Trusted", "full", ""] {
        let text = refused(&format!("{{\"command\": \"x\", \"trust\": \"{wrong}\"}}"));
        assert!(text.contains("must be one of untrusted, read-only, trusted"), "{text}");
    }
    assert!(refused(r#"{"command": "x", "trust": true}"#).contains("must be a string"));
}

#[test]
fn wide_permissions_are_explicit_only() {
    let spec = spec(&load_one(r#"{"command": "x", "trust": "trusted"}"#), "s");
    assert!(!spec.allow_all_tools && !spec.allow_host_process);
    let loaded = load_one(r#"{"command": "x", "allowAllTools": true, "allowHostProcess": true}"#);
    let wide = super::desk::spec(&loaded, "s");
    assert!(wide.allow_all_tools && wide.allow_host_process);
    assert!(refused(r#"{"command": "x", "allowAllTools": "yes"}"#).contains("true or false"));
}

#[test]
fn time_limits_take_seconds_words_or_milliseconds() {
    let times = |keys: &str| spec(&load_one(&format!("{{\"command\": \"x\", {keys}}}")), "s").timeouts;
    let all = times(r#""timeout": 30, "connect_timeout": "1m 30s", "max_timeout": 3600"#);
    assert_eq!((all.idle, all.connect, all.total), (secs(30), secs(90), secs(3600)));
    let millis = times(r#""requestTimeoutMs": 1500, "startupTimeoutMs": 20000"#);
    assert_eq!((millis.idle, millis.connect), (Duration::from_millis(1500), secs(20)));
    assert_eq!(times(r#""timeoutMs": 2500"#).idle, Duration::from_millis(2500));
    assert_eq!(times(r#""timeout": 0.25"#).idle, Duration::from_millis(250));
    assert_eq!(times(r#""timeout": 999.9"#).idle, Duration::from_millis(999_900));
    assert_eq!(times(r#""timeout": "20m""#).idle, secs(1200));
    let Timeouts { idle, connect, total, list, permit, max_start } = times(r#""label": "l""#);
    assert_eq!(
        [idle, connect, total, list, permit, max_start].map(|d| d.as_secs()),
        [120, 15, 1800, 30, 5, 120]
    );
}

#[test]
fn ambiguous_or_senseless_times_are_refused() {
    for (key, part) in [
        (r#""timeout": 1000"#, "ambiguous"),
        (r#""timeout": "30000""#, "ambiguous"),
        (r#""timeout": 0"#, "more than zero"),
        (r#""timeout": -1"#, "negative"),
        (r#""timeout": true"#, "a number of seconds or a word"),
        (r#""connect_timeout": "soon""#, "not a duration"),
        (r#""requestTimeoutMs": 1e300"#, "30 days"),
        (r#""idle_stop": []"#, "idle_stop"),
    ] {
        let text = refused(&format!("{{\"command\": \"x\", {key}}}"));
        assert!(text.contains(part), "{key}: {text}");
    }
    let both = load_one(r#"{"command": "x", "timeout": 5, "requestTimeoutMs": 9000}"#);
    assert_eq!(spec(&both, "s").timeouts.idle, secs(5));
    assert!(warnings(&both)[0].contains("means the same"));
    let late = load_one(r#"{"command": "x", "timeout": "2h", "connect_timeout": "5m"}"#);
    assert_eq!(warnings(&late).len(), 2);
}

#[test]
fn protocol_start_sharing_and_the_rest_of_life() {
    let loaded = load_one(
        r#"{"command": "x", "protocol": "modern", "start": "lazy", "idle_stop": "10m", "required": true,
            "watch": ["src/**/*.rs"], "sharing": "session", "env_passthrough": ["SSH_AUTH_SOCK"],
            "label": "L", "description": "D", "sandbox": "off"}"#,
    );
    let spec = spec(&loaded, "s");
    assert_eq!(
        (spec.protocol, spec.start, spec.sharing),
        (Protocol::Modern, StartMode::Lazy, Sharing::Session)
    );
    assert_eq!(spec.idle_stop, Some(secs(600)));
    assert_eq!(
        (spec.watch.as_slice(), spec.env_passthrough.as_slice()),
        (&["src/**/*.rs".to_owned()][..], &["SSH_AUTH_SOCK".to_owned()][..])
    );
    let shown = entry(&loaded, "s");
    assert_eq!((shown.label.as_deref(), shown.description.as_deref()), (Some("L"), Some("D")));
    assert!(shown.required);
    let plain = super::desk::spec(&load_one(r#"{"command": "x"}"#), "s");
    assert_eq!(
        (plain.protocol, plain.start, plain.sharing),
        (Protocol::Auto, StartMode::Eager, Sharing::Shared)
    );
    for (key, part) in [
        (r#""protocol": "old""#, "auto, legacy, modern"),
        (r#""start": "later""#, "eager, lazy"),
        (r#""sharing": "none""#, "shared, session"),
        (r#""watch": ["[x"]"#, "bad pattern"),
        (r#""env_passthrough": ["A=B"]"#, "env_passthrough[0]"),
        (r#""required": 1"#, "true or false"),
        (r#""label": 1"#, "put it in quotes"),
    ] {
        assert!(refused(&format!("{{\"command\": \"x\", {key}}}")).contains(part), "{key}");
    }
}

#[test]
fn breaker_restart_limits_and_rate_override_the_host() {
    let loaded = load_one(
        r#"{"command": "x", "breaker": {"failures": 0, "open_for": "10s", "count_tool_errors": true},
            "restart": {"max": 0, "window": 30, "min": "100ms", "max_delay": "5s"},
            "limits": {"in_flight": 1, "queue": 0, "frame_max": "1MiB", "result_max": 2048},
            "rate": {"per_second": 20, "burst": 40}}"#,
    );
    let spec = spec(&loaded, "s");
    assert_eq!(
        (spec.breaker.failures, spec.breaker.open_for, spec.breaker.count_tool_errors),
        (0, secs(10), true)
    );
    assert_eq!((spec.restart.max, spec.restart.window), (0, secs(30)));
    assert_eq!((spec.restart.min_delay, spec.restart.max_delay), (Duration::from_millis(100), secs(5)));
    assert_eq!((spec.limits.in_flight, spec.limits.queue), (1, 0));
    assert_eq!((spec.limits.frame_max, spec.limits.result_max), (1 << 20, 2048));
    assert_eq!(spec.rate, Some(Rate { per_second: 20, burst: 40 }));
    let half = super::desk::spec(
        &load_one(r#"{"command": "x", "breaker": {"failures": 9}, "rate": {"per_second": 5}}"#),
        "s",
    );
    assert_eq!((half.breaker.failures, half.breaker.open_for), (9, secs(60)));
    assert_eq!(half.rate, Some(Rate { per_second: 5, burst: 5 }));
    for (key, part) in [
        (r#""breaker": 3"#, "breaker: must be an object"),
        (r#""breaker": {"failures": -1}"#, "breaker.failures"),
        (r#""restart": {"min": "2m"}"#, "min is longer"),
        (r#""limits": {"in_flight": 0}"#, "from 1 to"),
        (r#""limits": {"frame_max": 10}"#, "1KiB to 1GiB"),
        (r#""limits": {"frame_max": "big"}"#, "not a size"),
        (r#""rate": {"burst": 2}"#, "per_second: is missing"),
    ] {
        assert!(refused(&format!("{{\"command\": \"x\", {key}}}")).contains(part), "{key}");
    }
}

/// Every key that is accepted acts; a wrong value of it is an error, and then that is all.
#[test]
fn keys_that_act_are_taken_without_a_word_and_bad_values_are_one_error() {
    let said = |keys: &str| {
        let loaded = load_one(&format!("{{\"command\": \"x\", {keys}}}"));
        assert_eq!(errors(&loaded), Vec::<String>::new(), "{keys}");
        warnings(&loaded)
    };
    for keys in [
        r#""sharing": "session""#,
        r#""sharing": "shared""#,
        r#""shared_identity": true"#,
        r#""breaker": {"failures": 3}"#,
        r#""limits": {"queue": 1, "result_max": null}"#,
        r#""limits": {"in_flight": 2, "result_max": "1MiB"}"#,
    ] {
        assert_eq!(said(keys), Vec::<String>::new(), "{keys}");
    }
    for (keys, at) in [
        (r#""breaker": {"failures": -1}"#, "breaker.failures"),
        (r#""idle_stop": 0"#, "idle_stop"),
        (r#""watch": ["[x"]"#, "watch"),
        (r#""sharing": "none""#, "sharing"),
        (r#""shared_identity": "yes""#, "shared_identity"),
        (r#""allowHostProcess": 1"#, "allowHostProcess"),
        (r#""limits": {"result_max": 1}"#, "limits.result_max"),
    ] {
        let loaded = load_one(&format!("{{\"command\": \"x\", {keys}}}"));
        let paths: Vec<&str> = loaded.issues().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, [format!("mcpServers.s.{at}")], "{keys}");
        assert_eq!(errors(&loaded).len(), 1);
    }
    let unknown = load_one(r#"{"command": "x", "sharing": "session", "sharings": 1}"#);
    assert_eq!(warnings(&unknown).len(), 1, "a key whose name begins alike is another key");
}

#[test]
fn an_entry_with_a_credential_in_clear_acts_as_one_person_unless_it_says_otherwise() {
    let personal = |keys: &str| spec(&load_one(&format!("{{{keys}}}")), "s").is_personal;
    for (keys, want) in [
        (r#""command": "x""#, false),
        (r#""command": "x", "env": {"API_TOKEN": "hunter2"}"#, true),
        (r#""command": "x", "args": ["--token=hunter2"]"#, true),
        (r#""url": "https://h/mcp", "headers": {"Authorization": "Bearer hunter2"}"#, true),
        (r#""command": "x", "env": {"API_TOKEN": "hunter2"}, "shared_identity": true"#, false),
        (r#""command": "x", "env": {"API_TOKEN": "${TOK:-}"}"#, false),
        (r#""command": "x", "env": {"MODE": "fast"}"#, false),
    ] {
        assert_eq!(personal(keys), want, "{keys}");
    }
}

#[test]
fn a_sandbox_is_read_with_its_paths_expanded_and_absolute() {
    let read = |sandbox: &str| {
        let text = format!("{{\"command\": \"x\", \"sandbox\": {sandbox}}}");
        spec(&load_one(&text), "s").sandbox.clone()
    };
    assert_eq!(read(r#""off""#), Sandbox::Off);
    assert_eq!(read(r#""fs""#), Sandbox::Fs);
    assert_eq!(read(r#""fs+net""#), Sandbox::FsNet);
    let custom = read(r#"{"read": ["/a/./b/", "${UNSET:-/c}"], "write": ["."]}"#);
    let Sandbox::Custom { read, write, net } = custom else { panic!("{custom:?}") };
    assert_eq!((&read[..], net), (&["/a/b".to_owned(), "/c".to_owned()][..], false));
    assert!(write[0].starts_with('/') && !write[0].ends_with('.'), "{write:?}");
    let text = refused(r#"{"command": "x", "sandbox": {"read": ["${NOT_SET}"]}}"#);
    assert!(text.contains("sandbox.read[0]") && text.contains("NOT_SET"), "{text}");
    assert!(refused(r#"{"command": "x", "sandbox": "tight"}"#).contains("off, fs, fs+net"));
}

#[test]
fn enabled_and_disabled_must_be_flags() {
    assert!(refused(r#"{"command": "x", "enabled": "false"}"#).contains("true or false, not a string"));
    let loaded = load_one(r#"{"command": "x", "enabled": true, "disabled": true}"#);
    assert!(matches!(entry(&loaded, "s").state, EntryState::Disabled));
    assert!(warnings(&loaded)[0].contains("contradicts"));
}

/// B116
#[test]
fn one_entry_with_a_wrong_type_fails_alone() {
    let desk = Desk::new();
    desk.write("home/.callboard/sub/server.sh", "");
    desk.user(
        r#"{"mcpServers": {
            "first": {"command": "./server.sh", "cwd": "./sub"},
            "second": {"command": "x", "foo": 1},
            "third": {"command": 42},
            "fourth": {"command": "x", "env": {"PORT": 8080}, "args": ["a", 1, null]}
        }}"#,
    );
    let loaded = desk.load();
    let TransportSpec::Stdio { command, cwd, .. } = spec(&loaded, "first").transport.clone() else {
        panic!()
    };
    assert_eq!(Path::new(&command), desk.path("home/.callboard/sub/server.sh"));
    assert!(cwd.unwrap().ends_with("sub"));
    assert!(matches!(entry(&loaded, "second").state, EntryState::Ready(_)));
    assert!(entry(&loaded, "second").issues[0].message.contains("unknown key"));
    assert!(matches!(entry(&loaded, "third").state, EntryState::Invalid));
    let third = entry(&loaded, "third").issues[0].to_string();
    assert!(
        third.contains("mcp.json:4:") && third.contains("mcpServers.third.command: must be a string"),
        "{third}"
    );
    let fourth: Vec<String> = entry(&loaded, "fourth").issues.iter().map(|i| i.path.clone()).collect();
    assert_eq!(
        fourth,
        ["mcpServers.fourth.args[1]", "mcpServers.fourth.args[2]", "mcpServers.fourth.env.PORT"]
    );
}

#[test]
fn names_are_free_but_for_what_breaks_commands_and_tables() {
    let desk = Desk::new();
    let long = "x".repeat(81);
    let names = ["Büro (test)", "a__b", "日本", "a.b", "--x", &"y".repeat(80)];
    let bad = ["", "a/b", " a", "a ", "a\\nb", "a\\u0000", "a\\u200b", "a\\u202e", &long];
    let all: Vec<String> =
        names.iter().chain(&bad).map(|name| format!("\"{name}\": {{\"command\": \"x\"}}")).collect();
    desk.user(&format!("{{\"mcpServers\": {{{}}}}}", all.join(",")));
    let loaded = desk.load();
    for name in names {
        assert!(matches!(entry(&loaded, name).state, EntryState::Ready(_)), "{name}");
    }
    assert_eq!(errors(&loaded).len(), bad.len());
    assert!(errors(&loaded).iter().all(|e| e.contains("name")));
    let shown = loaded.servers.entries.iter().filter(|e| matches!(e.state, EntryState::Invalid));
    let shown: Vec<&str> = shown.map(|e| e.id.as_str()).collect();
    assert!(shown.contains(&"a\\nb") && shown.contains(&"(no name)"), "{shown:?}");
    assert!(loaded.servers.entries.iter().all(|e| !e.id.as_str().contains(char::is_control)));
}
