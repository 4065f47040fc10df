//! Floor 1. Edits the text of a configuration file by its syntax tree, so that comments, key
//! order, layout and everything else survive. A text that can't be read is refused, never
//! rewritten. Called by `config::edit`, which has the file and its lock.

use std::fmt;

use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::document::{self, MAP_KEYS, Position};
use super::merge::check_name;

/// One change. `Debug` shows no entry: literals may be secret.
#[derive(Clone, PartialEq)]
pub enum Edit {
    /// Writes an entry; one of that name is replaced only if `replace` says so.
    Put {
        /// Name of the server.
        name: String,
        /// The entry.
        entry: Map<String, Value>,
        /// Whether an entry of that name may be there.
        replace: bool,
    },
    /// Takes an entry out.
    Remove {
        /// Name of the server.
        name: String,
    },
    /// Turns an entry on. One that only turns a name off is taken out.
    Enable {
        /// Name of the server.
        name: String,
    },
    /// Turns an entry off.
    Disable {
        /// Name of the server.
        name: String,
        /// When there is no such entry: write one that turns off the name of a weaker source.
        mask: bool,
    },
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Put { .. } => "Put",
            Self::Remove { .. } => "Remove",
            Self::Enable { .. } => "Enable",
            Self::Disable { .. } => "Disable",
        };
        f.debug_tuple(verb).field(&self.name()).finish()
    }
}

impl Edit {
    /// The name that is edited.
    pub fn name(&self) -> &str {
        match self {
            Self::Put { name, .. } | Self::Remove { name } | Self::Enable { name } => name,
            Self::Disable { name, .. } => name,
        }
    }
}

/// Why a text was not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditFault {
    /// The text can't be read; it stays as it is.
    Broken {
        /// Where, when known.
        position: Option<Position>,
        /// What is wrong.
        message: String,
    },
    /// There is an entry of that name already.
    Exists,
    /// There is no entry of that name.
    Missing,
    /// The name can't be that of a server.
    BadName(String),
}

impl fmt::Display for EditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { message, .. } => write!(f, "{message}; the file was left as it is"),
            Self::Exists => f.write_str("already defined there"),
            Self::Missing => f.write_str("not defined there"),
            Self::BadName(message) => f.write_str(message),
        }
    }
}

/// The edited text. Equal to `text` when there is nothing to change.
pub fn apply(text: &str, edit: &Edit) -> Result<String, EditFault> {
    if let (Edit::Put { .. }, Err(message)) = (edit, check_name(edit.name())) {
        return Err(EditFault::BadName(message));
    }
    let body = document::strip_bom(text);
    let mark = &text[..text.len() - body.len()];
    let root = CstRootNode::parse(body, &document::parse_options()).map_err(|error| EditFault::Broken {
        position: Some((error.line_display(), error.column_display())),
        message: format!("not valid JSON: {}", error.kind()),
    })?;
    let object = match root.value() {
        None => root.object_value_or_set(),
        Some(value) => value.as_object().ok_or_else(|| broken("its top level must be an object"))?,
    };
    change(&Maps::of(&object)?, &object, edit)?;
    let mut edited = format!("{mark}{root}");
    if body.trim().is_empty() && !edited.ends_with('\n') {
        edited.push('\n');
    }
    let before = document::value_of(body).unwrap_or_else(|| Value::Object(Map::new()));
    let after = document::value_of(document::strip_bom(&edited));
    if after.is_none_or(|after| rest(before, edit.name()) != rest(after, edit.name())) {
        return Err(broken("it can't be edited without changing something else; edit it by hand"));
    }
    Ok(edited)
}

fn broken(message: &str) -> EditFault {
    EditFault::Broken { position: None, message: message.to_owned() }
}

/// Everything that an edit of `name` must not touch.
fn rest(mut whole: Value, name: &str) -> Value {
    if let Value::Object(value) = &mut whole {
        for key in MAP_KEYS {
            if let Some(Value::Object(map)) = value.get_mut(key) {
                map.shift_remove(name);
                if map.is_empty() {
                    value.shift_remove(key);
                }
            }
        }
    }
    whole
}

