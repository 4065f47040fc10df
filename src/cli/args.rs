//! Floor 5. The command tree: what can be typed, in clap's derive form. Parses
//! words only; reads no file and decides nothing. Called by `cli::main` and by the
//! completion engine.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::ArgValueCandidates;

use super::agent_args::AgentArgs;
use super::as_model::ModelArgs;
use super::audit_args::AuditVerb;
use super::client_args::{ImportArgs, InstallArgs, UninstallArgs};
use super::edit_args::{AddArgs, AddJsonArgs, ApproveArgs, RemoveArgs};
use super::host_args::{AnyServers, LogsArgs, OnOff, SomeServers, WaitArgs};
use super::list_args::{MaybeServer, StatusArgs, ToolsArgs, WhyArgs};
use super::pin_args::PinVerb;
use super::rule_args::AllowArgs;
use super::secret_args::SecretVerb;
use super::serve_args::ServeArgs;
use super::text::parse_timeout;
use super::token_args::TokenVerb;
use super::{complete, help};

const GLOBAL: &str = "Options of every command";

/// Runs MCP servers the way Erlang runs processes: each one supervised, calls routed without losing a byte
#[derive(Debug, Parser)]
#[command(name = "callboard", version, after_help = help::TOP, max_term_width = 110)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    /// What holds for every verb.
    #[command(flatten)]
    pub global: Global,
    /// What holds without one.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The verb; without one, the agent.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// Answer with one JSON object on stdout
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Read servers from this file too; repeatable, the last one wins
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL, value_hint = ValueHint::FilePath)]
    pub mcp_config: Vec<PathBuf>,
    /// Read servers from the files of --mcp-config alone
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub strict_mcp_config: bool,
    /// Act as if started in this folder
    #[arg(short = 'C', long, value_name = "DIR", global = true, help_heading = GLOBAL, value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// How much runs without asking: plan, safe, readonly (default), auto
    #[arg(long, value_name = "MODE", global = true, help_heading = GLOBAL)]
    #[arg(value_parser = ["plan", "safe", "readonly", "auto"], hide_possible_values = true)]
    pub mode: Option<String>,
    /// Never write colours (as NO_COLOR does)
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub no_color: bool,
    /// Least level of log lines on stderr: off, error, warn (default), info, debug, trace
    #[arg(long, value_name = "LEVEL", global = true, help_heading = GLOBAL)]
    #[arg(hide_possible_values = true)]
    pub log_level: Option<LogLevel>,
    /// Form of log lines: text (default), json
    #[arg(long, value_name = "FORM", global = true, help_heading = GLOBAL, default_value = "text")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub log_format: LogFormat,
}

/// Levels of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// No line at all
    Off,
    /// What is broken
    Error,
    /// And what looks wrong
    Warn,
    /// And what happens to servers
    Info,
    /// And every call
    Debug,
    /// And every frame's fate
    Trace,
}

impl LogLevel {
    /// The word, here and in `callboard.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Forms of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// The first word.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The agent: no verb at all.
    #[command(skip)]
    Agent(AgentArgs),
    /// See it work: starts small built-in servers, lets one crash and one hang
    Demo,
    /// Find what is wrong with configuration and machine, and how to cure it
    #[command(after_help = help::DOCTOR)]
    Doctor,
    /// Say what an error code means and what to do
    #[command(after_help = help::EXPLAIN)]
    Explain {
        /// An error code, an exit code, or nothing for all
        #[arg(add = ArgValueCandidates::new(complete::codes))]
        code: Option<String>,
    },
    /// Print the script that completes commands in a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Put Callboard into another MCP client, with its servers moved here
    #[command(after_help = help::INSTALL)]
    Install(InstallArgs),
    /// Take Callboard out of another MCP client
    #[command(after_help = help::UNINSTALL)]
    Uninstall(UninstallArgs),
    /// Keep secrets that entries read as ${secret:NAME}
    #[command(subcommand_required = true, arg_required_else_help = true, after_help = help::SECRET)]
    #[command(disable_help_subcommand = true)]
    Secret {
        /// The verb.
        #[command(subcommand)]
        verb: SecretVerb,
    },
    /// Let others use the host over HTTP, each by a token of its own
    #[command(subcommand_required = true, arg_required_else_help = true, after_help = help::TOKEN)]
    #[command(disable_help_subcommand = true)]
    Token {
        /// The verb.
        #[command(subcommand)]
        verb: TokenVerb,
    },
    /// Look at the log of all operations, and check it
    #[command(subcommand_required = true, arg_required_else_help = true, after_help = help::AUDIT)]
    #[command(disable_help_subcommand = true)]
    Audit {
        /// The verb.
        #[command(subcommand)]
        verb: AuditVerb,
    },
    /// Serve all servers as one to an MCP client, on stdin and stdout; --mcp-serve is the same
    #[command(long_flag = "mcp-serve", after_help = help::SERVE)]
    Serve(ServeArgs),
    /// See, use and edit the MCP servers
    #[command(subcommand_required = true, arg_required_else_help = true, after_help = help::MCP)]
    #[command(disable_help_subcommand = true)]
    Mcp {
        /// The verb.
        #[command(subcommand)]
        verb: Mcp,
    },
}

