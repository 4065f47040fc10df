//! Floor 1. One configuration text becomes a list of [`Definition`]s: the entries as they
//! were written, with the place of every key. Comments, trailing commas and a BOM are
//! accepted. Must never expand or judge an entry. Called by `config::load` and `config::edit`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::{Map, Number, Value};

use super::issue::{Issue, IssueCode, Severity};
use super::spec::Source;
use super::suggest;

/// Line and column, both from 1; columns count characters.
pub type Position = (usize, usize);

/// One entry as written, unexpanded. `Debug` shows no value: literals may be secret.
#[derive(Clone, PartialEq)]
pub struct Definition {
    /// The name, not yet checked.
    pub name: String,
    /// Where it stands.
    pub source: Source,
    /// Folder that a relative `cwd` is relative to.
    pub base: PathBuf,
    /// Key path of the entry in its source, such as `mcpServers.github`.
    pub key: String,
    /// The value as written; keys in their order. Not necessarily an object.
    pub value: Value,
    /// Key path within the entry (`env.TOKEN`, `args[1]`; empty for the entry) to its place.
    pub positions: BTreeMap<String, Position>,
    /// What the syntax alone already shows: keys written twice, hidden duplicates.
    pub issues: Vec<Issue>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("key", &self.key)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Definition {
    /// An issue about the key path `within` this entry.
    pub fn issue(
        &self,
        code: IssueCode,
        severity: Severity,
        within: &str,
        message: impl Into<String>,
    ) -> Issue {
        let path = match within {
            "" => self.key.clone(),
            _ if self.key.is_empty() => within.to_owned(),
            _ if within.starts_with('[') => format!("{}{within}", self.key),
            _ => format!("{}.{within}", self.key),
        };
        Issue {
            code,
            severity,
            source: self.source.clone(),
            position: self.position(within),
            path,
            message: message.into(),
            fix: None,
        }
    }

    /// The place of a key path, or of the nearest key around it.
    fn position(&self, within: &str) -> Option<Position> {
        let mut path = within;
        loop {
            if let Some(position) = self.positions.get(path) {
                return Some(*position);
            }
            path = path.rfind(['.', '[']).map_or("", |cut| &path[..cut]);
            if path.is_empty() {
                return self.positions.get("").copied();
            }
        }
    }
}

/// How a text may be shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file: servers stand under `mcpServers` or `servers`.
    File,
    /// Inline JSON in the environment: the root may be the map itself.
    Inline,
}

/// What one text contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its entries in their order; a name appears once.
    pub definitions: Vec<Definition>,
    /// Issues of the text as a whole.
    pub issues: Vec<Issue>,
}

/// The two names of the server map, the stronger one first.
pub const MAP_KEYS: [&str; 2] = ["mcpServers", "servers"];
/// Other keys that such files are known to hold; they mean nothing here.
const NEUTRAL_KEYS: [&str; 3] = ["$schema", "inputs", "version"];
/// Deepest nesting that is taken; far below what the parser itself allows.
const DEPTH_MAX: usize = 64;

/// The dialect: JSON with comments and trailing commas, nothing looser.
pub fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Reads one text. `base` is the folder for relative working directories. Never fails:
/// a text that can't be read is one issue with its line and column, and no definitions.
pub fn parse(text: &str, source: &Source, base: &Path, form: Form) -> Document {
    let reader = Reader { source, base, lines: Lines::new(text) };
    let mut document = Document::default();
    let body = strip_bom(text);
    let parsed = match jsonc_parser::parse_to_ast(body, &CollectOptions::default(), &parse_options()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let at = error.range().start + (text.len() - body.len());
            let message = format!("not valid JSON: {}", lower_first(&error.kind().to_string()));
            let fix = "repair it there; until then nothing of it is used".to_owned();
            document.issues.push(reader.issue(
                (IssueCode::Syntax, Severity::Error),
                Some(at),
                "",
                message,
                Some(fix),
            ));
            return document;
        }
    };
    let offset = text.len() - body.len();
    match parsed.value {
        None => document.issues.push(reader.issue(
            (IssueCode::Shape, Severity::Warning),
            None,
            "",
            "empty: no servers".into(),
            Some("write {\"mcpServers\": {}}".into()),
        )),
        Some(ast::Value::Object(root)) => reader.root(&root, offset, form, &mut document),
        Some(other) => document.issues.push(reader.issue(
            (IssueCode::Shape, Severity::Error),
            Some(start_of(&other) + offset),
            "",
            "must be an object".into(),
            Some("write {\"mcpServers\": {…}}".into()),
        )),
    }
    document
}

