//! Floor 2. Reads every source of the configuration in its order and hands the texts to the
//! pure parts: `document`, `merge`, `host`. The only reader of the environment. Must never
//! start or contact anything, nor write. Called by the edges.
//!
//! ```no_run
//! use callboard::config::load::{LoadOptions, load};
//!
//! let loaded = load(&LoadOptions::from_process());
//! for entry in &loaded.servers.entries {
//!     let _ = (entry.id.as_str(), &entry.state, &entry.source, &entry.shadows);
//! }
//! ```

mod env;
mod home;
mod permits;
mod settings;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use env::Env;
pub use home::NoHome;
pub use world::SecretSource;

use super::approval::Approval;
use super::approvals;
use super::document::{self, Definition, Document, Form};
use super::expand::expand;
use super::host::HostSettings;
use super::issue::{Issue, IssueCode, Severity};
use super::merge::{self, Merge};
use super::spec::{Scope, SecretText, ServerSet, Source};
use super::validate::Context;
use crate::config::rules::AllowRules;
use crate::store::{self, FILE_BYTES_MAX};
pub(super) use world::Machine;

/// Where the managed files stand.
pub const MANAGED_DIR: &str = "/etc/callboard";

/// The variables that name or hold servers.
pub const SOURCE_VARIABLES: [&str; 3] =
    ["CALLBOARD_MCP_CONFIG", "CALLBOARD_MCP_CONFIG_JSON", "CALLBOARD_MCP_SERVERS"];

/// Everything that decides what is loaded. Nothing else is read.
#[derive(Clone)]
pub struct LoadOptions {
    /// The environment.
    pub env: Env,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// Folder of the managed files.
    pub managed_dir: PathBuf,
    /// `--mcp-config FILE`, in order; relative to `cwd`.
    pub config_files: Vec<PathBuf>,
    /// `--strict-mcp-config`: servers from `config_files` (and managed ones) alone.
    pub strict: bool,
    /// Whether the project's files are read at all.
    pub project: bool,
    /// Host settings from flags: dotted key and value.
    pub settings: Vec<(String, String)>,
    /// A further place for `${secret:NAME}`, asked before the file.
    pub secrets: Option<Arc<dyn SecretSource>>,
}

impl std::fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadOptions")
            .field("cwd", &self.cwd)
            .field("managed_dir", &self.managed_dir)
            .field("config_files", &self.config_files)
            .field("strict", &self.strict)
            .field("project", &self.project)
            .finish_non_exhaustive()
    }
}

impl LoadOptions {
    /// Options for an environment and a working directory; everything else by default.
    pub fn new(env: Env, cwd: impl Into<PathBuf>) -> Self {
        Self {
            env,
            cwd: cwd.into(),
            managed_dir: MANAGED_DIR.into(),
            config_files: Vec::new(),
            strict: false,
            project: true,
            settings: Vec::new(),
            secrets: None,
        }
    }

    /// Options for this process.
    pub fn from_process() -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Self::new(Env::from_process(), cwd)
    }

    /// Callboard's own folder: `$CALLBOARD_HOME`, by default `~/.callboard`. Absolute: never a
    /// folder that a project could have brought.
    pub fn home(&self) -> Result<PathBuf, NoHome> {
        home::own(&self.env)
    }

    /// The root of the project: the nearest folder, from the working directory upwards, that
    /// has `.git`, `.mcp.json` or `.callboard`; else the working directory. Callboard's own
    /// folder in the user's home makes that no project.
    pub fn project_root(&self) -> PathBuf {
        let own = self.home().ok();
        let is_root = |folder: &&Path| {
            folder.join(".git").exists()
                || folder.join(".mcp.json").is_file()
                || (folder.join(".callboard").is_dir() && !is_own(&folder.join(".callboard"), own.as_deref()))
        };
        let root = self.cwd.ancestors().find(is_root).unwrap_or(&self.cwd);
        // Approvals and rules belong to the folder, not to a link that may lead elsewhere tomorrow.
        root.canonicalize().unwrap_or_else(|_| root.to_path_buf())
    }

    fn tilde(&self, path: &str) -> PathBuf {
        home::tilde(&self.env, path)
    }
}

