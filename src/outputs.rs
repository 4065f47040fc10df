//! Floor 2. Results that a model saw only a part of, kept whole while a session lasts: one
//! private folder for each session below `run/outputs`, files 0600 with names of ours, bounded
//! in number and bytes, gone with the session. What a killed one left goes when the next one
//! begins. Blocking; called by the edges, off the latency path.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::store::{self, Mode, StoreError};

/// Most results that are kept for one session; the oldest goes first.
pub const OUTPUTS_MAX: usize = 64;
/// Most bytes of them together.
pub const OUTPUTS_BYTES_MAX: u64 = 256 << 20;
/// Most folders of earlier sessions that are looked at in one go.
const SWEEP_MAX: usize = 1000;

/// The number of a kept result within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputId(pub u64);

/// The kept results of one session.
#[derive(Debug)]
pub struct Outputs {
    folder: PathBuf,
    /// Says that the session lives, for as long as it is held.
    _alive: File,
    kept: VecDeque<(OutputId, u64)>,
    next: u64,
}

impl Outputs {
    /// Makes the folder of a new session below this home, and removes those whose session has ended.
    pub fn open(home: &Path) -> Result<Self, StoreError> {
        let base = home.join("run").join("outputs");
        // One at a time, so that no folder is swept before its session has marked it.
        let _turn = store::Lock::acquire(&base.join("session"))?;
        sweep(&base);
        let failed = |error| StoreError::Io(base.clone(), error);
        let folder = tempfile::Builder::new().prefix("session-").tempdir_in(&base).map_err(failed)?.keep();
        private(&folder).map_err(failed)?;
        let alive = File::open(&folder).map_err(failed)?;
        if !store::try_lock(&alive).map_err(failed)? {
            return Err(StoreError::Locked(folder));
        }
        Ok(Self { folder, _alive: alive, kept: VecDeque::new(), next: 1 })
    }

    /// Keeps a text; older ones go where the bounds are reached.
    pub fn keep(&mut self, text: &str) -> Result<OutputId, StoreError> {
        let bytes = text.len() as u64;
        if bytes > OUTPUTS_BYTES_MAX {
            return Err(StoreError::TooLarge(self.folder.clone(), OUTPUTS_BYTES_MAX, Some(bytes)));
        }
        let held = |kept: &VecDeque<(OutputId, u64)>| kept.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while self.kept.len() >= OUTPUTS_MAX || held(&self.kept) + bytes > OUTPUTS_BYTES_MAX {
            let Some((oldest, _)) = self.kept.pop_front() else { break };
            let _ = fs::remove_file(self.path(oldest));
        }
        let id = OutputId(self.next);
        store::write_atomic(&self.path(id), text.as_bytes(), Mode::Private)?;
        self.next += 1;
        self.kept.push_back((id, bytes));
        Ok(id)
    }

    /// A kept text; `None` when there is none of that number, or none any more.
    pub fn read(&self, id: OutputId) -> Result<Option<String>, StoreError> {
        if !self.kept.iter().any(|(kept, _)| *kept == id) {
            return Ok(None);
        }
        store::read_text(&self.path(id), OUTPUTS_BYTES_MAX)
    }

    fn path(&self, id: OutputId) -> PathBuf {
        self.folder.join(format!("{}.txt", id.0))
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of sessions that nobody holds any more.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.take(SWEEP_MAX).flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("session-"));
        // A link is no folder of ours, whatever it points to.
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_over(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_over(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| store::try_lock(&folder).unwrap_or(false))
}

#[cfg(unix)]
fn private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn private(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(home: &Path) -> usize {
        fs::read_dir(home.join("run/outputs")).unwrap().count()
    }

    #[test]
    fn a_kept_result_is_private_and_gone_with_its_session() {
        let home = tempfile::tempdir().unwrap();
        let mut outputs = Outputs::open(home.path()).unwrap();
        let id = outputs.keep("whole é").unwrap();
        assert_eq!(outputs.read(id).unwrap().as_deref(), Some("whole é"));
        assert_eq!(outputs.read(OutputId(99)).unwrap(), None);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&outputs.path(id)), mode(&outputs.folder)), (0o600, 0o700));
        }
        assert_eq!(sessions(home.path()), 1);
        drop(outputs);
        assert_eq!(sessions(home.path()), 0);
    }

    #[test]
    fn the_oldest_goes_when_the_bound_is_reached() {
        let home = tempfile::tempdir().unwrap();
        let mut outputs = Outputs::open(home.path()).unwrap();
        let first = outputs.keep("first").unwrap();
        for _ in 1..OUTPUTS_MAX {
            outputs.keep("x").unwrap();
        }
        assert!(outputs.read(first).unwrap().is_some());
        outputs.keep("one more").unwrap();
        assert_eq!(outputs.read(first).unwrap(), None);
        assert_eq!(fs::read_dir(&outputs.folder).unwrap().count(), OUTPUTS_MAX);
    }

    #[test]
    fn what_a_killed_session_left_is_swept_and_a_living_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let mut alive = Outputs::open(home.path()).unwrap();
        let id = alive.keep("mine").unwrap();
        let base = home.path().join("run/outputs");
        fs::create_dir(base.join("session-dead")).unwrap();
        fs::write(base.join("session-dead/1.txt"), "left").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(elsewhere.path(), base.join("session-link")).unwrap();
        let other = Outputs::open(home.path()).unwrap();
        assert!(!base.join("session-dead").exists());
        assert!(elsewhere.path().join("precious").exists());
        assert_ne!(alive.folder, other.folder);
        assert_eq!(alive.read(id).unwrap().as_deref(), Some("mine"));
    }
}
