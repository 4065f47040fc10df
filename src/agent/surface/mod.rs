//! What a model sees of the servers: the list of tools, made of one snapshot of the catalogue, in the form
//! that its endpoint takes. Pure and canonical: the same catalogue is the same bytes, whoever started
//! first; what joins later is appended, so that an endpoint's cache of the beginning stays good. What is
//! sent to a server is never touched. Called by `engine`.

mod adapt;
mod bm25;
pub mod bridge;
mod choose;
pub mod listing;
mod refs;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::chat::ToolDef;
use super::model::Dialect;
use crate::catalog::items::Item;
use crate::catalog::merge::Catalog;
use crate::config::model::Exposure;
use crate::id::{BUILTINS, ServerId};
use crate::shaping::caps;
use crate::shaping::fence::{Clean, FenceId, Source};
use crate::shaping::sanitise::visible;

pub use tokens::tokens;

/// Longest description of one tool, bytes; the rest is cut, which is said in it.
pub const DESCRIPTION_MAX: usize = 4096;
/// The window that is reckoned with where nobody knows it, tokens.
pub const WINDOW_UNKNOWN: u64 = 32_768;

/// What the list is made for.
pub struct Wanted<'a> {
    /// The servers' tools.
    pub catalog: &'a Catalog,
    /// How they are to be shown.
    pub exposure: Exposure,
    /// The window of the model, tokens.
    pub window: Option<u64>,
    /// What its endpoint takes.
    pub dialect: Dialect,
    /// Tools by name at most.
    pub tools_max: usize,
    /// Whether a tool of a server may be called at all: what is denied is not shown.
    pub may: &'a dyn Fn(&ServerId, &str) -> bool,
}

/// Where a name that the model calls leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a tool of a server, by its raw name.
    Tool(ServerId, String),
    /// To a tool of the agent's own.
    Own(bridge::Own),
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    /// In the order that stays.
    pub tools: Arc<Vec<ToolDef>>,
    /// What each name means.
    leads: BTreeMap<String, Leads>,
    /// How the tools are shown; never [`Exposure::Auto`] once made.
    pub exposure: Exposure,
    /// What of the list is not as the servers have it, for the user.
    pub warnings: Vec<String>,
    /// Tokens of all definitions, estimated.
    pub tokens: u64,
}

/// What another list than before costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Names that joined.
    pub added: Vec<String>,
    /// Names that left.
    pub removed: Vec<String>,
    /// Names whose definition is another one.
    pub changed: Vec<String>,
    /// Tokens of definitions that an endpoint reads afresh, estimated: everything from the first difference
    /// on. The conversation behind them is read afresh too.
    pub tokens: u64,
}

impl Surface {
    /// The list for this, in the order of `before` as far as it goes. Once tools have to be searched for, it
    /// stays so: going back and forth costs more than it saves.
    pub fn new(wanted: &Wanted<'_>, before: Option<&Self>) -> Self {
        let mut made = choose::Made::default();
        let rows = rows(wanted);
        let own: Vec<&Row<'_>> = rows.iter().filter(|row| row.is_own).collect();
        let servers: Vec<&Row<'_>> = rows.iter().filter(|row| !row.is_own).collect();
        let defs = choose::define(&servers, wanted.dialect, &mut made);
        let exposure = choose::exposure(wanted, before.map(|before| before.exposure), &defs);
        choose::own_tools(exposure, &mut made);
        if exposure != Exposure::Bridge {
            let hosts = choose::define(&own, wanted.dialect, &mut made);
            made.add(hosts);
        }
        if exposure == Exposure::Direct {
            let room = wanted.tools_max.saturating_sub(made.tools.len());
            let kept = choose::share(defs, room, &mut made.warnings);
            made.add(kept);
        }
        let (tools, leads) = made.ordered(before.map(|before| before.tools.as_slice()));
        let tokens = tools.iter().map(tokens::of_tool).sum();
        Self { tools: Arc::new(tools), leads, exposure, warnings: made.warnings, tokens }
    }

    /// What a name means; `None` for one that is not on the list.
    pub fn leads(&self, name: &str) -> Option<&Leads> {
        self.leads.get(name)
    }

    /// What is another than in `before`.
    pub fn change(&self, before: &Self) -> Change {
        let known: BTreeMap<&str, &ToolDef> =
            before.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        let now: BTreeSet<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut change = Change::default();
        for tool in self.tools.iter() {
            match known.get(tool.name.as_str()) {
                None => change.added.push(tool.name.clone()),
                Some(old) if *old != tool => change.changed.push(tool.name.clone()),
                Some(_) => {}
            }
        }
        change.removed =
            known.keys().filter(|name| !now.contains(*name)).map(|name| (*name).to_owned()).collect();
        let same = self.tools.iter().zip(before.tools.iter()).take_while(|(a, b)| a == b).count();
        change.tokens = self.tools[same..].iter().map(tokens::of_tool).sum();
        change
    }

    /// The bytes of the whole list: for comparisons.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for tool in self.tools.iter() {
            for part in [&tool.name, &tool.description, &tool.schema] {
                all.extend_from_slice(&(part.len() as u64).to_be_bytes());
                all.extend_from_slice(part.as_bytes());
            }
        }
        all
    }
}

/// A tool that may be shown.
pub(super) struct Row<'a> {
    pub(super) server: &'a ServerId,
    pub(super) item: &'a Item,
    pub(super) exposed: &'a str,
    /// A tool of the host itself.
    pub(super) is_own: bool,
}

/// All that may be shown, by server and raw name.
pub(super) fn rows<'a>(wanted: &Wanted<'a>) -> Vec<Row<'a>> {
    let all = wanted.catalog.tools.iter().filter(|tool| {
        let (server, raw) = (&tool.route.server, tool.route.item.name.as_str());
        // What is held is not the tool that was accepted: its words reach no model.
        wanted.catalog.held(server, raw).is_none() && (wanted.may)(server, raw)
    });
    let mut rows: Vec<Row<'a>> = all
        .map(|tool| Row {
            server: &tool.route.server,
            item: &tool.route.item,
            exposed: &tool.name,
            is_own: tool.route.server.as_str() == BUILTINS,
        })
        .collect();
    rows.sort_by_key(|row| (row.server, row.item.name.as_str()));
    rows
}

/// What a tool says of itself, fenced. The fence's name comes from the text, so that the same tool is the same
/// bytes at every start; what resembles a marker was replaced, so knowing it helps nobody.
pub(super) fn description(server: &ServerId, item: &Item) -> String {
    let title = item.title.as_deref().filter(|title| !title.trim().is_empty());
    let said = item.description.as_deref().unwrap_or_default();
    let text = match title {
        Some(title) if !said.contains(title) => format!("{title}\n{said}"),
        _ => said.to_owned(),
    };
    if text.trim().is_empty() {
        return "(without a description)".to_owned();
    }
    let text = shortened(&text, DESCRIPTION_MAX);
    let clean = Clean::new(&visible(&text).0);
    let mut hash = Sha256::new();
    for part in [server.as_str(), &item.name, clean.text()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    let id = hash.iter().take(16).fold(0u128, |id, byte| id << 8 | u128::from(*byte));
    clean.fenced(&Source::new(server.as_str(), &item.name), FenceId(id))
}

/// A text of at most that many bytes; says when it was cut.
pub(super) fn shortened(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let at = caps::cut_at(text, max.saturating_sub(48));
    format!("{}\n[cut: {at} of {} bytes shown]", &text[..at], text.len())
}

#[cfg(test)]
mod tests;
