//! Floor 2. The file of allow rules, `$CALLBOARD_HOME/allow.json` (0600, outside every project).
//! A broken file allows nothing and is never overwritten. Called by `config::load`, by
//! `mcp allow|rules`, and by the desk of approvals.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::rule_book::{RuleBook, RuleKey};
use crate::config::rules::RuleFault;
use crate::store::{self, FILE_BYTES_MAX, Lock, Mode, StoreError};

/// Why allow rules can't be read or written.
#[derive(Debug)]
pub enum RuleError {
    /// The file can't be read or written.
    Store(StoreError),
    /// Its content can't be understood.
    Broken(PathBuf),
    /// These can't be rules of that server; nothing was changed.
    Faults(Vec<RuleFault>),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Broken(path) => write!(
                f,
                "{}: can't be understood, so no allow rule is in force; repair or delete it",
                path.display()
            ),
            Self::Faults(faults) => {
                for (index, fault) in faults.iter().enumerate() {
                    write!(f, "{}{fault}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for RuleError {}

impl From<StoreError> for RuleError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The path of the file.
pub fn file(home: &Path) -> PathBuf {
    home.join("allow.json")
}

/// What the file says; nothing when there is none. Blocking.
///
/// # Errors
/// When it can't be read or understood.
pub fn read(home: &Path) -> Result<RuleBook, RuleError> {
    let path = file(home);
    match store::read_text(&path, FILE_BYTES_MAX)? {
        Some(text) => RuleBook::parse(&text).ok_or(RuleError::Broken(path)),
        None => Ok(RuleBook::default()),
    }
}

/// Changes the file under its lock; what it says then. An edit that changes nothing writes nothing,
/// and one that fails leaves the file as it was. Blocking.
///
/// # Errors
/// When the file can't be read, understood or written, or the edit fails.
pub fn change(
    home: &Path,
    edit: impl FnOnce(&mut RuleBook) -> Result<(), Vec<RuleFault>>,
) -> Result<RuleBook, RuleError> {
    let path = file(home);
    let _lock = Lock::acquire(&path)?;
    let before = read(home)?;
    let mut book = before.clone();
    edit(&mut book).map_err(RuleError::Faults)?;
    if book != before {
        store::write_atomic(&path, book.to_text().as_bytes(), Mode::Private)?;
    }
    Ok(book)
}

/// Allows one more tool of an entry; what the file says then. Blocking.
///
/// # Errors
/// As [`change`].
pub fn allow(home: &Path, key: &RuleKey, tool: &str) -> Result<RuleBook, RuleError> {
    change(home, |book| {
        let mut tools = book.tools(key);
        if tools.insert(tool.to_owned()) {
            book.set(key, &tools);
        }
        Ok(())
    })
}

/// Replaces all rules of one entry by these, each written `server/tool` or `server/*`; what the file
/// says then. The way for programs: whoever manages one server can't touch another. Blocking.
///
/// # Errors
/// As [`change`]; [`RuleError::Faults`] when one of the rules is none of that server's.
pub fn replace(home: &Path, key: &RuleKey, rules: &[String]) -> Result<RuleBook, RuleError> {
    change(home, |book| book.replace(key, rules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::Scope;

    fn key(server: &str) -> RuleKey {
        RuleKey::of(Scope::User, Path::new("/p"), &server.into())
    }

    #[test]
    fn a_broken_file_allows_nothing_and_is_never_overwritten() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()).unwrap(), RuleBook::default());
        for text in ["{ oops", r#"{"version":9,"servers":[]}"#] {
            std::fs::write(file(home.path()), text).unwrap();
            let error = read(home.path()).unwrap_err();
            assert!(error.to_string().contains("repair or delete it"), "{error}");
            assert!(allow(home.path(), &key("s"), "t").is_err());
            assert!(replace(home.path(), &key("s"), &[]).is_err());
            assert_eq!(std::fs::read_to_string(file(home.path())).unwrap(), text);
        }
    }

    #[test]
    #[cfg(unix)]
    fn the_file_is_private_whatever_it_was() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        allow(home.path(), &key("s"), "t").unwrap();
        let mode = || std::fs::metadata(file(home.path())).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(file(home.path()), std::fs::Permissions::from_mode(0o644)).unwrap();
        allow(home.path(), &key("s"), "u").unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn writers_at_the_same_time_lose_no_rule() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let home = home.path();
                scope.spawn(move || {
                    (0..8).for_each(|n| {
                        _ = allow(home, &key(&format!("s{}", n % 2)), &format!("t{writer}-{n}")).unwrap()
                    });
                });
            }
        });
        let book = read(home.path()).unwrap();
        assert_eq!(book.tools(&key("s0")).len() + book.tools(&key("s1")).len(), 32);
    }

    #[test]
    fn rules_of_another_server_are_refused_and_nothing_is_written() {
        let home = tempfile::tempdir().unwrap();
        let error = replace(home.path(), &key("git"), &["github/x".into(), "git/a*".into()]).unwrap_err();
        assert!(error.to_string().contains("\"github/x\"") && error.to_string().contains("\"git/a*\""));
        assert!(!file(home.path()).exists());
        let book = replace(home.path(), &key("git"), &["git/*".into()]).unwrap();
        assert_eq!(book, read(home.path()).unwrap());
    }
}
