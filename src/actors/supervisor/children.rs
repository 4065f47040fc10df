//! The children of the supervisor: one record per configured name, with what it
//! takes to start its actor again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorId;
use tokio::sync::watch;

use crate::actors::server::{ServerArgs, ServerRef};
use crate::config::spec::Entry;
use crate::time::Monotonic;
use crate::view::ServerView;

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
    failures: VecDeque<Monotonic>,
}

impl Child {
    pub(super) fn new(entry: Arc<Entry>, view: watch::Sender<ServerView>, args: Option<ServerArgs>) -> Self {
        Self { entry, view, args, running: None, failures: VecDeque::new() }
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
