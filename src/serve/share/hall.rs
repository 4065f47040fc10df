//! What runs for the clients of a host: one host with one runtime, whose servers are those of all clients
//! together (`union`), and for each client the part of it that its configuration comes to. Decides and
//! plans; the keeper waits, reads and tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::hello::{Join, Reply};
use super::same::{Common, Same, Served, without_servers};
use super::union::{Member, Union, Wanted};
use crate::builtins::Builtins;
use crate::config::spec::{Down, Severity, ToolFilter};
use crate::id::{BUILTINS, ServerId, SessionId, shell_word};
use crate::serve::client::Client;
use crate::serve::part::{Part, Reach};
use crate::serve::{Caller, Host, HostPlan};
use crate::time::Monotonic;
use crate::transport::task;

/// What a client's configuration comes to.
#[derive(Debug)]
pub struct Planned {
    /// The plan of a host for this client alone.
    pub host: HostPlan,
    /// What the host's own tools search with.
    pub search_key: Option<crate::config::spec::SecretText>,
    /// What it wants of a whole host.
    pub common: Common,
    /// Who it is.
    pub caller: Caller,
    /// Longest message that is taken from it, in bytes.
    pub frame_max: usize,
    /// The files that its configuration was looked for in.
    pub files: Vec<PathBuf>,
}

impl Planned {
    /// Its entries, one by one.
    pub fn served(&self) -> Vec<Served> {
        Served::all(&self.host.runtime, self.search_key.as_ref())
    }
}

/// How a file was at a look.
pub(super) type Mark = Option<(SystemTime, u64)>;

/// One change of what is held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// These servers end, and stay so.
    Stop,
    /// These may run.
    Start,
    /// Every server ends: nothing can be called by anybody.
    Off,
    /// All may run that were not stopped by themselves.
    On,
}

/// What somebody holds down by hand, until it is let go or has ended.
#[derive(Debug, Default)]
struct Held {
    all: bool,
    servers: BTreeSet<ServerId>,
}

impl Held {
    fn down(&self, server: &ServerId) -> Option<Down> {
        let (why, fix) = match (self.all, self.servers.contains(server)) {
            (true, _) => {
                ("all servers of the running host are turned off by hand", "callboard mcp on".to_owned())
            }
            (false, true) => {
                let fix = format!("callboard mcp start {}", shell_word(server.as_str()));
                ("stopped by hand in the running host", fix)
            }
            (false, false) => return None,
        };
        Some(Down { why: why.into(), fix: fix.into() })
    }
}

/// One client.
pub(super) struct Seat {
    pub(super) join: Join,
    pub(super) files: Vec<PathBuf>,
    /// How the files were at the last look.
    pub(super) seen: Vec<Mark>,
    client: Option<Arc<Client>>,
    /// How its servers are served to it.
    part: Part,
}

/// The servers that a command is about.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The host.
    pub host: Arc<Host>,
    /// Servers of the configuration of who asks: those that are the same, else all of the name.
    pub own: Vec<ServerId>,
    /// All others.
    pub others: Vec<ServerId>,
}

/// Servers that a command may use.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The host.
    pub host: Arc<Host>,
    /// By the name of its entry, each server, and which of its tools are listed.
    pub servers: BTreeMap<ServerId, (ServerId, ToolFilter)>,
}

/// All that runs.
pub(super) struct Hall {
    host: Option<(Arc<Host>, task::Owned)>,
    /// The plan without servers, and what its first client wanted of a whole host.
    base: Option<(HostPlan, Common)>,
    builtins: Builtins,
    union: Union<Same>,
    served: BTreeMap<ServerId, Served>,
    seats: BTreeMap<Member, Seat>,
    held: Held,
    members: u64,
    /// Whether the plan is another one than the last that was put into force.
    changed: bool,
}

impl Hall {
    /// Nobody; what nobody uses runs on for `linger`.
    pub(super) fn new(linger: Duration) -> Self {
        Self {
            host: None,
            base: None,
            builtins: Builtins::default(),
            union: Union::new(linger),
            served: BTreeMap::new(),
            seats: BTreeMap::new(),
            held: Held::default(),
            members: 0,
            changed: false,
        }
    }

    /// Whether the plan changed since this was asked.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The host, once it runs.
    pub(super) fn host(&self) -> Option<&Arc<Host>> {
        self.host.as_ref().map(|(host, _)| host)
    }

    /// It runs; `broken` reports when it can't any more.
    pub(super) fn opened(&mut self, host: Arc<Host>, broken: task::Owned) {
        self.host = Some((host, broken));
    }

    /// What the host's own tools share.
    pub(super) fn builtins(&self) -> Builtins {
        self.builtins.clone()
    }

