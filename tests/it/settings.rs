//! From the file to the behaviour: each key of an entry, and each setting of the host, acts.
//! A JSON file is written, loaded, made a plan of, and what runs then is looked at.

use serde_json::json;

use crate::cli_home::Home;

#[test]
fn a_label_is_shown_beside_the_name_and_steers_no_terminal() {
    let home = Home::new();
    let label = "My \u{1b}[31mfiles\u{202e}\n  ready";
    let entries = json!({"mcpServers": {
        "fs": {"command": "/no/such/program", "label": label, "description": "of\u{1b}]0;x\u{7} mine"},
        "off": {"command": "x", "enabled": false, "title": "Later"},
        "same": {"command": "x", "enabled": false, "label": "same"},
    }});
    home.user(&entries.to_string());
    let shown = "fs (My files\\u{202e} ready)";
    for words in [&["mcp", "list"][..], &["mcp", "get", "fs"], &["mcp", "status"], &["mcp", "status", "fs"]] {
        let ran = home.run(words);
        assert!(ran.stdout.contains(shown), "{ran:?}");
        assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{ran:?}");
    }
    for verb in ["list", "status"] {
        let ran = home.run(&["mcp", verb]);
        assert!(ran.stdout.contains("off (Later)") && ran.stdout.contains("\nsame  "), "{ran:?}");
    }
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    let status = home.run(&["mcp", "status", "--json"]).json(1);
    for shown in [&list, &status] {
        let labels: Vec<_> =
            shown["data"]["servers"].as_array().unwrap().iter().map(|s| &s["label"]).collect();
        assert_eq!(labels, [&json!("My files\\u{202e} ready"), &json!("Later"), &json!(null)]);
    }
    assert_eq!(list["data"]["servers"][0]["description"], "of mine");
}

#[test]
fn a_required_server_that_is_off_or_unapproved_makes_the_status_unhealthy() {
    let home = Home::new();
    let entry = |required: bool| json!({"command": "x", "enabled": false, "required": required});
    let file = |entry: serde_json::Value| json!({"mcpServers": {"db": entry}}).to_string();
    home.user(&file(entry(false)));
    assert_eq!(home.run(&["mcp", "status", "--json"]).json(0)["data"]["healthy"], true);
    home.user(&file(entry(true)));
    let json = home.run(&["mcp", "status", "--json"]).json(1);
    let db = &json["data"]["servers"][0];
    assert_eq!((&json["data"]["healthy"], &db["required"]), (&json!(false), &json!(true)));
    assert_eq!(db["reason"], "disabled");
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; turned off in user"), "{ran:?}");
    let list = home.run(&["mcp", "list", "--json"]).json(0);
    assert_eq!(list["data"]["servers"][0]["required"], true);

    home.user("{}");
    home.project_file(&file(json!({"command": "x"})));
    home.run(&["mcp", "status"]).expect(0);
    home.project_file(&file(json!({"command": "x", "required": true})));
    let ran = home.run(&["mcp", "status"]);
    assert!(ran.expect(1).stdout.contains("required; ") && ran.stdout.contains("pending"), "{ran:?}");
}

#[test]
fn a_server_that_should_run_and_does_not_makes_the_status_unhealthy_required_or_not() {
    let home = Home::new();
    for required in [false, true] {
        let entry = json!({"command": "/no/such/program", "required": required});
        home.user(&json!({"mcpServers": {"s": entry}}).to_string());
        let json = home.run(&["mcp", "status", "--json"]).json(1);
        assert_eq!(json["data"]["servers"][0]["required"], required);
        assert_eq!(json["data"]["servers"][0]["reason"], "config_error");
    }
    let help = home.run(&["mcp", "status", "--help"]);
    assert!(help.expect(0).stdout.contains("required: true"), "{help:?}");
}
