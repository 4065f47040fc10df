//! The call task: one call from its place in the queue to its one answer. The only
//! place where deadlines live and where a caller's leaving is noticed. It answers the
//! caller directly and settles with the actor afterwards.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::msg::{Again, End, Settled, Submission, Told};
use super::outcome;
use crate::call::{
    BreakerClass, CallError, CallEvent, CallReply, CallRequest, Delivery, ErrorCode, ItemKind, Origin, Phase,
};
use crate::config::child_env::Withheld;
use crate::id::{Generation, ServerId};
use crate::policy::breaker::{Loss, Pass};
use crate::policy::budget::{Budget, Limit};
use crate::policy::replay;
use crate::shaping::redact::Redactor;
use crate::time::Monotonic;
use crate::transport::http::MirroredParams;
use crate::transport::link::{Exchange, ExchangeFault, Link, Outbound, Reply};
use crate::transport::waiting::Heard;
use crate::wire::splice::{self, MetaRewrite, RequestSplice};

/// Leave to run: the connection that a call goes to.
#[derive(Clone, Debug)]
pub(super) struct Go {
    pub link: Link,
    pub generation: Generation,
    pub meta: Arc<MetaRewrite>,
    pub mirrored: Arc<MirroredParams>,
    pub pass: Pass,
}

/// How a call gets its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// At once.
    Now(Go),
    /// When the actor says so, or with its refusal. `wait_max` is the limit of the wait
    /// for a place on a server that is ready; without it the call's own deadline holds.
    Later {
        turn: oneshot::Receiver<Result<Go, CallError>>,
        wait_max: Option<std::time::Duration>,
        pass: Pass,
    },
}

/// What all calls of one server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub server: ServerId,
    pub redactor: Arc<Redactor>,
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
        Ok(go) => go,
        Err(none) => {
            let told = none.error.map(|error| {
                let error = submission.told(error);
                let told = Told::of(submission.request.name(), &error);
                let _ = submission.reply.send(Err(error));
                Box::new(told)
            });
            let end = End::Failed(BreakerClass::Neutral, told);
            // A turn that came just as the caller left still holds a place.
            return Settled { call, ran: none.held, pass: none.pass, end };
        }
    };
    let heard = go.link.heard();
    let ended = match start(&submission.request, &go, &shared.server) {
        Ok(mut exchange) => {
            budget.sent(Monotonic::now());
            await_answer(&mut submission, &mut exchange, &go, &mut budget, &shared).await
        }
        Err(error) => Ended::Failed(error),
    };
    let (pass, generation) = (go.pass, go.generation);
    let end = match ended {
        Ended::Answered(reply) => {
            let class = outcome::answered(&reply, shared.count_tool_errors);
            let elapsed = budget.elapsed(Monotonic::now());
            let _ = submission.reply.send(Ok(CallReply {
                body: reply.response.body.clone(),
                id: reply.response.id.clone(),
                is_error: reply.response.is_error,
                frame: reply.frame,
                server: shared.server.clone(),
                generation,
                elapsed,
            }));
            drop(submission.permit);
            End::Answered(class)
        }
        Ended::Unanswered(error) => {
            let told = Box::new(Told::of(submission.request.name(), &error));
            let _ = submission.reply.send(Err(error));
            End::Unanswered { generation, heard, told }
        }
        Ended::Lost(error) => {
            let whole = go.link.fault().is_some();
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
            let _ = submission.reply.send(Err(error));
            End::Failed(class, Some(Box::new(told)))
        }
        Ended::Abandoned => {
            End::Failed(BreakerClass::Neutral, Some(Box::new(Told::left(submission.request.name()))))
        }
    };
    Settled { call, ran: true, pass, end }
}

struct NoTurn {
    error: Option<CallError>,
    held: bool,
    pass: Pass,
}

async fn wait_for_turn(
    submission: &mut Submission,
    turn: Turn,
    budget: &Budget,
    shared: &Shared,
) -> Result<Go, NoTurn> {
    let (mut turn, wait_max, pass) = match turn {
        Turn::Now(go) => return Ok(go),
        Turn::Later { turn, wait_max, pass } => (turn, wait_max, pass),
    };
    let began = Monotonic::now();
    let until = wait_max.map_or(budget.deadline(), |wait| budget.deadline().min(began + wait));
    let ended = tokio::select! {
        biased;
        answer = &mut turn => return match answer {
            Ok(Ok(go)) => Ok(go),
            Ok(Err(error)) => Err(NoTurn { error: Some(error.about(submission.request.name())), held: false, pass }),
            Err(_) => Err(NoTurn { error: Some(outcome::actor_gone(&shared.server)), held: false, pass }),
        },
        () = submission.reply.closed() => None,
        () = tokio::time::sleep_until(until.into_tokio()) => {
            let waited = Monotonic::now().since(began);
            Some(outcome::wait_ended(&shared.server, submission.request.name(), waited, wait_max.is_some()))
        }
    };
    turn.close();
    // Leave granted in this very moment is given back by settling as one that ran.
    let granted = turn.try_recv().ok().and_then(Result::ok);
    let pass = granted.as_ref().map_or(pass, |go| go.pass);
    Err(NoTurn { error: ended, held: granted.is_some(), pass })
}

fn start(request: &CallRequest, go: &Go, server: &ServerId) -> Result<Exchange, CallError> {
    let (kind, name) = (request.kind(), request.name());
    let id = go.link.next_id();
    let method = kind.method();
    let parts = splice::request(&RequestSplice {
        id,
        method,
        params: &request.params,
        name: Some((kind.name_key(), name)),
        arguments_default: kind == ItemKind::Tool,
        progress: true,
        meta: &go.meta,
    })
    .map_err(|error| outcome::bad_params(server, name, &error))?;
    Ok(go.link.start(Outbound {
        id,
        method,
        name: Some(name),
        parts,
        headers: match kind {
            ItemKind::Tool => go.mirrored.headers(name, &request.params),
            ItemKind::Resource | ItemKind::Prompt => Vec::new(),
        },
    }))
}

/// Hands a report to the caller. One that does not read loses progress, never the answer.
fn pass_on(submission: &Submission, params: Bytes) {
    if let Some(events) = &submission.events {
        let _ = events.try_send(CallEvent::Progress(params));
    }
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
    loop {
        tokio::select! {
            biased;
            heard = waiting.heard() => match heard {
                Some(Heard::Progress(params)) => {
                    budget.progress(Monotonic::now());
                    pass_on(submission, params);
                    deadline.as_mut().reset(budget.deadline().into_tokio());
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
