//! Walks over JSON Schemas before they are compiled: mends slips that would make a
//! whole schema useless, refuses what is too large, refers outside or circles, and
//! reckons what one check would cost. Schemas come from servers: nothing here may
//! take more than bounded time or stack. Called by `schema`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Nested subschemas.
pub const DEPTH_MAX: usize = 32;
/// Subschemas in all.
pub const SUBSCHEMAS_MAX: usize = 2048;
/// Keywords such as `$ref` and `allOf` that lead from schema to schema on one value, in a row.
const IN_PLACE_DEPTH_MAX: usize = 16;
/// Deepest arguments that are checked.
pub const VALUE_DEPTH_MAX: usize = 64;
/// Pairs of schema and value that one check may visit, counted with repetition; reckoned beforehand.
pub const COST_MAX: u64 = 500_000;
/// Distinct pairs that the reckoning itself may look at.
const PAIRS_MAX: usize = 100_000;

/// Keywords whose value is one schema that applies to parts of the value.
const CHILD: [&str; 8] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords whose value is one schema that applies to the same value.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of schemas that apply to the same value.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value is a map of schemas.
const MAP: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords that name another schema for the same value.
const REFERENCE: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Mends a schema: unknown dialects have been removed before. Drops members that are null where a
/// null means nothing, a `required` that is no list (draft-03 has a boolean), and widens `type` where
/// `nullable: true` says so.
/// The error says which limit it passes. Returns how many slips were mended.
pub(super) fn mend(schema: &mut Value) -> Result<usize, String> {
    let mut walk = Mend { subschemas: 0, mended: 0 };
    walk.schema(schema, 0)?;
    Ok(walk.mended)
}

struct Mend {
    subschemas: usize,
    mended: usize,
}

impl Mend {
    fn schema(&mut self, schema: &mut Value, depth: usize) -> Result<(), String> {
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(format!("it has more than {SUBSCHEMAS_MAX} subschemas"));
        }
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} schemas"));
        }
        let Some(fields) = schema.as_object_mut() else { return Ok(()) };
        if depth > 0
            && ["$id", "id"]
                .iter()
                .any(|k| fields.get(*k).is_some_and(|v| v.as_str().is_some_and(|v| !v.starts_with('#'))))
        {
            return Err("it embeds schemas with an `$id` of their own".to_owned());
        }
        let before = fields.len();
        fields.retain(|key, value| {
            let empty = value.is_null() && !matches!(key.as_str(), "const" | "default" | "example");
            let misplaced = match key.as_str() {
                "required" => !value.is_array(),
                "$schema" => depth > 0 && value.is_string(),
                map if MAP.contains(&map) => !value.is_object(),
                _ => false,
            };
            !empty && !misplaced
        });
        self.mended += before - fields.len();
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            self.mended += usize::from(widen(fields));
        }
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                (k, Value::Array(list)) if SAME_LIST.contains(&k) || k == "prefixItems" || k == "items" => {
                    list.iter_mut().try_for_each(|inner| self.schema(inner, depth + 1))?;
                }
                (k, Value::Object(map)) if MAP.contains(&k) => {
                    map.values_mut().try_for_each(|inner| self.schema(inner, depth + 1))?;
                }
                (k, value @ Value::Object(_)) if CHILD.contains(&k) || SAME.contains(&k) => {
                    self.schema(value, depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Lets null in where OpenAPI's `nullable` says so.
fn widen(fields: &mut serde_json::Map<String, Value>) -> bool {
    if let Some(Value::Array(options)) = fields.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    match fields.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            *kind = Value::Array(vec![kind.take(), "null".into()]);
            true
        }
        _ => false,
    }
}

/// The references of a mended schema, resolved; kept for `cost`.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    targets: HashMap<String, Vec<String>>,
    /// Whether any schema leads to another for the same value: else every check is linear.
    branches: bool,
}

impl References {
    fn nodes<'a>(&self, root: &'a Value, reference: &str) -> impl Iterator<Item = &'a Value> {
        let pointers = self.targets.get(reference).map(Vec::as_slice).unwrap_or_default();
        pointers.iter().filter_map(|pointer| root.pointer(pointer))
    }
}

