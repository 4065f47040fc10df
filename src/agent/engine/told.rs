//! What a conversation tells whoever shows it, while a turn runs.

use std::time::Duration;

use crate::agent::model::{Cost, Usage};
use crate::agent::surface::Change;

/// Things told that may wait to be shown; a turn waits for whoever is slower.
pub const TOLD_MAX: usize = 256;

/// One thing. Texts of servers and models are redacted, and not yet fit for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Words of the model.
    Text(String),
    /// Words of its reasoning.
    Reasoning(String),
    /// It writes a call.
    Calling(String),
    /// The model's endpoint refused for a while; the same is sent again.
    Again {
        /// Counts from 1.
        attempt: u32,
        /// How long it waits.
        wait: Duration,
        /// Why.
        why: String,
    },
    /// A call begins.
    Began {
        /// Its id.
        id: String,
        /// The server; the agent's own tools have none.
        server: Option<String>,
        /// The tool.
        tool: String,
        /// As the model wrote them.
        arguments: String,
    },
    /// A call waits, and for whom.
    Waits {
        /// Its id.
        id: String,
        /// One clause.
        why: String,
    },
    /// A call goes on.
    Progress {
        /// Its id.
        id: String,
        /// In few words.
        text: String,
    },
    /// A call has ended.
    Ended {
        /// Its id.
        id: String,
        /// It failed.
        is_error: bool,
        /// What the model is given, in short.
        text: String,
        /// What was changed or left out of it.
        notes: Vec<String>,
        /// How long it took.
        elapsed: Duration,
    },
    /// The list of tools is another one from here on.
    Surface(Change),
    /// Earlier turns were shortened to make room.
    MadeRoom {
        /// How.
        how: String,
        /// Tokens before, estimated.
        before: u64,
        /// And after.
        after: u64,
    },
    /// What the last answer used, and what all did.
    Used {
        /// The last.
        last: Usage,
        /// All.
        all: Usage,
        /// What all cost, where prices are configured.
        cost: Option<Cost>,
    },
    /// Something that the user should know.
    Warning(String),
}
