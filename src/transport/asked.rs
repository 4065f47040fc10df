//! Floor 2. What the server asks while calls run: whose it is, which requests are open, and the way
//! back. A request belongs to the call on whose stream it came; on a pipe, to the newest running call
//! if all of them are of one session. So no client is ever asked for another. Used by `inbound`.

use std::collections::BTreeMap;
use std::sync::Weak;

use bytes::Bytes;

use super::inbound::Inbound;
use super::waiting::Teller;
use crate::call::{ASKED_MAX, AskedAnswer, AskedReply};
use crate::id::SessionId;

/// What we answer when clients of several sessions have calls running (`architecture`: own codes stay
/// within −32000 … −32019).
pub const AMBIGUOUS: i64 = -32010;

/// A request of the server, on its way to a call.
#[derive(Debug)]
pub struct LinkAsked {
    /// The server's own id, raw.
    pub id: Bytes,
    /// The method.
    pub method: String,
    /// The `params`, raw; empty when there is none.
    pub params: Bytes,
    /// The way back.
    pub reply: Box<dyn AskedReply>,
}

/// Requests that wait for an answer, by our own number.
#[derive(Debug, Default)]
pub(super) struct Open {
    next: u64,
    asked: BTreeMap<u64, One>,
}

#[derive(Debug)]
struct One {
    call: u64,
    id: Bytes,
}

impl Open {
    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Notes one for a call; `None` when that has too many.
    pub(super) fn add(&mut self, call: u64, id: Bytes) -> Option<u64> {
        if self.asked.values().filter(|one| one.call == call).count() >= ASKED_MAX {
            return None;
        }
        self.next += 1;
        self.asked.insert(self.next, One { call, id });
        Some(self.next)
    }

    /// Takes one out: its call, and the server's id.
    pub(super) fn take(&mut self, number: u64) -> Option<(u64, Bytes)> {
        self.asked.remove(&number).map(|one| (one.call, one.id))
    }

    /// Takes out the one with the server's id.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> Option<(u64, Bytes)> {
        let number = *self.asked.iter().find(|(_, one)| one.id == id)?.0;
        self.take(number)
    }

    /// Takes out all of a call that has ended: the server's ids.
    pub(super) fn of(&mut self, call: u64) -> Vec<Bytes> {
        let gone: Vec<u64> =
            self.asked.iter().filter(|(_, one)| one.call == call).map(|(number, _)| *number).collect();
        gone.into_iter().filter_map(|number| Some(self.take(number)?.1)).collect()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.asked.clear();
    }
}

/// Why nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nobody {
    /// No call runs whose caller could be.
    NoCall,
    /// Calls of several sessions run, and nothing says whose it is.
    Several,
}

/// The call that a request belongs to, among the running ones of callers: their ids and sessions.
pub(super) fn owner(running: impl Iterator<Item = (u64, SessionId)>) -> Result<u64, Nobody> {
    let mut owner: Option<(u64, SessionId)> = None;
    for (id, session) in running {
        owner = Some(match owner {
            None => (id, session),
            Some((_, other)) if other != session => return Err(Nobody::Several),
            Some((newest, _)) => (newest.max(id), session),
        });
    }
    owner.map(|(id, _)| id).ok_or(Nobody::NoCall)
}

/// The way back to the server of one link.
#[derive(Debug)]
pub(super) struct LinkReply {
    inbound: Weak<Inbound>,
    number: Option<u64>,
    call: Teller,
}

impl LinkReply {
    pub(super) fn new(inbound: Weak<Inbound>, number: u64, call: Teller) -> Self {
        Self { inbound, number: Some(number), call }
    }

    fn settle(&mut self, answer: &AskedAnswer) {
        let Some(number) = self.number.take() else { return };
        self.call.asked_over();
        if let Some(inbound) = self.inbound.upgrade() {
            inbound.answered(number, answer);
        }
    }
}

impl AskedReply for LinkReply {
    fn answer(mut self: Box<Self>, answer: AskedAnswer) {
        self.settle(&answer);
    }
}

impl Drop for LinkReply {
    fn drop(&mut self) {
        self.settle(&AskedAnswer::error(-32601, "nobody here can answer this"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_session_is_asked_and_by_its_newest_call() {
        let calls = |list: &[(u64, u64)]| {
            owner(list.iter().map(|(id, session)| (*id, SessionId(*session))).collect::<Vec<_>>().into_iter())
        };
        assert_eq!(calls(&[]), Err(Nobody::NoCall));
        assert_eq!(calls(&[(4, 1)]), Ok(4));
        assert_eq!(calls(&[(9, 1), (4, 1), (7, 1)]), Ok(9));
        assert_eq!(calls(&[(9, 1), (4, 2)]), Err(Nobody::Several));
    }

    #[test]
    fn open_requests_are_bounded_and_end_with_their_call() {
        let mut open = Open::default();
        let id = |n: usize| Bytes::from(n.to_string());
        let numbers: Vec<_> = (0..ASKED_MAX).map(|n| open.add(1, id(n)).unwrap()).collect();
        assert_eq!(open.add(1, id(99)), None, "one too many");
        let other = open.add(2, id(100)).unwrap();
        assert_eq!(open.take(numbers[0]), Some((1, id(0))));
        assert_eq!(open.take(numbers[0]), None, "answered once");
        assert_eq!(open.withdraw(&id(1)), Some((1, id(1))));
        assert_eq!(open.withdraw(&id(1)), None);
        assert_eq!(open.of(1).len(), ASKED_MAX - 2);
        assert!(!open.is_empty());
        assert_eq!(open.take(other), Some((2, id(100))));
        assert!(open.is_empty());
    }
}
