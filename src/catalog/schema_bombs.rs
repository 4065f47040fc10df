//! Thirty schemas made to burst whoever looks at them: each is refused or looked at with bounded work,
//! and none makes anybody fetch anything. Pinning, labels and diffs meet the same ones.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::definition::read;
use super::items::ListKind;
use super::lint::{LABELS_MAX, Others, labels};
use super::pin::{canonical, fingerprint};
use super::pin_diff::{CHANGES_MAX, diff};
use super::schema::CompiledSchema;

/// `d0` → `d1` → …, each through `wrap`.
fn chain(n: usize, wrap: fn(Value) -> Value) -> Value {
    let mut defs: Map<String, Value> =
        (0..n).map(|i| (format!("d{i}"), wrap(json!({"$ref": format!("#/$defs/d{}", i + 1)})))).collect();
    defs.insert(format!("d{n}"), json!({"type": "object"}));
    json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs})
}

fn nested(n: usize, key: &str) -> Value {
    (0..n).fold(json!({"type": "string"}), |inner, _| json!({ key: inner }))
}

fn many(n: usize, make: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(make).collect()
}

fn object(inner: Value) -> Value {
    json!({"type": "object", "properties": {"s": inner}})
}

/// Those that want something fetched.
fn fetching() -> Vec<Value> {
    let urls = [
        "http://127.0.0.1:9/x",
        "https://example.org/s.json",
        "file:///etc/passwd",
        "other.json",
        "//127.0.0.1/x#/a",
        "ftp://127.0.0.1/x",
        "http://169.254.169.254/latest/meta-data",
    ];
    let mut all: Vec<Value> = urls.iter().map(|url| object(json!({ "$ref": url }))).collect();
    all.push(object(json!({"$dynamicRef": "http://127.0.0.1:9/x"})));
    all.push(
        json!({"type": "object", "$id": "http://127.0.0.1:9/", "properties": {"s": {"$ref": "y.json"}}}),
    );
    all.push(json!({"type": "object", "$schema": "http://127.0.0.1:9/meta", "properties": {"s": {"$ref": "http://127.0.0.1:9/meta"}}}));
    all
}

/// Those that grow, loop, or backtrack.
fn growing() -> Vec<Value> {
    let pattern = |pattern: &str| object(json!({ "pattern": pattern }));
    vec![
        chain(40, |next| json!({"allOf": [next, next]})),
        chain(40, |next| json!({"anyOf": [next, next, next]})),
        chain(40, |next| json!({"oneOf": [next, next]})),
        chain(500, |next| json!({"not": next})),
        chain(30, |next| json!({"properties": {"a": next, "b": next}})),
        chain(30, |next| json!({"items": {"allOf": [next, next]}})),
        chain(30, |next| json!({"if": next, "then": next, "else": next})),
        chain(30, |next| json!({"additionalProperties": {"anyOf": [next, next]}})),
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "allOf": [{"$ref": "#"}]}),
        object(json!({"anyOf": many(20, |_| json!({"properties": {"a": {"$ref": "#/properties/s"}}}))})),
        object(nested(120, "not")),
        object(nested(120, "items")),
        object(json!({"enum": many(20_000, |n| json!(n))})),
        object(json!({"anyOf": many(5000, |n| json!({"const": n}))})),
        object(
            json!({"properties": many(5000, |n| json!(n)).iter().map(|n| (n.to_string(), json!({}))).collect::<Map<_, _>>()}),
        ),
        pattern("^(?=(a+)+$)(a+)+b$"),
        pattern("(((((a*)*)*)*)*)*b"),
        pattern(&"(a{1,1000}){1,1000}".repeat(3)),
        object(json!({"multipleOf": 1e-300, "minLength": 1e300, "maxItems": 9_007_199_254_740_993_u64})),
    ]
}

#[test]
fn thirty_schema_bombs_are_bounded_and_none_is_fetched() {
    let (fetching, growing) = (fetching(), growing());
    assert_eq!(fetching.len() + growing.len(), 30);
    for schema in &fetching {
        let refused = CompiledSchema::compile(schema.to_string().as_bytes()).unwrap_err();
        assert!(refused.contains("outside"), "{schema}: {refused}");
    }
    let deep = (0..30).fold(json!(1), |inner, _| json!({"a": inner, "s": "a".repeat(64)}));
    let arguments = json!({"s": deep, "a": deep, "b": ["a".repeat(64)]});
    for schema in fetching.iter().chain(&growing) {
        if let Ok(compiled) = CompiledSchema::compile(schema.to_string().as_bytes()) {
            let _ = compiled.validate(&arguments);
        }
        let raw = |description: &str| {
            json!({"name": "t", "description": description, "inputSchema": schema, "outputSchema": schema})
                .to_string()
        };
        let (one, two) = (raw("one"), raw("two"));
        assert_ne!(fingerprint(one.as_bytes()), fingerprint(two.as_bytes()));
        let found = diff(&canonical(one.as_bytes()), &canonical(two.as_bytes()));
        assert_eq!(found.changes.len(), 1);
        let other = json!({"name": "t", "inputSchema": {"type": "object"}}).to_string();
        assert!(diff(&canonical(one.as_bytes()), &canonical(other.as_bytes())).changes.len() <= CHANGES_MAX);
        if let Ok(item) = read(ListKind::Tools, Bytes::from(one)) {
            assert!(labels("s", &item, &Others::none()).len() <= LABELS_MAX);
        }
    }
}
