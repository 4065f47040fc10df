//! What a host weighs: resident memory with one server, and for each idle server more.
//! Every server is a real child; this same binary is the child (`--child`).
//!
//! `cargo bench --bench memory`

#[path = "../call_path/peer.rs"]
mod peer;

use std::sync::Arc;
use std::time::Duration;

use callboard::config::spec::{Entry, EntryState, Scope, SecretText, ServerSpec, Source, TransportSpec};
use callboard::runtime::{Runtime, RuntimePlan};

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
}

/// Resident and private memory of this process with so many ready servers, in KiB.
fn measure(count: usize) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return (0, 0) };
    runtime.block_on(async {
        let mut plan = RuntimePlan::default();
        plan.servers.entries = (0..count).map(entry).collect();
        let Ok(host) = Runtime::start(plan).await else { return (0, 0) };
        host.settle(&[], Duration::from_secs(30)).await;
        let weight = weight();
        host.shutdown().await;
        weight
    })
}

fn entry(number: usize) -> Entry {
    let name = format!("idle{number}");
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let transport = TransportSpec::Stdio {
        command: program,
        args: vec![SecretText::new("--child")],
        env: Vec::new(),
        cwd: None,
    };
    let spec = ServerSpec::new(&name, transport);
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Flag, origin: "bench".into() },
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: name,
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

fn weight() -> (u64, u64) {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.and_then(|rest| rest.trim().split(' ').next());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    (field("Rss:"), field("Private_Dirty:") + field("Private_Clean:"))
}
