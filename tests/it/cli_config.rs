//! What the configuration says, as the program shows it: list, get, config, doctor,
//! approve and revoke. Nothing is started.

use serde_json::{Value, json};

use crate::cli_home::Home;

fn names(list: &Value) -> Vec<(String, String)> {
    let servers = list["data"]["servers"].as_array().unwrap();
    servers
        .iter()
        .map(|s| (s["name"].as_str().unwrap().to_owned(), s["state"].as_str().unwrap().to_owned()))
        .collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn an_empty_configuration_tells_how_to_begin() {
    let home = Home::new();
    for verb in ["list", "status"] {
        let ran = home.run(&["mcp", verb]);
        ran.expect(0);
        assert!(ran.stdout.contains("callboard mcp add"), "{ran:?}");
    }
    assert_eq!(home.run(&["mcp", "list", "--json"]).json(0)["data"]["servers"], json!([]));
    assert_eq!(home.run(&["mcp", "status", "--json"]).json(0)["data"]["servers"], json!([]));
}

#[test]
fn a_list_shows_every_entry_in_its_state_and_starts_nothing() {
    let home = Home::new();
    let witness = home.project().join("started");
    let touch = format!(r#"{{"command":"touch","args":["{}"]}}"#, witness.display());
    home.user(&format!(
        r#"{{ // my servers
          "mcpServers": {{
            "good": {touch},
            "off": {{"command": "x", "enabled": false}},
            "both": {{"command": "x", "url": "https://x"}},
          }}
        }}"#
    ));
    home.project_file(&format!(r#"{{"mcpServers": {{"theirs": {touch}}}}}"#));
    let ran = home.run(&["mcp", "list"]);
    ran.expect(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("server"), "{ran:?}");
    assert_eq!(lines.len(), 5, "{ran:?}");
    let json = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(json["schema"], "callboard.list/1");
    let want =
        [("both", "config_error"), ("good", "usable"), ("off", "disabled"), ("theirs", "pending_approval")];
    assert_eq!(names(&json), pairs(&want));
    assert!(!witness.exists(), "a list must start nothing");
}

#[test]
fn a_broken_file_is_named_with_its_place_and_the_others_still_count() {
    let home = Home::new();
    home.user("{\n  \"mcpServers\": {\n    oops\n");
    let other = home.project().join("other.json");
    std::fs::write(&other, r#"{"mcpServers":{"good":{"command":"x"}}}"#).unwrap();
    let ran = home.run(&["mcp", "list", "--mcp-config", other.to_str().unwrap()]);
    ran.expect(3);
    assert!(ran.stdout.contains("good"), "{ran:?}");
    assert!(ran.stderr.contains("mcp.json:3:"), "{ran:?}");
    let json = home.run(&["mcp", "list", "--json", "--mcp-config", other.to_str().unwrap()]).json(3);
    assert_eq!(names(&json), pairs(&[("good", "usable")]));
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["data"]["issues"][0]["line"], 3);
}

#[test]
fn strict_means_the_named_files_alone() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"mine":{"command":"x"}}}"#);
    let other = home.project().join("other.json");
    std::fs::write(&other, r#"{"servers":{"theirs":{"command":"x"}}}"#).unwrap();
    let file = other.to_str().unwrap();
    let both = home.run(&["mcp", "list", "--json", "--mcp-config", file]).json(0);
    assert_eq!(names(&both).len(), 2);
    let strict = home.run(&["mcp", "list", "--json", "--mcp-config", file, "--strict-mcp-config"]).json(0);
    assert_eq!(names(&strict), pairs(&[("theirs", "usable")]));
}

