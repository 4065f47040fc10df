//! Floor 5. The prompt: `callboard` on a terminal. Reads lines, does what they mean, shows what comes;
//! servers run beside it and never hold it up. Called by `cli::run`.

pub mod asking;
pub mod bar;
pub mod candidates;
pub mod editor;
pub mod follow;
pub mod form;
pub mod grid;
pub mod helper;
pub mod history;
pub mod house;
pub mod inline;
pub mod input;
pub mod markdown;
pub mod mcp;
pub mod once;
pub mod show;
pub mod signals;
pub mod talk;
pub mod tty;
pub mod verbs;
pub mod words;

use std::sync::Arc;

use tokio::sync::Mutex;

use self::bar::Counts;
use self::editor::{Editor, Typed};
use self::follow::{Follow, Line};
use self::helper::Shared;
use self::history::History;
use self::house::House;
use self::input::{COMMANDS, Deed, Input};
use self::signals::Signals;
use self::tty::Kept;
use super::Done;
use super::agent_args::AgentArgs;
use super::audit;
use super::audit_args::{AuditFilter, AuditTail, AuditVerb};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{self, Tone, answer_text, failure_text};
use super::text::count;
use crate::agent::engine::Agent;
use crate::agent::log::{Log, newest, sessions};
use crate::agent::turn::Entry;
use crate::config::mode::Mode;
use crate::config::suggest::nearest;
use crate::id::OWN_PREFIX;

/// Runs the prompt until the person leaves.
///
/// # Errors
/// When there is no terminal to edit on, or the core can't be started.
pub async fn run(ctx: &Ctx, args: &AgentArgs) -> Result<Done, Failure> {
    let kept = Kept::take();
    let signals = Signals::listen()?;
    let style = ctx.style();
    let line = Line { counts: Counts::default(), also: vec![ctx.loaded.settings.mode.as_str().to_owned()] };
    let shared = Arc::new(Shared::new(style, Box::new(line)));
    let history = History::below(ctx.loaded.home.as_deref().ok(), ctx.redaction.clone());
    out::write_stdout(&greeting(ctx))?;
    let editor = Editor::start(shared, history)?;
    // Before anything else: servers may take as long as they like.
    editor.want();
    let shared = editor.shared.clone();
    let editor = Arc::new(Mutex::new(editor));
    let house = House::start(ctx, editor.clone()).await?;
    let follow = Follow::start(house.clone(), shared, ctx);
    let taken = taken(ctx, args);
    let mut prompt = Prompt { house, editor, signals, follow, pressed: false, taken, agent: None };
    let exit = prompt.serve().await;
    let Prompt { house, editor, follow, agent, .. } = prompt;
    drop(agent);
    follow.end().await;
    drop(editor);
    drop(kept);
    house.shutdown(ctx).await;
    exit.map(Done::Streamed)
}

/// What is shown first.
fn greeting(ctx: &Ctx) -> String {
    let style = ctx.style();
    let servers = count(ctx.loaded.servers.entries.len(), "server");
    let name = style.paint(Tone::Strong, &format!("Callboard {}", env!("CARGO_PKG_VERSION")));
    let mut text = format!("{name} · {servers} · /help shows the commands, Ctrl-D leaves\n");
    for warning in ctx.source_errors() {
        text.push_str(&format!("{} {warning}\n", style.paint(Tone::Warn, "warning:")));
    }
    text
}

/// The prompt at work.
struct Prompt {
    house: Arc<House>,
    editor: Arc<Mutex<Editor>>,
    signals: Signals,
    follow: Follow,
    /// Ctrl-C was pressed at an empty prompt just before.
    pressed: bool,
    /// The conversation to go on with, once there is a model.
    taken: Option<String>,
    /// The conversation.
    agent: Option<Agent>,
}

async fn typed(editor: &Mutex<Editor>) -> Typed {
    editor.lock().await.typed().await
}

/// Whether there is more to do.
enum Next {
    Read,
    Leave(Exit),
}

