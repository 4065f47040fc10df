//! Floor 5. The words of `mcp import`, `install` and `uninstall`: a part of the command tree.
//! Parses words only. Used by `args`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

use crate::clients::client::Client;

/// The clients as words; they are also what a shell completes.
fn clients() -> impl TypedValueParser<Value = Client> {
    PossibleValuesParser::new(Client::ALL.map(Client::name)).try_map(|word| {
        let known = Client::ALL.into_iter().find(|client| client.name() == word);
        known.ok_or("no such client")
    })
}

/// What becomes of credentials that stand in clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Secrets {
    /// They stay in the entry
    #[default]
    Keep,
    /// They are stored apart, and the entry reads them as ${secret:NAME}
    Store,
}

/// `mcp import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The client
    #[arg(value_parser = clients())]
    pub client: Client,
    /// Names of servers; without any, all of them
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Read this file, not the client's usual one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// The client's file in this project, into `.callboard/mcp.json` of the project
    #[arg(long)]
    pub project: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Give a server whose name is taken another one
    #[arg(long, conflicts_with = "overwrite")]
    pub rename: bool,
    /// Replace servers of the same name
    #[arg(long)]
    pub overwrite: bool,
    /// Credentials in clear: keep (default) or store
    #[arg(long, value_name = "HOW", default_value = "keep", hide_default_value = true)]
    pub secrets: Secrets,
}

/// `install`
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The client
    #[arg(value_parser = clients())]
    pub client: Client,
    /// Leave the client's own servers in its file too
    #[arg(long, conflicts_with = "split")]
    pub keep: bool,
    /// Write one entry for each server, so that names stay
    #[arg(long)]
    pub split: bool,
    /// The client's file in this project
    #[arg(long)]
    pub project: bool,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Credentials in clear: keep (default) or store
    #[arg(long, value_name = "HOW", default_value = "keep", hide_default_value = true)]
    pub secrets: Secrets,
}

/// `uninstall`
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// The client
    #[arg(value_parser = clients())]
    pub client: Client,
    /// The client's file in this project
    #[arg(long)]
    pub project: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}
