//! Files that are written while their writer is killed: the old content or the new one, never a
//! mixture, and nothing that others may read at any time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callboard::store::{Lock, Mode, write_atomic};

use crate::trees::{Running, rounds};

/// Makes this test program a writer, and says where it writes.
const WRITER: &str = "CALLBOARD_TEST_WRITER";
const SIZE: usize = 300_000;

fn whole(letter: u8) -> Vec<u8> {
    vec![letter; SIZE]
}

/// Not a test of its own: what the next one starts and kills.
#[test]
fn writer_that_is_killed() {
    let Ok(path) = std::env::var(WRITER) else { return };
    for letter in (b'a'..=b'z').cycle() {
        write_atomic(Path::new(&path), &whole(letter), Mode::Private).unwrap();
    }
}

/// Whether the folder holds nothing but the file and what a killed writer left, all of it private.
fn look(folder: &Path) -> usize {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{:?} can be read by others", entry.path());
        seen += 1;
    }
    seen
}

#[test]
fn a_writer_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("file");
    write_atomic(&path, &whole(b'a'), Mode::Private).unwrap();
    let mut met = std::collections::BTreeSet::new();
    for round in 0..rounds("CALLBOARD_KILL_ROUNDS", 200) {
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer.args(["--exact", "writes::writer_that_is_killed"]).env(WRITER, &path);
        let writer = Running::of(writer.stdout(Stdio::null()).stderr(Stdio::null()));
        // It writes from now on; how often we look before it is killed is another for each round.
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        while std::fs::metadata(&path).unwrap().modified().unwrap() == written {
            look(folder.path());
        }
        for _ in 0..round % 50 {
            look(folder.path());
        }
        drop(writer);
        let found = std::fs::read(&path).unwrap();
        let letter = found[0];
        assert_eq!(found, whole(letter), "round {round}: mixed or cut");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        met.insert(letter);
    }
    assert!(met.len() > 1, "nothing was ever replaced");
    // What the killed ones left does not keep the next one from its work.
    let lock = Lock::acquire(&path).unwrap();
    write_atomic(&path, b"last", Mode::Private).unwrap();
    drop(lock);
    assert_eq!(std::fs::read(&path).unwrap(), b"last");
}
