//! What happened in a run, in order, with virtual times: written by peers, callers and the
//! operator, read by the oracle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use callboard::call::{Delivery, ErrorCode};
use callboard::view::{BreakerState, LifeState};

use super::schedule::{Act, FaultKind};

/// One fact. Servers are indices in the schedule, connections count up from 1 for each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A peer was connected to.
    Connected { server: usize, conn: u64 },
    /// Its handshake is done.
    Handshaken { server: usize, conn: u64 },
    /// A call arrived at a peer.
    Got { server: usize, conn: u64, nonce: u64, id: u64 },
    /// A peer did what a call asks.
    Executed { server: usize, nonce: u64 },
    /// A peer was told that a caller left or a limit passed.
    Cancelled { server: usize, conn: u64, id: u64 },
    /// A page of a tool list was made; the definition that changes is `changed` in it or as it was at first.
    Shown { server: usize, conn: u64, changed: bool },
    /// The last page of a tool list was handed over; `sure` when nothing was done to any page.
    Listed { server: usize, conn: u64, version: u64, changed: bool, sure: bool },
    /// A fault acted.
    Fault { server: usize, kind: FaultKind },
    /// A connection ended; by the peer's own will or by ours.
    Gone { server: usize, conn: u64, by_peer: bool },
    /// A caller asked.
    Asked { nonce: u64 },
    /// A caller was told about progress of the call `of`.
    Told { nonce: u64, of: u64 },
    /// The host was asked to shut down, and then was.
    Shutdown { done: bool },
    /// A caller's call ended.
    Ended { nonce: u64, outcome: Outcome },
    /// The operator acted.
    Acted { server: usize, act: Act },
    /// A view shows another state.
    State { server: usize, state: LifeState },
    /// A view shows another state of the circuit breaker.
    Breaker { server: usize, state: BreakerState },
}

/// How a call ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer; `nonce` and `server` are those that the answer names.
    Answered { nonce: u64, server: String, elapsed: u64 },
    /// With an error.
    Failed { code: ErrorCode, delivery: Delivery, text: String },
    /// The caller left.
    Left,
}

/// One fact with its time in milliseconds since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: u64,
    pub fact: Fact,
}

/// The record of one run, shared by all who write it.
#[derive(Clone)]
pub struct Trace {
    began: tokio::time::Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
    /// Nonces of calls by the number that the product gave them, which is another in every run.
    numbers: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Trace {
    /// An empty record that begins now.
    pub fn begin() -> Self {
        Self { began: tokio::time::Instant::now(), entries: Arc::default(), numbers: Arc::default() }
    }

    /// Virtual milliseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant of a virtual time.
    pub fn instant(&self, at: u64) -> tokio::time::Instant {
        self.began + std::time::Duration::from_millis(at)
    }

    /// Writes a fact down.
    pub fn note(&self, fact: Fact) {
        let entry = Entry { at: self.now(), fact };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Notes the product's own number of a call.
    pub fn number(&self, number: u64, nonce: u64) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).insert(number, nonce);
    }

    /// The call with that number.
    pub fn nonce(&self, number: u64) -> Option<u64> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).get(&number).copied()
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One number for a whole record (FNV-1a).
pub fn hash(entries: &[Entry]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for entry in entries {
        for byte in format!("{entry:?}").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}
