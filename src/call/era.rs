//! The two eras of the protocol: the one thing about revisions that a call carries.

/// With `initialize` (legacy, up to 2025-11-25) or stateless (modern, from 2026-07-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Era {
    /// `initialize`, sessions, server-to-client requests.
    Legacy,
    /// `server/discover`, every request carries its own `_meta`.
    Modern,
}
