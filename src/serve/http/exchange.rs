//! One POST with requests: waits for what the core sends back and decides the form of the answer at
//! that moment. JSON, unless something has to go before the answer, or the answer takes so long that
//! the connection should show life; then a stream of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::StatusCode;

use super::core::Attached;
use super::doors::Accepts;
use super::log::{EventId, Log, Reader};
use super::mirror::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use super::reply::{self, Reply};
use super::sessions::{Run, Session};
use super::until::Until;
use crate::serve::{Leave, Outgoing, Outlet, Sink};
use crate::transport::task;
use crate::wire::envelope::{self, Envelope};
use crate::wire::era::Revision;
use crate::wire::splice::{self, Parts};

/// Time without a message after which a client that takes events gets their stream.
pub const QUIET: Duration = Duration::from_secs(10);
/// Time between two signs of life on a stream.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// JSON-RPC code: a required capability of the client is missing.
const MISSING_CAPABILITY: i64 = -32021;

/// A client that leaves with its request (modern: closing the stream cancels).
#[derive(Debug)]
pub struct Leaves(pub Arc<dyn Attached>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave(Leave::Gone);
    }
}

/// Whose request it is.
#[derive(Debug)]
pub enum Side {
    /// Of a session: it goes on when the connection breaks.
    Legacy(Arc<Session>, Run),
    /// Of nobody else: it ends with its connection. Or when its pass counts no more.
    Modern(Leaves, Until),
}

/// What one POST waits for.
#[derive(Debug)]
pub struct Exchange {
    /// What comes back.
    pub outlet: Outlet,
    /// The way in, for answers that we give in the client's place.
    pub sink: Sink,
    /// Answers that are to come.
    pub expected: usize,
    /// Whether the answers go back as an array.
    pub batch: bool,
    /// What the client takes.
    pub accepts: Accepts,
    /// Whose it is.
    pub side: Side,
}

impl Side {
    /// Resolves when it is over, whatever is still to come.
    async fn over(&mut self) {
        match self {
            Self::Legacy(session, _) => {
                let _ = session.ended().wait_for(|over| *over).await;
            }
            Self::Modern(_, until) => until.over().await,
        }
    }
}

enum Step {
    Whole(Vec<Parts>),
    Stream(VecDeque<Parts>),
    Over,
}

impl Exchange {
    /// Runs it up to the head of the answer.
    pub async fn reply(self) -> Reply {
        let mut held = Held(Some(self));
        let (step, answered) = match held.0.as_mut() {
            Some(exchange) => exchange.decide().await,
            None => (Step::Over, 0),
        };
        let Some(exchange) = held.0.take() else { return gone() };
        match step {
            Step::Over => gone(),
            Step::Whole(answers) => exchange.whole(answers),
            Step::Stream(backlog) => exchange.stream(backlog, answered),
        }
    }

    /// Waits until the form is clear; with how many answers came.
    async fn decide(&mut self) -> (Step, usize) {
        let mut answers = Vec::new();
        loop {
            let next = tokio::select! {
                biased;
                next = self.outlet.next() => next,
                () = self.side.over() => None,
                () = tokio::time::sleep(QUIET), if self.accepts.events => {
                    let came = answers.len();
                    return (Step::Stream(answers.into()), came);
                }
            };
            match next {
                None => return (Step::Over, answers.len()),
                Some(Outgoing::Answer(answer)) => {
                    answers.push(answer);
                    if answers.len() == self.expected {
                        return (Step::Whole(answers), self.expected);
                    }
                }
                Some(early) if self.accepts.events => {
                    let came = answers.len();
                    answers.push(early.into_parts());
                    return (Step::Stream(answers.into()), came);
                }
                Some(Outgoing::Note(_)) => {}
                Some(Outgoing::Ask(ask)) => self.decline(&ask),
            }
        }
    }

    /// A client that takes no events can't be asked.
    fn decline(&self, ask: &Bytes) {
        let Ok(Envelope::Request { id, .. }) = envelope::parse(ask) else { return };
        let text = "this client takes no text/event-stream, so it can't be asked";
        let client = match &self.side {
            Side::Legacy(session, _) => &session.client,
            Side::Modern(leaves, _) => &leaves.0,
        };
        client.accept(splice::failure(&ask[id], -32600, text, None), &self.sink);
    }

    fn whole(self, mut answers: Vec<Parts>) -> Reply {
        if !self.accepts.json {
            let last = answers.len();
            return self.stream(answers.into(), last);
        }
        let status = match (&self.side, answers.as_slice()) {
            (Side::Modern(..), [answer]) => status(answer),
            _ => StatusCode::OK,
        };
        let answer = if self.batch { array(&answers) } else { answers.pop().unwrap_or_default() };
        reply::json(status, answer)
    }

