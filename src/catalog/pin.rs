//! Pins: what a tool's definition was when it was first seen or accepted, and whether it is so still.
//! A pin is the SHA-256 over the canonical JSON (RFC 8785, see `tree`) of what tells a model or a
//! person what the tool is: name, title, description, both schemas, annotations. A changed definition
//! *holds* its tool. Pure; the server's actor keeps its book, `transport::pins` the file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::items::ItemList;
use super::tree::{Node, write_object};

/// The members of a definition that a pin covers.
pub const FIELDS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];
/// Tools of one server that are remembered; more are held, so that nobody can flood a pin away.
pub const PINS_MAX: usize = 8192;
/// Bytes that the names of one server's pins may have together.
pub const NAMES_BYTES_MAX: usize = 1 << 20;
/// A longer definition (bytes) is pinned by its hash alone: no diff shows what it was.
pub const DEFINITION_BYTES_MAX: usize = 512 << 10;

/// The hash of a definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a definition's canonical form.
    pub fn of(canonical: &str) -> Self {
        Self(Sha256::digest(canonical).into())
    }

    /// From 64 hex digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0u8; 32];
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')) {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The first twelve digits, for a person.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written into the log with every call.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            (pair[0], pair[1]) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// The canonical form of the pinned members of a definition. What is no object counts as it stands.
pub fn canonical(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    match Node::parse(&text) {
        Some(Node::Object(members)) => {
            let mut out = String::with_capacity(raw.len());
            let pinned = members.iter().filter(|(key, _)| FIELDS.contains(&key.decoded().as_ref()));
            write_object(pinned.map(|(key, value)| (*key, value)), &mut out);
            out
        }
        _ => text.into_owned(),
    }
}

/// The hash that a definition is pinned by.
pub fn fingerprint(raw: &[u8]) -> Fingerprint {
    Fingerprint::of(&canonical(raw))
}

/// How a pin came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The tool was seen for the first time.
    FirstUse,
    /// A person looked at a changed definition and accepted it.
    Accepted,
}

impl By {
    /// The word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstUse => "first_use",
            Self::Accepted => "accepted",
        }
    }
}

/// What one tool was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its hash.
    pub hash: Fingerprint,
    /// Its canonical definition, unless that is too long to keep.
    pub definition: Option<Arc<str>>,
    /// RFC 3339 time, for display.
    pub at: Arc<str>,
    /// How it came to be.
    pub by: By,
}

impl Pin {
    /// The pin of a definition as it was sent.
    pub fn of(raw: &[u8], at: impl Into<Arc<str>>, by: By) -> Self {
        let text = canonical(raw);
        let hash = Fingerprint::of(&text);
        let definition = (text.len() <= DEFINITION_BYTES_MAX).then(|| text.into());
        Self { hash, definition, at: at.into(), by }
    }
}

/// Why a tool is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is not what was pinned.
    Changed {
        /// What was pinned.
        pinned: Fingerprint,
        /// What it is now.
        now: Fingerprint,
    },
    /// Its server has shown so many tools that no more are remembered.
    Full,
    /// What was pinned can't be read: nothing is known to be as it was. Says why, and the cure.
    Unreadable {
        /// What is wrong.
        why: Arc<str>,
        /// What to do about it.
        cure: Arc<str>,
    },
}

impl Held {
    /// Why, as the end of a sentence about the tool.
    pub fn why(&self) -> String {
        match self {
            Self::Changed { .. } => "its definition is not the one that was pinned".to_owned(),
            Self::Full => format!("its server has shown more than {PINS_MAX} tools, or too long names"),
            Self::Unreadable { why, .. } => format!("what was pinned can't be read: {why}"),
        }
    }
}

/// Held tools by raw name.
pub type HeldTools = BTreeMap<String, Held>;

/// The pins of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    pins: BTreeMap<String, Pin>,
    names_bytes: usize,
    unreadable: Option<(Arc<str>, Arc<str>)>,
}

impl Book {
    /// The book of pins that were read.
    pub fn new(pins: BTreeMap<String, Pin>) -> Self {
        let names_bytes = pins.keys().map(String::len).sum();
        Self { pins, names_bytes, unreadable: None }
    }

    /// The book of a file that can't be used: everything is held.
    pub fn unreadable(why: impl Into<Arc<str>>, cure: impl Into<Arc<str>>) -> Self {
        Self { unreadable: Some((why.into(), cure.into())), ..Self::default() }
    }

    /// Whether it could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable.is_some()
    }

    /// All pins by raw name.
    pub fn pins(&self) -> &BTreeMap<String, Pin> {
        &self.pins
    }

    /// The pin of a tool.
    pub fn get(&self, tool: &str) -> Option<&Pin> {
        self.pins.get(tool)
    }

    /// Whether a call of that tool must wait until its definition was looked at.
    pub fn knows(&self, tool: &str) -> bool {
        self.is_unreadable() || self.pins.contains_key(tool)
    }

    /// Looks at a list of tools: pins what is seen for the first time at that RFC 3339 time, and says
    /// which tools are held.
    pub fn see(&mut self, tools: &ItemList, at: &str) -> HeldTools {
        let mut held = HeldTools::new();
        let at: Arc<str> = at.into();
        for item in &tools.items {
            if let Some(why) = self.judge_or_pin(&item.name, item.pinned_by(), &item.raw, &at) {
                held.insert(item.name.clone(), why);
            }
        }
        held
    }

    fn judge_or_pin(&mut self, name: &str, now: Fingerprint, raw: &[u8], at: &Arc<str>) -> Option<Held> {
        if let Some((why, cure)) = &self.unreadable {
            return Some(Held::Unreadable { why: why.clone(), cure: cure.clone() });
        }
        match self.pins.get(name).map(|pin| pin.hash) {
            Some(pinned) if pinned == now => None,
            Some(pinned) => Some(Held::Changed { pinned, now }),
            None if self.has_room(name) => {
                self.set(name, Pin::of(raw, at.clone(), By::FirstUse));
                None
            }
            None => Some(Held::Full),
        }
    }

    fn has_room(&self, name: &str) -> bool {
        self.pins.len() < PINS_MAX && self.names_bytes + name.len() <= NAMES_BYTES_MAX
    }

    /// Sets the pin of a tool.
    pub fn set(&mut self, name: &str, pin: Pin) {
        if self.pins.insert(name.to_owned(), pin).is_none() {
            self.names_bytes += name.len();
        }
    }

    /// Takes in what this book has and `file` has not: what was first seen here is added, what another
    /// wrote stands. Whether anything was added.
    #[must_use]
    pub fn add_to(&self, file: &mut Self) -> bool {
        let mut added = false;
        for (name, pin) in &self.pins {
            if !file.pins.contains_key(name) && file.has_room(name) {
                file.set(name, pin.clone());
                added = true;
            }
        }
        added
    }
}

#[cfg(test)]
mod tests;
