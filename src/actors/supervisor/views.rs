//! The first view of an entry: what is known before anything ran, and all there ever
//! is of an entry that can't run.

use crate::actors::server::Autostart;
use crate::config::spec::{Entry, EntryState, Trust};
use crate::id::shell_word;
use crate::time;
use crate::transport::guard;
use crate::view::{LifeState, ParkReason, ServerView, label};

/// The view of an entry before its actor said anything. One that starts by itself is shown as
/// connecting from the first moment, so that nobody takes it for one that waits to be used.
pub(crate) fn initial_view(entry: &Entry, autostart: Autostart) -> ServerView {
    let id = &entry.id;
    let (state, why, fix) = match &entry.state {
        EntryState::Ready(_) if autostart != Autostart::No => (LifeState::Connecting, None, None),
        EntryState::Ready(_) => (LifeState::Dormant, None, None),
        EntryState::Disabled => {
            let (why, fix) = match &entry.down {
                Some(down) => (down.why.to_string(), down.fix.to_string()),
                None => (
                    format!("turned off in {}", entry.source),
                    format!("callboard mcp enable {}", shell_word(id.as_str())),
                ),
            };
            (LifeState::Parked(ParkReason::Disabled), Some(why), Some(fix))
        }
        EntryState::Pending => (
            LifeState::Parked(ParkReason::PendingApproval),
            Some(format!(
                "{} is a project file; nothing of it runs before you approve it",
                entry.source.origin
            )),
            Some(format!("callboard mcp approve {}", shell_word(id.as_str()))),
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
        label: label(entry),
        why,
        fix,
        trust: spec.map_or(Trust::Untrusted, |spec| spec.trust),
        sandbox: spec
            .and_then(|spec| guard::level(spec))
            .map(|level| level.unwrap_or_else(|lack| lack).into()),
        warnings: entry.issues.iter().map(ToString::to_string).collect(),
        required: entry.required,
        ..ServerView::unknown(id.clone(), entry.transport, state, time::wall())
    }
}
