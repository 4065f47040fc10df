//! The circuit breaker of one server (spec section 4; the pattern is Nygard's): failures in
//! a row open it, for a fixed time no call reaches the server, then one probe decides.
//! It gates calls only: starts, handshakes and lists go on whatever it says.
//! Called by the server actor, which hands every pass back exactly once.

use std::time::Duration;

use crate::call::BreakerClass;
use crate::config::spec::BreakerSpec;
use crate::id::Generation;
use crate::time::Monotonic;

/// Leave for one call. Goes back through [`Breaker::settle`] with what became of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Results of an older epoch change nothing.
    epoch: u64,
    /// In the order in which calls went out.
    number: u64,
    kind: PassKind,
}

/// Whether a call ended together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It ended alone.
    None,
    /// Its own request was lost (HTTP): calls that were out at the same time may be, for the same reason.
    Request,
    /// The whole connection ended.
    Connection(Generation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PassKind {
    Plain,
    Probe,
}

impl Pass {
    /// Whether this call decides if the breaker closes.
    pub fn is_probe(self) -> bool {
        self.kind == PassKind::Probe
    }
}

/// What becomes of a call that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It may go on.
    Pass(Pass),
    /// It may wait for a fresh connection, which is the probe. Nobody else is let through.
    Connect(Pass),
    /// It is refused, without I/O.
    Refuse(Refusal),
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Open for that long still; never zero.
    Open(Duration),
    /// A probe is on its way.
    Probing,
}

/// What an event did to the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing that anyone sees.
    Stayed,
    /// It opened, or opened again: who waits is refused.
    Opened,
    /// It closed.
    Closed,
}

/// How the breaker stands, for views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Calls pass. Failures in a row so far.
    Closed(u32),
    /// Calls are refused until then.
    Open(Monotonic),
    /// The next call, or the one on its way, decides.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Closed { failures: u32 },
    Open { until: Monotonic },
    HalfOpen(Probe),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Probe {
    /// The last one said nothing; the next call is the probe.
    Wanted,
    /// A call is the probe.
    Call,
    /// A fresh connection with its list of tools is the probe.
    Connection,
}

/// The breaker of one server.
#[derive(Clone, Debug)]
pub struct Breaker {
    spec: BreakerSpec,
    state: State,
    epoch: u64,
    /// The number of the next pass.
    next: u64,
    /// The connection whose end was counted last: its calls fail together and count once.
    lost: Option<Generation>,
    /// The calls before this one were out when the last counted loss happened.
    lost_before: u64,
}

impl Breaker {
    /// A closed breaker. `failures: 0` never opens.
    pub fn new(spec: BreakerSpec) -> Self {
        Self { spec, state: State::Closed { failures: 0 }, epoch: 0, next: 0, lost: None, lost_before: 0 }
    }

    /// A call wants to go to the server, which is `connected` or not.
    pub fn admit(&mut self, now: Monotonic, connected: bool) -> Admit {
        match self.state {
            State::Closed { .. } => Admit::Pass(self.pass(PassKind::Plain)),
            State::Open { until } if now < until => Admit::Refuse(Refusal::Open(until - now)),
            State::HalfOpen(Probe::Call | Probe::Connection) => Admit::Refuse(Refusal::Probing),
            State::Open { .. } | State::HalfOpen(Probe::Wanted) => {
                let probe = if connected { Probe::Call } else { Probe::Connection };
                self.enter(State::HalfOpen(probe));
                if connected {
                    Admit::Pass(self.pass(PassKind::Probe))
                } else {
                    Admit::Connect(self.pass(PassKind::Plain))
                }
            }
        }
    }

    /// The pass of a call that waited and runs now: a probe stays the probe, the others belong to
    /// the present epoch.
    pub fn renew(&mut self, pass: Pass) -> Pass {
        if pass.is_probe() { pass } else { self.pass(PassKind::Plain) }
    }

    fn pass(&mut self, kind: PassKind) -> Pass {
        self.next += 1;
        Pass { epoch: self.epoch, number: self.next, kind }
    }

