//! Floor 2. Where somebody may listen to what passes between host and server: frames both ways, and
//! stderr. Costs one look while nobody listens, and changes nothing that passes. A listener that does not
//! keep up loses, and hears how much; nothing ever waits for it. What is heard is as it was sent: secrets
//! are taken out before it is shown. Kept for each server across its connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::broadcast;

use super::stderr::StderrRing;
use crate::time::wall;
use crate::wire::splice::Parts;

/// What may wait for a listener that does not keep up.
pub const HEARD_MAX: usize = 256;
/// Bytes of a frame that are heard; of a longer one the beginning.
pub const FRAME_HEARD_MAX: usize = 16 * 1024;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the host to the server.
    ToServer,
    /// From the server to the host.
    FromServer,
}

/// One frame that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// When.
    pub at: SystemTime,
    /// Which way.
    pub way: Way,
    /// Its length, in bytes.
    pub len: usize,
    /// Its bytes, at most [`FRAME_HEARD_MAX`].
    pub bytes: Bytes,
}

/// The taps of one server. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines {
    frames: Line<Passed>,
    stderr: Line<Bytes>,
    /// The kept end of stderr of the process that runs, or ran last.
    ring: Mutex<Option<StderrRing>>,
}

#[derive(Debug)]
struct Line<T> {
    listeners: AtomicUsize,
    out: broadcast::Sender<T>,
}

impl<T: Clone> Default for Line<T> {
    fn default() -> Self {
        Self { listeners: AtomicUsize::new(0), out: broadcast::Sender::new(HEARD_MAX) }
    }
}

impl<T: Clone> Line<T> {
    fn tell(&self, what: impl FnOnce() -> T) {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            let _ = self.out.send(what());
        }
    }
}

impl Tap {
    /// A frame was written, or is about to be.
    pub fn sent(&self, parts: &Parts) {
        self.0.frames.tell(|| {
            let pieces = parts.pieces();
            let mut heard = Vec::new();
            for piece in pieces {
                let room = FRAME_HEARD_MAX - heard.len();
                heard.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            let len = pieces.iter().map(Bytes::len).sum();
            Passed { at: wall(), way: Way::ToServer, len, bytes: heard.into() }
        });
    }

    /// A frame came.
    pub fn came(&self, frame: &[u8]) {
        self.0.frames.tell(|| {
            // A copy: who listens keeps no large answer in memory.
            let bytes = Bytes::copy_from_slice(&frame[..frame.len().min(FRAME_HEARD_MAX)]);
            Passed { at: wall(), way: Way::FromServer, len: frame.len(), bytes }
        });
    }

    /// The server wrote that to stderr.
    pub fn logged(&self, chunk: &[u8]) {
        self.0.stderr.tell(|| Bytes::copy_from_slice(chunk));
    }

    /// A process of the server begins, whose stderr ends up there.
    pub fn keeps(&self, ring: StderrRing) {
        *self.0.ring.lock().unwrap_or_else(PoisonError::into_inner) = Some(ring);
    }

    /// The kept end of stderr as it is now.
    pub fn stderr(&self) -> String {
        let ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ring.map(|ring| ring.text()).unwrap_or_default()
    }

    /// Listens to frames from now on.
    pub fn frames(&self) -> Ear<Passed> {
        Ear::new(self, |lines| &lines.frames)
    }

    /// Listens to stderr from now on.
    pub fn stderr_pieces(&self) -> Ear<Bytes> {
        Ear::new(self, |lines| &lines.stderr)
    }
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// This.
    One(T),
    /// So many passed that it did not hear.
    Missed(u64),
}

/// One listener.
#[derive(Debug)]
pub struct Ear<T: 'static> {
    heard: broadcast::Receiver<T>,
    tap: Tap,
    line: fn(&Lines) -> &Line<T>,
}

impl<T: Clone + 'static> Ear<T> {
    fn new(tap: &Tap, line: fn(&Lines) -> &Line<T>) -> Self {
        let of = line(&tap.0);
        of.listeners.fetch_add(1, Ordering::Relaxed);
        Self { heard: of.out.subscribe(), tap: tap.clone(), line }
    }

    /// The next. Cancel-safe.
    pub async fn next(&mut self) -> Heard<T> {
        match self.heard.recv().await {
            Ok(one) => Heard::One(one),
            Err(broadcast::error::RecvError::Lagged(missed)) => Heard::Missed(missed),
            // The tap is held here: it has an end only with this.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl<T: 'static> Drop for Ear<T> {
    fn drop(&mut self) {
        (self.line)(&self.tap.0).listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_listens_hears_both_ways_and_nobody_else_is_told() {
        let tap = Tap::default();
        tap.came(b"nobody hears this");
        let mut ear = tap.frames();
        let mut parts = Parts::default();
        parts.push(Bytes::from_static(b"{\"a\""));
        parts.push(Bytes::from_static(b":1}"));
        tap.sent(&parts);
        tap.came(b"{}");
        let mut next = async || match ear.next().await {
            Heard::One(passed) => (passed.way, passed.len, passed.bytes),
            Heard::Missed(missed) => panic!("{missed} missed"),
        };
        assert_eq!(next().await, (Way::ToServer, 7, Bytes::from_static(b"{\"a\":1}")));
        assert_eq!(next().await, (Way::FromServer, 2, Bytes::from_static(b"{}")));
        drop(ear);
        assert_eq!(tap.0.frames.listeners.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_listener_that_does_not_keep_up_hears_how_much_it_missed() {
        let tap = Tap::default();
        let mut ear = tap.frames();
        let long = vec![b'x'; 4 * FRAME_HEARD_MAX];
        for _ in 0..HEARD_MAX + 10 {
            tap.came(&long);
        }
        assert_eq!(ear.next().await, Heard::Missed(10));
        let Heard::One(passed) = ear.next().await else { panic!("a frame") };
        assert_eq!((passed.len, passed.bytes.len()), (long.len(), FRAME_HEARD_MAX));
    }
}
