//! Floor 2. The switch that turns all servers off for good: a file in Callboard's own folder (0600). While
//! it is there, nothing runs for any door, whatever it says. Written by `mcp on|off --save`, looked at by
//! `config::load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::spec::{Down, EntryState, ServerSet};
use crate::store::{self, Mode, StoreError};
use crate::time::rfc3339;

/// Longest file that is read, in bytes: it holds one line.
const FILE_LEN_MAX: u64 = 4096;

/// All servers are turned off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Off {
    /// Since when, as far as the file says so.
    pub since: Option<String>,
}

/// The file of the switch.
pub fn file(home: &Path) -> PathBuf {
    home.join("off.json")
}

/// Whether everything is off. A file that can't be read or understood turns off too.
pub fn read(home: &Path) -> Option<Off> {
    let text = match store::read_text(&file(home), FILE_LEN_MAX) {
        Ok(None) => return None,
        Ok(Some(text)) => text,
        Err(_) => return Some(Off { since: None }),
    };
    let said: Value = serde_json::from_str(&text).unwrap_or_default();
    let since = said.get("since").and_then(Value::as_str);
    Some(Off { since: since.filter(|since| humantime::parse_rfc3339(since).is_ok()).map(str::to_owned) })
}

/// Turns everything off from now on.
///
/// # Errors
/// When the file can't be written.
pub fn turn_off(home: &Path, now: SystemTime) -> Result<(), StoreError> {
    let text = format!("{}\n", json!({"since": rfc3339(now)}));
    store::write_atomic(&file(home), text.as_bytes(), Mode::Private)
}

/// Lets it go; `false` when it was on.
///
/// # Errors
/// When the file is there and can't be removed.
pub fn turn_on(home: &Path) -> std::io::Result<bool> {
    match std::fs::remove_file(file(home)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Off {
    /// Why a server does not run, and what lets it.
    pub fn down(&self) -> Down {
        let since = self.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        Down {
            why: format!("all servers are turned off{since} (mcp off --save)").into(),
            fix: Arc::from("callboard mcp on --save"),
        }
    }

    /// Turns off what could run.
    pub(super) fn apply(&self, servers: &mut ServerSet) {
        for entry in &mut servers.entries {
            if matches!(entry.state, EntryState::Ready(_)) {
                entry.state = EntryState::Disabled;
                entry.down = Some(self.down());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_off_stays_so_until_it_is_turned_on_and_a_broken_file_turns_off() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), None);
        turn_off(home.path(), SystemTime::UNIX_EPOCH).unwrap();
        let off = read(home.path()).unwrap();
        assert_eq!(off.since.as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert!(off.down().why.contains("since 1970"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(file(home.path())).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(file(home.path()), "{\"since\":\"\\u001b[2J\"").unwrap();
        assert_eq!(read(home.path()), Some(Off { since: None }));
        assert!(turn_on(home.path()).unwrap() && !turn_on(home.path()).unwrap());
        assert_eq!(read(home.path()), None);
    }
}