/// Resolves every `$ref`. The error names one that leads outside, to nothing, or back to itself
/// without going into the value.
pub(super) fn references(root: &Value) -> Result<References, String> {
    let mut anchors: HashMap<String, Vec<String>> = HashMap::new();
    let mut out = References::default();
    let mut open = vec![String::new()];
    let mut seen = HashSet::new();
    let mut wanted = Vec::new();
    let own = root.get("$id").or_else(|| root.get("id")).and_then(Value::as_str).unwrap_or_default();
    let own = own.trim_end_matches('#').to_owned();
    loop {
        while let Some(at) = open.pop() {
            let Some(node) = root.pointer(&at) else { continue };
            if !seen.insert(at.clone()) {
                continue;
            }
            if seen.len() > SUBSCHEMAS_MAX {
                return Err(format!("it has more than {SUBSCHEMAS_MAX} subschemas"));
            }
            for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                if let Some(name) = node.get(key).and_then(Value::as_str) {
                    anchors.entry(name.trim_start_matches('#').to_owned()).or_default().push(at.clone());
                }
            }
            let refs = REFERENCE.iter().filter_map(|key| node.get(*key)?.as_str());
            wanted.extend(refs.map(str::to_owned));
            out.branches |= same(node).next().is_some();
            open.extend(inner(node).map(|(path, _)| format!("{at}{path}")));
        }
        let Some(reference) = wanted.pop() else { break };
        out.branches = true;
        if out.targets.contains_key(&reference) || is_metaschema(&reference) {
            continue;
        }
        let local =
            reference.strip_prefix(own.as_str()).filter(|rest| rest.starts_with('#')).unwrap_or(&reference);
        let Some(fragment) = local.strip_prefix('#') else {
            return Err(format!("`$ref` {:?} leads outside, and nothing is fetched", short(&reference)));
        };
        let found: Vec<String> = match fragment {
            "" => vec![String::new()],
            pointer if pointer.starts_with('/') => vec![decoded(pointer)],
            // Anchors that are defined further on are found in a second round.
            anchor => anchors.get(anchor).cloned().unwrap_or_default(),
        };
        if !found.iter().any(|pointer| root.pointer(pointer).is_some()) {
            return Err(format!("`$ref` {:?} leads to nothing", short(&reference)));
        }
        open.extend(found.iter().cloned());
        out.targets.insert(reference, found);
    }
    let mut depths = HashMap::new();
    for at in &seen {
        if let Some(node) = root.pointer(at) {
            in_place_depth(root, &out, node, &mut depths, 0)?;
        }
    }
    Ok(out)
}

fn short(text: &str) -> &str {
    super::json::cut(text, 80)
}

/// The drafts' own schemas are built in and go into the value at every step.
fn is_metaschema(reference: &str) -> bool {
    let uri = reference.trim_end_matches('#');
    !uri.is_empty() && jsonschema::Draft::from_schema_uri(uri) != jsonschema::Draft::Unknown
}

/// A JSON pointer in a fragment: percent escapes resolved.
pub(super) fn decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All direct subschemas of a schema with their pointers.
fn inner(node: &Value) -> impl Iterator<Item = (String, &Value)> {
    let fields = node.as_object().into_iter().flatten();
    fields.flat_map(|(key, value)| -> Vec<(String, &Value)> {
        let k = key.as_str();
        match value {
            Value::Array(list) if SAME_LIST.contains(&k) || k == "prefixItems" || k == "items" => {
                list.iter().enumerate().map(|(i, inner)| (format!("/{key}/{i}"), inner)).collect()
            }
            Value::Object(map) if MAP.contains(&k) => map
                .iter()
                .map(|(name, inner)| {
                    (format!("/{key}/{}", name.replace('~', "~0").replace('/', "~1")), inner)
                })
                .collect(),
            Value::Object(_) if CHILD.contains(&k) || SAME.contains(&k) => vec![(format!("/{key}"), value)],
            _ => Vec::new(),
        }
    })
}

/// Subschemas that apply to the same value, without references.
fn same(node: &Value) -> impl Iterator<Item = &Value> {
    let one = SAME.iter().filter_map(|key| node.get(*key));
    let lists = SAME_LIST.iter().filter_map(|key| node.get(*key)?.as_array()).flatten();
    let maps =
        ["dependentSchemas", "dependencies"].iter().filter_map(|key| node.get(*key)?.as_object()).flatten();
    one.chain(lists).chain(maps.map(|(_, inner)| inner).filter(|inner| inner.is_object()))
}

