//! Floor 1. The deadlines of one call: idle (reset by progress) and total. Kept by
//! the call task, the one place where deadlines live.

use std::time::Duration;

use crate::time::Monotonic;

/// The two clocks of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    started: Monotonic,
    idle: Duration,
    total: Duration,
    last_sign: Option<Monotonic>,
}

/// Which limit fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing was heard for that long.
    Idle(Duration),
    /// It took that long in all.
    Total(Duration),
}

impl Budget {
    /// A call admitted at `now`. The total clock runs from here, the idle clock from [`Budget::sent`].
    pub fn new(now: Monotonic, idle: Duration, total: Duration) -> Self {
        Self { started: now, idle, total, last_sign: None }
    }

    /// The request went out: the idle clock starts.
    pub fn sent(&mut self, now: Monotonic) {
        self.last_sign = Some(now);
    }

    /// Progress arrived: the idle clock starts again; the total clock does not.
    pub fn progress(&mut self, now: Monotonic) {
        self.last_sign = Some(now);
    }

    /// The server waits for an answer of its caller: only the total clock runs, until
    /// [`Budget::progress`].
    pub fn waits_for_its_caller(&mut self) {
        self.last_sign = None;
    }

    /// The request waits to be sent once more: only the total clock runs.
    pub fn waits_again(&mut self) {
        self.last_sign = None;
    }

    /// When the next limit fires.
    pub fn deadline(&self) -> Monotonic {
        let total = self.started + self.total;
        match self.last_sign {
            Some(last) => total.min(last + self.idle),
            None => total,
        }
    }

    /// When the total limit fires: nothing of the call can come after it.
    pub fn end(&self) -> Monotonic {
        self.started + self.total
    }

    /// The limit that has fired at `now`; the total one if both have.
    pub fn fired(&self, now: Monotonic) -> Option<Limit> {
        if now >= self.started + self.total {
            return Some(Limit::Total(self.total));
        }
        match self.last_sign {
            Some(last) if now >= last + self.idle => Some(Limit::Idle(self.idle)),
            _ => None,
        }
    }

    /// Time since admission.
    pub fn elapsed(&self, now: Monotonic) -> Duration {
        now.since(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(2);
    const TOTAL: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Monotonic {
        Monotonic::base() + Duration::from_millis(ms)
    }

    #[test]
    fn the_idle_clock_starts_when_the_request_is_sent() {
        let mut budget = Budget::new(at(0), IDLE, TOTAL);
        assert_eq!(budget.fired(at(9_999)), None);
        budget.sent(at(3_000));
        assert_eq!(budget.deadline(), at(5_000));
        assert_eq!(budget.fired(at(4_999)), None);
        assert_eq!(budget.fired(at(5_000)), Some(Limit::Idle(IDLE)));
    }

    #[test]
    fn progress_keeps_a_call_alive_up_to_the_total_limit() {
        let mut budget = Budget::new(at(0), IDLE, TOTAL);
        budget.sent(at(0));
        for second in 1..10 {
            assert_eq!(budget.fired(at(second * 1_000)), None);
            budget.progress(at(second * 1_000));
        }
        assert_eq!(budget.deadline(), at(10_000));
        assert_eq!(budget.fired(at(10_000)), Some(Limit::Total(TOTAL)));
        assert_eq!(budget.elapsed(at(10_000)), TOTAL);
    }

    #[test]
    fn a_request_that_waits_to_be_sent_again_has_the_total_clock_alone() {
        let mut budget = Budget::new(at(0), IDLE, TOTAL);
        budget.sent(at(1_000));
        budget.waits_again();
        assert_eq!((budget.fired(at(9_999)), budget.deadline()), (None, at(10_000)));
        budget.sent(at(4_000));
        assert_eq!(budget.fired(at(6_000)), Some(Limit::Idle(IDLE)));
    }
}
