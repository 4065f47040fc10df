//! A tool's schema as the endpoint of a model takes it: an object at the top, references in place, no word
//! that it refuses, texts sanitised, keys in one order. Only what the model reads is adapted: the server's
//! own schema is what arguments are checked against. Pure.

use serde_json::{Map, Value, json};

use super::refs::Inliner;
use super::shortened;
use crate::agent::model::Dialect;
use crate::shaping::sanitise::{sanitise, visible};

/// Longest schema of one tool, bytes.
const SCHEMA_MAX: usize = 32 << 10;
/// Longest text in a schema, bytes.
const TEXT_MAX: usize = 1024;
/// Longest name of a parameter that Anthropic takes.
const KEY_LEN_MAX: usize = 64;

/// What Gemini knows of JSON Schema.
const GEMINI: [&str; 16] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "properties",
    "required",
    "anyOf",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
];
/// What says nothing to a model.
const FRAME: [&str; 9] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$comment",
    "$vocabulary",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
];

/// An adapted schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Adapted {
    /// Canonical JSON.
    pub(super) schema: String,
    /// What the model does not see of it, for the user.
    pub(super) notes: Vec<String>,
}

/// Adapts a schema; the reason when the tool can't be called by what the endpoint takes.
pub(super) fn adapt(raw: Option<&[u8]>, dialect: Dialect) -> Result<Adapted, String> {
    let parsed = raw.and_then(|raw| serde_json::from_slice::<Value>(raw).ok());
    let root = parsed.filter(Value::is_object).unwrap_or_else(|| json!({"type": "object"}));
    let mut inliner = Inliner::new(&root);
    let mut whole = inliner.inline(&root, 0);
    let mut walk = Walk { dialect, notes: Vec::new(), lost: Vec::new(), with_texts: true };
    if inliner.gave_up {
        walk.notes.push("parts of its schema that refer to themselves are shown as anything".to_owned());
    }
    top(&mut whole);
    let mut schema = canonical(&walk.schema(&whole, 0));
    if let Some(lost) = walk.lost.first() {
        return Err(format!("it needs the parameter {lost:?}, a name that the model's endpoint refuses"));
    }
    if schema.len() > SCHEMA_MAX {
        walk.with_texts = false;
        schema = canonical(&walk.schema(&whole, 0));
        walk.notes.push("its schema is shown without descriptions: it is too long".to_owned());
    }
    if schema.len() > SCHEMA_MAX {
        schema = r#"{"properties":{},"type":"object"}"#.to_owned();
        walk.notes.push("its schema is not shown: it is too long".to_owned());
    }
    walk.notes.dedup();
    Ok(Adapted { schema, notes: walk.notes })
}

/// An object at the top, whatever stood there: alternatives are put together.
fn top(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    for word in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(parts)) = members.remove(word) else { continue };
        let all = word == "allOf";
        let mut common: Option<Vec<Value>> = None;
        for part in parts {
            let required = part.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(more)) = part.get("properties") {
                let here = members.entry("properties").or_insert_with(|| json!({}));
                if let Value::Object(here) = here {
                    for (key, value) in more {
                        here.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
            common = Some(match common {
                None => required,
                Some(mut before) if all => {
                    before.extend(required);
                    before
                }
                Some(before) => before.into_iter().filter(|name| required.contains(name)).collect(),
            });
        }
        let here = members.entry("required").or_insert_with(|| json!([]));
        if let (Value::Array(here), Some(more)) = (here, common) {
            for name in more {
                if !here.contains(&name) {
                    here.push(name);
                }
            }
        }
    }
    members.insert("type".to_owned(), Value::from("object"));
    if !members.get("properties").is_some_and(Value::is_object) {
        members.insert("properties".to_owned(), json!({}));
    }
    for word in ["enum", "const", "not", "if", "then", "else"] {
        members.remove(word);
    }
}

struct Walk {
    dialect: Dialect,
    notes: Vec<String>,
    /// Required parameters at the top that can't be shown.
    lost: Vec<String>,
    with_texts: bool,
}

impl Walk {
    fn schema(&mut self, value: &Value, depth: usize) -> Value {
        let Value::Object(members) = value else { return self.anything() };
        let mut out = Map::new();
        for (key, value) in members {
            if let Some(value) = self.member(key, value, depth) {
                out.insert(key.clone(), value);
            }
        }
        self.settle(&mut out, depth);
        if self.dialect == Dialect::Gemini {
            for_gemini(&mut out);
        }
        Value::Object(out)
    }

    fn anything(&self) -> Value {
        if self.dialect == Dialect::Gemini { json!({"type": "string"}) } else { json!({}) }
    }

