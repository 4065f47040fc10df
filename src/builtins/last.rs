//! The last tool result of each session, for `last_output`. Kept in memory, bounded; written by the
//! edge that answers a session's calls, read for the same session only, gone with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::id::SessionId;

/// Sessions of which a result is kept; of more, the oldest session's goes.
pub const SESSIONS_MAX: usize = 256;
/// A larger result, in bytes, is not kept: only that there was one.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Larger results are kept as they came, in the buffer that they were read into.
const COPIED_MAX: usize = 64 * 1024;
/// All results together, in bytes; the oldest session's goes first.
pub const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// The exposed or raw name of the tool.
    pub tool: String,
    /// The server that answered.
    pub server: String,
    /// The raw JSON of the result; `None` when it was larger than [`RESULT_BYTES_MAX`].
    pub body: Option<Bytes>,
}

/// The last results. Cheap to clone: all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LastOutputs(Arc<Mutex<BTreeMap<SessionId, Last>>>);

impl LastOutputs {
    /// Keeps the result of a session's call in place of the one before. The frame that it came in is
    /// not held on to.
    pub fn keep(&self, session: SessionId, server: &str, tool: &str, body: &Bytes) {
        let fits = body.len() <= RESULT_BYTES_MAX;
        // A small one must not hold all that was read with it; a large one is nearly all of that.
        let own = || if body.len() < COPIED_MAX { Bytes::copy_from_slice(body) } else { body.clone() };
        let body = fits.then(own);
        let mut all = self.locked();
        match all.get_mut(&session).filter(|last| last.tool == tool && last.server == server) {
            Some(last) => last.body = body,
            None => {
                all.insert(session, Last { tool: tool.to_owned(), server: server.to_owned(), body });
            }
        }
        let bytes = |last: &Last| last.body.as_ref().map_or(0, Bytes::len);
        while all.len() > SESSIONS_MAX || all.values().map(bytes).sum::<usize>() > ALL_BYTES_MAX {
            let oldest = all.keys().find(|other| **other != session).copied();
            let Some(oldest) = oldest else { break };
            all.remove(&oldest);
        }
    }

    /// The last result of that session.
    pub fn of(&self, session: SessionId) -> Option<Last> {
        self.locked().get(&session).cloned()
    }

    /// Forgets what a session got: it has ended.
    pub fn forget(&self, session: SessionId) {
        self.locked().remove(&session);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<SessionId, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_sees_its_own_last_result_only_and_bounds_hold() {
        let all = LastOutputs::default();
        all.keep(SessionId(1), "a", "x", &Bytes::from_static(b"{}"));
        all.keep(SessionId(2), "a", "y", &Bytes::from_static(b"[]"));
        assert_eq!(all.of(SessionId(1)).unwrap().tool, "x");
        all.keep(SessionId(1), "a", "z", &vec![b'1'; RESULT_BYTES_MAX + 1].into());
        assert_eq!(all.of(SessionId(1)).unwrap().body, None);
        all.forget(SessionId(1));
        assert_eq!((all.of(SessionId(1)), all.of(SessionId(3))), (None, None));
        for session in 10..10 + SESSIONS_MAX as u64 {
            all.keep(SessionId(session), "a", "x", &vec![b'1'; RESULT_BYTES_MAX].into());
        }
        let held: Vec<usize> = all.locked().values().map(|last| last.body.as_ref().unwrap().len()).collect();
        assert!(held.iter().sum::<usize>() <= ALL_BYTES_MAX);
        assert!(all.of(SessionId(9 + SESSIONS_MAX as u64)).is_some());
    }
}
