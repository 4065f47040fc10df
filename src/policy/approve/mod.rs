//! Approvals as a machine: who asked for what, who was shown it, what was answered. An approval is
//! bound to the hash of exactly one call, or to one tool for one session; it is used once, expires,
//! and nobody's silence counts as a yes. Knows no clock and does nothing itself: the desk
//! (`actors::approvals`) performs what it says.

pub mod form;
mod prompt;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::config::spec::Entry;
use crate::id::{ListenerId, ServerId, SessionId};
use crate::time::Monotonic;
use crate::wire::rounds;

pub use prompt::{ARGUMENTS_SHOWN_MAX, Notice, Prompt, arguments, fit};

/// Requests that may wait for a person at once; one more is denied.
pub const PENDING_MAX: usize = 64;
/// Listeners at once; one more is told so.
pub const LISTENERS_MAX: usize = 16;
/// Tools that are approved for sessions; one more pushes out the oldest.
pub const SESSION_GRANTS_MAX: usize = 1024;

/// One request, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One tool as it is now: an edit of the entry or another definition makes it another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolKey {
    /// The server.
    pub server: ServerId,
    /// Raw name of the tool.
    pub tool: String,
    /// SHA-256 over scope and hash of the entry, and the definition of the tool.
    pub pin: [u8; 32],
}

/// What an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The tool.
    pub tool: ToolKey,
    /// SHA-256 over the tool and the parameters, byte for byte.
    pub call: [u8; 32],
}

impl CallKey {
    /// The key of one call, and of all its rounds. `definition` is the tool's as the server sent it, `params` those of the
    /// caller as written. Bytes, not values: a server may read a repeated key or a long number in
    /// another way than we would.
    pub fn of(entry: &Entry, tool: &str, definition: Option<&[u8]>, params: &[u8]) -> Self {
        let scope = entry.source.scope.as_str();
        let definition: &[u8] = definition.unwrap_or_default();
        let pin = digest(&[scope.as_bytes(), entry.hash.as_bytes(), definition]);
        let server = entry.id.clone();
        // The answers of later rounds are not part of what was approved.
        let params = rounds::first(&Bytes::copy_from_slice(params));
        let call = digest(&[server.as_str().as_bytes(), tool.as_bytes(), &pin, &params]);
        Self { tool: ToolKey { server, tool: tool.to_owned(), pin }, call }
    }
}

/// SHA-256 over parts, each with its length, so that no two lists of parts look the same.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// What a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// This call, once.
    Once,
    /// This tool, for the rest of the session.
    Session,
    /// This tool, for good: an allow rule.
    Always,
    /// No.
    Deny,
}

impl Answer {
    /// The word in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "no",
        }
    }
}

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Denied {
    /// Nobody is there to be asked.
    NoListener,
    /// Too many requests wait already.
    TooMany,
    /// A person said no.
    ByPerson,
    /// Nobody answered in time.
    Expired,
    /// Everyone who was asked went away.
    ListenerLeft,
}

impl Denied {
    /// The rest of a sentence that begins with the call.
    pub fn why(self) -> &'static str {
        match self {
            Self::NoListener => "nobody was there to give it",
            Self::TooMany => "too many others wait for an answer already",
            Self::ByPerson => "the answer was no",
            Self::Expired => "nobody gave it in time",
            Self::ListenerLeft => "whoever was asked went away",
        }
    }
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A call of a session needs approval.
    Asked(RequestId, SessionId, CallKey),
    /// A listener answered.
    Answered(ListenerId, RequestId, Answer),
    /// A listener came.
    Came(ListenerId),
    /// A listener went.
    Left(ListenerId),
    /// A listener could not be shown a request: it does not read.
    Unseen(ListenerId, RequestId),
    /// The caller does not wait any more.
    Abandoned(RequestId),
    /// A session ended.
    SessionOver(SessionId),
    /// Time has passed.
    Woke,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Show a request to a listener.
    Show(ListenerId, RequestId),
    /// A request that was shown is settled: take it away there.
    Withdraw(ListenerId, RequestId),
    /// Let the call of this request run, once.
    Grant(RequestId),
    /// Write an allow rule for the tool of this request, which is granted next.
    Keep(RequestId),
    /// Refuse the call of this request.
    Deny(RequestId, Denied),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    session: SessionId,
    key: CallKey,
    /// Who has seen it and may answer.
    shown: BTreeSet<ListenerId>,
    expires: Monotonic,
}

/// All requests, listeners and grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Approvals {
    expires_after: Duration,
    waiting: BTreeMap<RequestId, Waiting>,
    listeners: BTreeSet<ListenerId>,
    /// Oldest first.
    sessions: Vec<(SessionId, ToolKey)>,
}

impl Approvals {
    /// No request, no listener. A request expires that long after it was asked.
    pub fn new(expires_after: Duration) -> Self {
        Self { expires_after, waiting: BTreeMap::new(), listeners: BTreeSet::new(), sessions: Vec::new() }
    }

    /// From now on requests expire that long after they were asked.
    pub fn set_expiry(&mut self, expires_after: Duration) {
        self.expires_after = expires_after;
    }

