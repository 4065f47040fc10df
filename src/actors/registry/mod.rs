//! Floor 3. The registry: the only writer of the merged catalogue. It merges what the
//! servers publish, and publishes a snapshot when the content changed.

mod actor;

pub use actor::RegistryRef;
pub(crate) use actor::{RegistryActor, RegistryArgs, RegistryMsg};
