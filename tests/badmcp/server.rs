//! What the whole process shares: flags, trace, catalogue, subscribers, the stall gate, sessions' state.
//! Owns shared state, must never do I/O of a transport. Called by every module.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::Flags;
use crate::catalog::Catalog;
use crate::rpc;
use crate::trace::Trace;

/// A lock that a panicking thread cannot spoil.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets time pass: a server that misbehaves takes its time.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Where messages that are no answers go: the stdio pipe, one POST's stream, a GET stream.
pub(crate) trait Outlet: Send + Sync {
    /// False when the other side is gone.
    fn send(&self, message: &str) -> bool;
    /// Whether the other side has left (HTTP: the connection was closed).
    fn gone(&self) -> bool {
        false
    }
}

/// The protocol that a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A flag that can be waited for.
#[derive(Default)]
pub(crate) struct Cancel {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Cancel {
    pub(crate) fn set(&self) {
        *lock(&self.set) = true;
        self.changed.notify_all();
    }
    pub(crate) fn is_set(&self) -> bool {
        *lock(&self.set)
    }
    /// Waits at most that long; true when set.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let guard = lock(&self.set);
        let (guard, _) = self
            .changed
            .wait_timeout_while(guard, limit, |set| !*set)
            .unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

/// One client's conversation: the pipe, a legacy HTTP session, or all modern HTTP requests.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) version: Mutex<String>,
    /// `initialize` was answered.
    pub(crate) opened: AtomicBool,
    /// `notifications/initialized` was seen.
    pub(crate) initialized: AtomicBool,
    /// Calls, reads and gets that were served.
    pub(crate) work: AtomicU64,
    /// Deleted or expired: its streams end.
    pub(crate) ended: AtomicBool,
    /// Running requests by id.
    pub(crate) running: Mutex<HashMap<String, Arc<Cancel>>>,
    /// Our requests to the client: the reply's error code, or none for a result.
    asked: Mutex<HashMap<String, Option<Option<i64>>>>,
    replied: Condvar,
}

impl Session {
    pub(crate) fn new(id: &str) -> Arc<Self> {
        Arc::new(Self { id: id.to_owned(), ..Self::default() })
    }
    pub(crate) fn ask(&self, id: &str) {
        lock(&self.asked).insert(format!("\"{id}\""), None);
    }
    /// The reply's code (`Some(None)`: a result), or none when there was none in time.
    pub(crate) fn await_reply(&self, id: &str, limit: Duration) -> Option<Option<i64>> {
        let id = format!("\"{id}\"");
        let guard = lock(&self.asked);
        let (mut asked, _) = self
            .replied
            .wait_timeout_while(guard, limit, |asked| matches!(asked.get(&id), Some(None)))
            .unwrap_or_else(PoisonError::into_inner);
        match asked.get(&id) {
            Some(Some(_)) => asked.remove(&id).flatten(),
            _ => None,
        }
    }
}

/// What a subscriber wants to hear. Legacy subscribers hear everything.
#[derive(Clone, Default)]
pub(crate) struct Filter {
    /// The id of a `subscriptions/listen` request.
    pub(crate) subscription: Option<Value>,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) uris: Vec<String>,
}

impl Filter {
    fn wants(&self, method: &str, params: &Value) -> bool {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        self.subscription.is_none()
            || self.methods.contains(&method)
            || (method == "notifications/resources/updated" && self.uris.iter().any(|known| known == uri))
    }
}

type Subscriber = (Arc<dyn Outlet>, Filter);

/// Everyone who hears notifications that belong to no request.
#[derive(Default)]
pub(crate) struct Hub {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Subscriber>>,
}

