//! The seam to the desk of approvals: what the edges use.

use tokio::sync::mpsc;

use super::actor::ApprovalsMsg;
use super::gate::Gate;
use crate::actors::root::Seat;
use crate::id::{ListenerId, SessionId};
use crate::policy::approve::{Answer, Notice, PENDING_MAX, RequestId};

/// Notices that may wait for one listener; what it can't be shown it can't answer.
pub const NOTICES_MAX: usize = 4 * PENDING_MAX;

/// The way to answer what needs approval. Cheap to clone; a plain seam for the edges.
#[derive(Clone, Debug)]
pub struct ApprovalsRef {
    desk: Seat<ApprovalsMsg>,
}

impl ApprovalsRef {
    pub(crate) fn new(desk: Seat<ApprovalsMsg>) -> Self {
        Self { desk }
    }

    /// Listens for requests from now on, and to those that wait already. The first answer of all
    /// listeners counts. Dropping it denies what nobody else was shown.
    pub fn listen(&self) -> ListenerRef {
        let id = ListenerId::fresh();
        let (notices, heard) = mpsc::channel(NOTICES_MAX);
        self.desk.cast(ApprovalsMsg::Listen(id, notices));
        ListenerRef { id, heard, desk: self.desk.clone() }
    }

    /// Puts what the policy goes by in place of what it went by.
    pub(crate) fn set_gate(&self, gate: Gate) {
        self.desk.cast(ApprovalsMsg::SetGate(Box::new(gate)));
    }

    /// Ends what was approved for a session: it is over.
    pub fn end_session(&self, session: SessionId) {
        self.desk.cast(ApprovalsMsg::SessionOver(session));
    }
}

/// One who listens.
#[derive(Debug)]
pub struct ListenerRef {
    id: ListenerId,
    heard: mpsc::Receiver<Notice>,
    desk: Seat<ApprovalsMsg>,
}

impl ListenerRef {
    /// The next notice; `None` when the desk does not know this listener: there were too many
    /// ([`crate::policy::approve::LISTENERS_MAX`]), or it was started anew.
    pub async fn next(&mut self) -> Option<Notice> {
        self.heard.recv().await
    }

    /// Answers a request. Late answers, and those to what was never shown here, change nothing.
    pub fn answer(&self, request: RequestId, answer: Answer) {
        self.desk.cast(ApprovalsMsg::Answer(self.id, request, answer));
    }
}

impl Drop for ListenerRef {
    fn drop(&mut self) {
        self.desk.cast(ApprovalsMsg::Left(self.id));
    }
}
