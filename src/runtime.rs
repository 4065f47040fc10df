//! Floor 4. The runtime: starts the actors in order, hands out their refs and
//! snapshots, and shuts down in order. The edges see this and nothing below.

mod connectors;
mod keeper;
mod known;
#[cfg(test)]
mod panic_tests;
mod pins;
mod reload;
mod rule_watch;
mod serving;
mod surroundings;
mod wait;

use self::keeper::Keeper;
use self::known::{books_of, kept_of};
pub use self::pins::PinsAt;
use self::pins::{Books, Clerk};
pub use self::reload::{Applied, Refused, Reloaded, ReloadedServer};
use self::rule_watch::RuleWatch;
pub use self::rule_watch::rules_of;
pub use self::serving::{Connections, Throttle};
pub use self::surroundings::Surroundings;
pub use self::wait::{ViewWatch, is_settled};

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{Notify, broadcast, watch};

use crate::actors::approvals::{ApprovalsRef, Gate, RulePlace};
use crate::actors::audit::AuditRef;
use crate::actors::directory::Directory;
use crate::actors::frontend::{FrontendRef, Lane};
use crate::actors::registry::{RegistryArgs, RegistryRef};
use crate::actors::root::{self, Offices, RootArgs, RootMsg};
use crate::actors::supervisor::SupervisorRef;
use crate::audit::file::Place;
use crate::call::{NOTICES_MAX, Notice};
use crate::catalog::merge::Catalog;
use crate::catalog::pin::Book;
use crate::config::diff::Change;
use crate::config::host::AuditMode;
use crate::config::load::{Env, Loaded};
use crate::config::spec::{NamingStyle, ServerSet};
use crate::id::ServerId;
use crate::policy::outbound::Outbound;
use crate::telemetry::Redaction;
use crate::transport::guard::{self, Guarding};
use crate::transport::kept::{self, KeptAll};
use crate::transport::memory::{self, Revisions};
use crate::transport::spawns::{SPAWNS_MAX, Spawns};
use crate::transport::task;
use crate::transport::{Declared, DuplexPeer};
use crate::view::ServerView;
use crate::wire::era::Revision;

/// Longest time that the merged catalogue may lag behind a server that has listed.
const CATALOG_LAG_MAX: Duration = Duration::from_secs(1);

/// What a runtime is started with.
#[derive(Clone)]
pub struct RuntimePlan {
    /// The configured servers.
    pub servers: ServerSet,
    /// Only these start by themselves, lazy or not; `None` means all that are eager, and lazy ones
    /// of which nothing is known.
    pub only: Option<BTreeSet<ServerId>>,
    /// Nothing will be called: a lazy server whose catalogue is kept is not started for `only`.
    pub only_to_look: bool,
    /// In-process peers in place of the configured transport: built-in servers, tests.
    pub in_process: BTreeMap<ServerId, DuplexPeer>,
    /// Variables of this process that children may see.
    pub host_env: BTreeMap<String, String>,
    /// Names of further host variables for every child (`env.passthrough`).
    pub env_passthrough: Vec<String>,
    /// Folders that servers are told to work in, absolute.
    pub roots: Vec<PathBuf>,
    /// What single servers are started in, where it is something else.
    pub surroundings: BTreeMap<ServerId, Surroundings>,
    /// What servers are told that their client can, besides roots.
    pub declared: Declared,
    /// The same for single servers, where it is something else.
    pub declared_for: BTreeMap<ServerId, Declared>,
    /// How stdio servers are guarded; `None`: each has a process group and nothing more.
    pub guard: Option<Guarding>,
    /// The user's own folder of Callboard, which no confined server is given.
    pub own: Option<PathBuf>,
    /// Where the revisions that servers spoke are remembered between runs; `None` forgets.
    pub memory: Option<PathBuf>,
    /// The folder in which what servers offer is kept between runs; `None` forgets.
    pub catalogs: Option<PathBuf>,
    /// Where what tools are pinned as is kept between runs; `None`: it counts in this run alone.
    pub pins: Option<PinsAt>,
    /// How often the lists of a server that does not announce changes are read again; `None`
    /// means never.
    pub poll: Option<Duration>,
    /// How exposed names are made.
    pub naming: NamingStyle,
    /// Longest exposed name.
    pub name_len_max: usize,
    /// Exposed names that no server may take.
    pub reserved: Vec<String>,
    /// Calls in flight or waiting, in all; the fewer are left, the fewer one server may hold.
    pub in_flight_max: usize,
    /// Processes of servers that are being spawned at once.
    pub spawns_max: usize,
    /// What the policy goes by.
    pub gate: Gate,
    /// Where calls are written down; `None` when they are not.
    pub audit: Option<AuditPlan>,
    /// The seed of everything random, so that a run can be repeated; `None` for one that is
    /// different in every process. With one the audit log is written on the event loop's own thread.
    pub seed: Option<u64>,
    /// Through which everything of servers is shown; what is secret in this plan joins it.
    pub redaction: Redaction,
}

