//! The front-end actor: takes arrivals, asks `route`, forwards or refuses. No handler waits.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use super::gate::Policy;
use super::route::{self, Routed, Snapshots};
use crate::actors::approvals::{ApprovalsMsg, Asked, Gate, Held};
use crate::actors::audit::{AuditRef, Passage, Trail};
use crate::actors::directory::Directory;
use crate::actors::root::Seat;
use crate::actors::server::msg::Submission;
use crate::catalog::merge::Catalog;

/// What the front end is told.
#[derive(Debug)]
pub(crate) enum FrontendMsg {
    /// Route this call.
    Call(Box<Submission>),
}

/// What the front end is made of.
#[derive(Clone, Debug)]
pub(crate) struct FrontendArgs {
    pub catalog: watch::Receiver<Arc<Catalog>>,
    pub directory: watch::Receiver<Arc<Directory>>,
    /// What the policy goes by, as the desk of approvals last said.
    pub gate: watch::Receiver<Arc<Gate>>,
    pub approvals: Seat<ApprovalsMsg>,
    /// Where calls are written down; `None` when they are not.
    pub audit: Option<AuditRef>,
    /// Calls in flight or waiting, in all.
    pub in_flight_max: usize,
}

pub(crate) struct FrontendActor;

pub(crate) struct FrontendState {
    args: FrontendArgs,
}

impl Actor for FrontendActor {
    type Msg = FrontendMsg;
    type State = FrontendState;
    type Arguments = FrontendArgs;

    async fn pre_start(
        &self,
        _me: ActorRef<FrontendMsg>,
        args: FrontendArgs,
    ) -> Result<FrontendState, ActorProcessingErr> {
        Ok(FrontendState { args })
    }

    async fn handle(
        &self,
        _me: ActorRef<FrontendMsg>,
        message: FrontendMsg,
        state: &mut FrontendState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        crate::actors::panics::meet("frontend", &message);
        let FrontendMsg::Call(mut call) = message;
        if call.reply.is_closed() {
            return Ok(());
        }
        let args = &state.args;
        let mut passage = Passage::default();
        let routed = {
            let (catalog, directory, gate) =
                (args.catalog.borrow(), args.directory.borrow(), args.gate.borrow());
            let by = Snapshots {
                catalog: &catalog,
                directory: &directory,
                policy: Policy(&gate),
                in_flight_max: args.in_flight_max,
            };
            route::decide(&call, by, &mut passage)
        };
        match routed {
            Ok(Routed { server, direct, wanted }) => {
                if let Some(direct) = direct {
                    call.request.target = direct;
                }
                match (wanted, &args.audit) {
                    (None, None) => server.submit(call),
                    (None, Some(audit)) => audit.begin(call, server, passage),
                    (Some(wanted), audit) => {
                        let super::gate::Wanted { key, scope, rule, refusal } = *wanted;
                        passage.asks = true;
                        let trail = audit.clone().map(|audit| Trail { audit, passage });
                        let call = Held::new(call, &refusal, trail);
                        let asked = Asked { call, key, scope, rule, refusal };
                        args.approvals.cast(ApprovalsMsg::Ask(Box::new(asked)));
                    }
                }
            }
            Err(error) => {
                let Submission { request, door, reply, permit, .. } = *call;
                if let Some(audit) = &args.audit {
                    audit.turned(door, request, passage, &error, Some(permit));
                }
                let _ = reply.send(Err(*error));
            }
        }
        Ok(())
    }
}
