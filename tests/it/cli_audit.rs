//! The audit log as the built program writes it and shows it: each operation, whatever its end, and
//! what happens when the log can't be written or was touched.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli_call::{badmcp, call, received, with_server};
use crate::cli_home::Home;

fn log(home: &Home) -> PathBuf {
    home.home().join("audit/audit.jsonl")
}

fn lines(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(log(home)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(home: &Home) -> Vec<String> {
    lines(home).iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_call_is_a_line_before_it_is_sent_and_one_when_it_has_ended() {
    let (home, _) = with_server(&[]);
    call(&home, &["echo", "text=not-in-the-log", "-y"]).expect(0);
    let lines = lines(&home);
    assert_eq!(events(&home), ["started", "finished"]);
    for line in &lines {
        assert_eq!((&line["door"], &line["session"]), (&json!("cli"), &json!(0)));
        assert_eq!(
            (&line["server"], &line["kind"], &line["tool"]),
            (&json!("s"), &json!("tool"), &json!("echo"))
        );
    }
    assert_eq!((&lines[0]["decision"], &lines[0]["decided_by"]), (&json!("run"), &json!("allow s/echo")));
    assert!(lines[0]["args_hash"].as_str().unwrap().starts_with("jcs:"));
    assert_eq!((&lines[1]["outcome"], &lines[1]["exec_count"]), (&json!("ok"), &json!(1)));
    assert!(lines[1]["duration_ms"].as_f64().unwrap() > 0.0 && lines[1]["bytes_in"].as_u64().unwrap() > 0);
    assert_eq!(lines[0]["call_id"], lines[1]["call_id"]);
    let text = std::fs::read_to_string(log(&home)).unwrap();
    assert!(!text.contains("not-in-the-log"), "arguments are never in it");

    let verified = home.run(&["audit", "verify", "--json"]).json(0);
    assert_eq!((&verified["data"]["whole"], &verified["data"]["lines"]), (&json!(true), &json!(2)));
    let last = &verified["data"]["last"];
    let expect = format!("{}:{}", last["seq"], last["mac"].as_str().unwrap());
    home.run(&["audit", "verify", "--expect", &expect]).expect(0);
    home.run(&["audit", "verify", "--expect", &format!("1:{}", last["mac"].as_str().unwrap())]).expect(1);
    home.run(&["audit", "verify", "--expect", "1"]).expect(2);
}

#[test]
fn every_way_in_which_a_call_can_end_has_its_line() {
    let (home, trace) = with_server(&[]);
    call(&home, &["echo", "text=x"]).expect(5);
    home.run(&["mcp", "read", "s", "no:such/thing"]);
    let lines = lines(&home);
    assert_eq!(events(&home)[0], "refused", "one line: nothing was started");
    assert_eq!(lines[0]["decision"], "ask");
    assert_eq!(
        (&lines[0]["decided_by"], &lines[0]["error_type"]),
        (&json!("mode readonly"), &json!("needs_approval"))
    );
    assert!(lines[0]["reason"].as_str().unwrap().contains("needs approval"));
    assert_eq!((&lines[1]["kind"], &lines[1]["decided_by"]), (&json!("resource"), &json!("no effect")));
    assert_eq!(lines[2]["outcome"], "rpc_error");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((received(&trace, "tools/call"), received(&trace, "resources/read")), (0, 1));
    home.run(&["audit", "verify"]).expect(0);
}

#[test]
fn a_call_whose_caller_left_is_told_as_such() {
    let (home, trace) = with_server(&["--slow", "60000"]);
    let words = ["mcp", "call", "s", "echo", "text=x", "-y", "--json"];
    let child = crate::cli_call::running(&home, &words, &trace, "tools/call");
    assert_eq!(events(&home), ["started"], "while it runs");
    crate::cli_call::interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(events(&home), ["started", "finished"]);
    assert_eq!(lines(&home)[1]["outcome"], "abandoned");
}

#[test]
fn a_secret_in_a_name_or_an_error_does_not_reach_the_log() {
    let home = Home::new();
    let secret = "k3y-9f8e7d6c5b4a-value";
    let entry = json!({"mcpServers": {"s": {"command": badmcp(), "env": {"TOKEN": secret}}}});
    home.user(&entry.to_string());
    home.run(&["mcp", "read", "s", &format!("x://{secret}/y")]);
    home.run(&["mcp", "call", "s", secret, &format!("a={secret}"), "-y"]);
    home.run(&["mcp", "call", "s", "echo", &format!("text={secret}"), "-y"]).expect(0);
    assert!(lines(&home).len() >= 4);
    for file in std::fs::read_dir(home.home().join("audit")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains(secret), "{text}");
    }
}

/// A log that can't be written: a file lies where its folder should be.
fn without_log(home: &Home) {
    std::fs::write(home.home().join("audit"), "in the way").unwrap();
}

#[test]
fn a_strict_log_that_can_not_be_written_refuses_what_may_change_something_and_nothing_else() {
    let (home, trace) = with_server(&[]);
    without_log(&home);
    let refused = call(&home, &["echo", "text=x", "-y", "--json"]).json(5);
    assert_eq!(refused["error"]["code"], "audit_unavailable");
    assert_eq!(refused["error"]["delivery"], "not_sent");
    assert!(refused["error"]["fix"].as_str().unwrap().contains("audit.mode"), "{refused}");
    assert_eq!(received(&trace, "tools/call"), 0, "it never reached the server");
    home.run(&["mcp", "read", "s", "no:such/thing"]);
    assert_eq!(received(&trace, "resources/read"), 1, "reading goes on");
    let ran = home
        .run_env(&[("CALLBOARD_AUDIT_MODE", "best-effort")], &["mcp", "call", "s", "echo", "text=x", "-y"]);
    ran.expect(0);
    assert_eq!(ran.stderr.matches("the audit log can't be written").count(), 1, "{ran:?}");
    std::fs::remove_file(home.home().join("audit")).unwrap();
    home.run_env(&[("CALLBOARD_AUDIT_MODE", "off")], &["mcp", "call", "s", "echo", "text=x", "-y"]).expect(0);
    assert!(!home.home().join("audit").exists(), "off writes nothing");
}

#[test]
fn a_project_can_not_turn_the_log_off() {
    let (home, _) = with_server(&[]);
    std::fs::create_dir(home.project().join(".callboard")).unwrap();
    std::fs::write(home.project().join(".callboard/callboard.toml"), "[audit]\nmode = \"off\"\n").unwrap();
    call(&home, &["echo", "text=x", "-y"]);
    assert_eq!(events(&home), ["started", "finished"]);
}

#[test]
fn a_touched_log_is_named_line_by_line_and_not_exported() {
    let (home, _) = with_server(&[]);
    for _ in 0..2 {
        call(&home, &["echo", "text=x", "-y"]).expect(0);
    }
    let sound = std::fs::read_to_string(log(&home)).unwrap();
    std::fs::write(log(&home), sound.replacen("\"ok\"", "\"no\"", 1)).unwrap();
    let broken = home.run(&["audit", "verify", "--json"]).json(1);
    let finding = &broken["data"]["findings"][0];
    assert_eq!(
        (&finding["kind"], &finding["line"], &finding["first_seq"]),
        (&json!("edited"), &json!(2), &json!(2))
    );
    let told = home.run(&["audit", "verify"]);
    told.expect(1);
    assert!(told.stdout.contains("edited") && told.stdout.contains("What this proves"), "{told:?}");
    let export = home.run(&["audit", "export"]);
    export.expect(1);
    assert!(
        export.stdout.is_empty() && export.stderr.contains("audit_broken")
            || export.stderr.contains("broken"),
        "{export:?}"
    );
    assert_eq!(home.run(&["audit", "export", "--broken"]).expect(1).stdout.lines().count(), 4);

    // The next program goes on behind it, and the break stays.
    call(&home, &["echo", "text=x", "-y"]).expect(0);
    home.run(&["audit", "verify"]).expect(1);
}

#[test]
fn the_last_lines_are_shown_filtered_and_exported_as_they_are() {
    let (home, _) = with_server(&[]);
    call(&home, &["echo", "text=x", "-y"]).expect(0);
    call(&home, &["echo", "text=x"]).expect(5);
    let shown = home.run(&["audit", "tail"]);
    shown.expect(0);
    assert!(shown.stdout.contains("allow s/echo") && shown.stdout.contains("refused"), "{shown:?}");
    let lines = |words: &[&str]| {
        let all: Vec<&str> = ["audit", "tail", "--json"].iter().chain(words).copied().collect();
        home.run(&all).json(0)["data"]["lines"].as_array().unwrap().len()
    };
    assert_eq!((lines(&[]), lines(&["-n", "1"]), lines(&["-n", "0"])), (3, 1, 0));
    assert_eq!((lines(&["--outcome", "refused"]), lines(&["--server", "x"])), (1, 0));
    assert_eq!((lines(&["--tool", "echo", "--since", "1h"]), lines(&["--since", "0"])), (3, 0));
    let export = home.run(&["audit", "export"]);
    assert_eq!(export.expect(0).stdout, std::fs::read_to_string(log(&home)).unwrap());
    let csv = home.run(&["audit", "export", "--format", "csv", "--outcome", "ok"]);
    assert_eq!(csv.expect(0).stdout.lines().count(), 2);
    assert!(csv.stdout.starts_with("seq,ts,"), "{csv:?}");
}

#[test]
fn a_log_is_followed_while_others_write() {
    let (home, _) = with_server(&[]);
    let mut child = home.command(&["audit", "tail", "-f", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = BufReader::new(child.stdout.take().unwrap()).lines();
    call(&home, &["echo", "text=x", "-y"]).expect(0);
    for event in ["started", "finished"] {
        let line: Value = serde_json::from_str(&seen.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["event"], event);
    }
    crate::cli_call::interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn programs_that_run_at_once_write_one_chain() {
    let (home, _) = with_server(&[]);
    let children: Vec<_> = (0..6)
        .map(|n| {
            let text = format!("text={n}");
            let mut command = home.command(&["mcp", "call", "s", "echo", &text, "-y"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let verified = home.run(&["audit", "verify", "--json"]).json(0);
    assert_eq!((&verified["data"]["lines"], &verified["data"]["unknown_total"]), (&json!(12), &json!(0)));
    let boots: std::collections::BTreeSet<String> =
        lines(&home).iter().map(|line| line["boot_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(boots.len(), 6);
}

#[test]
fn approvals_of_a_project_and_their_end_are_lines_of_their_own() {
    let home = Home::new();
    home.project_file(&json!({"mcpServers": {"p": {"command": badmcp()}}}).to_string());
    home.run(&["mcp", "approve", "p", "-y"]).expect(0);
    home.run(&["mcp", "revoke", "p"]).expect(0);
    home.run(&["mcp", "revoke", "p"]).expect(0);
    assert_eq!(events(&home), ["trust.approved", "trust.revoked"]);
    assert_eq!(lines(&home)[0]["server"], "p");
    assert!(lines(&home)[0]["reason"].as_str().unwrap().starts_with("entry "));
    // Trust is not given unseen; to take it away is never held up.
    std::fs::remove_dir_all(home.home().join("audit")).unwrap();
    without_log(&home);
    let refused = home.run(&["mcp", "approve", "p", "-y", "--json"]).json(5);
    assert_eq!(refused["error"]["code"], "audit_unavailable");
    home.run(&["mcp", "revoke", "p"]).expect(0);
}

#[test]
fn rules_given_and_taken_back_are_lines_before_they_count() {
    let (home, _) = with_server(&[]);
    home.run(&["mcp", "allow", "s", "echo", "add"]).expect(0);
    home.run(&["mcp", "allow", "s", "echo"]).expect(0);
    home.run(&["mcp", "allow", "s", "echo", "--revoke"]).expect(0);
    home.run(&["mcp", "allow", "s", "echo", "--revoke"]).expect(0);
    let told: Vec<Value> =
        lines(&home).iter().map(|line| json!([line["event"], line["server"], line["tool"]])).collect();
    let expected =
        [["rule.allowed", "s", "add"], ["rule.allowed", "s", "echo"], ["rule.revoked", "s", "echo"]];
    assert_eq!(json!(told), json!(expected), "what changed nothing is no line");
    assert_eq!(lines(&home)[0]["reason"], "rule for the user entry");
    home.run(&["audit", "verify"]).expect(0);

    std::fs::remove_dir_all(home.home().join("audit")).unwrap();
    without_log(&home);
    let refused = home.run(&["mcp", "allow", "s", "count", "--json"]).json(5);
    assert_eq!(refused["error"]["code"], "audit_unavailable");
    home.run(&["mcp", "allow", "s", "--revoke"]).expect(0);
    let rules = home.run(&["mcp", "rules", "--json"]).json(0);
    assert_eq!(rules["data"]["rules"], json!([]), "none was made, and all are taken back");
}

#[test]
fn a_held_tool_is_one_line_with_its_rule_and_the_pin_that_a_person_accepts_is_one() {
    let home = Home::new();
    let configured = |flags: &[&str]| {
        let entry = json!({"mcpServers": {"s": {"command": badmcp(), "args": flags, "allowAllTools": true}}});
        home.user(&entry.to_string());
    };
    configured(&[]);
    call(&home, &["echo", "text=x"]).expect(0);
    configured(&["--desc-kind", "inject"]);
    call(&home, &["echo", "text=x"]).expect(5);
    home.run(&["mcp", "pin", "accept", "s", "echo", "-y"]).expect(0);
    home.run(&["mcp", "pin", "accept", "s", "echo", "-y"]).expect(0);
    call(&home, &["echo", "text=x"]).expect(0);
    assert_eq!(events(&home), ["started", "finished", "refused", "pin.accepted", "started", "finished"]);
    let lines = lines(&home);
    assert_eq!(
        (&lines[2]["decided_by"], &lines[2]["error_type"], &lines[2]["decision"]),
        (&json!("held by a pin"), &json!("held"), &json!("refuse"))
    );
    assert_eq!((&lines[3]["server"], &lines[3]["tool"]), (&json!("s"), &json!("echo")));
    let pin = |line: &Value| line["pin"].as_str().unwrap().to_owned();
    assert_ne!(pin(&lines[0]), pin(&lines[2]), "another definition");
    assert!(pin(&lines[2]) == pin(&lines[3]) && pin(&lines[3]) == pin(&lines[4]));
    let list = home.run(&["mcp", "pin", "list", "--json"]).json(0);
    let pins = list["data"]["pins"].as_array().unwrap();
    assert!(pins.iter().any(|row| row["tool"] == "echo" && row["sha256"] == lines[4]["pin"]), "{list}");
    assert!(lines[3]["reason"].as_str().unwrap().starts_with("it was held: "), "{}", lines[3]);
}

#[test]
fn what_an_entry_denies_is_one_line_with_the_rule() {
    let home = Home::new();
    let entry = json!({"command": badmcp(), "allowAllTools": true, "deniedTools": ["ec*"]});
    home.user(&json!({"mcpServers": {"s": entry}}).to_string());
    call(&home, &["echo", "text=x", "-y"]).expect(5);
    assert_eq!(events(&home), ["refused"]);
    let line = &lines(&home)[0];
    assert_eq!(
        (&line["decided_by"], &line["error_type"], &line["exec_count"]),
        (&json!("deniedTools ec*"), &json!("denied"), &json!(0))
    );
}
