//! The shell of one server: takes messages, asks the machines of `policy`, performs
//! what they say, publishes the view. No handler waits.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{broadcast, watch};

use super::idle::Autostart;
use super::msg::{ServerMsg, Wake};
use super::state::ServerState;
use crate::actors::registry::RegistryRef;
use crate::call::Notice;
use crate::catalog::pin::Book;
use crate::config::child_env::Withheld;
use crate::config::spec::ServerSpec;
use crate::policy::lifecycle::Event;
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::transport::kept::Kept;
use crate::transport::tap::Tap;
use crate::transport::{Connector, Declared, LinkFault, Root};
use crate::view::ServerView;
use crate::view::history::{StartWhy, What};
use crate::wire::era::Revision;

/// What a server actor is made of.
#[derive(Clone, Debug)]
pub(crate) struct ServerArgs {
    /// Its configuration.
    pub spec: Arc<ServerSpec>,
    /// How to connect, or why that can't be.
    pub connector: Result<Connector, LinkFault>,
    /// Roots to declare.
    pub roots: Vec<Root>,
    /// What else it is told that its client can.
    pub declared: Declared,
    /// Where it goes what the server says to nobody in particular.
    pub notices: broadcast::Sender<Notice>,
    /// Host variables that its child does not see.
    pub withheld: Withheld,
    /// The revision that worked last time.
    pub remembered: Option<Revision>,
    /// Where the view goes. Kept by the supervisor, so it survives this actor.
    pub view: watch::Sender<ServerView>,
    /// Who merges the catalogues.
    pub registry: RegistryRef,
    /// Keeps secrets out of views and errors.
    pub redactor: Redaction,
    /// Closes when the process of the entry that this one replaces has left.
    pub replaced: Option<watch::Receiver<()>>,
    /// How often the lists of a server that does not announce changes are read again.
    pub poll: Option<Duration>,
    /// What it offered in an earlier run.
    pub kept: Option<Kept>,
    /// What its tools were pinned as. Kept by the supervisor, so it survives this actor.
    pub pins: watch::Sender<Arc<Book>>,
    /// Whether it starts by itself.
    pub autostart: Autostart,
    /// The seed of what is random; `None` for one of the process's own.
    pub seed: Option<u64>,
    /// Where somebody may listen to it. Kept by the supervisor, so it survives this actor.
    pub tap: Tap,
    /// The HTTP client that all servers share.
    pub http: crate::transport::http::Client,
    /// The places of those that are being spawned.
    pub spawns: crate::transport::spawns::Spawns,
}

/// One server.
pub(crate) struct ServerActor;

impl Actor for ServerActor {
    type Msg = ServerMsg;
    type State = ServerState;
    type Arguments = ServerArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ServerMsg>,
        args: ServerArgs,
    ) -> Result<ServerState, ActorProcessingErr> {
        Ok(ServerState::new(me, args))
    }

    async fn post_start(
        &self,
        _me: ActorRef<ServerMsg>,
        state: &mut ServerState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        crate::actors::panics::meet("server", &format_args!("PostStart"));
        state.begin();
        state.publish();
        Ok(())
    }

    async fn handle(
        &self,
        _me: ActorRef<ServerMsg>,
        message: ServerMsg,
        state: &mut ServerState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        crate::actors::panics::meet("server", &message);
        match message {
            ServerMsg::Call(submission) => state.take_call(submission),
            ServerMsg::Settled(settled) => state.settle(settled),
            ServerMsg::Start => {
                state.started = Autostart::ToUse;
                state.start_for(StartWhy::Asked, Event::Wanted);
            }
            ServerMsg::Restart => state.restart_asked(StartWhy::Asked),
            ServerMsg::Stop(done) => state.stop_asked(done),
            ServerMsg::Poll(every) => state.poll_every(every),
            ServerMsg::Pins(book) => state.take_pins(&book),
            ServerMsg::Republish => state.publish_catalog(),
            ServerMsg::Spawned(generation) if state.is_current(generation) => {
                state.note_spawned();
                state.dirty = true;
            }
            ServerMsg::Connected(generation, connection) if state.is_current(generation) => {
                state.connected(*connection);
            }
            ServerMsg::ConnectFailed(generation, error) if state.is_current(generation) => {
                state.connect_failed(error);
            }
            ServerMsg::Ended(generation, fault) if state.is_current(generation) => state.lost(fault),
            ServerMsg::Listed(generation, kind, list) if state.is_current(generation) => {
                state.listed(kind, list);
            }
            ServerMsg::Notified(generation, stale) if state.is_current(generation) => state.notified(stale),
            ServerMsg::Checked(generation, lives) if state.is_current(generation) => state.checked(lives),
            ServerMsg::Woke(generation, wake) if state.is_current(generation) => state.woke(wake),
            ServerMsg::Disconnected(generation) => state.disconnected(generation),
            ServerMsg::Files(how) => state.files_ended(how),
            // A stale event of an old generation changes nothing; dropping a stale connection ends it.
            ServerMsg::Spawned(_)
            | ServerMsg::Connected(..)
            | ServerMsg::ConnectFailed(..)
            | ServerMsg::Ended(..)
            | ServerMsg::Listed(..)
            | ServerMsg::Notified(..)
            | ServerMsg::Checked(..)
            | ServerMsg::Woke(..) => return Ok(()),
        }
        state.publish();
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<ServerMsg>,
        state: &mut ServerState,
    ) -> Result<(), ActorProcessingErr> {
        state.release();
        Ok(())
    }
}

impl ServerState {
    /// Starts by itself, or waits for its first use.
    fn begin(&mut self) {
        self.watch_files();
        if self.args.kept.is_some() {
            self.judge_tools();
            self.tools_judged = true;
        }
        match self.args.autostart {
            Autostart::ToLearn | Autostart::ToUse => self.start_for(self.first_why(), Event::Wanted),
            // Nothing more is to be expected of it for now.
            Autostart::No => self.args.registry.settled(self.args.spec.id.clone()),
        }
    }

    fn woke(&mut self, wake: Wake) {
        match wake {
            Wake::StartLimit => {
                self.note_spawned();
                self.note(What::Late(self.args.spec.timeouts.connect));
                self.feed(Event::StartLimitPassed);
                self.tell_late();
            }
            Wake::Backoff => self.feed(Event::BackoffPassed),
            Wake::Refresh(kind) => self.refresh(kind),
            Wake::Poll => self.poll(),
            Wake::Idle => self.idle_passed(),
            Wake::Drain => self.feed(Event::Drained),
            Wake::Pause => self.pause_passed(),
            Wake::Files => self.restart_for_files(),
        }
    }

    /// Hands one event to the machine, then performs its actions in order.
    pub(super) fn feed(&mut self, event: Event) {
        let now = Monotonic::now();
        let before = self.life;
        let actions = self.life.on(event, now);
        if before.state() != self.life.state() {
            self.moved(before.state(), now);
        }
        for action in actions {
            self.perform(action);
        }
    }
}
