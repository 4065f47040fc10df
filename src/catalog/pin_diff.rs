//! What changed between two definitions of a tool, for the person who has to judge it: by JSON path,
//! and within a text by words. Data first; the lines are made of it. Everything comes out on one line,
//! with what can't be seen written as its code point, so that no server's text moves a terminal or
//! hides a change. Bounded. Pure; redacting is up to whoever shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tree::Node;

/// Changes that are listed; more are counted.
pub const CHANGES_MAX: usize = 100;
/// Longest value that is shown, in characters.
const VALUE_CHARS_MAX: usize = 400;
/// Texts up to this many words are compared word by word.
const WORDS_MAX: usize = 600;
/// Words that stay beside a change.
const CONTEXT_WORDS: usize = 4;

/// What happened at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It has another value.
    Changed,
    /// The same elements stand in another order.
    Reordered,
}

/// A run of words of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Words {
    /// `same`, `added` or `removed`.
    pub kind: &'static str,
    /// The words.
    pub text: String,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where, as in `inputSchema.properties.path.type`; elements as `[2]`.
    pub path: String,
    /// What happened.
    pub kind: Kind,
    /// The value before, as JSON, cut.
    pub before: Option<String>,
    /// The value now, as JSON, cut.
    pub after: Option<String>,
    /// A changed text by words; empty when it is no text, or too long.
    pub words: Vec<Words>,
}

/// All changes, in the order of the canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// At most [`CHANGES_MAX`].
    pub changes: Vec<Change>,
    /// How many more there are.
    pub more: usize,
}

/// Compares two canonical definitions (see `pin::canonical`).
pub fn diff(before: &str, after: &str) -> Diff {
    let mut found = Diff::default();
    match (Node::parse(before), Node::parse(after)) {
        (Some(before), Some(after)) => compare("", &before, &after, &mut found),
        _ if before != after => found.push(Change {
            path: String::new(),
            kind: Kind::Changed,
            before: Some(visible(before)),
            after: Some(visible(after)),
            words: Vec::new(),
        }),
        _ => {}
    }
    found
}

impl Diff {
    fn push(&mut self, change: Change) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(change);
        } else {
            self.more += 1;
        }
    }

    /// One line for each change, words under it.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for change in &self.changes {
            let path = if change.path.is_empty() { "the definition" } else { &change.path };
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            match change.kind {
                Kind::Added => lines.push(format!("+ {path}: {}", after.unwrap_or_default())),
                Kind::Removed => lines.push(format!("- {path}: {}", before.unwrap_or_default())),
                Kind::Reordered => {
                    lines.push(format!("~ {path}: in another order"));
                    lines.push(format!("    - {}", before.unwrap_or_default()));
                    lines.push(format!("    + {}", after.unwrap_or_default()));
                }
                Kind::Changed if change.words.is_empty() => {
                    lines.push(format!("~ {path}"));
                    lines.push(format!("    - {}", before.unwrap_or_default()));
                    lines.push(format!("    + {}", after.unwrap_or_default()));
                }
                Kind::Changed => {
                    lines.push(format!("~ {path}"));
                    lines.push(format!("    {}", in_line(&change.words)));
                }
            }
        }
        if self.more > 0 {
            lines.push(format!("and {} more changes", self.more));
        }
        lines
    }
}

/// Words in one line: `[-gone-]`, `{+new+}`, what stays shortened to what stands beside.
fn in_line(words: &[Words]) -> String {
    let parts = words.iter().enumerate().map(|(index, run)| match run.kind {
        "added" => format!("{{+{}+}}", run.text),
        "removed" => format!("[-{}-]", run.text),
        _ => beside(&run.text, index > 0, index + 1 < words.len()),
    });
    parts.collect::<Vec<_>>().join(" ")
}

fn beside(text: &str, after_change: bool, before_change: bool) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let room = CONTEXT_WORDS * (usize::from(after_change) + usize::from(before_change));
    if words.len() <= room {
        return text.to_owned();
    }
    let head = if after_change { words[..CONTEXT_WORDS].join(" ") + " " } else { String::new() };
    let tail = if before_change {
        format!(" {}", words[words.len() - CONTEXT_WORDS..].join(" "))
    } else {
        String::new()
    };
    format!("{head}…{tail}")
}

fn compare(path: &str, before: &Node<'_>, after: &Node<'_>, found: &mut Diff) {
    match (before, after) {
        (Node::Object(_), Node::Object(_)) => objects(path, before, after, found),
        (Node::Array(old), Node::Array(new)) => arrays(path, old, new, found),
        (Node::Text(old), Node::Text(new)) if old != new => {
            let (old_text, new_text) = (old.decoded(), new.decoded());
            found.push(Change {
                words: by_words(&old_text, &new_text),
                ..changed(path, before, after, Kind::Changed)
            });
        }
        _ if before.canonical() != after.canonical() => {
            found.push(changed(path, before, after, Kind::Changed));
        }
        _ => {}
    }
}

fn changed(path: &str, before: &Node<'_>, after: &Node<'_>, kind: Kind) -> Change {
    let (before, after) = (Some(shown(before)), Some(shown(after)));
    Change { path: path.to_owned(), kind, before, after, words: Vec::new() }
}

/// Members by key, in the order in which keys are first seen; a repeated key once for each value.
fn by_key<'n, 'a>(node: &'n Node<'a>) -> BTreeMap<(String, usize), &'n Node<'a>> {
    let mut members = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    if let Node::Object(pairs) = node {
        for (key, value) in pairs {
            let key = key.decoded().into_owned();
            let count = counts.entry(key.clone()).or_default();
            members.insert((key, *count), value);
            *count += 1;
        }
    }
    members
}

