//! The supervisor actor and its reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use super::children::Child;
use super::views::initial_view;
use crate::actors::directory::{Directory, DirectoryEntry};
use crate::actors::registry::RegistryRef;
use crate::actors::server::{Autostart, ServerActor, ServerArgs, ServerRef};
use crate::actors::task::{self, TaskHandle};
use crate::config::child_env::Withheld;
use crate::config::spec::{Entry, EntryState};
use crate::id::ServerId;
use crate::shaping::redact::Redactor;
use crate::time::{self, Monotonic};
use crate::transport::{Connector, LinkFault, Root};
use crate::view::{LifeState, ParkReason, ServerView};
use crate::wire::era::Revision;

/// One entry with what is needed to run it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub entry: Arc<Entry>,
    pub connector: Result<Connector, LinkFault>,
    pub roots: Vec<Root>,
    pub withheld: Withheld,
    pub remembered: Option<Revision>,
    /// How often the lists of a server that does not announce changes are read again.
    pub poll: Option<Duration>,
    /// Whether it starts by itself.
    pub autostart: Autostart,
}

/// What the supervisor is told.
#[derive(Debug)]
pub(crate) enum SupervisorMsg {
    /// Make the servers equal to this plan: only what changed restarts. Answered when
    /// every removed or replaced server is gone.
    Apply(Vec<Planned>, Arc<Redactor>, oneshot::Sender<()>),
    /// End all servers in parallel; answered when nothing is left.
    Shutdown(oneshot::Sender<()>),
    /// Have every server publish again: the registry was restarted.
    Republish,
    /// The servers that a plan removed are gone.
    Removed(oneshot::Sender<()>),
}

/// A handle to the supervisor.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorRef(pub ActorRef<SupervisorMsg>);

impl SupervisorRef {
    /// Makes the servers equal to the plan.
    pub(crate) async fn apply(&self, plan: Vec<Planned>, redactor: Arc<Redactor>) {
        let (done, applied) = oneshot::channel();
        if self.0.cast(SupervisorMsg::Apply(plan, redactor, done)).is_ok() {
            let _ = applied.await;
        }
    }

    /// Ends all servers.
    pub(crate) async fn shutdown(&self) {
        let (done, ended) = oneshot::channel();
        if self.0.cast(SupervisorMsg::Shutdown(done)).is_ok() {
            let _ = ended.await;
        }
    }

    /// Has every server publish again.
    pub(crate) fn republish(&self) {
        let _ = self.0.cast(SupervisorMsg::Republish);
    }
}

/// What the supervisor is made of.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorArgs {
    pub registry: RegistryRef,
    /// Kept by the runtime, so readers keep the last value.
    pub directory: watch::Sender<Arc<Directory>>,
}

pub(crate) struct SupervisorActor;

pub(crate) struct SupervisorState {
    me: ActorRef<SupervisorMsg>,
    args: SupervisorArgs,
    children: BTreeMap<ServerId, Child>,
    /// Ends of servers that are under way.
    ending: Vec<TaskHandle>,
    draining: bool,
    /// One pool of connections for all servers.
    http: crate::transport::http::Client,
}

impl Actor for SupervisorActor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = SupervisorArgs;

    async fn pre_start(
        &self,
        me: ActorRef<SupervisorMsg>,
        args: SupervisorArgs,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        Ok(SupervisorState {
            me,
            args,
            children: BTreeMap::new(),
            ending: Vec::new(),
            draining: false,
            http: crate::transport::http::Client::new(),
        })
    }

    async fn handle(
        &self,
        _me: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Apply(plan, redactor, done) => state.apply(plan, &redactor, done).await,
            SupervisorMsg::Shutdown(done) => state.shutdown(done),
            SupervisorMsg::Republish => {
                for child in state.children.values() {
                    if let Some((_, server)) = &child.running {
                        server.republish();
                    }
                }
            }
            SupervisorMsg::Removed(done) => {
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// The default of ractor stops the parent when a child ends; ours never does.
    async fn handle_supervisor_evt(
        &self,
        _me: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            state.child_failed(&cell, &error.to_string()).await;
        }
        Ok(())
    }
}

impl SupervisorState {
    async fn apply(&mut self, plan: Vec<Planned>, redactor: &Arc<Redactor>, done: oneshot::Sender<()>) {
        let wanted: BTreeSet<ServerId> = plan.iter().map(|planned| planned.entry.id.clone()).collect();
        let mut gone: Vec<ServerRef> = Vec::new();
        let removed: Vec<ServerId> =
            self.children.keys().filter(|id| !wanted.contains(*id)).cloned().collect();
        for id in removed {
            gone.extend(self.children.remove(&id).and_then(|child| child.running).map(|(_, server)| server));
        }
        for planned in plan {
            gone.extend(self.replace(planned, redactor).await);
        }
        let running = self.children.iter().filter(|(_, child)| child.running.is_some());
        self.args.registry.keep(running.map(|(id, _)| id.clone()).collect());
        self.publish();
        self.end(gone, done);
    }

