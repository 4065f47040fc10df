//! Newline-delimited frames of the stdio transport: any chunking of the input
//! gives the same frames. Bounded by `frame_max`; a longer line is reported,
//! never buffered. LF, CRLF, blank lines and a BOM before the first message are fine.

use bytes::{Buf, Bytes, BytesMut};

/// Longest head of an over-long line that is reported, in bytes.
pub const HEAD_MAX: usize = 4096;
/// Longest tail of an over-long line that is reported, in bytes.
pub const TAIL_MAX: usize = 256;
/// Above this length of a line, in bytes, the buffer that held it is given up with it.
const KEEP_MAX: usize = 64 * 1024;
/// Up to this length, in bytes, a line is copied out: the buffer stays whole and is used again, and who
/// keeps a short line keeps no more than that. A longer one is a slice of the buffer.
const COPY_MAX: usize = 4096;
const BOM: &[u8] = b"\xef\xbb\xbf";

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

/// A line over the cap, of which only this is remembered.
#[derive(Debug, Default)]
struct Over {
    /// Its last bytes, one more than is reported: the last may turn out to be a CR.
    tail: Vec<u8>,
    total: u64,
    /// Whether its line end has been seen.
    ended: bool,
}

impl Over {
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let fresh = &bytes[bytes.len().saturating_sub(TAIL_MAX + 1)..];
        let stale = (self.tail.len() + fresh.len()).saturating_sub(TAIL_MAX + 1);
        self.tail.drain(..stale);
        self.tail.extend_from_slice(fresh);
    }

    fn into_event(mut self) -> FrameEvent {
        if self.tail.last() == Some(&b'\r') {
            self.tail.pop();
            self.total -= 1;
        }
        let cut = self.tail.len().saturating_sub(TAIL_MAX);
        FrameEvent::TooLongEnd { tail: Bytes::from(self.tail.split_off(cut)), total: self.total }
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct Framer {
    frame_max: usize,
    /// Bytes at the front of the buffer that are known to hold no line end.
    scanned: usize,
    /// Whether a line has been handed out: from then on a BOM is content.
    begun: bool,
    over: Option<Over>,
}

impl Framer {
    /// A framer with a cap per line, in bytes; line end and BOM don't count.
    pub fn new(frame_max: usize) -> Self {
        Self { frame_max, scanned: 0, begun: false, over: None }
    }

    /// Takes the next frame out of `buf`, which the caller appends reads to.
    /// `None` means: read more. Never scans a byte twice.
    pub fn next(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        loop {
            if self.over.is_some() {
                return self.discard(buf);
            }
            // A caller that took bytes away by itself must not make us skip any.
            let from = self.scanned.min(buf.len());
            let Some(found) = memchr::memchr(b'\n', &buf[from..]) else {
                self.scanned = buf.len();
                return self.crossing(buf);
            };
            let line_len = from + found;
            self.scanned = 0;
            let content = self.content(&buf[..line_len]);
            if content.len() > self.frame_max {
                return Some(self.too_long(buf, content, Some(line_len)));
            }
            if let Some(line) = self.take_line(buf, content, line_len + 1) {
                return Some(line);
            }
        }
    }

    /// What is left at the end of the stream: an unterminated last line, if any.
    /// Call it until it gives `None`.
    pub fn finish(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        if let Some(event) = self.next(buf) {
            return Some(event);
        }
        if let Some(over) = self.over.take() {
            return Some(over.into_event());
        }
        self.scanned = 0;
        let content = self.content(buf);
        if content.len() > self.frame_max {
            let all = buf.len();
            return Some(self.too_long(buf, content, Some(all)));
        }
        let all = buf.len();
        self.take_line(buf, content, all)
    }

    /// Bytes discarded so far of a line that is over the cap and has not ended; 0 when none.
    pub fn discarding(&self) -> u64 {
        self.over.as_ref().map_or(0, |over| over.total)
    }

    /// Where the content of a line lies: without a CR at its end and a BOM before the first message.
    fn content(&self, line: &[u8]) -> std::ops::Range<usize> {
        let from = if !self.begun && line.starts_with(BOM) { BOM.len() } else { 0 };
        let to = if line.last() == Some(&b'\r') { line.len() - 1 } else { line.len() };
        from..to.max(from)
    }

    /// Hands out the line in `content` and drops `taken` bytes; `None` if it is blank.
    fn take_line(
        &mut self,
        buf: &mut BytesMut,
        content: std::ops::Range<usize>,
        taken: usize,
    ) -> Option<FrameEvent> {
        if buf[content.clone()].iter().all(|b| matches!(b, b' ' | b'\t' | b'\r')) {
            buf.advance(taken);
            return None;
        }
        self.begun = true;
        if content.len() <= COPY_MAX {
            let line = Bytes::copy_from_slice(&buf[content]);
            buf.advance(taken);
            return Some(FrameEvent::Line(line));
        }
        let line = buf.split_to(taken).freeze().slice(content);
        if line.len() > KEEP_MAX && buf.len() <= KEEP_MAX {
            // Otherwise the reader would keep the big allocation for good.
            *buf = BytesMut::from(&buf[..]);
        }
        Some(FrameEvent::Line(line))
    }

    /// No line end in sight: reports the line if it can no longer end within the cap.
    fn crossing(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        if buf.len() <= self.frame_max || (!self.begun && BOM.starts_with(buf)) {
            return None;
        }
        let content = self.content(buf);
        if content.len() <= self.frame_max {
            return None;
        }
        Some(self.too_long(buf, content, None))
    }

    /// Reports the line that begins in `buf`; `line_len` is its length if its end has been seen.
    fn too_long(
        &mut self,
        buf: &mut BytesMut,
        content: std::ops::Range<usize>,
        line_len: Option<usize>,
    ) -> FrameEvent {
        let head_len = content.len().min(HEAD_MAX).min(self.frame_max);
        let head = Bytes::copy_from_slice(&buf[content.start..content.start + head_len]);
        let mut over = Over { ended: line_len.is_some(), ..Over::default() };
        let seen = line_len.unwrap_or(buf.len());
        over.add(&buf[content.start..seen]);
        self.drop_front(buf, line_len.map_or(seen, |len| (len + 1).min(buf.len())));
        self.begun = true;
        self.scanned = 0;
        self.over = Some(over);
        FrameEvent::TooLong { head }
    }

    fn discard(&mut self, buf: &mut BytesMut) -> Option<FrameEvent> {
        let over = self.over.as_mut()?;
        if !over.ended {
            let Some(found) = memchr::memchr(b'\n', buf) else {
                over.add(buf);
                buf.clear();
                return None;
            };
            over.add(&buf[..found]);
            buf.advance(found + 1);
        }
        self.over.take().map(Over::into_event)
    }

    /// Drops `count` bytes and gives a big buffer back.
    fn drop_front(&self, buf: &mut BytesMut, count: usize) {
        buf.advance(count);
        if buf.len() <= KEEP_MAX {
            *buf = BytesMut::from(&buf[..]);
        }
    }
}

#[cfg(test)]
mod tests;
