//! One client: a connection (stdio, socket) or a legacy HTTP session, or one modern HTTP request.
//! Its state lives here: revision, capabilities, log level, subscriptions, what runs for it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::caller::{Caller, ClientEra};
use super::host::Host;
use super::sink::Sink;
use crate::id::SessionId;
use crate::wire::era::Revision;

/// Why a client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It ended its connection or session.
    Gone,
    /// It did not read what was written to it.
    Slow,
    /// Its session expired, or was ended to make room.
    Expired,
    /// The host shuts down.
    Shutdown,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    host: Arc<Host>,
    session: SessionId,
    who: Caller,
    era: ClientEra,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    revision: Option<Revision>,
    initialized: bool,
    standing: Option<Sink>,
}

impl Client {
    pub(super) fn new(host: Arc<Host>, who: Caller, era: ClientEra) -> Arc<Self> {
        let session = SessionId::fresh();
        Arc::new(Self { host, session, who, era, state: Mutex::default() })
    }

    /// Its session: unique within this process.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Who it is.
    pub fn who(&self) -> &Caller {
        &self.who
    }

    /// Takes one message of the client. Returns at once: what takes time runs in tasks; answers, and
    /// what belongs to this request, go to `to`.
    pub fn accept(self: &Arc<Self>, frame: Bytes, to: &Sink) {
        let _ = (frame, to, self.era);
    }

    /// Where what belongs to no request goes: on stdio the same pipe, on HTTP the GET stream.
    pub fn standing(self: &Arc<Self>, to: Sink) {
        self.state().standing = Some(to);
    }

    /// Sets what an edge knows from a header.
    pub fn set_revision(&self, revision: Revision) {
        self.state().revision = Some(revision);
    }

    /// The revision that is spoken, as soon as it is known.
    pub fn revision(&self) -> Option<Revision> {
        self.state().revision
    }

    /// Whether a legacy client has finished its handshake.
    pub fn is_initialized(&self) -> bool {
        self.state().initialized
    }

    /// How many requests of it run.
    pub fn running(&self) -> usize {
        0
    }

    /// The client is gone: cancels what runs, of which servers are told, and forgets the rest.
    pub fn leave(self: &Arc<Self>, why: Leave) {
        tracing::debug!(session = self.session.0, ?why, "a client left");
        self.host.forget(self.session);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