impl Hub {
    pub(crate) fn join(&self, outlet: Arc<dyn Outlet>, filter: Filter) -> u64 {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.all).insert(key, (outlet, filter));
        key
    }
    pub(crate) fn leave(&self, key: u64) {
        lock(&self.all).remove(&key);
    }
    /// Ends the listen request with that id.
    pub(crate) fn leave_subscription(&self, id: &Value) {
        lock(&self.all).retain(|_, (_, filter)| filter.subscription.as_ref() != Some(id));
    }
    pub(crate) fn len(&self) -> usize {
        lock(&self.all).len()
    }
    /// Sends a request to every legacy subscriber; false when there is none.
    pub(crate) fn ask(&self, request: &str) -> bool {
        let listeners: Vec<_> = lock(&self.all).values().cloned().collect();
        let legacy = listeners.iter().filter(|(_, filter)| filter.subscription.is_none());
        legacy.filter(|(outlet, _)| outlet.send(request)).count() > 0
    }
    /// Sends a notification to all who want it.
    pub(crate) fn tell(&self, method: &str, params: &Value) {
        let listeners: Vec<_> = lock(&self.all).values().cloned().collect();
        for (outlet, filter) in listeners {
            if !filter.wants(method, params) {
                continue;
            }
            let mut params = params.clone();
            if let Some(id) = &filter.subscription {
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
            }
            outlet.send(&rpc::notification(method, &params));
        }
    }
}

/// Holds back every answer while the server is stalled.
#[derive(Default)]
pub(crate) struct Gate {
    stalled: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn set(&self, stalled: bool) {
        *lock(&self.stalled) = stalled;
        self.changed.notify_all();
    }
    pub(crate) fn is_stalled(&self) -> bool {
        *lock(&self.stalled)
    }
    pub(crate) fn pass(&self) {
        drop(self.changed.wait_while(lock(&self.stalled), |stalled| *stalled));
    }
}

/// The process's shared state.
pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) trace: Trace,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) hub: Hub,
    pub(crate) gate: Gate,
    /// Live legacy HTTP sessions.
    pub(crate) sessions: Mutex<HashMap<String, Arc<Session>>>,
    pub(crate) token: Mutex<String>,
    /// When the last call ended.
    pub(crate) last_call: Mutex<Instant>,
    /// Calls that run.
    pub(crate) busy: AtomicU64,
    /// With `--serial`: held while a request is handled.
    pub(crate) serial: Mutex<()>,
    /// Answers so far, for `--noise-every`.
    pub(crate) answers: AtomicU64,
    /// Requests that `--http-fail` refused.
    pub(crate) failed: AtomicU64,
    /// Executions of `count`.
    pub(crate) counted: AtomicU64,
    /// The end of every big result.
    pub(crate) marker: String,
    next_id: AtomicU64,
    random: Mutex<u64>,
}

impl Server {
    pub(crate) fn new(flags: Flags) -> std::io::Result<Self> {
        let trace = Trace::open(flags.trace.as_deref())?;
        let marker = match &flags.marker_file {
            Some(file) => std::fs::read_to_string(file)?,
            None => "[badmcp end]".to_owned(),
        };
        Ok(Self {
            catalog: Mutex::new(Catalog::new(&flags)),
            token: Mutex::new(flags.token.clone().unwrap_or_else(|| "badmcp-token".into())),
            random: Mutex::new(flags.seed.unwrap_or(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            trace,
            marker,
            flags,
            hub: Hub::default(),
            gate: Gate::default(),
            sessions: Mutex::default(),
            last_call: Mutex::new(Instant::now()),
            busy: AtomicU64::new(0),
            serial: Mutex::default(),
            answers: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
        })
    }

    /// The next number of the seeded sequence (xorshift).
    pub(crate) fn random(&self) -> u64 {
        let mut state = lock(&self.random);
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// A fresh id of our own.
    pub(crate) fn fresh(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.next_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A reply of the client came. The trace knows of it before the call that waits for it goes on.
    pub(crate) fn replied(&self, session: &Session, id: &str, code: Option<i64>) {
        let mut asked = lock(&session.asked);
        let slot = asked.get_mut(id);
        let shown: Value = serde_json::from_str(id).unwrap_or_default();
        self.trace.event("replied", json!({"id": shown, "code": code, "known": slot.is_some()}));
        if let Some(slot) = slot {
            *slot = Some(code);
        }
        session.replied.notify_all();
    }

    /// Notes the exit and leaves.
    pub(crate) fn exit(&self, code: i32, why: &str) -> ! {
        self.trace.event("exit", json!({"code": code, "why": why}));
        std::process::exit(code)
    }
}
