//! Every handler of every actor fails, and every task that an actor spawns: nothing is lost by it,
//! and nothing secret is told.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::{Runtime, RuntimePlan};
use crate::actors::panics;
use crate::actors::registry::RegistryMsg;
use crate::actors::server::ServerRef;
use crate::actors::server::msg::{Files, ServerMsg, Wake};
use crate::actors::supervisor::SupervisorMsg;
use crate::call::{CallError, CallLimits, CallReply, CallRequest, ItemKind, Target};
use crate::catalog::items::{ItemList, ListKind, ServerCatalog};
use crate::config::spec::{
    Entry, EntryState, Scope, SecretText, ServerSpec, Source, ToolFilter, TransportSpec,
};
use crate::id::{CallId, Generation, ServerId, SessionId};
use crate::transport::link::Stale;
use crate::transport::testpeer::peer;
use crate::transport::{ConnectError, LinkFault};
use crate::view::{LifeState, ParkReason};

const SECRET: &str = "hunter2-is-no-good-secret";
const SERVERS: [&str; 3] = ["a", "b", "c"];
/// Panics in all.
const PANICS: usize = 10_000;
/// So far apart that no restart intensity (five in a minute) is spent.
const APART: Duration = Duration::from_secs(15);

/// What fails, and how it is brought about.
const PLACES: [(&str, How); 31] = [
    ("server:PostStart", How::Panic),
    ("server:Call", How::Call),
    ("server:Settled", How::Call),
    ("server:Start", How::Tell(|_| ServerMsg::Start)),
    ("server:Restart", How::Tell(|_| ServerMsg::Restart)),
    ("server:Stop", How::Tell(|_| ServerMsg::Stop(tokio::sync::oneshot::channel().0))),
    ("server:Poll", How::Tell(|_| ServerMsg::Poll(None))),
    ("server:Pins", How::Tell(|_| ServerMsg::Pins(Arc::default()))),
    ("server:Republish", How::Republish),
    ("server:Spawned", How::Tell(ServerMsg::Spawned)),
    ("server:Connected", How::Tell(|_| ServerMsg::Restart)),
    ("server:ConnectFailed", How::Tell(|at| ServerMsg::ConnectFailed(at, failed()))),
    ("server:Ended", How::Tell(|at| ServerMsg::Ended(at, LinkFault::Closed))),
    ("server:Listed", How::Tell(|at| ServerMsg::Listed(at, ListKind::Tools, Ok(ItemList::default())))),
    ("server:Notified", How::Tell(|at| ServerMsg::Notified(at, Stale::default()))),
    ("server:Files", How::Tell(|_| ServerMsg::Files(Files::Lost))),
    ("server:Woke", How::Tell(|at| ServerMsg::Woke(at, Wake::Poll))),
    ("server:Checked", How::Tell(|at| ServerMsg::Checked(at, true))),
    ("server:Disconnected", How::Tell(|_| ServerMsg::Restart)),
    ("frontend:Call", How::Call),
    (
        "registry:Publish",
        How::Registry(|id| {
            let catalog = ServerCatalog::empty(id.clone(), Generation(0));
            RegistryMsg::Publish(Arc::new(catalog), ToolFilter::default())
        }),
    ),
    ("registry:Settled", How::Registry(|id| RegistryMsg::Settled(id.clone()))),
    ("registry:Keep", How::Registry(|_| RegistryMsg::Keep([].into()))),
    ("registry:Merge", How::Registry(|_| RegistryMsg::Merge)),
    ("registry:CaughtUp", How::Registry(|_| RegistryMsg::CaughtUp(tokio::sync::oneshot::channel().0))),
    ("task:spawn_call", How::Call),
    ("task:spawn_call", How::LateCall),
    ("task:begin_attempt", How::Tell(|_| ServerMsg::Restart)),
    ("task:connected", How::Tell(|_| ServerMsg::Restart)),
    ("task:read_list", How::Tell(|_| ServerMsg::Restart)),
    ("task:disconnect", How::Tell(|_| ServerMsg::Restart)),
];