    /// Whether a listener is known: one too many is not.
    pub fn is_listening(&self, listener: ListenerId) -> bool {
        self.listeners.contains(&listener)
    }

    /// When the next request expires: [`Event::Woke`] is due then.
    pub fn next_expiry(&self) -> Option<Monotonic> {
        self.waiting.values().map(|waiting| waiting.expires).min()
    }

    /// Takes one event; what to do about it, in order.
    pub fn on(&mut self, event: Event, now: Monotonic) -> Vec<Action> {
        // Whatever happens late meets a request that has expired.
        let mut actions = self.expire(now);
        match event {
            Event::Asked(id, session, key) => self.asked(id, session, key, now, &mut actions),
            Event::Answered(listener, id, answer) => self.answered(listener, id, answer, &mut actions),
            Event::Came(listener) => {
                if self.listeners.len() < LISTENERS_MAX && self.listeners.insert(listener) {
                    for (id, waiting) in &mut self.waiting {
                        waiting.shown.insert(listener);
                        actions.push(Action::Show(listener, *id));
                    }
                }
            }
            Event::Left(listener) => {
                self.listeners.remove(&listener);
                let ids: Vec<RequestId> = self.waiting.keys().copied().collect();
                ids.into_iter().for_each(|id| self.unseen(listener, id, &mut actions));
            }
            Event::Unseen(listener, id) => self.unseen(listener, id, &mut actions),
            Event::Abandoned(id) => {
                if let Some(waiting) = self.waiting.remove(&id) {
                    withdraw(&waiting, id, None, &mut actions);
                }
            }
            Event::SessionOver(session) => self.sessions.retain(|(of, _)| *of != session),
            Event::Woke => {}
        }
        actions
    }

    fn expire(&mut self, now: Monotonic) -> Vec<Action> {
        let mut actions = Vec::new();
        let over = self.waiting.iter().filter(|(_, waiting)| waiting.expires <= now);
        let over: Vec<RequestId> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.settle(id, None, Action::Deny(id, Denied::Expired), &mut actions);
        }
        actions
    }

    fn asked(
        &mut self,
        id: RequestId,
        session: SessionId,
        key: CallKey,
        now: Monotonic,
        actions: &mut Vec<Action>,
    ) {
        if self.sessions.iter().any(|(of, tool)| *of == session && *tool == key.tool) {
            return actions.push(Action::Grant(id));
        }
        if self.listeners.is_empty() {
            return actions.push(Action::Deny(id, Denied::NoListener));
        }
        if self.waiting.len() >= PENDING_MAX {
            return actions.push(Action::Deny(id, Denied::TooMany));
        }
        let shown = self.listeners.clone();
        actions.extend(shown.iter().map(|listener| Action::Show(*listener, id)));
        let expires = now + self.expires_after;
        self.waiting.insert(id, Waiting { session, key, shown, expires });
    }

    /// The first answer of somebody who was shown the request counts; every later one is late.
    fn answered(&mut self, by: ListenerId, id: RequestId, answer: Answer, actions: &mut Vec<Action>) {
        let Some(waiting) = self.waiting.get(&id).filter(|waiting| waiting.shown.contains(&by)) else {
            return;
        };
        let (session, tool) = (waiting.session, waiting.key.tool.clone());
        match answer {
            Answer::Deny => self.settle(id, Some(by), Action::Deny(id, Denied::ByPerson), actions),
            Answer::Once => self.settle(id, Some(by), Action::Grant(id), actions),
            Answer::Always => {
                actions.push(Action::Keep(id));
                self.settle(id, Some(by), Action::Grant(id), actions);
            }
            Answer::Session => {
                self.settle(id, Some(by), Action::Grant(id), actions);
                if self.sessions.len() >= SESSION_GRANTS_MAX {
                    self.sessions.remove(0);
                }
                // What waits for the same tool in the same session is answered with it.
                let same = |waiting: &&Waiting| waiting.session == session && waiting.key.tool == tool;
                let covered = self.waiting.iter().filter(|(_, waiting)| same(waiting));
                let covered: Vec<RequestId> = covered.map(|(id, _)| *id).collect();
                for id in covered {
                    self.settle(id, None, Action::Grant(id), actions);
                }
                self.sessions.push((session, tool));
            }
        }
    }

    fn unseen(&mut self, listener: ListenerId, id: RequestId, actions: &mut Vec<Action>) {
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        if waiting.shown.remove(&listener) && waiting.shown.is_empty() {
            self.settle(id, None, Action::Deny(id, Denied::ListenerLeft), actions);
        }
    }

    /// Ends a request; everyone who was shown it, but the one who answered, is told.
    fn settle(&mut self, id: RequestId, by: Option<ListenerId>, end: Action, actions: &mut Vec<Action>) {
        if let Some(waiting) = self.waiting.remove(&id) {
            withdraw(&waiting, id, by, actions);
            actions.push(end);
        }
    }
}

fn withdraw(waiting: &Waiting, id: RequestId, by: Option<ListenerId>, actions: &mut Vec<Action>) {
    let others = waiting.shown.iter().filter(|listener| Some(**listener) != by);
    actions.extend(others.map(|listener| Action::Withdraw(*listener, id)));
}

#[cfg(test)]
mod explored;
#[cfg(test)]
mod tests;
