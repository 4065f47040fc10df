//! Promises about servers: V5, V7, V8, V9.

use std::collections::{BTreeMap, BTreeSet};

use callboard::view::{LifeState, ParkReason};

use super::{Findings, Promise, Story, stories};
use crate::answers;
use crate::schedule::{Act, FaultKind, LAST_CALLS};
use crate::trace::{Entry, Fact, Outcome};
use crate::world::Run;

/// The window of the restart law, less what a timer may round.
const WINDOW_MS: u64 = 59_998;
/// Restarts in it, and starts in a row that never become ready.
const RESTARTS_MAX: usize = 5;
/// How long a connection must have lived after a list for that list to have arrived for sure.
pub(super) const ARRIVED_MS: u64 = 50;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    for server in 0..run.schedule.servers.len() {
        restarts(run, server, findings);
        alive_again(run, server, findings);
        nothing_held(run, server, findings);
        catalogue(run, server, findings);
    }
    let end = &run.end;
    findings.check(end.permits_missing == 0, Promise::V8, || {
        format!("{} permits are still taken", end.permits_missing)
    });
    findings.check(end.tasks_after == 0, Promise::V8, || {
        format!("{} tasks are alive after the shutdown", end.tasks_after)
    });
    bijective(run, findings);
}

/// Whether a server may be stopped because nobody uses it.
fn rests(run: &Run, server: usize) -> bool {
    let plan = &run.schedule.servers[server];
    plan.lazy || plan.idle_stop.is_some()
}

fn name(run: &Run, server: usize) -> &'static str {
    run.schedule.servers[server].name
}

/// Facts about one server from the operator's last action before `until` on, with their times.
fn since_act(run: &Run, server: usize, until: usize) -> &[Entry] {
    let acted = |fact: &Fact| matches!(fact, Fact::Acted { server: s, .. } if *s == server);
    let from = run.trace[..until].iter().rposition(|entry| acted(&entry.fact)).unwrap_or(0);
    &run.trace[from..until]
}

fn restarts(run: &Run, server: usize, findings: &mut Findings) {
    let stories = stories(run);
    for (place, entry) in run.trace.iter().enumerate() {
        if !matches!(entry.fact, Fact::Connected { server: s, .. } if s == server) {
            continue;
        }
        let began = entry.at.saturating_sub(WINDOW_MS);
        let epoch = since_act(run, server, place + 1);
        let restarts =
            restart_times(epoch, server, rests(run, server)).iter().filter(|at| **at >= began).count();
        // A start for a call to a server that was given up is no restart. One that is given up and wanted by a waiting call in the same moment is not seen as given up.
        let demands = epoch.iter().filter(|e| e.at >= began && is_given_up(&e.fact, server)).count();
        let demands = demands.max(usize::from(is_waited_for(run, &stories, server, entry.at)));
        findings.check(restarts <= RESTARTS_MAX + demands, Promise::V5, || {
            format!("{} was restarted {restarts} times in the minute before {}", name(run, server), entry.at)
        });
    }
}

/// The restarts in a piece of the record: starts that are neither the first nor after a rest. One that
/// `may_rest` and is wanted again in the same moment is not seen at rest: its old connection is still
/// being ended when the new one comes.
fn restart_times(facts: &[Entry], server: usize, may_rest: bool) -> Vec<u64> {
    let (mut rests, mut open, mut times) = (true, None, Vec::new());
    for entry in facts {
        match entry.fact {
            Fact::State { server: s, state: LifeState::Dormant } if s == server => rests = true,
            Fact::Connected { server: s, conn } if s == server => {
                let unseen = may_rest && open.is_some();
                if !std::mem::take(&mut rests) && !unseen {
                    times.push(entry.at);
                }
                open = Some(conn);
            }
            Fact::Gone { server: s, conn, .. } if s == server && open == Some(conn) => open = None,
            _ => {}
        }
    }
    times
}

fn is_waited_for(run: &Run, stories: &BTreeMap<u64, Story>, server: usize, at: u64) -> bool {
    let mut calls = run.schedule.calls.iter().filter(|call| call.server == server);
    calls.any(|call| {
        stories.get(&call.nonce).is_some_and(|story| {
            story.asked.iter().any(|asked| *asked <= at) && story.ended.iter().all(|(ended, _)| *ended >= at)
        })
    })
}

fn is_given_up(fact: &Fact, server: usize) -> bool {
    matches!(fact, Fact::State { server: s, state: LifeState::Parked(ParkReason::GivenUp) } if *s == server)
}

fn alive_again(run: &Run, server: usize, findings: &mut Findings) {
    if run.end.wanted.get(&server) != Some(&true) {
        return;
    }
    let state = run.end.settled.get(&server);
    let fine = match state {
        Some(LifeState::Ready) => true,
        Some(LifeState::Dormant) => rests(run, server),
        Some(LifeState::Parked(ParkReason::GivenUp)) => is_explained(run, server),
        _ => false,
    };
    findings.check(fine, Promise::V7, || {
        format!("{} is {state:?} at {} ms, long after the last fault", name(run, server), run.end.settled_at)
    });
    let stories = stories(run);
    let last = stories.get(&(LAST_CALLS + server as u64)).and_then(|story| story.ended.first());
    findings.check(matches!(last, Some((_, Outcome::Answered { .. }))), Promise::V7, || {
        format!("the last call of {} ended with {last:?}", name(run, server))
    });
}

