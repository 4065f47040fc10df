//! The life of one request: wait for its turn, POST, take the answer out of a body or a
//! stream, renew a lost session once, resume a broken legacy stream. Ends with exactly
//! one answer or fault in the pending table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::body::SentMark;
use super::fault::Miss;
use super::reading::{self, Event, EventStream, Kind, Trail, Whole};
use super::refusal::Refusal;
use super::response::{HttpError, Response};
use super::shared::{Head, Shared, session_of};
use super::standing::Standing;
use super::{diagnose, message, renew, session, status};
use crate::transport::LinkFault;
use crate::transport::link::{ExchangeFault, Outbound};
use crate::wire::envelope::{self, Envelope};
use crate::wire::era::Era;
use crate::wire::splice::Parts;

/// Tries in a row to resume a stream that bring nothing new.
const RESUME_TRIES_MAX: u32 = 3;
/// The wait before a try when the server names none.
const RESUME_WAIT: Duration = Duration::from_secs(1);
/// The shortest wait, so that a server can't make a busy loop of it.
const RESUME_WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait before a try that a server can ask for.
const RESUME_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long the rest of a stream is read after the answer, in the hope of a clean end
/// that leaves the connection usable.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);
/// Most of a body that is shown when it makes no sense, in characters.
const SHOWN_MAX: usize = 200;

/// One request on its way.
#[derive(Debug)]
pub(super) struct Request {
    id: u64,
    method: String,
    name: Option<String>,
    parts: Parts,
    headers: Vec<(String, String)>,
    sent: Arc<AtomicBool>,
    mark: SentMark,
}

/// How one attempt went, apart from faults.
enum Attempt {
    /// The answer is with its owner; the rest of its stream, if it came in one.
    Answered(Option<Box<EventStream>>),
    /// The server does not know the session.
    SessionLost,
}

impl Request {
    /// The request in `outbound`; `sent` is set when bytes may have left.
    pub(super) fn new(shared: &Shared, outbound: Outbound<'_>, sent: Arc<AtomicBool>) -> Self {
        let Outbound { id, method, name, parts, headers, session: _ } = outbound;
        let mark = SentMark::new(shared.inbound.clone(), id, sent.clone());
        let (method, name) = (method.to_owned(), name.map(str::to_owned));
        Self { id, method, name, parts, headers, sent, mark }
    }

    /// Runs it to its end.
    pub(super) async fn run(self, shared: Arc<Shared>) {
        let settle = Settle { shared: &shared, id: self.id };
        let outcome = self.answered(&shared).await;
        if let Err(miss) = &outcome {
            if miss.not_run {
                shared.inbound.mark_not_run(self.id);
            }
            shared.inbound.fail(self.id, miss.fault.clone());
        }
        drop(settle);
        match outcome {
            Ok(Some(stream)) => tail(&shared, *stream).await,
            Err(Miss { ends_link: true, fault: ExchangeFault::Lost(fault), .. }) => shared.inbound.end(fault),
            _ => {}
        }
    }

    async fn answered(&self, shared: &Arc<Shared>) -> Result<Option<Box<EventStream>>, Miss> {
        let mut resent = false;
        loop {
            let standing = shared.until(Standing::is_clear).await;
            let ticket = standing.ticket();
            match self.attempt(shared, &standing).await? {
                Attempt::Answered(tail) => {
                    // `initialize` opens a session and proves nothing about it.
                    if self.method != "initialize" {
                        shared.standing.send_if_modified(|standing| {
                            standing.prove(ticket);
                            false
                        });
                    }
                    return Ok(tail);
                }
                Attempt::SessionLost => {
                    self.sent.store(false, Ordering::Release);
                    shared.inbound.mark_not_run(self.id);
                    if resent {
                        return Err(renew::lost_again(shared, ticket));
                    }
                    renew::renewed(shared, ticket).await?;
                    resent = true;
                }
            }
        }
    }

