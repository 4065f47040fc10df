//! Floor 3. The front end: the one door for calls. It resolves names in the catalogue
//! snapshot, asks the policy, and forwards to the server's actor; the reply port
//! travels along and never comes back here.

mod actor;
mod gate;
mod reference;
mod route;

pub(crate) use actor::{FrontendActor, FrontendArgs, FrontendMsg};
pub use reference::FrontendRef;

pub use crate::call::CALL_EVENTS_MAX;
