//! What happened to one server, in order: a bounded list of events with wall times and
//! generations. What repeats is folded, the oldest goes first and is counted. Every text in it is
//! redacted and printable: [`Line`] is the only way in. Written by the server actor alone (the
//! supervisor begins it, and speaks for an actor that failed); read from the view by whoever
//! explains a server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{ItemCounts, ParkReason};
use crate::call::{BreakerClass, Delivery, ErrorCode};
use crate::id::Generation;
use crate::shaping::redact::Redactor;
use crate::shaping::render::{one_line, printable};

/// Most events that are kept of one server.
pub const EVENTS_MAX: usize = 256;
/// Most bytes that the events of one server take, texts included.
pub const BYTES_MAX: usize = 64 * 1024;
/// Widest text of one event, in columns.
pub const LINE_WIDTH_MAX: usize = 500;
/// Lines of stderr that are kept with a failure.
pub const STDERR_LINES_MAX: usize = 6;

/// One printable line without secrets. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line(Arc<str>);

impl Line {
    /// The text as it may be shown: escape sequences go before the redactor looks, so that none
    /// hides a secret from it; then cut to [`LINE_WIDTH_MAX`].
    pub fn new(redactor: &Redactor, text: &str) -> Self {
        let text = printable(text);
        Self(Arc::from(one_line(&redactor.text(&text), LINE_WIDTH_MAX)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a start began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StartWhy {
    /// The host started, or the entry is new.
    Host,
    /// A lazy server of which nothing is known: to learn what it offers.
    Learn,
    /// The first call or look.
    FirstUse,
    /// It rested because nobody called it, and somebody does.
    IdleWake,
    /// The wait after a failure is over.
    #[default]
    BackoffOver,
    /// A person, or a program of theirs, asked.
    Asked,
    /// A file that `watch` names changed.
    Files,
    /// Its entry changed.
    Reload,
    /// It was given up, and a call wants it.
    Demand,
    /// The breaker wants a fresh connection as its probe.
    Probe,
    /// Its actor was restarted after a bug of ours.
    ActorRestart,
}

impl StartWhy {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host_start",
            Self::Learn => "to_learn",
            Self::FirstUse => "first_use",
            Self::IdleWake => "idle_wake",
            Self::BackoffOver => "backoff_over",
            Self::Asked => "asked",
            Self::Files => "files_changed",
            Self::Reload => "reload",
            Self::Demand => "demand",
            Self::Probe => "probe",
            Self::ActorRestart => "actor_restart",
        }
    }
}

/// What kind of thing ended a connection, or kept one from coming about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The entry can't work as written.
    Config,
    /// Credentials are wanted.
    NeedsAuth,
    /// The process ended.
    Exited {
        /// Exit code, if it left by itself.
        code: Option<i32>,
        /// Signal, if one ended it.
        signal: Option<i32>,
    },
    /// The other side closed the connection.
    Closed,
    /// What it said makes no sense.
    Protocol,
    /// It could not be reached.
    Network,
    /// It answered with an HTTP status that is a fault of its own.
    ServerStatus,
    /// No answer within a limit.
    TimedOut,
    /// A frame that never ended.
    TooLong,
    /// It asks to be left alone for a while.
    Throttled,
}

impl Cause {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::NeedsAuth => "needs_auth",
            Self::Exited { .. } => "exited",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Network => "network",
            Self::ServerStatus => "server_status",
            Self::TimedOut => "timed_out",
            Self::TooLong => "too_long",
            Self::Throttled => "throttled",
        }
    }

    /// Whether a start that fails for it counts for the breaker.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Config | Self::NeedsAuth | Self::Throttled)
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A start began.
    Started(StartWhy),
    /// Its process runs.
    Spawned(u32),
    /// The handshake is done.
    Connected {
        /// The revision that is spoken.
        revision: &'static str,
        /// From the start to here.
        took: Duration,
    },
    /// The start limit passed, and it still lives.
    Late(Duration),
    /// Its lists were read.
    Listed(ItemCounts),
    /// A list could not be read.
    ListFailed {
        /// The method.
        list: &'static str,
        /// Why not.
        text: Line,
    },
    /// A start failed.
    StartFailed {
        /// The kind of cause.
        cause: Cause,
        /// The cause in words.
        text: Line,
    },
    /// A connection ended by itself.
    Lost {
        /// The kind of cause.
        cause: Cause,
        /// The cause in words.
        text: Line,
        /// Calls that ran on it.
        calls: usize,
    },
    /// What it wrote to stderr before a failure: the last lines.
    Stderr(Arc<[Line]>),
    /// It waits before the next start.
    BackingOff(Duration),
    /// It is not tried again by itself.
    Parked {
        /// Why.
        reason: ParkReason,
        /// More about it.
        text: Option<Line>,
    },
    /// The breaker opened.
    BreakerOpened {
        /// Failures in a row that opened it.
        failures: u32,
        /// For how long.
        open_for: Duration,
        /// The last thing that counted.
        last: Option<Line>,
    },
    /// The breaker lets one probe through.
    BreakerProbing,
    /// The breaker closed.
    BreakerClosed,
    /// A call failed.
    CallFailed {
        /// Raw name or URI of the item.
        item: Line,
        /// How.
        code: ErrorCode,
        /// What is known of its execution.
        delivery: Delivery,
        /// How it counts for the breaker.
        class: BreakerClass,
    },
    /// An unanswered call made us look whether the server lives.
    Checked {
        /// Whether it does; if not, the calls count as failures.
        lives: bool,
        /// The calls concerned.
        calls: usize,
    },
    /// A call was answered, whatever the answer.
    Answered,
    /// A call was refused here, and never sent.
    Refused,
    /// It asked to be left alone.
    Paused(Duration),
    /// Nobody called it for so long: stopped.
    IdleStopped(Duration),
    /// A restart was asked for while it ran.
    RestartAsked,
    /// Its end was asked for.
    StopAsked,
    /// It ended as asked.
    Stopped,
    /// Its entry changed.
    EntryChanged,
    /// Its actor failed, a bug of ours; with what it said.
    ActorFailed(Line),
}