    fn member(&mut self, key: &str, value: &Value, depth: usize) -> Option<Value> {
        if FRAME.contains(&key) || key.starts_with("x-") {
            return None;
        }
        match key {
            "description" | "title" => {
                let text = value.as_str().filter(|_| self.with_texts)?;
                Some(Value::from(clean(&shortened(text, TEXT_MAX))))
            }
            "properties" | "patternProperties" | "dependentSchemas" => {
                let Value::Object(members) = value else { return Some(json!({})) };
                let inner: Map<String, Value> = members
                    .iter()
                    .filter(|(name, _)| key != "properties" || self.takes(name))
                    .map(|(name, value)| (name.clone(), value))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|(name, value)| (name, self.schema(value, depth + 1)))
                    .collect();
                if inner.len() < members.len() {
                    self.notes
                        .push("parameters whose names the model's endpoint refuses are not shown".to_owned());
                }
                Some(Value::Object(inner))
            }
            // A list of schemas by place: what each place wants is left to the server.
            "items" | "additionalItems" if value.is_array() || value.is_boolean() => Some(self.anything()),
            "additionalProperties" | "unevaluatedProperties" if value.is_boolean() => Some(value.clone()),
            "items"
            | "additionalProperties"
            | "contains"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "additionalItems" => Some(self.schema(value, depth + 1)),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                let parts: Vec<Value> =
                    value.as_array()?.iter().map(|part| self.schema(part, depth + 1)).collect();
                (!parts.is_empty()).then_some(Value::Array(parts))
            }
            "type" => Some(value.clone()).filter(|value| value.is_string() || value.is_array()),
            "required" => Some(value.clone()).filter(Value::is_array),
            "enum" => {
                let kept: Vec<Value> =
                    value.as_array()?.iter().filter(|one| is_clean(one)).cloned().collect();
                (!kept.is_empty()).then_some(Value::Array(kept))
            }
            _ => Some(value.clone()).filter(is_clean),
        }
    }

    /// Whether the endpoint takes a parameter of that name, and it hides nothing.
    fn takes(&self, name: &str) -> bool {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        let refused = self.dialect == Dialect::Anthropic && !(plain && name.len() <= KEY_LEN_MAX);
        !refused && !name.is_empty() && is_clean(&Value::from(name))
    }

    /// What endpoints want to be said.
    fn settle(&mut self, out: &mut Map<String, Value>, depth: usize) {
        let composed = ["anyOf", "oneOf", "allOf"].iter().any(|word| out.contains_key(*word));
        if !out.contains_key("type") && !composed {
            let texts = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
            let inferred = if out.contains_key("properties") {
                Some("object")
            } else if out.contains_key("items") {
                Some("array")
            } else if out.get("enum").is_some_and(texts) || out.get("const").is_some_and(Value::is_string) {
                Some("string")
            } else {
                None
            };
            if let Some(inferred) = inferred {
                out.insert("type".to_owned(), Value::from(inferred));
            }
        }
        if out.get("type") == Some(&Value::from("array")) && !out.contains_key("items") {
            out.insert("items".to_owned(), self.anything());
        }
        let Some(Value::Array(required)) = out.remove("required") else { return };
        let known = out.get("properties").and_then(Value::as_object);
        let (kept, gone): (Vec<Value>, Vec<Value>) =
            required.into_iter().filter(Value::is_string).partition(|name| {
                known.is_some_and(|known| known.contains_key(name.as_str().unwrap_or_default()))
            });
        if depth == 0 {
            let refused = gone.iter().filter_map(Value::as_str).filter(|name| !self.takes(name));
            let refused: Vec<String> = refused.map(str::to_owned).collect();
            self.lost.extend(refused);
        }
        if !kept.is_empty() {
            out.insert("required".to_owned(), Value::Array(kept));
        }
    }
}

/// Gemini knows a part of JSON Schema, and types that can be nothing as a mark of their own.
fn for_gemini(out: &mut Map<String, Value>) {
    if let Some(parts) = out.remove("oneOf").or_else(|| out.remove("allOf")) {
        out.entry("anyOf").or_insert(parts);
    }
    if let Some(only) = out.remove("const").filter(Value::is_string) {
        out.insert("enum".to_owned(), json!([only]));
    }
    if let Some(Value::Array(types)) = out.get("type").cloned() {
        let some = types.iter().find(|one| **one != "null").cloned().unwrap_or_else(|| Value::from("string"));
        if types.iter().any(|one| *one == "null") {
            out.insert("nullable".to_owned(), Value::from(true));
        }
        out.insert("type".to_owned(), some);
    }
    if out.get("enum").and_then(Value::as_array).is_some_and(|all| !all.iter().all(Value::is_string)) {
        out.remove("enum");
    }
    let known = matches!(
        out.get("format").and_then(Value::as_str),
        Some("enum" | "date-time" | "int32" | "int64" | "float" | "double")
    );
    if !known {
        out.remove("format");
    }
    if !out.contains_key("type") && !out.contains_key("anyOf") {
        out.insert("type".to_owned(), Value::from("string"));
    }
    if out.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty) {
        out.remove("properties");
    }
    out.retain(|key, _| GEMINI.contains(&key.as_str()));
}

fn clean(text: &str) -> String {
    sanitise(&visible(text).0).0.into_owned()
}

/// Whether nothing in a value would be changed by sanitising: a changed one would not be what the server
/// knows.
fn is_clean(value: &Value) -> bool {
    match value {
        Value::String(text) => clean(text) == *text,
        Value::Array(items) => items.iter().all(is_clean),
        Value::Object(members) => members.iter().all(|(key, value)| clean(key) == *key && is_clean(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The value as JSON with its keys in order.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (nth, (key, value)) in sorted.into_iter().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (nth, item) in items.iter().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests;
