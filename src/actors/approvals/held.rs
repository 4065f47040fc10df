//! A call that waits for a person: a task holds it until the desk decides or its caller leaves.

use tokio::sync::oneshot;

use super::actor::ApprovalsMsg;
use super::minutes::Minutes;
use crate::actors::audit::{Said, Trail, Turned};
use crate::actors::frontend::FrontendMsg;
use crate::actors::root::Seat;
use crate::actors::server::msg::Submission;
use crate::call::{CallError, CallRequest, ErrorCode, Grant, Origin, Phase};
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
    /// It is refused, by whoever said so.
    Refuse(Box<CallError>, Option<Said>),
}

/// A call that is answered, and written down, whatever happens to its holder: it has not left.
#[derive(Debug)]
pub(crate) struct Held {
    call: Option<Box<Submission>>,
    lost: CallError,
    /// Where its end here is written down, if calls are audited.
    trail: Option<Trail>,
}

impl Held {
    /// Takes a call that the policy refuses so unless somebody approves it.
    pub(crate) fn new(call: Box<Submission>, refusal: &CallError, trail: Option<Trail>) -> Self {
        Self { call: Some(call), lost: because(refusal, "the desk of approvals failed"), trail }
    }

    /// What was asked for.
    pub(super) fn request(&self) -> Option<&CallRequest> {
        self.call.as_ref().map(|call| &call.request)
    }

    /// The pen for what a person says about it, if calls are audited.
    pub(super) fn minutes(&self) -> Option<Minutes> {
        Minutes::of(self.call.as_ref()?, self.trail.as_ref()?)
    }

    fn refuse(&mut self, error: CallError, said: Option<Said>) {
        let Some(call) = self.call.take() else { return };
        let Submission { request, door, reply, permit, .. } = *call;
        let left = reply.is_closed();
        if let Some(Trail { audit, passage }) = self.trail.take() {
            let CallError { code, phase, message: reason, .. } =
                if left { left_error() } else { error.clone() };
            audit.turn(Turned { door, request, passage, code, phase, reason, said, permit: Some(permit) });
        }
        let _ = reply.send(Err(error));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let lost = self.lost.clone();
        self.refuse(lost, None);
    }
}

/// What is written of a caller who did not wait for the answer.
fn left_error() -> CallError {
    let text = "the caller left before anybody had answered";
    CallError::refused(ErrorCode::Cancelled, Phase::Policy, Origin::Caller, text)
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
    match decision {
        Some(Decision::Run(grant)) => {
            if let Some(mut call) = held.call.take() {
                call.request.grant = Some(grant);
                // The time a person took is not the server's.
                call.admitted = Monotonic::now();
                frontend.cast(FrontendMsg::Call(call));
            }
        }
        Some(Decision::Refuse(error, said)) => held.refuse(*error, said),
        // Its end as a held call is that of a lost one.
        None => drop(held),
    }
    ApprovalsMsg::Ended(id)
}
