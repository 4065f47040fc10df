//! The ways by which calls come in.

use serde::Serialize;

/// By which door a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// A program that embeds the runtime.
    #[default]
    Embedded,
    /// The command line.
    Cli,
    /// A client of the host (`--mcp-serve`).
    Host,
    /// The agent: its model asked for the call.
    Agent,
}

impl Door {
    /// The word in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cli => "cli",
            Self::Host => "host",
            Self::Agent => "agent",
        }
    }
}
