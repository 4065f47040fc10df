//! Floor 5. The parameters of a tool for a person, from its JSON Schema: what a `--help`
//! of a command would say. Pure, and never stricter than the schema: what it can't put
//! into words it calls JSON. Used by `call`.

use serde::Serialize;
use serde_json::Value;

use super::items::Clean;
use super::out::{Style, Tone};
use super::table::{Column, Field, table};
use super::text;
use crate::id::shell_word;

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its key.
    pub name: String,
    /// Its type in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// The value that counts when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// References that are followed, one after the other.
const REFERENCES_MAX: usize = 16;

/// The parameters that a schema lists: required ones first, else in its order.
pub fn parameters(schema: &Value) -> Vec<Parameter> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let mut all: Vec<Parameter> = properties
        .iter()
        .map(|(name, property)| {
            let target = follow(schema, property);
            let text = |key: &str| {
                let found = property.get(key).or_else(|| target.get(key));
                found.and_then(Value::as_str).map(str::to_owned)
            };
            Parameter {
                name: name.clone(),
                kind: kind(schema, property),
                required: required.contains(&name.as_str()),
                default: property.get("default").or_else(|| target.get("default")).cloned(),
                description: text("description").or_else(|| text("title")),
            }
        })
        .collect();
    all.sort_by_key(|parameter| !parameter.required);
    all
}

/// What a local reference leads to.
fn follow<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..REFERENCES_MAX {
        let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
        else {
            break;
        };
        match root.pointer(pointer) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Levels of nested types that are put into words.
const TYPE_DEPTH_MAX: usize = 3;

fn kind(root: &Value, schema: &Value) -> String {
    kind_at(root, schema, TYPE_DEPTH_MAX)
}

fn kind_at(root: &Value, schema: &Value, depth_left: usize) -> String {
    let schema = follow(root, schema);
    if depth_left == 0 {
        return "JSON".to_owned();
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" | ");
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            let mut words: Vec<String> = choices.iter().map(|c| kind_at(root, c, depth_left - 1)).collect();
            words.dedup();
            return words.join(" | ");
        }
    }
    match schema.get("type") {
        Some(Value::String(word)) if word == "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind_at(root, items, depth_left - 1)),
            None => "list".to_owned(),
        },
        Some(Value::String(word)) => word.clone(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "JSON".to_owned(),
    }
}

/// Everything about a tool that a caller needs.
pub struct ToolHelp<'a> {
    /// The command that calls it, given the words behind the server.
    pub call: &'a dyn Fn(&str) -> String,
    /// Raw name.
    pub tool: &'a str,
    /// What the server says it does.
    pub description: Option<&'a str>,
    /// Its parameters.
    pub parameters: &'a [Parameter],
}

/// The help of a tool.
pub fn help_text(help: &ToolHelp<'_>, style: Style, clean: Clean<'_>) -> String {
    let mut out = style.paint(Tone::Strong, &clean(help.tool));
    out.push('\n');
    if let Some(description) = help.description {
        out.push_str(&text::indent(clean(description).trim(), "  "));
        out.push('\n');
    }
    out.push('\n');
    if help.parameters.is_empty() {
        out.push_str("No parameters.\n");
    } else {
        let rows: Vec<Vec<Field>> = help.parameters.iter().map(|p| row(p, clean)).collect();
        let columns =
            [Column::wide("parameter", 10), Column::wide("type", 10), Column::wide("description", 20)];
        out.push_str(&table(&columns, &rows, style));
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&style.paint(Tone::Dim, &example(help, clean)));
    out
}

fn row(parameter: &Parameter, clean: Clean<'_>) -> Vec<Field> {
    let star = if parameter.required { "*" } else { "" };
    let mut about = parameter.description.as_deref().map(|d| clean(d.trim())).unwrap_or_default();
    if let Some(default) = &parameter.default {
        let gap = if about.is_empty() { "" } else { " " };
        about.push_str(&format!("{gap}(default {})", clean(&default.to_string())));
    }
    vec![
        Field::toned(format!("{}{star}", clean(&parameter.name)), Tone::Strong),
        Field::new(clean(&parameter.kind)),
        Field::new(about),
    ]
}

/// A command line with the required parameters.
fn example(help: &ToolHelp<'_>, clean: Clean<'_>) -> String {
    let mut words = shell_word(&clean(help.tool)).into_owned();
    for parameter in help.parameters.iter().filter(|p| p.required) {
        words.push_str(&format!(" {}=…", shell_word(&clean(&parameter.name))));
    }
    (help.call)(&words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn kinds(schema: &Value) -> Vec<(String, String, bool)> {
        parameters(schema).into_iter().map(|p| (p.name, p.kind, p.required)).collect()
    }

    #[test]
    fn required_parameters_come_first_with_their_types() {
        let schema = json!({"type": "object", "required": ["path"], "$defs": {"mode": {"enum": ["r", "w"]}},
        "properties": {
            "head": {"type": "integer"},
            "path": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"$ref": "#/$defs/mode"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "both": {"type": ["number", "null"]},
            "any": true,
        }});
        let want = [
            ("path", "string", true),
            ("head", "integer", false),
            ("tags", "list of string", false),
            ("mode", "r | w", false),
            ("maybe", "string | null", false),
            ("both", "number | null", false),
            ("any", "JSON", false),
        ];
        assert_eq!(kinds(&schema), want.map(|(n, k, r)| (n.to_owned(), k.to_owned(), r)));
    }

    #[test]
    fn a_circle_of_references_ends() {
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}, "b": {"items": {"$ref": "#/properties/b"}, "type": "array"}}});
        assert_eq!(kinds(&schema)[1].1, "list of list of list of JSON");
    }

    #[test]
    fn the_help_reads_like_that_of_a_command() {
        let schema = json!({"required": ["path"], "properties": {
            "path": {"type": "string", "description": "Where"}, "n": {"type": "integer", "default": 3}}});
        let parameters = parameters(&schema);
        let help = ToolHelp {
            call: &|words| format!("callboard mcp call fs {words}"),
            tool: "read",
            description: Some("Reads.\nWell."),
            parameters: &parameters,
        };
        assert_eq!(
            help_text(&help, Style::PLAIN, &|text| text.to_owned()),
            "read\n  Reads.\n  Well.\n\n\
             parameter  type     description\n\
             path*      string   Where\n\
             n          integer  (default 3)\n\n\
             callboard mcp call fs read path=…"
        );
    }

    #[test]
    fn a_tool_without_parameters_says_so() {
        let help = ToolHelp {
            call: &|words| format!("callboard mcp call s {words}"),
            tool: "t",
            description: None,
            parameters: &[],
        };
        assert_eq!(
            help_text(&help, Style::PLAIN, &|t| t.to_owned()),
            "t\n\nNo parameters.\n\ncallboard mcp call s t"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            "[a-z#/$]{0,8}".prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(
                    (
                        prop::sample::select(vec![
                            "type",
                            "properties",
                            "items",
                            "$ref",
                            "anyOf",
                            "enum",
                            "required"
                        ]),
                        inner
                    ),
                    0..4
                )
                .prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect::<serde_json::Map<_, _>>()
                    .into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_schema_makes_a_panic(schema in any_json()) {
            let _ = parameters(&schema);
        }
    }
}
