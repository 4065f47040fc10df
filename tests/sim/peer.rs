//! A server at the wire: answers as a good one does, except where the schedule has a fault. One
//! task for each connection, one queue of what is due; everything it sees and does is recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use callboard::transport::DuplexPeer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::answers::{self, Offer};
use super::schedule::{CallPlan, FaultKind, FaultPlan, PARTING_CALLS, Schedule, ServerPlan};
use super::trace::{Fact, Trace};

/// One server of the schedule, over all of its connections.
pub struct Peer {
    pub index: usize,
    pub plan: ServerPlan,
    pub calls: BTreeMap<u64, CallPlan>,
    pub trace: Trace,
    faults: Vec<FaultPlan>,
    state: Mutex<State>,
    /// Asks every connection to say that its lists changed.
    bell: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    conns: u64,
    open: usize,
    /// Its catalogue: the version counts changes.
    offer: Offer,
    /// How often each fault has acted.
    used: Vec<u64>,
}

impl Peer {
    /// The peer of one server.
    pub fn new(schedule: &Schedule, index: usize, trace: &Trace) -> Arc<Self> {
        let faults: Vec<_> = schedule.faults.iter().filter(|fault| fault.server == index).cloned().collect();
        let state = State { used: vec![0; faults.len()], ..State::default() };
        Arc::new(Self {
            index,
            plan: schedule.servers[index].clone(),
            calls: schedule.calls.iter().map(|call| (call.nonce, call.clone())).collect(),
            trace: trace.clone(),
            faults,
            state: Mutex::new(state),
            bell: watch::channel(0).0,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// Its catalogue as it is now.
    pub fn offer(&self) -> Offer {
        self.lock().offer
    }

    /// Has every connection say that its lists changed, if this server does that.
    pub fn ring(&self) {
        if self.plan.announces {
            self.bell.send_modify(|rung| *rung += 1);
        }
    }

    /// The recipe that connects to it.
    pub fn connector(self: &Arc<Self>) -> DuplexPeer {
        let peer = self.clone();
        DuplexPeer(Arc::new(move || {
            let (ours, theirs) = tokio::io::duplex(peer.plan.pipe);
            let conn = {
                let mut state = peer.lock();
                state.conns += 1;
                state.open += 1;
                state.conns
            };
            peer.trace.note(Fact::Connected { server: peer.index, conn });
            tokio::spawn(Conn::new(peer.clone(), conn, theirs).serve());
            ours
        }))
    }

    /// The fault of that sort that acts now, if any; uses it up by one.
    fn fault(&self, wanted: impl Fn(&FaultPlan) -> bool) -> Option<FaultPlan> {
        let now = self.trace.now();
        let mut state = self.lock();
        let acts = |at: usize, fault: &FaultPlan, used: &[u64]| {
            fault.at <= now && now < fault.at + fault.lasts && used[at] < fault.uses && wanted(fault)
        };
        let found = (0..self.faults.len()).find(|at| acts(*at, &self.faults[*at], &state.used))?;
        state.used[found] += 1;
        drop(state);
        let fault = self.faults[found].clone();
        self.trace.note(Fact::Fault { server: self.index, kind: fault.kind });
        Some(fault)
    }
}

/// What a connection does at a certain time.
enum Due {
    /// Writes bytes.
    Write(Vec<u8>),
    /// Writes bytes in small pieces.
    Pieces(Vec<u8>),
    /// Writes the last page of a list: from here on it may count as handed over.
    Listed { line: Vec<u8>, offer: Offer, sure: bool },
    /// Ends the connection.
    Close,
    /// A fault of the open connection.
    Act(usize),
    /// Reads again.
    Resume,
}

/// One connection.
pub struct Conn {
    peer: Arc<Peer>,
    number: u64,
    input: ReadHalf<DuplexStream>,
    out: WriteHalf<DuplexStream>,
    due: BTreeMap<(u64, u64), Due>,
    queued: u64,
    /// Answers that wait for the next one, to come after it.
    held: Vec<Vec<u8>>,
    /// Answers that wait for the caller to leave: by id, with a further wait.
    on_cancel: BTreeMap<u64, (u64, Vec<u8>)>,
    stalled: bool,
    /// Something was done to the way in: what was handed over may have come too late.
    doubtful: bool,
    ended: bool,
}

impl Conn {
    fn new(peer: Arc<Peer>, number: u64, stream: DuplexStream) -> Self {
        let (input, out) = tokio::io::split(stream);
        let mut conn = Self {
            number,
            input,
            out,
            due: BTreeMap::new(),
            queued: 0,
            held: Vec::new(),
            on_cancel: BTreeMap::new(),
            stalled: false,
            doubtful: false,
            ended: false,
            peer,
        };
        let now = conn.peer.trace.now();
        for (at, fault) in conn.peer.clone().faults.iter().enumerate() {
            if fault.kind.is_of_a_connection() && fault.at >= now {
                conn.at(fault.at, Due::Act(at));
            }
        }
        if conn.peer.fault(|fault| fault.kind == FaultKind::Exit).is_some() {
            conn.at(now, Due::Close);
        }
        conn
    }

    fn at(&mut self, at: u64, due: Due) {
        self.queued += 1;
        self.due.insert((at, self.queued), due);
    }

    fn soon(&mut self, wait: u64, due: Due) {
        self.at(self.peer.trace.now() + wait, due);
    }

    async fn serve(mut self) {
        let mut bell = self.peer.bell.subscribe();
        let mut buffer = BytesMut::new();
        let mut by_peer = true;
        while !self.ended {
            let next = self.due.first_key_value().map(|((at, _), _)| self.peer.trace.instant(*at));
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = wait => self.fire().await,
                _ = bell.changed() => self.write(&answers::changed()).await,
                read = self.input.read_buf(&mut buffer), if !self.stalled => match read {
                    Ok(n) if n > 0 => self.lines(&mut buffer),
                    _ => {
                        by_peer = false;
                        self.ended = true;
                    }
                },
            }
        }
        self.peer.lock().open -= 1;
        self.peer.trace.note(Fact::Gone { server: self.peer.index, conn: self.number, by_peer });
    }

    fn lines(&mut self, buffer: &mut BytesMut) {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let message: Value = serde_json::from_slice(&line).expect("whole lines of JSON are written");
            self.message(&message);
        }
    }

    async fn fire(&mut self) {
        let Some((_, due)) = self.due.pop_first() else { return };
        match due {
            Due::Write(bytes) => {
                self.write(&bytes).await;
                for held in std::mem::take(&mut self.held) {
                    self.write(&held).await;
                }
            }
            Due::Pieces(bytes) => {
                for piece in bytes.chunks(7) {
                    self.write(piece).await;
                    tokio::task::yield_now().await;
                }
            }
            Due::Listed { line, offer, sure } => {
                self.write(&line).await;
                self.listed(offer, sure && !self.doubtful);
            }
            Due::Close => self.ended = true,
            Due::Resume => self.stalled = false,
            Due::Act(at) => self.act(at),
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        if self.out.write_all(bytes).await.is_err() {
            self.ended = true;
        }
    }

    /// A fault of the open connection.
    fn act(&mut self, at: usize) {
        let fault = self.peer.faults[at].clone();
        self.peer.trace.note(Fact::Fault { server: self.peer.index, kind: fault.kind });
        let count = fault.arg.min(300);
        match fault.kind {
            FaultKind::EofIdle => self.ended = true,
            FaultKind::StalledReader => {
                (self.stalled, self.doubtful) = (true, true);
                self.soon(fault.arg, Due::Resume);
            }
            FaultKind::ListChangedStorm => {
                for _ in 0..count {
                    self.soon(0, Due::Write(answers::changed()));
                }
            }
            FaultKind::CatalogueMutation | FaultKind::DefinitionChange => {
                let mut state = self.peer.lock();
                match fault.kind {
                    FaultKind::CatalogueMutation => state.offer.version += 1,
                    _ => state.offer.changed = !state.offer.changed,
                }
                drop(state);
                if self.peer.plan.announces {
                    self.soon(0, Due::Write(answers::changed()));
                }
            }
            FaultKind::NotificationFlood => self.soon(0, Due::Write(answers::flood(count))),
            _ => self.soon(0, Due::Write(answers::requests(count))),
        }
    }

    fn message(&mut self, message: &Value) {
        let id = message["id"].as_u64();
        match (message["method"].as_str().unwrap_or_default(), id) {
            ("initialize", Some(id)) => self.initialize(id, message),
            ("notifications/initialized", _) => {
                self.peer.trace.note(Fact::Handshaken { server: self.peer.index, conn: self.number });
            }
            ("tools/list", Some(id)) => self.tools(id, message),
            ("resources/list", Some(id)) => self.answer_list(answers::result(id, r#"{"resources":[]}"#)),
            ("resources/templates/list", Some(id)) => {
                self.answer_list(answers::result(id, r#"{"resourceTemplates":[]}"#));
            }
            ("tools/call" | "resources/read", Some(id)) => self.call(id, message),
            ("notifications/cancelled", _) => self.cancelled(message),
            (_, Some(id)) if self.peer.fault(|fault| fault.kind == FaultKind::ProbeFailure).is_none() => {
                self.soon(0, Due::Write(answers::result(id, "{}")));
            }
            _ => {}
        }
    }

    fn initialize(&mut self, id: u64, message: &Value) {
        let start = |fault: &FaultPlan| matches!(fault.kind, FaultKind::SlowStart | FaultKind::NeverStart);
        let wait = match self.peer.fault(start) {
            Some(fault) if fault.kind == FaultKind::NeverStart => return,
            Some(fault) => self.peer.plan.start + fault.arg,
            None => self.peer.plan.start,
        };
        let version = message["params"]["protocolVersion"].as_str().unwrap_or_default();
        let line = answers::initialized(id, version, &self.peer.plan);
        self.soon(wait, Due::Write(line));
    }

    fn tools(&mut self, id: u64, message: &Value) {
        let looped = self.peer.fault(|fault| fault.kind == FaultKind::CursorLoop).is_some();
        if self.peer.fault(|fault| fault.kind == FaultKind::ProbeFailure).is_some() {
            return;
        }
        let cursor = message["params"]["cursor"].as_str();
        let page = answers::page(&self.peer.plan, self.peer.offer(), cursor, looped);
        let (server, conn, changed) = (self.peer.index, self.number, page.offer.changed);
        self.peer.trace.note(Fact::Shown { server, conn, changed });
        let line = answers::result(id, &page.result);
        let fault = self.peer.fault(|fault| fault.lists && fault.kind.is_of_an_answer());
        self.doubtful |= looped || fault.is_some();
        if looped || fault.is_some() {
            self.listed(page.offer, false);
        }
        match (fault, page.last) {
            (Some(fault), _) => self.spoiled(&fault, id, 0, line),
            (None, true) => self.soon(0, Due::Listed { line, offer: page.offer, sure: true }),
            (None, false) => self.soon(0, Due::Write(line)),
        }
    }

    fn listed(&self, Offer { version, changed }: Offer, sure: bool) {
        let (server, conn) = (self.peer.index, self.number);
        self.peer.trace.note(Fact::Listed { server, conn, version, changed, sure });
    }

    fn answer_list(&mut self, line: Vec<u8>) {
        self.soon(0, Due::Write(line));
    }

    fn call(&mut self, id: u64, message: &Value) {
        let params = &message["params"];
        let nonce = answers::nonce(params).expect("every call carries its nonce");
        let (server, conn) = (self.peer.index, self.number);
        self.peer.trace.note(Fact::Got { server, conn, nonce, id });
        let call = self.peer.calls.get(&nonce).cloned();
        let unplanned = if nonce >= PARTING_CALLS { CallPlan::parting(0, 0).delay } else { 0 };
        let (delay, reports) = call.map_or((unplanned, 0), |call| (call.delay, call.reports));
        let fault = self.peer.fault(|fault| !fault.lists && fault.kind.is_of_an_answer());
        if fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::CrashBefore) {
            self.ended = true;
            return;
        }
        self.peer.trace.note(Fact::Executed { server, nonce });
        for report in 1..=reports {
            self.soon(delay * report / (reports + 1), Due::Write(answers::progress(id, report, nonce)));
        }
        let line = answers::result(id, &answers::body(nonce, self.peer.plan.name));
        match fault {
            None => self.soon(delay, Due::Write(line)),
            Some(fault) => self.spoiled(&fault, id, delay, line),
        }
    }

    /// One answer with its fault; `delay` is when a good one would come.
    fn spoiled(&mut self, fault: &FaultPlan, id: u64, delay: u64, line: Vec<u8>) {
        let plan = &self.peer.plan;
        match fault.kind {
            FaultKind::Delay => self.soon(delay + fault.arg, Due::Write(line)),
            FaultKind::Jitter => self.soon(delay + (id * 7_919) % fault.arg, Due::Write(line)),
            FaultKind::DropAnswer => {}
            FaultKind::Duplicate => {
                self.soon(delay, Due::Write(line.clone()));
                self.soon(delay + fault.arg - 1, Due::Write(line));
            }
            FaultKind::Reorder => self.held.push(line),
            FaultKind::LateAfterTimeout => {
                let limit = plan.total.max(20_000);
                self.soon(limit + fault.arg, Due::Write(line));
            }
            FaultKind::LateAfterCancel => {
                self.on_cancel.insert(id, (fault.arg, line));
            }
            FaultKind::Split => self.soon(delay, Due::Pieces(line)),
            FaultKind::EofMidFrame => {
                self.soon(delay, Due::Write(line[..line.len() / 2].to_vec()));
                self.soon(delay, Due::Close);
            }
            FaultKind::Epipe => {
                (self.stalled, self.doubtful) = (true, true);
                self.soon(fault.arg, Due::Close);
            }
            FaultKind::CrashBefore | FaultKind::CrashAfter => self.ended = true,
            kind => {
                let line = answers::spoil(kind, id, &line, plan.frame_max, fault.arg);
                self.soon(delay, Due::Write(line));
            }
        }
    }

    fn cancelled(&mut self, message: &Value) {
        let Some(id) = message["params"]["requestId"].as_u64() else { return };
        let (server, conn) = (self.peer.index, self.number);
        self.peer.trace.note(Fact::Cancelled { server, conn, id });
        if let Some((wait, line)) = self.on_cancel.remove(&id) {
            self.soon(wait, Due::Write(line));
        }
    }
}
