//! The circuit breaker of one server, performed: who is let through, what the end of a call
//! means, the liveness check after an unanswered one, and calls that are sent again.
//! The decisions are `policy::breaker`'s and `policy::replay`'s.

use std::time::Duration;

use super::msg::{Again, End, ServerMsg, Told};
use super::state::ServerState;
use crate::actors::task;
use crate::call::{BreakerClass, CallError, ErrorCode, ItemKind, Origin, Phase};
use crate::config::spec::Trust;
use crate::id::Generation;
use crate::id::shell_word;
use crate::policy::access::methods;
use crate::policy::breaker::{Admit, Loss, Move, Pass, Refusal, Standing};
use crate::policy::classify::Ending;
use crate::policy::lifecycle::{Event, Life};
use crate::policy::replay::{self, Effect};
use crate::time::{self, Monotonic};
use crate::transport::liveness;
use crate::view::history::{StartWhy, What};
use crate::view::{BreakerState, BreakerView};

/// How long a server that left a call unanswered may take to show that it lives (spec section 4).
const LIVENESS_MAX: Duration = Duration::from_secs(5);
/// Unanswered calls that wait for one check; more say nothing.
const SUSPECTS_MAX: usize = 1_024;

impl ServerState {
    /// Asks the breaker about one call. On a dead transport the first one after the pause brings a fresh
    /// connection about, which is the probe.
    pub(super) fn ask_breaker(&mut self) -> Result<Pass, CallError> {
        let now = Monotonic::now();
        let connected = matches!(self.life, Life::Ready { .. });
        match self.breaker.admit(now, connected) {
            Admit::Pass(pass) => {
                if pass.is_probe() {
                    self.note(What::BreakerProbing);
                }
                Ok(pass)
            }
            Admit::Connect(pass) => {
                self.dirty = true;
                self.note(What::BreakerProbing);
                if matches!(self.life, Life::BackingOff { .. }) {
                    self.start_for(StartWhy::Probe, Event::BackoffPassed);
                }
                Ok(pass)
            }
            Admit::Refuse(refusal) => Err(self.breaker_refusal(refusal)),
        }
    }

    fn breaker_refusal(&self, refusal: Refusal) -> CallError {
        let id = &self.args.spec.id;
        let (text, wait) = match refusal {
            Refusal::Open(left) => {
                let secs = left.as_millis().div_ceil(1_000).max(1);
                let text = format!(
                    "{id} is not called for {secs} s more, because it failed {} times in a row (its circuit breaker is \
                     open); do not retry this tool yet",
                    self.args.spec.breaker.failures
                );
                (text, left)
            }
            Refusal::Probing => {
                let text = format!(
                    "{id} is being probed after failures in a row (its circuit breaker is half-open); do not retry this \
                     tool yet"
                );
                (text, Duration::from_secs(1))
            }
        };
        CallError::refused(ErrorCode::BreakerOpen, Phase::Admission, Origin::Server, text)
            .on(id)
            .after(wait)
            .fix(format!("callboard mcp why {}", shell_word(id.as_str())))
    }

    /// Does what a move of the breaker asks for.
    pub(super) fn breaker_moved(&mut self, moved: Move) {
        self.dirty |= moved != Move::Stayed;
        let ready = matches!(self.life, Life::Ready { .. });
        match moved {
            Move::Stayed => {}
            Move::Opened => {
                self.note_opened();
                let now = Monotonic::now();
                let error = match self.breaker.standing(now) {
                    Standing::Open(until) => self.breaker_refusal(Refusal::Open(until - now)),
                    Standing::HalfOpen | Standing::Closed(_) => self.breaker_refusal(Refusal::Probing),
                };
                for waiter in self.bulkhead.drain_waiting() {
                    let _ = waiter.turn.send(Err(error.clone()));
                }
                tracing::info!(server = %self.args.spec.id, "circuit breaker opened");
            }
            Move::Closed => {
                self.note(What::BreakerClosed);
                tracing::info!(server = %self.args.spec.id, "circuit breaker closed");
            }
        }
        // A connection that was the probe kept the waiting calls back; now it is decided.
        if moved != Move::Stayed && ready {
            self.admit_waiting();
        }
    }

    /// A pass comes back.
    pub(super) fn give_back(&mut self, pass: Pass, class: BreakerClass, loss: Loss) {
        let moved = self.breaker.settle(pass, class, loss, Monotonic::now());
        self.breaker_moved(moved);
    }

    /// Books how a call ended.
    pub(super) fn book(&mut self, pass: Pass, end: End) {
        match end {
            End::Answered(class) => {
                self.law.completed();
                self.replays.answered();
                self.view.calls_ok += 1;
                self.view.tally.answered(time::wall());
                self.give_back(pass, class, Loss::None);
            }
            End::Failed(class, told) => {
                self.view.calls_failed += 1;
                if let Some(told) = told {
                    self.note_failed(&told, class);
                }
                self.give_back(pass, class, Loss::None);
            }
            End::Unanswered { generation, heard, told } => {
                self.view.calls_failed += 1;
                self.note_failed(&told, BreakerClass::Neutral);
                self.unanswered(pass, generation, heard);
            }
            End::Undecided(again) => self.decide(pass, *again),
        }
    }

