//! Floor 5. What real clients reject in a server's definitions, as data: each rule,
//! the clients, and what they do, with where that is known from. Pure. Used by `check`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::catalog::items::ItemList;

/// What a client does with a definition that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It rejects the whole list: no tool of the server is left.
    LosesAll,
    /// It shows the server as connected, with no tool.
    ShowsNone,
    /// The model's endpoint refuses every request that names the tool.
    CallsFail,
}

impl Effect {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LosesAll => "rejects_the_whole_list",
            Self::ShowsNone => "shows_no_tool",
            Self::CallsFail => "model_request_fails",
        }
    }

    /// In a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::LosesAll => "rejects the whole list",
            Self::ShowsNone => "shows the server without tools",
            Self::CallsFail => "fails every request to the model",
        }
    }
}

/// How it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Seen with that client and a server that has this one fault.
    Measured,
    /// Reported by users of that client.
    Reported,
}

impl Evidence {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Reported => "reported",
        }
    }
}

/// One client's reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reaction {
    /// The client and its version.
    pub client: &'static str,
    /// What it does.
    pub effect: Effect,
    /// How that is known.
    pub evidence: Evidence,
}

const fn loses(client: &'static str) -> Reaction {
    Reaction { client, effect: Effect::LosesAll, evidence: Evidence::Measured }
}

const fn hides(client: &'static str) -> Reaction {
    Reaction { client, effect: Effect::ShowsNone, evidence: Evidence::Measured }
}

const fn fails(client: &'static str) -> Reaction {
    Reaction { client, effect: Effect::CallsFail, evidence: Evidence::Reported }
}

const TS1: &str = "TypeScript SDK 1.32";
const TS2: &str = "TypeScript SDK 2.4";
const PY1: &str = "Python SDK 1.30";
const PY2: &str = "Python SDK 2.3";
const PORTER: &str = "mcporter 0.12";
const CLAUDE: &str = "Claude Code 2.1";
const MODELS: &str = "chat endpoints of models";

/// One thing that some client does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// What is wrong.
    pub title: &'static str,
    /// What the server's author should do.
    pub fix: &'static str,
    /// Who reacts how.
    pub reactions: &'static [Reaction],
}

/// All rules.
pub const RULES: [Rule; 12] = [
    Rule {
        id: "input_schema_missing",
        title: "the tool has no inputSchema",
        fix: "send {\"type\":\"object\"} for a tool without parameters",
        reactions: &[loses(TS1), loses(TS2), loses(PY1), loses(PY2), loses(PORTER)],
    },
    Rule {
        id: "input_schema_untyped",
        title: "inputSchema does not say \"type\": \"object\"",
        fix: "add \"type\": \"object\" to inputSchema",
        reactions: &[loses(TS1), loses(TS2), loses(PY2), loses(PORTER), hides(CLAUDE)],
    },
    Rule {
        id: "input_schema_combined_root",
        title: "inputSchema has oneOf, anyOf or allOf at its root",
        fix: "describe the alternatives inside a property, or make several tools",
        reactions: &[fails(CLAUDE), fails(MODELS)],
    },
    Rule {
        id: "output_schema_not_object",
        title: "outputSchema does not say \"type\": \"object\"",
        fix: "wrap the value in an object, or leave outputSchema out",
        reactions: &[loses(TS1), loses(TS2), loses(PY2), loses(PORTER)],
    },
    Rule {
        id: "hint_not_boolean",
        title: "a hint in annotations is not true or false",
        fix: "send hints as booleans, or leave them out",
        reactions: &[loses(TS1), loses(TS2), loses(PORTER), hides(CLAUDE)],
    },
    Rule {
        id: "boolean_property_schema",
        title: "the schema of a property is true or false",
        fix: "write {} in place of true, and leave a property out in place of false",
        reactions: &[loses(TS1), loses(PORTER)],
    },
    Rule {
        id: "required_not_list",
        title: "`required` is not a list of names",
        fix: "send a list, or leave `required` out",
        reactions: &[loses(TS1), loses(TS2), loses(PY2)],
    },
    Rule {
        id: "duplicate_name",
        title: "two tools have the same name",
        fix: "give every tool a name of its own",
        reactions: &[loses(PORTER)],
    },
    Rule {
        id: "next_cursor_null",
        title: "the list ends with nextCursor: null",
        fix: "leave nextCursor out on the last page",
        reactions: &[loses(TS1), loses(TS2), loses(PORTER), hides(CLAUDE)],
    },
    Rule {
        id: "name_characters",
        title: "the name has characters outside A-Z a-z 0-9 _ -",
        fix: "use letters, digits, `_` and `-` alone",
        reactions: &[fails(MODELS)],
    },
    Rule {
        id: "name_length",
        title: "the name has more than 64 characters",
        fix: "keep names short: clients put the server's name before it",
        reactions: &[fails(CLAUDE), fails(MODELS)],
    },
    Rule {
        id: "schema_dialect",
        title: "$schema names a dialect other than 2020-12 or draft-07",
        fix: "leave $schema out, or write https://json-schema.org/draft/2020-12/schema",
        reactions: &[fails(CLAUDE)],
    },
];