#[test]
fn no_view_shows_a_secret() {
    let home = Home::new();
    home.user(
        r#"{"mcpServers":{
            "a":{"command":"tool","args":["--api-key","s3cr3t-value-1"],"env":{"TOKEN":"s3cr3t-value-2","M":"${HOME}"}},
            "b":{"url":"https://user:s3cr3t-value-3@example.com/mcp?key=s3cr3t-value-4","headers":{"Authorization":"Bearer s3cr3t-value-5"}}}}"#,
    );
    for words in
        [&["mcp", "list"][..], &["mcp", "get", "a"], &["mcp", "get", "b"], &["mcp", "config"], &["doctor"]]
    {
        for json in [false, true] {
            let mut words = words.to_vec();
            if json {
                words.push("--json");
            }
            let ran = home.run(&words);
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("s3cr3t"), "{ran:?}");
        }
    }
    assert!(home.run(&["mcp", "get", "a"]).stdout.contains("${HOME}"), "references stay readable");
}

#[test]
fn an_unknown_server_is_exit_four_with_the_name_that_was_meant() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"github":{"command":"x"}}}"#);
    for words in [
        &["mcp", "get", "gihtub"][..],
        &["mcp", "status", "gihtub"],
        &["mcp", "tools", "gihtub"],
        &["mcp", "call", "gihtub", "x"],
        &["mcp", "remove", "gihtub"],
        &["mcp", "on", "gihtub"],
        &["mcp", "off", "gihtub"],
        &["mcp", "approve", "gihtub"],
        &["mcp", "revoke", "gihtub"],
        &["mcp", "check", "gihtub"],
    ] {
        let ran = home.run(words);
        ran.expect(4);
        assert!(ran.stderr.contains("did you mean github?"), "{ran:?}");
        let mut words = words.to_vec();
        words.push("--json");
        let json = home.run(&words).json(4);
        assert_eq!(json["error"]["code"], "unknown_server");
        assert_eq!(json["error"]["server"], "gihtub");
    }
}

#[test]
fn config_names_the_source_of_every_value() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"a":{"command":"x","trust":"trusted"}}}"#);
    std::fs::write(home.home().join("callboard.toml"), "[timeouts]\nidle = \"7s\"\n").unwrap();
    let json = home.run(&["mcp", "config", "--json"]).json(0);
    let settings = json["data"]["settings"].as_array().unwrap();
    let find = |key: &str| settings.iter().find(|s| s["key"] == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(find("timeouts.idle")["source"]["scope"], "user");
    assert_eq!(find("limits.queue")["source"]["scope"], "default");
    assert_eq!(find("mcpServers.a.trust")["value"], "trusted");
    let file = home.home().join("mcp.json");
    assert_eq!(find("mcpServers.a.trust")["source"]["origin"], file.to_str().unwrap());
    assert!(home.run(&["mcp", "config"]).expect(0).stdout.contains("timeouts.idle"));
}

