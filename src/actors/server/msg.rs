//! Messages of a server actor. Commands are imperative, facts are past tense; what
//! belongs to a connection carries its generation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

pub(crate) use super::files::Files;
use super::port::ReplyPort;
use crate::call::{
    BreakerClass, CallError, CallEvent, CallReply, CallRequest, Delivery, Door, ErrorCode, EventsIn, Phase,
};
use crate::catalog::items::{ItemList, ListKind};
use crate::catalog::pin::Book;
use crate::config::mode::Mode;
use crate::id::{CallId, Generation, ServerId};
use crate::policy::breaker::Loss;
use crate::policy::budget::Budget;
use crate::policy::outbound::Carried;
use crate::time::Monotonic;
use crate::transport::link::Stale;
use crate::transport::{ConnectError, Connection, LinkFault};
use crate::wire::era::Era;

/// The servers that there are for one client of several.
pub(crate) type Reach = Arc<BTreeSet<ServerId>>;

/// One admitted call on its way to the server.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Credentials that its parameters hold, by their owners.
    pub carried: Carried,
    /// What the caller wrote; on its way to a server, its target is direct.
    pub request: CallRequest,
    /// The door by which it came.
    pub door: Door,
    /// What the caller's client can, a raw JSON object, for servers that are told with every call
    /// (2026-07-28); `None`: what the plan declares.
    pub capabilities: Option<Bytes>,
    /// The era of the caller's client; `None`: that of the server.
    pub era: Option<Era>,
    /// The mode of the caller's client, which only makes the host's stricter.
    pub mode: Option<Mode>,
    /// The servers that there are for the caller's client; `None`: all.
    pub reach: Option<Reach>,
    /// Where progress goes.
    pub events: Option<Ear>,
    /// Where the answer goes.
    pub reply: ReplyPort,
    /// Released when the call is settled, whatever happens.
    pub permit: tokio::sync::OwnedSemaphorePermit,
    /// When it was admitted: the total clock runs from here.
    pub admitted: Monotonic,
    /// How often it was sent again.
    pub repeats: u32,
    /// How it failed before it was sent again.
    pub failed: Option<CallError>,
}

/// Where a caller hears what happens meanwhile.
#[derive(Debug)]
pub(crate) enum Ear {
    Queue(mpsc::Sender<CallEvent>),
    Events(EventsIn),
}

impl Ear {
    /// Hands over a report. One that does not listen loses it.
    pub(crate) fn tell(&self, event: CallEvent) {
        match self {
            Self::Queue(queue) => drop(queue.try_send(event)),
            Self::Events(events) => events.put(event),
        }
    }
}

impl Submission {
    /// What its caller is told when it ends with `error`. A try that never left says nothing about one
    /// before it that may have run.
    pub(crate) fn told(&mut self, error: CallError) -> CallError {
        match self.failed.take() {
            Some(before) if error.delivery == Delivery::NotSent => before,
            _ => error,
        }
    }
}

/// How a call ended, for the books of the server actor.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The call.
    pub call: CallId,
    /// What became of it.
    pub end: End,
    /// What its caller is told once this is booked.
    pub held: Option<Box<HeldAnswer>>,
}

/// The answer of a probe: its caller's next call must find the breaker as this one left it.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    /// The call.
    pub submission: Box<Submission>,
    /// What came of it.
    pub answer: Result<CallReply, CallError>,
}

impl HeldAnswer {
    /// Answers the caller.
    pub(crate) fn send(self) {
        // Who has left does not need to know.
        let _ = self.submission.reply.send(self.answer);
    }
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum End {
    /// An answer came, and the caller has it, or gets it when it is held.
    Answered(BreakerClass),
    /// It failed, and the caller knows, unless it left.
    Failed(BreakerClass, Option<Box<Told>>),
    /// No answer came within a limit, and the caller knows. Whether the server still lives
    /// decides what that means.
    Unanswered {
        /// The connection that it ran on.
        generation: Generation,
        /// Messages that had come from the server when the request went out.
        heard: u64,
        /// What the caller was told.
        told: Box<Told>,
    },
    /// It failed in a way that another try may cure. The caller still waits.
    Undecided(Box<Again>),
}

/// What the history keeps of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The item as the caller named it.
    pub item: String,
    /// How it failed.
    pub code: ErrorCode,
    /// Where.
    pub phase: Phase,
    /// What is known of its execution.
    pub delivery: Delivery,
}

impl Told {
    /// The caller left.
    pub(crate) fn left(item: &str) -> Self {
        let (code, phase, delivery) = (ErrorCode::Cancelled, Phase::Await, Delivery::Unknown);
        Self { item: item.to_owned(), code, phase, delivery }
    }

    /// The failure of a call of that item.
    pub(crate) fn of(item: &str, error: &CallError) -> Self {
        Self { item: item.to_owned(), code: error.code, phase: error.phase, delivery: error.delivery }
    }
}

/// A failed call whose caller still waits.
#[derive(Debug)]
pub(crate) struct Again {
    /// The call.
    pub submission: Box<Submission>,
    /// Its clocks, running on.
    pub budget: Budget,
    /// What the caller will be told if it is not tried again.
    pub error: CallError,
    /// Whether others ended with it.
    pub loss: Loss,
}

/// What a server actor is told.
#[derive(Debug)]
pub(crate) enum ServerMsg {
    /// Run this call.
    Call(Box<Submission>),
    /// A call ended.
    Settled(Settled),
    /// Start if dormant.
    Start,
    /// Connect afresh, whatever the state.
    Restart,
    /// End; answered when nothing is left.
    Stop(oneshot::Sender<()>),
    /// Publish the view and the catalogue again: the registry lost them.
    Republish,
    /// Go by these pins: they were read from its file.
    Pins(Arc<Book>),
    /// Poll that often from now on.
    Poll(Option<Duration>),
    /// An attempt has started a process.
    Spawned(Generation),
    /// A connection stands.
    Connected(Generation, Box<Connection>),
    /// An attempt failed.
    ConnectFailed(Generation, ConnectError),
    /// A connection ended.
    Ended(Generation, LinkFault),
    /// A list was read, or could not be.
    Listed(Generation, ListKind, Result<ItemList, String>),
    /// Lists may have changed.
    Notified(Generation, Stale),
    /// Watched files changed.
    Files(Files),
    /// A timer ran out.
    Woke(Generation, Wake),
    /// The liveness check after an unanswered call is done; the answer is whether the server lives.
    Checked(Generation, bool),
    /// An ordered end of a connection is done.
    Disconnected(Generation),
}

/// What a timer was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The start limit (`connect`).
    StartLimit,
    /// The next attempt.
    Backoff,
    /// The debounce of `list_changed`.
    Refresh(ListKind),
    /// The turn of the poll.
    Poll,
    /// The idle limit (`idle_stop`).
    Idle,
    /// The drain limit.
    Drain,
    /// The end of a pause that the server asked for.
    Pause,
    /// The drain limit of a server whose files changed.
    Files,
}
