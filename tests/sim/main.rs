//! The seeded simulation: thousands of schedules of calls, faults and operator actions, on the
//! product's own actors with peers in memory and a paused clock. Every run can be repeated.
//!
//! `CALLBOARD_SIM_SEEDS=N` runs N seeds instead of the usual number, `CALLBOARD_SIM_SEED=N` runs one and
//! prints its schedule and its trace.

#![expect(clippy::expect_used, reason = "in a test, a panic is the report")]
#![expect(
    clippy::disallowed_methods,
    reason = "the simulation plays peers and callers, and reads its own seed"
)]

mod answers;
mod audit_log;
mod doctored;
mod entries;
mod oracle;
mod peer;
mod rng;
mod schedule;
mod shrink;
mod trace;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oracle::Breach;
use schedule::{FaultKind, Schedule};
use trace::{Entry, Fact, Outcome};

/// Seeds of one `cargo test`.
const SEEDS: u64 = 10_000;
/// Seeds that are run twice.
const TWICE: u64 = 60;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

/// Runs the seeds on all cores; the first failing one ends it.
fn first_failure(seeds: u64) -> Option<(u64, Vec<Breach>)> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(None);
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let breaches = oracle::breaches(&world::run(&Schedule::of(seed)));
            if !breaches.is_empty() {
                failed.store(true, Ordering::Relaxed);
                found.lock().expect("no panic holds it").get_or_insert((seed, breaches));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    found.into_inner().expect("no panic holds it")
}

/// What a person needs who looks into a failure.
fn report(seed: u64, breaches: &[Breach], with_trace: bool) -> String {
    let mut text = format!("\nCALLBOARD_SIM_SEED={seed} cargo test --test sim\n");
    for breach in breaches {
        let _ = writeln!(text, "{breach}");
    }
    if let Some(first) = breaches.first() {
        let (small, breach) = shrink::smallest(&Schedule::of(seed), first);
        let _ = write!(text, "\nit still fails, {breach}, as this\n{small}");
        text.push_str(&lines(&world::run(&small).trace));
    } else if with_trace {
        let run = world::run(&Schedule::of(seed));
        let _ = write!(text, "{}{}{:#?}", run.schedule, lines(&run.trace), run.end);
    }
    text
}

fn lines(trace: &[Entry]) -> String {
    trace.iter().fold(String::from("what happened\n"), |mut text, entry| {
        let _ = writeln!(text, "  {:>6}  {:?}", entry.at, entry.fact);
        text
    })
}

#[test]
fn ten_thousand_schedules_of_faults_break_no_promise() {
    world::count_panics();
    if let Some(seed) = number("CALLBOARD_SIM_SEED") {
        let breaches = oracle::breaches(&world::run(&Schedule::of(seed)));
        let text = report(seed, &breaches, true);
        assert!(breaches.is_empty(), "{text}");
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).expect("stderr is there");
        return;
    }
    let seeds = number("CALLBOARD_SIM_SEEDS").unwrap_or(SEEDS);
    if let Some((seed, breaches)) = first_failure(seeds) {
        panic!("{}", report(seed, &breaches, false));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..TWICE {
        let schedule = Schedule::of(seed);
        let [first, second] = [(); 2].map(|()| world::run(&schedule).trace);
        let differs = first.iter().zip(&second).find(|(a, b)| a != b);
        assert_eq!(trace::hash(&first), trace::hash(&second), "seed {seed} is not repeatable: {differs:?}");
    }
}

#[test]
fn every_kind_of_fault_acts_and_every_way_to_end_is_seen() {
    let (mut acted, mut ends) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    for seed in 0..400 {
        for entry in world::run(&Schedule::of(seed)).trace {
            match entry.fact {
                Fact::Fault { kind, .. } => {
                    acted.insert(kind);
                }
                Fact::Ended { outcome: Outcome::Failed { code, .. }, .. } => {
                    *ends.entry(code.to_string()).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    let missing: Vec<_> = FaultKind::ALL.iter().filter(|kind| !acted.contains(kind)).collect();
    assert!(missing.is_empty(), "these faults never act: {missing:?}");
    for code in [
        "breaker_open",
        "busy",
        "connection_lost",
        "disabled",
        "draining",
        "frame_too_large",
        "given_up",
        "held",
        "malformed_answer",
        "not_ready",
        "rate_limited",
        "timeout_idle",
        "timeout_total",
        "unknown_server",
        "unknown_tool",
    ] {
        assert!(ends.contains_key(code), "no call ends as {code}: {ends:?}");
    }
}