/// The whole text as one value, keys written twice taken from the last; `None` if it can't be
/// read or is empty.
pub fn value_of(text: &str) -> Option<Value> {
    read_value(text).map(|(value, _)| value)
}

/// What the syntax of one value shows: keys written twice, numbers and nesting out of range.
/// Their paths are those within the value.
pub fn flaws(text: &str) -> Vec<Issue> {
    read_value(text).map(|(_, issues)| issues).unwrap_or_default()
}

fn read_value(text: &str) -> Option<(Value, Vec<Issue>)> {
    let source = Source { scope: super::spec::Scope::Default, origin: "".into() };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let reader = Reader { source: &source, base: Path::new(""), lines: Lines::new(text) };
    let mut scratch = Definition {
        name: String::new(),
        source: source.clone(),
        base: PathBuf::new(),
        key: String::new(),
        value: Value::Null,
        positions: BTreeMap::new(),
        issues: Vec::new(),
    };
    let value = parsed.value.map(|value| reader.value(&value, "", 0, 0, &mut scratch))?;
    Some((value, scratch.issues))
}

/// The text without a leading byte order mark.
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

struct Reader<'a> {
    source: &'a Source,
    base: &'a Path,
    lines: Lines<'a>,
}

impl Reader<'_> {
    fn issue(
        &self,
        (code, severity): (IssueCode, Severity),
        at: Option<usize>,
        path: &str,
        message: String,
        fix: Option<String>,
    ) -> Issue {
        Issue {
            code,
            severity,
            source: self.source.clone(),
            position: at.map(|at| self.lines.position(at)),
            path: path.to_owned(),
            message,
            fix,
        }
    }

    fn root(&self, root: &ast::Object<'_>, offset: usize, form: Form, document: &mut Document) {
        let maps: Vec<&ast::ObjectProp<'_>> = MAP_KEYS
            .iter()
            .filter_map(|key| root.properties.iter().rev().find(|p| p.name.as_str() == *key))
            .filter(|prop| form == Form::File || !looks_like_entry(&prop.value))
            .collect();
        if maps.is_empty() {
            match form {
                Form::Inline => self.map(root, "", offset, document),
                Form::File => self.no_map(root, offset, document),
            }
            return;
        }
        if let [first, second] = maps[..] {
            document.issues.push(self.issue(
                (IssueCode::Duplicate, Severity::Warning),
                Some(second.range.start + offset),
                second.name.as_str(),
                format!("stands beside {:?}; both are read", first.name.as_str()),
                Some("keep one of them".into()),
            ));
        }
        self.stray_keys(root, offset, document);
        for prop in maps {
            match &prop.value {
                ast::Value::Object(map) => self.map(map, prop.name.as_str(), offset, document),
                other => document.issues.push(self.issue(
                    (IssueCode::Shape, Severity::Error),
                    Some(start_of(other) + offset),
                    prop.name.as_str(),
                    format!("must be an object of servers, not {}", kind_of(other)),
                    None,
                )),
            }
        }
    }

    /// A file without a server map: silent only when it is plainly empty.
    fn no_map(&self, root: &ast::Object<'_>, offset: usize, document: &mut Document) {
        if let Some(entry) = root.properties.iter().find(|prop| looks_like_entry(&prop.value)) {
            document.issues.push(self.issue(
                (IssueCode::Shape, Severity::Error),
                Some(entry.range.start + offset),
                "",
                "servers stand at the top level, which is read only from the environment".into(),
                Some("wrap them: {\"mcpServers\": {…}}".into()),
            ));
            return;
        }
        self.stray_keys(root, offset, document);
        if !root.properties.is_empty() && document.issues.is_empty() {
            let message = "has no \"mcpServers\": no servers".into();
            document.issues.push(self.issue((IssueCode::Shape, Severity::Warning), None, "", message, None));
        }
    }

    /// One warning for all keys at the top level that mean nothing here, and one for keys
    /// that are written twice.
    fn stray_keys(&self, root: &ast::Object<'_>, offset: usize, document: &mut Document) {
        let stray: Vec<&ast::ObjectProp<'_>> = root
            .properties
            .iter()
            .filter(|p| !MAP_KEYS.contains(&p.name.as_str()) && !NEUTRAL_KEYS.contains(&p.name.as_str()))
            .collect();
        if let Some(first) = stray.first() {
            let names: Vec<&str> = stray.iter().map(|prop| prop.name.as_str()).collect();
            let near = names.iter().find_map(|name| suggest::nearest(name, MAP_KEYS));
            document.issues.push(self.issue(
                (IssueCode::UnknownKey, Severity::Warning),
                Some(first.range.start + offset),
                &suggest::join("", names[0]),
                match names.len() {
                    1 => "unknown key, ignored".to_owned(),
                    n => format!("{n} unknown keys at the top level, ignored: {}", list(&names)),
                },
                near.map(|near| format!("did you mean {near:?}?")),
            ));
        }
        for key in MAP_KEYS {
            let mut all = root.properties.iter().filter(|prop| prop.name.as_str() == key);
            if let (Some(first), Some(_)) = (all.next(), all.next()) {
                document.issues.push(self.issue(
                    (IssueCode::Duplicate, Severity::Error),
                    Some(first.range.start + offset),
                    key,
                    "written more than once; only the last one is read".into(),
                    Some("merge them into one".into()),
                ));
            }
        }
    }

    fn map(&self, map: &ast::Object<'_>, key: &str, offset: usize, document: &mut Document) {
        for prop in &map.properties {
            let name = prop.name.as_str();
            let path = suggest::join(key, name);
            let mut definition = Definition {
                name: name.to_owned(),
                source: self.source.clone(),
                base: self.base.to_path_buf(),
                key: path,
                value: Value::Null,
                positions: BTreeMap::new(),
                issues: Vec::new(),
            };
            definition.positions.insert(String::new(), self.lines.position(prop.range.start + offset));
            definition.value = self.value(&prop.value, "", offset, 0, &mut definition);
            let earlier = document.definitions.iter().position(|earlier| earlier.name == name);
            match earlier {
                None => document.definitions.push(definition),
                Some(index) => self.twice(index, definition, key, document),
            }
        }
    }

    /// The same name twice in one source: within one map the later one counts, between the
    /// maps that of `mcpServers`.
    fn twice(&self, index: usize, later: Definition, key: &str, document: &mut Document) {
        let kept = &mut document.definitions[index];
        let other_map = !kept.key.starts_with(key);
        let note = later.issue(
            IssueCode::Duplicate,
            Severity::Warning,
            "",
            if other_map {
                "also defined under \"mcpServers\", which counts"
            } else {
                "defined twice in this file; the last one counts"
            },
        );
        if !other_map {
            *kept = later;
        }
        kept.issues.push(note);
    }

    fn value(
        &self,
        node: &ast::Value<'_>,
        path: &str,
        offset: usize,
        depth: usize,
        definition: &mut Definition,
    ) -> Value {
        if depth > DEPTH_MAX {
            let issue = definition.issue(IssueCode::Value, Severity::Error, path, "nested too deep");
            definition.issues.push(issue);
            return Value::Null;
        }
        match node {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(lit) => Value::Bool(lit.value),
            ast::Value::StringLit(lit) => Value::String(lit.value.to_string()),
            ast::Value::NumberLit(lit) => match lit.value.parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    let issue =
                        definition.issue(IssueCode::Value, Severity::Error, path, "number out of range");
                    definition.issues.push(issue);
                    Value::Null
                }
            },
            ast::Value::Array(array) => {
                let items = array.elements.iter().enumerate().map(|(index, item)| {
                    let at = format!("{path}[{index}]");
                    definition.positions.insert(at.clone(), self.lines.position(start_of(item) + offset));
                    self.value(item, &at, offset, depth + 1, definition)
                });
                Value::Array(items.collect())
            }
            ast::Value::Object(object) => {
                let mut map = Map::new();
                for prop in &object.properties {
                    let name = prop.name.as_str();
                    let at = suggest::join(path, name);
                    definition.positions.insert(at.clone(), self.lines.position(prop.range.start + offset));
                    let value = self.value(&prop.value, &at, offset, depth + 1, definition);
                    if map.insert(name.to_owned(), value).is_some() {
                        let issue = definition.issue(
                            IssueCode::Duplicate,
                            Severity::Warning,
                            &at,
                            "written twice; the last one counts",
                        );
                        definition.issues.push(issue);
                    }
                }
                Value::Object(map)
            }
        }
    }
}

