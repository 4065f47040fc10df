//! Floor 2. Links to servers: async I/O, no actor. A [`Connector`] is the recipe
//! that can connect again; connecting gives a [`link::Link`] with its handshake
//! done. Called by the server actor's tasks only.

pub mod asked;
mod duplex;
mod follow;
pub mod guard;
pub mod handshake;
pub mod http;
pub mod inbound;
pub mod kept;
pub mod legacy_side;
pub mod link;
pub mod list;
pub mod liveness;
pub mod memory;
mod misfit;
pub mod pins;
mod pipe;
mod probe;
mod process;
pub mod spawns;
pub mod stderr;
pub mod stdio;
pub mod tap;
pub mod task;
#[cfg(test)]
pub(crate) mod testpeer;
mod turn;
pub mod waiting;
pub mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, mpsc};

use self::handshake::{CarrierKind, Established, HandshakeError};
use self::inbound::{Inbound, InboundEnds};
use self::link::{Carrier, Link, LinkEvent};
use crate::policy::sandbox::Confinement;
use crate::time;
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

impl Connector {
    /// Whether both lead to the same server in the same way. In-process peers are not told apart.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdio(a), Self::Stdio(b)) => a == b,
            (Self::Http(a), Self::Http(b)) => a == b,
            (Self::Duplex(_), Self::Duplex(_)) => true,
            (Self::Stdio(_) | Self::Http(_) | Self::Duplex(_), _) => false,
        }
    }
}

/// A child process, fully expanded.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioLaunch {
    /// Program: a path, or a name looked up in the PATH of `env`.
    pub command: String,
    /// Arguments, verbatim.
    pub args: Vec<String>,
    /// The whole environment of the child; nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// Working directory; `None` means ours.
    pub cwd: Option<PathBuf>,
    /// What ends its whole tree; `None`: it has a process group and nothing more.
    pub guard: Option<guard::Guarding>,
    /// What it may touch; `None`: what its user may. Kept by the guard, so there must be one.
    pub sandbox: Option<Arc<Confinement>>,
}

impl std::fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioLaunch").field("command", &self.command).finish_non_exhaustive()
    }
}

/// A Streamable HTTP endpoint, fully expanded.
#[derive(Clone, PartialEq, Eq)]
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
    /// What else our clients can.
    pub declared: Declared,
    /// Limit of one list request, and of one HTTP control request.
    pub list_timeout: Duration,
    /// The HTTP client that all servers share.
    pub http: http::Client,
    /// The places of those that are being spawned, shared by all servers too.
    pub spawns: spawns::Spawns,
    /// Where somebody may listen.
    pub tap: tap::Tap,
}

/// What we tell servers that their client can, besides roots of our own (`roots` above).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared(Arc<str>);

impl Declared {
    /// These capabilities, a JSON object.
    pub fn new(capabilities: &serde_json::Map<String, serde_json::Value>) -> Self {
        Self(serde_json::Value::Object(capabilities.clone()).to_string().into())
    }

    /// The JSON object.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Declared {
    fn default() -> Self {
        Self("{}".into())
    }
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
    /// The same, with a cause that is understood: one sentence, what cures it, and the causes as
    /// the HTTP client told them.
    Unreachable {
        /// One sentence.
        text: String,
        /// What to do about it.
        cure: &'static str,
        /// The raw chain of causes; for `--json`.
        detail: String,
    },
    /// What answers is no server that we can speak to, and will not become one by itself: another
    /// protocol or revision, a web page, no TLS behind https, a certificate that is refused.
    /// Starting again on a timer won't help, unless it was a fit before.
    Misfit {
        /// One sentence.
        text: String,
        /// What to do about it.
        cure: &'static str,
        /// The causes as they were told, where the sentence leaves them out; for `--json`.
        detail: Option<String>,
        /// Where the cure has to happen.
        side: Side,
    },
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

impl LinkFault {
    /// Whether it may be gone at the next try: the network, a limit, a server that is busy.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Network(_)
                | Self::Unreachable { .. }
                | Self::TimedOut(_)
                | Self::Closed
                | Self::Throttled { .. }
                | Self::TooLong(_)
        )
    }

    /// The causes as they were told, where the sentence leaves them out.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Unreachable { detail, .. } => Some(detail),
            Self::Misfit { detail, .. } => detail.as_deref(),
            _ => None,
        }
    }
}

/// Where what does not fit has to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the entry: its URL, its headers.
    Entry,
    /// On the way: certificates, what both sides encrypt with.
    Way,
    /// In the server.
    Server,
}

