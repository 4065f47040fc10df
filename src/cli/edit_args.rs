//! Floor 5. The words of the verbs that change the configuration's files: `add`, `add-json`, `remove`,
//! `approve`. A part of the command tree; parses words only.

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::ArgValueCandidates;

use super::complete;

/// Files that can be edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EditScope {
    /// Your own file, for every project
    #[default]
    User,
    /// The file of this project, shared with others
    Project,
}

/// Levels of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrustArg {
    /// Its own word about its tools does not count (default)
    Untrusted,
    /// And tools that look mutating are refused
    ReadOnly,
    /// Its read-only hints count
    Trusted,
}

impl TrustArg {
    /// As the configuration writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::ReadOnly => "read-only",
            Self::Trusted => "trusted",
        }
    }
}

/// The options of `add`.
#[derive(Clone, Debug, Default, Args)]
pub struct AddOptions {
    /// Which file to write: user (yours, the default) or project (shared with others)
    #[arg(short, long, hide_possible_values = true)]
    pub scope: Option<EditScope>,
    /// A variable for the server's environment; repeatable
    #[arg(short, long, value_name = "K=V")]
    pub env: Vec<String>,
    /// A header for every request to the server; repeatable
    #[arg(short = 'H', long, value_name = "K=V")]
    pub header: Vec<String>,
    /// How far the server's word counts: untrusted (default), read-only, trusted
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    pub trust: Option<TrustArg>,
    /// Working folder of the server
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<String>,
    /// Replace an entry of the same name in that file
    #[arg(long)]
    pub force: bool,
}

/// `add`
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Options before the command.
    #[command(flatten)]
    pub options: AddOptions,
    /// Name of the server
    pub name: String,
    /// Command with its arguments after `--`, or a URL
    #[arg(value_name = "COMMAND|URL", trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// `add-json`
#[derive(Debug, Args)]
pub struct AddJsonArgs {
    /// Name of the server
    pub name: String,
    /// The entry as a JSON object, or - for stdin
    #[arg(value_name = "JSON")]
    pub entry: String,
    /// Which file to write: user (yours, the default) or project (shared with others)
    #[arg(short, long, default_value = "user", hide_default_value = true, hide_possible_values = true)]
    pub scope: EditScope,
    /// Replace an entry of the same name in that file
    #[arg(long)]
    pub force: bool,
}

/// `remove`
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Name of a configured server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Only from this file: user or project
    #[arg(short, long, hide_possible_values = true)]
    pub scope: Option<EditScope>,
}

/// `approve`
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Name of a server of the project
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Approve without a question
    #[arg(short, long)]
    pub yes: bool,
}
