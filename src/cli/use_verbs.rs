//! Floor 5. `tools`, `resources`, `prompts`, `read`, `prompt`: starts only the servers
//! that are needed, asks them, ends them. Called by `cli::run`.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{MaybeServer, ReadArgs, UseArgs};
use super::call_args::{self, ReadText};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::invoke::{Invocation, Outcome, invoke};
use super::items::{ConflictView, Listing, conflicts, items_text, listing, prompts_text};
use super::list::nothing;
use super::once::pick;
use super::out::Answer;
use super::save;
use super::session::{plan, ready, unavailable, waiting, with_runtime};
use super::status_view::{is_expected, is_healthy};
use crate::call::ItemKind;
use crate::catalog::items::ListKind;
use crate::catalog::merge::Catalog;
use crate::config::spec::EntryState;
use crate::id::ServerId;
use crate::runtime::Runtime;
use crate::shaping::render::{BlockKind, Rendered, render_prompt, render_resource};
use crate::view::ServerView;

/// How long slower servers are waited for after the last one became ready.
const GRACE: Duration = Duration::from_secs(2);

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

/// What was asked of one server or of all.
struct Asked<T> {
    value: T,
    several: bool,
    warnings: Vec<String>,
    /// Not ok when not one server could be used.
    exit: Exit,
}

/// Runs the servers that `args` mean and looks at their catalogue.
async fn look<T>(
    ctx: &Ctx,
    args: &MaybeServer,
    take: impl Fn(&Catalog, &[ServerId]) -> T,
) -> Result<Asked<T>, Failure> {
    if args.server.is_some() || !args.once.is_empty() {
        let picked = pick(ctx, args.server.as_deref(), &args.once)?;
        let (ctx, server) = (picked.ctx.as_ref(), &picked.server);
        let value = with_runtime(plan(ctx, std::slice::from_ref(server)), async |runtime| {
            ready(ctx, runtime, server, args.timeout).await?;
            Ok(take(&runtime.catalog(), std::slice::from_ref(server)))
        })
        .await?;
        return Ok(Asked { value, several: false, warnings: Vec::new(), exit: Exit::Ok });
    }
    let (value, views) = with_runtime(plan(ctx, &[]), async |runtime| {
        let views = settle_all(ctx, runtime, args.timeout).await;
        let servers: Vec<ServerId> = views.iter().map(|view| view.id.clone()).collect();
        Ok((take(&runtime.catalog(), &servers), views))
    })
    .await?;
    let broken = || views.iter().filter(|view| !is_expected(view));
    let usable = views.iter().any(|view| is_healthy(view.state));
    let exit = if broken().next().is_some() && !usable { Exit::Unavailable } else { Exit::Ok };
    let mut warnings: Vec<String> = broken().map(|view| unavailable(ctx, view).message).collect();
    warnings.extend(ctx.source_warnings());
    Ok(Asked { value, several: true, warnings, exit })
}

/// Waits for all as `status` does.
async fn settle_all(ctx: &Ctx, runtime: &Runtime, within: Option<Duration>) -> Vec<ServerView> {
    match within {
        Some(within) => waiting(ctx, runtime, runtime.settle(&[], within)).await,
        None => waiting(ctx, runtime, runtime.settle_or_grace(GRACE)).await,
    }
}

fn none(ctx: &Ctx, args: &MaybeServer, what: &str) -> String {
    if args.server.is_some() || !args.once.is_empty() {
        return format!("The server offers no {what}.");
    }
    let any = ctx.loaded.servers.entries.iter().any(|entry| matches!(entry.state, EntryState::Ready(_)));
    if any { format!("No server offers {what}.") } else { nothing(ctx).to_owned() }
}

fn or_none(text: String, none: impl FnOnce() -> String) -> String {
    if text.is_empty() { none() } else { text }
}

/// `tools [S]`
pub async fn tools(ctx: &Ctx, args: MaybeServer) -> Result<Answer, Failure> {
    let asked =
        look(ctx, &args, |catalog, servers| (listing(catalog, servers, ListKind::Tools), conflicts(catalog)))
            .await?;
    let (listing, conflicts) = asked.value;
    let clean = |text: &str| ctx.clean(text);
    let text = items_text("tool", &listing, asked.several, ctx.style(), &clean);
    let human = or_none(text, || none(ctx, &args, "tools"));
    let warnings = listing.warnings.iter().map(|w| ctx.clean(w)).collect::<Vec<_>>();
    let view = ToolsView { tools: listing.items, quarantined: listing.quarantined, conflicts };
    Ok(Answer::new("callboard.tools/1", &view, human)?.warn(asked.warnings).warn(warnings).ending(asked.exit))
}

