//! The seam to the front end: what the edges call.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::actor::FrontendMsg;
use super::lane::Lane;
use crate::actors::audit::{AuditRef, Passage};
use crate::actors::root::Seat;
use crate::actors::server::msg::{Ear, Reach, Submission};
use crate::actors::server::port::ReplyPort;
use crate::call::{CallError, CallEvent, CallReply, CallRequest, Door, ErrorCode, EventsIn, Origin, Phase};
use crate::config::mode::Mode;
use crate::id::{CallId, ServerId};
use crate::policy::outbound::Outbound;
use crate::time::Monotonic;
use crate::wire::era::Era;

/// The way to call a server. Cheap to clone; a plain seam for the edges.
#[derive(Clone, Debug)]
pub struct FrontendRef {
    actor: Seat<FrontendMsg>,
    lane: Option<Lane>,
    /// Permits are taken before the mailbox: mailboxes have no bound of their own.
    admission: Arc<Semaphore>,
    in_flight_max: usize,
    /// Whose credentials are which.
    outbound: watch::Receiver<Arc<Outbound>>,
    audit: Option<AuditRef>,
    door: Door,
    capabilities: Option<Bytes>,
    era: Option<Era>,
    mode: Option<Mode>,
    reach: Option<Reach>,
}

impl FrontendRef {
    pub(crate) fn new(
        actor: Seat<FrontendMsg>,
        in_flight_max: usize,
        outbound: watch::Receiver<Arc<Outbound>>,
        audit: Option<AuditRef>,
    ) -> Self {
        let admission = Arc::new(Semaphore::new(in_flight_max));
        Self {
            actor,
            lane: None,
            admission,
            in_flight_max,
            outbound,
            audit,
            door: Door::default(),
            capabilities: None,
            era: None,
            mode: None,
            reach: None,
        }
    }

    /// The same with a straight way for calls that nothing stands in the way of.
    #[must_use]
    pub(crate) fn straight(mut self, lane: Lane) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The same for calls that come by this door: the audit log says so.
    #[must_use]
    pub fn through(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// The same for the calls of a client that can this, a raw JSON object: servers that are told with
    /// every call (2026-07-28) hear it instead of what the plan declares.
    #[must_use]
    pub fn declaring(mut self, capabilities: Bytes) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// The same for the calls of a client of this era: a server that speaks both is spoken to in it.
    #[must_use]
    pub fn in_era(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// The same for the calls of a client that has a mode of its own: it holds where it is stricter than the
    /// host's.
    #[must_use]
    pub fn at_most(mut self, mode: Option<Mode>) -> Self {
        self.mode = mode;
        self
    }

    /// The same for the calls of a client that has only these servers: to it there are no others.
    #[must_use]
    pub fn among(mut self, servers: Option<Arc<BTreeSet<ServerId>>>) -> Self {
        self.reach = servers;
        self
    }

    /// Sends one request, at once; the future waits for its one answer. Dropping the future cancels
    /// the call: the server is told once. `events` receives progress while it runs.
    pub fn call(
        &self,
        request: CallRequest,
        events: Option<mpsc::Sender<CallEvent>>,
    ) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
        Answer::of(self.send(request, events.map(Ear::Queue), (self.era, self.capabilities.clone())))
    }

    /// The same for a client of this era that can this, and that listens.
    pub fn call_for(
        &self,
        (era, capabilities): (Era, Option<Bytes>),
        request: CallRequest,
        events: EventsIn,
    ) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
        Answer::of(self.send(request, Some(Ear::Events(events)), (Some(era), capabilities)))
    }

    fn send(
        &self,
        request: CallRequest,
        events: Option<Ear>,
        (era, capabilities): (Option<Era>, Option<Bytes>),
    ) -> Result<oneshot::Receiver<Result<CallReply, CallError>>, CallError> {
        let Ok(permit) = self.admission.clone().try_acquire_owned() else {
            let text = format!("{} calls are running or waiting already (in_flight_max)", self.in_flight_max);
            let error = CallError::refused(ErrorCode::Busy, Phase::Admission, Origin::Host, text)
                .after(Duration::from_secs(1));
            if let Some(audit) = &self.audit {
                audit.turned(self.door, request, Passage::default(), &error, None);
            }
            return Err(error);
        };
        let (reply, answer) = ReplyPort::new();
        // Large parameters take a while: that is the caller's time, not the front end's.
        let outbound = self.outbound.borrow().clone();
        let mut call = Box::new(Submission {
            carried: outbound.carried(&request.params),
            request,
            door: self.door,
            capabilities,
            era,
            mode: self.mode,
            reach: self.reach.clone(),
            events,
            reply,
            permit,
            admitted: Monotonic::now(),
            repeats: 0,
            failed: None,
        });
        match self.lane.as_ref().and_then(|lane| lane.way(&mut call, self.in_flight_max)) {
            Some((server, passage)) => match &self.audit {
                Some(audit) => audit.begin(call, server, passage),
                None => server.submit(call),
            },
            None if self.actor.cast(FrontendMsg::Call(call)) => {}
            None => return Err(gone()),
        }
        Ok(answer)
    }

    /// A fresh call id.
    pub fn next_call_id(&self) -> CallId {
        CallId::fresh()
    }
}

/// The one answer to a call that has left: the request went out before anybody waits, so this carries no
/// more than the port. Dropped, the call is cancelled.
#[derive(Debug)]
struct Answer(Result<oneshot::Receiver<Result<CallReply, CallError>>, Option<Box<CallError>>>);

impl Answer {
    fn of(sent: Result<oneshot::Receiver<Result<CallReply, CallError>>, CallError>) -> Self {
        Self(sent.map_err(|error| Some(Box::new(error))))
    }
}

impl Future for Answer {
    type Output = Result<CallReply, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(port) => Pin::new(port).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(gone()))),
            Err(refused) => Poll::Ready(Err(refused.take().map_or_else(gone, |error| *error))),
        }
    }
}

fn gone() -> CallError {
    let text = "the host is shutting down, or met a bug of its own; the call was dropped, and whether it ran is not known";
    CallError::refused(ErrorCode::Draining, Phase::Admission, Origin::Host, text)
        .delivered(crate::call::Delivery::Unknown)
}
