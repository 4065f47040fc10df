//! What a client has of the host: which servers, and how they are served to it. Clients with equal parts
//! share one snapshot of it, which is made anew only when one of these servers changed: what others have
//! costs a client nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::caller::Caller;
use super::client::Client;
use super::host::{Host, locked};
use super::subscriptions::Follow;
use super::view::View;
use crate::actors::frontend::FrontendRef;
use crate::builtins::guests;
use crate::call::{CallError, CallReply, CallRequest, EventsIn};
use crate::catalog::merge::Catalog;
use crate::catalog::naming::{Identity, NamingRule};
use crate::catalog::part::{Own, part};
use crate::config::mode::Mode;
use crate::config::serve::ServeSettings;
use crate::config::spec::ToolFilter;
use crate::id::ServerId;

/// Which servers of a host a client has.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// All that there are.
    All,
    /// All but those that act as one person and are for nobody else.
    Impersonal,
    /// These, no two of one name, each with its listing filter.
    These(BTreeMap<ServerId, ToolFilter>),
}

/// What a client has of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its servers.
    pub reach: Reach,
    /// How they are served to it.
    pub settings: ServeSettings,
    /// Exposed names that none of its servers may take.
    pub reserved: Vec<String>,
    /// Its own mode, which only makes the host's stricter.
    pub mode: Option<Mode>,
}

/// A part, and the last snapshot of it.
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) part: Part,
    /// Its servers, where they are counted.
    pub(super) servers: Option<Arc<BTreeSet<ServerId>>>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Of which catalogue of the host the snapshot is.
    of: Arc<Catalog>,
    view: Arc<View>,
    /// Names given so far: a name stays with its owner. Empty until every server has settled once.
    names: BTreeMap<Identity, String>,
}

impl Pane {
    pub(super) fn new(part: Part) -> Self {
        let servers = match &part.reach {
            Reach::These(servers) => Some(Arc::new(servers.keys().cloned().collect())),
            Reach::All | Reach::Impersonal => None,
        };
        Self { part, servers, seen: Mutex::default() }
    }

    /// Names stay with their owners when a client's part changes.
    pub(super) fn take_names(&self, before: &Self) {
        let Some(servers) = &self.servers else { return };
        let names = locked(&before.seen).names.clone();
        let own = |server: &ServerId| servers.iter().find(|id| id.plain() == server.plain()).cloned();
        locked(&self.seen).names = names
            .into_iter()
            .filter_map(|((server, raw), name)| Some(((own(&server)?, raw), name)))
            .collect();
    }

    /// The snapshot of this catalogue of the host. `for_others` says of a server whether it is for everybody,
    /// with its filter; `is_settled`, whether nothing more is to be expected of the servers of this part.
    pub(super) fn view(
        &self,
        catalog: Arc<Catalog>,
        for_others: impl Fn(&ServerId) -> Option<ToolFilter>,
        is_settled: impl FnOnce() -> bool,
    ) -> Arc<View> {
        let mut seen = locked(&self.seen);
        if Arc::ptr_eq(&seen.of, &catalog) {
            return seen.view.clone();
        }
        let ServeSettings { naming, name_len_max, .. } = self.part.settings;
        let rule = NamingRule { style: naming, len_max: name_len_max, reserved: &self.part.reserved };
        let of_these = |servers: &BTreeMap<ServerId, ToolFilter>, names: &BTreeMap<Identity, String>| {
            let own = part(&catalog.servers, &Own { servers, rule, remembered: names });
            Arc::new(own)
        };
        let own = match &self.part.reach {
            Reach::All => Some(catalog.clone()),
            Reach::These(servers) => {
                let changed = servers.keys().any(|id| !is_same(&seen.of, &catalog, id));
                changed.then(|| of_these(servers, &seen.names))
            }
            Reach::Impersonal => {
                let servers = catalog.servers.keys();
                let servers = servers.filter_map(|id| Some((id.clone(), for_others(id)?))).collect();
                Some(of_these(&servers, &seen.names))
            }
        };
        if let Some(own) = own {
            if is_settled() {
                seen.names = own.names.clone();
            }
            seen.view = Arc::new(View::of(own, rule));
        }
        seen.of = catalog;
        seen.view.clone()
    }
}

