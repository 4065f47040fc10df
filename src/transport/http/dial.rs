//! Opens the connections of the HTTP client: directly, or through the proxy that the
//! environment names for a host. Knows TCP and proxies; TLS to the server goes on top of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// What goes wrong while a connection is opened.
pub(super) type DialError = Box<dyn std::error::Error + Send + Sync>;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Dial {
    tcp: HttpConnector,
    proxies: Option<Proxies>,
}

/// The proxies of the environment (`HTTP_PROXY` and so on) and the way to them.
#[derive(Clone)]
pub(super) struct Proxies {
    rules: Arc<Matcher>,
    way: HttpsConnector<HttpConnector>,
}

impl Proxies {
    /// As the environment has them now. `tls` is for proxies whose own URL is https.
    pub(super) fn from_env(tcp: HttpConnector, tls: rustls::ClientConfig) -> Self {
        let way = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Self { rules: Arc::new(Matcher::from_env()), way: way.wrap_connector(tcp) }
    }

    /// What a plain request to this place tells its proxy to be let through.
    pub(super) fn login(&self, to: &Uri) -> Option<HeaderValue> {
        let plain = to.scheme() == Some(&http::uri::Scheme::HTTP);
        self.rules.intercept(to).filter(|_| plain)?.basic_auth().cloned()
    }
}

impl Dial {
    /// Without `proxies`, every host is reached directly.
    pub(super) fn new(tcp: HttpConnector, proxies: Option<Proxies>) -> Self {
        Self { tcp, proxies }
    }
}

impl Service<Uri> for Dial {
    type Response = Wire;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Wire, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let mut tcp = self.tcp.clone();
        let proxied = self.proxies.clone().and_then(|p| p.rules.intercept(&to).map(|found| (found, p.way)));
        Box::pin(async move {
            match proxied {
                Some((proxy, way)) => through(proxy, way, to).await,
                None => {
                    let stream = tcp.call(to).await?;
                    Ok(Wire { stream: MaybeHttpsStream::Http(stream), to_proxy: false })
                }
            }
        })
    }
}

/// TLS goes through a tunnel; plain requests are handed to the proxy itself.
async fn through(
    proxy: Intercept,
    mut way: HttpsConnector<HttpConnector>,
    to: Uri,
) -> Result<Wire, DialError> {
    let at = proxy.uri().clone();
    if !matches!(at.scheme_str(), Some("http" | "https")) {
        let kind = at.scheme_str().unwrap_or_default();
        return Err(
            format!("a proxy of the kind {kind}:// is not supported, only http:// and https://").into()
        );
    }
    if to.scheme() != Some(&http::uri::Scheme::HTTPS) {
        let stream = way.call(at).await.map_err(Unreached)?;
        return Ok(Wire { stream, to_proxy: true });
    }
    let mut tunnel = Tunnel::new(at, way);
    if let Some(login) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(login.clone());
    }
    let stream = tunnel.call(to).await.map_err(|error| Unreached(error.into()))?;
    Ok(Wire { stream, to_proxy: false })
}

/// The proxy is in the way: says so before the cause.
#[derive(Debug)]
struct Unreached(DialError);

impl std::fmt::Display for Unreached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("by the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names")
    }
}

impl std::error::Error for Unreached {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// An open connection to the server, or to the proxy before it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    /// Whether requests on it are a proxy's to pass on: they name the whole URL then.
    to_proxy: bool,
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.to_proxy)
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }
}
