//! The seam to the audit: what the front end and the runtime ask of it. Nothing here waits.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::desk::{self, Desk, Inbox};
use super::ending::End;
use crate::actors::server::ServerRef;
use crate::actors::server::msg::Submission;
use crate::audit::file::Place;
use crate::audit::record::Event;
use crate::call::{CallError, CallRequest, Door, ErrorCode, ItemKind, Origin, Phase};
use crate::catalog::pin::Fingerprint;
use crate::id::{CallId, ListenerId, ServerId, SessionId};
use crate::policy::approve::Answer;
use crate::telemetry::Redaction;
use crate::transport::task;

/// Records that may wait beside two for each call in flight: refusals without a permit, notes, and the
/// ends of the calls of one bundle.
const EXTRA_QUEUE_LEN_MAX: usize = 256;
/// Longest wait for the task at the end of the program.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// How the way of a call through the front end went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    /// The rule of the policy that decided, if it came that far.
    pub rule: Option<String>,
    /// The fingerprint of the tool's definition, if that is known.
    pub pin: Option<Fingerprint>,
    /// A person was to say.
    pub asks: bool,
    /// The item is known to change nothing.
    pub read_only: bool,
    /// The server and raw name that an exposed name stands for.
    pub found: Option<(ServerId, String)>,
}

/// What a person said about a call that waited for a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Who was asked.
    pub by: ListenerId,
    /// The answer.
    pub answer: Answer,
}

/// What the audit has to know of a call that waits for a person, to write down its end there.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub audit: AuditRef,
    pub passage: Passage,
}

/// A call whose start is to be written before it goes on.
#[derive(Debug)]
pub(crate) struct Begin {
    pub call: Box<Submission>,
    pub to: ServerRef,
    pub passage: Passage,
}

/// A call that was refused before anything was sent.
#[derive(Debug)]
pub(crate) struct Turned {
    pub door: Door,
    pub request: CallRequest,
    pub passage: Passage,
    pub code: ErrorCode,
    pub phase: Phase,
    pub reason: String,
    /// The answer of the person who refused it.
    pub said: Option<Said>,
    /// Kept until the line is written: it bounds the queue.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// A decision of a person about one tool of one server.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub event: Event,
    pub door: Door,
    pub session: SessionId,
    pub call: CallId,
    pub server: ServerId,
    pub kind: ItemKind,
    pub tool: String,
    /// The rule that asked.
    pub rule: String,
    pub pin: Option<Fingerprint>,
    pub said: Option<Said>,
}

/// What the task is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Write the start and let the call go on.
    Begin(Box<Begin>),
    /// Write how a call ended. The task finds it where ends wait.
    End(Box<End>),
    /// Write a refusal.
    Turned(Box<Turned>),
    /// Write a decision.
    Note(Box<Note>),
    /// Take these secrets out from now on.
    Redact(Redaction),
    /// Say when everything before is written.
    Flush(oneshot::Sender<()>),
}

/// The way to the audit. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AuditRef {
    queue: mpsc::Sender<Job>,
    /// Held for the task: it ends with the last of these.
    _ends: mpsc::Sender<Box<End>>,
    strict: bool,
}

impl AuditRef {
    /// Starts the task. Files are opened at the first record. `aboard`: never writes on a thread, however
    /// long it takes, so that a run can be repeated.
    pub(crate) fn start(
        place: Result<Place, String>,
        strict: bool,
        in_flight_max: usize,
        aboard: bool,
    ) -> Self {
        let queue_len_max = in_flight_max.saturating_mul(2).saturating_add(EXTRA_QUEUE_LEN_MAX);
        let queue_len_max = queue_len_max.min(tokio::sync::Semaphore::MAX_PERMITS);
        let (queue, jobs) = mpsc::channel(queue_len_max);
        let (ends, ended) = mpsc::channel(queue_len_max);
        let desk = Desk::new(place, (strict, aboard), ends.downgrade());
        let inbox = Inbox { jobs, ends: ended };
        task::spawn(desk::run(desk, inbox)).detach();
        Self { queue, _ends: ends, strict }
    }

    /// Hands a call on to its server as soon as its start is written.
    pub(crate) fn begin(&self, call: Box<Submission>, to: ServerRef, passage: Passage) {
        let job = Job::Begin(Box::new(Begin { call, to, passage }));
        if let Err(mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job)) =
            self.queue.try_send(job)
            && let Job::Begin(begin) = job
        {
            desk::unwritten(*begin, self.strict, "its writer does not keep up or is gone");
        }
    }

    /// Notes a refusal. It is told to the caller whether it can be written or not.
    pub(crate) fn turned(
        &self,
        door: Door,
        request: CallRequest,
        passage: Passage,
        error: &CallError,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let (code, phase, reason) = (error.code, error.phase, error.message.clone());
        let said = None;
        self.turn(Turned { door, request, passage, code, phase, reason, said, permit });
    }

    /// Notes a refusal with all that is known of it.
    pub(crate) fn turn(&self, turned: Turned) {
        self.tell(Job::Turned(Box::new(turned)));
    }

    /// Notes a decision of a person.
    pub(crate) fn note(&self, note: Note) {
        self.tell(Job::Note(Box::new(note)));
    }

    /// Takes these secrets out of every text from now on.
    pub(crate) fn redact(&self, redaction: Redaction) {
        self.tell(Job::Redact(redaction));
    }

    fn tell(&self, job: Job) {
        if self.queue.try_send(job).is_err() {
            tracing::warn!("a line of the audit log is lost: its writer does not keep up or is gone");
        }
    }

    /// Waits until everything that was told before is written, at most 5 s.
    pub(crate) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let asked = async {
            if self.queue.send(Job::Flush(done)).await.is_ok() {
                let _ = written.await;
            }
        };
        if tokio::time::timeout(FLUSH_MAX, asked).await.is_err() {
            tracing::warn!("the last lines of the audit log could not be written in time");
        }
    }
}

/// The refusal of a call whose start can't be written.
pub(super) fn refusal(why: &str) -> CallError {
    let text = format!(
        "nothing was sent, because the audit log can't be written and the call may change something: {why}"
    );
    CallError::refused(ErrorCode::AuditUnavailable, Phase::Policy, Origin::Host, text)
        .fix("make the log writable, or set audit.mode = \"best-effort\" in callboard.toml")
}
