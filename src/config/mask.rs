//! Floor 1. A whole entry for display, as written but with everything hidden that may be
//! secret. Called by `config::effective` and `config::approvals`.

use serde_json::{Map, Value};

use super::secret;

/// An entry with everything hidden that may be secret. References such as `${TOKEN}` stay.
pub fn mask_definition(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return mask_other("", value);
    };
    let mut masked = Map::new();
    for (key, value) in map {
        let shown = match (key.as_str(), value) {
            ("env" | "headers", value) => mask_all(value),
            ("args", Value::Array(items)) => mask_items(items),
            ("command", Value::String(command)) => Value::from(secret::mask_args(&[command]).concat()),
            ("url", Value::String(url)) => Value::from(secret::mask_url(url)),
            // The name of a variable, not its value.
            ("bearer_token_env", Value::String(_)) => value.clone(),
            (key, value) => mask_other(key, value),
        };
        masked.insert(key.clone(), shown);
    }
    Value::Object(masked)
}

/// Arguments; those that are no strings (a fault, but shown) are masked on their own.
fn mask_items(items: &[Value]) -> Value {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    match texts {
        Some(texts) => Value::from(secret::mask_args(&texts)),
        None => Value::Array(items.iter().map(mask_all).collect()),
    }
}

/// Every leaf hidden, but references.
fn mask_all(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::String(text) => Value::from(secret::mask_value(text)),
        Value::Bool(_) | Value::Number(_) => Value::from(secret::MASK),
        Value::Array(items) => Value::Array(items.iter().map(mask_all).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), mask_all(value))).collect())
        }
    }
}

/// Any other key: hidden if its name or its look says so.
fn mask_other(name: &str, value: &Value) -> Value {
    /// Keys that sound like credentials and hold none.
    const PLAIN: [&str; 2] = ["policy", "oauth"];
    if secret::is_credential_name(name) && !PLAIN.contains(&name) && !value.is_boolean() {
        return mask_all(value);
    }
    match value {
        Value::String(text) => Value::from(secret::mask_args(&[text]).concat()),
        Value::Array(items) => Value::Array(items.iter().map(|item| mask_other("", item)).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), mask_other(key, value))).collect())
        }
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_keeps_its_shape_and_loses_its_literals() {
        let shown = mask_definition(&json!({
            "command": "npx",
            "args": ["-y", "--token", "canary", "${A}"],
            "env": {"A": "canary", "B": "${B}", "C": 17, "D": ["canary"]},
            "url": "https://u:canary@h/?k=canary",
            "headers": {"Authorization": "Bearer canary"},
            "bearer_token_env": "TOKEN",
            "oauth": {"client_id": "x", "client_secret": "canary"},
            "apiKey": {"deep": ["canary"]},
            "trust": "trusted",
            "timeout": 30,
            "readOnly": true
        }));
        assert_eq!(
            shown,
            json!({
                "command": "npx",
                "args": ["-y", "--token", "[redacted]", "${A}"],
                "env": {"A": "[redacted]", "B": "${B}", "C": "[redacted]", "D": ["[redacted]"]},
                "url": "https://[redacted]@h/?k=[redacted]",
                "headers": {"Authorization": "Bearer [redacted]"},
                "bearer_token_env": "TOKEN",
                "oauth": {"client_id": "x", "client_secret": "[redacted]"},
                "apiKey": {"deep": ["[redacted]"]},
                "trust": "trusted",
                "timeout": 30,
                "readOnly": true
            })
        );
    }

    #[test]
    fn faulty_entries_are_masked_too() {
        assert_eq!(mask_definition(&json!("ghp_0123456789abcdef")), json!("[redacted]"));
        assert_eq!(mask_definition(&json!({"env": "canary"})), json!({"env": "[redacted]"}));
        assert_eq!(
            mask_definition(&json!({"args": ["canary", 5]})),
            json!({"args": ["[redacted]", "[redacted]"]})
        );
        assert_eq!(mask_definition(&json!(7)), json!(7));
    }
}
