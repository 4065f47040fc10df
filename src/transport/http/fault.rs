//! Turns what the HTTP client reports into faults with a text for people. The text
//! names the server and the cause; it never holds a header, a credential or a query.

use crate::transport::link::ExchangeFault;
use crate::transport::{LinkFault, Side};

use super::cause::{self, Cause};
use super::client::{CONNECT_TIMEOUT, TooSlow};
use super::tls;

/// Cause and cure when there is nobody to vouch for any server.
const NO_AUTHORITIES: Cause = cause::lasting(
    Side::Way,
    "no certificate authorities were found on this system",
    "install ca-certificates, or name a PEM file with them in SSL_CERT_FILE",
);

/// A request that got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    /// What happened.
    pub(super) fault: ExchangeFault,
    /// Whether the server's answer proves that it did not run.
    pub(super) not_run: bool,
    /// Whether the whole link is of no use any more.
    pub(super) ends_link: bool,
}

impl Miss {
    /// A miss of which only the bytes sent tell whether it ran.
    pub(super) fn new(fault: ExchangeFault) -> Self {
        Self { fault, not_run: false, ends_link: false }
    }

    /// A miss of a request that surely did not run.
    pub(super) fn not_run(fault: ExchangeFault) -> Self {
        Self { fault, not_run: true, ends_link: false }
    }

    /// The same, and the link is to end with it.
    pub(super) fn ending(mut self) -> Self {
        self.ends_link = true;
        self
    }

    /// The connection or the link ended.
    pub(super) fn lost(fault: LinkFault) -> Self {
        Self::new(ExchangeFault::Lost(fault))
    }

    /// An answer that breaks the protocol.
    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::new(ExchangeFault::Malformed(text.into()))
    }
}

/// The fault behind an error of the HTTP client, for requests to `server`; `connecting` when no
/// connection came about.
pub(super) fn of(
    error: &(dyn std::error::Error + 'static),
    connecting: bool,
    server: &str,
    has_roots: bool,
) -> LinkFault {
    if connecting && is_too_slow(error) {
        return LinkFault::TimedOut(format!(
            "no connection to {server} within {} s",
            CONNECT_TIMEOUT.as_secs()
        ));
    }
    let raw = chain(error);
    let https = server.starts_with("https:");
    let what = match connecting {
        true => format!("could not connect to {server}"),
        false => format!("the connection to {server} broke"),
    };
    // Without authorities every certificate is refused, and that is the cause to tell.
    let told = if connecting && https && !has_roots {
        Some(NO_AUTHORITIES)
    } else {
        tls::told(error, server).or_else(|| cause::of(error))
    };
    match told {
        Some(Cause { says, cure, lasts: Some(side) }) => {
            LinkFault::Misfit { text: format!("{what}: {says}"), cure, detail: Some(raw), side }
        }
        Some(cause) => {
            LinkFault::Unreachable { text: format!("{what}: {}", cause.says), cure: cause.cure, detail: raw }
        }
        None => LinkFault::Network(format!("{what}: {raw}")),
    }
}

/// Whether the limit of a connect is behind this: ours, or the one of a single address.
fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        if error.is::<TooSlow>() || io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the server itself says that it did not begin with the request: it refused the stream, or its
/// goodbye (GOAWAY) names an earlier one as the last that it took (RFC 9113 section 8.7). The HTTP
/// library ends the streams behind the last one, and no others, with that goodbye.
pub(super) fn is_unprocessed(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            let refused = h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
            return h2.is_remote() && (refused || h2.is_go_away());
        }
        next = error.source();
    }
    false
}

/// An error and its causes in one line, without repeating what a cause repeats.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    // "client error (Connect)" and the like say nothing that the rest does not.
    let telling: Vec<_> =
        texts.iter().filter(|t| !t.starts_with("client error") && !t.starts_with("error sending")).collect();
    if telling.is_empty() {
        return texts.join(": ");
    }
    telling.into_iter().map(String::as_str).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fmt;

    type Below = Box<dyn std::error::Error + 'static>;

    #[derive(Debug)]
    pub(crate) struct Layer(&'static str, Option<Below>);
    impl Layer {
        pub(crate) fn over(text: &'static str, below: impl std::error::Error + 'static) -> Self {
            Self(text, Some(Box::new(below)))
        }
    }
    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref()
        }
    }

    #[test]
    fn a_chain_of_causes_is_one_line_without_repeats_and_never_empty() {
        let inner = Layer("connection refused (os error 111)", None);
        let tcp = Layer::over("tcp connect error", inner);
        let client = Layer::over("client error (Connect)", tcp);
        let top = Layer::over("error sending request", client);
        assert_eq!(chain(&top), "tcp connect error: connection refused (os error 111)");
        let twice = Layer("broken: reset", Some(Box::new(Layer("reset", None))));
        assert_eq!(chain(&twice), "broken: reset");
        let bare = Layer("client error (Connect)", None);
        assert_eq!(chain(&bare), "client error (Connect)");
    }
}
