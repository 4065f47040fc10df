//! Floor 5. The words of `callboard mcp pin`: a part of the command tree. Parses words only.
//! Used by `args` and `pin`.

use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::text::parse_timeout;
use super::{complete, help};

/// The verbs of `callboard mcp pin`.
#[derive(Debug, Subcommand)]
pub enum PinVerb {
    /// Show which tools are held, what changed, and what deserves a second look
    #[command(after_help = help::PIN_REVIEW)]
    Review(PinReview),
    /// Take the definitions of tools as they are now
    #[command(after_help = help::PIN_ACCEPT)]
    Accept(PinAccept),
    /// Show what is pinned; starts nothing
    #[command(after_help = help::PIN_LIST, visible_alias = "ls")]
    List(PinList),
}

/// `pin review`
#[derive(Debug, Args)]
pub struct PinReview {
    /// Name of a configured server; none means all
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
    /// Name of one of its tools: shown also when it is not held
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    pub tool: Option<String>,
    /// Longest wait for the servers, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
}

/// `pin accept`
#[derive(Debug, Args)]
pub struct PinAccept {
    /// Name of a configured server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Names of its tools
    #[arg(value_name = "TOOL", required_unless_present = "all", conflicts_with = "all")]
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    pub tools: Vec<String>,
    /// Every tool of the server that is held
    #[arg(long)]
    pub all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Longest wait for the server, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
}

/// `pin list`
#[derive(Debug, Args)]
pub struct PinList {
    /// Name of a configured server; none means all
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
}
