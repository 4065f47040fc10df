//! `mcp import`: what is taken over from other clients, and what is told of the rest.

use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::cli_install::{CLIENTS, client_file, golden, neutral};

fn servers(home: &Home) -> Value {
    let text = std::fs::read_to_string(home.home().join("mcp.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].clone()
}

#[test]
fn each_client_is_read_and_left_as_it_is() {
    for (client, _) in CLIENTS {
        let home = Home::new();
        let path = client_file(&home, client, &golden(client, "before"));
        let ran = home.run(&["mcp", "import", client]);
        assert!(matches!(ran.code, 0 | 1), "{ran:?}");
        let ours = std::fs::read_to_string(home.home().join("mcp.json")).unwrap();
        assert_eq!(neutral(&home, &ours), golden(client, "imported"), "{client}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), golden(client, "before"), "{client}");
    }
}

#[test]
fn a_name_that_is_taken_is_told_and_only_flags_decide() {
    let home = Home::new();
    home.user(r#"{"mcpServers": {"a": {"command": "mine"}}}"#);
    client_file(&home, "cursor", r#"{"mcpServers": {"a": {"command": "theirs"}}}"#);
    let ran = home.run(&["mcp", "import", "cursor"]);
    assert!(ran.expect(1).stderr.contains("--overwrite"), "{ran:?}");
    assert_eq!(servers(&home), json!({"a": {"command": "mine"}}));
    home.run(&["mcp", "import", "cursor", "--rename"]).expect(0);
    assert_eq!(servers(&home)["a-2"], json!({"command": "theirs"}));
    assert!(home.run(&["mcp", "import", "cursor", "--rename"]).expect(0).stdout.contains("is there already"));
    assert_eq!(servers(&home).as_object().unwrap().len(), 2);
}

#[test]
fn overwriting_replaces_the_one_of_that_name() {
    let home = Home::new();
    home.user(r#"{"mcpServers": {"a": {"command": "mine"}}}"#);
    client_file(&home, "cursor", r#"{"mcpServers": {"a": {"command": "theirs"}}}"#);
    home.run(&["mcp", "import", "cursor", "--overwrite"]).expect(0);
    assert_eq!(servers(&home), json!({"a": {"command": "theirs"}}));
}

#[test]
fn credentials_in_clear_are_told_or_stored_apart_and_never_shown() {
    let text = r#"{"mcpServers": {"gh": {"command": "gh", "env": {"GITHUB_TOKEN": "tok$en-12345678"}}, "web": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abcdef-98765432"}}}}"#;
    for (how, stored) in [("keep", false), ("store", true)] {
        let home = Home::new();
        client_file(&home, "claude-desktop", text);
        let ran = home.run(&["mcp", "import", "claude-desktop", "--secrets", how]);
        ran.expect(0);
        for secret in ["12345678", "98765432"] {
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran:?}");
        }
        if stored {
            assert_eq!(servers(&home)["gh"]["env"]["GITHUB_TOKEN"], "${secret:GITHUB_TOKEN}");
            assert_eq!(
                servers(&home)["web"]["headers"]["Authorization"],
                "Bearer ${secret:web.Authorization}"
            );
            let secrets = std::fs::read_to_string(home.home().join("secrets.json")).unwrap();
            assert!(
                secrets.contains("tok$en-12345678") && secrets.contains("\"abcdef-98765432\""),
                "{secrets}"
            );
        } else {
            assert!(ran.stdout.contains("--secrets store"), "{ran:?}");
            assert_eq!(servers(&home)["gh"]["env"]["GITHUB_TOKEN"], "tok$$en-12345678");
        }
    }
}

#[test]
fn names_files_and_projects_can_be_chosen_and_a_dry_run_writes_nothing() {
    let home = Home::new();
    let file = home.project().join("other.json");
    std::fs::write(&file, r#"{"servers": {"a": {"command": "x", "envFile": "${workspaceFolder}/.env"}, "b": {"command": "y"}}}"#).unwrap();
    std::fs::write(home.project().join(".env"), "MODE=fast\n").unwrap();
    home.run(&["mcp", "import", "vscode", "--from", "other.json", "--dry-run"]).expect(0);
    assert!(!home.home().join("mcp.json").exists());
    let ran = home.run(&["mcp", "import", "vscode", "--from", "other.json", "aa"]);
    assert!(ran.expect(4).stderr.contains("--dry-run"), "{ran:?}");
    home.run(&["mcp", "import", "vscode", "--from", "other.json", "a"]).expect(0);
    assert_eq!(servers(&home), json!({"a": {"command": "x", "env": {"MODE": "fast"}}}));

    std::fs::create_dir(home.project().join(".vscode")).unwrap();
    std::fs::copy(&file, home.project().join(".vscode/mcp.json")).unwrap();
    home.run(&["mcp", "import", "vscode", "--project", "b"]).expect(0);
    let own = std::fs::read_to_string(home.project().join(".callboard/mcp.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&own).unwrap(), json!({"mcpServers": {"b": {"command": "y"}}}));
}

#[test]
fn a_client_that_is_not_here_is_told_with_the_path_that_was_looked_at() {
    let home = Home::new();
    for (client, below) in CLIENTS {
        let ran = home.run(&["mcp", "import", client]);
        assert!(ran.expect(4).stderr.contains(below), "{ran:?}");
    }
    home.run(&["mcp", "import", "notepad"]).expect(2);
}
