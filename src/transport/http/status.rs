//! What an HTTP status means when no JSON-RPC answer came with it. Pure. The rows
//! follow the table of outcomes that the breaker uses: 401 and 403 want a login, 429
//! and 503 with `Retry-After` want patience, everything else is passed on as it is.

use std::time::{Duration, SystemTime};

use super::retry_after;

/// The wait when a server says 429 without `Retry-After`.
const THROTTLED_DEFAULT: Duration = Duration::from_secs(5);

/// The meaning of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Log in first.
    NeedsAuth,
    /// Come back after this long.
    Throttled(Duration),
    /// An error without further meaning for the transport.
    Other,
}

/// Reads a status outside of 2xx and of redirects.
pub(super) fn meaning(status: u16, retry_after: Option<&str>, now: SystemTime) -> Meaning {
    let wait = retry_after.and_then(|value| retry_after::wait(value, now));
    match (status, wait) {
        (401 | 403, _) => Meaning::NeedsAuth,
        (429, wait) => Meaning::Throttled(wait.unwrap_or(THROTTLED_DEFAULT)),
        (503, Some(wait)) => Meaning::Throttled(wait),
        _ => Meaning::Other,
    }
}

/// Whether a JSON-RPC answer in the body counts as the answer in spite of the status.
/// 401 and 429 speak about the request as HTTP; a 403 may only bring a result.
pub(super) fn body_may_answer(status: u16, is_error: bool) -> bool {
    match status {
        401 | 429 => false,
        403 => !is_error,
        _ => true,
    }
}

/// Whether a status says that the request was refused before it ran.
pub(super) fn proves_not_run(status: u16) -> bool {
    matches!(status, 300..=401 | 403..=407 | 411 | 413..=415 | 417 | 421 | 426 | 428 | 429 | 431 | 501)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_meaning() {
        let s = Duration::from_secs;
        let cases = [
            (401, None, Meaning::NeedsAuth),
            (403, Some("7"), Meaning::NeedsAuth),
            (429, Some("7"), Meaning::Throttled(s(7))),
            (429, None, Meaning::Throttled(s(5))),
            (429, Some("garbage"), Meaning::Throttled(s(5))),
            (429, Some("9999"), Meaning::Throttled(s(300))),
            (503, Some("2"), Meaning::Throttled(s(2))),
            (503, None, Meaning::Other),
            (503, Some("garbage"), Meaning::Other),
            (500, Some("2"), Meaning::Other),
            (408, None, Meaning::Other),
            (404, None, Meaning::Other),
        ];
        for (status, retry_after, want) in cases {
            assert_eq!(
                meaning(status, retry_after, SystemTime::UNIX_EPOCH),
                want,
                "{status} {retry_after:?}"
            );
        }
    }

    #[test]
    fn a_body_answers_in_spite_of_the_status_but_not_for_401_429_and_a_403_error() {
        let cases = [
            (400, true, true),
            (404, true, true),
            (500, true, true),
            (403, false, true),
            (403, true, false),
            (401, false, false),
            (401, true, false),
            (429, true, false),
        ];
        for (status, is_error, want) in cases {
            assert_eq!(body_may_answer(status, is_error), want, "{status} {is_error}");
        }
    }

    #[test]
    fn a_refusal_is_known_not_to_have_run_and_a_server_fault_is_not() {
        for status in [301, 307, 400, 401, 403, 404, 405, 406, 413, 415, 429] {
            assert!(proves_not_run(status), "{status}");
        }
        for status in [200, 408, 409, 500, 502, 503, 504] {
            assert!(!proves_not_run(status), "{status}");
        }
    }
}