impl std::fmt::Display for LinkFault {
    /// The fault in words, without the server's name and without its stderr.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(text)
            | Self::NeedsAuth(text)
            | Self::Protocol(text)
            | Self::Network(text)
            | Self::TimedOut(text)
            | Self::TooLong(text)
            | Self::Unreachable { text, .. }
            | Self::Misfit { text, .. } => f.write_str(text),
            Self::Exited { code: Some(code), .. } => write!(f, "the server exited with code {code}"),
            Self::Exited { signal: Some(signal), .. } => {
                write!(f, "the server was ended by signal {signal}{}", signal_name(*signal))
            }
            Self::Exited { .. } => f.write_str("the server exited"),
            Self::Closed => f.write_str("the server closed the connection"),
            Self::Throttled { after } => {
                write!(f, "the server asks to wait {}", humantime::format_duration(*after))
            }
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
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

/// One attempt to connect, seen from outside: its link stays reachable, so that whoever
/// gives the attempt up can still end the process in order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    tried: Arc<Mutex<Tried>>,
    /// Told of each process that was started.
    started: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Tried {
    link: Option<Link>,
    /// The last process that was started, and when; it stays known after its end.
    spawned: Option<(SystemTime, u32)>,
}

impl Attempt {
    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, link: Link) {
        let spawned = link.pid().map(|pid| (time::wall(), pid));
        let mut tried = self.tried();
        tried.spawned = spawned.or(tried.spawned);
        tried.link = Some(link);
        drop(tried);
        if spawned.is_some() {
            self.started.notify_one();
        }
    }

    /// Resolves when a process was started since the last time that this resolved.
    pub async fn started(&self) {
        self.started.notified().await;
    }

    /// The last process that was started, and when (wall clock); also after its end.
    pub fn spawned(&self) -> Option<(SystemTime, u32)> {
        self.tried().spawned
    }

    /// The link of the attempt, to close it. Afterwards the attempt holds none.
    pub fn take(&self) -> Option<Link> {
        self.tried().link.take()
    }

    /// Process id of the child, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.tried().link.as_ref().and_then(Link::pid)
    }

    /// Process id of the child's guard, while there is one.
    pub fn guard_pid(&self) -> Option<u32> {
        self.tried().link.as_ref().and_then(Link::guard_pid)
    }

    /// What was odd so far.
    pub fn counters(&self) -> Option<link::LinkCounters> {
        self.tried().link.as_ref().map(Link::counters)
    }

    /// The last line of the child's stderr that is not blank.
    pub fn stderr_last(&self) -> Option<String> {
        self.tried().link.as_ref().and_then(Link::stderr_last)
    }

    /// The whole lines at the end of the child's stderr.
    pub fn stderr_recent(&self) -> String {
        self.tried().link.as_ref().map(Link::stderr_recent).unwrap_or_default()
    }

    /// Last lines of the child's stderr.
    pub fn stderr_tail(&self) -> String {
        let link = self.tried().link.clone();
        link.map(|link| link.stderr_tail()).unwrap_or_default()
    }
}

/// Opens a fresh connection and does the handshake, at most twice: once more when the
/// first attempt showed that the other era is spoken. Failed or dropped, its last link is
/// left in `attempt` for the caller to close.
pub async fn connect(
    connector: &Connector,
    settings: &LinkSettings,
    attempt: &Attempt,
) -> Result<Connection, ConnectError> {
    let mut era = None;
    loop {
        let (link, events, kind) =
            open(connector, settings).await.map_err(|fault| ConnectError { fault, stderr: String::new() })?;
        attempt.put(link.clone());
        let fault = match handshake::run(&link, kind, settings, era).await {
            Ok(established) => {
                attempt.take();
                return Ok(Connection { link, events, established });
            }
            Err(HandshakeError::Reconnect(other)) if era.is_none() => {
                link.close().await;
                era = Some(other);
                continue;
            }
            Err(HandshakeError::Reconnect(_)) => {
                misfit::stranger("the server speaks neither era of the protocol".to_owned())
            }
            Err(HandshakeError::Fault(fault)) => fault,
        };
        return Err(ConnectError { fault, stderr: link.stderr_tail() });
    }
}

async fn open(
    connector: &Connector,
    settings: &LinkSettings,
) -> Result<(Link, mpsc::Receiver<LinkEvent>, CarrierKind), LinkFault> {
    let InboundEnds { inbound, events, ended } = Inbound::open(settings.roots.clone(), settings.frame_max);
    inbound.tapped(settings.tap.clone());
    let (carrier, kind): (Arc<dyn Carrier>, _) = match connector {
        Connector::Stdio(launch) => {
            (stdio::connect(launch, settings, inbound.clone()).await?, CarrierKind::Pipe)
        }
        Connector::Duplex(peer) => (duplex::connect(peer, settings, inbound.clone()), CarrierKind::Pipe),
        Connector::Http(endpoint) => {
            (http::connect(endpoint, settings, &settings.http, inbound.clone())?, CarrierKind::Http)
        }
    };
    Ok((Link::new(carrier, inbound, ended), events, kind))
}
