//! What all clients share: the runtime with the servers, its snapshots, the settings of serving, and
//! the table of clients. Owned by the edge that serves; ends with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, watch};

use super::caller::{Caller, ClientEra, Identity};
use super::client::{Client, Leave};
use super::park::Park;
use super::part::{Pane, Part, Reach};
use super::rounds::{self, Parked};
use super::subscriptions::Follows;
use super::tasks::Owners;
use super::view::View;
use super::visitor::Visit;
use super::{approve, notes};
use crate::actors::approvals::ApprovalsRef;
use crate::actors::frontend::FrontendRef;
use crate::builtins::Builtins;
use crate::builtins::guests::{Guest, Share, Sight};
use crate::call::{CallLimits, CallRequest, Door, ItemKind, Target};
use crate::catalog::items::ServerCatalog;
use crate::catalog::merge::Catalog;
use crate::catalog::schema::{CompiledSchema, SchemaCache};
use crate::config::load::{Env, Loaded};
use crate::config::serve::ServeSettings;
use crate::id::{CallId, Generation, ServerId, SessionId};
use crate::runtime::{Applied, Connections, Refused, Reloaded, Runtime, RuntimePlan, StartError, is_settled};
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::transport::{Declared, task};
use crate::view::{LifeState, ServerView};
use crate::wire::envelope::member;
use crate::wire::era::{Era, Revision};

/// What a host is started with.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// The servers.
    pub runtime: RuntimePlan,
    /// How they are served.
    pub serve: ServeSettings,
    /// The host's own tools, when there are any: what they need of it. The same in every plan of a host.
    pub builtins: Builtins,
}

impl HostPlan {
    /// The plan of a loaded configuration: all of its servers, named as for clients.
    pub fn of(loaded: &Loaded, env: &Env) -> Self {
        Self::with(RuntimePlan::of(loaded, env), loaded.settings.serve.clone())
    }

    /// A plan of these servers, named as the settings say.
    pub fn with(runtime: RuntimePlan, serve: ServeSettings) -> Self {
        let runtime = RuntimePlan {
            naming: serve.naming,
            name_len_max: serve.name_len_max,
            declared: declared(),
            ..runtime
        };
        Self { runtime, serve, builtins: Builtins::default() }
    }
}

/// What servers are told that their client can. They are started before any client has spoken, and live
/// longer than one: so all that a client may have, and one that has less gives the protocol's refusal.
fn declared() -> Declared {
    let mut all = serde_json::Map::new();
    all.insert("sampling".to_owned(), serde_json::json!({}));
    // Asked in the middle of a call, of the client of that call. Roots of the configuration go before.
    all.insert("roots".to_owned(), serde_json::json!({}));
    all.insert("elicitation".to_owned(), serde_json::json!({"form": {}, "url": {}}));
    Declared::new(&all)
}

/// The servers, and all clients that are attached.
#[derive(Debug)]
pub struct Host {
    /// Taken out when the host shuts down.
    runtime: RwLock<Option<Runtime>>,
    frontend: FrontendRef,
    approvals: ApprovalsRef,
    catalog: watch::Receiver<Arc<Catalog>>,
    connections: Connections,
    redaction: Redaction,
    /// What a client has that has everything, and what one of another person has.
    whole: Arc<Pane>,
    impersonal: Arc<Pane>,
    /// What clients have that have a part.
    panes: Mutex<Vec<Weak<Pane>>>,
    /// Where the last result of each client is kept.
    builtins: Builtins,
    pub(super) started: Monotonic,
    clients: Mutex<BTreeMap<SessionId, Arc<Client>>>,
    /// Commands of the user that use the servers.
    pub(super) visits: Mutex<BTreeMap<SessionId, Visit>>,
    schemas: Mutex<SchemaCache>,
    /// Calls that wait for their clients to come back.
    pub(super) parked: Mutex<Park<Parked>>,
    /// Told when there is one more of them.
    pub(super) park_changed: Arc<Notify>,
    /// Whose tasks are whose.
    pub(super) owners: Mutex<Owners>,
    /// The session of each identity whose clients live for one request.
    identities: Mutex<BTreeMap<Identity, SessionId>>,
    /// Resources that clients follow.
    pub(super) follows: Follows,
    /// The level of log messages that each server was asked for, on which connection.
    levels: Mutex<BTreeMap<ServerId, (Generation, usize)>>,
    tasks: Mutex<Vec<task::Owned>>,
    /// Who makes a server one client's own.
    binder: OnceLock<Binder>,
}

