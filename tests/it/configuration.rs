//! Field reports about configuration files, through the built program: syntax, expansion,
//! precedence, working folders, and one bad entry beside good ones.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli_home::{Home, Ran};
use crate::support::bad::{self, Web};

const NOTHING: &str = "No server is configured";

/// A call of `echo` on a server, expected to come back.
#[track_caller]
fn echoes(home: &Home, env: &[(&str, &str)], server: &str) {
    let ran = home.run_env(env, &["mcp", "call", server, "echo", "text=it answers", "-y"]);
    assert_eq!(ran.expect(0).stdout.trim_end(), "it answers", "{ran:?}");
}

/// What `mcp list --json` says of a server.
#[track_caller]
fn listed(ran: &Ran, server: &str) -> Value {
    let list: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let servers = list["data"]["servers"].as_array().unwrap();
    servers.iter().find(|entry| entry["name"] == server).unwrap_or_else(|| panic!("{server}: {list}")).clone()
}

fn entry(args: &[&str]) -> Value {
    json!({"command": bad::program(), "args": args})
}

#[test]
fn comments_are_read_and_a_broken_file_is_named_and_never_rewritten() {
    let home = Home::new();
    let flags = serde_json::to_string(&bad::flags("B112")).unwrap();
    let program = serde_json::to_string(&bad::program()).unwrap();
    let text = format!(
        "\u{feff}// mine\n{{\n  /* all of\n     them */\n  \"mcpServers\": {{\n    \
         \"a\": {{\"command\": {program}, \"args\": {flags},}}, // one\n  }},\n}}\n"
    );
    let file = home.user(&text);
    echoes(&home, &[], "a");
    home.run(&["mcp", "add", "b", "--", "sh"]).expect(0);
    let kept = std::fs::read_to_string(&file).unwrap();
    for comment in ["// mine", "/* all of\n     them */", "// one"] {
        assert!(kept.contains(comment), "{comment} is gone: {kept}");
    }
    echoes(&home, &[], "a");

    let broken = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"sh\"\n  }\n";
    home.user(broken);
    for words in [&["mcp", "status"][..], &["mcp", "list"], &["mcp", "call", "a", "echo", "-y"], &["doctor"]]
    {
        let ran = home.run(words);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        let place = told.split_once(&format!("{}:", file.display())).unwrap_or_else(|| panic!("{ran:?}")).1;
        let mut numbers = place.splitn(3, ':');
        let mut number = || numbers.next().and_then(|number| number.parse::<usize>().ok());
        assert_eq!((number(), number()), (Some(2), Some(17)), "the object without end: {ran:?}");
        assert!(ran.code != 0 && !told.contains(NOTHING), "a broken file is not an empty one: {ran:?}");
    }
    let other = home.project().join("other.json");
    std::fs::write(&other, json!({"mcpServers": {"fine": entry(&[])}}).to_string()).unwrap();
    let status = home.run(&["mcp", "status", "--json", "--mcp-config", other.to_str().unwrap()]).json(3);
    assert_eq!(status["data"]["servers"][0]["state"], "ready", "the other file still counts");
    assert_eq!(status["data"]["healthy"], false);
    for words in [
        &["mcp", "add", "c", "--", "sh"][..],
        &["mcp", "add", "--force", "a", "--", "sh"],
        &["mcp", "remove", "a", "-s", "user"],
    ] {
        let ran = home.run(words);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(&format!("{}:", file.display())), "{ran:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), broken, "{words:?}");
    }
}