#[test]
fn an_entry_that_can_not_run_is_refused_before_anything_starts() {
    let home = Home::new();
    home.user(
        r#"{"mcpServers":{"off":{"command":"x","enabled":false},"unset":{"command":"x","env":{"A":"${NOT_SET_ANYWHERE}"}}}}"#,
    );
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"x"}}}"#);
    let code = |name: &str, exit: i32| {
        let json = home.run(&["mcp", "call", name, "t", "--json"]).json(exit);
        json["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code("off", 5), "disabled");
    assert_eq!(code("theirs", 5), "pending_approval");
    assert_eq!(code("unset", 3), "config_unset");
    let ran = home.run(&["mcp", "tools", "theirs"]);
    ran.expect(5);
    assert!(ran.stderr.contains("callboard mcp approve theirs"), "{ran:?}");
    let ran = home.run(&["mcp", "tools", "unset"]);
    assert!(ran.expect(3).stderr.contains("NOT_SET_ANYWHERE"), "{ran:?}");
}

#[test]
fn an_approval_holds_for_the_entry_as_it_stood() {
    let home = Home::new();
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"sh","args":["${HOME}"]}}}"#);
    let state = || names(&home.run(&["mcp", "list", "--json"]).json(0))[0].1.clone();
    assert_eq!(state(), "pending_approval");

    let ran = home.run(&["mcp", "approve", "theirs"]);
    ran.expect(5);
    assert!(ran.stderr.contains("no terminal") && ran.stderr.contains("-y"), "{ran:?}");
    assert_eq!(state(), "pending_approval");

    let json = home.run(&["mcp", "approve", "theirs", "-y", "--json"]).json(0);
    assert_eq!(json["data"]["approved"], true);
    assert_eq!(json["data"]["reads"], json!(["HOME"]));
    assert!(json["data"]["program"].as_str().unwrap().ends_with("/sh"));
    assert_eq!(state(), "usable");
    let again = home.run(&["mcp", "approve", "theirs", "--json"]).json(0);
    assert_eq!(again["data"]["changed"], false, "approved already: nothing to ask");

    home.project_file(r#"{"mcpServers":{"theirs":{"command":"sh","args":["${HOME}","more"]}}}"#);
    assert_eq!(state(), "pending_approval", "an edit makes it pending again");

    home.project_file(r#"{"mcpServers":{"theirs":{"command":"sh","args":["${HOME}"]}}}"#);
    assert_eq!(state(), "usable");
    assert_eq!(home.run(&["mcp", "revoke", "theirs", "--json"]).json(0)["data"]["changed"], true);
    assert_eq!(state(), "pending_approval");
    assert_eq!(home.run(&["mcp", "revoke", "theirs", "--json"]).json(0)["data"]["changed"], false);
}

#[test]
fn a_server_of_ones_own_needs_no_approval() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"mine":{"command":"x"}}}"#);
    assert!(home.run(&["mcp", "approve", "mine"]).expect(2).stderr.contains("needs no approval"));
}

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_cure_it() {
    let home = Home::new();
    let file = home.user(
        r#"{"mcpServers":{"gone":{"command":"no-such-program-anywhere"},"fine":{"command":"sh"},
            "unset":{"command":"sh","env":{"A":"${NOT_SET_ANYWHERE}"}}}}"#,
    );
    home.project_file(r#"{"mcpServers":{"theirs":{"command":"sh"}}}"#);
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let ran = home.run(&["doctor"]);
    ran.expect(1);
    for part in [
        "command not found: no-such-program-anywhere",
        "fix: install it",
        "NOT_SET_ANYWHERE",
        "theirs",
        "chmod 600",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing: {ran:?}");
    }
    let json = home.run(&["doctor", "--json"]).json(1);
    assert_eq!(json["data"]["healthy"], false);
    let errors = json["data"]["findings"].as_array().unwrap().iter().filter(|f| f["level"] == "error");
    assert!(errors.clone().all(|f| f["fix"].is_string()), "every error has a cure: {json}");
    assert_eq!(errors.count(), 2, "{json}");
}

#[test]
fn doctor_is_content_with_a_sound_configuration() {
    let home = Home::new();
    assert_eq!(home.run(&["doctor", "--json"]).json(0)["data"]["healthy"], true);
    home.user(r#"{"mcpServers":{"fine":{"command":"sh"}}}"#);
    assert!(home.run(&["doctor"]).expect(0).stdout.ends_with("Nothing is wrong.\n"));
}

#[test]
fn another_folder_is_entered_first() {
    let home = Home::new();
    let inner = home.project().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join(".mcp.json"), r#"{"mcpServers":{"deep":{"command":"x"}}}"#).unwrap();
    let json = home.run(&["-C", "inner", "mcp", "list", "--json"]).json(0);
    assert_eq!(names(&json), pairs(&[("deep", "pending_approval")]));
    assert_eq!(
        home.run(&["-C", "no-such-folder", "mcp", "list", "--json"]).json(2)["error"]["code"],
        "usage"
    );
}

#[test]
fn completion_knows_the_configured_servers() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"github":{"command":"x"},"gitlab":{"command":"x"}}}"#);
    let asked = home
        .command(&["--", "callboard", "mcp", "get", "git"])
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "3")
        .output()
        .unwrap();
    let words = String::from_utf8(asked.stdout).unwrap();
    assert!(words.contains("github") && words.contains("gitlab"), "{words:?}");
}

