//! The supervisor actor and its reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{broadcast, oneshot, watch};

use super::children::Child;
use super::views::initial_view;
use crate::actors::directory::{Directory, DirectoryEntry};
use crate::actors::registry::RegistryRef;
use crate::actors::server::{Autostart, ServerActor, ServerArgs, ServerRef};
use crate::actors::task::{self, TaskHandle};
use crate::call::Notice;
use crate::catalog::pin::Book;
use crate::config::child_env::Withheld;
use crate::config::diff::Change;
use crate::config::spec::{Entry, EntryState};
use crate::id::{Generation, ServerId};
use crate::telemetry::Redaction;
use crate::time::{self, Monotonic};
use crate::transport::kept::Kept;
use crate::transport::{Connector, Declared, LinkFault, Root};
use crate::view::ServerView;
use crate::view::history::{History, Line, Tally, What};
use crate::wire::era::Revision;

/// One entry with what is needed to run it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub entry: Arc<Entry>,
    pub connector: Result<Connector, LinkFault>,
    pub roots: Vec<Root>,
    /// What its client can, besides.
    pub declared: Declared,
    pub withheld: Withheld,
    pub remembered: Option<Revision>,
    /// How often the lists of a server that does not announce changes are read again.
    pub poll: Option<Duration>,
    /// What it offered in an earlier run.
    pub kept: Option<Kept>,
    /// What its tools were pinned as, by its file.
    pub pins: Book,
    /// Whether it starts by itself.
    pub autostart: Autostart,
    /// The seed of what is random; `None` for one of the process's own.
    pub seed: Option<u64>,
}

/// What the supervisor is told.
#[derive(Debug)]
pub(crate) enum SupervisorMsg {
    /// Make the servers equal to this plan: only what changed restarts. Answered when
    /// every removed or replaced server is gone, with what became of each.
    Apply(Vec<Planned>, Redaction, oneshot::Sender<Vec<Change>>),
    /// End all servers in parallel; answered when nothing is left.
    Shutdown(oneshot::Sender<()>),
    /// Have every server publish again: the registry was restarted.
    Republish,
    /// Servers that had to end are gone.
    Gone(Answer),
}

/// What is said once servers are gone, and to whom.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The plan is in force.
    Applied(oneshot::Sender<Vec<Change>>, Vec<Change>),
    /// Nothing is left.
    Ended(oneshot::Sender<()>),
}

impl Answer {
    fn send(self) {
        // Who does not listen any more does not need to know.
        match self {
            Self::Applied(port, changes) => _ = port.send(changes),
            Self::Ended(port) => _ = port.send(()),
        }
    }
}

/// A server that has to end.
struct Leaving {
    server: ServerRef,
    /// Closes when the one has left that it replaced itself.
    before: Option<watch::Receiver<()>>,
    /// Dropped when both have left: its successor waits for that.
    tells: Option<watch::Sender<()>>,
}

impl Leaving {
    fn of(child: Child, tells: Option<watch::Sender<()>>) -> Option<Self> {
        let before = child.args.and_then(|args| args.replaced);
        child.running.map(|(_, server)| Self { server, before, tells })
    }

    async fn left(self) {
        self.server.stop().await;
        if let Some(mut before) = self.before {
            while before.changed().await.is_ok() {}
        }
        drop(self.tells);
    }
}

/// A handle to the supervisor.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorRef(pub ActorRef<SupervisorMsg>);

