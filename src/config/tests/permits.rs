//! What may start and what may run unasked: the spawn settings, the allow rules as they are loaded,
//! and the ways in which a project could borrow what was given to something else.

use std::path::Path;

use super::desk::{Desk, command, entry, errors, one, warnings};
use crate::config::host::ProjectRule;
use crate::config::host_keys::HOST_KEYS;
use crate::config::issue::IssueCode;
use crate::config::load::load;
use crate::config::rule_book::RuleKey;
use crate::config::rule_file;
use crate::config::spec::{EntryState, Scope};

fn settings(desk: &Desk, text: &str) {
    desk.write("home/.callboard/callboard.toml", text);
}

fn is_ready(desk: &Desk, name: &str) -> bool {
    matches!(entry(&desk.load(), name).state, EntryState::Ready(_))
}

#[test]
fn a_command_that_may_not_start_parks_its_entry_with_the_cure() {
    let desk = Desk::new();
    desk.user(
        r#"{"mcpServers": {
        "s": {"command": "/bin/sh"}, "t": {"command": "/bin/sh", "trust": "trusted"},
        "h": {"command": "/bin/sh", "allowHostProcess": true}, "w": {"url": "https://x.example"}}}"#,
    );
    assert!(is_ready(&desk, "s"));
    for text in ["mode = \"safe\"\n", "[spawn]\ncheck = \"always\"\n"] {
        settings(&desk, text);
        let loaded = desk.load();
        let issue = entry(&loaded, "s").issues.iter().find(|issue| issue.code == IssueCode::Spawn).unwrap();
        assert!(issue.fix.as_ref().is_some_and(|fix| fix.contains("\"/bin/sh\"")), "{issue:?}");
        assert!(matches!(entry(&loaded, "s").state, EntryState::Invalid));
        assert!(["t", "h", "w"].iter().all(|name| is_ready(&desk, name)));
    }
    settings(&desk, "mode = \"safe\"\n[spawn]\nallow = [\"/bin/*\"]\n");
    assert!(is_ready(&desk, "s"));
    settings(&desk, "[spawn]\nenabled = false\n");
    assert!(["s", "t", "h"].iter().all(|name| !is_ready(&desk, name)) && is_ready(&desk, "w"));
}

