//! Runs one schedule: the product's own runtime, actors and links, on peers in memory and a paused
//! clock. Afterwards everything is looked at once more, and the whole is handed to the oracle.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callboard::actors::frontend::FrontendRef;
use callboard::call::{CallEvent, CallLimits, CallReply, CallRequest, ErrorCode, ItemKind, Target};
use callboard::id::{CallId, ServerId, SessionId};
use callboard::runtime::{Runtime, ViewWatch};
use callboard::view::{BreakerState, LifeState};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::audit_log::{Log, Shelf};
use super::entries::Fleet;
use super::peer::Peer;
use super::schedule::{Act, CallPlan, Schedule, TOOLS, What};
use super::trace::{Entry, Fact, Outcome, Trace};

/// How long after the last fault a wanted server may need at most, besides its own start limits.
pub const LIVE_AGAIN_MS: u64 = 60_000;
/// How long an open breaker stays open; the last calls are made later than that.
const BREAKER_MS: u64 = 61_000;
/// Calls that are made at once to count the free permits.
pub const PERMITS: usize = 48;
/// The longest silence of a peer that a fault asks for.
const STALL_MAX_MS: u64 = 10_000;

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// From now on a panic on a thread counts for the run on it.
pub fn count_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.with(|panics| panics.set(panics.get() + 1));
        report(info);
    }));
}

/// What one run left.
#[derive(Clone, Debug)]
pub struct Run {
    pub schedule: Schedule,
    pub trace: Vec<Entry>,
    pub end: End,
}

/// How everything stands at certain moments after the faults.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// When the time for coming back was over, or all had come back.
    pub settled_at: u64,
    /// The states then, of the servers that are configured and enabled.
    pub settled: BTreeMap<usize, LifeState>,
    /// Whether an entry is there and enabled.
    pub wanted: BTreeMap<usize, bool>,
    /// Tools of each server in the catalogue when it had settled.
    pub catalog: BTreeMap<usize, Vec<String>>,
    /// When that was.
    pub looked_at: u64,
    /// The same after every peer has said that its lists changed.
    pub renewed: BTreeMap<usize, Vec<String>>,
    /// The states then: a lazy server may rest again.
    pub heard: BTreeMap<usize, LifeState>,
    /// What each server would list then.
    pub offered: BTreeMap<usize, Vec<String>>,
    /// Exposed name, server, raw name.
    pub exposed: Vec<(String, usize, String)>,
    /// In flight and queued by the views at the end.
    pub busy: BTreeMap<usize, (usize, usize)>,
    /// Connections that are open at the end, and those after the shutdown.
    pub open: BTreeMap<usize, usize>,
    pub open_after: BTreeMap<usize, usize>,
    /// Calls that got no permit when as many were made as there are permits.
    pub permits_missing: usize,
    /// Tasks that are alive after the shutdown.
    pub tasks_after: usize,
    pub panics: usize,
    /// Tools that the catalogue held when it was looked at.
    pub held: BTreeMap<usize, Vec<String>>,
    /// The audit log after the shutdown.
    pub log: Log,
}

/// Runs a schedule to its end.
pub fn run(schedule: &Schedule) -> Run {
    PANICS.with(|panics| panics.set(0));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let (trace, mut end) = runtime.block_on(whole(schedule));
    end.panics = PANICS.with(Cell::get);
    Run { schedule: schedule.clone(), trace, end }
}

async fn whole(schedule: &Schedule) -> (Vec<Entry>, End) {
    let trace = Trace::begin();
    let log = Shelf::new();
    let peers: Vec<Arc<Peer>> =
        (0..schedule.servers.len()).map(|index| Peer::new(schedule, index, &trace)).collect();
    let mut fleet = Fleet::new(schedule, &peers, log.place());
    let runtime = Runtime::start(fleet.plan()).await.expect("the core starts");
    let watcher = tokio::spawn(watch(runtime.watch(&[]), trace.clone()));
    let calls: Vec<_> = schedule
        .calls
        .iter()
        .map(|call| tokio::spawn(caller(runtime.frontend(), schedule.clone(), call.clone(), trace.clone())))
        .collect();
    for act in &schedule.acts {
        sleep_until(trace.instant(act.at)).await;
        if !fleet.apply(act.server, act.act) {
            continue;
        }
        trace.note(Fact::Acted { server: act.server, act: act.act });
        if act.act == Act::Restart {
            runtime.restart_server(&fleet.id(act.server));
        } else {
            runtime.reload(&fleet.plan()).await.expect("the plan can be read");
        }
    }
    for call in calls {
        let _ = call.await;
    }
    sleep_until(trace.instant(schedule.ends())).await;
    let mut end = End::default();
    aftermath(&runtime, &fleet, &peers, &trace, &mut end).await;
    let parting: Vec<_> = (0..schedule.servers.len())
        .filter(|server| fleet.is_wanted(*server))
        .map(|server| CallPlan::parting(server, trace.now()))
        .map(|call| tokio::spawn(caller(runtime.frontend(), schedule.clone(), call, trace.clone())))
        .collect();
    pause(&trace, 100).await;
    trace.note(Fact::Shutdown { done: false });
    runtime.shutdown().await;
    trace.note(Fact::Shutdown { done: true });
    for call in parting {
        let _ = call.await;
    }
    watcher.abort();
    sleep_until(trace.instant(trace.now() + STALL_MAX_MS)).await;
    end.open_after = peers.iter().map(|peer| (peer.index, peer.open())).collect();
    end.log = log.read(&trace);
    end.tasks_after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    (trace.entries(), end)
}

