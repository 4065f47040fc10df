//! Floor 1. One entry of another client in our words and units, with what was changed on the way
//! and what has no counterpart. What can't run here at all is refused with the reason. Never
//! drops a word silently. Called by the import and install verbs.

use serde_json::{Map, Value, json};

use super::client::Client;
use super::variables::{Surroundings, translate};

/// An entry in our words. `Debug` is not offered: literals may be secret.
#[derive(Clone, Default)]
pub struct Mapped {
    /// The entry.
    pub entry: Map<String, Value>,
    /// What means the same here under another word or in another unit.
    pub notes: Vec<String>,
    /// What has no counterpart, and why.
    pub lost: Vec<String>,
    /// Secrets that the client would have asked its user for.
    pub inputs: Vec<String>,
    /// A file with further variables for the server, in our way of writing references.
    pub env_file: Option<String>,
}

/// Maps an entry. An error is a reason for a person.
pub fn map(at: &Surroundings<'_>, value: &Value) -> Result<Mapped, String> {
    let Value::Object(theirs) = value else { return Err("its entry is not an object".into()) };
    if theirs.get("source").is_some_and(|source| source == "extension") {
        return Err("an extension of the editor brings it along, so it runs only there".into());
    }
    let mut mapper = Mapper { at, out: Mapped::default(), include: None, exclude: Vec::new() };
    for (key, value) in theirs {
        mapper.key(key, value)?;
    }
    mapper.finish()
}

struct Mapper<'a> {
    at: &'a Surroundings<'a>,
    out: Mapped,
    include: Option<Vec<String>>,
    exclude: Vec<String>,
}

