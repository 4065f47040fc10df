//! Floor 3. The random numbers that spread restarts in time. Seeded from the process's
//! own random state, unless the host runs on a seed: then every server has its own sequence,
//! the same in every run.

use std::hash::{BuildHasher, RandomState};

/// A small generator (SplitMix64); good enough to spread delays, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    /// A generator with that seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator that is different for every name, and in every process but for a given seed.
    pub(crate) fn for_name(name: &str, seed: Option<u64>) -> Self {
        match seed {
            Some(seed) => {
                Self::seeded(name.bytes().fold(seed, |mix, byte| Self::seeded(mix ^ u64::from(byte)).next()))
            }
            None => Self::seeded(RandomState::new().hash_one(name)),
        }
    }

    /// The next number, uniform over all of `u64`.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_sequence_and_the_sequence_spreads() {
        let take = |seed| {
            let mut jitter = Jitter::seeded(seed);
            (0..1000).map(|_| jitter.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        let named = |name, seed| Jitter::for_name(name, seed).next();
        assert_eq!(named("a", Some(7)), named("a", Some(7)));
        assert_ne!(named("a", Some(7)), named("b", Some(7)));
        assert_ne!(named("a", Some(7)), named("a", Some(8)));
        assert_ne!(named("a", None), named("a", None));
        let high = take(7).iter().filter(|n| **n > u64::MAX / 2).count();
        assert!((400..600).contains(&high), "{high}");
    }
}
