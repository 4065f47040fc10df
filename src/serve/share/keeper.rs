//! The host of a user as a process: lets clients in, puts each into the house that fits its configuration,
//! starts and ends the houses, and ends itself when the last one is gone. One loop owns the ends; a task
//! for each connection carries its client.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Notify};

use super::hello::{Command, Hello, Join, LINE_MAX, Reply, Wants};
use super::lent;
use super::place::{Claim, Place, is_ours};
use super::pool::{HouseId, Pool, Sameness};
use crate::builtins::Builtins;
use crate::config::spec::EntryState;
use crate::id::ServerId;
use crate::serve::client::{Client, Leave};
use crate::serve::{Caller, ClientEra, Host, HostPlan, stdio};
use crate::time::Monotonic;
use crate::transport::task;

/// Connections at once; more wait at the door.
const CONNECTIONS_MAX: usize = 1024;
/// Who says nothing for that long is no client.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// A host that was started waits that long for its first client.
const FIRST_MAX: Duration = Duration::from_secs(10);
/// Between two looks at the files of the clients.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What a client's configuration comes to.
#[derive(Debug)]
pub struct Planned {
    /// With whom it may share.
    pub same: Sameness,
    /// The servers.
    pub host: HostPlan,
    /// Who it is.
    pub caller: Caller,
    /// Longest message that is taken from it, in bytes.
    pub frame_max: usize,
    /// The files that its configuration was looked for in.
    pub files: Vec<PathBuf>,
}

/// What comes of a command.
pub type Doing<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// What the edge that starts the host knows: configurations, and the verbs.
pub trait Plans: Send + Sync + 'static {
    /// What a client's configuration comes to now; `builtins` are those of its house. Reads files; may block.
    ///
    /// # Errors
    /// The refusal that the client is told.
    fn plan(&self, join: &Join, builtins: &Builtins) -> Result<Planned, Box<Reply>>;
    /// Does one thing with the houses.
    fn act<'a>(&'a self, keeper: &'a Arc<Keeper>, command: Command) -> Doing<'a>;
}

/// One house: the servers of clients whose configurations come to the same.
struct House {
    host: Arc<Host>,
    /// What the configuration says, whatever is held.
    plan: HostPlan,
    held: Held,
    members: BTreeMap<u64, (Arc<Client>, Join)>,
    files: Vec<PathBuf>,
    /// How the files were at the last look.
    seen: Vec<Mark>,
    /// Reports when the core of its servers failed.
    _broken: task::Owned,
}

/// What somebody holds down by hand, until it is let go or the host ends.
#[derive(Clone, Debug, Default)]
struct Held {
    all: bool,
    servers: BTreeSet<ServerId>,
}

/// What is told as the place where such a server is turned off.
const BY_HAND: &str = "by hand, in the running host, until `mcp start` or `mcp on`";

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

impl Held {
    fn change(&mut self, hold: Hold, servers: &[ServerId]) {
        match hold {
            Hold::Stop => self.servers.extend(servers.iter().cloned()),
            Hold::Start => servers.iter().for_each(|server| _ = self.servers.remove(server)),
            Hold::Off => self.all = true,
            Hold::On => self.all = false,
        }
    }

    /// The plan without what is held.
    fn of(&self, plan: &HostPlan) -> HostPlan {
        let mut plan = plan.clone();
        for entry in &mut plan.runtime.servers.entries {
            let held = self.all || self.servers.contains(&entry.id);
            if held && matches!(entry.state, EntryState::Ready(_)) {
                entry.state = EntryState::Disabled;
                entry.source.origin = Arc::from(BY_HAND);
            }
        }
        plan
    }
}

type Mark = Option<(SystemTime, u64)>;

struct Houses {
    pool: Pool<Sameness>,
    open: BTreeMap<HouseId, House>,
    members: u64,
}