#[derive(Clone, Copy)]
enum How {
    /// Another handler fails before; this is the first of its successor.
    Panic,
    /// A call.
    Call,
    /// A call, when it has its answer.
    LateCall,
    /// A message to the server.
    Tell(fn(Generation) -> ServerMsg),
    /// Every server is asked to show its catalogue again.
    Republish,
    /// A message to the registry.
    Registry(fn(&ServerId) -> RegistryMsg),
}

/// A new message needs a place above.
fn has_a_place(message: &ServerMsg) -> bool {
    match message {
        ServerMsg::Call(_)
        | ServerMsg::Settled(_)
        | ServerMsg::Start
        | ServerMsg::Restart
        | ServerMsg::Stop(_)
        | ServerMsg::Poll(_)
        | ServerMsg::Republish
        | ServerMsg::Pins(_)
        | ServerMsg::Spawned(_)
        | ServerMsg::Connected(..)
        | ServerMsg::ConnectFailed(..)
        | ServerMsg::Ended(..)
        | ServerMsg::Listed(..)
        | ServerMsg::Notified(..)
        | ServerMsg::Files(_)
        | ServerMsg::Woke(..)
        | ServerMsg::Checked(..)
        | ServerMsg::Disconnected(_) => true,
    }
}

fn failed() -> ConnectError {
    ConnectError { fault: LinkFault::Closed, stderr: String::new() }
}