#[test]
fn completing_a_tool_starts_no_server() {
    let home = Home::new();
    let mark = home.project().join("started");
    let entry = serde_json::json!({"command": "touch", "args": [mark]});
    home.user(&serde_json::json!({"mcpServers": {"s": entry}}).to_string());
    let asked = home
        .command(&["--", "callboard", "mcp", "call", "s", ""])
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "4")
        .output()
        .unwrap();
    let words = String::from_utf8(asked.stdout).unwrap();
    assert!(words.lines().all(|word| word.starts_with('-')), "options alone: {words:?}");
    assert!(!mark.exists());
    assert!(home.run(&["completions", "--help"]).expect(0).stdout.contains("Completing starts nothing"));
}

#[test]
fn a_variable_of_ours_that_is_not_text_is_told_and_not_taken_for_unset() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::new();
    let odd = std::ffi::OsStr::from_bytes(b"{\"a\":{\"command\":\"\xff\"}}");
    let output = home.command(&["mcp", "list"]).env("CALLBOARD_MCP_SERVERS", odd).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("CALLBOARD_MCP_SERVERS: not UTF-8"), "{stderr}");
}

#[test]
fn an_approval_shows_what_a_project_wrote_and_flags_what_loads_code() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"r":{"command":"mine"}}}"#);
    home.project_file(
        r#"{"mcpServers":{"r":{"command":"sh","args":["--mode","fast\u001b[2J\u202e"],
            "env":{"NODE_OPTIONS":"--require /tmp/evil.js","LD_PRELOAD":"/tmp/evil.so","PATH":"/tmp/evil:/bin",
                "A":"${HOME}/x","API_TOKEN":"hunter2-hunter2","B":"ghp_0123456789abcdefghij0123456789abcdef"}},
          "h":{"url":"https://example.com/mcp","headers":{"X-Region":"north-west-17","Authorization":"Bearer hunter2-hunter2"}}}}"#,
    );
    let shown = |words: &[&str]| {
        let ran = home.run(words);
        ran.expect(0);
        assert!(!ran.stdout.contains("hunter2") && !ran.stdout.contains("ghp_0"), "{ran:?}");
        assert!(words.contains(&"--json") || !ran.stdout.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
        ran.stdout
    };
    for view in [
        shown(&["mcp", "get", "r"]),
        shown(&["mcp", "get", "r", "--json"]),
        shown(&["mcp", "approve", "r", "-y", "--json"]),
        {
            home.run(&["mcp", "revoke", "r"]).expect(0);
            shown(&["mcp", "approve", "r", "-y"])
        },
        shown(&["mcp", "get", "r"]),
    ] {
        for part in ["--require /tmp/evil.js", "/tmp/evil.so", "/tmp/evil:/bin", "${HOME}/x"] {
            assert!(view.contains(part), "{part:?} is missing: {view}");
        }
        for part in [
            "[redacted, 15 characters]",
            "[redacted, 40 characters]",
            "env.NODE_OPTIONS",
            "env.LD_PRELOAD",
            "env.PATH",
            "env.API_TOKEN",
        ] {
            assert!(view.contains(part), "{part:?} is missing: {view}");
        }
    }
    for words in [&["mcp", "get", "h"][..], &["mcp", "approve", "h", "-y"]] {
        let view = shown(words);
        assert!(
            view.contains("north-west-17") && view.contains("Bearer [redacted, 15 characters]"),
            "{view}"
        );
    }
}

#[test]
fn an_approval_says_that_it_replaces_an_entry_of_ones_own() {
    let home = Home::new();
    home.user(r#"{"mcpServers":{"r":{"command":"mine"}}}"#);
    home.project_file(r#"{"mcpServers":{"r":{"command":"sh"},"new":{"command":"sh"}}}"#);
    let says = "approving it replaces your own r from ";
    assert!(home.run(&["mcp", "get", "r"]).expect(0).stdout.contains(says));
    let json = home.run(&["mcp", "approve", "r", "-y", "--json"]).json(0);
    assert!(json["warnings"][0].as_str().unwrap().starts_with(says), "{json}");
    home.run(&["mcp", "revoke", "r"]).expect(0);
    assert!(home.run(&["mcp", "approve", "r", "-y"]).expect(0).stdout.contains(says));
    assert!(!home.run(&["mcp", "approve", "new", "-y"]).expect(0).stdout.contains("replaces"));
}
