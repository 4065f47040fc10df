//! Floor 5. `tools`, `resources`, `prompts`, `read`, `prompt`: starts only the servers
//! that are needed, asks them, ends them. Called by `cli::run`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::args::{ReadArgs, UseArgs};
use super::as_model::{self, ForView, ModelArgs};
use super::call_args::{self, ReadText};
use super::course::Course;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::invoke::{Invocation, Outcome, invoke};
use super::items::{ConflictView, Listing, conflicts, items_text, listing, marks_text, prompts_text};
use super::list::nothing;
use super::list_args::{MaybeServer, ToolsArgs};
use super::once::pick;
use super::out::Answer;
use super::save;
use super::session::{answering, plan, ready, unavailable, waiting};
use super::status_view::{is_expected, is_healthy};
use crate::call::ItemKind;
use crate::catalog::items::ListKind;
use crate::catalog::merge::Catalog;
use crate::catalog::prompt;
use crate::config::spec::EntryState;
use crate::id::{ServerId, shell_word};
use crate::runtime::{Runtime, RuntimePlan};
use crate::shaping::model::Said;
use crate::shaping::redact::MARK;
use crate::shaping::render::{BlockKind, Rendered, render_prompt, render_resource};
use crate::view::ServerView;

/// How long slower servers are waited for after the last one became ready.
const GRACE: Duration = Duration::from_secs(2);

const TOOLS: &str = "callboard.tools/1";
const RESOURCES: &str = "callboard.resources/1";
const PROMPTS: &str = "callboard.prompts/1";
const READ: &str = "callboard.read/1";
const PROMPT: &str = "callboard.prompt/1";

#[derive(Serialize)]
struct ToolsView {
    tools: Vec<super::items::ItemView>,
    quarantined: Vec<super::items::QuarantineView>,
    conflicts: Vec<ConflictView>,
}

#[derive(Serialize)]
struct ResourcesView {
    resources: Vec<super::items::ItemView>,
    resource_templates: Vec<super::items::ItemView>,
    quarantined: Vec<super::items::QuarantineView>,
}

#[derive(Serialize)]
struct PromptsView {
    prompts: Vec<super::items::ItemView>,
    quarantined: Vec<super::items::QuarantineView>,
}

/// Runs the servers that `args` mean, takes from their catalogue, and tells what `answer` makes
/// of that; its last argument says whether several servers were asked.
async fn look<T>(
    ctx: &Ctx,
    args: &MaybeServer,
    schema: &str,
    take: impl Fn(&Catalog, &[ServerId]) -> T,
    answer: impl Fn(&Ctx, T, bool) -> Result<Answer, Failure>,
) -> Result<Done, Failure> {
    if args.server.is_some() || !args.once.is_empty() {
        let picked = pick(ctx, args.server.as_deref(), &args.once)?;
        let (ctx, server) = (picked.ctx.as_ref(), std::slice::from_ref(&picked.server));
        let body = async |runtime: &Runtime| {
            let view = ready(ctx, runtime, &picked.server, args.timeout).await?;
            let answer = answer(ctx, take(&runtime.catalog(), server), false)?;
            Ok(answer.warn(from_before(std::slice::from_ref(&view))))
        };
        return answering(ctx, schema, looking(ctx, server), body, |failure| failure).await;
    }
    let body = async |runtime: &Runtime| {
        let views = settle_all(ctx, runtime, args.timeout).await;
        let servers: Vec<ServerId> = views.iter().map(|view| view.id.clone()).collect();
        let answer = answer(ctx, take(&runtime.catalog(), &servers), true)?;
        Ok(of_several(ctx, &views, answer))
    };
    answering(ctx, schema, looking(ctx, &[]), body, |failure| failure).await
}

/// The plan of a verb that calls nothing: a lazy server whose lists are known is not started.
fn looking(ctx: &Ctx, servers: &[ServerId]) -> RuntimePlan {
    RuntimePlan { only_to_look: true, ..plan(ctx, servers) }
}

/// A word about every server whose lists are those of an earlier run.
fn from_before(views: &[ServerView]) -> Vec<String> {
    let kept = views.iter().filter_map(|view| Some((view, view.kept_from?)));
    kept.map(|(view, at)| {
        format!("{}: not started; its lists are those of {}", view.id, humantime::format_rfc3339_seconds(at))
    })
    .collect()
}