fn entry(name: &str) -> Entry {
    let transport =
        TransportSpec::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    let mut spec = ServerSpec { allow_all_tools: true, ..ServerSpec::new(name, transport) };
    spec.limits.in_flight = 1;
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Flag, origin: "test".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: format!("hash-of-{name}"),
        transport: "stdio",
        summary: "in-process".to_owned(),
        label: None,
        description: None,
        required: false,
        down: None,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

async fn started() -> Runtime {
    let mut plan = RuntimePlan { in_flight_max: 4, ..RuntimePlan::default() };
    plan.servers.secrets = vec![SecretText::new(SECRET)];
    plan.servers.entries = SERVERS.map(entry).into();
    plan.in_process = SERVERS.map(|name| (ServerId::new(name), peer(&["one", "hold"]))).into();
    let runtime = Runtime::start(plan).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    runtime
}

fn call(
    runtime: &Runtime,
    server: &str,
    tool: &str,
) -> impl Future<Output = Result<CallReply, CallError>> + use<> {
    let target = Target::Direct { server: server.into(), kind: ItemKind::Tool, name: tool.to_owned() };
    let (id, session, params) = (CallId::fresh(), SessionId(0), Bytes::from_static(b"{}"));
    let request = CallRequest { id, session, target, params, limits: CallLimits::default(), grant: None };
    runtime.frontend().call(request, None)
}

fn server(runtime: &Runtime, name: &str) -> ServerRef {
    runtime.directory().entries[&ServerId::new(name)].server.clone().expect("it has an actor")
}

async fn idle() {
    for _ in 0..25 {
        tokio::task::yield_now().await;
    }
}

/// Has one place of that server fail.
async fn fail(runtime: &Runtime, name: &str, place: &str, how: How) {
    let text = format!("a bug that knows\n{SECRET}");
    let passes = usize::from(matches!(how, How::LateCall));
    panics::arm(place, passes, &text);
    match how {
        How::Panic => {
            panics::disarm();
            panics::arm("server:Start", 0, &text);
            panics::arm(place, 0, &text);
            server(runtime, name).tell(ServerMsg::Start);
        }
        How::Call | How::LateCall => {
            // Exactly one answer, whatever it is.
            let answer = tokio::time::timeout(Duration::from_secs(1), call(runtime, name, "one")).await;
            if let Err(error) = answer.expect("an answer") {
                assert!(!error.message.contains(SECRET), "{error}");
            }
        }
        How::Tell(message) => {
            let generation =
                runtime.status().iter().find(|view| view.id.as_str() == name).unwrap().generation;
            let message = message(generation);
            assert!(has_a_place(&message));
            server(runtime, name).tell(message);
        }
        How::Republish => runtime.supervisor.republish(),
        How::Registry(message) => assert!(runtime.registry.0.cast(message(&name.into()))),
    }
    idle().await;
    assert!(!panics::disarm(), "{place} did not fail");
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin(&self) -> (tracing::subscriber::DefaultGuard, tracing::Dispatch) {
        let made = || {
            let log = self.clone();
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish()
        };
        // With a single one, another thread that comes to a place first would decide that nobody listens there.
        let second = tracing::Dispatch::new(made());
        (tracing::subscriber::set_default(made()), second)
    }

    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

/// Everything that is kept of a server's life.
fn told(runtime: &Runtime) -> String {
    format!("{:?}", runtime.status())
}

/// The tasks that live when all timers have run out.
async fn tasks_at_rest() -> usize {
    idle().await;
    tokio::time::advance(4 * APART).await;
    idle().await;
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_panics_in_every_handler_lose_no_actor_and_show_no_secret() {
    let log = Log::default();
    let _guard = log.begin();
    let runtime = started().await;
    let before = tasks_at_rest().await;
    for round in 0..PANICS {
        tokio::time::advance(APART).await;
        idle().await;
        let (place, how) = PLACES[(round / SERVERS.len()) % PLACES.len()];
        let name = if matches!(how, How::Republish) { SERVERS[0] } else { SERVERS[round % SERVERS.len()] };
        let was = runtime.status();
        fail(&runtime, name, place, how).await;
        runtime.settle(&[], Duration::from_secs(60)).await;
        for (was, is) in was.iter().zip(runtime.status()) {
            assert_eq!(is.state, LifeState::Ready, "after {place} of {name}: {is:?}");
            assert!(is.id.as_str() == name || is.generation == was.generation, "{name} alone: {is:?}");
        }
        call(&runtime, name, "one").await.unwrap_or_else(|error| panic!("after {place} of {name}: {error}"));
        let log = log.take();
        assert!(!log.contains(SECRET), "{place}: {log}");
        assert!(place.starts_with("task:") || log.contains("panicked"), "{place} is logged: {log}");
        if round % 50 == 0 {
            assert!(!told(&runtime).contains(SECRET), "{place}");
        }
    }
    for name in SERVERS {
        call(&runtime, name, "one").await.unwrap();
    }
    assert_eq!(tasks_at_rest().await, before, "every actor, and nothing more");
    assert!(told(&runtime).contains("a bug that knows [redacted]"), "{}", told(&runtime));
    assert!(!*runtime.broken.borrow());
    assert_eq!(runtime.catalog().servers.len(), SERVERS.len());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_lost_gives_back_the_place_for_which_it_waited() {
    let runtime = started().await;
    let first = call(&runtime, "a", "hold");
    idle().await;
    let second = call(&runtime, "a", "one");
    idle().await;
    // The first notices that its caller left; the second is lost when it has its turn.
    panics::arm("task:spawn_call", 1, "a bug");
    drop(first);
    idle().await;
    assert!(!panics::disarm(), "it failed");
    second.await.expect_err("it is lost");
    idle().await;
    let view = runtime.status().remove(0);
    assert_eq!((view.in_flight, view.queued), (0, 0));
    call(&runtime, "a", "one").await.expect("the place is free again");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_actor_fails_again_and_again_is_parked_alone_and_says_why() {
    let runtime = started().await;
    for _ in 0..6 {
        fail(&runtime, "a", "server:Start", How::Tell(|_| ServerMsg::Start)).await;
    }
    let views = runtime.status();
    assert_eq!(views[0].state, LifeState::Parked(ParkReason::GivenUp));
    let why = views[0].why.as_deref().unwrap_or_default();
    assert!(why.contains("a bug that knows [redacted]"), "{why}");
    assert_eq!((views[1].state, views[2].state), (LifeState::Ready, LifeState::Ready));
    call(&runtime, "b", "one").await.unwrap();
    let error = call(&runtime, "a", "one").await.unwrap_err();
    assert!(error.message.contains("a bug of Callboard") && !error.message.contains(SECRET), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_supervisor_itself_is_reported_as_broken() {
    let runtime = started().await;
    panics::arm("supervisor:Republish", 0, "a bug");
    assert!(runtime.supervisor.0.cast(SupervisorMsg::Republish).is_ok());
    tokio::time::timeout(Duration::from_secs(1), runtime.broken()).await.expect("the host is told to end");
}
