//! The seam between HTTP and the host's core: what this edge asks of it, and nothing more. The host
//! implements it; so does whoever wants to see the edge alone.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::serve::{Caller, Client, ClientEra, Globs, Host, Leave, Sink};
use crate::wire::era::Revision;

/// The host, as HTTP sees it.
pub trait Core: Debug + Send + Sync + 'static {
    /// Attaches a client: one for each legacy session, one for each modern request.
    fn open(&self, who: Caller, era: ClientEra) -> Arc<dyn Attached>;

    /// Names of required servers that are not ready; `/readyz` says yes when there is none.
    fn waiting_for(&self) -> Vec<String>;
}

/// A client, as HTTP sees it.
pub trait Attached: Debug + Send + Sync + 'static {
    /// Takes one message, on one line; returns at once. What belongs to it goes to `to`.
    fn accept(&self, frame: Bytes, to: &Sink);
    /// Where what belongs to no request goes.
    fn standing(&self, to: Sink);
    /// The revision that a header named.
    fn set_revision(&self, revision: Revision);
    /// The revision that is spoken, as soon as it is known.
    fn revision(&self) -> Option<Revision>;
    /// The raw `inputSchema` of the tool that this client knows by that name; waits a moment for
    /// servers that are on their way. `None`: there is no such tool, or it has none.
    fn schema<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Option<Bytes>>;
    /// It is gone: what runs for it is cancelled.
    fn leave(&self, why: Leave);
}

/// The host as [`Core`].
#[derive(Clone, Debug)]
pub struct Served {
    /// The host.
    pub host: Arc<Host>,
    /// The part that is served (`--only`); `None`: everything. A token can only narrow it.
    pub only: Option<Globs>,
}

#[derive(Debug)]
struct Seat(Arc<Client>);

impl Core for Served {
    fn open(&self, who: Caller, era: ClientEra) -> Arc<dyn Attached> {
        let only = match (&self.only, who.only) {
            (Some(ours), Some(theirs)) => Some(ours.and(theirs)),
            (ours, theirs) => theirs.or_else(|| ours.clone()),
        };
        Arc::new(Seat(self.host.open(Caller { only, ..who }, era)))
    }

    fn waiting_for(&self) -> Vec<String> {
        self.host.waiting_for()
    }
}

impl Attached for Seat {
    fn accept(&self, frame: Bytes, to: &Sink) {
        self.0.accept(frame, to);
    }

    fn standing(&self, to: Sink) {
        self.0.standing(to);
    }

    fn set_revision(&self, revision: Revision) {
        self.0.set_revision(revision);
    }

    fn revision(&self) -> Option<Revision> {
        self.0.revision()
    }

    fn schema<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        self.0.schema(tool).boxed()
    }

    fn leave(&self, why: Leave) {
        self.0.leave(why);
    }
}
