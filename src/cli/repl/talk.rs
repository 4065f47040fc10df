//! Floor 5. The conversation at the prompt: opens the model, runs a turn and shows it as it comes, asks
//! the person where policy or a server wants that, ends it at Ctrl-C. Used by `repl`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::{Mutex, mpsc};

use super::asking::{Manners, elicit};
use super::editor::{Editor, Typed};
use super::house::House;
use super::show::Show;
use super::signals::Signals;
use super::tty::Quiet;
use crate::agent::engine::{Agent, Ask, EngineSettings, Plan, Question, Stopper, TOLD_MAX, Told, may};
use crate::agent::log::Log;
use crate::agent::model::endpoint::{Endpoint, NoModel, Reach};
use crate::agent::model::find;
use crate::agent::turn::{End, Entry};
use crate::call::AskedAnswer;
use crate::cli::ctx::Ctx;
use crate::cli::out::{Style, Tone, write_stdout};
use crate::cli::question::question;
use crate::id::ServerId;
use crate::policy::approve::{Answer, Prompt};
use crate::runtime::Runtime;
use crate::shaping::render::printable;
use crate::telemetry::Redaction;
use crate::transport::http::Client;

/// How often the line of what runs is brought up to date.
const TICK: Duration = Duration::from_millis(500);
/// Models of a local Ollama that are named.
const OLLAMA_SHOWN_MAX: usize = 8;
/// Resources that one text may name.
const MENTIONED_MAX: usize = 8;

/// Opens the configured model, and asks its endpoint what it can where that tells.
///
/// # Errors
/// When none is configured, with what to do.
pub async fn model(ctx: &Ctx) -> Result<Endpoint, NoModel> {
    let settings = &ctx.loaded.settings.model;
    let client = Client::new();
    let (key, redaction) = (ctx.loaded.model_key.clone(), ctx.redaction.clone());
    let endpoint = Endpoint::open(settings, Reach { client: client.clone(), key, redaction })?;
    let found = find::about(&client, settings).await;
    let (window, sees) = found.map_or((None, None), |found| (found.window, Some(found.sees)));
    Ok(endpoint.knowing(window.or_else(|| find::known_window(&settings.name)), sees))
}

/// A conversation with that model, on those servers.
pub fn begin(
    ctx: &Ctx,
    runtime: Arc<Runtime>,
    model: Endpoint,
    (log, entries): (Option<Log>, Vec<Entry>),
) -> Agent {
    Agent::new(Plan {
        runtime,
        model: Arc::new(model),
        settings: EngineSettings::of(&ctx.loaded.settings),
        redaction: ctx.redaction.clone(),
        home: ctx.loaded.home.clone().ok(),
        log,
        entries,
        notes: None,
        may: may(&ctx.loaded.servers),
    })
}

/// What to do where no model is configured: what an Ollama on this machine has, then one line for each way.
pub async fn first_run() -> String {
    let found = find::local(&Client::new()).await.unwrap_or_default();
    let able: Vec<String> = found
        .iter()
        .filter(|model| model.tools)
        .take(OLLAMA_SHOWN_MAX)
        .map(|model| printable(&model.name).into_owned())
        .collect();
    let mut text = String::new();
    if !able.is_empty() {
        text.push_str(&format!(
            "the Ollama on this machine has models that call tools: {}\n",
            able.join(", ")
        ));
    }
    let name = able.first().map_or("qwen3:8b", String::as_str);
    text.push_str(&format!(
        "three ways, each a line at the start, or for good in callboard.toml below [model]:\n\
         \x20 provider = \"ollama\", name = \"{name}\": a model on this machine\n\
         \x20 base_url = \"http://127.0.0.1:8080/v1\", name = \"…\": any server that speaks as OpenAI does; its own with OPENAI_API_KEY\n\
         \x20 provider = \"anthropic\", name = \"…\": with ANTHROPIC_API_KEY\n"
    ));
    text
}

