//! Floor 5. `pin review`, `pin accept`, `pin list`: shows which tools are held by their pins and what
//! changed, takes new definitions, lists what is pinned. Called by `cli::run`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Done;
use super::ask;
use super::audit_note::{Change, note};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::labels::{self, LabelView};
use super::out::{Answer, Style, Tone, write_stderr};
use super::pin_args::{PinAccept, PinList, PinReview, PinVerb};
use super::session::{answering, plan, ready, waiting};
use super::table::{Column, Field, table};
use super::text;
use crate::audit::record::Event;
use crate::call::ItemKind;
use crate::catalog::flow::{Flow, Reach, flow};
use crate::catalog::items::{Item, ItemList};
use crate::catalog::lint::Others;
use crate::catalog::merge::Catalog;
use crate::catalog::pin::{By, Held, Pin, canonical};
use crate::catalog::pin_diff::{Diff, diff};
use crate::config::spec::{Entry, EntryState};
use crate::id::ServerId;
use crate::id::shell_word;
use crate::policy::access::held_refusal;
use crate::runtime::{PinsAt, Runtime, RuntimePlan};
use crate::time::{rfc3339, wall};
use crate::transport::{kept, pins};

/// Name and version of what `pin review` answers with.
pub const REVIEW: &str = "callboard.pin_review/1";
/// Of `pin accept`.
pub const ACCEPT: &str = "callboard.pin_accept/1";
/// Of `pin list`.
pub const LIST: &str = "callboard.pin_list/1";

/// Slower servers are waited for that long after the last one became ready.
const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// Runs a verb of `pin`.
pub async fn pin(ctx: &Ctx, verb: PinVerb) -> Result<Done, Failure> {
    match verb {
        PinVerb::Review(args) => review(ctx, &args).await,
        PinVerb::Accept(args) => accept(ctx, &args).await,
        PinVerb::List(args) => list(ctx, &args).map(Done::from),
    }
}

/// Name and version of the shape that a verb answers with.
pub fn schema(verb: &PinVerb) -> &'static str {
    match verb {
        PinVerb::Review(_) => REVIEW,
        PinVerb::Accept(_) => ACCEPT,
        PinVerb::List(_) => LIST,
    }
}

/// One tool that is looked at.
#[derive(Debug, Serialize)]
struct Reviewed {
    server: String,
    tool: String,
    /// `changed`, `full`, `unreadable`; none when it is not held.
    held: Option<&'static str>,
    why: Option<String>,
    fix: Option<String>,
    pinned_sha256: Option<String>,
    now_sha256: String,
    pinned_at: Option<String>,
    pinned_by: Option<&'static str>,
    /// None when what it was is not known.
    diff: Option<Diff>,
    labels: Vec<LabelView>,
}

fn word(held: &Held) -> &'static str {
    match held {
        Held::Changed { .. } => "changed",
        Held::Full => "full",
        Held::Unreadable { .. } => "unreadable",
    }
}

/// What there is to say about one tool.
fn look(
    ctx: &Ctx,
    runtime: &Runtime,
    catalog: &Catalog,
    others: &Others,
    server: &ServerId,
    item: &Item,
) -> Reviewed {
    let held = catalog.held(server, &item.name);
    let book = runtime.pins(server);
    let pinned = book.get(&item.name);
    let was = pinned.and_then(|pin| pin.definition.clone());
    let refusal = held.map(|held| held_refusal(server, &item.name, held));
    let clean = |text: &str| ctx.clean(text);
    Reviewed {
        server: server.as_str().to_owned(),
        tool: clean(&item.name),
        held: held.map(word),
        why: held.map(|held| clean(&held.why())),
        fix: refusal.and_then(|refusal| match held {
            Some(Held::Unreadable { .. }) => refusal.fix,
            _ => Some(accepting(server, &item.name)),
        }),
        pinned_sha256: pinned.map(|pin| pin.hash.to_string()),
        now_sha256: item.pinned_by().to_string(),
        pinned_at: pinned.map(|pin| clean(&pin.at)),
        pinned_by: pinned.map(|pin| pin.by.as_str()),
        diff: was.map(|was| cleaned(diff(&was, &canonical(&item.raw)), &clean)),
        labels: labels::of(&clean, server.as_str(), item, others),
    }
}

fn accepting(server: &ServerId, tool: &str) -> String {
    let named = tool.bytes().all(|b| (0x20..0x7f).contains(&b));
    let tool = if named { shell_word(tool) } else { "--all".into() };
    format!("callboard mcp pin accept {} {tool}", shell_word(server.as_str()))
}

