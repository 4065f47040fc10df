//! Schemas as endpoints take them.

use super::*;

fn adapted(schema: Value, dialect: Dialect) -> Value {
    let adapted = adapt(Some(schema.to_string().as_bytes()), dialect).unwrap();
    serde_json::from_str(&adapted.schema).unwrap()
}

#[test]
fn whatever_stands_at_the_top_an_object_comes_out() {
    for odd in [json!({}), json!({"type": "string"}), json!([1]), json!({"type": "object", "properties": []})]
    {
        assert_eq!(adapted(odd, Dialect::OpenAi), json!({"type": "object", "properties": {}}));
    }
    assert_eq!(adapt(None, Dialect::OpenAi).unwrap().schema, r#"{"properties":{},"type":"object"}"#);
    let either = json!({"anyOf": [
        {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]},
        {"properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "required": ["b", "c"]},
    ]});
    let out = adapted(either, Dialect::Anthropic);
    assert_eq!(out["properties"].as_object().unwrap().len(), 3);
    assert_eq!(out["required"], json!(["c"]), "only what every alternative wants");
    assert!(out.get("anyOf").is_none());
}

#[test]
fn references_are_put_in_place_and_circles_become_anything() {
    let schema = json!({
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Point", "description": "where"}, "next": {"$ref": "#/$defs/List"}, "out": {"$ref": "https://e.example/x"}},
        "$defs": {
            "Point": {"type": "object", "properties": {"x": {"type": "number"}}},
            "List": {"type": "object", "properties": {"rest": {"$ref": "#/$defs/List"}}},
        },
    });
    let text = adapt(Some(schema.to_string().as_bytes()), Dialect::OpenAi).unwrap();
    let out: Value = serde_json::from_str(&text.schema).unwrap();
    assert!(!text.schema.contains("$ref") && !text.schema.contains("$defs"));
    assert_eq!(out["properties"]["at"]["properties"]["x"]["type"], "number");
    assert_eq!(out["properties"]["at"]["description"], "where");
    assert_eq!(out["properties"]["next"]["properties"]["rest"], json!({}));
    assert_eq!(text.notes.len(), 1);
}

#[test]
fn slips_that_endpoints_refuse_are_mended() {
    let schema = json!({
        "$schema": "x", "type": "object", "required": ["a", "gone", 3],
        "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "array"}, "c": true, "d": {"type": "array", "items": [{"type": "string"}]}},
    });
    let out = adapted(schema, Dialect::OpenAi);
    assert_eq!(out["properties"]["a"]["type"], "string");
    assert_eq!(
        (&out["properties"]["b"]["items"], &out["properties"]["d"]["items"]),
        (&json!({}), &json!({}))
    );
    assert_eq!((&out["properties"]["c"], &out["required"]), (&json!({}), &json!(["a"])));
    assert!(out.get("$schema").is_none());
}

#[test]
fn gemini_gets_what_it_knows() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "a": {"type": ["string", "null"], "format": "uri", "pattern": "x"},
        "b": {"const": "only"}, "c": {"oneOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}, "d": {},
        "e": {"enum": [1, 2], "type": "integer"},
    }});
    let out = adapted(schema, Dialect::Gemini);
    assert_eq!(out["properties"]["a"], json!({"type": "string", "nullable": true}));
    assert_eq!(out["properties"]["b"], json!({"type": "string", "enum": ["only"]}));
    assert_eq!(out["properties"]["c"]["anyOf"], json!([{"type": "string"}, {"type": "number"}]));
    assert_eq!(out["properties"]["d"]["type"], "string");
    assert_eq!(out["properties"]["e"], json!({"type": "integer"}));
    assert!(out.get("additionalProperties").is_none());
}

#[test]
fn a_name_that_an_endpoint_refuses_is_left_out_or_the_whole_tool_is() {
    let optional =
        json!({"type": "object", "properties": {"größe": {"type": "string"}, "ok": {"type": "string"}}});
    let out = adapt(Some(optional.to_string().as_bytes()), Dialect::Anthropic).unwrap();
    assert!(!out.schema.contains("größe") && out.notes.len() == 1, "{out:?}");
    assert!(adapt(Some(optional.to_string().as_bytes()), Dialect::OpenAi).unwrap().schema.contains("größe"));
    let needed = json!({"type": "object", "properties": {"größe": {}}, "required": ["größe"]});
    assert!(adapt(Some(needed.to_string().as_bytes()), Dialect::Anthropic).unwrap_err().contains("größe"));
}

#[test]
fn hidden_text_and_chat_tokens_reach_no_model() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "description": "x <|im_start|>system", "enum": ["ok", "b\u{200b}ad"], "default": "<|im_end|>"},
        "b\u{200b}": {"type": "string"},
    }});
    let text = adapt(Some(schema.to_string().as_bytes()), Dialect::OpenAi).unwrap().schema;
    assert!(!text.contains("im_start") && !text.contains("im_end") && !text.contains('\u{200b}'), "{text}");
    assert!(text.contains(r#""enum":["ok"]"#), "{text}");
}

#[test]
fn a_schema_without_end_is_shown_shorter() {
    let long = "x".repeat(900);
    let many: Map<String, Value> =
        (0..60).map(|n| (format!("p{n}"), json!({"type": "string", "description": long}))).collect();
    let out =
        adapt(Some(json!({"type": "object", "properties": many}).to_string().as_bytes()), Dialect::OpenAi)
            .unwrap();
    assert!(out.schema.len() <= SCHEMA_MAX && out.schema.contains("p59") && out.notes.len() == 1);
    let more: Map<String, Value> = (0..4000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let out =
        adapt(Some(json!({"type": "object", "properties": more}).to_string().as_bytes()), Dialect::OpenAi)
            .unwrap();
    assert_eq!(out.schema, r#"{"properties":{},"type":"object"}"#);
}

fn any_schema() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(null)),
        Just(json!("#/$defs/a")),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#"})),
        any::<i32>().prop_map(Value::from),
        "[a-zé\u{200b}]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "required",
            "enum",
            "$ref",
            "anyOf",
            "allOf",
            "oneOf",
            "$defs",
            "a",
            "const",
            "description",
            "additionalProperties",
            "not",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|all| Value::Object(all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn every_schema_becomes_an_object_without_references(schema in any_schema()) {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini] {
            if let Ok(out) = adapt(Some(schema.to_string().as_bytes()), dialect) {
                let value: Value = serde_json::from_str(&out.schema).unwrap();
                proptest::prop_assert_eq!(&value["type"], "object");
                proptest::prop_assert!(!out.schema.contains("\"$ref\":"));
                proptest::prop_assert_eq!(canonical(&value), out.schema);
            }
        }
    }
}
