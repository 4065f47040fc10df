//! Events of an old generation: whatever they say, the view, the catalogue and the connection
//! stay as they are.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::watch;

use super::actor::{ServerActor, ServerArgs};
use super::idle::Autostart;
use super::msg::{ServerMsg, Wake};
use crate::actors::registry::{RegistryActor, RegistryArgs, RegistryRef};
use crate::actors::root::Seat;
use crate::catalog::items::{ItemList, ListKind, ListKinds};
use crate::catalog::merge::Catalog;
use crate::config::child_env::Withheld;
use crate::config::spec::{NamingStyle, ServerSpec, TransportSpec};
use crate::id::Generation;
use crate::telemetry::Redaction;
use crate::time;
use crate::transport::link::Stale;
use crate::transport::testpeer::peer;
use crate::transport::{
    Attempt, ConnectError, Connection, Connector, LinkFault, LinkSettings, ProtocolChoice, connect,
};
use crate::view::{LifeState, ServerView};

fn settings() -> LinkSettings {
    LinkSettings {
        frame_max: 1 << 20,
        protocol: ProtocolChoice::Auto,
        remembered: None,
        roots: Vec::new(),
        declared: crate::transport::Declared::default(),
        list_timeout: Duration::from_secs(5),
        http: crate::transport::http::Client::new(),
        spawns: crate::transport::spawns::Spawns::default(),
        tap: Default::default(),
    }
}

async fn connection() -> Connection {
    connect(&Connector::Duplex(peer(&["one"])), &settings(), &Attempt::default()).await.unwrap()
}

/// One server actor with a registry, in its second generation, ready and listed.
struct Stage {
    actor: ActorRef<ServerMsg>,
    view: watch::Receiver<ServerView>,
    catalog: watch::Receiver<Arc<Catalog>>,
    registry: RegistryRef,
}

impl Stage {
    async fn set() -> Self {
        let (out, catalog) = watch::channel(Arc::new(Catalog::default()));
        let style = NamingStyle::default();
        let args = RegistryArgs { style, name_len_max: 64, reserved: Vec::new(), out };
        let (holder, _) = Actor::spawn(None, RegistryActor, args).await.unwrap();
        let registry = RegistryRef(Seat::new(watch::channel(Some(holder)).1));
        registry.keep([("s".into(), Generation(0))].into());
        let transport =
            TransportSpec::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
        let first = ServerView::unknown("s".into(), "stdio", LifeState::Connecting, time::wall());
        let (view_out, view) = watch::channel(first);
        let args = ServerArgs {
            seed: None,
            spec: Arc::new(ServerSpec::new("s", transport)),
            connector: Ok(Connector::Duplex(peer(&["one"]))),
            roots: Vec::new(),
            declared: crate::transport::Declared::default(),
            notices: tokio::sync::broadcast::channel(1).0,
            withheld: Withheld::default(),
            remembered: None,
            view: view_out,
            registry: registry.clone(),
            redactor: Redaction::default(),
            replaced: None,
            poll: None,
            kept: None,
            pins: watch::channel(Arc::default()).0,
            autostart: Autostart::ToUse,
            tap: Default::default(),
            http: crate::transport::http::Client::new(),
            spawns: crate::transport::spawns::Spawns::default(),
        };
        let (actor, _) = Actor::spawn(None, ServerActor, args).await.unwrap();
        let mut stage = Self { actor, view, catalog, registry };
        stage.ready_after(0).await;
        let before = stage.view.borrow().generation.0;
        stage.tell(ServerMsg::Restart);
        stage.ready_after(before).await;
        stage.registry.caught_up().await;
        stage
    }

    fn tell(&self, message: ServerMsg) {
        self.actor.cast(message).unwrap();
    }

    async fn ready_after(&mut self, generation: u64) {
        let ready = |view: &ServerView| {
            view.state == LifeState::Ready && view.listed && view.generation.0 > generation
        };
        self.view.wait_for(ready).await.unwrap();
    }

    /// The view and the catalogue, once everything that was sent has been handled.
    async fn look(&self) -> (String, u64, Arc<Catalog>) {
        // What a task casts comes later: let everything run that can.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.registry.caught_up().await;
        let view = self.view.borrow().clone();
        let catalog = self.catalog.borrow().clone();
        let mut told = view.clone();
        told.since = std::time::SystemTime::UNIX_EPOCH;
        (format!("{told:?}"), catalog.version, catalog)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_event_of_an_old_generation_changes_nothing() {
    let stage = Stage::set().await;
    let (view, version, catalog) = stage.look().await;
    assert_eq!(catalog.tools.len(), 1);
    let current = stage.view.borrow().generation;
    for old in 0..current.0 {
        let old = Generation(old);
        let fault = || LinkFault::Closed;
        let all = Stale { announced: ListKinds::of(ListKind::Tools), renewed: true };
        let mut events = vec![
            ServerMsg::Spawned(old),
            ServerMsg::Connected(old, Box::new(connection().await)),
            ServerMsg::ConnectFailed(old, ConnectError { fault: fault(), stderr: "x".to_owned() }),
            ServerMsg::ConnectFailed(
                old,
                ConnectError { fault: LinkFault::Config("x".to_owned()), stderr: String::new() },
            ),
            ServerMsg::Ended(old, fault()),
            ServerMsg::Ended(old, LinkFault::NeedsAuth("x".to_owned())),
            ServerMsg::Notified(old, all),
            ServerMsg::Disconnected(old),
        ];
        for kind in ListKind::ALL {
            events.push(ServerMsg::Listed(old, kind, Ok(ItemList::default())));
            events.push(ServerMsg::Listed(old, kind, Err("x".to_owned())));
            events.push(ServerMsg::Woke(old, Wake::Refresh(kind)));
        }
        for wake in [Wake::StartLimit, Wake::Backoff, Wake::Poll, Wake::Idle, Wake::Drain] {
            events.push(ServerMsg::Woke(old, wake));
        }
        for event in events {
            let told = format!("{event:?}");
            stage.tell(event);
            let now = stage.look().await;
            assert_eq!((&now.0, now.1), (&view, version), "{told}");
            assert_eq!(now.2.tools.len(), 1, "{told}");
        }
    }
}

/// The same events without a reason in the current generation: nothing was asked, nothing is due.
#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_waits_for_changes_nothing() {
    let stage = Stage::set().await;
    let (view, version, _) = stage.look().await;
    let current = stage.view.borrow().generation;
    for event in [
        ServerMsg::Spawned(current),
        ServerMsg::Connected(current, Box::new(connection().await)),
        ServerMsg::ConnectFailed(current, ConnectError { fault: LinkFault::Closed, stderr: String::new() }),
        ServerMsg::Listed(current, ListKind::Tools, Ok(ItemList::default())),
        ServerMsg::Listed(current, ListKind::Tools, Err("x".to_owned())),
        ServerMsg::Woke(current, Wake::Refresh(ListKind::Tools)),
        ServerMsg::Woke(current, Wake::Backoff),
        ServerMsg::Woke(current, Wake::Idle),
        ServerMsg::Woke(current, Wake::Drain),
        ServerMsg::Disconnected(current),
    ] {
        let told = format!("{event:?}");
        stage.tell(event);
        let now = stage.look().await;
        assert_eq!((&now.0, now.1), (&view, version), "{told}");
    }
}
