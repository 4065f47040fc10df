//! Promises to callers: V1, V2, V3, V6, V12.

use std::collections::BTreeMap;

use callboard::call::{Delivery, ErrorCode};
use callboard::view::LifeState;

use super::{Findings, Promise, Story, all_calls, stories};
use crate::schedule::{CallPlan, HINTED, LAST_CALLS, PARTING_CALLS, What};
use crate::trace::{Fact, Outcome};
use crate::world::Run;

/// What an outcome may be later than its limit, in milliseconds.
const GRACE_MS: u64 = 20;
/// How long calls may still run when their server is stopped.
const DRAIN_MS: u64 = 2_000;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let stories = stories(run);
    let none = Story::default();
    for call in all_calls(run) {
        let story = stories.get(&call.nonce).unwrap_or(&none);
        one_outcome(run, &call, story, findings);
        executions(run, &call, story, findings);
        let foreign = story.told.iter().find(|of| **of != call.nonce);
        findings.check(foreign.is_none(), Promise::V2, || {
            format!("call {} was told about progress of {foreign:?}", call.nonce)
        });
        if let Some((_, outcome)) = story.ended.first() {
            own_answer(run, &call, outcome, findings);
            named(run, &call, outcome, findings);
        }
    }
    parting(run, &stories, findings);
    places(run, &stories, findings);
    told_once(run, findings);
    unchanged(run, &stories, findings);
}

fn one_outcome(run: &Run, call: &CallPlan, story: &Story, findings: &mut Findings) {
    let (nonce, counts) = (call.nonce, (story.asked.len(), story.ended.len()));
    findings.check(counts == (1, 1), Promise::V1, || {
        format!("call {nonce} was asked {} times and ended {} times", counts.0, counts.1)
    });
    let (Some(asked), Some((ended, outcome))) = (story.asked.first(), story.ended.first()) else { return };
    let limit = run.schedule.total(call);
    early(run, call, ended - asked, outcome, findings);
    findings.check(ended - asked <= limit + GRACE_MS, Promise::V1, || {
        format!("call {nonce} took {} ms, its limit is {limit} ms: {outcome:?}", ended - asked)
    });
}

/// A limit never fires before its time.
fn early(run: &Run, call: &CallPlan, took: u64, outcome: &Outcome, findings: &mut Findings) {
    let Outcome::Failed { code, .. } = outcome else { return };
    let least = match code {
        ErrorCode::TimeoutTotal => run.schedule.total(call),
        ErrorCode::TimeoutIdle => call.idle.unwrap_or(run.schedule.servers[call.server].idle),
        _ => 0,
    };
    findings.check(took >= least, Promise::V1, || {
        format!("call {} ended as {code} after {took} ms, the limit is {least} ms", call.nonce)
    });
}

/// What runs when the host is shut down has its end before the drain limit is over, and so has the host.
fn parting(run: &Run, stories: &BTreeMap<u64, Story>, findings: &mut Findings) {
    let at = |wanted: bool| {
        let is_it = |fact: &Fact| matches!(fact, Fact::Shutdown { done } if *done == wanted);
        run.trace.iter().find(|entry| is_it(&entry.fact)).map(|entry| entry.at)
    };
    let (Some(began), Some(done)) = (at(false), at(true)) else {
        findings.check(false, Promise::V1, || "the shutdown did not come to an end".to_owned());
        return;
    };
    findings.check(done - began <= DRAIN_MS + GRACE_MS, Promise::V1, || {
        format!("the shutdown took {} ms", done - began)
    });
    for (nonce, story) in stories.range(PARTING_CALLS..) {
        let ended = story.ended.first().map(|(ended, _)| *ended);
        findings.check(ended.is_some_and(|ended| ended <= done + GRACE_MS), Promise::V1, || {
            format!("call {nonce} ended at {ended:?}, the host was gone at {done}")
        });
    }
}

