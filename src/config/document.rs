//! Floor 1. One configuration text becomes a list of [`Definition`]s: the entries as they
//! were written, with the place of every key. Comments, trailing commas and a BOM are
//! accepted. Must never expand or judge an entry. Called by `config::load` and `config::edit`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::{Map, Number, Value};

use super::spec::{Issue, Severity, Source};
use super::suggest;

/// Line and column, both from 1; columns count characters.
pub type Position = (usize, usize);

/// One entry as written, unexpanded.
#[derive(Clone, Debug, PartialEq)]
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

impl Definition {
    /// An issue about the key path `within` this entry.
    pub fn issue(&self, severity: Severity, within: &str, message: impl Into<String>) -> Issue {
        let path = match within {
            "" => self.key.clone(),
            _ if within.starts_with('[') => format!("{}{within}", self.key),
            _ => format!("{}.{within}", self.key),
        };
        Issue {
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
            document.issues.push(reader.issue(Severity::Error, Some(at), "", message, None));
            return document;
        }
    };
    let offset = text.len() - body.len();
    match parsed.value {
        None => document.issues.push(reader.issue(
            Severity::Warning,
            None,
            "",
            "empty: no servers".into(),
            Some("write {\"mcpServers\": {}}".into()),
        )),
        Some(ast::Value::Object(root)) => reader.root(&root, offset, form, &mut document),
        Some(other) => document.issues.push(reader.issue(
            Severity::Error,
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
    let source = Source { scope: super::spec::Scope::Default, origin: "".into() };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let reader = Reader { source: &source, base: Path::new(""), lines: Lines::new("") };
    let mut scratch = Definition {
        name: String::new(),
        source: source.clone(),
        base: PathBuf::new(),
        key: String::new(),
        value: Value::Null,
        positions: BTreeMap::new(),
        issues: Vec::new(),
    };
    parsed.value.map(|value| reader.value(&value, "", 0, 0, &mut scratch))
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
        severity: Severity,
        at: Option<usize>,
        path: &str,
        message: String,
        fix: Option<String>,
    ) -> Issue {
        Issue {
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
                Severity::Warning,
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
                    Severity::Error,
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
                Severity::Error,
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
            document.issues.push(self.issue(Severity::Warning, None, "", message, None));
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
                Severity::Warning,
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
                    Severity::Error,
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
            let issue = definition.issue(Severity::Error, path, "nested too deep");
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
                    let issue = definition.issue(Severity::Error, path, "number out of range");
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
                        let issue =
                            definition.issue(Severity::Warning, &at, "written twice; the last one counts");
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
