//! The redactor over text that comes in pieces: what could be part of a secret is held back until
//! the rest of it has come. However the text is cut, the same comes out. Called where bytes are
//! written as they come, such as the log.

use std::ops::Range;

use super::{MARK, Redactor, merged};
use crate::shaping::shapes;

/// A line longer than this is told in parts, in bytes. Longest text that is held back.
pub const HELD_LEN_MAX: usize = 256 * 1024;
/// What is held back of a line that is told in parts: longer than any form of a secret.
const OVERLAP_LEN: usize = 64 * 1024;

/// Holds what can't be judged yet.
#[derive(Debug, Default)]
pub struct Stream {
    held: Vec<u8>,
}

impl Stream {
    /// Takes the next piece; returns what may be told.
    pub fn push(&mut self, redactor: &Redactor, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in piece.chunks(OVERLAP_LEN) {
            self.held.extend_from_slice(piece);
            let safe = self.safe_end(redactor);
            let cut = match safe {
                0 if self.held.len() > HELD_LEN_MAX => self.held.len() - OVERLAP_LEN.max(redactor.len_max()),
                safe => safe,
            };
            if cut > 0 {
                out.extend(self.tell(redactor, cut));
            }
        }
        out
    }

    /// The rest, when nothing more comes.
    pub fn finish(&mut self, redactor: &Redactor) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        redactor.bytes(&held).into_owned()
    }

    /// The end of the last line at which no known value and no key file is under way.
    fn safe_end(&self, redactor: &Redactor) -> usize {
        let Some(line) = memchr::memrchr(b'\n', &self.held) else { return 0 };
        let mut end = line + 1;
        let closed = memchr::memmem::rfind(&self.held, b"-----END ").unwrap_or_default();
        if let Some(open) = memchr::memmem::find(&self.held[closed..], b"-----BEGIN ") {
            end = end.min(memchr::memrchr(b'\n', &self.held[..closed + open]).map_or(0, |line| line + 1));
        }
        loop {
            // A value of several lines may cross the end of one.
            let begun = redactor.begun(&self.held[..end]);
            if begun == 0 {
                return end;
            }
            let Some(line) = memchr::memrchr(b'\n', &self.held[..end - begun]) else { return 0 };
            end = line + 1;
        }
    }

    /// Tells what is before `cut`, or less where a secret crosses it.
    fn tell(&mut self, redactor: &Redactor, cut: usize) -> Vec<u8> {
        let mut spans: Vec<Range<usize>> = redactor.spans_of_values(&self.held);
        shapes::find(&self.held, &mut spans);
        let spans = merged(spans);
        let is_forced = self.held.len() > HELD_LEN_MAX;
        let mut cut = cut;
        while let Some(span) = spans.iter().find(|span| span.start < cut && span.end > cut) {
            // The words before a secret are what it is known by: they wait with it.
            let line = memchr::memrchr(b'\n', &self.held[..span.start]).map_or(0, |line| line + 1);
            cut = match (line, is_forced) {
                (0, true) if span.start == 0 => span.end,
                (0, true) => span.start,
                (line, _) => line,
            };
        }
        let mut out = Vec::with_capacity(cut);
        let mut at = 0;
        for span in spans.iter().take_while(|span| span.end <= cut) {
            out.extend_from_slice(&self.held[at..span.start]);
            out.extend_from_slice(MARK.as_bytes());
            at = span.end;
        }
        out.extend_from_slice(&self.held[at..cut]);
        self.held.drain(..cut);
        out
    }
}