impl Mapper<'_> {
    fn key(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "command" => match value {
                // An older form of Zed nests what is run.
                Value::Object(inner) => {
                    for (key, value) in inner {
                        self.key(if key == "path" { "command" } else { key }, value)?;
                    }
                }
                value => self.text("command", value)?,
            },
            "cwd" => self.cwd(value)?,
            "url" if self.out.entry.contains_key("url") => {}
            "url" | "serverUrl" | "httpUrl" => {
                if key != "url" {
                    self.out.notes.push(format!("{key} is url here"));
                }
                self.text("url", value)?;
            }
            "args" => self.args(value)?,
            "env" | "headers" => self.texts(key, value)?,
            "http_headers" => self.texts("headers", value)?,
            "type" | "transport" => self.transport(key, value),
            "disabled" | "enabled" => self.switch(key, value),
            "source" => {}
            "envFile" => self.out.env_file = Some(self.translated(key, value)?),
            "description" => self.text(key, value)?,
            "timeout" | "trust" | "includeTools" | "excludeTools" | "disabledTools" => self.word(key, value),
            _ if self.at.client == Client::Codex => self.codex(key, value),
            _ => self.lose(key),
        }
        Ok(())
    }

    fn translated(&mut self, key: &str, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err(format!("{key} is not a text")),
        };
        translate(self.at, &text, &mut self.out.inputs).map_err(|why| format!("{key}: {why}"))
    }

    fn text(&mut self, key: &str, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let text = self.translated(key, value)?;
        self.put(key, text);
        Ok(())
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.out.entry.insert(key.to_owned(), value.into());
    }

    fn cwd(&mut self, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let folder = self.translated("cwd", value)?;
        let absolute = folder.starts_with(['/', '~', '$', '\\']) || folder.get(1..2) == Some(":");
        if absolute {
            self.put("cwd", folder);
            return Ok(());
        }
        let below = folder.trim_start_matches("./");
        let base = self.at.workspace.replace('$', "$$");
        let whole = if matches!(below, "" | ".") { base } else { format!("{base}/{below}") };
        self.out.notes.push("cwd is relative to the project there, and written in full here".into());
        self.put("cwd", whole);
        Ok(())
    }

    fn args(&mut self, value: &Value) -> Result<(), String> {
        let Value::Array(items) = value else { return Err("args is not a list".into()) };
        let args: Result<Vec<String>, String> =
            items.iter().map(|item| self.translated("args", item)).collect();
        let args = args?;
        if !args.is_empty() {
            self.put("args", args);
        }
        Ok(())
    }

    /// A map of texts; a value without text is told and left out.
    fn texts(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let Value::Object(theirs) = value else {
            return if value.is_null() { Ok(()) } else { Err(format!("{key} is not a map")) };
        };
        for (name, value) in theirs {
            if value.is_null() {
                self.out.lost.push(format!("{key}.{name} has no value"));
                continue;
            }
            let text = self.translated(&format!("{key}.{name}"), value)?;
            self.pair(key, name, text);
        }
        Ok(())
    }

    fn pair(&mut self, key: &str, name: &str, text: String) {
        let map = self.out.entry.entry(key.to_owned()).or_insert_with(|| json!({}));
        if let Some(map) = map.as_object_mut() {
            map.insert(name.to_owned(), text.into());
        }
    }

    fn transport(&mut self, key: &str, value: &Value) {
        match value.as_str().unwrap_or_default() {
            "sse" => self.put("type", "sse"),
            // Said by command and url.
            "stdio" | "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {}
            _ => self.out.lost.push(format!("{key}: no such transport here; command or url decides")),
        }
    }

    fn switch(&mut self, key: &str, value: &Value) {
        match value.as_bool() {
            Some(flag) if flag == (key == "disabled") => self.put("disabled", true),
            Some(_) => {}
            None => self.out.lost.push(format!("{key} is neither true nor false")),
        }
    }

    fn word(&mut self, key: &str, value: &Value) {
        let client = self.at.client;
        match (client, key) {
            (Client::Gemini | Client::ClaudeCode, "timeout") => match value.as_u64().filter(|ms| *ms > 0) {
                Some(ms) => {
                    self.out.notes.push(format!("timeout {ms} counts milliseconds: requestTimeoutMs here"));
                    self.put("requestTimeoutMs", ms);
                }
                None => self.out.lost.push("timeout is not a whole number of milliseconds".into()),
            },
            (_, "timeout") => {
                self.out.lost.push("timeout: its unit is not certain; set timeout = \"60s\" yourself".into())
            }
            (Client::Gemini, "trust") => match value.as_bool() {
                Some(true) => {
                    self.out.notes.push("trust: true is trust \"trusted\" here".into());
                    self.put("trust", "trusted");
                }
                Some(false) => {}
                None => self.out.lost.push("trust is neither true nor false".into()),
            },
            (Client::Gemini, "includeTools") => self.include = self.names(key, value),
            (Client::Gemini, "excludeTools") | (Client::Windsurf, "disabledTools") => {
                self.exclude = self.names(key, value).unwrap_or_default();
            }
            _ => self.lose(key),
        }
    }

    /// Names of tools, as globs that mean exactly them.
    fn names(&mut self, key: &str, value: &Value) -> Option<Vec<String>> {
        let items = value.as_array();
        let names: Option<Vec<String>> =
            items.and_then(|items| items.iter().map(|item| item.as_str().map(exactly)).collect());
        match &names {
            Some(_) => {
                self.out.notes.push(format!("{key} is part of tools here"));
            }
            None => self.out.lost.push(format!("{key} is not a list of names")),
        }
        names
    }

    fn codex(&mut self, key: &str, value: &Value) {
        match key {
            "startup_timeout_sec" => self.seconds(key, "startupTimeoutMs", value),
            "startup_timeout_ms" => match value.as_u64() {
                Some(ms) => self.put("startupTimeoutMs", ms),
                None => self.out.lost.push(format!("{key} is not a whole number")),
            },
            "tool_timeout_sec" => self.seconds(key, "requestTimeoutMs", value),
            "bearer_token_env_var" => match value.as_str() {
                Some(name) => {
                    self.out.notes.push(format!("{key} is bearer_token_env here"));
                    self.put("bearer_token_env", name);
                }
                None => self.out.lost.push(format!("{key} is not a name")),
            },
            "env_http_headers" => {
                for (header, name) in value.as_object().into_iter().flatten() {
                    match name.as_str() {
                        Some(name) => self.pair("headers", header, format!("${{{name}}}")),
                        None => self.out.lost.push(format!("{key}.{header} is not a name")),
                    }
                }
            }
            "env_vars" => {
                let name =
                    |item: &Value| item.as_str().or_else(|| item.get("name")?.as_str()).map(str::to_owned);
                let items = value.as_array().into_iter().flatten();
                match items.map(name).collect::<Option<Vec<String>>>() {
                    Some(names) if !names.is_empty() => {
                        self.out.notes.push(format!("{key} is env_passthrough here"));
                        self.put("env_passthrough", names);
                    }
                    Some(_) => {}
                    None => self.out.lost.push(format!("{key} is not a list of names")),
                }
            }
            "enabled_tools" => self.include = self.names(key, value),
            "disabled_tools" => self.exclude = self.names(key, value).unwrap_or_default(),
            "required" if value.is_boolean() => self.put("required", value.clone()),
            _ => self.lose(key),
        }
    }

    /// Seconds, also with a fraction, as milliseconds.
    fn seconds(&mut self, theirs: &str, ours: &str, value: &Value) {
        let whole = value.as_u64().and_then(|seconds| seconds.checked_mul(1000));
        let part = || value.as_f64().filter(|s| *s > 0.0 && *s < 1e9).map(|s| format!("{:.0}", s * 1000.0));
        match whole.or_else(|| part()?.parse().ok()).filter(|ms| *ms > 0) {
            Some(ms) => {
                self.out.notes.push(format!("{theirs} counts seconds: {ours} {ms} here"));
                self.put(ours, ms);
            }
            None => self.out.lost.push(format!("{theirs} is not a number of seconds")),
        }
    }

    fn lose(&mut self, key: &str) {
        let why = match key {
            "alwaysAllow" | "autoApprove" => "say which tools run unasked with `callboard mcp allow`",
            "oauth" | "auth" | "scopes" | "oauth_resource" => "a login is not taken over",
            _ => "there is no such word here",
        };
        self.out.lost.push(format!("{key}: {why}"));
    }

    fn finish(mut self) -> Result<Mapped, String> {
        let has = |key: &str| self.out.entry.contains_key(key);
        match (has("command"), has("url")) {
            (true, false) | (false, true) => {}
            (true, true) => return Err("it has both a command and a url".into()),
            (false, false) => return Err("it has neither a command nor a url".into()),
        }
        // Where both are given, exclusion wins there; here it counts only without inclusion.
        let exclude = std::mem::take(&mut self.exclude);
        if let Some(include) = self.include.take() {
            let left: Vec<String> = include.into_iter().filter(|name| !exclude.contains(name)).collect();
            if left.is_empty() {
                self.out.lost.push("a list that leaves no tool at all; tools.exclude is \"*\" here".into());
                self.put("tools", json!({"exclude": ["*"]}));
            } else {
                self.put("tools", json!({"include": left}));
            }
        } else if !exclude.is_empty() {
            self.put("tools", json!({"exclude": exclude}));
        }
        Ok(self.out)
    }
}

