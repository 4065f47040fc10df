//! The front-end actor: takes arrivals, asks `route`, forwards or refuses. No handler waits.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::gate::Gate;
use super::route;
use crate::actors::directory::Directory;
use crate::actors::server::msg::{ReplyPort, Submission};
use crate::call::{CallEvent, CallRequest};
use crate::catalog::merge::Catalog;
use crate::time::Monotonic;

/// One call as it comes in.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub request: CallRequest,
    pub events: Option<mpsc::Sender<CallEvent>>,
    pub reply: ReplyPort,
    pub permit: OwnedSemaphorePermit,
    pub admitted: Monotonic,
}

/// What the front end is told.
#[derive(Debug)]
pub(crate) enum FrontendMsg {
    /// Route this call.
    Call(Box<Arrival>),
    /// Fail, to see that it is mended.
    #[cfg(test)]
    Panic,
}

impl FrontendMsg {
    #[cfg(not(test))]
    fn into_arrival(self) -> Box<Arrival> {
        let Self::Call(arrival) = self;
        arrival
    }

    #[cfg(test)]
    fn into_arrival(self) -> Box<Arrival> {
        match self {
            Self::Call(arrival) => arrival,
            Self::Panic => panic!("asked to"),
        }
    }
}

/// What the front end is made of.
#[derive(Clone, Debug)]
pub(crate) struct FrontendArgs {
    pub catalog: watch::Receiver<Arc<Catalog>>,
    pub directory: watch::Receiver<Arc<Directory>>,
    pub gate: Arc<Gate>,
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
        let arrival = message.into_arrival();
        if arrival.reply.is_closed() {
            return Ok(());
        }
        let routed = {
            let (catalog, directory) = (state.catalog.borrow(), state.directory.borrow());
            route::route(&arrival.request, &catalog, &directory, &state.gate)
        };
        match routed {
            Ok(to) => {
                let Arrival { request, events, reply, permit, admitted } = *arrival;
                let (kind, name) = (to.kind, to.name);
                let submission = Submission {
                    request,
                    kind,
                    name,
                    events,
                    reply,
                    permit,
                    admitted,
                    repeats: 0,
                    failed: None,
                };
                to.server.submit(Box::new(submission));
            }
            Err(error) => {
                let _ = arrival.reply.send(Err(*error));
            }
        }
        Ok(())
    }
}
