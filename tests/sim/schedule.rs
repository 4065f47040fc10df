//! What happens in one simulated run, as a plain value: servers, calls, faults, operator actions,
//! each with its virtual time in milliseconds. Made from a seed, printed, halved by `shrink`.

use std::fmt;

use super::rng::Rng;

/// Raw names of tools; several of them collide once they are made fit for clients.
pub const TOOLS: [&str; 5] = ["echo", "read_it", "x.y", "x_y", "X-Y"];
/// Index in [`TOOLS`] of the tool that is hinted read-only.
pub const HINTED: usize = 1;
/// Nonces of the calls that are made after everything: one for each server.
pub const LAST_CALLS: u64 = 1_000_000;
/// Nonces of the calls that run when the host is shut down.
pub const PARTING_CALLS: u64 = 2_000_000;
/// Calls in one schedule; fewer than the host takes at once.
const CALLS_MAX: u64 = 44;
/// Names of servers.
pub const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "eps", "zeta"];

/// Everything that happens in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// What it was made from; also the seed of everything random in the product.
    pub seed: u64,
    /// How often the lists of servers that announce nothing are read again.
    pub poll: Option<u64>,
    /// The configured servers.
    pub servers: Vec<ServerPlan>,
    /// What callers ask.
    pub calls: Vec<CallPlan>,
    /// What goes wrong.
    pub faults: Vec<FaultPlan>,
    /// What the operator does.
    pub acts: Vec<ActPlan>,
}

/// One server: its entry, and how its peer behaves without faults. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlan {
    pub name: &'static str,
    /// Nothing is ever done to it: its calls show what the others' faults change.
    pub healthy: bool,
    pub tools: usize,
    /// Tools on one page of its list; 0 means all.
    pub page: usize,
    pub resources: bool,
    pub trusted: bool,
    pub lazy: bool,
    /// How long it stays without a call.
    pub idle_stop: Option<u64>,
    /// Whether it says so when its list changed.
    pub announces: bool,
    pub in_flight: usize,
    pub queue: usize,
    pub idle: u64,
    pub total: u64,
    pub connect: u64,
    pub max_start: u64,
    pub list: u64,
    pub permit: u64,
    pub frame_max: usize,
    /// Calls per second and at once.
    pub rate: Option<u32>,
    /// Failures in a row that open the breaker; 0 for never. It stays open for `open_for`.
    pub failures: u32,
    pub open_for: u64,
    /// Bytes that each direction of its pipe holds.
    pub pipe: usize,
    /// From a message of the handshake to its answer.
    pub start: u64,
}

/// What one call addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A tool by its raw name.
    Tool(usize),
    /// The tool `echo` by its exposed name.
    Exposed,
    /// A resource.
    Read,
    /// A tool that no version of the server has.
    NoTool,
    /// A server that is not configured.
    NoServer,
}

/// One call. Its nonce is its place in time and its name in every record.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    pub nonce: u64,
    pub at: u64,
    pub server: usize,
    pub what: What,
    /// How long the server takes.
    pub delay: u64,
    /// Reports that the server makes meanwhile, evenly spread.
    pub reports: u64,
    pub idle: Option<u64>,
    pub total: Option<u64>,
    /// When the caller leaves, counted from `at`.
    pub leave: Option<u64>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    Delay,
    Jitter,
    DropAnswer,
    Duplicate,
    Reorder,
    WrongId,
    StringId,
    NullId,
    ResultAndError,
    LateAfterTimeout,
    LateAfterCancel,
    TruncatedFrame,
    Split,
    Coalesce,
    GarbageLine,
    InvalidUtf8,
    Oversize,
    DeepJson,
    EofMidFrame,
    Epipe,
    CrashBefore,
    CrashAfter,
    EofIdle,
    StalledReader,
    ListChangedStorm,
    CatalogueMutation,
    /// A tool that was there becomes another under its name, or what it was again.
    DefinitionChange,
    NotificationFlood,
    RequestFlood,
    SlowStart,
    NeverStart,
    Exit,
    CursorLoop,
    ProbeFailure,
}

