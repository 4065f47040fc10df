//! Floor 2. What is remembered about servers between runs: the revision that each
//! entry spoke last, by the hash of the entry. A hint that saves a probe, never a
//! decision: a server that changed is found out all the same. Read and written by the edges.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::store::{StoreError, read_text, replace_atomic};
use crate::wire::era::Revision;

/// Revisions by entry hash.
pub type Revisions = BTreeMap<String, Revision>;

/// Largest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Entries that are kept; more means that old ones are forgotten.
const ENTRIES_MAX: usize = 2048;

/// The file below the home of Callboard.
pub fn file(home: &Path) -> PathBuf {
    home.join("cache").join("revisions.json")
}

/// What is remembered; nothing when the file is missing or makes no sense.
pub fn load(path: &Path) -> Revisions {
    let Ok(Some(text)) = read_text(path, FILE_MAX) else { return Revisions::new() };
    let raw: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
    raw.into_iter().filter_map(|(hash, revision)| Some((hash, Revision::parse(&revision)?))).collect()
}

/// Adds what was learned; writes nothing when that was known already.
pub fn learn(path: &Path, known: &Revisions, learned: &Revisions) -> Result<(), StoreError> {
    if learned.iter().all(|(hash, revision)| known.get(hash) == Some(revision)) {
        return Ok(());
    }
    let mut all = load(path);
    if all.len() + learned.len() > ENTRIES_MAX {
        all.clear();
    }
    all.extend(learned.iter().map(|(hash, revision)| (hash.clone(), *revision)));
    let raw: BTreeMap<&str, &str> = all.iter().map(|(hash, r)| (hash.as_str(), r.as_str())).collect();
    let text = serde_json::to_string_pretty(&raw).unwrap_or_default();
    replace_atomic(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_there_at_the_next_start_and_nonsense_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        assert_eq!(load(&path), Revisions::new());
        let learned = Revisions::from([("a".to_owned(), Revision::R2026_07_28)]);
        learn(&path, &load(&path), &learned).unwrap();
        let more = Revisions::from([("b".to_owned(), Revision::R2024_11_05)]);
        learn(&path, &load(&path), &more).unwrap();
        assert_eq!(load(&path).len(), 2);
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        learn(&path, &load(&path), &more).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().modified().unwrap(),
            before,
            "nothing new, nothing written"
        );
        std::fs::write(&path, r#"{"a":"soon","b":"2025-11-25"}"#).unwrap();
        assert_eq!(load(&path), Revisions::from([("b".to_owned(), Revision::R2025_11_25)]));
        std::fs::write(&path, "not json").unwrap();
        assert_eq!(load(&path), Revisions::new());
    }
}
