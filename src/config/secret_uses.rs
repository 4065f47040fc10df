//! Where stored secrets are read: every `${secret:NAME}` in entries as they are written, whether
//! those are in force or not. Pure; names and places only, never a value. Called by the `secret`
//! command.

use std::collections::BTreeMap;

use serde_json::Value;

use super::document::Definition;
use super::expand;
use super::suggest;

/// One place that reads a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The name of the entry.
    pub server: String,
    /// The key in it, such as `env.TOKEN`.
    pub key: String,
    /// The file or variable where the entry stands.
    pub source: String,
}

/// All places by the secret that they read, each list in the order of the definitions.
pub fn uses(definitions: &[Definition]) -> BTreeMap<String, Vec<Use>> {
    let mut found = BTreeMap::new();
    for definition in definitions {
        walk(definition, &definition.value, "", &mut found);
    }
    found
}

fn walk(definition: &Definition, value: &Value, key: &str, found: &mut BTreeMap<String, Vec<Use>>) {
    match value {
        Value::String(text) => {
            for read in expand::reads(text) {
                let Some(secret) = read.strip_prefix("secret:") else { continue };
                found.entry(secret.to_owned()).or_default().push(Use {
                    server: definition.name.clone(),
                    key: key.to_owned(),
                    source: definition.source.origin.to_string(),
                });
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                walk(definition, item, &format!("{key}[{n}]"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                walk(definition, member, &suggest::join(key, name), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
