//! Calls on one server: who runs, who waits, who is refused. Checks, decides, spawns
//! the call task; never waits itself.

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::call::{self, Go, Leave, Turn};
use super::msg::{End, ServerMsg, Settled, Submission};
use super::pins::tool_of;
use super::state::{Holding, ServerState, Waiter};
use crate::actors::task;
use crate::call::{BreakerClass, CallError, ErrorCode};
use crate::policy::breaker::{Loss, Pass};
use crate::policy::budget::Budget;
use crate::policy::bulkhead::Admission;
use crate::policy::lifecycle::{Event, ForCall, Life};
use crate::policy::pause::Verdict;
use crate::time::{self, Monotonic};
use crate::view::ParkReason;
use crate::view::history::StartWhy;

impl ServerState {
    pub(super) fn take_call(&mut self, submission: Box<Submission>) {
        if submission.reply.is_closed() {
            return;
        }
        let (timeouts, limits) = (self.args.spec.timeouts, submission.request.limits);
        let budget = Budget::new(
            submission.admitted,
            limits.idle.unwrap_or(timeouts.idle),
            limits.total.unwrap_or(timeouts.total),
        );
        self.admit(submission, budget);
    }

    /// Decides about one call: it runs, waits, or is refused.
    pub(super) fn admit(&mut self, submission: Box<Submission>, budget: Budget) {
        if let Some(error) = self.held_error(&submission.request) {
            return self.answer(submission, error);
        }
        let error = match self.may_run(&budget) {
            Ok((pass, Verdict::Wait)) => return self.queue(submission, budget, pass, None),
            Ok((pass, _)) => return self.run_or_queue(submission, budget, pass),
            Err(error) => error,
        };
        self.answer(submission, error);
    }

    /// Life, pause, breaker and rate, in this order: a pass, or the refusal.
    fn may_run(&mut self, budget: &Budget) -> Result<(Pass, Verdict), CallError> {
        let turn = self.life.for_call();
        match turn {
            ForCall::Refuse(Some(ParkReason::GivenUp)) | ForCall::Run | ForCall::Start | ForCall::Wait => {}
            ForCall::Refuse(reason) => return Err(self.refusal(reason)),
        }
        let pause = self.pause.verdict(Monotonic::now(), budget.end());
        if let Verdict::Refuse(left) = pause {
            return Err(self.too_early(left));
        }
        let pass = self.ask_breaker()?;
        if let Err(error) = self.begin_for_call(turn) {
            self.give_back(pass, BreakerClass::Neutral, Loss::None);
            let moved = self.breaker.connect_failed(BreakerClass::Neutral, Monotonic::now());
            self.breaker_moved(moved);
            return Err(error);
        }
        Ok((pass, pause))
    }

    /// The rate, and the start of a server that rests.
    fn begin_for_call(&mut self, turn: ForCall) -> Result<(), CallError> {
        if let Some(rate) = &self.rate
            && let Err(wait) = rate.take()
        {
            let id = &self.args.spec.id;
            let text = format!("{id} is over its rate limit; try again in {} ms", wait.as_millis().max(1));
            return Err(call::refuse(ErrorCode::RateLimited, id, text).after(wait));
        }
        match turn {
            ForCall::Run | ForCall::Wait => {}
            ForCall::Start => self.start_for(self.use_why(), Event::Wanted),
            ForCall::Refuse(reason) => {
                if self.law.demanded(Monotonic::now()).is_err() {
                    return Err(self.refusal(reason));
                }
                self.start_for(StartWhy::Demand, Event::RestartAsked);
            }
        }
        Ok(())
    }

    fn answer(&mut self, mut submission: Box<Submission>, error: CallError) {
        self.view.calls_failed += 1;
        self.view.tally.refused(time::wall());
        let error = error.about(submission.request.name());
        let error = submission.told(error);
        let _ = submission.reply.send(Err(error));
    }

    fn run_or_queue(&mut self, submission: Box<Submission>, budget: Budget, pass: Pass) {
        let Some(go) = self.go(pass).filter(|_| !self.is_unjudged()) else {
            return self.queue(submission, budget, pass, None);
        };
        if self.bulkhead.enter() {
            self.spawn_call(submission, budget, Turn::Now(go), pass);
        } else {
            self.queue(submission, budget, pass, Some(self.args.spec.timeouts.permit));
        }
    }

    fn go(&self, pass: Pass) -> Option<Go> {
        let live = self.live.as_ref()?;
        Some(Go {
            link: live.link.clone(),
            generation: self.generation,
            meta: live.meta.clone(),
            mirrored: self.mirrored.clone(),
            legacy: live.legacy.clone(),
            is_beside: false,
            is_probe: pass.is_probe(),
        })
    }