/// A glob that matches this name alone.
fn exactly(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The variables of a file of `NAME=value` lines: blank lines and `#` comments are skipped, `export`
/// is allowed, quotes around a value are taken off. Values are literals in our way of writing.
pub fn env_lines(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
        Some((name.trim().to_owned(), quoted.unwrap_or(value).replace('$', "$$")))
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: Client, value: Value) -> Result<Mapped, String> {
        map(&Surroundings { client, workspace: "/w" }, &value)
    }

    #[test]
    fn words_and_units_of_each_client_mean_the_same_here() {
        for (client, theirs, ours) in [
            (
                Client::Gemini,
                json!({"httpUrl": "https://x/mcp", "timeout": 30000, "trust": true, "includeTools": ["a", "b"], "excludeTools": ["b"]}),
                json!({"url": "https://x/mcp", "requestTimeoutMs": 30000, "trust": "trusted", "tools": {"include": ["a"]}}),
            ),
            (
                Client::Codex,
                json!({"command": "x", "startup_timeout_sec": 1.5, "tool_timeout_sec": 60, "disabled_tools": ["d*"], "env_vars": ["A", {"name": "B"}], "required": true, "enabled": false}),
                json!({"command": "x", "startupTimeoutMs": 1500, "requestTimeoutMs": 60000, "env_passthrough": ["A", "B"], "required": true, "disabled": true, "tools": {"exclude": ["d\\*"]}}),
            ),
            (
                Client::Codex,
                json!({"url": "https://x", "bearer_token_env_var": "T", "http_headers": {"A": "$b"}, "env_http_headers": {"C": "D"}}),
                json!({"url": "https://x", "bearer_token_env": "T", "headers": {"A": "$$b", "C": "${D}"}}),
            ),
            (
                Client::Zed,
                json!({"source": "custom", "command": {"path": "x", "args": ["y"], "env": {}}}),
                json!({"command": "x", "args": ["y"]}),
            ),
            (
                Client::Windsurf,
                json!({"serverUrl": "https://x", "headers": {"A": "${env:T}"}, "disabledTools": ["d"]}),
                json!({"url": "https://x", "headers": {"A": "${T}"}, "tools": {"exclude": ["d"]}}),
            ),
            (
                Client::Vscode,
                json!({"type": "sse", "url": "https://x", "headers": {"K": "${input:key}"}}),
                json!({"type": "sse", "url": "https://x", "headers": {"K": "${secret:key}"}}),
            ),
            (
                Client::Cursor,
                json!({"command": "x", "cwd": "./sub", "args": []}),
                json!({"command": "x", "cwd": "/w/sub"}),
            ),
        ] {
            let mapped = of(client, theirs).unwrap_or_else(|e| panic!("{client:?}: {e}"));
            assert_eq!(Value::Object(mapped.entry), ours, "{client:?}");
            assert_eq!(mapped.lost, Vec::<String>::new(), "{client:?}");
        }
    }

    #[test]
    fn every_word_without_a_counterpart_is_told() {
        for (client, key) in [
            (Client::Cursor, "auth"),
            (Client::ClaudeCode, "headersHelper"),
            (Client::Codex, "oauth_resource"),
            (Client::Vscode, "dev"),
            (Client::Zed, "timeout"),
            (Client::ClaudeDesktop, "trust"),
        ] {
            let mapped = of(client, json!({"command": "x", key: {"a": 1}})).unwrap_or_default();
            assert!(
                mapped.lost.len() == 1 && mapped.lost[0].starts_with(key),
                "{client:?}: {:?}",
                mapped.lost
            );
        }
    }

    #[test]
    fn what_can_not_run_here_is_refused_with_the_reason() {
        for (value, why) in [
            (json!({"settings": {}}), "neither"),
            (json!({"command": "x", "url": "https://x"}), "both"),
            (json!({"source": "extension", "settings": {}}), "extension"),
            (json!({"command": "x", "args": "y"}), "args"),
            (json!({"command": ["x"]}), "command"),
            (json!(1), "not an object"),
        ] {
            let error = of(Client::Zed, value).err().unwrap_or_default();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_file_of_variables_is_read_line_by_line() {
        let pairs = env_lines("# no\nA=1\n\nexport B=\"x y\"\nC='$z'\nno line\n");
        let of = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(pairs, [of("A", "1"), of("B", "x y"), of("C", "$$z")]);
    }
}
