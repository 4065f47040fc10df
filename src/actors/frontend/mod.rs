//! Floor 3. The front end: the one door for calls. It resolves names in the catalogue
//! snapshot, asks the policy, and forwards to the server's actor; the reply port
//! travels along and never comes back here. A call that nothing stands in the way of is decided so in its
//! caller's task (`lane`), and meets no mailbox but its server's.

mod actor;
mod gate;
mod lane;
mod reference;
mod route;

pub(crate) use actor::{FrontendActor, FrontendArgs, FrontendMsg};
pub(crate) use lane::Lane;
pub use reference::FrontendRef;

pub use crate::call::CALL_EVENTS_MAX;
