//! Floor 1. Takes entries out of a client's file and puts entries in, by its syntax tree:
//! comments, order and layout of everything else survive, and a change that would touch anything
//! else is refused. Called by `install` and `uninstall`.

use jsonc_parser::cst::{CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::client::{Client, Format};
use super::document::{self, Fault};
use super::rewrite_toml;
use crate::config::document::{parse_options, strip_bom};
use crate::config::edit_text::input;

/// What is changed. `Debug` is not offered: literals may be secret.
#[derive(Clone, Default)]
pub struct Change {
    /// Entries that go: the keys that lead to their map, and their name.
    pub take: Vec<(Vec<String>, String)>,
    /// Entries that come, into the map of the whole file; one of that name is replaced where it
    /// stands.
    pub put: Vec<(String, Value)>,
}

/// The changed text. Equal to `text` when there is nothing to change.
pub fn apply(client: Client, text: &str, change: &Change) -> Result<String, Fault> {
    let body = strip_bom(text);
    let mark = &text[..text.len() - body.len()];
    let before = document::whole(client, body)?;
    let edited = match client.format() {
        Format::Json => json(client, body, change)?,
        Format::Toml => rewrite_toml::apply(client, body, change)?,
    };
    let after = document::whole(client, &edited)?;
    if rest(client, before, change) != rest(client, after.clone(), change) || !holds(client, &after, change) {
        return Err(Fault::new("it can't be changed without changing something else; edit it by hand"));
    }
    Ok(format!("{mark}{edited}"))
}

/// Everything that a change must not touch.
fn rest(client: Client, mut whole: Value, change: &Change) -> Value {
    let main = vec![client.key().to_owned()];
    let put = change.put.iter().map(|(name, _)| (&main, name));
    for (place, name) in change.take.iter().map(|(place, name)| (place, name)).chain(put) {
        let map = place.iter().try_fold(&mut whole, |value, key| value.get_mut(key));
        if let Some(Value::Object(map)) = map {
            map.shift_remove(name);
        }
    }
    // Which of the maps is there at all says nothing once it is empty.
    if let Value::Object(top) = &mut whole
        && top.get(client.key()).and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        top.shift_remove(client.key());
    }
    whole
}

fn holds(client: Client, after: &Value, change: &Change) -> bool {
    let main = after.get(client.key());
    change.put.iter().all(|(name, value)| main.and_then(|map| map.get(name)) == Some(value))
}

fn json(client: Client, body: &str, change: &Change) -> Result<String, Fault> {
    let root = CstRootNode::parse(body, &parse_options()).map_err(|e| Fault::new(e.to_string()))?;
    let top = match root.value() {
        None => root.object_value_or_set(),
        Some(value) => value.as_object().ok_or_else(|| Fault::new("its top level must be an object"))?,
    };
    let main = [client.key().to_owned()];
    for (name, value) in &change.put {
        let map = match descend(&top, &main) {
            Some(map) => map,
            None => top.object_value_or_set(client.key()),
        };
        match named(&map, name).pop() {
            Some(prop) => prop.set_value(input(value)),
            None => {
                map.append(name, input(value));
            }
        }
    }
    for (place, name) in &change.take {
        let stays = *place == main && change.put.iter().any(|(put, _)| put == name);
        if let Some(map) = descend(&top, place).filter(|_| !stays) {
            named(&map, name).into_iter().for_each(CstObjectProp::remove);
        }
    }
    let mut edited = root.to_string();
    if body.trim().is_empty() && !edited.ends_with('\n') {
        edited.push('\n');
    }
    Ok(edited)
}

fn descend(top: &CstObject, place: &[String]) -> Option<CstObject> {
    place.iter().try_fold(top.clone(), |object, key| named(&object, key).pop()?.object_value())
}

/// The properties of that name, in their order.
fn named(object: &CstObject, name: &str) -> Vec<CstObjectProp> {
    object.properties().into_iter().filter(|prop| prop.decoded_name().as_deref() == Some(name)).collect()
}
