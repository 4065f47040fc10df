//! The HTTP client that all links of this process share: pooled connections, HTTP/1.1 or
//! what TLS agrees on, TLS with `ring`, no redirects, no cookies, and no request twice (one
//! that met a connection closed before its first byte goes to another).
//!
//! Certificate authorities: those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
//!
//! Proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured as
//! other tools do, except for hosts on this machine, which are always reached directly.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tower_service::Service;
use url::Url;

use super::body::MessageBody;
use super::dial::{Dial, DialError, Proxies, Wire};
use super::response::{HttpError, Interim, Response};
use crate::transport::LinkFault;

/// Limit of one TCP connect with its TLS handshake.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept for the next call.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Idle connections kept per server.
const POOL_IDLE_MAX: usize = 32;
/// TCP keep-alive: finds dead peers of streams on which nothing is said.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The shared client. Cheap to clone; nothing is built before the first use.
#[derive(Clone, Debug, Default)]
pub struct Client(Arc<Kinds>);

#[derive(Debug, Default)]
struct Kinds {
    local: Slot,
    local_tls: Slot,
    remote: Slot,
}

type Slot = OnceLock<Result<Built, String>>;

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// This machine without TLS: no proxy, and no certificates to load.
    Local,
    /// This machine with TLS: no proxy.
    LocalTls,
    /// Everything else.
    Remote,
}

/// A client that was built.
#[derive(Clone)]
pub(super) struct Built {
    pool: legacy::Client<Limited, MessageBody>,
    proxies: Option<Proxies>,
    /// Whether certificates of authorities were found; without them every https server is refused.
    pub(super) has_roots: bool,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built").field("has_roots", &self.has_roots).finish_non_exhaustive()
    }
}

impl Built {
    /// Sends one request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        method: Method,
        to: Uri,
        headers: HeaderMap,
        body: MessageBody,
    ) -> Result<Response, HttpError> {
        let login = self.proxies.as_ref().and_then(|proxies| proxies.login(&to));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = to;
        *request.headers_mut() = headers;
        if let Some(login) = login {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(login);
        }
        let interim = Interim::default();
        interim.watch(&mut request);
        tokio::select! {
            biased;
            () = interim.too_many() => Err(HttpError::Interim),
            answer = self.pool.request(request) => answer.map(Response).map_err(HttpError::Request),
        }
    }
}

impl Client {
    /// A client with an empty pool. One per process is enough.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client for https that trusts one authority and no other.
    #[cfg(test)]
    pub(super) fn trusting(authority: &rustls::pki_types::CertificateDer<'static>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        let tls = tls().unwrap().with_root_certificates(roots).with_no_client_auth();
        let client = Self::new();
        client.0.local_tls.set(Ok(assemble(Reach::LocalTls, tls, true))).unwrap();
        client
    }

    /// The client for this URL.
    pub(super) fn for_url(&self, url: &Url) -> Result<Built, LinkFault> {
        let (slot, reach) = match (is_local(url), url.scheme()) {
            (true, "https") => (&self.0.local_tls, Reach::LocalTls),
            (true, _) => (&self.0.local, Reach::Local),
            (false, _) => (&self.0.remote, Reach::Remote),
        };
        slot.get_or_init(|| build(reach)).clone().map_err(LinkFault::Config)
    }
}

fn build(reach: Reach) -> Result<Built, String> {
    let failed = |error: rustls::Error| format!("no HTTP client: {error}");
    if reach != Reach::Local
        && let Ok(tls) = tls().map_err(failed)?.with_platform_verifier()
    {
        return Ok(assemble(reach, tls.with_no_client_auth(), true));
    }
    // No certificates needed, or none on this system: plain http must work all the same.
    let none = tls().map_err(failed)?.with_root_certificates(RootCertStore::empty());
    Ok(assemble(reach, none.with_no_client_auth(), false))
}

/// TLS 1.2 and 1.3 with `ring`, whatever else in this process uses.
pub(super) fn tls() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// TLS for URLs that somebody else chose: the system's authorities, nothing of the environment's.
pub(super) fn fetching() -> Result<ClientConfig, rustls::Error> {
    Ok(tls()?.with_platform_verifier()?.with_no_client_auth())
}

fn assemble(reach: Reach, tls: ClientConfig, has_roots: bool) -> Built {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let proxies = (reach == Reach::Remote).then(|| Proxies::from_env(tcp.clone(), tls.clone()));
    let dial = Dial::new(tcp, proxies.clone());
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions();
    let pool = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_MAX)
        .build(Limited(https.wrap_connector(dial)));
    Built { pool, proxies, has_roots }
}

/// Connects within [`CONNECT_TIMEOUT`], TLS included.
#[derive(Clone)]
struct Limited(HttpsConnector<Dial>);

impl Service<Uri> for Limited {
    type Response = MaybeHttpsStream<Wire>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(outcome) => outcome,
                Err(_) => Err(TooSlow.into()),
            }
        })
    }
}

/// The connection did not stand in time.
#[derive(Debug)]
pub(super) struct TooSlow;

impl std::fmt::Display for TooSlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection did not stand in time")
    }
}

impl std::error::Error for TooSlow {}

/// Whether the host is this machine: `localhost`, a loopback or the unspecified address.
pub(super) fn is_local(url: &Url) -> bool {
    // IPv6 hosts are written in brackets.
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(v4) = bare.parse::<Ipv4Addr>() {
        return v4.is_loopback() || v4.is_unspecified();
    }
    if let Ok(v6) = bare.parse::<Ipv6Addr>() {
        return v6.is_loopback()
            || v6.is_unspecified()
            || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback());
    }
    let name = host.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_on_this_machine_are_told_from_others() {
        for host in [
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_local(&Url::parse(&format!("http://{host}:3000/mcp")).unwrap()), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "notlocalhost", "[2001:db8::1]"] {
            assert!(!is_local(&Url::parse(&format!("http://{host}:3000/mcp")).unwrap()), "{host}");
        }
    }

    #[test]
    fn clones_share_one_pool_and_every_kind_can_be_built() {
        let client = Client::new();
        let clone = client.clone();
        for url in
            ["http://127.0.0.1:1/", "https://localhost/", "https://example.com/", "http://example.com/"]
        {
            client.for_url(&Url::parse(url).unwrap()).unwrap();
        }
        let Kinds { local, local_tls, remote } = &*clone.0;
        assert!([local, local_tls, remote].iter().all(|slot| slot.get().is_some()));
    }
}