/// A diff without secrets; it holds nothing that moves a terminal already.
fn cleaned(mut diff: Diff, clean: &dyn Fn(&str) -> String) -> Diff {
    for change in &mut diff.changes {
        change.path = clean(&change.path);
        change.before = change.before.as_deref().map(clean);
        change.after = change.after.as_deref().map(clean);
        change.words.iter_mut().for_each(|words| words.text = clean(&words.text));
    }
    diff
}

/// The tools of these servers that are held; with `tools`, those, held or not.
fn looked(
    ctx: &Ctx,
    runtime: &Runtime,
    servers: &[ServerId],
    tools: &[String],
) -> Result<Vec<(Reviewed, Item)>, Failure> {
    let catalog = runtime.catalog();
    let others = labels::others(&catalog);
    let mut found = Vec::new();
    for server in servers {
        let Some(offered) = catalog.servers.get(server) else { continue };
        for tool in tools {
            if catalog.find(server, ItemKind::Tool, tool).is_none() {
                super::call::find(ctx, &catalog, server, tool)?;
                return Err(Failure::new(
                    "not_ready",
                    Exit::Unavailable,
                    format!("{server} has not listed {}", text::quoted(tool)),
                )
                .on(server.as_str())
                .fix(format!("callboard mcp why {server}")));
            }
        }
        let wanted = |item: &Item| match tools {
            [] => offered.held.contains_key(&item.name),
            named => named.contains(&item.name),
        };
        for item in offered.tools.items.iter().filter(|item| wanted(item)) {
            found.push((look(ctx, runtime, &catalog, &others, server, item), Item::clone(item)));
        }
    }
    Ok(found)
}

/// A plan that starts no lazy server of which the tools are known.
fn looking(ctx: &Ctx, servers: &[ServerId]) -> RuntimePlan {
    RuntimePlan { only_to_look: true, ..plan(ctx, servers) }
}

#[derive(Serialize)]
struct ReviewView<'a> {
    tools: Vec<&'a Reviewed>,
}

async fn review(ctx: &Ctx, args: &PinReview) -> Result<Done, Failure> {
    let server =
        args.server.as_deref().map(|name| ctx.runnable(name)).transpose()?.map(|entry| entry.id.clone());
    let servers: Vec<ServerId> = server.iter().cloned().collect();
    let body = async |runtime: &Runtime| {
        let mut asked = servers.clone();
        match &server {
            Some(server) => drop(ready(ctx, runtime, server, args.timeout).await?),
            None => {
                let settled = async {
                    match args.timeout {
                        Some(within) => runtime.settle(&[], within).await,
                        None => runtime.settle_or_grace(GRACE).await,
                    }
                };
                asked = waiting(ctx, runtime, settled).await.into_iter().map(|view| view.id).collect();
            }
        }
        let tools: Vec<String> = args.tool.iter().cloned().collect();
        let found = looked(ctx, runtime, &asked, &tools)?;
        let rows: Vec<&Reviewed> = found.iter().map(|(row, _)| row).collect();
        let held = rows.iter().any(|row| row.held.is_some());
        let human = match rows.as_slice() {
            [] => "No tool is held: each is what it was when it was pinned.".to_owned(),
            rows => rows.iter().map(|row| row_text(row, ctx.style())).collect::<Vec<_>>().join("\n\n"),
        };
        let answer = Answer::new(REVIEW, &ReviewView { tools: rows }, human)?;
        Ok(answer.ending(if held { Exit::Unhealthy } else { Exit::Ok }))
    };
    answering(ctx, REVIEW, looking(ctx, &servers), body, |failure| failure).await
}

/// Everything about one tool, for a person.
fn row_text(row: &Reviewed, style: Style) -> String {
    let mut lines = vec![style.paint(Tone::Strong, &format!("{} of {}", row.tool, row.server))];
    match &row.why {
        Some(why) => lines.push(style.paint(Tone::Warn, &format!("  held: {why}"))),
        None => lines.push("  not held: it is what it was when it was pinned".to_owned()),
    }
    if let (Some(at), Some(by), Some(hash)) = (&row.pinned_at, row.pinned_by, &row.pinned_sha256) {
        let how = if by == By::Accepted.as_str() { "accepted" } else { "first seen" };
        let short = |hash: &str| hash.chars().take(12).collect::<String>();
        lines.push(format!("  pinned {} ({how} {at}), now {}", short(hash), short(&row.now_sha256)));
    }
    if row.held == Some("changed") {
        match &row.diff {
            Some(diff) => {
                lines.extend(diff.lines().into_iter().map(|line| format!("  {}", painted(&line, style))))
            }
            None => lines.push("  what it was is too long to keep: only its hash is known".to_owned()),
        }
    }
    for label in &row.labels {
        lines.push(style.paint(Tone::Warn, &format!("  look twice: {}", label.line())));
    }
    if let Some(fix) = &row.fix {
        let verb = if row.held == Some("unreadable") { "cure" } else { "to take it as it is now" };
        lines.push(format!("  {verb}: {fix}"));
    }
    lines.join("\n")
}

