//! Sessions that the host's own tools treat in a way of their own: those that see only a part of the
//! servers, and those whose results are kept for another session. Said by the edge that let them in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::merge::Catalog;
use crate::config::mode::Mode;
use crate::id::{ServerId, SessionId};

/// Whether an item of a server, by its raw and its exposed name, may be seen.
pub type Sight = Arc<dyn Fn(&ServerId, &str, &str) -> bool + Send + Sync>;

/// What a session has of a host that several share.
pub struct Own {
    /// Its servers' tools under its own names.
    pub catalog: Arc<Catalog>,
    /// Whether a server is there for it.
    pub reaches: Box<dyn Fn(&ServerId) -> bool + Send + Sync>,
    /// The mode of its own.
    pub mode: Option<Mode>,
}

/// What a session has now; `None`: everything.
pub type Share = Arc<dyn Fn() -> Option<Own> + Send + Sync>;

/// What is said of one session.
#[derive(Clone, Default)]
pub struct Guest {
    /// What it sees; `None`: everything.
    pub sight: Option<Sight>,
    /// The session for which its results are kept; `None`: for itself.
    pub keeps_as: Option<SessionId>,
    /// What it has of the host, as of now.
    pub share: Option<Share>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").field("keeps_as", &self.keeps_as).finish_non_exhaustive()
    }
}

impl Guest {
    /// What it has now; `None`: everything.
    pub fn own(&self) -> Option<Own> {
        self.share.as_ref().and_then(|share| share())
    }

    /// Whether it may see this item.
    pub fn sees(&self, server: &ServerId, raw: &str, exposed: &str) -> bool {
        self.sight.as_ref().is_none_or(|sight| sight(server, raw, exposed))
    }

    /// Whether it sees everything.
    pub fn sees_all(&self) -> bool {
        self.sight.is_none()
    }
}

/// The table; as many entries as there are clients. Cheap to clone: all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Guests(Arc<Mutex<HashMap<SessionId, Guest>>>);

impl Guests {
    /// Says it of a session.
    pub fn enter(&self, session: SessionId, guest: Guest) {
        self.locked().insert(session, guest);
    }

    /// What was said of it; nothing in particular of most.
    pub fn of(&self, session: Option<SessionId>) -> Guest {
        session.and_then(|session| self.locked().get(&session).cloned()).unwrap_or_default()
    }

    /// The session has ended.
    pub fn leave(&self, session: SessionId) {
        self.locked().remove(&session);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<SessionId, Guest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