/// No more calls are out on one connection than the entry allows.
fn places(run: &Run, stories: &BTreeMap<u64, Story>, findings: &mut Findings) {
    let mut out: BTreeMap<(usize, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for story in stories.values() {
        if let ([(got, server, conn, _)], Some((ended, _))) = (&story.got[..], story.ended.first()) {
            out.entry((*server, *conn)).or_default().push((*got, *ended));
        }
    }
    for ((server, conn), calls) in out {
        let max = run.schedule.servers[server].in_flight;
        for (at, _) in &calls {
            let count = calls.iter().filter(|(got, ended)| got <= at && ended > at).count();
            findings.check(count <= max, Promise::V8, || {
                format!("{count} calls are out on {server}, connection {conn}, at {at}; {max} may be")
            });
        }
    }
}

fn own_answer(run: &Run, call: &CallPlan, outcome: &Outcome, findings: &mut Findings) {
    let Outcome::Answered { nonce, server, .. } = outcome else { return };
    let own = (call.nonce, run.schedule.servers[call.server].name);
    findings.check((*nonce, server.as_str()) == own, Promise::V2, || {
        format!("call {} of {} got the answer to {nonce} of {server}", own.0, own.1)
    });
}

fn executions(run: &Run, call: &CallPlan, story: &Story, findings: &mut Findings) {
    let (nonce, count) = (call.nonce, story.executed.len());
    let allowed = match call.what {
        What::Read => 3,
        What::Tool(HINTED) if run.schedule.servers[call.server].trusted => 2,
        _ => 1,
    };
    findings.check(count <= allowed, Promise::V3, || format!("call {nonce} ran {count} times"));
    match story.ended.first() {
        Some((_, Outcome::Failed { delivery: Delivery::NotSent, code, .. })) => {
            findings.check(story.got.is_empty(), Promise::V3, || {
                format!("call {nonce} failed as not sent ({code}), but a server got it")
            });
        }
        Some((_, Outcome::Answered { .. })) => {
            findings.check(count > 0, Promise::V3, || format!("call {nonce} was answered and never ran"));
        }
        _ => {}
    }
}

fn named(run: &Run, call: &CallPlan, outcome: &Outcome, findings: &mut Findings) {
    let Outcome::Failed { code, text, .. } = outcome else { return };
    let nonce = call.nonce;
    findings.check(*code != ErrorCode::Internal, Promise::V12, || format!("call {nonce}: a bug: {text}"));
    let name = match call.what {
        What::NoServer => "nobody",
        _ => run.schedule.servers[call.server].name,
    };
    findings.check(text.contains(name), Promise::V12, || {
        format!("call {nonce} was refused as {code} without a word about {name}: {text:?}")
    });
}

/// A server is never told twice that a call was given up, and a healthy one is told at once.
fn told_once(run: &Run, findings: &mut Findings) {
    let mut told: BTreeMap<(usize, u64, u64), Vec<u64>> = BTreeMap::new();
    for entry in &run.trace {
        if let Fact::Cancelled { server, conn, id } = entry.fact {
            told.entry((server, conn, id)).or_default().push(entry.at);
        }
    }
    for (place, times) in &told {
        findings.check(times.len() == 1, Promise::V1, || format!("{place:?} was cancelled at {times:?}"));
    }
    let stories = stories(run);
    for call in run.schedule.calls.iter().filter(|call| run.schedule.servers[call.server].healthy) {
        let Some(story) = stories.get(&call.nonce) else { continue };
        let Some((left, Outcome::Left)) = story.ended.first() else { continue };
        for (_, server, conn, id) in story.got.iter().filter(|(got, ..)| got < left) {
            let at = told.get(&(*server, *conn, *id)).and_then(|times| times.first());
            findings.check(at == Some(left), Promise::V1, || {
                format!("the caller of {} left at {left}, its server was told at {at:?}", call.nonce)
            });
        }
    }
}

/// Calls of healthy servers end as if the others were not there.
fn unchanged(run: &Run, stories: &BTreeMap<u64, Story>, findings: &mut Findings) {
    for (index, server) in run.schedule.servers.iter().enumerate().filter(|(_, server)| server.healthy) {
        let ready = run.trace.iter().find(
            |entry| matches!(entry.fact, Fact::State { server, state: LifeState::Ready } if server == index),
        );
        let Some(ready) = ready.map(|entry| entry.at) else {
            findings.check(false, Promise::V6, || format!("{} never became ready", server.name));
            continue;
        };
        findings.check(ready <= 2 * server.start + 1, Promise::V6, || {
            format!("{} became ready at {ready} ms, its start takes {} ms", server.name, server.start)
        });
        for call in run.schedule.calls.iter().filter(|call| call.server == index && call.at > ready) {
            let Some((_, outcome)) = stories.get(&call.nonce).and_then(|story| story.ended.first()) else {
                continue;
            };
            findings.check(as_alone(call, outcome), Promise::V6, || {
                format!("call {} of {} should take {} ms: {outcome:?}", call.nonce, server.name, call.delay)
            });
        }
    }
}

fn as_alone(call: &CallPlan, outcome: &Outcome) -> bool {
    match (outcome, call.what) {
        (Outcome::Left, _) => call.leave.is_some_and(|leave| leave <= call.delay),
        (Outcome::Failed { code, .. }, What::NoServer) => *code == ErrorCode::UnknownServer,
        (Outcome::Failed { code, .. }, What::NoTool) => *code == ErrorCode::UnknownTool,
        (Outcome::Answered { elapsed, .. }, What::Tool(_) | What::Exposed | What::Read) => {
            *elapsed == call.delay
        }
        _ => call.nonce >= LAST_CALLS,
    }
}
