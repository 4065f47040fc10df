//! The call task: one call from its place in the queue to its one answer. The only
//! place where deadlines live and where a caller's leaving is noticed. It answers the
//! caller directly and settles with the actor afterwards.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::msg::{Again, End, HeldAnswer, Settled, Submission, Told};
use super::outcome;
use crate::call::{
    Asked, BreakerClass, CallError, CallEvent, CallReply, Delivery, ErrorCode, ItemKind, Origin, Phase,
};
use crate::config::child_env::Withheld;
use crate::id::{Generation, ServerId};
use crate::policy::breaker::Loss;
use crate::policy::budget::{Budget, Limit};
use crate::policy::replay;
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::transport::asked::LinkAsked;
use crate::transport::http::MirroredParams;
use crate::transport::legacy_side::LegacySide;
use crate::transport::link::{Exchange, ExchangeFault, Link, Outbound, Reply};
use crate::transport::waiting::Heard;
use crate::wire::era::Era;
use crate::wire::splice::{self, MetaRewrite, RequestSplice};

/// Leave to run: the connection that a call goes to.
#[derive(Clone, Debug)]
pub(super) struct Go {
    pub link: Link,
    pub generation: Generation,
    pub meta: Arc<MetaRewrite>,
    pub mirrored: Arc<MirroredParams>,
    /// The legacy era beside the modern one, for callers of that era.
    pub legacy: Option<Arc<LegacySide>>,
    /// Whether that is the connection beside the first one.
    pub is_beside: bool,
    /// Whether it decides if the breaker closes.
    pub is_probe: bool,
}

impl Go {
    /// The era that is spoken on this connection.
    fn era(&self) -> Era {
        match *self.meta {
            MetaRewrite::Legacy => Era::Legacy,
            MetaRewrite::Modern { .. } => Era::Modern,
        }
    }
}

/// What the actor says to a call that waits.
#[derive(Debug)]
pub(super) enum Leave {
    /// It may run.
    Run(Go),
    /// The server wants to be left alone for a while: from now on it waits for the end of that, up to
    /// its own deadline, and hears of its turn here.
    Wait(oneshot::Receiver<Result<Leave, CallError>>),
}

/// How a call gets its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// At once.
    Now(Go),
    /// When the actor says so, or with its refusal. `wait_max` is the limit of the wait
    /// for a place on a server that is ready; without it the call's own deadline holds.
    Later { turn: oneshot::Receiver<Result<Leave, CallError>>, wait_max: Option<std::time::Duration> },
}

/// What all calls of one server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub server: ServerId,
    pub redactor: Redaction,
    pub withheld: Withheld,
    /// `breaker.count_tool_errors`
    pub count_tool_errors: bool,
}

/// How the waiting of one call ended.
enum Ended {
    Answered(Reply),
    Failed(CallError),
    /// The connection ended with it.
    Lost(CallError),
    /// A limit fired.
    Unanswered(CallError),
    /// The caller left.
    Abandoned,
}

/// Runs one call to its end.
pub(super) async fn run(
    mut submission: Box<Submission>,
    turn: Turn,
    mut budget: Budget,
    shared: Arc<Shared>,
) -> Settled {
    let call = submission.request.id;
    let go = match wait_for_turn(&mut submission, turn, &budget, &shared).await {
        Ok(go) => in_the_era_of(&mut submission, go).await,
        Err(ended) => {
            let told = ended.map(|error| {
                let error = submission.told(error);
                let told = Told::of(submission.request.name(), &error);
                let _ = submission.reply.send(Err(error));
                Box::new(told)
            });
            let end = End::Failed(BreakerClass::Neutral, told);
            return Settled { call, end, held: None };
        }
    };
    let heard = go.link.heard();
    let ended = match start(&submission, &go, &shared.server) {
        Ok(mut exchange) => {
            submission.reply.sent();
            budget.sent(Monotonic::now());
            await_answer(&mut submission, &mut exchange, &go, &mut budget, &shared).await
        }
        Err(error) => Ended::Failed(error),
    };
    let (generation, is_probe) = (go.generation, go.is_probe);
    let mut held = None;
    let end = match ended {
        Ended::Answered(reply) => {
            let class = outcome::answered(&reply, shared.count_tool_errors);
            let elapsed = budget.elapsed(Monotonic::now());
            let answer = CallReply {
                era: go.era(),
                body: reply.response.body.clone(),
                id: reply.response.id.clone(),
                is_error: reply.response.is_error,
                frame: reply.frame,
                server: shared.server.clone(),
                generation,
                elapsed,
            };
            held = answer_or_hold(submission, Ok(answer), is_probe);
            End::Answered(class)
        }
        Ended::Unanswered(error) => {
            let told = Box::new(Told::of(submission.request.name(), &error));
            let _ = submission.reply.send(Err(error));
            End::Unanswered { generation, heard, told }
        }
        Ended::Lost(error) => {
            let whole = !go.is_beside && go.link.fault().is_some();
            let loss = if whole { Loss::Connection(generation) } else { Loss::Request };
            End::Undecided(Box::new(Again { submission, budget, error, loss }))
        }
        Ended::Failed(error) if replay::may_be_cured(&error) => {
            End::Undecided(Box::new(Again { submission, budget, error, loss: Loss::None }))
        }
        Ended::Failed(error) => {
            let class = error.class;
            let error = submission.told(error);
            let told = Told::of(submission.request.name(), &error);
            held = answer_or_hold(submission, Err(error), is_probe);
            End::Failed(class, Some(Box::new(told)))
        }
        Ended::Abandoned => {
            End::Failed(BreakerClass::Neutral, Some(Box::new(Told::left(submission.request.name()))))
        }
    };
    Settled { call, end, held }
}