    /// All clients.
    pub(super) fn seats(&self) -> impl Iterator<Item = (Member, &Seat)> {
        self.seats.iter().map(|(member, seat)| (*member, seat))
    }

    /// Takes a client in, which counts from now on.
    ///
    /// # Errors
    /// The refusal that it is told.
    pub(super) fn enter(
        &mut self,
        planned: &Planned,
        join: Join,
        seen: Vec<Mark>,
        now: Monotonic,
    ) -> Result<Member, Box<Reply>> {
        match &self.base {
            Some((_, common)) if *common != planned.common => {
                let text = "its settings for the whole host (audit, in_flight_max, spawns_max, approval) are \
                            others than those of the clients that share this one";
                return Err(Box::new(Reply::refused("other_settings", text)));
            }
            Some(_) => {}
            None => {
                let runtime = without_servers(&planned.host.runtime);
                let builtins = self.builtins.clone();
                let base = HostPlan { runtime, serve: planned.host.serve.clone(), builtins };
                self.base = Some((base, planned.common.clone()));
            }
        }
        self.members += 1;
        let member = Member(self.members);
        let part = part_of(planned);
        self.seats.insert(member, Seat { join, files: planned.files.clone(), seen, client: None, part });
        self.set(vec![(member, planned.served())], now);
        Ok(member)
    }

    /// Who speaks for a client.
    pub(super) fn speaks(&mut self, member: Member, client: Arc<Client>) {
        if let Some(seat) = self.seats.get_mut(&member) {
            seat.client = Some(client);
        }
    }

    /// The configurations of these clients come to this now. Returns what of it does not act yet, in words.
    pub(super) fn change(
        &mut self,
        changes: Vec<(Member, Planned, Vec<Mark>)>,
        now: Monotonic,
    ) -> BTreeSet<String> {
        let mut later = BTreeSet::new();
        let mut all = Vec::new();
        for (member, planned, seen) in changes {
            let Some(seat) = self.seats.get_mut(&member) else { continue };
            seat.seen = seen;
            seat.files.clone_from(&planned.files);
            let issues = &planned.host.runtime.servers.issues;
            if issues.iter().any(|issue| issue.severity == Severity::Error) {
                let broken: Vec<String> = issues.iter().map(ToString::to_string).collect();
                let text = self.host().map(|host| host.clean(&broken.join("; "))).unwrap_or_default();
                tracing::warn!(
                    "what runs for a client stays, because its configuration can't be read: {text}"
                );
                continue;
            }
            let part = part_of(&planned);
            if part.settings.rate != seat.part.settings.rate {
                later.insert("serve.rate: counts for clients that come from now on".to_owned());
            }
            if let Some((base, common)) = &self.base {
                // Said as long as it is so, whoever read the files first.
                let linger = (part.settings.linger != base.serve.linger).then_some("serve.linger");
                later.extend(common.differs(&planned.common).into_iter().chain(linger).map(|name| {
                    format!(
                        "{name}: one for all clients of a host, so the change counts from the next host on"
                    )
                }));
            }
            seat.part = part;
            all.push((member, planned.served()));
        }
        self.set(all, now);
        later
    }

    fn set(&mut self, changes: Vec<(Member, Vec<Served>)>, now: Monotonic) {
        let wanted = changes.iter().map(|(member, all)| (*member, all.iter().map(Served::wanted).collect()));
        self.union.set(wanted.collect(), now);
        let mut found: Vec<Served> = changes.into_iter().flat_map(|(_, all)| all).collect();
        for (id, name, same) in self.union.instances() {
            if self.served.get(id).is_some_and(|served| served.is(name, same)) {
                continue;
            }
            // Whose it is alone takes its own.
            if let Some(at) = found.iter().position(|served| served.is(name, same)) {
                self.changed = true;
                self.served.insert(id.clone(), found.swap_remove(at).under(id));
            }
        }
    }

    /// A server asks the client of that session for its roots: it is this client's own from now on. Returns
    /// who has another one now.
    pub(super) fn bind(&mut self, session: SessionId, server: &ServerId) -> Vec<Member> {
        let of = |seat: &Seat| seat.client.as_ref().is_some_and(|client| client.session() == session);
        let Some(member) = self.seats.iter().find(|(_, seat)| of(seat)).map(|(member, _)| *member) else {
            return Vec::new();
        };
        let moved = self.union.bind(member, server);
        let Some(served) = self.served.get(server).cloned() else { return moved };
        for other in &moved {
            let led = self.union.leads(*other).and_then(|leads| leads.get(&server.plain()));
            if let Some(id) = led {
                self.changed = true;
                self.served.insert(id.clone(), served.clone().under(id));
            }
        }
        moved
    }

