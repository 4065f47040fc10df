//! `install` and `uninstall`: what is written into the files of other clients, what survives
//! there, and how it is undone. Golden files in `tests/golden/clients`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli_home::Home;

/// Each client with its file below the home.
pub(crate) const CLIENTS: [(&str, &str); 8] = [
    ("claude-code", ".claude.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("codex", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json"),
    ("gemini", ".gemini/settings.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("zed", ".config/zed/settings.json"),
];

fn user_home(home: &Home) -> PathBuf {
    home.home().parent().unwrap().to_path_buf()
}

/// The file of a client, with that text.
pub(crate) fn client_file(home: &Home, client: &str, text: &str) -> PathBuf {
    let (_, below) = CLIENTS.iter().find(|(name, _)| *name == client).unwrap();
    let path = user_home(home).join(below);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// A golden file of a client.
pub(crate) fn golden(client: &str, what: &str) -> String {
    let extension = if client == "codex" && what != "imported" { "toml" } else { "json" };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/clients");
    std::fs::read_to_string(folder.join(format!("{client}.{what}.{extension}"))).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Without what differs from machine to machine.
pub(crate) fn neutral(home: &Home, text: &str) -> String {
    let root = user_home(home).canonicalize().unwrap();
    let text = text.replace(env!("CARGO_BIN_EXE_callboard"), "/opt/callboard");
    text.replace(root.to_str().unwrap(), "/home/me").replace(user_home(home).to_str().unwrap(), "/home/me")
}

fn backups(home: &Home) -> usize {
    std::fs::read_dir(home.home().join("backups")).map_or(0, Iterator::count)
}

#[test]
fn each_client_gets_our_entry_and_nothing_else_changes() {
    for (client, _) in CLIENTS {
        let home = Home::new();
        let path = client_file(&home, client, &golden(client, "before"));
        home.run(&["install", client, "--yes"]).expect(0);
        assert_eq!(neutral(&home, &read(&path)), golden(client, "installed"), "{client}");
        let ours = read(&home.home().join("mcp.json"));
        assert_eq!(neutral(&home, &ours), golden(client, "imported"), "{client}");

        let again = home.run(&["install", client, "--yes"]);
        assert!(again.expect(0).stdout.contains("nothing to do"), "{client}: {again:?}");
        assert_eq!(backups(&home), 2, "{client}: one backup and its record");

        let back = home.run(&["uninstall", client]);
        assert!(back.expect(0).stdout.contains("byte for byte"), "{client}: {back:?}");
        assert_eq!(read(&path), golden(client, "before"), "{client}");
    }
}

#[test]
fn a_file_that_was_changed_since_loses_only_our_entries_and_has_its_servers_again() {
    for (client, _) in CLIENTS {
        let home = Home::new();
        let path = client_file(&home, client, &golden(client, "before"));
        home.run(&["install", client, "--yes"]).expect(0);
        std::fs::write(&path, format!("{}\n", read(&path))).unwrap();
        let back = home.run(&["uninstall", client]);
        let told = back.expect(0).stdout.contains("put back") && back.stdout.contains("mcp remove");
        assert!(told && !back.stdout.contains("in Callboard alone"), "{client}: {back:?}");
        assert_eq!(neutral(&home, &read(&path)), golden(client, "uninstalled"), "{client}");
    }
}

#[test]
fn what_the_user_put_there_since_stays_and_what_is_lost_is_named() {
    let home = Home::new();
    let before = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}}}"#;
    let path = client_file(&home, "cursor", before);
    let told = home.run(&["install", "cursor", "--yes", "--json"]).json(0);
    let mut file: serde_json::Value = serde_json::from_str(&read(&path)).unwrap();
    file["mcpServers"]["a"] = json!({"command": "own"});
    std::fs::write(&path, file.to_string()).unwrap();
    let seen = home.run(&["uninstall", "cursor", "--dry-run", "--json"]).json(0);
    assert_eq!(seen["data"]["entries_restored"], json!(["b", "c"]));
    let back = home.run(&["uninstall", "cursor", "--json"]).json(0);
    assert_eq!(back["data"]["entries_restored"], json!(["b", "c"]));
    let servers = || serde_json::from_str::<serde_json::Value>(&read(&path)).unwrap()["mcpServers"].clone();
    assert_eq!(servers(), json!({"a": {"command": "own"}, "b": {"command": "y"}, "c": {"command": "z"}}));

    // Without its backup nothing is known of what was there.
    home.run(&["install", "cursor", "--yes"]).expect(0);
    for entry in std::fs::read_dir(home.home().join("backups")).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "bak") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    std::fs::write(&path, format!("{}\n", read(&path))).unwrap();
    let back = home.run(&["uninstall", "cursor"]);
    assert!(back.expect(0).stdout.contains("in Callboard alone: b, c"), "{back:?} {told}");
}

