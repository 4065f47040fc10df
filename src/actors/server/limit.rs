//! The rate limit of one server (`rate` in its entry), or of one client of the host: governor's GCRA on our clock,
//! so that it follows a paused clock in tests.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::config::spec::Rate;
use crate::time::Monotonic;

#[derive(Clone, Debug)]
struct HouseClock;

impl Clock for HouseClock {
    type Instant = std::time::Instant;

    fn now(&self) -> std::time::Instant {
        Monotonic::now().into_tokio().into_std()
    }
}

/// Calls per second with a burst.
#[derive(Debug)]
pub(crate) struct RateLimit(RateLimiter<NotKeyed, InMemoryState, HouseClock>);

impl RateLimit {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_second = NonZeroU32::new(rate.per_second).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(rate.burst).unwrap_or(per_second);
        Self(RateLimiter::direct_with_clock(Quota::per_second(per_second).allow_burst(burst), HouseClock))
    }

    /// Takes one call, or says how long to wait.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        self.0.check().map_err(|not_until| {
            let now = HouseClock.now();
            not_until.earliest_possible().duration_since(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_next_call_is_told_when_to_come_back() {
        let limit = RateLimit::new(Rate { per_second: 10, burst: 3 });
        for _ in 0..3 {
            assert_eq!(limit.take(), Ok(()));
        }
        let wait = limit.take().unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(100), "{wait:?}");
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(limit.take(), Ok(()));
    }
}
