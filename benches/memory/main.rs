//! What a host weighs: resident memory with one server, and for each idle server more; and
//! what a guard costs: time to start, and memory (goals: 2 ms and 300 KiB).
//! Every server is a real child; this same binary is the child (`--child`).
//!
//! `cargo bench --bench memory`

#[path = "../entry.rs"]
mod entry;
#[path = "../call_path/peer.rs"]
mod peer;

use std::time::Duration;

use callboard::config::spec::{Entry, SecretText, ServerSpec, TransportSpec};
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::guard::Guarding;

/// What an answer looks like; here nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One text block without escapes.
    Plain,
    /// One text block full of escapes.
    Escaped,
    /// `structuredContent`.
    Structured,
}

#[expect(clippy::disallowed_macros, reason = "a bench reports on stdout")]
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("--child") {
        peer::child(&args[2..]);
        return;
    }
    let counts = [1, 11, 51, 101];
    let mut first = None;
    println!("{:>8} {:>10} {:>12} {:>16}", "servers", "RSS KiB", "private KiB", "KiB per further");
    for count in counts {
        let (rss, private) = measure(count);
        let (base_count, base) = *first.get_or_insert((count, rss));
        let further = match count - base_count {
            0 => String::new(),
            more => format!("{:.1}", rss.saturating_sub(base) as f64 / more as f64),
        };
        println!("{count:>8} {rss:>10} {private:>12} {further:>16}");
    }
    println!("\n{:>16} {:>14} {:>10} {:>12}", "guard", "start ms, p50", "PSS KiB", "private KiB");
    let guards = [
        ("none", None),
        ("callboard-guard", Some(env!("CARGO_BIN_EXE_callboard-guard"))),
        ("callboard", Some(env!("CARGO_BIN_EXE_callboard"))),
    ];
    for (name, program) in guards {
        let guard = program.map(|program| Guarding { program: program.into(), spare: None, leases: None });
        let (start, (pss, private)) = guarded(guard);
        println!("{name:>16} {start:>14.2} {pss:>10} {private:>12}");
    }
}

/// Half of all starts of one server take less than that, in ms; and what a guard weighs among ten.
fn guarded(guard: Option<Guarding>) -> (f64, (u64, u64)) {
    const STARTS: usize = 61;
    const TOGETHER: usize = 10;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return (0.0, (0, 0)) };
    let ready = async |count: usize| {
        let mut plan = RuntimePlan { guard: guard.clone(), ..RuntimePlan::default() };
        plan.servers.entries = (0..count).map(idle).collect();
        let host = Runtime::start(plan).await.ok()?;
        host.settle(&[], Duration::from_secs(30)).await;
        Some(host)
    };
    runtime.block_on(async {
        let mut starts = Vec::with_capacity(STARTS);
        for _ in 0..STARTS {
            let Some(host) = ready(1).await else { continue };
            starts.extend(host.status().iter().filter_map(|view| view.start_took));
            host.shutdown().await;
        }
        starts.sort();
        let half = starts.get(starts.len() / 2).map_or(0.0, |took| took.as_secs_f64() * 1e3);
        let Some(host) = ready(TOGETHER).await else { return (half, (0, 0)) };
        let guards: Vec<u32> = host.status().iter().filter_map(|view| view.guard_pid).collect();
        let count = guards.len().max(1) as u64;
        let sum = |field: usize| -> u64 {
            guards
                .iter()
                .map(|pid| rollup(&pid.to_string()))
                .map(|(_, pss, private)| [pss, private][field])
                .sum()
        };
        let weight = (sum(0) / count, sum(1) / count);
        host.shutdown().await;
        (half, weight)
    })
}

/// Resident and private memory of this process with so many ready servers, in KiB.
fn measure(count: usize) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return (0, 0) };
    runtime.block_on(async {
        let mut plan = RuntimePlan::default();
        plan.servers.entries = (0..count).map(idle).collect();
        let Ok(host) = Runtime::start(plan).await else { return (0, 0) };
        host.settle(&[], Duration::from_secs(30)).await;
        let weight = weight();
        host.shutdown().await;
        weight
    })
}

fn idle(number: usize) -> Entry {
    let name = format!("idle{number}");
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let transport = TransportSpec::Stdio {
        command: program,
        args: vec![SecretText::new("--child")],
        env: Vec::new(),
        cwd: None,
    };
    entry::entry(ServerSpec::new(&name, transport))
}

fn weight() -> (u64, u64) {
    let (rss, _, private) = rollup("self");
    (rss, private)
}

/// Resident, proportional and private memory of a process, in KiB.
fn rollup(pid: &str) -> (u64, u64, u64) {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.and_then(|rest| rest.trim().split(' ').next());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    (field("Rss:"), field("Pss:"), field("Private_Dirty:") + field("Private_Clean:"))
}
