//! Floor 1. Reads the keys of one JSON object into typed values and reports every fault with
//! its key path and place; a fault never hides the next one. Must never put a value into an
//! issue unless it is a word from a closed set. Called by `config::raw`.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::document::Definition;
use super::duration::{self, Unit};
use super::issue::{Issue, IssueCode, Severity};
use super::spec::Globs;
use super::suggest;

/// One known key and the other spellings of it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The spelling of the manual.
    pub name: &'static str,
    /// Spellings of other tools that mean exactly the same.
    pub aliases: &'static [&'static str],
}

/// A key without other spellings.
pub const fn key(name: &'static str) -> Key {
    Key { name, aliases: &[] }
}

/// Reader of one object of a definition.
#[derive(Debug)]
pub struct Fields<'d> {
    definition: &'d Definition,
    map: &'d Map<String, Value>,
    prefix: String,
    keys: &'static [Key],
    /// Everything noticed so far.
    pub issues: Vec<Issue>,
}

impl<'d> Fields<'d> {
    /// Starts to read `map`, which stands at the key path `prefix` of the definition. Unknown
    /// keys are warned about at once.
    pub fn new(
        definition: &'d Definition,
        map: &'d Map<String, Value>,
        prefix: &str,
        keys: &'static [Key],
    ) -> Self {
        let mut fields = Self { definition, map, prefix: prefix.to_owned(), keys, issues: Vec::new() };
        let known: HashSet<&str> = keys
            .iter()
            .flat_map(|key| key.aliases.iter().chain(std::iter::once(&key.name)))
            .copied()
            .collect();
        for name in map.keys().filter(|name| !known.contains(name.as_str())) {
            let fix = suggest::nearest(name, keys.iter().map(|key| key.name))
                .map(|near| format!("did you mean {near:?}?"))
                .or_else(|| foreign(name).map(str::to_owned));
            fields.report(
                IssueCode::UnknownKey,
                Severity::Warning,
                &fields.path(name),
                "unknown key, ignored",
                fix,
            );
        }
        fields
    }

