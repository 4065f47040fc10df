//! Following views without missing a change: for commands that start servers, look,
//! and end, and for live tables.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use crate::actors::directory::Directory;
use crate::id::ServerId;
use crate::time::Monotonic;
use crate::view::{LifeState, ServerView};

/// Follows the views of all servers, or of some. What changed between a look and the
/// next wait is never missed.
#[derive(Debug)]
pub struct ViewWatch {
    directory: watch::Receiver<Arc<Directory>>,
    wanted: Vec<ServerId>,
    views: Vec<watch::Receiver<ServerView>>,
}

impl ViewWatch {
    pub(super) fn new(directory: watch::Receiver<Arc<Directory>>, wanted: &[ServerId]) -> Self {
        let mut watch = Self { directory, wanted: wanted.to_vec(), views: Vec::new() };
        watch.renew();
        watch
    }

    fn renew(&mut self) {
        let directory = self.directory.borrow_and_update();
        let wanted = |id: &ServerId| self.wanted.is_empty() || self.wanted.contains(id);
        let entries = directory.entries.iter().filter(|(id, _)| wanted(id));
        self.views = entries.map(|(_, entry)| entry.view.clone()).collect();
    }

    /// The views as of now, sorted by name.
    pub fn look(&mut self) -> Vec<ServerView> {
        if self.directory.has_changed().unwrap_or(false) {
            self.renew();
        }
        self.views.iter_mut().map(|view| view.borrow_and_update().clone()).collect()
    }

    /// Resolves when something changed since the last look. Cancel-safe.
    pub async fn changed(&mut self) {
        let mut changes: FuturesUnordered<_> = self.views.iter_mut().map(|view| view.changed()).collect();
        let directory = tokio::select! {
            biased;
            _ = self.directory.changed() => true,
            Some(_) = changes.next() => false,
        };
        drop(changes);
        if directory {
            // A server may have been added; the next look must not miss it.
            self.renew();
        } else {
            self.renew_if_replaced();
        }
    }

    fn renew_if_replaced(&mut self) {
        // A closed view belongs to a server that was replaced or removed.
        if self.views.iter().any(|view| view.has_changed().is_err()) {
            self.renew();
        }
    }

    /// Resolves when each server is settled: it won't change by itself, and its lists are read.
    pub async fn settled(&mut self) {
        while !self.look().iter().all(is_settled) {
            self.changed().await;
        }
    }

    /// Resolves when all are settled or late, or `grace` after the last one became ready. One that is
    /// late has shown what it does: who waits for the truth about all has it.
    pub async fn settled_or_quiet(&mut self, grace: Duration) {
        let mut ready = 0;
        let mut quiet_at: Option<Monotonic> = None;
        loop {
            let views = self.look();
            if views.iter().all(|view| view.late || is_settled(view)) {
                return;
            }
            let now_ready = views.iter().filter(|view| view.state == LifeState::Ready).count();
            if now_ready > ready {
                ready = now_ready;
                quiet_at = Some(Monotonic::now() + grace);
            }
            let quiet = async move {
                match quiet_at {
                    Some(at) => tokio::time::sleep_until(at.into_tokio()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = quiet => return,
                () = self.changed() => {}
            }
        }
    }
}

/// Whether nothing more is to be expected of a server for now.
pub fn is_settled(view: &ServerView) -> bool {
    match view.state {
        LifeState::Ready => view.listed,
        other => other.is_settled(),
    }
}
