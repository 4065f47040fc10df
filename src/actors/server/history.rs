//! What happened to one server goes into the history of its view from here: events with their
//! wall time, texts redacted. An answered or refused call only counts up; it allocates nothing.

use std::sync::Arc;
use std::time::SystemTime;

use super::idle::Autostart;
use super::msg::Told;
use super::state::ServerState;
use crate::call::{BreakerClass, Delivery, Phase};
use crate::policy::lifecycle::{Event, Life};
use crate::time::{self, Monotonic};
use crate::transport::{Attempt, LinkFault, Side};
use crate::view::history::{Cause, Line, STDERR_LINES_MAX, StartWhy, What};

/// What kind of cause a fault is.
pub(super) fn cause_of(fault: &LinkFault) -> Cause {
    match fault {
        LinkFault::Config(_) => Cause::Config,
        LinkFault::NeedsAuth(_) => Cause::NeedsAuth,
        LinkFault::Exited { code, signal, .. } => Cause::Exited { code: *code, signal: *signal },
        LinkFault::Closed => Cause::Closed,
        LinkFault::Misfit { side: Side::Entry, .. } => Cause::Config,
        LinkFault::Misfit { side: Side::Way, .. } => Cause::Network,
        LinkFault::Protocol(_) | LinkFault::Misfit { side: Side::Server, .. } => Cause::Protocol,
        LinkFault::Network(text) if text.contains(" got HTTP ") => Cause::ServerStatus,
        LinkFault::Network(_) | LinkFault::Unreachable { .. } => Cause::Network,
        LinkFault::TimedOut(_) => Cause::TimedOut,
        LinkFault::TooLong(_) => Cause::TooLong,
        LinkFault::Throttled { .. } => Cause::Throttled,
    }
}

impl ServerState {
    /// Writes down what happened just now.
    pub(super) fn note(&mut self, what: What) {
        self.note_at(time::wall(), what);
    }

    fn note_at(&mut self, at: SystemTime, what: What) {
        let tally = std::mem::take(&mut self.view.tally);
        let history = Arc::make_mut(&mut self.view.history);
        history.take(tally, self.generation);
        history.note(at, self.generation, what);
    }

    /// A text as it may stand in the history.
    pub(super) fn line(&self, text: &str) -> Line {
        Line::new(&self.args.redactor.now(), text)
    }

    /// Feeds an event that may start the server, for that reason.
    pub(super) fn start_for(&mut self, why: StartWhy, event: Event) {
        self.starting = why;
        self.feed(event);
        self.starting = StartWhy::default();
    }

    /// Why the actor itself starts the server: what was written down before it began says so.
    pub(super) fn first_why(&self) -> StartWhy {
        let last = self.view.history.records().next_back().map(|record| &record.what);
        match (last, self.started) {
            (Some(What::EntryChanged), _) => StartWhy::Reload,
            (Some(What::ActorFailed(_)), _) => StartWhy::ActorRestart,
            (_, Autostart::ToLearn) => StartWhy::Learn,
            (_, Autostart::No | Autostart::ToUse) => StartWhy::Host,
        }
    }

    /// Why a call starts a server that rests.
    pub(super) fn use_why(&self) -> StartWhy {
        let stopped = self.view.history.records().any(|record| matches!(record.what, What::IdleStopped(_)));
        if stopped { StartWhy::IdleWake } else { StartWhy::FirstUse }
    }

    /// The process of an attempt, with the time when it came into being.
    pub(super) fn note_spawned(&mut self) {
        let spawned = self.attempt.as_ref().and_then(|(attempt, _)| Attempt::spawned(attempt));
        if let Some((at, pid)) = spawned.filter(|(_, pid)| self.noted_pid != Some(*pid)) {
            self.noted_pid = Some(pid);
            self.note_at(at, What::Spawned(pid));
        }
    }

    /// The state changed to one that the history tells of.
    pub(super) fn note_moved(&mut self, now: Monotonic) {
        match self.life {
            Life::BackingOff { until } => self.note(What::BackingOff(until.since(now))),
            Life::Parked(reason) => {
                let text = self.gave_up.take().map(|cause| self.line(&cause.to_string()));
                self.note(What::Parked { reason, text });
            }
            Life::Stopped => self.note(What::Stopped),
            Life::Dormant | Life::Connecting { .. } | Life::Ready { .. } | Life::Draining => {}
        }
    }

    /// An attempt failed.
    pub(super) fn note_start_failed(&mut self, fault: &LinkFault, stderr: &str) {
        self.note_spawned();
        let what = What::StartFailed { cause: cause_of(fault), text: self.line(&fault.to_string()) };
        self.note(what);
        self.note_stderr(fault, stderr);
    }

    /// A connection ended by itself, with what ran on it.
    pub(super) fn note_lost(&mut self, fault: &LinkFault, stderr: &str) {
        // A call that told of the loss is settled after it, and holds its place until then.
        let calls = self.calls_lost.max(self.bulkhead.in_flight());
        let what = What::Lost { cause: cause_of(fault), text: self.line(&fault.to_string()), calls };
        self.note(what);
        self.note_stderr(fault, stderr);
    }

    /// The last lines that came with a failure.
    fn note_stderr(&mut self, fault: &LinkFault, stderr: &str) {
        let text = match fault {
            LinkFault::Exited { stderr, .. } if !stderr.is_empty() => stderr.as_str(),
            _ => stderr,
        };
        let lines = self.clean_lines(text);
        let last = &lines[lines.len().saturating_sub(STDERR_LINES_MAX)..];
        if !last.is_empty() {
            let lines = last.iter().map(|line| self.line(line)).collect();
            self.note(What::Stderr(lines));
        }
    }

    /// A call ended without an answer. What was refused here only counts up.
    pub(super) fn note_failed(&mut self, told: &Told, class: BreakerClass) {
        if told.phase == Phase::Admission && told.delivery == Delivery::NotSent {
            self.view.tally.refused(time::wall());
            return;
        }
        let item = self.line(&told.item);
        let (code, delivery) = (told.code, told.delivery);
        self.note(What::CallFailed { item, code, delivery, class });
    }

    /// The breaker opened.
    pub(super) fn note_opened(&mut self) {
        let last = self.view.history.last_counted();
        let last = last.map(|record| record.what.to_string()).map(|text| self.line(&text));
        let spec = self.args.spec.breaker;
        self.note(What::BreakerOpened { failures: spec.failures, open_for: spec.open_for, last });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_fault_has_its_kind_of_cause() {
        let exited = LinkFault::Exited { code: Some(3), signal: None, stderr: String::new() };
        let unreachable = LinkFault::Unreachable { text: "t".into(), cure: "c", detail: String::new() };
        for (fault, cause) in [
            (LinkFault::Config("c".into()), Cause::Config),
            (LinkFault::NeedsAuth("a".into()), Cause::NeedsAuth),
            (exited, Cause::Exited { code: Some(3), signal: None }),
            (LinkFault::Closed, Cause::Closed),
            (LinkFault::Protocol("p".into()), Cause::Protocol),
            (LinkFault::Network("initialize got HTTP 503".into()), Cause::ServerStatus),
            (LinkFault::Network("reset".into()), Cause::Network),
            (unreachable, Cause::Network),
            (LinkFault::TimedOut("t".into()), Cause::TimedOut),
            (LinkFault::TooLong("l".into()), Cause::TooLong),
            (LinkFault::Throttled { after: Duration::from_secs(1) }, Cause::Throttled),
        ] {
            assert_eq!(cause_of(&fault), cause, "{fault:?}");
        }
    }
}
