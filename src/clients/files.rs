//! Floor 2. Backups of clients' files in `backups` of Callboard's folder: the bytes as they were,
//! and a record that says whose they are and what was written over them. 0600, one pair for
//! each install. Called by `install` and `uninstall`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::client::Client;
use crate::store::{self, FILE_BYTES_MAX, Mode, StoreError};

/// Most records that are looked through.
const RECORDS_MAX: usize = 10_000;

/// What one install did to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The word for the client.
    pub client: String,
    /// The client's file.
    pub file: String,
    /// Name of the file with its bytes, in the same folder; `None` when there was no file.
    pub backup: Option<String>,
    /// SHA-256 of what was there, hexadecimal.
    pub before_sha256: Option<String>,
    /// SHA-256 of what was written.
    pub after_sha256: String,
    /// Names of the entries that were moved into Callboard.
    pub moved: Vec<String>,
    /// What was taken out of the file: the keys that lead to the map that each stood in, and its name there.
    #[serde(default)]
    pub taken: Vec<(Vec<String>, String)>,
}

/// A record with its place.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The file of the record.
    pub path: PathBuf,
    /// What it says.
    pub record: Record,
}

/// SHA-256 of a text, hexadecimal.
pub fn hash(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// The folder of backups.
pub fn folder(home: &Path) -> PathBuf {
    home.join("backups")
}

/// Keeps what a file was. `stamp` is a time that sorts as text; returns the path of the bytes, or
/// of the record when there were none.
pub fn keep(
    home: &Path,
    client: Client,
    stamp: &str,
    before: Option<&str>,
    mut record: Record,
) -> Result<PathBuf, StoreError> {
    let folder = folder(home);
    let short: String = record.after_sha256.chars().take(12).collect();
    let stem = format!("{}-{stamp}-{short}", client.name());
    let mut path = folder.join(format!("{stem}.json"));
    record.backup = before.map(|_| format!("{stem}.bak"));
    record.before_sha256 = before.map(hash);
    let text = serde_json::to_string_pretty(&record)
        .map_err(|error| StoreError::Io(path.clone(), std::io::Error::other(error)))?;
    if let (Some(before), Some(name)) = (before, &record.backup) {
        store::write_atomic(&folder.join(name), before.as_bytes(), Mode::Private)?;
    }
    store::write_atomic(&path, format!("{text}\n").as_bytes(), Mode::Private)?;
    if let Some(name) = record.backup {
        path = folder.join(name);
    }
    Ok(path)
}

/// The newest record of a client's file. What can't be read is no record.
pub fn latest(home: &Path, client: Client, file: &Path) -> Option<Kept> {
    let prefix = format!("{}-", client.name());
    let entries = fs::read_dir(folder(home)).ok()?.take(RECORDS_MAX).flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|n| n.starts_with(&prefix) && n.ends_with(".json"))
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let file = file.to_string_lossy();
    paths.into_iter().rev().find_map(|path| {
        let text = store::read_text(&path, FILE_BYTES_MAX).ok()??;
        let record: Record = serde_json::from_str(&text).ok()?;
        (record.client == client.name() && record.file == file).then_some(Kept { path, record })
    })
}

impl Kept {
    /// The bytes of the backup, if they are still what they were; `Some(None)` when there was no
    /// file.
    pub fn original(&self) -> Option<Option<String>> {
        let Some(name) = &self.record.backup else { return Some(None) };
        let text = store::read_text(&self.path.with_file_name(name), FILE_BYTES_MAX).ok()??;
        (Some(hash(&text)) == self.record.before_sha256).then_some(Some(text))
    }

    /// The path of the bytes.
    pub fn backup(&self) -> Option<PathBuf> {
        self.record.backup.as_ref().map(|name| self.path.with_file_name(name))
    }

    /// Forgets the record; the bytes stay.
    pub fn forget(&self) -> Result<(), StoreError> {
        fs::remove_file(&self.path).map_err(|error| StoreError::Io(self.path.clone(), error))
    }
}
