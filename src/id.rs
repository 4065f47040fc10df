//! Floor 0. The names of things: servers, generations, calls, sessions.
//! Plain values, cheap to clone, never parsed back from text that a server sent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What no configured name may begin with.
pub const OWN_PREFIX: &str = "callboard:";
/// The name of the server that is the host itself.
pub const BUILTINS: &str = "callboard:builtins";

/// One server: its name, exactly as the configuration writes it, and which of several of that name it is
/// in a host that clients with different configurations share. Only the name is ever shown or written.
/// Identity is case-sensitive and never derived from an exposed name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    name: Arc<str>,
    /// 0 for the only one, or the first.
    instance: u32,
}

impl ServerId {
    /// Wraps a configured name; validation happens in `config::validate`.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self { name: Arc::from(name.as_ref()), instance: 0 }
    }

    /// Another server of the same name.
    #[must_use]
    pub fn instance(&self, instance: u32) -> Self {
        Self { name: self.name.clone(), instance }
    }

    /// What stands for the name, whichever server of that name is meant: for files and configurations.
    #[must_use]
    pub fn plain(&self) -> Self {
        self.instance(0)
    }

    /// The name as configured.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name alone.
impl Serialize for ServerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for ServerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl From<&str> for ServerId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// A word as a shell reads it back: quoted where it has to be. For commands that are shown to be
/// typed; names come from files that others wrote.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
    }
}

/// Counts the connections of one server. Every event carries the generation it
/// belongs to; an event of an older one changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One call, unique within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CallId(pub u64);

impl CallId {
    /// An id that no other call of this process has.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One client attached to our front end, unique within this process.
/// Session 0 is this process's own edge (command line, agent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl SessionId {
    /// An id that no other session of this process has.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Somebody who answers requests for approval, unique within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u64);

impl ListenerId {
    /// An id that no other listener of this process has.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A table by our own ids.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads our own ids, which count up from one: nobody else chooses them, so there is
/// nothing to defend against.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0.rotate_left(5) ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
