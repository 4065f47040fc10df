//! Floor 1. The chain: each line's `mac` is HMAC-SHA256 over the `mac` of the line before and the
//! line itself, so nobody without the key can change, drop, move or add a line unseen.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::record::{Line, Record};

/// Bytes of a key and of a mac.
pub const MAC_BYTES: usize = 32;
/// What stands between a line and its mac, and how a line ends.
const MAC_KEY: &[u8] = b",\"mac\":\"";
const END: &[u8] = b"\"}";

/// One link of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac([u8; MAC_BYTES]);

impl Mac {
    /// What stands before the first line.
    pub const ZERO: Self = Self([0; MAC_BYTES]);

    /// Of these bytes.
    pub(super) fn of(bytes: [u8; MAC_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> [u8; MAC_BYTES] {
        self.0
    }

    /// 64 hex digits, in small letters.
    pub fn hex(&self) -> String {
        let mut text = Vec::with_capacity(2 * MAC_BYTES);
        self.write_hex(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    pub(super) fn write_hex(&self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * MAC_BYTES];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            (pair[0], pair[1]) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
        }
        out.extend_from_slice(&text);
    }

    /// Reads exactly what [`Mac::hex`] writes: one form, so that no digit can be changed unseen.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; MAC_BYTES];
        if text.len() != 2 * MAC_BYTES {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// A few bits of it, never zero: enough to tell two lines apart that were both sealed with the key.
    pub(super) fn tag(&self) -> u64 {
        self.0.iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte)).max(1)
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

/// The secret that seals a log. Never shown.
#[derive(Clone)]
pub struct Key {
    lines: Hmac<Sha256>,
    arguments: Hmac<Sha256>,
    heads: Hmac<Sha256>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// The key of these bytes. What it is used for is kept apart: a head never passes for a line.
    pub fn new(bytes: &[u8; MAC_BYTES]) -> Self {
        let of = |purpose: &[u8]| {
            let root = keyed(bytes).chain_update(purpose).finalize().into_bytes();
            keyed(&root.into())
        };
        Self { lines: of(b"callboard audit line"), arguments: of(b"arguments"), heads: of(b"head") }
    }

    /// The mac of a line that follows one with `prev`.
    pub fn line(&self, prev: &Mac, body: &[u8]) -> Mac {
        finish(self.lines.clone().chain_update(prev.0).chain_update(body))
    }

    /// The keyed hash of the arguments of a call.
    pub fn arguments(&self, form: &[u8], text: &[u8]) -> Mac {
        finish(self.arguments.clone().chain_update(form).chain_update(text))
    }

    /// The seal of a head file.
    pub fn head(&self, text: &[u8]) -> Mac {
        finish(self.heads.clone().chain_update(text))
    }
}

fn keyed(key: &[u8; MAC_BYTES]) -> Hmac<Sha256> {
    // A key as long as this fits any block: `new` takes the block itself and can't refuse.
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..MAC_BYTES].copy_from_slice(key);
    <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block)
}

fn finish(mac: Hmac<Sha256>) -> Mac {
    Mac(mac.finalize().into_bytes().into())
}

/// The last line of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its number; 0 before the first.
    pub seq: u64,
    /// Its mac.
    pub mac: Mac,
}

impl Tip {
    /// Before the first line.
    pub const START: Self = Self { seq: 0, mac: Mac::ZERO };

    /// Appends `record` to `out` as the next line, with its line end, and moves on.
    pub fn seal(&mut self, key: &Key, record: &mut Record, out: &mut Vec<u8>) {
        (record.seq, record.prev) = (self.seq + 1, self.mac.hex());
        self.seal_line(key, &record.line(), out);
    }

    /// The same for what is not kept as a record.
    pub fn seal_line(&mut self, key: &Key, line: &Line<'_>, out: &mut Vec<u8>) {
        let (start, seq) = (out.len(), self.seq + 1);
        line.write(seq, &self.mac, out);
        let mac = key.line(&self.mac, &out[start..]);
        out.truncate(out.len() - 1);
        out.extend_from_slice(MAC_KEY);
        mac.write_hex(out);
        out.extend_from_slice(END);
        out.push(b'\n');
        *self = Self { seq, mac };
    }
}

/// A line whose form is right. Whether it is genuine, [`Sealed::is_genuine`] says.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// What it says.
    pub record: Record,
    /// The mac that it names as the one before.
    pub prev: Mac,
    /// Its own mac.
    pub mac: Mac,
    body: Vec<u8>,
}

impl Sealed {
    /// Takes a line apart, without its line end; `None` if it is not one of ours.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let tail = MAC_KEY.len() + 2 * MAC_BYTES + END.len();
        let at = line.len().checked_sub(tail)?;
        let (body, tail) = line.split_at(at);
        let mac = tail.strip_prefix(MAC_KEY)?.strip_suffix(END)?;
        let mac = Mac::parse(mac)?;
        let mut body = body.to_vec();
        body.push(b'}');
        let record: Record = serde_json::from_slice(&body).ok()?;
        let prev = Mac::parse(record.prev.as_bytes())?;
        Some(Self { record, prev, mac, body })
    }

    /// Whether it was sealed with this key, wherever it stands now.
    pub fn is_genuine(&self, key: &Key) -> bool {
        key.line(&self.prev, &self.body) == self.mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::record::Event;

    #[test]
    fn a_mac_has_one_spelling() {
        let mac = Key::new(&[7; 32]).head(b"x");
        assert_eq!(Mac::parse(mac.hex().as_bytes()), Some(mac));
        assert_eq!(Mac::parse(mac.hex().to_uppercase().as_bytes()), None);
        assert_eq!(Mac::parse(b"00"), None);
    }

    /// The chain can be checked with any HMAC-SHA256 over the same bytes.
    #[test]
    fn a_line_is_sealed_over_the_mac_before_and_its_own_bytes() {
        let key = Key::new(&[7; 32]);
        let mut tip = Tip::START;
        let mut out = Vec::new();
        tip.seal(&key, &mut Record::new(Event::Started, "b", "t"), &mut out);
        tip.seal(&key, &mut Record::new(Event::Finished, "b", "t"), &mut out);
        let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
        let (first, second) = (Sealed::parse(lines[0]).unwrap(), Sealed::parse(lines[1]).unwrap());
        assert_eq!((first.record.seq, second.record.seq), (1, 2));
        assert_eq!((first.prev, second.prev), (Mac::ZERO, first.mac));
        assert!(first.is_genuine(&key) && second.is_genuine(&key));
        assert!(!first.is_genuine(&Key::new(&[8; 32])));
        assert_eq!(lines[2], b"", "each line ends with its line end");
        assert_eq!(tip, Tip { seq: 2, mac: second.mac });
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", Key::new(&[7; 32])), "Key(…)");
    }
}
