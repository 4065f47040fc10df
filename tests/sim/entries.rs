//! From the servers of a schedule to the plan that the product's runtime takes, and what the
//! operator's actions change in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard::audit::file::Place;
use callboard::config::spec::{
    BreakerSpec, Entry, EntryState, Limits, Rate, Scope, ServerSpec, Source, StartMode, Timeouts,
    TransportSpec, Trust,
};
use callboard::id::ServerId;
use callboard::runtime::{AuditPlan, RuntimePlan};

use super::peer::Peer;
use super::schedule::{Act, NAMES, Schedule, ServerPlan};
use super::world::PERMITS;

/// The place of a server's name.
pub fn index_of(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("a name of the schedule")
}

/// How an entry stands in the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    There { edition: u32 },
    Disabled,
    Absent,
}

/// The configuration of one run.
pub struct Fleet {
    schedule: Schedule,
    peers: Vec<Arc<Peer>>,
    stands: BTreeMap<usize, Stand>,
    log: Place,
}

impl Fleet {
    /// Every server of the schedule, on its peer; calls are written down at `log`.
    pub fn new(schedule: &Schedule, peers: &[Arc<Peer>], log: Place) -> Self {
        let stands = (0..schedule.servers.len()).map(|index| (index, Stand::There { edition: 0 })).collect();
        Self { schedule: schedule.clone(), peers: peers.to_vec(), stands, log }
    }

    /// The schedule that it is for.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The name of a server.
    pub fn id(&self, server: usize) -> ServerId {
        ServerId::new(self.schedule.servers[server].name)
    }

    /// The index of a name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.schedule.servers.iter().position(|server| server.name == name)
    }

    /// Whether a server is configured and enabled.
    pub fn is_wanted(&self, server: usize) -> bool {
        matches!(self.stands.get(&server), Some(Stand::There { .. }))
    }

    /// What an action changes in the configuration; says whether it is one at all.
    pub fn apply(&mut self, server: usize, act: Act) -> bool {
        let Some(stand) = self.stands.get_mut(&server) else { return false };
        let before = *stand;
        *stand = match (act, *stand) {
            (Act::Change, Stand::There { edition }) => Stand::There { edition: edition + 1 },
            (Act::Remove, _) => Stand::Absent,
            (Act::Disable, _) => Stand::Disabled,
            (Act::Add, Stand::Absent | Stand::Disabled) => Stand::There { edition: 0 },
            (Act::Restart | Act::Add | Act::Change, stand) => stand,
        };
        *stand != before || (act == Act::Restart && matches!(stand, Stand::There { .. }))
    }

    /// The plan as the configuration stands now.
    pub fn plan(&self) -> RuntimePlan {
        let mut plan = RuntimePlan {
            in_flight_max: PERMITS,
            seed: Some(self.schedule.seed),
            audit: Some(AuditPlan { place: Ok(self.log.clone()), strict: true }),
            poll: self.schedule.poll.map(Duration::from_millis),
            ..RuntimePlan::default()
        };
        for (index, stand) in &self.stands {
            let server = &self.schedule.servers[*index];
            let state = match stand {
                Stand::Absent => continue,
                Stand::Disabled => EntryState::Disabled,
                Stand::There { edition } => EntryState::Ready(Arc::new(spec(server, *edition))),
            };
            plan.servers.entries.push(entry(server.name, state));
            plan.in_process.insert(ServerId::new(server.name), self.peers[*index].connector());
        }
        plan.servers.entries.sort_by(|a, b| a.id.cmp(&b.id));
        plan
    }
}

fn entry(name: &str, state: EntryState) -> Entry {
    let hash = match &state {
        EntryState::Ready(spec) => spec.hash.clone(),
        _ => format!("hash-of-{name}"),
    };
    Entry {
        id: ServerId::new(name),
        source: Source { scope: Scope::Flag, origin: "simulation".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash,
        transport: "stdio",
        summary: "in-process".to_owned(),
        label: None,
        description: None,
        required: false,
        down: None,
        state,
    }
}

fn spec(server: &ServerPlan, edition: u32) -> ServerSpec {
    let transport = TransportSpec::Stdio {
        command: "in-process".to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    };
    let ms = Duration::from_millis;
    ServerSpec {
        hash: format!("hash-of-{}-{edition}", server.name),
        trust: if server.trusted { Trust::Trusted } else { Trust::Untrusted },
        allow_all_tools: true,
        start: if server.lazy { StartMode::Lazy } else { StartMode::Eager },
        timeouts: Timeouts {
            idle: ms(server.idle),
            connect: ms(server.connect),
            max_start: ms(server.max_start),
            total: ms(server.total),
            list: ms(server.list),
            permit: ms(server.permit),
        },
        limits: Limits {
            in_flight: server.in_flight,
            queue: server.queue,
            frame_max: server.frame_max,
            ..Limits::default()
        },
        breaker: BreakerSpec {
            failures: server.failures,
            open_for: ms(server.open_for),
            ..BreakerSpec::default()
        },
        idle_stop: server.idle_stop.map(ms),
        rate: server.rate.map(|per_second| Rate { per_second, burst: per_second }),
        ..ServerSpec::new(server.name, transport)
    }
}
