//! Calls on one server: who runs, who waits, who is refused. Checks, decides, spawns
//! the call task; never waits itself.

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::call::{self, Go, Turn};
use super::msg::{ServerMsg, Settled, Submission};
use super::state::{ServerState, Waiter};
use crate::actors::task;
use crate::call::{BreakerClass, CallError, ErrorCode};
use crate::policy::budget::Budget;
use crate::policy::bulkhead::Admission;
use crate::policy::lifecycle::{Event, ForCall, Life};
use crate::time::Monotonic;
use crate::view::ParkReason;

impl ServerState {
    pub(super) fn take_call(&mut self, submission: Box<Submission>) {
        if submission.reply.is_closed() {
            return;
        }
        if let Some(rate) = &self.rate
            && let Err(wait) = rate.take()
        {
            let id = &self.args.spec.id;
            let text = format!("{id} is over its rate limit; try again in {} ms", wait.as_millis().max(1));
            self.answer(submission, call::refuse(ErrorCode::RateLimited, id, text).after(wait));
            return;
        }
        match self.life.for_call() {
            ForCall::Run => self.run_or_queue(submission),
            ForCall::Start => {
                self.feed(Event::Wanted);
                self.queue(submission, None);
            }
            ForCall::Wait => self.queue(submission, None),
            ForCall::Refuse(Some(ParkReason::GivenUp)) if self.law.demanded(Monotonic::now()).is_ok() => {
                self.feed(Event::RestartAsked);
                self.queue(submission, None);
            }
            ForCall::Refuse(reason) => {
                let error = self.refusal(reason);
                self.answer(submission, error);
            }
        }
    }

    fn answer(&mut self, submission: Box<Submission>, error: CallError) {
        self.view.calls_failed += 1;
        let error = error.about(&submission.name);
        let _ = submission.reply.send(Err(error));
    }

    fn run_or_queue(&mut self, submission: Box<Submission>) {
        let Some(go) = self.go() else { return self.queue(submission, None) };
        if self.bulkhead.enter() {
            self.spawn_call(submission, Turn::Now(go));
        } else {
            self.queue(submission, Some(self.args.spec.timeouts.permit));
        }
    }

    fn go(&self) -> Option<Go> {
        let live = self.live.as_ref()?;
        Some(Go {
            link: live.link.clone(),
            generation: self.generation,
            meta: live.meta.clone(),
            mirrored: self.mirrored.clone(),
        })
    }

    fn queue(&mut self, submission: Box<Submission>, wait_max: Option<std::time::Duration>) {
        self.bulkhead.forget(|waiter| waiter.turn.is_closed());
        let (turn, rx) = oneshot::channel();
        match self.bulkhead.admit(Waiter { call: submission.request.id, turn }) {
            Admission::Queued => self.spawn_call(submission, Turn::Later { turn: rx, wait_max }),
            Admission::Run(waiter) => {
                self.spawn_call(submission, Turn::Later { turn: rx, wait_max });
                self.grant(vec![waiter]);
            }
            Admission::Full(_) => {
                let (id, max) = (&self.args.spec.id, self.args.spec.limits.queue);
                let text = format!("{id} has {max} calls waiting already (limits.queue); try again later");
                let error = call::refuse(ErrorCode::Busy, id, text).after(std::time::Duration::from_secs(1));
                self.answer(submission, error);
            }
        }
    }

    fn spawn_call(&mut self, submission: Box<Submission>, turn: Turn) {
        let timeouts = self.args.spec.timeouts;
        let limits = submission.request.limits;
        let budget = Budget::new(
            submission.admitted,
            limits.idle.unwrap_or(timeouts.idle),
            limits.total.unwrap_or(timeouts.total),
        );
        let id = submission.request.id;
        let ran = matches!(turn, Turn::Now(_));
        let shared = self.shared.clone();
        let me: ActorRef<ServerMsg> = self.me.clone();
        let work = async move { ServerMsg::Settled(call::run(submission, turn, budget, shared).await) };
        let handle = task::spawn(&me, work, move |_| {
            ServerMsg::Settled(Settled { call: id, ran, class: BreakerClass::Neutral, answered: false })
        });
        self.calls.insert(id, handle);
    }

    /// A call ended: its place is free.
    pub(super) fn settle(&mut self, settled: &Settled) {
        self.calls.remove(&settled.call);
        let next = if settled.ran {
            self.bulkhead.settle()
        } else {
            self.bulkhead.forget(|waiter| waiter.call == settled.call);
            None
        };
        if settled.answered {
            self.law.completed();
            self.view.calls_ok += 1;
        } else {
            self.view.calls_failed += 1;
        }
        self.notice_oddities();
        if self.life == Life::Draining && self.bulkhead.in_flight() == 0 {
            self.feed(Event::Drained);
        }
        self.grant(next.into_iter().collect());
    }

    /// Lets these run, in order; the place of one who left meanwhile goes to the next.
    pub(super) fn grant(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            let mut next = Some(waiter);
            while let Some(waiter) = next {
                let granted = match self.go() {
                    Some(go) => waiter.turn.send(Ok(go)).is_ok(),
                    None => false,
                };
                next = if granted { None } else { self.bulkhead.declined() };
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
