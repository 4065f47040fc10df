//! Pins: every change of what a tool says of itself is noticed, and no change of how it is written.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::catalog::items::{ItemList, ListKind};
use crate::catalog::parse::parse_page;

fn list(tools: &[Value]) -> ItemList {
    let mut list = ItemList::default();
    let page = json!({ "tools": tools }).to_string();
    parse_page(ListKind::Tools, &Bytes::from(page), &mut list, 10_000).unwrap();
    list
}

fn seen(tools: &[Value]) -> Book {
    let mut book = Book::default();
    assert!(book.see(&list(tools), "then").is_empty());
    book
}

/// A definition with something of everything.
fn definition() -> Value {
    json!({
        "name": "files_read", "title": "Read a file",
        "description": "Reads a file. Größe and 日本語 are fine; so is caf\u{e9}.",
        "inputSchema": {
            "type": "object", "required": ["path", "mode"], "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "description": "the path", "minLength": 1, "pattern": "^[a-z/]+$"},
                "mode": {"enum": ["text", "bytes", 1, null, true], "default": "text"},
                "deep": {"anyOf": [{"$ref": "#/$defs/x"}, {"items": {"properties": {"y": {"maximum": 2.5}}}}]}
            },
            "$defs": {"x": {"const": {"a": [1, 2, {"b": 0.1}]}}}
        },
        "outputSchema": {"type": "object", "properties": {"size": {"type": "integer", "description": "bytes"}}},
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "title": "Read", "x-vendor": [1, 2]},
        "_meta": {"v": 1}, "icons": []
    })
}

/// Every value of the tree that a pin covers, by pointer.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                walk(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, value)| walk(value, &format!("{at}/{i}"), out));
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    for field in FIELDS.iter().filter(|field| **field != "name") {
        if let Some(part) = value.get(field) {
            walk(part, &format!("/{field}"), &mut out);
        }
    }
    out
}

/// All ways to change one place a little.
fn mutants(whole: &Value, place: &str) -> Vec<Value> {
    let replaced = |new: Value| {
        let mut copy = whole.clone();
        *copy.pointer_mut(place).unwrap() = new;
        copy
    };
    let mut out = Vec::new();
    match whole.pointer(place).unwrap() {
        Value::String(text) => {
            for (from, to) in [
                ("e", "\u{435}"),
                ("a", "\u{430}"),
                ("é", "e\u{301}"),
                (" ", "\u{a0}"),
                (" ", "  "),
                ("t", "T"),
            ] {
                out.push(text.replacen(from, to, 1));
            }
            out.extend([
                format!("{text}."),
                format!("{text}\u{200b}"),
                format!(" {text}"),
                format!("{text}\u{e0041}"),
                String::new(),
            ]);
            out.retain(|new| new != text);
            out.into_iter().map(|new| replaced(new.into())).collect()
        }
        Value::Number(number) => {
            let value = number.as_f64().unwrap();
            vec![
                replaced(json!(value + 1.0)),
                replaced(json!(value + 0.001)),
                replaced(json!(number.to_string())),
            ]
        }
        Value::Bool(value) => vec![replaced(json!(!value)), replaced(Value::Null)],
        Value::Null => vec![replaced(json!(false)), replaced(json!("null"))],
        Value::Array(items) => {
            let mut turned = items.clone();
            turned.reverse();
            let mut longer = items.clone();
            longer.push(json!("more"));
            let shorter: Vec<Value> = items.iter().skip(1).cloned().collect();
            let all = [turned, longer, shorter].into_iter().filter(|new| new != items);
            all.map(|new| replaced(new.into())).collect()
        }
        Value::Object(map) => {
            let mut out = Vec::new();
            for key in map.keys() {
                let (mut without, mut renamed) = (map.clone(), Map::new());
                without.shift_remove(key);
                for (other, value) in map {
                    let name = if other == key { format!("{other}\u{200d}") } else { other.clone() };
                    renamed.insert(name, value.clone());
                }
                out.extend([replaced(without.into()), replaced(renamed.into())]);
            }
            let mut more = map.clone();
            more.insert("extra".into(), json!({}));
            out.push(replaced(more.into()));
            out
        }
    }
}