fn named(node: &Value) -> impl Iterator<Item = &str> {
    REFERENCE.iter().filter_map(|key| node.get(*key)?.as_str())
}

/// Longest chain of schemas for one value that begins here; an error for a circle.
fn in_place_depth(
    root: &Value,
    references: &References,
    node: &Value,
    known: &mut HashMap<*const Value, usize>,
    above: usize,
) -> Result<usize, String> {
    if let Some(depth) = known.get(&std::ptr::from_ref(node)) {
        return Ok(*depth);
    }
    // A circle without going into the value is an endless chain.
    if above > IN_PLACE_DEPTH_MAX {
        return Err(format!(
            "more than {IN_PLACE_DEPTH_MAX} schemas in a row refer to each other for one value"
        ));
    }
    let targets = named(node).flat_map(|reference| references.nodes(root, reference));
    let mut depth = 0;
    for next in same(node).chain(targets) {
        depth = depth.max(1 + in_place_depth(root, references, next, known, above + 1)?);
    }
    if above + depth > IN_PLACE_DEPTH_MAX {
        return Err(format!("more than {IN_PLACE_DEPTH_MAX} schemas in a row apply to one value"));
    }
    known.insert(std::ptr::from_ref(node), depth);
    Ok(depth)
}

/// Whether a check of `value` stays within its bounds of depth and work.
pub(super) fn is_affordable(root: &Value, references: &References, value: &Value) -> bool {
    if depth_of(value) > VALUE_DEPTH_MAX {
        return false;
    }
    if !references.branches {
        return true;
    }
    let mut costs = Costs { root, references, known: HashMap::new() };
    costs.of(root, value).is_some_and(|cost| cost <= COST_MAX)
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

struct Costs<'a> {
    root: &'a Value,
    references: &'a References,
    known: HashMap<(*const Value, *const Value), u64>,
}

