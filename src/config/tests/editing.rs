//! Edits of files: what is asked for, nothing else, and never lost.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::desk::{Desk, command, entry};
use crate::config::edit::{self, Edit, EditError, EditFault, Target};
use crate::config::spec::{EntryState, Severity};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn put(name: &str, command: &str) -> Edit {
    Edit::Put { name: name.into(), entry: map(json!({"command": command})), replace: false }
}

fn user(desk: &Desk) -> Target {
    Target::User { home: desk.path("home/.callboard") }
}

fn project(desk: &Desk) -> Target {
    Target::Project { root: desk.path("project") }
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn adding_creates_a_private_file_in_a_private_folder() {
    let desk = Desk::new();
    let target = Target::User { home: desk.path("fresh/home") };
    let edited = edit::apply(&target, &put("s", "x")).unwrap();
    assert!(edited.created && edited.changed);
    let text = std::fs::read_to_string(&edited.path).unwrap();
    assert_eq!(text, "{\n  \"mcpServers\": {\n    \"s\": {\n      \"command\": \"x\"\n    }\n  }\n}\n");
    #[cfg(unix)]
    assert_eq!((mode(&edited.path), mode(edited.path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(std::fs::read_dir(edited.path.parent().unwrap()).unwrap().count(), 1, "no left-overs");
}

#[test]
fn comments_order_and_other_keys_survive() {
    let desk = Desk::new();
    let before = "// head\n{\n\t\"other\": [1, 2.50, 1e3], // keep\n\t\"mcpServers\": {\n\t\t/* a */ \"a\": { \"command\": \"x\", \"zeta\": 1, \"alpha\": 2 },\n\t\t\"b\": {\"url\": \"http://h/\"}, // b\n\t},\n}\n// tail\n";
    desk.user(before);
    edit::apply(&user(&desk), &put("c", "new")).unwrap();
    edit::apply(&user(&desk), &Edit::Disable { name: "b".into(), mask: false }).unwrap();
    let after = std::fs::read_to_string(user(&desk).path()).unwrap();
    for part in [
        "// head\n{\n\t\"other\": [1, 2.50, 1e3], // keep\n\t\"mcpServers\": {\n\t\t/* a */ \"a\": { \"command\": \"x\", \"zeta\": 1, \"alpha\": 2 },\n",
        "// b\n",
        "// tail\n",
        "\"enabled\": false",
    ] {
        assert!(after.contains(part), "{part}\n{after}");
    }
    let loaded = desk.load();
    assert_eq!(command(&loaded, "c"), "new");
    assert!(matches!(entry(&loaded, "b").state, EntryState::Disabled));
    edit::apply(&user(&desk), &Edit::Remove { name: "c".into() }).unwrap();
    edit::apply(&user(&desk), &Edit::Enable { name: "b".into() }).unwrap();
    let loaded = desk.load();
    assert!(loaded.servers.get("c").is_none() && matches!(entry(&loaded, "b").state, EntryState::Ready(_)));
}

/// B112
#[test]
fn a_broken_file_is_refused_with_its_place_and_left_as_it_is() {
    let desk = Desk::new();
    let broken = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"\n";
    desk.user(broken);
    for edit in
        [put("s", "x"), Edit::Remove { name: "a".into() }, Edit::Disable { name: "a".into(), mask: true }]
    {
        let error = edit::apply(&user(&desk), &edit).unwrap_err();
        assert!(error.to_string().contains("mcp.json:3:"), "{error}");
        assert_eq!(std::fs::read_to_string(user(&desk).path()).unwrap(), broken);
    }
    for odd in ["[]", "7", "{\"mcpServers\": []}", "{\"mcpServers\": {}, \"mcpServers\": {}}"] {
        desk.user(odd);
        let error = edit::apply(&user(&desk), &put("s", "x")).unwrap_err();
        assert!(error.to_string().contains("left as it is"), "{error}");
        assert_eq!(std::fs::read_to_string(user(&desk).path()).unwrap(), odd);
    }
}

#[test]
fn existing_and_missing_names_are_told() {
    let desk = Desk::new();
    edit::apply(&user(&desk), &put("s", "one")).unwrap();
    let error = edit::apply(&user(&desk), &put("s", "two")).unwrap_err();
    assert!(matches!(&error, EditError::Fault { fault: EditFault::Exists, .. }), "{error}");
    let replace = Edit::Put { name: "s".into(), entry: map(json!({"command": "two"})), replace: true };
    edit::apply(&user(&desk), &replace).unwrap();
    assert_eq!(command(&desk.load(), "s"), "two");
    for edit in [
        Edit::Remove { name: "t".into() },
        Edit::Enable { name: "t".into() },
        Edit::Disable { name: "t".into(), mask: false },
    ] {
        let error = edit::apply(&user(&desk), &edit).unwrap_err();
        assert!(matches!(&error, EditError::Fault { fault: EditFault::Missing, .. }), "{error}");
    }
    assert!(matches!(
        edit::apply(&user(&desk), &put("a/b", "x")).unwrap_err(),
        EditError::Fault { fault: EditFault::BadName(_), .. }
    ));
}

#[test]
fn an_edit_that_changes_nothing_writes_nothing() {
    let desk = Desk::new();
    desk.user("{ \"mcpServers\": {\"s\": {\"command\":\"x\",\"enabled\":false}} }");
    let before = user(&desk).path().metadata().unwrap().modified().unwrap();
    let edited = edit::apply(&user(&desk), &Edit::Disable { name: "s".into(), mask: true }).unwrap();
    assert!(!edited.changed && !edited.created);
    assert_eq!(user(&desk).path().metadata().unwrap().modified().unwrap(), before);
}

#[test]
fn a_mask_turns_a_weaker_entry_off_and_enabling_takes_it_away() {
    let desk = Desk::new();
    let target = project(&desk);
    let before = "{\n  \"mcpServers\": {}\n}\n";
    desk.project(before);
    edit::apply(&target, &Edit::Disable { name: "s".into(), mask: true }).unwrap();
    let text = std::fs::read_to_string(target.path()).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({"mcpServers": {"s": {"enabled": false}}})
    );
    edit::apply(&target, &Edit::Enable { name: "s".into() }).unwrap();
    let text = std::fs::read_to_string(target.path()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"mcpServers": {}}));
}

#[test]
fn both_spellings_of_off_are_turned_on() {
    let desk = Desk::new();
    desk.user("{\"servers\": {\"s\": {\"command\": \"x\", \"disabled\": true}, \"t\": {\"command\": \"x\", \"enabled\": false, \"disabled\": true}}}");
    for name in ["s", "t"] {
        edit::apply(&user(&desk), &Edit::Enable { name: name.into() }).unwrap();
        assert!(matches!(entry(&desk.load(), name).state, EntryState::Ready(_)));
    }
    edit::apply(&user(&desk), &put("u", "x")).unwrap();
    let text = std::fs::read_to_string(user(&desk).path()).unwrap();
    assert!(!text.contains("mcpServers"), "the map that is there is used: {text}");
}

#[test]
fn removing_takes_every_definition_of_the_name_in_the_file() {
    let desk = Desk::new();
    desk.user("{\"servers\": {\"s\": {\"command\": \"1\"}, \"t\": {\"command\": \"t\"}}, \"mcpServers\": {\"s\": {\"command\": \"2\"}, \"s\": {\"command\": \"3\"}}}");
    edit::apply(&user(&desk), &Edit::Remove { name: "s".into() }).unwrap();
    let loaded = desk.load();
    assert!(loaded.servers.get("s").is_none());
    assert_eq!(command(&loaded, "t"), "t");
}

#[test]
fn windows_line_ends_and_a_bom_survive() {
    let desk = Desk::new();
    desk.user("\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {\"command\": \"x\"}\r\n  }\r\n}\r\n");
    edit::apply(&user(&desk), &put("b", "y")).unwrap();
    let text = std::fs::read_to_string(user(&desk).path()).unwrap();
    assert!(text.starts_with('\u{feff}'));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{text:?}");
    assert_eq!(command(&desk.load(), "b"), "y");
}

#[test]
fn an_empty_file_becomes_a_whole_one() {
    for empty in ["", "  \n", "// only a comment\n", "{}"] {
        let desk = Desk::new();
        desk.user(empty);
        edit::apply(&user(&desk), &put("s", "x")).unwrap();
        let text = std::fs::read_to_string(user(&desk).path()).unwrap();
        assert_eq!(command(&desk.load(), "s"), "x", "{text}");
        assert!(text.contains(empty.trim().trim_matches(['{', '}'])), "{text}");
    }
}

/// Two writers, fifty edits each: nothing is lost.
#[test]
fn two_writers_never_lose_an_edit() {
    let desk = Desk::new();
    desk.user("{\n  // shared\n  \"mcpServers\": {}\n}\n");
    let target = user(&desk);
    std::thread::scope(|scope| {
        for writer in ["a", "b"] {
            let target = &target;
            scope.spawn(move || {
                for number in 0..50 {
                    edit::apply(target, &put(&format!("{writer}{number}"), "x")).unwrap();
                }
            });
        }
    });
    assert_eq!(desk.load().servers.entries.len(), 100);
    assert!(std::fs::read_to_string(target.path()).unwrap().contains("// shared"));
    assert_eq!(std::fs::read_dir(desk.path("home/.callboard")).unwrap().count(), 1, "no left-overs");
}

#[test]
#[cfg(unix)]
fn the_users_file_becomes_private_and_that_of_a_project_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.user("{}").project("{}");
    for target in [user(&desk), project(&desk)] {
        std::fs::set_permissions(target.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        edit::apply(&target, &put("s", "x")).unwrap();
    }
    assert_eq!((mode(&user(&desk).path()), mode(&project(&desk).path())), (0o600, 0o644));
}

#[test]
#[cfg(unix)]
fn a_link_of_the_user_is_written_through_and_stays_a_link() {
    let desk = Desk::new();
    desk.write("dotfiles/mcp.json", "{\"mcpServers\": {}}");
    std::os::unix::fs::symlink("../../dotfiles/mcp.json", user(&desk).path()).unwrap();
    edit::apply(&user(&desk), &put("s", "x")).unwrap();
    assert!(user(&desk).path().symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(desk.path("dotfiles/mcp.json")).unwrap().contains("\"s\""));
    // Also when the file it leads to is yet to be written.
    std::fs::remove_file(desk.path("dotfiles/mcp.json")).unwrap();
    edit::apply(&user(&desk), &put("t", "x")).unwrap();
    assert!(desk.path("dotfiles/mcp.json").is_file());
}

#[test]
#[cfg(unix)]
fn a_project_can_not_lead_a_write_out_of_itself() {
    let desk = Desk::new();
    desk.write("home/precious.json", "{}");
    std::os::unix::fs::symlink(desk.path("home/precious.json"), project(&desk).path()).unwrap();
    let error = edit::apply(&project(&desk), &put("s", "x")).unwrap_err();
    assert!(
        matches!(&error, EditError::Outside { target, .. } if target.ends_with("precious.json")),
        "{error}"
    );
    std::os::unix::fs::symlink(desk.path("home"), desk.path("project/.callboard")).unwrap();
    let own = Target::ProjectOwn { root: desk.path("project") };
    assert!(matches!(edit::apply(&own, &put("s", "x")).unwrap_err(), EditError::Outside { .. }));
    assert_eq!(std::fs::read_to_string(desk.path("home/precious.json")).unwrap(), "{}");
}

#[test]
fn an_entry_is_checked_before_it_is_written() {
    let desk = Desk::new();
    let check = |name: &str, entry: Value| edit::check(&user(&desk), name, &map(entry));
    assert!(check("s", json!({"command": "x"})).is_empty());
    let issues = check("a/b", json!({"command": 1, "trust": "full", "argz": []}));
    let errors = issues.iter().filter(|issue| issue.severity == Severity::Error).count();
    assert_eq!((errors, issues.len()), (3, 4));
    assert!(!user(&desk).path().exists());
}

#[test]
fn a_source_is_turned_back_into_the_file_to_edit() {
    let desk = Desk::new();
    desk.user(r#"{"mcpServers": {"u": {"command": "x"}}}"#);
    desk.project(r#"{"mcpServers": {"p": {"command": "x"}}}"#);
    desk.write("project/.callboard/mcp.json", r#"{"mcpServers": {"o": {"command": "x"}}}"#);
    let loaded = desk.load();
    let target = |name: &str| -> Option<PathBuf> {
        let source = &entry(&loaded, name).source;
        Target::of_source(source, loaded.home.as_deref().ok(), &loaded.project_root)
            .map(|target| target.path())
    };
    assert_eq!(target("u"), Some(desk.path("home/.callboard/mcp.json")));
    assert_eq!(target("p"), Some(desk.path("project/.mcp.json")));
    assert_eq!(target("o"), Some(desk.path("project/.callboard/mcp.json")));
}
