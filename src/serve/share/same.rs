//! What a client's configuration comes to, entry by entry, expanded in that client's own environment: what
//! has to be equal for two clients to share a server, and what a server needs to run. What concerns the
//! client alone (names, modes, limits of its own) is no part of that. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::union::Wanted;
use crate::config::child_env::child_env;
use crate::config::host::{AuditMode, HostSettings};
use crate::config::spec::{
    Down, Entry, EntryState, NamingStyle, Scope, SecretText, ServerSpec, Sharing, ToolFilter,
};
use crate::id::ServerId;
use crate::runtime::{RuntimePlan, Surroundings};
use crate::transport::DuplexPeer;

/// What has no terminal does not depend on its kind.
const OF_NO_SERVER: &str = "TERM";

/// What one entry comes to for one client. Equal ones may share a process.
#[derive(Clone, PartialEq)]
pub enum Same {
    /// It may run, and so.
    Runs(Way),
    /// It may not; its state in a word, what is written, and where.
    Rests(&'static str, String, Place),
    /// The tools of the host itself: as the settings and the project say, with that key for searching.
    Inside(String, Option<SecretText>),
}

/// How a server runs.
#[derive(Clone, PartialEq)]
pub struct Way {
    spec: Arc<ServerSpec>,
    /// All that it sees of the environment.
    env: Vec<(String, String)>,
    place: Place,
    roots: Vec<PathBuf>,
    poll: Option<Duration>,
}

/// To which entry allow rules and pins are bound.
#[derive(Clone, PartialEq)]
pub struct Place {
    scope: Scope,
    /// Of an entry of a project alone.
    project: Option<PathBuf>,
}

/// Without values of the environment, which may be secret.
impl std::fmt::Debug for Same {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs(way) => write!(f, "{} runs", way.spec.id),
            Self::Rests(state, ..) => f.write_str(state),
            Self::Inside(..) => f.write_str("the host itself"),
        }
    }
}

impl Same {
    /// What an entry comes to in a project, in these surroundings.
    pub fn of(entry: &Entry, root: &Path, around: &Surroundings) -> Self {
        let scope = entry.source.scope;
        let place = Place { scope, project: (scope == Scope::Project).then(|| root.to_path_buf()) };
        match &entry.state {
            EntryState::Ready(spec) => {
                let mut env = child_env(&around.host_env, spec, &around.env_passthrough);
                env.retain(|(name, _)| name != OF_NO_SERVER);
                let (roots, poll) = (around.roots.clone(), around.poll);
                Self::Runs(Way { spec: spec.clone(), env, place, roots, poll })
            }
            EntryState::Disabled => Self::Rests("disabled", entry.hash.clone(), place),
            EntryState::Pending => Self::Rests("pending", entry.hash.clone(), place),
            EntryState::Invalid => Self::Rests("invalid", entry.hash.clone(), place),
        }
    }

    /// Whether it is for one client alone.
    pub fn is_for_one(&self) -> bool {
        match self {
            Self::Runs(way) => way.spec.sharing == Sharing::Session,
            // What a client got last is kept by sessions, and the folders that are read are in the words.
            Self::Rests(..) | Self::Inside(..) => false,
        }
    }
}

/// What a server needs to run: of the first client that wanted it.
#[derive(Clone, Debug)]
pub struct Served {
    same: Same,
    entry: Entry,
    peer: Option<DuplexPeer>,
    around: Surroundings,
    credentials: Vec<SecretText>,
    root: PathBuf,
}

impl Served {
    /// All entries of a client's plan; `search_key` is what the host's own tools search with.
    pub fn all(plan: &RuntimePlan, search_key: Option<&SecretText>) -> Vec<Self> {
        let around = Surroundings {
            host_env: Arc::new(plan.host_env.clone()),
            env_passthrough: plan.env_passthrough.clone(),
            roots: plan.roots.clone(),
            poll: plan.poll,
        };
        let root = plan.gate.place.as_ref().map(|place| place.root.clone()).unwrap_or_default();
        let served = |entry: &Entry| {
            let peer = plan.in_process.get(&entry.id).cloned();
            let same = match peer {
                Some(_) => Same::Inside(entry.hash.clone(), search_key.cloned()),
                None => Same::of(entry, &root, &around),
            };
            let credentials = plan.servers.credentials.get(&entry.id).cloned().unwrap_or_default();
            Self { same, entry: entry.clone(), peer, around: around.clone(), credentials, root: root.clone() }
        };
        plan.servers.entries.iter().map(served).collect()
    }

