//! Floor 5. The words of the verbs that act on the running host: a part of the command tree. Parses words
//! only. Used by `args` and `host`.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;
use super::text::parse_timeout;

/// `start`, `stop`
#[derive(Debug, Args)]
pub struct SomeServers {
    /// Names of servers
    #[arg(value_name = "SERVER", required = true, add = ArgValueCandidates::new(complete::servers))]
    pub servers: Vec<String>,
}

/// `restart`, `reconnect`
#[derive(Debug, Args)]
pub struct AnyServers {
    /// Names of servers; none means all
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub servers: Vec<String>,
}

/// `wait`
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Names of servers; none means all
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub servers: Vec<String>,
    /// Longest wait, in seconds or words such as 2m (default 2m)
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
}

/// `logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Name of a server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Go on with each line as it comes, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Show the frames that pass between host and server, as they pass, until Ctrl-C; with -f stderr too
    #[arg(long)]
    pub wire: bool,
}

/// `on`, `off`
#[derive(Debug, Args)]
pub struct OnOff {
    /// Name of a server; none means all of the running host
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
    /// Without a name: keep it beyond the end of the host
    #[arg(long, conflicts_with = "server")]
    pub save: bool,
}
