//! Isolation: what sound servers notice of faulty ones beside them. Fleets of real children under
//! open load, half of them faulty in mixed ways, each run paired with one without faults: the
//! figures are medians of the ratios of such pairs, so other load of the machine hits both sides.
//!
//! `cargo bench --bench fleet [-- QUICK] [JSON] [THREADS] [ONLY WORD]`. QUICK takes about a
//! minute, else it is nearly ten. JSON prints one object on stdout, and the table on stderr. THREADS
//! takes two workers in place of the one thread that the product uses. ONLY runs the parts whose name has the word.
//! "kept" means that faulty ones are started again without end and never shut out; else they meet the
//! restart law and the breaker as they are by default. `ONLY each` shows which fault costs what: half of 20 with one kind of fault after the other.
//! This same binary is each server (`--child`), below the product's own guard.

#![expect(clippy::unwrap_used, reason = "in a bench, a panic is the report")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench measures, plays peers and prints"
)]

mod child;
mod ends;
#[path = "../entry.rs"]
mod entry;
mod host;
mod load;
mod pairs;
mod report;

use std::time::Duration;

use child::{HOGS, MIXED};
use load::Load;
use pairs::Goal;
use report::Report;

/// Some figures of a set of durations, in milliseconds. All values are kept and sorted: no buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    /// How many there were.
    pub count: usize,
    /// Half are below.
    pub p50: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// 999 of 1,000 are below.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The figures of these.
    pub fn of(mut all: Vec<Duration>) -> Self {
        all.sort();
        let at = |part: f64| {
            let rank = (all.len() as f64 * part).ceil() as usize;
            all.get(rank.saturating_sub(1)).map_or(f64::NAN, |value| value.as_secs_f64() * 1e3)
        };
        Self { count: all.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// The clock that all processes of this machine share.
pub fn clock() -> Duration {
    duration(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// What this process has used so far, user and kernel, without its children.
pub fn cpu_time() -> Duration {
    duration(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

fn duration(time: rustix::time::Timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().map(String::as_str) == Some("--child") {
        child::main(&words[1..]);
        return;
    }
    let is = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    let quick = is("quick");
    let only = words.iter().skip_while(|word| !word.eq_ignore_ascii_case("only")).nth(1);
    let wanted = |name: &str| only.is_none_or(|word| name.contains(word.as_str()));
    let runtime = match is("threads") {
        true => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        // As the product does: `cli` serves everything on one thread.
        false => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    }
    .unwrap();
    let mut report = Report::new(quick, is("threads"), is("json"));
    report.head();
    runtime.block_on(async {
        for (name, load, kinds, goal) in fleets(quick) {
            if wanted(name) {
                let pairs = pairs::measure(load, kinds, if quick { 2 } else { 5 }).await;
                report.fleet(name, &pairs, goal);
            }
        }
        if let Some(word) = only.and_then(|word| word.strip_prefix("each")) {
            each(&mut report, quick, word).await;
        }
        if wanted("start") {
            report.start(&ends::starts(if quick { 2 } else { 5 }).await);
        }
        if wanted("crash") {
            report.crash(&ends::crashes(if quick { 50 } else { 500 }).await);
        }
    });
    report.end();
}

/// Half of 20 with one kind of fault, for each kind whose name has the word.
async fn each(report: &mut Report, quick: bool, word: &str) {
    let Some((_, load, _, goal)) = fleets(quick).into_iter().find(|(_, load, ..)| load.kept) else { return };
    for fault in MIXED.iter().chain(&HOGS) {
        let name = format!("{fault:?}");
        if name.contains(word) {
            let pairs = pairs::measure(load, std::slice::from_ref(fault), if quick { 2 } else { 5 }).await;
            report.fleet(&name, &pairs, goal);
        }
    }
}

type Fleet = (&'static str, Load, &'static [child::Fault], Goal);

/// The fleets that are measured, and what is wanted of each.
fn fleets(quick: bool) -> Vec<Fleet> {
    let time = Duration::from_secs(if quick { 2 } else { 7 });
    let twenty = Load { servers: 20, faulty: 10, sound_rate: 50, faulty_rate: 50, time, kept: false };
    let nineteen = Load { faulty: 19, sound_rate: 200, ..twenty };
    let many = Load { servers: 200, faulty: 100, sound_rate: 5, faulty_rate: 5, ..twenty };
    let hogs = Load { faulty: HOGS.len(), ..twenty };
    let (tenth, quarter) = (Goal { ratio: 1.10, more_ms: 1.0 }, Goal { ratio: 1.25, more_ms: 0.0 });
    vec![
        ("half of 20", twenty, &MIXED, tenth),
        ("half of 20 kept", Load { kept: true, ..twenty }, &MIXED, tenth),
        ("19 of 20", nineteen, &MIXED, quarter),
        ("half of 200", many, &MIXED, tenth),
        ("half of 200 kept", Load { kept: true, ..many }, &MIXED, tenth),
        ("4 hogs of 20", Load { kept: true, ..hogs }, &HOGS, Goal { ratio: 2.0, more_ms: 0.0 }),
    ]
}