    /// The definition that is read.
    pub fn definition(&self) -> &'d Definition {
        self.definition
    }

    /// The key path of one of the keys.
    pub fn path(&self, name: &str) -> String {
        suggest::join(&self.prefix, name)
    }

    /// Adds an issue about a key path.
    pub fn report(
        &mut self,
        code: IssueCode,
        severity: Severity,
        within: &str,
        message: impl Into<String>,
        fix: Option<String>,
    ) {
        self.issues.push(Issue { fix, ..self.definition.issue(code, severity, within, message) });
    }

    /// Adds an error about a key.
    pub fn error(&mut self, code: IssueCode, name: &str, message: impl Into<String>, fix: Option<&str>) {
        self.report(code, Severity::Error, &self.path(name), message, fix.map(str::to_owned));
    }

    /// Adds a warning about a key.
    pub fn warn(&mut self, code: IssueCode, name: &str, message: impl Into<String>, fix: Option<&str>) {
        self.report(code, Severity::Warning, &self.path(name), message, fix.map(str::to_owned));
    }

    /// The spellings under which a key is present, that of the manual first; `null` counts as absent.
    fn spellings(&self, name: &'static str) -> Vec<&'static str> {
        let aliases = self.keys.iter().find(|key| key.name == name).map_or(&[][..], |key| key.aliases);
        let all = std::iter::once(name).chain(aliases.iter().copied());
        all.filter(|spelling| self.has(spelling)).collect()
    }

    /// The key path, as written, of a key (`outer.inner` for one within an object), if it is there.
    pub fn written(&self, name: &'static str) -> Option<String> {
        let (outer, inner) = name.split_once('.').map_or((name, None), |(outer, inner)| (outer, Some(inner)));
        let spelling = *self.spellings(outer).first()?;
        let path = self.path(spelling);
        match inner {
            None => Some(path),
            Some(inner) => {
                let there = self.map.get(spelling)?.get(inner).is_some_and(|value| !value.is_null());
                there.then(|| suggest::join(&path, inner))
            }
        }
    }

    /// The spelling under which a key is present. Two spellings at once are warned about, that of
    /// the manual counts.
    pub fn spelling(&mut self, name: &'static str) -> Option<&'static str> {
        let present = self.spellings(name);
        for extra in present.iter().skip(1) {
            self.warn(
                IssueCode::Duplicate,
                extra,
                format!("means the same as {:?}, which counts", present[0]),
                Some("keep one of them"),
            );
        }
        present.first().copied()
    }

    fn find(&mut self, name: &'static str) -> Option<(&'static str, &'d Value)> {
        let spelling = self.spelling(name)?;
        self.map.get(spelling).map(|value| (spelling, value))
    }

    /// Whether the key is there at all.
    pub fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    fn wrong_type(&mut self, within: &str, wanted: &str, got: &Value) {
        let quotes = wanted == "a string" && (got.is_number() || got.is_boolean());
        let fix = quotes.then(|| "put it in quotes".to_owned());
        self.report(
            IssueCode::Value,
            Severity::Error,
            within,
            format!("must be {wanted}, not {}", kind(got)),
            fix,
        );
    }

    /// A string.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let (spelling, value) = self.find(name)?;
        match value {
            Value::String(text) => Some(text.clone()),
            other => {
                self.wrong_type(&self.path(spelling), "a string", other);
                None
            }
        }
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        let (spelling, value) = self.find(name)?;
        match value {
            Value::Bool(flag) => Some(*flag),
            other => {
                self.wrong_type(&self.path(spelling), "true or false", other);
                None
            }
        }
    }

    /// A whole number within `min..=max`.
    pub fn count(&mut self, name: &'static str, min: u64, max: u64) -> Option<u64> {
        let (spelling, value) = self.find(name)?;
        match value.as_u64() {
            Some(count) if (min..=max).contains(&count) => Some(count),
            _ if value.is_number() => {
                self.error(
                    IssueCode::Value,
                    spelling,
                    format!("must be a whole number from {min} to {max}"),
                    None,
                );
                None
            }
            _ => {
                self.wrong_type(&self.path(spelling), "a whole number", value);
                None
            }
        }
    }

    /// Bytes within `min..=max`: a number, or a word such as `16MiB`.
    pub fn bytes(&mut self, name: &'static str, min: u64, max: u64) -> Option<u64> {
        let (spelling, value) = self.find(name)?;
        let read = match value {
            Value::String(word) => duration::bytes_from_word(word),
            Value::Number(number) => {
                number.as_u64().ok_or_else(|| "must be a whole number of bytes".to_owned())
            }
            other => {
                self.wrong_type(&self.path(spelling), "a number of bytes or a word such as \"16MiB\"", other);
                return None;
            }
        };
        match read {
            Ok(bytes) if (min..=max).contains(&bytes) => Some(bytes),
            Ok(_) => {
                let range = format!("{} to {}", duration::bytes_to_word(min), duration::bytes_to_word(max));
                self.error(IssueCode::Value, spelling, format!("must be from {range}"), None);
                None
            }
            Err(message) => {
                self.error(IssueCode::Value, spelling, message, None);
                None
            }
        }
    }

    /// A duration under `name` (a number of seconds or a word), or under one of the `…Ms`
    /// spellings (milliseconds). Zero is an error.
    pub fn duration(&mut self, name: &'static str, millis: &[&'static str]) -> Option<Duration> {
        let mut found: Vec<(&'static str, &'d Value, Unit)> = Vec::new();
        if let Some((spelling, value)) = self.find(name) {
            found.push((spelling, value, Unit::Seconds));
        }
        for spelling in millis {
            if let Some((spelling, value)) = self.find(spelling) {
                found.push((spelling, value, Unit::Millis));
            }
        }
        for (extra, ..) in found.iter().skip(1) {
            self.warn(
                IssueCode::Duplicate,
                extra,
                format!("means the same as {:?}, which counts", found[0].0),
                Some("keep one of them"),
            );
        }
        let (spelling, value, unit) = *found.first()?;
        let read = match value {
            Value::Number(number) => duration::from_number(number.as_f64().unwrap_or(f64::NAN), unit),
            Value::String(word) => duration::from_word(word, unit),
            other => {
                let wanted = "a number of seconds or a word such as \"30s\"";
                self.wrong_type(&self.path(spelling), wanted, other);
                return None;
            }
        };
        match read {
            Ok(Duration::ZERO) => {
                self.error(IssueCode::Value, spelling, "must be more than zero", None);
                None
            }
            Ok(duration) => Some(duration),
            Err(message) => {
                self.error(IssueCode::Value, spelling, message, None);
                None
            }
        }
    }

    /// The plain number under a key, whatever its meaning.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.map.get(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(word) => word.trim().parse().ok(),
            _ => None,
        }
    }

    /// A word of a closed set; any other one is an error that lists the set.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let spelling = *self.spellings(name).first()?;
        let word = self.text(name)?;
        if let Some((_, value)) = words.iter().find(|(known, _)| *known == word) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let near =
            suggest::nearest(&word, known.iter().copied()).map(|near| format!("did you mean {near:?}?"));
        self.report(
            IssueCode::Value,
            Severity::Error,
            &self.path(spelling),
            format!("unknown word; must be one of {}", known.join(", ")),
            near,
        );
        None
    }

    /// A list of strings.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        let (spelling, value) = self.find(name)?;
        let at = self.path(spelling);
        let Value::Array(items) = value else {
            self.wrong_type(&at, "a list of strings", value);
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                other => self.wrong_type(&format!("{at}[{index}]"), "a string", other),
            }
        }
        (texts.len() == items.len()).then_some(texts)
    }

    /// A list of glob patterns, compiled.
    pub fn globs(&mut self, name: &'static str) -> Option<Globs> {
        let spelling = *self.spellings(name).first()?;
        let patterns = self.texts(name)?;
        match Globs::compile(&patterns) {
            Ok(globs) => Some(globs),
            Err(message) => {
                self.error(IssueCode::Value, spelling, message, None);
                None
            }
        }
    }

    /// An object of strings, in its order.
    pub fn pairs(&mut self, name: &'static str) -> Option<Vec<(String, String)>> {
        let (spelling, value) = self.find(name)?;
        let at = self.path(spelling);
        let Value::Object(map) = value else {
            self.wrong_type(&at, "an object of strings", value);
            return None;
        };
        let mut pairs = Vec::with_capacity(map.len());
        for (key, value) in map {
            match value {
                Value::String(text) => pairs.push((key.clone(), text.clone())),
                other => self.wrong_type(&suggest::join(&at, key), "a string", other),
            }
        }
        (pairs.len() == map.len()).then_some(pairs)
    }

    /// Reads an object under a key with its own known keys.
    pub fn object<T>(
        &mut self,
        name: &'static str,
        keys: &'static [Key],
        read: impl FnOnce(&mut Fields<'d>) -> T,
    ) -> Option<T> {
        let (spelling, value) = self.find(name)?;
        let at = self.path(spelling);
        let Value::Object(map) = value else {
            self.wrong_type(&at, "an object", value);
            return None;
        };
        let mut inner = Fields::new(self.definition, map, &at, keys);
        let result = read(&mut inner);
        self.issues.append(&mut inner.issues);
        Some(result)
    }

    /// The value under a key as it stands.
    pub fn value(&mut self, name: &'static str) -> Option<&'d Value> {
        self.find(name).map(|(_, value)| value)
    }
}

/// The kind of a value with its article.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What to write instead of a key that other clients know.
fn foreign(name: &str) -> Option<&'static str> {
    match name {
        "autoApprove" | "alwaysAllow" | "autoAllow" => {
            Some("write \"allowedTools\": […]; it keeps every other tool out")
        }
        "serverUrl" | "httpUrl" | "endpoint" => Some("write \"url\""),
        "environment" => Some("write \"env\""),
        "enabled_tools" | "includeTools" => Some("write \"tools\": {\"include\": […]}"),
        "disabled_tools" | "excludeTools" | "disabledTools" => Some("write \"tools\": {\"exclude\": […]}"),
        "startup_timeout_sec" => Some("write \"connect_timeout\""),
        "tool_timeout_sec" => Some("write \"timeout\""),
        "authorization_token" | "bearerToken" => Some("name a variable with \"bearer_token_env\""),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{self, Form};
    use crate::config::spec::{Scope, Source};
    use proptest::prelude::*;
    use std::path::Path;

    const KEYS: &[Key] =
        &[Key { name: "a", aliases: &["alpha", "al"] }, key("b"), Key { name: "ms", aliases: &["millis"] }];

    fn definition(entry: &str) -> Definition {
        let source = Source { scope: Scope::User, origin: "f.json".into() };
        let text = format!("{{\"mcpServers\": {{\"s\": {entry}}}}}");
        document::parse(&text, &source, Path::new("/"), Form::File).definitions.remove(0)
    }

    /// Reads an entry and gives the result with the messages of all issues.
    fn read<T>(entry: &str, read: impl FnOnce(&mut Fields<'_>) -> T) -> (T, Vec<String>) {
        let definition = definition(entry);
        let mut fields = Fields::new(&definition, definition.value.as_object().unwrap(), "", KEYS);
        let result = read(&mut fields);
        (result, fields.issues.iter().map(ToString::to_string).collect())
    }

    /// What a reader makes of a value under `a`: the value, or the one error about it.
    fn one<T>(value: &str, reader: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Result<T, String> {
        let (result, issues) = read(&format!("{{\"a\": {value}}}"), reader);
        match (result, issues.as_slice()) {
            (Some(result), []) => Ok(result),
            (None, [issue]) => Err(issue.clone()),
            (result, issues) => panic!("{value}: {} with {issues:?}", result.is_some()),
        }
    }

    #[test]
    fn an_absent_key_and_null_are_the_same_and_no_issue() {
        for entry in ["{}", r#"{"a": null}"#, r#"{"alpha": null}"#] {
            let (_, issues) = read(entry, |fields| {
                assert_eq!(fields.text("a"), None);
                assert_eq!(fields.flag("a"), None);
                assert_eq!(fields.count("a", 0, 9), None);
                assert_eq!(fields.bytes("a", 0, 9), None);
                assert_eq!(fields.duration("a", &["ms"]), None);
                assert_eq!(fields.word("a", &[("x", 1)]), None);
                assert_eq!(fields.texts("a"), None);
                assert_eq!(fields.pairs("a"), None);
                assert_eq!(fields.globs("a"), None);
                assert_eq!(fields.object("a", KEYS, |_| ()), None);
                assert!(fields.value("a").is_none() && !fields.has("a"));
            });
            assert!(issues.is_empty(), "{entry}: {issues:?}");
        }
    }

    #[test]
    fn each_reader_takes_its_type_and_refuses_every_other_one() {
        let values = ["\"x\"", "true", "5", "[\"x\"]", "{\"b\": \"x\"}", "2.5", "-1"];
        let accepted = |reader: fn(&mut Fields<'_>) -> bool| -> Vec<bool> {
            values.iter().map(|value| one(value, |fields| reader(fields).then_some(())).is_ok()).collect()
        };
        let [y, n] = [true, false];
        assert_eq!(accepted(|f| f.text("a").is_some()), [y, n, n, n, n, n, n]);
        assert_eq!(accepted(|f| f.flag("a").is_some()), [n, y, n, n, n, n, n]);
        assert_eq!(accepted(|f| f.count("a", 0, 9).is_some()), [n, n, y, n, n, n, n]);
        assert_eq!(accepted(|f| f.bytes("a", 0, 9).is_some()), [n, n, y, n, n, n, n]);
        assert_eq!(accepted(|f| f.duration("a", &[]).is_some()), [n, n, y, n, n, y, n]);
        assert_eq!(accepted(|f| f.word("a", &[("x", ())]).is_some()), [y, n, n, n, n, n, n]);
        assert_eq!(accepted(|f| f.texts("a").is_some()), [n, n, n, y, n, n, n]);
        assert_eq!(accepted(|f| f.pairs("a").is_some()), [n, n, n, n, y, n, n]);
        assert_eq!(accepted(|f| f.object("a", KEYS, |_| ()).is_some()), [n, n, n, n, y, n, n]);
    }

    #[test]
    fn bounds_are_inclusive_and_named() {
        assert_eq!(one("2", |f| f.count("a", 2, 4)), Ok(2));
        assert_eq!(one("4", |f| f.count("a", 2, 4)), Ok(4));
        for outside in ["1", "5", "2.5", "99999999999999999999"] {
            assert!(one(outside, |f| f.count("a", 2, 4)).unwrap_err().contains("whole number from 2 to 4"));
        }
        assert_eq!(one("\"2KiB\"", |f| f.bytes("a", 1024, 2048)), Ok(2048));
        assert!(one("2049", |f| f.bytes("a", 1024, 2048)).unwrap_err().contains("from 1KiB to 2KiB"));
    }

    #[test]
    fn an_error_names_the_spelling_that_was_written() {
        let (_, issues) = read(r#"{"alpha": 1}"#, |fields| fields.text("a"));
        assert!(issues[0].starts_with("f.json:1:23: mcpServers.s.alpha: must be a string"), "{issues:?}");
        let (value, issues) = read(r#"{"millis": 1500}"#, |fields| fields.duration("a", &["ms"]));
        assert_eq!((value, issues.len()), (Some(Duration::from_millis(1500)), 0));
        let (_, issues) = read(r#"{"millis": "x"}"#, |fields| fields.duration("a", &["ms"]));
        assert!(issues[0].contains("mcpServers.s.millis"), "{issues:?}");
    }

    #[test]
    fn of_two_spellings_that_of_the_manual_counts_and_the_other_warns() {
        let (value, issues) = read(r#"{"al": "3", "alpha": "2", "a": "1"}"#, |fields| fields.text("a"));
        assert_eq!(value.as_deref(), Some("1"));
        assert_eq!(issues.len(), 2);
        assert!(issues[0].contains("alpha: means the same as \"a\""), "{issues:?}");
        let (_, issues) = read(r#"{"alpha": "x", "a": "x"}"#, |fields| fields.word("a", &[("x", 1)]));
        assert_eq!(issues.len(), 1, "once: {issues:?}");
        let (_, issues) = read(r#"{"alpha": [], "a": []}"#, |fields| fields.globs("a"));
        assert_eq!(issues.len(), 1, "once: {issues:?}");
    }

    #[test]
    fn a_written_key_is_found_under_its_spelling_and_within_an_object() {
        let written = |entry: &str, name: &'static str| read(entry, |fields| fields.written(name)).0;
        assert_eq!(written(r#"{"al": 1}"#, "a").as_deref(), Some("al"));
        assert_eq!(written(r#"{"alpha": {"x": 0}}"#, "a.x").as_deref(), Some("alpha.x"));
        for (entry, name) in
            [("{}", "a"), (r#"{"a": null}"#, "a"), (r#"{"a": 1}"#, "a.x"), (r#"{"a": {"x": null}}"#, "a.x")]
        {
            assert_eq!(written(entry, name), None, "{entry}");
        }
    }

    #[test]
    fn every_wrong_item_of_a_list_or_object_is_told() {
        let error = |entry: &str, reader: fn(&mut Fields<'_>) -> bool| read(entry, reader).1.join("\n");
        let text = error(r#"{"a": ["x", 1, null, "y"]}"#, |f| f.texts("a").is_some());
        assert!(
            text.contains("a[1]: must be a string, not a number") && text.contains("a[2]: must be"),
            "{text}"
        );
        let text = error(r#"{"a": {"x": "1", "y.z": true, "w": []}}"#, |f| f.pairs("a").is_some());
        assert!(text.contains("a[\"y.z\"]: must be a string, not a boolean (put it in quotes)"), "{text}");
        assert!(text.contains("a.w: must be a string, not a list"), "{text}");
    }

    #[test]
    fn inner_objects_have_keys_and_paths_of_their_own() {
        let (value, issues) = read(r#"{"b": {"a": "x", "c": 1, "ms": []}}"#, |fields| {
            fields.object("b", KEYS, |inner| (inner.text("a"), inner.duration("ms", &[])))
        });
        assert_eq!(value.unwrap().0.as_deref(), Some("x"));
        let text = issues.join("\n");
        assert!(
            text.contains("mcpServers.s.b.c: unknown key") && text.contains("mcpServers.s.b.ms: must be")
        );
    }

    #[test]
    fn keys_of_other_clients_are_met_with_the_word_to_use() {
        for (name, part) in [
            ("alwaysAllow", "\"allowedTools\""),
            ("serverUrl", "\"url\""),
            ("startup_timeout_sec", "connect_timeout"),
            ("bearerToken", "bearer_token_env"),
            ("disabledTools", "exclude"),
        ] {
            let (_, issues) = read(&format!("{{{name:?}: 1}}"), |_| ());
            assert!(issues.len() == 1 && issues[0].contains(part), "{issues:?}");
        }
        assert!(read(r#"{"whatever_this_is": 1}"#, |_| ()).1[0].ends_with("unknown key, ignored"));
    }

    proptest! {
        #[test]
        fn no_value_is_ever_repeated_in_an_issue(secret in "[A-Z]{12}") {
            for value in [format!("\"{secret}\""), format!("[\"{secret}\"]"), format!("{{\"x\": \"{secret}\"}}")] {
                let (_, issues) = read(&format!("{{\"a\": {value}}}"), |fields| {
                    let _ = (fields.flag("a"), fields.count("a", 0, 1), fields.bytes("a", 0, 1));
                    let _ = (fields.duration("a", &[]), fields.word("a", &[("x", ())]));
                });
                prop_assert!(issues.len() >= 5 && !issues.join("").contains(&secret), "{issues:?}");
            }
        }
    }
}
