//! Floor 5. The words of `callboard token`: a part of the command tree. Parses words only.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::help;

/// The verbs of `callboard token`.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Make a token; it is shown once
    #[command(after_help = help::TOKEN_ADD)]
    Add(TokenAdd),
    /// Show the names and what each may do; never a token
    #[command(visible_alias = "ls", after_help = help::TOKEN_LIST)]
    List,
    /// Remove a token: its sessions end
    #[command(visible_alias = "remove", after_help = help::TOKEN_RM)]
    Rm(TokenRm),
}

/// `token add`
#[derive(Debug, Args)]
pub struct TokenAdd {
    /// Name of the token, shown in the audit log: letters, digits, dots, _ and -
    pub name: String,
    /// What it may see: a server, server/item or exposed name; repeatable
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Most requests per second
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// A mode of its own, if it is stricter than the host's: plan, safe, readonly, auto
    #[arg(long, value_name = "MODE", value_parser = ["plan", "safe", "readonly", "auto"], hide_possible_values = true)]
    pub mode: Option<String>,
    /// Time after which it counts no more: 12h, 30d
    #[arg(long, value_name = "D", value_parser = duration)]
    pub expires: Option<Duration>,
}

/// `token rm`
#[derive(Debug, Args)]
pub struct TokenRm {
    /// Name of the token
    pub name: String,
}

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time >= Duration::from_secs(1) && time <= Duration::from_secs(100 * 366 * 86_400) => {
            Ok(time)
        }
        _ => Err("give a time such as 12h or 30d, up to 100 years".to_owned()),
    }
}
