//! The limit of requests of one identity, whatever sessions it has: the generic cell rate algorithm
//! as plain values, by the time that is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::spec::Rate;
use crate::serve::Identity;
use crate::time::Monotonic;

/// Identities that are remembered; beyond it, those whose burst is whole again are forgotten.
const IDENTITIES_MAX: usize = 256;

/// What each identity has used.
#[derive(Debug, Default)]
pub struct Pace(BTreeMap<Identity, Monotonic>);

impl Pace {
    /// Takes one request.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take(&mut self, who: &Identity, rate: Rate, now: Monotonic) -> Result<(), Duration> {
        let step = Duration::from_secs(1) / rate.per_second.max(1);
        let room = step * (if rate.burst == 0 { rate.per_second } else { rate.burst }).max(1);
        if self.0.len() >= IDENTITIES_MAX && !self.0.contains_key(who) {
            self.0.retain(|_, full_at| *full_at > now);
        }
        // When the burst is whole again, if nothing more comes.
        let full_at = self.0.get(who).copied().unwrap_or(now).max(now) + step;
        let over = full_at.since(now + room);
        if over > Duration::ZERO {
            return Err(over);
        }
        self.0.insert(who.clone(), full_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_the_next_one_is_told_when_and_nobody_else_waits() {
        let mut pace = Pace::default();
        let rate = Rate { per_second: 10, burst: 3 };
        let me = Identity::SameUser;
        let mut now = Monotonic::base();
        for _ in 0..3 {
            assert_eq!(pace.take(&me, rate, now), Ok(()));
        }
        assert_eq!(pace.take(&me, rate, now), Err(Duration::from_millis(100)));
        assert_eq!(pace.take(&Identity::Token("ci".into()), rate, now), Ok(()));
        now = now + Duration::from_millis(100);
        assert_eq!(pace.take(&me, rate, now), Ok(()));
        assert!(pace.take(&me, rate, now).is_err());
        now = now + Duration::from_secs(60);
        for _ in 0..3 {
            assert_eq!(pace.take(&me, rate, now), Ok(()));
        }
        assert!(pace.take(&me, rate, now).is_err());
    }
}