/// Makes a server the own one of the client of a session; when that is done, no other client has it.
pub(super) type Bind = dyn Fn(SessionId, &ServerId) -> BoxFuture<'static, ()> + Send + Sync;

struct Binder(Box<Bind>);

impl std::fmt::Debug for Binder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Binder")
    }
}

impl Host {
    /// Starts the servers; returns before any has answered.
    ///
    /// # Errors
    /// When the runtime can't be started.
    pub async fn start(plan: HostPlan) -> Result<Arc<Self>, StartError> {
        let redaction = plan.runtime.redaction.clone();
        let whole = Part {
            reach: Reach::All,
            settings: plan.serve,
            reserved: plan.runtime.reserved.clone(),
            mode: None,
        };
        let impersonal = Part { reach: Reach::Impersonal, ..whole.clone() };
        let started = Monotonic::now();
        let runtime = Runtime::start(plan.runtime).await?;
        plan.builtins.attach(&runtime);
        let (notices, views) = (runtime.notices(), runtime.watch(&[]));
        let host = Arc::new(Self {
            frontend: runtime.frontend(),
            approvals: runtime.approvals(),
            catalog: runtime.catalog_watch(),
            connections: runtime.connections(),
            redaction,
            whole: Arc::new(Pane::new(whole)),
            impersonal: Arc::new(Pane::new(impersonal)),
            panes: Mutex::default(),
            builtins: plan.builtins,
            started,
            clients: Mutex::default(),
            visits: Mutex::default(),
            schemas: Mutex::default(),
            parked: Mutex::default(),
            park_changed: Arc::default(),
            owners: Mutex::default(),
            identities: Mutex::default(),
            follows: Follows::default(),
            levels: Mutex::default(),
            tasks: Mutex::default(),
            binder: OnceLock::new(),
            runtime: RwLock::new(Some(runtime)),
        });
        let weak = Arc::downgrade(&host);
        let tasks = vec![
            task::spawn(notes::follow(weak.clone(), host.catalog.clone())),
            task::spawn(notes::hear(weak.clone(), notices)),
            task::spawn(notes::keep_up(weak.clone(), views)),
            task::spawn(rounds::sweep(weak.clone())),
            task::spawn(approve::attend(weak, host.approvals.clone())),
        ];
        *locked(&host.tasks) = tasks;
        Ok(host)
    }

    /// Says who makes a server one client's own, where clients share servers.
    pub(super) fn binds_by(&self, bind: Box<Bind>) {
        let _ = self.binder.set(Binder(bind));
    }

    /// A server asks a client for its roots, which it goes by from then on: no other client has it when this
    /// is done.
    pub(super) async fn bind(&self, session: SessionId, server: &ServerId) {
        if let Some(Binder(bind)) = self.binder.get() {
            bind(session, server).await;
        }
    }

    /// Attaches a client: to all servers, or, if it is of another person, to those that act as nobody in
    /// particular.
    pub fn open(self: &Arc<Self>, who: Caller, era: ClientEra) -> Arc<Client> {
        let pane = match who.identity {
            Identity::SameUser => self.whole.clone(),
            Identity::Token(_) => self.impersonal.clone(),
        };
        self.attach(who, era, pane)
    }

    /// Attaches a client that has a part.
    pub fn open_part(self: &Arc<Self>, who: Caller, era: ClientEra, part: Part) -> Arc<Client> {
        self.attach(who, era, self.pane(part, None))
    }

    /// What a client has that has everything.
    pub(super) fn whole(&self) -> Arc<Pane> {
        self.whole.clone()
    }

    /// What clients with such a part have in common; names go on from what one had `before`.
    pub(super) fn pane(&self, part: Part, before: Option<&Pane>) -> Arc<Pane> {
        let mut panes = locked(&self.panes);
        panes.retain(|pane| pane.strong_count() > 0);
        if let Some(pane) = panes.iter().filter_map(Weak::upgrade).find(|pane| pane.part == part) {
            return pane;
        }
        let pane = Arc::new(Pane::new(part));
        if let Some(before) = before {
            pane.take_names(before);
        }
        panes.push(Arc::downgrade(&pane));
        pane
    }

