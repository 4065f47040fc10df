//! JSON strings as they stand in the bytes: finding their end, comparing keys and
//! undoing escapes. Called by `cursor`, `envelope` and `splice`; never changes what it is given.

use std::borrow::Cow;

/// Whether the text between the quotes of a key names `key`, also when it is
/// written with escapes (`"\u0069d"` is `id`): parsers of other peers see no difference.
/// `key` is ASCII.
pub(crate) fn key_is(raw: &[u8], key: &str) -> bool {
    if raw == key.as_bytes() {
        return true;
    }
    // An escape only makes a text longer.
    raw.len() > key.len() && memchr::memchr(b'\\', raw).is_some() && unescaped(raw).is_some_and(|k| k == key)
}

/// The text between the quotes of a string with its escapes undone; `None` when it is
/// not UTF-8 or has a lone surrogate, which no text can hold.
pub(crate) fn unescaped(raw: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(raw).ok()?;
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let quoted = format!("\"{text}\"");
    serde_json::from_str::<String>(&quoted).ok().map(Cow::Owned)
}

/// Longest stretch that is looked at in words before blocks are tried, in bytes.
const WORDS_MAX: usize = 48;
const BLOCK: usize = 64;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Offset, from `from` on, of the first byte that plain text of a string can't hold: a quote, a backslash
/// or a control character; the length of `bytes` if there is none.
pub(super) fn plain_until(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        let words_end = at.saturating_add(WORDS_MAX);
        while at < words_end {
            let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
                let rest = bytes.get(at..).unwrap_or_default();
                return rest.iter().position(|&b| is_special(b)).map_or(bytes.len(), |found| at + found);
            };
            let found = specials(u64::from_le_bytes(*word));
            if found != 0 {
                return at + (found.trailing_zeros() / 8) as usize;
            }
            at += 8;
        }
        // Long text: the compiler makes vector code of this.
        while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>)
            && !block.iter().fold(false, |any, &b| any | is_special(b))
        {
            at += BLOCK;
        }
    }
}

fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// The high bit of every byte up to the first special one is right; those above it may be set wrongly.
fn specials(word: u64) -> u64 {
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero_in(word ^ (ONES * u64::from(b'"')));
    let backslash = zero_in(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGHS
}