impl SupervisorRef {
    /// Makes the servers equal to the plan; what became of each, sorted by name.
    /// The plan is on its way when this returns: of two, the later one counts.
    pub(crate) fn apply(
        &self,
        plan: Vec<Planned>,
        redactor: Redaction,
    ) -> impl Future<Output = Vec<Change>> + Send + use<> {
        let (done, applied) = oneshot::channel();
        let sent = self.0.cast(SupervisorMsg::Apply(plan, redactor, done)).is_ok();
        async move { if sent { applied.await.unwrap_or_default() } else { Vec::new() } }
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
    /// The places of servers that are being spawned.
    pub spawns: crate::transport::spawns::Spawns,
    /// What servers say to nobody in particular.
    pub notices: broadcast::Sender<Notice>,
}

pub(crate) struct SupervisorActor;

pub(crate) struct SupervisorState {
    me: ActorRef<SupervisorMsg>,
    args: SupervisorArgs,
    children: BTreeMap<ServerId, Child>,
    /// Ends of servers that are under way.
    ending: Vec<TaskHandle>,
    /// The highest generation of the servers that are gone: a name that comes back while its predecessor
    /// still drains goes on from there.
    past: Generation,
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
            past: Generation::default(),
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
        #[cfg(test)]
        crate::actors::panics::meet("supervisor", &message);
        match message {
            SupervisorMsg::Apply(plan, redactor, done) => state.apply(plan, &redactor, done).await,
            SupervisorMsg::Shutdown(done) => state.shutdown(done),
            SupervisorMsg::Republish => {
                state.args.registry.keep(state.speakers());
                for child in state.children.values() {
                    if let Some((_, server)) = &child.running {
                        server.republish();
                    }
                }
            }
            SupervisorMsg::Gone(answer) => answer.send(),
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
    async fn apply(&mut self, plan: Vec<Planned>, redactor: &Redaction, done: oneshot::Sender<Vec<Change>>) {
        let wanted: BTreeSet<ServerId> = plan.iter().map(|planned| planned.entry.id.clone()).collect();
        let mut gone: Vec<Leaving> = Vec::new();
        let mut changes = Vec::new();
        let removed: Vec<ServerId> =
            self.children.keys().filter(|id| !wanted.contains(*id)).cloned().collect();
        for id in removed {
            if let Some(child) = self.children.remove(&id) {
                self.past = self.past.max(child.view.borrow().generation);
                gone.extend(Leaving::of(child, None));
            }
            changes.push(Change::Removed(id));
        }
        let mut fresh = Vec::new();
        for planned in plan {
            let (change, old) = self.replace(planned, redactor);
            if !matches!(change, Change::Unchanged(_)) {
                fresh.push(change.id().clone());
            }
            changes.push(change);
            gone.extend(old);
        }
        // First: from now on nothing of a removed or replaced server is listed again.
        self.args.registry.keep(self.speakers());
        for id in fresh {
            let Some(mut child) = self.children.remove(&id) else { continue };
            if let Some(args) = &child.args
                && let Some(kept) = &args.kept
            {
                // Listed before anybody can ask for it; from now on the actor speaks for itself.
                self.args.registry.publish(kept.catalog.clone(), args.spec.filter.clone());
            }
            self.start(&mut child).await;
            self.children.insert(id, child);
        }
        self.publish();
        changes.sort_by(|a, b| a.id().cmp(b.id()));
        self.end(gone, Answer::Applied(done, changes));
    }

    /// Whose catalogue counts, and from which generation on.
    fn speakers(&self) -> BTreeMap<ServerId, Generation> {
        let able = self.children.iter().filter(|(_, child)| child.args.is_some());
        able.map(|(id, child)| (id.clone(), child.first)).collect()
    }

    /// Takes over one planned entry; returns what that means, and the actor that it replaces.
    fn replace(&mut self, planned: Planned, redactor: &Redaction) -> (Change, Option<Leaving>) {
        let id = planned.entry.id.clone();
        let old = self.children.get_mut(&id);
        if let Some(child) = old.filter(|child| child.runs_as(&planned)) {
            // Its source or label may have changed: the process does not care.
            if child.args.is_none() {
                let history = child.view.borrow().history.clone();
                let view = initial_view(&planned.entry, planned.autostart);
                let _ = child.view.send_replace(ServerView { history, ..view });
            }
            child.entry = planned.entry;
            child.poll_every(planned.poll);
            child.take_pins(planned.pins);
            return (Change::Unchanged(id), None);
        }
        let old = self.children.remove(&id);
        // A view of its own: the replaced actor still writes to the old one while it drains.
        let generation = old.as_ref().map_or(self.past, |child| child.view.borrow().generation);
        let mut first = ServerView { generation, ..initial_view(&planned.entry, planned.autostart) };
        if let Some(child) = &old {
            first.history = carried(&child.view.borrow(), What::EntryChanged);
        }
        let waits = old.as_ref().is_some_and(|old| old.has_process(&planned));
        let (tells, replaced) = waits.then(|| watch::channel(())).unzip();
        let mut book = planned.pins;
        if let Some(args) = old
            .as_ref()
            .filter(|child| child.entry.source.scope == planned.entry.source.scope)
            .and_then(|child| child.args.as_ref())
        {
            // What was seen a moment ago may not be in the file yet.
            let _ = args.pins.borrow().add_to(&mut book);
        }
        let mut kept = planned.kept.map(|kept| kept.of(generation.next()));
        if let Some(kept) = &mut kept {
            let held = book.see(&kept.catalog.tools, &time::rfc3339(time::wall()));
            Arc::make_mut(&mut kept.catalog).held = Arc::new(held);
        }
        if let (Some(kept), EntryState::Ready(spec)) = (&kept, &planned.entry.state) {
            first.show_counts(&kept.catalog, &spec.filter);
            first.kept_from = Some(kept.at);
        }
        let view = watch::channel(first).0;
        // Who listens goes on listening when an entry is changed.
        let tap = old.as_ref().and_then(|child| child.args.as_ref()).map(|args| args.tap.clone());
        let tap = tap.unwrap_or_default();
        let args = match &planned.entry.state {
            EntryState::Ready(spec) => Some(ServerArgs {
                spec: spec.clone(),
                connector: planned.connector,
                roots: planned.roots,
                declared: planned.declared,
                notices: self.args.notices.clone(),
                withheld: planned.withheld,
                remembered: planned.remembered,
                replaced,
                poll: planned.poll,
                kept: kept.clone(),
                pins: watch::channel(Arc::new(book)).0,
                view: view.clone(),
                registry: self.args.registry.clone(),
                redactor: redactor.clone(),
                autostart: planned.autostart,
                seed: planned.seed,
                tap,
                http: self.http.clone(),
                spawns: self.args.spawns.clone(),
            }),
            EntryState::Disabled | EntryState::Pending | EntryState::Invalid => None,
        };
        self.children.insert(id.clone(), Child::new(planned.entry, view, args, generation.next()));
        match old {
            Some(child) => (Change::Changed(id), Leaving::of(child, tells)),
            None => (Change::Added(id), None),
        }
    }

    /// Starts the actor of a child. `pre_start` does no I/O, so this does not wait.
    async fn start(&self, child: &mut Child) {
        let Some(args) = child.args.clone() else { return };
        let (id, redactor) = (args.spec.id.clone(), args.redactor.clone());
        match Actor::spawn_linked(None, ServerActor, args, self.me.get_cell()).await {
            Ok((actor, _join)) => {
                child.running = Some((actor.get_id(), ServerRef::new(id, actor)));
            }
            Err(error) => {
                let error = Line::new(&redactor.now(), &error.to_string());
                tracing::error!(server = %id, error = error.as_str(), "server actor could not be started");
                child.running = None;
                let text = "its actor could not be started, a bug of Callboard, please report it";
                child.park(format!("{text}: {}", error.as_str()));
            }
        }
    }

    async fn child_failed(&mut self, cell: &ActorCell, error: &str) {
        let failed = |child: &Child| child.running.as_ref().is_some_and(|(id, _)| *id == cell.get_id());
        let Some(id) = self.children.iter().find(|(_, child)| failed(child)).map(|(id, _)| id.clone()) else {
            return;
        };
        let Some(mut child) = self.children.remove(&id) else { return };
        // What a panic says may hold anything.
        let error =
            child.args.as_ref().map(|args| Line::new(&args.redactor.now(), error)).unwrap_or_default();
        tracing::error!(server = %id, error = error.as_str(), "server actor panicked");
        child.running = None;
        child.view.send_modify(|view| {
            view.history = carried(view, What::ActorFailed(error.clone()));
            view.tally = Tally::default();
        });
        if self.draining {
            // Its end is what was wanted.
        } else if child.may_restart(Monotonic::now()) {
            self.start(&mut child).await;
        } else {
            let text = format!(
                "its actor failed again and again, a bug of Callboard, please report it: {}",
                error.as_str()
            );
            child.park(text);
        }
        self.children.insert(id, child);
        self.publish();
    }

    fn shutdown(&mut self, done: oneshot::Sender<()>) {
        self.draining = true;
        self.publish();
        let leaving = |child: &mut Child| {
            let before = child.args.as_ref().and_then(|args| args.replaced.clone());
            child.running.take().map(|(_, server)| Leaving { server, before, tells: None })
        };
        let all = self.children.values_mut().filter_map(leaving).collect();
        self.end(all, Answer::Ended(done));
    }

    /// Ends these servers in parallel, then answers.
    fn end(&mut self, servers: Vec<Leaving>, answer: Answer) {
        self.ending.retain(|task| !task.is_finished());
        if servers.is_empty() {
            answer.send();
            return;
        }
        let work = async move {
            futures_util::future::join_all(servers.into_iter().map(Leaving::left)).await;
            SupervisorMsg::Gone(answer)
        };
        let (lost, _) = oneshot::channel();
        self.ending.push(task::spawn(&self.me, work, move |_| SupervisorMsg::Gone(Answer::Ended(lost))));
    }

    fn publish(&self) {
        let entries = self.children.iter().map(|(id, child)| {
            let entry = DirectoryEntry {
                tap: child.args.as_ref().map(|args| args.tap.clone()),
                server: child.running.as_ref().map(|(_, server)| server.clone()),
                view: child.view.subscribe(),
                spec: child.args.as_ref().map(|args| args.spec.clone()),
                pins: child.args.as_ref().map(|args| args.pins.subscribe()),
                entry: child.entry.clone(),
                first: child.first,
            };
            (id.clone(), entry)
        });
        let directory = Directory { entries: entries.collect(), draining: self.draining };
        let _ = self.args.directory.send(Arc::new(directory));
    }
}

/// The history that goes on after `what` ended the actor which wrote it.
fn carried(view: &ServerView, what: What) -> Arc<History> {
    let mut history = view.whole_history();
    history.note(time::wall(), view.generation, what);
    Arc::new(history)
}
