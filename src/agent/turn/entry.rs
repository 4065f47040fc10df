//! What happens in a conversation, as it is written down: one entry after the other, never changed. All that
//! a conversation is can be made of its entries again.

use serde::{Deserialize, Serialize};

use crate::agent::chat::{Said, ToolResult};
use crate::agent::model::Usage;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A conversation began, or was taken up again.
    Begun {
        /// When, RFC 3339.
        at: String,
        /// The version of this program.
        version: String,
        /// The word of the model's provider.
        provider: String,
        /// The model.
        model: String,
    },
    /// The user said this.
    User {
        /// The words.
        text: String,
    },
    /// The host adds this for the model: instructions of servers, resources, prompts; fenced.
    Context {
        /// The words.
        text: String,
    },
    /// The model said this.
    Said {
        /// What.
        said: Said,
        /// Why it ended there.
        stop: String,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A person was asked about a call.
    Approval {
        /// The id of the call.
        call: String,
        /// What they answered, or why nobody did.
        answer: String,
    },
    /// What came of a call.
    Result {
        /// What the model is given.
        result: ToolResult,
        /// Where it was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// How long it took, milliseconds.
        #[serde(default)]
        elapsed_ms: u64,
    },
    /// The model could not go on.
    Failed {
        /// The stable word.
        code: String,
        /// One sentence.
        message: String,
    },
    /// The user ended the turn.
    Cancelled {},
    /// A limit ended the turn.
    Limit {
        /// Which.
        which: LimitKind,
    },
    /// Results of these calls were left out to make room.
    Trimmed {
        /// Ids of the calls.
        calls: Vec<String>,
    },
    /// Everything but the last messages was replaced by a summary to make room.
    Compacted {
        /// How many messages stay.
        keep: usize,
        /// In place of the others.
        summary: String,
    },
}

/// The limits of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// `agent.rounds_max`
    Rounds,
    /// `agent.calls_max`
    Calls,
    /// `agent.turn_max`
    Time,
}

impl LimitKind {
    /// The setting behind it.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Rounds => "agent.rounds_max",
            Self::Calls => "agent.calls_max",
            Self::Time => "agent.turn_max",
        }
    }
}
