//! What the bridge and the search answer, as JSON: servers, tools, resources, prompts. Texts of servers in it;
//! whoever hands it to a model puts it into a fence. Pure.

use serde_json::{Value, json};

use super::bm25::Index;
use super::{Row, Wanted, adapt, rows, shortened};
use crate::catalog::items::{Item, ListKind};
use crate::catalog::merge::Catalog;
use crate::id::ServerId;
use crate::view::ServerView;

/// Items of one list.
const ITEMS_MAX: usize = 200;
/// Longest description in a list, bytes.
const WORDS_MAX: usize = 600;
/// Bytes of a list after which parameters are left out.
const LIST_MAX: usize = 64 << 10;

/// The servers, as the model is told of them.
pub fn servers(catalog: &Catalog, views: &[ServerView]) -> String {
    let one = |view: &ServerView| {
        let count = |kind| catalog.servers.get(&view.id).map_or(0, |server| server.list(kind).items.len());
        json!({
            "server": view.id.as_str(), "state": view.state.as_str(),
            "tools": catalog.routes.get(&view.id).map_or(0, std::collections::HashMap::len),
            "resources": count(ListKind::Resources), "prompts": count(ListKind::Prompts),
        })
    };
    json!({"servers": views.iter().map(one).collect::<Vec<_>>()}).to_string()
}

/// The tools of one server, with parameters as far as there is room.
pub fn tools(wanted: &Wanted<'_>, server: &ServerId) -> String {
    let all: Vec<Row<'_>> = rows(wanted).into_iter().filter(|row| row.server == server).collect();
    let shown = all.iter().take(ITEMS_MAX);
    listed(shown, wanted, all.len().saturating_sub(ITEMS_MAX)).to_string()
}

/// The tools that these words fit best.
pub fn search(wanted: &Wanted<'_>, query: &str, limit: usize) -> String {
    let all = rows(wanted);
    let mut index = Index::default();
    for row in &all {
        let text = row.item.description.as_deref().unwrap_or_default();
        let title = row.item.title.as_deref().unwrap_or_default();
        index.add(
            &format!("{} {}", row.server, row.item.name),
            &format!("{title} {text}"),
            &parameters(row.item),
        );
    }
    let found = index.best(query, limit);
    let mut answer = listed(found.iter().map(|at| &all[*at]), wanted, 0);
    answer["searched"] = Value::from(all.len());
    answer.to_string()
}

fn listed<'a>(rows: impl Iterator<Item = &'a Row<'a>>, wanted: &Wanted<'_>, more: usize) -> Value {
    let mut used = 0;
    let mut tools = Vec::new();
    for row in rows {
        let mut tool = json!({"server": row.server.as_str(), "name": row.item.name});
        if let Some(text) = row.item.description.as_deref().or(row.item.title.as_deref()) {
            tool["description"] = Value::from(shortened(text, WORDS_MAX));
        }
        match adapt::adapt(row.item.schema_bytes(), wanted.dialect) {
            Ok(adapted) if used + adapted.schema.len() <= LIST_MAX => {
                used += adapted.schema.len();
                tool["parameters"] = serde_json::from_str(&adapted.schema).unwrap_or_default();
            }
            Ok(_) => tool["parameters"] = Value::from("left out: search for this tool to see them"),
            Err(reason) => tool["parameters"] = Value::from(reason),
        }
        tools.push(tool);
    }
    let mut answer = json!({"tools": tools});
    if more > 0 {
        answer["not_listed"] = Value::from(more);
    }
    answer
}

/// Resources (with templates) or prompts of one server.
pub fn items(catalog: &Catalog, server: &ServerId, kind: ListKind) -> String {
    let list = |kind: ListKind| {
        catalog.servers.get(server).map(|all| all.list(kind).items.as_slice()).unwrap_or_default()
    };
    let one = |item: &Item| {
        let value: Value = serde_json::from_slice(&item.raw).unwrap_or_default();
        let mut out = json!({kind.name_key(): item.name});
        for key in ["name", "title", "mimeType", "arguments"] {
            if let Some(member) = value.get(key).filter(|_| key != kind.name_key()) {
                out[key] = member.clone();
            }
        }
        if let Some(text) = &item.description {
            out["description"] = Value::from(shortened(text, WORDS_MAX));
        }
        out
    };
    let all = list(kind);
    let shown: Vec<Value> = all.iter().take(ITEMS_MAX).map(|item| one(item)).collect();
    let mut answer = json!({kind.result_key(): shown});
    if kind == ListKind::Resources {
        let templates: Vec<Value> = list(ListKind::Templates).iter().take(ITEMS_MAX).map(|item| {
            json!({"uriTemplate": item.name, "description": item.description.as_deref().map(|text| shortened(text, WORDS_MAX))})
        }).collect();
        if !templates.is_empty() {
            answer["resourceTemplates"] = Value::from(templates);
        }
    }
    if all.len() > ITEMS_MAX {
        answer["not_listed"] = Value::from(all.len() - ITEMS_MAX);
    }
    answer.to_string()
}

/// The names of a tool's parameters, and what they say.
fn parameters(item: &Item) -> Vec<String> {
    let schema: Option<Value> = item.schema_bytes().and_then(|raw| serde_json::from_slice(raw).ok());
    let members = schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let words = members.into_iter().flatten().flat_map(|(name, value)| {
        let says = value.get("description").and_then(Value::as_str).unwrap_or_default();
        [name.clone(), shortened(says, WORDS_MAX)]
    });
    words.collect()
}
