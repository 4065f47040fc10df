//! Floor 0. The only reader of clocks. Everything below floor 2 takes a
//! [`Monotonic`] as an argument instead, so tests can hand in any instant.

use std::ops::{Add, Sub};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

/// An instant of the monotonic clock. It follows tokio's paused clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(tokio::time::Instant);

impl Monotonic {
    /// Reads the clock. Called by actors, call tasks and edges only.
    #[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
    pub fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    /// A fixed instant: the base from which pure tests count.
    pub fn base() -> Self {
        #[expect(clippy::disallowed_methods, reason = "read once, as an arbitrary fixed point")]
        static BASE: LazyLock<tokio::time::Instant> = LazyLock::new(tokio::time::Instant::now);
        Self(*BASE)
    }

    /// Time since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The instant for `tokio::time::sleep_until`.
    pub fn into_tokio(self) -> tokio::time::Instant {
        self.0
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    /// Saturates at about thirty years ahead instead of overflowing.
    fn add(self, by: Duration) -> Self {
        const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
        Self(self.0.checked_add(by.min(FAR)).unwrap_or(self.0))
    }
}

impl Sub<Monotonic> for Monotonic {
    type Output = Duration;

    fn sub(self, earlier: Monotonic) -> Duration {
        self.since(earlier)
    }
}

/// Reads the wall clock: for display and files, never for a deadline.
#[expect(clippy::disallowed_methods, reason = "the one place that may read the wall clock")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// RFC 3339 in UTC with milliseconds, as every `--json` answer writes times.
pub fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
