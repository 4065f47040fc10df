//! The pause that a server asked for: calls wait it out in the queue, or are refused with
//! the time that is left. The decisions are in `policy::pause`.

use std::time::Duration;

use tokio::sync::oneshot;

use super::call::{self, Leave};
use super::msg::Wake;
use super::state::ServerState;
use crate::call::{CallError, ErrorCode, Origin};
use crate::id::ServerId;
use crate::policy::lifecycle::Life;
use crate::policy::pause::Verdict;
use crate::time::{self, Monotonic};
use crate::view::history::What;

impl ServerState {
    /// The server asks to be left alone for this long.
    pub(super) fn throttled(&mut self, wait: Duration) {
        let now = Monotonic::now();
        let end = self.pause.asked(now, wait);
        self.view.paused_until = Some(time::wall() + end.since(now));
        self.note(What::Paused(end.since(now)));
        self.dirty = true;
        self.bulkhead.close();
        self.wake_at("pause", end, Wake::Pause);
        self.tell_waiting(now);
    }

    /// Calls that waited for a place wait for the end of the pause now, or are refused, as those are
    /// that come later.
    fn tell_waiting(&mut self, now: Monotonic) {
        let mut refused = 0;
        for waiter in self.bulkhead.waiting_mut() {
            // A port whose other end is dropped here takes no more: its waiter is forgotten below.
            let (port, turn) = oneshot::channel();
            let before = std::mem::replace(&mut waiter.turn, port);
            let word = match self.pause.verdict(now, waiter.end) {
                Verdict::Refuse(left) => {
                    refused += 1;
                    Err(too_early(&self.args.spec.id, left))
                }
                Verdict::Wait | Verdict::Go => Ok(Leave::Wait(turn)),
            };
            let _ = before.send(word);
        }
        if refused > 0 {
            self.bulkhead.forget(|waiter| waiter.turn.is_closed());
        }
    }

    /// Lets waiting calls run, now or at the end of the pause.
    pub(super) fn admit_waiting(&mut self) {
        // What may have changed is looked at first.
        if self.is_unjudged() {
            return;
        }
        if let Some(end) = self.pause.end(Monotonic::now()) {
            self.wake_at("pause", end, Wake::Pause);
            return;
        }
        let first = self.bulkhead.open();
        self.grant(first);
    }

    /// The pause may be over. A server that is not ready opens its queue when it is.
    pub(super) fn pause_passed(&mut self) {
        if matches!(self.life, Life::Ready { .. }) {
            self.admit_waiting();
        }
    }

    /// The refusal of a call whose deadline comes before the end of the pause.
    pub(super) fn too_early(&self, left: Duration) -> CallError {
        too_early(&self.args.spec.id, left)
    }
}

fn too_early(id: &ServerId, left: Duration) -> CallError {
    let seconds = left.as_millis().div_ceil(1_000);
    let text = format!("{id} asked to be left alone; try again in {seconds} s; nothing was sent");
    let mut error = call::refuse(ErrorCode::RateLimited, id, text).after(left);
    error.origin = Origin::Server;
    error
}