/// Shells that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// elvish
    Elvish,
    /// PowerShell
    Powershell,
}

/// The verbs of `callboard mcp`.
#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// Show the configured servers
    #[command(after_help = help::LIST, visible_alias = "ls")]
    List,
    /// Show the entry of one server
    #[command(after_help = help::GET)]
    Get(OneServer),
    /// Start the servers and show how they are
    #[command(after_help = help::STATUS)]
    Status(StatusArgs),
    /// Say why a server is as it is: what happened, whose fault it is, what cures it
    #[command(after_help = help::WHY)]
    Why(WhyArgs),
    /// Show the effective configuration and where each value comes from
    #[command(after_help = help::CONFIG)]
    Config,
    /// List tools
    #[command(after_help = help::TOOLS)]
    Tools(ToolsArgs),
    /// List resources and resource templates
    #[command(after_help = help::RESOURCES)]
    Resources(MaybeServer),
    /// Read a resource
    #[command(after_help = help::READ, override_usage = "callboard mcp read [OPTIONS] <SERVER> <URI>\n       callboard mcp read [OPTIONS] <URI> -- <COMMAND>…")]
    Read(ReadArgs),
    /// List prompts
    #[command(after_help = help::PROMPTS)]
    Prompts(MaybeServer),
    /// Fill in a prompt
    #[command(after_help = help::PROMPT, override_usage = "callboard mcp prompt [OPTIONS] <SERVER> <NAME> [ARGS]…\n       callboard mcp prompt [OPTIONS] <NAME> [ARGS]… -- <COMMAND>…")]
    Prompt(UseArgs),
    /// Call a tool
    #[command(after_help = help::CALL, disable_help_flag = true, override_usage = "callboard mcp call [OPTIONS] <SERVER> <TOOL> [ARGS]…\n       callboard mcp call [OPTIONS] <TOOL> [ARGS]… -- <COMMAND>…")]
    Call(CallArgs),
    /// Say which clients would reject a server's definitions
    #[command(after_help = help::CHECK)]
    Check(MaybeServer),
    /// Add a server
    #[command(after_help = help::ADD, override_usage = "callboard mcp add [OPTIONS] <NAME> -- <COMMAND>…\n       callboard mcp add [OPTIONS] <NAME> <URL>\n       callboard mcp add <NAME> stdio <COMMAND>… [--project]\n       callboard mcp add <NAME> http <URL> [--project]")]
    Add(AddArgs),
    /// Add a server from its JSON entry
    #[command(after_help = help::ADD_JSON)]
    AddJson(AddJsonArgs),
    /// Take a server out of a configuration file
    #[command(after_help = help::REMOVE, visible_alias = "rm")]
    Remove(RemoveArgs),
    /// Take over the servers of another MCP client
    #[command(after_help = help::IMPORT)]
    Import(ImportArgs),
    /// Turn a server on, for good
    #[command(after_help = help::ENABLE)]
    Enable(OneServer),
    /// Turn a server off, for good
    #[command(after_help = help::DISABLE)]
    Disable(OneServer),
    /// Turn a server on, for good; without a name: all that `off` turned off
    #[command(after_help = help::ON)]
    On(OnOff),
    /// Turn a server off, for good; without a name: all of the running host
    #[command(after_help = help::OFF)]
    Off(OnOff),
    /// Approve a server of the project
    #[command(after_help = help::APPROVE)]
    Approve(ApproveArgs),
    /// Take an approval back
    #[command(after_help = help::REVOKE)]
    Revoke(OneServer),
    /// Let tools of a server run without asking
    #[command(after_help = help::ALLOW)]
    Allow(AllowArgs),
    /// Show the allow rules in force
    #[command(after_help = help::RULES)]
    Rules,
    /// Review and accept changed definitions of tools
    #[command(subcommand_required = true, arg_required_else_help = true, after_help = help::PIN)]
    #[command(disable_help_subcommand = true)]
    Pin {
        /// The verb.
        #[command(subcommand)]
        verb: PinVerb,
    },
    /// Start a server of the running host
    #[command(after_help = help::START)]
    Start(SomeServers),
    /// Stop a server of the running host
    #[command(after_help = help::STOP)]
    Stop(SomeServers),
    /// Restart servers of the running host
    #[command(after_help = help::RESTART)]
    Restart(AnyServers),
    /// Connect servers of the running host again
    #[command(after_help = help::RECONNECT)]
    Reconnect(AnyServers),
    /// Make the running host read its files again
    #[command(after_help = help::RELOAD)]
    Reload,
    /// Show what a server of the running host wrote to stderr
    #[command(after_help = help::LOGS)]
    Logs(LogsArgs),
    /// Wait until servers of the running host are ready
    #[command(after_help = help::WAIT)]
    Wait(WaitArgs),
}

