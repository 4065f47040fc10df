//! Bytes: writing in pieces, filler, base64, hostile spellings.
//! Owns how bytes leave, must never know what they mean. Called by `stdio`, `http`, `results`, `catalog`.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::args::Flags;
use crate::server::pause;

/// Pieces are spaced out this often, so that the reader really sees them apart; the rest follows at full speed.
const SPACED_PIECES_MAX: usize = 200;
const PIECE_GAP: Duration = Duration::from_micros(200);
/// How long a piece waits for its reader.
const PIECE_WAIT_MAX: Duration = Duration::from_millis(100);

/// Writes and flushes, in the pieces that the flags ask for. `pipe` is looked at, so that the reader takes one piece at a time.
pub(crate) fn write_shaped(
    out: &mut dyn Write,
    pipe: Option<BorrowedFd<'_>>,
    bytes: &[u8],
    flags: &Flags,
) -> io::Result<()> {
    if flags.dribble.is_none() && !flags.split_utf8 {
        out.write_all(bytes)?;
        return out.flush();
    }
    let mut start = 0;
    let mut pieces = 0;
    while start < bytes.len() {
        let mut end = flags.dribble.map_or(bytes.len(), |n| (start + n).min(bytes.len()));
        if flags.split_utf8 {
            // A piece ends inside the first multi-byte character: after its lead byte.
            let lead = bytes[start..end].iter().position(|b| *b >= 0xC0);
            end = lead.map_or(end, |at| (start + at + 1).min(end));
        }
        out.write_all(&bytes[start..end])?;
        out.flush()?;
        start = end;
        pieces += 1;
        if pieces < SPACED_PIECES_MAX && start < bytes.len() {
            pause(PIECE_GAP);
            let taken = || pipe.is_none_or(|pipe| !matches!(rustix::io::ioctl_fionread(pipe), Ok(1..)));
            let until = Instant::now() + PIECE_WAIT_MAX;
            while !taken() && Instant::now() < until {
                pause(PIECE_GAP);
            }
        }
    }
    Ok(())
}

/// Writes that many filler bytes in large pieces.
pub(crate) fn write_filler(out: &mut dyn Write, bytes: u64, pattern: &[u8]) -> io::Result<()> {
    let chunk: Vec<u8> =
        pattern.iter().copied().cycle().take(pattern.len() * (65536 / pattern.len())).collect();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(chunk.len() as u64) as usize;
        out.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    out.flush()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            if position <= chunk.len() {
                text.push(ALPHABET[(word >> (18 - 6 * position)) as usize & 63] as char);
            } else {
                text.push('=');
            }
        }
    }
    text
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let digits: Vec<u32> = text
        .trim_end_matches('=')
        .bytes()
        .map(|b| ALPHABET.iter().position(|a| *a == b).map(|at| at as u32))
        .collect::<Option<_>>()?;
    for chunk in digits.chunks(4) {
        let word = chunk.iter().fold(0u32, |word, d| word << 6 | d) << (6 * (4 - chunk.len()));
        bytes.extend((0..chunk.len().checked_sub(1)?).map(|at| (word >> (16 - 8 * at)) as u8));
    }
    Some(bytes)
}

/// A string of the server's with escape sequences, when the flags ask for them everywhere.
pub(crate) fn paint(flags: &Flags, text: &str) -> String {
    if flags.ansi.is_some() {
        format!("\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m{text}\rlone\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Caps around which `--multibyte-result` places its characters.
pub(crate) const LIKELY_CAPS: [usize; 17] = [
    100, 200, 256, 512, 1000, 1024, 2000, 2048, 4096, 8192, 10_000, 16_384, 32_768, 65_536, 131_072, 524_288,
    1_048_576,
];

/// Text in which no likely cap, give or take one byte, is a character boundary that a byte cut would hit by luck.
pub(crate) fn multibyte_text() -> String {
    let mut text = String::with_capacity(1_060_000);
    for cap in LIKELY_CAPS {
        // 4 + 3 bytes before, a 2-byte character over the cap, 3 + 4 bytes after, then a combining mark.
        let start = cap - 8;
        while text.len() < start {
            text.push('a');
        }
        text.push_str("🎉漢é漢🎉e\u{301}");
    }
    text + "end"
}
