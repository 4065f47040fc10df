//! Floor 1. A server that asks to be left alone for a while (HTTP 429, or 503 with
//! `Retry-After`): until when it is, and what becomes of a call meanwhile. Neither a fault nor
//! a sign of health. Kept by the server actor.

use std::time::Duration;

use crate::time::Monotonic;

/// The longest pause that a server can impose.
pub const PAUSE_MAX: Duration = Duration::from_secs(300);

/// The pause of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    until: Option<Monotonic>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No pause: it takes the usual way.
    Go,
    /// It waits for the end of the pause.
    Wait,
    /// The pause ends after its deadline: it is refused, with the time that is left.
    Refuse(Duration),
}

impl Pause {
    /// The server asks to wait this long, from `now` on. The later end counts: an answer that
    /// was under way for longer does not shorten the pause. Gives its end.
    pub fn asked(&mut self, now: Monotonic, wait: Duration) -> Monotonic {
        let end = now + wait.min(PAUSE_MAX);
        let end = self.until.map_or(end, |until| until.max(end));
        self.until = Some(end);
        end
    }

    /// Ends the pause: somebody wants the server now.
    pub fn lift(&mut self) {
        self.until = None;
    }

    /// The end of the pause, if it lasts at `now`.
    pub fn end(&self, now: Monotonic) -> Option<Monotonic> {
        self.until.filter(|until| *until > now)
    }

    /// What becomes of a call with this deadline.
    pub fn verdict(&self, now: Monotonic, deadline: Monotonic) -> Verdict {
        match self.end(now) {
            None => Verdict::Go,
            Some(end) if end < deadline => Verdict::Wait,
            Some(end) => Verdict::Refuse(end.since(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::base() + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn calls_wait_for_the_end_of_a_pause_or_are_refused_when_it_comes_too_late() {
        let mut pause = Pause::default();
        assert_eq!(pause.verdict(at(0), at(1)), Verdict::Go);
        assert_eq!(pause.asked(at(0), ms(1_000)), at(1_000));
        assert_eq!(pause.verdict(at(400), at(1_001)), Verdict::Wait);
        assert_eq!(pause.verdict(at(400), at(1_000)), Verdict::Refuse(ms(600)));
        assert_eq!(pause.verdict(at(999), at(999)), Verdict::Refuse(ms(1)));
        assert_eq!(pause.verdict(at(1_000), at(1_000)), Verdict::Go);
    }

    #[test]
    fn a_pause_is_never_shortened_by_the_server_nor_longer_than_five_minutes_from_now() {
        let mut pause = Pause::default();
        assert_eq!(pause.asked(at(0), ms(9_000)), at(9_000));
        assert_eq!(pause.asked(at(1_000), ms(1_000)), at(9_000));
        assert_eq!(pause.asked(at(2_000), ms(86_400_000)), at(302_000));
        pause.lift();
        assert_eq!(pause.end(at(2_000)), None);
        assert_eq!(pause.asked(at(3_000), ms(1)), at(3_001));
    }

    proptest! {
        #[test]
        fn nobody_is_let_through_before_the_end_and_nobody_waits_beyond_the_deadline(
            asked in proptest::collection::vec((0u64..1_000, 0u64..400_000), 0..20),
            deadline in 0u64..900_000,
        ) {
            let (mut pause, mut now, mut end) = (Pause::default(), 0, 0);
            for (step, wait) in asked {
                now += step;
                pause.asked(at(now), ms(wait));
                end = end.max(now + wait.min(300_000));
                let want = match () {
                    () if end <= now => Verdict::Go,
                    () if end < now + deadline => Verdict::Wait,
                    () => Verdict::Refuse(ms(end - now)),
                };
                prop_assert_eq!(pause.verdict(at(now), at(now + deadline)), want);
            }
        }
    }
}
