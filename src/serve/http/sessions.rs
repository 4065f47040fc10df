//! Legacy sessions over HTTP: their ids, whose they are, their streams, and when they end. A session
//! of another identity does not exist, as far as a client can see.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::watch;

use super::core::Attached;
use super::log::{EventId, Log, Reader};
use super::who::Pass;
use crate::serve::{Identity, Leave, Outgoing, Outlet, Sink};
use crate::time::Monotonic;
use crate::transport::task;

/// Finished streams of one session that are kept for a client that comes back for them.
pub const FINISHED_MAX: usize = 4;
/// Requests of one session that run at once.
pub const REQUESTS_MAX: usize = 256;
/// Connections of one session that wait for messages at once.
pub const READERS_MAX: usize = 8;
/// How long a session must have been idle before it is ended to make room for another.
pub const SPARED: Duration = Duration::from_secs(60);
/// Bytes of chance in an id.
const ID_BYTES: usize = 24;

/// One legacy session.
#[derive(Debug)]
pub struct Session {
    /// Its id: 192 random bits as visible ASCII.
    pub id: String,
    /// Who opened it.
    pub pass: Pass,
    /// The client at the core.
    pub client: Arc<dyn Attached>,
    standing: Arc<Log>,
    state: Mutex<State>,
    ended: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    used: Monotonic,
    running: usize,
    logs: VecDeque<Arc<Log>>,
    next_log: u64,
}

/// A request of a session that runs; settled when dropped.
#[derive(Debug)]
pub struct Run(Arc<Session>);

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        state.used = Monotonic::now();
    }
}

impl Session {
    fn new(id: String, pass: Pass, client: Arc<dyn Attached>, now: Monotonic) -> Arc<Self> {
        let state = State { used: now, running: 0, logs: VecDeque::new(), next_log: 1 };
        let (sink, outlet) = Sink::pair();
        client.standing(sink);
        let standing = Log::new(0);
        let ended = watch::channel(false).0;
        task::spawn(pump_standing(outlet, standing.clone(), ended.subscribe())).detach();
        Arc::new(Self { id, pass, client, standing, state: Mutex::new(state), ended })
    }

    /// Begins a request; `None` when too many run.
    pub fn run(self: &Arc<Self>) -> Option<Run> {
        let mut state = self.state();
        state.used = Monotonic::now();
        if state.running >= REQUESTS_MAX {
            return None;
        }
        state.running += 1;
        drop(state);
        Some(Run(self.clone()))
    }

    /// A new stream, for the messages of one request.
    pub fn stream(&self) -> Arc<Log> {
        let mut state = self.state();
        let log = Log::new(state.next_log);
        state.next_log += 1;
        state.logs.push_back(log.clone());
        let mut spare = state.logs.iter().filter(|log| log.is_done()).count().saturating_sub(FINISHED_MAX);
        state.logs.retain(|log| {
            let goes = spare > 0 && log.is_done();
            spare -= usize::from(goes);
            !goes
        });
        log
    }

    /// A connection for what belongs to no request; `None` when there are too many.
    pub fn listen(&self) -> Option<Reader> {
        self.state().used = Monotonic::now();
        (self.standing.readers() < READERS_MAX).then(|| self.standing.read())
    }

    /// A connection that goes on after this event; `None` when what follows is not kept any more.
    pub fn resume(&self, after: EventId) -> Option<Reader> {
        let mut state = self.state();
        state.used = Monotonic::now();
        if after.log == 0 {
            return self.standing.resume(after);
        }
        state.logs.iter().find(|log| log.number == after.log)?.resume(after)
    }

    /// Turns true when the session is over.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    fn end(&self, why: Leave) {
        self.ended.send_replace(true);
        self.standing.close();
        for log in &self.state().logs {
            log.close();
        }
        self.client.leave(why);
    }

    /// Since when nothing runs and nobody listens; `None` while it is in use.
    fn idle_since(&self, now: Monotonic) -> Option<Monotonic> {
        let mut state = self.state();
        let read = self.standing.readers() > 0 || state.logs.iter().any(|log| log.readers() > 0);
        if read || state.running > 0 {
            state.used = now;
            return None;
        }
        Some(state.used)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries what belongs to no request into the log until the session ends.
async fn pump_standing(mut outlet: Outlet, log: Arc<Log>, mut ended: watch::Receiver<bool>) {
    loop {
        let next = tokio::select! {
            biased;
            _ = ended.wait_for(|over| *over) => break,
            next = outlet.next() => next,
        };
        match next.map(Outgoing::into_parts) {
            Some(message) => log.push(message).await,
            None => break,
        }
    }
    log.end();
}

/// Why there is no new session.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// All of them are in use; one may be free after that time.
    Full(Duration),
    /// The system gives no random bytes.
    NoChance,
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    all: Mutex<HashMap<String, Arc<Session>>>,
    sessions_max: usize,
    idle: Duration,
}

impl Sessions {
    /// None yet; at most `sessions_max`, each ended when it was idle for `idle`.
    pub fn new(sessions_max: usize, idle: Duration) -> Self {
        Self { all: Mutex::default(), sessions_max, idle }
    }

    /// Opens one. When there are too many, the one that was idle for longest makes room, unless a
    /// client may still be about to come back to it.
    ///
    /// # Errors
    /// When there is no room.
    pub fn open(
        &self,
        pass: &Pass,
        client: impl FnOnce() -> Arc<dyn Attached>,
        now: Monotonic,
    ) -> Result<Arc<Session>, NoRoom> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| NoRoom::NoChance)?;
        let id = URL_SAFE_NO_PAD.encode(bytes);
        let mut evicted = None;
        let mut all = self.all();
        if all.len() >= self.sessions_max {
            let idle =
                all.values().filter_map(|session| Some((session.idle_since(now)?, session.id.clone())));
            let Some((since, oldest)) = idle.min() else { return Err(NoRoom::Full(SPARED)) };
            let spared = SPARED.min(self.idle);
            if now.since(since) < spared {
                return Err(NoRoom::Full(spared.saturating_sub(now.since(since))));
            }
            evicted = all.remove(&oldest);
        }
        let session = Session::new(id.clone(), pass.clone(), client(), now);
        all.insert(id, session.clone());
        drop(all);
        if let Some(session) = evicted {
            session.end(Leave::Expired);
        }
        Ok(session)
    }

    /// The session of that id, if it is this identity's.
    pub fn get(&self, id: &str, who: &Identity) -> Option<Arc<Session>> {
        self.all().get(id).filter(|session| session.pass.caller.identity == *who).cloned()
    }

    /// Ends a session.
    pub fn end(&self, id: &str, why: Leave) {
        let session = self.all().remove(id);
        if let Some(session) = session {
            session.end(why);
        }
    }

    /// Ends those that were idle for too long, and those whose pass counts no more.
    pub fn sweep(&self, now: Monotonic, still: impl Fn(&Pass) -> bool) {
        let mut over = Vec::new();
        self.all().retain(|_, session| {
            let expired = session.idle_since(now).is_some_and(|since| now.since(since) >= self.idle);
            let goes = expired || !still(&session.pass);
            if goes {
                over.push(session.clone());
            }
            !goes
        });
        over.into_iter().for_each(|session| session.end(Leave::Expired));
    }

    /// Ends the streams that belong to no request, so that nobody waits for a host that stops.
    pub fn close_standing(&self) {
        self.all().values().for_each(|session| session.standing.close());
    }

    /// Ends all.
    pub fn end_all(&self, why: Leave) {
        let all = std::mem::take(&mut *self.all());
        all.into_values().for_each(|session| session.end(why));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