/// The host of a user.
pub struct Keeper {
    place: Place,
    plans: Arc<dyn Plans>,
    houses: Mutex<Houses>,
    changed: Notify,
    connections: Arc<tokio::sync::Semaphore>,
    linger: Duration,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Keeper {
    /// A host without clients, that keeps houses for `linger` after their last one.
    pub fn new(place: Place, plans: Arc<dyn Plans>, linger: Duration) -> Arc<Self> {
        let houses = Houses { pool: Pool::new(linger), open: BTreeMap::new(), members: 0 };
        Arc::new(Self {
            place,
            plans,
            houses: Mutex::new(houses),
            changed: Notify::new(),
            connections: Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX)),
            linger,
        })
    }

    /// Serves until `asked` to end, or until nobody has been there for long enough. The door is closed,
    /// and the claim given back, before the servers are ended: who comes then starts another host.
    ///
    /// # Errors
    /// When the door can't be used.
    pub async fn run(
        self: &Arc<Self>,
        mut claim: Claim,
        door: std::os::unix::net::UnixListener,
        asked: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut door = UnixListener::from_std(door)?;
        tokio::pin!(asked);
        let mut idle_since = Some(Monotonic::now());
        let mut first = self.linger.max(FIRST_MAX);
        let mut look_at = Monotonic::now() + LOOK_EVERY;
        loop {
            let (due, idle) = self.end_due().await;
            if idle {
                let since = *idle_since.get_or_insert_with(Monotonic::now);
                if since + first <= Monotonic::now() {
                    break;
                }
            } else {
                idle_since = None;
                first = Duration::ZERO;
            }
            let over = idle_since.map(|since| since + first);
            let wake = [due, over, Some(look_at)].into_iter().flatten().min().unwrap_or(look_at);
            tokio::select! {
                biased;
                () = &mut asked => break,
                came = door.accept() => self.let_in(came),
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(wake.into_tokio()) => {}
            }
            if look_at <= Monotonic::now() {
                look_at = Monotonic::now() + LOOK_EVERY;
                if let Some(again) = reopened(&mut claim) {
                    door = again;
                }
                self.look().await;
            }
        }
        claim.close();
        drop(door);
        drop(claim);
        self.end_all().await;
        Ok(())
    }

    fn let_in(self: &Arc<Self>, came: io::Result<(UnixStream, tokio::net::unix::SocketAddr)>) {
        let Ok((stream, _)) = came else { return };
        let ours = stream.peer_cred().and_then(|peer| is_ours(peer.uid()));
        if let Err(error) = ours {
            tracing::warn!(%error, "a connection was refused");
            return;
        }
        let Ok(place) = self.connections.clone().try_acquire_owned() else {
            tracing::warn!("too many connections at once: one more was refused");
            return;
        };
        let keeper = self.clone();
        let served = async move {
            if let Err(error) = keeper.serve(stream).await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
            keeper.changed.notify_one();
        };
        task::spawn(served).detach();
    }

    async fn serve(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        let mut bounded = (&mut stream).take(LINE_MAX as u64);
        let read = tokio::time::timeout(HELLO_MAX, bounded.read_until(b'\n', &mut line));
        read.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let hello: Hello = serde_json::from_slice(&line)?;
        drop(line);
        let mut stream = stream.into_inner();
        if let Some(misfit) = hello.misfit(self.place.home()) {
            return say(&mut stream, &misfit).await;
        }
        match hello.wants {
            Wants::Join(join) => self.join(stream, join).await,
            Wants::Command(command) => {
                let reply = self.plans.act(self, command).await;
                say(&mut stream, &reply).await
            }
        }
    }

    async fn join(self: &Arc<Self>, mut stream: UnixStream, join: Join) -> io::Result<()> {
        // Those of its house, if it opens one.
        let (planned, join) = match self.planned(join, Builtins::default()).await {
            Ok(planned) => planned,
            Err(refusal) => return say(&mut stream, &refusal).await,
        };
        let (frame_max, lends) = (planned.frame_max, join.lends);
        let (house, member, client) = match self.enter(planned, join).await {
            Ok(entered) => entered,
            Err(refusal) => return say(&mut stream, &refusal).await,
        };
        let mut said = say(&mut stream, &Reply::Joined { pid: std::process::id() }).await;
        if said.is_ok() && lends {
            said = lent::carry(&client, stream, frame_max).await;
        } else if said.is_ok() {
            let (input, output) = stream.into_split();
            stdio::carry(&client, input, output, frame_max).await;
        }
        client.leave(Leave::Gone);
        let mut houses = self.houses.lock().await;
        if let Some(house) = houses.open.get_mut(&house) {
            house.members.remove(&member);
        }
        houses.pool.leave(house, Monotonic::now());
        said
    }

    /// What a configuration comes to, read off the event loop.
    async fn planned(&self, join: Join, builtins: Builtins) -> Result<(Planned, Join), Box<Reply>> {
        let plans = self.plans.clone();
        let planned =
            task::blocking(move || plans.plan(&join, &builtins).map(|planned| (planned, join))).await;
        planned.unwrap_or_else(|| Err(Box::new(Reply::refused("internal", "the host is ending"))))
    }

    async fn enter(
        self: &Arc<Self>,
        planned: Planned,
        join: Join,
    ) -> Result<(HouseId, u64, Arc<Client>), Box<Reply>> {
        let mut houses = self.houses.lock().await;
        let for_one = planned.same.is_for_one();
        let (id, fresh) = houses.pool.enter(planned.same, for_one);
        if fresh {
            match Host::start(planned.host.clone()).await {
                Ok(host) => {
                    let broken = task::spawn(broken(Arc::downgrade(self), id, host.clone()));
                    let seen = marks(&planned.files);
                    let house = House {
                        host,
                        plan: planned.host,
                        held: Held::default(),
                        members: BTreeMap::new(),
                        files: planned.files,
                        seen,
                        _broken: broken,
                    };
                    houses.open.insert(id, house);
                }
                Err(error) => {
                    houses.pool.forget(id);
                    return Err(Box::new(Reply::refused("internal", error.to_string())));
                }
            }
        }
        houses.members += 1;
        let member = houses.members;
        let Some(house) = houses.open.get_mut(&id) else {
            return Err(Box::new(Reply::refused("internal", "the host is ending")));
        };
        let client = house.host.open(planned.caller, ClientEra::Open);
        house.members.insert(member, (client.clone(), join));
        Ok((id, member, client))
    }

    /// Ends the houses that nobody needs; when the next one is due, and whether there is nobody at all.
    async fn end_due(&self) -> (Option<Monotonic>, bool) {
        let mut houses = self.houses.lock().await;
        let due = houses.pool.due(Monotonic::now());
        for id in due {
            if let Some(house) = houses.open.remove(&id) {
                task::spawn(house.host.shutdown()).detach();
            }
        }
        let nobody = self.connections.available_permits() == CONNECTIONS_MAX;
        (houses.pool.next_due(), nobody && houses.pool.is_empty())
    }

    async fn end_all(&self) {
        let open = std::mem::take(&mut self.houses.lock().await.open);
        let ends: Vec<_> = open.into_values().map(|house| task::spawn(house.host.shutdown())).collect();
        for end in ends {
            end.join().await;
        }
    }

    /// The servers of a house can't be mended: its clients are told by the end of their connections.
    async fn give_up(&self, id: HouseId) {
        let mut houses = self.houses.lock().await;
        houses.pool.forget(id);
        if let Some(house) = houses.open.remove(&id) {
            tracing::error!(
                "the core of the host failed again and again: a bug of Callboard, please report it"
            );
            task::spawn(house.host.shutdown()).detach();
        }
        drop(houses);
        self.changed.notify_one();
    }

    /// The houses that a command of such a client is about: whose clients see what it would see; else all
    /// of them, those with most clients first.
    pub async fn houses_of(&self, same: &Sameness) -> Vec<(HouseId, Arc<Host>)> {
        let houses = self.houses.lock().await;
        let own = houses.pool.equal(same);
        let mut open: Vec<_> = houses.open.iter().collect();
        if open.iter().any(|(id, _)| own.contains(id)) {
            open.retain(|(id, _)| own.contains(id));
        }
        open.sort_by_key(|(_, house)| std::cmp::Reverse(house.members.len()));
        open.into_iter().map(|(id, house)| (*id, house.host.clone())).collect()
    }

    /// Changes what is held down in a house.
    pub async fn hold(&self, id: HouseId, hold: Hold, servers: &[ServerId]) {
        let (host, plan) = {
            let mut houses = self.houses.lock().await;
            let Some(house) = houses.open.get_mut(&id) else { return };
            house.held.change(hold, servers);
            (house.host.clone(), house.held.of(&house.plan))
        };
        reload(&host, &plan).await;
    }

    /// Reads the files of all clients again.
    pub async fn reload(&self) {
        let ids: Vec<HouseId> = self.houses.lock().await.open.keys().copied().collect();
        for id in ids {
            self.reload_house(id).await;
        }
    }

    /// Looks whether files changed, and reads those houses' configurations again.
    async fn look(&self) {
        self.place.trim_log();
        let looked: Vec<(HouseId, Vec<PathBuf>, Vec<Mark>)> = {
            let houses = self.houses.lock().await;
            let watched =
                houses.open.iter().filter(|(_, house)| house.members.values().any(|(_, join)| join.watch));
            watched.map(|(id, house)| (*id, house.files.clone(), house.seen.clone())).collect()
        };
        for (id, files, seen) in looked {
            let Some(now) = task::blocking(move || marks(&files)).await else { return };
            if now != seen {
                self.reload_house(id).await;
            }
        }
    }

    /// Makes the servers of a house equal to what its clients' files say now. Clients to whom they say
    /// something else than to the first one can't stay together: they are ended, and come anew.
    pub async fn reload_house(&self, id: HouseId) {
        let (members, builtins): (Vec<(Arc<Client>, Join)>, Builtins) = {
            let houses = self.houses.lock().await;
            let Some(house) = houses.open.get(&id) else { return };
            (house.members.values().cloned().collect(), house.host.builtins().clone())
        };
        let mut first: Option<Planned> = None;
        for (client, join) in members {
            match self.planned(join, builtins.clone()).await {
                Ok((planned, _)) if first.is_none() => first = Some(planned),
                Ok((planned, _)) if first.as_ref().is_some_and(|first| first.same == planned.same) => {}
                Ok(_) | Err(_) => client.leave(Leave::Shutdown),
            }
        }
        let Some(planned) = first else { return };
        let (host, plan) = {
            let mut houses = self.houses.lock().await;
            let for_one = planned.same.is_for_one();
            houses.pool.becomes(id, planned.same, for_one);
            let Some(house) = houses.open.get_mut(&id) else { return };
            house.seen = marks(&planned.files);
            house.files = planned.files;
            house.plan = planned.host;
            (house.host.clone(), house.held.of(&house.plan))
        };
        reload(&host, &plan).await;
    }
}

/// The door anew, if somebody took it away: a folder that was tidied up must cost nobody the host.
fn reopened(claim: &mut Claim) -> Option<UnixListener> {
    match claim.reopen().and_then(|door| door.map(UnixListener::from_std).transpose()) {
        Ok(door) => {
            if door.is_some() {
                tracing::warn!("the socket of this host was taken away: there is another one now");
            }
            door
        }
        Err(error) => {
            tracing::warn!(%error, "the socket of this host was taken away, and can't be made again");
            None
        }
    }
}

async fn reload(host: &Host, plan: &HostPlan) {
    match host.reload(plan).await {
        Ok(done) => tracing::info!(servers = done.servers.len(), "a configuration was read again"),
        Err(refused) => tracing::warn!("{}", host.clean(&refused.to_string())),
    }
}

async fn broken(keeper: Weak<Keeper>, id: HouseId, host: Arc<Host>) {
    host.broken().await;
    drop(host);
    if let Some(keeper) = keeper.upgrade() {
        task::spawn(async move { keeper.give_up(id).await }).detach();
    }
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.iter().map(mark).collect()
}

async fn say(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line).await
}
