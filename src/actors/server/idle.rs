//! Stopping a server that nobody uses. The clock of `idle_stop` runs while the server is ready,
//! its lists are known and no call runs or waits; what it offers stays listed, and the next call
//! starts it again. Polls are no use.

use std::time::Duration;

use super::msg::Wake;
use super::state::ServerState;
use crate::policy::lifecycle::{Event, Life};
use crate::time::Monotonic;
use crate::view::history::What;

/// How long a server stays that was started only to learn what it offers.
pub(super) const LEARNED_STAY: Duration = Duration::from_secs(10);

/// The timer of the idle clock.
const IDLE: &str = "idle";

/// Whether, and for what, a server starts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Autostart {
    /// It waits for its first use.
    No,
    /// To learn what it offers: a lazy server of which nothing is known.
    ToLearn,
    /// To be used.
    ToUse,
}

impl ServerState {
    /// Nobody wants the process of this server for longer than that without a call.
    fn idle_limit(&self) -> Option<Duration> {
        let learned = (self.started == Autostart::ToLearn).then_some(LEARNED_STAY);
        match (self.args.spec.idle_stop, learned) {
            (Some(limit), Some(stay)) => Some(limit.min(stay)),
            (limit, stay) => limit.or(stay),
        }
    }

    /// Follows whether the server is in use. Called at the end of every handler.
    pub(super) fn track_idle(&mut self) {
        if self.started == Autostart::ToLearn && !self.calls.is_empty() {
            self.started = Autostart::ToUse;
        }
        let Some(limit) = self.idle_limit() else { return };
        let known = matches!(self.life, Life::Ready { .. }) && self.catalog.listed;
        let quiet = known && self.calls.is_empty() && self.bulkhead.in_flight() == 0;
        match (quiet, self.idle_since) {
            (true, None) => {
                let now = Monotonic::now();
                self.idle_since = Some(now);
                // One timer at a time: it looks again when it runs out too early.
                if !self.has_timer(IDLE) {
                    self.wake_at(IDLE, now + limit, Wake::Idle);
                }
            }
            (false, Some(_)) => self.idle_since = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// The idle clock ran out, if nobody used the server meanwhile.
    pub(super) fn idle_passed(&mut self) {
        self.drop_timer(IDLE);
        let (Some(limit), Some(since)) = (self.idle_limit(), self.idle_since) else { return };
        if Monotonic::now() < since + limit {
            self.wake_at(IDLE, since + limit, Wake::Idle);
            return;
        }
        let time = humantime::format_duration(limit);
        self.view.why = Some(match self.started {
            Autostart::ToLearn => "started to learn what it offers; the first call starts it".to_owned(),
            Autostart::No | Autostart::ToUse => {
                format!("not called for {time} (idle_stop); the next call starts it")
            }
        });
        self.note(What::IdleStopped(limit));
        self.feed(Event::IdlePassed);
    }
}
