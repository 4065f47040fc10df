//! Floor 5. The command line: parses, dispatches, prints, ends with a code. Knows the
//! configuration, the runtime and its typed refs; never an actor or a message.
//! Called by `main` of the binary.

pub mod add_form;
pub mod address;
pub mod agent_args;
pub mod allow;
pub mod approve;
pub mod args;
mod as_model;
pub mod ask;
pub mod audit;
pub mod audit_args;
pub mod audit_note;
pub mod call;
pub mod call_args;
pub mod check;
pub mod check_rules;
pub mod client_args;
pub mod complete;
mod config_pages;
#[cfg(unix)]
mod control;
pub mod course;
pub mod ctx;
#[cfg(unix)]
mod deeds;
pub mod doctor;
pub mod edit;
pub mod edit_args;
pub mod exit;
pub mod explain;
pub mod failure;
pub mod far;
pub mod help;
pub mod host;
pub mod host_args;
#[cfg(unix)]
mod host_process;
pub mod import;
pub mod import_plan;
pub mod input;
pub mod install;
mod install_diff;
pub mod invoke;
pub mod items;
#[cfg(unix)]
mod join;
pub mod known;
pub mod labels;
pub mod list;
pub mod list_args;
pub mod logging;
pub mod look;
pub mod once;
pub mod out;
pub mod pages;
pub mod parameters;
pub mod perform;
pub mod pin;
pub mod pin_args;
#[cfg(test)]
mod property_tests;
pub mod question;
pub mod repl;
pub mod rule_args;
pub mod save;
pub mod secret;
pub mod secret_args;
pub mod serve;
pub mod serve_args;
pub mod serve_http;
pub mod session;
pub mod stand_in;
pub mod state_folders;
pub mod status;
pub mod status_view;
mod stream;
pub mod table;
#[cfg(unix)]
mod tail;
pub mod text;
pub mod token;
pub mod token_args;
pub mod usage;
pub mod use_verbs;
pub mod why;
pub mod why_tool;
pub mod why_view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Cli, Command, Mcp};
use audit_args::AuditVerb;
use ctx::Ctx;
use exit::Exit;
use failure::Failure;
use host_args::OnOff;
use input::Stdin;
use out::{Answer, Terminal};
use pin_args::PinVerb;
use secret_args::SecretVerb;

use crate::config::host::{ColorChoice, LogLevel};
use crate::transport::guard;

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
    let argv: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = guard::answer(&argv) {
        return code;
    }
    complete::answer_shell();
    // A demo server is a plain blocking program: no logging, no event loop.
    if let [_, verb, name] = argv.as_slice()
        && verb == crate::demo::SERVER_VERB
    {
        return crate::demo::serve(&name.to_string_lossy());
    }
    std::panic::set_hook(Box::new(|panic| {
        // The message may hold what must not be shown; the place says enough.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a bug in Callboard: please report it");
    }));
    #[cfg(unix)]
    if let [_, verb] = argv.as_slice()
        && verb == crate::serve::share::join::HOST_VERB
    {
        return ExitCode::from(caught(&argv, host_process::run).code());
    }
    ExitCode::from(caught(&argv, run).code())
}

/// Runs the program. A bug of ours ends it as a failure that says so, not as a heap of frames.
fn caught(argv: &[OsString], run: impl FnOnce(Vec<OsString>) -> Exit) -> Exit {
    let words = argv.to_vec();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(words))).unwrap_or_else(|_| {
        let failure =
            Failure::new("internal", Exit::OutcomeUnknown, "Callboard met a bug of its own and ended")
                .fix("please report it with the output of `--log-level debug`");
        let term = Terminal::detect(usage::wants_no_color(argv));
        fail("callboard.error/1", &failure, usage::wants_json(argv), term)
    })
}