impl Prompt {
    async fn serve(&mut self) -> Result<Exit, Failure> {
        loop {
            let house = self.house.clone();
            let next = tokio::select! {
                biased;
                ended = self.signals.any() => if ended { Next::Leave(Exit::Interrupted) } else { continue },
                () = house.runtime().broken() => {
                    let text = "the core of the host failed again and again: a bug of Callboard, please report it";
                    return Err(Failure::new("internal", Exit::Unavailable, text));
                }
                typed = typed(&self.editor) => match typed {
                    Typed::Line(line) => {
                        self.pressed = false;
                        self.line(&line).await?
                    }
                    Typed::Interrupted if self.pressed => Next::Leave(Exit::Ok),
                    Typed::Interrupted => {
                        self.pressed = true;
                        self.say(Tone::Dim, "Ctrl-C again, or Ctrl-D, leaves");
                        Next::Read
                    }
                    Typed::End => Next::Leave(Exit::Ok),
                },
            };
            match next {
                Next::Leave(exit) => return Ok(exit),
                Next::Read => {
                    // What was pressed while something ran was meant for that.
                    self.signals.forget();
                    self.follow.catch_up();
                    self.editor.lock().await.want();
                }
            }
        }
    }

    fn say(&self, tone: Tone, text: &str) {
        let _ = out::write_stdout(&format!("{}\n", self.follow.style.paint(tone, text)));
    }

    async fn line(&mut self, line: &str) -> Result<Next, Failure> {
        match input::read(line) {
            Input::Empty => {}
            Input::Say(text) => return self.talk(text).await,
            Input::Command(deed, rest) => return self.command(deed, &rest).await,
            Input::Prompt(name, rest) => self.prompt(&name, &rest).await,
            Input::Unknown(name, near) => {
                let name = self.house.ctx().await.clean(&name);
                let meant = near.map_or(String::new(), |near| format!("; did you mean /{near}?"));
                self.say(Tone::Warn, &format!("there is no command /{name}{meant}"));
                self.say(Tone::Dim, "/help shows all; a text that begins with a slash is written with two");
            }
        }
        Ok(Next::Read)
    }

    async fn command(&mut self, deed: Deed, rest: &str) -> Result<Next, Failure> {
        match deed {
            Deed::Help => self.help(rest),
            Deed::Mcp => _ = mcp::run(&self.house, rest).await,
            Deed::Tools => _ = mcp::run(&self.house, &format!("tools {rest}")).await,
            Deed::Tool => self.tool(rest).await,
            Deed::Mode => self.mode(rest).await,
            Deed::Log => self.log(rest).await,
            Deed::Exit => return Ok(Next::Leave(Exit::Ok)),
            Deed::Model => self.model(rest).await,
            Deed::Usage => self.usage(),
            Deed::Clear => {
                self.agent = None;
                self.taken = None;
                self.say(Tone::Dim, "a new conversation");
            }
            Deed::Compact => self.say(
                Tone::Dim,
                "it is made shorter by itself when it fills the model's window (agent.compact_at)",
            ),
            Deed::Resume => self.resume(rest).await,
        }
        Ok(Next::Read)
    }

    /// What was said to the model, and its turn.
    async fn talk(&mut self, text: String) -> Result<Next, Failure> {
        let ctx = self.house.ctx().await;
        if self.agent.is_none() {
            match talk::model(&ctx).await {
                Ok(model) => {
                    self.follow.name_model(Some(ctx.loaded.settings.model.name.clone()));
                    let (log, entries) = self.log_of(&ctx);
                    self.agent = Some(talk::begin(&ctx, self.house.shared_runtime(), model, (log, entries)));
                }
                Err(none) => {
                    self.say(Tone::Warn, &none.to_string());
                    let _ = out::write_stdout(&ctx.style().paint(Tone::Dim, &talk::first_run().await));
                    return Ok(Next::Read);
                }
            }
        }
        let Some(agent) = &mut self.agent else { return Ok(Next::Read) };
        let context = talk::mentioned(agent, &ctx, &text).await;
        let (_, leaves) = talk::turn(agent, &ctx, &self.house, &mut self.signals, (text, context)).await;
        Ok(if leaves { Next::Leave(Exit::Interrupted) } else { Next::Read })
    }

