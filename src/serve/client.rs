//! One client: a connection (stdio, socket) or a legacy HTTP session, or one modern HTTP request.
//! Its state lives here: era, capabilities, log level, subscriptions, what runs for it. Takes its
//! messages apart and hands each to whoever answers it; never waits. Called by the edges.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use super::asks::Asks;
use super::caller::{Caller, ClientEra};
use super::host::Host;
use super::message::{Request, RpcError};
use super::notes::Listen;
use super::part::{Pane, way};
use super::requests;
use super::sink::{Outgoing, Sink};
use super::subscriptions::Follow;
use crate::actors::frontend::FrontendRef;
use crate::id::{ServerId, SessionId};
use crate::runtime::Throttle;
use crate::time::Monotonic;
use crate::transport::task;
use crate::wire::envelope::{self, Envelope, EnvelopeError};
use crate::wire::era::{Era, Revision};

/// Longest wait of an answer for a client that does not read; then the client is ended.
const SLOW_MAX: Duration = Duration::from_secs(60);
/// Answers that may wait for a client that does not read; an edge stops reading long before.
const WAITING_MAX: usize = 1024;
/// How long the first lists of a client wait for servers that have not settled.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// How long they wait while no server at all has told what it has: some clients ask once, and keep an
/// empty list for good. Most servers of npm and PyPI have started within this.
pub(super) const PATIENCE_EMPTY: Duration = Duration::from_secs(5);

/// Why a client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It ended its connection or session.
    Gone,
    /// It did not read what was written to it.
    Slow,
    /// Its session expired, or was ended to make room.
    Expired,
    /// The host shuts down.
    Shutdown,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    pub(super) host: Arc<Host>,
    session: SessionId,
    pub(super) who: Caller,
    /// Whether it lives for one request alone.
    passing: bool,
    /// Until when its first lists wait for servers.
    pub(super) patient_until: Monotonic,
    pub(super) hopeful_until: Monotonic,
    throttle: Option<Throttle>,
    /// What it has of the host.
    pub(super) pane: Mutex<Arc<Pane>>,
    /// Its way to call, for what it has.
    pub(super) way: Mutex<FrontendRef>,
    state: Mutex<State>,
    /// Told when a request has ended.
    ended: Notify,
    /// Told when the client is over: who waits for that wakes for nothing else.
    left: Notify,
    /// Answers that wait for room.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Fixed by the first message that says it.
    pub(super) era: Option<Era>,
    pub(super) revision: Option<Revision>,
    /// Whether the handshake is done, from our side and from the client's.
    pub(super) welcomed: bool,
    pub(super) initialized: bool,
    /// What the client says that it can, a raw JSON object.
    pub(super) capabilities: Bytes,
    /// The least level of log messages that it wants; `None`: it never said.
    pub(super) level: Option<usize>,
    pub(super) standing: Option<Sink>,
    running: HashMap<Bytes, Running>,
    serial: u64,
    pub(super) asks: Asks,
    /// What it saw of each kind of list, as a mark.
    pub(super) seen: [Option<u64>; 4],
    /// URIs that it subscribed to, each as long as it is kept here.
    pub(super) subscribed: HashMap<String, Follow>,
    /// Its open `subscriptions/listen` requests.
    pub(super) listens: HashMap<Bytes, Listen>,
    pub(super) gone: bool,
}

/// A request that runs. Dropped, it is cancelled.
#[derive(Debug)]
struct Running {
    serial: u64,
    to: Sink,
    /// At which server, as soon as it is known.
    server: Option<ServerId>,
    _cancel: oneshot::Sender<()>,
}