    async fn attempt(&self, shared: &Arc<Shared>, standing: &Standing) -> Result<Attempt, Miss> {
        let opening = self.method == "initialize";
        let version = match standing.revision {
            _ if opening => None,
            // The first request of the modern era says itself what it speaks.
            None => message::meta_version(&self.parts.to_bytes()),
            known => known,
        };
        let head = Head {
            version,
            session: standing.session().filter(|_| !opening),
            method: Some(&self.method),
            name: self.name.as_deref(),
            extra: &self.headers,
            last_event_id: None,
        };
        let response = shared.post(&head, &self.parts, Some(&self.mark)).await?;
        let in_session = head.session.is_some();
        if !response.status().is_success() {
            let refusal = Refusal::read(response, shared.frame_max).await;
            return self.refused(shared, refusal, in_session).await;
        }
        if opening {
            let session = session_of(&response);
            shared.change(|standing| standing.opened(session));
        }
        match reading::kind(&response) {
            Kind::Events => self.streamed(shared, standing, response, in_session).await,
            Kind::Json => self.bodied(shared, response, in_session, None).await,
            Kind::Unclear(kind) => self.bodied(shared, response, in_session, Some(kind)).await,
            Kind::Encoded(encoding) => Err(Miss::malformed(format!(
                "the answer is compressed ({encoding}), which was not asked for"
            ))),
        }
    }

    /// The answer is the body. `unclear` is its content type when that is not JSON.
    async fn bodied(
        &self,
        shared: &Arc<Shared>,
        mut response: Response,
        in_session: bool,
        unclear: Option<String>,
    ) -> Result<Attempt, Miss> {
        let status = response.status().as_u16();
        let body = match reading::whole(&mut response, shared.frame_max).await {
            Ok(Whole::Body(body)) => body,
            Ok(Whole::TooLong(_)) => return Err(Miss::new(ExchangeFault::TooLong(shared.frame_max))),
            Err(error) => return Err(shared.network(error)),
        };
        if body.trim_ascii().is_empty() {
            return Err(Miss::malformed(format!("HTTP {status} with an empty body instead of an answer")));
        }
        if in_session && session::is_lost(200, &body, self.id) {
            return Ok(Attempt::SessionLost);
        }
        if let Some(kind) = unclear.filter(|_| !reading::looks_like_json(&body)) {
            return Err(Miss::malformed(format!(
                "the answer is neither JSON nor an event stream but {}: {}",
                if kind.is_empty() { "of no type" } else { &kind },
                shared.target.scrub(&shown(&body))
            )));
        }
        let copy = body.clone();
        self.deliver(shared, body);
        if shared.inbound.is_waiting(self.id) {
            return Err(Miss::malformed(format!(
                "the HTTP answer holds no answer to this request: {}",
                shared.target.scrub(&shown(&copy))
            )));
        }
        Ok(Attempt::Answered(None))
    }

    /// The answer is in a stream, which may break and be resumed.
    async fn streamed(
        &self,
        shared: &Arc<Shared>,
        standing: &Standing,
        response: Response,
        in_session: bool,
    ) -> Result<Attempt, Miss> {
        let mut stream = EventStream::new(response, shared.frame_max, Trail::default());
        let mut fruitless = 0;
        loop {
            let broken = match self.read(shared, &mut stream, in_session).await {
                Ok(None) => None,
                Ok(Some(true)) => return Ok(Attempt::SessionLost),
                Ok(Some(false)) => return Ok(Attempt::Answered(Some(Box::new(stream)))),
                Err(Broken::Miss(miss)) => return Err(miss),
                Err(Broken::Connection(error)) => Some(error),
            };
            fruitless = if stream.fruitful { 0 } else { fruitless + 1 };
            // What was asked before the handshake has no era yet; only the legacy era resumes.
            let resumable = standing.era() == Some(Era::Legacy) && stream.trail.last_event_id.is_some();
            if !resumable || fruitless >= RESUME_TRIES_MAX {
                return Err(broken.map_or(Miss::lost(LinkFault::Closed), |error| shared.network(error)));
            }
            stream = self.resume(shared, standing, stream.trail.clone()).await?;
        }
    }

