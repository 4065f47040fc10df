//! Makes a failing schedule small: leaves out halves, then smaller and smaller parts, as long as it
//! still fails in the same way.

use super::oracle::{Breach, Promise, breaches};
use super::schedule::Schedule;
use super::world;

/// Runs that shrinking may cost.
const RUNS_MAX: usize = 400;

/// A smaller schedule that breaks the same promise, with its breach.
pub fn smallest(schedule: &Schedule, breach: &Breach) -> (Schedule, Breach) {
    let mut best = (schedule.clone(), breach.clone());
    let mut runs = 0;
    loop {
        let before = size(&best.0);
        for part in [Part::Acts, Part::Faults, Part::Calls] {
            reduce(part, &mut best, &mut runs);
        }
        if size(&best.0) == before || runs >= RUNS_MAX {
            return best;
        }
    }
}

#[derive(Clone, Copy)]
enum Part {
    Calls,
    Faults,
    Acts,
}

fn size(schedule: &Schedule) -> usize {
    schedule.calls.len() + schedule.faults.len() + schedule.acts.len()
}

fn len(schedule: &Schedule, part: Part) -> usize {
    match part {
        Part::Calls => schedule.calls.len(),
        Part::Faults => schedule.faults.len(),
        Part::Acts => schedule.acts.len(),
    }
}

fn without(schedule: &Schedule, part: Part, range: std::ops::Range<usize>) -> Schedule {
    let mut less = schedule.clone();
    match part {
        Part::Calls => drop(less.calls.drain(range)),
        Part::Faults => drop(less.faults.drain(range)),
        Part::Acts => drop(less.acts.drain(range)),
    }
    less
}

fn reduce(part: Part, best: &mut (Schedule, Breach), runs: &mut usize) {
    let mut chunk = len(&best.0, part);
    while chunk > 0 {
        let mut from = 0;
        while from < len(&best.0, part) && *runs < RUNS_MAX {
            let until = (from + chunk).min(len(&best.0, part));
            let less = without(&best.0, part, from..until);
            *runs += 1;
            match still(&less, best.1.promise) {
                Some(breach) => *best = (less, breach),
                None => from = until,
            }
        }
        chunk /= 2;
    }
}

fn still(schedule: &Schedule, promise: Promise) -> Option<Breach> {
    breaches(&world::run(schedule)).into_iter().find(|breach| breach.promise == promise)
}
