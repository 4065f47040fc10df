//! Takes secrets out of text: every known value in every encoding that it may come
//! back in, and whatever has the form of a secret. One redactor serves the whole
//! process; all views, logs and errors go through it. Never looks at a key's name to
//! judge a value that is not text (schemas stay whole). Called by actors and edges.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::shapes;
use crate::config::spec::SecretText;

/// What stands where a secret was.
pub const MARK: &str = "[redacted]";
/// A value of at least this many bytes is hidden wherever it stands, in every encoding.
pub const VALUE_LEN_MIN: usize = 8;
/// A shorter one, down to this, is hidden as a word of its own, if it is more than a plain word or number.
pub const WORD_LEN_MIN: usize = 4;
/// Lines of a value of several lines (a private key) are values too, from this length on.
const LINE_LEN_MIN: usize = 16;

/// Knows the secrets. Cheap to share, never shows what it knows.
#[derive(Default)]
pub struct Redactor {
    anywhere: Option<AhoCorasick>,
    words: Option<AhoCorasick>,
    count: usize,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.count)
    }
}

impl Redactor {
    /// A redactor for these values.
    pub fn new(secrets: &[SecretText]) -> Self {
        let mut anywhere = HashSet::new();
        let mut words = HashSet::new();
        for secret in secrets {
            let value = secret.reveal().trim();
            if MARK.contains(value) {
                continue;
            }
            if value.len() >= VALUE_LEN_MIN {
                anywhere.extend(encodings(value));
                if value.lines().nth(1).is_some() {
                    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE_LEN_MIN);
                    anywhere.extend(lines.map(|line| line.as_bytes().to_vec()));
                }
            } else if value.len() >= WORD_LEN_MIN && is_mixed(value) {
                words.insert(value.as_bytes().to_vec());
            }
        }
        Self { count: secrets.len(), anywhere: automaton(anywhere), words: automaton(words) }
    }

    /// The text without known values and without anything of a secret's form.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = self.spans_of_values(text.as_bytes());
        shapes::find(text.as_bytes(), &mut spans);
        replace_in(text, spans)
    }

    /// The text without anything of a secret's form; `mark` says what stands in place of each.
    pub fn forms(text: &str, mark: &dyn Fn(&str) -> String) -> String {
        let mut spans = Vec::new();
        shapes::find(text.as_bytes(), &mut spans);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for span in merged(spans) {
            out.push_str(text.get(at..span.start).unwrap_or_default());
            out.push_str(&mark(text.get(span.clone()).unwrap_or_default()));
            at = span.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    /// The text without known values; forms are not judged. For content that is no message of ours.
    pub fn values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replace_in(text, self.spans_of_values(text.as_bytes()))
    }

    /// As `text`, for bytes that may not be UTF-8.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut spans = self.spans_of_values(bytes);
        shapes::find(bytes, &mut spans);
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for span in merged(spans) {
            out.extend_from_slice(&bytes[at..span.start]);
            out.extend_from_slice(MARK.as_bytes());
            at = span.end;
        }
        out.extend_from_slice(&bytes[at..]);
        Cow::Owned(out)
    }

    /// Whether a known value is in there, in any encoding: for refusing to send it on.
    pub fn holds_value(&self, bytes: &[u8]) -> bool {
        !self.spans_of_values(bytes).is_empty()
    }

    fn spans_of_values(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        if let Some(values) = &self.anywhere {
            spans.extend(values.find_overlapping_iter(text).map(|found| found.range()));
        }
        if let Some(words) = &self.words {
            let alone =
                |at: Option<&u8>| at.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_' && *b < 0x80);
            let found = words.find_overlapping_iter(text).map(|found| found.range());
            spans.extend(found.filter(|span| {
                alone(span.start.checked_sub(1).and_then(|at| text.get(at))) && alone(text.get(span.end))
            }));
        }
        spans
    }
}

fn automaton(patterns: HashSet<Vec<u8>>) -> Option<AhoCorasick> {
    if patterns.is_empty() {
        return None;
    }
    // All matches are taken and joined, so that of two values that overlap no rest is shown.
    AhoCorasick::builder().match_kind(MatchKind::Standard).build(patterns).ok()
}

fn replace_in(text: &str, spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in merged(spans) {
        // Patterns are text themselves, so their ends are ends of characters.
        out.push_str(text.get(at..span.start).unwrap_or_default());
        out.push_str(MARK);
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(out)
}

/// Sorted, and joined where they overlap.
fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut out: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => out.push(span),
        }
    }
    out
}