    fn queue(
        &mut self,
        submission: Box<Submission>,
        budget: Budget,
        pass: Pass,
        wait_max: Option<std::time::Duration>,
    ) {
        self.bulkhead.forget(|waiter| waiter.turn.is_closed());
        let (turn, rx) = oneshot::channel();
        let later = Turn::Later { turn: rx, wait_max };
        match self.bulkhead.admit(Waiter {
            call: submission.request.id,
            tool: tool_of(&submission.request),
            pass,
            turn,
            end: budget.end(),
        }) {
            Admission::Queued => self.spawn_call(submission, budget, later, pass),
            Admission::Run(waiter) => {
                self.spawn_call(submission, budget, later, pass);
                self.grant(vec![waiter]);
            }
            Admission::Full(_) => {
                self.give_back(pass, BreakerClass::Neutral, Loss::None);
                let (id, max) = (&self.args.spec.id, self.args.spec.limits.queue);
                let text = match max {
                    0 => format!(
                        "{id} is busy or not ready, and no call may wait for it (limits.queue); try again later"
                    ),
                    _ => format!("{id} has {max} calls waiting already (limits.queue); try again later"),
                };
                let error = call::refuse(ErrorCode::Busy, id, text).after(std::time::Duration::from_secs(1));
                self.answer(submission, error);
            }
        }
    }

    fn spawn_call(&mut self, submission: Box<Submission>, budget: Budget, turn: Turn, pass: Pass) {
        let id = submission.request.id;
        let has_place = matches!(turn, Turn::Now(_));
        let work = call::run(submission, turn, budget, self.shared.clone()).map(ServerMsg::Settled);
        let handle = task::spawn(&self.me, work, move |_| {
            let end = End::Failed(BreakerClass::Neutral, None);
            ServerMsg::Settled(Settled { call: id, end, held: None })
        });
        self.calls.insert(id, Holding { pass, has_place, _task: handle });
    }

    /// A call ended: its place is free.
    pub(super) fn settle(&mut self, settled: Settled) {
        let Some(held) = self.calls.remove(&settled.call) else { return };
        // The breaker has its say before the place is given to the next.
        self.book(held.pass, settled.end);
        if let Some(answer) = settled.held {
            answer.send();
        }
        if held.has_place {
            let next = self.bulkhead.settle();
            self.grant(next.into_iter().collect());
        } else {
            self.bulkhead.forget(|waiter| waiter.call == settled.call);
        }
        self.notice_oddities();
        if self.restart_due && self.bulkhead.in_flight() == 0 {
            self.restart_for_files();
        }
        if self.life == Life::Draining && self.bulkhead.in_flight() == 0 {
            self.feed(Event::Drained);
        }
    }

    /// Lets these run, in order; the place of one who left meanwhile goes to the next.
    pub(super) fn grant(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            let mut next = Some(waiter);
            while let Some(waiter) = next {
                let pass = self.breaker.renew(waiter.pass);
                let granted = match self.go(pass) {
                    Some(go) => waiter.turn.send(Ok(Leave::Run(go))).is_ok(),
                    None => false,
                };
                next = match self.calls.get_mut(&waiter.call).filter(|_| granted) {
                    Some(held) => {
                        (held.pass, held.has_place) = (pass, true);
                        None
                    }
                    None => self.bulkhead.declined(),
                };
            }
        }
    }

    pub(super) fn refuse_waiting(&mut self) {
        let reason = match self.life {
            Life::Parked(reason) => Some(reason),
            _ => None,
        };
        let error = self.refusal(reason);
        for waiter in self.bulkhead.drain_waiting() {
            let _ = waiter.turn.send(Err(error.clone()));
        }
    }

    /// Why this server takes no call now, and what to do about it.
    fn refusal(&self, reason: Option<ParkReason>) -> CallError {
        let id = &self.args.spec.id;
        let why = self.view.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let (code, text) = match reason {
            None => (ErrorCode::Draining, format!("{id} is being stopped; nothing was sent")),
            Some(ParkReason::Disabled) => (ErrorCode::Disabled, format!("{id} is turned off")),
            Some(ParkReason::PendingApproval) => {
                (ErrorCode::PendingApproval, format!("{id} waits for approval"))
            }
            Some(ParkReason::ConfigError) => (ErrorCode::ConfigError, format!("{id} can't be started{why}")),
            Some(ParkReason::NeedsAuth) => (ErrorCode::NeedsAuth, format!("{id} wants credentials{why}")),
            Some(ParkReason::GivenUp) => (ErrorCode::GivenUp, format!("{id}{why}")),
        };
        let error = call::refuse(code, id, text);
        match &self.view.fix {
            Some(fix) => error.fix(fix.clone()),
            None => error,
        }
    }
}