    fn attach(self: &Arc<Self>, who: Caller, era: ClientEra, pane: Arc<Pane>) -> Arc<Client> {
        let client = Client::new(self.clone(), who, era, pane);
        let who = client.who().clone();
        let keeps_as = client.is_passing().then(|| self.keeps_as(&who.identity));
        let sight = who.only.clone().map(|only| {
            let sight: Sight = Arc::new(move |server, raw, exposed| only.keeps(server, raw, exposed));
            sight
        });
        // What it has may become another part as long as it is there.
        let weak = Arc::downgrade(&client);
        let share: Share = Arc::new(move || weak.upgrade().and_then(|client| client.share()));
        self.builtins.guests().enter(client.session(), Guest { sight, keeps_as, share: Some(share) });
        locked(&self.clients).insert(client.session(), client.clone());
        client
    }

    /// For which session results are kept of clients that live for one request: one for each identity.
    pub(super) fn keeps_as(&self, identity: &Identity) -> SessionId {
        *locked(&self.identities).entry(identity.clone()).or_insert_with(SessionId::fresh)
    }

    /// As `reload`, but returns as soon as the plan is on its way; see [`Runtime::go_by`].
    ///
    /// # Errors
    /// As `reload`.
    pub async fn go_by(&self, plan: &HostPlan) -> Result<Applied, Refused> {
        match self.runtime.read().await.as_ref() {
            Some(runtime) => runtime.go_by(&plan.runtime).await,
            None => Err(Refused { issues: Vec::new() }),
        }
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
        let visits = std::mem::take(&mut *locked(&self.visits));
        drop(visits);
        let tasks = std::mem::take(&mut *locked(&self.tasks));
        drop(tasks);
        let runtime = self.runtime.write().await.take();
        if let Some(runtime) = runtime {
            runtime.shutdown().await;
        }
    }

    /// Does something with the servers; `None` when the host shuts down.
    pub async fn with<T>(&self, act: impl AsyncFnOnce(&Runtime) -> T) -> Option<T> {
        match self.runtime.read().await.as_ref() {
            Some(runtime) => Some(act(runtime).await),
            None => None,
        }
    }

