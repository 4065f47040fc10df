//! What the edges that serve clients need besides calls: the revision that a server speaks, and a limit
//! per client.

use std::time::Duration;

use super::Runtime;
use crate::actors::server::limit::RateLimit;
use crate::config::spec::Rate;
use crate::id::ServerId;
use crate::wire::era::Revision;

impl Runtime {
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