#[test]
fn every_change_of_a_definition_holds_its_tool() {
    let whole = definition();
    let book = seen(std::slice::from_ref(&whole));
    let mut tried = 0;
    let mut changed: Vec<Value> = places(&whole).iter().flat_map(|place| mutants(&whole, place)).collect();
    for field in FIELDS.iter().filter(|field| **field != "name") {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().shift_remove(*field);
        changed.push(without);
    }
    for mutant in changed {
        assert_ne!(mutant, whole);
        let raw = mutant.to_string();
        assert_ne!(fingerprint(raw.as_bytes()), fingerprint(whole.to_string().as_bytes()), "{raw}");
        // What is still a usable definition holds its tool; the others are quarantined.
        let listed = list(std::slice::from_ref(&mutant));
        if let Some(item) = listed.items.first() {
            let held = book.clone().see(&listed, "now");
            assert!(matches!(held[&item.name], Held::Changed { .. }), "{raw}");
            let was = book.get(&item.name).unwrap().definition.clone().unwrap();
            let diff = crate::catalog::pin_diff::diff(&was, &canonical(&item.raw));
            assert!(!diff.changes.is_empty(), "{raw}");
            tried += 1;
        }
    }
    assert!(tried >= 200, "{tried}");
}

/// The same value written otherwise: keys in another order, white space, escapes, numbers.
fn rewritten(value: &Value, turn: u64) -> String {
    fn text(text: &str, turn: u64) -> String {
        let mut out = String::from("\"");
        for (index, c) in text.chars().enumerate() {
            if (index as u64 + turn).is_multiple_of(3) || c == '"' || c == '\\' || c < ' ' {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| {
                    let hex = if turn.is_multiple_of(2) {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    };
                    out.push_str(&hex);
                });
            } else {
                out.push(c);
            }
        }
        out + "\""
    }
    let space = ["", " ", "\n\t", "  \r\n"][(turn % 4) as usize];
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            let by = (turn as usize) % members.len().max(1);
            members.rotate_left(by);
            if turn % 2 == 1 {
                members.reverse();
            }
            let members = members.iter().map(|(key, value)| {
                format!("{space}{}{space}:{space}{}", text(key, turn), rewritten(value, turn / 2 + 1))
            });
            format!("{{{}{space}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items = items.iter().map(|value| format!("{space}{}", rewritten(value, turn / 3)));
            format!("[{}{space}]", items.collect::<Vec<_>>().join(","))
        }
        Value::String(s) => text(s, turn),
        Value::Number(n) if turn % 2 == 1 => match n.as_f64() {
            Some(x) if n.is_f64() || x.abs() < 1e15 => format!("{x:e}"),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}

#[test]
fn writing_a_definition_otherwise_holds_nothing() {
    let whole = definition();
    let hash = fingerprint(whole.to_string().as_bytes());
    for turn in 0..500 {
        let raw = rewritten(&whole, turn);
        assert_eq!(serde_json::from_str::<Value>(&raw).unwrap()["name"], whole["name"]);
        assert_eq!(fingerprint(raw.as_bytes()), hash, "{raw}");
    }
}

