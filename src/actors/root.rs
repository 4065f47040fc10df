//! Floor 3. The root: parent of the registry, the front end, the desk of approvals and the
//! supervisor. It restarts all but the last when they panic, under a restart intensity; their seats tell
//! everyone who holds the office now. What it can't mend it reports, and the edge ends.

use std::collections::VecDeque;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, Message, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use super::approvals::{ApprovalsActor, ApprovalsArgs, ApprovalsMsg, Gate};
use super::audit::AuditRef;
use super::frontend::{FrontendActor, FrontendArgs, FrontendMsg};
use super::registry::{RegistryActor, RegistryArgs, RegistryMsg, RegistryRef};
use super::supervisor::{SupervisorActor, SupervisorArgs, SupervisorRef};
use crate::catalog::merge::Catalog;
use crate::time::Monotonic;

/// Restarts of core actors (after a panic, a bug of ours) allowed in [`CORE_WINDOW`].
pub(crate) const CORE_RESTARTS_MAX: usize = 5;
/// The sliding window of that intensity.
pub(crate) const CORE_WINDOW: Duration = Duration::from_secs(60);

/// Who holds an office now; outlives the holder. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Seat<M>(watch::Receiver<Option<ActorRef<M>>>);

impl<M> Clone for Seat<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Message> Seat<M> {
    /// The office that this tells about.
    pub(crate) fn new(holder: watch::Receiver<Option<ActorRef<M>>>) -> Self {
        Self(holder)
    }

    /// Sends to the holder; `false` when nobody holds the office.
    pub(crate) fn cast(&self, message: M) -> bool {
        self.0.borrow().as_ref().is_some_and(|holder| holder.cast(message).is_ok())
    }
}

/// What the core is made of.
#[derive(Clone, Debug)]
pub(crate) struct RootArgs {
    pub registry: RegistryArgs,
    /// Calls in flight or waiting, in all.
    pub in_flight_max: usize,
    pub catalog: watch::Receiver<std::sync::Arc<Catalog>>,
    /// What the policy goes by: written by the desk of approvals, read by the front end.
    pub gate: watch::Sender<std::sync::Arc<Gate>>,
    /// Asks who follows the file of allow rules to read it now.
    pub reread: std::sync::Arc<tokio::sync::Notify>,
    /// Where calls are written down; `None` when they are not.
    pub audit: Option<AuditRef>,
    pub directory: watch::Sender<std::sync::Arc<super::directory::Directory>>,
    /// The places of servers that are being spawned.
    pub spawns: crate::transport::spawns::Spawns,
    /// What servers say to nobody in particular.
    pub notices: tokio::sync::broadcast::Sender<crate::call::Notice>,
    /// Set once, when the core can't be mended.
    pub broken: watch::Sender<bool>,
}

/// The offices, for those who send to them.
#[derive(Clone, Debug)]
pub(crate) struct Offices {
    pub frontend: Seat<FrontendMsg>,
    pub approvals: Seat<ApprovalsMsg>,
    pub supervisor: SupervisorRef,
    pub registry: RegistryRef,
}

/// What the root is told.
#[derive(Debug)]
pub(crate) enum RootMsg {
    /// Start the core; answered with its offices, or with why it can't be started.
    Begin(oneshot::Sender<Result<Offices, String>>),
}

pub(crate) struct RootActor;

/// Starts the root and fills the offices.
pub(crate) async fn open(args: RootArgs) -> Result<(ActorRef<RootMsg>, Offices), String> {
    let (root, _) = Actor::spawn(None, RootActor, args).await.map_err(|error| error.to_string())?;
    let (begun, done) = oneshot::channel();
    root.cast(RootMsg::Begin(begun)).map_err(|error| error.to_string())?;
    let offices = done.await.map_err(|error| error.to_string())??;
    Ok((root, offices))
}

pub(crate) struct RootState {
    me: ActorRef<RootMsg>,
    args: RootArgs,
    registry: watch::Sender<Option<ActorRef<RegistryMsg>>>,
    frontend: watch::Sender<Option<ActorRef<FrontendMsg>>>,
    approvals: watch::Sender<Option<ActorRef<ApprovalsMsg>>>,
    supervisor: Option<SupervisorRef>,
    failures: VecDeque<Monotonic>,
}

