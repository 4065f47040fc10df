//! The hop ladder of one call: bare client, link, server actor, front end; over an
//! in-process peer and over a real child; by size, shape and calls in flight. Figures
//! are ratios to the bottom rung of the same run.
//!
//! The top rung has the audit log on: its price is the ratio to the rung below, see `pairs`.
//!
//! `cargo bench --bench call_path [-- QUICK]`; other modes are at the top of `main`. This same
//! binary is the child (`--child`). With 64 calls in flight the processor time of one call is
//! spread thin: hops of the three messages, the call task with its timer, allocations. With one
//! in flight most of it is the kernel's.

#![expect(clippy::unwrap_used, reason = "in a bench, a panic is the report")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench measures, plays peers and prints"
)]

#[path = "../entry.rs"]
mod entry;
mod peer;
mod refusal;
mod rungs;

use std::time::Duration;

use rungs::{Rung, Where};

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One text block without escapes.
    Plain,
    /// One text block full of escapes: pretty JSON in text.
    Escaped,
    /// `structuredContent` of small objects.
    Structured,
}

/// One kind of call.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Shape of the answer.
    pub shape: Shape,
    /// Size of the answer in bytes, roughly.
    pub size: usize,
    /// Calls in flight.
    pub in_flight: usize,
    /// Calls measured in one round.
    pub calls: usize,
}

/// Latencies of one round.
pub struct Measured {
    /// Median of one call.
    pub p50: Duration,
    /// Calls per second.
    pub per_second: f64,
    /// Processor time of this process for one call, without the child's.
    pub cpu: Duration,
}

const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("--child") {
        peer::child(&args[2..]);
        return;
    }
    // `only SIZE IN_FLIGHT PLACE RUNG`: one rung for a profiler.
    if let Some(at) = args.iter().position(|arg| arg == "only") {
        only(&args[at + 1..]);
        return;
    }
    // `pairs SIZE IN_FLIGHT PLACE [ROUNDS]`: medians of ratios, for a machine that is not idle.
    if let Some(at) = args.iter().position(|arg| arg == "pairs") {
        pairs(&args[at + 1..]);
        return;
    }
    let quick = args.iter().any(|arg| arg.eq_ignore_ascii_case("quick"));
    let scale = if quick { 10 } else { 1 };
    let loads = [
        (Shape::Plain, 64, 1, 20_000),
        (Shape::Plain, 64, 64, 60_000),
        (Shape::Plain, 1024, 1, 20_000),
        (Shape::Plain, 1024, 64, 60_000),
        (Shape::Structured, 1024, 1, 20_000),
        (Shape::Plain, MIB, 1, 400),
        (Shape::Escaped, MIB, 1, 400),
        (Shape::Structured, MIB, 1, 400),
        (Shape::Plain, MIB, 64, 800),
        (Shape::Escaped, MIB, 64, 400),
        (Shape::Structured, MIB, 64, 400),
    ];
    println!(
        "{:<10} {:>7} {:>3}  {:<8} {:<8} {:>10} {:>11} {:>7} {:>7}",
        "shape", "bytes", "in", "peer", "rung", "p50 µs", "calls/s", "× p50", "× thr"
    );
    for (shape, size, in_flight, calls) in loads {
        let load = Load { shape, size, in_flight, calls: (calls / scale).max(50) };
        for place in [Where::InProcess, Where::Child] {
            ladder(load, place);
        }
    }
    refusal::tell(scale);
}

/// One rung, long enough for a profiler.
fn only(words: &[String]) {
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(1);
    let (size, in_flight) = (number(0), number(1));
    let place = if words.iter().any(|word| word == "Child") { Where::Child } else { Where::InProcess };
    let named = |rung: &&Rung| words.iter().any(|word| *word == format!("{rung:?}"));
    let rung = *Rung::ALL.iter().find(named).unwrap_or(&Rung::Front);
    let load = Load { shape: Shape::Plain, size, in_flight, calls: 1_000_000 };
    let measured = rungs::measure(rung, place, load);
    println!(
        "{rung:?} {place:?}: p50 {:?}, {:.0} calls/s, {:?} of processor time each",
        measured.p50, measured.per_second, measured.cpu
    );
}