#[test]
fn backups_are_private_and_hold_the_bytes() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let before = golden("cursor", "before");
    client_file(&home, "cursor", &before);
    let told = home.run(&["install", "cursor", "--yes", "--json"]).json(0);
    let backup = PathBuf::from(told["data"]["backup"].as_str().unwrap());
    assert_eq!(read(&backup), before);
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_a_terminal_nothing_is_written_unless_told_to() {
    let home = Home::new();
    let path = client_file(&home, "cursor", &golden("cursor", "before"));
    let ran = home.run(&["install", "cursor"]);
    assert!(ran.expect(5).stderr.contains("--yes"), "{ran:?}");
    let ran = home.run(&["install", "cursor", "--dry-run"]);
    assert!(ran.expect(0).stdout.contains("--mcp-serve"), "{ran:?}");
    assert_eq!(read(&path), golden("cursor", "before"));
    assert!(!home.home().join("mcp.json").exists() && backups(&home) == 0);
}

#[test]
fn split_keeps_the_names_and_keep_keeps_the_entries() {
    let home = Home::new();
    let path =
        client_file(&home, "windsurf", r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#);
    home.run(&["install", "windsurf", "--yes", "--split"]).expect(0);
    let file: serde_json::Value = serde_json::from_str(&read(&path)).unwrap();
    let args = |name: &str| file["mcpServers"][name]["args"].clone();
    assert_eq!(args("a"), json!(["--mcp-serve", "--only", "a", "--approval", "client"]));
    assert_eq!(args("b"), json!(["--mcp-serve", "--only", "b", "--approval", "client"]));
    assert!(home.run(&["install", "windsurf", "-y", "--split"]).expect(0).stdout.contains("nothing to do"));
    // From one form to the other, and all the way back.
    home.run(&["install", "windsurf", "--yes"]).expect(0);
    home.run(&["uninstall", "windsurf"]).expect(0);
    assert_eq!(read(&path), r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#);
    let kept = home.run(&["install", "windsurf", "--yes", "--keep"]);
    assert!(kept.expect(0).stderr.contains("run twice: a, b"), "{kept:?}");
    let file: serde_json::Value = serde_json::from_str(&read(&path)).unwrap();
    let names: Vec<&String> = file["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "b", "callboard"]);
}

#[test]
fn a_broken_file_is_named_with_its_place_and_left_alone() {
    let home = Home::new();
    for (client, text) in [("cursor", "{\n  \"mcpServers\": {,}\n}"), ("codex", "a = 1\n[mcp_servers\n")] {
        let path = client_file(&home, client, text);
        for verb in [vec!["install", client, "-y"], vec!["uninstall", client], vec!["mcp", "import", client]]
        {
            let ran = home.run(&verb);
            assert!(ran.expect(3).stderr.contains(&format!("{}:2:", path.display())), "{ran:?}");
        }
        assert_eq!(read(&path), text);
    }
}

#[test]
fn a_link_to_the_file_is_followed_and_stays_but_a_project_leads_nowhere_else() {
    let home = Home::new();
    let path = client_file(&home, "cursor", "{}");
    let real = user_home(&home).join("dotfiles.json");
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    home.run(&["install", "cursor", "-y"]).expect(0);
    assert!(path.is_symlink() && read(&real).contains("--mcp-serve"));
    home.run(&["uninstall", "cursor"]).expect(0);
    assert!(path.is_symlink() && read(&real) == "{}");

    std::fs::create_dir(home.project().join(".cursor")).unwrap();
    std::os::unix::fs::symlink(&real, home.project().join(".cursor/mcp.json")).unwrap();
    let ran = home.run(&["install", "cursor", "-y", "--project"]);
    assert!(ran.expect(3).stderr.contains("outside the project"), "{ran:?}");
    assert_eq!(read(&real), "{}");
}

#[test]
fn a_client_that_is_not_here_is_told_with_the_path_and_one_without_a_file_gets_one() {
    let home = Home::new();
    let ran = home.run(&["install", "cursor", "-y"]);
    let folder = user_home(&home).join(".cursor");
    assert!(ran.expect(4).stderr.contains(folder.to_str().unwrap()), "{ran:?}");
    std::fs::create_dir(&folder).unwrap();
    home.run(&["install", "cursor", "-y"]).expect(0);
    assert!(read(&folder.join("mcp.json")).contains("--mcp-serve"));
    home.run(&["uninstall", "cursor"]).expect(0);
    assert!(!folder.join("mcp.json").exists());
}

#[test]
fn what_can_not_move_stays_where_it_is() {
    let home = Home::new();
    home.user(r#"{"mcpServers": {"a": {"command": "mine"}}}"#);
    let path =
        client_file(&home, "cursor", r#"{"mcpServers": {"a": {"command": "theirs"}, "b": {"args": []}}}"#);
    let ran = home.run(&["install", "cursor", "-y"]);
    assert!(ran.expect(0).stderr.contains("--rename"), "{ran:?}");
    let text = read(&path);
    assert!(text.contains("theirs") && text.contains("\"b\"") && text.contains("--mcp-serve"), "{text}");
    assert!(!read(&home.home().join("mcp.json")).contains("theirs"));
}
