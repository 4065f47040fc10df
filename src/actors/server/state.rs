//! The state of one server actor and what its actions do. Only the actor's handlers
//! call in here; nothing waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::actor::ServerArgs;
use super::call::{Leave, Shared};
use super::cure;
use super::idle::Autostart;
use super::limit::RateLimit;
use super::msg::{ServerMsg, Wake};
use super::notices;
use crate::actors::jitter::Jitter;
use crate::actors::task::{self, TaskHandle};
use crate::call::CallError;
use crate::catalog::items::{ListKind, ListKinds, ServerCatalog};
use crate::id::{CallId, Generation, IdMap};
use crate::policy::breaker::{Breaker, Pass};
use crate::policy::bulkhead::Bulkhead;
use crate::policy::classify::Ending;
use crate::policy::lifecycle::{Action, Event, FaultKind, Life, Next};
use crate::policy::pause::Pause;
use crate::policy::refresh::Refresh;
use crate::policy::replay::ReplayBudget;
use crate::policy::restart::{Cause, RestartLaw, Verdict};
use crate::time::{self, Monotonic};
use crate::transport::handshake::Established;
use crate::transport::http::MirroredParams;
use crate::transport::legacy_side::LegacySide;
use crate::transport::link::Link;
use crate::transport::{Attempt, ConnectError, Connection, LinkFault};
use crate::view::history::{StartWhy, What};
use crate::view::{LifeState, ParkReason, ServerView};
use crate::wire::era::Revision;
use crate::wire::splice::MetaRewrite;

/// How long the calls of a stopping server may still run.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(2);

/// A connection in use.
pub(super) struct Live {
    pub link: Link,
    pub established: Arc<Established>,
    pub meta: Arc<MetaRewrite>,
    /// The legacy era beside the modern one.
    pub legacy: Option<Arc<LegacySide>>,
    /// Forwards its notifications and reports its end.
    _watcher: TaskHandle,
}

/// A call that waits for a place or for the server.
pub(super) struct Waiter {
    pub call: CallId,
    /// The tool that it is for.
    pub tool: Option<String>,
    pub pass: Pass,
    pub turn: oneshot::Sender<Result<Leave, CallError>>,
    /// Nothing of it can come later.
    pub end: Monotonic,
}

/// What a call holds, until it settles. Kept here, not by the call's task, which may be lost.
pub(super) struct Holding {
    /// The breaker's leave.
    pub pass: Pass,
    /// Whether it has a place in flight.
    pub has_place: bool,
    /// Runs the call.
    pub _task: TaskHandle,
}

