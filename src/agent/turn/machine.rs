//! A turn as a machine: what happened goes in, what is to be done comes out. Bounded in answers, calls and
//! time; ends always, and every call that began has a result in the log then. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::entry::{Entry, LimitKind};
use crate::agent::chat::{Said, ToolCall, ToolResult};
use crate::agent::model::{ModelError, Stop, Trouble, Usage};
use crate::time::Monotonic;

/// Denials in a row after which a turn ends: the model does not understand the no.
pub const DENIALS_MAX: u32 = 3;

/// How far a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers of the model.
    pub rounds_max: u32,
    /// Calls.
    pub calls_max: u32,
    /// From beginning to end.
    pub turn_max: Duration,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The model's answer is whole.
    Said {
        /// What it said; ids of calls are unique in the conversation.
        said: Said,
        /// Why it ended.
        stop: Stop,
        /// What it used.
        usage: Option<Usage>,
    },
    /// There is no answer, or only the beginning of one.
    Failed {
        /// Why.
        error: ModelError,
        /// What came before.
        partial: Said,
    },
    /// The conversation was shortened, or could not be.
    Compacted {
        /// Whether there is room now.
        made_room: bool,
    },
    /// A call has ended.
    Answered {
        /// What the model is given.
        result: ToolResult,
        /// Where it was called.
        server: Option<String>,
        /// How long it took.
        elapsed: Duration,
        /// A person, or nobody in place of one, said no.
        denied: bool,
    },
    /// The user ended the turn.
    Cancelled {
        /// What the model had said of an answer by then.
        partial: Said,
    },
    /// Time passed.
    TimePassed,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write it down.
    Log(Entry),
    /// Ask the model for its next answer.
    Ask,
    /// Shorten the conversation: the endpoint says that it is too long.
    Compact,
    /// Make this call.
    Call(ToolCall),
    /// Give up all calls that run; their servers are told.
    DropCalls,
    /// The turn is over.
    Over(End),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The model has said all that it wants to.
    Done,
    /// Its answer reached the limit of its output.
    Length,
    /// The endpoint kept it from going on.
    Filtered,
    /// The user ended it.
    Cancelled,
    /// A limit.
    Limit(LimitKind),
    /// No was said too often.
    Denied,
    /// The model could not go on.
    Failed(ModelError),
}

#[derive(Debug)]
enum State {
    /// For the model.
    Waits {
        /// The conversation was shortened for this answer.
        compacted: bool,
    },
    /// For these calls.
    Calls(BTreeMap<String, ToolCall>),
    Over,
}

/// One turn.
#[derive(Debug)]
pub struct Turn {
    limits: Limits,
    began: Monotonic,
    rounds: u32,
    calls: u32,
    denials: u32,
    state: State,
}

impl Turn {
    /// A turn that begins now, with what is to be done first.
    pub fn begin(limits: Limits, entries: Vec<Entry>, now: Monotonic) -> (Self, Vec<Action>) {
        let state = State::Waits { compacted: false };
        let turn = Self { limits, began: now, rounds: 0, calls: 0, denials: 0, state };
        (turn, entries.into_iter().map(Action::Log).chain([Action::Ask]).collect())
    }

    /// When it has to be over.
    pub fn until(&self) -> Monotonic {
        self.began + self.limits.turn_max
    }

