//! Floor 2. What a guard does when: a pure machine. The keeper feeds it and performs what it
//! says. Takes the time as an argument.

use std::time::Duration;

use super::wire::Step;
use crate::time::Monotonic;

/// Between TERM and KILL when nobody is there to decide: the host is gone, or the server left
/// and this is what it left behind.
pub(super) const GRACE: Duration = Duration::from_millis(200);
/// The same after an ordered TERM: by then the host has said KILL, if it is still there.
const ORDERED: Duration = Duration::from_secs(2);
/// Between looks at a tree that is on its way out.
const LOOK: Duration = Duration::from_millis(5);
/// The same for one that KILL has not ended in a while: the kernel holds it.
const SLOW_LOOK: Duration = Duration::from_millis(250);
/// What a while is.
const KILL_SOON: Duration = Duration::from_secs(2);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The control socket ended: whatever became of the host, it is gone.
    HostGone,
    /// The server is no more; its tree may be.
    ServerEnded,
    /// The host says.
    Asked(Step),
    /// Somebody sent this guard TERM, INT, HUP or QUIT.
    Signalled,
    /// Time passed.
    Looked,
}

/// What to do to the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing now.
    Wait,
    /// TERM, once for each process.
    Term,
    /// KILL.
    Kill,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The server runs.
    Keeping,
    /// The server runs, and the host has had the whole tree told to leave.
    Told { at: Monotonic },
    /// The server or the host is gone, and the tree was told to leave.
    Ending { kill_at: Monotonic },
    /// The tree is being killed.
    Killing { since: Monotonic },
}

impl Course {
    /// Takes one event.
    pub(super) fn on(&mut self, event: Event, now: Monotonic) -> Act {
        match (*self, event) {
            (Self::Killing { .. }, _) => Act::Kill,
            (_, Event::Asked(Step::Kill)) => {
                *self = Self::Killing { since: now };
                Act::Kill
            }
            (Self::Keeping, Event::HostGone | Event::ServerEnded | Event::Signalled)
            | (Self::Told { .. }, Event::HostGone | Event::Signalled) => {
                *self = Self::Ending { kill_at: now + GRACE };
                Act::Term
            }
            // A launcher goes at once; what it launched has the time that it was given.
            (Self::Told { at }, Event::ServerEnded) => {
                *self = Self::Ending { kill_at: (at + ORDERED).max(now + GRACE) };
                Act::Term
            }
            (Self::Keeping, Event::Asked(Step::Term)) => {
                *self = Self::Told { at: now };
                Act::Term
            }
            (_, Event::Asked(Step::Term)) => Act::Term,
            (Self::Ending { kill_at }, _) if now >= kill_at => {
                *self = Self::Killing { since: now };
                Act::Kill
            }
            (Self::Ending { kill_at }, Event::HostGone | Event::Signalled) => {
                *self = Self::Ending { kill_at: kill_at.min(now + GRACE) };
                Act::Wait
            }
            (Self::Ending { .. }, _) | (Self::Keeping | Self::Told { .. }, Event::Looked) => Act::Wait,
        }
    }

    /// Whether the guard leaves as soon as its tree is empty.
    pub(super) fn is_ending(self) -> bool {
        !matches!(self, Self::Keeping | Self::Told { .. })
    }

    /// When to look again if nothing happens; `None`: not before something does.
    pub(super) fn look(self, now: Monotonic) -> Option<Duration> {
        match self {
            Self::Keeping | Self::Told { .. } => None,
            Self::Killing { since } if now.since(since) >= KILL_SOON => Some(SLOW_LOOK),
            Self::Ending { .. } | Self::Killing { .. } => Some(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::base() + Duration::from_millis(ms)
    }

    #[test]
    fn every_end_is_term_then_kill_after_the_grace_and_not_before() {
        for end in [Event::HostGone, Event::ServerEnded, Event::Signalled] {
            let mut course = Course::Keeping;
            assert_eq!(course.on(Event::Looked, at(0)), Act::Wait);
            assert!(!course.is_ending() && course.look(at(0)).is_none());
            assert_eq!(course.on(end, at(10)), Act::Term);
            assert!(course.is_ending());
            assert_eq!(course.on(Event::Looked, at(209)), Act::Wait);
            assert_eq!(course.on(Event::Looked, at(210)), Act::Kill);
            assert_eq!(course.on(Event::Looked, at(211)), Act::Kill);
            assert_eq!(course.look(at(2209)), Some(LOOK));
            assert_eq!(
                course.look(at(2210)),
                Some(SLOW_LOOK),
                "it does not burn time for what can't be ended"
            );
        }
    }

    #[test]
    fn a_second_end_does_not_lengthen_the_grace() {
        let mut course = Course::Keeping;
        course.on(Event::HostGone, at(0));
        for event in [Event::ServerEnded, Event::Signalled, Event::HostGone] {
            assert_eq!(course.on(event, at(150)), Act::Wait);
        }
        assert_eq!(course.on(Event::Looked, at(200)), Act::Kill);
    }

    #[test]
    fn the_host_decides_about_the_steps_while_it_is_there() {
        let mut course = Course::Keeping;
        assert_eq!(course.on(Event::Asked(Step::Term), at(0)), Act::Term);
        assert!(!course.is_ending(), "the host says when it has waited long enough");
        assert_eq!(course.on(Event::Looked, at(60_000)), Act::Wait);
        assert_eq!(course.on(Event::Asked(Step::Kill), at(60_001)), Act::Kill);
        assert!(course.is_ending());
        assert_eq!(course.on(Event::Looked, at(60_002)), Act::Kill);
    }

    #[test]
    fn what_a_launcher_leaves_after_an_ordered_term_has_its_two_seconds() {
        let told = || {
            let mut course = Course::Keeping;
            course.on(Event::Asked(Step::Term), at(0));
            assert_eq!(course.on(Event::ServerEnded, at(10)), Act::Term, "for those that came since");
            course
        };
        let mut course = told();
        assert_eq!(course.on(Event::Looked, at(1999)), Act::Wait);
        assert_eq!(course.on(Event::Looked, at(2000)), Act::Kill);
        let mut course = told();
        assert_eq!(course.on(Event::HostGone, at(100)), Act::Wait);
        assert_eq!(course.on(Event::Looked, at(299)), Act::Wait);
        assert_eq!(course.on(Event::Looked, at(300)), Act::Kill, "without a host it is the grace");
        let mut late = Course::Told { at: at(0) };
        late.on(Event::ServerEnded, at(5000));
        assert_eq!(late.on(Event::Looked, at(5199)), Act::Wait);
        assert_eq!(late.on(Event::Looked, at(5200)), Act::Kill);
    }
}