fn objects(path: &str, before: &Node<'_>, after: &Node<'_>, found: &mut Diff) {
    let (old, new) = (by_key(before), by_key(after));
    let mut keys: Vec<&(String, usize)> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let mut place = step(path, &key.0);
        if key.1 > 0 {
            place.push_str(" (repeated)");
        }
        one(&place, old.get(key).copied(), new.get(key).copied(), found);
    }
}

fn one(path: &str, before: Option<&Node<'_>>, after: Option<&Node<'_>>, found: &mut Diff) {
    let alone =
        |kind, before, after| Change { path: path.to_owned(), kind, before, after, words: Vec::new() };
    match (before, after) {
        (Some(before), Some(after)) => compare(path, before, after, found),
        (Some(before), None) => found.push(alone(Kind::Removed, Some(shown(before)), None)),
        (None, Some(after)) => found.push(alone(Kind::Added, None, Some(shown(after)))),
        (None, None) => {}
    }
}

fn arrays(path: &str, old: &[Node<'_>], new: &[Node<'_>], found: &mut Diff) {
    let forms = |items: &[Node<'_>]| items.iter().map(Node::canonical).collect::<Vec<_>>();
    let (mut a, mut b) = (forms(old), forms(new));
    if a == b {
        return;
    }
    let head = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let shorter = a.len().min(b.len()) - head;
    let tail = a.iter().rev().zip(b.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    a.sort();
    b.sort();
    if a == b {
        let list = |items: &[Node<'_>]| visible(&format!("[{}]", forms(items).join(",")));
        found.push(Change {
            path: path.to_owned(),
            kind: Kind::Reordered,
            before: Some(list(old)),
            after: Some(list(new)),
            words: Vec::new(),
        });
        return;
    }
    for index in head..old_end.max(new_end) {
        let (before, after) = (old[..old_end].get(index), new[..new_end].get(index));
        one(&format!("{path}[{index}]"), before, after, found);
    }
}

/// The path of a member. A key that is no plain word stands in quotes.
pub(super) fn step(path: &str, key: &str) -> String {
    let plain =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'));
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[\"{}\"]", visible(key)),
    }
}

fn shown(node: &Node<'_>) -> String {
    visible(&node.canonical())
}

/// One line that shows everything: control characters, hidden ones, marks that combine and letters
/// of another script within a Latin word are written as code points. Cut.
pub fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut chars = 0;
    for word in text.split_inclusive(' ') {
        // A word that is Latin but for some letters may be made to look like another one.
        let mixed = word.chars().any(|c| c.is_ascii_alphabetic()) && !word.is_ascii();
        for c in word.chars() {
            if chars == VALUE_CHARS_MAX {
                out.push('…');
                return out;
            }
            chars += 1;
            if must_show(c) || (mixed && is_like_latin(c)) {
                out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            } else {
                out.push(c);
            }
        }
    }
    out
}

/// Characters that can't be seen, or that change how others look.
fn must_show(c: char) -> bool {
    super::lint::is_hidden(c)
        || matches!(u32::from(c), 0x300..=0x36f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
        || (c.is_whitespace() && c != ' ')
}

/// Letters of scripts whose shapes are Latin ones: Greek, Cyrillic, Armenian, Cherokee, Lisu,
/// letter-like and mathematical ones, full width.
fn is_like_latin(c: char) -> bool {
    matches!(
        u32::from(c),
        0x250..=0x2af | 0x370..=0x58f | 0x13a0..=0x13ff | 0x1d00..=0x1dbf | 0x2100..=0x218f | 0x2c60..=0x2c7f
            | 0xa4d0..=0xa4ff | 0xa640..=0xa69f | 0xa720..=0xa7ff | 0xab30..=0xab8f | 0xff00..=0xff5e | 0x1d400..=0x1d7ff
    )
}

/// The longest common words of two texts stay, the rest is added or removed.
fn by_words(before: &str, after: &str) -> Vec<Words> {
    let (old, new): (Vec<&str>, Vec<&str>) = (pieces(before), pieces(after));
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let shorter = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if a.len() > WORDS_MAX || b.len() > WORDS_MAX || (a.is_empty() && b.is_empty()) {
        return Vec::new();
    }
    let mut runs: Vec<(&'static str, Vec<&str>)> = Vec::new();
    let mut put = |kind: &'static str, word| match runs.last_mut() {
        Some((last, words)) if *last == kind => words.push(word),
        _ => runs.push((kind, vec![word])),
    };
    old[..head].iter().for_each(|word| put("same", *word));
    walk(a, b, &mut put);
    old[old.len() - tail..].iter().for_each(|word| put("same", *word));
    let cut = |words: Vec<&str>| words.into_iter().map(visible).collect::<Vec<_>>().join(" ");
    runs.into_iter().map(|(kind, words)| Words { kind, text: cut(words) }).collect()
}

/// Words between single spaces; other white space is part of them, so that it can be seen.
fn pieces(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// Walks the table of longest common subsequences.
fn walk<'t>(a: &[&'t str], b: &[&'t str], put: &mut impl FnMut(&'static str, &'t str)) {
    let width = b.len() + 1;
    let mut table = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * width + j] = if a[i] == b[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            put("same", a[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && table[(i + 1) * width + j] >= table[i * width + j + 1]) {
            put("removed", a[i]);
            i += 1;
        } else {
            put("added", b[j]);
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests;
