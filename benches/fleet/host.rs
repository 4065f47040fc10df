//! The host of a fleet: its plan, and what is looked at before it ends.

use std::path::Path;
use std::time::Duration;

use callboard::config::spec::{BreakerSpec, Entry, RestartSpec, SecretText, ServerSpec, TransportSpec};
use callboard::id::{Generation, ServerId};
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::guard::Guarding;
use callboard::view::LifeState;

use crate::child::Fault;
use crate::entry::entry;

/// Delay of the restarts of servers that crash; the law would slow them down, and give up.
const RESTART_DELAY: Duration = Duration::from_millis(200);

/// The name of the server in that slot.
pub fn name(slot: usize) -> ServerId {
    ServerId::new(format!("s{slot:03}"))
}

/// A fleet with a server in each slot, sound (`None`) or faulty, with all settings as by default.
/// `kept` lets faulty ones stay faulty: no end of restarts, no breaker (but for those that never start).
pub fn plan(faults: &[Option<Fault>], kept: bool) -> RuntimePlan {
    let entries = faults.iter().enumerate().map(|(slot, fault)| match fault {
        None => entry(spec(slot, &["sound".to_owned()])),
        // Every start costs three programs: in a tight loop those would be all that is measured.
        Some(fault) if kept && *fault != Fault::ExitAtStart => {
            entry(endless(spec(slot, &[format!("{fault:?}")]), RESTART_DELAY))
        }
        Some(fault) => entry(spec(slot, &[format!("{fault:?}")])),
    });
    of(entries.collect())
}

/// A fleet of one server that dies in calls and writes into `file` when it did so.
pub fn mortal(file: &Path) -> RuntimePlan {
    let words = ["mortal".to_owned(), file.display().to_string()];
    of(vec![entry(endless(spec(0, &words), Duration::ZERO))])
}

fn of(entries: Vec<Entry>) -> RuntimePlan {
    let program = env!("CARGO_BIN_EXE_callboard-guard").into();
    let guard = Some(Guarding { program, spare: None, leases: None });
    let mut plan = RuntimePlan { guard, ..RuntimePlan::default() };
    plan.servers.entries = entries;
    plan
}

fn spec(slot: usize, words: &[String]) -> ServerSpec {
    let program = std::env::current_exe().unwrap().display().to_string();
    let words = std::iter::once("--child".to_owned()).chain(words.iter().cloned());
    let transport = TransportSpec::Stdio {
        command: program,
        args: words.map(SecretText::new).collect(),
        env: Vec::new(),
        cwd: None,
    };
    ServerSpec { allow_all_tools: true, ..ServerSpec::new(name(slot).as_str(), transport) }
}

fn endless(spec: ServerSpec, delay: Duration) -> ServerSpec {
    let restart = RestartSpec { max: 0, min_delay: delay, max_delay: delay, ..RestartSpec::default() };
    let breaker = BreakerSpec { failures: 0, ..BreakerSpec::default() };
    ServerSpec { restart, breaker, ..spec }
}

/// Which process serves each slot of `slots`, once all of them are ready.
pub fn holders(host: &Runtime, slots: &[usize]) -> Vec<(Generation, Option<u32>, bool)> {
    let status = host.status();
    let views = slots.iter().map(|slot| &status[*slot]);
    views.map(|view| (view.generation, view.pid, view.state == LifeState::Ready)).collect()
}

/// For how long this thread was ready to run and had no processor.
pub fn starved() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// Resident memory of this process, in KiB.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
