//! Promises of the audit log and of pins: V10, V11.

use std::collections::BTreeSet;

use callboard::audit::record::Event;
use callboard::call::ErrorCode;

use super::servers::{ARRIVED_MS, lived_on};
use super::{Findings, Promise, Story, all_calls, stories};
use crate::answers::turning;
use crate::audit_log::Line;
use crate::schedule::{Act, CallPlan, TOOLS, What};
use crate::trace::{Fact, Outcome};
use crate::world::Run;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let log = &run.end.log;
    findings.check(log.differences.is_empty(), Promise::V10, || {
        format!("the audit log does not verify: {:?}", log.differences)
    });
    findings.check(log.open == 0, Promise::V10, || {
        format!("{} calls have a start and no end in the audit log", log.open)
    });
    findings.check(log.troubles == 0, Promise::V10, || "lines of the audit log were lost".to_owned());
    let stories = stories(run);
    let none = Story::default();
    for call in all_calls(run) {
        let story = stories.get(&call.nonce).unwrap_or(&none);
        let lines = log.lines.get(&call.nonce).map_or(&[][..], Vec::as_slice);
        let fits = written(story, lines);
        findings.check(fits, Promise::V10, || {
            let ended = story.ended.first();
            format!("call {} ended as {ended:?} and got {:?}, the log has {lines:?}", call.nonce, story.got)
        });
        only_what_changed(run, &call, story, findings);
    }
    for server in 0..run.schedule.servers.len() {
        let seen = Watched::of(run, server);
        never_runs(run, server, &seen, findings);
        at_the_end(run, server, &seen, findings);
    }
}

/// Whether the lines of a call say what became of it.
fn written(story: &Story, lines: &[Line]) -> bool {
    let outcome = story.ended.first().map(|(_, outcome)| outcome);
    match lines {
        // Its caller left in the moment of asking: nobody looked at it.
        [] => {
            let at_once = story.asked.first() == story.ended.first().map(|(at, _)| at);
            at_once && story.got.is_empty() && outcome == Some(&Outcome::Left)
        }
        [Line { event: Event::Refused, error, .. }] => {
            story.got.is_empty()
                && match outcome {
                    Some(Outcome::Failed { code, .. }) => error.as_deref() == Some(code.as_str()),
                    Some(Outcome::Left) => true,
                    _ => false,
                }
        }
        [Line { event: Event::Started, .. }, end] if end.event == Event::Finished => {
            // What was sent may not have arrived, what arrived was sent.
            let sent = usize::try_from(end.sent).is_ok_and(|sent| sent >= story.got.len());
            let word = end.outcome.as_deref();
            sent && match outcome {
                Some(Outcome::Answered { .. }) => word == Some("ok"),
                Some(Outcome::Failed { code, .. }) => {
                    word == Some("failed") && end.error.as_deref() == Some(code.as_str())
                }
                // It may have had its end in the moment in which its caller left.
                Some(Outcome::Left) => word.is_some_and(|word| word != "lost"),
                None => false,
            }
        }
        _ => false,
    }
}

/// The tool that a call is for, if its definition ever changes.
fn turns(run: &Run, call: &CallPlan) -> bool {
    let plan = &run.schedule.servers[call.server];
    matches!(call.what, What::Tool(index) if turning(plan) == Some(TOOLS[index]))
}

fn only_what_changed(run: &Run, call: &CallPlan, story: &Story, findings: &mut Findings) {
    let held = story
        .ended
        .iter()
        .any(|(_, outcome)| matches!(outcome, Outcome::Failed { code: ErrorCode::Held, .. }));
    findings.check(!held || turns(run, call), Promise::V11, || {
        format!("call {} was held, and its tool never changed", call.nonce)
    });
}

/// What is surely known of the turning tool of a server.
#[derive(Default)]
struct Watched {
    /// From when until when it was held for sure.
    held: Vec<(u64, u64)>,
    /// Whether it was held when the catalogue was looked at, if that is sure.
    at_the_look: Option<bool>,
}

/// The story of one server's turning tool, as its peer showed it.
#[derive(Default)]
struct Pinned {
    /// Editions that may have been the first seen.
    first: BTreeSet<bool>,
    /// The edition that was pinned: unknown yet, not to be known, or known.
    pinned: Option<Option<bool>>,
    /// The last list that surely arrived, and when, if nothing was shown since that says otherwise.
    last: Option<(u64, bool)>,
    /// Connections up to this one are of before the operator's last action.
    old: u64,
}