impl Client {
    pub(super) fn new(host: Arc<Host>, who: Caller, era: ClientEra, pane: Arc<Pane>) -> Arc<Self> {
        let passing = era == ClientEra::Modern;
        let era = match era {
            ClientEra::Open => None,
            ClientEra::Legacy => Some(Era::Legacy),
            ClientEra::Modern => Some(Era::Modern),
        };
        // A modern request has no connection before it: it does not wait anew each time.
        let from = if era == Some(Era::Modern) { host.started } else { Monotonic::now() };
        let throttle = who.rate.or(pane.part.settings.rate).map(Throttle::new);
        Arc::new(Self {
            session: SessionId::fresh(),
            passing,
            patient_until: from + PATIENCE,
            hopeful_until: from + PATIENCE_EMPTY,
            throttle,
            state: Mutex::new(State { era, ..State::default() }),
            ended: Notify::new(),
            left: Notify::new(),
            waiting: AtomicUsize::new(0),
            way: Mutex::new(way(&host, &who, &pane)),
            pane: Mutex::new(pane),
            host,
            who,
        })
    }

    /// Its session: unique within this process.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Who it is.
    pub fn who(&self) -> &Caller {
        &self.who
    }

    /// Takes one message of the client. Returns at once: what takes time runs in tasks; answers, and
    /// what belongs to this request, go to `to`.
    pub fn accept(self: &Arc<Self>, frame: Bytes, to: &Sink) {
        match envelope::parse(&frame) {
            Err(EnvelopeError::Batch(spans)) => self.batch(&frame, spans, to),
            parsed => self.one(&frame, parsed, to),
        }
    }

    fn one(self: &Arc<Self>, frame: &Bytes, parsed: Result<Envelope, EnvelopeError>, to: &Sink) {
        let part = |span: &std::ops::Range<usize>| frame.slice(span.clone());
        let params = |span: &Option<std::ops::Range<usize>>| span.as_ref().map(part).unwrap_or_default();
        let word = |span: &std::ops::Range<usize>| String::from_utf8_lossy(&part(span)).into_owned();
        match parsed {
            Ok(Envelope::Request { id, method, params: given }) => {
                let request = Request::new(part(&id), word(&method), params(&given));
                if !matches!(request.params.first(), None | Some(b'{')) {
                    let error = RpcError::params("`params` must be an object");
                    return self.reply(to, error.answer(&request.id));
                }
                requests::handle(self, request, to);
            }
            Ok(Envelope::Notification { method, params: given }) => {
                requests::note(self, &word(&method), &params(&given));
            }
            Ok(Envelope::Response(response)) => self.answered(frame, &response),
            Err(EnvelopeError::Json(why)) => {
                let error = RpcError::new(-32700, format!("the message is not well-formed JSON: {why}"));
                self.reply(to, error.answer(b"null"));
            }
            Err(EnvelopeError::Malformed { cause, .. }) => {
                let id = envelope::member(frame, "id").map(|span| part(&span));
                let id = id.filter(|id| matches!(id.first(), Some(b'"' | b'-' | b'0'..=b'9')));
                let error = RpcError::request(format!("no JSON-RPC message: {cause}"));
                self.reply(to, error.answer(id.as_deref().unwrap_or(b"null")));
            }
            Err(EnvelopeError::NotRpc | EnvelopeError::Batch(_)) => {
                self.reply(to, RpcError::request("no JSON-RPC message").answer(b"null"));
            }
        }
    }

    /// A batch, where the revision has them: its answers go out together.
    fn batch(self: &Arc<Self>, frame: &Bytes, spans: Vec<std::ops::Range<usize>>, to: &Sink) {
        let may = self.state().revision.is_some_and(Revision::has_batches);
        if !may || spans.is_empty() {
            let why = if may { "the batch is empty" } else { "batches are not part of this revision" };
            return self.reply(to, RpcError::request(why).answer(b"null"));
        }
        let (sink, mut outlet) = Sink::pair();
        for span in spans {
            let message = frame.slice(span);
            let parsed = envelope::parse(&message);
            self.one(&message, parsed, &sink);
        }
        drop(sink);
        let (client, to) = (self.clone(), to.clone());
        let gather = async move {
            let mut all: Vec<u8> = vec![b'['];
            while let Some(what) = outlet.next().await {
                match what {
                    Outgoing::Answer(parts) => {
                        if all.len() > 1 {
                            all.push(b',');
                        }
                        parts.pieces().iter().for_each(|piece| all.extend_from_slice(piece));
                    }
                    Outgoing::Note(note) => to.note(note),
                    ask @ Outgoing::Ask(_) => client.put(&to, ask).await,
                }
            }
            if all.len() > 1 {
                all.push(b']');
                client.put(&to, super::message::whole(all.into())).await;
            }
        };
        task::spawn(gather).detach();
    }

