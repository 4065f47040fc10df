//! Fetches a URL that somebody else chose: a server, a model, a page. Every connection goes to an
//! address that `policy::net` let pass, looked up once and by us; no proxy, no pool, no cookies;
//! bounds on hops, time, bytes and kinds of content. Built-ins and logins go through here; the
//! URL of a configured server does not, since its user chose it.

mod dial;
#[cfg(test)]
mod net_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use rustls::ClientConfig;
use url::Url;

pub use self::dial::{Dialer, Resolver, Stream};
use self::dial::{Network, Sent};
use super::redirect::{is_redirect, same_origin};
use super::response::Response;
use crate::policy::net::{Destination, PORTS, Refusal, addresses, destination};

/// Redirects followed for one fetch.
pub const HOPS_MAX: usize = 5;
/// Largest body, bytes. Encodings are not asked for, so that it can't grow while it is read.
pub const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Longest time for all of it, redirects included.
pub const TIME_MAX: Duration = Duration::from_secs(20);

/// What is to be fetched.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Where.
    pub url: Url,
    /// GET or POST.
    pub method: Method,
    /// Headers for the origin of `url`; none of them goes to another one.
    pub headers: HeaderMap,
    /// The body of a POST.
    pub body: String,
    /// Media types that are taken, such as `text/html` or `text/*`.
    pub accept: &'static [&'static str],
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where it was found, after redirects.
    pub url: Url,
    /// Its status, never a redirect.
    pub status: u16,
    /// Its media type, lower case, without parameters.
    pub media: String,
    /// The body.
    pub body: Bytes,
}

/// Why nothing was fetched.
#[derive(Debug)]
pub enum FetchError {
    /// The floor: an address, a name, a port, a scheme.
    Refused(Refusal),
    /// More than [`HOPS_MAX`] redirects, or one that leads nowhere.
    Redirect(String),
    /// More than [`BODY_BYTES_MAX`].
    TooLarge,
    /// Longer than [`TIME_MAX`].
    TooSlow,
    /// A content type that is not taken, or an encoding that was not asked for.
    Content(String),
    /// The network, TLS or HTTP, in words.
    Network(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Redirect(text) | Self::Network(text) => f.write_str(text),
            Self::TooLarge => write!(f, "larger than {BODY_BYTES_MAX} bytes"),
            Self::TooSlow => write!(f, "not fetched within {TIME_MAX:?}"),
            Self::Content(kind) => write!(f, "content of the kind {kind:?} is not taken"),
        }
    }
}

impl std::error::Error for FetchError {}

