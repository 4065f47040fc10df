//! What the edges that serve clients need besides calls: the revision that a server speaks, and a limit
//! per client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};

use super::{Runtime, is_settled};
use crate::actors::approvals::Gate;
use crate::actors::directory::Directory;
use crate::actors::server::limit::RateLimit;
use crate::call::Notice;
use crate::catalog::merge::Catalog;
use crate::config::spec::{Rate, ToolFilter};
use crate::id::{Generation, ServerId};
use crate::transport::tap::Tap;
use crate::view::{LifeState, ServerView};
use crate::wire::era::Revision;

/// Which connections stand: a snapshot that is always the newest.
#[derive(Clone, Debug)]
pub struct Connections(watch::Receiver<Arc<Directory>>);

impl Connections {
    /// The connection that stands with a server; `None` while there is none.
    pub fn of(&self, server: &ServerId) -> Option<Generation> {
        let directory = self.0.borrow();
        let view = directory.entries.get(server)?.view.borrow();
        (view.state == LifeState::Ready).then_some(view.generation)
    }

    /// What `tell` has to say of the views of these servers; `None`: of all.
    pub fn views<T>(
        &self,
        which: Option<&BTreeSet<ServerId>>,
        tell: impl Fn(&ServerView) -> Option<T>,
    ) -> Vec<T> {
        let directory = self.0.borrow();
        let wanted = |id: &&ServerId| which.is_none_or(|which| which.contains(*id));
        let entries = directory.entries.iter().filter(|(id, _)| wanted(id));
        entries.filter_map(|(_, entry)| tell(&entry.view.borrow())).collect()
    }

    /// Whether nothing more is to be expected of these servers for now; `None`: of all.
    pub fn are_settled(&self, which: Option<&BTreeSet<ServerId>>) -> bool {
        let settled = self.views(which, |view| is_settled(view).then_some(())).len();
        let directory = self.0.borrow();
        settled == which.map_or(directory.entries.len(), BTreeSet::len)
    }

    /// The listing filter of a server that acts for whoever calls; `None` for one that acts as one person.
    pub fn filter_for_others(&self, server: &ServerId) -> Option<ToolFilter> {
        let directory = self.0.borrow();
        let spec = directory.entries.get(server)?.spec.as_ref()?;
        (!spec.is_personal).then(|| spec.filter.clone())
    }
}

impl Runtime {
    /// Where one may listen to what passes between host and server.
    pub fn tap(&self, server: &ServerId) -> Option<Tap> {
        self.directory.borrow().entries.get(server).and_then(|entry| entry.tap.clone())
    }

    /// The merged catalogue, to follow.
    pub fn catalog_watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.clone()
    }

    /// What servers say from now on to nobody in particular. Who falls behind by more than
    /// [`NOTICES_MAX`](crate::call::NOTICES_MAX) loses the oldest, and is told how many.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// What the policy goes by, as it changes.
    pub fn gate_watch(&self) -> watch::Receiver<Arc<Gate>> {
        self.gate.clone()
    }

    /// The directory as it changes.
    pub fn directory_watch(&self) -> watch::Receiver<Arc<Directory>> {
        self.directory.clone()
    }

    /// Which connections stand, now and later.
    pub fn connections(&self) -> Connections {
        Connections(self.directory.clone())
    }

    /// The revision that a server speaks, as soon as one was agreed upon.
    pub fn revision_of(&self, server: &ServerId) -> Option<Revision> {
        let directory = self.directory.borrow();
        Revision::parse(directory.entries.get(server)?.view.borrow().revision?)
    }
}

/// A limit in requests per second, on the clock of the house.
#[derive(Debug)]
pub struct Throttle(RateLimit);

impl Throttle {
    /// A limit with a burst.
    pub fn new(rate: Rate) -> Self {
        Self(RateLimit::new(rate))
    }

    /// Takes one request, or says how long to wait for the next.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take(&self) -> Result<(), Duration> {
        self.0.take()
    }
}