#[tokio::test]
async fn variables_expand_everywhere_and_a_missing_one_disables_its_entry_alone() {
    let home = Home::new();
    let folder = home.project();
    let [mut piped, mut http] = bad::runs_in("B113", &folder);
    http.extend(["--trace".to_owned(), folder.join("http").display().to_string()]);
    let web = Web::start(&http, &folder.join("port")).await;
    std::fs::create_dir(folder.join("sub")).unwrap();
    piped.extend(["--name".to_owned(), "${TOK}".to_owned()]);
    let servers = json!({"mcpServers": {
        "piped": {"command": "${BIN}/badmcp", "args": piped, "cwd": "${SUB}",
                  "env": {"SEEN": "is ${TOK}", "OR": "${NOT_SET:-fallback}", "PLAIN": "$${TOK}"}},
        "http": {"url": "http://127.0.0.1:${PORT}/mcp", "headers": {"X-Tok": "${TOK}"}},
        "unset": {"url": "http://127.0.0.1:${PORT}/mcp", "headers": {"Authorization": "Bearer ${NOT_SET}"}},
    }});
    home.user(&servers.to_string());
    let (sub, port) = (folder.join("sub").display().to_string(), web.port.to_string());
    let bin = bad::program().parent().unwrap().display().to_string();
    // What comes out of a variable is not looked at again.
    let token = "canary-${OTHER}-$$-value";
    let env = [("TOK", token), ("OTHER", "expanded twice"), ("BIN", &bin), ("SUB", &sub), ("PORT", &port)];
    for (key, value) in
        [("SEEN", format!("is {token}")), ("OR", "fallback".into()), ("PLAIN", "${TOK}".into())]
    {
        let ran = home.run_env(&env, &["mcp", "call", "piped", "env", &format!("key={key}"), "-y", "--json"]);
        assert_eq!(ran.json(0)["data"]["result"]["content"][0]["text"], value, "{key}");
    }
    let start = bad::trace(&folder.join("trace"), "start").remove(0);
    assert_eq!(start["argv"].as_array().unwrap().last().unwrap(), token);
    assert!(start["cwd"].as_str().unwrap().ends_with("/sub"), "{start}");
    echoes(&home, &env, "http");
    let heads = bad::trace(&folder.join("http"), "http");
    assert!(!heads.is_empty() && heads.iter().all(|head| head["headers"]["x-tok"] == token), "{heads:?}");

    // One variable is missing: that server alone can't run, and no value is told.
    let status = home.run_env(&env, &["mcp", "status", "--json"]);
    let told = format!("{}{}", status.stdout, status.stderr);
    assert!(!told.contains("canary"), "{told}");
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let states: Vec<(&Value, &Value)> = status["data"]["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["name"], &row["state"]))
        .collect();
    let expected =
        [("http", "ready"), ("piped", "ready"), ("unset", "parked")].map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(states, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    let unset = status["data"]["servers"].as_array().unwrap().last().unwrap();
    assert_eq!(unset["reason"], "config_error");
    let why = unset["why"].as_str().unwrap();
    assert!(why.contains("headers.Authorization") && why.contains("NOT_SET"), "{why}");
}

#[test]
fn files_merge_by_name_and_say_what_they_shadow() {
    let home = Home::new();
    assert_eq!(bad::flags("B115"), Vec::<String>::new(), "correct servers");
    let user = json!({"mcpServers": {
        "a": entry(&["--name", "user-a"]),
        "b": {"command": bad::program(), "args": ["--name", "user-b"], "env": {"MINE": "1"}},
    }});
    let project = json!({"mcpServers": {
        "b": entry(&["--name", "project-b"]),
        "c": entry(&["--name", "project-c"]),
    }});
    let (user_path, project_path) = (home.user(&user.to_string()), home.project_file(&project.to_string()));
    let scope_of =
        |server: &str| listed(&home.run(&["mcp", "list", "--json"]), server)["source"]["scope"].clone();
    let info_of = |server: &str| {
        let status = home.run(&["mcp", "status", server, "--json"]).json(0);
        status["data"]["servers"][0]["server_info"].as_str().unwrap().to_owned()
    };
    // Nobody approved the project's entries: they hide nothing.
    assert_eq!(
        (scope_of("a"), scope_of("b"), scope_of("c")),
        (json!("user"), json!("user"), json!("project"))
    );
    assert!(info_of("b").starts_with("user-b"));
    for server in ["b", "c"] {
        home.run(&["mcp", "approve", server, "-y"]).expect(0);
    }
    assert_eq!(
        (scope_of("a"), scope_of("b"), scope_of("c")),
        (json!("user"), json!("project"), json!("project"))
    );
    let b = listed(&home.run(&["mcp", "list", "--json"]), "b");
    assert_eq!(b["source"]["origin"], project_path.to_str().unwrap());
    assert_eq!(b["shadows"], json!([{"scope": "user", "origin": user_path.to_str().unwrap()}]));
    let ran = home.run(&["mcp", "get", "b"]);
    assert!(
        ran.expect(0).stdout.contains(user_path.to_str().unwrap()),
        "people read what it hides too: {ran:?}"
    );
    assert!(info_of("a").starts_with("user-a") && info_of("b").starts_with("project-b"));
    // The whole entry replaces: nothing of the user's own is mixed in.
    let ran = home.run(&["mcp", "call", "b", "env", "key=MINE", "-y"]);
    assert!(!ran.stdout.contains('1'), "{ran:?}");

    // It is said which file, and that one alone is edited.
    let unclear = home.run(&["mcp", "remove", "b"]);
    assert!(unclear.expect(2).stderr.contains(project_path.to_str().unwrap()), "{unclear:?}");
    home.run(&["mcp", "remove", "b", "-s", "project"]).expect(0);
    let left =
        |path: &Path| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    assert_eq!(left(&user_path), user);
    assert_eq!(left(&project_path)["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(scope_of("b"), "user");
    assert!(info_of("b").starts_with("user-b"), "the lower one is back");
}

#[test]
fn cwd_is_honoured_and_a_bad_entry_fails_alone() {
    let home = Home::new();
    let base = home.home();
    std::fs::create_dir(base.join("sub")).unwrap();
    std::os::unix::fs::symlink(bad::program(), base.join("sub/server")).unwrap();
    let flags = bad::flags("B116");
    let mut first = flags.clone();
    first.extend(["--trace".to_owned(), "trace".to_owned()]);
    let servers = json!({"mcpServers": {
        "first": {"command": "./server", "args": first, "cwd": "./sub"},
        "second": {"command": bad::program(), "args": flags, "foo": 1},
        "third": {"command": 7},
        "gone": {"command": bad::program(), "cwd": "./missing"},
    }});
    home.user(&servers.to_string());
    echoes(&home, &[], "first");
    let start = bad::trace(&base.join("sub/trace"), "start").remove(0);
    let sub = base.join("sub").canonicalize().unwrap();
    assert_eq!(start["cwd"], sub.to_str().unwrap(), "and the trace is there too");
    echoes(&home, &[], "second");

    let list = home.run(&["mcp", "list", "--json"]);
    let issue = |server: &str| listed(&list, server)["issues"][0].clone();
    assert_eq!(
        (&listed(&list, "second")["state"], &issue("second")["severity"]),
        (&json!("usable"), &json!("warning"))
    );
    assert!(issue("second")["path"].as_str().unwrap().ends_with("second.foo"), "{}", issue("second"));
    for (server, words) in [("third", "command"), ("gone", "missing")] {
        assert_eq!(listed(&list, server)["state"], "config_error");
        let error = home.run(&["mcp", "call", server, "echo", "-y", "--json"]).json(3);
        assert_eq!(error["error"]["code"], "config_value");
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    }
    let status = home.run(&["mcp", "status", "--json"]).json(1);
    let ready = status["data"]["servers"].as_array().unwrap().iter().filter(|row| row["state"] == "ready");
    assert_eq!(ready.map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), ["first", "second"]);
}