impl Costs<'_> {
    /// How many pairs of schema and value a check visits, at most; `None` when that is too long to reckon.
    fn of(&mut self, schema: &Value, value: &Value) -> Option<u64> {
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(cost) = self.known.get(&pair) {
            return Some(*cost);
        }
        let mut cost = 1u64;
        for next in same(schema) {
            cost = cost.saturating_add(self.of(next, value)?);
        }
        for reference in named(schema) {
            let (root, references) = (self.root, self.references);
            for next in references.nodes(root, reference) {
                cost = cost.saturating_add(self.of(next, value)?);
            }
        }
        match value {
            Value::Object(map) => {
                for (name, part) in map {
                    cost = cost.saturating_add(self.of_member(schema, name, part)?);
                }
            }
            Value::Array(list) => {
                for (i, part) in list.iter().enumerate() {
                    cost = cost.saturating_add(self.of_element(schema, i, part)?);
                }
            }
            _ => {}
        }
        if self.known.len() >= PAIRS_MAX {
            return None;
        }
        self.known.insert(pair, cost);
        Some(cost)
    }

    fn of_member(&mut self, schema: &Value, name: &str, part: &Value) -> Option<u64> {
        let by_name = schema.get("properties").and_then(|p| p.get(name));
        let by_pattern =
            schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten().map(|(_, s)| s);
        let others =
            ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|key| schema.get(*key));
        let mut cost = 1u64;
        for next in by_name.into_iter().chain(by_pattern).chain(others) {
            cost = cost.saturating_add(self.of(next, part)?);
        }
        Some(cost)
    }

    fn of_element(&mut self, schema: &Value, index: usize, part: &Value) -> Option<u64> {
        let by_place = ["prefixItems", "items"].iter().filter_map(|key| schema.get(*key)?.get(index));
        let all = ["items", "additionalItems", "contains", "unevaluatedItems"]
            .iter()
            .filter_map(|key| schema.get(*key));
        let mut cost = 1u64;
        for next in by_place.chain(all.filter(|s| s.is_object())) {
            cost = cost.saturating_add(self.of(next, part)?);
        }
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mended(mut schema: Value) -> Value {
        mend(&mut schema).unwrap();
        schema
    }

    #[test]
    fn slips_are_mended_in_schemas_and_data_is_left_alone() {
        let schema = mended(json!({
            "properties": {"a": {"type": "string", "required": true, "enum": null}, "required": {"type": null, "const": null}},
            "required": null,
            "default": {"required": null},
            "items": [{"minimum": null}],
        }));
        assert_eq!(
            schema,
            json!({
                "properties": {"a": {"type": "string"}, "required": {"const": null}},
                "default": {"required": null},
                "items": [{}],
            })
        );
        let nullable =
            mended(json!({"properties": {"a": {"type": "string", "nullable": true, "enum": ["x"]}}}));
        assert_eq!(nullable["properties"]["a"]["type"], json!(["string", "null"]));
        assert_eq!(nullable["properties"]["a"]["enum"], json!(["x", null]));
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"items": inner}))
    }

    #[test]
    fn limits_of_size_hold_at_one_below_at_and_one_above() {
        for (depth, fine) in [(31, true), (32, true), (33, false)] {
            assert_eq!(mend(&mut nested(depth)).is_ok(), fine, "{depth}");
        }
        for (count, fine) in [(2046, true), (2047, true), (2048, false)] {
            let all: Vec<_> = (0..count).map(|_| json!({})).collect();
            assert_eq!(mend(&mut json!({"allOf": all})).is_ok(), fine, "{count}");
        }
        let chain = |n: usize| {
            let defs: serde_json::Map<_, _> =
                (0..n).map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}))).collect();
            let mut schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
            schema["$defs"][format!("d{n}")] = json!({});
            schema
        };
        for (links, fine) in [(14, true), (15, true), (16, false)] {
            assert_eq!(references(&chain(links)).is_ok(), fine, "{links}");
        }
    }

    #[test]
    fn references_that_leave_or_circle_are_refused_by_name() {
        for (schema, part) in [
            (json!({"$ref": "http://127.0.0.1/x"}), "outside"),
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "outside"),
            (json!({"$ref": "other.json#/a"}), "outside"),
            (json!({"$ref": "#/nowhere"}), "nothing"),
            (json!({"$ref": "#anchor"}), "nothing"),
            (json!({"$ref": "#"}), "in a row"),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}}),
                "in a row",
            ),
            (
                json!({"x": {"properties": {"a": {"$ref": "#/x/properties/a"}}}, "items": {"$ref": "#/x"}}),
                "in a row",
            ),
        ] {
            let reason = references(&schema).unwrap_err();
            assert!(reason.contains(part), "{schema}: {reason}");
        }
    }

    #[test]
    fn references_inside_are_fine_in_every_spelling() {
        for schema in [
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"$ref": "#/definitions/a~1b%25", "definitions": {"a/b%": {}}}),
            json!({"$id": "http://x/s", "$ref": "http://x/s#/$defs/a", "$defs": {"a": {}}}),
            json!({"$defs": {"a": {"$anchor": "here"}}, "items": {"$ref": "#here"}}),
            json!({"$recursiveRef": "#", "x": 1})
                .get("none")
                .cloned()
                .unwrap_or(json!({"items": {"$recursiveRef": "#"}})),
            json!({"properties": {"schema": {"$ref": "http://json-schema.org/draft-07/schema#"}}}),
        ] {
            assert!(references(&schema).is_ok(), "{schema}: {:?}", references(&schema));
        }
    }

    #[test]
    fn cost_counts_every_visit_and_stops_bombs() {
        let double = |i: usize, n: usize| {
            if i == n {
                json!({})
            } else {
                json!({"allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}, {"$ref": format!("#/$defs/d{}", i + 1)}]})
            }
        };
        let defs: serde_json::Map<_, _> = (0..=7).map(|i| (format!("d{i}"), double(i, 7))).collect();
        let small = json!({"$ref": "#/$defs/d0", "$defs": defs});
        let refs = references(&small).unwrap();
        assert!(is_affordable(&small, &refs, &json!({"a": 1})));
        // Doubling on every level of the value: linear in place, a bomb in depth.
        let bomb =
            json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        let refs = references(&bomb).unwrap();
        let value = |n: usize| (0..n).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(is_affordable(&bomb, &refs, &value(8)));
        assert!(!is_affordable(&bomb, &refs, &value(40)));
    }

    #[test]
    fn deep_values_are_not_checked() {
        let refs = References::default();
        for (depth, fine) in [(63, true), (64, true), (65, false)] {
            let value = (0..depth).fold(json!(1), |inner, _| json!([inner]));
            assert_eq!(is_affordable(&json!({}), &refs, &value), fine, "{depth}");
        }
    }
}
