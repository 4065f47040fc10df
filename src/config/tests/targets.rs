//! The keys that say where an entry leads, row by row of the manual: a program with its arguments,
//! folder and variables, or an address with its headers.

use std::path::Path;

use super::desk::{Desk, entry, errors, load_one, one, spec, warnings};
use super::rows::refused;
use crate::config::spec::{EntryState, TransportSpec};

/// The transport of an entry that must be usable.
fn transport(text: &str) -> TransportSpec {
    spec(&load_one(text), "s").transport.clone()
}

#[test]
fn command_args_env_and_cwd_describe_a_program() {
    let desk = Desk::new();
    desk.write("home/.callboard/sub/.keep", "");
    desk.user(&one(
        r#"{"command": "run", "args": ["-x", "a b"], "env": {"B": "2", "A": "1"}, "cwd": "./sub"}"#,
    ));
    let loaded = desk.load();
    let TransportSpec::Stdio { command, args, env, cwd } = spec(&loaded, "s").transport.clone() else {
        panic!()
    };
    assert_eq!(command, "run");
    assert_eq!(args.iter().map(|a| a.reveal()).collect::<Vec<_>>(), ["-x", "a b"]);
    assert_eq!(
        env.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect::<Vec<_>>(),
        [("B", "2"), ("A", "1")]
    );
    assert_eq!(
        cwd.as_deref(),
        Some(desk.path("home/.callboard/sub").as_path()).map(|p| p.to_path_buf()).as_deref()
    );
    assert_eq!(
        (entry(&loaded, "s").transport, entry(&loaded, "s").summary.as_str()),
        ("stdio", "run -x a b")
    );
}

