//! Spans of JSON values, found leniently: repeated keys, lone surrogates and numbers
//! of any size are no obstacle, broken JSON is `None`. Called by the catalogue only;
//! never builds a value and never copies one.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One member of an object; the spans are offsets into the bytes that were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The decoded key; as written when it can't be decoded.
    pub(crate) key: String,
    /// Span of the key, quotes included.
    pub(crate) key_span: Range<usize>,
    /// Span of the value.
    pub(crate) value: Range<usize>,
}

/// What kind of JSON value starts with this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// The kind of a well-formed value.
    pub(crate) fn of(value: &[u8]) -> Self {
        match value.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::Text,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// With its article, for messages.
    pub(crate) fn named(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        }
    }
}

/// The members of an object in order, repeated keys included; `None` when `bytes`
/// is no object or no JSON.
pub(crate) fn members(bytes: &[u8]) -> Option<Vec<Member>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let pairs: Pairs<'_> = serde_json::from_str(text).ok()?;
    Some(
        pairs
            .0
            .into_iter()
            .map(|(key, value)| Member {
                key: decode(key.get()).unwrap_or(Cow::Borrowed(key.get())).into_owned(),
                key_span: span_in(text, key.get()),
                value: span_in(text, value.get()),
            })
            .collect(),
    )
}

/// Spans of the elements of an array; `None` when `bytes` is no array or no JSON.
pub(crate) fn elements(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let raw: Elements<'_> = serde_json::from_str(text).ok()?;
    Some(raw.0.into_iter().map(|value| span_in(text, value.get())).collect())
}

/// The text of a JSON string, escapes resolved; `None` for anything else, also for
/// a lone surrogate.
pub(crate) fn decode(value: &str) -> Option<Cow<'_, str>> {
    if !value.starts_with('"') {
        return None;
    }
    let inner = value.get(1..value.len().checked_sub(1)?)?;
    if inner.contains('\\') {
        serde_json::from_str(value).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// As `decode`, for bytes.
pub(crate) fn text(value: &[u8]) -> Option<String> {
    decode(std::str::from_utf8(value).ok()?).map(Cow::into_owned)
}

/// `text` cut to at most `len_max` bytes, on a character boundary.
pub(crate) fn cut(text: &str, len_max: usize) -> &str {
    let mut end = len_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `part` is a slice of `whole`: the offsets follow from the addresses.
fn span_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Walk)
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Elements(items))
            }
        }
        deserializer.deserialize_seq(Walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_key_and_value_exactly() {
        let json = r#" { "a" : [1, 2] , "b\u0041":{"x":"}"}, "a":1e999 } "#;
        let found = members(json.as_bytes()).unwrap();
        let parts: Vec<_> = found
            .iter()
            .map(|m| (m.key.as_str(), &json[m.key_span.clone()], &json[m.value.clone()]))
            .collect();
        assert_eq!(
            parts,
            [("a", r#""a""#, "[1, 2]"), ("bA", r#""b\u0041""#, r#"{"x":"}"}"#), ("a", r#""a""#, "1e999")]
        );
    }

    #[test]
    fn lone_surrogates_and_huge_numbers_do_not_hide_the_rest() {
        let json = r#"{"\ud800":"\udfff","n":123456789012345678901234567890}"#;
        let found = members(json.as_bytes()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].key, r#""\ud800""#);
        assert_eq!(&json[found[1].value.clone()], "123456789012345678901234567890");
    }

    #[test]
    fn other_kinds_and_broken_json_are_none() {
        for json in ["[]", "1", "{", r#"{"a":}"#, "{} x", ""] {
            assert_eq!(members(json.as_bytes()), None, "{json}");
        }
        for json in ["{}", "1", "[1,", "[1]]"] {
            assert_eq!(elements(json.as_bytes()), None, "{json}");
        }
        assert_eq!(members(b"{\"a\":\"\xff\"}"), None);
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 3), "");
    }

    #[test]
    fn only_strings_decode() {
        assert_eq!(text(br#""a\n\u00e9""#).as_deref(), Some("a\né"));
        assert_eq!(text(br#""\ud800""#), None);
        assert_eq!(text(b"1"), None);
        assert_eq!(text(b"\""), None);
    }
}