/// Answers the caller, but for a probe: its answer goes out when the breaker knows of it.
fn answer_or_hold(
    submission: Box<Submission>,
    answer: Result<CallReply, CallError>,
    is_probe: bool,
) -> Option<Box<HeldAnswer>> {
    let answer = HeldAnswer { submission, answer };
    if is_probe {
        return Some(Box::new(answer));
    }
    answer.send();
    None
}

/// Leave to run, or what its caller is told unless it left.
async fn wait_for_turn(
    submission: &mut Submission,
    turn: Turn,
    budget: &Budget,
    shared: &Shared,
) -> Result<Go, Option<CallError>> {
    let (mut turn, mut wait_max) = match turn {
        Turn::Now(go) => return Ok(go),
        Turn::Later { turn, wait_max } => (turn, wait_max),
    };
    let before = submission.failed.as_ref().map(|error| error.delivery);
    tell(submission, CallEvent::Waits { before });
    let began = Monotonic::now();
    loop {
        let until = wait_max.map_or(budget.deadline(), |wait| budget.deadline().min(began + wait));
        // Leave that is granted in the very moment of the end is given back with what the actor knows of it.
        return Err(tokio::select! {
            biased;
            answer = &mut turn => match answer {
                Ok(Ok(Leave::Run(go))) => {
                    tell(submission, CallEvent::Sent);
                    return Ok(go);
                }
                Ok(Ok(Leave::Wait(next))) => {
                    (turn, wait_max) = (next, None);
                    continue;
                }
                Ok(Err(error)) => Some(error.about(submission.request.name())),
                Err(_) => Some(outcome::actor_gone(&shared.server)),
            },
            () = submission.reply.closed() => None,
            () = tokio::time::sleep_until(until.into_tokio()) => {
                let waited = Monotonic::now().since(began);
                Some(outcome::wait_ended(&shared.server, submission.request.name(), waited, wait_max.is_some()))
            }
        });
    }
}

/// The connection in the era of the caller's client, where the server has both. What can't be had in
/// that era goes the other way.
async fn in_the_era_of(submission: &mut Submission, go: Go) -> Go {
    let Some(side) = go.legacy.clone().filter(|_| submission.era == Some(Era::Legacy)) else { return go };
    let found = tokio::select! {
        biased;
        found = side.link() => found,
        // Noticed again where it is booked.
        () = submission.reply.closed() => None,
    };
    match found {
        Some((link, meta)) => Go { link, meta, is_beside: true, ..go },
        None => go,
    }
}

fn start(submission: &Submission, go: &Go, server: &ServerId) -> Result<Exchange, CallError> {
    let request = &submission.request;
    let meta = match &submission.capabilities {
        Some(capabilities) => Cow::Owned((*go.meta).clone().with_capabilities(capabilities.clone())),
        None => Cow::Borrowed(&*go.meta),
    };
    let (kind, name) = (request.kind(), request.name());
    let id = go.link.next_id();
    let method = kind.method(name);
    let parts = splice::request(&RequestSplice {
        session: (server.as_str() == crate::id::BUILTINS).then_some(request.session),
        id,
        method,
        params: &request.params,
        name: kind.name_key().map(|key| (key, name)),
        arguments_default: kind == ItemKind::Tool,
        progress: true,
        meta: &meta,
    })
    .map_err(|error| outcome::bad_params(server, name, &error))?;
    Ok(go.link.start(Outbound {
        id,
        method,
        name: kind.name_key().map(|_| name),
        parts,
        headers: match kind {
            ItemKind::Tool => go.mirrored.headers(name, &request.params),
            ItemKind::Resource | ItemKind::Prompt | ItemKind::Method => Vec::new(),
        },
        session: Some(request.session),
    }))
}

