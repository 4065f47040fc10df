//! Floor 2. The ring that keeps the end of a child's stderr. It is drained from
//! spawn to exit in bounded chunks, so a chatty child never blocks and memory stays flat.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::tap::Tap;
use super::turn::Turn;

/// Bytes of stderr that are kept.
pub const STDERR_KEPT_MAX: usize = 64 * 1024;
/// Longest line that is shown; the rest of it is cut.
pub const STDERR_LINE_MAX: usize = 8 * 1024;
/// Bytes of the end of stderr that a view is made from.
pub const STDERR_RECENT_MAX: usize = 4 * 1024;
const CHUNK: usize = 8 * 1024;

/// The kept end of one child's stderr. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StderrRing(Arc<Mutex<Kept>>, Option<Tap>);

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    total: u64,
}

impl StderrRing {
    /// One beside which somebody may listen.
    pub fn tapped(tap: Tap) -> Self {
        let ring = Self::default();
        tap.keeps(ring.clone());
        Self(ring.0, Some(tap))
    }

    /// Adds a chunk; what no longer fits falls out at the front.
    pub fn push(&self, chunk: &[u8]) {
        if let Some(tap) = &self.1 {
            tap.logged(chunk);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.total += chunk.len() as u64;
        let chunk = &chunk[chunk.len().saturating_sub(STDERR_KEPT_MAX)..];
        let over = (kept.bytes.len() + chunk.len()).saturating_sub(STDERR_KEPT_MAX);
        kept.bytes.drain(..over);
        kept.bytes.extend(chunk);
    }

    /// Bytes seen since the start.
    pub fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Everything that is kept, as text; long lines are cut between words, and of a line whose front
    /// fell out nothing is left: half a secret could not be told from text.
    pub fn text(&self) -> String {
        let (bytes, cut): (Vec<u8>, bool) = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (kept.bytes.iter().copied().collect(), kept.total > kept.bytes.len() as u64)
        };
        let first = match cut {
            true => memchr::memchr2(b'\n', b'\r', &bytes).map_or(bytes.len(), |at| at + 1),
            false => 0,
        };
        let text = String::from_utf8_lossy(&bytes[first..]);
        let mut out = String::with_capacity(text.len());
        for line in text.split(['\n', '\r']).filter(|line| !line.trim().is_empty()) {
            let mut end = line.len().min(STDERR_LINE_MAX);
            while !line.is_char_boundary(end) {
                end -= 1;
            }
            if end < line.len() {
                end = line[..end].rfind(char::is_whitespace).unwrap_or_default();
            }
            out.push_str(&line[..end]);
            out.push('\n');
        }
        out
    }

