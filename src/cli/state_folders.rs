//! Floor 5. The folders in which Callboard keeps what it learned, and whether they can be used.
//! Looks, and changes nothing. Used by `doctor`, and by the verbs that run servers for one line.

use std::path::{Path, PathBuf};

use crate::id::shell_word;
use crate::store::{self, Unusable};
use crate::transport::{guard, kept, memory};

/// A folder that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, and what is lost by it, in one sentence.
    pub message: String,
    /// What cures it.
    pub fix: String,
}

/// What can't be used below Callboard's own folder; a folder within one that is told is not told
/// again.
pub fn faults(home: &Path) -> Vec<Fault> {
    let cache = memory::file(home).parent().map(Path::to_path_buf);
    let run = guard::leases(home).parent().map(Path::to_path_buf);
    let kept = "what servers offer is not kept between runs";
    let leases = "what a crash leaves running is not found again";
    let folders: [(Option<PathBuf>, &str); 5] = [
        (Some(home.to_path_buf()), "nothing that you add, approve or store can be kept"),
        (cache, kept),
        (Some(kept::folder(home)), kept),
        (run, leases),
        (Some(guard::leases(home)), leases),
    ];
    let mut told: Vec<PathBuf> = Vec::new();
    let mut faults = Vec::new();
    for (folder, loses) in folders {
        let Some(folder) = folder else { continue };
        let Some((at, why)) = store::unusable(&folder) else { continue };
        if !told.contains(&at) {
            faults.push(fault(&at, &why, loses));
            told.push(at);
        }
    }
    faults
}

fn fault(at: &Path, why: &Unusable, loses: &str) -> Fault {
    let (shown, word) = (at.display(), shell_word(&at.display().to_string()).into_owned());
    match why {
        Unusable::NoFolder => Fault {
            message: format!("{shown} is a file where a folder has to be: {loses}"),
            fix: format!("move it away: mv {word} {}", shell_word(&format!("{shown}.old"))),
        },
        Unusable::ReadOnly => Fault {
            message: format!("{shown} is on a file system that can't be written: {loses}"),
            fix: "name another folder, absolute, in CALLBOARD_HOME".to_owned(),
        },
        Unusable::Denied(error) => Fault {
            message: format!("{shown} can't be used ({error}): {loses}"),
            fix: format!(
                "make it yours and writable (chmod u+rwx {word}), or name another folder in CALLBOARD_HOME"
            ),
        },
    }
}

/// The one line that a verb says which runs servers.
pub fn warning(home: &Path) -> Option<String> {
    let faults = faults(home);
    let first = faults.first()?;
    let more = match faults.len() {
        1 => String::new(),
        n => format!(" (and {} more: callboard doctor)", n - 1),
    };
    Some(format!("{}{more}; {}", first.message, first.fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_that_is_a_file_is_told_once_with_its_cure() {
        for (file, loses) in [
            ("", "nothing that you add"),
            ("cache", "not kept"),
            ("cache/catalogs", "not kept"),
            ("run", "leaves running"),
            ("run/leases", "leaves running"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().join("home");
            assert_eq!(faults(&home), [], "what is not there yet is made");
            let path = home.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let path = if file.is_empty() { home.clone() } else { path };
            std::fs::write(&path, "").unwrap();
            let found = faults(&home);
            assert_eq!(found.len(), 1, "{file}: {found:?}");
            assert!(found[0].message.contains("is a file") && found[0].message.contains(loses), "{found:?}");
            assert!(found[0].fix.contains("mv "), "{found:?}");
            assert!(warning(&home).is_some_and(|line| !line.contains('\n') && !line.contains("more")));
        }
    }
}
