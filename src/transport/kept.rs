//! Floor 2. The files of the catalogues that are kept between runs: one for each entry, so that
//! a server which does not run still lists its tools. A file that can't be used is told and passed
//! over; it never costs more than a start of its server. Read and written by `runtime`, off every
//! path that somebody waits on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::catalog::items::ServerCatalog;
use crate::catalog::kept::{KEPT_BYTES_MAX, decode, encode};
use crate::config::spec::Entry;
use crate::id::{Generation, ServerId};
use crate::store::{StoreError, read_text, replace_atomic};

/// Files that are kept; the oldest go first.
const FILES_MAX: usize = 512;
/// Bytes that are read at a start in all; what is beyond is learned from the servers.
const READ_BYTES_MAX: usize = 64 << 20;

/// What is known of a server from an earlier run.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What it offered.
    pub catalog: Arc<ServerCatalog>,
    /// When that was last seen to be so.
    pub at: SystemTime,
}

impl Kept {
    /// The same as of that generation, the first one of an entry.
    #[must_use]
    pub fn of(self, generation: Generation) -> Self {
        let mut catalog = Arc::unwrap_or_clone(self.catalog);
        catalog.generation = generation;
        Self { catalog: Arc::new(catalog), ..self }
    }
}

/// What is kept, by server.
pub type KeptAll = BTreeMap<ServerId, Kept>;

/// The folder below the home of Callboard.
pub fn folder(home: &Path) -> PathBuf {
    home.join("cache").join("catalogs")
}

/// The file of an entry. Its place counts as well: the same words in another project's file may
/// mean another program.
pub fn file(folder: &Path, entry: &Entry) -> PathBuf {
    let mut hash = Sha256::new();
    for part in [entry.hash.as_str(), entry.id.as_str(), &entry.source.origin] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let name: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{name}.json"))
}

/// What is kept of these entries. Blocking.
pub fn load<'a>(folder: &Path, entries: impl Iterator<Item = &'a Entry>) -> KeptAll {
    let mut all = KeptAll::new();
    let mut room = READ_BYTES_MAX;
    for entry in entries {
        let path = file(folder, entry);
        match read(&path, entry, room.min(KEPT_BYTES_MAX)) {
            Ok(Some((kept, bytes))) => {
                room = room.saturating_sub(bytes);
                all.insert(entry.id.clone(), kept);
            }
            Ok(None) => {}
            Err(cause) => {
                tracing::warn!(server = %entry.id, file = %path.display(), cause, "a kept catalogue is passed over");
            }
        }
    }
    all
}

fn read(path: &Path, entry: &Entry, bytes_max: usize) -> Result<Option<(Kept, usize)>, String> {
    let Some(text) = read_text(path, bytes_max as u64).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let at = fs::metadata(path).and_then(|meta| meta.modified()).map_err(|error| error.to_string())?;
    let bytes = text.len();
    let catalog = decode(&text.into(), &entry.id, &entry.hash)?;
    Ok(Some((Kept { catalog: Arc::new(catalog), at }, bytes)))
}

/// Keeps what an entry's server offers. Blocking.
pub fn write(folder: &Path, entry: &Entry, catalog: &ServerCatalog) -> Result<(), StoreError> {
    let path = file(folder, entry);
    match encode(catalog, &entry.hash) {
        Some(text) => replace_atomic(&path, &text),
        // An older and smaller one would be wrong.
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::Io(path, error)),
            _ => Ok(()),
        },
    }
}

/// Notes that what is kept of an entry was seen to be so at `now`. Blocking.
pub fn confirm(folder: &Path, entry: &Entry, now: SystemTime) {
    let file = fs::OpenOptions::new().append(true).open(file(folder, entry));
    if let Ok(file) = file {
        let _ = file.set_modified(now);
    }
}

/// Removes the oldest files beyond `FILES_MAX`. Blocking.
pub fn prune(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let over = files.len().saturating_sub(FILES_MAX);
    for (_, path) in files.into_iter().take(over) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalog::items::ListKind;
    use crate::catalog::pages::{PageCaps, PageWalk};
    use crate::config::spec::{EntryState, Scope, Source};

    fn entry(name: &str, hash: &str, origin: &str) -> Entry {
        Entry {
            id: name.into(),
            source: Source { scope: Scope::User, origin: origin.into() },
            project: None,
            shadows: Vec::new(),
            issues: Vec::new(),
            hash: hash.to_owned(),
            transport: "stdio",
            summary: String::new(),
            label: None,
            description: None,
            required: false,
            down: None,
            state: EntryState::Pending,
        }
    }

    fn catalog(name: &str) -> ServerCatalog {
        let mut walk = PageWalk::new(ListKind::Tools, PageCaps::default());
        let _ = walk.next(&r#"{"tools":[{"name":"t","inputSchema":{}}]}"#.into());
        let mut catalog = ServerCatalog::empty(name.into(), crate::id::Generation(1));
        catalog.tools = walk.finish().unwrap().list;
        catalog
    }

    #[test]
    #[cfg(unix)]
    fn what_was_kept_is_there_at_the_next_start_and_for_nobody_else() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = folder(home.path());
        let ours = entry("s", "h", "mcp.json");
        assert!(load(&folder, [&ours].into_iter()).is_empty());
        write(&folder, &ours, &catalog("s")).unwrap();
        let all = load(&folder, [&ours].into_iter());
        assert_eq!(all[&ours.id].catalog.tools.items.len(), 1);
        let mode = fs::metadata(file(&folder, &ours)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        for other in [
            entry("t", "h", "mcp.json"),
            entry("s", "changed", "mcp.json"),
            entry("s", "h", "other/mcp.json"),
        ] {
            assert!(load(&folder, [&other].into_iter()).is_empty());
        }
        confirm(&folder, &ours, SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
        let at = load(&folder, [&ours].into_iter())[&ours.id].at;
        assert_eq!(at, SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
    }

    #[test]
    fn a_broken_file_is_passed_over_and_written_anew() {
        let home = tempfile::tempdir().unwrap();
        let ours = entry("s", "h", "mcp.json");
        let path = file(home.path(), &ours);
        let whole = encode(&catalog("s"), "h").unwrap();
        let huge = vec![b' '; KEPT_BYTES_MAX + 1];
        for text in [&b""[..], b"{", b"[]", &[0xff, 0xfe], &whole[..whole.len() / 2], &huge] {
            fs::write(&path, text).unwrap();
            assert!(load(home.path(), [&ours].into_iter()).is_empty());
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(load(home.path(), [&ours].into_iter()).is_empty(), "a folder in its place");
        fs::remove_dir(&path).unwrap();
        write(home.path(), &ours, &catalog("s")).unwrap();
        assert_eq!(load(home.path(), [&ours].into_iter()).len(), 1);
    }

    #[test]
    fn the_oldest_files_go_first() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..FILES_MAX + 3 {
            let one = entry(&format!("s{number}"), "h", "f");
            write_plain(&file(home.path(), &one));
            confirm(home.path(), &one, SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64));
        }
        fs::write(home.path().join("mine.txt"), "x").unwrap();
        prune(home.path());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), FILES_MAX + 1);
        let gone = |number: usize| !file(home.path(), &entry(&format!("s{number}"), "h", "f")).exists();
        assert!((0..3).all(gone) && !gone(3));
    }

    fn write_plain(path: &Path) {
        fs::write(path, "{}").unwrap();
    }
}
