//! The table, and the same as JSON.

use serde_json::{Value, json};

use crate::Spread;
use crate::ends::Crashes;
use crate::load::Run;
use crate::pairs::{Goal, Pair, median};

/// Goal of a start: times the start alone, or milliseconds more.
const START: Goal = Goal { ratio: 1.2, more_ms: 100.0 };
/// Goals of a crash, in ms: ready again (half, and 99 of 100), and the last error.
const READY_P50: f64 = 100.0;
const READY_P99: f64 = 600.0;
const ERRORS_MAX: f64 = 100.0;

/// Prints as it comes, and keeps it for JSON.
pub struct Report {
    json: bool,
    all: serde_json::Map<String, Value>,
}

impl Report {
    /// An empty one.
    pub fn new(quick: bool, threads: bool, json: bool) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default().to_owned();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let runtime = if threads { "two workers" } else { "one thread" };
        let mut report = Self { json, all: serde_json::Map::new() };
        report.say(&format!("{cores} cores, load {load} before; the host has {runtime}"));
        let about = json!({"quick": quick, "runtime": runtime, "cores": cores, "load_before": load});
        report.all.insert("about".into(), about);
        report
    }

    fn say(&self, line: &str) {
        if self.json { eprintln!("{line}") } else { println!("{line}") }
    }

    /// The names of the columns.
    pub fn head(&self) {
        self.say(&format!(
            "\nlatency of the sound servers, in ms, from the time a call was due\n{:<16} {:<8} {:>6} {:>8} \
             {:>8} {:>8} {:>8} {:>9} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8} {:>9} {:>13}",
            "fleet",
            "faults",
            "calls",
            "p50",
            "p99",
            "p99.9",
            "max",
            "late p99",
            "failed",
            "wrong",
            "moved",
            "busy %",
            "wait %",
            "RSS KiB",
            "stop ms",
            "others ok/err"
        ));
    }

    /// All runs of one fleet, and the medians over its pairs.
    pub fn fleet(&mut self, name: &str, pairs: &[Pair], goal: Goal) {
        for Pair { without, with } in pairs {
            self.run(name, "without", without);
            self.run(name, "with", with);
        }
        let ratio = |of: fn(&Spread) -> f64| {
            median(pairs.iter().map(|pair| of(&pair.with.latency) / of(&pair.without.latency)))
        };
        let more = median(pairs.iter().map(|pair| pair.with.latency.p99 - pair.without.latency.p99));
        let (p50, p99, p999) = (ratio(|s| s.p50), ratio(|s| s.p99), ratio(|s| s.p999));
        let runs = || pairs.iter().map(|pair| &pair.with);
        let failed: usize = runs().flat_map(|run| run.failed.values()).sum();
        let wrong: usize = runs().map(|run| run.misrouted + run.twice).sum();
        let moved: usize = runs().map(|run| run.restarted).sum();
        let met = goal.is_met(p99, more) && failed + wrong + moved == 0;
        let or = if goal.more_ms > 0.0 { format!(" or +{} ms", goal.more_ms) } else { String::new() };
        self.say(&format!(
            "{name:<16} median of {} ratios: p50 × {p50:.2}, p99 × {p99:.2} ({more:+.2} ms; goal × {:.2}{or}), \
             p99.9 × {p999:.2}; failed {failed}, wrong {wrong}, moved {moved}: {}\n",
            pairs.len(),
            goal.ratio,
            verdict(met)
        ));
        let all: Vec<Value> = pairs
            .iter()
            .map(|pair| json!({"without": run_json(&pair.without), "with": run_json(&pair.with)}))
            .collect();
        let value = json!({"p50_ratio": p50, "p99_ratio": p99, "p99_more_ms": more, "p999_ratio": p999,
            "failed": failed, "wrong": wrong, "moved": moved, "met": met, "pairs": all});
        self.all.insert(name.replace(' ', "_"), value);
    }

    fn run(&self, name: &str, faults: &str, run: &Run) {
        let Spread { count, p50, p99, p999, max } = run.latency;
        let failed: usize = run.failed.values().sum();
        let others = format!("{}/{}", run.others.0, run.others.1);
        self.say(&format!(
            "{name:<16} {faults:<8} {count:>6} {p50:>8.2} {p99:>8.2} {p999:>8.2} {max:>8.2} {:>9.2} {failed:>6} \
             {:>6} {:>6} {:>6.0} {:>6.0} {:>8} {:>9.1} {others:>13}",
            run.late.p99,
            run.misrouted + run.twice,
            run.restarted,
            run.busy * 100.0,
            run.starved * 100.0,
            run.resident,
            run.shutdown.as_secs_f64() * 1e3,
        ));
        for (code, count) in &run.failed {
            self.say(&format!("    failed: {code} {count} times"));
        }
    }

    /// Starts without and with servers that never answer, in ms.
    pub fn start(&mut self, pairs: &[(f64, f64)]) {
        let ratio = median(pairs.iter().map(|(without, with)| with / without));
        let more = median(pairs.iter().map(|(without, with)| with - without));
        let met = START.is_met(ratio, more);
        let each: Vec<String> = pairs.iter().map(|(a, b)| format!("{a:.0} and {b:.0}")).collect();
        self.say(&format!(
            "last of 25 ready, without and with 25 beside that never answer: {} ms; median × {ratio:.2} \
             ({more:+.0} ms; goal × 1.20 or +100 ms): {}",
            each.join(", "),
            verdict(met)
        ));
        let value = json!({"ratio": ratio, "more_ms": more, "met": met, "pairs_ms": pairs});
        self.all.insert("start".into(), value);
    }

    /// What crashes cost.
    pub fn crash(&mut self, crashes: &Crashes) {
        let Crashes { ready, errors, answered } = crashes;
        let met =
            ready.p50 <= READY_P50 && ready.p99 <= READY_P99 && errors.max <= ERRORS_MAX && *answered == 0;
        self.say(&format!(
            "{} crashes: ready again after p50 {:.1}, p99 {:.1}, max {:.1} ms (goal {READY_P50} and {READY_P99}); \
             last error of 8 calls in flight after p50 {:.1}, p99 {:.1}, max {:.1} ms (goal {ERRORS_MAX}), \
             without one {answered}: {}",
            ready.count, ready.p50, ready.p99, ready.max, errors.p50, errors.p99, errors.max,
            verdict(met)
        ));
        let value = json!({"ready_ms": spread_json(ready), "errors_ms": spread_json(errors),
            "answered": answered, "met": met});
        self.all.insert("crash".into(), value);
    }

    /// The object, if it was asked for.
    pub fn end(&self) {
        if self.json {
            println!("{}", Value::Object(self.all.clone()));
        }
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn spread_json(spread: &Spread) -> Value {
    let Spread { count, p50, p99, p999, max } = spread;
    json!({"count": count, "p50": p50, "p99": p99, "p999": p999, "max": max})
}

fn run_json(run: &Run) -> Value {
    json!({"latency_ms": spread_json(&run.latency), "late_ms": spread_json(&run.late), "failed": run.failed,
        "misrouted": run.misrouted, "executed_twice": run.twice, "restarted_elsewhere": run.restarted,
        "others_answered": run.others.0, "others_failed": run.others.1, "resident_kib": run.resident,
        "host_busy": run.busy, "host_starved": run.starved, "shutdown_ms": run.shutdown.as_secs_f64() * 1e3})
}
