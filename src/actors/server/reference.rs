//! The seam to one server actor: what others may ask of it.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{Semaphore, oneshot};

use super::msg::{ServerMsg, Submission};
use super::outcome::actor_gone;
use super::port::ReplyPort;
use crate::call::{CallError, CallReply, CallRequest, Door};
use crate::catalog::pin::Book;
use crate::id::ServerId;
use crate::time::Monotonic;

/// A handle to one server actor. Cheap to clone; a message to a dead actor is answered
/// by the drop of its port.
#[derive(Clone, Debug)]
pub struct ServerRef {
    id: ServerId,
    actor: ActorRef<ServerMsg>,
}

impl ServerRef {
    pub(crate) fn new(id: ServerId, actor: ActorRef<ServerMsg>) -> Self {
        Self { id, actor }
    }

    /// The server.
    pub fn id(&self) -> &ServerId {
        &self.id
    }

    /// Hands over one admitted call.
    pub(crate) fn submit(&self, submission: Box<Submission>) {
        // A dead actor drops the port, which answers the caller.
        let _ = self.actor.cast(ServerMsg::Call(submission));
    }

    /// Calls this server past the front end, with a direct target: no name resolution, no policy,
    /// no admission. For benches, which measure the rungs one by one.
    #[doc(hidden)]
    pub async fn call_unchecked(&self, request: CallRequest) -> Result<CallReply, CallError> {
        let permit = Arc::new(Semaphore::new(1));
        let Ok(permit) = permit.acquire_owned().await else { return Err(actor_gone(&self.id)) };
        let (reply, answer) = ReplyPort::new();
        let admitted = Monotonic::now();
        self.submit(Box::new(Submission {
            carried: Vec::new(),
            request,
            door: Door::default(),
            capabilities: None,
            era: None,
            mode: None,
            reach: None,
            events: None,
            reply,
            permit,
            admitted,
            repeats: 0,
            failed: None,
        }));
        answer.await.unwrap_or_else(|_| Err(actor_gone(&self.id)))
    }

    /// Sends anything, for tests.
    #[cfg(test)]
    pub(crate) fn tell(&self, message: ServerMsg) {
        let _ = self.actor.cast(message);
    }

    /// Starts it if it is dormant.
    pub fn start(&self) {
        let _ = self.actor.cast(ServerMsg::Start);
    }

    /// Connects afresh, whatever the state.
    pub fn restart(&self) {
        let _ = self.actor.cast(ServerMsg::Restart);
    }

    /// Reads its lists again that often from now on; `None` means never.
    pub(crate) fn poll_every(&self, every: Option<Duration>) {
        let _ = self.actor.cast(ServerMsg::Poll(every));
    }

    /// Goes by these pins from now on: they were read from its file.
    pub(crate) fn pins(&self, book: Arc<Book>) {
        let _ = self.actor.cast(ServerMsg::Pins(book));
    }

    /// Publishes view and catalogue again.
    pub(crate) fn republish(&self) {
        let _ = self.actor.cast(ServerMsg::Republish);
    }

    /// Ends it: refuse, drain, stop. Resolves when nothing of it is left.
    pub async fn stop(&self) {
        let (done, gone) = oneshot::channel();
        if self.actor.cast(ServerMsg::Stop(done)).is_ok() {
            let _ = gone.await;
        }
        self.actor.stop(None);
    }
}
