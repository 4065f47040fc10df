//! Labels on a tool's definition: what deserves a second look before somebody trusts it. Each has the
//! place, the span and a sentence. A label, never a gate: a sound tool may carry one, and a hostile
//! one none. The whole definition is looked through, parameter names and enum values included; every
//! rule reads its text once. Pure; called by whoever shows a tool.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::AhoCorasick;
use serde::Serialize;

use super::items::Item;
use super::lint_words as words;
use super::pin_diff::step;
use super::tree::Node;

/// Names of others that are looked at in one text.
const HITS_MAX: usize = 4096;
/// Labels of one tool; more would not be read.
pub const LABELS_MAX: usize = 32;
/// A longer text in a definition (bytes) is a label: nobody reads it to its end.
pub const TEXT_LEN_NOTED: usize = 4096;
/// A run of base64 from this length on is a label.
pub const BASE64_LEN_NOTED: usize = 64;

/// The kinds of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelKind {
    /// Characters that can't be seen, or change how others look.
    Hidden,
    /// A tag that looks like a command to the model.
    Tag,
    /// Words that command the model rather than describe the tool.
    Imperative,
    /// The name of another tool or server.
    OtherName,
    /// Where secrets are kept.
    SecretPath,
    /// A parameter that asks for what the tool should not have.
    Parameter,
    /// A long run of base64.
    Base64,
    /// A very long text.
    Long,
}

impl LabelKind {
    /// The word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Tag => "tag",
            Self::Imperative => "imperative",
            Self::OtherName => "other_name",
            Self::SecretPath => "secret_path",
            Self::Parameter => "parameter",
            Self::Base64 => "base64",
            Self::Long => "long",
        }
    }
}

/// One label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// What it is about.
    pub kind: LabelKind,
    /// Where in the definition, as in `inputSchema.properties.path.description`; a label on a key has
    /// the key's own path.
    pub path: String,
    /// Bytes of the decoded text there.
    pub span: Range<usize>,
    /// One sentence for a person. It may quote the server: whoever prints it cleans it.
    pub text: String,
}

/// What other servers are and offer: made once, used for many tools.
pub struct Others {
    names: Option<AhoCorasick>,
    /// Of each name: the server that it belongs to, and the name.
    owners: Vec<(String, String)>,
}

impl Others {
    /// Of tools as (server, raw name, exposed name). Names of one short plain word say nothing, and
    /// are left out.
    pub fn of<'a>(tools: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>) -> Self {
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (server, raw, exposed) in tools {
            for name in [Some(raw), exposed].into_iter().flatten().filter(|name| is_telling(name)) {
                // The name that two servers share belongs to neither.
                owners
                    .entry(name.to_owned())
                    .and_modify(|owner| {
                        if owner != server {
                            owner.clear();
                        }
                    })
                    .or_insert_with(|| server.to_owned());
            }
            for name in [format!("{server} server"), format!("{server} mcp"), format!("mcp__{server}__")] {
                owners.insert(name, server.to_owned());
            }
        }
        let names = AhoCorasick::builder().ascii_case_insensitive(true).build(owners.keys()).ok();
        Self { names, owners: owners.into_iter().map(|(name, server)| (server, name)).collect() }
    }

    /// No others.
    pub fn none() -> Self {
        Self { names: None, owners: Vec::new() }
    }
}

/// Whether a name is more than an ordinary word of a sentence.
fn is_telling(name: &str) -> bool {
    let inner_upper = name.chars().skip(1).any(char::is_uppercase) && name.chars().any(char::is_lowercase);
    name.len() >= 6 && (name.contains(['_', '-', '.', '/']) || inner_upper)
}

/// The labels of a tool of that server, worst kinds first.
pub fn labels(server: &str, item: &Item, others: &Others) -> Vec<Label> {
    let raw = String::from_utf8_lossy(&item.raw);
    let Some(root) = Node::parse(&raw) else { return Vec::new() };
    let mut desk = Desk { server, own: &item.name, others, found: Vec::new() };
    for field in super::pin::FIELDS {
        if let Some(part) = root.get(field) {
            desk.look(field, part, field == "name");
        }
    }
    let mut found = desk.found;
    found.sort_by(|a, b| (a.kind, &a.path, a.span.start).cmp(&(b.kind, &b.path, b.span.start)));
    found.dedup_by(|a, b| a.kind == b.kind && a.path == b.path && a.text == b.text);
    found.truncate(LABELS_MAX);
    found
}

/// Whether a definition has characters that nobody sees: what `labels` calls `Hidden`.
pub fn hides(item: &Item) -> bool {
    if item.raw.is_ascii() && !item.raw.contains(&b'\\') {
        return false;
    }
    let raw = String::from_utf8_lossy(&item.raw);
    let root = Node::parse(&raw);
    let fields = || super::pin::FIELDS.into_iter().filter_map(|field| root.as_ref()?.get(field));
    fields().any(|part| any_text(part, &|text| unseen(text).next().is_some()))
}

fn any_text(node: &Node<'_>, test: &dyn Fn(&str) -> bool) -> bool {
    match node {
        Node::Object(members) => {
            members.iter().any(|(key, value)| test(&key.decoded()) || any_text(value, test))
        }
        Node::Array(items) => items.iter().any(|item| any_text(item, test)),
        Node::Text(text) => test(&text.decoded()),
        Node::Number(_) | Node::Word(_) => false,
    }
}

/// The characters of a text that nobody sees, and where they stand. Emoji are joined by U+200D, and
/// Persian and Indic words need U+200C: between such they are no sign.
fn unseen(text: &str) -> impl Iterator<Item = (usize, char)> {
    text.char_indices()
        .filter(|(at, c)| is_hidden(*c) && !matches!(c, '\n' | '\t' | '\r') && !joins(text, *at, *c))
}

