//! One snapshot of the catalogue as clients address it: prompts under exposed names, resources by
//! their URI, and marks by which a client's view is compared. Built once for each publication, read
//! by every client; a plain value.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::caller::Caller;
use super::template::Template;
use crate::catalog::items::{Item, ListKind};
use crate::catalog::merge::Catalog;
use crate::catalog::naming::{self, Identity, NamingRule};
use crate::id::{BUILTINS, ServerId};

/// One entry of a list, as a client may see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) server: &'a ServerId,
    pub(super) item: &'a Arc<Item>,
    /// The name in place of the raw one; `None` for what is known by its URI.
    pub(super) name: Option<&'a str>,
}

/// The snapshot.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) catalog: Arc<Catalog>,
    /// Prompts: exposed name, server, definition; by server, then in the server's own order.
    prompts: Vec<(String, ServerId, Arc<Item>)>,
    by_prompt: HashMap<String, usize>,
    /// Who owns a URI: of several, the first by name.
    uris: HashMap<String, ServerId>,
    templates: Vec<(Template, ServerId)>,
    /// What all see of each kind of list.
    marks: [u64; 4],
}

impl View {
    /// The snapshot of a catalogue. Names of prompts depend on what is there, not on who came first.
    pub(super) fn of(catalog: Arc<Catalog>, rule: NamingRule<'_>) -> Self {
        let all = |kind: ListKind| {
            let servers = catalog.servers.iter();
            servers.flat_map(move |(id, server)| server.list(kind).items.iter().map(move |i| (id, i)))
        };
        let known: BTreeSet<Identity> =
            all(ListKind::Prompts).map(|(server, item)| (server.clone(), item.name.clone())).collect();
        let names = naming::assign(rule, &known, &BTreeMap::new());
        let mut view = Self::default();
        for (server, item) in all(ListKind::Prompts) {
            if let Some(name) = names.given.get(&(server.clone(), item.name.clone())) {
                view.by_prompt.insert(name.clone(), view.prompts.len());
                view.prompts.push((name.clone(), server.clone(), item.clone()));
            }
        }
        for (server, item) in all(ListKind::Resources) {
            view.uris.entry(item.name.clone()).or_insert_with(|| server.clone());
        }
        let templates = all(ListKind::Templates);
        view.templates =
            templates.map(|(server, item)| (Template::new(&item.name), server.clone())).collect();
        view.catalog = catalog;
        view.marks = ListKind::ALL.map(|kind| mark(view.all_rows(kind)));
        view
    }

    /// Whether any server has told what it has; the host's own tools don't count.
    pub(super) fn has_any(&self) -> bool {
        let mut servers = self.catalog.servers.iter().filter(|(server, _)| server.as_str() != BUILTINS);
        servers.any(|(_, server)| ListKind::ALL.iter().any(|kind| !server.list(*kind).items.is_empty()))
    }

    /// The rows of a list that this client may see, in order.
    pub(super) fn rows<'a>(&'a self, kind: ListKind, who: &'a Caller) -> impl Iterator<Item = Row<'a>> {
        self.all_rows(kind).filter(move |row| sees(who, row))
    }

    fn all_rows(&self, kind: ListKind) -> Box<dyn Iterator<Item = Row<'_>> + '_> {
        match kind {
            ListKind::Tools => Box::new(self.catalog.tools.iter().filter_map(|tool| {
                let (server, item) = (&tool.route.server, &tool.route.item);
                // What is held is not the tool that was accepted: its words reach no model.
                let held = self.catalog.held(server, &item.name).is_some();
                (!held).then_some(Row { server, item, name: Some(&tool.name) })
            })),
            ListKind::Prompts => Box::new(self.prompts.iter().map(|(name, server, item)| Row {
                server,
                item,
                name: Some(name),
            })),
            ListKind::Resources | ListKind::Templates => {
                Box::new(self.catalog.servers.iter().flat_map(move |(server, all)| {
                    let owned = move |item: &&Arc<Item>| {
                        kind == ListKind::Templates || self.uris.get(&item.name) == Some(server)
                    };
                    let items = all.list(kind).items.iter().filter(owned);
                    items.map(move |item| Row { server, item, name: None })
                }))
            }
        }
    }

    /// A mark that is another one when the client would see another list.
    pub(super) fn mark(&self, kind: ListKind, who: &Caller) -> u64 {
        if who.only.is_none() { self.marks[kind as usize] } else { mark(self.rows(kind, who)) }
    }

    /// The tool under an exposed name, if this client may see it. Held ones are found: the policy says why
    /// they don't run.
    pub(super) fn tool(&self, name: &str, who: &Caller) -> Option<Row<'_>> {
        let tool = self.catalog.exposed(name)?;
        let row = Row { server: &tool.route.server, item: &tool.route.item, name: Some(&tool.name) };
        sees(who, &row).then_some(row)
    }

    /// The prompt under an exposed name, if this client may see it.
    pub(super) fn prompt(&self, name: &str, who: &Caller) -> Option<Row<'_>> {
        let (name, server, item) = self.prompts.get(*self.by_prompt.get(name)?)?;
        let row = Row { server, item, name: Some(name) };
        sees(who, &row).then_some(row)
    }

    /// Who owns a URI (or a template, by its own text): who lists it, then whose template fits best, then
    /// the only one who has resources at all.
    pub(super) fn owner(&self, uri: &str, who: &Caller) -> Option<&ServerId> {
        let may = |server: &&ServerId| who.sees(server, uri, uri);
        if let Some(server) = self.uris.get(uri).filter(may) {
            return Some(server);
        }
        let fits = |(template, server): &&(Template, ServerId)| template.fits(uri) && may(&server);
        let best = self.templates.iter().filter(fits).rev().max_by_key(|(template, _)| template.weight());
        if let Some((_, server)) = best {
            return Some(server);
        }
        let mut with = self.catalog.servers.iter().filter(|(server, all)| {
            let any = !all.resources.items.is_empty() || !all.templates.items.is_empty();
            any && may(server)
        });
        let only = with.next().map(|(server, _)| server);
        only.filter(|_| with.next().is_none())
    }
}

fn sees(who: &Caller, row: &Row<'_>) -> bool {
    who.sees(row.server, &row.item.name, row.name.unwrap_or(&row.item.name))
}

fn mark<'a>(rows: impl Iterator<Item = Row<'a>>) -> u64 {
    let mut hash = DefaultHasher::new();
    for row in rows {
        (row.name, &row.item.raw).hash(&mut hash);
    }
    hash.finish()
}
