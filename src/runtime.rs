//! Floor 4. The runtime: starts the actors in order, hands out their refs and
//! snapshots, and shuts down in order. The edges see this and nothing below.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::frontend::FrontendRef;
use crate::catalog::merge::Catalog;
use crate::config::spec::{NamingStyle, ServerSet};
use crate::id::ServerId;
use crate::view::ServerView;

/// What a runtime is started with.
#[derive(Clone, Debug)]
pub struct RuntimePlan {
    /// The configured servers.
    pub servers: ServerSet,
    /// Only these run; `None` means all. Others stay dormant or parked.
    pub only: Option<Vec<ServerId>>,
    /// How exposed names are made.
    pub naming: NamingStyle,
    /// Longest exposed name.
    pub name_len_max: usize,
    /// Exposed names that no server may take.
    pub reserved: Vec<String>,
    /// Calls in flight in all.
    pub in_flight_max: usize,
    /// Spawns at once.
    pub spawns_max: usize,
}

/// A running host.
#[derive(Debug)]
pub struct Runtime {
    _private: (),
}

impl Runtime {
    /// Starts supervisor, registry, front end and one actor per entry; returns at once.
    pub async fn start(plan: RuntimePlan) -> Self {
        let _ = plan;
        unimplemented!()
    }

    /// The way to call.
    pub fn frontend(&self) -> FrontendRef {
        unimplemented!()
    }

    /// All servers, sorted by name.
    pub fn status(&self) -> Vec<ServerView> {
        unimplemented!()
    }

    /// The merged catalogue as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        unimplemented!()
    }

    /// Waits until each of `wanted` (all when empty) is settled *and* listed in the catalogue, or
    /// until `within` has passed. Returns the views then.
    pub async fn settle(&self, wanted: &[ServerId], within: Duration) -> Vec<ServerView> {
        let _ = (wanted, within);
        unimplemented!()
    }

    /// As `settle`, but ends `grace` after the last server became ready, whatever the rest does:
    /// what `mcp status` shows.
    pub async fn settle_or_grace(&self, grace: Duration) -> Vec<ServerView> {
        let _ = grace;
        unimplemented!()
    }

    /// Last lines of stderr of a server, redacted.
    pub async fn stderr(&self, server: &ServerId) -> Option<String> {
        let _ = server;
        unimplemented!()
    }

    /// Ends everything in order: refuse, drain, stop all servers in parallel.
    pub async fn shutdown(self) {
        unimplemented!()
    }

    /// Known names to servers: for messages.
    pub fn names(&self) -> BTreeMap<String, ServerId> {
        unimplemented!()
    }
}
