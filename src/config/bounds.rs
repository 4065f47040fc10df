//! Floor 1. The figures that bound one server, in time, number and size, and their built-in
//! defaults: those of the manual. Read through `spec`; set by `host` and `validate`.

use std::time::Duration;

/// The limits in time (spec section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest silence of a call, reset by progress.
    pub idle: Duration,
    /// After that long a start is called late.
    pub connect: Duration,
    /// After that long a start is ended and counts as failed.
    pub max_start: Duration,
    /// Longest duration of a call in all.
    pub total: Duration,
    /// Limit of one list request.
    pub list: Duration,
    /// Longest wait for a permit of a ready server.
    pub permit: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(120),
            connect: Duration::from_secs(15),
            max_start: Duration::from_secs(120),
            total: Duration::from_secs(30 * 60),
            list: Duration::from_secs(30),
            permit: Duration::from_secs(5),
        }
    }
}

/// `breaker`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSpec {
    /// Failures in a row that open it; 0 disables.
    pub failures: u32,
    /// How long it stays open.
    pub open_for: Duration,
    /// Whether `isError` results count as failures.
    pub count_tool_errors: bool,
}

impl Default for BreakerSpec {
    /// Three failures open it for a minute (spec section 4).
    fn default() -> Self {
        Self { failures: 3, open_for: Duration::from_secs(60), count_tool_errors: false }
    }
}

/// `restart`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartSpec {
    /// Restarts allowed in `window`; 0 means unlimited.
    pub max: u32,
    /// The sliding window.
    pub window: Duration,
    /// First delay after the immediate restart.
    pub min_delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
}

impl Default for RestartSpec {
    fn default() -> Self {
        Self {
            max: 5,
            window: Duration::from_secs(60),
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// `limits`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight on the server.
    pub in_flight: usize,
    /// Calls waiting for it.
    pub queue: usize,
    /// Largest frame, bytes.
    pub frame_max: usize,
    /// Largest result handed to a model, bytes.
    pub result_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: 64, queue: 256, frame_max: 16 << 20, result_max: 1 << 20 }
    }
}

/// `rate`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls per second, sustained.
    pub per_second: u32,
    /// Calls at once.
    pub burst: u32,
}