    /// A client is gone.
    pub(super) fn leave(&mut self, member: Member, now: Monotonic) {
        self.seats.remove(&member);
        self.union.leave(member, now);
    }

    /// Forgets the servers that nobody has used for long enough; whether there were any.
    pub(super) fn forget_due(&mut self, now: Monotonic) -> bool {
        let due = self.union.due(now);
        for id in &due {
            self.served.remove(id);
            self.held.servers.remove(id);
        }
        self.changed |= !due.is_empty();
        !due.is_empty()
    }

    /// When the next server is due, as things are.
    pub(super) fn next_due(&self) -> Option<Monotonic> {
        self.union.next_due()
    }

    /// Whether there is no client.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Changes what is held down.
    pub(super) fn hold(&mut self, hold: Hold, servers: &[ServerId]) {
        self.changed = true;
        match hold {
            Hold::Stop => self.held.servers.extend(servers.iter().cloned()),
            Hold::Start => servers.iter().for_each(|server| _ = self.held.servers.remove(server)),
            Hold::Off => self.held.all = true,
            Hold::On => self.held.all = false,
        }
    }

    /// The plan of all servers as of now, without the allow rules; `None` before the first client.
    pub(super) fn plan(&self) -> Option<HostPlan> {
        let (mut plan, _) = self.base.clone()?;
        for (id, served) in &self.served {
            served.join(&mut plan.runtime, self.held.down(id));
        }
        Some(plan)
    }

    /// What a client has of the host.
    pub(super) fn part(&self, member: Member) -> Option<Part> {
        let part = self.seats.get(&member)?.part.clone();
        let leads = self.union.leads(member)?.values();
        let filter = |id: &ServerId| self.served.get(id).map(Served::filter).unwrap_or_default();
        Some(Part { reach: Reach::These(leads.map(|id| (id.clone(), filter(id))).collect()), ..part })
    }

    /// The clients of these, with what each has.
    pub(super) fn parts(&self, members: &[Member]) -> Vec<(Arc<Client>, Part)> {
        let part = |member: &Member| Some((self.seats.get(member)?.client.clone()?, self.part(*member)?));
        members.iter().filter_map(part).collect()
    }

    /// The servers that a command is about of somebody who wants these entries.
    pub(super) fn scene(&self, wanted: &[Wanted<Same>]) -> Option<Scene> {
        let host = self.host()?.clone();
        let all: Vec<(&ServerId, &ServerId, &Same)> = self.union.instances().collect();
        let mut own: BTreeSet<ServerId> = BTreeSet::new();
        for one in wanted {
            let named = || all.iter().filter(|(_, name, _)| **name == one.name);
            let equal: Vec<ServerId> =
                named().filter(|(.., same)| **same == one.key).map(|(id, ..)| (*id).clone()).collect();
            let mut found =
                if equal.is_empty() { named().map(|(id, ..)| (*id).clone()).collect() } else { equal };
            if one.name.as_str() == BUILTINS {
                // Each client has them, and they are all alike.
                found.truncate(1);
            }
            own.extend(found);
        }
        let others = all.iter().map(|(id, ..)| (*id).clone());
        let others = others.filter(|id| !own.contains(id) && id.as_str() != BUILTINS).collect();
        Some(Scene { host, own: own.into_iter().collect(), others })
    }

    /// The servers that these entries lead to; `None` unless all of them run here as they come to.
    pub(super) fn lent(&self, wanted: &[Wanted<Same>]) -> Option<Lent> {
        let host = self.host()?.clone();
        let lent = |one: &Wanted<Same>| {
            let id = self.union.lent(one)?;
            let filter = self.served.get(id).map(Served::filter).unwrap_or_default();
            Some((one.name.clone(), (id.clone(), filter)))
        };
        Some(Lent { host, servers: wanted.iter().map(lent).collect::<Option<_>>()? })
    }

    /// Whether everything is held down.
    pub(super) fn is_off(&self) -> bool {
        self.held.all
    }

    /// Everything ends: what is to be shut down. Nobody is there any more.
    pub(super) fn close(&mut self, linger: Duration) -> Option<Arc<Host>> {
        let members = self.members;
        let before = std::mem::replace(self, Self { members, ..Self::new(linger) });
        before.host.map(|(host, _)| host)
    }
}

/// How a client is served, but for its servers.
fn part_of(planned: &Planned) -> Part {
    let runtime = &planned.host.runtime;
    Part {
        reach: Reach::These(BTreeMap::new()),
        settings: planned.host.serve.clone(),
        reserved: runtime.reserved.clone(),
        mode: Some(runtime.gate.mode),
    }
}

#[cfg(test)]
mod tests;
