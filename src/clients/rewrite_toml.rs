//! Floor 1. The same for TOML. A comment above a table that goes belongs to nobody else, so it
//! stays: above the entry that comes, or at the end. Called by `rewrite`.

use serde_json::Value;
use toml_edit::{Array, InlineTable, Item, Table, TableLike, value};

use super::client::Client;
use super::document::{Fault, parse_toml};
use super::rewrite::Change;

/// The changed text.
pub(super) fn apply(client: Client, body: &str, change: &Change) -> Result<String, Fault> {
    let mut document = parse_toml(body)?;
    let mut orphans = String::new();
    let servers = document.entry(client.key()).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let inline = servers.is_inline_table();
    let map =
        servers.as_table_like_mut().ok_or_else(|| Fault::new(format!("{} is not a table", client.key())))?;
    for (_, name) in &change.take {
        if let Some(item) = map.remove(name) {
            keep_comments(&item, &mut orphans);
        }
    }
    let put_back = change.back.iter().map(|one| (&one.name, &one.value));
    for (name, entry) in change.put.iter().map(|(name, entry)| (name, entry)).chain(put_back) {
        if let Some(item) = map.remove(name) {
            keep_comments(&item, &mut orphans);
        }
        put(map, name, entry, inline, &mut orphans);
    }
    let empty = map.is_empty();
    if empty && document.get(client.key()).and_then(Item::as_table).is_some_and(Table::is_implicit) {
        document.remove(client.key());
    }
    if !orphans.is_empty() {
        let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
        document.set_trailing(format!("{orphans}{trailing}"));
    }
    Ok(document.to_string())
}

/// The comment lines above a table, and those above the tables in it.
fn keep_comments(item: &Item, orphans: &mut String) {
    let Some(table) = item.as_table() else { return };
    let prefix = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if prefix.contains('#') {
        orphans.push_str(prefix);
    }
    for (_, inner) in table.iter() {
        keep_comments(inner, orphans);
    }
}

fn put(map: &mut dyn TableLike, name: &str, entry: &Value, inline: bool, orphans: &mut String) {
    if inline {
        let mut table = InlineTable::new();
        for (key, item) in entry.as_object().into_iter().flatten() {
            if let Some(item) = plain(item) {
                table.insert(key, item);
            }
        }
        map.insert(name, Item::Value(table.into()));
        return;
    }
    let mut table = Table::new();
    for (key, item) in entry.as_object().into_iter().flatten() {
        if let Some(item) = plain(item) {
            table.insert(key, value(item));
        }
    }
    let above = std::mem::take(orphans);
    table.decor_mut().set_prefix(if above.is_empty() { "\n".to_owned() } else { above });
    map.insert(name, Item::Table(table));
}

/// A value on one line; none for what TOML has no word for. `rewrite` compares, so nothing is lost unseen.
fn plain(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some((*flag).into()),
        Value::Number(number) => number.as_i64().map(Into::into).or_else(|| Some(number.as_f64()?.into())),
        Value::String(text) => Some(text.as_str().into()),
        Value::Array(items) => Some(items.iter().filter_map(plain).collect::<Array>().into()),
        Value::Object(map) => {
            let pairs = map.iter().filter_map(|(key, item)| Some((key.as_str(), plain(item)?)));
            Some(pairs.collect::<InlineTable>().into())
        }
    }
}
