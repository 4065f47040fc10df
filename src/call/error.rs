//! Floor 0. What went wrong with a call, and what is known then. A plain value; decides nothing.

use std::fmt;
use std::time::Duration;

use super::{BreakerClass, Delivery, ErrorCode, Origin, Phase};
use crate::id::ServerId;

/// Why a call has no answer. The message is never empty and names the server
/// once; `fix` says what to do, when something can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The stable code.
    pub code: ErrorCode,
    /// Where it ended.
    pub phase: Phase,
    /// Whose fault it is.
    pub origin: Origin,
    /// What is known about execution.
    pub delivery: Delivery,
    /// How it counts for the breaker.
    pub class: BreakerClass,
    /// The server concerned, if one was found.
    pub server: Option<ServerId>,
    /// Raw name of the item concerned.
    pub item: Option<String>,
    /// One sentence for a person.
    pub message: String,
    /// The causes behind the message as they were told, where it leaves them out; redacted.
    pub detail: Option<String>,
    /// When to try again, if waiting helps.
    pub retry_after: Option<Duration>,
    /// The command or change that cures it.
    pub fix: Option<String>,
}

impl CallError {
    /// An error that ended before anything was sent and says nothing about the server.
    pub fn refused(code: ErrorCode, phase: Phase, origin: Origin, message: impl Into<String>) -> Self {
        Self {
            code,
            phase,
            origin,
            delivery: Delivery::NotSent,
            class: BreakerClass::Neutral,
            server: None,
            item: None,
            message: message.into(),
            detail: None,
            retry_after: None,
            fix: None,
        }
    }

    /// The same error, naming the server.
    #[must_use]
    pub fn on(mut self, server: &ServerId) -> Self {
        self.server = Some(server.clone());
        self
    }

    /// The same error, naming the item.
    #[must_use]
    pub fn about(mut self, item: impl Into<String>) -> Self {
        self.item = Some(item.into());
        self
    }

    /// The same error with another delivery verdict.
    #[must_use]
    pub fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// The same error with another breaker class.
    #[must_use]
    pub fn counting(mut self, class: BreakerClass) -> Self {
        self.class = class;
        self
    }

    /// The same error with a cure.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same error with a time to wait.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}
