//! The catalogue of one server: which lists to read, when to read them again, and
//! what goes to the registry. A failed refresh keeps what was known.

use std::sync::Arc;
use std::time::Duration;

use super::msg::{ServerMsg, Wake};
use super::state::{Live, ServerState};
use crate::actors::task;
use crate::catalog::items::{ItemList, ListKind};
use crate::time::Monotonic;
use crate::transport::http::MirroredParams;
use crate::transport::link::LinkEvent;
use crate::transport::{Connector, list};
use crate::view::ItemCounts;
use crate::wire::era::Era;

/// Notifications within this time after one cost a single refresh.
pub(super) const REFRESH_DEBOUNCE: Duration = Duration::from_millis(250);
/// Least time between two refreshes of one list.
pub(super) const REFRESH_GAP_MIN: Duration = Duration::from_secs(1);

impl ServerState {
    /// Reads every list that the server announces; tools in any case, because some forget to.
    pub(super) fn begin_lists(&mut self) {
        for kind in self.offered() {
            self.read_list(kind);
        }
        let mut catalog = (*self.catalog).clone();
        catalog.generation = self.generation;
        catalog.listed = false;
        catalog.instructions = self.live.as_ref().and_then(|live| live.established.instructions.clone());
        self.catalog = Arc::new(catalog);
    }

    /// The lists that this server has.
    fn offered(&self) -> Vec<ListKind> {
        let Some(live) = &self.live else { return Vec::new() };
        let offers = live.established.offers;
        let wanted = ListKind::ALL.into_iter().filter(|kind| match kind {
            ListKind::Tools => true,
            ListKind::Resources | ListKind::Templates => offers.resources,
            ListKind::Prompts => offers.prompts,
        });
        wanted.collect()
    }

    fn read_list(&mut self, kind: ListKind) {
        let Some(live) = &self.live else { return };
        let (link, established) = (live.link.clone(), live.established.clone());
        let (generation, limit) = (self.generation, self.args.spec.timeouts.list);
        let work = async move {
            let list = list::fetch(&link, &established, kind, limit).await.map(|listed| listed.list);
            ServerMsg::Listed(generation, kind, list)
        };
        let lost = move |lost| {
            ServerMsg::Listed(generation, kind, Err(format!("{} was lost: {lost:?}", kind.method())))
        };
        self.lists.insert(kind, task::spawn(&self.me, work, lost));
        self.dirty = true;
    }

    pub(super) fn listed(&mut self, kind: ListKind, list: Result<ItemList, String>) {
        self.lists.remove(&kind);
        let announced = self.live.as_ref().is_some_and(|live| live.established.offers.tools);
        let read = list.is_ok() || !announced;
        match list {
            Ok(mut list) => {
                if kind == ListKind::Tools && self.mirrors_params() {
                    self.mirrored = Arc::new(MirroredParams::vet(&mut list));
                }
                if self.catalog.list(kind) != &list {
                    let mut catalog = (*self.catalog).clone();
                    *catalog.list_mut(kind) = list;
                    self.catalog = Arc::new(catalog);
                }
            }
            Err(cause) => {
                if kind != ListKind::Tools || announced {
                    self.mark_unread(kind, cause);
                }
            }
        }
        if self.lists.is_empty() && !self.catalog.listed {
            Arc::make_mut(&mut self.catalog).listed = true;
        }
        self.publish_catalog();
        if kind == ListKind::Tools {
            self.probe_listed(read);
        }
        if self.lists.is_empty() {
            self.args.registry.settled(self.args.spec.id.clone());
        }
        if self.list_again.remove(&kind) {
            self.refresh_later(kind);
        }
        self.dirty = true;
    }

    /// What could not be read may exist: nothing is unknown until the list has been read.
    fn mark_unread(&mut self, kind: ListKind, cause: String) {
        let list = Arc::make_mut(&mut self.catalog).list_mut(kind);
        list.incomplete = true;
        list.unread = Some(cause);
    }

    /// Whether parameters may have to be mirrored in headers: modern HTTP alone has that.
    fn mirrors_params(&self) -> bool {
        let modern = |live: &Live| live.established.revision.era() == Era::Modern;
        matches!(self.args.connector, Ok(Connector::Http(_))) && self.live.as_ref().is_some_and(modern)
    }

    /// Hands the catalogue to the registry and its figures to the view.
    pub(super) fn publish_catalog(&mut self) {
        let filter = &self.args.spec.filter;
        let listed = |item: &Arc<crate::catalog::items::Item>| filter.keeps(&item.name);
        let tools = self.catalog.tools.items.iter().filter(|item| listed(item)).count();
        self.view.counts = ItemCounts {
            tools,
            quarantined: self.catalog.tools.quarantined.len(),
            filtered: self.catalog.tools.items.len() - tools,
            resources: self.catalog.resources.items.len(),
            templates: self.catalog.templates.items.len(),
            prompts: self.catalog.prompts.items.len(),
        };
        let kept = self.catalog.tools.items.iter().filter(|item| listed(item));
        self.view.definition_bytes = kept.map(|item| item.raw.len() as u64).sum();
        self.args.registry.publish(self.catalog.clone(), self.args.spec.filter.clone());
        self.dirty = true;
    }

    pub(super) fn notified(&mut self, event: &LinkEvent) {
        match event {
            LinkEvent::Notification { method, .. } => {
                let kinds: &[ListKind] = match method.as_str() {
                    "notifications/tools/list_changed" => &[ListKind::Tools],
                    "notifications/prompts/list_changed" => &[ListKind::Prompts],
                    "notifications/resources/list_changed" => &[ListKind::Resources, ListKind::Templates],
                    _ => &[],
                };
                for kind in kinds {
                    self.refresh_later(*kind);
                }
            }
            LinkEvent::SessionRenewed => {
                for kind in self.offered() {
                    self.refresh_later(kind);
                }
            }
        }
    }

    fn refresh_later(&mut self, kind: ListKind) {
        if self.lists.contains_key(&kind) {
            self.list_again.insert(kind);
            return;
        }
        let name = kind.method();
        if self.has_timer(name) {
            return;
        }
        let now = Monotonic::now();
        let soonest = self.list_read.get(&kind).map_or(now, |at| *at + REFRESH_GAP_MIN);
        self.wake_at(name, soonest.max(now + REFRESH_DEBOUNCE), Wake::Refresh(kind));
    }

    /// The debounce is over.
    pub(super) fn refresh(&mut self, kind: ListKind) {
        self.drop_timer(kind.method());
        self.list_read.insert(kind, Monotonic::now());
        self.read_list(kind);
    }
}