fn painted(line: &str, style: Style) -> String {
    match line.trim_start().as_bytes().first() {
        Some(b'+') => style.paint(Tone::Good, line),
        Some(b'-') => style.paint(Tone::Bad, line),
        _ => line.to_owned(),
    }
}

#[derive(Serialize)]
struct AcceptView<'a> {
    server: &'a str,
    accepted: Vec<&'a Reviewed>,
    changed: bool,
}

async fn accept(ctx: &Ctx, args: &PinAccept) -> Result<Done, Failure> {
    let entry = ctx.runnable(&args.server)?.clone();
    let server = entry.id.clone();
    let servers = [server.clone()];
    let body = async |runtime: &Runtime| {
        ready(ctx, runtime, &server, args.timeout).await?;
        let mut found = looked(ctx, runtime, &servers, &args.tools)?;
        found.retain(|(row, _)| row.held.is_some());
        accept_these(ctx, args, &entry, &found).await
    };
    answering(ctx, ACCEPT, looking(ctx, &servers), body, |failure| failure).await
}

/// Shows the tools, asks, and pins exactly the definitions that were shown.
async fn accept_these(
    ctx: &Ctx,
    args: &PinAccept,
    entry: &Entry,
    found: &[(Reviewed, Item)],
) -> Result<Answer, Failure> {
    let server = entry.id.as_str();
    let rows: Vec<&Reviewed> = found.iter().map(|(row, _)| row).collect();
    if rows.is_empty() {
        let human = format!("nothing to do: no such tool of {server} is held");
        return Answer::new(ACCEPT, &AcceptView { server, accepted: Vec::new(), changed: false }, human);
    }
    if let Some(row) = rows.iter().find(|row| row.held == Some("unreadable")) {
        let failure = Failure::io(Exit::Config, row.why.clone().unwrap_or_default()).on(server);
        return Err(failure.fix(row.fix.clone().unwrap_or_default()));
    }
    let shown = |style| rows.iter().map(|row| row_text(row, style)).collect::<Vec<_>>().join("\n\n");
    let count = text::count(rows.len(), "definition");
    if !args.yes {
        if !ctx.term.can_ask() || ctx.global.json {
            let text = format!("nothing of {server} was accepted: there is no terminal to ask on");
            let fix = format!("look with `callboard mcp pin review {server}`, then add -y");
            return Err(Failure::refused("not_approved", text).on(server).fix(fix));
        }
        write_stderr(&shown(ctx.term.style_err()));
        write_stderr("\n\n");
        if !ask::yes_or_no(&format!("Accept {count} exactly as shown?")).await {
            return Err(
                Failure::refused("not_approved", format!("nothing of {server} was accepted")).on(server)
            );
        }
    }
    let at = PinsAt::of(&ctx.loaded)
        .ok_or_else(|| Failure::config("there is no home to keep pins in").fix("set CALLBOARD_HOME"))?;
    let now = rfc3339(wall());
    let pins: Vec<(String, Pin)> = found
        .iter()
        .map(|(_, item)| (item.name.clone(), Pin::of(&item.raw, now.as_str(), By::Accepted)))
        .collect();
    let changes: Vec<Change<'_>> = rows.iter().zip(&pins).map(|(row, pin)| accepted(row, pin)).collect();
    note(ctx, Event::PinAccepted, server, &changes)?;
    pins::accept(&at.folder, &at.owner(entry), &pins)
        .map_err(|error| Failure::io(Exit::Config, error.to_string()).on(server).fix(error.cure()))?;
    let done = format!("accepted {count} of {server}");
    let human = if args.yes { format!("{}\n\n{done}", shown(ctx.style())) } else { done };
    Answer::new(ACCEPT, &AcceptView { server, accepted: rows, changed: true }, human)
}

/// What the audit log says of one accepted definition.
fn accepted<'a>(row: &Reviewed, (tool, pin): &'a (String, Pin)) -> Change<'a> {
    let reason = format!("it was held: {}", row.held.unwrap_or_default());
    Change { tool: Some(tool), pin: Some(pin.hash.to_string()), reason }
}

