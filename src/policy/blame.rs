//! Whose fault the state of a server is, in one sentence, with what happens next and what cures
//! it: a verdict over its view and history. Pure: takes `now`. Asked by whoever explains a server.

use std::time::{Duration, SystemTime};

use crate::call::ErrorCode;
use crate::id::shell_word;
use crate::view::history::{Cause, Record, What};
use crate::view::{BreakerState, LifeState, ParkReason, ServerView};

/// A start that took longer than this is worth a word.
pub const SLOW_START: Duration = Duration::from_secs(5);

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing is wrong, or it is so on purpose.
    Nobody,
    /// The server's own.
    Server,
    /// What the configuration says, or leaves out.
    Config,
    /// What lies between.
    Network,
    /// This machine, or Callboard.
    Host,
    /// Who called.
    Caller,
}

impl Fault {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Server => "server",
            Self::Config => "configuration",
            Self::Network => "network",
            Self::Host => "host",
            Self::Caller => "caller",
        }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing has to happen.
    Nothing,
    /// This, at that time.
    At(&'static str, SystemTime),
    /// Nothing by itself: it waits for this.
    WaitsFor(&'static str),
}

/// The verdict about one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whose fault it is.
    pub fault: Fault,
    /// One sentence why.
    pub text: String,
    /// What happens next.
    pub next: Next,
    /// What cures it.
    pub fix: Option<String>,
}

/// Judges a server as its view shows it at `now`.
pub fn blame(view: &ServerView, now: SystemTime) -> Verdict {
    match view.state {
        LifeState::Parked(reason) => of_parked(view, reason),
        LifeState::BackingOff => of_waiting(view),
        LifeState::Connecting => of_connecting(view),
        LifeState::Ready => of_ready(view, now),
        LifeState::Dormant => of_dormant(view, now),
        LifeState::Draining => nobody("it finishes its calls, then stops", Next::Nothing),
        LifeState::Stopped => {
            nobody("it was stopped on purpose", Next::WaitsFor("a start that somebody asks for"))
        }
    }
}

fn nobody(text: impl Into<String>, next: Next) -> Verdict {
    Verdict { fault: Fault::Nobody, text: text.into(), next, fix: None }
}

/// Whose fault an end of that kind is. What can't be started on this machine never got as far as a
/// network.
fn fault_of(cause: Cause, transport: &str) -> Fault {
    let http = transport != "stdio";
    match cause {
        Cause::Config | Cause::NeedsAuth => Fault::Config,
        Cause::Network if http => Fault::Network,
        Cause::Network => Fault::Host,
        Cause::TimedOut if http => Fault::Network,
        Cause::Exited { .. }
        | Cause::Closed
        | Cause::Protocol
        | Cause::ServerStatus
        | Cause::TimedOut
        | Cause::TooLong
        | Cause::Throttled => Fault::Server,
    }
}

/// The last end of a connection or start, with whose fault it was.
fn last_end(view: &ServerView) -> Option<(Cause, Fault)> {
    let cause = view.history.last_end()?.what.cause()?;
    Some((cause, fault_of(cause, view.transport)))
}

fn why(view: &ServerView, otherwise: &str) -> String {
    view.why.clone().unwrap_or_else(|| otherwise.to_owned())
}

/// What cures an end of that kind, where the view knows nothing better.
fn cure(view: &ServerView, cause: Cause) -> Option<String> {
    let known = view.fix.clone();
    let id = shell_word(view.id.as_str());
    known.or_else(|| {
        Some(match cause {
            Cause::Config | Cause::NeedsAuth => format!("callboard mcp get {id}, then correct the entry"),
            Cause::Exited { signal: Some(9), .. } => {
                "something killed it: look for a lack of memory, then restart it".to_owned()
            }
            Cause::Exited { .. } | Cause::Closed | Cause::Protocol | Cause::TooLong
                if view.transport == "stdio" =>
            {
                format!("run its command by itself to see what it says; callboard mcp get {id} shows it")
            }
            Cause::TimedOut => format!("callboard mcp why {id} --wait 2m gives it more time"),
            Cause::Throttled => return None,
            _ => "callboard doctor".to_owned(),
        })
    })
}

