//! The promise of the circuit breaker, V4, from what the wire shows: no call that was asked while
//! the breaker was open reaches the server, and while it is half-open one probe runs at a time.

use std::collections::BTreeMap;

use callboard::view::BreakerState;

use super::{Findings, Promise, Story, stories};
use crate::trace::{Entry, Fact};
use crate::world::Run;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let stories = stories(run);
    for (place, entry) in run.trace.iter().enumerate() {
        if let Fact::Breaker { server, state: BreakerState::Open } = entry.fact {
            silence(run, server, &run.trace[place..], &stories, findings);
        }
    }
}

/// Until when a period of the breaker lasts that begins with `after`: to its next move, or to what an
/// operator does to the server.
fn end_of_period(server: usize, after: &[Entry], closed: bool) -> u64 {
    let ends = after.iter().skip(1).find(|entry| match entry.fact {
        Fact::Breaker { server: s, state } => s == server && (!closed || state == BreakerState::Closed),
        Fact::Acted { server: s, .. } => s == server,
        _ => false,
    });
    ends.map_or(u64::MAX, |entry| entry.at)
}

fn silence(
    run: &Run,
    server: usize,
    after: &[Entry],
    stories: &BTreeMap<u64, Story>,
    findings: &mut Findings,
) {
    let plan = &run.schedule.servers[server];
    let opened = after[0].at;
    let half_open = opened.saturating_add(plan.open_for);
    let until = end_of_period(server, after, true);
    let on_it = |story: &&Story| story.got.iter().any(|(_, s, ..)| *s == server);
    let mut probes = Vec::new();
    for story in stories.values().filter(on_it) {
        let (Some(asked), Some((ended, _))) = (story.asked.first(), story.ended.first()) else { continue };
        let (got, ..) = story.got[0];
        findings.check(*asked <= opened || *asked >= half_open.min(until), Promise::V4, || {
            format!("{} opened at {opened}; what was asked at {asked} reached it at {got}", plan.name)
        });
        if *asked >= half_open && *asked < until && got < until {
            probes.push((got, *ended));
        }
    }
    probes.sort_unstable();
    for pair in probes.windows(2) {
        findings.check(pair[0].1 <= pair[1].0, Promise::V4, || {
            format!("{} had two probes at once: {pair:?}, half-open since {half_open}", plan.name)
        });
    }
}