/// The server maps of a file, the stronger one first.
struct Maps(Vec<CstObject>);

impl Maps {
    fn of(root: &CstObject) -> Result<Self, EditFault> {
        let mut maps = Vec::new();
        for key in MAP_KEYS {
            let mut props = named(root, key);
            match (props.pop(), props.is_empty()) {
                (None, _) => {}
                (Some(prop), true) => match prop.object_value() {
                    Some(map) => maps.push(map),
                    None => return Err(broken(&format!("{key:?} must be an object"))),
                },
                (Some(_), false) => return Err(broken(&format!("{key:?} is written more than once"))),
            }
        }
        Ok(Self(maps))
    }

    /// All entries of a name, the one that counts first.
    fn entries(&self, name: &str) -> Vec<CstObjectProp> {
        self.0.iter().flat_map(|map| named(map, name).into_iter().rev()).collect()
    }
}

/// The properties of that name, in their order.
fn named(object: &CstObject, name: &str) -> Vec<CstObjectProp> {
    object.properties().into_iter().filter(|prop| prop.decoded_name().as_deref() == Some(name)).collect()
}

fn change(maps: &Maps, root: &CstObject, edit: &Edit) -> Result<(), EditFault> {
    let entries = maps.entries(edit.name());
    match edit {
        Edit::Put { name, entry, replace } => match entries.first() {
            Some(_) if !replace => return Err(EditFault::Exists),
            Some(prop) => prop.set_value(input(&Value::Object(entry.clone()))),
            None => append(maps, root, name, &Value::Object(entry.clone())),
        },
        Edit::Remove { .. } => {
            if entries.is_empty() {
                return Err(EditFault::Missing);
            }
            entries.into_iter().for_each(CstObjectProp::remove);
        }
        Edit::Enable { .. } => {
            let first = entries.first().ok_or(EditFault::Missing)?;
            let object = first.object_value().ok_or_else(|| broken("its entry must be an object"))?;
            if named(&object, "command").is_empty() && named(&object, "url").is_empty() {
                entries.into_iter().for_each(CstObjectProp::remove);
                return Ok(());
            }
            set_all(&object, "enabled", true);
            set_all(&object, "disabled", false);
        }
        Edit::Disable { name, mask } => match entries.first() {
            None if *mask => append(maps, root, name, &serde_json::json!({"enabled": false})),
            None => return Err(EditFault::Missing),
            Some(first) => {
                let object = first.object_value().ok_or_else(|| broken("its entry must be an object"))?;
                let told = set_all(&object, "enabled", false) | set_all(&object, "disabled", true);
                if !told {
                    object.append("enabled", CstInputValue::Bool(false));
                }
            }
        },
    }
    Ok(())
}

/// Sets every property of that name; whether there is one.
fn set_all(object: &CstObject, name: &str, flag: bool) -> bool {
    let props = named(object, name);
    for prop in &props {
        let now = prop.value().and_then(|value| value.as_boolean_lit()).map(|lit| lit.value());
        if now != Some(flag) {
            prop.set_value(CstInputValue::Bool(flag));
        }
    }
    !props.is_empty()
}

fn append(maps: &Maps, root: &CstObject, name: &str, entry: &Value) {
    let map = match maps.0.first() {
        Some(map) => map.clone(),
        None => root.object_value_or_set(MAP_KEYS[0]),
    };
    map.append(name, input(entry));
}

