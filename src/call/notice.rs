//! What a server says to everybody who listens: log lines, changed resources, and what we do not know.

use bytes::Bytes;

use crate::id::{Generation, ServerId};

/// Notices that may wait for one who listens; who falls behind loses the oldest and is told how many.
pub const NOTICES_MAX: usize = 1024;

/// One notification that belongs to no call. Never one about lists, which the catalogue tells, and
/// never progress.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Who says it.
    pub server: ServerId,
    /// The connection on which.
    pub generation: Generation,
    /// The method.
    pub method: String,
    /// The whole message, on one line.
    pub frame: Bytes,
}
