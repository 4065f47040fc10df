//! Starts beside servers that never answer, and what a crash costs the server itself.

use std::time::{Duration, Instant};

use callboard::runtime::Runtime;
use callboard::view::LifeState;
use tokio::task::JoinSet;

use crate::child::{Fault, IN_FLIGHT_AT_DEATH};
use crate::{Spread, host, load};

/// Sound servers of a start, and as many that never answer.
const SOUND: usize = 25;
/// Between a start and the next crash: starts of one server are kept apart that long by the law,
/// which is not measured here.
const APART: Duration = Duration::from_millis(60);
/// Longest wait for a server.
const READY_MAX: Duration = Duration::from_secs(30);

/// From the start of the host to the last sound server ready, in ms: without and with the others.
pub async fn starts(rounds: usize) -> Vec<(f64, f64)> {
    let alone = vec![None; SOUND];
    let mut beside = alone.clone();
    // In turns, as they would stand in a configuration.
    (0..SOUND).for_each(|n| beside.insert(2 * n, Some(Fault::NeverInitialise)));
    let mut all = Vec::new();
    // One for the caches.
    start(&beside).await;
    for round in 0..rounds {
        all.push(if round % 2 == 0 {
            let without = start(&alone).await;
            (without, start(&beside).await)
        } else {
            let with = start(&beside).await;
            (start(&alone).await, with)
        });
    }
    all
}

async fn start(faults: &[Option<Fault>]) -> f64 {
    let began = Instant::now();
    let host = Runtime::start(host::plan(faults, true)).await.unwrap();
    let wanted: Vec<_> = (0..faults.len()).filter(|slot| faults[*slot].is_none()).map(host::name).collect();
    let mut watch = host.watch(&wanted);
    let ready = async {
        while watch.look().iter().any(|view| view.state != LifeState::Ready) {
            watch.changed().await;
        }
    };
    tokio::time::timeout(READY_MAX, ready).await.unwrap();
    let took = began.elapsed();
    host.shutdown().await;
    took.as_secs_f64() * 1e3
}

/// What crashes cost.
pub struct Crashes {
    /// From the death of a server to its next ready.
    pub ready: Spread,
    /// From its death to the last error of the calls that were in flight.
    pub errors: Spread,
    /// Calls in flight that got no error.
    pub answered: usize,
}

/// A server that dies with calls in flight, so many times.
pub async fn crashes(runs: usize) -> Crashes {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("death");
    let host = Runtime::start(host::mortal(&file)).await.unwrap();
    let mut watch = host.watch(&[]);
    let (mut ready, mut errors, mut answered) = (Vec::new(), Vec::new(), 0);
    let mut generation = None;
    for run in 0..=runs {
        let back = async {
            loop {
                let view = watch.look().remove(0);
                if view.state == LifeState::Ready && Some(view.generation) != generation {
                    return (view.generation, crate::clock());
                }
                watch.changed().await;
            }
        };
        let (next, at) = tokio::time::timeout(READY_MAX, back).await.unwrap();
        generation = Some(next);
        if run > 0 {
            ready.push(at.saturating_sub(death(&file)));
        }
        if run == runs {
            break;
        }
        tokio::time::sleep(APART).await;
        let frontend = host.frontend();
        let mut calls = JoinSet::new();
        for n in 0..IN_FLIGHT_AT_DEATH {
            calls.spawn(frontend.call(load::request(0, &format!("{run}-{n}"), "x"), None));
        }
        let mut last = Duration::ZERO;
        while let Some(answer) = calls.join_next().await {
            answered += usize::from(answer.unwrap().is_ok());
            last = crate::clock();
        }
        errors.push(last.saturating_sub(death(&file)));
    }
    host.shutdown().await;
    Crashes { ready: Spread::of(ready), errors: Spread::of(errors), answered }
}

fn death(file: &std::path::Path) -> Duration {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    Duration::from_nanos(text.trim().parse().unwrap_or(0))
}
