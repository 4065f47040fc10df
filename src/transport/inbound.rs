//! Floor 2. The receiving side that all carriers share: the pending table and the
//! sorting of what arrives into answers, progress, notifications, requests to us
//! and noise. Never waits, never writes; what must be sent back is returned.

mod notes;
mod requests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::asked;
use super::link::{
    Carrier, ExchangeError, ExchangeFault, LINK_EVENTS_MAX, LinkCounters, LinkEvent, Reply, Stale,
};
use super::tap::Tap;
use super::waiting::{self, Answering};
use super::{LinkFault, Root};
use crate::call::Delivery;
use crate::id::{IdMap, SessionId};
use crate::wire::envelope::{self, Envelope, EnvelopeError, Response};
use crate::wire::era::Revision;
use crate::wire::splice::{self, Parts};

/// Longest piece of a noise line that is kept, in bytes.
const NOISE_KEPT_MAX: usize = 200;
/// Where the method of an over-long message is looked for, in bytes.
const HEAD_LOOKED_AT_MAX: usize = 256;
/// Requests that were given up and are remembered, so that a late answer is known as one.
const GIVEN_UP_MAX: usize = 1_024;

#[derive(Debug)]
struct Pending {
    call: Answering,
    sent: bool,
    /// Whose call it is; `None` for requests of our own.
    session: Option<SessionId>,
}

#[derive(Debug, Default)]
struct State {
    waiting: IdMap<u64, Pending>,
    /// Requests that nobody waits for any more and that may still be answered.
    given_up: BTreeSet<u64>,
    counters: LinkCounters,
    /// Messages that arrived, whatever they said.
    heard: u64,
    /// Those that answered a request.
    answers: u64,
    stale: Stale,
    revision: Option<Revision>,
    ended: Option<LinkFault>,
}

/// The receiving side of one link.
#[derive(Debug)]
pub struct Inbound {
    me: Weak<Inbound>,
    /// Writes what goes back later than at once.
    carrier: OnceLock<Weak<dyn Carrier>>,
    /// What the server asks. Apart, because it is dropped with calls, wherever that happens.
    asked: Mutex<asked::Open>,
    state: Mutex<State>,
    events: mpsc::Sender<LinkEvent>,
    ended: watch::Sender<Option<LinkFault>>,
    roots: Vec<Root>,
    frame_max: usize,
    /// Where somebody may listen to what passes.
    tap: OnceLock<Tap>,
}

/// The ends of a new receiving side.
pub struct InboundEnds {
    /// The side itself.
    pub inbound: std::sync::Arc<Inbound>,
    /// Notifications for the owner of the link.
    pub events: mpsc::Receiver<LinkEvent>,
    /// Set once, when the link has ended.
    pub ended: watch::Receiver<Option<LinkFault>>,
}

