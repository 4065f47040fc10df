//! Floor 2. Changes entries in the user's or the project's file: under a lock, in one step,
//! 0600 for new files, everything else in them untouched. A broken file is never
//! overwritten. Called by `mcp add|remove|enable|disable`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::document::{Definition, Position};
pub use super::edit_text::{Edit, EditFault};
use super::issue::{Issue, IssueCode, Severity};
use super::spec::{Scope, Source};
use super::{edit_text, merge, raw, suggest};
use crate::store::{self, FILE_BYTES_MAX, Lock, Mode, StoreError};

/// A file that can be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `mcp.json` in Callboard's own folder.
    User {
        /// Callboard's own folder.
        home: PathBuf,
    },
    /// `.mcp.json` in the root of the project.
    Project {
        /// Root of the project.
        root: PathBuf,
    },
    /// `.callboard/mcp.json` in the root of the project.
    ProjectOwn {
        /// Root of the project.
        root: PathBuf,
    },
}

impl Target {
    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::User { home } => home.join("mcp.json"),
            Self::Project { root } => root.join(".mcp.json"),
            Self::ProjectOwn { root } => root.join(".callboard").join("mcp.json"),
        }
    }

    /// The file that a source is, if it is one that can be edited.
    pub fn of_source(source: &Source, home: Option<&Path>, root: &Path) -> Option<Self> {
        let root = root.to_path_buf();
        let user = home.map(|home| (Scope::User, Self::User { home: home.to_path_buf() }));
        let project = [
            (Scope::Project, Self::Project { root: root.clone() }),
            (Scope::Project, Self::ProjectOwn { root }),
        ];
        let of_source = |(scope, target): &(Scope, Self)| {
            *scope == source.scope && target.path() == Path::new(&*source.origin)
        };
        user.into_iter().chain(project).find(of_source).map(|(_, target)| target)
    }
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The file.
    pub path: PathBuf,
    /// Whether it was created.
    pub created: bool,
    /// Whether anything changed; if not, it was not written.
    pub changed: bool,
}

/// Why a file was not edited. It is as it was before.
#[derive(Debug)]
pub enum EditError {
    /// It can't be read or written.
    Store(StoreError),
    /// Its content doesn't allow the edit.
    Fault {
        /// The file.
        path: PathBuf,
        /// Name of the server.
        name: String,
        /// What stands against it.
        fault: EditFault,
    },
    /// The project's file is a link to somewhere outside the project.
    Outside {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Fault { path, fault: fault @ EditFault::Broken { position, .. }, .. } => {
                write!(f, "{}{}: {fault}", path.display(), place(*position))
            }
            Self::Fault { path, name, fault } => write!(f, "{}: server {name:?}: {fault}", path.display()),
            Self::Outside { path, target } => write!(
                f,
                "{} is a link to {}, outside the project; edit that file yourself",
                path.display(),
                target.display()
            ),
        }
    }
}

fn place(position: Option<Position>) -> String {
    position.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"))
}

impl std::error::Error for EditError {}

impl From<StoreError> for EditError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Changes one entry of a file. Waits up to 10 s for another writer.
pub fn apply(target: &Target, edit: &Edit) -> Result<Edited, EditError> {
    let path = target.path();
    let mode = match target {
        Target::User { .. } => Mode::Private,
        Target::Project { root } | Target::ProjectOwn { root } => {
            stays_inside(&path, root)?;
            Mode::Keep
        }
    };
    let _lock = Lock::acquire(&path)?;
    let before = store::read_text(&path, FILE_BYTES_MAX)?;
    let created = before.is_none();
    let before = before.unwrap_or_default();
    let fault = |fault| EditError::Fault { path: path.clone(), name: edit.name().to_owned(), fault };
    let after = edit_text::apply(&before, edit).map_err(fault)?;
    if after.len() as u64 > FILE_BYTES_MAX {
        return Err(StoreError::TooLarge(path, FILE_BYTES_MAX, Some(after.len() as u64)).into());
    }
    let changed = after != before;
    if changed {
        store::write_atomic(&path, after.as_bytes(), mode)?;
    }
    Ok(Edited { created: created && changed, changed, path })
}

/// A project is not trusted to lead our writes elsewhere.
pub fn stays_inside(path: &Path, root: &Path) -> Result<(), EditError> {
    let target = store::resolve(path);
    let inside = match target.parent().map(Path::canonicalize) {
        Some(Ok(folder)) => root.canonicalize().is_ok_and(|root| folder.starts_with(root)),
        // The folder is yet to be created, by its plain path.
        _ => target.starts_with(root),
    };
    if inside {
        return Ok(());
    }
    Err(EditError::Outside { path: path.to_path_buf(), target })
}

/// What would be wrong with an entry, before it is written: types, unknown keys, the name.
/// Nothing is expanded. An issue of severity `Error` means that it could not be used.
pub fn check(target: &Target, name: &str, entry: &Map<String, Value>) -> Vec<Issue> {
    let scope = match target {
        Target::User { .. } => Scope::User,
        Target::Project { .. } | Target::ProjectOwn { .. } => Scope::Project,
    };
    let path = target.path();
    let definition = Definition {
        name: name.to_owned(),
        source: Source { scope, origin: path.to_string_lossy().into() },
        base: path.parent().unwrap_or(Path::new("/")).to_path_buf(),
        key: suggest::join("mcpServers", name),
        value: Value::Object(entry.clone()),
        positions: std::collections::BTreeMap::new(),
        issues: Vec::new(),
    };
    let (_, mut issues) = raw::read(&definition);
    if let Err(message) = merge::check_name(name) {
        issues.insert(0, definition.issue(IssueCode::Name, Severity::Error, "", message));
    }
    issues
}
