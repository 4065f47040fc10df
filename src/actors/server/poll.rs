//! Keeping the lists of a connected server fresh: after `list_changed`, and by the poll for
//! servers that do not announce their changes. `policy::refresh` decides; nothing here wakes a
//! server that is not connected, because every timer ends with its connection.

use std::time::Duration;

use super::msg::Wake;
use super::state::ServerState;
use crate::catalog::items::{ListKind, ListKinds};
use crate::policy::refresh::poll_delay;
use crate::time::Monotonic;
use crate::transport::Connector;
use crate::transport::handshake::Established;
use crate::transport::link::Stale;

/// The timer of the poll.
const POLL: &str = "poll";

impl ServerState {
    /// The lists whose changes a server may be trusted to announce: it says so, and its pipe
    /// carries what it sends. Over HTTP the stream of announcements may be refused, or be away,
    /// without a sign: there only an announcement that arrived counts.
    pub(super) fn trusted_announcements(&self, established: &Established) -> ListKinds {
        match self.args.connector {
            Ok(Connector::Stdio(_) | Connector::Duplex(_)) => established.offers.announced,
            Ok(Connector::Http(_)) | Err(_) => ListKinds::default(),
        }
    }

    pub(super) fn notified(&mut self, stale: Stale) {
        self.announced = self.announced.and(stale.announced);
        for kind in stale.announced.kinds() {
            self.refresh_later(kind);
        }
        if stale.renewed {
            for kind in self.offered() {
                self.refresh_later(kind);
            }
        }
    }

    fn refresh_later(&mut self, kind: ListKind) {
        let at = self.refreshes.entry(kind).or_default().notified(Monotonic::now());
        self.wake_for(kind, at);
    }

    pub(super) fn wake_for(&mut self, kind: ListKind, at: Option<Monotonic>) {
        if let Some(at) = at {
            self.wake_at(kind.method(), at, Wake::Refresh(kind));
        }
    }

    /// The debounce is over.
    pub(super) fn refresh(&mut self, kind: ListKind) {
        self.drop_timer(kind.method());
        if self.refreshes.entry(kind).or_default().woke(Monotonic::now()) {
            self.read_list(kind);
        }
    }

    /// Sets the timer of the next poll, if there is anything to poll.
    pub(super) fn schedule_poll(&mut self, first: bool) {
        let Some(interval) = self.args.poll else { return };
        let random = first.then(|| self.jitter.next());
        self.wake_at(POLL, Monotonic::now() + poll_delay(interval, random), Wake::Poll);
    }

    /// The setting changed.
    pub(super) fn poll_every(&mut self, every: Option<Duration>) {
        self.args.poll = every;
        self.drop_timer(POLL);
        if self.live.is_some() && self.catalog.listed {
            self.schedule_poll(true);
        }
    }

    /// The turn of the poll: reads what nobody would announce.
    pub(super) fn poll(&mut self) {
        let now = Monotonic::now();
        let silent: Vec<ListKind> =
            self.offered().into_iter().filter(|kind| !self.announced.has(*kind)).collect();
        for kind in silent {
            if self.refreshes.entry(kind).or_default().polled(now) {
                self.read_list(kind);
            }
        }
        self.schedule_poll(false);
    }
}