/// Whether a folder is Callboard's own one.
fn is_own(folder: &Path, own: Option<&Path>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    own.is_some_and(|own| real(folder) == real(own))
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The servers, with all issues of sources (those of `callboard.toml` included).
    pub servers: ServerSet,
    /// The host settings.
    pub settings: HostSettings,
    /// Where each key of the host settings comes from, in the order of the manual.
    pub provenance: Vec<(&'static str, Source)>,
    /// Every entry as written, weakest source first.
    pub definitions: Vec<Definition>,
    /// What was approved.
    pub approvals: Vec<Approval>,
    /// The allow rules in force; none when their file can't be used.
    pub rules: AllowRules,
    /// The files that were looked for, weakest first.
    pub files: Vec<FileSeen>,
    /// Root of the project.
    pub project_root: PathBuf,
    /// The key of `web_search`, expanded; `None` when there is none, or it can't be had.
    pub search_key: Option<SecretText>,
    /// The key of the agent's model, expanded; `None` when there is none, or it can't be had.
    pub model_key: Option<SecretText>,
    /// Callboard's own folder; without one nothing of the user's is read or written.
    pub home: Result<PathBuf, NoHome>,
}

/// A file that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    /// Its path.
    pub path: PathBuf,
    /// Its scope.
    pub scope: Scope,
    /// Whether it is there.
    pub found: bool,
}

/// Reads everything. Never fails: what can't be read or used is an issue with its place, and
/// everything else is loaded.
pub fn load(options: &LoadOptions) -> Loaded {
    let found = options.home();
    let home = found.as_deref().ok();
    let project_root = options.project_root();
    let mut sources = Sources { options, home, root: &project_root, read: Read::default() };
    sources.read.issues.extend(found.as_ref().err().map(|fault| fault.issue()));
    let settings = settings::load(options, home, &project_root);
    sources.read.issues.extend(settings.issues);
    sources.all();
    let approvals = match home.map(approvals::list).transpose() {
        Ok(approvals) => approvals.unwrap_or_default(),
        Err(error) => {
            // Unreadable approvals approve nothing.
            let file = home.map(approvals::file).unwrap_or_default();
            let text = error.to_string();
            let prefix = format!("{}: ", file.display());
            let text = text.strip_prefix(&prefix).unwrap_or(&text);
            let issue = file_issue(IssueCode::Store, Scope::User, &file, text);
            sources.read.issues.push(issue);
            Vec::new()
        }
    };
    let (machine, issue) = Machine::new(options, home);
    sources.read.issues.extend(issue);
    let Read { definitions, mut issues, files } = sources.read;
    issues.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
    let context = Context { world: &machine, settings: &settings.settings, cwd: &options.cwd };
    let rules = Merge { context, project: &project_root, approvals: &approvals };
    let reference = |name, written| key_of((name, written), &settings.provenance, &machine);
    let (search_key, issue) =
        reference("builtins.web_search.key", settings.settings.builtins.search.key.as_str());
    issues.extend(issue);
    let (model_key, issue) = reference("model.api_key", settings.settings.model.key_reference());
    issues.extend(issue);
    let mut servers = merge::merge(&definitions, issues, rules);
    servers.secrets.extend(search_key.iter().chain(&model_key).cloned());
    permits::spawning(&mut servers, &definitions, context);
    let sources = permits::Known { definitions: &definitions, all: options.project && !options.strict };
    let rules = permits::rules(&mut servers, home, &project_root, sources);
    Loaded {
        servers,
        rules,
        settings: settings.settings,
        provenance: settings.provenance,
        definitions,
        approvals,
        files,
        project_root,
        search_key,
        model_key,
        home: found,
    }
}

