//! Who shares what: clients whose configurations come to the same, each expanded in that client's own
//! environment, live in one house, with one process of each server. Pure: `now` is passed in. A client
//! that has a server of its own (`sharing = "session"`) has a house of its own. So nobody is ever served
//! an entry that is not in the own configuration, and arrival decides nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::union::Wanted;
use crate::config::child_env::child_env;
use crate::config::host::{ColorChoice, HostSettings, LogLevel};
use crate::config::load::Loaded;
use crate::config::spec::{Entry, EntryState, Scope, SecretText, ServerSet, ServerSpec, Sharing};
use crate::id::ServerId;
use crate::time::Monotonic;

/// What has no terminal does not depend on its kind.
const OF_NO_SERVER: &str = "TERM";

/// What a configuration comes to for one client. Equal ones may share everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Sameness {
    servers: Vec<Same>,
    settings: HostSettings,
    root: PathBuf,
    /// With which the host's own tools search.
    search_key: Option<SecretText>,
}

/// What one entry comes to for one client. Equal ones may share a process.
#[derive(Clone, PartialEq)]
pub enum Same {
    /// It may run: so, with that environment; written in that scope, which allow rules are bound to.
    Runs(Arc<ServerSpec>, Vec<(String, String)>, Scope),
    /// It may not; its state in a word, and what is written.
    Rests(ServerId, &'static str, String),
}

/// Without values of the environment, which may be secret.
impl std::fmt::Debug for Same {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs(spec, ..) => write!(f, "{} runs", spec.id),
            Self::Rests(id, state, _) => write!(f, "{id} {state}"),
        }
    }
}

impl Sameness {
    /// What this comes to: `servers` are those of the configuration that are served, `host_env` the
    /// environment of the client.
    pub fn of(loaded: &Loaded, servers: &ServerSet, host_env: &BTreeMap<String, String>) -> Self {
        // How a client is logged and painted is no matter of its servers.
        let (log_level, color) = (LogLevel::default(), ColorChoice::default());
        let settings = HostSettings { log_level, color, ..loaded.settings.clone() };
        let same = |entry: &Entry| Same::of(entry, host_env, &settings.env_passthrough);
        let servers = servers.entries.iter().map(same).collect();
        Self { servers, settings, root: loaded.project_root.clone(), search_key: loaded.search_key.clone() }
    }

    /// Whether a server of it is for one client only.
    pub fn is_for_one(&self) -> bool {
        self.servers.iter().any(Same::is_for_one)
    }

    /// Its entries, one by one.
    pub fn wanted(&self) -> Vec<Wanted<Same>> {
        let wanted =
            |same: &Same| Wanted { name: same.name().clone(), key: same.clone(), alone: same.is_for_one() };
        self.servers.iter().map(wanted).collect()
    }
}

impl Same {
    /// What this comes to in a client's environment; `passthrough` names what servers may see of it besides.
    pub fn of(entry: &Entry, host_env: &BTreeMap<String, String>, passthrough: &[String]) -> Self {
        let rests = |state| Self::Rests(entry.id.clone(), state, entry.hash.clone());
        match &entry.state {
            EntryState::Ready(spec) => {
                let mut env = child_env(host_env, spec, passthrough);
                env.retain(|(name, _)| name != OF_NO_SERVER);
                Self::Runs(spec.clone(), env, entry.source.scope)
            }
            EntryState::Disabled => rests("disabled"),
            EntryState::Pending => rests("pending"),
            EntryState::Invalid => rests("invalid"),
        }
    }

    fn name(&self) -> &ServerId {
        match self {
            Self::Runs(spec, ..) => &spec.id,
            Self::Rests(id, ..) => id,
        }
    }

    fn is_for_one(&self) -> bool {
        matches!(self, Self::Runs(spec, ..) if spec.sharing == Sharing::Session)
    }
}

/// A house, counted from 1 and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HouseId(pub u64);

#[derive(Debug)]
struct House<K> {
    key: K,
    for_one: bool,
    users: usize,
    /// Since when nobody lives there.
    empty_since: Option<Monotonic>,
}

/// All houses, and how many clients live in each.
#[derive(Debug)]
pub struct Pool<K> {
    houses: BTreeMap<HouseId, House<K>>,
    last: u64,
    linger: Duration,
}

impl<K: PartialEq> Pool<K> {
    /// No house yet; an empty one is kept for `linger`.
    pub fn new(linger: Duration) -> Self {
        Self { houses: BTreeMap::new(), last: 0, linger }
    }

    /// One client more: its house, and whether that is new. `for_one`: it must be alone there.
    pub fn enter(&mut self, key: K, for_one: bool) -> (HouseId, bool) {
        let fits = |house: &House<K>| !for_one && !house.for_one && house.key == key;
        if let Some((id, house)) = self.houses.iter_mut().find(|(_, house)| fits(house)) {
            house.users += 1;
            house.empty_since = None;
            return (*id, false);
        }
        self.last += 1;
        let id = HouseId(self.last);
        self.houses.insert(id, House { key, for_one, users: 1, empty_since: None });
        (id, true)
    }

    /// One client less.
    pub fn leave(&mut self, id: HouseId, now: Monotonic) {
        let Some(house) = self.houses.get_mut(&id) else { return };
        house.users = house.users.saturating_sub(1);
        if house.users == 0 {
            house.empty_since = Some(now);
        }
    }

    /// The house can't be used: nobody enters it any more.
    pub fn forget(&mut self, id: HouseId) {
        self.houses.remove(&id);
    }

    /// The configuration of those who live there comes to something else now.
    pub fn becomes(&mut self, id: HouseId, key: K, for_one: bool) {
        if let Some(house) = self.houses.get_mut(&id) {
            house.key = key;
            // Who lived together stays so until the house is empty; nobody else comes in.
            house.for_one = for_one;
        }
    }

    /// Takes out the houses that have been empty for long enough: they are to be ended.
    pub fn due(&mut self, now: Monotonic) -> Vec<HouseId> {
        let linger = self.linger;
        let over = |house: &House<K>| over(house, linger).is_some_and(|at| at <= now);
        let due: Vec<HouseId> =
            self.houses.iter().filter(|(_, house)| over(house)).map(|(id, _)| *id).collect();
        due.iter().for_each(|id| self.forget(*id));
        due
    }

    /// When the next house is due, as things are.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.houses.values().filter_map(|house| over(house, self.linger)).min()
    }

    /// The houses of those to whom a configuration comes to the same.
    pub fn equal(&self, key: &K) -> Vec<HouseId> {
        self.houses.iter().filter(|(_, house)| house.key == *key).map(|(id, _)| *id).collect()
    }

    /// Whether there is no house.
    pub fn is_empty(&self) -> bool {
        self.houses.is_empty()
    }
}

/// When a house is to be ended; nobody comes back to one that was for one client.
fn over<K>(house: &House<K>, linger: Duration) -> Option<Monotonic> {
    house.empty_since.map(|since| if house.for_one { since } else { since + linger })
}

#[cfg(test)]
mod tests;