/// `resources [S]`
pub async fn resources(ctx: &Ctx, args: MaybeServer) -> Result<Answer, Failure> {
    let asked = look(ctx, &args, |catalog, servers| {
        (listing(catalog, servers, ListKind::Resources), listing(catalog, servers, ListKind::Templates))
    })
    .await?;
    let (resources, templates) = asked.value;
    let clean = |text: &str| ctx.clean(text);
    let texts = [("resource", &resources), ("template", &templates)]
        .map(|(head, listing)| items_text(head, listing, asked.several, ctx.style(), &clean));
    let shown: Vec<&str> = texts.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
    let human = or_none(shown.join("\n\n"), || none(ctx, &args, "resources"));
    let warnings: Vec<String> =
        resources.warnings.iter().chain(&templates.warnings).map(|w| ctx.clean(w)).collect();
    let mut quarantined = resources.quarantined;
    quarantined.extend(templates.quarantined);
    let view = ResourcesView { resources: resources.items, resource_templates: templates.items, quarantined };
    Ok(Answer::new("callboard.resources/1", &view, human)?
        .warn(asked.warnings)
        .warn(warnings)
        .ending(asked.exit))
}

/// `prompts [S]`
pub async fn prompts(ctx: &Ctx, args: MaybeServer) -> Result<Answer, Failure> {
    let asked = look(ctx, &args, |catalog, servers| listing(catalog, servers, ListKind::Prompts)).await?;
    let listing: Listing = asked.value;
    let clean = |text: &str| ctx.clean(text);
    let human =
        or_none(prompts_text(&listing, asked.several, ctx.style(), &clean), || none(ctx, &args, "prompts"));
    let warnings: Vec<String> = listing.warnings.iter().map(|w| ctx.clean(w)).collect();
    let view = PromptsView { prompts: listing.items, quarantined: listing.quarantined };
    Ok(Answer::new("callboard.prompts/1", &view, human)?
        .warn(asked.warnings)
        .warn(warnings)
        .ending(asked.exit))
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

/// `read S URI`
pub async fn read(ctx: &Ctx, args: ReadArgs) -> Result<Answer, Failure> {
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
    let ask = Ask { kind: ItemKind::Resource, name: uri.clone(), arguments: None, timeout: args.timeout };
    let (server, outcome) = use_one(ctx, server, &args.once, ask).await?;
    let rendered = render_resource(&outcome.body);
    let saved = match &args.output {
        Some(to) => save_resource(&rendered, &outcome, to)?,
        None => Vec::new(),
    };
    let mut view = ResultView::new(&server, &uri, &outcome);
    view.saved = saved.iter().map(|path| path.display().to_string()).collect();
    let human = if saved.is_empty() { blocks_text(ctx, &rendered) } else { saved_text(&saved) };
    Answer::new("callboard.read/1", &view, human)
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
pub async fn prompt(ctx: &Ctx, args: UseArgs, read: &mut dyn ReadText) -> Result<Answer, Failure> {
    let (server, name, words) = super::call::words(Some(args.server), args.name, args.args, &args.once);
    let Some(name) = name else {
        return Err(Failure::usage("the name of a prompt is missing")
            .fix("`callboard mcp prompts SERVER` lists them"));
    };
    let arguments = call_args::texts(call_args::parse(&words, read)?)?;
    let ask =
        Ask { kind: ItemKind::Prompt, name: name.clone(), arguments: Some(arguments), timeout: args.timeout };
    let (server, outcome) = use_one(ctx, server.as_deref(), &args.once, ask).await?;
    let human = blocks_text(ctx, &render_prompt(&outcome.body));
    Answer::new("callboard.prompt/1", &ResultView::new(&server, &name, &outcome), human)
}

/// One request to one server.
struct Ask {
    kind: ItemKind,
    name: String,
    arguments: Option<Box<RawValue>>,
    timeout: Option<Duration>,
}

/// Starts one server, sends one request, ends it.
async fn use_one(
    ctx: &Ctx,
    server: Option<&str>,
    once: &[String],
    ask: Ask,
) -> Result<(ServerId, Outcome), Failure> {
    let picked = pick(ctx, server, once)?;
    let ctx = picked.ctx.as_ref();
    let server = picked.server.clone();
    let Ask { kind, name, arguments, timeout } = ask;
    let call =
        Invocation { server: server.clone(), kind, name: name.clone(), arguments, timeout, approved: false };
    let sent = Cell::new(false);
    let outcome = with_runtime(plan(ctx, std::slice::from_ref(&server)), async |runtime| {
        ready(ctx, runtime, &server, timeout).await?;
        invoke(ctx, runtime, call, &sent).await
    })
    .await
    .map_err(|failure| failure.of_call(server.as_str(), &name, sent.get()))?;
    Ok((server, outcome))
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
        assert_eq!(none(&ctx, &args(Some("s")), "tools"), "The server offers no tools.");
        assert_eq!(none(&ctx, &args(None), "tools"), super::super::list::nothing(&ctx));
    }
}