    /// The entry as a client wants it.
    pub fn wanted(&self) -> Wanted<Same> {
        let alone = self.same.is_for_one();
        Wanted { name: self.entry.id.clone(), key: self.same.clone(), alone }
    }

    /// Whether it is what an instance of that name is to be.
    pub fn is(&self, name: &ServerId, same: &Same) -> bool {
        self.entry.id.plain() == *name && self.same == *same
    }

    /// The same as the server of that id.
    #[must_use]
    pub fn under(mut self, id: &ServerId) -> Self {
        self.entry.id = id.clone();
        if let EntryState::Ready(spec) = &mut self.entry.state {
            Arc::make_mut(spec).id = id.clone();
        }
        let of_project = self.entry.source.scope == Scope::Project;
        self.entry.project = of_project.then(|| Arc::from(self.root.as_path()));
        self
    }

    /// Which of its tools are listed.
    pub fn filter(&self) -> ToolFilter {
        match &self.entry.state {
            EntryState::Ready(spec) => spec.filter.clone(),
            EntryState::Disabled | EntryState::Pending | EntryState::Invalid => ToolFilter::default(),
        }
    }

    /// Adds it to the plan of all servers; one that is held down does not run.
    pub fn join(&self, plan: &mut RuntimePlan, down: Option<Down>) {
        let mut entry = self.entry.clone();
        if down.is_some() && matches!(entry.state, EntryState::Ready(_)) {
            (entry.state, entry.down) = (EntryState::Disabled, down);
        }
        let id = entry.id.clone();
        if let Some(place) = &mut plan.gate.place {
            place.servers.insert(id.clone(), (entry.source.scope, self.root.clone()));
        }
        if let Some(peer) = &self.peer {
            plan.in_process.insert(id.clone(), peer.clone());
        }
        plan.surroundings.insert(id.clone(), self.around.clone());
        plan.servers.credentials.insert(id, self.credentials.clone());
        plan.servers.entries.push(entry);
    }
}

/// What holds for a whole host, whoever its clients are: a client with something else has a host of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    audit: AuditMode,
    audit_file_max: usize,
    in_flight_max: usize,
    spawns_max: usize,
    approval_expires: Duration,
}

impl Common {
    /// What the settings of a client say of it.
    pub fn of(settings: &HostSettings) -> Self {
        Self {
            audit: settings.audit,
            audit_file_max: settings.audit_file_max,
            in_flight_max: settings.in_flight_max,
            spawns_max: settings.spawns_max,
            approval_expires: settings.approval_expires,
        }
    }
}

impl Common {
    /// The settings in which another one differs, by name.
    pub fn differs(&self, other: &Self) -> Vec<&'static str> {
        let all = [
            ("audit.mode", self.audit != other.audit),
            ("audit.file_max", self.audit_file_max != other.audit_file_max),
            ("limits.in_flight_max", self.in_flight_max != other.in_flight_max),
            ("limits.spawns_max", self.spawns_max != other.spawns_max),
            ("approval.expires", self.approval_expires != other.approval_expires),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Default for Common {
    fn default() -> Self {
        Self::of(&HostSettings::default())
    }
}

/// The plan of a host without servers, from that of its first client: what is the client's own is left out.
pub fn without_servers(plan: &RuntimePlan) -> RuntimePlan {
    let mut base = plan.clone();
    base.servers = Default::default();
    base.in_process = BTreeMap::new();
    base.host_env = BTreeMap::new();
    base.env_passthrough = Vec::new();
    base.roots = Vec::new();
    // No tool is in conflict with one of another client: each names its own.
    base.naming = NamingStyle::ServerTool;
    // Each client has a mode of its own, which makes it stricter.
    base.gate.mode = crate::config::mode::Mode::Auto;
    base
}

#[cfg(test)]
mod tests;
