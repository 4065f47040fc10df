//! Floor 1. The canonical form of a JSON value and its SHA-256: what approvals are bound to.
//! Key order, white space and comments don't count; every value does. Called by `merge`.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 as 64 hex digits over [`canonical`].
pub fn hash(value: &Value) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(canonical(value));
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The value as compact JSON with the keys of every object sorted by their bytes.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_count_at_any_depth() {
        let a: Value = serde_json::from_str(r#"{"b":{"y":1,"x":[{"q":1,"p":2}]},"a":null}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":null,"b":{"x":[{"p":2,"q":1}],"y":1}}"#).unwrap();
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(hash(&a), hash(&b));
        assert_eq!(canonical(&a), r#"{"a":null,"b":{"x":[{"p":2,"q":1}],"y":1}}"#);
    }

    #[test]
    fn every_value_and_every_position_counts() {
        let base = json!({"command": "x", "args": ["a", "b"], "env": {"K": "v"}});
        for other in [
            json!({"command": "x", "args": ["b", "a"], "env": {"K": "v"}}),
            json!({"command": "x", "args": ["a", "b"], "env": {"K": "w"}}),
            json!({"command": "x", "args": ["a,b"], "env": {"K": "v"}}),
            json!({"command": "x", "args": ["a", "b"], "env": {"K": "v"}, "trust": "trusted"}),
        ] {
            assert_ne!(hash(&base), hash(&other));
        }
    }

    #[test]
    fn the_hash_is_sha_256_in_hex() {
        // Published digest of the two bytes `{}`.
        assert_eq!(hash(&json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
