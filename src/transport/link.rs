//! Floor 2. One connection to a server, whatever carries it: ids, the pending
//! table, answers, cancellation, the end. A [`Link`] is a cheap handle; the tasks
//! behind it end when the last handle is dropped or `close` was called.
//! Used by the server actor and its call tasks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::LinkFault;
use super::follow::Follower;
use super::handshake::Established;
use super::inbound::Inbound;
use super::waiting::Waiting;
use crate::call::Delivery;
use crate::catalog::items::ListKinds;
use crate::id::SessionId;
use crate::wire::envelope::Response;
use crate::wire::era::{Era, Revision};
use crate::wire::splice::{self, Parts};

/// Notifications that may wait for the server actor; more are dropped and counted.
pub const LINK_EVENTS_MAX: usize = 256;

/// An answer, byte for byte, with its spans.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The whole message, on one line: what were line ends between its tokens are spaces.
    pub frame: Bytes,
    /// Its envelope.
    pub response: Response,
}

impl Reply {
    /// The bytes of `result` or `error`.
    pub fn body(&self) -> Bytes {
        self.frame.slice(self.response.body.clone())
    }
}

/// Why one request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeError {
    /// What happened.
    pub fault: ExchangeFault,
    /// Whether bytes may have left.
    pub delivery: Delivery,
}

/// The kinds of missing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeFault {
    /// An answer came and is broken; the text says how.
    Malformed(String),
    /// An answer came and is over the cap of that many bytes.
    TooLong(usize),
    /// The connection ended.
    Lost(LinkFault),
    /// An HTTP status without a JSON-RPC body; the text is the start of the body.
    Http {
        /// The status.
        status: u16,
        /// The start of the body, at most 2 KiB.
        body: String,
    },
    /// HTTP 401 or 403.
    NeedsAuth(String),
    /// HTTP 429 or 503 with the wait that was asked for.
    Throttled(Duration),
}

/// One request to write.
#[derive(Debug)]
pub struct Outbound<'a> {
    /// From [`Link::next_id`]; already spliced into `parts`.
    pub id: u64,
    /// The method, for the `Mcp-Method` header.
    pub method: &'a str,
    /// Raw name or URI, for the `Mcp-Name` header.
    pub name: Option<&'a str>,
    /// The message.
    pub parts: Parts,
    /// Further HTTP headers of the modern era (`Mcp-Param-…`, see
    /// [`crate::transport::http::ParamHeaders`]); pipes have none.
    pub headers: Vec<(String, String)>,
    /// Whose call it is: the server may ask its caller something. `None` for requests of our own.
    pub session: Option<SessionId>,
}

/// The waiting end of a request.
#[derive(Debug)]
pub struct Exchange {
    /// The id on this link.
    pub id: u64,
    /// Hears progress and then exactly one answer, or that the link is gone.
    pub waiting: Waiting,
}

/// What a link reports besides answers.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// A notification other than progress of a pending request. Of `list_changed` only the first
    /// since the last [`Link::take_stale`] is reported.
    Notification {
        /// Its method.
        method: String,
        /// The whole message, on one line.
        frame: Bytes,
    },
    /// The server began a new session in the middle of this connection, or the stream of
    /// its notifications was away for a while (HTTP): lists may have changed unseen.
    SessionRenewed,
}

/// Which lists may have changed since the owner looked last. However often a server says it, this
/// is all that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// Lists that the server announced as changed.
    pub announced: ListKinds,
    /// Any list may have: see [`LinkEvent::SessionRenewed`].
    pub renewed: bool,
}

impl Stale {
    /// Whether nothing is.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Things worth showing in status, counted since the link was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Lines or bodies that are no JSON-RPC.
    pub noise: u64,
    /// The last such line, cut to 200 bytes.
    pub last_noise: Option<String>,
    /// Answers to requests that were given up before: late.
    pub late: u64,
    /// Answers whose id belongs to nobody.
    pub unmatched: u64,
    /// The id of the last such answer, as written.
    pub last_unmatched: Option<String>,
    /// Answers that broke the protocol.
    pub malformed: u64,
    /// Notifications dropped because nobody took them in time.
    pub dropped: u64,
}

