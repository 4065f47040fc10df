//! An attempt to connect: what it waits for, how it is made, and that its process is told of as
//! soon as there is one. It runs beside the actor, which hears of its end.

use std::convert::Infallible;
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::watch;

use super::msg::{ServerMsg, Wake};
use super::state::ServerState;
use crate::actors::task;
use crate::config::spec::{Protocol, Timeouts};
use crate::id::Generation;
use crate::time::Monotonic;
use crate::transport::legacy_side::LegacySide;
use crate::transport::link::Link;
use crate::transport::{
    Attempt, ConnectError, Connection, Connector, LinkFault, LinkSettings, ProtocolChoice, connect,
};
use crate::view::history::What;
use crate::wire::era::Era;

/// Processes that were ended on purpose: they may hold a lock, a port or a file until they have left.
/// Their ends are bounded. After a crash nobody waits.
struct Before {
    /// Of the entry that this one replaces.
    replaced: Option<watch::Receiver<()>>,
    /// Of this actor.
    own: Option<Link>,
}

impl Before {
    async fn left(self) {
        if let Some(mut replaced) = self.replaced {
            // It ends with its sender.
            while replaced.changed().await.is_ok() {}
        }
        if let Some(link) = self.own {
            link.close().await;
        }
    }
}

impl ServerState {
    pub(super) fn begin_attempt(&mut self) {
        self.generation = self.generation.next();
        self.view.generation = self.generation;
        self.timers.clear();
        self.calls_lost = 0;
        self.note(What::Started(self.starting));
        let now = Monotonic::now();
        self.law.started(now);
        let connector = match &self.args.connector {
            Ok(connector) => connector.clone(),
            Err(fault) => {
                let error = ConnectError { fault: fault.clone(), stderr: String::new() };
                self.connect_failed(error);
                return;
            }
        };
        let timeouts = self.args.spec.timeouts;
        self.wake_at("start", now + timeouts.connect, Wake::StartLimit);
        let (attempt, settings, generation) = (Attempt::default(), self.link_settings(), self.generation);
        let before = Before { replaced: self.args.replaced.clone(), own: self.predecessor.clone() };
        let (watched, me) = (attempt.clone(), self.me.clone());
        let work = async move {
            before.left().await;
            let outcome = tokio::select! {
                biased;
                outcome = made(&connector, &settings, timeouts, &watched) => outcome,
                never = tell(&watched, &me, generation) => match never {},
            };
            match outcome {
                Ok(connection) => ServerMsg::Connected(generation, Box::new(connection)),
                Err(error) => ServerMsg::ConnectFailed(generation, error),
            }
        };
        let handle = task::spawn(&self.me, work, move |lost| {
            let fault = LinkFault::Network(format!("the connect task was lost: {lost:?}"));
            ServerMsg::ConnectFailed(generation, ConnectError { fault, stderr: String::new() })
        });
        self.attempt = Some((attempt, handle));
    }

    /// The legacy era beside the modern one, where a server may have both.
    pub(super) fn legacy_side(&self, spoken: Era) -> Option<Arc<LegacySide>> {
        let connector = self.args.connector.as_ref().ok()?;
        let from = (self.args.spec.id.clone(), self.generation);
        let (timeout, notices) = (self.args.spec.timeouts.connect, self.args.notices.clone());
        LegacySide::beside((connector, &self.link_settings()), spoken, timeout, from, notices)
    }

    fn link_settings(&self) -> LinkSettings {
        LinkSettings {
            frame_max: self.args.spec.limits.frame_max,
            protocol: match self.args.spec.protocol {
                Protocol::Auto => ProtocolChoice::Auto,
                Protocol::Legacy => ProtocolChoice::Legacy,
                Protocol::Modern => ProtocolChoice::Modern,
            },
            remembered: self.remembered,
            roots: self.args.roots.clone(),
            declared: self.args.declared.clone(),
            list_timeout: self.args.spec.timeouts.list,
            http: self.args.http.clone(),
            spawns: self.args.spawns.clone(),
            tap: self.args.tap.clone(),
        }
    }
}

/// The connection, or why there is none, within `max_start`.
async fn made(
    connector: &Connector,
    settings: &LinkSettings,
    timeouts: Timeouts,
    attempt: &Attempt,
) -> Result<Connection, ConnectError> {
    let limit = timeouts.max_start;
    tokio::time::timeout(limit, connect(connector, settings, attempt)).await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        let fault = LinkFault::TimedOut(format!("the handshake got no answer within {limit} (max_start)"));
        Err(ConnectError { fault, stderr: attempt.stderr_tail() })
    })
}

/// Tells the actor of each process that the attempt has started.
async fn tell(attempt: &Attempt, me: &ActorRef<ServerMsg>, generation: Generation) -> Infallible {
    loop {
        attempt.started().await;
        let _ = me.cast(ServerMsg::Spawned(generation));
    }
}