fn of_parked(view: &ServerView, reason: ParkReason) -> Verdict {
    let actor_failed =
        view.history.records().next_back().is_some_and(|record| matches!(record.what, What::ActorFailed(_)));
    let (fault, otherwise, waits) = match reason {
        ParkReason::Disabled => (Fault::Nobody, "it is turned off", "somebody to turn it on"),
        ParkReason::PendingApproval => (Fault::Nobody, "nobody approved it yet", "your approval"),
        ParkReason::ConfigError => {
            let fault = last_end(view).map_or(Fault::Config, |(_, fault)| fault);
            (fault, "it can't be started as it is written", "a changed entry, or a restart")
        }
        ParkReason::NeedsAuth => (Fault::Config, "it wants credentials", "credentials, then a restart"),
        ParkReason::GivenUp if actor_failed => {
            (Fault::Host, "its actor failed again and again", "a restart of the host")
        }
        ParkReason::GivenUp => {
            let fault = last_end(view).map_or(Fault::Server, |(_, fault)| fault);
            let waits = if view.history.was_connected() {
                "the next call, a restart or a changed entry"
            } else {
                "a restart or a changed entry"
            };
            (fault, "it ended again and again", waits)
        }
    };
    let fix = match (reason, last_end(view)) {
        (ParkReason::GivenUp | ParkReason::ConfigError | ParkReason::NeedsAuth, Some((cause, _)))
            if !actor_failed =>
        {
            cure(view, cause)
        }
        _ => view.fix.clone(),
    };
    Verdict { fault, text: why(view, otherwise), next: Next::WaitsFor(waits), fix }
}

fn of_waiting(view: &ServerView) -> Verdict {
    let (cause, fault) = last_end(view).unwrap_or((Cause::Closed, Fault::Server));
    let next = match view.next_attempt {
        Some(at) => Next::At("the next start", at),
        None => Next::WaitsFor("the end of its back-off"),
    };
    Verdict { fault, text: why(view, "it ended by itself"), next, fix: cure(view, cause) }
}

fn of_connecting(view: &ServerView) -> Verdict {
    if view.late {
        let text =
            "it has not finished its handshake within the start limit, and still runs; late is not failed";
        return Verdict {
            fault: if view.transport == "stdio" { Fault::Server } else { Fault::Network },
            text: text.to_owned(),
            next: Next::WaitsFor("its handshake, or the end of `max_start`"),
            fix: cure(view, Cause::TimedOut),
        };
    }
    let next = Next::WaitsFor("its handshake");
    match last_end(view) {
        Some((cause, fault)) if !recovered(view) => {
            let text = format!("it is being started again after it failed: {}", why(view, "it ended"));
            Verdict { fault, text, next, fix: cure(view, cause) }
        }
        _ => nobody("it is being started", next),
    }
}

/// Whether a handshake was done after the last end.
fn recovered(view: &ServerView) -> bool {
    let turn =
        |record: &&Record| matches!(record.what, What::Connected { .. }) || record.what.cause().is_some();
    let last = view.history.records().rev().find(turn);
    last.is_none_or(|record| record.what.cause().is_none())
}