    /// Reads until the answer came (`Some(false)`), the session turned out lost
    /// (`Some(true)`), or the stream ended (`None`).
    async fn read(
        &self,
        shared: &Arc<Shared>,
        stream: &mut EventStream,
        in_session: bool,
    ) -> Result<Option<bool>, Broken> {
        loop {
            match stream.next().await.map_err(Broken::Connection)? {
                None => return Ok(None),
                Some(Event::Message(frame)) => {
                    if in_session && session::is_lost(200, &frame, self.id) {
                        return Ok(Some(true));
                    }
                    self.deliver(shared, frame);
                }
                Some(Event::TooLong(head)) => {
                    let ours = shared.inbound.too_long(&head, &[]) || self.may_be_the_answer(&head);
                    if ours && shared.inbound.is_waiting(self.id) {
                        return Err(Broken::Miss(Miss::new(ExchangeFault::TooLong(shared.frame_max))));
                    }
                }
                Some(Event::Endpoint) => {}
            }
            if !shared.inbound.is_waiting(self.id) {
                return Ok(Some(false));
            }
        }
    }

    /// Whether an event over the cap with this start can be the answer: it names no method.
    fn may_be_the_answer(&self, head: &[u8]) -> bool {
        memchr::memmem::find(&head[..head.len().min(256)], b"\"method\"").is_none()
    }

    /// Opens the stream again behind the last event that came.
    async fn resume(
        &self,
        shared: &Arc<Shared>,
        standing: &Standing,
        trail: Trail,
    ) -> Result<EventStream, Miss> {
        let mut last = Miss::lost(LinkFault::Closed);
        for _ in 0..RESUME_TRIES_MAX {
            let wait = trail.retry.unwrap_or(RESUME_WAIT).clamp(RESUME_WAIT_MIN, RESUME_WAIT_MAX);
            tokio::time::sleep(wait).await;
            let head = Head {
                version: standing.revision,
                session: standing.session(),
                last_event_id: trail.last_event_id.as_deref(),
                ..Head::default()
            };
            match shared.get(&head).await {
                Ok(response)
                    if response.status().is_success() && reading::kind(&response) == Kind::Events =>
                {
                    return Ok(EventStream::new(response, shared.frame_max, trail));
                }
                // It does not resume; a server fault may pass.
                Ok(response) if !response.status().is_server_error() => break,
                Ok(_) => {}
                Err(miss) => last = Miss { not_run: false, ..miss },
            }
        }
        Err(last)
    }

    async fn refused(
        &self,
        shared: &Arc<Shared>,
        refusal: Refusal,
        in_session: bool,
    ) -> Result<Attempt, Miss> {
        let Refusal { status, body, .. } = &refusal;
        if in_session && session::is_lost(*status, body, self.id) {
            return Ok(Attempt::SessionLost);
        }
        let parsed = envelope::parse(body);
        if let Ok(Envelope::Response(response)) = &parsed
            && response.number == Some(self.id)
            && status::body_may_answer(*status, response.is_error)
        {
            self.deliver(shared, body.clone());
            return Ok(Attempt::Answered(None));
        }
        let speaks_rpc = matches!(parsed, Ok(Envelope::Response(_)));
        if !speaks_rpc
            && diagnose::applies(shared, &self.method, *status)
            && let Some(fault) = diagnose::endpoint(shared, *status).await
        {
            return Err(Miss::not_run(ExchangeFault::Lost(fault)));
        }
        Err(refusal.miss(&shared.target))
    }

    /// Hands a message on. What `server/discover` answers is also kept: it says what to listen to.
    fn deliver(&self, shared: &Arc<Shared>, frame: Bytes) {
        if self.method == "server/discover"
            && let Ok(Envelope::Response(response)) = envelope::parse(&frame)
            && response.number == Some(self.id)
        {
            let params = message::listen_params(&self.parts.to_bytes(), &frame);
            shared.change(|standing| standing.listen_params = params);
        }
        shared.take_on(frame, Some(self.id));
    }
}

enum Broken {
    Connection(HttpError),
    Miss(Miss),
}

/// Makes sure that a request is settled when its task ends, whatever ended it.
struct Settle<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        self.shared.tasks.finish(self.id);
        if self.shared.inbound.is_waiting(self.id) {
            self.shared.inbound.fail_lost(self.id);
        }
    }
}

/// Reads what comes behind the answer, for a while.
async fn tail(shared: &Arc<Shared>, mut stream: EventStream) {
    let rest = async {
        while let Ok(Some(event)) = stream.next().await {
            if let Event::Message(frame) = event {
                shared.take(frame);
            }
        }
    };
    let _ = tokio::time::timeout(TAIL_TIMEOUT, rest).await;
}

/// The start of a body for an error text.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN_MAX)]).into_owned();
    text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}