/// The answer with a word about every server that could not be asked; not ok when none could.
fn of_several(ctx: &Ctx, views: &[ServerView], mut answer: Answer) -> Answer {
    let broken = || views.iter().filter(|view| !is_expected(view));
    let usable = views.iter().any(|view| is_healthy(view.state));
    if broken().next().is_some() && !usable {
        answer.exit = Exit::Unavailable;
    }
    let mut warnings: Vec<String> = broken().map(|view| unavailable(ctx, view).message).collect();
    warnings.extend(from_before(views));
    warnings.extend(ctx.source_warnings());
    warnings.append(&mut answer.warnings);
    Answer { warnings, ..answer }
}

/// What a list ends with: that of the one server that was asked, when it could not be read, is no answer.
fn ending(unread: bool, several: bool) -> Exit {
    if unread && !several { Exit::Unavailable } else { Exit::Ok }
}

/// Waits for all as `status` does.
async fn settle_all(ctx: &Ctx, runtime: &Runtime, within: Option<Duration>) -> Vec<ServerView> {
    match within {
        Some(within) => waiting(ctx, runtime, runtime.settle(&[], within)).await,
        // They run anyway: what is there is shown, and the rest comes.
        None if ctx.house.is_some() => runtime.settle(&[], Duration::ZERO).await,
        None => waiting(ctx, runtime, runtime.settle_or_grace(GRACE)).await,
    }
}

/// What is said in place of an empty list. Of a list that could not be read nothing is known.
fn none(ctx: &Ctx, args: &MaybeServer, what: &str, unread: bool) -> String {
    if unread {
        return format!("The {what} could not be listed.");
    }
    if args.server.is_some() || !args.once.is_empty() {
        return format!("The server offers no {what}.");
    }
    let any = ctx.loaded.servers.entries.iter().any(|entry| matches!(entry.state, EntryState::Ready(_)));
    if any { format!("No server offers {what}.") } else { nothing(ctx).to_owned() }
}

fn or_none(text: String, none: impl FnOnce() -> String) -> String {
    if text.is_empty() { none() } else { text }
}

/// What is odd about a list, fit for a person.
fn doubts(ctx: &Ctx, listing: &Listing) -> Vec<String> {
    listing.warnings.iter().map(|warning| ctx.clean(warning)).collect()
}

/// `tools [S]`
pub async fn tools(ctx: &Ctx, args: ToolsArgs) -> Result<Done, Failure> {
    let ToolsArgs { of: args, verbose } = args;
    let take = |catalog: &Catalog, servers: &[ServerId]| {
        (listing(catalog, servers, ListKind::Tools), conflicts(catalog))
    };
    look(ctx, &args, TOOLS, take, |ctx, (listing, conflicts), several| {
        let text = items_text("tool", &listing, several, ctx.style(), &|text| ctx.clean(text));
        let marks = marks_text(&listing, verbose, ctx.style(), &|text| ctx.clean(text));
        let human = or_none(text, || none(ctx, &args, "tools", listing.unread));
        let human = if marks.is_empty() { human } else { format!("{human}\n\n{marks}") };
        let exit = ending(listing.unread, several);
        let doubts = doubts(ctx, &listing);
        let view = ToolsView { tools: listing.items, quarantined: listing.quarantined, conflicts };
        Ok(Answer::new(TOOLS, &view, human)?.warn(doubts).ending(exit))
    })
    .await
}

/// `resources [S]`
pub async fn resources(ctx: &Ctx, args: MaybeServer) -> Result<Done, Failure> {
    let take = |catalog: &Catalog, servers: &[ServerId]| {
        (listing(catalog, servers, ListKind::Resources), listing(catalog, servers, ListKind::Templates))
    };
    look(ctx, &args, RESOURCES, take, |ctx, (resources, templates), several| {
        let texts = [("resource", &resources), ("template", &templates)]
            .map(|(head, listing)| items_text(head, listing, several, ctx.style(), &|text| ctx.clean(text)));
        let shown: Vec<&str> = texts.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
        let unread = resources.unread || templates.unread;
        let human = or_none(shown.join("\n\n"), || none(ctx, &args, "resources", unread));
        let doubts = [doubts(ctx, &resources), doubts(ctx, &templates)].concat();
        let mut quarantined = resources.quarantined;
        quarantined.extend(templates.quarantined);
        let view =
            ResourcesView { resources: resources.items, resource_templates: templates.items, quarantined };
        Ok(Answer::new(RESOURCES, &view, human)?.warn(doubts).ending(ending(unread, several)))
    })
    .await
}

