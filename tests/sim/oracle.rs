//! What must hold in every run, whatever went wrong in it. Each promise has a number; a breach
//! says which one, and where. Pure: looks at a finished run and nothing else.

mod breaker;
mod calls;
mod servers;
mod trust;

use std::collections::BTreeMap;
use std::fmt;

use super::schedule::CallPlan;
use super::trace::{Fact, Outcome};
use super::world::Run;

/// The promises (`ARCHITECTURE.md`, simulation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// No panic anywhere.
    V0,
    /// Exactly one outcome for each call, within its limit; a server is told once that a caller left.
    V1,
    /// No answer reaches another caller.
    V2,
    /// Nothing runs twice unless the rules of repetition allow it; what was "not sent" never ran.
    V3,
    /// Behind an open breaker nothing is heard of calls; then one probe at a time decides.
    V4,
    /// At most five restarts in any sliding minute.
    V5,
    /// A healthy server answers exactly as fast as without the others.
    V6,
    /// Every wanted server comes back, or is given up for a reason that is seen.
    V7,
    /// At the end nothing is held: places, permits, connections, tasks.
    V8,
    /// The catalogue is the union of the last good lists, names are bijective.
    V9,
    /// Every call is in the audit log from its start to its end or as refused, and the log verifies.
    V10,
    /// A changed definition is held, nothing held runs, and what is as it was is not held.
    V11,
    /// Every refusal has a code and a text that names the server.
    V12,
}

/// One breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub promise: Promise,
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.text)
    }
}

/// Collects breaches.
#[derive(Default)]
struct Findings(Vec<Breach>);

impl Findings {
    fn check(&mut self, holds: bool, promise: Promise, text: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Breach { promise, text: text() });
        }
    }
}

/// What the record says about one call.
#[derive(Default)]
struct Story {
    asked: Vec<u64>,
    ended: Vec<(u64, Outcome)>,
    /// Time, server, connection, id there.
    got: Vec<(u64, usize, u64, u64)>,
    executed: Vec<usize>,
    /// The calls whose progress was told.
    told: Vec<u64>,
}

fn stories(run: &Run) -> BTreeMap<u64, Story> {
    let mut stories: BTreeMap<u64, Story> = BTreeMap::new();
    for entry in &run.trace {
        match &entry.fact {
            Fact::Asked { nonce } => stories.entry(*nonce).or_default().asked.push(entry.at),
            Fact::Ended { nonce, outcome } => {
                stories.entry(*nonce).or_default().ended.push((entry.at, outcome.clone()));
            }
            Fact::Got { server, conn, nonce, id } => {
                stories.entry(*nonce).or_default().got.push((entry.at, *server, *conn, *id));
            }
            Fact::Told { nonce, of } => stories.entry(*nonce).or_default().told.push(*of),
            Fact::Executed { server, nonce } => stories.entry(*nonce).or_default().executed.push(*server),
            _ => {}
        }
    }
    stories
}

/// Every breach of every promise in a run.
pub fn breaches(run: &Run) -> Vec<Breach> {
    let mut findings = Findings::default();
    findings.check(run.end.panics == 0, Promise::V0, || format!("{} panics", run.end.panics));
    breaker::check(run, &mut findings);
    calls::check(run, &mut findings);
    servers::check(run, &mut findings);
    trust::check(run, &mut findings);
    findings.0
}

/// The calls of a run, those after everything included.
fn all_calls(run: &Run) -> Vec<CallPlan> {
    let wanted = run.end.wanted.iter().filter(|(_, wanted)| **wanted);
    let last = wanted.flat_map(|(server, _)| [CallPlan::last(*server, 0), CallPlan::parting(*server, 0)]);
    run.schedule.calls.iter().cloned().chain(last).collect()
}
