//! The limit of requests of one identity, whatever sessions it has: one throttle of the house for each.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::spec::Rate;
use crate::runtime::Throttle;
use crate::serve::Identity;
use crate::time::Monotonic;

/// Identities that are remembered; beyond it, those whose burst is whole again are forgotten.
const IDENTITIES_MAX: usize = 256;

/// What each identity has used.
#[derive(Debug, Default)]
pub struct Pace(BTreeMap<Identity, Used>);

#[derive(Debug)]
struct Used {
    rate: Rate,
    throttle: Throttle,
    /// Since then its burst is whole again, if nothing more came.
    whole_at: Monotonic,
}

impl Pace {
    /// Takes one request.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take(&mut self, who: &Identity, rate: Rate, now: Monotonic) -> Result<(), Duration> {
        if self.0.len() >= IDENTITIES_MAX && !self.0.contains_key(who) {
            self.0.retain(|_, used| used.whole_at > now);
        }
        let fresh = || Used { rate, throttle: Throttle::new(rate), whole_at: now };
        let used = self.0.entry(who.clone()).or_insert_with(fresh);
        if used.rate != rate {
            *used = fresh();
        }
        used.throttle.take()?;
        let burst = if rate.burst == 0 { rate.per_second } else { rate.burst };
        used.whole_at = now + Duration::from_secs(1) * burst.max(1) / rate.per_second.max(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_the_next_one_is_told_when_and_nobody_else_waits() {
        let mut pace = Pace::default();
        let rate = Rate { per_second: 10, burst: 3 };
        let me = Identity::SameUser;
        let take = |pace: &mut Pace, who: &Identity| pace.take(who, rate, Monotonic::now());
        for _ in 0..3 {
            assert_eq!(take(&mut pace, &me), Ok(()));
        }
        assert_eq!(take(&mut pace, &me), Err(Duration::from_millis(100)));
        assert_eq!(take(&mut pace, &Identity::Token("ci".into())), Ok(()));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(take(&mut pace, &me), Ok(()));
        assert!(take(&mut pace, &me).is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        for _ in 0..3 {
            assert_eq!(take(&mut pace, &me), Ok(()));
        }
        assert!(take(&mut pace, &me).is_err());
        let wider = Rate { per_second: 10, burst: 9 };
        assert_eq!(
            pace.take(&me, wider, Monotonic::now()),
            Ok(()),
            "a limit that was changed counts at once"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_used_nothing_lately_are_forgotten_before_others_are() {
        let mut pace = Pace::default();
        let rate = Rate { per_second: 1, burst: 2 };
        let take = |pace: &mut Pace, n: usize| {
            pace.take(&Identity::Token(format!("t{n}").as_str().into()), rate, Monotonic::now())
        };
        for n in 0..IDENTITIES_MAX {
            assert_eq!(take(&mut pace, n), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        for _ in 0..2 {
            assert_eq!(take(&mut pace, 0), Ok(()));
        }
        assert_eq!(take(&mut pace, IDENTITIES_MAX), Ok(()));
        assert_eq!(pace.0.len(), 2);
        assert!(take(&mut pace, 0).is_err(), "its use is remembered");
    }
}
