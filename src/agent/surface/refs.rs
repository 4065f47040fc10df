//! References within a schema are put in place, because not every endpoint follows them. Those that lead back
//! to where they came from, or out of the schema, become "anything". Pure; bounded.

use serde_json::{Map, Value};

/// Deepest nesting that is followed.
pub(super) const DEPTH_MAX: usize = 32;
/// Most values that one schema may come to.
const NODES_MAX: usize = 20_000;

/// Puts references in place.
pub(super) struct Inliner<'a> {
    root: &'a Value,
    /// References that are being followed.
    open: Vec<&'a str>,
    left: usize,
    /// Something could not be put in place.
    pub(super) gave_up: bool,
}

impl<'a> Inliner<'a> {
    /// For the references of this schema.
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, open: Vec::new(), left: NODES_MAX, gave_up: false }
    }

    /// The value with all references in place.
    pub(super) fn inline(&mut self, value: &'a Value, depth: usize) -> Value {
        if self.left == 0 || depth > DEPTH_MAX {
            self.gave_up = true;
            return Value::Object(Map::new());
        }
        self.left -= 1;
        match value {
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.inline(item, depth + 1)).collect())
            }
            Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.follow(reference, members, depth),
                None => Value::Object(self.members(members, depth)),
            },
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &'a Map<String, Value>, depth: usize) -> Map<String, Value> {
        let inner =
            members.iter().filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions" | "$ref"));
        inner.map(|(key, value)| (key.clone(), self.inline(value, depth + 1))).collect()
    }

    fn follow(&mut self, reference: &'a str, beside: &'a Map<String, Value>, depth: usize) -> Value {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(&decoded(pointer)));
        let (Some(target), false) = (target, self.open.contains(&reference)) else {
            self.gave_up = true;
            return Value::Object(self.members(beside, depth));
        };
        self.open.push(reference);
        let found = self.inline(target, depth + 1);
        self.open.pop();
        let mut all = match found {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        // What stands beside a reference says more than its target.
        all.extend(self.members(beside, depth));
        Value::Object(all)
    }
}

/// A pointer in a fragment may hold percent-encoded characters.
fn decoded(pointer: &str) -> String {
    let bytes = pointer.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
