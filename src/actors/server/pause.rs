//! The pause that a server asked for: calls wait it out in the queue, or are refused with
//! the time that is left. The decisions are in `policy::pause`.

use std::time::Duration;

use super::call;
use super::msg::Wake;
use super::state::ServerState;
use crate::call::{CallError, ErrorCode, Origin};
use crate::policy::lifecycle::Life;
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
    }

    /// Lets waiting calls run, now or at the end of the pause.
    pub(super) fn admit_waiting(&mut self) {
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
        let id = &self.args.spec.id;
        let seconds = left.as_millis().div_ceil(1_000);
        let text = format!("{id} asked to be left alone; try again in {seconds} s; nothing was sent");
        let mut error = call::refuse(ErrorCode::RateLimited, id, text).after(left);
        error.origin = Origin::Server;
        error
    }
}
