//! Edits of the top level of one JSON object inside bytes that are kept: members are set,
//! removed or added, all else stays where it is. Called by `request` and `answer`.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::Parts;
use crate::wire::scan::{Cursor, Member, ScanError, key_is};

/// From this length on, in bytes, untouched bytes are a slice of their own; shorter ones are copied together.
pub(super) const SLICE_MIN: usize = 4096;

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

/// Adds a text as a JSON string.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    // Names and methods hardly ever hold anything that must be escaped.
    if text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// What the members that are added take, as a rule, in bytes.
const ADDED_ROOM: usize = 64;
/// What an edit of a message may add, as a rule, in bytes.
pub(super) const ROOM: usize = 256;

/// One replacement: these bytes stand in place of that range.
pub(super) type Cut = (Range<usize>, Cow<'static, [u8]>);

/// A member that may be edited, and what is needed to take it out.
struct Touched {
    /// Which of `Object::keys` it is.
    key: usize,
    /// Its place among all members.
    index: usize,
    member: Member,
    /// End of the value before it.
    before: Option<usize>,
    /// Start of the key behind it, with its quote.
    behind: Option<usize>,
    removed: bool,
}

/// An object under edit. Remembers only the members that the edits may be about.
pub(super) struct Object<'k> {
    keys: &'k [&'k str],
    touched: Vec<Touched>,
    /// How many members it has.
    count: usize,
    /// Where members are added: behind the last one, or behind the opening bracket.
    end: usize,
    cuts: Vec<Cut>,
    added: Vec<u8>,
}

impl<'k> Object<'k> {
    /// Walks the object whose bracket is next at the cursor over `bytes` and remembers the
    /// members whose key is one of `keys`. `base` is added to all offsets.
    pub(super) fn walk(
        cursor: &mut Cursor<'_>,
        bytes: &[u8],
        base: usize,
        keys: &'k [&'k str],
    ) -> Result<Self, ScanError> {
        let mut object = Self {
            keys,
            touched: Vec::with_capacity(keys.len()),
            count: 0,
            end: 0,
            cuts: Vec::new(),
            added: Vec::with_capacity(ADDED_ROOM),
        };
        object.end = base + cursor.at() + 1;
        let mut more = cursor.open(b'}')?;
        let mut before = None;
        let mut last_is_touched = false;
        while more {
            let (found, another) = cursor.member()?;
            let key = keys.iter().position(|key| key_is(&bytes[found.key.clone()], key));
            let member = Member {
                key: base + found.key.start - 1..base + found.key.end + 1,
                value: base + found.value.start..base + found.value.end,
            };
            if last_is_touched && let Some(last) = object.touched.last_mut() {
                last.behind = Some(member.key.start);
            }
            last_is_touched = key.is_some();
            object.end = member.value.end;
            if let Some(key) = key {
                let index = object.count;
                let member = member.clone();
                object.touched.push(Touched { key, index, member, before, behind: None, removed: false });
            }
            before = Some(member.value.end);
            object.count += 1;
            more = another;
        }
        Ok(object)
    }

    /// The value that the last member of this key has.
    pub(super) fn value(&self, key: &str) -> Option<Range<usize>> {
        let last = self.touched.iter().rev().find(|t| self.keys[t.key] == key && !t.removed)?;
        Some(last.member.value.clone())
    }

    /// Removes all members of this key but the last.
    pub(super) fn keep_last(&mut self, key: &str) {
        let mut seen = false;
        for touched in self.touched.iter_mut().rev().filter(|t| self.keys[t.key] == key) {
            touched.removed |= seen;
            seen = true;
        }
    }

    /// Removes all members of this key.
    pub(super) fn remove(&mut self, key: &str) {
        for touched in self.touched.iter_mut().filter(|t| self.keys[t.key] == key) {
            touched.removed = true;
        }
    }

    /// Gives this key this value, once.
    pub(super) fn set(&mut self, key: &str, value: Vec<u8>) {
        self.keep_last(key);
        match self.value(key) {
            Some(span) => self.cuts.push((span, value.into())),
            None => self.add(key, |out| out.extend_from_slice(&value)),
        }
    }

    /// Adds a member behind all others; `value` writes it.
    pub(super) fn add(&mut self, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
        // The first comma goes if nothing stays before it.
        self.added.push(b',');
        push_quoted(&mut self.added, key);
        self.added.push(b':');
        value(&mut self.added);
    }

    /// All edits as replacements in no order.
    pub(super) fn into_cuts(mut self) -> Vec<Cut> {
        // Members up to here are all removed.
        let mut leading = 0;
        let mut removed = 0;
        for touched in self.touched.iter().filter(|t| t.removed) {
            removed += 1;
            let range = match (touched.index == leading, touched.before) {
                (false, Some(before)) => before..touched.member.value.end,
                _ => touched.member.key.start..touched.behind.unwrap_or(touched.member.value.end),
            };
            leading += usize::from(touched.index == leading);
            self.cuts.push((range, Cow::Borrowed(b"")));
        }
        if !self.added.is_empty() {
            if removed == self.count {
                self.added.remove(0);
            }
            self.cuts.push((self.end..self.end, self.added.into()));
        }
        self.cuts
    }
}

/// Puts a message together: short pieces are copied into one, long ones stay slices.
pub(super) struct Writer {
    parts: Parts,
    short: BytesMut,
}

impl Writer {
    /// An empty message; `room` is the length that is copied together, as far as it is known.
    pub(super) fn with_room(room: usize) -> Self {
        Self { parts: Parts::default(), short: BytesMut::with_capacity(room) }
    }

    /// Bytes that are copied.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.short.extend_from_slice(bytes);
    }

    /// A range of `source`, with replacements (in any order, not overlapping) made.
    pub(super) fn splice(&mut self, source: &Bytes, range: Range<usize>, mut cuts: Vec<Cut>) {
        cuts.sort_by_key(|(range, _)| (range.start, range.end));
        let mut at = range.start;
        for (cut, with) in cuts {
            self.keep(source, at..cut.start);
            self.copy(&with);
            at = cut.end;
        }
        self.keep(source, at..range.end);
    }

    fn keep(&mut self, source: &Bytes, range: Range<usize>) {
        if range.len() < SLICE_MIN {
            self.copy(&source[range]);
        } else {
            self.parts.push(self.short.split().freeze());
            self.parts.push(source.slice(range));
        }
    }

    pub(super) fn finish(mut self, tail: &[u8]) -> Parts {
        self.copy(tail);
        self.parts.push(self.short.freeze());
        self.parts
    }
}
