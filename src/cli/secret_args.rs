//! Floor 5. The words of `callboard secret`: a part of the command tree. Parses words only.
//! Used by `args` and `secret`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::{complete, help};

/// The verbs of `callboard secret`.
#[derive(Debug, Subcommand)]
pub enum SecretVerb {
    /// Store a secret: asks for the value, or reads one line from a pipe
    #[command(after_help = help::SECRET_SET)]
    Set(SecretSet),
    /// Show the names, and where each is read; never a value
    #[command(after_help = help::SECRET_LIST, visible_alias = "ls")]
    List,
    /// Remove a secret
    #[command(after_help = help::SECRET_RM, visible_alias = "remove")]
    Rm(SecretRm),
}

/// `secret set`
#[derive(Debug, Args)]
pub struct SecretSet {
    /// Name of the secret: letters, digits, and _ - . /
    #[arg(add = ArgValueCandidates::new(complete::secrets))]
    pub name: String,
    /// Taken only to be refused: a value here would be seen by others
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    pub extra: Vec<String>,
}

/// `secret rm`
#[derive(Debug, Args)]
pub struct SecretRm {
    /// Name of the secret
    #[arg(add = ArgValueCandidates::new(complete::secrets))]
    pub name: String,
    /// Remove it even if an entry reads it
    #[arg(long)]
    pub force: bool,
}
