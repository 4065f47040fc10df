//! Floor 5. The exit codes of every verb: one table, so that scripts can rely on
//! them. Decides nothing else and prints nothing. Used by all verbs and by `main`.

use crate::call::{CallError, Delivery, ErrorCode};

/// What the process ends with (spec section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// Done as asked.
    Ok = 0,
    /// The tool said `isError`, or what was asked about is not healthy.
    Unhealthy = 1,
    /// Wrong usage, or arguments that the schema refuses.
    Usage = 2,
    /// The configuration can't be used as written.
    Config = 3,
    /// No such server, tool, resource or prompt.
    NotFound = 4,
    /// Refused by policy.
    Refused = 5,
    /// The server wants credentials.
    NeedsAuth = 6,
    /// Unavailable, and nothing was sent: safe to try again.
    Unavailable = 7,
    /// Sent, and whether it ran is not known.
    OutcomeUnknown = 8,
    /// Ended by the user.
    Interrupted = 130,
}

impl Exit {
    /// Every exit code with its meaning, as the help shows them.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Ok, "done"),
        (Self::Unhealthy, "the tool said isError, or what was asked about is not healthy"),
        (Self::Usage, "wrong usage or invalid arguments"),
        (Self::Config, "the configuration can't be used"),
        (Self::NotFound, "no such server, tool, resource or prompt"),
        (Self::Refused, "refused by policy"),
        (Self::NeedsAuth, "the server wants credentials"),
        (Self::Unavailable, "unavailable, nothing was sent: safe to retry"),
        (Self::OutcomeUnknown, "sent, outcome unknown: check before retrying"),
        (Self::Interrupted, "interrupted"),
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The exit code of a call that got no answer. Codes that speak about the
/// connection depend on what left this process; the others do not.
pub fn exit_code(error: &CallError) -> Exit {
    use ErrorCode as E;
    match error.code {
        E::UnknownServer | E::UnknownTool | E::UnknownResource | E::UnknownPrompt => Exit::NotFound,
        E::AmbiguousName | E::InvalidArguments => Exit::Usage,
        E::Denied
        | E::NeedsApproval
        | E::SecretInArguments
        | E::PendingApproval
        | E::Held
        | E::Disabled
        | E::AuditUnavailable => Exit::Refused,
        E::ConfigError => Exit::Config,
        E::NeedsAuth => Exit::NeedsAuth,
        E::Cancelled => Exit::Interrupted,
        E::GivenUp
        | E::NotReady
        | E::BreakerOpen
        | E::Busy
        | E::RateLimited
        | E::Draining
        | E::ConnectFailed
        | E::ConnectionLost
        | E::TimeoutIdle
        | E::TimeoutTotal
        | E::MalformedAnswer
        | E::FrameTooLarge
        | E::HttpStatus
        | E::Internal => by_delivery(error.delivery),
    }
}

/// An answer that can't be read leaves the outcome as unknown as none.
fn by_delivery(delivery: Delivery) -> Exit {
    match delivery {
        Delivery::NotSent => Exit::Unavailable,
        Delivery::Unknown | Delivery::Executed => Exit::OutcomeUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Origin, Phase};

    fn error(code: ErrorCode, delivery: Delivery) -> CallError {
        CallError::refused(code, Phase::Await, Origin::Host, "x").delivered(delivery)
    }

    #[test]
    fn every_row_of_the_exit_table() {
        use Delivery::{Executed, NotSent, Unknown};
        use ErrorCode as E;
        let fixed = [
            (E::UnknownServer, 4),
            (E::UnknownTool, 4),
            (E::UnknownResource, 4),
            (E::UnknownPrompt, 4),
            (E::AmbiguousName, 2),
            (E::InvalidArguments, 2),
            (E::Denied, 5),
            (E::NeedsApproval, 5),
            (E::SecretInArguments, 5),
            (E::PendingApproval, 5),
            (E::Held, 5),
            (E::Disabled, 5),
            (E::AuditUnavailable, 5),
            (E::ConfigError, 3),
            (E::NeedsAuth, 6),
            (E::Cancelled, 130),
        ];
        for (code, want) in fixed {
            for delivery in [NotSent, Unknown, Executed] {
                assert_eq!(exit_code(&error(code, delivery)).code(), want, "{code} {delivery:?}");
            }
        }
        let by_delivery = [
            E::GivenUp,
            E::NotReady,
            E::BreakerOpen,
            E::Busy,
            E::RateLimited,
            E::Draining,
            E::ConnectFailed,
            E::ConnectionLost,
            E::TimeoutIdle,
            E::TimeoutTotal,
            E::MalformedAnswer,
            E::FrameTooLarge,
            E::HttpStatus,
            E::Internal,
        ];
        for code in by_delivery {
            assert_eq!(exit_code(&error(code, NotSent)).code(), 7, "{code}");
            assert_eq!(exit_code(&error(code, Unknown)).code(), 8, "{code}");
            assert_eq!(exit_code(&error(code, Executed)).code(), 8, "{code}");
        }
        assert_eq!(fixed.len() + by_delivery.len(), ErrorCode::ALL.len(), "a code has no row");
    }

    #[test]
    fn the_numbers_are_those_that_scripts_rely_on() {
        let numbers: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 130]);
    }
}