    /// Where the conversation is written down, and what was said in it before.
    fn log_of(&mut self, ctx: &Ctx) -> (Option<Log>, Vec<Entry>) {
        let Ok(home) = &ctx.loaded.home else { return (None, Vec::new()) };
        if let Some(id) = self.taken.take() {
            match Log::resume(home, &id, ctx.redaction.clone()) {
                Ok((log, read)) => return (Some(log), read.entries),
                Err(error) => self.say(Tone::Warn, &ctx.clean(&error.to_string())),
            }
        }
        match Log::create(home, ctx.redaction.clone()) {
            Ok(log) => (Some(log), Vec::new()),
            Err(error) => {
                self.say(Tone::Warn, &ctx.clean(&format!("the conversation is not written down: {error}")));
                (None, Vec::new())
            }
        }
    }

    /// `/model [NAME]`
    async fn model(&mut self, rest: &str) {
        if !rest.is_empty() {
            self.house.set(&[("model.name", rest)]).await;
        }
        let ctx = self.house.ctx().await;
        match talk::model(&ctx).await {
            Ok(model) => {
                let settings = &ctx.loaded.settings.model;
                let place = ctx.clean(settings.place().unwrap_or_default());
                self.say(Tone::Plain, &format!("{} at {place}", settings.name));
                self.follow.name_model(Some(settings.name.clone()));
                if let Some(agent) = &mut self.agent {
                    agent.set_model(Arc::new(model));
                }
            }
            Err(none) => {
                self.say(Tone::Warn, &none.to_string());
                let _ = out::write_stdout(&ctx.style().paint(Tone::Dim, &talk::first_run().await));
            }
        }
    }

    fn usage(&self) {
        match &self.agent {
            Some(agent) => {
                let id = agent.id().unwrap_or("not written down");
                let messages = agent.conversation().messages();
                let about = crate::agent::turn::compact::estimate(&messages);
                self.say(
                    Tone::Plain,
                    &format!("about {about} tokens in {} messages; conversation {id}", messages.len()),
                );
            }
            None => self.say(Tone::Dim, "nothing was said yet"),
        }
    }

    /// `/resume [ID]`
    async fn resume(&mut self, rest: &str) {
        let ctx = self.house.ctx().await;
        let Ok(home) = &ctx.loaded.home else { return };
        if rest.is_empty() {
            for session in sessions(home).into_iter().take(20) {
                let title = ctx.clean(&session.title);
                self.say(Tone::Plain, &format!("{}  {}  {title}", session.id, session.at));
            }
            return;
        }
        self.agent = None;
        self.taken = Some(rest.to_owned());
        self.say(Tone::Dim, "it goes on with what you say next");
    }

    fn help(&self, rest: &str) {
        let name = rest.trim_start_matches('/');
        let style = self.follow.style;
        let _ = out::write_stdout(&match (name, input::command(name)) {
            ("", _) => help_text(style),
            (_, Some(command)) => command_text(command),
            (_, None) => format!("there is no command /{name}\n"),
        });
    }

    /// `/tool NAME ARGS`: by the name that the model knows.
    async fn tool(&mut self, rest: &str) {
        let words = words::texts(rest);
        let Some((name, given)) = words.split_first() else {
            return self.say(Tone::Warn, "the name of a tool is missing: /tools shows all");
        };
        let catalog = self.house.runtime().catalog();
        let Some(tool) = catalog.exposed(name) else {
            let near = nearest(name, catalog.tools.iter().map(|tool| tool.name.as_str()));
            let meant = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            return self.say(Tone::Warn, &format!("no tool is known by that name{meant}"));
        };
        let (server, raw) = (tool.route.server.to_string(), tool.route.item.name.clone());
        let words = ["call".to_owned(), server, raw].into_iter().chain(given.iter().cloned());
        mcp::one(&self.house, &words.collect::<Vec<_>>()).await;
    }

    /// `/mcp__server__prompt ARGS`
    async fn prompt(&mut self, name: &str, rest: &str) {
        let catalog = self.house.runtime().catalog();
        let all = catalog.servers.iter();
        let named = all.flat_map(|(server, of)| of.prompts.items.iter().map(move |item| (server, item)));
        let found =
            named.clone().find(|(server, item)| candidates::prompt_name(server.as_str(), &item.name) == name);
        let Some((server, item)) = found else {
            return self.say(Tone::Warn, "no server has that prompt: /mcp prompts shows all");
        };
        let words = ["prompt".to_owned(), server.to_string(), item.name.clone()];
        mcp::one(&self.house, &words.into_iter().chain(words::texts(rest)).collect::<Vec<_>>()).await;
    }

