//! Server-sent events (WHATWG HTML, section 9.2): LF, CRLF and CR line ends, any
//! chunking, multi-line `data`, comments, unknown fields, BOM. Bounded per event.

use bytes::Bytes;

/// What the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseItem {
    /// A dispatched event with data.
    Event {
        /// The `event` field; empty text means `message`.
        event: String,
        /// The data lines joined by LF.
        data: Bytes,
        /// The `id` field of this event, if it had one without NUL.
        id: Option<String>,
    },
    /// A `retry` field, in milliseconds.
    Retry(u64),
    /// A comment line: a sign of life of the stream.
    Comment,
    /// An event passed `event_max`; it is discarded up to its end.
    TooLong {
        /// Its first bytes (at most 4 KiB).
        head: Bytes,
    },
}

/// Cuts a byte stream into events.
#[derive(Debug)]
pub struct SseDecoder {
    event_max: usize,
}

impl SseDecoder {
    /// A decoder with a cap per event's data, in bytes.
    pub fn new(event_max: usize) -> Self {
        Self { event_max }
    }

    /// Feeds one chunk; returns what it completed, in order.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<SseItem> {
        let _ = (chunk, self.event_max);
        unimplemented!()
    }
}
