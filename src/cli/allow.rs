//! Floor 5. `allow`, `rules`: gives and takes allow rules, and shows those in force. The rules of
//! a server belong to the entry of its scope (and project), and to no other of that name.
//! Called by `cli::run`.

use std::collections::BTreeSet;

use serde::Serialize;

use super::audit_note::{Change, note, note_taken};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Tone};
use super::rule_args::AllowArgs;
use super::table::{Column, Field, table};
use crate::audit::record::Event;
use crate::call::ItemKind;
use crate::catalog::items::Hints;
use crate::config::rule_book::{RuleBook, RuleKey};
use crate::config::rule_file::{self, RuleError};
use crate::config::rules::{AllowRules, EVERY_TOOL, check_tool};
use crate::config::spec::{Entry, EntryState, IssueCode, Scope};
use crate::id::ServerId;
use crate::policy::access::{Question, Verdict, decide};

const SCOPES: [Scope; 6] =
    [Scope::User, Scope::Project, Scope::EnvFile, Scope::EnvInline, Scope::Flag, Scope::Managed];

#[derive(Serialize)]
struct AllowView<'a> {
    server: &'a str,
    scope: &'static str,
    /// Every rule of the entry now, as one would write it.
    rules: Vec<String>,
    changed: bool,
}

/// `allow S TOOL…`, `allow S [TOOL…] --revoke`
pub fn allow(ctx: &Ctx, args: &AllowArgs) -> Result<Answer, Failure> {
    for tool in &args.tools {
        check_tool(tool).map_err(|why| {
            let shown = super::text::quoted(tool);
            Failure::usage(format!("{shown} {why}")).on(&args.server)
        })?;
    }
    if args.revoke { revoke(ctx, args) } else { give(ctx, args) }
}

fn give(ctx: &Ctx, args: &AllowArgs) -> Result<Answer, Failure> {
    if args.tools.is_empty() {
        return Err(Failure::usage("the name of a tool is missing")
            .on(&args.server)
            .fix(format!("name one, or '*' for all; `callboard mcp tools {}` lists them", args.server)));
    }
    let entry = ctx.entry(&args.server)?;
    if matches!(entry.state, EntryState::Pending) {
        // A rule must not wait for an entry that nobody has looked at.
        ctx.runnable(&args.server)?;
    }
    let key = RuleKey::of(entry.source.scope, &ctx.loaded.project_root, &entry.id);
    let known = rule_file::read(ctx.home()?).map_err(|error| unusable(&error))?.tools(&key);
    let new: BTreeSet<&String> = args.tools.iter().filter(|tool| !known.contains(*tool)).collect();
    note(
        ctx,
        Event::RuleAllowed,
        &args.server,
        &noted(new, &format!("rule for the {} entry", key.scope.as_str())),
    )?;
    let mut changed = false;
    let book = rule_file::change(ctx.home()?, |book| {
        let before = book.tools(&key);
        let after: BTreeSet<String> = before.iter().chain(&args.tools).cloned().collect();
        changed = after != before;
        if changed {
            book.set(&key, &after);
        }
        Ok(())
    })
    .map_err(|error| unusable(&error))?;
    let rules = written(&book, &key);
    let what = if changed { "allowed" } else { "nothing to do: allowed already" };
    let human = format!("{what}: {}", named(&args.tools, &entry.id));
    let view = AllowView { server: &args.server, scope: key.scope.as_str(), rules, changed };
    let doubts = args.tools.iter().filter_map(|tool| doubt(ctx, entry, tool));
    Ok(Answer::new("callboard.allow/1", &view, ctx.clean(&human))?.warn(doubts))
}

/// What makes a rule for this tool idle: something that goes before all rules.
fn doubt(ctx: &Ctx, entry: &Entry, tool: &str) -> Option<String> {
    let mut rules = AllowRules::default();
    rules.allow(entry.source.scope, entry.id.clone(), tool);
    let verdict = (tool != EVERY_TOOL).then(|| {
        decide(&Question {
            entry,
            kind: ItemKind::Tool,
            name: tool,
            hints: Hints::default(),
            mode: ctx.loaded.settings.mode,
            rules: &rules,
            held: None,
            granted: false,
        })
    })?;
    match verdict {
        Verdict::Refuse(refusal) => Some(ctx.clean(&format!("the rule does nothing now: {}", refusal.text))),
        Verdict::Run(_) | Verdict::Ask(_) => None,
    }
}