/// A value as the syntax tree takes it.
pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// An entry as somebody might write it, with a comment inside that names it.
    fn entry_text(index: usize, style: u8) -> String {
        match style % 4 {
            0 => format!("{{\"command\": \"c{index}\"}}"),
            1 => format!("{{ /* in {index} */\n    \"url\" : \"http://h/{index}\",\n  }}"),
            2 => format!("{{\n\t\"command\":\"c{index}\", // in {index}\n\t\"args\":[\"//no\",1.50,],\n}}"),
            _ => format!("{{\"enabled\":false,\"command\":\"c{index}\",\"disabled\":true}}"),
        }
    }

    /// A whole file: entries with comments around them, in a layout of its own.
    fn document_text(styles: &[u8], newline: bool, trailing: bool, key: &str) -> (String, Vec<String>) {
        let gap = if newline { "\n  " } else { " " };
        let parts: Vec<String> = styles
            .iter()
            .enumerate()
            .map(|(index, style)| format!("\"n{index}\": {}", entry_text(index, *style)))
            .collect();
        let body: Vec<String> =
            parts.iter().enumerate().map(|(index, part)| format!("/* before {index} */ {part}")).collect();
        let comma = if trailing && !parts.is_empty() { "," } else { "" };
        let text = format!(
            "// head\n{{{gap}\"keep\": [1, 2.50, \"x\"],{gap}\"{key}\": {{{gap}{}{comma}{gap}}},{gap}\"last\": null{gap}}}\n// tail\n",
            body.join(&format!(",{gap}"))
        );
        (text, parts)
    }

    fn put(name: &str) -> Edit {
        let entry = json!({"command": "new", "args": ["a\"b", "ü"], "env": {"K": "v"}});
        Edit::Put { name: name.into(), entry: entry.as_object().unwrap().clone(), replace: true }
    }

    proptest! {
        #[test]
        fn an_edit_of_one_entry_keeps_all_other_text(
            styles in proptest::collection::vec(0u8..4, 1..6),
            newline: bool,
            trailing: bool,
            servers: bool,
            pick: prop::sample::Index,
            verb in 0u8..5,
        ) {
            let key = if servers { "servers" } else { "mcpServers" };
            let (text, parts) = document_text(&styles, newline, trailing, key);
            let index = pick.index(styles.len());
            let name = format!("n{index}");
            let edit = match verb {
                0 => put("fresh"),
                1 => put(&name),
                2 => Edit::Remove { name: name.clone() },
                3 => Edit::Enable { name: name.clone() },
                _ => Edit::Disable { name: name.clone(), mask: false },
            };
            let edited = apply(&text, &edit).unwrap();
            let mut from = 0;
            for (other, part) in parts.iter().enumerate().filter(|(other, _)| verb == 0 || *other != index) {
                let at = edited[from..].find(part.as_str());
                prop_assert!(at.is_some(), "{other} lost or moved:\n{text}\n{edited}");
                from += at.unwrap() + part.len();
            }
            for kept in ["// head\n", "// tail\n", "\"keep\": [1, 2.50, \"x\"]", "\"last\": null"] {
                prop_assert!(edited.contains(kept), "{kept} lost:\n{edited}");
            }
            for other in (0..styles.len()).filter(|other| *other != index) {
                let comment = format!("/* before {other} */");
                prop_assert!(edited.contains(&comment), "{comment} lost:\n{edited}");
            }
            prop_assert!(document::value_of(&edited).is_some());
            // Once more changes nothing further, or says that there is nothing left to do.
            match apply(&edited, &edit) {
                Ok(again) => prop_assert_eq!(again, edited),
                Err(fault) => prop_assert_eq!(fault, EditFault::Missing),
            }
        }

        #[test]
        fn adding_and_removing_an_entry_restores_the_file(
            styles in proptest::collection::vec(0u8..4, 1..6),
            trailing: bool,
        ) {
            let (text, _) = document_text(&styles, true, trailing, "mcpServers");
            let added = apply(&text, &put("fresh")).unwrap();
            let removed = apply(&added, &Edit::Remove { name: "fresh".into() }).unwrap();
            prop_assert_eq!(document::value_of(&removed), document::value_of(&text));
            prop_assert!(removed.contains("// head") && removed.contains("// tail"));
        }

        #[test]
        fn no_text_makes_an_edit_panic(text in ".{0,60}", name in ".{0,8}") {
            let _ = apply(&text, &put(&name));
            let _ = apply(&text, &Edit::Remove { name: name.clone() });
            let _ = apply(&text, &Edit::Disable { name, mask: true });
        }

        #[test]
        fn json_like_text_never_makes_an_edit_panic(text in "[{}\\[\\]:,\"a/* \n1]{0,40}") {
            if let Ok(edited) = apply(&text, &put("s")) {
                prop_assert!(document::value_of(&edited).is_some());
            }
        }
    }
}