    /// The last line that is not blank; of a very long one the end. Cheap to ask after every call.
    pub fn last_line(&self) -> Option<String> {
        let mut line: Vec<u8> = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let from_the_end = kept.bytes.iter().rev().skip_while(|b| b.is_ascii_whitespace());
            from_the_end.take_while(|b| !matches!(b, b'\n' | b'\r')).take(STDERR_LINE_MAX).copied().collect()
        };
        line.reverse();
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// The whole lines among the last bytes, at most `STDERR_RECENT_MAX` of them. A line that is cut
    /// at its front is left out: half a secret could not be told from text. Cheap to ask.
    pub fn recent(&self) -> String {
        let (bytes, cut) = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let skip = kept.bytes.len().saturating_sub(STDERR_RECENT_MAX);
            let before = skip.checked_sub(1).and_then(|at| kept.bytes.get(at));
            let fell_out = kept.total > kept.bytes.len() as u64;
            let cut = before.map_or(fell_out, |byte| !matches!(byte, b'\n' | b'\r'));
            (kept.bytes.iter().skip(skip).copied().collect::<Vec<u8>>(), cut)
        };
        let first = match cut {
            true => memchr::memchr2(b'\n', b'\r', &bytes).map_or(bytes.len(), |at| at + 1),
            false => 0,
        };
        String::from_utf8_lossy(&bytes[first..]).into_owned()
    }

    /// The last `lines` lines that are not blank.
    pub fn tail(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Drains `stderr` into `ring` until it ends.
pub async fn drain(mut stderr: impl AsyncRead + Unpin, ring: StderrRing) {
    let mut chunk = vec![0u8; CHUNK];
    let mut turn = Turn::default();
    loop {
        match stderr.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                ring.push(&chunk[..n]);
                turn.read(n, true).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_end_and_counts_everything() {
        let ring = StderrRing::default();
        for i in 0..20_000 {
            ring.push(format!("line {i}\n").as_bytes());
        }
        assert!(ring.text().len() <= STDERR_KEPT_MAX);
        assert_eq!(ring.tail(2), "line 19998\nline 19999");
        assert!(ring.total() > STDERR_KEPT_MAX as u64);
    }

    #[test]
    fn progress_bars_without_newlines_stay_bounded_and_readable() {
        let ring = StderrRing::default();
        ring.push("é".repeat(STDERR_KEPT_MAX).as_bytes());
        ring.push(b"\r50%\r100%");
        assert!(ring.text().len() <= STDERR_KEPT_MAX);
        assert_eq!(ring.tail(1), "100%");
    }

    #[test]
    fn a_cut_leaves_no_half_of_a_word() {
        let ring = StderrRing::default();
        ring.push(format!("{}secret-in-the-way\nlast\n", "a bc ".repeat(STDERR_LINE_MAX / 5)).as_bytes());
        assert!(!ring.text().contains("sec") && ring.text().ends_with("a bc\nlast\n"), "{}", ring.text());
        ring.push(format!("{} secret-in-the-way", "x".repeat(STDERR_KEPT_MAX - 22)).as_bytes());
        assert!(!ring.text().contains("ast"));
        let ring = StderrRing::default();
        ring.push(b"secret-in-the-way\n");
        ring.push(format!("{}\nlast", "word ".repeat((STDERR_KEPT_MAX - 10) / 5)).as_bytes());
        assert!(!ring.text().contains("way"), "{:.40}", ring.text());
    }

    #[test]
    fn recent_text_is_bounded_and_never_begins_within_a_line() {
        let ring = StderrRing::default();
        assert_eq!(ring.recent(), "");
        ring.push(b"one\ntwo");
        assert_eq!(ring.recent(), "one\ntwo", "what is not cut is whole");
        ring.push(b"\n");
        for i in 0..2000 {
            ring.push(format!("line {i}\n").as_bytes());
            let recent = ring.recent();
            assert!(recent.len() <= STDERR_RECENT_MAX && recent.ends_with(&format!("line {i}\n")));
            assert!(recent.starts_with("line ") || recent.starts_with("one\n"), "{recent:.20}");
        }
        ring.push("x".repeat(STDERR_RECENT_MAX + 1).as_bytes());
        assert_eq!(ring.recent(), "", "one long line is no whole line");
        ring.push(b"\nlast");
        assert_eq!(ring.recent(), "last");
        ring.push(&[b'y'; STDERR_KEPT_MAX]);
        assert_eq!(ring.recent(), "");
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let ring = StderrRing::default();
        assert_eq!(ring.last_line(), None);
        ring.push(b" \n\r\n");
        assert_eq!(ring.last_line(), None);
        ring.push("eins\n  zwölf €\n \t\n".as_bytes());
        assert_eq!(ring.last_line().as_deref(), Some("  zwölf €"));
        ring.push(b"10%\r20%\r");
        assert_eq!(ring.last_line().as_deref(), Some("20%"));
        ring.push("é".repeat(STDERR_LINE_MAX).as_bytes());
        let line = ring.last_line().unwrap();
        assert!(line.len() <= STDERR_LINE_MAX + "\u{fffd}".len() && line.ends_with('é'));
    }

    #[tokio::test]
    async fn drain_reads_to_the_end() {
        let ring = StderrRing::default();
        drain(&b"one\ntwo\n"[..], ring.clone()).await;
        assert_eq!(ring.tail(5), "one\ntwo");
    }
}
