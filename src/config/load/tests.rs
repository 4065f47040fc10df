//! Tests of `config::load`: real files in temporary folders, no process environment.

use super::*;
use crate::config::approvals;
use crate::config::spec::{Entry, EntryState, SecretText, ServerSpec, TransportSpec, Trust};
use std::time::Duration;

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
        approvals::approve(&loaded.home, request.approval("2026-08-30T00:00:00Z")).unwrap();
    }
}

fn entry<'a>(loaded: &'a Loaded, name: &str) -> &'a Entry {
    loaded.servers.get(name).unwrap_or_else(|| panic!("no entry {name}: {:#?}", loaded.servers))
}

fn spec(loaded: &Loaded, name: &str) -> Arc<ServerSpec> {
    match &entry(loaded, name).state {
        EntryState::Ready(spec) => Arc::clone(spec),
        other => panic!("{name} is {other:?}: {:#?}", entry(loaded, name).issues),
    }
}

fn errors(loaded: &Loaded) -> Vec<String> {
    loaded.issues().filter(|issue| issue.severity == Severity::Error).map(ToString::to_string).collect()
}

fn warnings(loaded: &Loaded) -> Vec<String> {
    loaded.issues().filter(|issue| issue.severity == Severity::Warning).map(ToString::to_string).collect()
}

fn command(loaded: &Loaded, name: &str) -> String {
    match &spec(loaded, name).transport {
        TransportSpec::Stdio { command, .. } => command.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_configured_is_no_servers_and_no_issue() {
    let loaded = Desk::new().load();
    assert!(loaded.servers.entries.is_empty());
    assert_eq!(loaded.issues().count(), 0);
    assert_eq!(loaded.settings, HostSettings::default());
}

#[test]
fn later_sources_win_per_name_whole_entry_at_a_time() {
    let mut desk = Desk::new();
    let all = |command: &str, names: &[&str]| {
        let entries: Vec<String> =
            names.iter().map(|n| format!("{n:?}: {{\"command\": {command:?}}}")).collect();
        format!("{{\"mcpServers\": {{{}}}}}", entries.join(","))
    };
    desk.user(&all("user", &["a", "b", "c", "d", "e", "f", "g"]));
    desk.write("project/.mcp.json", &all("project", &["b", "c", "d", "e", "f", "g"]));
    desk.write("project/.callboard/mcp.json", &all("project2", &["c", "d", "e", "f", "g"]));
    desk.write("one.json", &all("envfile", &["d", "e", "f", "g"]));
    desk.write("flag.json", &all("flag", &["f", "g"]));
    desk.write("managed/mcp.json", &all("managed", &["g"]));
    let one = desk.path("one.json").display().to_string();
    desk.set("CALLBOARD_MCP_CONFIG", &one);
    desk.set("CALLBOARD_MCP_SERVERS", r#"{"e": {"command": "inline"}, "f": {"command": "inline"}}"#);
    desk.options.config_files = vec![desk.path("flag.json")];
    for name in ["b", "c"] {
        desk.approve(name);
    }
    let loaded = desk.load();
    let seen: Vec<String> = ["a", "d", "e", "f", "g"].iter().map(|n| command(&loaded, n)).collect();
    assert_eq!(seen, ["user", "envfile", "inline", "flag", "managed"]);
    assert_eq!(entry(&loaded, "g").source.scope, Scope::Managed);
    let hidden: Vec<Scope> = entry(&loaded, "f").shadows.iter().map(|s| s.scope).collect();
    assert_eq!(hidden, [Scope::EnvInline, Scope::EnvFile, Scope::Project, Scope::Project, Scope::User]);
    assert_eq!(
        warnings(&loaded).iter().filter(|w| w.contains("managed entries can't be overridden")).count(),
        5
    );
}