/// One rule broken by one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The tool, by its raw name.
    pub tool: String,
    /// The rule.
    pub rule: &'static Rule,
    /// Where in the definition, such as `inputSchema.properties.x`; may be empty.
    pub place: String,
}

/// All findings on definitions as a server sent them, in the order of tools and rules.
pub fn lint<'a>(definitions: impl IntoIterator<Item = &'a str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, raw) in definitions.into_iter().enumerate() {
        let Ok(tool) = serde_json::from_str::<Value>(raw) else { continue };
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let label = if name.is_empty() { format!("#{}", index + 1) } else { name.to_owned() };
        for rule in &RULES {
            if let Some(place) = broken(rule.id, &tool, name) {
                findings.push(Finding { tool: label.clone(), rule, place });
            }
        }
    }
    findings
}

/// Findings on the list itself: names that stand twice, and how it ends.
pub fn lint_list(list: &ItemList) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |id: &str, tool: &str, place: &str| {
        if let Some(rule) = RULES.iter().find(|rule| rule.id == id) {
            findings.push(Finding { tool: tool.to_owned(), rule, place: place.to_owned() });
        }
    };
    // The catalogue keeps the first of a name, and puts the others aside.
    let twice: BTreeSet<&str> = list
        .quarantined
        .iter()
        .map(|bad| bad.name.as_str())
        .filter(|name| list.items.iter().any(|item| item.name == *name))
        .collect();
    twice.iter().for_each(|name| add("duplicate_name", name, "name"));
    if list.null_cursor {
        add("next_cursor_null", "tools/list", "nextCursor");
    }
    findings
}

/// The place where a tool breaks a rule.
fn broken(rule: &str, tool: &Value, name: &str) -> Option<String> {
    let input = tool.get("inputSchema");
    let found = |place: &str| Some(place.to_owned());
    match rule {
        "input_schema_missing" if input.is_none_or(Value::is_null) => found("inputSchema"),
        "input_schema_untyped" if input.is_some_and(|s| !s.is_null() && !says_object(s)) => {
            found("inputSchema")
        }
        "input_schema_combined_root" => ["oneOf", "anyOf", "allOf"]
            .iter()
            .find(|key| input.is_some_and(|s| s.get(**key).is_some()))
            .map(|key| format!("inputSchema.{key}")),
        "output_schema_not_object" if tool.get("outputSchema").is_some_and(|s| !says_object(s)) => {
            found("outputSchema")
        }
        "hint_not_boolean" => tool
            .get("annotations")
            .and_then(Value::as_object)?
            .iter()
            .find(|(key, value)| key.ends_with("Hint") && !value.is_boolean())
            .map(|(key, _)| format!("annotations.{key}")),
        "boolean_property_schema" => in_schemas(tool, "properties", |path, properties| {
            let (key, _) = properties.as_object()?.iter().find(|(_, schema)| schema.is_boolean())?;
            Some(format!("{path}.{key}"))
        }),
        "required_not_list" => in_schemas(tool, "required", |path, required| {
            let list = required.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            (!list).then(|| path.to_owned())
        }),
        "name_characters" if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') => {
            found("name")
        }
        "name_length" if name.chars().count() > 64 => found("name"),
        "schema_dialect" => ["inputSchema", "outputSchema"].iter().find_map(|key| {
            let dialect = tool.get(*key)?.get("$schema")?.as_str()?;
            let known = dialect.contains("2020-12") || dialect.contains("draft-07");
            (!known).then(|| format!("{key}.$schema"))
        }),
        _ => None,
    }
}

