//! Floor 2. Progress reports on their way from the link to one call task: bounded,
//! and cheap for the many calls that never report anything.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Progress notifications that may wait for one caller; more are dropped.
pub const PROGRESS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Bytes>>,
    arrived: Notify,
}

/// Both ends of the reports of one call. Cheap to clone; allocates no room before the
/// first report.
#[derive(Clone, Debug, Default)]
pub struct ProgressPort(Arc<Queue>);

impl ProgressPort {
    /// Adds the `params` of one report; `false` when the caller did not take the earlier ones.
    pub fn push(&self, params: Bytes) -> bool {
        {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() >= PROGRESS_MAX {
                return false;
            }
            waiting.push_back(params);
        }
        self.0.arrived.notify_one();
        true
    }

    /// The oldest report that waits.
    pub fn take(&self) -> Option<Bytes> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Resolves when a report may be there; for one waiter. Cancel-safe.
    pub async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reports_come_in_order_wake_the_waiter_and_are_bounded() {
        let port = ProgressPort::default();
        for n in 0..PROGRESS_MAX {
            assert!(port.push(Bytes::from(n.to_string())));
        }
        assert!(!port.push(Bytes::from_static(b"one too many")));
        port.arrived().await;
        for n in 0..PROGRESS_MAX {
            assert_eq!(port.take(), Some(Bytes::from(n.to_string())));
        }
        assert_eq!(port.take(), None);
    }
}
