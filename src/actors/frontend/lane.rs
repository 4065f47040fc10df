//! The straight way of a call: decided in its caller's own task, on the same snapshots and by the same
//! function as the front end decides, where nothing stands in the way. All else, and whatever goes wrong
//! here, is the front end's. It writes nothing, so there is still one writer of each state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::watch;

use super::gate::Policy;
use super::route::{self, Routed, Snapshots};
use crate::actors::approvals::Gate;
use crate::actors::audit::Passage;
use crate::actors::directory::Directory;
use crate::actors::server::ServerRef;
use crate::actors::server::msg::Submission;
use crate::catalog::merge::Catalog;

/// What the decision goes by.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub catalog: watch::Receiver<Arc<Catalog>>,
    pub directory: watch::Receiver<Arc<Directory>>,
    pub gate: watch::Receiver<Arc<Gate>>,
}

impl Lane {
    /// The server of a call that may run, with how that was found; `None`: the front end has to say.
    pub(super) fn way(&self, call: &mut Submission, in_flight_max: usize) -> Option<(ServerRef, Passage)> {
        #[cfg(test)]
        if crate::actors::panics::is_due("frontend:Call") {
            return None;
        }
        let mut passage = Passage::default();
        // A bug in there ends nobody's task: the front end meets it too, and is mended.
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let (catalog, directory, gate) =
                (self.catalog.borrow(), self.directory.borrow(), self.gate.borrow());
            let policy = Policy(&gate);
            let by = Snapshots { catalog: &catalog, directory: &directory, policy, in_flight_max };
            route::decide(call, by, &mut passage)
        }));
        match decided {
            Ok(Ok(Routed { server, direct, wanted: None })) => {
                if let Some(direct) = direct {
                    call.request.target = direct;
                }
                Some((server, passage))
            }
            Ok(Ok(Routed { wanted: Some(_), .. }) | Err(_)) | Err(_) => None,
        }
    }
}
