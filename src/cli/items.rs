//! Floor 5. What servers offer, as lists: the JSON shape with whole definitions, and
//! tables for people. Pure. Used by the use verbs.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::labels::{self, LabelView};
use super::out::{Style, Tone};
use super::table::{Column, Field, table};
use super::text;
use crate::catalog::items::{Item, ItemList, ListKind, Quarantined, ServerCatalog};
use crate::catalog::lint::Others;
use crate::catalog::merge::Catalog;
use crate::catalog::pin::Held;
use crate::catalog::prompt;
use crate::id::ServerId;
use crate::shaping::render::printable;

/// Makes text of a server fit for a person.
pub type Clean<'a> = &'a dyn Fn(&str) -> String;

/// One listed item.
#[derive(Serialize)]
pub struct ItemView {
    /// The server that offers it.
    pub server: String,
    /// Raw name, URI or URI template.
    pub name: String,
    /// The name that models and clients see (tools).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_name: Option<String>,
    /// The whole definition, as the server sent it.
    pub definition: Box<RawValue>,
    /// Slips in it that were noticed.
    pub notes: Vec<String>,
    /// Why it is held by its pin (tools).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What deserves a second look in it (tools).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
    #[serde(skip)]
    item: Arc<Item>,
}

/// One definition that is kept out.
#[derive(Serialize)]
pub struct QuarantineView {
    server: String,
    name: String,
    reason: String,
}

/// A name that several servers claim.
#[derive(Serialize)]
pub struct ConflictView {
    name: String,
    claimants: Vec<[String; 2]>,
}

/// Items of one kind.
#[derive(Default, Serialize)]
pub struct Listing {
    /// The usable ones.
    pub items: Vec<ItemView>,
    /// Those kept out.
    pub quarantined: Vec<QuarantineView>,
    /// What was odd about the lists.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Whether a list could not be read: its items are from before, or missing.
    #[serde(skip)]
    pub unread: bool,
}

/// The items of that kind of these servers; tools only as far as the filter lists them.
pub fn listing(catalog: &Catalog, servers: &[ServerId], kind: ListKind) -> Listing {
    let mut listing = Listing::default();
    let others = if kind == ListKind::Tools { labels::others(catalog) } else { Others::none() };
    for server in servers {
        if let Some(of_server) = catalog.servers.get(server) {
            add(&mut listing, catalog, of_server, kind, &others);
        }
    }
    listing
}

fn add(listing: &mut Listing, catalog: &Catalog, of_server: &ServerCatalog, kind: ListKind, others: &Others) {
    let server = &of_server.server;
    let list: &ItemList = of_server.list(kind);
    let callable = catalog.routes.get(server);
    for item in &list.items {
        let tool = kind == ListKind::Tools;
        if tool && !callable.is_some_and(|routes| routes.contains_key(&item.name)) {
            continue;
        }
        let exposed = tool.then(|| catalog.exposed_name(server, &item.name)).flatten();
        listing.items.push(ItemView {
            server: server.as_str().to_owned(),
            name: item.name.clone(),
            exposed_name: exposed.map(str::to_owned),
            definition: raw(item),
            notes: item.notes.clone(),
            held: catalog.held(server, &item.name).filter(|_| tool).map(Held::why),
            labels: if tool {
                labels::of(&|text| printable(text).into_owned(), server.as_str(), item, others)
            } else {
                Vec::new()
            },
            item: Arc::clone(item),
        });
    }
    listing.quarantined.extend(list.quarantined.iter().map(|bad| quarantine(server, bad)));
    listing.unread |= list.unread.is_some();
    let warnings = list.unread.iter().chain(&list.warnings);
    listing.warnings.extend(warnings.map(|warning| format!("{server}: {warning}")));
}

fn quarantine(server: &ServerId, bad: &Quarantined) -> QuarantineView {
    QuarantineView { server: server.as_str().to_owned(), name: bad.name.clone(), reason: bad.reason.clone() }
}

