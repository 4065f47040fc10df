//! Floor 2. The file of approvals, `$CALLBOARD_HOME/approvals.json` (0600, outside every
//! project), and what a user has to see before approving. A broken file approves nothing and
//! is never overwritten. Called by `config::load` and `mcp approve|revoke`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval::{self, Approval, Verdict};
use super::canonical;
use super::document::Definition;
use super::issue::Severity;
use super::load::{LoadOptions, Loaded, Machine};
use super::mask::mask_definition;
use super::raw::{self, RawServer};
use super::spec::{Scope, Source, Trust};
use super::validate::{self, Context};
use crate::store::{self, FILE_BYTES_MAX, Lock, Mode, StoreError};

/// Why approvals can't be read or written.
#[derive(Debug)]
pub enum ApprovalError {
    /// The file can't be read or written.
    Store(StoreError),
    /// Its content can't be understood.
    Broken(PathBuf),
}

impl fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Broken(path) => write!(
                f,
                "{}: can't be understood, so nothing counts as approved; repair or delete it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ApprovalError {}

impl From<StoreError> for ApprovalError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    approvals: Vec<Approval>,
}

/// The version of the file that is written and understood.
const VERSION: u32 = 1;

/// The path of the file.
pub fn file(home: &Path) -> PathBuf {
    home.join("approvals.json")
}

/// Everything that was approved; nothing when there is no file.
pub fn list(home: &Path) -> Result<Vec<Approval>, ApprovalError> {
    let path = file(home);
    let Some(text) = store::read_text(&path, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    match serde_json::from_str::<Content>(&text) {
        Ok(content) if content.version == VERSION => Ok(content.approvals),
        _ => Err(ApprovalError::Broken(path)),
    }
}

/// Records an approval in place of earlier ones of that name in that project.
pub fn approve(home: &Path, approval: Approval) -> Result<(), ApprovalError> {
    change(home, |approvals| {
        approvals.retain(|other| other.name != approval.name || other.project != approval.project);
        approvals.push(approval);
    })
}

/// Takes the approval of a name in a project back; whether there was one.
pub fn revoke(home: &Path, project: &Path, name: &str) -> Result<bool, ApprovalError> {
    let mut revoked = false;
    change(home, |approvals| {
        let before = approvals.len();
        approvals.retain(|other| other.name != name || other.project != project);
        revoked = approvals.len() != before;
    })?;
    Ok(revoked)
}

fn change(home: &Path, edit: impl FnOnce(&mut Vec<Approval>)) -> Result<(), ApprovalError> {
    let path = file(home);
    let _lock = Lock::acquire(&path)?;
    let mut approvals = list(home)?;
    let before = approvals.clone();
    edit(&mut approvals);
    if approvals == before {
        return Ok(());
    }
    let content = Content { version: VERSION, approvals };
    let mut text = serde_json::to_string_pretty(&content).map_err(|_| ApprovalError::Broken(path.clone()))?;
    text.push('\n');
    Ok(store::write_atomic(&path, text.as_bytes(), Mode::Private)?)
}

/// What a user has to see before approving an entry of a project.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Name of the server.
    pub name: String,
    /// Root of the project.
    pub project: PathBuf,
    /// Where the entry stands.
    pub source: Source,
    /// Hash of the whole unexpanded entry.
    pub hash: String,
    /// The whole entry as written, literals that may be secret hidden.
    pub entry: Value,
    /// The program that would run; `None` for an address, or when it is not found.
    pub program: Option<PathBuf>,
    /// Every host variable (`VAR`) and stored secret (`secret:NAME`) that it reads.
    pub reads: Vec<String>,
    /// What it wants to be allowed beyond an ordinary entry, in words of the entry.
    pub grants: Vec<String>,
    /// The user's own entry of that name, which it would replace.
    pub replaces: Option<Source>,
    /// Whether it is approved already, exactly as it stands.
    pub approved: bool,
}