fn run(argv: Vec<OsString>) -> Exit {
    let term = Terminal::detect(usage::wants_no_color(&argv));
    let json = usage::wants_json(&argv);
    let cli = match parse(&argv, term) {
        Ok(cli) => cli,
        Err(usage::Refused::Help(text)) => {
            return out::tell(&out::Printed { stdout: text, ..out::Printed::default() }, Exit::Ok);
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
    let cli = match meant(cli) {
        Ok(cli) => cli,
        Err(failure) => return fail("callboard.error/1", &failure, json, term),
    };
    if matches!(&cli.command, Command::Agent(args) if args.prompt.is_none()) && !(term.stdin && term.stdout) {
        if json || cli.global.json {
            return fail("callboard.error/1", &usage::missing_verb(), true, term);
        }
        out::write_stderr(&help::command().render_help().to_string());
        return Exit::Usage;
    }
    let (json, schema) = (json || cli.global.json, schema(&cli.command));
    // Stdout belongs to the protocol there, whatever goes wrong.
    let json = json && !matches!(cli.command, Command::Serve(_));
    match enter(&cli).and_then(|()| act(cli, argv, term)) {
        Ok(Done::Streamed(exit)) => exit,
        Ok(Done::Answer(answer)) => {
            out::tell(&out::answer_text(&answer, json, term.style_err()), answer.exit)
        }
        Err(failure) => fail(schema, &failure, json, term),
    }
}

/// The words with what no verb means.
struct Meant {
    global: args::Global,
    command: Command,
}

fn meant(cli: Cli) -> Result<Meant, Failure> {
    let Cli { global, agent, command } = cli;
    match command {
        Some(_) if agent.any() => Err(Failure::usage("an option of the agent and a verb are both given")
            .fix("leave one of them out: `callboard --help` shows which options belong to the agent")),
        Some(command) => Ok(Meant { global, command }),
        None => Ok(Meant { global, command: Command::Agent(agent) }),
    }
}

/// `-C DIR`
fn enter(cli: &Meant) -> Result<(), Failure> {
    let Some(folder) = &cli.global.directory else { return Ok(()) };
    std::env::set_current_dir(folder).map_err(|e| {
        Failure::usage(format!("can't enter {}: {e}", folder.display())).fix("give -C a folder that exists")
    })
}

/// What needs neither configuration nor servers is answered at once.
fn act(cli: Meant, argv: Vec<OsString>, term: Terminal) -> Result<Done, Failure> {
    match cli.command {
        Command::Explain { code } => return explain::explain(code.as_deref(), term.style()).map(Done::from),
        Command::Completions { shell } => return complete::script(shell).map(Done::from),
        _ => {}
    }
    let ctx = Ctx::new(cli.global, term, argv);
    // At the prompt what happens is told above it; log lines would run into what is typed.
    let prompt = matches!(&cli.command, Command::Agent(args) if args.prompt.is_none());
    let quiet = prompt && ctx.term.stderr && ctx.global.log_level.is_none();
    let level = if quiet { LogLevel::Off } else { ctx.loaded.settings.log_level };
    logging::init(level, ctx.global.log_format, ctx.term.style_err().color);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
        Failure::new("internal", Exit::Unavailable, format!("can't start the event loop: {e}"))
    })?;
    // The findings of `doctor` tell the same, with more words; the demo reads no configuration.
    let silent =
        matches!(cli.command, Command::Doctor | Command::Demo | Command::Serve(_) | Command::Agent(_));
    let errors = if silent { Vec::new() } else { ctx.source_errors() };
    let outcome = match runtime.block_on(dispatch(&ctx, cli.command)) {
        Ok(Done::Streamed(exit)) => Ok(Done::Streamed(exit)),
        Ok(Done::Answer(answer)) => out::told(Ok(answer), &errors).map(Done::Answer),
        Err(failure) => out::told(Err(failure), &errors).map(Done::Answer),
    };
    // A thread that still waits for a key must not hold the exit.
    runtime.shutdown_background();
    outcome
}

fn parse(argv: &[OsString], term: Terminal) -> Result<Cli, usage::Refused> {
    let choice = match term.color {
        ColorChoice::Never => clap::ColorChoice::Never,
        ColorChoice::Auto | ColorChoice::Always => clap::ColorChoice::Auto,
    };
    help::command()
        .color(choice)
        .try_get_matches_from(serve_args::implied(argv))
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|e| usage::refused(&e, term.style().color))
}

fn fail(schema: &str, failure: &Failure, json: bool, term: Terminal) -> Exit {
    out::tell(&out::failure_text(schema, failure, json, term.style_err()), failure.exit)
}

