//! Floor 2. How many processes of servers may be on their way at once: starting one costs the
//! machine, waiting for its first answer costs nothing. One for a whole runtime; asked by `stdio`
//! alone, right around the spawn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Spawns at once, unless `limits.spawns_max` says otherwise (spec section 3).
pub const SPAWNS_MAX: usize = 8;

/// The places of those that are being spawned. Cheap to clone; all clones share them.
#[derive(Clone, Debug)]
pub struct Spawns(Arc<Semaphore>);

impl Default for Spawns {
    fn default() -> Self {
        Self::new(SPAWNS_MAX)
    }
}

impl Spawns {
    /// With so many places, at least one.
    pub fn new(spawns_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(spawns_max.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Waits for a place, first come, first served. It is free again when the value is dropped.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed, so there is always one in the end.
        self.0.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn as_many_places_as_it_says_and_at_least_one() {
        for (max, places) in [(0, 1), (1, 1), (3, 3)] {
            let spawns = Spawns::new(max);
            let taken: Vec<_> = (0..places).map(|_| spawns.place().now_or_never().unwrap()).collect();
            assert!(spawns.clone().place().now_or_never().is_none(), "{max}");
            drop(taken);
            assert!(spawns.place().now_or_never().is_some());
        }
    }
}
