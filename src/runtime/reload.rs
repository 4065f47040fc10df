//! Reload: the difference between what runs and what a new configuration says. Only what changed
//! restarts; a configuration that can't be read whole changes nothing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::known::{books_of, kept_of};
use super::{CATALOG_LAG_MAX, Runtime, RuntimePlan};
use crate::actors::directory::Directory;
use crate::actors::registry::RegistryRef;
use crate::config::diff::{self, Change};
use crate::config::spec::{Entry, Issue, Severity};
use crate::view::LifeState;

/// What a reload did.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Every server of before or now, sorted by name.
    pub servers: Vec<ReloadedServer>,
}

/// What a reload did with one server.
#[derive(Clone, Debug)]
pub struct ReloadedServer {
    /// Its name, and what became of it.
    pub change: Change,
    /// Its state when the reload was done, and why, when that needs saying; `None` when it is gone.
    pub state: Option<(LifeState, Option<String>)>,
}

/// Nothing was changed: sources of the configuration can't be used, and what they said before may
/// be what runs.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What is wrong with them.
    pub issues: Vec<Issue>,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing was changed, because the configuration can't be read: ")?;
        for (index, issue) in self.issues.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{issue}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

impl Runtime {
    /// Makes the servers equal to the plan: unchanged ones keep their process and their calls,
    /// removed ones drain first (at most 2 s). Returns when what was removed or replaced is gone
    /// and the catalogue has forgotten it; new servers may still be connecting then.
    ///
    /// # Errors
    /// When a whole source can't be used. Then nothing changes. An entry that is wrong costs itself only.
    pub async fn reload(&self, plan: &RuntimePlan) -> Result<Reloaded, Refused> {
        Ok(self.go_by(plan).await?.done().await)
    }

    /// As `reload`, but returns as soon as the plan is on its way; of two, the later one counts.
    ///
    /// # Errors
    /// As `reload`.
    pub async fn go_by(&self, plan: &RuntimePlan) -> Result<Applied, Refused> {
        let broken = plan.servers.issues.iter().filter(|issue| issue.severity == Severity::Error);
        let issues: Vec<Issue> = broken.cloned().collect();
        if issues.is_empty() {
            // First: what a new mode forbids must not slip through while servers change.
            self.approvals.set_gate(plan.gate());
        }
        // Rules are bound to the scope of an entry, so they fit what runs in any case.
        match (&self.rule_watch, &plan.gate.place) {
            (Some(watch), Some(place)) if issues.is_empty() => watch.go_by(place),
            (Some(watch), _) => watch.look(),
            (None, _) => {}
        }
        if !issues.is_empty() {
            return Err(Refused { issues });
        }
        // What runs on has its catalogue.
        let before = self.directory();
        let fresh =
            |entry: &Entry| before.entries.get(&entry.id).is_none_or(|is| !diff::same(&is.entry, entry));
        let (kept, books) = (kept_of(plan, fresh).await, books_of(plan).await);
        let changes = Box::pin(self.apply(plan, kept, books));
        Ok(Applied { changes, registry: self.registry.clone(), directory: self.directory.clone() })
    }
}

/// A plan that is being put into force.
pub struct Applied {
    changes: BoxFuture<'static, Vec<Change>>,
    registry: RegistryRef,
    directory: watch::Receiver<Arc<Directory>>,
}

impl std::fmt::Debug for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applied").finish_non_exhaustive()
    }
}

impl Applied {
    /// Waits until what was removed or replaced is gone and the catalogue has forgotten it.
    pub async fn done(self) -> Reloaded {
        let changes = self.changes.await;
        caught_up(&self.registry).await;
        let directory = self.directory.borrow().clone();
        let state = |change: &Change| {
            let view = directory.entries.get(change.id())?.view.borrow();
            Some((view.state, view.why.clone()))
        };
        let servers = changes.into_iter().map(|change| ReloadedServer { state: state(&change), change });
        Reloaded { servers: servers.collect() }
    }
}

/// Waits until the merged catalogue has what the servers handed over before their views said so.
pub(super) async fn caught_up(registry: &RegistryRef) {
    let _ = tokio::time::timeout(CATALOG_LAG_MAX, registry.caught_up()).await;
}
