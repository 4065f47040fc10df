//! How long to wait before the next attempt: at once, then a delay that doubles up to
//! a cap, with jitter. The randomness is passed in. Called by `restart`.

use std::time::Duration;

/// Delays of one server, growing until they are reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    step: u32,
}

impl Backoff {
    /// Begins at once; the second delay is `min`, none is longer than `max` (`min` wins if it is longer).
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), step: 0 }
    }

    /// The next delay: zero the first time, then `d = min × 2ⁿ` capped at `max`, uniform in `[d/2, d]`
    /// by `random`, which should be uniform over all of `u64`.
    pub fn next(&mut self, random: u64) -> Duration {
        let Some(doublings) = self.step.checked_sub(1) else {
            self.step = 1;
            return Duration::ZERO;
        };
        self.step = self.step.saturating_add(1);
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let delay = self.min.saturating_mul(factor).min(self.max);
        let half = delay / 2;
        // Nanoseconds of an hour and more fit far below 2⁶³; the product needs the wider type.
        let span = (delay - half).as_nanos();
        let jitter = (span * u128::from(random)) >> 64;
        half + Duration::from_nanos(u64::try_from(jitter).unwrap_or(u64::MAX))
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        self.step = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn first_is_at_once_then_doubling_up_to_the_cap() {
        let mut backoff = Backoff::new(ms(500), ms(60_000));
        let longest: Vec<_> = (0..10).map(|_| backoff.next(u64::MAX).as_millis()).collect();
        assert_eq!(longest, [0, 499, 999, 1999, 3999, 7999, 15_999, 31_999, 59_999, 59_999]);
        backoff.reset();
        let shortest: Vec<_> = (0..5).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(shortest, [0, 250, 500, 1000, 2000]);
    }

    #[test]
    fn first_five_delays_let_a_fast_crasher_reach_the_limit_within_the_window() {
        let sum = |random| {
            let mut backoff = Backoff::new(ms(500), ms(60_000));
            (0..5).map(|_| backoff.next(random)).sum::<Duration>()
        };
        assert!(sum(0) >= ms(3_750) && sum(u64::MAX) <= ms(7_500));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]
        #[test]
        fn delay_stays_in_its_upper_half_and_never_overflows(
            min in 1u64..1_000_000, max in 1u64..10_000_000_000, steps in 1usize..80, random in any::<u64>(),
        ) {
            let mut backoff = Backoff::new(ms(min), ms(max));
            prop_assert_eq!(backoff.next(random), Duration::ZERO);
            let mut full = ms(min);
            for _ in 0..steps {
                let delay = backoff.next(random);
                prop_assert!(delay >= full / 2 && delay <= full, "{delay:?} of {full:?}");
                full = full.saturating_mul(2).min(ms(max).max(ms(min)));
            }
        }

        #[test]
        fn jitter_follows_the_random_value(a in any::<u64>(), b in any::<u64>()) {
            let delay = |random| {
                let mut backoff = Backoff::new(ms(500), ms(60_000));
                backoff.next(random);
                backoff.next(random)
            };
            prop_assert_eq!(a <= b, delay(a) <= delay(b) || delay(a) == delay(b));
        }
    }
}
