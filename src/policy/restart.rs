//! The restart law of one server: after an unexpected end, when to try again and when
//! to give up. A sliding window bounds the restarts; starts that never become ready
//! are counted apart, because slow ones would slip under the window. Being ready for a
//! while, with work done, pays all debts. Called by the server actor.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::backoff::Backoff;
use crate::config::spec::RestartSpec;
use crate::time::Monotonic;

/// How long a server must have been ready, with at least one completed request, for its debts to be paid.
pub const STABLE_AFTER: Duration = Duration::from_secs(60);
/// The shortest time between two starts of one server.
pub const STARTS_APART: Duration = Duration::from_millis(50);
/// A server that was given up is started for a call at most this often.
pub const DEMAND_APART: Duration = Duration::from_secs(60);

/// What the law says after an unexpected end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again at that instant.
    Again(Monotonic),
    /// Park it.
    GiveUp(Cause),
}

/// Why a server is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Too many restarts in the window.
    TooOften {
        /// How many there were.
        restarts: u32,
        /// The window.
        window: Duration,
    },
    /// Too many starts in a row that never became ready.
    NeverReady {
        /// How many there were.
        starts: u32,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOften { restarts, window } => {
                let restarts = if *restarts == 1 { "1 restart" } else { &format!("{restarts} restarts") };
                write!(f, "{restarts} within {}", humantime::format_duration(*window))
            }
            Self::NeverReady { starts: 1 } => write!(f, "1 start that never became ready"),
            Self::NeverReady { starts } => write!(f, "{starts} starts in a row that never became ready"),
        }
    }
}

/// Keeps the account of one server.
#[derive(Clone, Debug)]
pub struct RestartLaw {
    spec: RestartSpec,
    backoff: Backoff,
    /// When the restarts of the current window happened, or the last one is due, oldest first; at most
    /// `spec.max`.
    restarts: VecDeque<Monotonic>,
    /// Starts in a row that never became ready.
    unready: u32,
    last_start: Option<Monotonic>,
    phase: Phase,
    /// The verdict about the last incident, until the next start.
    pending: Option<Verdict>,
    was_ready: bool,
    /// Why it was given up, once it runs on demand: until its debts are paid, the next failure
    /// gives it up again for the same cause.
    on_demand: Option<Cause>,
    last_demand: Option<Monotonic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Down,
    Starting,
    Ready { since: Monotonic, worked: bool },
}

impl RestartLaw {
    /// An account without debts.
    pub fn new(spec: RestartSpec) -> Self {
        Self {
            spec,
            backoff: Backoff::new(spec.min_delay, spec.max_delay),
            restarts: VecDeque::new(),
            unready: 0,
            last_start: None,
            phase: Phase::Down,
            pending: None,
            was_ready: false,
            on_demand: None,
            last_demand: None,
        }
    }

    /// A start begins.
    pub fn started(&mut self, now: Monotonic) {
        // A restart counts from when it really happens: a timer may be late, a call may ask sooner.
        if let (Some(Verdict::Again(_)), Some(restart)) = (self.pending, self.restarts.back_mut()) {
            *restart = now;
        }
        self.last_start = Some(now);
        self.phase = Phase::Starting;
        self.pending = None;
    }

    /// The handshake is done.
    pub fn ready(&mut self, now: Monotonic) {
        self.phase = Phase::Ready { since: now, worked: false };
        self.unready = 0;
        self.was_ready = true;
    }

    /// A request was completed.
    pub fn completed(&mut self) {
        if let Phase::Ready { worked, .. } = &mut self.phase {
            *worked = true;
        }
    }

    /// The attempt failed, or the connection ended unexpectedly. One incident counts once: reported
    /// again without a start between, it gets the same verdict. `random` should be uniform over all
    /// of `u64`.
    pub fn failed(&mut self, now: Monotonic, random: u64) -> Verdict {
        let verdict = match self.pending {
            Some(verdict) => verdict,
            None => self.judge(now, random),
        };
        self.pending = Some(verdict);
        verdict
    }

    fn judge(&mut self, now: Monotonic, random: u64) -> Verdict {
        match self.phase {
            Phase::Ready { since, worked } if worked && now - since >= STABLE_AFTER => self.forgive(),
            Phase::Starting => self.unready = self.unready.saturating_add(1),
            Phase::Ready { .. } | Phase::Down => {}
        }
        self.phase = Phase::Down;
        if let Some(cause) = self.on_demand {
            return Verdict::GiveUp(cause);
        }
        while self.restarts.front().is_some_and(|due| now - *due >= self.spec.window) {
            self.restarts.pop_front();
        }
        let max = self.spec.max;
        if max > 0 {
            let restarts = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
            if restarts >= max {
                return Verdict::GiveUp(Cause::TooOften { restarts, window: self.spec.window });
            }
            if self.unready >= max {
                return Verdict::GiveUp(Cause::NeverReady { starts: self.unready });
            }
        }
        let mut due = now + self.backoff.next(random);
        if let Some(last) = self.last_start {
            due = due.max(last + STARTS_APART);
        }
        if max > 0 {
            self.restarts.push_back(due);
        }
        Verdict::Again(due)
    }