/// A breaker that lets no call through, or a pause: what stands between a working connection and calls.
fn held_back(view: &ServerView, now: SystemTime) -> Option<Verdict> {
    let state = view.breaker.state_at(now);
    if state != BreakerState::Closed {
        let counted = view.history.last_counted();
        let fault = counted.and_then(|record| record.what.cause());
        let fault = fault.map_or(Fault::Server, |cause| fault_of(cause, view.transport));
        let last = counted.map(|record| format!("; the last: {}", record.what)).unwrap_or_default();
        let text = format!("{} calls in a row failed, so its breaker is {}{last}", view.breaker.failures, {
            if state == BreakerState::Open { "open and calls are refused" } else { "half-open" }
        });
        let next = match view.breaker.until.filter(|_| state == BreakerState::Open) {
            Some(until) => Next::At("the next call is let through as a probe", until),
            None => Next::WaitsFor("the next call, which is the probe"),
        };
        let fix = view.fix.clone().or_else(|| Some("a restart closes it at once".to_owned()));
        return Some(Verdict { fault, text, next, fix });
    }
    let until = view.paused_until.filter(|until| *until > now)?;
    let text = "it asked to be left alone for a while (HTTP 429 or Retry-After)";
    let next = Next::At("calls go out again", until);
    Some(Verdict { fault: Fault::Server, text: text.to_owned(), next, fix: None })
}

fn of_dormant(view: &ServerView, now: SystemTime) -> Verdict {
    held_back(view, now).unwrap_or_else(|| {
        nobody(why(view, "it rests until somebody uses it"), Next::WaitsFor("the next use"))
    })
}

fn of_ready(view: &ServerView, now: SystemTime) -> Verdict {
    if let Some(verdict) = held_back(view, now) {
        return verdict;
    }
    if !view.listed {
        return nobody("it is ready; its lists are being read", Next::Nothing);
    }
    let mut verdict = nobody("it works", Next::Nothing);
    if let Some(record) = latest_trouble(view) {
        verdict.text = format!("it works; before that: {}", record.what);
        verdict.fault = match &record.what {
            What::CallFailed { code, .. } => fault_of_call(*code, view.transport),
            what => what.cause().map_or(Fault::Server, |cause| fault_of(cause, view.transport)),
        };
    }
    if let Some(took) = view.start_took.filter(|took| *took >= SLOW_START) {
        verdict.text.push_str(&format!("; its start took {} s", took.as_secs()));
    }
    verdict
}

/// The last thing that went wrong and still says something: a list that fails, a call, an end.
fn latest_trouble(view: &ServerView) -> Option<&Record> {
    view.history.records().rev().find(|record| {
        matches!(record.what, What::ListFailed { .. } | What::CallFailed { .. })
            || record.what.cause().is_some()
    })
}

/// Whose fault it is that a call failed so.
pub fn fault_of_call(code: ErrorCode, transport: &str) -> Fault {
    match code {
        ErrorCode::UnknownServer
        | ErrorCode::UnknownTool
        | ErrorCode::UnknownResource
        | ErrorCode::UnknownPrompt
        | ErrorCode::AmbiguousName
        | ErrorCode::InvalidArguments
        | ErrorCode::Cancelled => Fault::Caller,
        ErrorCode::Denied
        | ErrorCode::NeedsApproval
        | ErrorCode::SecretInArguments
        | ErrorCode::PendingApproval
        | ErrorCode::Held
        | ErrorCode::Disabled
        | ErrorCode::ConfigError
        | ErrorCode::NeedsAuth => Fault::Config,
        ErrorCode::Busy | ErrorCode::Draining | ErrorCode::AuditUnavailable | ErrorCode::Internal => {
            Fault::Host
        }
        ErrorCode::ConnectFailed | ErrorCode::ConnectionLost if transport != "stdio" => Fault::Network,
        ErrorCode::GivenUp
        | ErrorCode::NotReady
        | ErrorCode::BreakerOpen
        | ErrorCode::RateLimited
        | ErrorCode::ConnectFailed
        | ErrorCode::ConnectionLost
        | ErrorCode::TimeoutIdle
        | ErrorCode::TimeoutTotal
        | ErrorCode::MalformedAnswer
        | ErrorCode::FrameTooLarge
        | ErrorCode::HttpStatus => Fault::Server,
    }
}

#[cfg(test)]
mod tests;
