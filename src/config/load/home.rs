//! Floor 2. Where the user's own files are, or why there is no such place. A relative path is
//! none: it would mean another folder in each working directory, and so one that a project
//! brought along. Called by `config::load`, and by the edges before they write.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Env;
use crate::config::issue::{Issue, IssueCode, Severity};
use crate::config::spec::{Scope, Source};

/// The variable that moves Callboard's own folder.
const OWN: &str = "CALLBOARD_HOME";

/// Why there is no folder for the user's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHome {
    variable: &'static str,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Unset,
    Relative,
    /// The root of the file system belongs to nobody's settings.
    Root,
    NotUtf8,
    /// `~` without a home folder that could be meant.
    Tilde,
}

impl fmt::Display for NoHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.variable, self.why.as_str())
    }
}

impl Why {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "is not set, and neither is CALLBOARD_HOME",
            Self::Relative => "holds a relative path",
            Self::Root => "is the root of the file system",
            Self::NotUtf8 => "is not UTF-8",
            Self::Tilde => "begins with \"~\", and HOME names no folder of yours",
        }
    }
}

impl std::error::Error for NoHome {}

impl NoHome {
    /// What to do about it.
    pub fn fix(self) -> String {
        match self.variable {
            OWN => format!("set {OWN} to an absolute path"),
            other => format!("set {other}, or {OWN}, to an absolute path"),
        }
    }

    /// The same as an issue. A variable of ours that can't be used is an error; a missing home
    /// is none, because the other sources do without.
    pub(super) fn issue(self) -> Issue {
        Issue {
            code: IssueCode::NoHome,
            severity: if self.variable == OWN { Severity::Error } else { Severity::Warning },
            source: Source { scope: Scope::User, origin: self.variable.into() },
            position: None,
            path: String::new(),
            message: format!("{}; your own files are neither read nor written", self.why.as_str()),
            fix: Some(self.fix()),
        }
    }
}

/// Callboard's own folder: `$CALLBOARD_HOME`, by default `~/.callboard`.
pub(super) fn own(env: &Env) -> Result<PathBuf, NoHome> {
    let fault = |why| NoHome { variable: OWN, why };
    if env.is_unreadable(OWN) {
        return Err(fault(Why::NotUtf8));
    }
    let Some(own) = env.get_nonempty(OWN) else { return Ok(user(env)?.join(".callboard")) };
    let path = tilde(env, own);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(fault(if own.starts_with('~') { Why::Tilde } else { Why::Relative })),
    }
}

/// The home folder of the user.
fn user(env: &Env) -> Result<&Path, NoHome> {
    let fault = |why| NoHome { variable: "HOME", why };
    if env.is_unreadable("HOME") {
        return Err(fault(Why::NotUtf8));
    }
    let home = env.get_nonempty("HOME").map(Path::new).ok_or(fault(Why::Unset))?;
    match (home.is_absolute(), home.file_name()) {
        (true, Some(_)) => Ok(home),
        (true, None) => Err(fault(Why::Root)),
        (false, _) => Err(fault(Why::Relative)),
    }
}

/// A path with the home folder in place of `~`, if there is one.
pub(super) fn tilde(env: &Env, path: &str) -> PathBuf {
    match (path.strip_prefix('~'), user(env)) {
        (Some(""), Ok(home)) => home.to_path_buf(),
        (Some(rest), Ok(home)) if rest.starts_with('/') => home.join(&rest[1..]),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(pairs: &[(&str, &str)]) -> Result<PathBuf, String> {
        own(&pairs.iter().copied().collect()).map_err(|fault| format!("{fault}; {}", fault.fix()))
    }

    #[test]
    fn only_an_absolute_path_is_a_home() {
        assert_eq!(at(&[("HOME", "/u")]), Ok("/u/.callboard".into()));
        assert_eq!(at(&[("HOME", "/u"), ("CALLBOARD_HOME", "~/c")]), Ok("/u/c".into()));
        assert_eq!(at(&[("CALLBOARD_HOME", "/c")]), Ok("/c".into()));
        assert_eq!(at(&[("HOME", "/u"), ("CALLBOARD_HOME", " ")]), Ok("/u/.callboard".into()));
        for (pairs, part) in [
            (&[][..], "HOME is not set, and neither is CALLBOARD_HOME; set HOME, or CALLBOARD_HOME, to"),
            (&[("HOME", " ")], "HOME is not set"),
            (&[("HOME", "/")], "HOME is the root"),
            (&[("HOME", "//./")], "HOME is the root"),
            (&[("HOME", "u")], "HOME holds a relative path"),
            (
                &[("HOME", "/u"), ("CALLBOARD_HOME", "c")],
                "CALLBOARD_HOME holds a relative path; set CALLBOARD_HOME to",
            ),
            (&[("CALLBOARD_HOME", "~/c")], "CALLBOARD_HOME begins with \"~\""),
            (&[("HOME", "/u"), ("CALLBOARD_HOME", "~other/c")], "CALLBOARD_HOME begins with \"~\""),
        ] {
            let fault = at(pairs).unwrap_err();
            assert!(fault.starts_with(part), "{fault}");
        }
    }

    proptest! {
        /// Whatever the variables hold: never the root's own folder by mistake, never a relative one.
        #[test]
        fn a_home_is_absolute_and_below_what_was_said(home in "[~/. a-c]{0,8}", own_home in "[~/. a-c]{0,8}") {
            let env: Env = [("HOME", home.as_str()), ("CALLBOARD_HOME", own_home.as_str())].into_iter().collect();
            if let Ok(path) = own(&env) {
                prop_assert!(path.is_absolute());
                prop_assert!(own_home.starts_with('/') || path != Path::new("/.callboard"), "{path:?}");
            }
        }
    }
}