/// Without the environment of this process, which may hold anything.
impl std::fmt::Debug for RuntimePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimePlan").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// How calls are written down.
#[derive(Clone, Debug)]
pub struct AuditPlan {
    /// Where the log is, or why there is no place for one.
    pub place: Result<Place, String>,
    /// What may change something is refused when its start can't be written.
    pub strict: bool,
}

impl AuditPlan {
    /// As the settings say; `None` when nothing is to be written.
    pub fn of(loaded: &Loaded) -> Option<Self> {
        let (mode, file_max) = (loaded.settings.audit, loaded.settings.audit_file_max);
        let place = loaded.home.as_deref().map(|home| Place::below(home, file_max as u64));
        let place = place.map_err(ToString::to_string);
        (mode != AuditMode::Off).then(|| Self { place, strict: mode == AuditMode::Strict })
    }

    fn start(&self, plan: &RuntimePlan) -> AuditRef {
        AuditRef::start(self.place.clone(), self.strict, plan.in_flight_max, plan.seed.is_some())
    }
}

impl Default for RuntimePlan {
    fn default() -> Self {
        Self {
            servers: ServerSet::default(),
            only: None,
            only_to_look: false,
            in_process: BTreeMap::new(),
            host_env: BTreeMap::new(),
            env_passthrough: Vec::new(),
            roots: Vec::new(),
            surroundings: BTreeMap::new(),
            declared: Declared::default(),
            declared_for: BTreeMap::new(),
            guard: None,
            own: None,
            memory: None,
            catalogs: None,
            pins: None,
            poll: None,
            naming: NamingStyle::default(),
            name_len_max: 64,
            reserved: Vec::new(),
            in_flight_max: 1024,
            spawns_max: SPAWNS_MAX,
            gate: Gate::default(),
            audit: None,
            seed: None,
            redaction: Redaction::default(),
        }
    }
}

impl RuntimePlan {
    /// The plan of a loaded configuration: all of its servers, with its settings. `env` holds the
    /// variables of this process.
    pub fn of(loaded: &Loaded, env: &Env) -> Self {
        let settings = &loaded.settings;
        let home = loaded.home.as_deref().ok();
        Self {
            servers: loaded.servers.clone(),
            host_env: env.to_map(),
            env_passthrough: settings.env_passthrough.clone(),
            roots: settings.roots.clone(),
            own: home.map(std::path::Path::to_path_buf),
            memory: home.map(memory::file),
            catalogs: home.map(kept::folder),
            pins: PinsAt::of(loaded),
            poll: settings.refresh_poll,
            naming: settings.naming,
            name_len_max: settings.name_len_max,
            reserved: settings.reserved.clone(),
            in_flight_max: settings.in_flight_max,
            spawns_max: settings.spawns_max,
            gate: Gate {
                mode: settings.mode,
                rules: Arc::new(loaded.rules.clone()),
                place: home.map(|home| RulePlace {
                    home: home.to_path_buf(),
                    root: loaded.project_root.clone(),
                    servers: BTreeMap::new(),
                }),
                expires: settings.approval_expires,
                ..Gate::default()
            },
            audit: AuditPlan::of(loaded),
            ..Self::default()
        }
    }

    /// What the policy goes by, with the redactor of the run.
    fn gate(&self) -> Gate {
        Gate { redaction: self.redaction.clone(), ..self.gate.clone() }
    }
}

/// Ends what crashed hosts left behind, beside the start of the servers.
async fn end_left_overs(folder: PathBuf) {
    for left in task::blocking(move || guard::end_left_overs(&folder)).await.into_iter().flatten() {
        if !left.processes.is_empty() {
            let (host, processes) = (left.host, left.processes);
            tracing::warn!(host, ?processes, "ended what a crashed host had left behind");
        }
    }
}

