//! Floor 5. The words of the verbs that show what servers are and offer: a part of the command tree. Parses
//! words only. Used by `args`, the use verbs, `check`, `status` and `why`.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;
use super::text::{parse_duration, parse_timeout};

/// A configured server, all of them, or one that runs once.
#[derive(Debug, Args)]
pub struct MaybeServer {
    /// Name of a configured server, or a URL to contact once
    #[arg(value_name = "SERVER|URL", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
    /// Longest wait for the servers, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
    /// Command of a server to run once, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub once: Vec<String>,
}

/// `tools`
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Whose.
    #[command(flatten)]
    pub of: MaybeServer,
    /// Show too what deserves a second look in each definition
    #[arg(short, long)]
    pub verbose: bool,
}

/// `status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of a configured server; none means all
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
    /// Keep the servers running and redraw on every change, until Ctrl-C
    #[arg(long, conflicts_with = "wait")]
    pub watch: bool,
    /// Wait that long for all servers, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub wait: Option<Duration>,
}

/// `why`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Name of a configured server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Name of one of its tools: says too what policy does with a call of it
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    pub tool: Option<String>,
    /// Wait that long for the server to settle, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub wait: Option<Duration>,
}