impl Actor for RootActor {
    type Msg = RootMsg;
    type State = RootState;
    type Arguments = RootArgs;

    async fn pre_start(
        &self,
        me: ActorRef<RootMsg>,
        args: RootArgs,
    ) -> Result<RootState, ActorProcessingErr> {
        Ok(RootState {
            me,
            args,
            registry: watch::channel(None).0,
            frontend: watch::channel(None).0,
            approvals: watch::channel(None).0,
            supervisor: None,
            failures: VecDeque::new(),
        })
    }

    async fn handle(
        &self,
        _me: ActorRef<RootMsg>,
        message: RootMsg,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let RootMsg::Begin(done) = message;
        let begun = state.begin().await.map_err(|error| error.to_string());
        let _ = done.send(begun);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: ActorRef<RootMsg>,
        event: SupervisionEvent,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, _) = event {
            // What it says may hold what must not be shown; the report of the panic names the place.
            let actor = state.office(cell.get_id());
            tracing::error!(actor, "a core actor panicked: a bug, please report it");
            state.mend(&cell).await;
        }
        Ok(())
    }
}

impl RootState {
    async fn begin(&mut self) -> Result<Offices, ractor::SpawnErr> {
        self.seat_registry().await?;
        let args = SupervisorArgs {
            registry: RegistryRef(Seat::new(self.registry.subscribe())),
            directory: self.args.directory.clone(),
            spawns: self.args.spawns.clone(),
            notices: self.args.notices.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, SupervisorActor, args, self.me.get_cell()).await?;
        let supervisor = SupervisorRef(actor);
        self.supervisor = Some(supervisor.clone());
        self.seat_approvals().await?;
        self.seat_frontend().await?;
        Ok(Offices {
            frontend: Seat::new(self.frontend.subscribe()),
            approvals: Seat::new(self.approvals.subscribe()),
            supervisor,
            registry: RegistryRef(Seat::new(self.registry.subscribe())),
        })
    }

    async fn seat_registry(&self) -> Result<(), ractor::SpawnErr> {
        let args = self.args.registry.clone();
        let (actor, _) = Actor::spawn_linked(None, RegistryActor, args, self.me.get_cell()).await?;
        let _ = self.registry.send_replace(Some(actor));
        Ok(())
    }

    async fn seat_frontend(&self) -> Result<(), ractor::SpawnErr> {
        let args = FrontendArgs {
            catalog: self.args.catalog.clone(),
            directory: self.args.directory.subscribe(),
            gate: self.args.gate.subscribe(),
            approvals: Seat::new(self.approvals.subscribe()),
            audit: self.args.audit.clone(),
            in_flight_max: self.args.in_flight_max,
        };
        let (actor, _) = Actor::spawn_linked(None, FrontendActor, args, self.me.get_cell()).await?;
        let _ = self.frontend.send_replace(Some(actor));
        Ok(())
    }

    fn office(&self, id: ActorId) -> &'static str {
        match id {
            id if holder(&self.registry) == Some(id) => "registry",
            id if holder(&self.frontend) == Some(id) => "front end",
            id if holder(&self.approvals) == Some(id) => "approvals",
            _ => "supervisor",
        }
    }

    async fn seat_approvals(&self) -> Result<(), ractor::SpawnErr> {
        let frontend = Seat::new(self.frontend.subscribe());
        let (gate, reread) = (self.args.gate.clone(), self.args.reread.clone());
        let args = ApprovalsArgs { gate, frontend, reread };
        let (actor, _) = Actor::spawn_linked(None, ApprovalsActor, args, self.me.get_cell()).await?;
        let _ = self.approvals.send_replace(Some(actor));
        Ok(())
    }

    /// Fills the office of a holder that panicked.
    async fn mend(&mut self, cell: &ActorCell) {
        let id = cell.get_id();
        let was_registry = holder(&self.registry) == Some(id);
        let was_frontend = holder(&self.frontend) == Some(id);
        let was_approvals = holder(&self.approvals) == Some(id);
        let seated = match (self.may_restart(), was_registry, was_frontend) {
            // What it held was refused; listeners hear that they have to come again.
            (true, ..) if was_approvals => self.seat_approvals().await.is_ok(),
            (true, true, _) => {
                let seated = self.seat_registry().await.is_ok();
                // It starts empty: every server shows its catalogue again.
                if let Some(supervisor) = &self.supervisor {
                    supervisor.republish();
                }
                seated
            }
            (true, _, true) => self.seat_frontend().await.is_ok(),
            // The supervisor holds the processes; without it nothing can be mended.
            _ => false,
        };
        if !seated {
            let _ = self.args.broken.send_replace(true);
        }
    }

    fn may_restart(&mut self) -> bool {
        let now = Monotonic::now();
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|at| now.since(*at) > CORE_WINDOW) {
            self.failures.pop_front();
        }
        self.failures.len() <= CORE_RESTARTS_MAX
    }
}

