//! Floor 1. Takes entries out of a client's file and puts entries in, by its syntax tree:
//! comments, order and layout of everything else survive, and a change that would touch anything
//! else is refused. Called by `install` and `uninstall`.

use jsonc_parser::cst::{CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::client::{Client, Format};
use super::document::{self, Fault, Found};
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
    /// Entries that come back to where they were, which nobody else has taken meanwhile.
    pub back: Vec<Found>,
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
    let back = change.back.iter().map(|one| (&one.place, &one.name));
    for (place, name) in change.take.iter().map(|(place, name)| (place, name)).chain(put).chain(back) {
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
    let at = |one: &Found| one.place.iter().try_fold(after, |map, key| map.get(key))?.get(&one.name);
    change.put.iter().all(|(name, value)| main.and_then(|map| map.get(name)) == Some(value))
        && change.back.iter().all(|one| at(one) == Some(&one.value))
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
    for one in &change.back {
        let map = one.place.iter().fold(top.clone(), |object, key| object.object_value_or_set(key));
        map.append(&one.name, input(&one.value));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn ours() -> Change {
        Change {
            take: Vec::new(),
            put: vec![("callboard".to_owned(), json!({"command": "c", "args": ["--mcp-serve"]}))],
            back: Vec::new(),
        }
    }

    fn gone(client: Client) -> Change {
        let take = vec![(vec![client.key().to_owned()], "callboard".to_owned())];
        Change { take, ..Change::default() }
    }

    /// A piece between two things in JSON, and one above a table in TOML.
    fn remark(style: u8) -> (&'static str, &'static str) {
        [(" ", ""), ("\n  // a remark\n  ", "# a remark\n"), ("\t/* more */ ", "\n"), ("\r\n\t", "\n# ü\n\n")]
            [usize::from(style % 4)]
    }

    fn json_text(styles: &[u8]) -> String {
        let entries: Vec<String> = styles
            .iter()
            .enumerate()
            .map(|(n, style)| {
                format!("{0}\"s{n}\":{0}{{\"command\": \"c{n}\",{0}\"x\": [1.50, ]}}", remark(*style).0)
            })
            .collect();
        let end = remark(styles.len() as u8).0;
        format!("{end}{{\"a\": 1,{end}\"mcpServers\": {{{}{end}}},{end}\"b\": {{}}}}{end}", entries.join(","))
    }

    fn toml_text(styles: &[u8]) -> String {
        let entries: Vec<String> = styles
            .iter()
            .enumerate()
            .map(|(n, style)| format!("{}[mcp_servers.s{n}] # t{n}\ncommand = 'c{n}'\n", remark(*style).1))
            .collect();
        format!("# first\na = 1\n{}\n[other] # last\nb = 0x10\n", entries.concat())
    }

    proptest! {
        #[test]
        fn what_comes_and_goes_leaves_every_line_of_others(styles in proptest::collection::vec(0u8..4, 0..4)) {
            for (client, text) in [(Client::Cursor, json_text(&styles)), (Client::Codex, toml_text(&styles))] {
                let with = apply(client, &text, &ours()).unwrap();
                let back = apply(client, &with, &gone(client)).unwrap();
                let before = document::whole(client, &text).unwrap();
                prop_assert_eq!(document::whole(client, &back).unwrap(), before);
                for line in text.lines().map(str::trim).filter(|line| line.contains("remark") || line.contains('#') || line.contains("0x10")) {
                    prop_assert!(with.contains(line) && back.contains(line), "{line:?} is gone from\n{with}\nor\n{back}");
                }
                prop_assert_eq!(&apply(client, &with, &ours()).unwrap(), &with);
            }
        }

        #[test]
        fn entries_that_go_take_nobody_with_them(styles in proptest::collection::vec(0u8..4, 1..4), at in 0usize..4) {
            let name = format!("s{}", at % styles.len());
            for (client, text) in [(Client::Cursor, json_text(&styles)), (Client::Codex, toml_text(&styles))] {
                let mut change = ours();
                change.take.push((vec![client.key().to_owned()], name.clone()));
                let after = document::whole(client, &apply(client, &text, &change).unwrap()).unwrap();
                let mut before = document::whole(client, &text).unwrap();
                let map = before[client.key()].as_object_mut().unwrap();
                map.shift_remove(&name);
                map.insert("callboard".to_owned(), change.put[0].1.clone());
                prop_assert_eq!(after, before);
            }
        }

        #[test]
        fn what_was_taken_comes_back_where_it_was(styles in proptest::collection::vec(0u8..4, 1..4), at in 0usize..4) {
            for (client, text) in [(Client::Cursor, json_text(&styles)), (Client::Codex, toml_text(&styles))] {
                let found = document::read(client, &text, "").unwrap().found;
                let one = found[at % found.len()].clone();
                let mut change = ours();
                change.take.push((one.place.clone(), one.name.clone()));
                let with = apply(client, &text, &change).unwrap();
                let undo = Change { back: vec![one], ..gone(client) };
                let back = apply(client, &with, &undo).unwrap();
                prop_assert_eq!(document::whole(client, &back).unwrap(), document::whole(client, &text).unwrap());
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            for client in [Client::Cursor, Client::Codex] {
                let _ = apply(client, &text, &ours());
            }
        }
    }
}