/// Everything that one server actor owns.
pub(crate) struct ServerState {
    pub(super) me: ActorRef<ServerMsg>,
    pub(super) args: ServerArgs,
    pub(super) shared: Arc<Shared>,
    pub(super) life: Life,
    pub(super) generation: Generation,
    pub(super) live: Option<Live>,
    pub(super) attempt: Option<(Attempt, TaskHandle)>,
    pub(super) timers: BTreeMap<&'static str, TaskHandle>,
    /// Why the next start begins, for the history.
    pub(super) starting: StartWhy,
    /// The process that the history knows.
    pub(super) noted_pid: Option<u32>,
    /// Calls that ended with the connection before its end was heard of.
    pub(super) calls_lost: usize,
    /// What it was started for.
    pub(super) started: Autostart,
    /// Watches its files.
    pub(super) files: Option<TaskHandle>,
    /// Since when nobody uses it.
    pub(super) idle_since: Option<Monotonic>,
    /// Connections that are being ended in order.
    pub(super) closing: BTreeMap<Generation, TaskHandle>,
    /// The process of before, when it was ended here and may still be on its way out.
    pub(super) predecessor: Option<Link>,
    /// Files changed; the calls that run may still end (see `files`).
    pub(super) restart_due: bool,
    pub(super) law: RestartLaw,
    pub(super) jitter: Jitter,
    pub(super) remembered: Option<Revision>,
    pub(super) rate: Option<RateLimit>,
    pub(super) bulkhead: Bulkhead<Waiter>,
    pub(super) breaker: Breaker,
    pub(super) replays: ReplayBudget,
    /// Unanswered calls, until it is known whether the server lives.
    pub(super) suspects: Vec<Pass>,
    pub(super) liveness: Option<TaskHandle>,
    pub(super) pause: Pause,
    pub(super) calls: IdMap<CallId, Holding>,
    pub(super) catalog: Arc<ServerCatalog>,
    /// Its tools have been held against their pins in this run.
    pub(super) tools_judged: bool,
    /// Parameters that tools want in headers (modern HTTP).
    pub(super) mirrored: Arc<MirroredParams>,
    pub(super) lists: BTreeMap<ListKind, TaskHandle>,
    /// When each list is read again.
    pub(super) refreshes: BTreeMap<ListKind, Refresh>,
    /// Lists whose changes the server announces, as it showed.
    pub(super) announced: ListKinds,
    pub(super) stop_ports: Vec<oneshot::Sender<()>>,
    pub(super) oddities: u64,
    /// Bytes of stderr that the view knows of.
    pub(super) stderr_seen: u64,
    /// Why the restart law gave up, for the view.
    pub(super) gave_up: Option<Cause>,
    pub(super) view: ServerView,
    pub(super) dirty: bool,
}

impl ServerState {
    pub(super) fn new(me: ActorRef<ServerMsg>, args: ServerArgs) -> Self {
        let view = args.view.borrow().clone();
        let id = args.spec.id.clone();
        // A restarted actor goes on counting, so that nothing of its predecessor is current.
        let generation = view.generation.next();
        Self {
            shared: Arc::new(Shared {
                server: id.clone(),
                redactor: args.redactor.clone(),
                withheld: args.withheld.clone(),
                count_tool_errors: args.spec.breaker.count_tool_errors,
            }),
            life: Life::Dormant,
            generation,
            live: None,
            attempt: None,
            timers: BTreeMap::new(),
            starting: StartWhy::default(),
            noted_pid: None,
            calls_lost: 0,
            started: args.autostart,
            files: None,
            idle_since: None,
            closing: BTreeMap::new(),
            predecessor: None,
            restart_due: false,
            law: RestartLaw::new(args.spec.restart),
            jitter: Jitter::for_name(args.spec.id.as_str(), args.seed),
            remembered: args.remembered,
            rate: args.spec.rate.map(RateLimit::new),
            bulkhead: Bulkhead::new(args.spec.limits.in_flight, args.spec.limits.queue),
            breaker: Breaker::new(args.spec.breaker),
            replays: ReplayBudget::default(),
            suspects: Vec::new(),
            liveness: None,
            pause: Pause::default(),
            calls: IdMap::default(),
            catalog: match &args.kept {
                Some(kept) => kept.catalog.clone(),
                None => Arc::new(ServerCatalog::empty(id, generation)),
            },
            tools_judged: false,
            mirrored: Arc::default(),
            lists: BTreeMap::new(),
            refreshes: BTreeMap::new(),
            announced: ListKinds::default(),
            stop_ports: Vec::new(),
            oddities: 0,
            stderr_seen: 0,
            gave_up: None,
            view,
            dirty: true,
            me,
            args,
        }
    }

    pub(super) fn is_current(&self, generation: Generation) -> bool {
        self.generation == generation
    }

    /// Sets or replaces a named timer.
    pub(super) fn wake_at(&mut self, name: &'static str, at: Monotonic, wake: Wake) {
        let handle = task::wake(&self.me, at, ServerMsg::Woke(self.generation, wake));
        self.timers.insert(name, handle);
    }

    pub(super) fn has_timer(&self, name: &'static str) -> bool {
        self.timers.contains_key(name)
    }