impl Request {
    /// The approval of exactly this; `at` is an RFC 3339 time.
    pub fn approval(&self, at: impl Into<String>) -> Approval {
        Approval {
            name: self.name.clone(),
            project: self.project.clone(),
            hash: self.hash.clone(),
            command: self.program.clone(),
            approved_at: at.into(),
        }
    }
}

/// Why there is nothing to approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// No source defines that name.
    Unknown(String),
    /// The name is defined, but by no file of the project: nothing waits.
    NotOfProject(String, Source),
    /// The entry can't be used as written; the first error says why.
    Invalid(String, String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "no server is called {name:?}"),
            Self::NotOfProject(name, source) => {
                write!(f, "{name:?} comes from {source} and needs no approval")
            }
            Self::Invalid(name, why) => write!(f, "{name:?} can't be approved as it is written: {why}"),
        }
    }
}

impl std::error::Error for RequestError {}

/// Looks up what an approval of `name` would approve: the strongest definition of the project.
/// `options` are those that `loaded` was loaded with.
pub fn request(loaded: &Loaded, options: &LoadOptions, name: &str) -> Result<Request, RequestError> {
    let of_name = || loaded.definitions.iter().rev().filter(|definition| definition.name == name);
    let Some(definition) = of_name().find(|definition| definition.source.scope == Scope::Project) else {
        return Err(match of_name().next() {
            Some(other) => RequestError::NotOfProject(name.to_owned(), other.source.clone()),
            None => RequestError::Unknown(name.to_owned()),
        });
    };
    let (raw, issues) = raw::read(definition);
    if let Some(issue) = issues.iter().find(|issue| issue.severity == Severity::Error) {
        return Err(RequestError::Invalid(name.to_owned(), issue.to_string()));
    }
    let (machine, _) = Machine::new(options, loaded.home.as_deref().ok());
    let context = Context { world: &machine, settings: &loaded.settings, cwd: &options.cwd };
    let program = validate::program(definition, &raw, context);
    let hash = canonical::hash(&definition.value);
    let verdict = approval::verdict(&loaded.approvals, &loaded.project_root, name, &hash, || program.clone());
    Ok(Request {
        name: name.to_owned(),
        project: loaded.project_root.clone(),
        source: definition.source.clone(),
        entry: mask_definition(&definition.value),
        hash,
        program,
        reads: raw::env_reads(&raw),
        grants: grants(definition, &raw),
        replaces: replaces(loaded, name),
        approved: verdict == Verdict::Approved,
    })
}

/// The user's own entry of a name, as long as that is the one in force.
pub fn replaces(loaded: &Loaded, name: &str) -> Option<Source> {
    let own = loaded.servers.get(name).filter(|entry| entry.source.scope == Scope::User);
    own.map(|entry| entry.source.clone())
}

/// What an entry asks for that counts only because an approval showed it.
fn grants(definition: &Definition, raw: &RawServer) -> Vec<String> {
    let mut grants = Vec::new();
    if raw.trust == Trust::Trusted {
        grants.push("trust: trusted".to_owned());
    }
    if let Some(allowed) = &raw.allowed_tools {
        grants.push(format!("allowedTools: {}", allowed.patterns().join(", ")));
    }
    if raw.allow_all_tools {
        grants.push("allowAllTools".to_owned());
    }
    if raw.allow_host_process {
        grants.push("allowHostProcess".to_owned());
    }
    if !raw.env_passthrough.is_empty() {
        grants.push(format!("env_passthrough: {}", raw.env_passthrough.join(", ")));
    }
    if raw.shared_identity {
        grants.push("shared_identity".to_owned());
    }
    // Whatever it says is shown: one that names paths may be weaker than it looks.
    if let Some(sandbox) = definition.value.get("sandbox").filter(|sandbox| !sandbox.is_null()) {
        grants.push(format!("sandbox: {sandbox}"));
    }
    if definition.value.get("oauth").is_some_and(|oauth| !oauth.is_null()) {
        grants.push("oauth".to_owned());
    }
    grants
}
