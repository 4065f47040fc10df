//! Floor 5. The words of `callboard mcp allow`, in clap's derive form. Parses words only.
//! Used by `args`.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;

/// `allow`
#[derive(Debug, Args)]
pub struct AllowArgs {
    /// Name of a configured server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Names of its tools, or '*' for all
    #[arg(value_name = "TOOL", add = ArgValueCandidates::new(complete::tools))]
    pub tools: Vec<String>,
    /// Take the rules back; all of them when no tool is named
    #[arg(long)]
    pub revoke: bool,
}
