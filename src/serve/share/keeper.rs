//! The host of a user as a process: lets clients in, gives each its part of what runs (`hall`), follows
//! their files, and ends itself when the last one is gone. One loop owns the ends; a task for each
//! connection carries its client.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Notify};

use super::hall::{Hall, Hold, Lent, Mark, Planned, Scene};
use super::hello::{Command, Hello, Join, LINE_MAX, Reply, Wants};
use super::lent;
use super::place::{Claim, Place, is_ours};
use super::same::Same;
use super::union::{Member, Wanted};
use crate::builtins::Builtins;
use crate::id::{ServerId, SessionId};
use crate::runtime::{Applied, rules_of};
use crate::serve::client::{Client, Leave};
use crate::serve::host::Bind;
use crate::serve::talk::{self, Talk};
use crate::serve::{ClientEra, Host, stdio};
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

/// What comes of a command.
pub type Doing<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// What the edge that starts the host knows: configurations, and the verbs.
pub trait Plans: Send + Sync + 'static {
    /// What a client's configuration comes to now; `builtins` are those of the host. Reads files; may block.
    ///
    /// # Errors
    /// The refusal that the client is told.
    fn plan(&self, join: &Join, builtins: &Builtins) -> Result<Planned, Box<Reply>>;
    /// Does one thing with what runs.
    fn act<'a>(&'a self, keeper: &'a Arc<Keeper>, command: Command, talk: Talk) -> Doing<'a>;
}

