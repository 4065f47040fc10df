//! The HTTP client that all links of this process share: pooled connections, TLS with
//! `ring`, no redirects of its own, no cookies, no retries behind our back.
//!
//! Proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured as
//! other tools do, except for hosts on this machine, which are always reached directly.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{ClientBuilder, Url};

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
#[derive(Clone, Debug)]
pub(super) struct Built {
    /// The client.
    pub(super) http: reqwest::Client,
    /// Whether certificates of well-known authorities were found; without them every https server is refused.
    pub(super) has_roots: bool,
}

impl Client {
    /// A client with an empty pool. One per process is enough.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client for https that trusts one authority and no other.
    #[cfg(test)]
    pub(super) fn trusting(authority: &[u8]) -> Self {
        let authority = reqwest::Certificate::from_der(authority).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = builder(Reach::LocalTls).tls_certs_only([authority]).build().unwrap();
        let client = Self::new();
        client.0.local_tls.set(Ok(Built { http, has_roots: true })).unwrap();
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
    // The first caller decides; a provider that is installed already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if reach != Reach::Local
        && let Ok(http) = builder(reach).build()
    {
        return Ok(Built { http, has_roots: true });
    }
    // No certificates needed, or none on this system: plain http must work all the same.
    match builder(reach).tls_certs_only([]).build() {
        Ok(http) => Ok(Built { http, has_roots: false }),
        Err(error) => Err(format!("no HTTP client: {}", super::fault::chain(&error))),
    }
}

fn builder(reach: Reach) -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_MAX);
    if reach == Reach::Remote { builder } else { builder.no_proxy() }
}

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