/// Short values that are a plain word or a plain number are too common to hide.
fn is_mixed(value: &str) -> bool {
    let any = |test: fn(char) -> bool| value.chars().any(test);
    let (letter, digit) = (any(char::is_alphabetic), any(|c| c.is_ascii_digit()));
    let other = any(|c| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_' | '/' | ':'));
    (letter && (digit || other)) || (digit && other)
}

/// The forms in which a value may come back.
fn encodings(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let mut forms: Vec<Vec<u8>> = vec![
        bytes.to_vec(),
        percent(bytes, false, true).into_bytes(),
        percent(bytes, false, false).into_bytes(),
        percent(bytes, true, true).into_bytes(),
        json(value, false).into_bytes(),
        json(value, true).into_bytes(),
        bytes.iter().map(|b| format!("{b:02x}")).collect::<String>().into_bytes(),
        bytes.iter().map(|b| format!("{b:02X}")).collect::<String>().into_bytes(),
    ];
    forms.push(json(value, false).replace('/', "\\/").into_bytes());
    for shift in 0..3 {
        forms.extend(inside_base64(bytes, shift).into_iter().map(String::into_bytes));
    }
    forms.push(STANDARD.encode(bytes).into_bytes());
    forms.push(URL_SAFE.encode(bytes).into_bytes());
    forms.push(STANDARD.encode(bytes).trim_end_matches('=').as_bytes().to_vec());
    forms.push(URL_SAFE.encode(bytes).trim_end_matches('=').as_bytes().to_vec());
    forms
}

/// `application/x-www-form-urlencoded` (`plus`) or URL encoding of everything that is not unreserved.
fn percent(bytes: &[u8], plus: bool, upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut out, &b| {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(b)),
            b' ' if plus => out.push('+'),
            _ if upper => out += &format!("%{b:02X}"),
            _ => out += &format!("%{b:02x}"),
        }
        out
    })
}

/// As JSON writes it inside a string, with or without `\u` for everything outside ASCII.
fn json(value: &str, ascii: bool) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    let inner = &quoted[1..quoted.len() - 1];
    if !ascii {
        return inner.to_owned();
    }
    inner.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        }
        out
    })
}

