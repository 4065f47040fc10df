//! The merged view of all servers: exposed names to routes, conflicts as data.
//! The result depends on the set of catalogues only, never on their arrival (I12).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::items::{Item, ServerCatalog};
use crate::config::spec::{NamingStyle, ToolFilter};
use crate::id::ServerId;

/// Where an exposed tool leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The server.
    pub server: ServerId,
    /// The tool as the server sent it.
    pub item: Arc<Item>,
}

/// One tool under its exposed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedTool {
    /// `[A-Za-z0-9_-]{1,64}`, unique.
    pub name: String,
    /// Where it leads.
    pub route: Route,
}

/// A name that several servers claim in the bare style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name.
    pub name: String,
    /// Who claims it, as (server, raw tool name), sorted.
    pub claimants: Vec<(ServerId, String)>,
}

/// The merged view. Immutable; published as a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Counts publications; changes only when the content changed.
    pub version: u64,
    /// Exposed tools, sorted by (server, raw name).
    pub tools: Vec<ExposedTool>,
    /// Exposed name to index in `tools`.
    pub by_name: HashMap<String, usize>,
    /// Names held back.
    pub conflicts: Vec<Conflict>,
    /// The unmerged catalogues by server.
    pub servers: BTreeMap<ServerId, Arc<ServerCatalog>>,
}

/// What a merge looks at.
pub struct MergeInput<'a> {
    /// The catalogues to merge.
    pub servers: &'a BTreeMap<ServerId, Arc<ServerCatalog>>,
    /// Listing filters by server; absent means everything.
    pub filters: &'a BTreeMap<ServerId, ToolFilter>,
    /// The naming style.
    pub style: NamingStyle,
    /// Longest exposed name: 64, or 48 where the client adds a prefix.
    pub name_len_max: usize,
    /// Names that no server may take.
    pub reserved: &'a [String],
    /// Names given before: they stay with their owner (server, raw name).
    pub remembered: &'a BTreeMap<(ServerId, String), String>,
}

/// What a bare or exposed name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// Exactly one tool.
    One(&'a Route),
    /// Several; each with its exposed name, if it has one.
    Ambiguous(Vec<String>),
    /// None.
    Unknown,
}
