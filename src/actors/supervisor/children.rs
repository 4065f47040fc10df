//! The children of the supervisor: one record per configured name, with what it
//! takes to start its actor again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorId;
use tokio::sync::watch;

use super::actor::Planned;
use crate::actors::server::{ServerArgs, ServerRef};
use crate::catalog::pin::Book;
use crate::config::diff;
use crate::config::spec::Entry;
use crate::id::Generation;
use crate::time::{self, Monotonic};
use crate::transport::{Connector, LinkFault};
use crate::view::{LifeState, ParkReason, ServerView};

/// Restarts of one server's *actor* (after a panic, a bug of ours) allowed in [`ACTOR_WINDOW`].
pub(super) const ACTOR_RESTARTS_MAX: usize = 5;
/// The sliding window of that intensity.
pub(super) const ACTOR_WINDOW: Duration = Duration::from_secs(60);

/// One configured name.
#[derive(Debug)]
pub(super) struct Child {
    pub entry: Arc<Entry>,
    pub view: watch::Sender<ServerView>,
    /// What its actor is made of; `None` for an entry that can't run.
    pub args: Option<ServerArgs>,
    pub running: Option<(ActorId, ServerRef)>,
    /// The first generation that belongs to this entry; older ones were of the entry before it.
    pub first: Generation,
    failures: VecDeque<Monotonic>,
}

impl Child {
    pub(super) fn new(
        entry: Arc<Entry>,
        view: watch::Sender<ServerView>,
        args: Option<ServerArgs>,
        first: Generation,
    ) -> Self {
        Self { entry, view, args, running: None, first, failures: VecDeque::new() }
    }

    /// Whether a planned entry runs exactly as this one does: it must not notice then.
    pub(super) fn runs_as(&self, planned: &Planned) -> bool {
        let same_way = |args: &ServerArgs| {
            let connector = match (&args.connector, &planned.connector) {
                (Ok(ours), Ok(theirs)) => ours.is_same(theirs),
                (Err(ours), Err(theirs)) => ours == theirs,
                (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
            };
            connector && args.roots == planned.roots && args.declared == planned.declared
        };
        diff::same(&self.entry, &planned.entry) && self.args.as_ref().is_none_or(same_way)
    }

    /// Whether it and the planned entry both run as processes here: the second may need what the first holds.
    pub(super) fn has_process(&self, planned: &Planned) -> bool {
        let ours = self.args.as_ref().map(|args| &args.connector);
        let is_process =
            |connector: &Result<Connector, LinkFault>| matches!(connector, Ok(Connector::Stdio(..)));
        ours.is_some_and(is_process) && is_process(&planned.connector)
    }

    /// A changed poll is no reason to start anew.
    pub(super) fn poll_every(&mut self, every: Option<Duration>) {
        let Some(args) = self.args.as_mut().filter(|args| args.poll != every) else { return };
        args.poll = every;
        if let Some((_, server)) = &self.running {
            server.poll_every(every);
        }
    }

    /// Shows that it has no actor any more, and why.
    pub(super) fn park(&self, why: String) {
        self.view.send_modify(|view| {
            view.state = LifeState::Parked(ParkReason::GivenUp);
            view.since = time::wall();
            view.pid = None;
            view.guard_pid = None;
            (view.in_flight, view.queued) = (0, 0);
            view.why = Some(why);
        });
    }

    /// What the file of its pins says now.
    pub(super) fn take_pins(&self, book: Book) {
        if let (Some(args), Some((_, server))) = (&self.args, &self.running)
            && book != **args.pins.borrow()
        {
            server.pins(Arc::new(book));
        }
    }

    /// Counts a failure of its actor; says whether it may be started again.
    pub(super) fn may_restart(&mut self, now: Monotonic) -> bool {
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|at| now.since(*at) > ACTOR_WINDOW) {
            self.failures.pop_front();
        }
        self.failures.len() <= ACTOR_RESTARTS_MAX
    }
}
