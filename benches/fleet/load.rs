//! One run of a fleet under open load: calls leave at fixed times, whatever became of those
//! before, and each latency counts from the time at which its call was due.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard::call::{CallError, CallLimits, CallReply, CallRequest, ItemKind, Target};
use callboard::id::{CallId, SessionId};
use callboard::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::child::{self, Fault};
use crate::{Spread, host};

/// Bytes of text in each call and each answer.
const TEXT: usize = 1024;
/// Calls before those that count.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long the last calls may take before they count as failed.
const LAST_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the sound servers at the start.
const START_MAX: Duration = Duration::from_secs(60);

/// What a fleet is asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Servers.
    pub servers: usize,
    /// How many of them are faulty in the runs with faults.
    pub faulty: usize,
    /// Calls a second to each server that is never faulty.
    pub sound_rate: u32,
    /// Calls a second to each of the others.
    pub faulty_rate: u32,
    /// How long.
    pub time: Duration,
    /// Whether faulty ones are started again without end and never shut out, against the defaults.
    pub kept: bool,
}

impl Load {
    /// Whether the server in that slot is one of the faulty ones: they are spread evenly.
    pub fn is_faulty(&self, slot: usize) -> bool {
        slot * self.faulty / self.servers != (slot + 1) * self.faulty / self.servers
    }

    /// What is wrong with each server, `kinds` in turns.
    pub fn faults(&self, kinds: &[Fault]) -> Vec<Option<Fault>> {
        let mut kinds = kinds.iter().copied().cycle();
        (0..self.servers).map(|slot| if self.is_faulty(slot) { kinds.next() } else { None }).collect()
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut all = Vec::new();
        for slot in 0..self.servers {
            let faulty = self.is_faulty(slot);
            let gap = Duration::from_secs(1) / if faulty { self.faulty_rate } else { self.sound_rate };
            let phase = gap.mul_f64(slot as f64 / self.servers as f64);
            let times = (0..).map(|n| phase + gap * n).take_while(|at| *at < WARM_UP + self.time);
            all.extend(times.enumerate().map(|(n, at)| Arrival { at, slot, n, faulty }));
        }
        all.sort_by_key(|arrival| arrival.at);
        all
    }
}

#[derive(Clone, Copy)]
struct Arrival {
    at: Duration,
    slot: usize,
    n: usize,
    faulty: bool,
}

/// What one run showed of the servers that are never faulty.
#[derive(Default)]
pub struct Run {
    /// From the time that a call was due to its answer.
    pub latency: Spread,
    /// How late the calls left: the machine's part.
    pub late: Spread,
    /// Calls without an answer, by cause.
    pub failed: BTreeMap<String, usize>,
    /// Answers that are not the one to their call.
    pub misrouted: usize,
    /// Calls that were executed twice.
    pub twice: usize,
    /// Servers that are not the process of the beginning any more.
    pub restarted: usize,
    /// Answers and failures of the other servers.
    pub others: (usize, usize),
    /// Resident memory of the host before it ended, in KiB.
    pub resident: u64,
    /// Processor time of the host for each second.
    pub busy: f64,
    /// Time for each second in which the thread of the host wanted a processor and had none.
    pub starved: f64,
    /// How long the end of the whole fleet took.
    pub shutdown: Duration,
}

#[derive(Default)]
struct Tally {
    latencies: Vec<Duration>,
    run: Run,
}

type Shared = Arc<Mutex<Tally>>;

