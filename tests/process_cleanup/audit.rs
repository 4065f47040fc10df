//! The audit log of hosts that are killed in the middle of calls: whatever a server was sent has its
//! start in the log, and the log says that the end is not known.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::bad::{program, until};
use crate::trees::{Running, command, rounds, signal};

/// Hosts that run at once.
const HOSTS: usize = 3;

/// Calls that reached the server of that trace.
fn received(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| line.contains(r#"\"method\":\"tools/call\""#)).count()
}

fn started(log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().matches("\"event\":\"started\"").count()
}

/// Configures one server for each host, so that each has a trace of its own.
fn configure(home: &Path, round: u32) -> Vec<PathBuf> {
    let traces: Vec<PathBuf> = (0..HOSTS).map(|n| home.join(format!("trace-{round}-{n}"))).collect();
    let entry = |file: &PathBuf| json!({"command": program(), "args": ["--slow", "60000", "--trace", file]});
    let servers: serde_json::Map<String, Value> =
        traces.iter().enumerate().map(|(n, file)| (format!("s{n}"), entry(file))).collect();
    std::fs::create_dir_all(home.join(".callboard")).unwrap();
    std::fs::write(home.join(".callboard/mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
    traces
}

#[tokio::test]
async fn a_call_of_a_killed_host_has_its_start_in_the_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join(".callboard/audit/audit.jsonl");
    let (mut sent, mut killed) = (0, 0);
    for round in 0..rounds("CALLBOARD_KILL_ROUNDS", 8) {
        let traces = configure(home.path(), round);
        let before = started(&log);
        let hosts: Vec<Running> = (0..HOSTS)
            .map(|n| {
                let server = format!("s{n}");
                Running::of(&mut command(home.path(), &["mcp", "call", &server, "echo", "text=x", "-y"]))
            })
            .collect();
        // Another moment each time: the first start, the first call, all of them.
        until("the moment has come", || match round % 3 {
            0 => started(&log) > before,
            1 => traces.iter().any(|file| received(file) > 0),
            _ => traces.iter().all(|file| received(file) > 0),
        })
        .await;
        for host in &hosts {
            signal(host.pid(), Signal::KILL);
        }
        drop(hosts);
        killed += HOSTS;
        sent += traces.iter().map(|file| received(file)).sum::<usize>();
        assert!(started(&log) >= sent, "round {round}: {sent} sent, {} in the log", started(&log));
    }
    let mut verify = command(home.path(), &["audit", "verify", "--json"]);
    let output = verify.stdout(std::process::Stdio::piped()).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["data"]["whole"]), (Some(0), &json!(true)), "{answer}");
    let unknown = answer["data"]["unknown_total"].as_u64().unwrap();
    assert_eq!(unknown, started(&log) as u64, "each is told as unknown");
    println!("{killed} hosts killed: {sent} calls had reached a server, {} starts in the log", started(&log));
}
