//! Floor 2. The file of stored secrets, `$CALLBOARD_HOME/secrets.json`: 0600, a flat object
//! of names to values, what `${secret:NAME}` reads. A file that others may read is refused.
//! The keyring of the system is not used.
//! Called by `config::load` and by the `secret` and `mcp add` commands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::expand::is_secret_name;
use super::spec::SecretText;
use crate::store::{self, FILE_BYTES_MAX, Lock, Mode, StoreError};

/// Why the stored secrets can't be used. Never contains a value.
#[derive(Debug)]
pub enum SecretStoreError {
    /// The file can't be read or written.
    Store(StoreError),
    /// Others than the owner may read it.
    Exposed(PathBuf),
    /// It is not a flat JSON object of strings.
    Broken(PathBuf),
    /// The name can't be used in `${secret:NAME}`.
    BadName(String),
}

impl fmt::Display for SecretStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Exposed(path) => {
                write!(f, "others may read it, so it is not used; run: chmod 600 {}", path.display())
            }
            Self::Broken(_) => f.write_str("not a JSON object of strings; no secret can be read from it"),
            Self::BadName(name) => {
                write!(f, "{name:?} can't name a secret: use letters, digits, and _ - . /")
            }
        }
    }
}

impl std::error::Error for SecretStoreError {}

impl From<StoreError> for SecretStoreError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The path of the file.
pub fn file(home: &Path) -> PathBuf {
    home.join("secrets.json")
}

/// Reads all secrets; none when there is no file.
pub fn read(home: &Path) -> Result<BTreeMap<String, SecretText>, SecretStoreError> {
    Ok(read_plain(home)?.into_iter().map(|(name, value)| (name, SecretText::new(value))).collect())
}

fn read_plain(home: &Path) -> Result<BTreeMap<String, String>, SecretStoreError> {
    let path = file(home);
    let Some(text) = store::read_text(&path, FILE_BYTES_MAX)? else { return Ok(BTreeMap::new()) };
    if store::is_readable_by_others(&path) {
        return Err(SecretStoreError::Exposed(path));
    }
    serde_json::from_str(&text).map_err(|_| SecretStoreError::Broken(path))
}

/// Stores a secret, replacing one of the same name.
pub fn set(home: &Path, name: &str, value: &SecretText) -> Result<(), SecretStoreError> {
    if !is_secret_name(name) {
        return Err(SecretStoreError::BadName(name.to_owned()));
    }
    change(home, |secrets| {
        secrets.insert(name.to_owned(), value.reveal().to_owned());
    })
}

/// Removes a secret; whether it was there.
pub fn remove(home: &Path, name: &str) -> Result<bool, SecretStoreError> {
    let mut removed = false;
    change(home, |secrets| removed = secrets.remove(name).is_some())?;
    Ok(removed)
}

fn change(home: &Path, edit: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<(), SecretStoreError> {
    let path = file(home);
    let _lock = Lock::acquire(&path)?;
    let mut secrets = read_plain(home)?;
    edit(&mut secrets);
    let mut text =
        serde_json::to_string_pretty(&secrets).map_err(|_| SecretStoreError::Broken(path.clone()))?;
    text.push('\n');
    Ok(store::write_atomic(&path, text.as_bytes(), Mode::Private)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_survive_a_round_trip_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        assert!(read(&home).unwrap().is_empty());
        set(&home, "GITHUB", &SecretText::new("ghp_x\"\\ü")).unwrap();
        set(&home, "a/b.c-d", &SecretText::new("two")).unwrap();
        let all = read(&home).unwrap();
        assert_eq!(all["GITHUB"].reveal(), "ghp_x\"\\ü");
        assert_eq!(all.keys().collect::<Vec<_>>(), ["GITHUB", "a/b.c-d"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(file(&home).metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(remove(&home, "GITHUB").unwrap());
        assert!(!remove(&home, "GITHUB").unwrap());
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_others_may_read_is_refused_and_names_the_cure() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), "K", &SecretText::new("value-of-k")).unwrap();
        let path = file(folder.path());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let message = read(folder.path()).unwrap_err().to_string();
        assert!(message.contains("chmod 600") && !message.contains("value-of-k"), "{message}");
    }

    #[test]
    fn a_broken_file_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        store::write_atomic(&file(folder.path()), b"{\"K\": \"half", Mode::Private).unwrap();
        let error = set(folder.path(), "L", &SecretText::new("x")).unwrap_err();
        assert!(!error.to_string().contains("half"));
        assert_eq!(std::fs::read(file(folder.path())).unwrap(), b"{\"K\": \"half");
    }

    #[test]
    fn names_that_no_reference_could_mean_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "a}b", "a b", "$x"] {
            assert!(matches!(
                set(folder.path(), name, &SecretText::new("x")),
                Err(SecretStoreError::BadName(_))
            ));
        }
    }
}
