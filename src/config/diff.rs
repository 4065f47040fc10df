//! Floor 1. What a reload has to do: the difference of two server sets by name. Called by
//! the supervisor's edge of `reload`.

use super::spec::{Entry, EntryState, ServerSet};
use crate::id::ServerId;

/// What happened to one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New.
    Added(ServerId),
    /// Gone.
    Removed(ServerId),
    /// Runs differently, or may run now, or no longer.
    Changed(ServerId),
    /// Runs exactly as before: must not notice the reload.
    Unchanged(ServerId),
}

impl Change {
    /// The name.
    pub fn id(&self) -> &ServerId {
        match self {
            Self::Added(id) | Self::Removed(id) | Self::Changed(id) | Self::Unchanged(id) => id,
        }
    }
}

/// One change for each name of either set, sorted by name. Ready entries are compared by
/// their expanded spec, so a changed variable counts and a moved file does not.
pub fn diff(old: &ServerSet, new: &ServerSet) -> Vec<Change> {
    let mut changes: Vec<Change> = old
        .entries
        .iter()
        .filter(|entry| new.get(entry.id.as_str()).is_none())
        .map(|entry| Change::Removed(entry.id.clone()))
        .collect();
    for entry in &new.entries {
        let id = entry.id.clone();
        changes.push(match old.get(id.as_str()) {
            None => Change::Added(id),
            Some(before) if same(before, entry) => Change::Unchanged(id),
            Some(_) => Change::Changed(id),
        });
    }
    changes.sort_by(|a, b| a.id().cmp(b.id()));
    changes
}

fn same(a: &Entry, b: &Entry) -> bool {
    match (&a.state, &b.state) {
        (EntryState::Ready(a), EntryState::Ready(b)) => a == b,
        (EntryState::Disabled, EntryState::Disabled) => true,
        (EntryState::Pending, EntryState::Pending) | (EntryState::Invalid, EntryState::Invalid) => {
            a.hash == b.hash && a.issues == b.issues
        }
        _ => false,
    }
}
