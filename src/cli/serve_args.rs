//! Floor 5. The words of `serve` (`--mcp-serve`). Parses only.

use clap::{Args, ValueEnum};

use crate::config::serve::ServeApproval;

/// `serve`
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// A host of its own for this client, which ends with it
    #[arg(long)]
    pub private: bool,
    /// Serve only what fits: a server, server/item or exposed name; repeatable
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Who says yes to a call that needs approval: elicitation (default), client
    #[arg(long, value_name = "WHO", hide_possible_values = true)]
    pub approval: Option<ApprovalWord>,
}

/// `--approval`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApprovalWord {
    /// The client's user is asked through the protocol
    Elicitation,
    /// The client asks by itself before it calls
    Client,
}

impl From<ApprovalWord> for ServeApproval {
    fn from(word: ApprovalWord) -> Self {
        match word {
            ApprovalWord::Elicitation => Self::Elicitation,
            ApprovalWord::Client => Self::Client,
        }
    }
}
