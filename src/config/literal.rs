//! Floor 1. Credentials that stand in an entry in clear, where a reference could stand. Careful,
//! as a warning has to be: a word too many would be read past. Never tells a value.
//! Called by the edges: `mcp add` and `doctor`.

use serde_json::{Map, Value};

use super::secret::{self, Collector, auth_scheme_len, is_credential_name, is_everyday, looks_secret};
use super::{expand, suggest};

/// Shorter values are too short to be told from plain words.
const VALUE_LEN_MIN: usize = 4;

/// The key paths within an entry (`env.TOKEN`, `args[1]`, `url`) whose value is a credential in
/// clear, by the name that it goes by, by its look, or by a form that `has_form` knows.
pub fn credentials(entry: &Map<String, Value>, has_form: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["env", "headers"] {
        let pairs = entry.get(key).and_then(Value::as_object).into_iter().flatten();
        let literal = pairs.filter(|(name, value)| value.as_str().is_some_and(|v| is_one(name, v, has_form)));
        found.extend(literal.map(|(name, _)| suggest::join(key, name)));
    }
    let items = entry.get("args").and_then(Value::as_array).into_iter().flatten();
    let args: Vec<&str> = items.map(|item| item.as_str().unwrap_or_default()).collect();
    for (index, arg) in args.iter().enumerate() {
        // A value may be known by the flag before it.
        let before = index.checked_sub(1).map(|before| args[before]);
        let flag = before.filter(|flag| flag.starts_with('-') && !flag.contains('=')).unwrap_or_default();
        let plain = arg.split_once('=').filter(|(name, _)| name.starts_with('-'));
        let (name, value) = plain.unwrap_or((if arg.starts_with('-') { "" } else { flag }, arg));
        if is_one(name, value, has_form) {
            found.push(format!("args[{index}]"));
        }
    }
    let url = entry.get("url").and_then(Value::as_str).unwrap_or_default();
    if is_one("", url, has_form) {
        found.push("url".to_owned());
    }
    found
}

/// Where in a word of a command line the characters end that a credential can have.
pub(super) fn ends_of_run(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || ";|&()<>`'\"$".contains(c);
    if text.contains("://") || !expand::has_literal(text) {
        text.len()
    } else {
        text.find(ends).unwrap_or(text.len())
    }
}

/// Whether the value of that name is a credential in clear.
pub(super) fn is_one(name: &str, text: &str, has_form: &dyn Fn(&str) -> bool) -> bool {
    if !expand::has_literal(text) {
        return false;
    }
    let value = text[auth_scheme_len(text)..].trim();
    if value.contains("://") {
        return in_url(value) || has_form(value);
    }
    let path = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    let number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let telling = value.chars().count() >= VALUE_LEN_MIN && !path && !number && !is_everyday(value);
    telling && (is_credential_name(name) || looks_secret(value) || has_form(text))
}

/// Whether an address has a password, or a credential in its path or query.
fn in_url(url: &str) -> bool {
    !of_address(url).is_empty()
}

/// The credentials in clear in an address, longest first.
pub(super) fn of_address(url: &str) -> Vec<secret::SecretText> {
    let mut collector = Collector::default();
    collector.url(url);
    let told = |value: &secret::SecretText| {
        let value = value.reveal();
        expand::has_literal(value) && !value.contains("%7B")
    };
    collector.finish().into_iter().filter(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn found(entry: Value) -> Vec<String> {
        credentials(entry.as_object().unwrap(), &|text| text.contains("vendor-form"))
    }

    #[test]
    fn credentials_in_clear_are_found_wherever_an_entry_can_have_them() {
        assert_eq!(
            found(json!({"command": "x",
                "args": ["--api-key", "hunter2", "--token=hunter2", "ghp_0123456789abcdef0123", "vendor-form-1", "--port", "8080"],
                "env": {"GITHUB_TOKEN": "hunter2", "PLAIN": "sk-0123456789abcdef0", "MODE": "fast", "B": "vendor-form-2"}})),
            ["env.GITHUB_TOKEN", "env.PLAIN", "env.B", "args[1]", "args[2]", "args[3]", "args[4]"]
        );
        assert_eq!(
            found(
                json!({"url": "https://u:hunter2@h/mcp", "headers": {"Authorization": "Bearer hunter2", "X-A": "b"}})
            ),
            ["headers.Authorization", "url"]
        );
        assert_eq!(found(json!({"url": "https://h/mcp?api_key=hunter2"})), ["url"]);
        assert_eq!(
            found(json!({"command": "x", "env": {"API_KEY": "${API_KEY:-hunter2}"}})),
            ["env.API_KEY"]
        );
    }

    #[test]
    fn references_paths_numbers_and_plain_words_are_none() {
        for plain in [
            json!({"command": "x", "env": {"TOKEN": "${TOKEN}", "KEY": "${secret:KEY}", "AUTH": "Bearer ${T}"}}),
            json!({"command": "x", "env": {"KEY_FILE": "/etc/key", "MAX_TOKENS": "4096", "AUTH": "none", "SECRET": ""}}),
            json!({"command": "x", "args": ["-y", "@scope/server-name", "--token", "${TOKEN}", "--token", "--verbose"]}),
            json!({"command": "npx", "args": ["--header=x", "https://example.com/mcp", "2026-01-01"]}),
            json!({"url": "https://example.com/mcp?region=eu", "headers": {"Accept-Language": "de"}}),
            json!({"url": "https://h/mcp?api_key=${KEY}", "headers": {"Authorization": "Bearer ${TOKEN}"}}),
            json!({"command": 7, "args": "x", "env": ["TOKEN"], "url": null}),
        ] {
            assert_eq!(found(plain.clone()), Vec::<String>::new(), "{plain}");
        }
    }

    proptest! {
        /// What was found are paths of the entry, and never a value of it.
        #[test]
        fn no_value_is_ever_told(name in "[A-Z_]{1,12}", value in "[a-z0-9-]{4,30}", flag in "[a-z-]{0,10}") {
            let entry = json!({"command": "x", "args": [flag, value], "env": {name.clone(): value}});
            for path in found(entry) {
                prop_assert!(path == format!("env.{name}") || path == "args[0]" || path == "args[1]", "{path}");
            }
        }
    }
}