#[test]
fn what_a_pin_does_not_cover_changes_freely() {
    let book = seen(&[definition()]);
    let mut other = definition();
    other["_meta"] = json!({"v": 2});
    other["icons"] = json!([{"src": "https://example.org/i.png"}]);
    other.as_object_mut().unwrap().insert("x-new".into(), json!(1));
    assert!(book.clone().see(&list(&[other]), "now").is_empty());
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

#[test]
fn a_tool_that_comes_back_changed_is_held_and_one_that_goes_back_is_free() {
    let mut book = seen(&[tool("a", "one"), tool("b", "two")]);
    assert!(book.see(&list(&[tool("b", "two")]), "later").is_empty(), "one that is gone is no matter");
    let held = book.see(&list(&[tool("a", "other"), tool("b", "two"), tool("c", "new")]), "later");
    assert_eq!(held.keys().collect::<Vec<_>>(), ["a"]);
    assert!(book.see(&list(&[tool("a", "one")]), "later").is_empty());
    assert_eq!(book.get("c").unwrap().by, By::FirstUse);
}

#[test]
fn a_hint_that_turns_read_only_holds() {
    let hinted = |value: bool| json!({"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": value}});
    let mut book = seen(&[hinted(false)]);
    assert_eq!(book.see(&list(&[hinted(true)]), "now").len(), 1);
    let mut book = seen(&[tool("a", "")]);
    let mut with = tool("a", "");
    with["annotations"] = json!({"readOnlyHint": true});
    assert_eq!(book.see(&list(&[with]), "now").len(), 1);
}

#[test]
fn a_flood_of_names_pushes_no_pin_away() {
    let mut book = seen(&[tool("kept", "one")]);
    for round in 0..3 {
        let many: Vec<Value> = (0..4000).map(|n| tool(&format!("t{round}_{n}"), "")).collect();
        let _ = book.see(&list(&many), "now");
    }
    assert_eq!(book.pins().len(), PINS_MAX);
    let held = book.see(&list(&[tool("kept", "two"), tool("new", "")]), "now");
    assert!(matches!(held["kept"], Held::Changed { .. }));
    assert_eq!(held["new"], Held::Full);
    let mut book = Book::default();
    let long: Vec<Value> = (0..2000).map(|n| tool(&format!("{n:0>900}"), "")).collect();
    assert!(book.see(&list(&long), "now").len() >= 2000 - NAMES_BYTES_MAX / 900);
}

#[test]
fn what_can_not_be_read_holds_everything_and_learns_nothing() {
    let mut book = Book::unreadable("broken", "repair it");
    assert_eq!(book.see(&list(&[tool("a", "")]), "now").len(), 1);
    assert!(book.pins().is_empty() && book.knows("anything"));
}

#[test]
fn what_another_wrote_stands() {
    let ours = seen(&[tool("a", "ours"), tool("b", "")]);
    let mut file = seen(&[tool("a", "theirs")]);
    assert!(ours.add_to(&mut file));
    assert_eq!(file.get("a"), seen(&[tool("a", "theirs")]).get("a"));
    assert_eq!(file.pins().len(), 2);
    assert!(!ours.add_to(&mut file));
}

#[test]
fn a_fingerprint_is_written_and_read() {
    let hash = fingerprint(b"{}");
    // Published digest of the two bytes `{}`.
    assert_eq!(hash.to_string(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    assert_eq!(Fingerprint::parse(&hash.to_string()), Some(hash));
    for bad in ["", "44", &"g".repeat(64), &"A".repeat(64), &"é".repeat(32)] {
        assert_eq!(Fingerprint::parse(bad), None);
    }
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        (-1e9..1e9f64).prop_map(Into::into),
        "\\PC{0,10}".prop_map(Into::into)
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let key = "type|enum|properties|items|[a-zé]{1,4}";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn a_change_anywhere_in_any_schema_holds_and_another_writing_does_not(
        schema in any_schema(), pick in any::<prop::sample::Index>(), which in any::<prop::sample::Index>(), turn in any::<u64>(),
    ) {
        let whole = json!({"name": "t", "description": "d", "inputSchema": {"type": "object", "x": schema}});
        let hash = fingerprint(whole.to_string().as_bytes());
        let again = rewritten(&whole, turn);
        prop_assert_eq!(fingerprint(again.as_bytes()), hash, "{}", again);
        let places = places(&whole);
        let changed = mutants(&whole, &places[pick.index(places.len())]);
        if !changed.is_empty() {
            let mutant = changed[which.index(changed.len())].to_string();
            prop_assert_ne!(fingerprint(mutant.as_bytes()), hash, "{}", mutant);
        }
    }
}
