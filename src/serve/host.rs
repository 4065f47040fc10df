//! What all clients share: the runtime with the servers, its snapshots, the settings of serving, and
//! the table of clients. Owned by the edge that serves; ends with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::RwLock;

use super::caller::{Caller, ClientEra};
use super::client::{Client, Leave};
use crate::id::SessionId;
use crate::runtime::{Runtime, RuntimePlan, StartError};

/// What a host is started with.
#[derive(Debug)]
pub struct HostPlan {
    /// The servers.
    pub runtime: RuntimePlan,
    /// How they are served.
    pub serve: ServeSettings,
}

/// The settings of serving (`[serve]`).
#[derive(Clone, Debug, Default)]
pub struct ServeSettings {}

/// The servers, and all clients that are attached.
#[derive(Debug)]
pub struct Host {
    /// Taken out when the host shuts down.
    runtime: RwLock<Option<Runtime>>,
    clients: Mutex<BTreeMap<SessionId, Arc<Client>>>,
}

impl Host {
    /// Starts the servers; returns before any has answered.
    ///
    /// # Errors
    /// When the runtime can't be started.
    pub async fn start(plan: HostPlan) -> Result<Arc<Self>, StartError> {
        let runtime = Runtime::start(plan.runtime).await?;
        Ok(Arc::new(Self { runtime: RwLock::new(Some(runtime)), clients: Mutex::default() }))
    }

    /// Attaches a client.
    pub fn open(self: &Arc<Self>, who: Caller, era: ClientEra) -> Arc<Client> {
        let client = Client::new(self.clone(), who, era);
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(client.session(), client.clone());
        client
    }

    /// Ends everything in order: clients leave, then the servers end.
    pub async fn shutdown(self: Arc<Self>) {
        let clients: Vec<_> =
            self.clients.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for client in clients {
            client.leave(Leave::Shutdown);
        }
        if let Some(runtime) = self.runtime.write().await.take() {
            runtime.shutdown().await;
        }
    }

    /// Forgets a client that left.
    pub(super) fn forget(&self, session: SessionId) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }
}
