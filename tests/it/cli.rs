//! The program as a script sees it: usage, help, codes, completion.

use crate::cli_home::Home;

#[test]
fn a_wrong_verb_is_a_usage_error_in_both_forms() {
    let home = Home::new();
    let ran = home.run(&["mcp", "sttus"]);
    ran.expect(2);
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.contains("\nfix: did you mean `status`?"),
        "{ran:?}"
    );

    let json = home.run(&["mcp", "sttus", "--json"]).json(2);
    assert_eq!(json["schema"], "callboard.error/1");
    assert_eq!(json["ok"], false);
    assert_eq!(json["error"]["code"], "usage");
    assert_eq!(json["error"]["exit_code"], 2);
}

#[test]
fn help_teaches_every_verb_with_an_example() {
    let home = Home::new();
    let mcp = home.run(&["mcp", "--help"]);
    mcp.expect(0);
    let verbs = [
        "list",
        "get",
        "status",
        "why",
        "config",
        "tools",
        "resources",
        "read",
        "prompts",
        "prompt",
        "call",
        "check",
        "add",
        "add-json",
        "remove",
        "enable",
        "disable",
        "on",
        "off",
        "approve",
        "revoke",
        "allow",
        "rules",
    ];
    for verb in verbs {
        assert!(mcp.stdout.contains(&format!("  {verb} ")), "{verb} is not in the list: {}", mcp.stdout);
        let help = home.run(&["mcp", verb, "--help"]);
        help.expect(0);
        assert!(help.stdout.contains(&format!("callboard mcp {verb}")), "{verb}: {}", help.stdout);
        assert_eq!(help.stderr, "");
    }
    for verb in ["doctor", "explain", "completions", "secret"] {
        assert!(home.run(&[verb, "--help"]).expect(0).stdout.contains("Examples:"), "{verb}");
    }
}

#[test]
fn no_verb_shows_the_help_and_is_a_usage_error() {
    let home = Home::new();
    let ran = home.run(&[]);
    ran.expect(2);
    assert!(ran.stderr.contains("callboard demo"), "{ran:?}");
    assert_eq!(home.run(&["mcp", "--json"]).json(2)["error"]["code"], "usage");
}

#[test]
fn verbs_of_a_running_host_end_with_seven() {
    let home = Home::new();
    for words in [
        &["mcp", "start", "x"][..],
        &["mcp", "stop", "x"],
        &["mcp", "restart"],
        &["mcp", "reload"],
        &["mcp", "reconnect"],
        &["mcp", "logs", "x", "-f"],
        &["mcp", "wait", "--timeout", "1s"],
        &["mcp", "on"],
        &["mcp", "off"],
    ] {
        let ran = home.run(words);
        ran.expect(7);
        assert!(ran.stderr.contains("needs a running host"), "{ran:?}");
    }
    assert_eq!(home.run(&["--json", "mcp", "reload"]).json(7)["error"]["code"], "needs_host");
}

#[test]
fn words_of_later_versions_say_so() {
    let home = Home::new();
    for words in [&["agent"][..], &["--profile", "x"]] {
        let ran = home.run(words);
        ran.expect(2);
        assert!(ran.stderr.contains("not part of this version"), "{ran:?}");
    }
}

#[test]
fn a_code_is_explained_and_a_stranger_is_not() {
    let home = Home::new();
    let json = home.run(&["explain", "connection_lost", "--json"]).json(0);
    assert_eq!(json["schema"], "callboard.explain/1");
    assert_eq!(json["data"]["code"], "connection_lost");
    home.run(&["explain", "nonsense"]).expect(2);
}

#[test]
fn completion_knows_the_verbs() {
    let home = Home::new();
    assert!(home.run(&["completions", "bash"]).expect(0).stdout.contains("callboard"));
    let asked = home
        .command(&["--", "callboard", "mcp", "re"])
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "2")
        .output()
        .unwrap();
    let words = String::from_utf8(asked.stdout).unwrap();
    for verb in ["read", "remove", "resources", "revoke"] {
        assert!(words.contains(verb), "{verb} is missing in {words:?}");
    }
}