    /// A person, a reload or a changed entry wants a fresh start: all debts are forgiven.
    pub fn forgive(&mut self) {
        self.backoff.reset();
        self.restarts.clear();
        self.unready = 0;
        self.pending = None;
        self.on_demand = None;
    }

    /// A call wants a server that was given up. Only one that was ready before is tried, at most
    /// once a minute; `Err` is the time to wait, `None` for never.
    pub fn demanded(&mut self, now: Monotonic) -> Result<(), Option<Duration>> {
        if !self.was_ready {
            return Err(None);
        }
        if let Some(wait) = self.last_demand.map(|last| DEMAND_APART.saturating_sub(now - last))
            && !wait.is_zero()
        {
            return Err(Some(wait));
        }
        self.last_demand = Some(now);
        // The attempt must not open a new budget.
        if let Some(Verdict::GiveUp(cause)) = self.pending {
            self.on_demand = Some(cause);
        }
        Ok(())
    }
}

#[cfg(test)]
mod explored;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Restarts that count at `now`.
    fn in_window(law: &RestartLaw, now: Monotonic) -> usize {
        law.restarts.iter().filter(|at| now - **at < law.spec.window).count()
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn spec(max: u32) -> RestartSpec {
        RestartSpec { max, window: ms(60_000), min_delay: ms(500), max_delay: ms(60_000) }
    }

    fn at(n: u64) -> Monotonic {
        Monotonic::base() + ms(n)
    }

    fn again(verdict: Verdict) -> Monotonic {
        match verdict {
            Verdict::Again(due) => due,
            Verdict::GiveUp(cause) => panic!("gave up: {cause}"),
        }
    }

    /// Starts, becomes ready after `ready` ms, ends after `life` ms more.
    fn live(
        law: &mut RestartLaw,
        start: Monotonic,
        ready: u64,
        life: u64,
        worked: bool,
    ) -> (Monotonic, Verdict) {
        law.started(start);
        let up = start + ms(ready);
        law.ready(up);
        if worked {
            law.completed();
        }
        let end = up + ms(life);
        (end, law.failed(end, 0))
    }

    #[test]
    fn first_restart_is_at_once_but_never_sooner_than_starts_may_be_apart() {
        let mut law = RestartLaw::new(spec(5));
        let (end, verdict) = live(&mut law, at(0), 100, 10, false);
        assert_eq!(again(verdict), end);
        let mut law = RestartLaw::new(spec(5));
        let (_, verdict) = live(&mut law, at(0), 1, 1, false);
        assert_eq!(again(verdict), at(50));
    }

    #[test]
    fn six_starts_and_the_next_unexpected_end_parks() {
        let mut law = RestartLaw::new(spec(5));
        let mut start = at(0);
        for _ in 0..5 {
            start = again(live(&mut law, start, 20, 5, true).1);
        }
        let (_, verdict) = live(&mut law, start, 20, 5, true);
        assert_eq!(verdict, Verdict::GiveUp(Cause::TooOften { restarts: 5, window: ms(60_000) }));
        law.forgive();
        assert!(matches!(live(&mut law, start + ms(60_000), 20, 5, true).1, Verdict::Again(_)));
    }

    #[test]
    fn five_hanging_starts_in_a_row_park_although_the_window_never_fills() {
        let mut law = RestartLaw::new(spec(5));
        let mut start = at(0);
        for n in 1..=5 {
            law.started(start);
            let end = start + ms(120_000);
            let verdict = law.failed(end, u64::MAX);
            assert!(in_window(&law, end) <= 1);
            match n {
                5 => assert_eq!(verdict, Verdict::GiveUp(Cause::NeverReady { starts: 5 })),
                _ => start = again(verdict),
            }
        }
    }

    #[test]
    fn window_slides_to_the_millisecond() {
        for (age, gives_up) in [(59_999, true), (60_000, false), (60_001, false)] {
            let mut law = RestartLaw::new(spec(1));
            let first = again(live(&mut law, at(0), 100, 0, true).1);
            law.started(first);
            law.ready(first);
            let verdict = law.failed(first + ms(age), 0);
            assert_eq!(matches!(verdict, Verdict::GiveUp(_)), gives_up, "{age}");
        }
    }

    #[test]
    fn debts_are_paid_by_sixty_ready_seconds_with_work_and_by_nothing_less() {
        for (life, worked, paid) in
            [(59_999, true, false), (60_000, true, true), (60_001, true, true), (600_000, false, false)]
        {
            let mut law = RestartLaw::new(spec(5));
            let start = again(live(&mut law, at(0), 100, 0, true).1);
            let start = again(live(&mut law, start, 100, 0, true).1);
            let (end, verdict) = live(&mut law, start, 100, life, worked);
            assert_eq!(again(verdict) == end, paid, "{life} {worked}: at once again only when paid");
        }
    }

    #[test]
    fn reconnecting_alone_pays_nothing() {
        let mut law = RestartLaw::new(spec(0));
        let mut start = at(0);
        let mut delays = Vec::new();
        for _ in 0..4 {
            let (end, verdict) = live(&mut law, start, 100, 100, true);
            start = again(verdict);
            delays.push((start - end).as_millis());
        }
        assert_eq!(delays, [0, 250, 500, 1000]);
    }

    #[test]
    fn zero_means_unlimited() {
        let mut law = RestartLaw::new(spec(0));
        let mut start = at(0);
        for _ in 0..1000 {
            law.started(start);
            start = again(law.failed(start + ms(1), 0));
        }
        assert_eq!(in_window(&law, start), 0, "nothing is kept that is never asked");
    }

    #[test]
    fn one_incident_counts_once() {
        let mut law = RestartLaw::new(spec(5));
        law.started(at(0));
        let verdict = law.failed(at(100), 0);
        assert_eq!(law.failed(at(300), 7), verdict);
        assert_eq!((law.unready, in_window(&law, at(300))), (1, 1), "no start between: no second incident");
        law.started(again(verdict));
        assert_ne!(law.failed(at(400), 0), verdict);
    }

    #[test]
    fn call_may_revive_what_was_ready_once_a_minute() {
        let mut law = RestartLaw::new(spec(2));
        assert_eq!(law.demanded(at(0)), Err(None));
        let mut start = at(0);
        while let Verdict::Again(due) = live(&mut law, start, 100, 0, false).1 {
            start = due;
        }
        let now = start + ms(200_000);
        assert_eq!(law.demanded(now), Ok(()));
        assert_eq!(law.demanded(now + ms(59_999)), Err(Some(ms(1))));
        law.started(now);
        assert!(matches!(law.failed(now + ms(5), 0), Verdict::GiveUp(_)), "one attempt, no new budget");
        assert_eq!(law.demanded(now + ms(60_000)), Ok(()));
        law.started(now + ms(60_000));
        law.ready(now + ms(60_100));
        assert!(
            matches!(law.failed(now + ms(61_000), 0), Verdict::GiveUp(_)),
            "coming up alone pays nothing: else a server that crashes at once would be started for ever"
        );
        assert_eq!(law.demanded(now + ms(120_000)), Ok(()));
        law.started(now + ms(120_000));
        law.ready(now + ms(120_100));
        law.completed();
        assert!(
            matches!(law.failed(now + ms(180_100), 0), Verdict::Again(_)),
            "a minute ready with work done pays all: the ordinary law again"
        );
    }

    #[test]
    fn causes_are_told_in_words() {
        let often = Cause::TooOften { restarts: 5, window: ms(60_000) };
        assert_eq!(often.to_string(), "5 restarts within 1m");
        assert_eq!(Cause::NeverReady { starts: 1 }.to_string(), "1 start that never became ready");
        let window = ms(60_000);
        assert_eq!(Cause::TooOften { restarts: 1, window }.to_string(), "1 restart within 1m");
        assert_eq!(Cause::NeverReady { starts: 5 }.to_string(), "5 starts in a row that never became ready");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]
        #[test]
        fn law_holds_for_every_history(
            max in 0u32..7,
            lives in proptest::collection::vec((proptest::option::of(0u64..70_000), 0u64..130_000, any::<bool>(), any::<u64>()), 1..40),
        ) {
            let mut law = RestartLaw::new(spec(max));
            let mut starts = vec![at(0)];
            // Instants up to which debts were paid: windows do not reach across them.
            let mut paid = at(0);
            for (ready, life, worked, random) in lives {
                let start = starts[starts.len() - 1];
                law.started(start);
                let mut end = start + ms(life);
                let mut is_paid = false;
                if let Some(ready) = ready {
                    law.ready(start + ms(ready));
                    if worked {
                        law.completed();
                    }
                    end = start + ms(ready + life);
                    is_paid = worked && life >= 60_000;
                }
                if is_paid {
                    paid = end;
                }
                match law.failed(end, random) {
                    Verdict::Again(due) => {
                        prop_assert!(due >= end && due - end <= ms(60_050), "delay within its cap");
                        prop_assert!(due - start >= STARTS_APART);
                        prop_assert!(!is_paid || due == end.max(start + STARTS_APART));
                        starts.push(due);
                        let restarts = starts[1..].iter().filter(|s| **s >= paid && due - **s < ms(60_000) && **s <= due).count();
                        prop_assert!(max == 0 || restarts <= max as usize, "{restarts} restarts in a window");
                        prop_assert!(law.restarts.len() <= max as usize);
                    }
                    Verdict::GiveUp(_) => {
                        prop_assert!(max > 0 && !is_paid);
                        return Ok(());
                    }
                }
            }
        }

        #[test]
        fn fast_crasher_always_reaches_the_end(life in 0u64..5_000, random in any::<u64>()) {
            let mut law = RestartLaw::new(spec(5));
            let mut start = at(0);
            for _ in 0..5 {
                start = again(live(&mut law, start, 10, life, true).1);
            }
            prop_assert!(matches!(live(&mut law, start, 10, life, true).1, Verdict::GiveUp(_)), "{random}");
        }
    }
}
