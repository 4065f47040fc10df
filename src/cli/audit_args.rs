//! Floor 5. The words of `callboard audit`: a part of the command tree. Parses words only.
//! Used by `args` and `audit`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::help;
use super::text::parse_duration;

/// The verbs of `callboard audit`.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Check that nothing was changed, removed, moved or added
    #[command(after_help = help::AUDIT_VERIFY)]
    Verify(AuditVerify),
    /// Show the last lines, and follow
    #[command(after_help = help::AUDIT_TAIL)]
    Tail(AuditTail),
    /// Write the lines out, after they were verified
    #[command(after_help = help::AUDIT_EXPORT)]
    Export(AuditExport),
}

/// `audit verify`
#[derive(Debug, Args)]
pub struct AuditVerify {
    /// Also check that the log has this line: what an earlier `verify` told as the last one
    #[arg(long, value_name = "SEQ:MAC")]
    pub expect: Option<String>,
}

/// Which lines.
#[derive(Clone, Debug, Default, Args)]
pub struct AuditFilter {
    /// Only lines about this server
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only lines about this tool, prompt or URI
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only lines with this outcome: ok, tool_error, rpc_error, failed, refused, abandoned, lost
    #[arg(long, value_name = "WORD")]
    pub outcome: Option<String>,
    /// Only lines that are younger
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub since: Option<Duration>,
}

/// `audit tail`
#[derive(Debug, Args)]
pub struct AuditTail {
    /// Go on with every line that is written, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// How many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: usize,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
}

/// Forms of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AuditForm {
    /// The lines as they are
    #[default]
    Jsonl,
    /// A table with a heading
    Csv,
}

/// `audit export`
#[derive(Debug, Args)]
pub struct AuditExport {
    /// Form: jsonl (default), csv
    #[arg(long, value_name = "FORM", default_value = "jsonl", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub format: AuditForm,
    /// Write it out although the log is broken; the exit code still says so
    #[arg(long)]
    pub broken: bool,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
}
