//! Floor 1. The life of one server as a pure machine: events in, actions out. The
//! server actor feeds it, performs what it returns and logs the move once. It
//! knows no clock and no link; stale events are dropped before they get here.

use crate::time::Monotonic;
use crate::view::{LifeState, ParkReason};

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// Not running: never started, or stopped because nobody used it. The next use starts it.
    Dormant,
    /// A connect task runs; `late` once the start limit has passed.
    Connecting {
        /// When the attempt began.
        since: Monotonic,
        /// The start limit has passed and it still lives.
        late: bool,
    },
    /// Handshake done.
    Ready {
        /// Since when.
        since: Monotonic,
    },
    /// Waits for the next attempt.
    BackingOff {
        /// When that is.
        until: Monotonic,
    },
    /// Finishes its calls, then stops.
    Draining,
    /// Not tried again by itself.
    Parked(ParkReason),
    /// Ended on purpose.
    Stopped,
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The entry is wrong: trying again on a timer won't help.
    Config,
    /// Credentials are wanted.
    NeedsAuth,
    /// Anything that may pass; the restart law said what comes next.
    Passing(Next),
}

/// The verdict of the restart law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again at that instant.
    At(Monotonic),
    /// The budget is spent.
    GiveUp,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It should run: host start, first use, `mcp start`.
    Wanted,
    /// The start limit passed.
    StartLimitPassed,
    /// Handshake done.
    Connected,
    /// The attempt failed.
    ConnectFailed(FaultKind),
    /// The connection ended unexpectedly.
    Lost(FaultKind),
    /// The wait of the back-off is over.
    BackoffPassed,
    /// A person, or a changed entry, wants a fresh start.
    RestartAsked,
    /// It should end.
    StopAsked,
    /// Nobody called it for as long as its entry allows (`idle_stop`).
    IdlePassed,
    /// The last call of a draining server ended, or the drain limit passed.
    Drained,
}

/// What the actor must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Begin a new generation and connect.
    Connect,
    /// Wake up at that instant with `BackoffPassed`.
    WakeAt(Monotonic),
    /// Let the waiting calls run.
    AdmitWaiting,
    /// Refuse the waiting calls: it won't become ready by itself.
    RefuseWaiting,
    /// End the connection or the attempt, and every timer.
    Disconnect,
}

impl Life {
    /// Takes one event at `now`; returns what to do, in order. An event that has no
    /// meaning in this state changes nothing.
    pub fn on(&mut self, event: Event, now: Monotonic) -> Vec<Action> {
        use Action::{AdmitWaiting, Disconnect, RefuseWaiting};
        match (*self, event) {
            (
                Self::Dormant | Self::BackingOff { .. } | Self::Parked(_) | Self::Stopped,
                Event::RestartAsked,
            )
            | (Self::Dormant, Event::Wanted)
            | (Self::BackingOff { .. }, Event::BackoffPassed) => self.connect(now, &[]),
            (Self::Connecting { .. } | Self::Ready { .. }, Event::RestartAsked) => {
                self.connect(now, &[Disconnect])
            }
            (Self::Connecting { since, .. }, Event::StartLimitPassed) => {
                *self = Self::Connecting { since, late: true };
                vec![]
            }
            (Self::Connecting { .. }, Event::Connected) => {
                *self = Self::Ready { since: now };
                vec![AdmitWaiting]
            }
            (Self::Connecting { .. }, Event::ConnectFailed(kind))
            | (Self::Ready { .. }, Event::Lost(kind)) => self.fail(kind),
            (Self::Draining, Event::Lost(_) | Event::ConnectFailed(_) | Event::Drained) => {
                *self = Self::Stopped;
                vec![Disconnect, RefuseWaiting]
            }
            (Self::Ready { .. } | Self::Connecting { .. }, Event::StopAsked) => {
                *self = Self::Draining;
                vec![RefuseWaiting]
            }
            // What it offers stays listed; the next call starts it again.
            (Self::Ready { .. }, Event::IdlePassed) => {
                *self = Self::Dormant;
                vec![Disconnect]
            }
            (Self::BackingOff { .. }, Event::StopAsked) => {
                *self = Self::Stopped;
                // Nothing is connected; the timer of the next attempt goes.
                vec![Disconnect, RefuseWaiting]
            }
            (Self::Dormant | Self::Parked(_), Event::StopAsked) => {
                *self = Self::Stopped;
                vec![RefuseWaiting]
            }
            (
                Self::Dormant
                | Self::Connecting { .. }
                | Self::Ready { .. }
                | Self::BackingOff { .. }
                | Self::Draining
                | Self::Parked(_)
                | Self::Stopped,
                _,
            ) => vec![],
        }
    }

    fn connect(&mut self, now: Monotonic, before: &[Action]) -> Vec<Action> {
        *self = Self::Connecting { since: now, late: false };
        let mut actions = before.to_vec();
        actions.push(Action::Connect);
        actions
    }

    fn fail(&mut self, kind: FaultKind) -> Vec<Action> {
        let (next, actions) = match kind {
            FaultKind::Config => (Self::Parked(ParkReason::ConfigError), vec![Action::RefuseWaiting]),
            FaultKind::NeedsAuth => (Self::Parked(ParkReason::NeedsAuth), vec![Action::RefuseWaiting]),
            FaultKind::Passing(Next::GiveUp) => {
                (Self::Parked(ParkReason::GivenUp), vec![Action::RefuseWaiting])
            }
            FaultKind::Passing(Next::At(until)) => (Self::BackingOff { until }, vec![Action::WakeAt(until)]),
        };
        *self = next;
        actions
    }

