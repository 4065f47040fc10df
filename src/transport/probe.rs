//! Floor 2, pure. What it means when the first `server/discover` over HTTP brings no
//! JSON-RPC answer: an older server that has no such method, or a fault that may pass. Only
//! the first is worth remembering: an outage says nothing about the revision of a server.

use super::LinkFault;
use super::link::ExchangeFault;

/// What to do after the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The server refused what it does not know: it is an older one.
    Older,
    /// An older server, or a fault of any: ask as an older one, and do not remember that.
    Doubtful,
    /// Something that another first request does not change.
    Fault,
}

/// Reads the fault of a `server/discover` over HTTP.
pub(super) fn meaning(fault: &ExchangeFault) -> Probe {
    match fault {
        ExchangeFault::Http { status, .. } => of_status(*status),
        // Text, a page, nothing at all, another message: a modern server answers this request.
        ExchangeFault::Malformed(_) => Probe::Older,
        // A stream that ended well and held no answer.
        ExchangeFault::Lost(LinkFault::Closed) => Probe::Doubtful,
        ExchangeFault::Lost(_)
        | ExchangeFault::TooLong(_)
        | ExchangeFault::NeedsAuth(_)
        | ExchangeFault::Throttled(_) => Probe::Fault,
    }
}

fn of_status(status: u16) -> Probe {
    match status {
        // These speak of login, proxy, time or load, not of the request.
        401 | 403 | 407 | 408 | 425 | 429 | 451 => Probe::Fault,
        400..=499 | 501 => Probe::Older,
        // Many a server stumbles over what it does not know, and some only stumble today.
        500 => Probe::Doubtful,
        _ => Probe::Fault,
    }
}

/// Whether a status to the first request will be the same next time: it speaks of the request,
/// not of login, time or load.
pub(super) fn is_lasting(status: u16) -> bool {
    matches!(of_status(status), Probe::Older) && status != 409 || matches!(status, 407 | 451)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_refusal_is_an_older_server_and_an_outage_is_not() {
        for status in [400, 402, 404, 405, 406, 409, 410, 411, 413, 415, 417, 422, 426, 428, 499, 501] {
            assert_eq!(of_status(status), Probe::Older, "{status}");
        }
        for status in [401, 403, 407, 408, 425, 429, 451, 502, 503, 504, 520, 599, 304, 101] {
            assert_eq!(of_status(status), Probe::Fault, "{status}");
        }
        assert_eq!(of_status(500), Probe::Doubtful);
    }

    #[test]
    fn only_what_speaks_of_the_request_lasts() {
        for status in [400, 404, 405, 406, 407, 410, 415, 422, 426, 451, 501] {
            assert!(is_lasting(status), "{status}");
        }
        for status in [401, 403, 408, 409, 425, 429, 500, 502, 503, 504, 599, 302] {
            assert!(!is_lasting(status), "{status}");
        }
    }

    #[test]
    fn each_fault_has_its_meaning() {
        let lost = |fault| ExchangeFault::Lost(fault);
        let cases = [
            (ExchangeFault::Malformed("html".into()), Probe::Older),
            (ExchangeFault::Http { status: 422, body: String::new() }, Probe::Older),
            (lost(LinkFault::Closed), Probe::Doubtful),
            (lost(LinkFault::Network("refused".into())), Probe::Fault),
            (lost(LinkFault::TimedOut("no connection".into())), Probe::Fault),
            (lost(LinkFault::Config("redirect".into())), Probe::Fault),
            (ExchangeFault::TooLong(1), Probe::Fault),
            (ExchangeFault::NeedsAuth("login".into()), Probe::Fault),
            (ExchangeFault::Throttled(Duration::from_secs(1)), Probe::Fault),
        ];
        for (fault, want) in cases {
            assert_eq!(meaning(&fault), want, "{fault:?}");
        }
    }
}
