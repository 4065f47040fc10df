//! Keeps what servers offer between runs: follows the merged catalogue, and writes what changed
//! in a task of its own, gathered, at most every few seconds and at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::actors::directory::Directory;
use crate::catalog::items::ServerCatalog;
use crate::catalog::kept::{is_same, is_whole};
use crate::catalog::merge::Catalog;
use crate::config::spec::Entry;
use crate::time;
use crate::transport::kept::{self, KeptAll};
use crate::transport::task::{self, Owned};

/// Least time between two rounds of writing.
const KEEP_GAP: Duration = Duration::from_secs(3);

/// The task that keeps.
#[derive(Debug)]
pub(super) struct Keeper {
    task: Owned,
    end: oneshot::Sender<()>,
}

impl Keeper {
    /// Begins to follow; `known` is what the files say already.
    pub(super) fn start(
        folder: PathBuf,
        catalog: watch::Receiver<Arc<Catalog>>,
        directory: watch::Receiver<Arc<Directory>>,
        known: &KeptAll,
    ) -> Self {
        let entries = directory.borrow().entries.clone();
        let known = known.iter().filter_map(|(id, kept)| {
            Some((kept::file(&folder, &entries.get(id)?.entry), kept.catalog.clone()))
        });
        let known = known.collect();
        let (end, ended) = oneshot::channel();
        let desk = Desk { folder, catalog, directory, known };
        Self { task: task::spawn(desk.follow(ended)), end }
    }

    /// Writes what is left, and returns when that is done.
    pub(super) async fn finish(self) {
        let _ = self.end.send(());
        self.task.join().await;
    }
}

struct Desk {
    folder: PathBuf,
    catalog: watch::Receiver<Arc<Catalog>>,
    directory: watch::Receiver<Arc<Directory>>,
    /// What the files say, by file.
    known: BTreeMap<PathBuf, Arc<ServerCatalog>>,
}

/// What is to be written, or only confirmed.
struct Job {
    entry: Arc<Entry>,
    catalog: Arc<ServerCatalog>,
    is_new: bool,
}

impl Desk {
    async fn follow(mut self, mut ended: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                biased;
                // Also when the runtime is dropped without an end in order.
                _ = &mut ended => break,
                changed = self.catalog.changed() => if changed.is_err() { break },
            }
            if tokio::time::timeout(KEEP_GAP, &mut ended).await.is_ok() {
                break;
            }
            self.keep(false).await;
        }
        self.keep(true).await;
    }

    /// Writes what changed; at the last time confirms the rest.
    async fn keep(&mut self, last: bool) {
        let catalog = self.catalog.borrow_and_update().clone();
        let directory = self.directory.borrow().clone();
        let mut jobs = Vec::new();
        for (id, offered) in catalog.servers.iter().filter(|(_, offered)| is_whole(offered)) {
            let current = directory.entries.get(id).filter(|entry| offered.generation >= entry.first);
            let Some(entry) = current.map(|current| current.entry.clone()) else { continue };
            let path = kept::file(&self.folder, &entry);
            let is_new = self.known.get(&path).is_none_or(|before| !is_same(before, offered));
            if is_new || last {
                jobs.push(Job { entry, catalog: offered.clone(), is_new });
            }
            self.known.insert(path, offered.clone());
        }
        let folder = self.folder.clone();
        if !jobs.is_empty() {
            // A file that could not be written is written by a later run.
            let _ = tokio::task::spawn_blocking(move || perform(&folder, &jobs)).await;
        }
    }
}

fn perform(folder: &std::path::Path, jobs: &[Job]) {
    for Job { entry, catalog, is_new } in jobs {
        if !is_new {
            kept::confirm(folder, entry, time::wall());
        } else if let Err(error) = kept::write(folder, entry, catalog) {
            tracing::info!(server = %entry.id, %error, "what a server offers could not be kept");
        }
    }
    if jobs.iter().any(|job| job.is_new) {
        kept::prune(folder);
    }
}
