//! Floor 5. The command line: parses, dispatches, prints, ends with a code. Knows the
//! configuration, the runtime and its typed refs; never an actor or a message.
//! Called by `main` of the binary.

pub mod add_form;
pub mod args;
pub mod call_args;
pub mod check_rules;
pub mod complete;
pub mod content;
pub mod exit;
pub mod explain;
pub mod failure;
pub mod help;
pub mod host;
pub mod logging;
pub mod out;
pub mod pages;
pub mod status_view;
pub mod table;
pub mod text;
pub mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command, Global, Mcp};
use exit::Exit;
use failure::Failure;
use out::{Answer, Terminal};

/// What every verb may look at.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Options of every command.
    pub global: Global,
    /// What we are attached to.
    pub term: Terminal,
    /// The words as typed, program name first.
    pub argv: Vec<OsString>,
}

/// How a verb ended well.
#[derive(Debug)]
pub enum Done {
    /// With one answer.
    Answer(Answer),
    /// Everything was written already; the exit code is left.
    Streamed(Exit),
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// The whole program: reads the words of this process and ends with its exit code.
pub fn main() -> ExitCode {
    complete::answer_shell();
    let argv: Vec<OsString> = std::env::args_os().collect();
    // A demo server is a plain blocking program: no logging, no event loop.
    if let [_, verb, name] = argv.as_slice()
        && verb == crate::demo::SERVER_VERB
    {
        return crate::demo::serve(&name.to_string_lossy());
    }
    ExitCode::from(run(argv).code())
}

fn run(argv: Vec<OsString>) -> Exit {
    let term = Terminal::detect(usage::wants_no_color(&argv));
    let json = usage::wants_json(&argv);
    let cli = match parse(&argv, term) {
        Ok(cli) => cli,
        Err(usage::Refused::Help(text)) => {
            out::write_stdout(&text);
            return Exit::Ok;
        }
        Err(usage::Refused::Missing(help)) if !json => {
            out::write_stderr(&help);
            return Exit::Usage;
        }
        Err(usage::Refused::Missing(_)) => {
            return fail("callboard.error/1", &usage::missing_verb(), json, term);
        }
        Err(usage::Refused::Failure(failure)) => return fail("callboard.error/1", &failure, json, term),
    };
    logging::init(&cli.global, term.color && term.stderr);
    let schema = schema(&cli.command);
    let ctx = Ctx { global: cli.global, term, argv };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            let failure =
                Failure::new("internal", Exit::Unavailable, format!("can't start the event loop: {e}"));
            return fail(schema, &failure, json, term);
        }
    };
    let outcome = runtime.block_on(dispatch(&ctx, cli.command));
    // A thread that still waits for a key must not hold the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(Done::Streamed(exit)) => exit,
        Ok(Done::Answer(answer)) => {
            out::print(&out::answer_text(&answer, json, term.style_err()));
            answer.exit
        }
        Err(failure) => fail(schema, &failure, json, term),
    }
}

fn parse(argv: &[OsString], term: Terminal) -> Result<Cli, usage::Refused> {
    let choice = if term.color { clap::ColorChoice::Auto } else { clap::ColorChoice::Never };
    Cli::command()
        .color(choice)
        .try_get_matches_from(argv)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|e| usage::refused(&e, term.color && term.stdout))
}

fn fail(schema: &str, failure: &Failure, json: bool, term: Terminal) -> Exit {
    out::print(&out::failure_text(schema, failure, json, term.style_err()));
    failure.exit
}

async fn dispatch(ctx: &Ctx, command: Command) -> Result<Done, Failure> {
    let style = ctx.term.style();
    match command {
        Command::Demo => {
            let code = crate::demo::run(crate::demo::DemoOptions::detect(ctx.term.color)).await;
            Ok(Done::Streamed(if code == ExitCode::SUCCESS { Exit::Ok } else { Exit::Unhealthy }))
        }
        Command::Doctor => Err(Failure::new("not_in_this_version", Exit::Usage, "no doctor yet")),
        Command::Explain { code } => explain::explain(code.as_deref(), style).map(Done::from),
        Command::Completions { shell } => complete::script(shell).map(Done::from),
        Command::Mcp { verb } => mcp(ctx, verb).await,
    }
}

async fn mcp(_ctx: &Ctx, verb: Mcp) -> Result<Done, Failure> {
    match verb {
        Mcp::Start(_) => Err(host::needs_host("start")),
        Mcp::Stop(_) => Err(host::needs_host("stop")),
        Mcp::Restart(_) => Err(host::needs_host("restart")),
        Mcp::Reconnect(_) => Err(host::needs_host("reconnect")),
        Mcp::Reload(_) => Err(host::needs_host("reload")),
        Mcp::Logs(_) => Err(host::needs_host("logs")),
        Mcp::Wait(_) => Err(host::needs_host("wait")),
        Mcp::On(args::HostOrServer { server: None }) => Err(host::needs_host("on")),
        Mcp::Off(args::HostOrServer { server: None }) => Err(host::needs_host("off")),
        Mcp::Call(call) if call.help && call.tool.is_none() => {
            Ok(Answer::new(mcp_schema(&Mcp::Call(call)), &(), call_help())?.into())
        }
        _ => Err(Failure::new("not_in_this_version", Exit::Usage, "not yet")),
    }
}

/// `call` has its own `--help`, because with a tool it shows the parameters.
fn call_help() -> String {
    let mut top = Cli::command();
    top.build();
    let call = top.find_subcommand_mut("mcp").and_then(|mcp| mcp.find_subcommand_mut("call"));
    call.map(|call| call.render_long_help().to_string()).unwrap_or_default()
}

/// Name and version of the shape that a verb answers with.
fn schema(command: &Command) -> &'static str {
    match command {
        Command::Demo => "callboard.demo/1",
        Command::Doctor => "callboard.doctor/1",
        Command::Explain { .. } => "callboard.explain/1",
        Command::Completions { .. } => "callboard.completions/1",
        Command::Mcp { verb } => mcp_schema(verb),
    }
}

fn mcp_schema(verb: &Mcp) -> &'static str {
    match verb {
        Mcp::List => "callboard.list/1",
        Mcp::Get(_) => "callboard.get/1",
        Mcp::Status(_) => "callboard.status/1",
        Mcp::Config => "callboard.config/1",
        Mcp::Tools(_) => "callboard.tools/1",
        Mcp::Resources(_) => "callboard.resources/1",
        Mcp::Read(_) => "callboard.read/1",
        Mcp::Prompts(_) => "callboard.prompts/1",
        Mcp::Prompt(_) => "callboard.prompt/1",
        Mcp::Call(_) => "callboard.call/1",
        Mcp::Check(_) => "callboard.check/1",
        Mcp::Add(_) | Mcp::AddJson(_) => "callboard.add/1",
        Mcp::Remove(_) => "callboard.remove/1",
        Mcp::Enable(_) | Mcp::On(_) => "callboard.enable/1",
        Mcp::Disable(_) | Mcp::Off(_) => "callboard.disable/1",
        Mcp::Approve(_) => "callboard.approve/1",
        Mcp::Revoke(_) => "callboard.revoke/1",
        Mcp::Start(_)
        | Mcp::Stop(_)
        | Mcp::Restart(_)
        | Mcp::Reconnect(_)
        | Mcp::Reload(_)
        | Mcp::Logs(_)
        | Mcp::Wait(_) => "callboard.host/1",
    }
}
