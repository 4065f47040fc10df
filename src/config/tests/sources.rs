//! The sources: their order, their places, and what happens when one of them is broken.

use proptest::prelude::*;

use super::desk::{Desk, command, entry, errors, one, spec, warnings};
use crate::config::host::HostSettings;
use crate::config::spec::{EntryState, Issue, IssueCode, Scope, Severity, TransportSpec};

#[test]
fn nothing_configured_is_no_servers_and_no_issue() {
    let loaded = Desk::new().load();
    assert!(loaded.servers.entries.is_empty());
    assert_eq!(loaded.issues().count(), 0);
    assert_eq!(loaded.settings, HostSettings::default());
}

#[test]
fn later_sources_win_per_name_whole_entry_at_a_time() {
    let mut desk = Desk::new();
    let all = |command: &str, names: &[&str]| {
        let entries: Vec<String> =
            names.iter().map(|n| format!("{n:?}: {{\"command\": {command:?}}}")).collect();
        format!("{{\"mcpServers\": {{{}}}}}", entries.join(","))
    };
    desk.user(&all("user", &["a", "b", "c", "d", "e", "f", "g"]));
    desk.write("project/.mcp.json", &all("project", &["b", "c", "d", "e", "f", "g"]));
    desk.write("project/.callboard/mcp.json", &all("project2", &["c", "d", "e", "f", "g"]));
    desk.write("one.json", &all("envfile", &["d", "e", "f", "g"]));
    desk.write("flag.json", &all("flag", &["f", "g"]));
    desk.write("managed/mcp.json", &all("managed", &["g"]));
    let one = desk.path("one.json").display().to_string();
    desk.set("CALLBOARD_MCP_CONFIG", &one);
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"e": {"command": "inline"}, "f": {"command": "inline"}}"#);
    desk.options.config_files = vec![desk.path("flag.json")];
    for name in ["b", "c"] {
        desk.approve(name);
    }
    let loaded = desk.load();
    let seen: Vec<String> = ["a", "d", "e", "f", "g"].iter().map(|n| command(&loaded, n)).collect();
    assert_eq!(seen, ["user", "envfile", "inline", "flag", "managed"]);
    assert_eq!(entry(&loaded, "g").source.scope, Scope::Managed);
    let hidden: Vec<Scope> = entry(&loaded, "f").shadows.iter().map(|s| s.scope).collect();
    assert_eq!(hidden, [Scope::EnvInline, Scope::EnvFile, Scope::Project, Scope::Project, Scope::User]);
    assert_eq!(
        warnings(&loaded).iter().filter(|w| w.contains("managed entries can't be overridden")).count(),
        5
    );
}

#[test]
fn removing_an_override_reveals_the_lower_entry() {
    let mut desk = Desk::new();
    desk.user(&one(r#"{"command": "user"}"#));
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"s": {"command": "inline"}}"#);
    assert_eq!(command(&desk.load(), "s"), "inline");
    desk.set("CALLBOARD_MCP_SERVERS", "");
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "user");
    assert!(entry(&loaded, "s").shadows.is_empty());
}

