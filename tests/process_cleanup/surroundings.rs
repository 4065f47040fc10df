//! What a guarded server finds: environment, session, group, limits, names, pipes.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::bad::{program, trace, until};
use crate::trees::{Running, children, command};

/// Variables that a child gets when the host has them, and that the host of the test has.
const SEEN: [&str; 4] = ["HOME", "LANG", "PATH", "TZ"];

#[tokio::test]
async fn a_server_sees_its_own_environment_exactly_and_a_guard_sees_none() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("trace");
    let entry = json!({"command": program(), "args": ["--trace", file], "env": {"OWN": "1"}});
    let config = home.path().join("mcp.json");
    std::fs::write(&config, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
    let mut host = command(home.path(), &["mcp", "status", "--watch", "--mcp-config", "mcp.json"]);
    host.envs((0..200).map(|number| (format!("CANARY_{number}"), "sings"))).env("LANG", "C").env("TZ", "UTC");
    let host = Running::of(&mut host);
    until("the server runs", || !trace(&file, "start").is_empty()).await;
    let start = trace(&file, "start").remove(0);
    let mut expected = SEEN.to_vec();
    expected.push("OWN");
    expected.sort_unstable();
    assert_eq!(start["env"], json!(expected));

    let pid = i32::try_from(start["pid"].as_i64().unwrap()).unwrap();
    let [(guard, _)] = children(host.pid())[..] else { panic!("one guard") };
    assert_eq!(start["ppid"], json!(guard));
    assert_eq!(start["pgid"], json!(pid), "a process group of its own");
    assert_eq!(std::fs::read(format!("/proc/{guard}/environ")).unwrap(), b"");
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap();
    let limits = read("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
    let status = read("status");
    assert!(status.contains("Umask:\t0077"), "{status}");
    assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    assert!(read("cmdline").starts_with(program().to_str().unwrap()), "`ps` shows the server's own name");
    let name = std::fs::read_to_string(format!("/proc/{guard}/comm")).unwrap();
    assert_eq!(name.trim(), "callboard-guard");
    // Nothing of the guard's is the server's, nor the other way round: a copy of an end hides its EOF.
    let ends = |pid: i32| -> BTreeSet<PathBuf> {
        let ends = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let leads = ends.filter_map(|end| std::fs::read_link(end.path()).ok());
        leads.filter(|to| to.as_os_str().as_bytes().starts_with(b"socket:")).collect()
    };
    assert!(!ends(guard).is_empty() && ends(guard).is_disjoint(&ends(pid)));
    let pipes =
        |pid: i32| (0..3).map(|end| std::fs::read_link(format!("/proc/{pid}/fd/{end}")).unwrap()).collect();
    let (mine, theirs): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) = (pipes(pid), pipes(guard));
    assert!(mine.len() == 3 && mine.is_disjoint(&theirs), "{mine:?} {theirs:?}");
    drop(host);
    until("the server has left", || !crate::trees::is_alive(pid)).await;
}

#[tokio::test]
async fn a_guard_is_the_small_program_and_without_it_the_large_one() {
    let built = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let apart = tempfile::tempdir().unwrap();
    let alone = apart.path().join("callboard");
    let linked = std::fs::hard_link(built, &alone);
    linked.or_else(|_| std::fs::copy(built, &alone).map(|_| ())).unwrap();
    // Beside the third lies a program of that name that is none, as after half an update.
    let odd = tempfile::tempdir().unwrap();
    std::fs::copy("/bin/true", odd.path().join("callboard-guard")).unwrap();
    let updated = odd.path().join("callboard");
    std::fs::rename(&alone, &updated).and_then(|()| std::fs::hard_link(&updated, &alone)).unwrap();
    for (host, guard) in [(built, "callboard-guard"), (&alone, "callboard"), (&updated, "callboard")] {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("trace");
        let entry = json!({"command": program(), "args": ["--trace", file]});
        let config = home.path().join("mcp.json");
        std::fs::write(config, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
        let mut command = std::process::Command::new(host);
        command.args(["mcp", "status", "--watch", "--mcp-config", "mcp.json"]).current_dir(home.path());
        command.env_clear().env("HOME", home.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let host = Running::of(&mut command);
        until("the server runs", || !trace(&file, "start").is_empty()).await;
        let parent = i32::try_from(trace(&file, "start")[0]["ppid"].as_i64().unwrap()).unwrap();
        let exe = std::fs::read_link(format!("/proc/{parent}/exe")).unwrap();
        assert_eq!(exe.file_name().unwrap(), guard);
        drop(host);
        until("the guard has left", || !crate::trees::is_alive(parent)).await;
    }
}

#[tokio::test]
async fn status_says_that_a_server_is_guarded() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("mcp.json"),
        json!({"mcpServers": {"s": {"command": program()}}}).to_string(),
    )
    .unwrap();
    let mut status = command(home.path(), &["mcp", "status", "--json", "--mcp-config", "mcp.json"]);
    let output = status.stdout(std::process::Stdio::piped()).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = answer.to_string();
    let server = answer["servers"].get(0).or(answer["data"]["servers"].get(0)).expect(&text);
    assert!(server["guard_pid"].is_u64() && server["guard_pid"] != server["pid"], "{text}");
}
