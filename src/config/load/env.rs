//! Floor 2. The environment as a value, so that nothing else has to read that of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;

/// The variables of a process, or of a test. `Debug` shows no values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env {
    texts: BTreeMap<String, String>,
    /// Names of variables that are set to something that is not UTF-8.
    unreadable: BTreeSet<String>,
}

impl Env {
    /// The environment of this process. Variables that are not UTF-8 are left out, and known by
    /// name; a missing `HOME` is what the system's user database says.
    pub fn from_process() -> Self {
        let mut env = Self::of(std::env::vars_os());
        if env.get_nonempty("HOME").is_none()
            && let Some(home) = std::env::home_dir()
            && !home.as_os_str().is_empty()
        {
            // A path that is not UTF-8 would come out as another one.
            match home.to_str() {
                Some(home) => env.set("HOME", home),
                None => _ = env.unreadable.insert("HOME".to_owned()),
            }
        }
        env
    }

    fn of(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut env = Self::default();
        for (name, value) in variables {
            env.set_os(name, value);
        }
        env
    }

    /// Whether a variable is set, but not to UTF-8.
    pub fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.contains(name)
    }

    /// Names of the variables that are set, but not to UTF-8.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str)
    }

    /// The value of a variable, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The value of a variable, if it is set and more than white space.
    pub fn get_nonempty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All variables as a map: what the runtime hands to children from.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.texts.clone()
    }

    /// Sets a variable as the system has it. A name that is not UTF-8 can't be asked for, and is
    /// left out.
    pub fn set_os(&mut self, name: OsString, value: OsString) {
        let Ok(name) = name.into_string() else { return };
        match value.into_string() {
            Ok(value) => self.set(name, value),
            Err(_) => _ = self.unreadable.insert(name),
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.texts.insert(name.into(), value.into());
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let texts = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { texts, ..Self::default() }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.texts.keys()).finish()
    }
}