/// The characters of base64 that depend on the value alone when it stands `shift` bytes
/// after a group boundary, in both alphabets: so `user:value` in a `Basic` header is found.
fn inside_base64(value: &[u8], shift: usize) -> Vec<String> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(value);
    let head = [0, 2, 3][shift];
    let whole = padded.len() * 8 / 6;
    [STANDARD.encode(&padded), URL_SAFE.encode(&padded)]
        .into_iter()
        .filter_map(|text| text.get(head..whole).map(str::to_owned))
        .filter(|text| text.len() >= VALUE_LEN_MIN)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        Redactor::new(&values.iter().map(|v| SecretText::new(*v)).collect::<Vec<_>>())
    }

    #[test]
    fn known_value_is_hidden_in_every_encoding() {
        let value = "pä$s \"word\"/+&=\\1";
        let redactor = redactor(&[value]);
        for text in [
            value.to_owned(),
            percent(value.as_bytes(), false, true),
            percent(value.as_bytes(), false, false),
            percent(value.as_bytes(), true, true),
            serde_json::to_string(value).unwrap(),
            STANDARD.encode(value),
            URL_SAFE.encode(value).trim_end_matches('=').to_owned(),
            value.bytes().map(|b| format!("{b:02x}")).collect(),
            r#"p\u00e4$s \"word\"/+&=\\1"#.to_owned(),
            r#"pä$s \"word\"\/+&=\\1"#.to_owned(),
        ] {
            let out = redactor.values(&format!("<{text}>")).into_owned();
            assert!(out.contains(MARK), "{text}");
            assert!(out.len() <= MARK.len() + 6, "{text}: {out}");
            assert!(redactor.holds_value(text.as_bytes()));
        }
    }

    #[test]
    fn value_inside_a_basic_header_is_hidden_at_every_offset() {
        let redactor = redactor(&["opensesame42"]);
        for user in ["", "a", "ab", "abc", "user"] {
            for tail in ["", "x", "xy"] {
                let header = STANDARD.encode(format!("{user}:opensesame42{tail}"));
                let out = redactor.values(&header).into_owned();
                assert!(out.contains(MARK), "{header}");
                let rest = out.replace(MARK, "");
                assert!(rest.len() + 13 <= header.len(), "{header}: {out}");
            }
        }
    }

    #[test]
    fn overlapping_values_leave_no_rest() {
        let redactor = redactor(&["abcdefgh", "efghijkl", "abcdefgh-longer"]);
        assert_eq!(redactor.text("1 abcdefghijkl 2"), "1 [redacted] 2");
        assert_eq!(redactor.text("abcdefgh-longer"), "[redacted]");
        assert_eq!(redactor.text("abcdefghabcdefgh"), "[redacted][redacted]");
    }

    #[test]
    fn short_values_are_hidden_as_words_only() {
        let redactor = redactor(&["pw1x", "true", "8080", "abc", "1.2", "p$w", "pa$s"]);
        assert_eq!(redactor.text("pw1x, \"pw1x\" xpw1x pw1xy"), "[redacted], \"[redacted]\" xpw1x pw1xy");
        assert_eq!(redactor.text("true 8080 abc 1.2 p$w"), "true 8080 abc 1.2 p$w");
        assert_eq!(redactor.text("(pa$s)"), "([redacted])");
    }

    #[test]
    fn limits_of_length_hold_at_one_below_at_and_one_above() {
        for (value, text, hidden) in [
            ("a1b2c3d", "xa1b2c3dx", false),
            ("a1b2c3d4", "xa1b2c3d4x", true),
            ("a1b2c3d4e", "xa1b2c3d4ex", true),
            ("a1b", "a1b", false),
            ("a1b2", "a1b2", true),
            ("a1b2c", "a1b2c", true),
        ] {
            assert_eq!(redactor(&[value]).text(text) != text, hidden, "{value}");
        }
    }

    #[test]
    fn every_line_of_a_key_file_is_hidden() {
        let key = "-----BEGIN X KEY-----\nMIIEpAIBAAKCAQEAx1\nAbCdEfGhIjKlMnOpQr\n-----END X KEY-----\n";
        let redactor = redactor(&[key]);
        let out = redactor.text("read AbCdEfGhIjKlMnOpQr from file").into_owned();
        assert_eq!(out, "read [redacted] from file");
        assert_eq!(redactor.text(key.trim()), MARK);
    }

    #[test]
    fn redactor_never_shows_what_it_knows() {
        assert_eq!(format!("{:?}", redactor(&["opensesame42"])), "Redactor(1 values)");
    }

    #[test]
    fn mark_survives_values_that_look_like_it() {
        let redactor = redactor(&["redacted", "[redacted]", ""]);
        assert_eq!(redactor.text("[redacted] redacted"), "[redacted] redacted");
    }

    #[test]
    fn bytes_that_are_no_text_are_redacted_too() {
        let redactor = redactor(&["opensesame42"]);
        let out = redactor.bytes(b"\xff opensesame42 \xfe ghp_0123456789012345678901234567890123");
        assert_eq!(&out[..], b"\xff [redacted] \xfe [redacted]");
        assert!(matches!(redactor.bytes(b"plain"), Cow::Borrowed(_)));
        assert!(matches!(redactor.text("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn forms_are_hidden_without_knowing_the_value() {
        let none = Redactor::default();
        assert_eq!(none.text("Authorization: Bearer abc123def456"), "Authorization: Bearer [redacted]");
        assert_eq!(
            none.text("https://u:pw@h/?token=x1yz&n=1"),
            "https://u:[redacted]@h/?token=[redacted]&n=1"
        );
        assert_eq!(none.values("Bearer abc123def456"), "Bearer abc123def456");
        let schema = r#"{"properties":{"token":{"type":"string"}},"nextPageToken":"abc12345678"}"#;
        assert_eq!(none.text(schema), schema);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn no_known_value_survives_and_a_second_pass_changes_nothing(
            values in proptest::collection::vec("[a-c1/+ é\"]{8,14}", 1..4),
            between in proptest::collection::vec("[a-c1 =:\"]{0,6}", 4),
            pick in proptest::collection::vec((0usize..4, 0usize..13), 3),
        ) {
            let redactor = redactor(&values.iter().map(String::as_str).collect::<Vec<_>>());
            let mut text = between[0].clone();
            for (i, (which, form)) in pick.iter().enumerate() {
                let value = values[which % values.len()].trim();
                if value.len() >= VALUE_LEN_MIN {
                    let forms = encodings(value);
                    text += std::str::from_utf8(&forms[form % forms.len()]).unwrap();
                }
                text += &between[i + 1];
            }
            let out = redactor.text(&text).into_owned();
            for value in values.iter().map(|v| v.trim()).filter(|v| v.len() >= VALUE_LEN_MIN) {
                for form in encodings(value) {
                    prop_assert!(!out.contains(std::str::from_utf8(&form).unwrap()), "{:?} in {:?}", value, out);
                }
            }
            prop_assert_eq!(redactor.text(&out).into_owned(), out.clone());
            let bytes = redactor.bytes(text.as_bytes()).into_owned();
            prop_assert_eq!(bytes, out.into_bytes());
        }

        #[test]
        fn any_text_is_taken_without_a_panic(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            static REDACTOR: std::sync::LazyLock<Redactor> =
                std::sync::LazyLock::new(|| redactor(&["opensesame42", "é€é€é€é€"]));
            let redactor = &*REDACTOR;
            let _ = (redactor.text(&text), redactor.bytes(&bytes), redactor.holds_value(&bytes));
        }
    }
}
