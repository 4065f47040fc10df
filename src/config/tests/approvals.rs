//! Entries of a project: nothing of them happens before the user approved them, and an
//! approval covers exactly what was shown.

use super::desk::{Desk, command, entry, errors, one, spec};
use crate::config::approvals::{self, RequestError};
use crate::config::spec::{EntryState, Scope, TransportSpec};

#[cfg(unix)]
fn program(desk: &Desk, name: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    desk.write(name, "#!/bin/sh\n");
    std::fs::set_permissions(desk.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// B131
#[test]
fn an_unapproved_entry_is_pending_and_nothing_of_it_is_expanded() {
    let mut desk = Desk::new();
    desk.set("TOK", "canary-token-value");
    desk.project(&one(r#"{"command": "${UNSET}", "args": ["${TOK}"], "cwd": "/no/such/folder"}"#));
    let loaded = desk.load();
    let shown = entry(&loaded, "s");
    assert!(matches!(shown.state, EntryState::Pending));
    assert!(errors(&loaded).is_empty(), "{:?}", errors(&loaded));
    assert!(shown.issues[0].message.contains("waits for approval"));
    assert_eq!(shown.issues[0].fix.as_deref(), Some("callboard mcp approve s"));
    assert_eq!(shown.summary, "${UNSET} ${TOK}");
    assert!(loaded.servers.secrets.is_empty());
    // Reading wrote nothing either.
    assert_eq!(std::fs::read_dir(desk.path("home/.callboard")).unwrap().count(), 0);
}

/// B131
#[test]
fn a_pending_entry_neither_shadows_nor_disables_the_users_entry() {
    for entry_text in [r#"{"command": "theirs"}"#, r#"{"enabled": false}"#, r#"{"command": 1}"#] {
        let desk = Desk::new();
        desk.user(&one(r#"{"command": "mine"}"#));
        desk.project(&one(entry_text));
        let loaded = desk.load();
        assert_eq!(command(&loaded, "s"), "mine");
        assert!(entry(&loaded, "s").shadows.is_empty());
        assert!(entry(&loaded, "s").issues.iter().any(|i| i.message.contains("waits for approval")));
        assert_eq!(loaded.servers.pending.len(), 1);
        assert_eq!(loaded.servers.pending[0].source.scope, Scope::Project);
        assert!(!matches!(loaded.servers.pending[0].state, EntryState::Ready(_)));
    }
}

/// B131
#[test]
fn an_approved_entry_runs_and_an_edit_makes_it_pending_again() {
    let desk = Desk::new();
    desk.user(&one(r#"{"command": "mine"}"#));
    desk.project(&one(r#"{"command": "theirs", "args": ["a"]}"#));
    desk.approve("s");
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "theirs");
    assert_eq!(entry(&loaded, "s").shadows[0].scope, Scope::User);
    assert!(loaded.servers.pending.is_empty());
    for edited in [
        r#"{"command": "theirs", "args": ["b"]}"#,
        r#"{"command": "theirs", "args": ["a"], "trust": "trusted"}"#,
        r#"{"command": "theirs", "args": ["a"], "env": {"A": "1"}}"#,
        r#"{"command": "theirs", "args": ["a"], "description": "harmless"}"#,
    ] {
        desk.project(&one(edited));
        let loaded = desk.load();
        assert_eq!(command(&loaded, "s"), "mine", "{edited}");
        let reason = &loaded.servers.pending[0].issues.last().unwrap().message;
        assert!(reason.contains("edited since it was approved"), "{reason}");
    }
    // Layout, comments and key order are no edit.
    desk.project("// hi\n{\"mcpServers\": {\"s\": {\n\"args\": [\"a\"], \"command\": \"theirs\" /* x */,}}}");
    assert_eq!(command(&desk.load(), "s"), "theirs");
}

#[test]
#[cfg(unix)]
fn an_approval_is_bound_to_the_program_that_the_command_meant() {
    let mut desk = Desk::new();
    for name in ["one/tool", "two/tool"] {
        program(&desk, name);
    }
    let path = |folders: [&str; 2]| folders.map(|f| desk.path(f).display().to_string()).join(":");
    let (first, second) = (path(["one", "two"]), path(["two", "one"]));
    desk.set("PATH", &first);
    desk.project(&one(r#"{"command": "tool"}"#));
    desk.approve("s");
    // It runs by the path that was approved, whatever PATH says later.
    assert_eq!(command(&desk.load(), "s"), desk.path("one/tool").display().to_string());
    desk.set("PATH", &second);
    let loaded = desk.load();
    assert!(matches!(entry(&loaded, "s").state, EntryState::Pending));
    let reason = &entry(&loaded, "s").issues[0].message;
    assert!(reason.contains("one/tool") && reason.contains("two/tool"), "{reason}");
}

#[test]
#[cfg(unix)]
fn a_relative_folder_in_path_can_not_smuggle_a_program_in() {
    let mut desk = Desk::new();
    desk.set("PATH", "bin:/usr/nowhere");
    desk.project(&one(r#"{"command": "tool"}"#));
    desk.approve("s");
    assert_eq!(command(&desk.load(), "s"), "tool");
    program(&desk, "project/bin/tool");
    let loaded = desk.load();
    assert!(matches!(entry(&loaded, "s").state, EntryState::Pending));
    desk.approve("s");
    assert_eq!(command(&desk.load(), "s"), desk.path("project/bin/tool").display().to_string());
}

#[test]
fn an_approval_counts_for_one_name_in_one_project_only() {
    let desk = Desk::new();
    let text = r#"{"mcpServers": {"s": {"command": "x"}, "t": {"command": "x"}}}"#;
    desk.project(text);
    desk.write("other/.mcp.json", text);
    desk.approve("s");
    let loaded = desk.load();
    assert!(matches!(entry(&loaded, "s").state, EntryState::Ready(_)));
    assert!(matches!(entry(&loaded, "t").state, EntryState::Pending));
    let mut there = desk.options.clone();
    there.cwd = desk.path("other");
    assert!(matches!(entry(&crate::config::load::load(&there), "s").state, EntryState::Pending));
}

#[test]
fn revoking_makes_an_entry_pending_again() {
    let desk = Desk::new();
    desk.project(&one(r#"{"command": "x"}"#));
    desk.approve("s");
    let loaded = desk.load();
    let home = loaded.home.as_deref().unwrap();
    assert!(approvals::revoke(home, &loaded.project_root, "s").unwrap());
    assert!(!approvals::revoke(home, &loaded.project_root, "s").unwrap());
    assert!(matches!(entry(&desk.load(), "s").state, EntryState::Pending));
}

#[test]
fn a_request_shows_what_an_approval_would_allow() {
    let mut desk = Desk::new();
    desk.set("TOK", "canary-token-value");
    desk.project(&one(
        r#"{"command": "npx", "args": ["${A:-x}", "--api-key=literal-canary"], "env": {"T": "${TOK}", "L": "literal-canary", "K": "${secret:KEY}"},
            "trust": "trusted", "allowedTools": ["a*"], "allowAllTools": true, "env_passthrough": ["SSH_AUTH_SOCK"], "sandbox": "off"}"#,
    ));
    let loaded = desk.load();
    let request = approvals::request(&loaded, &desk.options, "s").unwrap();
    assert_eq!(request.reads, ["A", "SSH_AUTH_SOCK", "TOK", "secret:KEY"]);
    assert_eq!(
        request.grants,
        [
            "trust: trusted",
            "allowedTools: a*",
            "allowAllTools",
            "env_passthrough: SSH_AUTH_SOCK",
            "sandbox: \"off\""
        ]
    );
    assert!(!request.approved);
    let shown = format!("{request:?}");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("${TOK}") && shown.contains("--api-key=[redacted]"), "{shown}");
    desk.approve("s");
    let loaded = desk.load();
    assert!(approvals::request(&loaded, &desk.options, "s").unwrap().approved);
}

#[test]
fn only_usable_entries_of_the_project_can_be_approved() {
    let desk = Desk::new();
    desk.user(r#"{"mcpServers": {"mine": {"command": "x"}}}"#);
    desk.project(&one(r#"{"command": 1}"#));
    let loaded = desk.load();
    let request = |name| approvals::request(&loaded, &desk.options, name).unwrap_err();
    assert!(matches!(request("gone"), RequestError::Unknown(_)));
    assert!(matches!(request("mine"), RequestError::NotOfProject(..)));
    let invalid = request("s");
    assert!(invalid.to_string().contains("s.command: must be a string"), "{invalid}");
}

#[test]
fn a_broken_file_of_approvals_approves_nothing_and_is_kept() {
    let desk = Desk::new();
    desk.project(&one(r#"{"command": "x"}"#));
    desk.approve("s");
    desk.write("home/.callboard/approvals.json", "{\"version\": 1, \"approvals\": [");
    let loaded = desk.load();
    assert!(matches!(entry(&loaded, "s").state, EntryState::Pending));
    assert!(errors(&loaded)[0].contains("nothing counts as approved"));
    let request = approvals::request(&loaded, &desk.options, "s").unwrap();
    assert!(approvals::approve(loaded.home.as_deref().unwrap(), request.approval("now")).is_err());
    let kept = std::fs::read_to_string(desk.path("home/.callboard/approvals.json")).unwrap();
    assert!(kept.ends_with('['));
}

#[test]
fn a_higher_source_of_the_user_beats_a_waiting_entry() {
    let mut desk = Desk::new();
    desk.project(&one(r#"{"command": "theirs"}"#));
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"s": {"command": "mine"}}"#);
    let loaded = desk.load();
    assert_eq!(command(&loaded, "s"), "mine");
    assert_eq!(entry(&loaded, "s").shadows[0].scope, Scope::Project);
    assert!(loaded.servers.pending.is_empty());
}

#[test]
fn an_approved_program_runs_in_the_root_of_its_project() {
    let desk = Desk::new();
    desk.write("project/sub/.keep", "");
    desk.write(
        "project/.callboard/mcp.json",
        r#"{"mcpServers": {"s": {"command": "./run"}, "t": {"command": "./run", "cwd": "sub"}}}"#,
    );
    desk.approve("s");
    desk.approve("t");
    let loaded = desk.load();
    for (name, folder) in [("s", "project"), ("t", "project/sub")] {
        let TransportSpec::Stdio { command, cwd, .. } = spec(&loaded, name).transport.clone() else {
            panic!()
        };
        assert_eq!(cwd.unwrap(), desk.path(folder));
        assert!(command.starts_with(&desk.path(folder).display().to_string()), "{command}");
    }
}
