//! Floor 1. What everyone may see of a server: a plain snapshot, published by its
//! one owner. Redaction happens before text gets in here.

pub mod history;
mod told;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use self::history::{History, Tally};
use crate::catalog::flow::Reach;
use crate::catalog::items::ServerCatalog;
use crate::catalog::lint::hides;
use crate::config::spec::{Entry, ToolFilter, Trust};
use crate::id::{Generation, ServerId};
use crate::shaping::render::one_line;

/// Most lines of a server's stderr in its view.
pub const STDERR_LINES_MAX: usize = 20;

/// Widest label beside a name, in columns of a terminal.
pub const LABEL_WIDTH_MAX: usize = 40;

/// The label of an entry as views show it: one printable line; `None` when it says nothing more
/// than the name.
pub fn label(entry: &Entry) -> Option<String> {
    let label = one_line(entry.label.as_deref()?, LABEL_WIDTH_MAX);
    (!label.is_empty() && label != entry.id.as_str()).then_some(label)
}

/// A name with its label beside it.
pub fn named(id: &ServerId, label: Option<&str>) -> String {
    match label {
        Some(label) => format!("{id} ({label})"),
        None => id.to_string(),
    }
}

/// Life of a server, in the words of `--json` (spec section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LifeState {
    /// Not started; starts at the first use.
    Dormant,
    /// Being started or contacted.
    Connecting,
    /// Usable.
    Ready,
    /// Waits before the next attempt.
    BackingOff,
    /// Finishing calls before it stops.
    Draining,
    /// Not tried again by itself; the reason says why.
    Parked(ParkReason),
    /// Ended on purpose.
    Stopped,
}

/// Why a server is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkReason {
    /// Turned off in the configuration.
    Disabled,
    /// A project entry that nobody approved.
    PendingApproval,
    /// Can't be started as written.
    ConfigError,
    /// Wants credentials.
    NeedsAuth,
    /// Restart budget spent.
    GivenUp,
}

impl LifeState {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dormant => "dormant",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::BackingOff => "backing_off",
            Self::Draining => "draining",
            Self::Parked(_) => "parked",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing will change by itself: ready, dormant, parked or stopped.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Ready | Self::Dormant | Self::Parked(_) | Self::Stopped)
    }
}

impl ParkReason {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::PendingApproval => "pending_approval",
            Self::ConfigError => "config_error",
            Self::NeedsAuth => "needs_auth",
            Self::GivenUp => "given_up",
        }
    }
}

/// How the circuit breaker of a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerView {
    /// Its state when the view was made.
    pub state: BreakerState,
    /// Failures in a row.
    pub failures: u32,
    /// Until when it is open.
    pub until: Option<SystemTime>,
}

/// The states of a circuit breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls pass.
    #[default]
    Closed,
    /// Calls are refused.
    Open,
    /// One probe decides.
    HalfOpen,
}

impl BreakerView {
    /// The state at `now`: an open one is half-open when its time is over.
    pub fn state_at(&self, now: SystemTime) -> BreakerState {
        match self.until {
            Some(until) if self.state == BreakerState::Open && until <= now => BreakerState::HalfOpen,
            _ => self.state,
        }
    }
}

