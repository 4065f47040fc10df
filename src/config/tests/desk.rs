//! What the tests of the configuration share: a home, a project and managed files in a
//! temporary folder, and short ways to ask what was loaded. No process environment.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::approvals;
use crate::config::load::{Env, LoadOptions, Loaded, load};
use crate::config::spec::{Entry, EntryState, ServerSpec, Severity, TransportSpec};

/// A user's home, a project and managed files, all empty.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    pub(crate) options: LoadOptions,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home/.callboard", "project/.git", "managed"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let home = root.join("home").display().to_string();
        let env: Env = [("HOME", home.as_str()), ("PATH", "/usr/bin:/bin")].into_iter().collect();
        let mut options = LoadOptions::new(env, root.join("project"));
        options.managed_dir = root.join("managed");
        Self { folder, options }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file, with its folders.
    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn user(&self, text: &str) -> &Self {
        self.write("home/.callboard/mcp.json", text)
    }

    pub(crate) fn project(&self, text: &str) -> &Self {
        self.write("project/.mcp.json", text)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.options.env.set(name, value);
        self
    }

    pub(crate) fn load(&self) -> Loaded {
        load(&self.options)
    }

    /// Approves whatever waits under that name, as `mcp approve` does.
    pub(crate) fn approve(&self, name: &str) {
        let loaded = self.load();
        let request = approvals::request(&loaded, &self.options, name).unwrap();
        approvals::approve(&loaded.home.unwrap(), request.approval("2026-08-30T00:00:00Z")).unwrap();
    }
}

pub(crate) fn entry<'a>(loaded: &'a Loaded, name: &str) -> &'a Entry {
    loaded.servers.get(name).unwrap_or_else(|| panic!("no entry {name}: {:#?}", loaded.servers))
}

pub(crate) fn spec(loaded: &Loaded, name: &str) -> Arc<ServerSpec> {
    match &entry(loaded, name).state {
        EntryState::Ready(spec) => Arc::clone(spec),
        other => panic!("{name} is {other:?}: {:#?}", entry(loaded, name).issues),
    }
}

pub(crate) fn errors(loaded: &Loaded) -> Vec<String> {
    loaded.issues().filter(|issue| issue.severity == Severity::Error).map(ToString::to_string).collect()
}

pub(crate) fn warnings(loaded: &Loaded) -> Vec<String> {
    loaded.issues().filter(|issue| issue.severity == Severity::Warning).map(ToString::to_string).collect()
}

pub(crate) fn command(loaded: &Loaded, name: &str) -> String {
    match &spec(loaded, name).transport {
        TransportSpec::Stdio { command, .. } => command.clone(),
        other => panic!("{other:?}"),
    }
}

/// A file with one entry called `s`.
pub(crate) fn one(entry: &str) -> String {
    format!("{{\"mcpServers\": {{\"s\": {entry}}}}}")
}

/// Loads one user's entry called `s`.
pub(crate) fn load_one(entry: &str) -> Loaded {
    let desk = Desk::new();
    desk.user(&one(entry));
    desk.load()
}
