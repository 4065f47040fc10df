//! Floor 5. What `why S TOOL` adds: whether the tool is listed and under which name, and what
//! policy says to a call of it, with the rule that decides. Calls nothing. Used by `why`.

use serde::Serialize;

use super::call;
use super::ctx::Ctx;
use super::failure::Failure;
use crate::call::ItemKind;
use crate::catalog::items::{Hints, ServerCatalog};
use crate::catalog::merge::Catalog;
use crate::config::rules::AllowRules;
use crate::config::spec::{Entry, EntryState, ToolFilter};
use crate::policy::access::{Mode, Question, Verdict, decide};
use crate::view::ServerView;

/// One tool that was asked about.
pub struct Asked<'a> {
    /// Its server, as configured.
    pub entry: &'a Entry,
    /// How the server is.
    pub view: &'a ServerView,
    /// The raw name of the tool, or the name that clients see.
    pub name: &'a str,
    /// The mode in force.
    pub mode: Mode,
    /// The allow rules in force.
    pub rules: &'a AllowRules,
}

/// One tool in `--json`.
#[derive(Debug, Serialize)]
pub struct ToolView {
    /// Raw name.
    pub name: String,
    /// The name that clients and models see.
    pub exposed_name: Option<String>,
    /// `listed`, `conflict`, `filtered`, `quarantined`, or `unknown` while its list is not.
    pub listing: &'static str,
    /// Why it is not listed, or only in part.
    pub reason: Option<String>,
    /// What policy says to a call: `run`, `ask` or `refuse`.
    pub decision: &'static str,
    /// The rule that decides.
    pub rule: String,
    /// The decision in words, where it is not `run`.
    pub text: Option<String>,
    /// What would change it.
    pub fix: Option<String>,
}

/// What is known about the tool. An error when a list that is whole does not have it.
pub fn look(ctx: &Ctx, catalog: &Catalog, asked: &Asked<'_>) -> Result<ToolView, Failure> {
    let server = &asked.entry.id;
    let list = catalog.servers.get(server);
    let name = raw_name(catalog, list, asked);
    let (listing, reason) = listing(ctx, catalog, list, asked, &name)?;
    let item = list.and_then(|list| list.tools.items.iter().find(|item| item.name == name));
    let verdict = decide(&Question {
        entry: asked.entry,
        kind: ItemKind::Tool,
        name: &name,
        hints: item.map_or(Hints::default(), |item| item.hints),
        held: catalog.held(server, &name),
        mode: asked.mode,
        rules: asked.rules,
        granted: false,
    });
    let (decision, rule, refusal) = match verdict {
        Verdict::Run(rule) => ("run", rule, None),
        Verdict::Ask(refusal) => ("ask", refusal.rule.clone(), Some(refusal)),
        Verdict::Refuse(refusal) => ("refuse", refusal.rule.clone(), Some(refusal)),
    };
    Ok(ToolView {
        exposed_name: catalog.exposed_name(server, &name).map(str::to_owned),
        name: ctx.clean(&name),
        listing,
        reason,
        decision,
        rule: rule.describe(),
        text: refusal.as_ref().map(|refusal| ctx.clean(&refusal.text)),
        fix: refusal.and_then(|refusal| refusal.fix),
    })
}

/// The raw name: as it was written, or that of the tool behind an exposed name.
fn raw_name(catalog: &Catalog, list: Option<&std::sync::Arc<ServerCatalog>>, asked: &Asked<'_>) -> String {
    let is_raw = list.is_some_and(|list| list.tools.items.iter().any(|item| item.name == asked.name));
    let exposed = catalog.exposed(asked.name).filter(|tool| !is_raw && tool.route.server == asked.entry.id);
    exposed.map_or_else(|| asked.name.to_owned(), |tool| tool.route.item.name.clone())
}

type Listing = (&'static str, Option<String>);

fn listing(
    ctx: &Ctx,
    catalog: &Catalog,
    list: Option<&std::sync::Arc<ServerCatalog>>,
    asked: &Asked<'_>,
    name: &str,
) -> Result<Listing, Failure> {
    let server = &asked.entry.id;
    if let Some(conflict) = catalog
        .conflicts
        .iter()
        .find(|conflict| conflict.claimants.iter().any(|(claimant, tool)| claimant == server && tool == name))
    {
        let others = conflict.claimants.iter().filter(|(claimant, _)| claimant != server);
        let others: Vec<&str> = others.map(|(claimant, _)| claimant.as_str()).collect();
        let text = format!("{} is claimed by {} too, so nobody gets it", conflict.name, others.join(", "));
        return Ok(("conflict", Some(ctx.clean(&text))));
    }
    let tools = list.map(|list| &list.tools);
    if let Some(bad) = tools.and_then(|tools| tools.quarantined.iter().find(|bad| bad.name == name)) {
        return Ok(("quarantined", Some(ctx.clean(&format!("its definition is broken: {}", bad.reason)))));
    }
    if let EntryState::Ready(spec) = &asked.entry.state
        && !spec.filter.keeps(name)
    {
        return Ok(("filtered", Some(filter_text(&spec.filter, name))));
    }
    let known = asked.view.listed || asked.view.kept_from.is_some();
    if !known {
        let text = "its server has not listed its tools, so nobody knows whether it has this one";
        return Ok(("unknown", Some(text.to_owned())));
    }
    match call::find(ctx, catalog, server, name)? {
        call::Found::Tool(_) => Ok(("listed", None)),
        call::Found::Unlisted { cause, .. } => {
            Ok(("unknown", Some(format!("the list of its server is not whole: {cause}"))))
        }
    }
}

fn filter_text(filter: &ToolFilter, name: &str) -> String {
    match filter.exclude.first_match(name).filter(|_| filter.include.is_empty()) {
        Some(pattern) => format!("tools.exclude of the entry has {pattern:?}"),
        None => "tools.include of the entry does not have it".to_owned(),
    }
}

#[cfg(test)]
mod tests;