fn holder<M>(seat: &watch::Sender<Option<ActorRef<M>>>) -> Option<ActorId> {
    seat.borrow().as_ref().map(|holder| holder.get_id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::frontend::FrontendRef;
    use crate::actors::panics;
    use crate::call::{CallLimits, CallRequest, Target};
    use crate::catalog::merge::Catalog;
    use crate::id::{CallId, SessionId};
    use bytes::Bytes;
    use std::sync::Arc;

    async fn core() -> (Offices, watch::Receiver<bool>, ActorRef<RootMsg>) {
        let (broken_out, broken) = watch::channel(false);
        let (catalog_out, catalog) = watch::channel(Arc::new(Catalog::default()));
        let (directory_out, _) = watch::channel(Arc::default());
        let registry = RegistryArgs {
            style: crate::config::spec::NamingStyle::default(),
            name_len_max: 64,
            reserved: Vec::new(),
            out: catalog_out,
        };
        let spawns = crate::transport::spawns::Spawns::default();
        let args = RootArgs {
            registry,
            in_flight_max: 1024,
            catalog,
            gate: watch::channel(Arc::default()).0,
            reread: Arc::default(),
            audit: None,
            directory: directory_out,
            spawns,
            notices: tokio::sync::broadcast::channel(1).0,
            broken: broken_out,
        };
        let (root, offices) = open(args).await.unwrap();
        (offices, broken, root)
    }

    /// The front end fails.
    fn fail(offices: &Offices) {
        panics::arm("frontend:Call", 0, "asked to");
        drop(
            FrontendRef::new(offices.frontend.clone(), 1, watch::channel(Arc::default()).1, None)
                .call(request(), None),
        );
    }

    fn request() -> CallRequest {
        let target = Target::Exposed("nobody".to_owned());
        let (id, session, params) = (CallId::fresh(), SessionId(0), Bytes::new());
        CallRequest { id, session, target, params, limits: CallLimits::default(), grant: None }
    }

    async fn replaced<M: Message>(seat: &mut Seat<M>, old: ActorId) -> ActorId {
        let seated =
            seat.0.wait_for(|holder| holder.as_ref().is_some_and(|h| h.get_id() != old)).await.unwrap();
        seated.as_ref().map(|holder| holder.get_id()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_registry_or_the_front_end_is_mended_and_the_host_lives() {
        let (mut offices, broken, _root) = core().await;
        let registry = offices.registry.0.0.borrow().as_ref().unwrap().get_id();
        panics::arm("registry:Merge", 0, "asked to");
        assert!(offices.registry.0.cast(RegistryMsg::Merge));
        replaced(&mut offices.registry.0, registry).await;
        let frontend = offices.frontend.0.borrow().as_ref().unwrap().get_id();
        fail(&offices);
        replaced(&mut offices.frontend, frontend).await;
        let approvals = offices.approvals.0.borrow().as_ref().unwrap().get_id();
        assert!(offices.approvals.cast(ApprovalsMsg::Panic));
        replaced(&mut offices.approvals, approvals).await;
        assert!(!*broken.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn panics_without_end_are_reported_as_broken() {
        let (mut offices, mut broken, _root) = core().await;
        for _ in 0..CORE_RESTARTS_MAX {
            let holder = offices.frontend.0.borrow().as_ref().unwrap().get_id();
            fail(&offices);
            replaced(&mut offices.frontend, holder).await;
        }
        assert!(!*broken.borrow());
        fail(&offices);
        broken.wait_for(|broken| *broken).await.unwrap();
    }
}