/// Whether a value is an entry rather than a map of entries.
fn looks_like_entry(value: &ast::Value<'_>) -> bool {
    let ast::Value::Object(object) = value else { return false };
    ["command", "url"]
        .iter()
        .any(|key| matches!(object.get(key), Some(prop) if prop.value.as_string_lit().is_some()))
}

fn start_of(value: &ast::Value<'_>) -> usize {
    match value {
        ast::Value::StringLit(node) => node.range.start,
        ast::Value::NumberLit(node) => node.range.start,
        ast::Value::BooleanLit(node) => node.range.start,
        ast::Value::Object(node) => node.range.start,
        ast::Value::Array(node) => node.range.start,
        ast::Value::NullKeyword(node) => node.range.start,
    }
}

fn kind_of(value: &ast::Value<'_>) -> &'static str {
    match value {
        ast::Value::StringLit(_) => "a string",
        ast::Value::NumberLit(_) => "a number",
        ast::Value::BooleanLit(_) => "a boolean",
        ast::Value::Object(_) => "an object",
        ast::Value::Array(_) => "a list",
        ast::Value::NullKeyword(_) => "null",
    }
}

/// The first few names, quoted, and how many more there are.
fn list(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN_MAX).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Finds lines and columns of byte offsets.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Indexes the line starts of a text.
    pub fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        Self { text, starts: starts.collect() }
    }

    /// The place of a byte offset; offsets past the end are the end.
    pub fn position(&self, at: usize) -> Position {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts[line - 1];
        let column = self.text.get(start..at).map_or(at - start, |head| strip_bom(head).chars().count());
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::Scope;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str, form: Form) -> Document {
        let source = Source { scope: Scope::User, origin: "f.json".into() };
        parse(text, &source, Path::new("/base"), form)
    }

    #[test]
    fn every_key_knows_its_line_and_column() {
        let text = "{\n  \"mcpServers\": {\n    \"s\": {\n      \"env\": {\"Ä\": \"1\", \"B\": 2},\n      \"args\": [\"a\",\n        \"b\"]}}}";
        let definition = &read(text, Form::File).definitions[0];
        assert_eq!(definition.key, "mcpServers.s");
        let at =
            |within: &str| definition.issue(IssueCode::Value, Severity::Error, within, "x").position.unwrap();
        assert_eq!(at(""), (3, 5));
        assert_eq!(at("env"), (4, 7));
        assert_eq!(at("env.B"), (4, 25));
        assert_eq!(at("args[1]"), (6, 9));
        // An unknown key path points at the nearest key around it.
        assert_eq!(at("args[7]"), (5, 7));
        assert_eq!(at("gone.deep"), (3, 5));
    }

    #[test]
    fn a_byte_order_mark_moves_no_column() {
        let text = "\u{feff}{\"mcpServers\": {\"s\": 1}}";
        assert_eq!(read(text, Form::File).definitions[0].positions[""], (1, 17));
    }

    #[test]
    fn values_are_taken_as_written() {
        let text = r#"{"mcpServers": {"s": {"a": [1, -2.5, 1e3, true, null, "ü\n\u00e4"], "b": {}}}}"#;
        let definition = &read(text, Form::File).definitions[0];
        assert_eq!(definition.value, json!({"a": [1, -2.5, 1000.0, true, null, "ü\nä"], "b": {}}));
    }

    #[test]
    fn numbers_and_nesting_out_of_range_are_told() {
        let deep = format!(
            "{{\"mcpServers\": {{\"s\": {{\"a\": 1e999, \"b\": {}{}}}}}}}",
            "[".repeat(80),
            "]".repeat(80)
        );
        let messages: Vec<String> =
            read(&deep, Form::File).definitions[0].issues.iter().map(|issue| issue.message.clone()).collect();
        assert_eq!(messages, ["number out of range", "nested too deep"]);
        let bottomless = "[".repeat(100_000);
        assert_eq!(read(&bottomless, Form::File).issues.len(), 1);
    }

    #[test]
    fn looser_dialects_are_refused() {
        for text in [
            "{a: 1}",
            "{'a': 1}",
            "{\"a\": 0x1}",
            "{\"a\": +1}",
            "{\"a\": .5}",
            "{\"a\": 1 \"b\": 2}",
            "{} {}",
            "NaN",
        ] {
            assert_eq!(read(text, Form::File).issues.len(), 1, "{text}");
        }
    }

    #[test]
    fn stray_keys_are_one_warning() {
        let document = read(
            r#"{"a": 1, "b": {}, "c": [], "d": 1, "e": 2, "f": 3, "g": 4, "mcpServers": {}}"#,
            Form::File,
        );
        assert_eq!(document.issues.len(), 1);
        assert!(
            document.issues[0].message.contains("7 unknown keys")
                && document.issues[0].message.ends_with("and 2 more")
        );
    }

    #[test]
    fn a_file_without_servers_says_so() {
        for (text, part) in [("", "empty"), ("// x\n", "empty"), (r#"{"$schema": "x"}"#, "no \"mcpServers\"")]
        {
            let document = read(text, Form::File);
            assert!(document.issues[0].message.contains(part), "{text}");
            assert_eq!(document.issues[0].severity, Severity::Warning);
        }
        assert!(read("{}", Form::File).issues.is_empty());
        assert!(read("{}", Form::Inline).issues.is_empty());
    }

    #[test]
    fn what_is_written_twice_is_told_with_its_place_and_nothing_is_lost_silently() {
        let text = "{\"mcpServers\": {\n \"s\": {\"command\": \"a\"},\n \"s\": {\"command\": \"b\",\n  \"env\": {\"K\": \"1\", \"K\": \"2\"}, \"command\": \"c\"}}}";
        let document = read(text, Form::File);
        let told: Vec<(&str, Option<Position>)> = document.definitions[0]
            .issues
            .iter()
            .map(|issue| (issue.path.as_str(), issue.position))
            .collect();
        assert_eq!(
            told,
            [
                ("mcpServers.s.env.K", Some((4, 21))),
                ("mcpServers.s.command", Some((4, 32))),
                ("mcpServers.s", Some((3, 2)))
            ]
        );
        assert!(document.definitions[0].issues.iter().all(|issue| issue.code == IssueCode::Duplicate));
        let inside = flaws(r#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 2}"#);
        let paths: Vec<&str> = inside.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["b[0].c", "a"]);
    }

    proptest! {
        /// As many keys as are written twice are told, wherever they stand.
        #[test]
        fn every_doubled_key_is_told(keys in proptest::collection::vec("[a-d]", 0..8), deep: bool) {
            let body: Vec<String> = keys.iter().map(|key| format!("{key:?}: 1")).collect();
            let object = format!("{{{}}}", body.join(", "));
            let text = if deep { format!("{{\"x\": [{object}]}}") } else { object };
            let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
            prop_assert_eq!(flaws(&text).len(), keys.len() - distinct.len());
        }

        #[test]
        fn no_text_makes_it_panic_and_every_fault_has_a_place(text in ".{0,80}") {
            for form in [Form::File, Form::Inline] {
                let document = read(&text, form);
                for issue in document.issues.iter().filter(|issue| issue.severity == Severity::Error) {
                    prop_assert!(issue.position.is_some() && !issue.message.is_empty());
                }
            }
        }

        #[test]
        fn what_serde_reads_is_read_the_same(entries in proptest::collection::btree_map("[a-z. ]{1,6}", 0u32..9, 0..5)) {
            let map: Map<String, Value> =
                entries.iter().map(|(k, v)| (k.clone(), json!({"command": "x", "n": v}))).collect();
            let text = serde_json::to_string_pretty(&json!({"mcpServers": map})).unwrap();
            let document = read(&text, Form::File);
            prop_assert!(document.issues.is_empty());
            let back: Map<String, Value> =
                document.definitions.into_iter().map(|definition| (definition.name, definition.value)).collect();
            prop_assert_eq!(back, map);
        }
    }
}