use FaultKind as F;

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 34] = [
        F::Delay,
        F::Jitter,
        F::DropAnswer,
        F::Duplicate,
        F::Reorder,
        F::WrongId,
        F::StringId,
        F::NullId,
        F::ResultAndError,
        F::LateAfterTimeout,
        F::LateAfterCancel,
        F::TruncatedFrame,
        F::Split,
        F::Coalesce,
        F::GarbageLine,
        F::InvalidUtf8,
        F::Oversize,
        F::DeepJson,
        F::EofMidFrame,
        F::Epipe,
        F::CrashBefore,
        F::CrashAfter,
        F::EofIdle,
        F::StalledReader,
        F::ListChangedStorm,
        F::CatalogueMutation,
        F::DefinitionChange,
        F::NotificationFlood,
        F::RequestFlood,
        F::SlowStart,
        F::NeverStart,
        F::Exit,
        F::CursorLoop,
        F::ProbeFailure,
    ];

    /// Done to one answer: of a call, or of a list when it is aimed there.
    pub fn is_of_an_answer(self) -> bool {
        self < F::EofIdle
    }

    /// Done to the open connections at its time.
    pub fn is_of_a_connection(self) -> bool {
        (F::EofIdle..=F::RequestFlood).contains(&self)
    }
}

/// One fault of one server: acts from `at` for `lasts`, on at most `uses` answers.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    pub at: u64,
    pub server: usize,
    pub kind: FaultKind,
    pub lasts: u64,
    pub uses: u64,
    /// A wait in milliseconds or a count, as the kind wants it.
    pub arg: u64,
    /// Aimed at the answers of lists instead of calls.
    pub lists: bool,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Restart,
    /// A reload with a changed entry.
    Change,
    Remove,
    /// A reload with the entry as it was at first.
    Add,
    Disable,
}

/// One action on one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ActPlan {
    pub at: u64,
    pub server: usize,
    pub act: Act,
}

impl CallPlan {
    /// The call that is made after everything, to see that a server answers.
    pub fn last(server: usize, at: u64) -> Self {
        Self { nonce: LAST_CALLS + server as u64, at, server, what: What::Tool(0), ..Self::nowhere() }
    }

    /// A call that takes longer than a shutdown leaves it.
    pub fn parting(server: usize, at: u64) -> Self {
        let what = What::Tool(0);
        Self { nonce: PARTING_CALLS + server as u64, at, server, what, delay: 3_600_000, ..Self::nowhere() }
    }

    /// A call that no server can take.
    pub fn nowhere() -> Self {
        Self {
            nonce: 0,
            at: 0,
            server: 0,
            what: What::NoServer,
            delay: 0,
            reports: 0,
            idle: None,
            total: None,
            leave: None,
        }
    }
}

impl Schedule {
    /// The schedule of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let count = rng.between(2, 6);
        let poll = rng.pick(&[None, Some(20_000), Some(60_000)]);
        let servers: Vec<ServerPlan> = NAMES
            .iter()
            .take(usize::try_from(count).unwrap_or(2))
            .enumerate()
            .map(|(index, name)| server(&mut rng, name, index == 0))
            .collect();
        let mut calls = Vec::new();
        let (mut at, mut server) = (0, 0);
        for nonce in 0..rng.between(5, CALLS_MAX) {
            if rng.chance(55) {
                at = rng.below(50_000);
            }
            if rng.chance(70) {
                server = usize::try_from(rng.below(count)).unwrap_or(0);
            }
            calls.push(call(&mut rng, nonce, at, server, &servers));
        }
        let sick: Vec<usize> = (0..servers.len()).filter(|index| !servers[*index].healthy).collect();
        let (mut faults, mut acts) = (Vec::new(), Vec::new());
        if !sick.is_empty() {
            // Few kinds in one run meet each other more often than all of them would.
            let kinds: Vec<FaultKind> = (0..rng.between(1, 8)).map(|_| rng.pick(&FaultKind::ALL)).collect();
            for _ in 0..rng.below(25) {
                let server = rng.pick(&sick);
                faults.push(fault(&mut rng, server, &kinds));
            }
            for _ in 0..rng.below(6) {
                let all = [Act::Restart, Act::Change, Act::Remove, Act::Add, Act::Disable, Act::Add];
                acts.push(ActPlan { at: rng.below(45_000), server: rng.pick(&sick), act: rng.pick(&all) });
            }
        }
        calls.sort_by_key(|call| (call.at, call.nonce));
        faults.sort_by_key(|fault| fault.at);
        acts.sort_by_key(|act| act.at);
        Self { seed, poll, servers, calls, faults, acts }
    }

    /// When everything that the schedule does is over.
    pub fn ends(&self) -> u64 {
        let longest = self.calls.iter().map(|call| call.delay).max().unwrap_or(0);
        let faults = self.faults.iter().map(|fault| fault.at + fault.lasts + fault.arg + longest);
        let acts = self.acts.iter().map(|act| act.at);
        let calls = self.calls.iter().map(|call| call.at);
        faults.chain(acts).chain(calls).max().unwrap_or(0)
    }

    /// The longest time that a call may take.
    pub fn total(&self, call: &CallPlan) -> u64 {
        call.total.unwrap_or(self.servers[call.server].total)
    }
}

