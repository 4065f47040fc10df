//! What lets a call pass that needs a person's approval.

use std::fmt;

/// Proof that a person approved one call, bound to the hash of exactly that call
/// (`policy::approve`). Made by the desk of approvals alone; travels with the call that it is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant([u8; 32]);

impl Grant {
    /// Binds it to the SHA-256 of a call.
    pub(crate) fn of(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Whether it was given for the call of that hash.
    pub fn is_for(&self, hash: &[u8; 32]) -> bool {
        self.0 == *hash
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}
