//! The call task: one call from its place in the queue to its one answer. The only
//! place where deadlines live and where a caller's leaving is noticed. It answers the
//! caller directly and settles with the actor afterwards.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::msg::{Settled, Submission};
use super::outcome;
use crate::call::{
    BreakerClass, CallError, CallEvent, CallReply, Delivery, ErrorCode, ItemKind, Origin, Phase,
};
use crate::config::child_env::Withheld;
use crate::id::{Generation, ServerId};
use crate::policy::budget::{Budget, Limit};
use crate::shaping::redact::Redactor;
use crate::time::Monotonic;
use crate::transport::http::MirroredParams;
use crate::transport::link::{Exchange, Link, Outbound, Reply};
use crate::transport::progress::ProgressPort;
use crate::wire::splice::{self, MetaRewrite, RequestSplice};

/// Leave to run: the connection that a call goes to.
#[derive(Clone, Debug)]
pub(super) struct Go {
    pub link: Link,
    pub generation: Generation,
    pub meta: Arc<MetaRewrite>,
    pub mirrored: Arc<MirroredParams>,
}

/// How a call gets its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// At once.
    Now(Go),
    /// When the actor says so, or with its refusal. `wait_max` is the limit of the wait
    /// for a place on a server that is ready; without it the call's own deadline holds.
    Later { turn: oneshot::Receiver<Result<Go, CallError>>, wait_max: Option<std::time::Duration> },
}

/// What all calls of one server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub server: ServerId,
    pub redactor: Arc<Redactor>,
    pub withheld: Withheld,
}

/// How the waiting of one call ended.
enum Ended {
    Answered(Reply),
    Failed(CallError),
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
    let mut settled = Settled { call, ran: false, class: BreakerClass::Neutral, answered: false };
    let go = match wait_for_turn(&mut submission, turn, &budget, &shared).await {
        Ok(go) => go,
        Err(ended) => {
            // A turn that came just as the caller left still holds a place.
            settled.ran = ended.held;
            if let Some(error) = ended.error {
                let _ = submission.reply.send(Err(error));
            }
            return settled;
        }
    };
    settled.ran = true;
    let ended = match start(&submission, &go, &shared.server) {
        Ok((exchange, progress)) => {
            budget.sent(Monotonic::now());
            await_answer(&mut submission, exchange, progress, &go, &mut budget, &shared).await
        }
        Err(error) => Ended::Failed(error),
    };
    match ended {
        Ended::Answered(reply) => {
            settled.class = BreakerClass::Heal;
            settled.answered = true;
            let elapsed = budget.elapsed(Monotonic::now());
            let _ = submission.reply.send(Ok(CallReply {
                body: reply.response.body.clone(),
                id: reply.response.id.clone(),
                is_error: reply.response.is_error,
                frame: reply.frame,
                server: shared.server.clone(),
                generation: go.generation,
                elapsed,
            }));
        }
        Ended::Failed(error) => {
            settled.class = error.class;
            let _ = submission.reply.send(Err(error));
        }
        Ended::Abandoned => {}
    }
    drop(submission.permit);
    settled
}

struct NoTurn {
    error: Option<CallError>,
    held: bool,
}

async fn wait_for_turn(
    submission: &mut Submission,
    turn: Turn,
    budget: &Budget,
    shared: &Shared,
) -> Result<Go, NoTurn> {
    let (mut turn, wait_max) = match turn {
        Turn::Now(go) => return Ok(go),
        Turn::Later { turn, wait_max } => (turn, wait_max),
    };
    let began = Monotonic::now();
    let until = wait_max.map_or(budget.deadline(), |wait| budget.deadline().min(began + wait));
    let ended = tokio::select! {
        biased;
        answer = &mut turn => return match answer {
            Ok(Ok(go)) => Ok(go),
            Ok(Err(error)) => Err(NoTurn { error: Some(error.about(&submission.name)), held: false }),
            Err(_) => Err(NoTurn { error: Some(outcome::actor_gone(&shared.server)), held: false }),
        },
        () = submission.reply.closed() => None,
        () = tokio::time::sleep_until(until.into_tokio()) => {
            let waited = Monotonic::now().since(began);
            Some(outcome::wait_ended(&shared.server, &submission.name, waited, wait_max.is_some()))
        }
    };
    turn.close();
    // Leave granted in this very moment is given back by settling as one that ran.
    let held = matches!(turn.try_recv(), Ok(Ok(_)));
    Err(NoTurn { error: ended, held })
}

type Started = (Exchange, ProgressPort);

fn start(submission: &Submission, go: &Go, server: &ServerId) -> Result<Started, CallError> {
    let progress = ProgressPort::default();
    let id = go.link.next_id();
    let method = submission.kind.method();
    let parts = splice::request(&RequestSplice {
        id,
        method,
        params: &submission.request.params,
        name: Some((submission.kind.name_key(), &submission.name)),
        arguments_default: submission.kind == ItemKind::Tool,
        progress: true,
        meta: &go.meta,
    })
    .map_err(|error| outcome::bad_params(server, &submission.name, &error))?;
    let exchange = go.link.start(Outbound {
        id,
        method: method.to_owned(),
        name: Some(submission.name.clone()),
        parts,
        progress: Some(progress.clone()),
        headers: match submission.kind {
            ItemKind::Tool => go.mirrored.headers(&submission.name, &submission.request.params),
            ItemKind::Resource | ItemKind::Prompt => Vec::new(),
        },
    });
    Ok((exchange, progress))
}

/// Hands a report to the caller. One that does not read loses progress, never the answer.
fn pass_on(submission: &Submission, params: Bytes) {
    if let Some(events) = &submission.events {
        let _ = events.try_send(CallEvent::Progress(params));
    }
}

async fn await_answer(
    submission: &mut Submission,
    exchange: Exchange,
    progress: ProgressPort,
    go: &Go,
    budget: &mut Budget,
    shared: &Shared,
) -> Ended {
    let Exchange { id, mut answer } = exchange;
    let deadline = tokio::time::sleep_until(budget.deadline().into_tokio());
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return match answer {
                Ok(Ok(reply)) => {
                    // What was reported right before the answer came before it.
                    while let Some(params) = progress.take() {
                        pass_on(submission, params);
                    }
                    Ended::Answered(reply)
                }
                Ok(Err(error)) => {
                    let stderr = go.link.stderr_tail();
                    Ended::Failed(outcome::failed(shared, &submission.name, error, &stderr))
                }
                Err(_) => Ended::Failed(outcome::actor_gone(&shared.server).delivered(Delivery::Unknown)),
            },
            () = progress.arrived() => {
                while let Some(params) = progress.take() {
                    budget.progress(Monotonic::now());
                    pass_on(submission, params);
                }
                deadline.as_mut().reset(budget.deadline().into_tokio());
            }
            () = submission.reply.closed() => {
                go.link.cancel(id, "the caller left");
                return Ended::Abandoned;
            }
            () = &mut deadline => {
                let now = Monotonic::now();
                let Some(limit) = budget.fired(now) else {
                    deadline.as_mut().reset(budget.deadline().into_tokio());
                    continue;
                };
                go.link.cancel(id, match limit {
                    Limit::Idle(_) => "no sign of life within the idle limit",
                    Limit::Total(_) => "the absolute limit passed",
                });
                let counters = go.link.counters();
                return Ended::Failed(outcome::timed_out(shared, &submission.name, limit, &counters));
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
