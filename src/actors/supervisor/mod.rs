//! Floor 3. The supervisor: one_for_one over the server actors. It starts them,
//! restarts one that panicked, replaces what a reload changed, and publishes the
//! directory. It never stops because of a child.

mod actor;
mod children;
mod views;

#[cfg(test)]
pub(crate) use actor::SupervisorMsg;
pub(crate) use actor::{Planned, SupervisorActor, SupervisorArgs, SupervisorRef};