fn server(rng: &mut Rng, name: &'static str, first: bool) -> ServerPlan {
    let healthy = first || rng.chance(20);
    ServerPlan {
        name,
        healthy,
        tools: usize::try_from(rng.between(1, TOOLS.len() as u64)).unwrap_or(1),
        page: rng.pick(&[0, 0, 1, 2]),
        resources: rng.chance(30),
        trusted: rng.chance(50),
        lazy: !healthy && rng.chance(15),
        idle_stop: (!healthy && rng.chance(15)).then_some(3_000),
        announces: rng.chance(75),
        in_flight: if healthy { 64 } else { rng.pick(&[1, 2, 4, 64]) },
        queue: if healthy { 256 } else { rng.pick(&[1, 1, 4, 256]) },
        idle: rng.pick(&[1_000, 2_000, 5_000, 10_000]),
        total: rng.pick(&[4_000, 10_000, 30_000, 60_000]),
        connect: rng.pick(&[1_000, 5_000, 15_000]),
        max_start: rng.pick(&[5_000, 15_000, 30_000]),
        list: rng.pick(&[1_000, 5_000]),
        permit: rng.pick(&[500, 5_000]),
        frame_max: rng.pick(&[4_096, 16_384, 65_536]),
        rate: (!healthy && rng.chance(8)).then(|| rng.pick(&[1, 3])),
        failures: rng.pick(&[0, 1, 3, 3, 3]),
        open_for: rng.pick(&[5_000, 60_000]),
        pipe: rng.pick(&[256, 4_096, 65_536]),
        start: rng.pick(&[0, 0, 5, 50, 400]),
    }
}

fn call(rng: &mut Rng, nonce: u64, at: u64, server: usize, servers: &[ServerPlan]) -> CallPlan {
    let plan = &servers[server];
    let what = match rng.below(100) {
        0..65 => What::Tool(usize::try_from(rng.below(plan.tools as u64)).unwrap_or(0)),
        65..75 => What::Exposed,
        75..94 => What::Read,
        94..97 => What::NoTool,
        _ => What::NoServer,
    };
    let slow = if plan.healthy { 900 } else { 3_000 };
    let delay = rng.pick(&[0, 1, 10, 100, slow]);
    let own = !plan.healthy && rng.chance(20);
    CallPlan {
        nonce,
        at,
        server,
        what,
        delay,
        reports: if rng.chance(30) { rng.between(1, 5) } else { 0 },
        idle: own.then(|| rng.pick(&[300, 1_000, 20_000])),
        total: own.then(|| rng.pick(&[500, 3_000, 20_000])),
        leave: rng.chance(15).then(|| rng.below(3_000)),
    }
}

fn fault(rng: &mut Rng, server: usize, kinds: &[FaultKind]) -> FaultPlan {
    let kind = rng.pick(kinds);
    FaultPlan {
        at: rng.below(40_000),
        server,
        kind,
        lasts: rng.pick(&[200, 2_000, 10_000, 20_000]),
        uses: rng.between(1, 12),
        arg: rng.pick(&[1, 20, 300, 2_000, 8_000]),
        lists: rng.chance(25),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule of seed {} (times in ms), poll {:?}", self.seed, self.poll)?;
        for (index, server) in self.servers.iter().enumerate() {
            writeln!(f, "  server {index}: {server:?}")?;
        }
        let mut lines: Vec<(u64, String)> = Vec::new();
        lines.extend(self.calls.iter().map(|call| (call.at, format!("{call:?}"))));
        lines.extend(self.faults.iter().map(|fault| (fault.at, format!("{fault:?}"))));
        lines.extend(self.acts.iter().map(|act| (act.at, format!("{act:?}"))));
        lines.sort();
        lines.iter().try_for_each(|(at, line)| writeln!(f, "  {at:>6}  {line}"))
    }
}