    /// The state as views show it.
    pub fn state(self) -> LifeState {
        match self {
            Self::Dormant => LifeState::Dormant,
            Self::Connecting { .. } => LifeState::Connecting,
            Self::Ready { .. } => LifeState::Ready,
            Self::BackingOff { .. } => LifeState::BackingOff,
            Self::Draining => LifeState::Draining,
            Self::Parked(reason) => LifeState::Parked(reason),
            Self::Stopped => LifeState::Stopped,
        }
    }

    /// What a call should do that arrives now.
    pub fn for_call(self) -> ForCall {
        match self {
            Self::Ready { .. } => ForCall::Run,
            Self::Dormant => ForCall::Start,
            Self::Connecting { .. } | Self::BackingOff { .. } => ForCall::Wait,
            Self::Draining | Self::Stopped => ForCall::Refuse(None),
            Self::Parked(reason) => ForCall::Refuse(Some(reason)),
        }
    }
}

/// What a call should do that arrives now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForCall {
    /// Go to the bulkhead.
    Run,
    /// Start the server, then wait.
    Start,
    /// Wait for it, up to the call's own deadline.
    Wait,
    /// Refuse; `None` means draining or stopped.
    Refuse(Option<ParkReason>),
}

#[cfg(test)]
mod explored;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    pub(super) fn base() -> Monotonic {
        Monotonic::base()
    }

    pub(super) fn events() -> Vec<Event> {
        let at = base() + Duration::from_secs(1);
        let kinds = [
            FaultKind::Config,
            FaultKind::NeedsAuth,
            FaultKind::Passing(Next::GiveUp),
            FaultKind::Passing(Next::At(at)),
        ];
        let mut all = vec![
            Event::Wanted,
            Event::StartLimitPassed,
            Event::Connected,
            Event::BackoffPassed,
            Event::RestartAsked,
            Event::StopAsked,
            Event::IdlePassed,
            Event::Drained,
        ];
        all.extend(kinds.map(Event::ConnectFailed));
        all.extend(kinds.map(Event::Lost));
        all
    }

    #[test]
    fn a_lost_connection_backs_off_and_connects_again() {
        let mut life = Life::Dormant;
        assert_eq!(life.on(Event::Wanted, base()), [Action::Connect]);
        assert_eq!(life.on(Event::Connected, base()), [Action::AdmitWaiting]);
        let until = base() + Duration::from_millis(500);
        assert_eq!(
            life.on(Event::Lost(FaultKind::Passing(Next::At(until))), base()),
            [Action::WakeAt(until)]
        );
        assert_eq!(life.for_call(), ForCall::Wait);
        assert_eq!(life.on(Event::BackoffPassed, until), [Action::Connect]);
    }

    #[test]
    fn config_errors_and_missing_credentials_park_without_a_timer() {
        for (kind, reason) in [
            (FaultKind::Config, ParkReason::ConfigError),
            (FaultKind::NeedsAuth, ParkReason::NeedsAuth),
            (FaultKind::Passing(Next::GiveUp), ParkReason::GivenUp),
        ] {
            let mut life = Life::Connecting { since: base(), late: false };
            assert_eq!(life.on(Event::ConnectFailed(kind), base()), [Action::RefuseWaiting]);
            assert_eq!(life, Life::Parked(reason));
            assert_eq!(life.on(Event::BackoffPassed, base()), [], "a stale timer starts nothing");
            assert_eq!(life.on(Event::RestartAsked, base()), [Action::Connect]);
        }
    }

    #[test]
    fn a_server_that_nobody_calls_is_stopped_and_the_next_use_starts_it() {
        let mut life = Life::Ready { since: base() };
        assert_eq!(life.on(Event::IdlePassed, base()), [Action::Disconnect]);
        assert_eq!((life, life.for_call()), (Life::Dormant, ForCall::Start));
        assert_eq!(life.on(Event::Lost(FaultKind::Config), base()), [], "its own end is no failure");
        assert_eq!(life.on(Event::Wanted, base()), [Action::Connect]);
    }

    #[test]
    fn late_is_not_failed() {
        let mut life = Life::Connecting { since: base(), late: false };
        assert_eq!(life.on(Event::StartLimitPassed, base()), []);
        assert_eq!(life, Life::Connecting { since: base(), late: true });
        assert_eq!(life.on(Event::Connected, base()), [Action::AdmitWaiting]);
    }

    #[test]
    fn a_stopped_server_starts_only_when_asked() {
        for event in events().into_iter().filter(|e| *e != Event::RestartAsked) {
            let mut life = Life::Stopped;
            assert_eq!(life.on(event, base()), [], "{event:?}");
            assert_eq!(life, Life::Stopped);
        }
    }

    proptest! {
        /// Whatever happens: an attempt begins only when none runs, and a back-off always has its timer.
        #[test]
        fn one_attempt_at_a_time_and_no_back_off_without_a_timer(
            steps in prop::collection::vec(0usize..16, 0..60)
        ) {
            let all = events();
            let mut life = Life::Dormant;
            for step in steps {
                let before = life;
                let actions = life.on(all[step % all.len()], base());
                if actions.contains(&Action::Connect) {
                    let running = matches!(before, Life::Connecting { .. } | Life::Ready { .. });
                    prop_assert_eq!(running, actions.contains(&Action::Disconnect));
                    let connecting = matches!(life, Life::Connecting { .. });
                    prop_assert!(connecting);
                }
                if let (Life::BackingOff { until }, false) = (life, matches!(before, Life::BackingOff { .. })) {
                    prop_assert!(actions.contains(&Action::WakeAt(until)));
                }
                if matches!(life, Life::Parked(_)) && !matches!(before, Life::Parked(_)) {
                    prop_assert!(actions.contains(&Action::RefuseWaiting));
                }
            }
        }
    }
}
