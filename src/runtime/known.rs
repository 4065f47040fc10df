//! What is known of the servers of a plan from earlier runs: what they offer, and what their tools were
//! pinned as. Read before the plan is put into force.

use super::RuntimePlan;
use super::pins::{self, Books};
use crate::config::spec::{Entry, EntryState};
use crate::id::BUILTINS;
use crate::transport::kept::{self, KeptAll};

/// What the tools of a plan's servers were pinned as.
pub(super) async fn books_of(plan: &RuntimePlan) -> Books {
    let others = plan.servers.entries.iter().filter(|entry| entry.id.as_str() != BUILTINS);
    pins::load(plan.pins.clone(), others.cloned().collect()).await
}

/// What is kept of those servers of a plan that may run. A file that can't be read is as none.
pub(super) async fn kept_of(plan: &RuntimePlan, which: impl Fn(&Entry) -> bool) -> KeptAll {
    let Some(folder) = plan.catalogs.clone() else { return KeptAll::new() };
    let others = plan.servers.entries.iter().filter(|entry| entry.id.as_str() != BUILTINS);
    let able = others.filter(|entry| matches!(entry.state, EntryState::Ready(_)) && which(entry));
    let entries: Vec<Entry> = able.cloned().collect();
    let read = tokio::task::spawn_blocking(move || kept::load(&folder, entries.iter()));
    read.await.unwrap_or_default()
}