fn says_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Levels of nested schemas that are looked at.
const SCHEMA_DEPTH_MAX: usize = 32;

/// The first place below both schemas where `key` stands and `judge` objects.
fn in_schemas(tool: &Value, key: &str, judge: fn(&str, &Value) -> Option<String>) -> Option<String> {
    ["inputSchema", "outputSchema"]
        .iter()
        .find_map(|root| walk(tool.get(*root)?, root, key, judge, SCHEMA_DEPTH_MAX))
}

fn walk(
    schema: &Value,
    path: &str,
    key: &str,
    judge: fn(&str, &Value) -> Option<String>,
    depth_left: usize,
) -> Option<String> {
    let members = schema.as_object()?;
    if depth_left == 0 {
        return None;
    }
    if let Some(value) = members.get(key)
        && let Some(place) = judge(&format!("{path}.{key}"), value)
    {
        return Some(place);
    }
    for (name, value) in members {
        let below = format!("{path}.{name}");
        let found = match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(schemas)) => {
                schemas.iter().find_map(|(n, s)| walk(s, &format!("{below}.{n}"), key, judge, depth_left - 1))
            }
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", inner) => {
                walk(inner, &below, key, judge, depth_left - 1)
            }
            ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(schemas)) => schemas
                .iter()
                .enumerate()
                .find_map(|(i, s)| walk(s, &format!("{below}[{i}]"), key, judge, depth_left - 1)),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::items::ListKind;
    use crate::catalog::parse::parse_page;
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    fn ids(tools: &[Value]) -> Vec<(&'static str, String)> {
        let texts: Vec<String> = tools.iter().map(Value::to_string).collect();
        lint(texts.iter().map(String::as_str)).into_iter().map(|f| (f.rule.id, f.place)).collect()
    }

    fn one(tool: Value) -> Vec<(&'static str, String)> {
        ids(&[tool])
    }

    #[test]
    fn a_good_tool_has_no_finding() {
        let tool = json!({"name": "good_tool-1", "description": "x", "annotations": {"readOnlyHint": true, "title": "T"},
            "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            "outputSchema": {"type": "object"}});
        assert_eq!(one(tool), []);
    }

    #[test]
    fn every_row_of_the_table_is_found() {
        let object = json!({"type": "object"});
        let with = |input: Value| json!({"name": "t", "inputSchema": input});
        let rows = [
            (json!({"name": "t"}), "input_schema_missing", "inputSchema"),
            (with(json!({})), "input_schema_untyped", "inputSchema"),
            (with(json!({"type": "string"})), "input_schema_untyped", "inputSchema"),
            (with(json!({"type": "object", "anyOf": []})), "input_schema_combined_root", "inputSchema.anyOf"),
            (
                json!({"name": "t", "inputSchema": object, "outputSchema": {"type": "array"}}),
                "output_schema_not_object",
                "outputSchema",
            ),
            (
                json!({"name": "t", "inputSchema": object, "annotations": {"readOnlyHint": "yes"}}),
                "hint_not_boolean",
                "annotations.readOnlyHint",
            ),
            (
                with(json!({"type": "object", "properties": {"a": true}})),
                "boolean_property_schema",
                "inputSchema.properties.a",
            ),
            (
                with(
                    json!({"type": "object", "properties": {"o": {"type": "object", "properties": {"x": false}}}}),
                ),
                "boolean_property_schema",
                "inputSchema.properties.o.properties.x",
            ),
            (with(json!({"type": "object", "required": null})), "required_not_list", "inputSchema.required"),
            (
                with(json!({"type": "object", "items": [1], "allOf": [{"required": [1]}]})),
                "required_not_list",
                "inputSchema.allOf[0].required",
            ),
            (json!({"name": "a.b/c", "inputSchema": object}), "name_characters", "name"),
            (json!({"name": "x".repeat(65), "inputSchema": object}), "name_length", "name"),
            (
                with(json!({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"})),
                "schema_dialect",
                "inputSchema.$schema",
            ),
        ];
        let mut covered: BTreeSet<&str> = ["duplicate_name", "next_cursor_null"].into();
        for (tool, rule, place) in rows {
            let found = one(tool.clone());
            assert!(found.contains(&(rule, place.to_owned())), "{tool}: {found:?}");
            covered.insert(rule);
        }
        assert_eq!(covered.len(), RULES.len(), "a rule has no row");
    }

    fn list(result: &str) -> ItemList {
        let mut list = ItemList::default();
        let page = parse_page(ListKind::Tools, &Bytes::copy_from_slice(result.as_bytes()), &mut list, 100);
        page.unwrap();
        list
    }

    #[test]
    fn a_doubled_name_and_a_null_cursor_are_told_once() {
        let tool = |about: &str| {
            format!(r#"{{"name":"t","description":"{about}","inputSchema":{{"type":"object"}}}}"#)
        };
        let doubled = format!(r#"{{"tools":[{},{},{}],"nextCursor":null}}"#, tool("a"), tool("b"), tool("c"));
        let found: Vec<_> = lint_list(&list(&doubled)).iter().map(|f| (f.rule.id, f.tool.clone())).collect();
        assert_eq!(
            found,
            [("duplicate_name", "t".to_owned()), ("next_cursor_null", "tools/list".to_owned())]
        );
        assert_eq!(lint_list(&list(&format!(r#"{{"tools":[{}]}}"#, tool("a")))), []);
    }

    /// The matrix as it was measured: which client loses its list over which fault.
    #[test]
    fn the_reactions_are_those_that_were_measured() {
        let clients = |id: &str| -> Vec<&str> {
            let rule = RULES.iter().find(|r| r.id == id).unwrap();
            rule.reactions.iter().filter(|r| r.evidence == Evidence::Measured).map(|r| r.client).collect()
        };
        assert_eq!(clients("output_schema_not_object"), [TS1, TS2, PY2, PORTER]);
        assert_eq!(clients("input_schema_untyped"), [TS1, TS2, PY2, PORTER, CLAUDE]);
        assert_eq!(clients("input_schema_missing"), [TS1, TS2, PY1, PY2, PORTER]);
        assert_eq!(clients("hint_not_boolean"), [TS1, TS2, PORTER, CLAUDE]);
        assert_eq!(clients("boolean_property_schema"), [TS1, PORTER]);
        assert_eq!(clients("duplicate_name"), [PORTER]);
        assert_eq!(clients("next_cursor_null"), [TS1, TS2, PORTER, CLAUDE]);
    }

    proptest! {
        #[test]
        fn no_definition_makes_a_panic(raw in "\\PC{0,120}", depth in 0_usize..120) {
            let nested = format!(
                "{}{{}}{}",
                "{\"name\":\"t\",\"inputSchema\":".to_owned() + &"{\"items\":".repeat(depth),
                "}".repeat(depth + 1)
            );
            let _ = lint([raw.as_str(), nested.as_str()]);
        }
    }
}
