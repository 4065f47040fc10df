//! Editing the configuration from the command line: what is written, what survives, and
//! what is refused.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::cli_home::Home;

fn user_file(home: &Home) -> Value {
    serde_json::from_str(&std::fs::read_to_string(home.home().join("mcp.json")).unwrap()).unwrap()
}

fn project_file(home: &Home) -> Value {
    serde_json::from_str(&std::fs::read_to_string(home.project().join(".mcp.json")).unwrap()).unwrap()
}

#[test]
fn add_writes_a_private_file_with_the_entry_as_typed() {
    let home = Home::new();
    let ran = home.run(&[
        "mcp",
        "add",
        "fs",
        "-e",
        "MODE=fast",
        "--trust",
        "read-only",
        "--",
        "npx",
        "-y",
        "server",
        "--json",
        "--project",
    ]);
    ran.expect(0);
    assert!(ran.stdout.contains("added fs"), "{ran:?}");
    assert_eq!(
        user_file(&home)["mcpServers"]["fs"],
        json!({"command":"npx","args":["-y","server","--json","--project"],"env":{"MODE":"fast"},"trust":"read-only"})
    );
    let mode = std::fs::metadata(home.home().join("mcp.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!home.project().join(".mcp.json").exists());
}

#[test]
fn every_form_of_add_reaches_its_file() {
    let home = Home::new();
    home.run(&["mcp", "add", "docs", "https://example.com/mcp", "-H", "X-Key=${KEY}"]).expect(0);
    home.run(&["mcp", "add", "time", "stdio", "uvx", "mcp-server-time", "--project"]).expect(0);
    home.run(&["mcp", "add", "web", "http", "https://example.com/two"]).expect(0);
    home.run(&["mcp", "add", "-s", "project", "more", "--", "stdio"]).expect(0);
    home.run(&["mcp", "add-json", "raw", r#"{"command":"x","timeout":"5s"}"#]).expect(0);
    home.run_with(&["mcp", "add-json", "piped", "-"], r#"{"url":"https://example.com/three"}"#).expect(0);
    let user = user_file(&home);
    assert_eq!(
        user["mcpServers"]["docs"],
        json!({"type":"http","url":"https://example.com/mcp","headers":{"X-Key":"${KEY}"}})
    );
    assert_eq!(user["mcpServers"]["raw"], json!({"command":"x","timeout":"5s"}));
    assert_eq!(user["mcpServers"]["piped"], json!({"url":"https://example.com/three"}));
    let project = project_file(&home);
    assert_eq!(project["mcpServers"]["time"], json!({"command":"uvx","args":["mcp-server-time"]}));
    assert_eq!(project["mcpServers"]["more"], json!({"command":"stdio"}));
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"].as_array().unwrap().len(), 6);
}

#[test]
fn a_server_added_to_the_project_still_needs_an_approval() {
    let home = Home::new();
    let ran = home.run(&["mcp", "add", "-s", "project", "theirs", "--", "sh"]);
    assert!(ran.expect(0).stdout.contains("callboard mcp approve theirs"), "{ran:?}");
}

#[test]
fn a_taken_name_is_refused_unless_forced() {
    let home = Home::new();
    home.run(&["mcp", "add", "a", "--", "one"]).expect(0);
    let json = home.run(&["mcp", "add", "a", "--json", "--", "two"]).json(2);
    assert_eq!(json["error"]["code"], "exists");
    assert_eq!(user_file(&home)["mcpServers"]["a"]["command"], "one");
    home.run(&["mcp", "add", "--force", "a", "--", "two"]).expect(0);
    assert_eq!(user_file(&home)["mcpServers"]["a"]["command"], "two");
}

#[test]
fn an_entry_that_could_not_run_is_not_written() {
    let home = Home::new();
    for words in [
        &["mcp", "add-json", "a", r#"{"command":"x","url":"https://x"}"#][..],
        &["mcp", "add-json", "a", r#"{"command":7}"#],
        &["mcp", "add-json", "a", "{"],
        &["mcp", "add-json", "a", "[]"],
        &["mcp", "add-json", "a", r#"{"mcpServers":{}}"#],
        &["mcp", "add-json", "", r#"{"command":"x"}"#],
        &["mcp", "add", "a"],
        &["mcp", "add", "a", "stdio"],
        &["mcp", "add", "a", "-H", "X=y", "--", "cmd"],
    ] {
        let ran = home.run(words);
        ran.expect(2);
        assert!(ran.stderr.contains("fix: "), "{ran:?}");
    }
    assert!(!home.home().join("mcp.json").exists());
}

#[test]
fn a_value_to_be_asked_for_needs_a_terminal() {
    let home = Home::new();
    let ran = home.run(&["mcp", "add", "a", "-e", "TOKEN", "--", "cmd"]);
    ran.expect(2);
    assert!(ran.stderr.contains("no terminal") && ran.stderr.contains("${TOKEN}"), "{ran:?}");
    assert!(!home.home().join("mcp.json").exists());
}

#[test]
fn comments_order_and_other_keys_survive_an_edit() {
    let home = Home::new();
    let text = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"b\": { \"command\": \"b\" }, // second\n    \"a\": { \"command\": \"a\" }\n  }\n}\n";
    home.user(text);
    home.run(&["mcp", "add", "c", "--", "c"]).expect(0);
    home.run(&["mcp", "off", "b"]).expect(0);
    home.run(&["mcp", "on", "b"]).expect(0);
    home.run(&["mcp", "remove", "c"]).expect(0);
    let now = std::fs::read_to_string(home.home().join("mcp.json")).unwrap();
    for part in ["// mine", "\"theme\": \"dark\"", "// second"] {
        assert!(now.contains(part), "{part:?} is gone: {now}");
    }
    assert!(now.find("\"b\"").unwrap() < now.find("\"a\"").unwrap(), "{now}");
}

#[test]
fn a_broken_file_is_never_overwritten() {
    let home = Home::new();
    let broken = "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, oops";
    home.user(broken);
    for words in [&["mcp", "add", "b", "--", "y"][..], &["mcp", "add", "--force", "a", "--", "y"]] {
        let ran = home.run(words);
        ran.expect(3);
        assert!(ran.stderr.contains("mcp.json:1:"), "{ran:?}");
    }
    assert_eq!(std::fs::read_to_string(home.home().join("mcp.json")).unwrap(), broken);
}

#[test]
fn on_and_off_keep_and_change_only_that_entry() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"}}}"#);
    let state = |name: &str| {
        home.run(&["mcp", "get", name, "--json"]).json(0)["data"]["state"].as_str().unwrap().to_owned()
    };
    for (off, on) in [("off", "on"), ("disable", "enable")] {
        assert_eq!(home.run(&["mcp", off, "a", "--json"]).json(0)["data"]["state"], "disabled");
        assert_eq!((state("a"), state("b")), ("disabled".into(), "usable".into()));
        let again = home.run(&["mcp", off, "a", "--json"]).json(0);
        assert_eq!(again["data"]["changed"], false);
        assert_eq!(home.run(&["mcp", on, "a", "--json"]).json(0)["data"]["state"], "usable");
        assert_eq!(state("a"), "usable");
    }
}

#[test]
fn remove_takes_it_out_of_the_file_that_has_it() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"a":{"command":"x"},"both":{"command":"x"}}}"#);
    home.project_file(r#"{"mcpServers":{"both":{"command":"y"}}}"#);
    home.run(&["mcp", "rm", "a"]).expect(0);
    assert_eq!(user_file(&home), json!({"mcpServers":{"both":{"command":"x"}}}));
    let ran = home.run(&["mcp", "remove", "both"]);
    ran.expect(2);
    assert!(ran.stderr.contains("-s user") && ran.stderr.contains("-s project"), "{ran:?}");
    home.run(&["mcp", "remove", "both", "-s", "project"]).expect(0);
    assert_eq!(user_file(&home)["mcpServers"]["both"], json!({"command":"x"}));
    home.run(&["mcp", "remove", "both", "-s", "project"]).expect(4);
    home.run(&["mcp", "remove", "both"]).expect(0);
    assert_eq!(home.run(&["mcp", "list", "--json"]).json(0)["data"]["servers"], json!([]));
}

#[test]
fn what_is_defined_elsewhere_is_not_edited_from_here() {
    let home = Home::new();
    let other = home.project().join("other.json");
    std::fs::write(&other, r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
    for verb in ["remove", "on", "off"] {
        let ran = home.run(&["mcp", verb, "a", "--mcp-config", other.to_str().unwrap()]);
        ran.expect(3);
        assert!(ran.stderr.contains("other.json"), "{ran:?}");
    }
}

#[test]
fn a_credential_for_the_shared_file_is_warned_of() {
    let home = Home::new();
    let ran = home.run(&["mcp", "add", "-s", "project", "a", "-e", "API_TOKEN=s3cr3t-value", "--", "x"]);
    ran.expect(0);
    assert!(ran.stderr.contains("API_TOKEN") && ran.stderr.contains("shared"), "{ran:?}");
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("s3cr3t"), "{ran:?}");
}

#[test]
fn two_writers_lose_no_edit() {
    let home = Home::new();
    let children: Vec<_> = (0..8)
        .map(|n| home.command(&["mcp", "add", &format!("s{n}"), "--", "cmd"]).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(user_file(&home)["mcpServers"].as_object().unwrap().len(), 8);
}

#[test]
fn an_added_entry_that_can_not_start_yet_says_what_it_lacks() {
    let home = Home::new();
    for (words, lacks) in [
        (&["mcp", "add", "a", "-e", "T=${CALLBOARD_TEST_UNSET}", "--", "sh"][..], "CALLBOARD_TEST_UNSET"),
        (&["mcp", "add", "b", "http://"], "b.url: not an address"),
    ] {
        let ran = home.run(words);
        assert!(ran.expect(0).stdout.starts_with("added "), "{ran:?}");
        assert!(!ran.stdout.contains("Try it"), "{ran:?}");
        assert!(ran.stderr.contains("it can't start as it is: ") && ran.stderr.contains(lacks), "{ran:?}");
    }
}

#[test]
fn ones_own_entry_is_not_said_to_wait_because_the_project_has_one_of_that_name() {
    let home = Home::new();
    home.project_file(r#"{"mcpServers":{"x":{"command":"theirs"}}}"#);
    let ran = home.run(&["mcp", "add", "x", "--", "sh"]);
    assert!(ran.expect(0).stdout.ends_with("Try it: callboard mcp status x\n"), "{ran:?}");
    let ran = home.run(&["mcp", "remove", "x", "-s", "user"]);
    assert!(!ran.expect(0).stdout.contains("comes from the project"), "{ran:?}");
    assert!(ran.stderr.contains("x is still defined in project"), "{ran:?}");
}

#[test]
fn an_entry_that_says_a_key_twice_is_refused_with_the_key() {
    let home = Home::new();
    for (entry, key) in [
        (r#"{"command":"a","command":"b"}"#, "command"),
        (r#"{"command":"a","env":{"TOKEN":"s3cret-1","TOKEN":"s3cret-2"}}"#, "env.TOKEN"),
    ] {
        let ran = home.run(&["mcp", "add-json", "x", entry, "--json"]);
        let error = ran.json(2)["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("{key:?} is written twice")), "{message}");
        assert!(!ran.stdout.contains("s3cret"), "{ran:?}");
        assert!(!home.home().join("mcp.json").exists(), "nothing is written");
    }
}

#[test]
fn without_a_place_for_the_users_files_nothing_is_written_and_the_cure_is_named() {
    let home = Home::new();
    let place = |command: &mut std::process::Command, env: &[(&str, &str)]| {
        command.env_remove("CALLBOARD_HOME").env_remove("HOME").envs(env.iter().copied());
        command.output().unwrap()
    };
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"x"}}}"#);
    for env in [&[("HOME", "rel")][..], &[("HOME", "/")], &[("HOME", "/u"), ("CALLBOARD_HOME", "rel")]] {
        for words in [
            &["mcp", "add", "x", "--json", "--", "true"][..],
            &["mcp", "approve", "theirs", "-y", "--json"],
            &["mcp", "revoke", "theirs", "--json"],
        ] {
            let output = place(&mut home.command(words), env);
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((output.status.code(), &answer["error"]["code"]), (Some(3), &json!("config_no_home")));
            assert!(answer["error"]["fix"].as_str().unwrap().contains("absolute path"), "{answer}");
        }
        let left: Vec<_> =
            std::fs::read_dir(home.project()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [".mcp.json"], "{env:?}");
        assert!(!std::path::Path::new("/.callboard").exists());
        // The project's own file can be edited all the same, and reading says once what is left out.
        let output = place(&mut home.command(&["mcp", "list", "--json"]), env);
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listed["data"]["servers"][0]["name"], "theirs");
        assert_eq!(
            listed["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|w| w.to_string().contains("your own files"))
                .count(),
            1
        );
    }
}
