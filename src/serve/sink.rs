//! What goes to one client, as a queue that is bounded in messages and bytes. A client that does
//! not read loses notifications, which are counted; answers wait for room. Filled by the core,
//! emptied by the edge that carries them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::wire::splice::Parts;

/// Messages that may wait for one client.
pub const SINK_MAX: usize = 1024;
/// Bytes that may wait for one client; a single message that is larger waits for an empty queue.
pub const SINK_BYTES_MAX: usize = 8 << 20;
/// Bytes of the queue that notifications leave free for answers.
const NOTES_LEAVE: usize = SINK_BYTES_MAX / 2;

/// One message to a client, whole.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// The answer to a request of the client.
    Answer(Parts),
    /// A notification.
    Note(Bytes),
    /// A request of ours or of a server to the client.
    Ask(Bytes),
}

impl Outgoing {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Answer(parts) => parts.len(),
            Self::Note(bytes) | Self::Ask(bytes) => bytes.len(),
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message as pieces.
    pub fn into_parts(self) -> Parts {
        match self {
            Self::Answer(parts) => parts,
            Self::Note(bytes) | Self::Ask(bytes) => {
                let mut parts = Parts::default();
                parts.push(bytes);
                parts
            }
        }
    }
}

/// A message with its share of the queue's bytes, given back when it is taken out.
#[derive(Debug)]
struct Queued {
    what: Outgoing,
    _bytes: OwnedSemaphorePermit,
}

/// The way to a client. Cheap to clone; closed when the [`Outlet`] is dropped.
#[derive(Clone, Debug)]
pub struct Sink(Arc<Way>);

#[derive(Debug)]
struct Way {
    tx: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
    lost: AtomicU64,
}

/// The other end: what an edge takes messages out of.
#[derive(Debug)]
pub struct Outlet {
    rx: mpsc::Receiver<Queued>,
}

impl Outlet {
    /// The next message; `None` when every sink is gone.
    pub async fn next(&mut self) -> Option<Outgoing> {
        self.rx.recv().await.map(|queued| queued.what)
    }

    /// A message that is there already.
    pub fn try_next(&mut self) -> Option<Outgoing> {
        self.rx.try_recv().ok().map(|queued| queued.what)
    }
}

impl Sink {
    /// A queue: the end for the core, and the end for the edge.
    pub fn pair() -> (Self, Outlet) {
        let (tx, rx) = mpsc::channel(SINK_MAX);
        let bytes = Arc::new(Semaphore::new(SINK_BYTES_MAX));
        (Self(Arc::new(Way { tx, bytes, lost: AtomicU64::default() })), Outlet { rx })
    }

    /// Adds a message if there is room for it now; the message back if not, or if nobody is there.
    pub fn try_put(&self, what: Outgoing) -> Result<(), Outgoing> {
        let Ok(bytes) = self.0.bytes.clone().try_acquire_many_owned(share(what.len())) else {
            return Err(what);
        };
        self.0.tx.try_send(Queued { what, _bytes: bytes }).map_err(|refused| match refused {
            TrySendError::Full(queued) | TrySendError::Closed(queued) => queued.what,
        })
    }

    /// Adds a message as soon as there is room. `false`: nobody is there.
    pub async fn put(&self, what: Outgoing) -> bool {
        let room = tokio::select! {
            biased;
            () = self.0.tx.closed() => return false,
            room = self.0.bytes.clone().acquire_many_owned(share(what.len())) => room,
        };
        let Ok(bytes) = room else { return false };
        self.0.tx.send(Queued { what, _bytes: bytes }).await.is_ok()
    }

    /// Adds a notification, or counts it as lost: a client that does not read holds nobody up.
    pub fn note(&self, note: Bytes) {
        let crowded = self.0.bytes.available_permits() < NOTES_LEAVE || self.0.tx.capacity() < SINK_MAX / 2;
        if crowded || self.try_put(Outgoing::Note(note)).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until one message more has room, or nobody is there: what an edge does before it reads
    /// on, so that a client which does not read is not read from either.
    pub async fn room(&self) {
        // Whoever waits for room takes what comes free first: where some is left, nobody waits.
        if self.0.tx.capacity() > 0 && self.0.bytes.available_permits() > 0 {
            return;
        }
        tokio::select! {
            biased;
            () = self.0.tx.closed() => {}
            // Behind the answers that wait for room.
            _ = self.0.bytes.acquire() => {
                let _ = self.0.tx.reserve().await;
            }
        }
    }

    /// Notifications that this client lost.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Whether nobody takes messages out any more.
    pub fn is_closed(&self) -> bool {
        self.0.tx.is_closed()
    }

    /// Resolves when nobody takes messages out any more.
    pub async fn closed(&self) {
        self.0.tx.closed().await;
    }
}

/// What a message takes of the queue's bytes.
fn share(len: usize) -> u32 {
    u32::try_from(len.clamp(1, SINK_BYTES_MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(len: usize) -> Bytes {
        vec![b'x'; len].into()
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_notes_and_keeps_answers() {
        let (sink, mut outlet) = Sink::pair();
        for _ in 0..SINK_MAX {
            sink.note(note(10));
        }
        assert!(sink.lost() > 0);
        let mut answer = Parts::default();
        answer.push(Bytes::from_static(b"{}"));
        assert!(sink.try_put(Outgoing::Answer(answer)).is_ok(), "half of the queue is kept for answers");
        let mut notes = 0;
        while let Some(Outgoing::Note(_)) = outlet.try_next() {
            notes += 1;
        }
        assert_eq!(notes + sink.lost(), SINK_MAX as u64);
    }

    #[tokio::test]
    async fn waiting_bytes_are_bounded_and_come_back() {
        let (sink, mut outlet) = Sink::pair();
        assert!(sink.try_put(Outgoing::Ask(note(SINK_BYTES_MAX * 2))).is_ok(), "a giant alone has room");
        assert!(sink.try_put(Outgoing::Ask(note(1))).is_err());
        assert!(outlet.next().await.is_some());
        assert!(sink.try_put(Outgoing::Ask(note(1))).is_ok());
        drop(outlet);
        assert!(sink.is_closed() && !sink.put(Outgoing::Ask(note(1))).await);
    }
}