async fn dispatch(ctx: &Ctx, command: Command) -> Result<Done, Failure> {
    let style = ctx.style();
    match command {
        Command::Agent(args) => {
            let ctx = repl::once::with_model(ctx, &args);
            match &args.prompt {
                Some(prompt) => repl::once::answer(&ctx, &args, prompt).await,
                None => repl::run(&ctx, &args).await,
            }
        }
        Command::Demo if ctx.global.json => {
            Err(Failure::usage("the demo is a show for people: it has no --json")
                .fix("leave --json out; the exit code says whether all of it happened"))
        }
        Command::Demo => {
            let options = crate::demo::DemoOptions::detect(style.color);
            let code = crate::demo::run(options).await.map_err(|error| out::unwritten(&error))?;
            Ok(Done::Streamed(if code == ExitCode::SUCCESS { Exit::Ok } else { Exit::Unhealthy }))
        }
        Command::Doctor => doctor::doctor(ctx).map(Done::from),
        Command::Explain { code } => explain::explain(code.as_deref(), style).map(Done::from),
        Command::Completions { shell } => complete::script(shell).map(Done::from),
        Command::Install(args) => install::install(ctx, &args).await.map(Done::from),
        Command::Uninstall(args) => install::uninstall(ctx, &args).map(Done::from),
        Command::Secret { verb } => secret_verb(ctx, &verb).map(Done::from),
        Command::Token { verb } => token::token(ctx, &verb).map(Done::from),
        Command::Audit { verb } => audit::audit(ctx, &verb).await,
        Command::Serve(args) => serve::serve(ctx, &args).await,
        Command::Mcp { verb } => mcp(ctx, verb).await,
    }
}

fn secret_verb(ctx: &Ctx, verb: &SecretVerb) -> Result<Answer, Failure> {
    match verb {
        SecretVerb::Set(args) => secret::set(ctx, args, &mut Stdin),
        SecretVerb::List => secret::list(ctx),
        SecretVerb::Rm(args) => secret::rm(ctx, args),
    }
}

/// Whether the verb uses servers, so that none may come from another place than was named.
fn uses_servers(verb: &Mcp) -> bool {
    match verb {
        Mcp::Call(args) => args.tool.is_some() || !args.once.is_empty() || !args.help,
        Mcp::Tools(_)
        | Mcp::Resources(_)
        | Mcp::Prompts(_)
        | Mcp::Read(_)
        | Mcp::Prompt(_)
        | Mcp::Check(_)
        | Mcp::Pin { verb: PinVerb::Review(_) | PinVerb::Accept(_) } => true,
        _ => false,
    }
}

async fn mcp(ctx: &Ctx, verb: Mcp) -> Result<Done, Failure> {
    if uses_servers(&verb) {
        ctx.named_sources()?;
    }
    match verb {
        Mcp::List => list::list(ctx),
        Mcp::Get(one) => list::get(ctx, &one.server),
        Mcp::Config => list::config(ctx),
        Mcp::Status(args) => return status::status(ctx, args).await,
        Mcp::Why(args) => return why::why(ctx, args).await,
        Mcp::Tools(args) => return look::tools(ctx, args).await,
        Mcp::Resources(args) => return look::resources(ctx, args).await,
        Mcp::Prompts(args) => return look::prompts(ctx, args).await,
        Mcp::Read(args) => return use_verbs::read(ctx, args).await,
        Mcp::Prompt(args) => return use_verbs::prompt(ctx, args, &mut Stdin).await,
        Mcp::Call(args) if args.help && args.tool.is_none() && args.once.is_empty() => {
            Answer::new("callboard.help/1", &call_help(), call_help())
        }
        Mcp::Call(args) => return call::call(ctx, args, &mut Stdin).await,
        Mcp::Check(args) => return check::check(ctx, args).await,
        Mcp::Pin { verb } => return pin::pin(ctx, verb).await,
        Mcp::Add(args) => edit::add(ctx, args),
        Mcp::AddJson(args) => edit::add_json(ctx, args, &mut Stdin),
        Mcp::Remove(args) => edit::remove(ctx, &args),
        Mcp::Import(args) => import::import(ctx, &args),
        Mcp::Enable(one) => edit::enable(ctx, &one.server),
        Mcp::Disable(one) => edit::disable(ctx, &one.server),
        Mcp::On(OnOff { server: Some(server), .. }) => edit::enable(ctx, &server),
        Mcp::Off(OnOff { server: Some(server), .. }) => edit::disable(ctx, &server),
        Mcp::Approve(args) => approve::approve(ctx, &args).await,
        Mcp::Revoke(one) => approve::revoke(ctx, &one.server),
        Mcp::Allow(args) => allow::allow(ctx, &args),
        Mcp::Rules => allow::rules(ctx),
        Mcp::On(args) => return host::on(ctx, args.save).await,
        Mcp::Off(args) => return host::off(ctx, args.save).await,
        Mcp::Start(args) => return host::act(ctx, "start", &args.servers, None).await,
        Mcp::Stop(args) => return host::act(ctx, "stop", &args.servers, None).await,
        Mcp::Restart(args) => return host::act(ctx, "restart", &args.servers, None).await,
        Mcp::Reconnect(args) => return host::act(ctx, "reconnect", &args.servers, None).await,
        Mcp::Reload => return host::act(ctx, "reload", &[], None).await,
        Mcp::Logs(args) => return host::logs(ctx, &args).await,
        Mcp::Wait(args) => return host::act(ctx, "wait", &args.servers, args.timeout).await,
    }
    .map(Done::from)
}