/// Short rounds of all rungs in turns; each is compared with the bare client of its own
/// round, and the median of those ratios is told: other load hits both sides alike.
fn pairs(words: &[String]) {
    let number = |at: usize, other| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(other);
    let (size, in_flight, rounds) = (number(0, 1024), number(1, 1), number(3, 31));
    let place = if words.iter().any(|word| word == "Child") { Where::Child } else { Where::InProcess };
    let calls = if in_flight == 1 { 4_000 } else { 12_000 };
    let load = Load { shape: Shape::Plain, size, in_flight, calls };
    let mut all: Vec<Vec<Measured>> = Rung::ALL.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        // Both orders: whoever comes first finds the machine as the round before left it.
        let mut order: Vec<usize> = (0..Rung::ALL.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            all[at].push(rungs::measure(Rung::ALL[at], place, load));
        }
    }
    println!("{:<8} {:>10} {:>7} {:>7} {:>9}", "rung", "p50 µs", "× p50", "× thr", "cpu µs");
    let audit = |ratio: fn(&Measured, &Measured) -> f64| {
        median(all[4].iter().zip(&all[3]).map(|(one, base)| ratio(one, base)).collect())
    };
    println!(
        "audit    {:>+10.2} {:>7.2} {:>7.2}  (against the front end)",
        audit(|one, base| (one.p50.as_secs_f64() - base.p50.as_secs_f64()) * 1e6),
        audit(|one, base| one.p50.as_secs_f64() / base.p50.as_secs_f64()),
        audit(|one, base| one.per_second / base.per_second),
    );
    for (rung, measured) in Rung::ALL.iter().zip(&all) {
        let against = |ratio: fn(&Measured, &Measured) -> f64| {
            median(measured.iter().zip(&all[0]).map(|(one, base)| ratio(one, base)).collect())
        };
        println!(
            "{:<8} {:>10.2} {:>7.2} {:>7.2} {:>9.2}",
            format!("{rung:?}"),
            median(measured.iter().map(|m| m.p50.as_secs_f64() * 1e6).collect()),
            against(|one, base| one.p50.as_secs_f64() / base.p50.as_secs_f64()),
            against(|one, base| one.per_second / base.per_second),
            median(measured.iter().map(|m| m.cpu.as_secs_f64() * 1e6).collect()),
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs all rungs in turns, so that a busy moment of the machine hits each alike.
fn ladder(load: Load, place: Where) {
    let rungs = Rung::ALL;
    let mut best: Vec<Option<Measured>> = rungs.iter().map(|_| None).collect();
    for _ in 0..ROUNDS {
        for (slot, rung) in best.iter_mut().zip(rungs) {
            let one = rungs::measure(rung, place, load);
            let better = slot.as_ref().is_none_or(|old| one.per_second > old.per_second);
            let p50 = slot.as_ref().map_or(one.p50, |old| old.p50.min(one.p50));
            let per_second =
                if better { one.per_second } else { slot.as_ref().map_or(0.0, |s| s.per_second) };
            *slot = Some(Measured { p50, per_second, cpu: one.cpu });
        }
    }
    let Some(base) = best.first().and_then(Option::as_ref).map(|m| (m.p50, m.per_second)) else { return };
    for (rung, measured) in rungs.iter().zip(best.iter().flatten()) {
        println!(
            "{:<10} {:>7} {:>3}  {:<8} {:<8} {:>10.2} {:>11.0} {:>7.2} {:>7.2}",
            format!("{:?}", load.shape),
            load.size,
            load.in_flight,
            format!("{place:?}"),
            format!("{rung:?}"),
            measured.p50.as_secs_f64() * 1e6,
            measured.per_second,
            measured.p50.as_secs_f64() / base.0.as_secs_f64(),
            measured.per_second / base.1,
        );
    }
}
