//! Floor 1. When one list of one server is read again: after its `list_changed`, and by the
//! poll. Notifications are gathered, reads keep their distance, and a server that announces
//! changes without changing anything is asked less and less often. Called by the server actor.

use std::time::Duration;

use crate::time::Monotonic;

/// Notifications within this time after one cost a single read.
pub const REFRESH_DEBOUNCE: Duration = Duration::from_millis(250);
/// Least time between two reads of one list.
pub const REFRESH_GAP_MIN: Duration = Duration::from_secs(1);
/// Longest distance that reads without a change grow to.
pub const REFRESH_GAP_MAX: Duration = Duration::from_secs(60);

/// What is under way for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing.
    Still,
    /// A read is due, and a timer is set for it.
    Due,
    /// It is being read.
    Reading {
        /// Who wanted it.
        why: Why,
        /// It was announced as changed meanwhile.
        again: Again,
    },
}

/// Whether another read follows the one under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Again {
    No,
    Yes,
}

/// Why a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The connection is new.
    First,
    /// The server said that it changed.
    Notified,
    /// Its turn came.
    Polled,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// Something else than was known.
    Changed,
    /// What was known, or nothing because it failed.
    Nothing,
}

/// The refresh of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refresh {
    phase: Phase,
    /// When it was last asked for.
    asked: Option<Monotonic>,
    /// How far reads keep apart.
    gap: Duration,
}

impl Default for Refresh {
    fn default() -> Self {
        Self { phase: Phase::Still, asked: None, gap: REFRESH_GAP_MIN }
    }
}

impl Refresh {
    /// The list is asked for now, because the connection is new.
    pub fn first(&mut self, now: Monotonic) {
        *self = Self { phase: reading(Why::First), asked: Some(now), gap: self.gap };
    }

    /// The server says that the list changed. Returns when to wake up and read it; `None` when
    /// that is seen to already.
    pub fn notified(&mut self, now: Monotonic) -> Option<Monotonic> {
        match self.phase {
            Phase::Still => Some(self.due(now)),
            Phase::Due => None,
            Phase::Reading { why, .. } => {
                self.phase = Phase::Reading { why, again: Again::Yes };
                None
            }
        }
    }

    /// The timer ran out: whether to read now.
    pub fn woke(&mut self, now: Monotonic) -> bool {
        let due = self.phase == Phase::Due;
        if due {
            self.phase = reading(Why::Notified);
            self.asked = Some(now);
        }
        due
    }

    /// The turn of the poll came: whether to read now. Never while a read is due or under way.
    pub fn polled(&mut self, now: Monotonic) -> bool {
        let free = self.phase == Phase::Still;
        if free {
            self.phase = reading(Why::Polled);
            self.asked = Some(now);
        }
        free
    }

    /// A read ended. Returns when to wake up for the next one, if the list was announced as
    /// changed meanwhile.
    pub fn ended(&mut self, found: Found, now: Monotonic) -> Option<Monotonic> {
        let Phase::Reading { why, again } = self.phase else { return None };
        self.gap = match (found, why) {
            (Found::Changed, _) => REFRESH_GAP_MIN,
            (Found::Nothing, Why::Notified) => (self.gap * 2).min(REFRESH_GAP_MAX),
            (Found::Nothing, Why::First | Why::Polled) => self.gap,
        };
        self.phase = Phase::Still;
        (again == Again::Yes).then(|| self.due(now))
    }

    /// The connection is gone: nothing is due or under way. What was learned about the server stays.
    pub fn dropped(&mut self) {
        self.phase = Phase::Still;
    }

    fn due(&mut self, now: Monotonic) -> Monotonic {
        self.phase = Phase::Due;
        let quiet = |asked: Monotonic| now >= asked + self.gap + REFRESH_DEBOUNCE;
        // Who was silent that long is no storm.
        if self.asked.is_none_or(quiet) {
            self.gap = REFRESH_GAP_MIN;
        }
        let soonest = self.asked.map_or(now, |asked| asked + self.gap);
        soonest.max(now + REFRESH_DEBOUNCE)
    }
}

fn reading(why: Why) -> Phase {
    Phase::Reading { why, again: Again::No }
}