/// B115
#[test]
fn files_merge_by_name_and_show_source_and_shadow() {
    let desk = Desk::new();
    desk.user(r#"{"mcpServers": {"a": {"command": "ua"}, "b": {"command": "ub", "env": {"X": "lower"}}}}"#);
    desk.project(r#"{"mcpServers": {"b": {"command": "pb"}, "c": {"command": "pc"}}}"#);
    desk.approve("b");
    desk.approve("c");
    let loaded = desk.load();
    let seen: Vec<(String, Scope, Vec<Scope>)> = loaded
        .servers
        .entries
        .iter()
        .map(|e| (e.id.to_string(), e.source.scope, e.shadows.iter().map(|s| s.scope).collect()))
        .collect();
    assert_eq!(
        seen,
        [
            ("a".into(), Scope::User, vec![]),
            ("b".into(), Scope::Project, vec![Scope::User]),
            ("c".into(), Scope::Project, vec![]),
        ]
    );
    // Whole entries replace each other: nothing of the lower one is mixed in.
    assert!(matches!(&spec(&loaded, "b").transport, TransportSpec::Stdio { env, .. } if env.is_empty()));
    assert!(entry(&loaded, "b").source.origin.ends_with("project/.mcp.json"));
}

/// B112
#[test]
fn comments_trailing_commas_and_a_bom_are_accepted() {
    let desk = Desk::new();
    desk.user("\u{feff}// mine\n{\n  /* all */ \"mcpServers\": {\n    \"s\": { \"command\": \"x\", \"args\": [\"//no\", \"b\",], }, // end\n  },\n}\n");
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "x");
    assert_eq!(loaded.issues().count(), 0);
}

/// B112
#[test]
fn a_broken_file_is_one_error_with_its_place_and_the_others_still_load() {
    let desk = Desk::new();
    desk.user("{\n  \"mcpServers\": {\n    \"s\": {\"command\": \"x\"}\n");
    desk.project(&one(r#"{"command": "x"}"#));
    let loaded = desk.load();
    let errors = errors(&loaded);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("home/.callboard/mcp.json:2:"), "{}", errors[0]);
    assert!(matches!(entry(&loaded, "s").state, EntryState::Pending));
}

#[test]
fn syntax_errors_point_at_line_and_column() {
    for (text, place) in [
        ("{\"mcpServers\": {\"a\": }}", ":1:"),
        ("{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n    \"b\": {}\n  }\n}", ":3:26"),
        ("\u{feff}{\n x}", ":2:2"),
        ("[1]", ":1:1"),
        ("{\"mcpServers\": []}", ":1:16"),
    ] {
        let desk = Desk::new();
        desk.user(text);
        let errors = errors(&desk.load());
        assert!(errors.len() == 1 && errors[0].contains(&format!("mcp.json{place}")), "{text}: {errors:?}");
    }
}

#[test]
fn an_invalid_override_is_shown_and_never_falls_back() {
    let mut desk = Desk::new();
    desk.user(&one(r#"{"command": "user"}"#));
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"s": {"command": 7}, "t": {"command": "fine"}}"#);
    let loaded = desk.load();
    let shown = entry(&loaded, "s");
    assert!(matches!(shown.state, EntryState::Invalid));
    assert_eq!(shown.transport, "invalid");
    assert_eq!(shown.shadows.len(), 1);
    assert_eq!(shown.shadows[0].scope, Scope::User);
    assert_eq!(command(&loaded, "t"), "fine");
}

#[test]
fn a_disabled_entry_in_a_higher_source_turns_the_lower_one_off() {
    for off in [r#"{"enabled": false}"#, r#"{"disabled": true}"#, r#"{"command": "x", "enabled": false}"#] {
        let mut desk = Desk::new();
        desk.user(&one(r#"{"command": "user"}"#));
        desk.set("CALLBOARD_MCP_SERVERS", &format!("{{\"s\": {off}}}"));
        let loaded = desk.load();
        assert!(matches!(entry(&loaded, "s").state, EntryState::Disabled), "{off}");
        assert!(errors(&loaded).is_empty());
    }
}

#[test]
fn both_map_shapes_are_read_and_the_first_one_counts() {
    let desk = Desk::new();
    desk.user(r#"{"servers": {"a": {"command": "sa"}, "b": {"command": "sb"}}, "mcpServers": {"a": {"command": "ma"}}}"#);
    let loaded = desk.load();
    assert_eq!((command(&loaded, "a"), command(&loaded, "b")), ("ma".into(), "sb".into()));
    let warnings = warnings(&loaded);
    assert!(warnings.iter().any(|w| w.contains("both are read")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("also defined under")), "{warnings:?}");
    let desk = Desk::new();
    desk.user(r#"{"servers": {"a": {"command": "x"}}, "inputs": [], "$schema": "x"}"#);
    assert_eq!(desk.load().issues().count(), 0);
}

#[test]
fn a_bare_root_map_is_read_inline_only() {
    let mut desk = Desk::new();
    desk.user(r#"{"a": {"command": "x"}}"#);
    let errors_of_file = errors(&desk.load());
    assert!(errors_of_file[0].contains("mcpServers"), "{errors_of_file:?}");
    desk.user("{}");
    desk.set("CALLBOARD_MCP_CONFIG_JSON", r#"{"b": {"command": "bare"}}"#);
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"servers": {"command": "named so"}, "c": {"url": "http://h/"}}"#);
    let loaded = desk.load();
    assert_eq!(command(&loaded, "b"), "bare");
    assert_eq!(command(&loaded, "servers"), "named so");
    assert!(matches!(spec(&loaded, "c").transport, TransportSpec::Http { .. }));
    desk.set("CALLBOARD_MCP_CONFIG_JSON", r#"{"mcpServers": {"b": {"command": "whole"}}}"#);
    assert_eq!(command(&desk.load(), "b"), "whole");
}

#[test]
fn unknown_keys_warn_with_the_nearest_known_one() {
    let desk = Desk::new();
    desk.user(
        r#"{"mcpServer": {}, "mcpServers": {"s": {"command": "x", "argz": [], "autoApprove": [], "breaker": {"failure": 1}}}}"#,
    );
    let loaded = desk.load();
    assert!(matches!(entry(&loaded, "s").state, EntryState::Ready(_)));
    let text = warnings(&loaded).join("\n");
    for part in [
        "mcpServer: unknown key",
        "did you mean \"args\"",
        "write \"allowedTools\"",
        "did you mean \"failures\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn named_files_must_exist_and_default_places_need_not() {
    let mut desk = Desk::new();
    desk.write("here.json", &one(r#"{"command": "here"}"#));
    desk.set("CALLBOARD_MCP_CONFIG", "../here.json,../gone.json");
    desk.options.config_files = vec!["gone2.json".into()];
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "here");
    let errors = errors(&loaded);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors.iter().all(|e| e.contains("no such file")));
    assert!(
        errors.iter().any(|e| e.contains("gone.json")) && errors.iter().any(|e| e.contains("gone2.json"))
    );
}

#[test]
fn paths_in_the_environment_are_split_and_tilde_means_home() {
    let mut desk = Desk::new();
    desk.write("home/one.json", r#"{"mcpServers": {"a": {"command": "1"}, "b": {"command": "1"}}}"#);
    desk.write("home/two.json", r#"{"mcpServers": {"b": {"command": "2"}, "c": {"command": "2"}}}"#);
    desk.write("home/three.json", r#"{"mcpServers": {"c": {"command": "3"}}}"#);
    desk.set("CALLBOARD_MCP_CONFIG", " ~/one.json:~/two.json , ~/three.json,");
    let loaded = desk.load();
    assert_eq!([command(&loaded, "a"), command(&loaded, "b"), command(&loaded, "c")], ["1", "2", "3"]);
    assert_eq!(loaded.issues().count(), 0);
}

#[test]
fn strict_reads_the_named_files_and_managed_ones_alone() {
    let mut desk = Desk::new();
    desk.user(r#"{"mcpServers": {"u": {"command": "x"}}}"#);
    desk.project(r#"{"mcpServers": {"p": {"command": "x"}}}"#);
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"i": {"command": "x"}}"#);
    desk.write("f.json", r#"{"mcpServers": {"f": {"command": "x"}}}"#);
    desk.write("managed/mcp.json", r#"{"mcpServers": {"m": {"command": "x"}}}"#);
    desk.options.config_files = vec!["../f.json".into()];
    desk.options.strict = true;
    let loaded = desk.load();
    let names: Vec<&str> = loaded.servers.entries.iter().map(|e| e.id.as_str()).collect();
    assert_eq!(names, ["f", "m"]);
}

#[test]
fn a_file_that_is_no_file_or_too_large_or_no_text_is_an_error_of_its_own() {
    let mut desk = Desk::new();
    std::fs::create_dir(desk.path("folder.json")).unwrap();
    std::fs::write(desk.path("latin1.json"), b"{\"mcpServers\": {\"\xe4\": {}}}").unwrap();
    desk.write("huge.json", &format!("{{}}{}", " ".repeat(2_000_000)));
    desk.options.config_files = ["folder.json", "latin1.json", "huge.json"].map(|f| desk.path(f)).to_vec();
    desk.user(&one(r#"{"command": "fine"}"#));
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "fine");
    let text = errors(&loaded).join("\n");
    for part in [
        "folder.json: not a regular file",
        "latin1.json: not UTF-8",
        "huge.json: it has 2000002 bytes, and at most 2000000 are read",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_in_place_of_a_file_does_not_block() {
    let desk = Desk::new();
    let path = desk.path("home/.callboard/mcp.json");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    assert!(errors(&desk.load())[0].contains("not a regular file"));
}

#[test]
fn the_project_root_is_the_nearest_marked_folder() {
    let mut desk = Desk::new();
    desk.write("project/deep/er/.keep", "");
    desk.options.cwd = desk.path("project/deep/er");
    assert_eq!(desk.options.project_root(), desk.path("project"));
    desk.write("project/deep/.mcp.json", "{}");
    assert_eq!(desk.options.project_root(), desk.path("project/deep"));
    desk.write("project/deep/er/.callboard/mcp.json", "{}");
    assert_eq!(desk.options.project_root(), desk.path("project/deep/er"));
}

#[test]
fn the_users_own_folder_never_counts_as_that_of_a_project() {
    let mut desk = Desk::new();
    desk.user(&one(r#"{"command": "mine"}"#));
    desk.write("home/plain/.keep", "");
    desk.options.cwd = desk.path("home/plain");
    assert_eq!(desk.options.project_root(), desk.path("home/plain"));
    // Even in a home that is itself a repository, the own file is read once, as the user's.
    desk.write("home/.git/HEAD", "");
    assert_eq!(desk.options.project_root(), desk.path("home"));
    let loaded = desk.load();
    assert_eq!(entry(&loaded, "s").source.scope, Scope::User);
    assert!(loaded.servers.pending.is_empty());
}

#[test]
fn without_a_home_nothing_of_a_project_is_taken_for_the_users_own() {
    for home in ["", "relative"] {
        let mut desk = Desk::new();
        desk.set("HOME", home);
        desk.write("project/.callboard/mcp.json", &one(r#"{"command": "theirs"}"#));
        desk.write("project/relative/.callboard/mcp.json", &one(r#"{"command": "theirs too"}"#));
        let loaded = desk.load();
        assert!(loaded.home.is_err(), "{:?}", loaded.home);
        let told: Vec<&Issue> = loaded.issues().filter(|issue| issue.code == IssueCode::NoHome).collect();
        assert_eq!((told.len(), told[0].severity), (1, Severity::Warning), "said once: {told:?}");
        assert!(told[0].fix.as_deref().unwrap().contains("absolute path"));
        assert!(matches!(entry(&loaded, "s").state, EntryState::Pending));
    }
}

#[test]
fn a_relative_callboard_home_is_refused_and_nothing_of_the_user_is_read() {
    let mut desk = Desk::new();
    desk.user(&one(r#"{"command": "mine"}"#));
    desk.write("project/own/mcp.json", &one(r#"{"command": "theirs"}"#));
    desk.set("CALLBOARD_HOME", "own");
    let loaded = desk.load();
    assert!(loaded.servers.entries.is_empty(), "{:?}", loaded.servers);
    let errors = errors(&loaded);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("CALLBOARD_HOME: holds a relative path"), "{errors:?}");
}

#[test]
fn callboard_home_moves_the_users_files() {
    let mut desk = Desk::new();
    desk.write("elsewhere/mcp.json", &one(r#"{"command": "moved"}"#));
    let home = desk.path("elsewhere").display().to_string();
    desk.set("CALLBOARD_HOME", &home);
    assert_eq!(command(&desk.load(), "s"), "moved");
}

#[test]
fn a_project_can_be_left_unread() {
    let mut desk = Desk::new();
    desk.project(&one(r#"{"command": "x"}"#));
    desk.options.project = false;
    assert!(desk.load().servers.entries.is_empty());
}

#[test]
fn a_managed_policy_that_is_not_applied_is_said_loudly() {
    let desk = Desk::new();
    desk.write("managed/policy.toml", "");
    assert!(errors(&desk.load())[0].contains("policy.toml"));
}

#[test]
fn the_same_name_twice_in_one_file_counts_last_and_warns() {
    let desk = Desk::new();
    desk.user(
        r#"{"mcpServers": {"s": {"command": "one"}, "s": {"command": "two", "args": [], "args": ["x"]}}}"#,
    );
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "two");
    let text = warnings(&loaded).join("\n");
    assert!(text.contains("defined twice in this file") && text.contains("args: written twice"), "{text}");
}

#[test]
fn the_example_loads_without_a_single_issue() {
    let mut desk = Desk::new();
    desk.set("TICKETS_TOKEN", "t0ken");
    desk.user(include_str!("../../../config/example.mcp.json"));
    let loaded = desk.load();
    assert_eq!(loaded.issues().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    let ready = loaded.servers.entries.iter().filter(|e| matches!(e.state, EntryState::Ready(_))).count();
    assert_eq!((ready, loaded.servers.entries.len()), (3, 4));
}

proptest! {
    /// Whatever stands in the files and variables: loading ends, without a panic, every issue
    /// has a text, and the user's good entry is there.
    #[test]
    fn no_content_of_other_sources_harms_a_good_entry(
        project in ".{0,60}", inline in "[{}\\[\\]:,\"a-c/* ]{0,40}", toml in "[a-z.=\\[\\]\" \n0-9]{0,40}",
    ) {
        let mut desk = Desk::new();
        desk.user(r#"{"mcpServers": {"good": {"command": "x"}}}"#);
        desk.project(&project).write("project/.callboard/callboard.toml", &toml);
        desk.set("CALLBOARD_MCP_CONFIG_JSON", &inline).set("CALLBOARD_MCP_SERVERS", &project);
        let loaded = desk.load();
        prop_assert!(matches!(entry(&loaded, "good").state, EntryState::Ready(_)));
        prop_assert!(loaded.issues().all(|issue| !issue.message.is_empty()));
        prop_assert!(loaded.servers.entries.is_sorted_by(|a, b| a.id < b.id), "one entry per name, sorted");
    }
}

/// Every field that reads a variable says which one is not UTF-8, and none calls it unset.
#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_named_with_its_field_and_never_called_unset() {
    use std::os::unix::ffi::OsStringExt as _;
    for (entry, field) in [
        (r#"{"command": "x", "env": {"K": "${BAD}"}}"#, "mcpServers.s.env.K"),
        (r#"{"command": "x", "env": {"K": "${BAD:-other}"}}"#, "mcpServers.s.env.K"),
        (r#"{"command": "x", "args": ["a", "${BAD}"]}"#, "mcpServers.s.args[1]"),
        (r#"{"command": "${BAD}"}"#, "mcpServers.s.command"),
        (r#"{"command": "x", "cwd": "${BAD}"}"#, "mcpServers.s.cwd"),
        (r#"{"url": "https://h/${BAD}"}"#, "mcpServers.s.url"),
        (r#"{"url": "https://h/", "headers": {"K": "${BAD}"}}"#, "mcpServers.s.headers.K"),
        (r#"{"url": "https://h/", "bearer_token_env": "BAD"}"#, "mcpServers.s.bearer_token_env"),
    ] {
        let mut desk = Desk::new();
        desk.user(&one(entry));
        desk.options.env.set_os("BAD".into(), std::ffi::OsString::from_vec(b"a\xffb".to_vec()));
        let loaded = desk.load();
        let told: Vec<&Issue> = loaded.issues().collect();
        assert_eq!(told.len(), 1, "{entry}: {told:?}");
        assert_eq!((told[0].code, told[0].path.as_str()), (IssueCode::NotUtf8, field));
        assert_eq!(told[0].message, "needs the variable BAD, whose value is not UTF-8");
        assert!(told[0].fix.as_deref().unwrap().contains("set BAD to a text in UTF-8"));
    }
}
