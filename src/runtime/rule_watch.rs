//! Follows the file of allow rules, so that a rule that is given or taken back counts in a host
//! that runs. Looks at its name, size and time every second and reads it when they changed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};

use crate::actors::approvals::{ApprovalsMsg, RulePlace};
use crate::actors::root::Seat;
use crate::config::rule_file;
use crate::config::rules::AllowRules;
use crate::transport::task::{self, Owned};

/// Time between two looks.
const LOOK_GAP: Duration = Duration::from_secs(1);

/// The task that follows; dropping it ends it.
#[derive(Debug)]
pub(super) struct RuleWatch {
    place: watch::Sender<RulePlace>,
    now: Arc<Notify>,
    _task: Owned,
}

impl RuleWatch {
    /// Follows the file; `now` asks for a look at once.
    pub(super) fn start(place: RulePlace, desk: Seat<ApprovalsMsg>, now: Arc<Notify>) -> Self {
        let (place, follows) = watch::channel(place);
        let task = task::spawn(follow(follows, desk, now.clone()));
        Self { place, now, _task: task }
    }

    /// Goes by this from now on.
    pub(super) fn go_by(&self, place: &RulePlace) {
        self.place.send_replace(place.clone());
        self.look();
    }

    /// Reads the file now, whatever it looks like.
    pub(super) fn look(&self) {
        self.now.notify_one();
    }
}

async fn follow(place: watch::Receiver<RulePlace>, desk: Seat<ApprovalsMsg>, now: Arc<Notify>) {
    // The plan was made of the file as it was a moment ago.
    let mut last = None;
    let mut changed = true;
    loop {
        let asked = tokio::time::timeout(LOOK_GAP, now.notified()).await.is_ok();
        // What changed is read once more: two changes within one tick of the clock of a file look like one.
        let before = if asked || changed { None } else { last };
        let place = place.borrow().clone();
        let Some((stamp, rules)) = task::blocking(move || look(&place, before)).await else { continue };
        changed = last != Some(stamp);
        last = Some(stamp);
        if let Some(rules) = rules {
            desk.cast(ApprovalsMsg::Rules(rules));
        }
    }
}

/// What tells one content of the file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(Option<(u64, u64, Option<SystemTime>)>);

fn look(place: &RulePlace, before: Option<Stamp>) -> (Stamp, Option<AllowRules>) {
    // First the stamp: a change between the two is seen at the next look.
    let stamp = stamp(&rule_file::file(&place.home));
    if before == Some(stamp) {
        return (stamp, None);
    }
    (stamp, Some(rules_of(place)))
}

/// The rules that are in force there now. Reads the file; blocking.
pub fn rules_of(place: &RulePlace) -> AllowRules {
    match rule_file::read(&place.home) {
        Ok(book) => place.in_force(&book),
        Err(error) => {
            tracing::warn!(%error, "no allow rule is in force");
            AllowRules::default()
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let Ok(metadata) = std::fs::metadata(path) else { return Stamp(None) };
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Stamp(Some((inode, metadata.len(), metadata.modified().ok())))
}