/// Everything is over: do all come back, is everything as it was?
async fn aftermath(runtime: &Runtime, fleet: &Fleet, peers: &[Arc<Peer>], trace: &Trace, end: &mut End) {
    let schedule = fleet.schedule();
    for peer in peers {
        end.wanted.insert(peer.index, fleet.is_wanted(peer.index));
    }
    let starts = schedule.servers.iter().map(|server| server.max_start + server.connect).max().unwrap_or(0);
    let within = Duration::from_millis(LIVE_AGAIN_MS + starts);
    let mut views = runtime.watch(&[]);
    let _ = tokio::time::timeout(within, async {
        while !views.look().iter().all(|view| view.state.is_settled()) {
            views.changed().await;
        }
    })
    .await;
    end.settled_at = trace.now();
    end.settled = states(runtime, fleet);
    let lists = schedule.servers.iter().map(|server| server.list).max().unwrap_or(0);
    pause(trace, lists * 4 + 2_000).await;
    end.catalog = catalog(runtime, fleet);
    end.held = held(runtime, fleet);
    end.looked_at = trace.now();
    peers.iter().for_each(|peer| peer.ring());
    // By then every poll had its turn, and reads that found nothing are at their longest distance.
    pause(trace, lists + 65_000).await;
    end.renewed = catalog(runtime, fleet);
    end.heard = states(runtime, fleet);
    end.offered = peers
        .iter()
        .map(|peer| (peer.index, super::answers::tools(&peer.plan, peer.offer().version)))
        .collect();
    end.exposed = exposed(runtime, fleet);
    for view in runtime.status() {
        if matches!(view.state, LifeState::Parked(_)) {
            trace.note(Fact::Acted { server: super::entries::index_of(view.id.as_str()), act: Act::Restart });
            runtime.restart_server(&view.id);
        }
    }
    pause(trace, BREAKER_MS).await;
    last_calls(runtime, fleet, trace).await;
    end.permits_missing = missing_permits(&runtime.frontend()).await;
    for view in runtime.status() {
        if let Some(index) = fleet.index(view.id.as_str()) {
            end.busy.insert(index, (view.in_flight, view.queued));
        }
    }
    end.open = peers.iter().map(|peer| (peer.index, peer.open())).collect();
}

async fn pause(trace: &Trace, ms: u64) {
    sleep_until(trace.instant(trace.now() + ms)).await;
}

fn states(runtime: &Runtime, fleet: &Fleet) -> BTreeMap<usize, LifeState> {
    let views = runtime.status();
    views.iter().filter_map(|view| Some((fleet.index(view.id.as_str())?, view.state))).collect()
}

fn catalog(runtime: &Runtime, fleet: &Fleet) -> BTreeMap<usize, Vec<String>> {
    let mut tools: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for tool in &runtime.catalog().tools {
        if let Some(index) = fleet.index(tool.route.server.as_str()) {
            tools.entry(index).or_default().push(tool.route.item.name.clone());
        }
    }
    tools
}

fn held(runtime: &Runtime, fleet: &Fleet) -> BTreeMap<usize, Vec<String>> {
    let catalog = runtime.catalog();
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for tool in
        catalog.tools.iter().filter(|tool| catalog.held(&tool.route.server, &tool.route.item.name).is_some())
    {
        if let Some(index) = fleet.index(tool.route.server.as_str()) {
            found.entry(index).or_default().push(tool.route.item.name.clone());
        }
    }
    found
}

fn exposed(runtime: &Runtime, fleet: &Fleet) -> Vec<(String, usize, String)> {
    let catalog = runtime.catalog();
    let tools = catalog.tools.iter();
    tools
        .filter_map(|tool| {
            let server = fleet.index(tool.route.server.as_str())?;
            Some((tool.name.clone(), server, tool.route.item.name.clone()))
        })
        .collect()
}