/// How many tools of each server were held when it was last seen. Reads files; starts nothing.
pub fn held_when_seen(ctx: &Ctx) -> BTreeMap<ServerId, usize> {
    let (Some(at), Ok(home)) = (PinsAt::of(&ctx.loaded), &ctx.loaded.home) else { return BTreeMap::new() };
    let entries = &ctx.loaded.servers.entries;
    let seen = kept::load(&kept::folder(home), entries.iter());
    let held = entries.iter().filter_map(|entry| {
        let (EntryState::Ready(spec), Some(kept)) = (&entry.state, seen.get(&entry.id)) else { return None };
        let held = pins::load(&at.folder, &at.owner(entry)).see(&kept.catalog.tools, "");
        Some((entry.id.clone(), held.keys().filter(|tool| spec.filter.keeps(tool)).count()))
    });
    held.collect()
}

/// The flow that the servers make together, with `now` for what one of them offers at this moment, and the
/// others as they were last seen. Reads files; starts nothing.
pub fn flow_when_seen(ctx: &Ctx, now: Option<(&ServerId, &ItemList)>) -> Option<Flow> {
    let Ok(home) = &ctx.loaded.home else { return None };
    let entries = &ctx.loaded.servers.entries;
    let seen = kept::load(&kept::folder(home), entries.iter());
    let reach = |entry: &Entry| {
        let EntryState::Ready(spec) = &entry.state else { return None };
        let tools = match now {
            Some((server, tools)) if *server == entry.id => tools,
            _ => &seen.get(&entry.id)?.catalog.tools,
        };
        let listed = tools.items.iter().filter(|item| spec.filter.keeps(&item.name));
        Some(Reach::of(listed.map(AsRef::as_ref)))
    };
    let reaches: Vec<(&str, Reach)> =
        entries.iter().filter_map(|entry| Some((entry.id.as_str(), reach(entry)?))).collect();
    let found = flow(reaches.iter().map(|(server, reach)| (*server, reach)));
    found.map(|found| found.cleaned(&|text| ctx.clean(text)))
}

/// A word about every server with held tools.
pub fn held_words(held: &BTreeMap<ServerId, usize>) -> Vec<String> {
    let held = held.iter().filter(|(_, count)| **count > 0);
    held.map(|(server, count)| {
        let (tools, word) = (text::count(*count, "tool"), shell_word(server.as_str()));
        format!("{server}: {tools} held when it was last seen; callboard mcp pin review {word}")
    })
    .collect()
}

#[derive(Serialize)]
struct Row {
    server: String,
    tool: String,
    sha256: String,
    by: &'static str,
    at: String,
}

#[derive(Serialize)]
struct ListView {
    pins: Vec<Row>,
}

fn list(ctx: &Ctx, args: &PinList) -> Result<Answer, Failure> {
    let at = PinsAt::of(&ctx.loaded)
        .ok_or_else(|| Failure::config("there is no home to keep pins in").fix("set CALLBOARD_HOME"))?;
    let entries: Vec<&Entry> = match &args.server {
        Some(name) => vec![ctx.entry(name)?],
        None => ctx.loaded.servers.entries.iter().collect(),
    };
    let (mut rows, mut broken) = (Vec::new(), Vec::new());
    for entry in entries {
        match pins::read(&at.folder, &at.owner(entry)) {
            Ok(book) => rows.extend(book.pins().iter().map(|(tool, pin)| Row {
                server: entry.id.as_str().to_owned(),
                tool: ctx.clean(tool),
                sha256: pin.hash.to_string(),
                by: pin.by.as_str(),
                at: ctx.clean(&pin.at),
            })),
            Err(error) => {
                broken.push(format!("every tool of {} is held: {error}; {}", entry.id, error.cure()))
            }
        }
    }
    let columns = [
        Column::wide("server", 8),
        Column::wide("tool", 16),
        Column::text("sha256"),
        Column::text("by"),
        Column::text("at"),
    ];
    let line = |row: &Row| {
        let short: String = row.sha256.chars().take(12).collect();
        let strong = Field::toned(row.tool.clone(), Tone::Strong);
        vec![
            Field::new(row.server.clone()),
            strong,
            Field::new(short),
            Field::new(row.by),
            Field::new(row.at.clone()),
        ]
    };
    let lines: Vec<Vec<Field>> = rows.iter().map(line).collect();
    let human = match lines.as_slice() {
        [] => "Nothing is pinned yet: a tool is pinned when it is first seen.".to_owned(),
        lines => table(&columns, lines, ctx.style()),
    };
    let exit = if broken.is_empty() { Exit::Ok } else { Exit::Config };
    Ok(Answer::new(LIST, &ListView { pins: rows }, human)?.warn(broken).ending(exit))
}
