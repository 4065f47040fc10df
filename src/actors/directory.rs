//! Floor 3. The directory: which server has which actor and view. Written by the
//! supervisor alone; everyone else reads the snapshot. A stale one can refuse, never misroute.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::server::ServerRef;
use crate::catalog::pin::Book;
use crate::config::spec::{Entry, ServerSpec};
use crate::id::{Generation, ServerId};
use crate::transport::tap::Tap;
use crate::view::ServerView;

/// One configured name.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// Its actor, unless the entry can't run at all.
    pub server: Option<ServerRef>,
    /// Its view, kept across restarts of the actor.
    pub view: watch::Receiver<ServerView>,
    /// What its tools were pinned as; `None` for an entry that can't run.
    pub pins: Option<watch::Receiver<Arc<Book>>>,
    /// Where somebody may listen to it; `None` for an entry that can't run.
    pub tap: Option<Tap>,
    /// Its configuration, if it is sound.
    pub spec: Option<Arc<ServerSpec>>,
    /// The entry it was made from.
    pub entry: Arc<Entry>,
    /// The first generation that belongs to this entry.
    pub first: Generation,
}

/// All configured names.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// By server.
    pub entries: BTreeMap<ServerId, DirectoryEntry>,
    /// Set when the host shuts down: nothing is taken any more.
    pub draining: bool,
}
