//! Floor 5. What was typed at the prompt in earlier runs: one JSON text a line, in a file that only
//! its owner reads, without what is known to be secret. Two prompts may write at the same time: each
//! line is written at once. Used by `repl`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::{self, Mode};
use crate::telemetry::Redaction;

/// Entries that are kept.
pub const ENTRIES_MAX: usize = 1000;
/// Largest file that is read, in bytes.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// Longest entry that is kept, in bytes: a pasted book is no command.
const ENTRY_MAX: usize = 16 * 1024;

/// The file of entries.
#[derive(Debug)]
pub struct History {
    path: Option<PathBuf>,
    redaction: Redaction,
}

impl History {
    /// Below Callboard's own folder; without one nothing is kept.
    pub fn below(home: Option<&Path>, redaction: Redaction) -> Self {
        Self { path: home.map(|home| home.join("history.jsonl")), redaction }
    }

    /// The entries of earlier runs, oldest first. A file that grew too long is made shorter; a line
    /// that is none is left out.
    pub fn load(&self) -> Vec<String> {
        let Some(path) = &self.path else { return Vec::new() };
        let Ok(Some(text)) = store::read_text(path, FILE_MAX) else { return Vec::new() };
        let all: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let kept = all[all.len().saturating_sub(ENTRIES_MAX)..].to_vec();
        if all.len() > 2 * ENTRIES_MAX {
            let lines: String = kept.iter().map(|entry| line(entry)).collect();
            // It stays as it is then: nothing is lost.
            let _ = store::write_atomic(path, lines.as_bytes(), Mode::Private);
        }
        kept
    }

    /// What of a line may be kept, in memory too: `None` for what begins with a space, or is too long.
    pub fn fit(&self, entry: &str) -> Option<String> {
        if entry.trim().is_empty() || entry.starts_with(' ') || entry.len() > ENTRY_MAX {
            return None;
        }
        Some(self.redaction.text(entry))
    }

    /// Writes one more, that [`History::fit`] let through.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn add(&self, entry: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            store::create_private_dir(folder).map_err(|e| io::Error::other(e.to_string()))?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)?.write_all(line(entry).as_bytes())
    }
}

fn line(entry: &str) -> String {
    format!("{}\n", serde_json::Value::from(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::SecretText;

    #[test]
    fn entries_come_back_in_order_and_the_file_is_its_owners_alone() {
        let home = tempfile::tempdir().unwrap();
        let history = History::below(Some(home.path()), Redaction::default());
        assert!(history.load().is_empty());
        for entry in ["one", "two\nlines \"quoted\"", "three"] {
            history.add(&history.fit(entry).unwrap()).unwrap();
        }
        assert_eq!(history.load(), ["one", "two\nlines \"quoted\"", "three"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(home.path().join("history.jsonl")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn secrets_never_reach_the_file() {
        let home = tempfile::tempdir().unwrap();
        let redaction = Redaction::default();
        redaction.learn(&[SecretText::new("s3cr3t-value-1")]);
        let history = History::below(Some(home.path()), redaction);
        history.add(&history.fit("/mcp call s t key=s3cr3t-value-1").unwrap()).unwrap();
        let text = std::fs::read_to_string(home.path().join("history.jsonl")).unwrap();
        assert!(!text.contains("s3cr3t") && text.contains("[redacted]"), "{text}");
        assert_eq!(history.fit(" not kept"), None);
        assert_eq!(history.fit(&"x".repeat(ENTRY_MAX + 1)), None);
    }

    #[test]
    fn a_torn_line_costs_itself_and_a_long_file_is_made_shorter() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("history.jsonl");
        let lines: String = (0..2 * ENTRIES_MAX + 2).map(|n| line(&n.to_string())).collect();
        std::fs::write(&path, format!("{lines}\"torn")).unwrap();
        let history = History::below(Some(home.path()), Redaction::default());
        assert_eq!(history.load().len(), ENTRIES_MAX);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), ENTRIES_MAX);
        assert_eq!(history.load().last().unwrap(), &(2 * ENTRIES_MAX + 1).to_string());
    }
}