    /// Where what belongs to no request goes: on stdio the same pipe, on HTTP the GET stream.
    pub fn standing(self: &Arc<Self>, to: Sink) {
        self.state().standing = Some(to);
    }

    /// Sets what an edge knows from a header.
    pub fn set_revision(&self, revision: Revision) {
        let mut state = self.state();
        state.revision = Some(revision);
        state.era = Some(revision.era());
    }

    /// The revision that is spoken, as soon as it is known.
    pub fn revision(&self) -> Option<Revision> {
        self.state().revision
    }

    /// The era that is spoken; legacy as long as nothing is known.
    pub fn era(&self) -> Era {
        self.state().era.unwrap_or(Era::Legacy)
    }

    /// Whether a legacy client has finished its handshake.
    pub fn is_initialized(&self) -> bool {
        self.state().initialized
    }

    /// Whether it lives for one request alone: there is no connection that it comes back on.
    pub(super) fn is_passing(&self) -> bool {
        self.passing
    }

    /// Whether it is over.
    pub fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Resolves when it is over.
    pub async fn over(&self) {
        loop {
            let left = self.left.notified();
            if self.is_gone() {
                return;
            }
            left.await;
        }
    }

    /// Waits until what runs has come to its end, but no longer than the grace of the settings.
    pub async fn drain(&self) {
        let _ = tokio::time::timeout(self.grace(), self.quiet()).await;
    }

    /// How long what runs has when its client ends.
    pub(super) fn grace(&self) -> Duration {
        self.pane().part.settings.grace
    }

    /// How many requests of it run.
    pub fn running(&self) -> usize {
        self.state().running.len()
    }

    /// Resolves when no request of it runs that will end by itself.
    pub async fn quiet(&self) {
        loop {
            let ended = self.ended.notified();
            {
                let state = self.state();
                if state.running.keys().all(|id| state.listens.contains_key(id)) {
                    return;
                }
            }
            ended.await;
        }
    }

    /// Cancels a request of it; its server is told. Nothing happens when it does not run.
    pub fn cancel(&self, id: &[u8]) {
        let removed = self.state().running.remove(id);
        drop(removed);
    }

    /// The client is gone: cancels what runs, of which servers are told, and forgets the rest.
    pub fn leave(self: &Arc<Self>, why: Leave) {
        let over = {
            let mut state = self.state();
            if std::mem::replace(&mut state.gone, true) {
                return;
            }
            let asks = std::mem::take(&mut state.asks);
            (
                std::mem::take(&mut state.running),
                asks,
                state.standing.take(),
                std::mem::take(&mut state.listens),
            )
        };
        tracing::debug!(session = self.session.0, ?why, running = over.0.len(), "a client left");
        drop(over);
        self.ended.notify_waiters();
        self.left.notify_waiters();
        // Dropped behind the lock: their servers are told.
        let followed = std::mem::take(&mut self.state().subscribed);
        drop(followed);
        // Dropped behind the lock: their servers are told.
        let parked = super::host::locked(&self.host.parked).of_connection(self.session);
        drop(parked);
        self.host.forget(self);
    }

    /// The raw `inputSchema` of the tool that this client knows by that name.
    pub async fn schema(&self, tool: &str) -> Option<Bytes> {
        let mut view = self.view();
        if view.tool(tool, &self.who).is_none() {
            view = self.view_with(|view| view.tool(tool, &self.who).is_some()).await;
        }
        let item = view.tool(tool, &self.who)?.item;
        item.input_schema.clone().map(|span| item.raw.slice(span))
    }