/// `call` has its own `--help`, because with a tool it shows the parameters.
fn call_help() -> String {
    let mut top = help::command();
    let call = top.find_subcommand_mut("mcp").and_then(|mcp| mcp.find_subcommand_mut("call"));
    call.map(|call| call.render_help().to_string()).unwrap_or_default()
}

/// Name and version of the shape that a verb answers with.
fn schema(command: &Command) -> &'static str {
    match command {
        Command::Agent(_) => "callboard.agent/1",
        Command::Demo => "callboard.demo/1",
        Command::Doctor => "callboard.doctor/1",
        Command::Explain { .. } => "callboard.explain/1",
        Command::Completions { .. } => "callboard.completions/1",
        Command::Install(_) => install::INSTALL,
        Command::Uninstall(_) => install::UNINSTALL,
        Command::Secret { verb: SecretVerb::Set(_) } => secret::SET,
        Command::Secret { verb: SecretVerb::List } => secret::LIST,
        Command::Secret { verb: SecretVerb::Rm(_) } => secret::RM,
        Command::Token { verb } => token::schema(verb),
        Command::Audit { verb: AuditVerb::Verify(_) } => audit::VERIFY,
        Command::Audit { verb: AuditVerb::Tail(_) } => audit::TAIL,
        Command::Audit { verb: AuditVerb::Export(_) } => audit::EXPORT,
        Command::Serve(_) => "callboard.serve/1",
        Command::Mcp { verb } => mcp_schema(verb),
    }
}

fn mcp_schema(verb: &Mcp) -> &'static str {
    match verb {
        Mcp::List => "callboard.list/1",
        Mcp::Get(_) => "callboard.get/1",
        Mcp::Status(_) => "callboard.status/1",
        Mcp::Why(_) => why::SCHEMA,
        Mcp::Config => "callboard.config/1",
        Mcp::Tools(_) => "callboard.tools/1",
        Mcp::Resources(_) => "callboard.resources/1",
        Mcp::Read(_) => "callboard.read/1",
        Mcp::Prompts(_) => "callboard.prompts/1",
        Mcp::Prompt(_) => "callboard.prompt/1",
        Mcp::Call(_) => "callboard.call/1",
        Mcp::Check(_) => "callboard.check/1",
        Mcp::Pin { verb } => pin::schema(verb),
        Mcp::Add(_) | Mcp::AddJson(_) => "callboard.add/1",
        Mcp::Remove(_) => "callboard.remove/1",
        Mcp::Import(_) => import::SCHEMA,
        Mcp::On(OnOff { server: None, .. }) | Mcp::Off(OnOff { server: None, .. }) => host::SCHEMA,
        Mcp::Enable(_) | Mcp::On(_) => "callboard.enable/1",
        Mcp::Disable(_) | Mcp::Off(_) => "callboard.disable/1",
        Mcp::Approve(_) => "callboard.approve/1",
        Mcp::Revoke(_) => "callboard.revoke/1",
        Mcp::Allow(_) => "callboard.allow/1",
        Mcp::Rules => "callboard.rules/1",
        Mcp::Start(_) | Mcp::Stop(_) | Mcp::Restart(_) | Mcp::Reconnect(_) | Mcp::Reload | Mcp::Wait(_) => {
            host::SCHEMA
        }
        Mcp::Logs(args) => host::logs_schema(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_ends_as_a_failure_with_its_code() {
        let argv = [OsString::from("callboard")];
        assert_eq!(caught(&argv, |_| panic!("a bug")), Exit::OutcomeUnknown);
        assert_eq!(caught(&argv, |_| Exit::Config), Exit::Config);
    }

    #[test]
    fn the_help_of_call_is_that_of_call() {
        assert!(call_help().contains("callboard mcp call fs read_text_file --help"));
    }
}
