//! Floor 1. The head file: the last line of the log, said a second time in another place, so that a
//! log that was cut off at its end is noticed. Of a fixed length, so that one write replaces it.

use serde::{Deserialize, Serialize};

use super::chain::{Key, Mac, Tip};

/// Bytes of the file.
pub const HEAD_BYTES: usize = 320;

/// What the head file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last line.
    pub tip: Tip,
    /// Number of the first line of the current file: what it will be called once it is full.
    pub segment: u64,
    /// Length of the current file after that line, bytes.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Text {
    v: u8,
    seq: u64,
    mac: String,
    segment: u64,
    bytes: u64,
    seal: String,
}

/// What stands in a head file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing: there is none.
    Missing,
    /// Something that was not sealed with the key.
    Forged,
    /// A head.
    Sound(Head),
}

impl Head {
    /// The content of the file.
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let (seq, mac) = (self.tip.seq, self.tip.mac.hex());
        let sealed = format!("{seq} {mac} {} {}", self.segment, self.bytes);
        let seal = key.head(sealed.as_bytes()).hex();
        let text =
            Text { v: super::record::VERSION, seq, mac, segment: self.segment, bytes: self.bytes, seal };
        let mut text = serde_json::to_vec(&text).unwrap_or_default();
        text.resize(HEAD_BYTES - 1, b' ');
        text.push(b'\n');
        text
    }

    /// Reads the content of a head file. Only what [`Head::encode`] writes is sound, byte for byte.
    pub fn decode(bytes: &[u8], key: &Key) -> Reading {
        if bytes.is_empty() {
            return Reading::Missing;
        }
        let head = serde_json::from_slice::<Text>(bytes).ok().and_then(|text| {
            let tip = Tip { seq: text.seq, mac: Mac::parse(text.mac.as_bytes())? };
            Some(Self { tip, segment: text.segment, bytes: text.bytes })
        });
        head.filter(|head| head.encode(key) == bytes).map_or(Reading::Forged, Reading::Sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_was_touched_is_forged() {
        let key = Key::new(&[1; 32]);
        let head =
            Head { tip: Tip { seq: u64::MAX, mac: key.head(b"x") }, segment: u64::MAX, bytes: u64::MAX };
        let text = head.encode(&key);
        assert_eq!(text.len(), HEAD_BYTES);
        assert_eq!(Head::decode(&text, &key), Reading::Sound(head));
        for at in 0..text.len() {
            let mut touched = text.clone();
            touched[at] ^= 1;
            assert_eq!(Head::decode(&touched, &key), Reading::Forged, "byte {at}");
        }
        assert_eq!(Head::decode(&text[..100], &key), Reading::Forged);
        assert_eq!(Head::decode(&text, &Key::new(&[2; 32])), Reading::Forged);
        assert_eq!(Head::decode(b"", &key), Reading::Missing);
    }
}
