//! Floor 2. The machine as validation sees it: variables, stored secrets, folders, programs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Env, LoadOptions, file_issue};
use crate::config::expand::Lookup;
use crate::config::issue::{Issue, IssueCode};
use crate::config::secret_store;
use crate::config::spec::{Scope, SecretText};
use crate::config::validate::World;

/// A place that holds secrets by name, such as a keyring.
pub trait SecretSource: Send + Sync {
    /// The secret of that name, if it is there.
    fn get(&self, name: &str) -> Option<SecretText>;
}

/// The real machine, with the environment of the options.
pub(in crate::config) struct Machine<'a> {
    env: &'a Env,
    source: Option<Arc<dyn SecretSource>>,
    stored: BTreeMap<String, SecretText>,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

impl<'a> Machine<'a> {
    /// Reads the file of secrets; one that can't be used holds none, and is an issue.
    pub(in crate::config) fn new(options: &'a LoadOptions, home: Option<&Path>) -> (Self, Option<Issue>) {
        let (stored, issue) = match home.map(secret_store::read).transpose() {
            Ok(stored) => (stored.unwrap_or_default(), None),
            Err(error) => {
                let issue = file_issue(
                    IssueCode::Store,
                    Scope::User,
                    &home.map(secret_store::file).unwrap_or_default(),
                    error.to_string(),
                );
                (BTreeMap::new(), Some(issue))
            }
        };
        (Self { env: &options.env, source: options.secrets.clone(), stored }, issue)
    }
}

impl Lookup for Machine<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.env.get(name).map(str::to_owned)
    }

    fn is_unreadable(&self, name: &str) -> bool {
        self.env.is_unreadable(name)
    }

    fn secret(&self, name: &str) -> Option<String> {
        let elsewhere = self.source.as_ref().and_then(|source| source.get(name));
        elsewhere.or_else(|| self.stored.get(name).cloned()).map(|secret| secret.reveal().to_owned())
    }
}

impl World for Machine<'_> {
    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_program(&self, path: &Path) -> bool {
        let Ok(metadata) = path.metadata() else { return false };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
        }
        #[cfg(not(unix))]
        metadata.is_file()
    }

    fn search(&self, name: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
        std::env::split_paths(path)
            .map(|folder| cwd.join(folder).join(name))
            .find(|candidate| self.is_program(candidate))
    }
}
