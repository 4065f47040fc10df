//! The schema of a tool's arguments, compiled once and enforced before a call is sent:
//! JSON Schema 2020-12 and draft-07, older drafts where their `$schema` says so. A schema
//! that can't be compiled, refers outside or is too costly means no local check, never a
//! refused call. Nothing is ever fetched. Called by the edges in the caller's own task.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::items::limits;
use super::schema_walk::{self, References};
use super::violation::{Violation, explain, kind_of};

/// Steps that one pattern may take on one text.
const BACKTRACK_MAX: usize = 100_000;
/// Size of one compiled pattern, in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;
/// Schemas that the cache holds.
const CACHE_ENTRIES_MAX: usize = 1024;
/// Bytes of schema text that the cache holds.
const CACHE_BYTES_MAX: usize = 32 << 20;

/// A schema that is ready to check arguments.
pub struct CompiledSchema {
    schema: Value,
    references: References,
    validator: Validator,
    /// Any object fits.
    is_open: bool,
    /// What was odd about it: an unknown dialect, slips that were mended.
    pub warnings: Vec<String>,
}

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledSchema").field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

impl CompiledSchema {
    /// Compiles the bytes of an `inputSchema`. The error says why there is no local check.
    pub fn compile(raw: &[u8]) -> Result<Self, String> {
        if raw.len() > limits::SCHEMA_LEN_MAX {
            return Err(format!("it has {} bytes, more than {}", raw.len(), limits::SCHEMA_LEN_MAX));
        }
        let mut schema: Value = serde_json::from_slice(raw).map_err(|e| format!("it can't be read: {e}"))?;
        let mut warnings = Vec::new();
        let declared = dialect(&mut schema, &mut warnings);
        if schema_walk::mend(&mut schema)? > 0 {
            warnings.push("slips in the schema were mended for the check".to_owned());
        }
        let references = schema_walk::references(&schema)?;
        // Without a word about the dialect, a schema that only an older draft allows is taken as that.
        let drafts: &[Draft] = match &declared {
            Some(draft) => std::slice::from_ref(draft),
            None => &[Draft::Draft202012, Draft::Draft7, Draft::Draft4],
        };
        let mut first_error = None;
        for draft in drafts {
            match build(&schema, *draft) {
                Ok(validator) => {
                    let is_open = is_open(&schema);
                    return Ok(Self { schema, references, validator, is_open, warnings });
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| "no dialect fits".to_owned()))
    }

    /// Checks arguments; at most eight violations are told. Arguments too deep or too costly to
    /// check pass: the server decides.
    pub fn validate(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        if !arguments.is_object() {
            return Err(vec![not_an_object(arguments)]);
        }
        if !schema_walk::is_affordable(&self.schema, &self.references, arguments)
            || self.validator.is_valid(arguments)
        {
            return Ok(());
        }
        let found = explain(&self.schema, self.validator.iter_errors(arguments));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// The schema as it is checked.
    pub fn as_value(&self) -> &Value {
        &self.schema
    }
}

/// Whether a schema says no more than that there must be an object.
fn is_open(schema: &Value) -> bool {
    let says_nothing = |(key, value): (&String, &Value)| match key.as_str() {
        "type" => value == "object",
        "title" | "description" | "$comment" => true,
        "properties" => value.as_object().is_some_and(serde_json::Map::is_empty),
        "additionalProperties" => value == true,
        "required" => value.as_array().is_some_and(Vec::is_empty),
        _ => false,
    };
    schema.as_object().is_some_and(|schema| schema.iter().all(says_nothing))
}

fn not_an_object(arguments: &Value) -> Violation {
    Violation::of_all(format!("must be an object, got {}", kind_of(arguments)))
}

/// Checks raw `arguments` as they came: absent means `{}`; null, an array or text are
/// refused. Without a schema any object passes. What can't be represented here (numbers
/// beyond all bounds, lone surrogates) passes: the server decides.
pub fn check(schema: Option<&CompiledSchema>, arguments: Option<&[u8]>) -> Result<(), Vec<Violation>> {
    let arguments = arguments.unwrap_or(b"{}");
    // An object that is well-formed, as all is that came here, is all that is asked for.
    if arguments.starts_with(b"{") && schema.is_none_or(|schema| schema.is_open) {
        return Ok(());
    }
    let Ok(value) = serde_json::from_slice::<Value>(arguments) else { return Ok(()) };
    match schema {
        Some(schema) => schema.validate(&value),
        None if value.is_object() => Ok(()),
        None => Err(vec![not_an_object(&value)]),
    }
}

/// Takes `$schema` out and says which draft it names; an unknown one is a warning.
fn dialect(schema: &mut Value, warnings: &mut Vec<String>) -> Option<Draft> {
    let named = schema.as_object_mut()?.shift_remove("$schema")?;
    let known = named.as_str().map(Draft::from_schema_uri).filter(|draft| *draft != Draft::Unknown);
    if known.is_none() {
        warnings.push("`$schema` names an unknown dialect: taken as 2020-12".to_owned());
    }
    known
}

fn build(schema: &Value, draft: Draft) -> Result<Validator, String> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_MAX)
        .size_limit(PATTERN_SIZE_MAX)
        .dfa_size_limit(PATTERN_SIZE_MAX);
    jsonschema::options()
        .offline()
        .with_draft(draft)
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| {
            let at = error.instance_path().as_str();
            let place = if at.is_empty() { String::new() } else { format!(" at {at}") };
            format!("it does not compile{place}: `{}` is not as it must be", error.kind().keyword())
        })
}

