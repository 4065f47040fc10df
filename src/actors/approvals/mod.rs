//! Floor 3. The desk of approvals: holds the calls that need a person's word, shows them to
//! whoever listens, and lets them run or refuses them. The only writer of what the front end goes
//! by: the mode and the allow rules. What it decides is `policy::approve`.

mod actor;
mod gate;
mod held;
mod minutes;
mod reference;

pub(crate) use actor::{ApprovalsActor, ApprovalsArgs, ApprovalsMsg};
pub use gate::{Gate, RulePlace};
pub(crate) use held::{Asked, Held};
pub use reference::{ApprovalsRef, ListenerRef, NOTICES_MAX};
