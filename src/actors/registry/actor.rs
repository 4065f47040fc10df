//! The registry actor and its reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{oneshot, watch};

use crate::actors::root::Seat;
use crate::catalog::items::ServerCatalog;
use crate::catalog::merge::{Catalog, MergeInput, merge};
use crate::config::spec::{NamingStyle, ToolFilter};
use crate::id::{Generation, ServerId};

/// What the registry is told.
#[derive(Debug)]
pub(crate) enum RegistryMsg {
    /// A server's catalogue changed.
    Publish(Arc<ServerCatalog>, ToolFilter),
    /// Nothing more is to be expected of this server for now: listed, or parked.
    Settled(ServerId),
    /// These servers run, each from that generation on; what is older, or of others, is forgotten
    /// and not taken any more.
    Keep(BTreeMap<ServerId, Generation>),
    /// Everything that was told before has been taken: merge it.
    Merge,
    /// Answer: everything before has been published.
    CaughtUp(oneshot::Sender<()>),
}

/// A handle to the registry.
#[derive(Clone, Debug)]
pub struct RegistryRef(pub(crate) Seat<RegistryMsg>);

impl RegistryRef {
    /// Hands over a server's catalogue and its listing filter.
    pub(crate) fn publish(&self, catalog: Arc<ServerCatalog>, filter: ToolFilter) {
        self.0.cast(RegistryMsg::Publish(catalog, filter));
    }

    /// Says that nothing more is to be expected of this server for now.
    pub(crate) fn settled(&self, server: ServerId) {
        self.0.cast(RegistryMsg::Settled(server));
    }

    /// Waits until everything that was handed over before has been published.
    pub(crate) async fn caught_up(&self) {
        let (port, done) = oneshot::channel();
        self.0.cast(RegistryMsg::CaughtUp(port));
        // No answer comes from one that failed meanwhile: there is nothing to wait for then.
        let _ = done.await;
    }

    /// Forgets every server that is not in `servers`, and what is older than the generation there.
    pub(crate) fn keep(&self, servers: BTreeMap<ServerId, Generation>) {
        self.0.cast(RegistryMsg::Keep(servers));
    }
}

/// What the registry is made of.
#[derive(Clone, Debug)]
pub(crate) struct RegistryArgs {
    pub style: NamingStyle,
    pub name_len_max: usize,
    pub reserved: Vec<String>,
    /// Kept by the runtime, so readers keep the last value across a restart.
    pub out: watch::Sender<Arc<Catalog>>,
}

pub(crate) struct RegistryActor;

pub(crate) struct RegistryState {
    me: ActorRef<RegistryMsg>,
    args: RegistryArgs,
    /// Something was taken since the last merge. Many servers that speak at once cost one.
    merge_is_due: bool,
    servers: BTreeMap<ServerId, Arc<ServerCatalog>>,
    filters: BTreeMap<ServerId, ToolFilter>,
    /// The servers that run, from which generation on, and those of which nothing more is to be expected.
    running: BTreeMap<ServerId, Generation>,
    settled: BTreeSet<ServerId>,
    /// Names given so far: a name stays with its owner while the host runs. Empty until every
    /// server has settled once, so that names never depend on who answered first (I12).
    remembered: BTreeMap<(ServerId, String), String>,
}

impl Actor for RegistryActor {
    type Msg = RegistryMsg;
    type State = RegistryState;
    type Arguments = RegistryArgs;

    async fn pre_start(
        &self,
        me: ActorRef<RegistryMsg>,
        args: RegistryArgs,
    ) -> Result<RegistryState, ActorProcessingErr> {
        Ok(RegistryState {
            me,
            merge_is_due: false,
            args,
            servers: BTreeMap::new(),
            filters: BTreeMap::new(),
            running: BTreeMap::new(),
            settled: BTreeSet::new(),
            remembered: BTreeMap::new(),
        })
    }

    async fn handle(
        &self,
        _me: ActorRef<RegistryMsg>,
        message: RegistryMsg,
        state: &mut RegistryState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        crate::actors::panics::meet("registry", &message);
        match message {
            RegistryMsg::Publish(catalog, filter) => {
                let id = catalog.server.clone();
                if !state.may_speak(&id, catalog.generation) {
                    return Ok(());
                }
                state.filters.insert(id.clone(), filter);
                state.servers.insert(id, catalog);
            }
            RegistryMsg::Settled(id) => {
                if !state.running.contains_key(&id) || !state.settled.insert(id) {
                    return Ok(());
                }
            }
            RegistryMsg::Keep(servers) => {
                state.running = servers;
                let RegistryState { running, servers, filters, settled, .. } = state;
                servers
                    .retain(|id, catalog| running.get(id).is_some_and(|first| catalog.generation >= *first));
                filters.retain(|id, _| running.contains_key(id));
                settled.retain(|id| running.contains_key(id));
            }
            RegistryMsg::Merge => {
                state.publish();
                return Ok(());
            }
            RegistryMsg::CaughtUp(port) => {
                state.publish();
                let _ = port.send(());
                return Ok(());
            }
        }
        if !std::mem::replace(&mut state.merge_is_due, true) {
            let _ = state.me.cast(RegistryMsg::Merge);
        }
        Ok(())
    }
}

impl RegistryState {
    /// Whether a catalogue of that generation counts: the server is configured, and not by an
    /// entry that was replaced since.
    fn may_speak(&self, server: &ServerId, generation: Generation) -> bool {
        self.running.get(server).is_some_and(|first| generation >= *first)
    }

    fn publish(&mut self) {
        if !std::mem::take(&mut self.merge_is_due) {
            return;
        }
        let mut catalog = merge(&MergeInput {
            servers: &self.servers,
            filters: &self.filters,
            style: self.args.style,
            name_len_max: self.args.name_len_max,
            reserved: &self.args.reserved,
            remembered: &self.remembered,
        });
        if self.running.keys().all(|id| self.settled.contains(id)) {
            self.remembered = catalog.names.clone();
        }
        self.args.out.send_if_modified(|out| {
            // Generations and warnings change without a reader having to know.
            let same = out.same_content(&catalog);
            catalog.version = if same { out.version } else { out.version + 1 };
            *out = Arc::new(catalog);
            !same
        });
    }
}
