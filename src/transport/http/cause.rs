//! Why there is no connection, in words for people: one clause and what cures it, out of the
//! chain of errors that an HTTP client reports. Pure. Called by `fault`.

use std::error::Error;
use std::io::ErrorKind;

use crate::transport::Side;

/// A cause that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// One clause, to follow the server's address and a colon.
    pub(super) says: &'static str,
    /// What to do about it.
    pub(super) cure: &'static str,
    /// Where something has to change, when it will be the same next time.
    pub(super) lasts: Option<Side>,
}

/// A cause that may pass.
pub(super) const fn cause(says: &'static str, cure: &'static str) -> Cause {
    Cause { says, cure, lasts: None }
}

/// A cause that stays until somebody changes something.
pub(super) const fn lasting(side: Side, says: &'static str, cure: &'static str) -> Cause {
    Cause { says, cure, lasts: Some(side) }
}

const REFUSED: Cause = cause(
    "connection refused",
    "start the server, or correct host and port of its URL (or of the proxy that the environment names)",
);
const RESET: Cause =
    cause("the connection was reset", "look at the server's own log, or at a proxy on the way");
const UNREACHABLE: Cause =
    cause("the network does not reach it", "check the host of its URL, your network, VPN and proxy");
const ENDED: Cause = cause(
    "it was closed before the answer was whole",
    "look at the server's own log, or at a proxy on the way",
);
const NO_HOST: Cause = cause(
    "its host name is not known",
    "check the spelling of the host in its URL, and that names are resolved here (DNS)",
);
const SLOW: Cause = cause("it did not answer in time", "check its URL, your network, VPN and proxy");

/// What the text of a layer says, where no kind of error does. The first that is found counts.
const TEXTS: [(&str, Cause); 4] = [
    ("dns error", NO_HOST),
    ("failed to lookup address", NO_HOST),
    ("connection closed before message completed", ENDED),
    ("unexpected end of file", ENDED),
];

/// The cause behind an error; `None` for one that is not known. What TLS says is told by `tls`.
pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Cause> {
    let mut next = Some(error);
    let mut by_kind = None;
    while let Some(error) = next {
        let text = error.to_string();
        if let Some((_, cause)) = TEXTS.iter().find(|(part, _)| text.contains(part)) {
            return Some(*cause);
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            by_kind = by_kind.or(of_kind(io.kind()));
        }
        next = error.source();
    }
    by_kind
}

fn of_kind(kind: ErrorKind) -> Option<Cause> {
    match kind {
        ErrorKind::ConnectionRefused => Some(REFUSED),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Some(RESET),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some(UNREACHABLE)
        }
        ErrorKind::UnexpectedEof => Some(ENDED),
        ErrorKind::TimedOut => Some(SLOW),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::fault::tests::Layer;
    use std::io;

    #[test]
    fn every_kind_of_cause_is_one_clause_with_its_cure() {
        for (error, says) in [
            (io::Error::from(ErrorKind::ConnectionRefused), "refused"),
            (io::Error::from(ErrorKind::ConnectionReset), "reset"),
            (io::Error::from(ErrorKind::NetworkUnreachable), "not reach it"),
            (io::Error::from(ErrorKind::UnexpectedEof), "before the answer"),
            (io::Error::other("dns error: failed to lookup address information"), "host name"),
        ] {
            let top = Layer::over("client error (Connect)", error);
            let cause = of(&top).unwrap_or_else(|| panic!("{says}"));
            assert!(cause.says.contains(says) && !cause.cure.is_empty(), "{cause:?}");
        }
        assert_eq!(of(&io::Error::other("something new")), None);
    }

    #[test]
    fn no_clause_and_no_cure_is_a_sentence_of_its_own() {
        let all = TEXTS.iter().map(|(_, cause)| *cause).chain([REFUSED, RESET, UNREACHABLE, SLOW]);
        for cause in all {
            for text in [cause.says, cause.cure] {
                assert!(!text.ends_with('.') && text.starts_with(char::is_lowercase), "{text}");
            }
        }
    }
}