    /// `/mode [MODE]`
    async fn mode(&mut self, rest: &str) {
        let now = self.house.ctx().await.loaded.settings.mode;
        let about = |mode: Mode| match mode {
            Mode::Plan => "nothing with an effect runs",
            Mode::Safe => "as readonly, and no resources or prompts from untrusted servers",
            Mode::ReadOnly => "read-only tools of trusted servers run, everything else asks",
            Mode::Auto => "nothing asks; what is denied or held stays so",
        };
        if rest.is_empty() {
            for mode in Mode::ALL {
                let sign = if mode == now { "›" } else { " " };
                self.say(Tone::Plain, &format!("{sign} {:<9} {}", mode.as_str(), about(mode)));
            }
            return;
        }
        let Some(mode) = Mode::parse(rest) else {
            return self.say(Tone::Warn, "a mode is one of plan, safe, readonly, auto");
        };
        match self.house.set_mode(mode).await {
            Ok(()) => self.say(Tone::Plain, &format!("{}: {}", mode.as_str(), about(mode))),
            Err(failure) => self.say(Tone::Bad, &failure.message),
        }
        self.follow.look();
    }

    /// `/log [N]`
    async fn log(&mut self, rest: &str) {
        let ctx = self.house.ctx().await;
        let lines = if rest.is_empty() { Ok(10) } else { rest.parse() };
        let Ok(lines) = lines else { return self.say(Tone::Warn, "/log takes a number of lines") };
        let verb = AuditVerb::Tail(AuditTail { lines, follow: false, filter: AuditFilter::default() });
        let stderr = ctx.term.style_err();
        match audit::audit(&ctx, &verb).await {
            Ok(Done::Answer(answer)) => _ = out::tell(&answer_text(&answer, false, stderr), answer.exit),
            Ok(Done::Streamed(_)) => {}
            Err(failure) => _ = out::tell(&failure_text("", &failure, false, stderr), failure.exit),
        }
    }
}

/// `/help`
fn help_text(style: out::Style) -> String {
    let mut text = String::new();
    let usage = |command: &input::Command| format!("/{} {}", command.names[0], command.takes);
    let width = COMMANDS.iter().map(|command| usage(command).len()).max().unwrap_or_default();
    for command in COMMANDS {
        let usage = format!("{:<width$}", usage(command));
        text.push_str(&format!("  {}  {}\n", style.paint(Tone::Strong, &usage), command.about));
    }
    text.push_str(&style.paint(
        Tone::Dim,
        "\n  Tab completes · ↑ earlier lines · Ctrl-R searches them · \\ at the end, or Alt-Enter, goes on in a new line\n  \
         @server:uri puts a resource into a text · /mcp__server__prompt uses a prompt · a space before a line keeps it out of the history\n  \
         Ctrl-C ends what runs; twice at an empty prompt it leaves\n",
    ));
    text
}

/// `/help COMMAND`
fn command_text(command: &input::Command) -> String {
    let others: Vec<String> = command.names[1..].iter().map(|name| format!("/{name}")).collect();
    let others = if others.is_empty() { String::new() } else { format!("\nalso: {}", others.join(", ")) };
    let more = if command.deed == Deed::Mcp { "\n/mcp VERB --help shows each with examples" } else { "" };
    format!("/{} {}\n{}{others}{more}\n", command.names[0], command.takes, command.about)
}

/// Which earlier conversation the words mean.
fn taken(ctx: &Ctx, args: &AgentArgs) -> Option<String> {
    let home = ctx.loaded.home.as_deref().ok();
    args.resume.clone().or_else(|| home.filter(|_| args.go_on).and_then(newest))
}

/// Whether a server is one of the configuration, not the host itself.
fn is_configured(name: &str) -> bool {
    !name.starts_with(OWN_PREFIX)
}
