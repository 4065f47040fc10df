//! A turn: from what the user says to the model's last word, with everything that is called in between. Pure:
//! `entry` is what happened, `fold` makes the conversation of it, `machine` decides what comes next,
//! `compact` shortens what outgrows the window. Called by `engine`.

pub mod compact;
pub mod entry;
pub mod fold;
pub mod machine;

pub use entry::Entry;
pub use fold::Conversation;
pub use machine::{Action, End, Event, Limits, Turn};
