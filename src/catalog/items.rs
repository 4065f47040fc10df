//! What one server offers, as it sent it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::pin::{Fingerprint, HeldTools, fingerprint};
use crate::id::{Generation, ServerId};
use crate::wire::era::Revision;

/// One list entry of a server, raw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The JSON object exactly as sent.
    pub raw: Bytes,
    /// The decoded name (tool, prompt), URI (resource) or URI template.
    pub name: String,
    /// Span of the value of `name` / `uri` / `uriTemplate` in `raw`, quotes included.
    pub name_span: Range<usize>,
    /// `title`, or `annotations.title`, if it is text.
    pub title: Option<String>,
    /// `description`, if it is text.
    pub description: Option<String>,
    /// Span of `inputSchema` in `raw` (tools).
    pub input_schema: Option<Range<usize>>,
    /// Hints of a tool, all untrusted.
    pub hints: Hints,
    /// Slips that were noticed and left alone or repaired, for status.
    pub notes: Vec<String>,
    /// Repairs that the definition needs before a strict client may see it, sorted by
    /// span, not overlapping. Empty for a sound definition. `raw` stays as sent.
    pub edits: Vec<Edit>,
    /// What it is pinned by (tools).
    pub fingerprint: Option<Fingerprint>,
}

impl Item {
    /// The hash that it is pinned by.
    pub fn pinned_by(&self) -> Fingerprint {
        self.fingerprint.unwrap_or_else(|| fingerprint(&self.raw))
    }

    /// The bytes of `inputSchema` as sent (tools).
    pub fn schema_bytes(&self) -> Option<&[u8]> {
        self.raw.get(self.input_schema.clone()?)
    }
}

/// One repair: `span` of `raw` is replaced by `with`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is taken out; empty for an insertion.
    pub span: Range<usize>,
    /// What is put there; empty for a removal.
    pub with: &'static str,
}

/// How large a list and its entries may be (`reliability.md` 2.5).
pub mod limits {
    /// Pages of one list.
    pub const PAGES_MAX: usize = 64;
    /// Pages of one list together, in bytes; the page that passes it is the last one.
    pub const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// Items of one list.
    pub const ITEMS_MAX: usize = 4096;
    /// Definitions kept out that are remembered by name; more are only counted.
    pub const QUARANTINED_MAX: usize = 256;
    /// A longer name (characters) is noted: some clients refuse it.
    pub const NAME_CHARS_NOTED: usize = 128;
    /// A longer name or prompt name (bytes) quarantines its definition.
    pub const NAME_LEN_MAX: usize = 1024;
    /// A longer URI or URI template (bytes) quarantines its definition.
    pub const URI_LEN_MAX: usize = 8192;
    /// A longer description (bytes) is noted, and cut where we show it; the definition itself stays whole.
    pub const DESCRIPTION_LEN_MAX: usize = 16 * 1024;
    /// A longer input schema (bytes) quarantines its tool.
    pub const SCHEMA_LEN_MAX: usize = 256 * 1024;
    /// A longer cursor (bytes) ends the walk.
    pub const CURSOR_LEN_MAX: usize = 16 * 1024;
}

/// `annotations` of a tool, each only when it is a boolean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

/// A definition that is kept out, alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, or `#3` for the third entry of the list.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The kinds of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// The method that lists them.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The key of the result that holds the array.
    pub fn result_key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The key that names an item.
    pub fn name_key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability that announces the list.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }
}

/// A set of kinds of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListKinds(u8);

impl ListKinds {
    /// The set of one kind.
    pub fn of(kind: ListKind) -> Self {
        Self(1 << kind as u8)
    }

    /// The lists that a notification announces as changed.
    pub fn announced_by(method: &str) -> Self {
        match method {
            "notifications/tools/list_changed" => Self::of(ListKind::Tools),
            "notifications/prompts/list_changed" => Self::of(ListKind::Prompts),
            "notifications/resources/list_changed" => {
                Self::of(ListKind::Resources).and(Self::of(ListKind::Templates))
            }
            _ => Self::default(),
        }
    }

    /// Both sets together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every kind of `other` is in it.
    pub fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether that kind is in it.
    pub fn has(self, kind: ListKind) -> bool {
        self.has_all(Self::of(kind))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its kinds.
    pub fn kinds(self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

/// One list of one server, all pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemList {
    /// Usable items in the server's order; names are unique.
    pub items: Vec<Arc<Item>>,
    /// Definitions kept out.
    pub quarantined: Vec<Quarantined>,
    /// What was odd about the list: cursor loops, caps, failed pages.
    pub warnings: Vec<String>,
    /// Whether pages are missing, or all of it could not be read.
    pub incomplete: bool,
    /// Why the list could not be read the last time: what it holds is from before, or nothing.
    pub unread: Option<String>,
    /// Why the walk over its pages broke off, if it did: what it holds is a beginning.
    pub broken: Option<String>,
    /// Whether a page said `nextCursor: null`: harmless here, and some clients reject the whole list.
    pub null_cursor: bool,
}

/// Everything that one server offers.
#[derive(Clone, Debug)]
pub struct ServerCatalog {
    /// The server.
    pub server: ServerId,
    /// The connection that it was read from.
    pub generation: Generation,
    /// Its tools, before the filter.
    pub tools: ItemList,
    /// Its resources.
    pub resources: ItemList,
    /// Its resource templates.
    pub templates: ItemList,
    /// Its prompts.
    pub prompts: ItemList,
    /// `instructions` of the handshake.
    pub instructions: Option<String>,
    /// `capabilities` of the handshake, a raw JSON object; `None` while nobody knows.
    pub capabilities: Option<Bytes>,
    /// The revision that it speaks; `None` while nobody knows.
    pub revision: Option<Revision>,
    /// Tools that are held: their definition is not the one that was pinned.
    pub held: Arc<HeldTools>,
    /// Whether every list that the server has was asked for on that connection, and answered or
    /// failed: only then can a name be called unknown.
    pub listed: bool,
}

impl ServerCatalog {
    /// An empty one.
    pub fn empty(server: ServerId, generation: Generation) -> Self {
        Self {
            server,
            generation,
            tools: ItemList::default(),
            resources: ItemList::default(),
            templates: ItemList::default(),
            prompts: ItemList::default(),
            instructions: None,
            capabilities: None,
            revision: None,
            held: Arc::default(),
            listed: false,
        }
    }

    /// The list of that kind.
    pub fn list(&self, kind: ListKind) -> &ItemList {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
            ListKind::Prompts => &self.prompts,
        }
    }

    /// The list of that kind, to fill.
    pub fn list_mut(&mut self, kind: ListKind) -> &mut ItemList {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Resources => &mut self.resources,
            ListKind::Templates => &mut self.templates,
            ListKind::Prompts => &mut self.prompts,
        }
    }
}