/// What `@server:uri` in a text means, fenced, for the turn.
pub async fn mentioned(agent: &Agent, ctx: &Ctx, text: &str) -> Vec<String> {
    let mut context = Vec::new();
    for word in text.split_whitespace().filter_map(|word| word.strip_prefix('@')).take(MENTIONED_MAX) {
        let Some((server, uri)) = word.split_once(':') else { continue };
        if ctx.loaded.servers.get(server).is_none() {
            continue;
        }
        match agent.resource(&ServerId::new(server), uri).await {
            Ok(text) => context.push(text),
            Err(error) => {
                let told = ctx.clean(&format!("@{word}: {error}"));
                let _ = write_stdout(&format!("{}\n", ctx.style().paint(Tone::Warn, &told)));
            }
        }
    }
    context
}

/// The person, asked by a turn.
pub struct Asker {
    person: Arc<Mutex<Editor>>,
    stopper: Stopper,
    style: Style,
    redaction: Redaction,
}

impl Ask for Asker {
    fn is_there(&self) -> bool {
        true
    }

    fn approve(&self, prompt: Prompt) -> BoxFuture<'static, Answer> {
        let (person, stopper, width) =
            (self.person.clone(), self.stopper.clone(), self.style.width.unwrap_or(80));
        async move {
            let mut person = person.lock().await;
            let server = printable(prompt.server.as_str()).into_owned();
            let asked = question(&server, &prompt.tool, &prompt.arguments, width);
            let _ = write_stdout(&format!("\n{}", asked.head));
            let keep = if prompt.can_keep { ", a: always" } else { "" };
            let more = if asked.whole.is_some() { ", s: show all" } else { "" };
            let line = format!("{} y: once, t: this tool, for now{keep}{more} [N] ", asked.line);
            loop {
                return match person.answer(&line).await {
                    Typed::Line(answer) => match answer.trim().to_lowercase().as_str() {
                        "y" | "yes" => Answer::Once,
                        "t" => Answer::Session,
                        "a" | "always" if prompt.can_keep => Answer::Always,
                        "s" if asked.whole.is_some() => {
                            let _ = write_stdout(asked.whole.as_deref().unwrap_or_default());
                            continue;
                        }
                        _ => Answer::Deny,
                    },
                    Typed::Interrupted => {
                        stopper.stop();
                        Answer::Deny
                    }
                    Typed::End => Answer::Deny,
                };
            }
        }
        .boxed()
    }

    fn asked(&self, question: Question) -> BoxFuture<'static, AskedAnswer> {
        let (person, redaction, style) = (self.person.clone(), self.redaction.clone(), self.style);
        async move {
            if question.method != "elicitation/create" {
                return AskedAnswer::error(-32601, "the person at the prompt is not asked for this");
            }
            let clean = |text: &str| redaction.text(&printable(text));
            let manners = Manners { style, clean: &clean };
            let mut person = person.lock().await;
            match elicit(&mut *person, &manners, question.server.as_str(), &question.params).await {
                Ok(result) => AskedAnswer::Result(result.to_string().into()),
                Err(why) => AskedAnswer::error(-32602, &why),
            }
        }
        .boxed()
    }
}

/// One turn, shown as it comes. With its end, whether the system asked the program to end.
pub async fn turn(
    agent: &mut Agent,
    ctx: &Ctx,
    house: &Arc<House>,
    signals: &mut Signals,
    (text, context): (String, Vec<String>),
) -> (End, bool) {
    let _quiet = Quiet::take();
    let stopper = Stopper::default();
    let style = ctx.style();
    let asker = Asker {
        person: house.person().clone(),
        stopper: stopper.clone(),
        style,
        redaction: ctx.redaction.clone(),
    };
    let (tell, mut told) = mpsc::channel::<Told>(TOLD_MAX);
    let mut show = Show::new(ctx);
    let mut leaves = false;
    let mut tick = tokio::time::interval(TICK);
    let end = {
        let turn = agent.turn(text, context, Arc::new(asker), (tell, stopper.clone()));
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                ended = signals.any() => {
                    leaves |= ended;
                    stopper.stop();
                }
                Some(told) = told.recv() => show.told(told, house.reads()),
                end = &mut turn => break end,
                _ = tick.tick() => show.tick(house.reads()),
            }
        }
    };
    while let Ok(told) = told.try_recv() {
        show.told(told, false);
    }
    show.finish(&end);
    (end, leaves)
}