fn raw(item: &Item) -> Box<RawValue> {
    let text = String::from_utf8_lossy(&item.raw).into_owned();
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The names that nobody gets in the bare style.
pub fn conflicts(catalog: &Catalog) -> Vec<ConflictView> {
    let view = |(server, tool): &(ServerId, String)| [server.as_str().to_owned(), tool.clone()];
    let conflicts = catalog.conflicts.iter();
    conflicts
        .map(|conflict| ConflictView {
            name: conflict.name.clone(),
            claimants: conflict.claimants.iter().map(view).collect(),
        })
        .collect()
}

/// Characters of a description in a table; on a screen the line is wrapped.
const ABOUT_LEN_MAX: usize = 160;

/// A table of items; the server's column is there when there may be several.
pub fn items_text(
    head: &'static str,
    listing: &Listing,
    several: bool,
    style: Style,
    clean: Clean<'_>,
) -> String {
    let mut columns = vec![Column::wide(head, 16), Column::wide("description", 24)];
    if several {
        columns.insert(0, Column::wide("server", 8));
    }
    let mut rows = Vec::with_capacity(listing.items.len());
    for view in &listing.items {
        let mut row = Vec::with_capacity(3);
        if several {
            row.push(Field::toned(clean(&view.server), Tone::Dim));
        }
        row.push(match &view.held {
            Some(_) => Field::toned(format!("{} (held)", clean(&view.name)), Tone::Warn),
            None => Field::toned(clean(&view.name), Tone::Strong),
        });
        row.push(Field::new(about(&view.item, clean)));
        rows.push(row);
    }
    let mut out = if rows.is_empty() { String::new() } else { table(&columns, &rows, style) };
    for bad in &listing.quarantined {
        if !out.is_empty() {
            out.push('\n');
        }
        let line = format!("skipped: {} of {}: {}", clean(&bad.name), bad.server, clean(&bad.reason));
        out.push_str(&style.paint(Tone::Warn, &line));
    }
    out
}

/// What is held and labelled, below a table of tools; all labels when they are asked for.
pub fn marks_text(listing: &Listing, verbose: bool, style: Style, clean: Clean<'_>) -> String {
    let mut lines = Vec::new();
    let held = listing.items.iter().filter(|view| view.held.is_some()).count();
    if held > 0 {
        let tools = text::count(held, "tool");
        lines.push(format!(
            "{tools} held by a pin: no call runs; `callboard mcp pin review` shows what changed"
        ));
    }
    let labelled = || listing.items.iter().filter(|view| !view.labels.is_empty());
    let count: usize = labelled().map(|view| view.labels.len()).sum();
    if verbose {
        for view in labelled() {
            let label = |label: &LabelView| {
                clean(&format!("look twice: {} of {}: {}", view.name, view.server, label.line()))
            };
            lines.extend(view.labels.iter().map(label));
        }
    } else if count > 0 {
        let (labels, tools) = (text::count(count, "place"), text::count(labelled().count(), "tool"));
        lines.push(format!("{labels} in {tools} to look at twice; -v shows them"));
    }
    let lines: Vec<String> = lines.iter().map(|line| style.paint(Tone::Warn, line)).collect();
    lines.join("\n")
}

fn about(item: &Item, clean: Clean<'_>) -> String {
    let text = item.description.as_deref().or(item.title.as_deref()).unwrap_or_default();
    text::first_line(&clean(text), ABOUT_LEN_MAX)
}

/// The arguments of a prompt, `name*` for a required one.
pub fn prompt_arguments(item: &Item) -> String {
    let declared = prompt::arguments(item);
    let names = declared.iter().map(|one| format!("{}{}", one.name, if one.required { "*" } else { "" }));
    names.collect::<Vec<_>>().join(" ")
}

/// A table of prompts with their arguments.
pub fn prompts_text(listing: &Listing, several: bool, style: Style, clean: Clean<'_>) -> String {
    let mut columns =
        vec![Column::wide("prompt", 16), Column::wide("arguments", 12), Column::wide("description", 24)];
    if several {
        columns.insert(0, Column::wide("server", 8));
    }
    let rows: Vec<Vec<Field>> = listing
        .items
        .iter()
        .map(|view| {
            let mut row = vec![
                Field::toned(clean(&view.name), Tone::Strong),
                Field::new(clean(&prompt_arguments(&view.item))),
                Field::new(about(&view.item, clean)),
            ];
            if several {
                row.insert(0, Field::toned(clean(&view.server), Tone::Dim));
            }
            row
        })
        .collect();
    if rows.is_empty() { String::new() } else { table(&columns, &rows, style) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::items::Hints;
    use bytes::Bytes;
    use serde_json::Value;

    fn item(raw: &str) -> Arc<Item> {
        let value: Value = serde_json::from_str(raw).unwrap();
        Arc::new(Item {
            raw: Bytes::copy_from_slice(raw.as_bytes()),
            name: value["name"].as_str().unwrap().to_owned(),
            name_span: 0..0,
            title: None,
            description: value["description"].as_str().map(str::to_owned),
            input_schema: None,
            hints: Hints::default(),
            notes: Vec::new(),
            edits: Vec::new(),
            fingerprint: None,
        })
    }

    fn listing_of(raws: &[&str]) -> Listing {
        let views = raws.iter().map(|text| {
            let item = item(text);
            ItemView {
                server: "git".into(),
                name: item.name.clone(),
                exposed_name: None,
                definition: raw(&item),
                notes: Vec::new(),
                held: None,
                labels: Vec::new(),
                item,
            }
        });
        Listing { items: views.collect(), ..Listing::default() }
    }

    fn clean(text: &str) -> String {
        text.replace('\u{1b}', "?")
    }

    #[test]
    fn a_listing_shows_the_first_line_of_each_description() {
        let listing = listing_of(&[r#"{"name":"log","description":"Shows commits.\nAnd more."}"#]);
        assert_eq!(
            items_text("tool", &listing, true, Style::PLAIN, &clean),
            "server  tool  description\ngit     log   Shows commits.…"
        );
        assert_eq!(
            items_text("tool", &listing, false, Style::PLAIN, &clean).lines().next(),
            Some("tool  description")
        );
    }

    #[test]
    fn what_is_kept_out_is_told_with_its_reason() {
        let mut listing = listing_of(&[]);
        let bad = Quarantined { name: "bad\u{1b}".into(), reason: "no name".into() };
        listing.quarantined.push(quarantine(&ServerId::new("git"), &bad));
        assert_eq!(
            items_text("tool", &listing, false, Style::PLAIN, &clean),
            "skipped: bad? of git: no name"
        );
    }

    #[test]
    fn required_arguments_of_prompts_are_marked() {
        let raw = r#"{"name":"p","arguments":[{"name":"a","required":true},{"name":"b"},{"x":1}]}"#;
        assert_eq!(prompt_arguments(&item(raw)), "a* b");
        let text = prompts_text(&listing_of(&[raw]), false, Style::PLAIN, &clean);
        assert_eq!(text, "prompt  arguments  description\np       a* b       -");
    }

    #[test]
    fn a_definition_goes_out_as_the_server_sent_it() {
        let listing = listing_of(&[r#"{"name":"x","n":1.00,"x":"\u00e9"}"#]);
        let json = serde_json::to_string(&listing).unwrap();
        assert!(json.contains(r#""definition":{"name":"x","n":1.00,"x":"\u00e9"}"#), "{json}");
    }
}