#[test]
fn completion_knows_what_a_server_offered_and_starts_nothing() {
    let home = Home::new();
    let trace = home.project().join("trace.jsonl");
    let args = ["--trace".to_owned(), trace.display().to_string()];
    let program = crate::support::bad::program().display().to_string();
    home.user(&serde_json::json!({"mcpServers": {"s": {"command": program, "args": args}}}).to_string());
    let offered = |words: &[&str]| -> Vec<String> {
        let index = (words.len() - 1).to_string();
        let line: Vec<&str> = ["--"].iter().chain(words).copied().collect();
        let asked = home
            .command(&line)
            .env("COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", index)
            .env("_CLAP_IFS", "\n")
            .output()
            .unwrap();
        String::from_utf8(asked.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    assert!(offered(&["callboard", "mcp", "call", "s", "ec"]).is_empty(), "nothing is known yet");
    home.run(&["mcp", "tools", "s"]).expect(0);
    let starts = || std::fs::read_to_string(&trace).unwrap().matches("\"ev\":\"start\"").count();
    let before = starts();
    assert!(before > 0);
    assert_eq!(offered(&["callboard", "mcp", "call", "s", "ec"]), ["echo"]);
    assert_eq!(offered(&["callboard", "mcp", "why", "s", "bi"]), ["big"]);
    assert!(!offered(&["callboard", "mcp", "read", "s", ""]).is_empty());
    assert!(!offered(&["callboard", "mcp", "prompt", "s", ""]).is_empty());
    assert!(offered(&["callboard", "mcp", "call", "t", "ec"]).is_empty(), "no such server");
    assert_eq!(starts(), before, "nothing was started");
}

#[test]
fn a_secret_is_piped_in_read_by_its_server_and_never_shown() {
    let home = Home::new();
    let program = crate::support::bad::program().display().to_string();
    let args = ["--stderr", "key ${secret:API/KEY}", "--exit-on-start", "3"];
    home.user(&serde_json::json!({"mcpServers": {"s": {"command": program, "args": args}}}).to_string());
    let without = home.run(&["mcp", "why", "s", "--json"]).json(1);
    assert_eq!(without["data"]["verdict"]["fix"], "callboard secret set API/KEY");
    let stored = home.run_with(&["secret", "set", "API/KEY"], "s3cr3t-value-1\n");
    assert!(stored.expect(0).stdout.contains("Read by s (args[1])."), "{stored:?}");
    let with = home.run(&["mcp", "why", "s"]);
    assert!(with.expect(1).stdout.contains("stderr: key [redacted]"), "{with:?}");
    let listed = home.run(&["secret", "list", "--json"]).json(0);
    assert_eq!(listed["data"]["secrets"][0]["used_by"][0]["key"], "args[1]");
    assert_eq!(home.run(&["secret", "rm", "API/KEY", "--json"]).json(5)["error"]["code"], "secret_in_use");
    let on_the_line = home.run(&["secret", "set", "API/KEY", "s3cr3t-value-1"]);
    on_the_line.expect(2);
    home.run(&["secret", "rm", "API/KEY", "--force"]).expect(0);
    for ran in [stored, with, on_the_line] {
        assert!(
            !format!("{ran:?}").replace("\"s3cr3t-value-1\"", "").replace(&ran.words, "").contains("s3cr3t")
        );
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let home = Home::new();
    let mut command = home.command(&["explain", "--json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_answer_that_stdout_can_not_take_is_told_and_never_ends_with_zero() {
    let home = Home::new();
    let lost = |words: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = home.command(words).stdout(full).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let told = "error: can't write the answer to stdout: No space left on device";
    let cases: [(&[&str], i32); 6] = [
        (&["--help"], 1),
        (&["mcp", "list", "--json"], 1),
        (&["mcp", "status"], 1),
        (&["mcp", "status", "--watch"], 1),
        (&["demo"], 1),
        (&["mcp", "get", "nobody", "--json"], 4),
    ];
    for (words, code) in cases {
        let (ended, stderr) = lost(words);
        assert_eq!(ended, Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(told) && stderr.contains("\nfix: "), "{words:?}: {stderr}");
    }
}

#[test]
fn a_non_blocking_stdout_gets_the_whole_answer() {
    use std::io::Read as _;
    let home = Home::new();
    // Longer than a pipe holds.
    let entries: serde_json::Map<String, serde_json::Value> = (0..500)
        .map(|n| (format!("s{n}"), serde_json::json!({"command": "x", "args": ["y".repeat(400)]})))
        .collect();
    home.user(&serde_json::json!({ "mcpServers": entries }).to_string());
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut command = home.command(&["mcp", "list", "--json"]);
    let child = command.stdout(writer).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The command holds the writing end too.
    drop(command);
    let mut answer = String::new();
    reader.read_to_string(&mut answer).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["data"]["servers"].as_array().unwrap().len(), 500);
    assert!(answer.to_string().len() > 70_000);
}

#[test]
fn a_stdout_that_can_not_be_written_to_never_ends_with_zero() {
    let home = Home::new();
    let unwritable = std::fs::File::open("/dev/null").unwrap();
    let output = home.command(&["mcp", "list"]).stdout(unwritable).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: can't write the answer to stdout: "), "{stderr}");
}