impl What {
    /// Whether it says something about work on a connection: equal ones are folded even when others of
    /// this kind came between. All else tells the course of a life, and keeps its place.
    fn is_work(&self) -> bool {
        matches!(
            self,
            Self::Answered
                | Self::Refused
                | Self::CallFailed { .. }
                | Self::ListFailed { .. }
                | Self::Listed(_)
                | Self::Checked { .. }
        )
    }

    fn texts_len(&self) -> usize {
        match self {
            Self::ListFailed { text, .. } | Self::StartFailed { text, .. } | Self::Lost { text, .. } => {
                text.0.len()
            }
            Self::CallFailed { item: text, .. } | Self::ActorFailed(text) => text.0.len(),
            Self::Stderr(lines) => lines.iter().map(|line| line.0.len() + size_of::<Line>()).sum(),
            Self::Parked { text, .. } | Self::BreakerOpened { last: text, .. } => {
                text.as_ref().map_or(0, |text| text.0.len())
            }
            _ => 0,
        }
    }

    /// The kind of cause, where it is the end of a connection or of a start.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::StartFailed { cause, .. } | Self::Lost { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// Whether it was a failure for the breaker.
    fn counts(&self) -> bool {
        match self {
            Self::StartFailed { cause, .. } => cause.counts(),
            Self::CallFailed { class, .. } => *class == BreakerClass::Trip,
            Self::Checked { lives, .. } => !lives,
            _ => false,
        }
    }
}

/// One event, or several that were alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When; the first of several.
    pub at: SystemTime,
    /// When the last of several was; `at` of one.
    pub last: SystemTime,
    /// How many.
    pub times: u64,
    /// The connection it belongs to.
    pub generation: Generation,
    /// What happened.
    pub what: What,
}

impl Record {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.what.texts_len()
    }
}

