//! The first view of an entry: what is known before anything ran, and all there ever
//! is of an entry that can't run.

use crate::config::spec::{Entry, EntryState, StartMode, Trust};
use crate::id::Generation;
use crate::time;
use crate::view::{ItemCounts, LifeState, ParkReason, ServerView, label};

/// The view of an entry before its actor said anything. One that starts by itself is shown as
/// connecting from the first moment, so that nobody takes it for one that waits to be used.
pub(crate) fn initial_view(entry: &Entry, autostart: bool) -> ServerView {
    let id = &entry.id;
    let (state, why, fix) = match &entry.state {
        EntryState::Ready(spec) if autostart && spec.start == StartMode::Eager => {
            (LifeState::Connecting, None, None)
        }
        EntryState::Ready(_) => (LifeState::Dormant, None, None),
        EntryState::Disabled => (
            LifeState::Parked(ParkReason::Disabled),
            Some(format!("turned off in {}", entry.source)),
            Some(format!("callboard mcp enable {id}")),
        ),
        EntryState::Pending => (
            LifeState::Parked(ParkReason::PendingApproval),
            Some(format!(
                "{} is a project file; nothing of it runs before you approve it",
                entry.source.origin
            )),
            Some(format!("callboard mcp approve {id}")),
        ),
        EntryState::Invalid => {
            let issue = entry.issues.iter().find(|i| i.severity == crate::config::spec::Severity::Error);
            (
                LifeState::Parked(ParkReason::ConfigError),
                Some(issue.map_or_else(|| "the entry is not valid".to_owned(), ToString::to_string)),
                issue.and_then(|issue| issue.fix.clone()),
            )
        }
    };
    let spec = match &entry.state {
        EntryState::Ready(spec) => Some(spec),
        _ => None,
    };
    ServerView {
        id: id.clone(),
        label: label(entry),
        state,
        since: time::wall(),
        why,
        fix,
        next_attempt: None,
        late: false,
        listed: false,
        generation: Generation::default(),
        restarts: 0,
        pid: None,
        transport: entry.transport,
        revision: None,
        server_info: None,
        trust: spec.map_or(Trust::Untrusted, |spec| spec.trust),
        counts: ItemCounts::default(),
        definition_bytes: 0,
        in_flight: 0,
        queued: 0,
        calls_ok: 0,
        calls_failed: 0,
        start_took: None,
        last_stderr: None,
        warnings: entry.issues.iter().map(ToString::to_string).collect(),
        required: entry.required,
    }
}