/// The host of a user.
pub struct Keeper {
    place: Place,
    plans: Arc<dyn Plans>,
    hall: Mutex<Hall>,
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
    /// A host without clients, that keeps what nobody uses for `linger`, and itself after the last client.
    pub fn new(place: Place, plans: Arc<dyn Plans>, linger: Duration) -> Arc<Self> {
        Arc::new(Self {
            place,
            plans,
            hall: Mutex::new(Hall::new(linger)),
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
        // Nobody has come yet.
        let mut patience = self.linger.max(FIRST_MAX);
        let mut look_at = Monotonic::now() + LOOK_EVERY;
        loop {
            let (due, idle) = self.end_due().await;
            if idle {
                idle_since.get_or_insert_with(Monotonic::now);
            } else {
                idle_since = None;
                patience = self.linger;
            }
            // Who is on the way in, or only asks, is waited for, and makes it stay no longer than that.
            let nobody = self.connections.available_permits() == CONNECTIONS_MAX;
            let over = idle_since.map(|since| since + patience).filter(|_| nobody);
            if over.is_some_and(|over| over <= Monotonic::now()) {
                break;
            }
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
        if let Some(misfit) = hello.misfit(self.place.home()) {
            return say(&mut stream.into_inner(), &misfit).await;
        }
        match hello.wants {
            Wants::Join(join) => self.join(stream.into_inner(), join).await,
            Wants::Command(command) => {
                let (talk, carried) = Talk::pair();
                let act = self.plans.act(self, command, talk);
                // It may have said more already.
                let (input, output) = tokio::io::split(stream);
                talk::hold(input, output, carried, act, Reply::Says).await
            }
        }
    }

    async fn join(self: &Arc<Self>, mut stream: UnixStream, join: Join) -> io::Result<()> {
        let builtins = self.hall.lock().await.builtins();
        let (planned, join, seen) = match self.planned(join, builtins).await {
            Ok(planned) => planned,
            Err(refusal) => return say(&mut stream, &refusal).await,
        };
        let (frame_max, lends) = (planned.frame_max, join.lends);
        let (member, client) = match self.enter(planned, join, seen).await {
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
        self.hall.lock().await.leave(member, Monotonic::now());
        said
    }

    /// What a configuration comes to, read off the event loop, and how its files were.
    async fn planned(
        &self,
        join: Join,
        builtins: Builtins,
    ) -> Result<(Planned, Join, Vec<Mark>), Box<Reply>> {
        let plans = self.plans.clone();
        let planned = task::blocking(move || {
            let planned = plans.plan(&join, &builtins)?;
            let seen = marks(&planned.files);
            Ok((planned, join, seen))
        });
        let lost = || Err(Box::new(Reply::refused("internal", "the host is ending")));
        planned.await.unwrap_or_else(lost)
    }

    async fn enter(
        self: &Arc<Self>,
        planned: Planned,
        join: Join,
        seen: Vec<Mark>,
    ) -> Result<(Member, Arc<Client>), Box<Reply>> {
        let ending = || Box::new(Reply::refused("internal", "the host is ending"));
        let (member, applied) = {
            let mut hall = self.hall.lock().await;
            let member = hall.enter(&planned, join, seen, Monotonic::now())?;
            match self.apply(&mut hall).await {
                Ok(applied) => (member, applied),
                Err(text) => {
                    hall.leave(member, Monotonic::now());
                    return Err(Box::new(Reply::refused("internal", text)));
                }
            }
        };
        // Its servers are known then, though none may have answered.
        if let Some(applied) = applied {
            applied.done().await;
        }
        let mut hall = self.hall.lock().await;
        let (Some(host), Some(part)) = (hall.host().cloned(), hall.part(member)) else {
            return Err(ending());
        };
        let client = host.open_part(planned.caller, ClientEra::Open, part);
        hall.speaks(member, client.clone());
        Ok((member, client))
    }

    /// Makes what runs equal to what is wanted now; returns as soon as that is on its way, in order.
    async fn apply(self: &Arc<Self>, hall: &mut Hall) -> Result<Option<Applied>, String> {
        let changed = hall.take_changed();
        // Who comes and finds all that it wants costs nobody anything.
        if hall.host().is_some() && !changed {
            return Ok(None);
        }
        let Some(mut plan) = hall.plan() else { return Ok(None) };
        if let Some(place) = plan.runtime.gate.place.clone() {
            let rules = task::blocking(move || rules_of(&place)).await;
            plan.runtime.gate.rules = Arc::new(rules.unwrap_or_default());
        }
        match hall.host() {
            Some(host) => host.go_by(&plan).await.map(Some).map_err(|refused| refused.to_string()),
            None => {
                let host = Host::start(plan).await.map_err(|error| error.to_string())?;
                host.binds_by(binder(Arc::downgrade(self)));
                let broken = task::spawn(broken(Arc::downgrade(self), host.clone()));
                hall.opened(host, broken);
                Ok(None)
            }
        }
    }

    /// The same, once what had to end is gone.
    async fn applied(self: &Arc<Self>, mut hall: tokio::sync::MutexGuard<'_, Hall>) {
        let applied = self.apply(&mut hall).await;
        drop(hall);
        match applied {
            Ok(Some(applied)) => _ = applied.done().await,
            Ok(None) => {}
            Err(text) => tracing::warn!("nothing was changed: {text}"),
        }
    }

    /// Ends the servers that nobody needs; when the next one is due, and whether there is no client.
    async fn end_due(self: &Arc<Self>) -> (Option<Monotonic>, bool) {
        let mut hall = self.hall.lock().await;
        if hall.forget_due(Monotonic::now()) {
            match self.apply(&mut hall).await {
                // They end beside everything else.
                Ok(Some(applied)) => task::spawn(async move { drop(applied.done().await) }).detach(),
                Ok(None) => {}
                Err(text) => tracing::warn!("servers that nobody needs could not be ended: {text}"),
            }
        }
        (hall.next_due(), hall.is_empty())
    }

    async fn end_all(&self) {
        let host = self.hall.lock().await.close(self.linger);
        if let Some(host) = host {
            task::spawn(host.shutdown()).join().await;
        }
    }

    /// What runs can't be mended: its clients are told by the end of their connections.
    async fn give_up(&self) {
        let host = self.hall.lock().await.close(self.linger);
        if let Some(host) = host {
            tracing::error!(
                "the core of the host failed again and again: a bug of Callboard, please report it"
            );
            task::spawn(host.shutdown()).detach();
        }
        self.changed.notify_one();
    }

    /// The servers that a command is about of somebody who wants these entries; `None` when there is no
    /// client.
    pub async fn scene(&self, wanted: &[Wanted<Same>]) -> Option<Scene> {
        self.hall.lock().await.scene(wanted)
    }

    /// The servers that these entries lead to, lent to a command of somebody to whom they come to the same.
    pub async fn lent(&self, wanted: &[Wanted<Same>]) -> Option<Lent> {
        self.hall.lock().await.lent(wanted)
    }

    /// Whether all servers are held down by hand.
    pub async fn is_off(&self) -> bool {
        self.hall.lock().await.is_off()
    }

    /// Changes what is held down.
    pub async fn hold(self: &Arc<Self>, hold: Hold, servers: &[ServerId]) {
        let mut hall = self.hall.lock().await;
        hall.hold(hold, servers);
        self.applied(hall).await;
    }

    /// A server asks a client for its roots: it goes on with them, so nobody else may use it any more.
    async fn bind(self: &Arc<Self>, session: SessionId, server: &ServerId) {
        let mut hall = self.hall.lock().await;
        let moved = hall.bind(session, server);
        if moved.is_empty() {
            return;
        }
        tracing::info!(%server, clients = moved.len() + 1, "a server asks for roots: each client has its own now");
        self.applied(hall).await;
        self.part_anew(&moved).await;
    }

    /// Has these clients go by what they have now.
    async fn part_anew(&self, members: &[Member]) {
        let parts = self.hall.lock().await.parts(members);
        for (client, part) in parts {
            client.becomes(part);
        }
    }

    /// Reads the files of all clients again. Returns what of them does not act yet, in words.
    pub async fn reload(self: &Arc<Self>) -> BTreeSet<String> {
        let all: Vec<Member> = self.hall.lock().await.seats().map(|(member, _)| member).collect();
        self.reread(&all).await
    }

    /// Looks whether files changed, and reads the configurations of those clients again.
    async fn look(self: &Arc<Self>) {
        self.place.trim_log();
        let looked: Vec<(Member, Vec<PathBuf>, Vec<Mark>)> = {
            let hall = self.hall.lock().await;
            let watched = hall.seats().filter(|(_, seat)| seat.join.watch);
            watched.map(|(member, seat)| (member, seat.files.clone(), seat.seen.clone())).collect()
        };
        let changed = task::blocking(move || {
            let changed = looked.into_iter().filter(|(_, files, seen)| marks(files) != *seen);
            changed.map(|(member, ..)| member).collect::<Vec<_>>()
        });
        let changed = changed.await.unwrap_or_default();
        if !changed.is_empty() {
            self.reread(&changed).await;
        }
    }

    /// Makes what these clients have equal to what their files say now. What is the same as before, for
    /// them and for all others, does not notice.
    async fn reread(self: &Arc<Self>, members: &[Member]) -> BTreeSet<String> {
        let (joins, builtins): (Vec<(Member, Join)>, Builtins) = {
            let hall = self.hall.lock().await;
            let meant = hall.seats().filter(|(member, _)| members.contains(member));
            (meant.map(|(member, seat)| (member, seat.join.clone())).collect(), hall.builtins())
        };
        let mut changes = Vec::new();
        for (member, join) in joins {
            match self.planned(join, builtins.clone()).await {
                Ok((planned, _, seen)) => changes.push((member, planned, seen)),
                Err(refusal) => tracing::warn!(?refusal, "what runs for a client stays"),
            }
        }
        let mut hall = self.hall.lock().await;
        let later = hall.change(changes, Monotonic::now());
        for what in &later {
            tracing::warn!("a changed setting does not act yet: {what}");
        }
        tracing::info!(clients = members.len(), "configurations were read again");
        self.applied(hall).await;
        // What it comes to now: somebody may have changed it once more.
        self.part_anew(members).await;
        later
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

/// Makes a server one client's own, for the host.
fn binder(keeper: Weak<Keeper>) -> Box<Bind> {
    Box::new(move |session, server| {
        let (keeper, server) = (keeper.clone(), server.clone());
        Box::pin(async move {
            if let Some(keeper) = keeper.upgrade() {
                keeper.bind(session, &server).await;
            }
        })
    })
}

async fn broken(keeper: Weak<Keeper>, host: Arc<Host>) {
    host.broken().await;
    drop(host);
    if let Some(keeper) = keeper.upgrade() {
        task::spawn(async move { keeper.give_up().await }).detach();
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