/// Calls that changed nothing but a count since the last event: kept beside the history, because
/// they must not cost anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls answered.
    pub answered: u64,
    /// Calls refused here.
    pub refused: u64,
    /// When the first and the last of them were.
    pub span: Option<(SystemTime, SystemTime)>,
}

impl Tally {
    /// One call was answered.
    pub fn answered(&mut self, at: SystemTime) {
        self.answered = self.answered.saturating_add(1);
        self.seen(at);
    }

    /// One call was refused here.
    pub fn refused(&mut self, at: SystemTime) {
        self.refused = self.refused.saturating_add(1);
        self.seen(at);
    }

    fn seen(&mut self, at: SystemTime) {
        self.span = Some((self.span.map_or(at, |(first, _)| first), at));
    }
}

/// The events of one server, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    records: VecDeque<Record>,
    bytes: usize,
    dropped: u64,
}

impl History {
    /// The events, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> + ExactSizeIterator {
        self.records.iter()
    }

    /// Events that had to go to make room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes an event over.
    pub fn note(&mut self, at: SystemTime, generation: Generation, what: What) {
        self.add(Record { at, last: at, times: 1, generation, what });
    }

    /// Takes over what was counted since the last event.
    pub fn take(&mut self, tally: Tally, generation: Generation) {
        let Some((at, last)) = tally.span else { return };
        for (times, what) in [(tally.answered, What::Answered), (tally.refused, What::Refused)] {
            if times > 0 {
                self.add(Record { at, last, times, generation, what });
            }
        }
    }

    /// The history with what was counted since.
    #[must_use]
    pub fn with(&self, tally: Tally, generation: Generation) -> Self {
        let mut all = self.clone();
        all.take(tally, generation);
        all
    }

    /// The last event that was a failure for the breaker.
    pub fn last_counted(&self) -> Option<&Record> {
        self.records.iter().rev().find(|record| record.what.counts())
    }

    /// The last end of a connection or of a start.
    pub fn last_end(&self) -> Option<&Record> {
        self.records.iter().rev().find(|record| record.what.cause().is_some())
    }

    /// Whether a connection came about, as far as it is remembered.
    pub fn was_connected(&self) -> bool {
        self.records.iter().any(|record| matches!(record.what, What::Connected { .. }))
    }

    fn add(&mut self, record: Record) {
        if let Some(like) = self.like(&record) {
            like.times = like.times.saturating_add(record.times);
            like.last = like.last.max(record.last);
            return;
        }
        self.bytes += record.bytes();
        let place = self.place(&record);
        let record = match self.records.get(place) {
            // What ended the calls is not told later than their end.
            Some(after) => {
                let at = record.at.min(after.at);
                Record { at, last: at, ..record }
            }
            None => record,
        };
        self.records.insert(place, record);
        while self.records.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.records.pop_front() else { return };
            self.bytes -= oldest.bytes();
            self.dropped = self.dropped.saturating_add(oldest.times);
        }
    }

    /// An event that this one only repeats.
    fn like(&mut self, record: &Record) -> Option<&mut Record> {
        let of_this = |known: &&mut Record| known.generation == record.generation;
        let mut known = self.records.iter_mut().rev().take_while(of_this);
        if record.what.is_work() {
            return known.take_while(|known| known.what.is_work()).find(|known| known.what == record.what);
        }
        known.next().filter(|known| known.what == record.what)
    }

    /// Where it goes: at the end, but the end of a connection before the calls that ended with it.
    fn place(&self, record: &Record) -> usize {
        if !matches!(record.what, What::Lost { .. }) {
            return self.records.len();
        }
        let is_loss = |what: &What| matches!(what, What::CallFailed { code: ErrorCode::ConnectionLost, .. });
        let came_of_it = |known: &&Record| {
            let follows = is_loss(&known.what) || matches!(known.what, What::BreakerOpened { .. });
            known.generation == record.generation && follows
        };
        let tail = self.records.iter().rev().take_while(came_of_it);
        let back = tail.enumerate().filter(|(_, known)| is_loss(&known.what)).last();
        self.records.len() - back.map_or(0, |(n, _)| n + 1)
    }
}

#[cfg(test)]
mod tests;
