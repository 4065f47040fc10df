//! Which tools are on the list, and in which order: the rule of `auto`, the cap with a fair share for each
//! server, additions at the end. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Leads, Row, WINDOW_UNKNOWN, Wanted, adapt, bridge, description, tokens};
use crate::agent::chat::ToolDef;
use crate::agent::model::Dialect;
use crate::config::model::Exposure;
use crate::id::ServerId;

/// Tools that are shown by name without a second thought.
const DIRECT_TOOLS_MAX: usize = 20;
/// Longest name that endpoints take.
const NAME_LEN_MAX: usize = 64;

/// A definition and whose it is.
pub(super) struct Def {
    tool: ToolDef,
    server: ServerId,
    raw: String,
}

/// A list in the making.
#[derive(Default)]
pub(super) struct Made {
    pub(super) tools: Vec<ToolDef>,
    leads: BTreeMap<String, Leads>,
    pub(super) warnings: Vec<String>,
}

/// The definitions of these tools as the endpoint takes them.
pub(super) fn define(rows: &[&Row<'_>], dialect: Dialect, made: &mut Made) -> Vec<Def> {
    let mut defs = Vec::with_capacity(rows.len());
    for row in rows {
        let place = || format!("{} of {}", row.exposed, row.server);
        match adapt::adapt(row.item.schema_bytes(), dialect) {
            Err(reason) => made.warnings.push(format!("{} is not shown to the model: {reason}", place())),
            Ok(adapted) => {
                made.warnings.extend(adapted.notes.iter().map(|note| format!("{}: {note}", place())));
                let tool = ToolDef {
                    name: name_for(row.exposed, dialect),
                    description: description(row.server, row.item),
                    schema: adapted.schema,
                };
                defs.push(Def { tool, server: row.server.clone(), raw: row.item.name.clone() });
            }
        }
    }
    defs
}

/// A name that the endpoint takes. Routes go by table, so a name may differ from the exposed one.
fn name_for(exposed: &str, dialect: Dialect) -> String {
    let starts = exposed.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let mut name =
        if starts || dialect != Dialect::Gemini { exposed.to_owned() } else { format!("t_{exposed}") };
    name.truncate(NAME_LEN_MAX);
    name
}

/// How the tools are shown. `auto`: directly while there are at most 20 in at most a quarter of the window, or
/// while they are under a twentieth of it.
pub(super) fn exposure(wanted: &Wanted<'_>, before: Option<Exposure>, defs: &[Def]) -> Exposure {
    if wanted.exposure != Exposure::Auto {
        return wanted.exposure;
    }
    if before == Some(Exposure::Search) {
        return Exposure::Search;
    }
    let window = wanted.window.unwrap_or(WINDOW_UNKNOWN);
    let sum: u64 = defs.iter().map(|def| tokens::of_tool(&def.tool)).sum();
    let few = defs.len() <= DIRECT_TOOLS_MAX && sum.saturating_mul(4) <= window;
    let cheap = sum.saturating_mul(20) < window && defs.len() <= wanted.tools_max;
    if few || cheap { Exposure::Direct } else { Exposure::Search }
}

/// The agent's own tools for that way of showing.
pub(super) fn own_tools(exposure: Exposure, made: &mut Made) {
    for own in bridge::Own::of(exposure) {
        made.leads.insert(own.name().to_owned(), Leads::Own(*own));
        made.tools.push(own.definition());
    }
}

/// As many as there is room for: each server gets the same share, in the order of its tools, and what one
/// does not use is the others'. Says what is left out.
pub(super) fn share(defs: Vec<Def>, room: usize, warnings: &mut Vec<String>) -> Vec<Def> {
    if defs.len() <= room {
        return defs;
    }
    let mut counts: BTreeMap<ServerId, usize> = BTreeMap::new();
    for def in &defs {
        *counts.entry(def.server.clone()).or_default() += 1;
    }
    let mut share: BTreeMap<&ServerId, usize> = counts.keys().map(|server| (server, 0)).collect();
    let mut left = room;
    while left > 0 {
        let open: Vec<&ServerId> =
            counts.iter().filter(|(id, n)| share[id] < **n).map(|(id, _)| id).collect();
        if open.is_empty() {
            break;
        }
        for server in open.into_iter().take(left) {
            *share.entry(server).or_default() += 1;
            left -= 1;
        }
    }
    for (server, count) in &counts {
        if share[server] < *count {
            warnings.push(format!(
                "{} of {count} tools of {server} are not shown to the model: at most {room} fit \
                 (agent.tools_max); narrow them with tools.include, or set agent.exposure to \"search\"",
                count - share[server]
            ));
        }
    }
    let mut taken: BTreeMap<ServerId, usize> = BTreeMap::new();
    let mut kept = Vec::with_capacity(room);
    for def in defs {
        let so_far = taken.entry(def.server.clone()).or_default();
        if *so_far < share[&def.server] {
            *so_far += 1;
            kept.push(def);
        }
    }
    kept
}

impl Made {
    /// Puts these on the list. A name that is taken is nobody else's.
    pub(super) fn add(&mut self, defs: Vec<Def>) {
        for def in defs {
            if self.leads.contains_key(&def.tool.name) {
                let text =
                    format!("{} of {} is not shown to the model: its name is taken", def.raw, def.server);
                self.warnings.push(text);
                continue;
            }
            self.leads.insert(def.tool.name.clone(), Leads::Tool(def.server, def.raw));
            self.tools.push(def.tool);
        }
    }

    /// The list in the order of the one before, what is new at its end.
    pub(super) fn ordered(&mut self, before: Option<&[ToolDef]>) -> (Vec<ToolDef>, BTreeMap<String, Leads>) {
        let (made, leads) = (std::mem::take(&mut self.tools), std::mem::take(&mut self.leads));
        let Some(before) = before else { return (made, leads) };
        let known: BTreeSet<&str> = before.iter().map(|tool| tool.name.as_str()).collect();
        let (old, new): (Vec<ToolDef>, Vec<ToolDef>) =
            made.into_iter().partition(|tool| known.contains(tool.name.as_str()));
        let mut old: BTreeMap<String, ToolDef> =
            old.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
        let stayed = before.iter().filter_map(|tool| old.remove(&tool.name));
        (stayed.chain(new).collect(), leads)
    }
}
