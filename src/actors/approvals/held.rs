//! A call that waits for a person: a task holds it until the desk decides or its caller leaves.

use tokio::sync::oneshot;

use super::actor::ApprovalsMsg;
use crate::actors::frontend::FrontendMsg;
use crate::actors::root::Seat;
use crate::actors::server::msg::Submission;
use crate::call::{CallError, CallRequest, Grant};
use crate::config::spec::Scope;
use crate::policy::approve::{CallKey, RequestId};
use crate::time::Monotonic;

/// A call that the policy asks about.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The call itself.
    pub call: Held,
    /// What an approval is bound to.
    pub key: CallKey,
    /// The scope of the server's entry.
    pub scope: Scope,
    /// The rule that asks.
    pub rule: String,
    /// What the caller is told when nobody approves it; the reason is added.
    pub refusal: CallError,
}

/// The refusal of a call, with the reason why nobody approved it.
pub(super) fn because(refusal: &CallError, why: &str) -> CallError {
    CallError { message: format!("{}, and {why}", refusal.message), ..refusal.clone() }
}

/// What becomes of a held call.
#[derive(Debug)]
pub(super) enum Decision {
    /// It goes back to the front end, once, with this grant.
    Run(Grant),
    /// It is refused.
    Refuse(Box<CallError>),
}

/// A call that is answered whatever happens to its holder: it has not left.
#[derive(Debug)]
pub(crate) struct Held {
    call: Option<Box<Submission>>,
    lost: CallError,
}

impl Held {
    /// Takes a call that the policy refuses so unless somebody approves it.
    pub(crate) fn new(call: Box<Submission>, refusal: &CallError) -> Self {
        Self { call: Some(call), lost: because(refusal, "the desk of approvals failed") }
    }

    /// What was asked for.
    pub(super) fn request(&self) -> Option<&CallRequest> {
        self.call.as_ref().map(|call| &call.request)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let _ = call.reply.send(Err(self.lost.clone()));
        }
    }
}

/// Holds a call to its end.
pub(super) async fn hold(
    id: RequestId,
    mut held: Held,
    decided: oneshot::Receiver<Decision>,
    frontend: Seat<FrontendMsg>,
) -> ApprovalsMsg {
    let decision = match held.call.as_mut() {
        Some(call) => tokio::select! {
            biased;
            () = call.reply.closed() => None,
            decision = decided => decision.ok(),
        },
        None => None,
    };
    if let Some(decision) = decision
        && let Some(mut call) = held.call.take()
    {
        match decision {
            Decision::Run(grant) => {
                call.request.grant = Some(grant);
                // The time a person took is not the server's.
                call.admitted = Monotonic::now();
                frontend.cast(FrontendMsg::Call(call));
            }
            Decision::Refuse(error) => _ = call.reply.send(Err(*error)),
        }
    }
    ApprovalsMsg::Ended(id)
}
