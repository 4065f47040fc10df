//! Floor 2. Links to servers: async I/O, no actor. A [`Connector`] is the recipe
//! that can connect again; connecting gives a [`link::Link`] with its handshake
//! done. Called by the server actor's tasks only.

mod duplex;
pub mod handshake;
pub mod http;
pub mod inbound;
pub mod link;
pub mod list;
mod pipe;
pub mod stderr;
pub mod stdio;
pub mod task;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use self::handshake::{CarrierKind, Established, HandshakeError};
use self::inbound::{Inbound, InboundEnds};
use self::link::{Carrier, Link, LinkEvent};
use crate::wire::era::Revision;

/// How to reach one server. A closed set: every kind is tested.
#[derive(Clone, Debug)]
pub enum Connector {
    /// A child process on pipes.
    Stdio(StdioLaunch),
    /// Streamable HTTP.
    Http(HttpEndpoint),
    /// An in-process peer over a pair of pipes (tests, built-in servers).
    Duplex(DuplexPeer),
}

/// A child process, fully expanded.
#[derive(Clone)]
pub struct StdioLaunch {
    /// Program: a path, or a name looked up in the PATH of `env`.
    pub command: String,
    /// Arguments, verbatim.
    pub args: Vec<String>,
    /// The whole environment of the child; nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// Working directory; `None` means ours.
    pub cwd: Option<PathBuf>,
}

impl std::fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioLaunch").field("command", &self.command).finish_non_exhaustive()
    }
}

/// A Streamable HTTP endpoint, fully expanded.
#[derive(Clone)]
pub struct HttpEndpoint {
    /// Absolute http or https URL.
    pub url: String,
    /// Configured headers, values secret.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoint").finish_non_exhaustive()
    }
}

/// Makes a fresh in-process peer for each connection.
#[derive(Clone)]
pub struct DuplexPeer(pub Arc<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>);

impl std::fmt::Debug for DuplexPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DuplexPeer")
    }
}

/// Which era to speak (`protocol` in the configuration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolChoice {
    /// Find out; remember.
    #[default]
    Auto,
    /// `initialize` only.
    Legacy,
    /// `server/discover` only.
    Modern,
}

/// What every link of one server needs to know.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Largest frame, SSE event or HTTP body taken from the server, in bytes.
    pub frame_max: usize,
    /// Era choice.
    pub protocol: ProtocolChoice,
    /// The revision that worked last time: tried first under `Auto`.
    pub remembered: Option<Revision>,
    /// Roots to answer `roots/list` with, `file://` URIs; empty means not declared.
    pub roots: Vec<Root>,
    /// Limit of one list request, and of one HTTP control request.
    pub list_timeout: Duration,
}

/// One root that we declare to servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// `file://` URI.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}

/// Why no connection was made, or why it ended. The lifecycle decides by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// Command not found, not executable, bad cwd, exit 126/127/78 before the handshake,
    /// the old HTTP+SSE transport, an unusable URL: starting again on a timer won't help.
    Config(String),
    /// HTTP 401 or 403; the text names realm and scope when the server did.
    NeedsAuth(String),
    /// The process ended.
    Exited {
        /// Exit code, if it left by itself.
        code: Option<i32>,
        /// Signal, if one ended it.
        signal: Option<i32>,
        /// Last lines of stderr, redacted by the caller before display.
        stderr: String,
    },
    /// The other side closed stdout or the stream.
    Closed,
    /// The handshake was refused, or its answer makes no sense.
    Protocol(String),
    /// Network: refused, DNS, TLS, reset; HTTP 5xx; with the text of the cause.
    Network(String),
    /// No answer within the limit that is named.
    TimedOut(String),
    /// A frame over the cap that never ended: the stream had to be reset.
    TooLong(String),
    /// Throttled: HTTP 429, or 503 with Retry-After.
    Throttled {
        /// When to come back.
        after: Duration,
    },
}

/// A connection with its handshake done.
#[derive(Debug)]
pub struct Connection {
    /// The way to call.
    pub link: Link,
    /// Its notifications.
    pub events: mpsc::Receiver<LinkEvent>,
    /// What the handshake found out.
    pub established: Established,
}

/// Why no connection came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// The cause.
    pub fault: LinkFault,
    /// The end of the child's stderr; redacted by the caller before display.
    pub stderr: String,
}

/// Opens a fresh connection and does the handshake, at most twice: once more when the
/// first attempt showed that the other era is spoken. `spawned` learns the process id of
/// each child. Dropping the future ends everything that it started.
pub async fn connect(
    connector: &Connector,
    settings: &LinkSettings,
    spawned: &watch::Sender<Option<u32>>,
) -> Result<Connection, ConnectError> {
    let mut era = None;
    loop {
        let (link, events, kind) =
            open(connector, settings).map_err(|fault| ConnectError { fault, stderr: String::new() })?;
        let _ = spawned.send(link.pid());
        match handshake::run(&link, kind, settings, era).await {
            Ok(established) => return Ok(Connection { link, events, established }),
            Err(HandshakeError::Reconnect(other)) if era.is_none() => era = Some(other),
            Err(HandshakeError::Reconnect(_)) => {
                let fault = LinkFault::Protocol("the server speaks neither era of the protocol".to_owned());
                return Err(ConnectError { fault, stderr: link.stderr_tail() });
            }
            Err(HandshakeError::Fault(fault)) => {
                return Err(ConnectError { fault, stderr: link.stderr_tail() });
            }
        }
    }
}

fn open(
    connector: &Connector,
    settings: &LinkSettings,
) -> Result<(Link, mpsc::Receiver<LinkEvent>, CarrierKind), LinkFault> {
    let InboundEnds { inbound, events, ended } = Inbound::open(settings.roots.clone(), settings.frame_max);
    let (carrier, kind): (Arc<dyn Carrier>, _) = match connector {
        Connector::Stdio(launch) => (stdio::connect(launch, settings, inbound.clone())?, CarrierKind::Pipe),
        Connector::Duplex(peer) => (duplex::connect(peer, settings, inbound.clone()), CarrierKind::Pipe),
        Connector::Http(endpoint) => {
            return Err(LinkFault::Config(format!("{endpoint:?}")));
        }
    };
    Ok((Link::new(carrier, inbound, ended), events, kind))
}