/// What carries the messages. Implemented by the stdio and duplex pipe and by HTTP.
pub(crate) trait Carrier: Send + Sync + std::fmt::Debug {
    /// Takes one request; never blocks. Its answer goes to the pending table.
    fn submit(&self, request: Outbound<'_>);
    /// Takes one notification or answer of ours; never blocks.
    fn notify(&self, message: Bytes);
    /// The caller of `id` is gone: tell the server in the way of this transport and era, once, if it
    /// may know of the request. `sent`: bytes of it may have left through the pending table.
    fn cancel(&self, id: u64, reason: &str, sent: bool);
    /// Starts an orderly end; returns when everything is gone.
    fn close(&self) -> futures_util::future::BoxFuture<'static, ()>;
    /// Process id, for a child.
    fn pid(&self) -> Option<u32> {
        None
    }
    /// Process id of the child's guard, if it has one.
    fn guard_pid(&self) -> Option<u32> {
        None
    }
    /// Last lines of stderr, for a child.
    fn stderr_tail(&self) -> String {
        String::new()
    }
    /// The whole lines at the end of stderr, for a child.
    fn stderr_recent(&self) -> String {
        String::new()
    }
    /// The last line of stderr that is not blank, for a child.
    fn stderr_last(&self) -> Option<String> {
        None
    }
    /// Bytes of stderr so far, for a child.
    fn stderr_total(&self) -> u64 {
        0
    }
    /// Handshake done: the revision is fixed, `initialized` may go out, side streams may open.
    fn established(&self, revision: Revision);
    /// Whether it keeps a stream of its own on which a modern server tells of its lists.
    fn tells_of_lists(&self) -> bool {
        false
    }
}

/// A handle to one connection.
#[derive(Clone, Debug)]
pub struct Link(Arc<Ends>);

#[derive(Debug)]
pub(super) struct Ends {
    carrier: Arc<dyn Carrier>,
    inbound: Arc<Inbound>,
    next_id: AtomicU64,
    closed: watch::Receiver<Option<LinkFault>>,
    /// What a modern server is listened to for.
    follower: OnceLock<Follower>,
}

impl Link {
    /// Joins a carrier with its inbound side.
    pub(crate) fn new(
        carrier: Arc<dyn Carrier>,
        inbound: Arc<Inbound>,
        closed: watch::Receiver<Option<LinkFault>>,
    ) -> Self {
        inbound.carried_by(Arc::downgrade(&carrier));
        Self(Arc::new(Ends {
            carrier,
            inbound,
            next_id: AtomicU64::new(1),
            closed,
            follower: OnceLock::new(),
        }))
    }

    /// The link of these ends, unless its last handle is gone.
    pub(super) fn of(ends: &Weak<Ends>) -> Option<Self> {
        ends.upgrade().map(Self)
    }

    /// The handshake is done and fixed the revision.
    pub(crate) fn established(&self, established: &Established) {
        let revision = established.revision;
        self.0.inbound.set_revision(revision);
        self.0.carrier.established(revision);
        if revision.era() == Era::Modern {
            let lists = match self.0.carrier.tells_of_lists() {
                true => ListKinds::default(),
                false => established.offers.announced,
            };
            self.0.follower.get_or_init(|| Follower::new(Arc::downgrade(&self.0), established, lists));
        }
    }

    /// The next request id of this link; never reused.
    pub fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers the request and hands it to the carrier; never blocks.
    pub fn start(&self, request: Outbound<'_>) -> Exchange {
        let id = request.id;
        let (waiting, may_leave) = self.0.inbound.expect(id, request.session);
        match self.0.follower.get().filter(|_| may_leave && Follower::answers(request.method)) {
            Some(follower) => {
                if let Err((code, text)) = follower.take(&request) {
                    self.settle(&splice::failure(id.to_string().as_bytes(), code, text, None));
                }
            }
            None if may_leave => self.0.carrier.submit(request),
            None => {}
        }
        Exchange { id, waiting }
    }

    /// Answers a request in the place of the server.
    pub(super) fn settle(&self, answer: &Bytes) {
        self.0.inbound.accept(answer.clone());
    }

    /// Sends a notification.
    pub fn notify(&self, message: Bytes) {
        self.0.carrier.notify(message);
    }

    /// Gives up on a request: its answer will be dropped and counted, the server is told once. One
    /// that has not left yet is taken back, and nobody is told.
    pub fn cancel(&self, id: u64, reason: &str) {
        if let Some(sent) = self.0.inbound.forget(id) {
            self.0.carrier.cancel(id, reason, sent);
        }
    }

    /// Resolves when the connection has ended, with the reason.
    pub async fn ended(&self) -> LinkFault {
        let mut closed = self.0.closed.clone();
        loop {
            if let Some(fault) = closed.borrow_and_update().clone() {
                return fault;
            }
            if closed.changed().await.is_err() {
                return LinkFault::Closed;
            }
        }
    }

    /// Why the connection has ended; `None` while it stands.
    pub fn fault(&self) -> Option<LinkFault> {
        self.0.closed.borrow().clone()
    }

    /// Orderly end; returns when nothing of it is left.
    pub async fn close(&self) {
        self.0.carrier.close().await;
    }

    /// Process id, for a child.
    pub fn pid(&self) -> Option<u32> {
        self.0.carrier.pid()
    }

    /// Process id of the child's guard, if it has one.
    pub fn guard_pid(&self) -> Option<u32> {
        self.0.carrier.guard_pid()
    }

    /// Last lines of stderr, for a child.
    pub fn stderr_tail(&self) -> String {
        self.0.carrier.stderr_tail()
    }

    /// The whole lines at the end of stderr, for a child; at most `STDERR_RECENT_MAX` bytes.
    pub fn stderr_recent(&self) -> String {
        self.0.carrier.stderr_recent()
    }

    /// The last line of stderr that is not blank, for a child.
    pub fn stderr_last(&self) -> Option<String> {
        self.0.carrier.stderr_last()
    }

    /// Bytes of stderr so far, for a child; cheap to ask.
    pub fn stderr_total(&self) -> u64 {
        self.0.carrier.stderr_total()
    }

    /// How much was odd so far; cheap to ask.
    pub fn oddities(&self) -> u64 {
        self.0.inbound.oddities()
    }

    /// Messages that came from the server so far; cheap to ask.
    pub fn heard(&self) -> u64 {
        self.0.inbound.heard()
    }

    /// The counters so far.
    pub fn counters(&self) -> LinkCounters {
        self.0.inbound.counters()
    }

    /// Takes what may have changed since the last look. To be asked after each event.
    pub fn take_stale(&self) -> Stale {
        self.0.inbound.take_stale()
    }
}
