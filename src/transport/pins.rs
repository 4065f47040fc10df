//! Floor 2. The files of pins, one for each server, in `$CALLBOARD_HOME/pins` (0600, outside every
//! project): what each of its tools was when it was first seen or last accepted. Pins belong to
//! (scope, name), and in a project's file to that project. A file that can't be understood holds
//! every tool of its one server, and is never overwritten. Blocking; called by `runtime`, off every
//! path that somebody waits on, and by `mcp pin`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::catalog::pin::{Book, By, Fingerprint, Pin, canonical};
use crate::config::spec::{Entry, Scope};
use crate::store::{self, Lock, Mode, StoreError};
use crate::wire::scan;

/// The version of the form that is written and understood.
const VERSION: u32 = 1;
/// Largest file that is written: beyond it the longest definitions go, their hashes stay.
const WRITTEN_BYTES_MAX: usize = 16 << 20;
/// Largest file that is read.
const READ_BYTES_MAX: u64 = 24 << 20;

/// Whose pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    scope: Scope,
    project: Option<PathBuf>,
    server: String,
}

impl Owner {
    /// The owner of an entry's pins; `project` is the root of the project of this run.
    pub fn of(entry: &Entry, project: &Path) -> Self {
        let scope = entry.source.scope;
        let project = (scope == Scope::Project).then(|| project.to_path_buf());
        Self { scope, project, server: entry.id.as_str().to_owned() }
    }

    fn project_text(&self) -> Option<String> {
        self.project.as_ref().map(|path| path.to_string_lossy().into_owned())
    }
}

/// The folder of the files.
pub fn folder(home: &Path) -> PathBuf {
    home.join("pins")
}

/// The file of one owner. No part of its name is taken from a server's own words.
pub fn file(folder: &Path, owner: &Owner) -> PathBuf {
    let mut hash = Sha256::new();
    for part in [owner.scope.as_str(), &owner.project_text().unwrap_or_default(), &owner.server] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let name = hash.finalize().iter().take(16).fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    });
    folder.join(format!("{name}.json"))
}

/// Why pins can't be read or written.
#[derive(Debug)]
pub enum PinError {
    /// The file can't be read or written.
    Store(StoreError),
    /// Its content can't be understood.
    Broken(PathBuf, String),
}

impl PinError {
    /// What to do about it.
    pub fn cure(&self) -> String {
        match self {
            Self::Store(
                StoreError::TooLarge(path, ..) | StoreError::NotText(path) | StoreError::NotRegular(path),
            )
            | Self::Broken(path, _) => format!(
                "repair {0}, or look at what the server offers and delete {0}: its tools count as new then",
                path.display()
            ),
            Self::Store(_) => "check the folder of Callboard's files".to_owned(),
        }
    }
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Broken(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for PinError {}

impl From<StoreError> for PinError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Deserialize)]
struct Whole<'a> {
    version: u32,
    scope: String,
    project: Option<String>,
    server: String,
    #[serde(borrow)]
    pins: BTreeMap<Cow<'a, str>, One<'a>>,
}

#[derive(Serialize, Deserialize)]
struct One<'a> {
    sha256: Cow<'a, str>,
    by: By,
    at: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    definition: Option<&'a RawValue>,
}

/// The pins of an owner as the file has them; none when there is no file.
pub fn read(folder: &Path, owner: &Owner) -> Result<Book, PinError> {
    let path = file(folder, owner);
    match store::read_text(&path, READ_BYTES_MAX)? {
        Some(text) => decode(&text, owner).map_err(|why| PinError::Broken(path, why)),
        None => Ok(Book::default()),
    }
}

/// As [`read`]; what can't be read holds everything.
pub fn load(folder: &Path, owner: &Owner) -> Book {
    read(folder, owner).unwrap_or_else(|error| Book::unreadable(error.to_string(), error.cure()))
}

/// Adds to the file what was first seen here and is not in it; what another program wrote stands.
/// Returns what the file says then.
pub fn add(folder: &Path, owner: &Owner, seen: &Book) -> Result<Book, PinError> {
    change(folder, owner, |book| seen.add_to(book))
}

/// Sets these pins, whatever the file had for their tools.
pub fn accept(folder: &Path, owner: &Owner, pins: &[(String, Pin)]) -> Result<(), PinError> {
    let set = |book: &mut Book| {
        pins.iter().for_each(|(tool, pin)| book.set(tool, pin.clone()));
        !pins.is_empty()
    };
    change(folder, owner, set).map(drop)
}

fn change(folder: &Path, owner: &Owner, edit: impl FnOnce(&mut Book) -> bool) -> Result<Book, PinError> {
    let path = file(folder, owner);
    let _lock = Lock::acquire(&path)?;
    let mut book = read(folder, owner)?;
    if edit(&mut book) {
        store::write_atomic(&path, encode(&book, owner, WRITTEN_BYTES_MAX).as_bytes(), Mode::Private)?;
    }
    Ok(book)
}

fn decode(text: &str, owner: &Owner) -> Result<Book, String> {
    scan::check(text.as_bytes(), scan::DEPTH_MAX).map_err(|error| error.to_string())?;
    let whole: Whole<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if whole.version != VERSION {
        return Err(format!("version {} of the form, not {VERSION}", whole.version));
    }
    if whole.scope != owner.scope.as_str()
        || whole.project != owner.project_text()
        || whole.server != owner.server
    {
        return Err("it has the pins of another server".to_owned());
    }
    let mut pins = BTreeMap::new();
    for (tool, one) in whole.pins {
        let hash = Fingerprint::parse(&one.sha256).ok_or_else(|| format!("the hash of {tool:?} is none"))?;
        let definition = one.definition.map(|raw| canonical(raw.get().as_bytes()));
        if definition.as_deref().is_some_and(|definition| Fingerprint::of(definition) != hash) {
            return Err(format!("the definition of {tool:?} is not the one of its hash"));
        }
        let definition = definition.map(Arc::from);
        pins.insert(tool.into_owned(), Pin { hash, definition, at: one.at.into(), by: one.by });
    }
    Ok(Book::new(pins))
}

/// The text of a book. When it would be longer than `bytes_max`, the longest definitions are left out.
fn encode(book: &Book, owner: &Owner, bytes_max: usize) -> String {
    let mut lens: Vec<usize> =
        book.pins().values().map(|pin| pin.definition.as_ref().map_or(0, |text| text.len())).collect();
    lens.sort_unstable();
    let mut room = bytes_max.saturating_sub(lens.len() * 256);
    let fits = |len: &&usize| match room.checked_sub(**len) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let longest = lens.iter().take_while(fits).last().copied().unwrap_or(0);
    let head = |value: &Option<String>| serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let mut out = format!(
        "{{\"version\":{VERSION},\"scope\":\"{}\",\"project\":{},\"server\":{},\"pins\":{{",
        owner.scope.as_str(),
        head(&owner.project_text()),
        head(&Some(owner.server.clone())),
    );
    for (index, (tool, pin)) in book.pins().iter().enumerate() {
        let definition = pin.definition.as_deref().filter(|text| text.len() <= longest);
        let definition = definition.and_then(|text| serde_json::from_str(text).ok());
        let one =
            One { sha256: pin.hash.to_string().into(), by: pin.by, at: pin.at.as_ref().into(), definition };
        let comma = if index == 0 { "" } else { "," };
        let written = serde_json::to_string(&one).unwrap_or_else(|_| "null".to_owned());
        let _ = write!(out, "{comma}\n{}:{written}", head(&Some(tool.clone())));
    }
    out.push_str("}}\n");
    out
}

#[cfg(test)]
mod tests;
