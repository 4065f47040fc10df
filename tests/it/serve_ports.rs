//! The port of a host over HTTP: one that is taken is told in a line, and 0 takes a free one.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli_home::Home;

/// A home whose one server writes down which process it is.
fn home() -> Home {
    let home = Home::new();
    let args = ["-c", "echo $$ >> pids; exec cat"];
    home.user(&json!({"mcpServers": {"s": {"command": "/bin/sh", "args": args}}}).to_string());
    home
}

fn is_gone(pid: &str) -> bool {
    !std::path::Path::new("/proc").join(pid).exists()
}

/// A host on a port, and where it says that it serves.
fn serving(home: &Home, port: &str) -> (Child, String) {
    let mut command = home.command(&["--mcp-http", "--mcp-port", port]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let told = lines.map_while(Result::ok).find(|line| line.contains("http://127.0.0.1:"));
    (child, told.unwrap())
}

/// The digits behind the address of this machine.
fn port(told: &str) -> String {
    let (_, rest) = told.split_once("127.0.0.1:").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn a_port_of_another_program_is_told_with_the_cure_and_no_server_is_left() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let number = taken.local_addr().unwrap().port();
    let home = home();
    let ran = home.run(&["--mcp-http", "--mcp-port", &number.to_string()]);
    assert!(ran.code != 0 && ran.stdout.is_empty(), "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| !line.is_empty()).collect();
    assert!(matches!(lines.as_slice(), [_, fix] if fix.starts_with("fix: ")), "{ran:?}");
    assert!(lines[0].contains(&format!("127.0.0.1:{number} is in use by ")), "{ran:?}");
    assert!(lines[1].contains("--mcp-port"), "{ran:?}");
    let pids = std::fs::read_to_string(home.project().join("pids")).unwrap_or_default();
    assert!(pids.lines().all(is_gone), "{pids}");
}

#[test]
fn two_hosts_never_share_a_port_and_each_says_which_it_has() {
    let (first, second) = (home(), home());
    let (mut one, at) = serving(&first, "0");
    let (mut two, other) = serving(&second, "0");
    assert_ne!(port(&at), port(&other));
    let refused = second.run(&["--mcp-http", "--mcp-port", &port(&at)]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("127.0.0.1:{} is in use by callboard", port(&at))),
        "{refused:?}"
    );
    for child in [&mut one, &mut two] {
        kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        child.wait().unwrap();
    }
}