    fn stream(self, backlog: VecDeque<Parts>, answered: usize) -> Reply {
        let missing = self.expected.saturating_sub(answered);
        match self.side {
            Side::Modern(leaves, until) => {
                let source = Source::Direct { outlet: self.outlet, missing, _leaves: leaves };
                reply::events(stream(backlog, source, Some(until)))
            }
            Side::Legacy(session, run) => {
                let log = session.stream();
                let reader = log.read();
                let primes = session.client.revision().is_some_and(|r| r >= Revision::R2025_11_25);
                task::spawn(pump(backlog, self.outlet, missing, Pumped { log, session, run })).detach();
                reply::events(from_log(reader, primes))
            }
        }
    }
}

/// An exchange that is given up before its answer has a form: what runs for a session runs on.
struct Held(Option<Exchange>);

impl Drop for Held {
    fn drop(&mut self) {
        let Some(exchange) = self.0.take() else { return };
        let Side::Legacy(session, run) = exchange.side else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            let log = Log::new(0);
            log.end();
            let to = Pumped { log, session, run };
            task::spawn(pump(VecDeque::new(), exchange.outlet, exchange.expected, to)).detach();
        }
    }
}

struct Pumped {
    log: Arc<Log>,
    session: Arc<Session>,
    run: Run,
}

/// Carries the messages of a session's request into their log, whether anybody reads or not.
async fn pump(backlog: VecDeque<Parts>, mut outlet: Outlet, mut missing: usize, to: Pumped) {
    let mut ended = to.session.ended();
    for message in backlog {
        to.log.push(message).await;
    }
    while missing > 0 {
        let next = tokio::select! {
            biased;
            _ = ended.wait_for(|over| *over) => break,
            next = outlet.next() => next,
        };
        let Some(next) = next else { break };
        missing -= usize::from(matches!(next, Outgoing::Answer(_)));
        to.log.push(next.into_parts()).await;
    }
    to.log.end();
    drop(to.run);
}

enum Source {
    Direct { outlet: Outlet, missing: usize, _leaves: Leaves },
    Log(Reader),
}

impl Source {
    async fn next(&mut self) -> Option<(Option<EventId>, Parts)> {
        match self {
            Self::Log(reader) => reader.next().await.map(|(id, message)| (Some(id), message)),
            Self::Direct { missing: 0, .. } => None,
            Self::Direct { outlet, missing, .. } => {
                let next = outlet.next().await?;
                *missing -= usize::from(matches!(next, Outgoing::Answer(_)));
                Some((None, next.into_parts()))
            }
        }
    }
}

/// The events of a log for one connection; `primes`: the first one carries an id and nothing else.
pub fn from_log(reader: Reader, primes: bool) -> impl Stream<Item = Bytes> + Send + 'static {
    let begin = reader.begin();
    let rest = stream(VecDeque::new(), Source::Log(reader), None);
    let first = primes.then(|| reply::priming(&begin.text()));
    futures_util::StreamExt::chain(futures_util::stream::iter(first), rest)
}

struct Running {
    source: Source,
    until: Option<Until>,
    ready: VecDeque<Bytes>,
}

fn stream(
    backlog: VecDeque<Parts>,
    source: Source,
    until: Option<Until>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let ready = backlog.iter().flat_map(|message| reply::event(None, message)).collect();
    unfold(Running { source, until, ready }, |mut running| async move {
        if let Some(piece) = running.ready.pop_front() {
            return Some((piece, running));
        }
        let over = async {
            match &mut running.until {
                Some(until) => until.over().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            next = running.source.next() => next?,
            () = over => return None,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some((reply::KEEP_ALIVE, running)),
        };
        let (id, message) = next;
        let id = id.map(EventId::text);
        running.ready = reply::event(id.as_deref(), &message).into();
        let piece = running.ready.pop_front()?;
        Some((piece, running))
    })
}

fn array(answers: &[Parts]) -> Parts {
    let mut all = Parts::default();
    for (at, answer) in answers.iter().enumerate() {
        all.push(Bytes::from_static(if at == 0 { b"[" } else { b"," }));
        answer.pieces().iter().for_each(|piece| all.push(piece.clone()));
    }
    all.push(Bytes::from_static(b"]"));
    all
}

fn gone() -> Reply {
    let text = "the session ended while this ran; begin with initialize";
    reply::refusal(StatusCode::NOT_FOUND, b"null", -32000, text)
}

/// The code of a JSON-RPC error; `None` for a result.
pub fn error_code(answer: &Parts) -> Option<i64> {
    /// Errors of this length are those of servers, whose codes are not about HTTP.
    const LEN_MAX: usize = 64 << 10;
    if answer.len() > LEN_MAX {
        return None;
    }
    let bytes = answer.to_bytes();
    let Ok(Envelope::Response(response)) = envelope::parse(&bytes) else { return None };
    if !response.is_error {
        return None;
    }
    let body = &bytes[response.body];
    let code = envelope::member(body, "code").map(|span| &body[span])?;
    std::str::from_utf8(code).ok()?.trim().parse().ok()
}

/// The status of a modern answer.
fn status(answer: &Parts) -> StatusCode {
    match error_code(answer) {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION | -32600 | -32700) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}
