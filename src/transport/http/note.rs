//! Messages of ours that get no answer: notifications, and answers to what the server
//! asked. Each is one POST in a task of its own, bounded in number and time. Also the
//! place where everything that a server sends is handed to the pending table.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Response;

use super::message;
use super::reading::{self, Event, EventStream, Kind, Trail};
use super::shared::{Head, Shared};
use super::standing::Initialized;
use crate::wire::splice::Parts;

/// Notifications and answers of ours on their way at once; more are dropped and counted.
pub(super) const NOTES_MAX: usize = 64;
/// Ends the legacy handshake.
const INITIALIZED: &str = "notifications/initialized";

impl Shared {
    /// Hands a message of the server to the pending table and sends what must go back.
    pub(super) fn take(self: &Arc<Self>, frame: Bytes) {
        for answer in self.inbound.accept(frame) {
            self.note(answer);
        }
    }

    /// Sends one message of ours.
    pub(super) fn note(self: &Arc<Self>, message: Bytes) {
        let Ok(permit) = self.notes.clone().try_acquire_owned() else {
            self.inbound.count_dropped();
            return;
        };
        let method = message::method(&message);
        let gate = (method.as_deref() == Some(INITIALIZED)).then(|| Gate::shut(self));
        let shared = self.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            let limit = shared.control_timeout;
            let _ = tokio::time::timeout(limit, shared.deliver(message, method, gate.is_some())).await;
            drop(gate);
        });
    }

    /// `initialized` names the revision, so it waits until that is known.
    async fn deliver(self: &Arc<Self>, message: Bytes, method: Option<String>, needs_revision: bool) {
        let standing = self.until(|standing| !needs_revision || standing.revision.is_some()).await;
        let head = Head {
            version: standing.revision,
            session: standing.session(),
            method: method.as_deref(),
            ..Head::default()
        };
        let mut parts = Parts::default();
        parts.push(message);
        if let Ok(response) = self.post(&head, &parts, None).await {
            self.hear(response).await;
        }
    }

    /// Some servers use the answer to a notification to say something of their own.
    async fn hear(self: &Arc<Self>, mut response: Response) {
        if response.status().is_success() && reading::kind(&response) == Kind::Events {
            let mut stream = EventStream::new(response, self.frame_max, Trail::default());
            while let Ok(Some(event)) = stream.next().await {
                if let Event::Message(frame) = event {
                    self.take(frame);
                }
            }
            return;
        }
        // Read to the end, so that the connection can be used again.
        let _ = reading::whole(&mut response, self.frame_max).await;
    }

    /// Tells a renewed session that the handshake is done.
    pub(super) async fn initialized_again(self: &Arc<Self>) {
        let message = crate::wire::splice::notification(INITIALIZED, None);
        self.deliver(message, Some(INITIALIZED.to_owned()), true).await;
    }
}

/// Holds requests back while `initialized` is on its way, however that ends.
struct Gate(Arc<Shared>);

impl Gate {
    fn shut(shared: &Arc<Shared>) -> Self {
        shared.change(|standing| standing.initialized = Initialized::Sending);
        Self(shared.clone())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.change(|standing| standing.initialized = Initialized::Sent);
    }
}
