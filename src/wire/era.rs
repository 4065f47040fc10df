//! Protocol revisions and eras, and how messages are adapted between them.
//! Facts: MCP revisions 2024-11-05 to 2026-07-28 (`ground.md` 1).

use std::fmt;

/// The revisions that we speak, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    R2024_11_05,
    /// 2025-03-26
    R2025_03_26,
    /// 2025-06-18
    R2025_06_18,
    /// 2025-11-25
    R2025_11_25,
    /// 2026-07-28
    R2026_07_28,
}

/// With `initialize` (legacy, up to 2025-11-25) or stateless (modern, from 2026-07-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Era {
    /// `initialize`, sessions, server-to-client requests.
    Legacy,
    /// `server/discover`, every request carries its own `_meta`.
    Modern,
}

impl Revision {
    /// All, oldest first.
    pub const ALL: [Self; 5] =
        [Self::R2024_11_05, Self::R2025_03_26, Self::R2025_06_18, Self::R2025_11_25, Self::R2026_07_28];
    /// The newest revision that has `initialize`.
    pub const LATEST_LEGACY: Self = Self::R2025_11_25;
    /// The newest revision.
    pub const LATEST: Self = Self::R2026_07_28;

    /// The revision written like this, if we speak it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::R2024_11_05 => "2024-11-05",
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// Its era.
    pub fn era(self) -> Era {
        if self >= Self::R2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Whether JSON-RPC batches are part of it (only 2025-03-26 has them, 2024-11-05 leaves them open).
    pub fn has_batches(self) -> bool {
        matches!(self, Self::R2024_11_05 | Self::R2025_03_26)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