/// How long until the next poll of a server. The first one falls anywhere in the second half of
/// the interval, so that servers which started together are not asked together; `random` is
/// uniform over all of `u64`. Later ones keep the distance.
pub fn poll_delay(interval: Duration, random: Option<u64>) -> Duration {
    let Some(random) = random else { return interval };
    let half = interval / 2;
    let part = u32::try_from(random >> 48).unwrap_or_default();
    half + (interval - half) * part / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::explore::explore;

    fn at(ms: u64) -> Monotonic {
        Monotonic::base() + Duration::from_millis(ms)
    }

    /// Drives a list whose reads take no time; returns when it was read.
    struct Drive {
        refresh: Refresh,
        timer: Option<Monotonic>,
        reads: Vec<Monotonic>,
    }

    impl Drive {
        fn new() -> Self {
            let mut refresh = Refresh::default();
            refresh.first(at(0));
            assert_eq!(refresh.ended(Found::Changed, at(0)), None);
            Self { refresh, timer: None, reads: Vec::new() }
        }

        fn notify(&mut self, now: Monotonic) {
            self.timer = self.timer.or(self.refresh.notified(now));
        }

        fn until(&mut self, now: Monotonic, found: Found) {
            while let Some(due) = self.timer.filter(|due| *due <= now) {
                assert!(self.refresh.woke(due));
                self.reads.push(due);
                self.timer = self.refresh.ended(found, due);
            }
        }
    }

    #[test]
    fn a_burst_costs_one_read_and_the_next_one_keeps_its_distance() {
        let mut drive = Drive::new();
        for ms in 2_000..2_200 {
            drive.notify(at(ms));
            drive.until(at(ms), Found::Changed);
        }
        drive.until(at(9_000), Found::Changed);
        assert_eq!(drive.reads, [at(2_250)]);
        drive.notify(at(9_000));
        drive.until(at(9_250), Found::Changed);
        drive.notify(at(9_300));
        drive.until(at(20_000), Found::Changed);
        assert_eq!(drive.reads[1..], [at(9_250), at(10_250)]);
    }

    #[test]
    fn a_storm_without_a_change_is_asked_less_and_less_often() {
        let mut drive = Drive::new();
        for ms in (2_000..602_000).step_by(5) {
            drive.notify(at(ms));
            drive.until(at(ms), Found::Nothing);
        }
        let gaps: Vec<u64> =
            drive.reads.windows(2).map(|pair| pair[1].since(pair[0]).as_millis() as u64).collect();
        assert_eq!(gaps[..6], [2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
        assert!(gaps[6..].iter().all(|gap| *gap == 60_000), "{gaps:?}");
    }

    #[test]
    fn a_list_that_is_announced_after_every_read_does_not_become_a_loop() {
        let mut drive = Drive::new();
        let mut now = at(0);
        for _ in 0..12 {
            drive.notify(now);
            now = drive.timer.expect("a read is due");
            drive.until(now, Found::Nothing);
        }
        assert!(drive.reads[11].since(drive.reads[0]) > Duration::from_secs(300), "{:?}", drive.reads);
    }

    #[test]
    fn a_real_change_and_a_quiet_time_bring_the_short_distance_back() {
        for calmed in [false, true] {
            let mut drive = Drive::new();
            for ms in (2_000..40_000).step_by(100) {
                drive.notify(at(ms));
                drive.until(at(ms), Found::Nothing);
            }
            let began = if calmed {
                drive.timer = None;
                drive.refresh.dropped();
                at(400_000)
            } else {
                let due = drive.timer.expect("a read is due");
                drive.until(due, Found::Changed);
                due
            };
            let before = drive.reads.len();
            drive.notify(began + Duration::from_millis(10));
            drive.until(began + Duration::from_secs(2), Found::Changed);
            assert_eq!(drive.reads.len(), before + 1, "calmed: {calmed}");
        }
    }

    #[test]
    fn an_announcement_during_a_read_is_never_lost() {
        let mut refresh = Refresh::default();
        refresh.first(at(0));
        assert_eq!(refresh.notified(at(100)), None);
        assert!(!refresh.polled(at(150)), "one read at a time");
        assert_eq!(refresh.ended(Found::Changed, at(200)), Some(at(1_000)));
        assert_eq!(refresh.notified(at(300)), None, "it is due already");
        assert!(!refresh.polled(at(300)));
        assert!(refresh.woke(at(1_000)));
        assert_eq!(refresh.ended(Found::Changed, at(1_001)), None);
        assert!(!refresh.woke(at(1_002)), "a stale timer reads nothing");
        assert!(refresh.polled(at(1_003)));
    }

    #[test]
    fn a_poll_that_finds_nothing_changes_nothing() {
        let mut refresh = Refresh::default();
        refresh.first(at(0));
        refresh.ended(Found::Changed, at(0));
        for minute in 1..50 {
            assert!(refresh.polled(at(minute * 60_000)));
            assert_eq!(refresh.ended(Found::Nothing, at(minute * 60_000)), None);
        }
        assert_eq!(refresh.gap, REFRESH_GAP_MIN);
    }

    #[test]
    fn polls_of_servers_that_started_together_are_spread_over_half_the_interval() {
        let minute = Duration::from_secs(60);
        assert_eq!(poll_delay(minute, Some(0)), minute / 2);
        assert_eq!(poll_delay(minute, Some(u64::MAX)), minute);
        assert_eq!(poll_delay(minute, None), minute);
        let mut slots = [0; 6];
        for server in 0..200u64 {
            let delay = poll_delay(minute, Some(server.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            slots[((delay - minute / 2).as_secs() / 5).min(5) as usize] += 1;
        }
        assert!(slots.iter().all(|count| (20..50).contains(count)), "{slots:?}");
    }

    #[derive(Debug)]
    enum Step {
        First,
        Notified,
        Woke,
        Polled,
        Changed,
        Nothing,
        Dropped,
    }

    /// Over every order of events at two instants: a read is under way at most once, a due one has
    /// its timer, and no announcement is lost.
    #[test]
    fn every_order_of_events_keeps_one_read_and_loses_no_announcement() {
        let steps = [
            Step::First,
            Step::Notified,
            Step::Woke,
            Step::Polled,
            Step::Changed,
            Step::Nothing,
            Step::Dropped,
        ];
        // The machine, whether its timer is set, and whether an announcement waits for a read.
        let first = (Refresh::default(), false, false);
        let now = at(5_000);
        let explored = explore(
            first,
            &steps,
            |state, step| {
                let (mut refresh, mut timer, mut owed) = *state;
                let is_reading = matches!(refresh.phase, Phase::Reading { .. });
                match step {
                    Step::First if !is_reading => {
                        refresh.first(now);
                        (timer, owed) = (false, false);
                    }
                    Step::First => return None,
                    Step::Notified => {
                        timer |= refresh.notified(now).is_some();
                        owed = true;
                    }
                    Step::Woke if timer => {
                        timer = false;
                        assert!(refresh.woke(now), "a timer is set only for a due read");
                        owed = false;
                    }
                    Step::Woke => assert!(!refresh.clone().woke(now)),
                    Step::Polled => {
                        if refresh.polled(now) {
                            assert!(!is_reading && !timer);
                        }
                    }
                    Step::Changed | Step::Nothing if !is_reading => return None,
                    Step::Changed => timer |= refresh.ended(Found::Changed, now).is_some(),
                    Step::Nothing => timer |= refresh.ended(Found::Nothing, now).is_some(),
                    Step::Dropped => {
                        refresh.dropped();
                        (timer, owed) = (false, false);
                    }
                }
                Some((refresh, timer, owed))
            },
            |_, step, (refresh, timer, owed)| {
                assert_eq!(refresh.phase == Phase::Due, *timer, "{step:?}");
                let again = matches!(refresh.phase, Phase::Reading { again: Again::Yes, .. });
                assert!(!owed || *timer || again, "{step:?}: an announcement was lost");
                assert!(refresh.gap >= REFRESH_GAP_MIN && refresh.gap <= REFRESH_GAP_MAX);
            },
        );
        assert!(explored.states > 20, "{explored:?}");
    }
}