/// Follows the views and writes every change of a state down.
async fn watch(mut views: ViewWatch, trace: Trace) {
    let mut known: BTreeMap<ServerId, (LifeState, BreakerState)> = BTreeMap::new();
    loop {
        for view in views.look() {
            let server = super::entries::index_of(view.id.as_str());
            let (state, breaker) = (view.state, view.breaker.state);
            let before = known.insert(view.id, (state, breaker));
            if before.is_none_or(|before| before.0 != state) {
                trace.note(Fact::State { server, state });
            }
            if before.map_or(BreakerState::Closed, |before| before.1) != breaker {
                trace.note(Fact::Breaker { server, state: breaker });
            }
        }
        views.changed().await;
    }
}

/// One caller: asks at its time, may leave at its time, and writes down how it ended.
async fn caller(frontend: FrontendRef, schedule: Schedule, call: CallPlan, trace: Trace) {
    sleep_until(trace.instant(call.at)).await;
    trace.note(Fact::Asked { nonce: call.nonce });
    let leave = async {
        match call.leave {
            Some(after) => sleep_until(trace.instant(call.at + after)).await,
            None => std::future::pending().await,
        }
    };
    let server = schedule.servers[call.server].name;
    let (events, mut reports) = mpsc::channel(64);
    let request = request(server, &call);
    trace.number(request.id.0, call.nonce);
    let outcome = tokio::select! {
        biased;
        ended = frontend.call(request, Some(events)) => outcome(ended),
        () = leave => Outcome::Left,
    };
    while let Ok(event) = reports.try_recv() {
        let CallEvent::Progress(params) = event else { continue };
        let params: serde_json::Value = serde_json::from_slice(&params).unwrap_or_default();
        trace.note(Fact::Told { nonce: call.nonce, of: params["nonce"].as_u64().unwrap_or(u64::MAX) });
    }
    trace.note(Fact::Ended { nonce: call.nonce, outcome });
}

fn outcome(ended: Result<CallReply, callboard::call::CallError>) -> Outcome {
    match ended {
        Ok(reply) => {
            let body: serde_json::Value = serde_json::from_slice(&reply.body()).unwrap_or_default();
            Outcome::Answered {
                nonce: body["nonce"].as_u64().unwrap_or(u64::MAX),
                server: body["server"].as_str().unwrap_or_default().to_owned(),
                elapsed: u64::try_from(reply.elapsed.as_millis()).unwrap_or(u64::MAX),
            }
        }
        Err(error) => Outcome::Failed { code: error.code, delivery: error.delivery, text: error.message },
    }
}

fn request(server: &str, call: &CallPlan) -> CallRequest {
    let nonce = call.nonce;
    let direct =
        |server: &str, kind, name: String| Target::Direct { server: ServerId::new(server), kind, name };
    let target = match call.what {
        What::Tool(index) => direct(server, ItemKind::Tool, TOOLS[index].to_owned()),
        What::Exposed => Target::Exposed(format!("mcp__{server}__echo")),
        What::Read => direct(server, ItemKind::Resource, format!("sim://{nonce}")),
        What::NoTool => direct(server, ItemKind::Tool, "no_such_tool".to_owned()),
        What::NoServer => direct("nobody", ItemKind::Tool, "echo".to_owned()),
    };
    let params = match call.what {
        What::Read => format!(r#"{{"uri":"sim://{nonce}"}}"#),
        _ => format!(r#"{{"arguments":{{"nonce":{nonce}}}}}"#),
    };
    CallRequest {
        id: CallId::fresh(),
        session: SessionId(0),
        target,
        params: Bytes::from(params),
        limits: CallLimits {
            idle: call.idle.map(Duration::from_millis),
            total: call.total.map(Duration::from_millis),
        },
        grant: None,
    }
}

/// One call to each wanted server, after everything.
async fn last_calls(runtime: &Runtime, fleet: &Fleet, trace: &Trace) {
    let schedule = fleet.schedule();
    for server in (0..schedule.servers.len()).filter(|server| fleet.is_wanted(*server)) {
        let call = CallPlan::last(server, trace.now());
        caller(runtime.frontend(), schedule.clone(), call, trace.clone()).await;
    }
}

/// As many calls at once as there are permits: how many got none.
async fn missing_permits(frontend: &FrontendRef) -> usize {
    let nowhere = CallPlan::nowhere();
    let calls = (0..PERMITS).map(|_| frontend.call(request("nobody", &nowhere), None));
    let ended = futures_util::future::join_all(calls).await;
    ended.iter().filter(|end| end.as_ref().is_err_and(|error| error.code == ErrorCode::Busy)).count()
}
