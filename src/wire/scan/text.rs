//! JSON strings as they stand in the bytes: comparing keys and undoing escapes.
//! Called by `envelope`, `splice` and `era`; never changes what it is given.

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
