//! Turns what the HTTP client reports into faults with a text for people. The text
//! names the server and the cause; it never holds a header, a credential or a query.

use crate::transport::LinkFault;
use crate::transport::link::ExchangeFault;

use super::client::CONNECT_TIMEOUT;
use super::tls;

/// Cause and cure when there is nobody to vouch for any server.
const NO_AUTHORITIES: &str = "no certificate authorities were found: install ca-certificates, or name a PEM file with them in SSL_CERT_FILE";

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

/// The fault behind an error of the HTTP client, for requests to `server`.
pub(super) fn of(error: reqwest::Error, server: &str, has_roots: bool) -> LinkFault {
    let error = error.without_url();
    if error.is_connect() && error.is_timeout() {
        return LinkFault::TimedOut(format!(
            "no connection to {server} within {} s",
            CONNECT_TIMEOUT.as_secs()
        ));
    }
    let cause = chain(&error);
    let (connecting, https) = (error.is_connect(), server.starts_with("https:"));
    let cause = match tls::told(&error, server) {
        _ if !has_roots && https && connecting => format!("{cause}; {NO_AUTHORITIES}"),
        Some((told, cure)) => format!("{told} ({cause}); {cure}"),
        None => cause,
    };
    LinkFault::Network(if connecting {
        format!("cannot connect to {server}: {cause}")
    } else {
        format!("the connection to {server} broke: {cause}")
    })
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
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);
    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|l| l as _)
        }
    }

    #[test]
    fn a_chain_of_causes_is_one_line_without_repeats_and_never_empty() {
        let inner = Layer("connection refused (os error 111)", None);
        let tcp = Layer("tcp connect error", Some(Box::new(inner)));
        let client = Layer("client error (Connect)", Some(Box::new(tcp)));
        let top = Layer("error sending request", Some(Box::new(client)));
        assert_eq!(chain(&top), "tcp connect error: connection refused (os error 111)");
        let twice = Layer("broken: reset", Some(Box::new(Layer("reset", None))));
        assert_eq!(chain(&twice), "broken: reset");
        let bare = Layer("client error (Connect)", None);
        assert_eq!(chain(&bare), "client error (Connect)");
    }
}