/// A running host. Dropping it without [`Runtime::shutdown`] ends the children too, but
/// does not wait for their end.
#[derive(Debug)]
pub struct Runtime {
    frontend: FrontendRef,
    approvals: ApprovalsRef,
    /// Follows the file of allow rules, when there is a place for it.
    rule_watch: Option<RuleWatch>,
    audit: Option<AuditRef>,
    supervisor: SupervisorRef,
    registry: RegistryRef,
    root: ActorRef<RootMsg>,
    broken: watch::Receiver<bool>,
    directory: watch::Receiver<Arc<Directory>>,
    /// What the policy goes by.
    gate: watch::Receiver<Arc<Gate>>,
    catalog: watch::Receiver<Arc<Catalog>>,
    memory: Option<PathBuf>,
    remembered: Revisions,
    /// Ends what crashed hosts left behind.
    sweep: Option<task::Owned>,
    /// Keeps what servers offer, when there is a place for it.
    keeper: Option<Keeper>,
    /// Writes down what tools are pinned as, when there is a place for it.
    clerk: Option<Clerk>,
    /// Whose credentials are which, for the guard of what goes out.
    outbound: watch::Sender<Arc<Outbound>>,
    /// What servers say to nobody in particular.
    notices: broadcast::Sender<Notice>,
}

/// A core actor could not be started: the runtime of tokio is shutting down.
#[derive(Debug)]
pub struct StartError(String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the host could not be started: {}", self.0)
    }
}

impl std::error::Error for StartError {}

fn registry_args(plan: &RuntimePlan, out: watch::Sender<Arc<Catalog>>) -> RegistryArgs {
    let RuntimePlan { naming, name_len_max, .. } = *plan;
    RegistryArgs { style: naming, name_len_max, reserved: plan.reserved.clone(), out }
}

impl Runtime {
    /// Starts registry, supervisor, front end and one actor per entry; returns before any
    /// server has answered.
    pub async fn start(plan: RuntimePlan) -> Result<Self, StartError> {
        let (catalog_out, catalog) = watch::channel(Arc::new(Catalog::default()));
        let (directory_out, directory) = watch::channel(Arc::new(Directory::default()));
        let (broken_out, broken) = watch::channel(false);
        let notices = broadcast::channel(NOTICES_MAX).0;
        let (gate_out, gate) = watch::channel(Arc::new(plan.gate()));
        let audit = plan.audit.as_ref().map(|audit| audit.start(&plan));
        let reread = Arc::<Notify>::default();
        let args = RootArgs {
            registry: registry_args(&plan, catalog_out),
            in_flight_max: plan.in_flight_max,
            catalog: catalog.clone(),
            gate: gate_out,
            reread: reread.clone(),
            audit: audit.clone(),
            directory: directory_out,
            spawns: Spawns::new(plan.spawns_max),
            notices: notices.clone(),
            broken: broken_out,
        };

        let (root, offices) = root::open(args).await.map_err(StartError)?;
        let Offices { frontend, approvals, supervisor, registry } = offices;
        let (outbound, guarded) = watch::channel(Arc::default());
        let lane = Lane { catalog: catalog.clone(), directory: directory.clone(), gate: gate.clone() };
        let frontend = FrontendRef::new(frontend, plan.in_flight_max, guarded, audit.clone()).straight(lane);
        let rule_watch =
            plan.gate.place.clone().map(|place| RuleWatch::start(place, approvals.clone(), reread));
        let approvals = ApprovalsRef::new(approvals);
        let leases = plan.guard.as_ref().and_then(|guard| guard.leases.clone());
        let sweep = leases.map(|folder| task::spawn(end_left_overs(folder)));
        let remembered = plan.memory.as_deref().map(memory::load).unwrap_or_default();
        let (keeper, clerk) = (None, None);
        let mut runtime = Self {
            frontend,
            approvals,
            rule_watch,
            audit,
            supervisor,
            registry,
            root,
            broken,
            directory,
            gate,
            catalog,
            memory: plan.memory.clone(),
            remembered,
            sweep,
            keeper,
            clerk,
            outbound,
            notices,
        };
        let kept = kept_of(&plan, |_| true).await;
        let books = books_of(&plan).await;
        runtime.apply(&plan, kept.clone(), books.clone()).await;
        runtime.clerk = plan
            .pins
            .clone()
            .map(|at| Clerk::start(at, runtime.catalog.clone(), runtime.directory.clone(), books));
        runtime.keeper = plan
            .catalogs
            .clone()
            .map(|folder| Keeper::start(folder, runtime.catalog.clone(), runtime.directory.clone(), &kept));
        Ok(runtime)
    }

    /// Makes the servers equal to the plan; what became of each, once what had to end is gone.
    fn apply(
        &self,
        plan: &RuntimePlan,
        kept: KeptAll,
        books: Books,
    ) -> impl Future<Output = Vec<Change>> + Send + use<> {
        let (secrets, credentials) = connectors::secrets(plan);
        plan.redaction.learn(&secrets);
        self.outbound.send_replace(Arc::new(Outbound::new(&credentials)));
        if let Some(audit) = &self.audit {
            audit.redact(plan.redaction.clone());
        }
        let planned = connectors::plan(plan, &self.remembered, kept, books);
        self.supervisor.apply(planned, plan.redaction.clone())
    }

