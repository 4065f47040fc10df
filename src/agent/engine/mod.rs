//! The engine of a conversation: does what a turn decides. Talks to the model and to the runtime; shows
//! nothing itself.

mod settings;

pub use settings::{EngineSettings, key_hint};