    /// Answers so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Takes what happened. What comes after the end changes nothing.
    pub fn on(&mut self, event: Event, now: Monotonic) -> Vec<Action> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, event) {
            (State::Over, _) => Vec::new(),
            (State::Waits { .. }, Event::Said { said, stop, usage }) => self.said(said, &stop, usage),
            (State::Waits { compacted }, Event::Failed { error, partial }) => {
                self.failed(error, partial, compacted)
            }
            (State::Waits { .. }, Event::Compacted { made_room: true }) => {
                self.state = State::Waits { compacted: true };
                vec![Action::Ask]
            }
            (State::Waits { .. }, Event::Compacted { made_room: false }) => {
                let error = ModelError::new(
                    Trouble::TooLong,
                    "the conversation does not fit, however it is shortened",
                )
                .fix("begin a new session, or choose a model with a larger window");
                ended(Vec::new(), End::Failed(error))
            }
            (State::Calls(open), Event::Answered { result, server, elapsed, denied }) => {
                self.answered(open, (result, server, elapsed), denied, now)
            }
            (state, Event::Cancelled { partial }) => self.stopped(state, partial, End::Cancelled),
            (state, Event::TimePassed) if now >= self.until() => {
                self.stopped(state, Said::default(), End::Limit(LimitKind::Time))
            }
            // An answer for nobody, or a moment too early.
            (state, _) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    fn said(&mut self, said: Said, stop: &Stop, usage: Option<Usage>) -> Vec<Action> {
        self.rounds += 1;
        let calls = said.calls.clone();
        let mut actions = vec![Action::Log(Entry::Said { said, stop: word(stop), usage })];
        if calls.is_empty() {
            return ended(
                actions,
                match stop {
                    Stop::Length => End::Length,
                    Stop::Filtered => End::Filtered,
                    Stop::Done | Stop::Calls | Stop::Other(_) => End::Done,
                },
            );
        }
        self.calls = self.calls.saturating_add(u32::try_from(calls.len()).unwrap_or(u32::MAX));
        if self.calls > self.limits.calls_max {
            let text =
                format!("not called: this turn has reached its limit of {} calls", self.limits.calls_max);
            actions.extend(calls.iter().map(|call| not_run(call, &text)));
            return ended(actions, End::Limit(LimitKind::Calls));
        }
        self.state = State::Calls(calls.iter().map(|call| (call.id.clone(), call.clone())).collect());
        actions.extend(calls.into_iter().map(Action::Call));
        actions
    }

    fn failed(&mut self, error: ModelError, partial: Said, compacted: bool) -> Vec<Action> {
        if error.trouble == Trouble::TooLong && !compacted && partial.is_empty() {
            self.state = State::Waits { compacted: true };
            return vec![Action::Compact];
        }
        ended(said_so_far(partial), End::Failed(error))
    }

    fn answered(
        &mut self,
        mut open: BTreeMap<String, ToolCall>,
        (result, server, elapsed): (ToolResult, Option<String>, Duration),
        denied: bool,
        now: Monotonic,
    ) -> Vec<Action> {
        if open.remove(&result.id).is_none() {
            self.state = State::Calls(open);
            return Vec::new();
        }
        self.denials = if denied { self.denials + 1 } else { 0 };
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let mut actions = vec![Action::Log(Entry::Result { result, server, elapsed_ms })];
        if !open.is_empty() {
            self.state = State::Calls(open);
            return actions;
        }
        if self.denials >= DENIALS_MAX {
            return ended(actions, End::Denied);
        }
        if self.rounds >= self.limits.rounds_max {
            return ended(actions, End::Limit(LimitKind::Rounds));
        }
        if now >= self.until() {
            return ended(actions, End::Limit(LimitKind::Time));
        }
        self.state = State::Waits { compacted: false };
        actions.push(Action::Ask);
        actions
    }

    /// Ends it in the middle: what runs is given up, and has a result that says so.
    fn stopped(&mut self, state: State, partial: Said, end: End) -> Vec<Action> {
        let mut actions = Vec::new();
        match state {
            State::Waits { .. } => actions.extend(said_so_far(partial)),
            State::Calls(open) => {
                actions.push(Action::DropCalls);
                let why = if end == End::Cancelled { "the user" } else { "the time limit of the turn" };
                let text =
                    format!("cancelled by {why} before there was an answer; whether it ran is not known");
                actions.extend(open.values().map(|call| not_run(call, &text)));
            }
            State::Over => {}
        }
        ended(actions, end)
    }
}

fn ended(mut actions: Vec<Action>, end: End) -> Vec<Action> {
    let entry = match &end {
        End::Cancelled => Some(Entry::Cancelled {}),
        End::Limit(which) => Some(Entry::Limit { which: *which }),
        End::Failed(error) => {
            Some(Entry::Failed { code: error.trouble.as_str().to_owned(), message: error.message.clone() })
        }
        End::Done | End::Length | End::Filtered | End::Denied => None,
    };
    actions.extend(entry.map(Action::Log));
    actions.push(Action::Over(end));
    actions
}

/// The words of an answer that was not finished; its calls were never whole.
fn said_so_far(partial: Said) -> Vec<Action> {
    let said = Said { calls: Vec::new(), reasoning: Vec::new(), ..partial };
    let log = (!said.is_empty()).then(|| Entry::Said { said, stop: "broken_off".to_owned(), usage: None });
    log.map(Action::Log).into_iter().collect()
}

fn not_run(call: &ToolCall, text: &str) -> Action {
    Action::Log(Entry::Result { result: ToolResult::ours(call, text), server: None, elapsed_ms: 0 })
}

/// The stable word.
fn word(stop: &Stop) -> String {
    match stop {
        Stop::Done => "done",
        Stop::Calls => "calls",
        Stop::Length => "length",
        Stop::Filtered => "filtered",
        Stop::Other(word) => word,
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
