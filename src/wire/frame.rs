//! Newline-delimited frames of the stdio transport: any chunking of the input
//! gives the same frames. Bounded by `frame_max`; a longer line is reported,
//! never buffered. LF, CRLF, blank lines and a BOM before the first message are fine.

use bytes::{Bytes, BytesMut};

/// What the framer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// One line without its line end, never blank.
    Line(Bytes),
    /// A line passed `frame_max`. Sent once, when the cap is crossed; the rest of
    /// the line is discarded as it arrives. `head` is its first bytes (at most 4 KiB).
    TooLong {
        /// The first bytes of the line.
        head: Bytes,
    },
    /// The end of a line reported by `TooLong`: its last bytes (at most 256) and its length.
    TooLongEnd {
        /// The last bytes of the line.
        tail: Bytes,
        /// Length of the whole line in bytes.
        total: u64,
    },
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct Framer {
    frame_max: usize,
}

impl Framer {
    /// A framer with a cap per line, in bytes.
    pub fn new(frame_max: usize) -> Self {
        Self { frame_max }
    }

    /// Takes the next frame out of `buf`, which the caller appends reads to.
    /// `None` means: read more. Never scans a byte twice.
    pub fn next(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        let _ = (buf, self.frame_max);
        unimplemented!()
    }

    /// What is left at the end of the stream: an unterminated last line, if any.
    pub fn finish(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        let _ = buf;
        unimplemented!()
    }

    /// Bytes discarded so far of a line that is over the cap and has not ended; 0 when none.
    pub fn discarding(&self) -> u64 {
        unimplemented!()
    }
}