#[test]
fn exactly_one_of_command_and_url() {
    assert!(refused(r#"{"command": "x", "url": "http://h/"}"#).contains("exactly one of them"));
    assert!(refused("{}").contains("neither \"command\" nor \"url\""));
    assert!(refused(r#"{"command": null}"#).contains("neither"));
    assert!(refused(r#"{"command": ""}"#).contains("is empty"));
    assert!(refused("7").contains("must be an object, not a number"));
}

#[test]
fn url_headers_and_bearer_token_describe_an_address() {
    let mut desk = Desk::new();
    desk.set("TOK", " t0ken \n");
    desk.user(&one(
        r#"{"url": "https://h.example:8443/mcp", "headers": {"X-Trace": "1", "authorization": "old"}, "bearer_token_env": "TOK"}"#,
    ));
    let loaded = desk.load();
    let TransportSpec::Http { url, headers } = spec(&loaded, "s").transport.clone() else { panic!() };
    assert_eq!(url.reveal(), "https://h.example:8443/mcp");
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(headers, [("X-Trace", "1"), ("Authorization", "Bearer t0ken")]);
    assert!(warnings(&loaded).join("\n").contains("replaces the header"));
    assert_eq!(entry(&loaded, "s").transport, "http");
}

#[test]
fn an_unset_or_empty_bearer_token_disables_the_entry_and_names_the_variable() {
    for value in [None, Some(""), Some("  ")] {
        let mut desk = Desk::new();
        if let Some(value) = value {
            desk.set("TOK", value);
        }
        desk.user(&one(r#"{"url": "http://h/", "bearer_token_env": "TOK"}"#));
        let errors = errors(&desk.load());
        assert!(errors[0].contains("bearer_token_env: needs the variable TOK"), "{errors:?}");
    }
    assert!(
        refused(r#"{"url": "http://h/", "bearer_token_env": "sk-literal-token"}"#).contains("not the name")
    );
}

#[test]
fn addresses_must_be_absolute_and_http() {
    for (url, part) in [
        ("ftp://h/", "http://"),
        ("h.example/mcp", "http://"),
        ("https:h.example", "http://"),
        ("https://", "not an address"),
        ("https://h /x", "a space"),
        ("https://h\\\\x", "a backslash"),
        ("https://[::1/x", "not an address"),
        ("", "http://"),
    ] {
        let text = refused(&format!("{{\"url\": \"{url}\"}}"));
        assert!(text.contains("url: ") && text.contains(part), "{url}: {text}");
    }
    assert!(matches!(transport(r#"{"url": "HTTP://[::1]:80/x?y=z"}"#), TransportSpec::Http { .. }));
}

#[test]
fn headers_with_line_breaks_or_odd_names_are_refused() {
    for (headers, part) in [
        (r#"{"X": "a\r\nEvil: b"}"#, "line break"),
        (r#"{"X": "a\nb"}"#, "line break"),
        (r#"{"X\r\nEvil": "a"}"#, "name of a header"),
        (r#"{"X Y": "a"}"#, "name of a header"),
        (r#"{"": "a"}"#, "name of a header"),
        (r#"{"X": "caf\u00e9"}"#, "no header may have"),
        (r#"{"X": "a", "x": "b"}"#, "twice"),
        (r#"{"X": 1}"#, "must be a string, not a number"),
        (r#"["X: a"]"#, "must be an object of strings"),
    ] {
        let text = refused(&format!("{{\"url\": \"http://h/\", \"headers\": {headers}}}"));
        assert!(text.contains(part) && text.contains("headers"), "{headers}: {text}");
    }
    let mut desk = Desk::new();
    desk.set("EVIL", "a\r\nX: b");
    desk.user(&one(r#"{"url": "http://h/", "headers": {"Y": "${EVIL}"}, "bearer_token_env": "EVIL"}"#));
    assert_eq!(errors(&desk.load()).len(), 2);
}

#[test]
fn headers_of_the_transport_itself_are_ignored_with_a_warning() {
    let loaded = load_one(r#"{"url": "http://h/", "headers": {"Content-Type": "x", "Mcp-Session-Id": "1"}}"#);
    assert!(
        matches!(&spec(&loaded, "s").transport, TransportSpec::Http { headers, .. } if headers.is_empty())
    );
    assert_eq!(warnings(&loaded).len(), 2);
}

#[test]
fn transport_and_type_are_optional_and_must_agree() {
    for word in ["http", "streamable-http", "streamableHttp"] {
        for key in ["transport", "type"] {
            let text = format!("{{\"url\": \"http://h/\", \"{key}\": \"{word}\"}}");
            assert!(matches!(transport(&text), TransportSpec::Http { .. }), "{text}");
        }
    }
    assert!(matches!(transport(r#"{"command": "x", "type": "stdio"}"#), TransportSpec::Stdio { .. }));
    assert!(refused(r#"{"command": "x", "type": "http"}"#).contains("an address is wanted"));
    assert!(refused(r#"{"url": "http://h/", "type": "stdio"}"#).contains("a program is wanted"));
    assert!(refused(r#"{"command": "x", "transport": "websocket"}"#).contains("one of stdio, http"));
    assert!(refused(r#"{"command": "x", "transport": "Stdio"}"#).contains("did you mean \"stdio\""));
}

#[test]
fn the_old_sse_transport_is_recognised_and_told() {
    let loaded = load_one(r#"{"url": "http://h/sse", "type": "sse"}"#);
    assert!(matches!(spec(&loaded, "s").transport, TransportSpec::LegacySse { .. }));
    assert_eq!(entry(&loaded, "s").transport, "sse");
    assert!(warnings(&loaded)[0].contains("not spoken yet"));
}

#[test]
fn keys_of_the_other_transport_warn() {
    let text = warnings(&load_one(r#"{"command": "x", "headers": {}, "oauth": true}"#)).join("\n");
    assert!(text.contains("headers: has no effect") && text.contains("oauth: has no effect"), "{text}");
    let text =
        warnings(&load_one(r#"{"url": "http://h/", "args": [], "oauth": {}, "allowHostProcess": true}"#));
    assert_eq!(text.len(), 3, "{text:?}");
    let text = text.join("\n");
    assert!(text.contains("args: has no effect") && text.contains("logging in is not available"), "{text}");
}

/// B116
#[test]
fn a_missing_working_folder_is_an_error_that_names_the_path() {
    let desk = Desk::new();
    desk.user(&one(r#"{"command": "x", "cwd": "./gone"}"#));
    let errors = errors(&desk.load());
    assert!(
        errors[0].contains("no such folder: ") && errors[0].contains("home/.callboard/./gone"),
        "{errors:?}"
    );
}

#[test]
fn tilde_means_home_in_command_and_cwd_alone() {
    let desk = Desk::new();
    desk.write("home/bin/.keep", "");
    desk.user(&one(r#"{"command": "~/bin/x", "cwd": "~", "args": ["~/y"]}"#));
    let loaded = desk.load();
    let TransportSpec::Stdio { command, args, cwd, .. } = spec(&loaded, "s").transport.clone() else {
        panic!()
    };
    assert_eq!(Path::new(&command), desk.path("home/bin/x"));
    assert_eq!(cwd.unwrap(), desk.path("home"));
    assert_eq!(args[0].reveal(), "~/y");
}

#[test]
fn relative_folders_of_inline_entries_are_those_of_the_project() {
    let mut desk = Desk::new();
    desk.write("project/tools/.keep", "");
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"s": {"command": "x", "cwd": "tools"}, "t": {"command": "./y"}}"#);
    let loaded = desk.load();
    let TransportSpec::Stdio { cwd, .. } = spec(&loaded, "s").transport.clone() else { panic!() };
    assert_eq!(cwd.unwrap(), desk.path("project/tools"));
    assert_eq!(Path::new(&super::desk::command(&loaded, "t")), desk.path("project/./y"));
}

/// B113
#[test]
fn variables_expand_in_every_field_and_once() {
    let mut desk = Desk::new();
    desk.write("project/v1/.keep", "");
    desk.set("TOK", "va${NEST}lue").set("NEST", "never").set("DIR", "v1").set("HOST", "h.example");
    desk.set(
        "CALLBOARD_MCP_SERVERS",
        r#"{"p": {"command": "run-${DIR}", "args": ["--t=${TOK}", "$$${DIR}", "${NO:-d}"], "env": {"T": "${TOK}"}, "cwd": "${DIR}"},
            "u": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${DIR}"}}}"#,
    );
    let loaded = desk.load();
    let TransportSpec::Stdio { command, args, env, cwd } = spec(&loaded, "p").transport.clone() else {
        panic!()
    };
    assert_eq!(command, "run-v1");
    assert_eq!(args.iter().map(|a| a.reveal()).collect::<Vec<_>>(), ["--t=va${NEST}lue", "$v1", "d"]);
    assert_eq!(env[0].1.reveal(), "va${NEST}lue");
    assert_eq!(cwd.unwrap(), desk.path("project/v1"));
    let TransportSpec::Http { url, headers } = spec(&loaded, "u").transport.clone() else { panic!() };
    assert_eq!((url.reveal(), headers[0].1.reveal()), ("https://h.example/mcp", "Bearer v1"));
}

/// B113
#[test]
fn an_unset_variable_disables_its_entry_alone_and_names_field_and_variable() {
    let mut desk = Desk::new();
    desk.set("GOOD", "s3cr3t-value");
    desk.set(
        "CALLBOARD_MCP_SERVERS",
        r#"{"h": {"url": "http://x/", "headers": {"Authorization": "Bearer ${TOK}", "X": "${GOOD}"}},
            "e": {"command": "x", "env": {"A.B": "${TOK}"}, "args": ["${ALSO}"]},
            "b": {"command": "x", "args": ["${unclosed"]},
            "v": {"command": "x", "args": ["${env:HOME}"]},
            "k": {"command": "x", "env": {"K": "${secret:NONE}"}},
            "fine": {"command": "x"}}"#,
    );
    let loaded = desk.load();
    let issue = |name: &str, index: usize| entry(&loaded, name).issues[index].to_string();
    assert!(issue("h", 0).contains("h.headers.Authorization: needs the variable TOK"), "{}", issue("h", 0));
    assert!(issue("e", 0).contains("e.args[0]: needs the variable ALSO"), "{}", issue("e", 0));
    assert!(issue("e", 1).contains("e.env[\"A.B\"]: needs the variable TOK"), "{}", issue("e", 1));
    assert!(issue("b", 0).contains("without \"}\""));
    assert!(issue("v", 0).contains("write ${HOME}"), "{}", issue("v", 0));
    assert!(issue("k", 0).contains("callboard secret set NONE"));
    assert!(matches!(entry(&loaded, "fine").state, EntryState::Ready(_)));
    assert!(!errors(&loaded).join("").contains("s3cr3t"));
}
