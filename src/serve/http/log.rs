//! The messages of one stream of a legacy session, kept for a while so that a client whose
//! connection broke can ask for what it missed (`Last-Event-ID`). One message goes to one
//! connection; of several the newest gets what is new.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::wire::splice::Parts;

/// Messages that wait for a connection; beyond it the oldest is dropped, or, while there is a
/// connection, whoever writes waits.
pub const FRESH_MAX: usize = 128;
/// Bytes of such messages; a single one may be larger.
pub const FRESH_BYTES_MAX: usize = 1 << 20;
/// Messages that are kept after they were sent.
pub const SENT_MAX: usize = 64;
/// Bytes of messages that are kept after they were sent.
pub const SENT_BYTES_MAX: usize = 128 << 10;

/// Where a message stands: its log, the connection that got it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// Number of the log within its session.
    pub log: u64,
    /// Number of the connection within the log.
    pub reader: u64,
    /// Number of the message, from 1; 0 is before the first.
    pub seq: u64,
}

impl EventId {
    /// As it is written in `id:` and `Last-Event-ID`.
    pub fn text(self) -> String {
        format!("{}-{}-{}", self.log, self.reader, self.seq)
    }

    /// Reads it back.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text
            .split('-')
            .map(|part| part.parse().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit())));
        let id = Self { log: numbers.next()??, reader: numbers.next()??, seq: numbers.next()?? };
        numbers.next().is_none().then_some(id)
    }
}

#[derive(Clone, Debug)]
struct Event {
    seq: u64,
    message: Parts,
    /// The connection that got it.
    reader: u64,
}

#[derive(Debug, Default)]
struct Kept {
    fresh: VecDeque<Event>,
    sent: VecDeque<Event>,
    fresh_bytes: usize,
    sent_bytes: usize,
    last: u64,
    /// Highest number of a message that is not kept any more.
    dropped: u64,
    readers: BTreeSet<u64>,
    next_reader: u64,
    /// Nothing more comes.
    ended: bool,
    /// Connections are to end, whatever is there.
    closed: bool,
}

impl Kept {
    fn drop_oldest(&mut self) {
        if let Some(event) = self.fresh.pop_front() {
            self.fresh_bytes -= event.message.len();
            self.dropped = self.dropped.max(event.seq);
        }
    }

    fn keep_sent(&mut self, event: Event) {
        self.sent_bytes += event.message.len();
        self.sent.push_back(event);
        while self.sent.len() > SENT_MAX || self.sent_bytes > SENT_BYTES_MAX {
            let Some(old) = self.sent.pop_front() else { break };
            self.sent_bytes -= old.message.len();
            self.dropped = self.dropped.max(old.seq);
        }
    }

    fn is_crowded(&self, more: usize) -> bool {
        !self.fresh.is_empty() && (self.fresh.len() >= FRESH_MAX || self.fresh_bytes + more > FRESH_BYTES_MAX)
    }
}

/// One stream of a session.
#[derive(Debug)]
pub struct Log {
    /// Its number within the session.
    pub number: u64,
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
}

impl Log {
    /// An empty one.
    pub fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, kept: Mutex::default(), changed: watch::channel(()).0 })
    }

    /// Adds a message. Waits for room while somebody reads; else the oldest makes room.
    pub async fn push(&self, message: Parts) {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let mut kept = self.kept();
                if kept.ended || kept.closed {
                    return;
                }
                if !kept.is_crowded(message.len()) || kept.readers.is_empty() {
                    while kept.is_crowded(message.len()) {
                        kept.drop_oldest();
                    }
                    kept.last += 1;
                    kept.fresh_bytes += message.len();
                    let seq = kept.last;
                    kept.fresh.push_back(Event { seq, message, reader: 0 });
                    break;
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
        self.changed.send_replace(());
    }

    /// Nothing more comes; what is there is still read.
    pub fn end(&self) {
        self.kept().ended = true;
        self.changed.send_replace(());
    }

    /// Ends all connections now.
    pub fn close(&self) {
        self.kept().closed = true;
        self.changed.send_replace(());
    }

    /// Connections that read.
    pub fn readers(&self) -> usize {
        self.kept().readers.len()
    }

    /// Whether nothing more comes and nobody reads.
    pub fn is_done(&self) -> bool {
        let kept = self.kept();
        (kept.ended || kept.closed) && kept.readers.is_empty()
    }

    /// A connection for what is new.
    pub fn read(self: &Arc<Self>) -> Reader {
        let mut kept = self.kept();
        self.reader(&mut kept, VecDeque::new())
    }

    /// A connection that goes on after a message that another one got; `None` when something since
    /// then is not kept any more.
    pub fn resume(self: &Arc<Self>, after: EventId) -> Option<Reader> {
        let mut kept = self.kept();
        if after.seq > kept.last || after.seq < kept.dropped || after.reader >= kept.next_reader {
            return None;
        }
        // Its connection is taken over: what it has not read is now this one's.
        kept.readers.remove(&after.reader);
        let missed = kept.sent.iter().filter(|event| event.reader == after.reader && event.seq > after.seq);
        let missed: VecDeque<Event> = missed.cloned().collect();
        let reader = self.reader(&mut kept, missed);
        for event in kept.sent.iter_mut().filter(|event| event.reader == after.reader) {
            event.reader = reader.number;
        }
        Some(reader)
    }

    fn reader(self: &Arc<Self>, kept: &mut Kept, missed: VecDeque<Event>) -> Reader {
        let number = kept.next_reader;
        kept.next_reader += 1;
        kept.readers.insert(number);
        self.changed.send_replace(());
        Reader {
            log: self.clone(),
            number,
            missed,
            begun: kept.last.min(first_fresh(kept)),
            changed: self.changed.subscribe(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number before the first message that waits.
fn first_fresh(kept: &Kept) -> u64 {
    kept.fresh.front().map_or(kept.last, |event| event.seq - 1)
}

/// One connection that reads a log; leaving is dropping it.
#[derive(Debug)]
pub struct Reader {
    log: Arc<Log>,
    number: u64,
    missed: VecDeque<Event>,
    begun: u64,
    changed: watch::Receiver<()>,
}

impl Reader {
    /// The id of what came before its first message.
    pub fn begin(&self) -> EventId {
        EventId { log: self.log.number, reader: self.number, seq: self.begun }
    }

    /// The next message; `None` when none will come to this connection. Given up, nothing is lost.
    pub async fn next(&mut self) -> Option<(EventId, Parts)> {
        loop {
            {
                self.changed.borrow_and_update();
                let mut kept = self.log.kept();
                if kept.closed || !kept.readers.contains(&self.number) {
                    return None;
                }
                let id = |seq| EventId { log: self.log.number, reader: self.number, seq };
                if let Some(event) = self.missed.pop_front() {
                    return Some((id(event.seq), event.message));
                }
                let newest = kept.readers.last() == Some(&self.number);
                if let Some(mut event) = newest.then(|| kept.fresh.pop_front()).flatten() {
                    kept.fresh_bytes -= event.message.len();
                    event.reader = self.number;
                    let found = (id(event.seq), event.message.clone());
                    kept.keep_sent(event);
                    drop(kept);
                    self.log.changed.send_replace(());
                    return Some(found);
                }
                if kept.ended && kept.fresh.is_empty() {
                    return None;
                }
            }
            self.changed.changed().await.ok()?;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.kept().readers.remove(&self.number);
        self.log.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
