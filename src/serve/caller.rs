//! Who is at the other end: for audit, limits, and whose tasks and parked calls are whose. Plain
//! values, made by the edge that let the client in.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::call::Door;
use crate::config::mode::Mode;
use crate::config::spec::Rate;
use crate::id::ServerId;

/// Whose client it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// A process of the same user.
    SameUser,
    /// The holder of the token of that name.
    Token(Arc<str>),
}

/// The era of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEra {
    /// The first message decides (stdio, socket).
    Open,
    /// `initialize` and state (an HTTP session).
    Legacy,
    /// Stateless: every request says its revision (an HTTP request).
    Modern,
}

/// Which part of the servers a client may see: patterns on `server`, `server/item` and exposed names.
#[derive(Clone, Debug)]
pub struct Globs(Vec<GlobSet>);

impl Globs {
    /// Reads patterns; what is wrong with the first bad one.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(Glob::new(pattern).map_err(|e| format!("{pattern:?} is no pattern: {}", e.kind()))?);
        }
        set.build().map(|set| Self(vec![set])).map_err(|e| e.to_string())
    }

    /// Whether something of this server may be seen: an item by its raw and its exposed name.
    pub fn keeps(&self, server: &ServerId, raw: &str, exposed: &str) -> bool {
        self.0.iter().all(|set| {
            set.is_match(server.as_str()) || set.is_match(exposed) || set.is_match(format!("{server}/{raw}"))
        })
    }

    /// Whether the whole server may be seen.
    pub fn keeps_server(&self, server: &ServerId) -> bool {
        self.0.iter().all(|set| set.is_match(server.as_str()))
    }

    /// Only what both keep.
    pub fn and(&self, mut other: Self) -> Self {
        other.0.extend(self.0.iter().cloned());
        other
    }
}

/// One client, as the edge knows it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose it is.
    pub identity: Identity,
    /// What it may see; `None`: everything.
    pub only: Option<Globs>,
    /// A mode of its own, which can only be stricter than the host's.
    pub mode: Option<Mode>,
    /// Its limit; `None`: the host's.
    pub rate: Option<Rate>,
    /// By which door it came.
    pub door: Door,
}

impl Caller {
    /// A process of the same user that may see everything.
    pub fn same_user() -> Self {
        Self { identity: Identity::SameUser, only: None, mode: None, rate: None, door: Door::Host }
    }

    /// Whether it may see this item.
    pub fn sees(&self, server: &ServerId, raw: &str, exposed: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.keeps(server, raw, exposed))
    }

    /// Whether it may see the whole server.
    pub fn sees_server(&self, server: &ServerId) -> bool {
        self.only.as_ref().is_none_or(|only| only.keeps_server(server))
    }
}