impl Inbound {
    /// A receiving side that declares `roots` and names `frame_max` in errors.
    pub fn open(roots: Vec<Root>, frame_max: usize) -> InboundEnds {
        let (events_in, events) = mpsc::channel(LINK_EVENTS_MAX);
        let (ended_in, ended) = watch::channel(None);
        let inbound = Arc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            carrier: OnceLock::new(),
            asked: Mutex::default(),
            state: Mutex::default(),
            events: events_in,
            ended: ended_in,
            roots,
            frame_max,
            tap: OnceLock::new(),
        });
        InboundEnds { inbound, events, ended }
    }

    /// Sets what writes answers that are not there at once. The first one counts.
    pub(crate) fn carried_by(&self, carrier: Weak<dyn Carrier>) {
        let _ = self.carrier.set(carrier);
    }

    /// Lets somebody listen. The first tap counts.
    pub(crate) fn tapped(&self, tap: Tap) {
        let _ = self.tap.set(tap);
    }

    /// These bytes are about to leave.
    pub(super) fn passes(&self, parts: &Parts) {
        if let Some(tap) = self.tap.get() {
            tap.sent(parts);
        }
    }

    fn came(&self, frame: &[u8]) {
        if let Some(tap) = self.tap.get() {
            tap.came(frame);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request, of a caller's session or of our own; what is returned hears its progress and
    /// its answer. `false`: the link has
    /// ended, that is its answer, and the request must not leave any more. Both are decided in one
    /// step, so that a request in the moment of the end is never forgotten.
    pub fn expect(&self, id: u64, session: Option<SessionId>) -> (waiting::Waiting, bool) {
        let (call, waiting) = waiting::pair();
        let mut state = self.lock();
        let ended = state.ended.clone();
        match ended {
            None => {
                state.waiting.insert(id, Pending { call, sent: false, session });
                (waiting, true)
            }
            Some(fault) => {
                drop(state);
                let fault = ExchangeFault::Lost(fault);
                call.answer(Err(ExchangeError { fault, delivery: Delivery::NotSent }));
                (waiting, false)
            }
        }
    }

    /// From now on the bytes of `id` may have left this process.
    pub fn mark_sent(&self, id: u64) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.sent = true;
        }
    }

    /// The peer proved that it did not run `id`: as if it had not been sent.
    pub fn mark_not_run(&self, id: u64) {
        if let Some(waiting) = self.lock().waiting.get_mut(&id) {
            waiting.sent = false;
        }
    }

    /// The bytes of `id` are about to leave; `false` when nobody waits for it any more.
    pub fn begin_send(&self, id: u64) -> bool {
        match self.lock().waiting.get_mut(&id) {
            Some(waiting) => {
                waiting.sent = true;
                true
            }
            None => false,
        }
    }

    /// Whether `id` still waits.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    /// How many requests wait.
    pub fn waiting_count(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Drops a request: whether bytes of it may have left, or `None` if it was already settled. One
    /// that had not left never will.
    pub fn forget(&self, id: u64) -> Option<bool> {
        // Dropped behind the lock: what it holds may have something to say to the server.
        let waiting = self.lock().waiting.remove(&id)?;
        self.no_more_asked(id);
        if waiting.sent {
            let mut state = self.lock();
            state.given_up.insert(id);
            if state.given_up.len() > GIVEN_UP_MAX {
                state.given_up.pop_first();
            }
        }
        Some(waiting.sent)
    }

    /// Fails one request.
    pub fn fail(&self, id: u64, fault: ExchangeFault) {
        let Some(waiting) = self.lock().waiting.remove(&id) else { return };
        let delivery = match &fault {
            ExchangeFault::NeedsAuth(_) => Delivery::NotSent,
            _ if waiting.sent => Delivery::Unknown,
            _ => Delivery::NotSent,
        };
        waiting.call.answer(Err(ExchangeError { fault, delivery }));
        self.no_more_asked(id);
    }

    /// Fails one request because the link is gone.
    pub fn fail_lost(&self, id: u64) {
        let fault = self.lock().ended.clone().unwrap_or(LinkFault::Closed);
        self.fail(id, ExchangeFault::Lost(fault));
    }

    /// Fails every waiting request, each with what is known of its delivery.
    pub fn fail_all(&self, fault: &ExchangeFault) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        self.asked().clear();
        for (_, one) in waiting {
            let delivery = if one.sent { Delivery::Unknown } else { Delivery::NotSent };
            one.call.answer(Err(ExchangeError { fault: fault.clone(), delivery }));
        }
    }

    /// The link has ended: fails what waits and tells the owner. Only the first reason counts.
    pub fn end(&self, fault: LinkFault) {
        {
            let mut state = self.lock();
            if state.ended.is_some() {
                return;
            }
            state.ended = Some(fault.clone());
        }
        self.fail_all(&ExchangeFault::Lost(fault.clone()));
        let _ = self.ended.send(Some(fault));
    }

    /// The revision that the handshake fixed: decides whether batches are legal.
    pub fn set_revision(&self, revision: Revision) {
        self.lock().revision = Some(revision);
    }

    /// Tells the owner that lists may have changed unseen (see [`LinkEvent::SessionRenewed`]).
    pub fn renewed(&self) {
        self.lock().stale.renewed = true;
        if self.events.try_send(LinkEvent::SessionRenewed).is_err() {
            self.count_dropped();
        }
    }

    /// Takes what may have changed since the last look.
    pub fn take_stale(&self) -> Stale {
        std::mem::take(&mut self.lock().stale)
    }

    /// Counts a message that found no room.
    pub fn count_dropped(&self) {
        self.lock().counters.dropped += 1;
    }

    /// The counters so far.
    pub fn counters(&self) -> LinkCounters {
        self.lock().counters.clone()
    }

    /// How much was odd so far: noise, broken answers, answers for nobody.
    pub fn oddities(&self) -> u64 {
        let counters = &self.lock().counters;
        counters.noise + counters.malformed + counters.unmatched + counters.late
    }

    /// Messages that arrived so far: each is a sign of life. Noise is none.
    pub fn heard(&self) -> u64 {
        self.lock().heard
    }

    /// Answers to requests so far.
    pub(super) fn answers(&self) -> u64 {
        self.lock().answers
    }

    /// Counts a line that is no message.
    pub fn noise(&self, line: &[u8]) {
        self.came(line);
        let mut state = self.lock();
        state.counters.noise += 1;
        let kept = &line[..line.len().min(NOISE_KEPT_MAX)];
        state.counters.last_noise = Some(String::from_utf8_lossy(kept).into_owned());
    }

    /// Sorts one message. Returns the answers that must be written back.
    pub fn accept(&self, frame: Bytes) -> Vec<Bytes> {
        self.accept_on(frame, None)
    }

    /// The same for a message that came on the stream of one request.
    pub fn accept_on(&self, frame: Bytes, stream: Option<u64>) -> Vec<Bytes> {
        self.came(&frame);
        let parsed = envelope::parse(&frame);
        if !matches!(parsed, Err(EnvelopeError::NotRpc)) {
            self.lock().heard += 1;
        }
        match parsed {
            Ok(Envelope::Response(response)) => {
                self.settle(frame, response);
                Vec::new()
            }
            Ok(Envelope::Notification { method, params }) => {
                self.notification(frame, method, params, stream);
                Vec::new()
            }
            Ok(Envelope::Request { id, method, params }) => match self
                .ours(&frame[id.clone()], &frame[method.clone()])
            {
                Some(id) => {
                    let cause = "it sends our own messages back: it is no MCP server";
                    self.malformed(Some(id), cause, &frame);
                    Vec::new()
                }
                None => {
                    self.request(&splice::one_line(frame), id, method, params, stream).into_iter().collect()
                }
            },
            Err(error) => self.broken(frame, error, stream),
        }
    }

    /// Sorts what stands behind the last line end of a stream that is over: a whole message counts. Of one
    /// that is cut off, the end of the connection says more than its beginning.
    pub fn accept_last(&self, frame: Bytes) -> Vec<Bytes> {
        match envelope::parse(&frame) {
            Err(EnvelopeError::Json(_)) => Vec::new(),
            _ => self.accept(frame),
        }
    }

    /// The number of a request that is one of ours and came back, as from a program that copies its input.
    fn ours(&self, id: &[u8], method: &[u8]) -> Option<u64> {
        if !matches!(method, b"initialize" | b"server/discover") {
            return None;
        }
        let id = std::str::from_utf8(id).ok()?.trim().parse().ok()?;
        self.is_waiting(id).then_some(id)
    }

    /// A message over the cap: fails the request that its head or tail names. Returns whether one was found.
    pub fn too_long(&self, head: &[u8], tail: &[u8]) -> bool {
        match envelope::id_hint(head, tail) {
            Some(id) if self.is_waiting(id) => {
                self.lock().counters.malformed += 1;
                self.mark_sent(id);
                self.fail(id, ExchangeFault::TooLong(self.frame_max));
                true
            }
            _ => false,
        }
    }

    /// A message over the cap that names nobody. A notification hurts no call; anything else
    /// may be the answer to any of them, so all that wait fail with that cause (spec section 2).
    pub fn too_long_unattributed(&self, head: &[u8]) {
        let start = &head[..head.len().min(HEAD_LOOKED_AT_MAX)];
        if memchr::memmem::find(start, b"\"method\"").is_some() {
            self.noise(start);
            return;
        }
        self.lock().counters.malformed += 1;
        self.fail_all(&ExchangeFault::TooLong(self.frame_max));
    }

    fn settle(&self, frame: Bytes, response: Response) {
        let number = response.number;
        let waiting = match number {
            Some(id) => {
                let mut state = self.lock();
                let waiting = state.waiting.remove(&id);
                state.answers += u64::from(waiting.is_some());
                waiting
            }
            None => None,
        };
        match waiting {
            Some(waiting) => {
                // Checked before: a line end can only be white space now, and the spans stay.
                let frame = splice::one_line(frame);
                waiting.call.answer(Ok(Reply { frame, response }));
                if let Some(id) = number {
                    self.no_more_asked(id);
                }
            }
            None => {
                let mut state = self.lock();
                if response.number.is_some_and(|id| state.given_up.remove(&id)) {
                    state.counters.late += 1;
                    return;
                }
                state.counters.unmatched += 1;
                let id = &frame[response.id.clone()];
                let id = &id[..id.len().min(NOISE_KEPT_MAX)];
                state.counters.last_unmatched = Some(String::from_utf8_lossy(id).into_owned());
            }
        }
    }

    fn broken(&self, frame: Bytes, error: EnvelopeError, stream: Option<u64>) -> Vec<Bytes> {
        match error {
            EnvelopeError::NotRpc => self.noise(&frame),
            EnvelopeError::Batch(elements) => return self.batch(&frame, elements, stream),
            EnvelopeError::Malformed { number, cause } => self.malformed(number, cause, &frame),
            EnvelopeError::Json(scan) => {
                let tail = &frame[frame.len().saturating_sub(256)..];
                let hint = envelope::id_hint(&frame[..frame.len().min(4096)], tail);
                self.malformed(hint, &format!("the answer is {scan}"), &frame);
            }
        }
        Vec::new()
    }

    fn malformed(&self, number: Option<u64>, cause: &str, frame: &Bytes) {
        match number {
            Some(id) if self.is_waiting(id) => {
                self.lock().counters.malformed += 1;
                self.mark_sent(id);
                self.fail(id, ExchangeFault::Malformed(cause.to_owned()));
            }
            _ => self.noise(frame),
        }
    }

    fn batch(&self, frame: &Bytes, elements: Vec<std::ops::Range<usize>>, stream: Option<u64>) -> Vec<Bytes> {
        let legal = self.lock().revision.is_none_or(Revision::has_batches);
        let mut back = Vec::new();
        for span in elements {
            let element = frame.slice(span);
            if legal {
                back.extend(self.accept_on(element, stream));
            } else if let Ok(Envelope::Response(response)) = envelope::parse(&element) {
                self.malformed(
                    response.number,
                    "the answer came in a JSON-RPC batch, which this protocol revision does not have",
                    &element,
                );
            } else {
                self.noise(&element);
            }
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::items::ListKinds;
    use crate::transport::waiting::Heard;

    #[tokio::test]
    async fn a_request_after_the_end_is_answered_with_it_and_may_not_leave() {
        let InboundEnds { inbound, .. } = Inbound::open(Vec::new(), 1 << 20);
        let (mut before, may_leave) = inbound.expect(1, None);
        assert!(may_leave && inbound.begin_send(1));
        inbound.end(LinkFault::TooLong("the first reason".to_owned()));
        inbound.end(LinkFault::Closed);
        let (mut after, may_leave) = inbound.expect(2, None);
        assert!(!may_leave && !inbound.begin_send(2));
        for (waiting, known) in [(&mut before, Delivery::Unknown), (&mut after, Delivery::NotSent)] {
            let Some(Heard::Answer(Err(error))) = waiting.heard().await else { panic!("it has ended") };
            assert_eq!(error.delivery, known);
            assert_eq!(error.fault, ExchangeFault::Lost(LinkFault::TooLong("the first reason".to_owned())));
        }
    }

    fn notification(method: &str) -> Bytes {
        splice::notification(method, None)
    }

    #[test]
    fn a_flood_of_notifications_keeps_what_changed_and_nothing_else() {
        let InboundEnds { inbound, mut events, .. } = Inbound::open(Vec::new(), 1 << 20);
        for _ in 0..100_000 {
            inbound.accept(notification("notifications/message"));
        }
        for _ in 0..100_000 {
            inbound.accept(notification("notifications/tools/list_changed"));
        }
        inbound.accept(notification("notifications/prompts/list_changed"));
        assert_eq!(events.len(), LINK_EVENTS_MAX, "the queue is full of what came first");
        let dropped = inbound.counters().dropped;
        assert_eq!(dropped, 100_000 - LINK_EVENTS_MAX as u64 + 2, "an announcement counts once");
        let all = |methods: &[&str]| {
            methods.iter().fold(ListKinds::default(), |all, m| all.and(ListKinds::announced_by(m)))
        };
        let changed = all(&["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
        assert_eq!(inbound.take_stale(), Stale { announced: changed, renewed: false });
        assert!(inbound.take_stale().is_empty(), "taken once");
        while events.try_recv().is_ok() {}
        inbound.accept(notification("notifications/tools/list_changed"));
        assert!(events.try_recv().is_ok(), "the next one is told again");
    }
}
