//! What went wrong with TLS, in words: whose fault it is, and what to do. Pure. The details
//! of the TLS library follow in brackets, for those who look closer.

use std::error::Error;
use std::io;

use super::cause::{Cause, cause, lasting};
use crate::transport::Side;
use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// The text of the TLS library when the other side leaves in the handshake.
const EOF: &str = "tls handshake eof";
/// The text of the HTTP library for an answer that is no HTTP, such as a TLS alert.
const NO_HTTP: &str = "invalid HTTP version";

const NOT_TRUSTED: &str = "its certificate is of an authority that is not trusted here";
const TRUST: &str = "if you trust it (your company's, or the server's own), add that authority to the system's store, or name a PEM file with it in SSL_CERT_FILE, which then is used in place of the store";

/// Where it has to be cured, what is said, and what cures it.
type Told = (Side, &'static str, &'static str);

/// Cause and cure of an error in a connection to `server`; `None` when it is not about TLS.
pub(super) fn told(error: &(dyn Error + 'static), server: &str) -> Option<Cause> {
    let https = server.starts_with("https:");
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<TlsError>() {
            // What the library says of its own state may be another next time.
            let (says, cure) = ("TLS failed", "ask whoever runs the server");
            let known = of(tls).map(|(side, says, cure)| lasting(side, says, cure));
            return Some(known.unwrap_or_else(|| cause(says, cure)));
        }
        let text = error.to_string();
        if https && text == EOF {
            return Some(cause(
                "the server left in the TLS handshake",
                "if it speaks no TLS, write http:// in its URL",
            ));
        }
        if !https && text.starts_with(NO_HTTP) {
            return Some(lasting(
                Side::Entry,
                "the answer is no HTTP",
                "if the server speaks TLS, write https:// in its URL; if not, check the port",
            ));
        }
        next = behind(error);
    }
    None
}

/// What is behind an error. An I/O error names as its source what is behind its own inside, which
/// is where a TLS error is kept.
fn behind<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inside) => Some(inside),
        None => error.source(),
    }
}

fn of(error: &TlsError) -> Option<Told> {
    Some(match error {
        TlsError::InvalidCertificate(error) => of_certificate(error),
        TlsError::InvalidMessage(_) => (
            Side::Entry,
            "the server speaks no TLS on this port",
            "write http:// in its URL, or its TLS port",
        ),
        TlsError::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown,
        ) => (
            Side::Server,
            "the server wants a certificate of ours",
            "client certificates are not supported; use another way to log in",
        ),
        TlsError::AlertReceived(_) | TlsError::PeerIncompatible(_) => (
            Side::Way,
            "the server and this program have no TLS in common",
            "TLS 1.2 and 1.3 are spoken; ask whoever runs the server, or check the host name in the URL",
        ),
        _ => return None,
    })
}

fn of_certificate(error: &CertificateError) -> Told {
    let (says, cure) = certificate(error);
    (Side::Way, says, cure)
}

fn certificate(error: &CertificateError) -> (&'static str, &'static str) {
    use CertificateError as E;
    const RENEW: &str = "whoever runs the server must renew it; also check the clock of this machine";
    match error {
        // A bad signature is most often another authority of the same name.
        E::UnknownIssuer | E::BadSignature => (NOT_TRUSTED, TRUST),
        // An authority's own certificate shown as that of a server: one made by hand.
        E::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => (NOT_TRUSTED, TRUST),
        E::Expired | E::ExpiredContext { .. } => ("its certificate has expired", RENEW),
        E::NotValidYet | E::NotValidYetContext { .. } => {
            ("its certificate is not valid yet", "check the clock of this machine")
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            ("its certificate is for another host", "write the host in the URL as the certificate has it")
        }
        E::Revoked => ("its certificate was revoked", "do not use it; ask whoever runs the server"),
        _ => ("its certificate is not accepted", "ask whoever runs the server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_tls_error_has_a_cause_and_a_cure() {
        let cases = [
            (TlsError::InvalidCertificate(CertificateError::UnknownIssuer), "not trusted"),
            (TlsError::InvalidCertificate(CertificateError::Revoked), "revoked"),
            (TlsError::InvalidCertificate(CertificateError::BadEncoding), "not accepted"),
            (TlsError::AlertReceived(AlertDescription::CertificateRequired), "certificate of ours"),
            (TlsError::AlertReceived(AlertDescription::ProtocolVersion), "no TLS in common"),
            (TlsError::DecryptError, "TLS failed"),
        ];
        for (error, want) in cases {
            let within = io::Error::other(io::Error::other(error.clone()));
            for error in [Box::new(error) as Box<dyn Error>, Box::new(within)] {
                let told = told(&*error, "https://h/").unwrap();
                assert!(told.says.contains(want) && !told.cure.is_empty(), "{error:?}: {told:?}");
            }
        }
        assert_eq!(told(&io::Error::other("reset"), "https://h/"), None);
        assert_eq!(told(&io::Error::other(EOF), "http://h/"), None);
    }
}
