//! Floor 5. `callboard -p PROMPT`: one turn without a person. Nothing but the answer on stdout; what needs
//! a yes is refused unless it is allowed. Called by `cli::run`.

use std::io::Read as _;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc;

use super::talk;
use crate::agent::engine::{Agent, Nobody, Stopper, TOLD_MAX, Told, reserved};
use crate::agent::log::{Log, newest};
use crate::agent::model::{Trouble, Usage};
use crate::agent::turn::{End, Entry};
use crate::cli::Done;
use crate::cli::agent_args::AgentArgs;
use crate::cli::ctx::Ctx;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::out::{Answer, answer_text, failure_text, tell};
use crate::cli::session::{interrupted, plan, shutdown};
use crate::config::load::load;
use crate::config::rules::{self, AllowRules};
use crate::runtime::{Runtime, RuntimePlan};

/// Name and version of the answer's shape.
const SCHEMA: &str = "callboard.agent/1";
/// Most of stdin that is given to the model, in bytes.
const STDIN_MAX: u64 = 1 << 20;
/// How long servers are waited for before the model is asked.
const START_MAX: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Serialize)]
struct View<'a> {
    answer: &'a str,
    model: &'a str,
    session: Option<&'a str>,
    end: &'static str,
    calls: usize,
    calls_failed: usize,
    tokens_in: u64,
    tokens_out: u64,
    cost: Option<String>,
}

/// The same with the model that the words name.
pub fn with_model(ctx: &Ctx, args: &AgentArgs) -> Ctx {
    let mut ctx = ctx.clone();
    let given = [("model.name", &args.model), ("model.base_url", &args.base_url)];
    let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    let before = ctx.options.settings.len();
    ctx.options.settings.extend(given);
    if ctx.options.settings.len() > before {
        ctx.loaded = load(&ctx.options);
        ctx.redaction.learn(&ctx.loaded.servers.secrets);
    }
    ctx
}

/// What one turn did.
#[derive(Default)]
struct Seen {
    calls: usize,
    failed: usize,
    usage: Usage,
    cost: Option<String>,
    warnings: Vec<String>,
}

/// Answers one prompt.
///
/// # Errors
/// When there is no model, or the core can't be started.
pub async fn answer(ctx: &Ctx, args: &AgentArgs, prompt: &str) -> Result<Done, Failure> {
    ctx.named_sources()?;
    let model = match talk::model(ctx).await {
        Ok(model) => model,
        Err(none) => {
            let at_first = ctx.loaded.settings.model.spoken().is_none();
            let fix = if at_first { talk::first_run().await.trim_end().to_owned() } else { none.fix };
            return Err(Failure::new("no_model", Exit::Config, none.text).fix(fix));
        }
    };
    let mut plan = RuntimePlan { only: None, ..plan(ctx, &[]) };
    plan.gate.of_run = Arc::new(allowed(ctx, &args.allow)?);
    plan.reserved.extend(reserved());
    let runtime =
        Runtime::start(plan).await.map_err(|e| Failure::new("internal", Exit::Unavailable, e.to_string()))?;
    let runtime = Arc::new(runtime);
    let (log, entries) = log_of(ctx, args)?;
    let mut agent = talk::begin(ctx, runtime.clone(), model, (log, entries));
    let (end, seen) = turn(ctx, &runtime, &mut agent, prompt).await;
    let outcome = told(ctx, &agent, &end, &seen);
    drop(agent);
    let (json, stderr) = (ctx.global.json, ctx.term.style_err());
    let exit = match outcome {
        Ok(answer) => tell(&answer_text(&answer, json, stderr), answer.exit),
        Err(failure) => tell(&failure_text(SCHEMA, &failure, json, stderr), failure.exit),
    };
    if let Some(runtime) = Arc::into_inner(runtime) {
        tokio::select! {
            biased;
            () = interrupted() => {}
            () = shutdown(ctx, runtime) => {}
        }
    }
    Ok(Done::Streamed(exit))
}