    /// A call got no answer within its limit. A sign of life since it went out settles it; else the server
    /// is asked for one, once for all calls that wait for the verdict.
    fn unanswered(&mut self, pass: Pass, generation: Generation, heard: u64) {
        let live = self.live.as_ref().filter(|_| self.is_current(generation));
        let Some(live) = live else {
            return self.give_back(pass, Ending::ConnectionLost.class(false), Loss::Connection(generation));
        };
        if live.link.heard() != heard || self.suspects.len() >= SUSPECTS_MAX {
            return self.give_back(pass, Ending::Slow.class(false), Loss::None);
        }
        self.suspects.push(pass);
        if self.liveness.is_some() {
            return;
        }
        let (link, established) = (live.link.clone(), live.established.clone());
        let check = async move {
            ServerMsg::Checked(generation, liveness::check(&link, &established, LIVENESS_MAX).await)
        };
        // Without a verdict the call says nothing.
        self.liveness = Some(task::spawn(&self.me, check, move |_| ServerMsg::Checked(generation, true)));
    }

    /// The verdict about the unanswered calls.
    pub(super) fn checked(&mut self, lives: bool) {
        self.liveness = None;
        let ending = if lives { Ending::Slow } else { Ending::Silent };
        self.note(What::Checked { lives, calls: self.suspects.len() });
        for pass in std::mem::take(&mut self.suspects) {
            self.give_back(pass, ending.class(false), Loss::None);
        }
    }

    /// The connection ended before the verdict.
    pub(super) fn suspects_lost(&mut self) {
        self.liveness = None;
        for pass in std::mem::take(&mut self.suspects) {
            self.give_back(pass, Ending::ConnectionLost.class(false), Loss::Connection(self.generation));
        }
    }

    /// A failed call whose caller still waits: sent again, or answered.
    fn decide(&mut self, pass: Pass, again: Again) {
        let Again { mut submission, mut budget, error, loss } = again;
        let told = Told::of(submission.request.name(), &error);
        if loss == Loss::Connection(self.generation) && self.live.is_some() {
            self.calls_lost += 1;
        }
        self.note_failed(&told, error.class);
        self.give_back(pass, error.class, loss);
        if let (ErrorCode::RateLimited, Some(wait)) = (error.code, error.retry_after) {
            self.throttled(wait);
        }
        let now = Monotonic::now();
        let (kind, name) = (submission.request.kind(), submission.request.name());
        let effect = Effect::of(kind, self.is_repeatable(kind, name));
        let wanted = submission.repeats < replay::repeats_max(effect, &error)
            && !submission.reply.is_closed()
            && budget.fired(now).is_none();
        if !wanted || !self.replays.take() {
            self.view.calls_failed += 1;
            let error = submission.told(error);
            let _ = submission.reply.send(Err(error));
            return;
        }
        // The end of the link may still be on its way to us: the call must not run into it again.
        if let Some(fault) = self.live.as_ref().and_then(|live| live.link.fault()) {
            self.lost(fault);
        }
        submission.repeats += 1;
        budget.waits_again();
        tracing::debug!(server = %self.args.spec.id, call = submission.request.id.0, "call is sent again");
        submission.failed = Some(submission.told(error));
        self.admit(submission, budget);
    }

    /// Whether a second run of this tool changes nothing more: its hints say so, and the server is believed.
    fn is_repeatable(&self, kind: ItemKind, name: &str) -> bool {
        if kind == ItemKind::Method {
            return methods::is_repeatable(name);
        }
        if kind != ItemKind::Tool || self.args.spec.trust != Trust::Trusted {
            return false;
        }
        let hints = self.catalog.tools.items.iter().find(|item| item.name == name).map(|item| item.hints);
        hints.is_some_and(|hints| hints.read_only == Some(true) || hints.idempotent == Some(true))
    }

    /// The breaker as views show it.
    pub(super) fn breaker_view(&self) -> BreakerView {
        let now = Monotonic::now();
        match self.breaker.standing(now) {
            Standing::Closed(failures) => BreakerView { state: BreakerState::Closed, failures, until: None },
            Standing::Open(until) => BreakerView {
                state: BreakerState::Open,
                failures: self.args.spec.breaker.failures,
                until: Some(time::wall() + until.since(now)),
            },
            Standing::HalfOpen => BreakerView {
                state: BreakerState::HalfOpen,
                failures: self.args.spec.breaker.failures,
                until: None,
            },
        }
    }
}