impl Watched {
    fn of(run: &Run, server: usize) -> Self {
        let (mut seen, mut now, mut newest) = (Self::default(), Pinned::default(), 0);
        let mut looked = false;
        for (place, entry) in run.trace.iter().enumerate() {
            if !looked && entry.at > run.end.looked_at {
                looked = true;
                seen.at_the_look = now.holds(run.end.looked_at);
            }
            match entry.fact {
                Fact::Connected { server: s, conn } if s == server => newest = conn,
                Fact::Acted { server: s, act } if s == server => {
                    seen.close(&mut now, entry.at);
                    now.old = newest;
                    if matches!(act, Act::Remove | Act::Disable | Act::Add) {
                        now = Pinned { old: newest, ..Pinned::default() };
                    }
                }
                Fact::Shown { server: s, conn, changed } if s == server && conn > now.old => {
                    if now.pinned.is_none() {
                        now.first.insert(changed);
                    }
                    if now.last.is_some_and(|(_, last)| last != changed) {
                        seen.close(&mut now, entry.at);
                    }
                }
                Fact::Listed { server: s, conn, changed, sure, .. }
                    if s == server && sure && conn > now.old && arrived(run, server, conn, place) =>
                {
                    now.listed(entry.at, changed);
                }
                _ => {}
            }
        }
        seen.close(&mut now, u64::MAX);
        seen
    }

    /// What was sure of the tool is not so any more.
    fn close(&mut self, now: &mut Pinned, until: u64) {
        if let (Some((since, changed)), Some(Some(pinned))) = (now.last.take(), now.pinned)
            && changed != pinned
        {
            self.held.push((since + ARRIVED_MS, until));
        }
    }
}

impl Pinned {
    fn listed(&mut self, at: u64, changed: bool) {
        let first = &self.first;
        self.pinned.get_or_insert_with(|| (first.len() == 1).then_some(changed));
        self.last.get_or_insert((at, changed));
    }

    fn holds(&self, at: u64) -> Option<bool> {
        let ((since, changed), pinned) = (self.last?, self.pinned??);
        (at >= since + ARRIVED_MS).then_some(changed != pinned)
    }
}

/// Whether a list that was handed over was surely taken, and by a server that was there to stay.
fn arrived(run: &Run, server: usize, conn: u64, place: usize) -> bool {
    let at = run.trace[place].at;
    let soon = run.trace[place..].iter().take_while(|entry| entry.at <= at + ARRIVED_MS);
    let acted = |fact: &Fact| matches!(fact, Fact::Acted { server: s, .. } if *s == server);
    lived_on(run, server, conn, place) && !soon.into_iter().any(|entry| acted(&entry.fact))
}

/// What was asked while a tool was held never reached its server before the tool was free again.
fn never_runs(run: &Run, server: usize, seen: &Watched, findings: &mut Findings) {
    let stories = stories(run);
    for call in run.schedule.calls.iter().filter(|call| call.server == server && turns(run, call)) {
        let Some(story) = stories.get(&call.nonce) else { continue };
        for asked in &story.asked {
            let span = seen.held.iter().find(|(since, until)| (since..until).contains(&asked));
            let Some((since, until)) = span else { continue };
            let ran = story.got.iter().find(|(got, ..)| got < until);
            findings.check(ran.is_none(), Promise::V11, || {
                format!("call {} was asked at {asked}, its tool was held since {since}: {ran:?}", call.nonce)
            });
        }
    }
}

fn at_the_end(run: &Run, server: usize, seen: &Watched, findings: &mut Findings) {
    let end = &run.end;
    let plan = &run.schedule.servers[server];
    let held = end.held.get(&server).map_or(&[][..], Vec::as_slice);
    let tool = turning(plan).unwrap_or_default();
    findings.check(held.iter().all(|name| name == tool), Promise::V11, || {
        format!("{} holds {held:?}, and only {tool} ever changes", plan.name)
    });
    let listed = end.catalog.get(&server).is_some_and(|tools| tools.iter().any(|name| name == tool));
    if let Some(wanted) = seen.at_the_look.filter(|_| listed) {
        let is = held.iter().any(|name| name == tool);
        findings.check(is == wanted, Promise::V11, || {
            format!("{} should hold {tool}: {wanted}, it does: {is}, at {}", plan.name, end.looked_at)
        });
    }
}