#[test]
#[cfg(unix)]
fn the_list_of_commands_is_asked_about_the_program_that_would_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut desk = Desk::new();
    for name in ["good/tool", "bad/tool"] {
        desk.write(name, "#!/bin/sh\n");
        std::fs::set_permissions(desk.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    desk.user(&one(r#"{"command": "tool"}"#));
    let good = desk.path("good");
    settings(&desk, &format!("mode = \"safe\"\n[spawn]\nallow = [\"{}/*\"]\n", good.display()));
    for (first, second, want) in [("good", "bad", true), ("bad", "good", false)] {
        let path = format!("{}:{}", desk.path(first).display(), desk.path(second).display());
        desk.set("PATH", &path);
        assert_eq!(is_ready(&desk, "s"), want, "{first} comes first");
    }
}

#[test]
fn a_project_may_touch_these_keys_and_no_other() {
    let rule = |rule: ProjectRule| match rule {
        ProjectRule::Free => "free",
        ProjectRule::Lower { .. } => "lower",
        ProjectRule::Never => "never",
    };
    let of = |word| {
        let keys = HOST_KEYS.iter().filter(|key| rule(key.project) == word);
        keys.map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(
        of("free"),
        [
            "start",
            "naming.style",
            "naming.name_len_max",
            "naming.reserved",
            "display.color",
            "agent.exposure"
        ]
    );
    let lower = ["timeouts.", "limits.", "rate.", "restart.max", "agent."];
    assert!(of("lower").iter().all(|key| lower.iter().any(|start| key.starts_with(start))));
    for key in ["mode", "approval.expires", "spawn.enabled", "spawn.check", "spawn.allow", "roots"] {
        assert!(of("never").contains(&key), "{key}");
    }
    let desk = Desk::new();
    desk.write(
        "project/.callboard/callboard.toml",
        "mode = \"auto\"\n[spawn]\nallow = [\"/**\"]\ncheck = \"always\"\n[approval]\nexpires = 1\n",
    );
    let loaded = desk.load();
    assert_eq!(loaded.settings, crate::config::host::HostSettings::default());
    assert_eq!(errors(&loaded).len(), 4, "{:?}", errors(&loaded));
}

#[test]
fn a_rule_for_ones_own_entry_does_not_count_for_the_projects_entry_of_that_name() {
    let desk = Desk::new();
    desk.user(&one(r#"{"command": "mine"}"#));
    desk.project(&one(r#"{"command": "theirs"}"#));
    let home = desk.path("home/.callboard");
    let allow = |scope, root: &Path| {
        rule_file::allow(&home, &RuleKey::of(scope, root, &"s".into()), "t").unwrap();
    };
    allow(Scope::User, &desk.path("project"));
    allow(Scope::Project, &desk.path("elsewhere"));
    let allowed = || {
        let loaded = desk.load();
        let entry = entry(&loaded, "s");
        (entry.source.scope, loaded.rules.rule_for(entry.source.scope, &entry.id, "t").is_some())
    };
    assert_eq!(allowed(), (Scope::User, true));
    desk.approve("s");
    assert_eq!(allowed(), (Scope::Project, false));
    allow(Scope::Project, &desk.path("project"));
    assert_eq!(allowed(), (Scope::Project, true));
    assert!(warnings(&desk.load()).iter().all(|warning| !warning.contains("allow rule")));
}

#[test]
fn a_broken_file_of_rules_allows_nothing_and_faults_are_told() {
    let desk = Desk::new();
    desk.user(&one(r#"{"command": "mine"}"#));
    let file = |text: &str| desk.write("home/.callboard/allow.json", text).load();
    let text = r#"{"version": 1, "servers": [
        {"scope": "user", "server": "s", "tools": ["t", "a*"]}, {"scope": "user", "server": "zz", "tools": ["*"]},
        {"scope": "env_inline", "server": "of-another-run", "tools": ["*"]}]}"#;
    let loaded = file(text);
    let told = warnings(&loaded);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("\"s/a*\"") && told[1].contains("\"zz/…\""), "{told:?}");
    assert!(loaded.rules.rule_for(Scope::User, &"s".into(), "t").is_some());
    let loaded = file(&text.replace("\"version\": 1", "\"version\": 2"));
    assert_eq!(loaded.rules, Default::default());
    assert!(errors(&loaded)[0].contains("no allow rule is in force"), "{:?}", errors(&loaded));
    assert!(loaded.servers.issues[0].fix.as_ref().is_some_and(|fix| fix.contains("allow.json")));
}

/// A link that leads to another project tomorrow carries no approval over.
#[test]
#[cfg(unix)]
fn a_project_is_the_folder_behind_the_links_that_lead_to_it() {
    let desk = Desk::new();
    for folder in ["one", "two"] {
        desk.write(&format!("{folder}/.mcp.json"), &one(r#"{"command": "/bin/sh", "args": ["./run.sh"]}"#));
    }
    let link = desk.path("link");
    std::os::unix::fs::symlink(desk.path("one"), &link).unwrap();
    let mut there = desk.options.clone();
    there.cwd.clone_from(&link);
    let loaded = load(&there);
    let request = crate::config::approvals::request(&loaded, &there, "s").unwrap();
    crate::config::approvals::approve(&desk.path("home/.callboard"), request.approval("now")).unwrap();
    assert_eq!(command(&load(&there), "s"), "/bin/sh");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(desk.path("two"), &link).unwrap();
    assert!(matches!(entry(&load(&there), "s").state, EntryState::Pending));
    there.cwd = desk.path("one");
    assert_eq!(command(&load(&there), "s"), "/bin/sh", "the folder itself is the approved one");
}

/// MCPoison and its kin: the name stays, what is behind it changes.
#[test]
fn nothing_but_the_approved_words_runs_behind_an_approved_name() {
    let approved = r#"{"command": "/bin/echo", "args": ["hi"], "env": {"A": "1"}, "headers": {}}"#;
    for changed in [
        r#"{"command": "/bin/sh", "args": ["hi"], "env": {"A": "1"}, "headers": {}}"#,
        r#"{"command": "/bin/echo", "args": ["hi", ""], "env": {"A": "1"}, "headers": {}}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "env": {"A": "1", "LD_PRELOAD": "./x.so"}, "headers": {}}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "env": {"a": "1"}, "headers": {}}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "env": {"A": "1"}, "headers": {}, "cwd": "."}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "env": {"A": "1"}, "headers": {}, "sandbox": "off"}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "env": {"A": "1"}, "headers": {}, "oauth": {}}"#,
        r#"{"command": "/bin/echo", "args": ["hi"], "args": ["other"], "env": {"A": "1"}, "headers": {}}"#,
    ] {
        let desk = Desk::new();
        desk.project(&one(approved));
        desk.approve("s");
        desk.project(&one(changed));
        assert!(!is_ready(&desk, "s"), "{changed}");
        // The same words in the project's other file, or under a name in another case, wait too.
        desk.write("project/.mcp.json", "{}");
        desk.write("project/.callboard/mcp.json", &one(approved).replace("\"s\"", "\"S\""));
        assert!(!is_ready(&desk, "S"));
    }
}