/// Compiled schemas by their bytes: each distinct one is compiled once. Bounded; the oldest go first.
#[derive(Debug, Default)]
pub struct SchemaCache {
    known: HashMap<Box<[u8]>, Arc<Result<CompiledSchema, String>>>,
    order: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl SchemaCache {
    /// The compiled form of these bytes, or why there is none.
    pub fn get(&mut self, raw: &[u8]) -> Arc<Result<CompiledSchema, String>> {
        if let Some(found) = self.known.get(raw) {
            return Arc::clone(found);
        }
        let compiled = Arc::new(CompiledSchema::compile(raw));
        if raw.len() > limits::SCHEMA_LEN_MAX {
            return compiled;
        }
        while self.known.len() >= CACHE_ENTRIES_MAX || self.bytes + raw.len() > CACHE_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.len();
            self.known.remove(&oldest);
        }
        let key: Box<[u8]> = raw.into();
        self.bytes += key.len();
        self.order.push_back(key.clone());
        self.known.insert(key, Arc::clone(&compiled));
        compiled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::catalog::violation::VIOLATIONS_MAX;

    fn compile(schema: &Value) -> CompiledSchema {
        CompiledSchema::compile(schema.to_string().as_bytes()).unwrap()
    }

    fn told(schema: &Value, arguments: &Value) -> Vec<String> {
        match compile(schema).validate(arguments) {
            Ok(()) => Vec::new(),
            Err(violations) => violations.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn every_message_names_the_path_and_what_to_do() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 2},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
            },
            "required": ["city"],
            "additionalProperties": false,
        });
        for (arguments, want) in [
            (json!({}), "city: is missing (string)"),
            (json!({"citty": "Rome"}), "city: is missing (string); \"citty\" was given instead"),
            (json!({"city": "Rome", "days": "3"}), "days: must be an integer, got text \"3\""),
            (json!({"city": "Rome", "days": 0}), "days: must be at least 1, got an integer 0"),
            (json!({"city": "Rome", "days": 9}), "days: must be at most 7, got an integer 9"),
            (
                json!({"city": "Rome", "unit": "celcius"}),
                "unit: must be one of \"celsius\", \"fahrenheit\", got text \"celcius\"; did you mean \"celsius\"?",
            ),
            (json!({"city": "Rome", "dayz": 3}), "dayz: is unknown; did you mean \"days\"?"),
            (
                json!({"city": "Rome", "q q": 3}),
                "[\"q q\"]: is unknown; known: city, days, unit, tags, where",
            ),
            (json!({"city": "R"}), "city: must have at least 2 characters"),
            (json!({"city": "Rome", "tags": ["a", 1]}), "tags[1]: must be text (string), got an integer 1"),
            (json!({"city": "Rome", "tags": ["a", "b", "c"]}), "tags: must have at most 2 items, got 3"),
            (json!({"city": "Rome", "where": {}}), "where.lat: is missing (number)"),
            (json!({"city": "Rome", "where": null}), "where: must be an object, got null"),
        ] {
            let found = told(&schema, &arguments);
            assert!(found.iter().any(|message| message == want), "{arguments}: {found:?}");
        }
        assert_eq!(
            told(
                &schema,
                &json!({"city": "Rome", "days": 3, "unit": "celsius", "tags": [], "where": {"lat": 1}})
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn alternatives_are_explained_by_the_form_that_was_meant() {
        let schema = json!({"properties": {
            "id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "op": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "move"}, "to": {"type": "string"}}, "required": ["kind", "to"]},
                {"type": "object", "properties": {"kind": {"const": "drop"}}, "required": ["kind"]},
            ]},
            "list": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        }});
        assert_eq!(told(&schema, &json!({"id": 3})), ["id: must be text (string) or null, got an integer 3"]);
        assert_eq!(told(&schema, &json!({"op": {"kind": "move"}})), ["op.to: is missing (string)"]);
        assert_eq!(told(&schema, &json!({"list": ["x"]})), ["list[0]: must be an integer, got text \"x\""]);
        let kinds = told(&schema, &json!({"op": {"kind": "copy"}}));
        assert!(
            kinds[0].starts_with("op.kind: must be \"drop\", got text \"copy\" (in the nearest of 2 forms)"),
            "{kinds:?}"
        );
    }

    #[test]
    fn secrets_are_never_repeated() {
        let schema = json!({"properties": {
            "api_key": {"type": "integer"}, "auth": {"properties": {"user": {"enum": ["a"]}}},
            "accessToken": {"pattern": "^x"}, "nextPageToken": {"type": "integer"}, "max_tokens": {"type": "integer"},
        }});
        for (arguments, hidden) in [
            (json!({"api_key": "canary"}), true),
            (json!({"auth": {"user": "canary"}}), true),
            (json!({"accessToken": "canary"}), true),
            (json!({"nextPageToken": "canary"}), false),
            (json!({"max_tokens": "canary"}), false),
        ] {
            let found = told(&schema, &arguments).join(" ");
            assert!(!found.is_empty());
            assert_eq!(!found.contains("canary"), hidden, "{found}");
        }
        let long = "x".repeat(5000);
        assert!(told(&json!({"properties": {"a": {"type": "integer"}}}), &json!({"a": long}))[0].len() < 120);
    }

    #[test]
    fn at_most_eight_violations_are_told() {
        let schema = json!({"additionalProperties": {"type": "integer"}});
        for (count, want) in [(7, 7), (8, 8), (9, 8), (5000, VIOLATIONS_MAX)] {
            let arguments: serde_json::Map<_, _> =
                (0..count).map(|i| (format!("k{i}"), json!("x"))).collect();
            assert_eq!(told(&schema, &arguments.into()).len(), want);
        }
        let unknown: serde_json::Map<_, _> = (0..100).map(|i| (format!("k{i}"), json!(1))).collect();
        let unknown = Value::from(unknown);
        assert_eq!(
            told(&json!({"properties": {"a": {}}, "additionalProperties": false}), &unknown).len(),
            VIOLATIONS_MAX
        );
        assert_eq!(told(&json!({"additionalProperties": false}), &unknown), ["arguments: takes no members"]);
    }

    #[test]
    fn any_or_no_dialect_is_accepted() {
        for schema in [
            json!({"properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "http://json-schema.org/draft-06/schema#", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": "urn:nonsense", "properties": {"n": {"type": "integer"}}}),
            json!({"$schema": 7, "properties": {"n": {"type": "integer", "$schema": "urn:inner"}}}),
        ] {
            let compiled = compile(&schema);
            assert_eq!(
                compiled.warnings.is_empty(),
                !schema.to_string().contains("urn:") && schema["$schema"] != 7,
                "{schema}"
            );
            assert!(compiled.validate(&json!({"n": 1})).is_ok());
            assert!(compiled.validate(&json!({"n": "1"})).is_err());
        }
    }

    #[test]
    fn each_dialect_has_its_own_rules() {
        let tuple = json!({"items": [{"type": "integer"}], "additionalItems": false});
        for schema in ["http://json-schema.org/draft-07/schema#", ""] {
            let mut all = json!({"properties": {"t": tuple}});
            if !schema.is_empty() {
                all["$schema"] = schema.into();
            }
            assert!(compile(&all).validate(&json!({"t": [1]})).is_ok());
            assert!(compile(&all).validate(&json!({"t": [1, 2]})).is_err(), "{schema}");
        }
        let new = json!({"properties": {"t": {"prefixItems": [{"type": "integer"}], "items": false}}, "dependentRequired": {"a": ["b"]}});
        assert!(compile(&new).validate(&json!({"t": [1, 2]})).is_err());
        assert!(compile(&new).validate(&json!({"a": 1})).is_err());
        let old = json!({"properties": {"n": {"minimum": 3, "exclusiveMinimum": true}}});
        assert!(compile(&old).validate(&json!({"n": 3})).is_err(), "draft-04 by its form");
    }

    #[test]
    fn schema_that_cannot_be_compiled_says_why() {
        for (schema, part) in [
            ("{", "read"),
            (r#"{"type":"objekt"}"#, "/type"),
            (r#"{"properties":{"a":{"pattern":"("}}}"#, "pattern"),
            (r#"{"$ref":"http://127.0.0.1:1/x"}"#, "outside"),
            (r##"{"properties":{"a":{"$ref":"#/x"}}}"##, "nothing"),
        ] {
            let reason = CompiledSchema::compile(schema.as_bytes()).unwrap_err();
            assert!(reason.contains(part), "{schema}: {reason}");
        }
        let meta = json!({"properties": {"s": {"$ref": "http://json-schema.org/draft-07/schema#"}}});
        assert!(compile(&meta).validate(&json!({"s": {"type": "string"}})).is_ok());
        assert!(compile(&meta).validate(&json!({"s": {"type": "strin"}})).is_err());
    }

    #[test]
    fn recursive_schemas_are_enforced_at_every_level() {
        let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {
            "type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }}});
        assert!(told(&tree, &json!({"kids": [{"v": 1, "kids": [{"v": 2}]}]})).is_empty());
        assert_eq!(
            told(&tree, &json!({"kids": [{"kids": [{"v": "x"}]}]})),
            ["kids[0].kids[0].v: must be an integer, got text \"x\""]
        );
    }

    #[test]
    fn bombs_are_refused_or_passed_on_and_never_run() {
        let double = |n: usize, wrap: fn(Value) -> Value| {
            let defs: serde_json::Map<_, _> = (0..n)
                .map(|i| (format!("d{i}"), wrap(json!({"$ref": format!("#/$defs/d{}", i + 1)}))))
                .chain([(format!("d{n}"), json!({"type": "object"}))])
                .collect();
            json!({"$ref": "#/$defs/d0", "$defs": defs})
        };
        let in_place = double(40, |next| json!({"allOf": [next, next]}));
        assert!(CompiledSchema::compile(in_place.to_string().as_bytes()).is_err());
        let wide: Vec<Value> = (0..20).map(|_| json!({"properties": {"a": {"$ref": "#"}}})).collect();
        let deep = (0..30).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(
            compile(&json!({"anyOf": wide, "required": ["b"]})).validate(&deep).is_ok(),
            "too costly: passed on"
        );
        let catastrophic = json!({"properties": {"s": {"pattern": "^(?=(a+)+$)(a+)+b$"}}});
        let text = "a".repeat(64);
        let _ = compile(&catastrophic).validate(&json!({"s": text}));
    }

    #[test]
    fn absent_arguments_are_an_empty_object_and_others_are_named() {
        let any = compile(&json!({"type": "object"}));
        for schema in [Some(&any), None] {
            assert!(check(schema, None).is_ok());
            assert!(check(schema, Some(b"{\"a\":1e999}")).is_ok(), "passed on");
            for raw in ["null", "[]", "\"x\"", "7"] {
                let found = check(schema, Some(raw.as_bytes())).unwrap_err();
                assert!(found[0].to_string().starts_with("arguments: must be an object, got "), "{found:?}");
            }
        }
        let needs = compile(&json!({"required": ["a"]}));
        assert_eq!(check(Some(&needs), None).unwrap_err()[0].path, "a");
    }

    #[test]
    fn big_integers_are_integers() {
        let schema = compile(&json!({"properties": {"id": {"type": "integer"}}}));
        for id in ["123456789012345678901234567890", "18446744073709551615", "-9223372036854775808", "1.0"] {
            let arguments = format!(r#"{{"id":{id}}}"#);
            assert!(check(Some(&schema), Some(arguments.as_bytes())).is_ok(), "{id}");
        }
        assert!(check(Some(&schema), Some(br#"{"id":1.5}"#)).is_err());
    }

    #[test]
    fn cache_compiles_each_schema_once_and_stays_bounded() {
        let mut cache = SchemaCache::default();
        let first = cache.get(br#"{"type":"object"}"#);
        assert!(Arc::ptr_eq(&first, &cache.get(br#"{"type":"object"}"#)));
        assert!(cache.get(b"{").is_err());
        for i in 0..CACHE_ENTRIES_MAX {
            let _ = cache.get(format!(r#"{{"title":"{i}"}}"#).as_bytes());
        }
        assert_eq!((cache.known.len(), cache.order.len()), (CACHE_ENTRIES_MAX, CACHE_ENTRIES_MAX));
        assert!(!Arc::ptr_eq(&first, &cache.get(br#"{"type":"object"}"#)), "the oldest went");
        assert_eq!(cache.bytes, cache.order.iter().map(|key| key.len()).sum::<usize>());
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!({})),
            Just(json!({"type": "string"})),
            Just(json!({"type": ["integer", "null"]})),
            Just(json!({"enum": [1, "a", null]})),
            Just(json!({"$ref": "#"})),
            Just(json!({"$ref": "#/properties/a"})),
            Just(json!({"minimum": 2, "required": null})),
            Just(json!({"pattern": "^a+$"})),
            Just(json!({"const": {"a": 1}})),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone())
                    .prop_map(|(a, b)| json!({"properties": {"a": a, "b": b}, "required": ["a"]})),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"anyOf": [a, b]})),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"allOf": [a], "not": b})),
                inner.clone().prop_map(|a| json!({"items": a, "additionalProperties": false})),
                inner.clone().prop_map(|a| json!({"oneOf": [a, {"type": "object"}]})),
                inner.prop_map(|a| json!({"if": a, "then": {"required": ["b"]}, "else": {"type": "array"}})),
            ]
        })
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(1)),
            Just(json!("a")),
            Just(json!(1.5)),
            Just(json!(true))
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                (inner.clone(), inner).prop_map(|(a, b)| json!({"a": a, "b": b})),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn any_schema_and_any_arguments_give_an_answer_with_words(schema in any_schema(), a in any_value(), b in any_value()) {
            let schema = json!({"properties": {"a": schema, "b": {"items": schema}}, "anyOf": [schema, {}]});
            if let Ok(compiled) = CompiledSchema::compile(schema.to_string().as_bytes())
                && let Err(violations) = compiled.validate(&json!({"a": a, "b": b}))
            {
                prop_assert!((1..=VIOLATIONS_MAX).contains(&violations.len()));
                prop_assert!(violations.iter().all(|v| !v.path.is_empty() && !v.message.is_empty()));
            }
        }
    }
}
