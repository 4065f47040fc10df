//! Floor 3. One configured server: its link, its life, its calls. The actor is the
//! only writer of all of it; everyone else reads the view it publishes.

mod actor;
mod attempt;
mod breaker;
mod call;
mod calls;
mod cure;
mod ending;
mod files;
mod history;
mod idle;
pub(crate) mod limit;
mod lists;
pub(crate) mod msg;
mod notices;
mod outcome;
mod pause;
mod pins;
mod poll;
pub(crate) mod port;
#[cfg(test)]
mod probe_tests;
mod reference;
mod show;
#[cfg(test)]
mod stale_tests;
mod state;

pub(crate) use actor::{ServerActor, ServerArgs};
pub(crate) use idle::Autostart;
pub use reference::ServerRef;