    /// The servers, which do not end as long as this is held: for no longer than one command, which ends
    /// when the host does ([`super::Visitor::over`]). `None` when it ends already.
    pub async fn borrow(&self) -> Option<RwLockReadGuard<'_, Runtime>> {
        RwLockReadGuard::try_map(self.runtime.read().await, Option::as_ref).ok()
    }

    /// Resolves when the core failed in a way that can't be mended.
    pub async fn broken(&self) {
        match self.runtime.read().await.as_ref() {
            Some(runtime) => runtime.broken().await,
            None => std::future::pending().await,
        }
    }

    /// What the host's own tools need of it, for the next plan.
    pub fn builtins(&self) -> &Builtins {
        &self.builtins
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
        self.builtins.outputs().forget(client.session());
        self.builtins.guests().leave(client.session());
    }

    /// Forgets what was approved for a command.
    pub(super) fn end_visit(&self, session: SessionId) {
        self.approvals.end_session(session);
        self.builtins.outputs().forget(session);
    }

    /// The way to call, for clients that came by this door.
    pub(super) fn frontend(&self, door: Door) -> FrontendRef {
        self.frontend.clone().through(door)
    }

    /// The snapshot of what a client has, as of now.
    pub(super) fn view_of(&self, pane: &Pane) -> Arc<View> {
        let catalog = self.catalog.borrow().clone();
        let settled = || self.connections.are_settled(pane.servers.as_deref());
        pane.view(catalog, |server| self.connections.filter_for_others(server), settled)
    }

    /// Whether a server is there for a client that has this.
    pub(super) fn reaches(&self, pane: &Pane, server: &ServerId) -> bool {
        match &pane.part.reach {
            Reach::All => true,
            Reach::These(servers) => servers.contains_key(server),
            Reach::Impersonal => self.connections.filter_for_others(server).is_some(),
        }
    }

    /// Waits until all servers of a part have settled, or until then.
    pub(super) async fn settle(&self, pane: &Pane, until: Monotonic) {
        let left = until.since(Monotonic::now());
        let wanted: Vec<ServerId> = pane.servers.iter().flat_map(|servers| servers.iter().cloned()).collect();
        if left.is_zero() || (pane.servers.is_some() && wanted.is_empty()) {
            return;
        }
        if let Some(runtime) = self.runtime.read().await.as_ref() {
            runtime.settle(&wanted, left).await;
        }
    }

    /// Waits until the snapshot has what is looked for, no server is on its way any more, or until then.
    pub(super) async fn settle_for(&self, pane: &Pane, until: Monotonic, found: impl Fn(&View) -> bool) {
        let mut catalog = self.catalog.clone();
        let mut settled = std::pin::pin!(self.settle(pane, until));
        while !found(&self.view_of(pane)) {
            tokio::select! {
                changed = catalog.changed() => if changed.is_err() { return },
                () = &mut settled => return,
            }
        }
    }

    /// The connection that stands with a server.
    pub(super) fn generation_of(&self, server: &ServerId) -> Option<Generation> {
        self.connections.of(server)
    }

    /// The revision that a server speaks, as far as it is known.
    pub(super) fn revision_of(&self, server: &ServerId) -> Option<Revision> {
        // Only the end of the host takes it away.
        self.runtime.try_read().ok()?.as_ref()?.revision_of(server)
    }

    /// Whether a server of a part may still come to be known.
    pub(super) fn is_settling(&self, pane: &Pane) -> bool {
        !self.connections.are_settled(pane.servers.as_deref())
    }

    /// Names of servers that this client may see and whose lists nobody has seen yet, because they are
    /// still on their way.
    pub(super) fn on_their_way(&self, client: &Client) -> Vec<String> {
        let waits = |view: &ServerView| !view.listed && !is_settled(view);
        let late = self
            .connections
            .views(client.pane().servers.as_deref(), |view| waits(view).then(|| view.id.clone()));
        late.iter().filter(|id| client.sees_server(id)).map(ToString::to_string).collect()
    }

    /// Names of required servers that are not usable now.
    pub fn waiting_for(&self) -> Vec<String> {
        let usable = |view: &ServerView| matches!(view.state, LifeState::Ready | LifeState::Dormant);
        self.connections.views(None, |view| (view.required && !usable(view)).then(|| view.id.to_string()))
    }

    /// Asks every server that has log messages for the lowest level that any of its clients wants.
    pub(super) fn level_servers(&self) {
        let clients: Vec<(Arc<Pane>, usize)> = self
            .clients()
            .iter()
            .filter_map(|client| {
                let level = client.state().level?;
                Some((client.pane(), level))
            })
            .collect();
        let catalog = self.catalog.borrow().clone();
        for (server, all) in &catalog.servers {
            let wanted = clients.iter().filter(|(pane, _)| self.reaches(pane, server));
            if let Some(level) = wanted.map(|(_, level)| *level).min() {
                self.level_server(server, all, level, |known| known != level);
            }
        }
    }

    /// Asks one server of the legacy era for log messages of a level, unless it sends them already.
    pub(super) fn level_down(&self, server: &ServerId, level: usize) {
        let catalog = self.catalog.borrow().clone();
        if let Some(all) = catalog.servers.get(server) {
            self.level_server(server, all, level, |known| known > level);
        }
    }

    fn level_server(
        &self,
        server: &ServerId,
        all: &ServerCatalog,
        level: usize,
        differs: impl Fn(usize) -> bool,
    ) {
        let can = all.capabilities.as_ref().is_some_and(|can| member(can, "logging").is_some());
        let legacy = all.revision.is_some_and(|revision| revision.era() == Era::Legacy);
        let Some(now) = self.generation_of(server) else { return };
        let mut levels = locked(&self.levels);
        let known = levels.get(server).filter(|(generation, _)| *generation == now);
        if can && legacy && known.is_none_or(|(_, known)| differs(*known)) {
            levels.insert(server.clone(), (now, level));
            let params = format!(r#"{{"level":"{}"}}"#, notes::LEVELS[level]);
            self.tell_server(server, "logging/setLevel", params);
        }
    }

    /// Asks a server something whose answer nobody waits for.
    pub(super) fn tell_server(&self, server: &ServerId, method: &str, params: String) {
        let target =
            Target::Direct { server: server.clone(), kind: ItemKind::Method, name: method.to_owned() };
        let call = CallRequest {
            id: CallId::fresh(),
            session: SessionId(0),
            target,
            params: params.into(),
            limits: CallLimits::default(),
            grant: None,
        };
        let asked = self.frontend(Door::Host).call(call, None);
        let (server, method) = (server.clone(), method.to_owned());
        let telling = async move {
            if let Err(error) = asked.await {
                tracing::debug!(%server, %method, %error, "a server was not told");
            }
        };
        task::spawn(telling).detach();
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

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