/// Hands a report to the caller. One that does not read loses progress, never the answer.
fn tell(submission: &Submission, event: CallEvent) {
    if let Some(events) = &submission.events {
        events.tell(event);
    }
}

/// Asks the caller what the server wants to know. One that does not listen, or that does not read, is
/// as one that can't answer: the server is told by the drop.
fn ask(submission: &Submission, asked: LinkAsked, from: (ServerId, Generation)) {
    let LinkAsked { id, method, params, reply } = asked;
    tell(submission, CallEvent::Asked(Asked::new(from, id, method, params, reply)));
}

async fn await_answer(
    submission: &mut Submission,
    exchange: &mut Exchange,
    go: &Go,
    budget: &mut Budget,
    shared: &Shared,
) -> Ended {
    let Exchange { id, waiting } = exchange;
    let deadline = tokio::time::sleep_until(budget.deadline().into_tokio());
    tokio::pin!(deadline);
    // While its caller is asked, a person may think: only the total clock runs.
    let mut asked = 0_usize;
    loop {
        tokio::select! {
            biased;
            heard = waiting.heard() => match heard {
                Some(Heard::Progress(params)) => {
                    if asked == 0 {
                        budget.progress(Monotonic::now());
                        deadline.as_mut().reset(budget.deadline().into_tokio());
                    }
                    tell(submission, CallEvent::Progress(params));
                }
                Some(Heard::Note(method, frame)) => tell(submission, CallEvent::Note { method, frame }),
                Some(Heard::Asked(question)) => {
                    asked += 1;
                    budget.waits_for_its_caller();
                    deadline.as_mut().reset(budget.deadline().into_tokio());
                    ask(submission, question, (shared.server.clone(), go.generation));
                }
                Some(Heard::AskedOver(withdrawn)) => {
                    asked = asked.saturating_sub(1);
                    if asked == 0 {
                        budget.progress(Monotonic::now());
                        deadline.as_mut().reset(budget.deadline().into_tokio());
                    }
                    if let Some(id) = withdrawn {
                        tell(submission, CallEvent::Withdrawn(id));
                    }
                }
                Some(Heard::Answer(Ok(reply))) => return Ended::Answered(reply),
                Some(Heard::Answer(Err(error))) => {
                    let is_lost = matches!(error.fault, ExchangeFault::Lost(_));
                    let stderr = go.link.stderr_tail();
                    let error = outcome::failed(shared, submission.request.name(), error, &stderr);
                    return if is_lost { Ended::Lost(error) } else { Ended::Failed(error) };
                }
                None => {
                    let error = outcome::actor_gone(&shared.server).delivered(Delivery::Unknown);
                    return Ended::Failed(error);
                }
            },
            () = submission.reply.closed() => {
                go.link.cancel(*id, "the caller left");
                return Ended::Abandoned;
            }
            () = &mut deadline => {
                let now = Monotonic::now();
                let Some(limit) = budget.fired(now) else {
                    deadline.as_mut().reset(budget.deadline().into_tokio());
                    continue;
                };
                go.link.cancel(*id, match limit {
                    Limit::Idle(_) => "no sign of life within the idle limit",
                    Limit::Total(_) => "the absolute limit passed",
                });
                let counters = go.link.counters();
                return Ended::Unanswered(outcome::timed_out(shared, submission.request.name(), limit, &counters));
            }
        }
    }
}

/// The refusal of a call that reached a server which can't take it.
pub(super) fn refuse(code: ErrorCode, server: &ServerId, text: String) -> CallError {
    let origin = match code {
        ErrorCode::Busy | ErrorCode::RateLimited | ErrorCode::Draining => Origin::Host,
        ErrorCode::GivenUp | ErrorCode::NeedsAuth => Origin::Server,
        _ => Origin::Config,
    };
    CallError::refused(code, Phase::Admission, origin, text).on(server)
}
