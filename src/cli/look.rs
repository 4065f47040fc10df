//! Floor 5. `tools`, `resources`, `prompts`: what servers list. On a running host that has the servers, or
//! on a runtime of this process, which starts only those that are needed. Called by `cli::run`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{self, Work, ms};
use super::items::{ConflictView, Listing, conflicts, items_text, listing, marks_text, prompts_text};
use super::list::nothing;
use super::list_args::{MaybeServer, ToolsArgs};
use super::once::pick;
use super::out::Answer;
use super::session::{answering, plan, ready, unavailable, waiting};
use super::status_view::{is_expected, is_healthy};
use crate::catalog::items::ListKind;
use crate::config::spec::EntryState;
use crate::id::ServerId;
use crate::runtime::{Runtime, RuntimePlan};
use crate::view::ServerView;

/// How long slower servers are waited for after the last one became ready.
const GRACE: Duration = Duration::from_secs(2);

const TOOLS: &str = "callboard.tools/1";
const RESOURCES: &str = "callboard.resources/1";
const PROMPTS: &str = "callboard.prompts/1";

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Tools; with all that deserves a second look.
    Tools {
        /// Every label.
        verbose: bool,
    },
    /// Resources and templates.
    Resources,
    /// Prompts.
    Prompts,
}

impl What {
    fn schema(self) -> &'static str {
        match self {
            Self::Tools { .. } => TOOLS,
            Self::Resources => RESOURCES,
            Self::Prompts => PROMPTS,
        }
    }
}

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

/// `tools [S]`
pub async fn tools(ctx: &Ctx, args: ToolsArgs) -> Result<Done, Failure> {
    list(ctx, &args.of, What::Tools { verbose: args.verbose }).await
}

/// `resources [S]`
pub async fn resources(ctx: &Ctx, args: MaybeServer) -> Result<Done, Failure> {
    list(ctx, &args, What::Resources).await
}

/// `prompts [S]`
pub async fn prompts(ctx: &Ctx, args: MaybeServer) -> Result<Done, Failure> {
    list(ctx, &args, What::Prompts).await
}

async fn list(ctx: &Ctx, args: &MaybeServer, what: What) -> Result<Done, Failure> {
    let picked = match args.server.is_some() || !args.once.is_empty() {
        true => Some(pick(ctx, args.server.as_deref(), &args.once)?),
        false => None,
    };
    let ctx = picked.as_ref().map_or(ctx, |picked| picked.ctx.as_ref());
    let server = picked.as_ref().map(|picked| &picked.server);
    let work = Work::Look { what, server: server.cloned(), within_ms: ms(args.timeout) };
    if let Some(answer) = far::using(ctx, what.schema(), server, &work).await? {
        return Ok(answer.into());
    }
    let only: Vec<ServerId> = server.into_iter().cloned().collect();
    // A lazy server whose lists are known is not started.
    let plan = RuntimePlan { only_to_look: true, ..plan(ctx, &only) };
    let body = async |runtime: &Runtime| look(ctx, runtime, what, server, args.timeout).await;
    answering(ctx, what.schema(), plan, body, |failure| failure).await
}

/// What one server lists, or all of them.
pub async fn look(
    ctx: &Ctx,
    runtime: &Runtime,
    what: What,
    server: Option<&ServerId>,
    within: Option<Duration>,
) -> Result<Answer, Failure> {
    if let Some(server) = server {
        let view = ready(ctx, runtime, server, within).await?;
        let answer = shown(ctx, runtime, what, std::slice::from_ref(server), false)?;
        return Ok(answer.warn(from_before(std::slice::from_ref(&view))));
    }
    let mut views = settle_all(ctx, runtime, within).await;
    // A host runs more than these.
    views.retain(|view| ctx.far.as_ref().is_none_or(|far| far.servers.contains_key(&view.id)));
    let servers: Vec<ServerId> = views.iter().map(|view| view.id.clone()).collect();
    let answer = shown(ctx, runtime, what, &servers, true)?;
    Ok(of_several(ctx, &views, answer))
}

fn shown(
    ctx: &Ctx,
    runtime: &Runtime,
    what: What,
    servers: &[ServerId],
    several: bool,
) -> Result<Answer, Failure> {
    let catalog = far::catalog(ctx, runtime);
    let of = |kind: ListKind| listing(&catalog, servers, kind);
    match what {
        What::Tools { verbose } => {
            tools_shown(ctx, of(ListKind::Tools), conflicts(&catalog), several, verbose)
        }
        What::Resources => resources_shown(ctx, of(ListKind::Resources), of(ListKind::Templates), several),
        What::Prompts => prompts_shown(ctx, of(ListKind::Prompts), several),
    }
}

fn tools_shown(
    ctx: &Ctx,
    listing: Listing,
    conflicts: Vec<ConflictView>,
    several: bool,
    verbose: bool,
) -> Result<Answer, Failure> {
    let text = items_text("tool", &listing, several, ctx.style(), &|text| ctx.clean(text));
    let marks = marks_text(&listing, verbose, ctx.style(), &|text| ctx.clean(text));
    let human = or_none(text, || none(ctx, several, "tools", listing.unread));
    let human = if marks.is_empty() { human } else { format!("{human}\n\n{marks}") };
    let exit = ending(listing.unread, several);
    let doubts = doubts(ctx, &listing);
    let view = ToolsView { tools: listing.items, quarantined: listing.quarantined, conflicts };
    Ok(Answer::new(TOOLS, &view, human)?.warn(doubts).ending(exit))
}

fn resources_shown(
    ctx: &Ctx,
    resources: Listing,
    templates: Listing,
    several: bool,
) -> Result<Answer, Failure> {
    let texts = [("resource", &resources), ("template", &templates)]
        .map(|(head, listing)| items_text(head, listing, several, ctx.style(), &|text| ctx.clean(text)));
    let shown: Vec<&str> = texts.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
    let unread = resources.unread || templates.unread;
    let human = or_none(shown.join("\n\n"), || none(ctx, several, "resources", unread));
    let doubts = [doubts(ctx, &resources), doubts(ctx, &templates)].concat();
    let mut quarantined = resources.quarantined;
    quarantined.extend(templates.quarantined);
    let view = ResourcesView { resources: resources.items, resource_templates: templates.items, quarantined };
    Ok(Answer::new(RESOURCES, &view, human)?.warn(doubts).ending(ending(unread, several)))
}

fn prompts_shown(ctx: &Ctx, listing: Listing, several: bool) -> Result<Answer, Failure> {
    let text = prompts_text(&listing, several, ctx.style(), &|text| ctx.clean(text));
    let human = or_none(text, || none(ctx, several, "prompts", listing.unread));
    let exit = ending(listing.unread, several);
    let doubts = doubts(ctx, &listing);
    let view = PromptsView { prompts: listing.items, quarantined: listing.quarantined };
    Ok(Answer::new(PROMPTS, &view, human)?.warn(doubts).ending(exit))
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
fn none(ctx: &Ctx, several: bool, what: &str, unread: bool) -> String {
    if unread {
        return format!("The {what} could not be listed.");
    }
    if !several {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_offered_is_said_in_words() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        assert_eq!(none(&ctx, false, "tools", true), "The tools could not be listed.");
        assert_eq!(none(&ctx, false, "tools", false), "The server offers no tools.");
        assert_eq!(none(&ctx, true, "tools", false), super::super::list::nothing(&ctx));
    }
}