    pub(super) fn drop_timer(&mut self, name: &'static str) {
        self.timers.remove(name);
    }

    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::Connect => self.begin_attempt(),
            Action::WakeAt(at) => self.wake_at("backoff", at, Wake::Backoff),
            // The list of a connection that is the probe decides about those who wait.
            Action::AdmitWaiting if self.breaker.connection_decides() => {}
            Action::AdmitWaiting => self.admit_waiting(),
            Action::RefuseWaiting => self.refuse_waiting(),
            Action::Disconnect => {
                let ended = self.disconnect().filter(|link| link.pid().is_some());
                self.predecessor = ended.or(self.predecessor.take());
            }
        }
    }

    pub(super) fn connected(&mut self, connection: Connection) {
        if !matches!(self.life, Life::Connecting { .. }) {
            return;
        }
        let Connection { link, events, established } = connection;
        self.note_spawned();
        self.attempt = None;
        self.remembered = established.remember;
        self.view.remember = established.remember.map(Revision::as_str);
        self.announced = self.trusted_announcements(&established);
        self.view.pid = link.pid();
        self.view.guard_pid = link.guard_pid();
        self.view.revision = Some(established.revision.as_str());
        self.view.server_info = established.server_info.as_deref().map(|info| self.clean(info));
        let generation = self.generation;
        let work = notices::watch(
            link.clone(),
            events,
            (self.args.spec.id.clone(), generation),
            self.me.clone(),
            self.args.notices.clone(),
        );
        let watcher = task::spawn(&self.me, work, move |_| ServerMsg::Ended(generation, LinkFault::Closed));
        if let Life::Connecting { since, .. } = self.life {
            let took = Monotonic::now().since(since);
            self.view.start_took = Some(took);
            self.note(What::Connected { revision: established.revision.as_str(), took });
        }
        let meta = Arc::new(established.meta.clone());
        let legacy = self.legacy_side(established.revision.era());
        self.live = Some(Live { link, established: Arc::new(established), meta, legacy, _watcher: watcher });
        self.law.ready(Monotonic::now());
        self.foresee_params();
        self.feed(Event::Connected);
        self.begin_lists();
    }

    pub(super) fn connect_failed(&mut self, error: ConnectError) {
        if !matches!(self.life, Life::Connecting { .. } | Life::Draining) {
            // The attempt was given up here: that is no failure.
            return;
        }
        self.note_start_failed(&error.fault, &error.stderr);
        let why = self.fault_text(&error.fault, &error.stderr);
        let kind = self.judge(&error.fault);
        self.park_texts(&error.fault, &error.stderr, why);
        self.disconnect();
        self.feed(Event::ConnectFailed(kind));
        let ending = match &error.fault {
            LinkFault::Config(_) | LinkFault::Misfit { .. } => Ending::Refused,
            LinkFault::NeedsAuth(_) => Ending::WantsCredentials,
            LinkFault::Throttled { .. } => Ending::Throttled,
            _ => Ending::ConnectFailed,
        };
        let moved = self.breaker.connect_failed(ending.class(false), Monotonic::now());
        self.breaker_moved(moved);
    }

    pub(super) fn lost(&mut self, fault: LinkFault) {
        if self.live.is_none() {
            // It was ended here, or its end was noticed before, by a call.
            return;
        }
        let stderr = match (&fault, &self.live) {
            (LinkFault::Exited { stderr, .. }, _) => stderr.clone(),
            (_, Some(live)) => live.link.stderr_tail(),
            _ => String::new(),
        };
        self.note_lost(&fault, &stderr);
        let why = self.fault_text(&fault, &stderr);
        let kind = self.judge(&fault);
        self.park_texts(&fault, &stderr, why);
        self.disconnect();
        self.feed(Event::Lost(kind));
        self.probe_listed(false);
    }

    /// A fresh connection has read its list of tools, or can't any more: counts if it is the probe.
    pub(super) fn probe_listed(&mut self, read: bool) {
        let moved = self.breaker.listed(read, Monotonic::now());
        self.breaker_moved(moved);
    }

    /// What a fault means for the next attempt.
    fn judge(&mut self, fault: &LinkFault) -> FaultKind {
        match fault {
            LinkFault::Config(_) => return FaultKind::Config,
            // What fitted before may fit again: a new version is rolled out, a proxy is in the way.
            LinkFault::Misfit { .. } if !self.view.history.was_connected() => return FaultKind::Config,
            LinkFault::NeedsAuth(_) => return FaultKind::NeedsAuth,
            LinkFault::Throttled { after } => {
                return FaultKind::Passing(Next::At(Monotonic::now() + *after));
            }
            _ => {}
        }
        let random = self.jitter.next();
        match self.law.failed(Monotonic::now(), random) {
            Verdict::Again(at) => {
                self.view.restarts = self.view.restarts.saturating_add(1);
                FaultKind::Passing(Next::At(at))
            }
            Verdict::GiveUp(cause) => {
                self.gave_up = Some(cause);
                FaultKind::Passing(Next::GiveUp)
            }
        }
    }

    fn park_texts(&mut self, fault: &LinkFault, stderr: &str, why: String) {
        self.view.why = Some(why);
        self.view.detail = fault.detail().map(|detail| self.clean(detail));
        self.view.fix = cure::of(fault, &self.args.redactor.text(stderr), &self.args.withheld);
    }

    fn fault_text(&self, fault: &LinkFault, stderr: &str) -> String {
        let mut text = fault.to_string();
        let from_fault = match fault {
            LinkFault::Exited { stderr, .. } => stderr.as_str(),
            _ => "",
        };
        let tail = if from_fault.is_empty() { stderr } else { from_fault };
        if let Some(last) = tail.lines().rev().find(|line| !line.trim().is_empty()) {
            text.push_str("; stderr: ");
            text.push_str(last);
        }
        self.clean(&text)
    }

    pub(super) fn restart_asked(&mut self, why: StartWhy) {
        self.law.forgive();
        self.pause.lift();
        self.view.paused_until = None;
        let moved = self.breaker.reset();
        if matches!(self.life, Life::Connecting { .. } | Life::Ready { .. }) {
            self.note(What::RestartAsked);
        }
        self.start_for(why, Event::RestartAsked);
        self.breaker_moved(moved);
    }

    /// The state changed: the view says since when and why.
    pub(super) fn moved(&mut self, from: LifeState, now: Monotonic) {
        let to = self.life.state();
        self.view.state = to;
        self.view.since = time::wall();
        self.view.late = false;
        self.view.next_attempt = match self.life {
            Life::BackingOff { until } => Some(time::wall() + until.since(now)),
            _ => None,
        };
        match to {
            LifeState::Ready | LifeState::Connecting => {
                if to == LifeState::Ready {
                    self.view.why = None;
                    self.view.detail = None;
                }
                self.view.fix = None;
            }
            LifeState::Parked(ParkReason::GivenUp) => {
                let why = self.view.why.take().unwrap_or_default();
                let cause = self.gave_up.map(|cause| cause.to_string()).unwrap_or_default();
                self.view.why = Some(format!("gave up after {cause}: {why}"));
                let look = || cure::of_giving_up(self.view.transport).to_owned();
                let known = self.view.fix.take();
                self.view.fix = Some(match self.view.detail {
                    // A cause that is understood has a better cure than a look around.
                    Some(_) => known.unwrap_or_else(look),
                    None => cure::and(look(), known),
                });
            }
            _ => {}
        }
        self.note_moved(now);
        if matches!(to, LifeState::Parked(_) | LifeState::Stopped) {
            self.args.registry.settled(self.args.spec.id.clone());
        }
        tracing::info!(server = %self.args.spec.id, from = from.as_str(), to = to.as_str(), "server moved");
        self.dirty = true;
    }
}
