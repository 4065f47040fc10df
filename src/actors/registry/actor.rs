//! The registry actor and its reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use crate::catalog::items::ServerCatalog;
use crate::catalog::merge::{Catalog, MergeInput, merge};
use crate::config::spec::{NamingStyle, ToolFilter};
use crate::id::ServerId;

/// What the registry is told.
#[derive(Debug)]
pub(crate) enum RegistryMsg {
    /// A server's catalogue changed.
    Publish(Arc<ServerCatalog>, ToolFilter),
    /// These servers are configured; others are forgotten.
    Keep(BTreeSet<ServerId>),
}

/// A handle to the registry.
#[derive(Clone, Debug)]
pub struct RegistryRef(pub(crate) ActorRef<RegistryMsg>);

impl RegistryRef {
    /// Hands over a server's catalogue and its listing filter.
    pub(crate) fn publish(&self, catalog: Arc<ServerCatalog>, filter: ToolFilter) {
        let _ = self.0.cast(RegistryMsg::Publish(catalog, filter));
    }

    /// Forgets every server that is not in `servers`.
    pub(crate) fn keep(&self, servers: BTreeSet<ServerId>) {
        let _ = self.0.cast(RegistryMsg::Keep(servers));
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
    args: RegistryArgs,
    servers: BTreeMap<ServerId, Arc<ServerCatalog>>,
    filters: BTreeMap<ServerId, ToolFilter>,
    /// Names given so far: a name stays with its owner while the host runs.
    remembered: BTreeMap<(ServerId, String), String>,
}

impl Actor for RegistryActor {
    type Msg = RegistryMsg;
    type State = RegistryState;
    type Arguments = RegistryArgs;

    async fn pre_start(
        &self,
        _me: ActorRef<RegistryMsg>,
        args: RegistryArgs,
    ) -> Result<RegistryState, ActorProcessingErr> {
        Ok(RegistryState {
            args,
            servers: BTreeMap::new(),
            filters: BTreeMap::new(),
            remembered: BTreeMap::new(),
        })
    }

    async fn handle(
        &self,
        _me: ActorRef<RegistryMsg>,
        message: RegistryMsg,
        state: &mut RegistryState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RegistryMsg::Publish(catalog, filter) => {
                let id = catalog.server.clone();
                state.filters.insert(id.clone(), filter);
                state.servers.insert(id, catalog);
            }
            RegistryMsg::Keep(servers) => {
                state.servers.retain(|id, _| servers.contains(id));
                state.filters.retain(|id, _| servers.contains(id));
            }
        }
        state.publish();
        Ok(())
    }
}

impl RegistryState {
    fn publish(&mut self) {
        let mut catalog = merge(&MergeInput {
            servers: &self.servers,
            filters: &self.filters,
            style: self.args.style,
            name_len_max: self.args.name_len_max,
            reserved: &self.args.reserved,
            remembered: &self.remembered,
        });
        for tool in &catalog.tools {
            let owner = (tool.route.server.clone(), tool.route.item.name.clone());
            self.remembered.insert(owner, tool.name.clone());
        }
        self.args.out.send_if_modified(|out| {
            catalog.version = out.version + 1;
            *out = Arc::new(catalog);
            true
        });
    }
}