impl BreakerState {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// One server as status shows it.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// The server.
    pub id: ServerId,
    /// What its configuration calls it for people; one printable line.
    pub label: Option<String>,
    /// Its state.
    pub state: LifeState,
    /// Since when (wall clock, for display).
    pub since: SystemTime,
    /// Why it is in this state, when that needs saying; redacted, one line.
    pub why: Option<String>,
    /// The causes behind `why` as they were told, where it leaves them out; redacted, one line.
    pub detail: Option<String>,
    /// What cures it, if something does.
    pub fix: Option<String>,
    /// The next attempt, while backing off.
    pub next_attempt: Option<SystemTime>,
    /// The start limit has passed, and the process still lives.
    pub late: bool,
    /// A connection of it is still being ended: its process has not left yet.
    pub leaving: bool,
    /// Its lists have been read since it became ready.
    pub listed: bool,
    /// What it offers is from an earlier run, and was last seen to be so then; `None` once it was
    /// asked in this one.
    pub kept_from: Option<SystemTime>,
    /// Counts its connections.
    pub generation: Generation,
    /// Restarts after unexpected ends.
    pub restarts: u32,
    /// Its circuit breaker: apart from the state, which stays the true one.
    pub breaker: BreakerView,
    /// Process id, for a child.
    pub pid: Option<u32>,
    /// Process id of the guard that ends the child's whole tree; `None` without one.
    pub guard_pid: Option<u32>,
    /// How it is confined, in words; `None` when it is not.
    pub sandbox: Option<Arc<str>>,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// Negotiated revision.
    pub revision: Option<&'static str>,
    /// The revision to open with next time, unless it was found behind an outage.
    pub remember: Option<&'static str>,
    /// Name and version that the server gives itself; control characters removed.
    pub server_info: Option<String>,
    /// Trust level.
    pub trust: Trust,
    /// Counts of what it offers.
    pub counts: ItemCounts,
    /// What its listed tools could carry, by their names.
    pub reach: Reach,
    /// Size of its tool definitions in bytes.
    pub definition_bytes: u64,
    /// Calls running on it.
    pub in_flight: usize,
    /// Calls waiting for it.
    pub queued: usize,
    /// Calls answered, whatever the answer.
    pub calls_ok: u64,
    /// Calls failed.
    pub calls_failed: u64,
    /// From the last spawn or connect to ready.
    pub start_took: Option<Duration>,
    /// Last line of stderr, redacted.
    pub last_stderr: Option<String>,
    /// The last lines of stderr, redacted and printable: at most `STDERR_LINES_MAX`.
    pub stderr_tail: Vec<String>,
    /// Lines on stdout that are no protocol, and other oddities; redacted.
    pub warnings: Vec<String>,
    /// The host is not healthy while it is not usable.
    pub required: bool,
    /// Until when it asked to be left alone; over when that is past.
    pub paused_until: Option<SystemTime>,
    /// What happened to it.
    pub history: Arc<History>,
    /// Calls since the last event of the history.
    pub tally: Tally,
}

/// How much a server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Tools that are listed.
    pub tools: usize,
    /// Tools kept out.
    pub quarantined: usize,
    /// Tools that are held by a pin, of those that are listed.
    pub held: usize,
    /// Tools with characters in their definition that nobody sees, of those that are listed.
    pub unseen: usize,
    /// Tools hidden by a filter.
    pub filtered: usize,
    /// Resources.
    pub resources: usize,
    /// Resource templates.
    pub templates: usize,
    /// Prompts.
    pub prompts: usize,
}

impl ServerView {
    /// What happened to it, up to now.
    pub fn whole_history(&self) -> History {
        self.history.with(self.tally, self.generation)
    }

    /// Takes over the figures of what a server offers, as far as `filter` lists it.
    pub fn show_counts(&mut self, catalog: &ServerCatalog, filter: &ToolFilter) {
        let listed = || catalog.tools.items.iter().filter(|item| filter.keeps(&item.name));
        let tools = listed().count();
        self.counts = ItemCounts {
            tools,
            quarantined: catalog.tools.quarantined.len(),
            held: listed().filter(|item| catalog.held.contains_key(&item.name)).count(),
            unseen: listed().filter(|item| hides(item)).count(),
            filtered: catalog.tools.items.len() - tools,
            resources: catalog.resources.items.len(),
            templates: catalog.templates.items.len(),
            prompts: catalog.prompts.items.len(),
        };
        self.reach = Reach::of(listed().map(AsRef::as_ref));
        self.definition_bytes = listed().map(|item| item.raw.len() as u64).sum();
    }

    /// A server in that state of which nothing else is known, since `since`.
    pub fn unknown(id: ServerId, transport: &'static str, state: LifeState, since: SystemTime) -> Self {
        Self {
            id,
            label: None,
            state,
            since,
            why: None,
            detail: None,
            fix: None,
            next_attempt: None,
            late: false,
            leaving: false,
            listed: false,
            kept_from: None,
            generation: Generation::default(),
            restarts: 0,
            breaker: BreakerView::default(),
            pid: None,
            guard_pid: None,
            sandbox: None,
            transport,
            revision: None,
            remember: None,
            server_info: None,
            trust: Trust::default(),
            counts: ItemCounts::default(),
            reach: Reach::default(),
            definition_bytes: 0,
            in_flight: 0,
            queued: 0,
            calls_ok: 0,
            calls_failed: 0,
            start_took: None,
            last_stderr: None,
            stderr_tail: Vec::new(),
            warnings: Vec::new(),
            required: false,
            paused_until: None,
            history: Arc::default(),
            tally: Tally::default(),
        }
    }
}