/// Whether both catalogues say the same of a server.
fn is_same(one: &Catalog, other: &Catalog, server: &ServerId) -> bool {
    match (one.servers.get(server), other.servers.get(server)) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// The mode that holds for a client; `None`: the host's.
fn mode(who: &Caller, pane: &Pane) -> Option<Mode> {
    match (who.mode, pane.part.mode) {
        (Some(one), Some(other)) => Some(one.stricter(other)),
        (one, other) => one.or(other),
    }
}

/// The way to call for a client with this part.
pub(super) fn way(host: &Host, who: &Caller, pane: &Pane) -> FrontendRef {
    host.frontend(who.door).at_most(mode(who, pane)).among(pane.servers.clone())
}

impl Client {
    /// What it has of the host.
    pub(super) fn pane(&self) -> Arc<Pane> {
        locked(&self.pane).clone()
    }

    /// What it has is something else from now on: its configuration changed. It is told what it would see
    /// another way; what it follows at a server that it has no more is over.
    pub fn becomes(self: &Arc<Self>, part: Part) {
        let pane = self.host.pane(part, Some(&self.pane()));
        *locked(&self.way) = way(&self.host, self.who(), &pane);
        *locked(&self.pane) = pane.clone();
        let over: Vec<(String, Follow)> = {
            let mut state = self.state();
            let gone = |follow: &Follow| !self.host.reaches(&pane, follow.server());
            let mut over: Vec<_> = state.subscribed.extract_if(|_, follow| gone(follow)).collect();
            for listen in state.listens.values_mut() {
                over.extend(listen.follows.extract_if(.., |(_, follow)| gone(follow)));
            }
            over
        };
        // Dropped behind the lock: their servers are told.
        drop(over);
        self.tell_changes(&self.view());
        self.host.level_servers();
    }

    /// The mode that holds for its calls; `None`: the host's.
    pub(super) fn mode(&self) -> Option<Mode> {
        mode(self.who(), &self.pane())
    }

    /// Calls for it; the client can this in a request of its own.
    pub(super) fn call(
        &self,
        capabilities: Option<Bytes>,
        call: CallRequest,
        events: EventsIn,
    ) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
        let era = self.era();
        locked(&self.way).call_for((era, capabilities), call, events)
    }

    /// Whether it may see a whole server.
    pub(super) fn sees_server(&self, server: &ServerId) -> bool {
        self.host.reaches(&self.pane(), server) && self.who().sees_server(server)
    }

    /// What the host's own tools know of what it has; `None`: it has everything.
    pub(super) fn share(&self) -> Option<guests::Own> {
        let pane = self.pane();
        if pane.part.reach == Reach::All && self.mode().is_none() {
            return None;
        }
        let (host, of) = (self.host.clone(), pane.clone());
        let reaches = Box::new(move |server: &ServerId| host.reaches(&of, server));
        Some(guests::Own { catalog: self.view().catalog.clone(), reaches, mode: self.mode() })
    }

    /// The snapshot, after a moment for servers that are on their way when this client is new.
    pub(super) async fn settled_view(&self) -> Arc<View> {
        self.host.settle(&self.pane(), self.patient_until).await;
        self.view()
    }

    /// The snapshot, as soon as it has what is looked for, or when a new client has waited for long.
    pub(super) async fn view_with(&self, found: impl Fn(&View) -> bool) -> Arc<View> {
        let view = self.view();
        if found(&view) {
            return view;
        }
        // Apart: hardly any call needs the room.
        let pane = self.pane();
        Box::pin(self.host.settle_for(&pane, self.hopeful_until, found)).await;
        self.view()
    }

    /// The snapshot as of now.
    pub(super) fn view(&self) -> Arc<View> {
        self.host.view_of(&self.pane())
    }
}