/// `prompts [S]`
pub async fn prompts(ctx: &Ctx, args: MaybeServer) -> Result<Done, Failure> {
    let take = |catalog: &Catalog, servers: &[ServerId]| listing(catalog, servers, ListKind::Prompts);
    look(ctx, &args, PROMPTS, take, |ctx, listing, several| {
        let text = prompts_text(&listing, several, ctx.style(), &|text| ctx.clean(text));
        let human = or_none(text, || none(ctx, &args, "prompts", listing.unread));
        let exit = ending(listing.unread, several);
        let doubts = doubts(ctx, &listing);
        let view = PromptsView { prompts: listing.items, quarantined: listing.quarantined };
        Ok(Answer::new(PROMPTS, &view, human)?.warn(doubts).ending(exit))
    })
    .await
}

#[derive(Serialize)]
struct ResultView<'a> {
    server: &'a str,
    name: &'a str,
    result: &'a RawValue,
    elapsed_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    saved: Vec<String>,
}

impl<'a> ResultView<'a> {
    fn new(server: &'a ServerId, name: &'a str, outcome: &'a Outcome) -> Self {
        Self {
            server: server.as_str(),
            name,
            result: &outcome.result,
            elapsed_ms: u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            saved: Vec::new(),
        }
    }
}

/// The blocks of a result as text, fit for a person. What a role says stands below it.
pub fn blocks_text(ctx: &Ctx, rendered: &Rendered) -> String {
    let roles = rendered.blocks.iter().any(|block| block.kind == BlockKind::Role);
    let mut out = String::new();
    for block in &rendered.blocks {
        let text = ctx.clean(&block.text);
        match block.kind {
            BlockKind::Role => {
                out.push_str(if out.is_empty() { "" } else { "\n" });
                out.push_str(&text);
            }
            _ if roles => out.push_str(&super::text::indent(&text, "  ")),
            _ => out.push_str(&text),
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// What is said once when something in a shown result was replaced; `--json` replaces nothing.
pub fn redaction_note(ctx: &Ctx, rendered: &Rendered, shown: &str) -> Option<String> {
    let count = |text: &str| text.matches(MARK).count();
    let sent: usize = rendered.blocks.iter().map(|block| count(&block.text)).sum();
    (!ctx.global.json && count(shown) > sent).then(|| {
        format!("{MARK} stands for a secret of the configuration, or for what looks like a credential; --json has it as it was sent")
    })
}

/// `read S URI`
pub async fn read(ctx: &Ctx, args: ReadArgs) -> Result<Done, Failure> {
    let (server, uri) = match (&args.uri, args.once.is_empty()) {
        (Some(uri), true) => (Some(args.server.as_str()), uri.clone()),
        (None, false) => (None, args.server.clone()),
        (None, true) => {
            return Err(Failure::usage("the URI of a resource is missing")
                .fix("`callboard mcp resources SERVER` lists them"));
        }
        (Some(_), false) => {
            return Err(Failure::usage("both a server and a command after `--` are given")
                .fix("write `callboard mcp read URI -- COMMAND…`"));
        }
    };
    let ask = Ask {
        schema: READ,
        kind: ItemKind::Resource,
        name: uri.clone(),
        arguments: None,
        timeout: args.timeout,
        source: "resource",
        model: args.model,
    };
    use_one(ctx, server, &args.once, ask, |ctx, server, outcome| {
        let rendered = render_resource(&outcome.body);
        let saved = match &args.output {
            Some(to) => save_resource(&rendered, outcome, to)?,
            None => Vec::new(),
        };
        let mut view = ResultView::new(server, &uri, outcome);
        view.saved = saved.iter().map(|path| path.display().to_string()).collect();
        let human = if saved.is_empty() { blocks_text(ctx, &rendered) } else { saved_text(&saved) };
        let note = redaction_note(ctx, &rendered, &human);
        Ok(Answer::new(READ, &view, human)?.warn(note))
    })
    .await
}

/// One line for each saved file.
pub fn saved_text(saved: &[PathBuf]) -> String {
    saved.iter().map(|path| format!("saved {}", path.display())).collect::<Vec<_>>().join("\n")
}

/// Binary parts; a resource that is text is saved as that text.
fn save_resource(
    rendered: &Rendered,
    outcome: &Outcome,
    to: &std::path::Path,
) -> Result<Vec<PathBuf>, Failure> {
    let saved = save::save(rendered, to)?;
    if !saved.is_empty() {
        return Ok(saved);
    }
    let value: serde_json::Value = serde_json::from_slice(&outcome.body).unwrap_or_default();
    let contents = value.get("contents").and_then(serde_json::Value::as_array);
    let text: String = contents
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(serde_json::Value::as_str))
        .collect();
    save::write(to, text.as_bytes())?;
    Ok(vec![to.to_owned()])
}

/// `prompt S NAME [ARGS]`
pub async fn prompt(ctx: &Ctx, args: UseArgs, read: &mut dyn ReadText) -> Result<Done, Failure> {
    let (server, name, words) = super::call::words(Some(args.server), args.name, args.args, &args.once);
    let Some(name) = name else {
        return Err(Failure::usage("the name of a prompt is missing")
            .fix("`callboard mcp prompts SERVER` lists them"));
    };
    let arguments = call_args::texts(call_args::parse(&words, read)?)?;
    let ask = Ask {
        schema: PROMPT,
        kind: ItemKind::Prompt,
        name: name.clone(),
        arguments: Some(arguments),
        timeout: args.timeout,
        source: &name,
        model: args.model,
    };
    use_one(ctx, server.as_deref(), &args.once, ask, |ctx, server, outcome| {
        let rendered = render_prompt(&outcome.body);
        let human = blocks_text(ctx, &rendered);
        let note = redaction_note(ctx, &rendered, &human);
        Ok(Answer::new(PROMPT, &ResultView::new(server, &name, outcome), human)?.warn(note))
    })
    .await
}

/// Whether the arguments are those that the prompt declares. One that the catalogue does not know
/// is left to the runtime, which says why, or to the server.
fn check_prompt(ctx: &Ctx, catalog: &Catalog, call: &Invocation) -> Result<(), Failure> {
    let Some(item) = catalog.find(&call.server, ItemKind::Prompt, &call.name) else { return Ok(()) };
    let given = call.arguments.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let violations = prompt::check(&prompt::arguments(item), &given.unwrap_or_default());
    let Some(first) = violations.first() else { return Ok(()) };
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let text = format!("the arguments of {} do not fit the prompt: {}", call.name, list.join("; "));
    let failure = Failure::invalid_arguments(ctx.clean(&text));
    let (server, name) = (shell_word(call.server.as_str()), shell_word(&call.name));
    let fix = match first.message.as_str() {
        "is required" => format!("callboard mcp prompt {server} {name} {}=…", first.path),
        _ => format!("callboard mcp prompts {server}"),
    };
    Err(failure.fix(ctx.clean(&fix)))
}

/// One request to one server.
struct Ask<'a> {
    /// Of the answer.
    schema: &'static str,
    kind: ItemKind,
    name: String,
    arguments: Option<Box<RawValue>>,
    timeout: Option<Duration>,
    /// For a fence around the answer.
    source: &'a str,
    model: ModelArgs,
}

/// Starts one server, sends one request, tells what `answer` makes of the result, ends it.
async fn use_one(
    ctx: &Ctx,
    server: Option<&str>,
    once: &[String],
    ask: Ask<'_>,
    answer: impl Fn(&Ctx, &ServerId, &Outcome) -> Result<Answer, Failure>,
) -> Result<Done, Failure> {
    let picked = pick(ctx, server, once)?;
    let (ctx, server) = (picked.ctx.as_ref(), &picked.server);
    let Ask { schema, kind, name, arguments, timeout, source, model } = ask;
    let call = Invocation { server: server.clone(), kind, name: name.clone(), arguments, timeout };
    let course = Course::default();
    let body = async |runtime: &Runtime| {
        ready(ctx, runtime, server, timeout).await?;
        if kind == ItemKind::Prompt {
            check_prompt(ctx, &runtime.catalog(), &call)?;
        }
        let view = ForView { schema, server, name: &name, source };
        let outcome = match invoke(ctx, runtime, &call, &course).await {
            Ok(outcome) => outcome,
            Err(failure) => return as_model::of_failure(ctx, &view, failure, model),
        };
        let shown = answer(ctx, server, &outcome)?;
        if !model.as_model {
            return Ok(shown);
        }
        let said = match kind {
            ItemKind::Prompt => Said::Prompt(&outcome.body),
            ItemKind::Resource => Said::Resource(&outcome.body),
            ItemKind::Tool | ItemKind::Method => Said::Result(&outcome.body),
        };
        as_model::answer(ctx, &view, said, model)
    };
    let named = |failure: Failure| failure.of_call(server.as_str(), &name, course.known());
    answering(ctx, schema, plan(ctx, std::slice::from_ref(server)), body, named).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::render::render_result;
    use bytes::Bytes;

    fn ctx() -> (tempfile::TempDir, Ctx) {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        (home, ctx)
    }

    #[test]
    fn what_a_role_says_stands_below_it() {
        let (_home, ctx) = ctx();
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"text","text":"one\ntwo"}},
            {"role":"assistant","content":{"type":"text","text":"three"}}]}"#;
        let text = blocks_text(&ctx, &render_prompt(&Bytes::from(prompt)));
        assert_eq!(text, "user:\n  one\n  two\n\nassistant:\n  three\n");
    }

    #[test]
    fn the_blocks_of_a_result_follow_each_other() {
        let (_home, ctx) = ctx();
        let result = r#"{"content":[{"type":"text","text":"one"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#;
        assert_eq!(
            blocks_text(&ctx, &render_result(&Bytes::from(result))),
            "one\n[image image/png, 3 bytes]\n"
        );
    }

    #[test]
    fn what_was_replaced_is_explained_once_and_never_in_json() {
        let home = tempfile::tempdir().unwrap();
        let file = r#"{"mcpServers":{"a":{"command":"x","env":{"TOKEN":"${TOKEN}"}}}}"#;
        std::fs::write(home.path().join("mcp.json"), file).unwrap();
        let mut ctx = Ctx::for_test(home.path(), &[("TOKEN", "s3cr3t-value-1")]);
        let of = |text: &str| {
            let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
            render_result(result.as_bytes())
        };
        let note = |ctx: &Ctx, text: &str| redaction_note(ctx, &of(text), &blocks_text(ctx, &of(text)));
        assert!(note(&ctx, "s3cr3t-value-1, s3cr3t-value-1").is_some_and(|note| note.contains("--json")));
        assert_eq!(note(&ctx, "all is [redacted] here"), None, "the server wrote that");
        ctx.global.json = true;
        assert_eq!(note(&ctx, "s3cr3t-value-1"), None);
    }

    #[test]
    fn a_text_resource_is_saved_as_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let body = Bytes::from(r#"{"contents":[{"uri":"a:b","text":"caf\u00e9\u001b[0m"}]}"#);
        let result = RawValue::from_string(String::from_utf8(body.to_vec()).unwrap()).unwrap();
        let outcome = Outcome { body: body.clone(), result, elapsed: Duration::ZERO };
        let to = dir.path().join("x.txt");
        assert_eq!(save_resource(&render_resource(&body), &outcome, &to).unwrap(), std::slice::from_ref(&to));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "café\u{1b}[0m", "a file gets every byte");
    }

    #[test]
    fn nothing_offered_is_said_in_words() {
        let (_home, ctx) = ctx();
        let args = |server: Option<&str>| MaybeServer {
            server: server.map(str::to_owned),
            timeout: None,
            once: Vec::new(),
        };
        assert_eq!(none(&ctx, &args(Some("s")), "tools", true), "The tools could not be listed.");
        assert_eq!(none(&ctx, &args(Some("s")), "tools", false), "The server offers no tools.");
        assert_eq!(none(&ctx, &args(None), "tools", false), super::super::list::nothing(&ctx));
    }
}
