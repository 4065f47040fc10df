//! Takes secrets out of text: every known value in every encoding that it may come
//! back in, and whatever has the form of a secret. One redactor serves the whole
//! process; all views, logs and errors go through it. Never looks at a key's name to
//! judge a value that is not text (schemas stay whole). Called by actors and edges.

mod encodings;
mod stream;

pub use stream::Stream;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use self::encodings::encodings;
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

/// Shortest piece of a known value that is hidden at a cut end of a text, in bytes.
pub const PIECE_LEN_MIN: usize = 6;
/// Values that are known at most; beyond that the oldest are forgotten.
pub const VALUES_MAX: usize = 4096;

/// Knows the secrets. Cheap to share, never shows what it knows.
#[derive(Clone, Default)]
pub struct Redactor {
    anywhere: Option<Patterns>,
    words: Option<Patterns>,
    values: Arc<[SecretText]>,
}

/// Patterns, and the value that each comes from.
#[derive(Clone)]
struct Patterns {
    automaton: AhoCorasick,
    /// Sorted; the automaton has them in this order.
    sorted: Arc<[Vec<u8>]>,
    /// The number of the value behind each.
    of_value: Arc<[usize]>,
    len_max: usize,
}

impl Patterns {
    fn new(patterns: BTreeMap<Vec<u8>, usize>) -> Option<Self> {
        let (sorted, of_value): (Vec<_>, Vec<_>) = patterns.into_iter().unzip();
        if sorted.is_empty() {
            return None;
        }
        // All matches are taken and joined, so that of two values that overlap no rest is shown.
        // Encodings begin with every kind of byte: a search for rare ones only costs.
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::Standard).prefilter(false).build(&sorted).ok()?;
        let len_max = sorted.iter().map(Vec::len).max().unwrap_or_default();
        Some(Self { automaton, sorted: sorted.into(), of_value: of_value.into(), len_max })
    }

    fn spans(&self, text: &[u8]) -> impl Iterator<Item = Range<usize>> {
        self.automaton.find_overlapping_iter(text).map(|found| found.range())
    }

    /// How many bytes at the end of the text are the beginning of a pattern that goes on.
    fn begun(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.len_max.saturating_sub(1));
        let begins = |at: &usize| {
            let tail = &text[*at..];
            let place = self.sorted.partition_point(|pattern| pattern.as_slice() < tail);
            self.sorted.get(place).is_some_and(|pattern| {
                pattern.starts_with(tail)
                    && (pattern.len() > tail.len()
                        || self.sorted.get(place + 1).is_some_and(|next| next.starts_with(tail)))
            })
        };
        (first..text.len()).find(begins).map_or(0, |at| text.len() - at)
    }

    /// How many bytes at the front of the text are the end of a pattern that began before it.
    fn ended(&self, text: &[u8]) -> usize {
        let longest = |pattern: &Vec<u8>| {
            let from = pattern.len().saturating_sub(text.len()).max(1);
            (from..pattern.len())
                .map(|at| &pattern[at..])
                .find(|tail| text.starts_with(tail))
                .map_or(0, <[u8]>::len)
        };
        self.sorted.iter().map(longest).max().unwrap_or_default()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

impl Redactor {
    /// A redactor for these values.
    pub fn new(secrets: &[SecretText]) -> Self {
        let (mut anywhere, mut words) = (BTreeMap::new(), BTreeMap::new());
        for (number, secret) in secrets.iter().enumerate() {
            let value = secret.reveal().trim();
            if MARK.contains(value) {
                continue;
            }
            if value.len() >= VALUE_LEN_MIN {
                let lines =
                    value.lines().map(str::trim).filter(|line| line.len() >= LINE_LEN_MIN && *line != value);
                let lines = lines.map(|line| line.as_bytes().to_vec());
                anywhere.extend(encodings(value).into_iter().chain(lines).map(|form| (form, number)));
            } else if value.len() >= WORD_LEN_MIN && is_mixed(value) {
                words.insert(value.as_bytes().to_vec(), number);
            }
        }
        Self { values: secrets.into(), anywhere: Patterns::new(anywhere), words: Patterns::new(words) }
    }

    /// A redactor that knows these values too; `None` when it knows them already.
    pub fn with(&self, more: &[SecretText]) -> Option<Self> {
        let known: BTreeSet<&str> = self.values.iter().map(SecretText::reveal).collect();
        let mut new: Vec<SecretText> =
            more.iter().filter(|value| !known.contains(value.reveal())).cloned().collect();
        new.dedup();
        if new.is_empty() {
            return None;
        }
        let mut all: Vec<SecretText> = self.values.iter().cloned().chain(new).collect();
        all.drain(..all.len().saturating_sub(VALUES_MAX));
        Some(Self::new(&all))
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

    /// As `text`, for a piece that was cut out of something longer, or is one of several messages:
    /// what its ends have of a known value is hidden too, from [`PIECE_LEN_MIN`] bytes on.
    pub fn piece<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = self.spans_of_values(text.as_bytes());
        shapes::find(text.as_bytes(), &mut spans);
        let ends = |of: fn(&Patterns, &[u8]) -> usize| {
            let len = self.anywhere.as_ref().map_or(0, |values| of(values, text.as_bytes()));
            if len >= PIECE_LEN_MIN { len } else { 0 }
        };
        let (front, back) = (ends(Patterns::ended), text.len() - ends(Patterns::begun));
        // A known value is text, but its encodings may be cut anywhere: whole characters go.
        spans.push(0..boundary(text, front, |at| at + 1));
        spans.push(boundary(text, back, |at| at.saturating_sub(1))..text.len());
        spans.retain(|span| !span.is_empty());
        replace_in(text, spans)
    }

    /// Whether a known value is in there, in any encoding.
    pub fn holds_value(&self, bytes: &[u8]) -> bool {
        !self.spans_of_values(bytes).is_empty()
    }

    /// The numbers of the values (of `new`'s argument) that are in there, in any encoding; only
    /// those of at least [`VALUE_LEN_MIN`] bytes. For refusing to send them on.
    pub fn values_in(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let Some(values) = &self.anywhere else { return BTreeSet::new() };
        let found = values.automaton.find_overlapping_iter(bytes);
        found.filter_map(|found| values.of_value.get(found.pattern().as_usize()).copied()).collect()
    }

    /// Length of the longest form of a known value, in bytes.
    fn len_max(&self) -> usize {
        [&self.anywhere, &self.words]
            .into_iter()
            .flatten()
            .map(|patterns| patterns.len_max)
            .max()
            .unwrap_or_default()
    }

    /// How many bytes at the end of the text are the beginning of a known value that goes on.
    fn begun(&self, text: &[u8]) -> usize {
        self.anywhere.as_ref().map_or(0, |values| values.begun(text))
    }

    fn spans_of_values(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        if let Some(values) = &self.anywhere {
            spans.extend(values.spans(text));
        }
        if let Some(words) = &self.words {
            let alone =
                |at: Option<&u8>| at.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_' && *b < 0x80);
            spans.extend(words.spans(text).filter(|span| {
                alone(span.start.checked_sub(1).and_then(|at| text.get(at))) && alone(text.get(span.end))
            }));
        }
        spans
    }
}

/// The next boundary of a character from `at` on, in the direction of `step`.
fn boundary(text: &str, mut at: usize, step: fn(usize) -> usize) -> usize {
    while !text.is_char_boundary(at) {
        at = step(at);
    }
    at
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

#[cfg(test)]
mod tests;
