//! Certificates for the tests of this link, made anew by each test: an authority, and
//! servers that are as they should be or not.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::Client;

/// What is wrong with a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paper {
    /// Nothing.
    Good,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    Early,
    /// It is for another host.
    OtherHost,
    /// It vouches for itself.
    SelfSigned,
}

/// An authority of a test.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A client that trusts this authority and no other.
    pub(super) fn client(&self) -> Client {
        Client::trusting(self.0.der())
    }

    /// The TLS side of a server on 127.0.0.1; `alpn` is what it offers, best first.
    pub(super) fn server(&self, paper: Paper, alpn: &[&str]) -> TlsAcceptor {
        let host = if paper == Paper::OtherHost { "other.example" } else { "127.0.0.1" };
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        match paper {
            Paper::Expired => {
                params.not_before = date_time_ymd(2019, 1, 1);
                params.not_after = date_time_ymd(2020, 1, 1);
            }
            Paper::Early => {
                params.not_before = date_time_ymd(2999, 1, 1);
                params.not_after = date_time_ymd(3000, 1, 1);
            }
            _ => {}
        }
        let key = KeyPair::generate().unwrap();
        let cert = match paper {
            Paper::SelfSigned => params.self_signed(&key),
            _ => params.signed_by(&key, &self.0),
        };
        acceptor(cert.unwrap().der().clone(), &key, alpn)
    }
}

fn acceptor(cert: CertificateDer<'static>, key: &KeyPair, alpn: &[&str]) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}