impl From<Refusal> for FetchError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Fetches. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    resolver: Arc<dyn Resolver>,
    dialer: Arc<dyn Dialer>,
    tls: Arc<ClientConfig>,
    ports: Vec<u16>,
    own: Option<url::Origin>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// One over the network of this machine. Fails without the system's certificate authorities.
    pub fn new() -> Result<Self, FetchError> {
        let tls = super::client::fetching().map_err(|error| FetchError::Network(error.to_string()))?;
        Ok(Self::over(Arc::new(Network), Arc::new(Network), tls))
    }

    /// One over these: for tests, and for hosts that bring their own network.
    pub fn over(resolver: Arc<dyn Resolver>, dialer: Arc<dyn Dialer>, tls: ClientConfig) -> Self {
        Self { resolver, dialer, tls: Arc::new(tls), ports: PORTS.to_vec(), own: None }
    }

    /// The same with these ports in place of [`PORTS`].
    #[must_use]
    pub fn with_ports(mut self, ports: Vec<u16>) -> Self {
        self.ports = ports;
        self
    }

    /// The same with one origin that the user configured: it may be on any port of any host. What it
    /// redirects to may not.
    #[must_use]
    pub fn trusting(mut self, own: &Url) -> Self {
        self.own = Some(own.origin()).filter(url::Origin::is_tuple);
        self
    }

    /// Fetches it, through at most [`HOPS_MAX`] redirects.
    pub async fn fetch(&self, wanted: Fetch) -> Result<Fetched, FetchError> {
        match tokio::time::timeout(TIME_MAX, self.follow(wanted)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::TooSlow),
        }
    }

    async fn follow(&self, mut wanted: Fetch) -> Result<Fetched, FetchError> {
        for _ in 0..=HOPS_MAX {
            let mut sent = self.send(&wanted).await?;
            let status = sent.response.status();
            if !is_redirect(status.as_u16()) {
                return read(sent.response, wanted).await;
            }
            wanted = redirected(wanted, status, sent.response.headers().get(LOCATION))?;
            sent.end();
        }
        Err(FetchError::Redirect(format!("more than {HOPS_MAX} redirects")))
    }

    /// One request, to an address that was checked for it.
    async fn send(&self, wanted: &Fetch) -> Result<Sent, FetchError> {
        let at = self.vetted(&wanted.url).await?;
        let path = &wanted.url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &wanted.url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut request = Request::new(wanted.body.clone());
        *request.method_mut() = wanted.method.clone();
        let bad = |error: &dyn fmt::Display| FetchError::Network(format!("no request can be made: {error}"));
        *request.uri_mut() = path.parse().map_err(|error| bad(&error))?;
        let headers = request.headers_mut();
        headers.clone_from(&wanted.headers);
        headers.insert(HOST, HeaderValue::from_str(authority).map_err(|error| bad(&error))?);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let accept = HeaderValue::from_str(&wanted.accept.join(", ")).map_err(|error| bad(&error))?;
        headers.insert(ACCEPT, accept);
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("callboard"));
        dial::send(&*self.dialer, &self.tls, &wanted.url, &at, request).await
    }

    /// The addresses for one request. The name is looked up here and nowhere else, and what it
    /// stands for next time does not matter.
    async fn vetted(&self, url: &Url) -> Result<Vec<SocketAddr>, FetchError> {
        if self.own.as_ref() == Some(&url.origin()) {
            return self.configured(url).await;
        }
        let (found, port): (Vec<IpAddr>, u16) = match destination(url, &self.ports)? {
            Destination::Address(address, port) => (vec![address], port),
            Destination::Name(name, port) => {
                let found = self.resolver.resolve(name.clone()).await;
                let found = found.map_err(|error| FetchError::Network(format!("{name}: {error}")))?;
                (addresses(&name, &found)?, port)
            }
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// The addresses of what the user configured.
    async fn configured(&self, url: &Url) -> Result<Vec<SocketAddr>, FetchError> {
        let port = url.port_or_known_default().unwrap_or(80);
        let found = match url.host() {
            Some(url::Host::Ipv4(address)) => vec![address.into()],
            Some(url::Host::Ipv6(address)) => vec![address.into()],
            Some(url::Host::Domain(name)) => {
                let found = self.resolver.resolve(name.to_owned()).await;
                found.map_err(|error| FetchError::Network(format!("{name}: {error}")))?
            }
            None => Vec::new(),
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

/// The request that a redirect asks for.
fn redirected(
    mut wanted: Fetch,
    status: StatusCode,
    location: Option<&HeaderValue>,
) -> Result<Fetch, FetchError> {
    let location = location.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let to = location.and_then(|location| wanted.url.join(location).ok());
    let Some(mut to) = to else {
        return Err(FetchError::Redirect(format!("HTTP {status} to a place that is no URL")));
    };
    to.set_fragment(None);
    if wanted.url.scheme() == "https" && to.scheme() == "http" {
        return Err(FetchError::Redirect(format!("HTTP {status} from https to http is not followed")));
    }
    let keeps_body = matches!(status.as_u16(), 307 | 308);
    if !keeps_body && wanted.method != Method::GET {
        wanted.method = Method::GET;
        wanted.body.clear();
        wanted.headers.remove(CONTENT_TYPE);
    }
    if !same_origin(&wanted.url, &to) {
        // Whatever the caller wrote was for the first origin, a body with a secret in it too.
        if wanted.method != Method::GET {
            return Err(FetchError::Redirect(format!("HTTP {status} of a POST to another origin")));
        }
        wanted.headers.clear();
    }
    wanted.url = to;
    Ok(wanted)
}

async fn read(mut response: Response, wanted: Fetch) -> Result<Fetched, FetchError> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let encoding = text(CONTENT_ENCODING).trim().to_ascii_lowercase();
    if !matches!(encoding.as_str(), "" | "identity") {
        return Err(FetchError::Content(encoding));
    }
    let media = text(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !wanted.accept.iter().any(|taken| takes(taken, &media)) {
        return Err(FetchError::Content(media));
    }
    let mut body = BytesMut::new();
    loop {
        let piece = response.chunk().await.map_err(|_| FetchError::Network("the answer broke off".into()))?;
        let Some(piece) = piece else { break };
        if body.len() + piece.len() > BODY_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    let status = response.status().as_u16();
    Ok(Fetched { url: wanted.url, status, media, body: body.freeze() })
}

fn takes(taken: &str, media: &str) -> bool {
    match taken.strip_suffix('*') {
        Some(kind) => media.starts_with(kind),
        None => media == taken,
    }
}
