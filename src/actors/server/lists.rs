//! The catalogue of one server: which lists it has, what was read, and what goes to the
//! registry. A failed read keeps what was known. When they are read again: `poll`.

use std::sync::Arc;

use super::msg::ServerMsg;
use super::state::{Live, ServerState};
use crate::actors::task;
use crate::catalog::items::{ItemList, ListKind};
use crate::policy::refresh::Found;
use crate::time::Monotonic;
use crate::transport::http::MirroredParams;
use crate::transport::{Connector, list};
use crate::view::history::What;
use crate::wire::era::Era;

impl ServerState {
    /// Reads every list that the server announces; tools in any case, because some forget to.
    pub(super) fn begin_lists(&mut self) {
        let now = Monotonic::now();
        for kind in self.offered() {
            self.refreshes.entry(kind).or_default().first(now);
            self.read_list(kind);
        }
        self.dirty = true;
        let mut catalog = (*self.catalog).clone();
        catalog.generation = self.generation;
        catalog.listed = false;
        catalog.capabilities = self.live.as_ref().map(|live| live.established.capabilities.clone());
        catalog.revision = self.live.as_ref().map(|live| live.established.revision);
        catalog.instructions = self.live.as_ref().and_then(|live| live.established.instructions.clone());
        self.catalog = Arc::new(catalog);
    }

    /// The lists that this server has.
    pub(super) fn offered(&self) -> Vec<ListKind> {
        let Some(live) = &self.live else { return Vec::new() };
        let offers = live.established.offers;
        let wanted = ListKind::ALL.into_iter().filter(|kind| match kind {
            ListKind::Tools => true,
            ListKind::Resources | ListKind::Templates => offers.resources,
            ListKind::Prompts => offers.prompts,
        });
        wanted.collect()
    }

    pub(super) fn read_list(&mut self, kind: ListKind) {
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
    }

    pub(super) fn listed(&mut self, kind: ListKind, list: Result<ItemList, String>) {
        if self.lists.remove(&kind).is_none() {
            // The read was given up together with its connection: what it says is of no use.
            return;
        }
        let announced = self.live.as_ref().is_some_and(|live| live.established.offers.tools);
        let read = list.is_ok() || !announced;
        let failed = list.as_ref().err().filter(|_| announced || kind != ListKind::Tools);
        let failed = failed.map(|cause| self.line(cause));
        let found = self.take_list(kind, list);
        let fresh = found == Found::Changed && failed.is_none();
        if let Some(text) = failed {
            self.note(What::ListFailed { list: kind.method(), text });
        }
        let done = self.lists.is_empty() && !self.catalog.listed;
        if done {
            Arc::make_mut(&mut self.catalog).listed = true;
            self.view.kept_from = None;
        }
        // What is the same is not handed over again: nobody has to merge or look for it.
        if done || found == Found::Changed {
            self.publish_catalog();
        }
        if (done && self.catalog.tools.unread.is_none()) || (fresh && self.catalog.listed) {
            self.note(What::Listed(self.view.counts));
        }
        if kind == ListKind::Tools {
            self.tools_looked_at();
            self.probe_listed(read);
        }
        if done {
            self.args.registry.settled(self.args.spec.id.clone());
            self.schedule_poll(true);
        }
        let again = self.refreshes.entry(kind).or_default().ended(found, Monotonic::now());
        self.wake_for(kind, again);
    }

    /// A list that breaks off after its first pages is better than nothing, and worse than a whole one
    /// that is known.
    fn better_than_known(&self, kind: ListKind, list: ItemList) -> Result<ItemList, String> {
        let known = self.catalog.list(kind);
        match list.broken {
            Some(cause) if known.broken.is_none() && !known.items.is_empty() => Err(cause),
            _ => Ok(list),
        }
    }

    /// Takes over a list that was read. One that failed keeps what was known, and says so.
    fn take_list(&mut self, kind: ListKind, list: Result<ItemList, String>) -> Found {
        let mut list = match list.and_then(|list| self.better_than_known(kind, list)) {
            Ok(list) => list,
            Err(cause) => {
                let announced = self.live.as_ref().is_some_and(|live| live.established.offers.tools);
                if kind == ListKind::Tools && !announced {
                    return Found::Nothing;
                }
                let mut known = self.catalog.list(kind).clone();
                // What could not be read may exist: nothing is unknown until the list has been read.
                known.incomplete = true;
                known.unread = Some(cause);
                known
            }
        };
        if kind == ListKind::Tools && self.mirrors_params() && list.unread.is_none() {
            self.mirrored = Arc::new(MirroredParams::vet(&mut list));
        }
        if self.catalog.list(kind) == &list {
            return Found::Nothing;
        }
        *Arc::make_mut(&mut self.catalog).list_mut(kind) = list;
        self.dirty = true;
        if kind == ListKind::Tools {
            self.judge_tools();
        }
        Found::Changed
    }

    /// Until its tools are read, what was kept says which parameters are to be mirrored.
    pub(super) fn foresee_params(&mut self) {
        if self.mirrors_params() && self.view.kept_from.is_some() {
            self.mirrored = Arc::new(MirroredParams::vet(&mut self.catalog.tools.clone()));
        }
    }

    /// Whether parameters may have to be mirrored in headers: modern HTTP alone has that.
    fn mirrors_params(&self) -> bool {
        let modern = |live: &Live| live.established.revision.era() == Era::Modern;
        matches!(self.args.connector, Ok(Connector::Http(_))) && self.live.as_ref().is_some_and(modern)
    }

    /// Hands the catalogue to the registry and its figures to the view.
    pub(super) fn publish_catalog(&mut self) {
        self.view.show_counts(&self.catalog, &self.args.spec.filter);
        self.args.registry.publish(self.catalog.clone(), self.args.spec.filter.clone());
        self.dirty = true;
    }
}
