//! Floor 2. Watching the files of a server (`watch`): looks at them every two seconds, so it works
//! on every file system. What it looks at is bounded, and nothing is read but names, sizes and
//! times. Used by a task of the server actor.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};

use crate::time::Monotonic;

/// Time between two looks.
const LOOK_GAP: Duration = Duration::from_secs(2);
/// Files must be left alone for that long after a change.
const QUIET: Duration = Duration::from_millis(500);
/// Files and folders that one look visits; what is beyond is not watched.
const VISITS_MAX: usize = 20_000;
/// Folders below each other that a look follows.
const DEPTH_MAX: usize = 32;

/// The files to watch.
#[derive(Clone, Debug)]
pub struct Watch {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// The folder, or the one file, that the pattern begins with.
    root: PathBuf,
    /// What matches below it; `None` when the root itself is meant.
    glob: Option<GlobMatcher>,
    /// How far below it.
    depth_max: usize,
}

impl Watch {
    /// Watches what the patterns match. Relative ones begin at `cwd`, or at our own folder. In a
    /// pattern `*` stays within a folder and `**` does not. One that makes no sense matches nothing:
    /// the configuration has refused it before.
    pub fn new(patterns: &[String], cwd: Option<&Path>) -> Self {
        let whole = |pattern: &String| match cwd {
            Some(cwd) => cwd.join(pattern),
            None => PathBuf::from(pattern),
        };
        Self { patterns: patterns.iter().map(whole).filter_map(|path| Pattern::of(&path)).collect() }
    }

    /// Resolves when a file appeared, changed or went, and all have been left alone since.
    pub async fn changed(&self) {
        let before = self.look_aside().await;
        loop {
            pause(LOOK_GAP).await;
            let mut now = self.look_aside().await;
            if now == before {
                continue;
            }
            loop {
                pause(QUIET).await;
                let next = self.look_aside().await;
                if std::mem::replace(&mut now, next) == next {
                    break;
                }
            }
            // Back as it was: an editor that writes by renaming.
            if now != before {
                return;
            }
        }
    }

    async fn look_aside(&self) -> u64 {
        let watch = self.clone();
        tokio::task::spawn_blocking(move || watch.look()).await.unwrap_or_default()
    }

    /// A number for all files as they are now. Blocking.
    fn look(&self) -> u64 {
        let mut seen = BTreeMap::new();
        let mut visits = VISITS_MAX;
        for pattern in &self.patterns {
            pattern.look(&pattern.root, 0, &mut visits, &mut seen);
        }
        let mut hasher = DefaultHasher::new();
        seen.hash(&mut hasher);
        hasher.finish()
    }
}

async fn pause(time: Duration) {
    tokio::time::sleep_until((Monotonic::now() + time).into_tokio()).await;
}

impl Pattern {
    fn of(path: &Path) -> Option<Self> {
        let is_plain = |part: &Component<'_>| {
            !part.as_os_str().to_string_lossy().contains(['*', '?', '[', ']', '{', '}', '\\'])
        };
        let root: PathBuf = path.components().take_while(is_plain).collect();
        let below = path.components().skip_while(is_plain).count();
        if below == 0 {
            return Some(Self { root, glob: None, depth_max: 0 });
        }
        let text = path.to_str()?;
        let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?.compile_matcher();
        let depth_max = if text.contains("**") { DEPTH_MAX } else { below };
        let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
        Some(Self { root, glob: Some(glob), depth_max })
    }

    fn look(&self, path: &Path, depth: usize, visits: &mut usize, seen: &mut Seen) {
        if *visits == 0 {
            return;
        }
        *visits -= 1;
        // Links to folders are not followed, so that no look goes round in a circle.
        let Ok(meta) = fs::symlink_metadata(path) else { return };
        if meta.is_dir() {
            if depth >= self.depth_max {
                return;
            }
            let mut inside: Vec<PathBuf> =
                fs::read_dir(path).into_iter().flatten().filter_map(|one| Some(one.ok()?.path())).collect();
            inside.sort();
            for one in inside {
                self.look(&one, depth + 1, visits, seen);
            }
            return;
        }
        let plain = path.strip_prefix(".").unwrap_or(path);
        if self.glob.as_ref().is_none_or(|glob| glob.is_match(plain)) {
            // The file behind a link counts.
            let meta = fs::metadata(path).unwrap_or(meta);
            seen.insert(path.to_path_buf(), (meta.modified().ok(), meta.len()));
        }
    }
}

/// Files with their time and size.
type Seen = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_the_patterns_match_counts_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["server.py", "src/a.py", "src/deep/er/b.py", "src/a.txt", "conf/x.json"] {
            write(at(name), "1");
        }
        let patterns = ["server.py", "src/**/*.py", "conf/*.json", "[", "absent/*"].map(str::to_owned);
        let watch = Watch::new(&patterns, Some(folder.path()));
        let mut last = watch.look();
        assert_eq!(watch.look(), last);
        let mut changed = || {
            let now = watch.look();
            std::mem::replace(&mut last, now) != now
        };
        for (name, counts) in [
            ("server.py", true),
            ("src/a.py", true),
            ("src/deep/er/b.py", true),
            ("src/new/c.py", true),
            ("conf/y.json", true),
            ("absent/now.here", true),
            ("src/a.txt", false),
            ("conf/deep/z.json", false),
            ("other.py", false),
        ] {
            write(at(name), "a longer text");
            assert_eq!(changed(), counts, "{name}");
        }
        fs::remove_file(at("src/a.py")).unwrap();
        assert!(changed(), "one that went counts");
    }

    #[test]
    #[cfg(unix)]
    fn a_look_ends_in_circles_and_in_large_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        write(folder.path().join("a"), "1");
        let watch = Watch::new(&["**".to_owned()], Some(folder.path()));
        let mut seen = Seen::new();
        let mut visits = 3;
        watch.patterns[0].look(folder.path(), 0, &mut visits, &mut seen);
        assert!(visits == 0 && seen.len() <= 2, "{seen:?}");
        watch.look();
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_once_the_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.py");
        write(file.clone(), "1");
        let watch = Watch::new(&["*.py".to_owned()], Some(folder.path()));
        let told = watch.changed();
        tokio::pin!(told);
        let quiet = tokio::time::timeout(Duration::from_secs(60), &mut told).await;
        assert!(quiet.is_err(), "nothing changed");
        write(file, "22");
        let began = Monotonic::now();
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is told");
        let took = Monotonic::now().since(began);
        assert!(took <= LOOK_GAP + 2 * QUIET, "{took:?}");
    }
}
