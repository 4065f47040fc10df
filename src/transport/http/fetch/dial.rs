//! The connections of the fetcher: who looks names up, who connects, and one request on a
//! connection of its own. Decides nothing: addresses come from `fetch`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Uri};
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;
use url::Url;

use super::FetchError;
use crate::transport::http::response::Response;
use crate::transport::task::{self, Owned};

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// All addresses of a name.
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Connects.
pub trait Dialer: Send + Sync {
    /// A connection to exactly this address.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// A connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The network of this machine.
pub(super) struct Network;

impl Resolver for Network {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Dialer for Network {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// An answer, and the connection that it comes on.
pub(super) struct Sent {
    pub(super) response: Response,
    connection: Owned,
}

impl Sent {
    /// The answer is of no use.
    pub(super) fn end(&mut self) {
        self.connection.abort();
    }
}

/// Sends one request on a connection of its own to the first of these addresses that answers.
pub(super) async fn send(
    dialer: &dyn Dialer,
    tls: &Arc<ClientConfig>,
    url: &Url,
    at: &[SocketAddr],
    request: Request<String>,
) -> Result<Sent, FetchError> {
    let mut stream = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in at {
        stream = dialer.connect(*address).await;
        if stream.is_ok() {
            break;
        }
    }
    let failed = |what: &str, error: &dyn std::fmt::Display| FetchError::Network(format!("{what}: {error}"));
    let stream = stream.map_err(|error| failed("no connection", &error))?;
    let uri: Uri = url.as_str().parse().map_err(|error| failed("no URI", &error))?;
    let tls = HttpsConnectorBuilder::new().with_tls_config(ClientConfig::clone(tls));
    let mut secured = tls.https_or_http().enable_http1().wrap_connector(Pinned(Some(stream)));
    let wire = secured.call(uri).await.map_err(|error| failed("no connection", &error))?;
    let (mut sender, connection) = http1::handshake(wire).await.map_err(|error| failed("no HTTP", &error))?;
    let connection = task::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(|error| failed("no answer", &error))?;
    Ok(Sent { response: Response(response), connection })
}

/// Hands out the one connection that stands, whatever it is asked for.
struct Pinned(Option<Box<dyn Stream>>);

impl Service<Uri> for Pinned {
    type Response = Wire;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Wire>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into());
        std::future::ready(stream.map(|stream| Wire(TokioIo::new(stream))))
    }
}

/// A connection as the HTTP library wants it.
struct Wire(TokioIo<Box<dyn Stream>>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