    /// Where a question for the sake of a call at this server goes: beside that call.
    pub(super) fn way_for(&self, server: &ServerId) -> Option<Sink> {
        let state = self.state();
        let calls = state.running.values();
        let beside = calls.filter(|call| call.server.as_ref() == Some(server)).max_by_key(|call| call.serial);
        beside.map(|call| call.to.clone()).or_else(|| state.standing.clone())
    }

    /// Notes at which server a request of this client runs.
    pub(super) fn runs_at(&self, id: &[u8], server: &ServerId) {
        if let Some(running) = self.state().running.get_mut(id) {
            running.server = Some(server.clone());
        }
    }

    /// One request more that reaches a server; how long to wait when there are too many.
    pub(super) fn take_turn(&self) -> Result<(), Duration> {
        self.throttle.as_ref().map_or(Ok(()), Throttle::take)
    }

    /// Runs what answers a request. `None` from it is no answer: somebody cancelled it.
    pub(super) fn run(
        self: &Arc<Self>,
        id: Bytes,
        to: &Sink,
        work: impl Future<Output = Option<Outgoing>> + Send + 'static,
    ) {
        let (serial, cancelled) = match self.begin(&id, to) {
            Ok(begun) => begun,
            Err(error) => return self.reply(to, error.answer(&id)),
        };
        let (client, to) = (self.clone(), to.clone());
        let job = async move {
            let ended = Ended { client: &client, id, serial };
            let answer = tokio::select! {
                biased;
                _ = cancelled => None,
                answer = work => answer,
            };
            // First: whoever has the answer may use the id again.
            drop(ended);
            if let Some(answer) = answer {
                client.put(&to, answer).await;
            }
        };
        task::spawn(job).detach();
    }

    fn begin(&self, id: &Bytes, to: &Sink) -> Result<(u64, oneshot::Receiver<()>), RpcError> {
        let mut state = self.state();
        if state.gone {
            return Err(RpcError::new(-32003, "the connection is being closed"));
        }
        if state.running.contains_key(id) {
            return Err(RpcError::request("a request with this id runs already"));
        }
        let most = self.pane().part.settings.calls_max;
        if state.running.len() >= most {
            let text = format!("{most} requests of this client run already (serve.calls_max)");
            let data = serde_json::json!({"code": "busy", "delivery": "not_sent", "retry_after_ms": 1000});
            return Err(RpcError::new(-32004, text).data(&data));
        }
        state.serial += 1;
        let serial = state.serial;
        let (cancel, cancelled) = oneshot::channel();
        // A copy: the id must not hold the whole message.
        let running = Running { serial, to: to.clone(), server: None, _cancel: cancel };
        state.running.insert(Bytes::copy_from_slice(id), running);
        Ok((serial, cancelled))
    }

    /// Hands a message over without waiting; it waits aside for a client that is behind.
    pub(super) fn reply(self: &Arc<Self>, to: &Sink, what: Outgoing) {
        let Err(what) = to.try_put(what) else { return };
        if to.is_closed() {
            return;
        }
        if self.waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            return self.leave(Leave::Slow);
        }
        let (client, to) = (self.clone(), to.clone());
        task::spawn(async move { client.put(&to, what).await }).detach();
    }

    /// Hands a message over, and waits for room, but not for ever.
    pub(super) async fn put(self: &Arc<Self>, to: &Sink, what: Outgoing) {
        let Err(what) = to.try_put(what) else { return };
        if to.is_closed() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let put = tokio::time::timeout(SLOW_MAX, to.put(what)).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if put.is_err() {
            tracing::warn!(session = self.session.0, "a client does not read its answers, and is ended");
            self.leave(Leave::Slow);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a request out of the table when it has ended, however it ended.
struct Ended<'a> {
    client: &'a Client,
    id: Bytes,
    serial: u64,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = self.client.state();
        // After a cancellation another request may have the id.
        if state.running.get(&self.id).is_some_and(|running| running.serial == self.serial) {
            let running = state.running.remove(&self.id);
            drop(state);
            drop(running);
        } else {
            drop(state);
        }
        self.client.ended.notify_waiters();
    }
}
