//! JSON as a tree over the bytes that were sent: repeated keys, lone surrogates and numbers of any
//! size are all still there. Its canonical form is that of RFC 8785, extended to what that leaves
//! out, so that two texts have the same form exactly when no reader can tell them apart. Called by
//! `pin`, `pin_diff` and `lint`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::wire::scan::DEPTH_MAX;

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    /// Members in the order of the text, repeated keys included.
    Object(Vec<(Text<'a>, Node<'a>)>),
    Array(Vec<Node<'a>>),
    Text(Text<'a>),
    /// A number as written.
    Number(&'a str),
    /// `true`, `false`, `null`; below the greatest depth a whole value as written.
    Word(&'a str),
}

/// A string as written, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn is_plain(self) -> bool {
        !self.0.contains('\\')
    }

    /// Its UTF-16 code units; a lone surrogate is one of them.
    fn units(self) -> Vec<u16> {
        let mut units = Vec::with_capacity(self.0.len());
        let mut rest = self.0.chars();
        let mut pair = [0u16; 2];
        while let Some(c) = rest.next() {
            let unit = if c == '\\' { unescape(&mut rest) } else { Err(c) };
            match unit {
                Ok(unit) => units.push(unit),
                Err(c) => units.extend_from_slice(c.encode_utf16(&mut pair)),
            }
        }
        units
    }

    /// The decoded text; a lone surrogate becomes U+FFFD.
    pub(super) fn decoded(self) -> Cow<'a, str> {
        if self.is_plain() {
            Cow::Borrowed(self.0)
        } else {
            Cow::Owned(String::from_utf16_lossy(&self.units()))
        }
    }

    fn order(self, other: Self) -> Ordering {
        if self.is_plain() && other.is_plain() {
            self.0.encode_utf16().cmp(other.0.encode_utf16())
        } else {
            self.units().cmp(&other.units())
        }
    }

    fn write(self, out: &mut String) {
        out.push('"');
        if self.is_plain() {
            out.push_str(self.0);
        } else {
            for unit in char::decode_utf16(self.units()) {
                match unit {
                    Ok('"') => out.push_str("\\\""),
                    Ok('\\') => out.push_str("\\\\"),
                    Ok('\u{8}') => out.push_str("\\b"),
                    Ok('\t') => out.push_str("\\t"),
                    Ok('\n') => out.push_str("\\n"),
                    Ok('\u{c}') => out.push_str("\\f"),
                    Ok('\r') => out.push_str("\\r"),
                    Ok(c) if c < ' ' => {
                        let _ = write!(out, "\\u{:04x}", u32::from(c));
                    }
                    Ok(c) => out.push(c),
                    // Nothing else is ever written so.
                    Err(lone) => {
                        let _ = write!(out, "\\u{:04x}", lone.unpaired_surrogate());
                    }
                }
            }
        }
        out.push('"');
    }
}

/// What follows a backslash: a code unit, or a character that stands for itself.
fn unescape(rest: &mut std::str::Chars<'_>) -> Result<u16, char> {
    match rest.next() {
        Some('b') => Ok(8),
        Some('f') => Ok(12),
        Some('n') => Ok(10),
        Some('r') => Ok(13),
        Some('t') => Ok(9),
        Some('u') => {
            let digits = rest.as_str().get(..4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
            if digits.is_some() {
                rest.nth(3);
            }
            digits.ok_or('u')
        }
        Some(c) => Err(c),
        None => Err('\\'),
    }
}

impl<'a> Node<'a> {
    /// The tree of a JSON text; `None` when it is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut reader = Reader { text, at: 0 };
        let node = reader.value(0)?;
        reader.skip_space();
        (reader.at == text.len()).then_some(node)
    }

    /// The last member of that key, as most readers take it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(name, _)| name.decoded() == key).map(|(_, value)| value)
    }

    /// The canonical form: keys in the order of their UTF-16 code units, no white space, one way to
    /// write each string and number. A key that is repeated with the same value counts once; with
    /// another value every one of them counts.
    pub(super) fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Object(members) => write_object(members.iter().map(|(key, value)| (*key, value)), out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Text(text) => text.write(out),
            Self::Number(literal) => out.push_str(&number(literal)),
            Self::Word(word) => out.push_str(word),
        }
    }
}

