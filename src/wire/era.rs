//! Protocol revisions and eras, and how messages are adapted between them.
//! Facts: MCP revisions 2024-11-05 to 2026-07-28. Called wherever a message crosses from
//! one era to the other; the edits themselves are made by `splice::answer` and `splice::request`.

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

pub use crate::call::Era;

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

/// The key that says what kind of result a modern result is.
pub const RESULT_TYPE: &str = "resultType";

/// Whether clients of the modern era keep the results of this method for a while: those must say how long
/// (`ttlMs`) and for whom (`cacheScope`).
pub fn is_cached(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "server/discover"
    )
}

/// A legacy server's code for a resource that does not exist.
const RESOURCE_NOT_FOUND: i32 = -32002;
const INVALID_PARAMS: i32 = -32602;

/// The error code that a caller of era `to` expects where a server of the other era wrote `code` in its
/// answer to `method`. Only "resource not found" of `resources/read` changed: −32002 became −32602
/// in 2026-07-28; the way back is not unique and nothing is made of it.
pub fn error_code(code: i32, method: &str, to: Era) -> i32 {
    match (to, method, code) {
        (Era::Modern, "resources/read", RESOURCE_NOT_FOUND) => INVALID_PARAMS,
        _ => code,
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_they_are_written() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(&revision.to_string()), Some(revision));
        }
        assert_eq!(Revision::parse("1999-01-01"), None);
        assert_eq!(Revision::parse("2025-06-18 "), None);
    }

    #[test]
    fn only_the_newest_revision_is_modern_and_only_the_oldest_two_may_batch() {
        let modern: Vec<_> = Revision::ALL.into_iter().filter(|r| r.era() == Era::Modern).collect();
        assert_eq!(modern, [Revision::LATEST]);
        assert_eq!(Revision::LATEST_LEGACY.era(), Era::Legacy);
        let batches: Vec<_> = Revision::ALL.into_iter().filter(|r| r.has_batches()).collect();
        assert_eq!(batches, [Revision::R2024_11_05, Revision::R2025_03_26]);
    }

    #[test]
    fn resource_not_found_has_another_code_in_the_modern_era() {
        assert_eq!(error_code(-32002, "resources/read", Era::Modern), -32602);
        assert_eq!(error_code(-32002, "tools/call", Era::Modern), -32002);
        assert_eq!(error_code(-32602, "resources/read", Era::Legacy), -32602);
    }
}
