//! The front-end actor: takes arrivals, asks `route`, forwards or refuses. No handler waits.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use super::gate::Gate;
use super::route;
use crate::actors::directory::Directory;
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
    pub gate: Arc<Gate>,
    /// Calls in flight or waiting, in all.
    pub in_flight_max: usize,
}

pub(crate) struct FrontendActor;

impl Actor for FrontendActor {
    type Msg = FrontendMsg;
    type State = FrontendArgs;
    type Arguments = FrontendArgs;

    async fn pre_start(
        &self,
        _me: ActorRef<FrontendMsg>,
        args: FrontendArgs,
    ) -> Result<FrontendArgs, ActorProcessingErr> {
        Ok(args)
    }

    async fn handle(
        &self,
        _me: ActorRef<FrontendMsg>,
        message: FrontendMsg,
        state: &mut FrontendArgs,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        crate::actors::panics::meet("frontend", &message);
        let FrontendMsg::Call(mut call) = message;
        if call.reply.is_closed() {
            return Ok(());
        }
        let routed = {
            let (catalog, directory) = (state.catalog.borrow(), state.directory.borrow());
            route::route(&call.request, &catalog, &directory, &state.gate).and_then(|to| {
                let free = call.permit.semaphore().available_permits();
                route::share(&to, &directory, free, state.in_flight_max)?;
                Ok(to)
            })
        };
        match routed {
            Ok(to) => {
                if let Some(direct) = to.direct {
                    call.request.target = direct;
                }
                to.server.submit(call);
            }
            Err(error) => {
                let _ = call.reply.send(Err(*error));
            }
        }
        Ok(())
    }
}