/// The canonical form of an object of these members.
pub(super) fn write_object<'a, 'n: 'a>(
    members: impl Iterator<Item = (Text<'a>, &'n Node<'n>)>,
    out: &mut String,
) {
    let mut sorted: Vec<_> = members.collect();
    sorted.sort_by(|(a, _), (b, _)| a.order(*b));
    out.push('{');
    let mut seen: Vec<String> = Vec::new();
    let mut first = true;
    for (index, (key, value)) in sorted.iter().enumerate() {
        let same = |other: Option<&(Text<'_>, &Node<'_>)>| {
            other.is_some_and(|(other, _)| other.order(*key) == Ordering::Equal)
        };
        let repeats = index > 0 && same(sorted.get(index - 1));
        if !repeats {
            seen.clear();
        }
        let start = out.len();
        if !first {
            out.push(',');
        }
        key.write(out);
        out.push(':');
        let value_at = out.len();
        value.write(out);
        if repeats || same(sorted.get(index + 1)) {
            let written = out[value_at..].to_owned();
            if seen.contains(&written) {
                out.truncate(start);
                continue;
            }
            seen.push(written);
        }
        first = false;
    }
    out.push('}');
}

/// Greatest whole number up to which a double holds each exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A number as RFC 8785 writes it (the shortest text of its double, as in ECMAScript). What no double
/// holds stays as it was written: whole numbers beyond 2^53, and what would overflow or vanish.
pub(super) fn number(literal: &str) -> Cow<'_, str> {
    let Ok(value) = literal.parse::<f64>() else { return Cow::Borrowed(literal) };
    let is_whole = !literal.contains(['.', 'e', 'E']);
    if is_whole && value.abs() <= EXACT_MAX && literal.trim_start_matches('-').len() <= 15 {
        return Cow::Borrowed(if value == 0.0 { "0" } else { literal });
    }
    let nonzero =
        literal.split(['e', 'E']).next().is_some_and(|digits| digits.contains(|c| matches!(c, '1'..='9')));
    let is_lost = !value.is_finite() || (value == 0.0 && nonzero) || (is_whole && value.abs() >= EXACT_MAX);
    if is_lost { Cow::Borrowed(literal) } else { Cow::Owned(shortest(value)) }
}

/// ECMAScript's `Number::toString` of a finite double.
fn shortest(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Where two shortest texts are as near, the RFC wants the even one; so does serde_json.
    let written = serde_json::to_string(&value.abs()).unwrap_or_default();
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let (whole, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{rest}");
    let digits = all.trim_start_matches('0');
    // The value is 0.DIGITS times ten to the power of `point`.
    let leading =
        i32::try_from(whole.len()).unwrap_or(0) - i32::try_from(all.len() - digits.len()).unwrap_or(0);
    let point = exponent.parse::<i32>().unwrap_or(0) + leading;
    let digits = digits.trim_end_matches('0');
    let len = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let text = if len <= point && point <= 21 {
        format!("{digits}{}", zeros(point - len))
    } else if 0 < point && point <= 21 {
        let (whole, rest) = digits.split_at(usize::try_from(point).unwrap_or(0));
        format!("{whole}.{rest}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (head, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{head}{dot}{rest}e{}{}", if point > 0 { "+" } else { "-" }, (point - 1).abs())
    };
    if value < 0.0 { format!("-{text}") } else { text }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is no space, taken when it is this one.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Option<Node<'a>> {
        self.skip_space();
        match self.peek()? {
            b'{' | b'[' if depth >= DEPTH_MAX => self.whole().map(Node::Word),
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Node::Text),
            b'-' | b'0'..=b'9' => Some(Node::Number(
                self.run(|b| !matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')),
            )),
            b't' | b'f' | b'n' => Some(Node::Word(self.run(|b| b.is_ascii_lowercase()))),
            _ => None,
        }
    }

    fn object(&mut self, depth: usize) -> Option<Node<'a>> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Some(Node::Object(members));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            if !self.take(b':') {
                return None;
            }
            members.push((key, self.value(depth + 1)?));
            if self.take(b'}') {
                return Some(Node::Object(members));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Node<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(Node::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Some(Node::Array(items));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn string(&mut self) -> Option<Text<'a>> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let start = self.at + 1;
        let mut at = start;
        loop {
            match self.text.as_bytes().get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        self.text.get(start..at).map(Text)
    }

    /// A whole object or array, not looked into.
    fn whole(&mut self) -> Option<&'a str> {
        let start = self.at;
        let mut open = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return self.text.get(start..self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests;