    /// The way to call.
    pub fn frontend(&self) -> FrontendRef {
        self.frontend.clone()
    }

    /// The way to answer calls that need a person's approval.
    pub fn approvals(&self) -> ApprovalsRef {
        self.approvals.clone()
    }

    /// All servers, sorted by name.
    pub fn status(&self) -> Vec<ServerView> {
        self.directory.borrow().entries.values().map(|entry| entry.view.borrow().clone()).collect()
    }

    /// The merged catalogue as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// What the tools of a server were pinned as.
    pub fn pins(&self, server: &ServerId) -> Arc<Book> {
        let directory = self.directory.borrow();
        let pins = directory.entries.get(server).and_then(|entry| entry.pins.as_ref());
        pins.map(|pins| pins.borrow().clone()).unwrap_or_default()
    }

    /// The directory, for those who follow single servers.
    pub fn directory(&self) -> Arc<Directory> {
        self.directory.borrow().clone()
    }

    /// Starts a dormant server; `false` when no such server can run.
    pub fn start_server(&self, server: &ServerId) -> bool {
        self.with(server, |server| server.start())
    }

    /// Connects a server afresh; `false` when no such server can run.
    pub fn restart_server(&self, server: &ServerId) -> bool {
        self.with(server, |server| server.restart())
    }

    fn with(&self, server: &ServerId, act: impl FnOnce(&crate::actors::server::ServerRef)) -> bool {
        let directory = self.directory.borrow();
        match directory.entries.get(server).and_then(|entry| entry.server.as_ref()) {
            Some(server) => {
                act(server);
                true
            }
            None => false,
        }
    }

    /// Waits until each of `wanted` (all when empty) is settled and its lists have been read,
    /// or until `within` has passed. Returns the views then.
    pub async fn settle(&self, wanted: &[ServerId], within: Duration) -> Vec<ServerView> {
        let mut watch = ViewWatch::new(self.directory.clone(), wanted);
        let _ = tokio::time::timeout(within, watch.settled()).await;
        self.caught_up().await;
        self.status()
    }

    /// As `settle` for all servers, but ends `grace` after the last one became ready,
    /// whatever the rest does: what `mcp status` shows.
    pub async fn settle_or_grace(&self, grace: Duration) -> Vec<ServerView> {
        ViewWatch::new(self.directory.clone(), &[]).settled_or_quiet(grace).await;
        self.caught_up().await;
        self.status()
    }

    /// Waits until the merged catalogue has what the servers handed over before their views said so.
    async fn caught_up(&self) {
        reload::caught_up(&self.registry).await;
    }

    /// Follows the views of `wanted`, or of all servers when it is empty. For live tables.
    pub fn watch(&self, wanted: &[ServerId]) -> ViewWatch {
        ViewWatch::new(self.directory.clone(), wanted)
    }

    /// Resolves when the core failed in a way that can't be mended: the process should end
    /// with an error.
    pub async fn broken(&self) {
        let mut broken = self.broken.clone();
        if broken.wait_for(|broken| *broken).await.is_err() {
            // The root is gone only after `shutdown`, which took the runtime.
            std::future::pending::<()>().await;
        }
    }

    /// Keeps what was learned about the servers for the next run.
    fn remember(&self) {
        let Some(path) = &self.memory else { return };
        let directory = self.directory.borrow();
        let spoken = directory.entries.values().filter_map(|entry| {
            let revision = Revision::parse(entry.view.borrow().remember?)?;
            Some((entry.entry.hash.clone(), revision))
        });
        if let Err(error) = memory::learn(path, &self.remembered, &spoken.collect()) {
            tracing::info!(%error, "what was learned about the servers could not be kept");
        }
    }

    /// Ends everything in order: refuse, drain, stop all servers in parallel.
    pub async fn shutdown(self) {
        self.remember();
        let keep = async {
            if let Some(keeper) = self.keeper {
                keeper.finish().await;
            }
        };
        let write = async {
            if let Some(clerk) = self.clerk {
                clerk.finish().await;
            }
        };
        tokio::join!(keep, write, self.supervisor.shutdown());
        if let Some(sweep) = self.sweep {
            sweep.join().await;
        }
        let _ = self.root.stop_and_wait(None, None).await;
        if let Some(audit) = self.audit {
            audit.flush().await;
        }
    }
}
