//! What all clients share: the runtime with the servers, its snapshots, the settings of serving, and
//! the table of clients. Owned by the edge that serves; ends with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{RwLock, watch};

use super::caller::{Caller, ClientEra};
use super::client::{Client, Leave};
use super::view::View;
use super::{approve, notes};
use crate::actors::approvals::ApprovalsRef;
use crate::actors::frontend::FrontendRef;
use crate::call::Door;
use crate::catalog::merge::Catalog;
use crate::catalog::naming::NamingRule;
use crate::catalog::schema::{CompiledSchema, SchemaCache};
use crate::config::load::{Env, Loaded};
use crate::config::serve::ServeSettings;
use crate::id::{ServerId, SessionId};
use crate::runtime::{Refused, Reloaded, Runtime, RuntimePlan, StartError};
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::transport::task;
use crate::wire::era::Revision;

/// What a host is started with.
#[derive(Debug)]
pub struct HostPlan {
    /// The servers.
    pub runtime: RuntimePlan,
    /// How they are served.
    pub serve: ServeSettings,
}

impl HostPlan {
    /// The plan of a loaded configuration: all of its servers, named as for clients.
    pub fn of(loaded: &Loaded, env: &Env) -> Self {
        Self::with(RuntimePlan::of(loaded, env), loaded.settings.serve.clone())
    }

    /// A plan of these servers, named as the settings say.
    pub fn with(runtime: RuntimePlan, serve: ServeSettings) -> Self {
        let runtime = RuntimePlan { naming: serve.naming, name_len_max: serve.name_len_max, ..runtime };
        Self { runtime, serve }
    }
}

/// The servers, and all clients that are attached.
#[derive(Debug)]
pub struct Host {
    /// Taken out when the host shuts down.
    runtime: RwLock<Option<Runtime>>,
    frontend: FrontendRef,
    approvals: ApprovalsRef,
    catalog: watch::Receiver<Arc<Catalog>>,
    redaction: Redaction,
    reserved: Vec<String>,
    pub(super) settings: ServeSettings,
    pub(super) started: Monotonic,
    clients: Mutex<BTreeMap<SessionId, Arc<Client>>>,
    /// The last snapshot that was built.
    view: Mutex<Arc<View>>,
    schemas: Mutex<SchemaCache>,
    tasks: Mutex<Vec<task::Owned>>,
}

impl Host {
    /// Starts the servers; returns before any has answered.
    ///
    /// # Errors
    /// When the runtime can't be started.
    pub async fn start(plan: HostPlan) -> Result<Arc<Self>, StartError> {
        let redaction = plan.runtime.redaction.clone();
        let reserved = plan.runtime.reserved.clone();
        let started = Monotonic::now();
        let runtime = Runtime::start(plan.runtime).await?;
        let host = Arc::new(Self {
            frontend: runtime.frontend(),
            approvals: runtime.approvals(),
            catalog: runtime.catalog_watch(),
            redaction,
            reserved,
            settings: plan.serve,
            started,
            clients: Mutex::default(),
            view: Mutex::default(),
            schemas: Mutex::default(),
            tasks: Mutex::default(),
            runtime: RwLock::new(Some(runtime)),
        });
        let weak = Arc::downgrade(&host);
        let tasks = vec![
            task::spawn(notes::follow(weak.clone(), host.catalog.clone())),
            task::spawn(approve::attend(weak, host.approvals.clone())),
        ];
        *locked(&host.tasks) = tasks;
        Ok(host)
    }

    /// Attaches a client.
    pub fn open(self: &Arc<Self>, who: Caller, era: ClientEra) -> Arc<Client> {
        let client = Client::new(self.clone(), who, era);
        locked(&self.clients).insert(client.session(), client.clone());
        client
    }

    /// Makes the servers equal to another plan; see [`Runtime::reload`].
    ///
    /// # Errors
    /// When a source of the configuration can't be used, or the host shuts down: nothing changes.
    pub async fn reload(&self, plan: &HostPlan) -> Result<Reloaded, Refused> {
        match self.runtime.read().await.as_ref() {
            Some(runtime) => runtime.reload(&plan.runtime).await,
            None => Err(Refused { issues: Vec::new() }),
        }
    }

    /// Ends everything in order: clients leave, then the servers end.
    pub async fn shutdown(self: Arc<Self>) {
        for client in self.clients() {
            client.leave(Leave::Shutdown);
        }
        let tasks = std::mem::take(&mut *locked(&self.tasks));
        drop(tasks);
        let runtime = self.runtime.write().await.take();
        if let Some(runtime) = runtime {
            runtime.shutdown().await;
        }
    }

    /// Resolves when the core failed in a way that can't be mended.
    pub async fn broken(&self) {
        match self.runtime.read().await.as_ref() {
            Some(runtime) => runtime.broken().await,
            None => std::future::pending().await,
        }
    }

    /// All clients that are attached.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        locked(&self.clients).values().cloned().collect()
    }

    /// The client of a session.
    pub(super) fn client(&self, session: SessionId) -> Option<Arc<Client>> {
        locked(&self.clients).get(&session).cloned()
    }

    /// Forgets a client that left.
    pub(super) fn forget(&self, client: &Client) {
        locked(&self.clients).remove(&client.session());
        self.approvals.end_session(client.session());
    }

    /// The way to call, for clients that came by this door.
    pub(super) fn frontend(&self, door: Door) -> FrontendRef {
        self.frontend.clone().through(door)
    }

    /// The snapshot as of now.
    pub(super) fn view(&self) -> Arc<View> {
        let catalog = self.catalog.borrow().clone();
        let mut view = locked(&self.view);
        if !Arc::ptr_eq(&view.catalog, &catalog) {
            let rule = NamingRule {
                style: self.settings.naming,
                len_max: self.settings.name_len_max,
                reserved: &self.reserved,
            };
            *view = Arc::new(View::of(catalog, rule));
        }
        view.clone()
    }

    /// Waits until all servers have settled, or until then.
    pub(super) async fn settle(&self, until: Monotonic) {
        let left = until.since(Monotonic::now());
        if left.is_zero() {
            return;
        }
        if let Some(runtime) = self.runtime.read().await.as_ref() {
            runtime.settle(&[], left).await;
        }
    }

    /// The revision that a server speaks, as far as it is known.
    pub(super) fn revision_of(&self, server: &ServerId) -> Option<Revision> {
        // Only the end of the host takes it away.
        self.runtime.try_read().ok()?.as_ref()?.revision_of(server)
    }

    /// The compiled form of a schema.
    pub(super) fn schema(&self, raw: &[u8]) -> Arc<Result<CompiledSchema, String>> {
        locked(&self.schemas).get(raw)
    }

    /// Text without the secrets that we know.
    pub(super) fn clean(&self, text: &str) -> String {
        self.redaction.text(text)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