    /// Takes over one planned entry; returns the actor that it replaces.
    async fn replace(&mut self, planned: Planned, redactor: &Arc<Redactor>) -> Option<ServerRef> {
        let id = planned.entry.id.clone();
        let old = self.children.get(&id);
        if old.is_some_and(|child| same(&child.entry, &planned.entry) && gets_the_same(child, &planned)) {
            return None;
        }
        // A view of its own: the replaced actor still writes to the old one while it drains.
        let generation = old.map(|child| child.view.borrow().generation).unwrap_or_default();
        let first = initial_view(&planned.entry, planned.autostart);
        let view = watch::channel(ServerView { generation, ..first }).0;
        let args = match &planned.entry.state {
            EntryState::Ready(spec) => Some(ServerArgs {
                spec: spec.clone(),
                connector: planned.connector,
                roots: planned.roots,
                withheld: planned.withheld,
                remembered: planned.remembered,
                poll: planned.poll,
                view: view.clone(),
                registry: self.args.registry.clone(),
                redactor: redactor.clone(),
                autostart: planned.autostart,
                http: self.http.clone(),
            }),
            EntryState::Disabled | EntryState::Pending | EntryState::Invalid => None,
        };
        let replaced = self.children.remove(&id).and_then(|child| child.running).map(|(_, server)| server);
        let mut child = Child::new(planned.entry, view, args);
        self.start(&mut child).await;
        self.children.insert(id, child);
        replaced
    }

    /// Starts the actor of a child. `pre_start` does no I/O, so this does not wait.
    async fn start(&self, child: &mut Child) {
        let Some(args) = child.args.clone() else { return };
        let id = args.spec.id.clone();
        match Actor::spawn_linked(None, ServerActor, args, self.me.get_cell()).await {
            Ok((actor, _join)) => {
                child.running = Some((actor.get_id(), ServerRef::new(id, actor)));
            }
            Err(error) => {
                tracing::error!(server = %id, %error, "server actor could not be started");
                child.running = None;
            }
        }
    }

    async fn child_failed(&mut self, cell: &ActorCell, error: &str) {
        let failed = |child: &Child| child.running.as_ref().is_some_and(|(id, _)| *id == cell.get_id());
        let Some(id) = self.children.iter().find(|(_, child)| failed(child)).map(|(id, _)| id.clone()) else {
            return;
        };
        let Some(mut child) = self.children.remove(&id) else { return };
        tracing::error!(server = %id, %error, "server actor panicked");
        child.running = None;
        if self.draining {
            // Its end is what was wanted.
        } else if child.may_restart(Monotonic::now()) {
            self.start(&mut child).await;
        } else {
            child.view.send_modify(|view| {
                view.state = LifeState::Parked(ParkReason::GivenUp);
                view.since = time::wall();
                view.why =
                    Some("its actor failed again and again: a bug of Callboard, please report it".to_owned());
            });
        }
        self.children.insert(id, child);
        self.publish();
    }

    fn shutdown(&mut self, done: oneshot::Sender<()>) {
        self.draining = true;
        self.publish();
        let all =
            self.children.values_mut().filter_map(|child| child.running.take()).map(|(_, server)| server);
        let all = all.collect();
        self.end(all, done);
    }

    /// Ends these servers in parallel, then answers.
    fn end(&mut self, servers: Vec<ServerRef>, done: oneshot::Sender<()>) {
        self.ending.retain(|task| !task.is_finished());
        if servers.is_empty() {
            let _ = done.send(());
            return;
        }
        let work = async move {
            futures_util::future::join_all(servers.iter().map(ServerRef::stop)).await;
            SupervisorMsg::Removed(done)
        };
        let (lost, _) = oneshot::channel();
        self.ending.push(task::spawn(&self.me, work, move |_| SupervisorMsg::Removed(lost)));
    }

    fn publish(&self) {
        let entries = self.children.iter().map(|(id, child)| {
            let entry = DirectoryEntry {
                server: child.running.as_ref().map(|(_, server)| server.clone()),
                view: child.view.subscribe(),
                spec: child.args.as_ref().map(|args| args.spec.clone()),
                entry: child.entry.clone(),
            };
            (id.clone(), entry)
        });
        let directory = Directory { entries: entries.collect(), draining: self.draining };
        let _ = self.args.directory.send(Arc::new(directory));
    }
}

/// Whether the server would be started or contacted exactly as it was, with the same environment
/// and roots. An entry may stay as it is while the host passes more on to its child.
fn gets_the_same(child: &Child, planned: &Planned) -> bool {
    let Some(args) = &child.args else { return true };
    let same_way = match (&args.connector, &planned.connector) {
        (Ok(Connector::Stdio(old)), Ok(Connector::Stdio(new))) => old == new,
        (Ok(Connector::Http(old)), Ok(Connector::Http(new))) => old == new,
        // A peer in this process is what its name says.
        (Ok(Connector::Duplex(_)), Ok(Connector::Duplex(_))) => true,
        (Err(old), Err(new)) => old.to_string() == new.to_string(),
        _ => false,
    };
    same_way && args.roots == planned.roots
}

/// Whether a reload leaves this entry alone.
fn same(old: &Entry, new: &Entry) -> bool {
    match (&old.state, &new.state) {
        (EntryState::Ready(a), EntryState::Ready(b)) => a == b && old.source == new.source,
        (EntryState::Disabled, EntryState::Disabled) | (EntryState::Pending, EntryState::Pending) => {
            old.hash == new.hash && old.source == new.source
        }
        _ => false,
    }
}