/// One configured server.
#[derive(Debug, Args)]
pub struct OneServer {
    /// Name of a configured server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
}

/// `read`
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Name of a configured server, or a URL to contact once
    #[arg(value_name = "SERVER|URL", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// URI of the resource
    #[arg(add = ArgValueCandidates::new(complete::resources))]
    pub uri: Option<String>,
    /// As a model gets it.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Save the binary parts
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Longest duration in all, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
    /// Command of a server to run once, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub once: Vec<String>,
}

/// `prompt`
#[derive(Debug, Args)]
pub struct UseArgs {
    /// Name of a configured server, or a URL to contact once
    #[arg(value_name = "SERVER|URL", add = ArgValueCandidates::new(complete::servers))]
    pub server: String,
    /// Name of the prompt
    #[arg(add = ArgValueCandidates::new(complete::prompts))]
    pub name: Option<String>,
    /// A JSON object, key=value…, @file, or - for stdin
    #[arg(value_name = "ARGS")]
    pub args: Vec<String>,
    /// As a model gets it.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Longest duration in all, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
    /// Command of a server to run once, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub once: Vec<String>,
}

/// `call`
#[derive(Debug, Args)]
pub struct CallArgs {
    /// Name of a configured server, or a URL to contact once
    #[arg(value_name = "SERVER|URL", add = ArgValueCandidates::new(complete::servers))]
    pub server: Option<String>,
    /// Name of the tool, as `callboard mcp tools` shows it
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    pub tool: Option<String>,
    /// A JSON object, key=value…, @file, or - for stdin
    #[arg(value_name = "ARGS")]
    pub args: Vec<String>,
    /// Save the binary parts; several get numbers
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// As a model gets it.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Approve this call beforehand (servers of your own configuration only)
    #[arg(short, long)]
    pub yes: bool,
    /// Allow a tool of this server for this run, as -y does for the one that is called; repeatable
    #[arg(long, value_name = "SERVER/TOOL")]
    pub allow: Vec<String>,
    /// Longest duration in all, in seconds or words such as 2m
    #[arg(long, value_name = "D", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
    /// Print help; with a tool, its parameters
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub help: bool,
    /// Command of a server to run once, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub once: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    /// An argument of a verb must not be taken for an option of every command.
    #[test]
    fn every_verb_parses_with_its_words() {
        for words in [
            "demo",
            "doctor",
            "explain busy",
            "completions zsh",
            "secret set K",
            "secret list",
            "secret rm K --force",
            "audit verify",
            "audit tail -f -n 5 --server s --tool t --outcome ok --since 1h",
            "audit export --format csv --broken",
            "serve --private --only s/* --only t --approval client",
            "--mcp-serve --private",
            "mcp list",
            "mcp get s",
            "mcp status s --wait 2s",
            "mcp why s",
            "mcp why s t --wait 2s",
            "mcp config",
            "mcp tools s --timeout 5",
            "mcp resources -- cmd x",
            "mcp read s u:r/i -o f",
            "mcp prompts s",
            "mcp prompt s p a=b",
            "mcp call s t a=b -y -o f --timeout 1m",
            "mcp call s t --allow s/t",
            "mcp check s",
            "mcp add s -e A=b -- cmd",
            "mcp add-json s {}",
            "mcp remove s -s user",
            "mcp import cursor --dry-run",
            "install codex --split -y",
            "uninstall codex",
            "mcp enable s",
            "mcp disable s",
            "mcp on",
            "mcp off --save",
            "mcp logs s",
            "mcp off s",
            "mcp approve s -y",
            "mcp revoke s",
            "mcp allow s t * --revoke",
            "mcp rules",
            "mcp start s",
            "mcp stop s",
            "mcp restart",
            "mcp reconnect",
            "mcp reload",
            "mcp logs s -f --wire",
            "mcp wait s --timeout 5s",
        ] {
            let argv = ["callboard", "--json", "--log-level", "debug", "-C", "."];
            let cli = Cli::try_parse_from(argv.into_iter().chain(words.split(' ')));
            let cli = cli.unwrap_or_else(|e| panic!("{words}: {e}"));
            assert!(cli.global.json, "{words}");
            assert_eq!(cli.global.log_level, Some(LogLevel::Debug), "{words}");
        }
    }
}
