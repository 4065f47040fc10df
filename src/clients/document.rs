//! Floor 1. The servers that stand in the file of a client, with the place of each; and what
//! stands for the same in other projects. A text that can't be read is refused with its place.

use std::fmt;

use jsonc_parser::cst::CstRootNode;
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item};

use super::client::{Client, Format};
use crate::config::document::{Position, parse_options, strip_bom, value_of};

/// A server of a client's file.
#[derive(Clone, PartialEq)]
pub struct Found {
    /// Keys that lead to the map that it stands in.
    pub place: Vec<String>,
    /// Its name there.
    pub name: String,
    /// Its entry as written.
    pub value: Value,
}

/// What a file has.
#[derive(Clone, Default, PartialEq)]
pub struct Document {
    /// The servers, in their order.
    pub found: Vec<Found>,
    /// Other projects of the same file with servers of their own (Claude Code), and how many.
    pub elsewhere: Vec<(String, usize)>,
}

/// Why a text can't be read or changed. It is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line and column, where known.
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
}

impl Fault {
    /// A fault of the whole text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Reads a file. `project` is the folder whose own servers count too, as Claude Code keeps them.
pub fn read(client: Client, text: &str, project: &str) -> Result<Document, Fault> {
    let whole = whole(client, text)?;
    let mut document = Document::default();
    collect(&mut document.found, vec![client.key().to_owned()], whole.get(client.key()))?;
    if client == Client::ClaudeCode {
        for (folder, value) in whole.get("projects").and_then(Value::as_object).into_iter().flatten() {
            let servers = value.get(client.key());
            if folder == project {
                let place = vec!["projects".to_owned(), folder.clone(), client.key().to_owned()];
                collect(&mut document.found, place, servers)?;
            } else if let Some(count) = servers.and_then(Value::as_object).map(Map::len).filter(|n| *n > 0) {
                document.elsewhere.push((folder.clone(), count));
            }
        }
    }
    Ok(document)
}

fn collect(found: &mut Vec<Found>, place: Vec<String>, servers: Option<&Value>) -> Result<(), Fault> {
    match servers {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(map)) => {
            let of = |(name, value): (&String, &Value)| Found {
                place: place.clone(),
                name: name.clone(),
                value: value.clone(),
            };
            found.extend(map.iter().map(of));
            Ok(())
        }
        Some(_) => Err(Fault::new(format!("{} is not a map of servers", place.join(".")))),
    }
}

/// The whole text as one value; an empty one is an empty map.
pub(super) fn whole(client: Client, text: &str) -> Result<Value, Fault> {
    match client.format() {
        Format::Toml => {
            let document = parse_toml(text)?;
            Ok(of_table(document.as_table().iter()))
        }
        Format::Json => {
            let body = strip_bom(text);
            let root = CstRootNode::parse(body, &parse_options()).map_err(|error| Fault {
                position: Some((error.line_display(), error.column_display())),
                message: format!("not valid JSON: {}", error.kind()),
            })?;
            match (root.value(), value_of(body)) {
                (None, _) => Ok(Value::Object(Map::new())),
                (Some(_), Some(value @ Value::Object(_))) => Ok(value),
                _ => Err(Fault::new("its top level must be an object")),
            }
        }
    }
}

/// Reads TOML.
pub(super) fn parse_toml(text: &str) -> Result<DocumentMut, Fault> {
    strip_bom(text).parse::<DocumentMut>().map_err(|error| {
        let before = error.span().and_then(|span| strip_bom(text).get(..span.start));
        let position = before.map(|before| {
            let line = before.matches('\n').count() + 1;
            (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
        });
        Fault { position, message: format!("not valid TOML: {}", error.message()) }
    })
}

fn of_table<'a>(pairs: impl Iterator<Item = (&'a str, &'a Item)>) -> Value {
    Value::Object(pairs.map(|(key, item)| (key.to_owned(), of_item(item))).collect())
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table.iter()),
        Item::ArrayOfTables(tables) => {
            Value::Array(tables.iter().map(|table| of_table(table.iter())).collect())
        }
    }
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(flag) => Value::from(*flag.value()),
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(of_value).collect()),
        toml_edit::Value::InlineTable(table) => {
            Value::Object(table.iter().map(|(key, value)| (key.to_owned(), of_value(value))).collect())
        }
    }
}