/// The secret that a setting refers to, or why it can't be had.
fn key_of(
    (name, written): (&str, &str),
    provenance: &[(&'static str, Source)],
    machine: &Machine<'_>,
) -> (Option<SecretText>, Option<Issue>) {
    if written.is_empty() {
        return (None, None);
    }
    match expand(written, machine) {
        Ok(expanded) => (Some(expanded.text).filter(|key| !key.is_empty()).map(SecretText::new), None),
        Err(error) => {
            let source = provenance.iter().find(|(key, _)| *key == name);
            let issue = source.map(|(_, source)| Issue {
                severity: Severity::Warning,
                code: IssueCode::Unset,
                source: source.clone(),
                position: None,
                path: name.to_owned(),
                message: error.to_string(),
                fix: Some(error.fix()),
            });
            (None, issue)
        }
    }
}

impl Loaded {
    /// The definition that an entry (effective or pending) was made from.
    pub fn definition(&self, entry: &super::spec::Entry) -> Option<&Definition> {
        let of_source = |definition: &&Definition| definition.source == entry.source;
        self.definitions
            .iter()
            .rev()
            .filter(of_source)
            .find(|definition| definition.name == entry.id.as_str())
    }

    /// All issues: of the sources, of the entries, of the pending ones.
    pub fn issues(&self) -> impl Iterator<Item = &Issue> {
        let entries = self.servers.entries.iter().chain(&self.servers.pending);
        self.servers.issues.iter().chain(entries.flat_map(|entry| &entry.issues))
    }
}

/// What was read.
#[derive(Debug, Default)]
struct Read {
    definitions: Vec<Definition>,
    issues: Vec<Issue>,
    files: Vec<FileSeen>,
}

/// The sources of servers, read in their order.
struct Sources<'a> {
    options: &'a LoadOptions,
    home: Option<&'a Path>,
    root: &'a Path,
    read: Read,
}

impl Sources<'_> {
    fn all(&mut self) {
        self.unreadable_variables();
        if !self.options.strict {
            if let Some(home) = self.home {
                self.file(Scope::User, &home.join("mcp.json"), false);
            }
            if self.options.project {
                self.project();
            }
            self.env_files();
            self.inline("CALLBOARD_MCP_CONFIG_JSON");
            self.inline("CALLBOARD_MCP_SERVERS");
        }
        for file in &self.options.config_files {
            let path = self.options.tilde(&file.to_string_lossy());
            self.file(Scope::Flag, &self.options.cwd.join(path), true);
        }
        self.file(Scope::Managed, &self.options.managed_dir.join("mcp.json"), false);
        let policy = self.options.managed_dir.join("policy.toml");
        if policy.exists() {
            let message = "managed policy can't be applied by this version; nothing of it is in force";
            self.read.issues.push(file_issue(IssueCode::NotYet, Scope::Managed, &policy, message));
        }
    }

    fn project(&mut self) {
        self.file(Scope::Project, &self.root.join(".mcp.json"), false);
        let own = self.root.join(".callboard");
        if !is_own(&own, self.home) {
            self.file(Scope::Project, &own.join("mcp.json"), false);
        }
    }

    /// A variable of ours that can't be read must not pass for one that is not set.
    fn unreadable_variables(&mut self) {
        let ours = self
            .options
            .env
            .unreadable()
            .filter(|name| name.starts_with("CALLBOARD_") && *name != "CALLBOARD_HOME");
        for name in ours {
            let source = Source { scope: Scope::EnvInline, origin: name.into() };
            self.read.issues.push(source_issue(
                IssueCode::NotUtf8,
                source,
                "not UTF-8; nothing of it is in force",
            ));
        }
    }

    fn env_files(&mut self) {
        let Some(paths) = self.options.env.get_nonempty("CALLBOARD_MCP_CONFIG") else { return };
        let delimiter = if cfg!(windows) { ';' } else { ':' };
        for path in paths.split([delimiter, ',']).map(str::trim).filter(|path| !path.is_empty()) {
            let path = self.options.cwd.join(self.options.tilde(path));
            self.file(Scope::EnvFile, &path, true);
        }
    }

    fn inline(&mut self, variable: &str) {
        let Some(text) = self.options.env.get_nonempty(variable) else { return };
        let source = Source { scope: Scope::EnvInline, origin: variable.into() };
        if text.len() as u64 > FILE_BYTES_MAX {
            let size = Some(text.len() as u64);
            let message = format!(
                "{}; write it into files and name those in CALLBOARD_MCP_CONFIG",
                store::too_large(FILE_BYTES_MAX, size)
            );
            self.read.issues.push(source_issue(IssueCode::Unreadable, source, message));
            return;
        }
        self.take(document::parse(text, &source, self.root, Form::Inline));
    }

    /// Reads one file; a missing one is an error only when somebody `named` it.
    fn file(&mut self, scope: Scope, path: &Path, named: bool) {
        let text = store::read_text(path, FILE_BYTES_MAX);
        let found = !matches!(text, Ok(None));
        self.read.files.push(FileSeen { path: path.to_path_buf(), scope, found });
        let source = Source { scope, origin: path.to_string_lossy().into() };
        match text {
            Ok(Some(text)) => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                let base = if scope == Scope::Project { self.root } else { folder };
                self.take(document::parse(&text, &source, base, Form::File));
            }
            Ok(None) if named => {
                self.read.issues.push(source_issue(IssueCode::Unreadable, source, "no such file"))
            }
            Ok(None) => {}
            Err(error) => {
                self.read.issues.push(source_issue(IssueCode::Unreadable, source, bare(&error, path)))
            }
        }
    }

    fn take(&mut self, document: Document) {
        self.read.definitions.extend(document.definitions);
        self.read.issues.extend(document.issues);
    }
}

/// The text of an error without the path, which the issue names already.
fn bare(error: &store::StoreError, path: &Path) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{}: ", path.display())).map_or(text.clone(), str::to_owned)
}

fn file_issue(code: IssueCode, scope: Scope, path: &Path, message: impl Into<String>) -> Issue {
    source_issue(code, Source { scope, origin: path.to_string_lossy().into() }, message)
}

fn source_issue(code: IssueCode, source: Source, message: impl Into<String>) -> Issue {
    Issue {
        code,
        severity: Severity::Error,
        source,
        position: None,
        path: String::new(),
        message: message.into(),
        fix: None,
    }
}
