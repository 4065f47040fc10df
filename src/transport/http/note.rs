//! Messages of ours that get no answer: notifications, and answers to what the server
//! asked. Each is one POST in a task of its own, bounded in number and time. Also the
//! place where everything that a server sends is handed to the pending table.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::message;
use super::reading::{self, Event, EventStream, Kind, Trail};
use super::response::Response;
use super::shared::{Head, Shared};
use super::standing::Initialized;
use crate::wire::splice::Parts;

/// Notifications and answers of ours on their way at once; more are dropped and counted.
pub(super) const NOTES_MAX: usize = 64;
/// How long `initialized` may hold requests back when the server does not answer it.
const GATE_MAX: Duration = Duration::from_secs(5);
/// Ends the legacy handshake.
const INITIALIZED: &str = "notifications/initialized";

impl Shared {
    /// Hands a message of the server to the pending table and sends what must go back.
    pub(super) fn take(self: &Arc<Self>, frame: Bytes) {
        self.take_on(frame, None);
    }

    /// The same for a message on the stream of one request.
    pub(super) fn take_on(self: &Arc<Self>, frame: Bytes, stream: Option<u64>) {
        for answer in self.inbound.accept_on(frame, stream) {
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
            let _ = tokio::time::timeout(limit, shared.send(message, method, gate)).await;
        });
    }

    async fn send(self: &Arc<Self>, message: Bytes, method: Option<String>, mut gate: Option<Gate>) {
        let sending = self.deliver(message, method, gate.is_some());
        tokio::pin!(sending);
        let response = match tokio::time::timeout(GATE_MAX, &mut sending).await {
            Ok(response) => response,
            // A server that does not answer notifications must not hold everything up.
            Err(_) => {
                gate.take();
                sending.await
            }
        };
        drop(gate);
        if let Some(response) = response {
            self.hear(response).await;
        }
    }

    /// POSTs the message. `initialized` names the revision, so it waits until that is known.
    async fn deliver(
        &self,
        message: Bytes,
        method: Option<String>,
        needs_revision: bool,
    ) -> Option<Response> {
        let standing = self.until(|standing| !needs_revision || standing.revision.is_some()).await;
        let head = Head {
            version: standing.revision,
            session: standing.session(),
            method: method.as_deref(),
            ..Head::default()
        };
        let mut parts = Parts::default();
        parts.push(message);
        self.post(&head, &parts, None).await.ok()
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
        let sending = self.deliver(message, Some(INITIALIZED.to_owned()), true);
        if let Ok(Some(response)) = tokio::time::timeout(GATE_MAX, sending).await {
            let shared = self.clone();
            self.tasks.spawn(async move {
                let _ = tokio::time::timeout(shared.control_timeout, shared.hear(response)).await;
            });
        }
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