async fn turn(ctx: &Ctx, runtime: &Runtime, agent: &mut Agent, prompt: &str) -> (End, Seen) {
    let stopped = interrupted();
    tokio::pin!(stopped);
    tokio::select! {
        biased;
        () = &mut stopped => return (End::Cancelled, Seen::default()),
        _ = runtime.settle(&[], START_MAX) => {}
    }
    let text = match stdin(ctx).await {
        Some(context) => format!("{prompt}\n\n{context}"),
        None => prompt.to_owned(),
    };
    let (tell, mut heard) = mpsc::channel::<Told>(TOLD_MAX);
    let (stopper, mut seen) = (Stopper::default(), Seen::default());
    let turn = agent.turn(text, Vec::new(), Arc::new(Nobody), (tell, stopper.clone()));
    tokio::pin!(turn);
    let mut pressed = false;
    let end = loop {
        tokio::select! {
            biased;
            () = &mut stopped, if !pressed => {
                pressed = true;
                stopper.stop();
            }
            Some(told) = heard.recv() => take(ctx, told, &mut seen),
            end = &mut turn => break end,
        }
    };
    while let Ok(told) = heard.try_recv() {
        take(ctx, told, &mut seen);
    }
    (end, seen)
}

fn take(ctx: &Ctx, told: Told, seen: &mut Seen) {
    match told {
        Told::Began { .. } => seen.calls += 1,
        Told::Ended { is_error: true, .. } => seen.failed += 1,
        Told::Used { all, cost, .. } => {
            seen.usage = all;
            seen.cost = cost.map(|cost| cost.to_string());
        }
        Told::Warning(text) => seen.warnings.push(ctx.clean(&text)),
        _ => {}
    }
}

/// What stands on stdin, when it is no terminal.
async fn stdin(ctx: &Ctx) -> Option<String> {
    if ctx.term.stdin {
        return None;
    }
    let read = || {
        let mut text = Vec::new();
        std::io::stdin().lock().take(STDIN_MAX).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    crate::transport::task::blocking(read).await.flatten().filter(|text| !text.trim().is_empty())
}

fn log_of(ctx: &Ctx, args: &AgentArgs) -> Result<(Option<Log>, Vec<Entry>), Failure> {
    let Ok(home) = &ctx.loaded.home else { return Ok((None, Vec::new())) };
    let failed =
        |e: &dyn std::fmt::Display| Failure::new("io_error", Exit::NotFound, ctx.clean(&e.to_string()));
    let id = args.resume.clone().or_else(|| if args.go_on { newest(home) } else { None });
    if let Some(id) = id {
        let (log, read) = Log::resume(home, &id, ctx.redaction.clone()).map_err(|e| failed(&e))?;
        return Ok((Some(log), read.entries));
    }
    Ok((Log::create(home, ctx.redaction.clone()).ok(), Vec::new()))
}

fn allowed(ctx: &Ctx, allow: &[String]) -> Result<AllowRules, Failure> {
    let mut all = AllowRules::default();
    for rule in allow {
        let (server, tool) = rules::split(rule).map_err(|why| {
            Failure::usage(format!("--allow {} {why}", crate::cli::text::quoted(rule)))
                .fix("--allow SERVER/TOOL")
        })?;
        let entry = ctx.entry(server.as_str())?;
        all.allow(entry.source.scope, server, tool);
    }
    Ok(all)
}

fn told(ctx: &Ctx, agent: &Agent, end: &End, seen: &Seen) -> Result<Answer, Failure> {
    if let End::Failed(error) = end {
        let exit = match error.trouble {
            Trouble::Auth => Exit::NeedsAuth,
            Trouble::RateLimited | Trouble::Overloaded | Trouble::Network => Exit::Unavailable,
            _ => Exit::Unhealthy,
        };
        let mut failure = Failure::new(error.trouble.as_str(), exit, ctx.clean(&error.message));
        failure.fix = error.fix.as_deref().map(|fix| ctx.clean(fix));
        failure.retry_after = error.retry_after;
        return Err(failure);
    }
    let (word, exit) = match end {
        End::Done => ("done", Exit::Ok),
        End::Length => ("length", Exit::Unhealthy),
        End::Filtered => ("filtered", Exit::Unhealthy),
        End::Limit(_) => ("limit", Exit::Unhealthy),
        End::Denied => ("denied", Exit::Refused),
        End::Cancelled | End::Failed(_) => return Err(Failure::interrupted()),
    };
    let words = agent.conversation().last_words().unwrap_or_default();
    let view = View {
        answer: words,
        model: &ctx.loaded.settings.model.name,
        session: agent.id(),
        end: word,
        calls: seen.calls,
        calls_failed: seen.failed,
        tokens_in: seen.usage.whole_input(),
        tokens_out: seen.usage.output,
        cost: seen.cost.clone(),
    };
    Ok(Answer::new(SCHEMA, &view, ctx.clean(words))?.warn(seen.warnings.clone()).ending(exit))
}