    /// A call ended. All calls that end with one connection, or are lost while they were out together,
    /// are one incident and count once.
    pub fn settle(&mut self, pass: Pass, class: BreakerClass, loss: Loss, now: Monotonic) -> Move {
        if pass.epoch != self.epoch {
            return Move::Stayed;
        }
        match (self.state, class) {
            (State::Closed { .. }, BreakerClass::Trip) => {
                if self.is_counted(pass, loss) {
                    return Move::Stayed;
                }
                self.count(loss);
                self.trip(now)
            }
            (State::Closed { .. }, BreakerClass::Heal) => {
                self.state = State::Closed { failures: 0 };
                Move::Stayed
            }
            (State::HalfOpen(Probe::Call), _) if pass.is_probe() => match class {
                BreakerClass::Heal => self.close(),
                BreakerClass::Trip | BreakerClass::Exhausted => {
                    self.count(loss);
                    self.open(now)
                }
                BreakerClass::Neutral => {
                    self.state = State::HalfOpen(Probe::Wanted);
                    Move::Stayed
                }
            },
            (State::Closed { .. } | State::Open { .. } | State::HalfOpen(_), _) => Move::Stayed,
        }
    }

    /// An attempt to connect ended without a connection, and counts as `class`.
    pub fn connect_failed(&mut self, class: BreakerClass, now: Monotonic) -> Move {
        match (self.state, class) {
            (State::Closed { .. }, BreakerClass::Trip) => self.trip(now),
            (State::HalfOpen(Probe::Connection), BreakerClass::Trip | BreakerClass::Exhausted) => {
                self.open(now)
            }
            (State::HalfOpen(Probe::Connection), BreakerClass::Neutral | BreakerClass::Heal) => {
                self.state = State::HalfOpen(Probe::Wanted);
                Move::Stayed
            }
            (State::Closed { .. } | State::Open { .. } | State::HalfOpen(_), _) => Move::Stayed,
        }
    }

    /// A fresh connection has read its tools, or could not (`read`): decides if that was the probe, and
    /// only then.
    pub fn listed(&mut self, read: bool, now: Monotonic) -> Move {
        match self.state {
            State::HalfOpen(Probe::Connection) if read => self.close(),
            State::HalfOpen(Probe::Connection) => self.open(now),
            State::Closed { .. } | State::Open { .. } | State::HalfOpen(Probe::Wanted | Probe::Call) => {
                Move::Stayed
            }
        }
    }

    /// Whether a fresh connection is the probe: the call that waits for it may not run before its list
    /// has been read.
    pub fn connection_decides(&self) -> bool {
        self.state == State::HalfOpen(Probe::Connection)
    }

    /// A person restarted the server, or its entry changed: closed, without debts.
    pub fn reset(&mut self) -> Move {
        let before = self.state;
        let _ = self.close();
        if matches!(before, State::Closed { .. }) { Move::Stayed } else { Move::Closed }
    }

    /// How it stands at `now`.
    pub fn standing(&self, now: Monotonic) -> Standing {
        match self.state {
            State::Closed { failures } => Standing::Closed(failures),
            State::Open { until } if now < until => Standing::Open(until),
            State::Open { .. } | State::HalfOpen(_) => Standing::HalfOpen,
        }
    }

    /// Whether that loss belongs to an incident that was counted.
    fn is_counted(&self, pass: Pass, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Request => pass.number <= self.lost_before,
            Loss::Connection(generation) => pass.number <= self.lost_before || self.lost == Some(generation),
        }
    }

    fn count(&mut self, loss: Loss) {
        if loss != Loss::None {
            self.lost_before = self.next;
        }
        if let Loss::Connection(generation) = loss {
            self.lost = Some(generation);
        }
    }

    fn trip(&mut self, now: Monotonic) -> Move {
        let State::Closed { failures } = self.state else { return Move::Stayed };
        let failures = failures.saturating_add(1);
        if self.spec.failures > 0 && failures >= self.spec.failures {
            return self.open(now);
        }
        self.state = State::Closed { failures };
        Move::Stayed
    }

    fn open(&mut self, now: Monotonic) -> Move {
        self.enter(State::Open { until: now + self.spec.open_for });
        Move::Opened
    }

    fn close(&mut self) -> Move {
        self.enter(State::Closed { failures: 0 });
        Move::Closed
    }

    /// Into a state where the calls of before have no say.
    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod explored;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
