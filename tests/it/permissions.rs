//! Field reports about permissions, through the built program: rules that are dropped or reach too
//! far, and project files that run before anybody agreed.

use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::support::bad;

fn server(report: &str) -> Value {
    json!({"command": bad::program(), "args": bad::flags(report)})
}

/// Whether a call of the tool runs; where it does not, it is refused.
#[track_caller]
fn runs(home: &Home, server: &str, tool: &str) -> bool {
    let ran = home.run(&["mcp", "call", server, tool]);
    assert!(ran.code == 0 || ran.code == 5, "{ran:?}");
    ran.code == 0
}

#[test]
fn a_rule_that_can_not_act_is_named_and_the_others_act() {
    let home = Home::new();
    let mut denying = server("B127");
    denying["deniedTools"] = json!(["co*"]);
    home.user(&json!({"mcpServers": {"a": denying, "b": server("B127")}}).to_string());
    home.run(&["mcp", "allow", "a", "*"]).expect(0);
    assert!(runs(&home, "a", "echo") && !runs(&home, "a", "count") && !runs(&home, "b", "echo"));
    // What can't be a rule is not written.
    for (server, tool, code) in [("a", "co*", 2), ("a", "", 2), ("zz", "*", 4)] {
        home.run(&["mcp", "allow", server, tool]).expect(code);
    }
    let file = home.home().join("allow.json");
    let mut book: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let blocks = book["servers"].as_array_mut().unwrap();
    blocks.push(json!({"scope": "user", "server": "zz", "tools": ["*"]}));
    blocks.push(json!({"scope": "user", "server": "b", "tools": ["*(", "co*"]}));
    std::fs::write(&file, book.to_string()).unwrap();
    let told = home.run(&["mcp", "rules", "--json"]).json(0);
    let faults = told["data"]["faults"].to_string();
    assert!(faults.contains("zz/") && faults.contains("b/*(") && faults.contains("b/co*"), "{told}");
    assert!(runs(&home, "a", "echo") && !runs(&home, "b", "count"));
    // A change keeps what is at fault elsewhere.
    home.run(&["mcp", "allow", "a", "echo", "--revoke"]).expect(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("*("));
    std::fs::write(&file, "{ broken").unwrap();
    assert!(!runs(&home, "a", "echo"), "a broken file allows nothing");
    let broken = home.run(&["mcp", "rules"]);
    assert!(broken.expect(3).stderr.contains("repair or delete it"), "{broken:?}");
    home.run(&["mcp", "allow", "a", "echo"]).expect(3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ broken");
}

#[test]
fn a_rule_reaches_exactly_the_server_that_it_names() {
    let home = Home::new();
    let names = ["git", "github", "Git", "git_", "foo.bar", "foo_bar"];
    let servers: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), server("B128"))).collect();
    home.user(&json!({ "mcpServers": servers }).to_string());
    home.run(&["mcp", "allow", "git", "*"]).expect(0);
    home.run(&["mcp", "allow", "foo.bar", "echo"]).expect(0);
    for name in names {
        assert_eq!(runs(&home, name, "echo"), name == "git" || name == "foo.bar", "{name}");
        assert_eq!(runs(&home, name, "count"), name == "git", "{name}");
    }
    let why = home.run(&["mcp", "why", "git", "echo", "--json"]).json(0);
    assert_eq!(
        (&why["data"]["tool"]["decision"], &why["data"]["tool"]["rule"]),
        (&json!("run"), &json!("allow git/*"))
    );
    let why = home.run(&["mcp", "why", "Git", "echo", "--json"]).json(0);
    assert_eq!(why["data"]["tool"]["rule"], "mode readonly");
}

#[test]
fn nothing_of_a_project_runs_before_somebody_agreed_to_exactly_that() {
    let home = Home::new();
    let canary = home.project().join("CANARY");
    let theirs = |argument: &str| {
        let mut entry = server("B131");
        entry["args"].as_array_mut().unwrap().extend([json!("--count"), json!(canary), json!(argument)]);
        home.project_file(&json!({"mcpServers": {"s": entry}}).to_string());
    };
    let mine = home.project().join("mine");
    let own = json!({"command": bad::program(), "args": ["--count", mine]});
    home.user(&json!({"mcpServers": {"s": own}}).to_string());
    theirs("--crlf");
    home.run(&["mcp", "allow", "s", "*"]).expect(0);
    for words in
        [&["mcp", "list"][..], &["mcp", "status"], &["mcp", "why", "s"], &["mcp", "tools"], &["doctor"]]
    {
        home.run(words).expect(0);
    }
    assert!(runs(&home, "s", "count") && mine.exists(), "one's own entry stays in force");
    assert!(!canary.exists());
    home.run(&["mcp", "approve", "s", "-y"]).expect(0);
    assert!(!runs(&home, "s", "count"), "the rule was for one's own entry");
    home.run(&["mcp", "allow", "s", "count"]).expect(0);
    assert!(runs(&home, "s", "count") && canary.exists());
    std::fs::remove_file(&canary).unwrap();
    theirs("--bom");
    assert!(runs(&home, "s", "count") && !canary.exists(), "edited: one's own is in force again");
    // Whoever approves the edit sees what was allowed before it.
    let approved = home.run(&["mcp", "approve", "s", "-y", "--json"]).json(0);
    assert_eq!(approved["data"]["allow_rules"], json!(["s/count"]));
    // Whoever takes the approval back sees what stays allowed, and how to take that back too.
    let revoked = home.run(&["mcp", "revoke", "s"]);
    assert!(revoked.expect(0).stdout.contains("`callboard mcp allow s count --revoke`"), "{revoked:?}");
    home.run(&["mcp", "allow", "s", "count", "--revoke"]).expect(0);
    assert_eq!(home.run(&["mcp", "revoke", "s", "--json"]).json(0)["data"]["allow_rules"], json!([]));
}

#[test]
fn the_mode_of_the_flag_and_of_the_settings_is_the_one_in_force() {
    let home = Home::new();
    home.user(&json!({"mcpServers": {"s": server("B128")}}).to_string());
    assert!(!runs(&home, "s", "echo"));
    home.run(&["mcp", "call", "s", "echo", "--mode", "auto"]).expect(0);
    home.run(&["mcp", "call", "s", "echo", "-y", "--mode", "plan"]).expect(5);
    home.run(&["mcp", "call", "s", "echo", "--allow", "s/echo"]).expect(0);
    home.run(&["mcp", "call", "s", "echo", "--allow", "S/echo"]).expect(2);
    home.run(&["mcp", "call", "s", "echo", "--mode", "Auto"]).expect(2);
    let status = home.run_env(&[("CALLBOARD_MODE", "plan")], &["mcp", "status", "--json"]).json(0);
    assert_eq!(status["data"]["mode"], "plan");
    let status = home.run(&["mcp", "status", "--json", "--mode", "safe"]).json(1);
    assert_eq!((&status["data"]["mode"], &status["data"]["healthy"]), (&json!("safe"), &json!(false)));
    let refused = home.run(&["mcp", "call", "s", "echo", "-y", "--mode", "safe", "--json"]).json(5);
    assert_eq!(refused["error"]["code"], "config_spawn");
    assert!(refused["error"]["fix"].as_str().unwrap().contains("spawn.allow"), "{refused}");
}