struct Desk<'a> {
    server: &'a str,
    own: &'a str,
    others: &'a Others,
    found: Vec<Label>,
}

impl Desk<'_> {
    fn look(&mut self, path: &str, node: &Node<'_>, is_name: bool) {
        // Bounded: what is found is cut in the end, and a definition has a largest size.
        if self.found.len() >= 8 * LABELS_MAX {
            return;
        }
        match node {
            Node::Object(members) => {
                let parameters = path.ends_with("properties");
                for (key, value) in members {
                    let key = key.decoded();
                    let place = step(path, &key);
                    self.text(&place, &key, true);
                    if parameters {
                        self.parameter(&place, &key);
                    }
                    self.look(&place, value, false);
                }
            }
            Node::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.look(&format!("{path}[{index}]"), item, false);
                }
            }
            Node::Text(text) => self.text(path, &text.decoded(), is_name),
            Node::Number(_) | Node::Word(_) => {}
        }
    }

    fn put(&mut self, kind: LabelKind, path: &str, span: Range<usize>, text: String) {
        self.found.push(Label { kind, path: path.to_owned(), span, text });
    }

    fn text(&mut self, path: &str, text: &str, is_key: bool) {
        self.hidden(path, text);
        for (kind, hit) in words::hits(text) {
            let quoted = &text[hit.clone()];
            let sentence = match kind {
                LabelKind::Tag => format!("has the tag {quoted:?}, which looks like a command to the model"),
                LabelKind::SecretPath => format!("names {quoted:?}, where secrets are kept"),
                _ => format!("speaks to the model: {quoted:?}"),
            };
            self.put(kind, path, hit, sentence);
        }
        if !is_key {
            self.other_names(path, text);
        }
        if let Some(run) = base64_run(text) {
            let sentence = format!("has {} characters that look like base64", run.len());
            self.put(LabelKind::Base64, path, run, sentence);
        }
        if text.len() > TEXT_LEN_NOTED {
            let sentence = format!("is {} bytes long", text.len());
            self.put(LabelKind::Long, path, 0..text.len(), sentence);
        }
    }

    fn hidden(&mut self, path: &str, text: &str) {
        let mut hits = unseen(text);
        let Some((at, c)) = hits.next() else { return };
        let count = 1 + hits.count();
        let sentence = match count {
            1 => format!("has a hidden character (U+{:04X})", u32::from(c)),
            _ => format!("has {count} hidden characters (the first is U+{:04X})", u32::from(c)),
        };
        self.put(LabelKind::Hidden, path, at..at + c.len_utf8(), sentence);
    }

    fn other_names(&mut self, path: &str, text: &str) {
        let Some(names) = &self.others.names else { return };
        let mut hits = Vec::new();
        for hit in names.find_overlapping_iter(text).take(HITS_MAX) {
            let (owner, name) = &self.others.owners[hit.pattern().as_usize()];
            let alone = name.ends_with("__") || is_alone(text, hit.range());
            if owner.is_empty() || owner == self.server || name == self.own || !alone {
                continue;
            }
            hits.push((hit.range(), format!("names {name:?}, which belongs to the server {owner}")));
        }
        for (span, sentence) in hits {
            self.put(LabelKind::OtherName, path, span, sentence);
        }
    }

    fn parameter(&mut self, path: &str, name: &str) {
        if let Some(what) = words::suspicious_parameter(name) {
            let sentence = format!("is a parameter whose name asks for {what}");
            self.put(LabelKind::Parameter, path, 0..name.len(), sentence);
        }
    }
}

/// Whether what stands there is no part of a longer word.
pub(super) fn is_alone(text: &str, span: Range<usize>) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !text[..span.start].chars().next_back().is_some_and(part)
        && !text[span.end..].chars().next().is_some_and(part)
}

/// Whether a joiner stands where a script or an emoji needs it.
fn joins(text: &str, at: usize, c: char) -> bool {
    if !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0f}' | '\u{fe0e}') {
        return false;
    }
    let before = text[..at].chars().next_back();
    let after = text[at + c.len_utf8()..].chars().next();
    match c {
        // Emoji and text styles follow what they style: a symbol, never a letter of a sentence.
        '\u{fe0f}' | '\u{fe0e}' => {
            before.is_some_and(|c| !c.is_alphabetic() && !c.is_whitespace() && !is_hidden(c))
        }
        _ => {
            let wants = |c: Option<char>| {
                c.is_some_and(|c| u32::from(c) >= 0x600 && !is_hidden(c) || c == '\u{fe0f}')
            };
            wants(before) && wants(after)
        }
    }
}

/// Characters that can't be seen: controls, formats, tags, selectors, private and unassigned ones.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            u32::from(c),
            0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
                | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xe000..=0xf8ff | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
                | 0xfff0..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff | 0xf0000..=0x10ffff
        )
}

/// The first long run of base64: letters of both cases and digits, so no path and no word.
fn base64_run(text: &str) -> Option<Range<usize>> {
    let belongs = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let len = bytes[start..].iter().take_while(|b| belongs(**b)).count();
        let run = &bytes[start..start + len];
        let has = |test: fn(&u8) -> bool| run.iter().any(test);
        let slashes = run.iter().filter(|b| matches!(b, b'/' | b'-' | b'_')).count();
        if len >= BASE64_LEN_NOTED
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_digit)
            && slashes * 8 < len
        {
            return Some(start..start + len);
        }
        start += len + 1;
    }
    None
}

#[cfg(test)]
mod tests;
