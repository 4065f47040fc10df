//! Pairs of runs, one without and one with faults, in both orders in turns.

use crate::child::Fault;
use crate::load::{self, Load, Run};

/// What is wanted of the latency beside faults: at most that many times, or that much more.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Times the latency without faults.
    pub ratio: f64,
    /// Or that many milliseconds more; 0 for none.
    pub more_ms: f64,
}

impl Goal {
    /// Whether it is met.
    pub fn is_met(&self, ratio: f64, more_ms: f64) -> bool {
        ratio <= self.ratio || (self.more_ms > 0.0 && more_ms <= self.more_ms)
    }
}

/// Two runs beside each other in time.
pub struct Pair {
    /// Nobody is faulty.
    pub without: Run,
    /// As the fleet says.
    pub with: Run,
}

/// So many pairs of runs.
pub async fn measure(load: Load, kinds: &[Fault], rounds: usize) -> Vec<Pair> {
    let (sound, faulty) = (vec![None; load.servers], load.faults(kinds));
    let mut pairs = Vec::new();
    for round in 0..rounds {
        // Both orders: whoever comes first finds the machine as the round before left it.
        pairs.push(if round % 2 == 0 {
            let without = load::run(load, &sound).await;
            Pair { without, with: load::run(load, &faulty).await }
        } else {
            let with = load::run(load, &faulty).await;
            Pair { without: load::run(load, &sound).await, with }
        });
    }
    pairs
}

/// The one in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 0 => f64::midpoint(values[len / 2 - 1], values[len / 2]),
        len => values[len / 2],
    }
}
