//! Floor 2. The host settings: one figment layer for each source, weakest first, so that
//! every key knows where its value comes from. A wrong value is an issue and leaves the
//! weaker source in force. Called by `load`.

use std::path::Path;

use figment::value::{Dict, Map, Value as Figure};
use figment::{Figment, Metadata, Profile, Provider};
use serde_json::Value;

use super::LoadOptions;
use crate::config::document::Lines;
use crate::config::host::{DEFAULT_TOML, HostKey, HostSettings, Kind, Setting};
use crate::config::host_keys::{self, HOST_KEYS};
use crate::config::issue::{Issue, IssueCode, Severity};
use crate::config::spec::{Scope, Source};
use crate::config::suggest;
use crate::store::{self, FILE_BYTES_MAX};

/// The effective host settings.
pub(super) struct Settings {
    pub(super) settings: HostSettings,
    pub(super) provenance: Vec<(&'static str, Source)>,
    pub(super) issues: Vec<Issue>,
}

/// Variables that begin with `CALLBOARD_` and are no settings.
const OTHER_VARIABLES: [&str; 4] =
    ["CALLBOARD_HOME", "CALLBOARD_MCP_CONFIG", "CALLBOARD_MCP_CONFIG_JSON", "CALLBOARD_MCP_SERVERS"];

/// One source's values, checked.
struct Layer {
    source: Source,
    values: Vec<(&'static str, Setting)>,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::from(self.source.scope.as_str(), figment::Source::Custom(self.source.origin.to_string()))
    }