/// Whether the peer saw enough failures for the restart law to give up.
fn is_explained(run: &Run, server: usize) -> bool {
    let Some(place) =
        run.trace.iter().rposition(|e| e.at <= run.end.settled_at && is_given_up(&e.fact, server))
    else {
        return false;
    };
    let (at, epoch) = (run.trace[place].at, since_act(run, server, place));
    let before = epoch.iter().any(|e| is_given_up(&e.fact, server));
    // In doubt for the law: a start that may have been one after an unseen rest counts here.
    let times = restart_times(epoch, server, false);
    let restarts = times.iter().filter(|time| **time + WINDOW_MS + 2 >= at).count();
    let mut unready = 0;
    for entry in epoch {
        match entry.fact {
            Fact::Connected { server: s, .. } if s == server => unready += 1,
            Fact::Handshaken { server: s, .. } if s == server => unready = 0,
            _ => {}
        }
    }
    before || restarts >= RESTARTS_MAX || unready >= RESTARTS_MAX
}

fn nothing_held(run: &Run, server: usize, findings: &mut Findings) {
    let end = &run.end;
    let busy = end.busy.get(&server).copied().unwrap_or_default();
    findings.check(busy == (0, 0), Promise::V8, || {
        format!("{} still has {} calls in flight and {} waiting", name(run, server), busy.0, busy.1)
    });
    let wanted = usize::from(end.wanted.get(&server) == Some(&true));
    let open = end.open.get(&server).copied().unwrap_or_default();
    findings.check(open == wanted || (open < wanted && rests(run, server)), Promise::V8, || {
        format!("{} has {open} open connections at the end, not {wanted}", name(run, server))
    });
    let after = end.open_after.get(&server).copied().unwrap_or_default();
    findings.check(after == 0, Promise::V8, || {
        format!("{} has {after} open connections after the shutdown", name(run, server))
    });
}

fn catalogue(run: &Run, server: usize, findings: &mut Findings) {
    let end = &run.end;
    let wanted = end.wanted.get(&server) == Some(&true);
    let listed = end.catalog.get(&server).cloned().unwrap_or_default();
    let renewed = end.renewed.get(&server).cloned().unwrap_or_default();
    if !wanted {
        findings.check(listed.is_empty() && renewed.is_empty(), Promise::V9, || {
            format!("{} is not there and lists {listed:?}", name(run, server))
        });
        return;
    }
    let candidates = last_lists(run, server);
    let plan = &run.schedule.servers[server];
    let known = candidates.iter().map(|version| version.map(|version| answers::tools(plan, version)));
    // With no whole list before, the beginning of one is better than nothing.
    let beginnings = candidates.contains(&None);
    let good = known
        .map(Option::unwrap_or_default)
        .any(|tools| tools == listed || (beginnings && tools.starts_with(&listed)));
    findings.check(good, Promise::V9, || {
        format!("{} lists {listed:?}, which is none of the last good lists {candidates:?}", plan.name)
    });
    // A server that announced something once is believed to announce everything.
    let storms = run.schedule.faults.iter();
    let storms = storms.filter(|fault| (fault.server, fault.kind) == (server, FaultKind::ListChangedStorm));
    let is_told = plan.announces || (run.schedule.poll.is_some() && storms.count() == 0);
    if is_told && end.heard.get(&server) == Some(&LifeState::Ready) {
        let offered = end.offered.get(&server).cloned().unwrap_or_default();
        findings.check(renewed == offered, Promise::V9, || {
            format!("{} offers {offered:?} and said so, the catalogue has {renewed:?}", plan.name)
        });
    }
}

/// The versions of its list that may be the last good one that arrived: the last that surely did,
/// and those that may have after it. `None` is an empty catalogue.
fn last_lists(run: &Run, server: usize) -> BTreeSet<Option<u64>> {
    let mut found = BTreeSet::from([None]);
    // The bell makes every list new: only what came before the first look counts.
    let until = run.trace.iter().position(|e| e.at > run.end.looked_at).unwrap_or(run.trace.len());
    for (place, entry) in run.trace[..until].iter().enumerate() {
        match entry.fact {
            Fact::Acted { server: s, act } if s == server && act != Act::Restart => {
                found.insert(None);
            }
            Fact::Listed { server: s, conn, version, sure, .. } if s == server => {
                if sure && lived_on(run, server, conn, place) {
                    found.clear();
                }
                found.insert(Some(version));
            }
            _ => {}
        }
    }
    found
}

/// Whether a connection lived long enough after that entry for what it wrote there to have arrived.
pub(super) fn lived_on(run: &Run, server: usize, conn: u64, place: usize) -> bool {
    let at = run.trace[place].at;
    let gone =
        |fact: &Fact| matches!(fact, Fact::Gone { server: s, conn: c, .. } if (*s, *c) == (server, conn));
    !run.trace[place..].iter().take_while(|e| e.at <= at + ARRIVED_MS).any(|e| gone(&e.fact))
}

fn bijective(run: &Run, findings: &mut Findings) {
    let (mut names, mut owners) = (BTreeSet::new(), BTreeSet::new());
    for (exposed, server, raw) in &run.end.exposed {
        let fits =
            exposed.len() <= 64 && exposed.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        findings.check(fits, Promise::V9, || format!("{exposed} is no name that clients take"));
        findings.check(names.insert(exposed), Promise::V9, || format!("{exposed} is exposed twice"));
        findings.check(owners.insert((server, raw)), Promise::V9, || {
            format!("{raw} of {} has two names", name(run, *server))
        });
    }
}