/// Starts the fleet, calls it, ends it.
pub async fn run(load: Load, faults: &[Option<Fault>]) -> Run {
    let host = Runtime::start(host::plan(faults, load.kept)).await.unwrap();
    let sound: Vec<usize> = (0..load.servers).filter(|slot| !load.is_faulty(*slot)).collect();
    // In both runs the same are waited for, and then as long again as they took: the others start, too.
    let wanted: Vec<_> = sound.iter().map(|slot| host::name(*slot)).collect();
    let began = Instant::now();
    host.settle(&wanted, START_MAX).await;
    tokio::time::sleep(began.elapsed()).await;
    let before = host::holders(&host, &sound);
    let (tally, began) = (Shared::default(), Instant::now());
    let (cpu, starved) = (crate::cpu_time(), host::starved());
    let late = drive(&host, load, &tally).await;
    let per_second = |time: Duration| time.as_secs_f64() / began.elapsed().as_secs_f64();
    let busy = per_second(crate::cpu_time() - cpu);
    let starved = per_second(host::starved().saturating_sub(starved));
    let after = host::holders(&host, &sound);
    let resident = host::resident();
    let began = Instant::now();
    host.shutdown().await;
    let shutdown = began.elapsed();
    let tally = std::mem::take(&mut *tally.lock().unwrap());
    Run {
        latency: Spread::of(tally.latencies),
        late: Spread::of(late),
        restarted: before.iter().zip(&after).filter(|(old, new)| old != new || !new.2).count(),
        resident,
        busy,
        starved,
        shutdown,
        ..tally.run
    }
}

/// Sends all calls at their times; how late each of those that count left.
async fn drive(host: &Runtime, load: Load, tally: &Shared) -> Vec<Duration> {
    let arrivals = load.arrivals();
    let (due, mut calls) = mpsc::channel(arrivals.len());
    let zero = Instant::now() + Duration::from_millis(20);
    // A thread of its own: a timer of the event loop would be late when the loop is, and hide it.
    let clock = std::thread::spawn(move || {
        let mut late = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let at = zero + arrival.at;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if arrival.at >= WARM_UP {
                late.push(at.elapsed());
            }
            if due.blocking_send(arrival).is_err() {
                break;
            }
        }
        late
    });
    let frontend = host.frontend();
    let pad = "x".repeat(TEXT);
    let (mut sound, mut others) = (JoinSet::new(), JoinSet::new());
    while let Some(arrival) = calls.recv().await {
        let nonce = format!("{}-{}", arrival.slot, arrival.n);
        let wanted = child::result(&nonce, &pad);
        let answer = frontend.call(request(arrival.slot, &nonce, &pad), None);
        let tally = tally.clone();
        let set = if arrival.faulty { &mut others } else { &mut sound };
        set.spawn(async move {
            let answer = answer.await;
            let took = (zero + arrival.at).elapsed();
            settle(&tally, arrival, &answer, &wanted, took);
        });
    }
    let all = async { while sound.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_MAX, all).await;
    if !sound.is_empty() {
        tally.lock().unwrap().run.failed.insert("no end".to_owned(), sound.len());
    }
    others.abort_all();
    clock.join().unwrap()
}

fn settle(
    tally: &Shared,
    arrival: Arrival,
    answer: &Result<CallReply, CallError>,
    wanted: &str,
    took: Duration,
) {
    let mut tally = tally.lock().unwrap();
    let right = match answer {
        Ok(reply) => &reply.frame[reply.body.clone()] == wanted.as_bytes(),
        Err(error) if arrival.faulty => {
            tally.run.others.1 += usize::from(!error.message.is_empty());
            return;
        }
        Err(error) => {
            *tally.run.failed.entry(error.code.as_str().to_owned()).or_default() += 1;
            return;
        }
    };
    if !right {
        let again = child::result(&format!("{}-{}", arrival.slot, arrival.n), "again");
        let twice = answer.as_ref().is_ok_and(|reply| &reply.frame[reply.body.clone()] == again.as_bytes());
        tally.run.twice += usize::from(twice);
        tally.run.misrouted += usize::from(!twice);
    }
    if arrival.faulty {
        tally.run.others.0 += 1;
    } else if arrival.at >= WARM_UP {
        tally.latencies.push(took);
    }
}

/// A call of that server with that nonce.
pub fn request(slot: usize, nonce: &str, pad: &str) -> CallRequest {
    let params = format!(r#"{{"name":"t","arguments":{{"nonce":"{nonce}","pad":"{pad}"}}}}"#);
    CallRequest {
        id: CallId::fresh(),
        session: SessionId(0),
        target: Target::Direct { server: host::name(slot), kind: ItemKind::Tool, name: "t".into() },
        params: Bytes::from(params),
        limits: CallLimits::default(),
        grant: None,
    }
}