/// Takes rules back. It need not be known which entry of that name they were given for.
fn revoke(ctx: &Ctx, args: &AllowArgs) -> Result<Answer, Failure> {
    let id = ServerId::new(&args.server);
    let scope = ctx.loaded.servers.get(&args.server).map_or(Scope::User, |entry| entry.source.scope);
    let key_in = |scope: Scope| RuleKey::of(scope, &ctx.loaded.project_root, &id);
    let mut taken = BTreeSet::new();
    let book = rule_file::change(ctx.home()?, |book| {
        for key in SCOPES.map(key_in) {
            let before = book.tools(&key);
            let goes = |tool: &String| args.tools.is_empty() || args.tools.contains(tool);
            let (gone, left): (BTreeSet<_>, BTreeSet<_>) = before.into_iter().partition(goes);
            if !gone.is_empty() {
                book.set(&key, &left);
            }
            taken.extend(gone);
        }
        Ok(())
    })
    .map_err(|error| unusable(&error))?;
    if taken.is_empty() && ctx.loaded.servers.get(&args.server).is_none() {
        ctx.entry(&args.server)?;
    }
    note_taken(ctx, Event::RuleRevoked, &args.server, &noted(&taken, "rules of every entry of that name"));
    let human = if taken.is_empty() {
        format!("nothing to do: {} has no such allow rule", args.server)
    } else {
        format!("taken back: {}", named(&taken.iter().cloned().collect::<Vec<_>>(), &id))
    };
    let rules = written(&book, &key_in(scope));
    let view = AllowView { server: &args.server, scope: scope.as_str(), rules, changed: !taken.is_empty() };
    Answer::new("callboard.allow/1", &view, ctx.clean(&human))
}

/// The rules as changes for the audit log, a line each.
fn noted<'a>(tools: impl IntoIterator<Item = &'a String>, reason: &str) -> Vec<Change<'a>> {
    let change = |tool: &'a String| Change { tool: Some(tool), pin: None, reason: reason.to_owned() };
    tools.into_iter().map(change).collect()
}

fn named(tools: &[String], server: &ServerId) -> String {
    let rules: Vec<String> = tools.iter().map(|tool| format!("{server}/{tool}")).collect();
    rules.join(", ")
}

fn written(book: &RuleBook, key: &RuleKey) -> Vec<String> {
    book.tools(key).iter().map(|tool| format!("{}/{tool}", key.server)).collect()
}

fn unusable(error: &RuleError) -> Failure {
    Failure::io(Exit::Config, error.to_string()).fix("check the file of allow rules in Callboard's folder")
}

#[derive(Serialize)]
struct RulesView {
    mode: &'static str,
    rules: Vec<RuleView>,
    faults: Vec<String>,
}

#[derive(Serialize)]
struct RuleView {
    scope: &'static str,
    rule: String,
}

/// `rules`
pub fn rules(ctx: &Ctx) -> Result<Answer, Failure> {
    // A file that can't be understood is a failure here, not an empty list.
    rule_file::read(ctx.home()?).map_err(|error| unusable(&error))?;
    let (mode, written) = (ctx.loaded.settings.mode.as_str(), ctx.loaded.rules.written());
    let faults: Vec<String> = ctx
        .loaded
        .servers
        .issues
        .iter()
        .filter(|issue| issue.code == IssueCode::Rule)
        .map(|issue| ctx.clean(&issue.message))
        .collect();
    let rows: Vec<Vec<Field>> = written
        .iter()
        .map(|(scope, rule)| vec![Field::toned(ctx.clean(rule), Tone::Strong), Field::new(scope.as_str())])
        .collect();
    let human = if rows.is_empty() {
        format!("no allow rule is in force here; the mode is {mode}")
    } else {
        let rules = table(&[Column::text("RULE"), Column::text("ENTRY OF")], &rows, ctx.style());
        format!("{}\nthe mode is {mode}; `callboard explain policy` shows the order", rules.trim_end())
    };
    let rules = written.into_iter().map(|(scope, rule)| RuleView { scope: scope.as_str(), rule }).collect();
    let view = RulesView { mode, rules, faults: faults.clone() };
    Ok(Answer::new("callboard.rules/1", &view, human)?.warn(faults))
}