    /// The values travel as their words; the table reads them back.
    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut dict = Dict::new();
        for (name, setting) in &self.values {
            let figure = match setting {
                Setting::Texts(texts) => Figure::from(texts.clone()),
                other => Figure::from(other.to_string()),
            };
            insert(&mut dict, name, figure);
        }
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

fn insert(dict: &mut Dict, name: &str, figure: Figure) {
    let Some((head, tail)) = name.split_once('.') else {
        dict.insert(name.to_owned(), figure);
        return;
    };
    let inner = dict.entry(head.to_owned()).or_insert_with(|| Figure::from(Dict::new()));
    if let Figure::Dict(_, inner) = inner {
        insert(inner, tail, figure);
    }
}

/// Reads all layers: defaults, user, project, environment, flags, managed.
pub(super) fn load(options: &LoadOptions, home: Option<&Path>, root: &Path) -> Settings {
    let mut loader = Loader { options, figment: Figment::new(), sources: Vec::new(), issues: Vec::new() };
    let manual = Source { scope: Scope::Default, origin: "default.toml".into() };
    let read = loader.read_toml(DEFAULT_TOML, &manual);
    loader.add(manual, read);
    if let Some(home) = home {
        loader.file(Scope::User, &home.join("callboard.toml"));
    }
    let project = root.join(".callboard");
    if options.project && !super::is_own(&project, home) {
        loader.file(Scope::Project, &project.join("callboard.toml"));
    }
    loader.environment();
    loader.flags();
    loader.file(Scope::Managed, &options.managed_dir.join("callboard.toml"));
    loader.finish()
}

struct Loader<'a> {
    options: &'a LoadOptions,
    figment: Figment,
    sources: Vec<Source>,
    issues: Vec<Issue>,
}

impl Loader<'_> {
    fn add(&mut self, source: Source, values: Vec<(&'static str, Setting)>) {
        if values.is_empty() {
            return;
        }
        self.sources.push(source.clone());
        self.figment = std::mem::take(&mut self.figment).merge(Layer { source, values });
    }

    /// The settings as of the layers so far.
    fn settings(&self) -> HostSettings {
        let mut settings = HostSettings::default();
        for key in HOST_KEYS {
            let Ok(figure) = self.figment.find_value(key.name) else { continue };
            let read = match figure {
                Figure::String(_, word) => key.check_text(&word),
                other => key.check(&json(&other)),
            };
            if let Ok(setting) = read {
                (key.set)(&mut settings, &setting);
            }
        }
        settings
    }

    /// A checked value with the home folder in place of `~`.
    fn placed(&self, key: &HostKey, setting: Setting) -> Result<Setting, String> {
        let Setting::Texts(texts) = setting else { return Ok(setting) };
        if !matches!(key.kind, Kind::Folders | Kind::Paths) {
            return Ok(Setting::Texts(texts));
        }
        let mut folders = Vec::with_capacity(texts.len());
        for text in texts {
            let folder = self.options.tilde(&text);
            if !folder.is_absolute() {
                return Err("needs the variable HOME for \"~\", which is not set".to_owned());
            }
            folders.push(folder.to_string_lossy().into_owned());
        }
        Ok(Setting::Texts(folders))
    }

    fn finish(mut self) -> Settings {
        let settings = self.settings();
        let provenance = self.provenance();
        let gone = settings.roots.iter().filter(|folder| !folder.is_dir());
        for folder in gone {
            let source = provenance.iter().find(|(name, _)| *name == "roots");
            if let Some((_, source)) = source {
                let message = format!("no such folder: {}; told to servers all the same", folder.display());
                self.issue((IssueCode::Value, Severity::Warning), source, "roots", message);
            }
        }
        Settings { provenance, settings, issues: self.issues }
    }

    /// Where the value of each key comes from.
    fn provenance(&self) -> Vec<(&'static str, Source)> {
        let fallback = Source { scope: Scope::Default, origin: "default.toml".into() };
        let provenance = HOST_KEYS.iter().map(|key| {
            let metadata = self.figment.find_metadata(key.name);
            let origin =
                metadata.and_then(|metadata| metadata.source.as_ref()).and_then(|source| source.custom());
            let scope = metadata.map(|metadata| metadata.name.as_ref());
            let same =
                |source: &&Source| Some(&*source.origin) == origin && Some(source.scope.as_str()) == scope;
            (key.name, self.sources.iter().find(same).cloned().unwrap_or_else(|| fallback.clone()))
        });
        provenance.collect()
    }

    fn issue(
        &mut self,
        (code, severity): (IssueCode, Severity),
        source: &Source,
        path: &str,
        message: String,
    ) -> &mut Issue {
        self.issues.push(Issue {
            code,
            severity,
            source: source.clone(),
            position: None,
            path: path.to_owned(),
            message,
            fix: None,
        });
        let last = self.issues.len() - 1;
        &mut self.issues[last]
    }

    fn file(&mut self, scope: Scope, path: &Path) {
        let source = Source { scope, origin: path.to_string_lossy().into() };
        match store::read_text(path, FILE_BYTES_MAX) {
            Ok(Some(text)) => {
                let mut values = self.read_toml(&text, &source);
                if scope == Scope::Project {
                    values = self.allowed_to_project(values, &source);
                }
                self.add(source, values);
            }
            Ok(None) => {}
            Err(error) => {
                self.issue((IssueCode::Unreadable, Severity::Error), &source, "", super::bare(&error, path));
            }
        }
    }

    /// Reads a file; what is unknown or wrong is an issue with its place and left out.
    fn read_toml(&mut self, text: &str, source: &Source) -> Vec<(&'static str, Setting)> {
        let lines = Lines::new(text);
        let document = match toml_edit::ImDocument::parse(crate::config::document::strip_bom(text).to_owned())
        {
            Ok(document) => document,
            Err(error) => {
                let position = error.span().map(|span| lines.position(span.start));
                let message = error.message().trim().replace('\n', "; ");
                self.issue(
                    (IssueCode::Syntax, Severity::Error),
                    source,
                    "",
                    format!("not valid TOML: {message}"),
                )
                .position = position;
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        flatten(document.as_table(), "", &mut found);
        let mut values = Vec::new();
        for (name, item, start) in found {
            let position = start.map(|start| lines.position(start));
            match host_keys::find(&name) {
                None => {
                    let issue = self.issue(
                        (IssueCode::UnknownKey, Severity::Warning),
                        source,
                        &name,
                        "unknown key, ignored".into(),
                    );
                    issue.fix = unknown_hint(&name);
                    issue.position = position;
                }
                Some(key) => match key.check(&item).and_then(|setting| self.placed(key, setting)) {
                    Ok(setting) => values.push((key.name, setting)),
                    Err(message) => {
                        self.issue((IssueCode::Value, Severity::Error), source, &name, message).position =
                            position
                    }
                },
            }
        }
        values
    }

    /// A project may set little, and raise nothing.
    fn allowed_to_project(
        &mut self,
        values: Vec<(&'static str, Setting)>,
        source: &Source,
    ) -> Vec<(&'static str, Setting)> {
        let now = self.settings();
        let mut allowed = Vec::new();
        for (name, setting) in values {
            let Some(key) = host_keys::find(name) else { continue };
            match key.allows_project(&setting, &(key.get)(&now)) {
                Ok(()) => allowed.push((name, setting)),
                Err(message) => {
                    let issue = self.issue((IssueCode::NotAllowed, Severity::Error), source, name, message);
                    issue.fix = Some("set it in your own callboard.toml".into());
                }
            }
        }
        allowed
    }

    /// Each variable is a layer of its own, so that its name is told as the source.
    fn environment(&mut self) {
        let options = self.options;
        for (variable, text) in options.env.iter().filter(|(name, _)| name.starts_with("CALLBOARD_")) {
            if OTHER_VARIABLES.contains(&variable) {
                continue;
            }
            let source = Source { scope: Scope::EnvInline, origin: variable.into() };
            match HOST_KEYS.iter().find(|key| key.variable() == variable) {
                Some(key) => match key.check_text(text).and_then(|setting| self.placed(key, setting)) {
                    Ok(setting) => self.add(source, vec![(key.name, setting)]),
                    Err(message) => {
                        self.issue((IssueCode::Value, Severity::Error), &source, key.name, message);
                    }
                },
                None => {
                    let known: Vec<String> = HOST_KEYS.iter().map(HostKey::variable).collect();
                    // Other programs of this family may have variables too.
                    let Some(near) = suggest::nearest(variable, known.iter().map(String::as_str)) else {
                        continue;
                    };
                    self.issue(
                        (IssueCode::UnknownKey, Severity::Warning),
                        &source,
                        "",
                        "no such setting, ignored".into(),
                    )
                    .fix = Some(format!("did you mean {near}?"));
                }
            }
        }
    }

    fn flags(&mut self) {
        let options = self.options;
        for (name, text) in &options.settings {
            let source = Source { scope: Scope::Flag, origin: "command line".into() };
            match host_keys::find(name) {
                Some(key) => match key.check_text(text).and_then(|setting| self.placed(key, setting)) {
                    Ok(setting) => self.add(source, vec![(key.name, setting)]),
                    Err(message) => {
                        self.issue((IssueCode::Value, Severity::Error), &source, name, message);
                    }
                },
                None => {
                    self.issue(
                        (IssueCode::UnknownKey, Severity::Error),
                        &source,
                        name,
                        "no such setting".into(),
                    )
                    .fix = unknown_hint(name);
                }
            }
        }
    }
}

/// What to say about a key that does not exist.
fn unknown_hint(name: &str) -> Option<String> {
    let near = suggest::nearest(name, HOST_KEYS.iter().map(|key| key.name))?;
    Some(format!("did you mean {near}?"))
}

/// The leaves of a table with their dotted names and where they begin.
fn flatten(table: &dyn toml_edit::TableLike, prefix: &str, found: &mut Vec<(String, Value, Option<usize>)>) {
    for (name, item) in table.iter() {
        let path = suggest::join(prefix, name);
        match item.as_table_like() {
            Some(inner) => flatten(inner, &path, found),
            None => {
                let key = table.key(name).and_then(toml_edit::Key::span);
                found.push((path, item_json(item), key.or(item.span()).map(|span| span.start)));
            }
        }
    }
}

fn item_json(item: &toml_edit::Item) -> Value {
    item.as_value().map_or(Value::Null, value_json)
}

fn value_json(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => Value::String(text.value().clone()),
        Toml::Integer(number) => Value::from(*number.value()),
        Toml::Float(number) => Value::from(*number.value()),
        Toml::Boolean(flag) => Value::Bool(*flag.value()),
        Toml::Array(items) => Value::Array(items.iter().map(value_json).collect()),
        Toml::Datetime(_) | Toml::InlineTable(_) => Value::Null,
    }
}

/// Lists are all that travels as anything but words.
fn json(figure: &Figure) -> Value {
    match figure {
        Figure::Array(_, items) => Value::Array(items.iter().map(json).collect()),
        Figure::String(_, text) => Value::String(text.clone()),
        _ => Value::Null,
    }
}
