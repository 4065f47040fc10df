//! The demo as a new user runs it: no configuration, no terminal, nothing of the machine's but
//! the program; and the demo servers as plain programs.

use std::process::{Command, Stdio};
use std::time::Duration;

use callboard::demo::{DemoOptions, Look, SERVER_VERB, SERVERS, run_on};

use crate::cli_home::Home;

#[test]
fn the_demo_shows_everything_it_promises_on_a_bare_machine() {
    let home = Home::new();
    let mut demo = home.command(&["demo"]);
    let out = demo.env_remove("PATH").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{text}");
    for promise in [
        "7 tools in one catalogue",
        "note 1 kept",
        "progress 5 of 5",
        "delivery: outcome unknown, so never sent twice",
        "crashy died as pid",
        "its notes are still there",
        "code timeout_total",
        "processes ended, none is left",
        "callboard mcp add",
        "callboard mcp status",
        "callboard mcp call",
    ] {
        assert!(text.contains(promise), "{promise:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "no escape sequences where there is no screen");
    assert!(!home.home().join("mcp.json").exists(), "the demo writes nothing");
}

#[tokio::test]
async fn a_demo_that_does_not_happen_is_a_failure() {
    let nothing = tempfile::tempdir().unwrap();
    let options =
        DemoOptions { program: Some(nothing.path().join("no-such-program")), look: Look::default() };
    let mut told = Vec::new();
    let tour = run_on(&mut told, options);
    let code = tokio::time::timeout(Duration::from_secs(20), tour).await.expect("it gives up");
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::FAILURE));
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("FAILED") && told.contains("no-such-program"), "{told}");
}

#[test]
fn a_demo_server_ends_when_its_input_ends_and_a_wrong_name_is_a_usage_error() {
    let serve = |name: &str| {
        let mut server = Command::new(env!("CARGO_BIN_EXE_callboard"));
        server.args([SERVER_VERB, name]).stdin(Stdio::null()).output().unwrap()
    };
    for name in SERVERS {
        let out = serve(name);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 0), "{name}: {out:?}");
    }
    let out = serve("nobody");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("notes"), "{out:?}");
}
