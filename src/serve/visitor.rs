//! One who uses the servers of a host without being its client: a command of the same user. It has a
//! session of its own, and what policy asks about its calls is asked of whoever sits at its terminal. Ends
//! with the command, or with the host.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot, watch};

use super::host::{Host, locked};
use crate::id::SessionId;
use crate::policy::approve::{Answer, Prompt};

/// Requests of one command that wait for its user; it has one call.
const ASKED_MAX: usize = 4;

/// A request for approval, and where its answer goes. Dropped, the answer is no.
#[derive(Debug)]
pub struct Request {
    /// What is asked about.
    pub prompt: Prompt,
    /// Takes the answer; closed when none is wanted any more.
    pub answer: oneshot::Sender<Answer>,
}

/// Where what is asked about a visitor's calls goes; `None` when nobody can be asked.
pub(super) type Way = Option<mpsc::Sender<Request>>;

/// A command that uses the host's servers.
#[derive(Debug)]
pub struct Visitor {
    host: Arc<Host>,
    session: SessionId,
    asked: Mutex<mpsc::Receiver<Request>>,
    over: watch::Receiver<()>,
}

/// What the host keeps of one.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) way: Way,
    /// Dropped when the host ends.
    _over: watch::Sender<()>,
}

impl Host {
    /// Lets a command in; `can_ask`: somebody sits at its terminal.
    pub fn visit(self: &Arc<Self>, can_ask: bool) -> Visitor {
        let session = SessionId::fresh();
        let (way, asked) = mpsc::channel(ASKED_MAX);
        let (kept, over) = watch::channel(());
        let visit = Visit { way: can_ask.then_some(way), _over: kept };
        locked(&self.visits).insert(session, visit);
        Visitor { host: self.clone(), session, asked: Mutex::new(asked), over }
    }
}

impl Visitor {
    /// Whose servers it uses.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Its session: unique within this process.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The next request for approval; never comes when nobody can be asked.
    pub async fn asked(&self) -> Request {
        match self.asked.lock().await.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// Resolves when the host ends.
    pub async fn over(&self) {
        // Nothing is ever sent: it is dropped.
        let _ = self.over.clone().changed().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let visit = locked(&self.host.visits).remove(&self.session);
        drop(visit);
        self.host.end_visit(self.session);
    }
}

/// What a visitor's user says; whatever is no clear yes is a no.
pub(super) async fn ask(way: mpsc::Sender<Request>, prompt: Prompt) -> Answer {
    let (answer, said) = oneshot::channel();
    if way.try_send(Request { prompt, answer }).is_err() {
        return Answer::Deny;
    }
    said.await.unwrap_or(Answer::Deny)
}
