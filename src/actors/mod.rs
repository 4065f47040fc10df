//! Floor 3. The actors: thin shells around the decisions of floor 1. Each owns its
//! state alone; others see snapshots and send messages through `…Ref` types.

pub mod approvals;
pub(crate) mod audit;
pub mod directory;
pub mod frontend;
pub(crate) mod jitter;
#[cfg(test)]
pub(crate) mod panics;
pub mod registry;
pub(crate) mod root;
pub mod server;
pub mod supervisor;
pub(crate) mod task;
