//! Whether a request to a model is sent again, and when. Pure: chance comes in. A request is repeated only
//! while nothing of an answer came, so no call is ever made twice by it.

use std::time::Duration;

use super::error::ModelError;
use crate::policy::backoff::Backoff;

/// The first wait.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// The longest wait that is chosen by us.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest wait that an endpoint may ask for; beyond it the user is told instead.
pub(super) const ASKED_MAX: Duration = Duration::from_secs(60);

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Tries {
    left: u32,
    made: u32,
    backoff: Backoff,
}

impl Tries {
    /// With so many repetitions at most.
    pub(super) fn new(retries: u32) -> Self {
        let mut backoff = Backoff::new(WAIT_MIN, WAIT_MAX);
        // A failed request is not repeated at once.
        let _ = backoff.next(0);
        Self { left: retries, made: 0, backoff }
    }

    /// How long to wait before the same is sent again, and the number of that try; `None` when the error
    /// stands. `random` should be uniform over all of `u64`.
    pub(super) fn again(&mut self, error: &ModelError, random: u64) -> Option<(u32, Duration)> {
        let asked = error.retry_after.unwrap_or_default();
        if self.left == 0 || !error.may_pass || error.broke_off || asked > ASKED_MAX {
            return None;
        }
        self.left -= 1;
        self.made += 1;
        Some((self.made, self.backoff.next(random).max(asked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::model::Trouble;

    #[test]
    fn waits_grow_and_honour_what_is_asked_for() {
        let mut tries = Tries::new(4);
        let busy = ModelError::new(Trouble::Overloaded, "busy");
        let waits: Vec<_> = (0..5).map(|_| tries.again(&busy, u64::MAX)).collect();
        let told: Vec<_> = waits.iter().flatten().map(|(n, wait)| (*n, wait.as_millis())).collect();
        assert_eq!(told, [(1, 499), (2, 999), (3, 1999), (4, 3999)]);
        assert_eq!(waits[4], None);
        let asked = ModelError { retry_after: Some(Duration::from_secs(20)), ..busy.clone() };
        assert_eq!(Tries::new(1).again(&asked, 0), Some((1, Duration::from_secs(20))));
    }

    #[test]
    fn what_stands_or_was_begun_is_not_sent_again() {
        let busy = ModelError::new(Trouble::Overloaded, "busy");
        let long = ModelError { retry_after: Some(Duration::from_secs(61)), ..busy.clone() };
        let begun = ModelError { broke_off: true, ..busy };
        for error in [ModelError::new(Trouble::Auth, "no"), long, begun, ModelError::cancelled()] {
            assert_eq!(Tries::new(9).again(&error, 7), None, "{error:?}");
        }
    }
}
