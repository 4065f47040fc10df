//! The task that writes: takes what waits, makes records of it, puts all of them down at once, and
//! then lets the calls go on. What can't be written is decided here: refused or gone without.
//!
//! A line costs less than the way to another thread and back, so lines are written where the calls run
//! as long as that is quick. What is known to take longer (the first line, a checkpoint, a full file,
//! another process that writes), and all that comes behind a write that was slow, is written on a
//! thread of the blocking pool: a disk that stalls holds up the event loop once, for one write.
//!
//! Nobody waits for the end of a call to be written, so ends wake nobody: they are put down together
//! with the next start, or a moment later.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ending::{End, Ending, How};
use super::reference::{Begin, Job, Note, Said, Turned, refusal};
use crate::audit::arguments;
use crate::audit::file::{AuditError, Ledger, Place, fresh_boot};
use crate::audit::record::{Event, Record, fit};
use crate::call::{CallRequest, Door, ErrorCode, ItemKind, Target};
use crate::catalog::pin::Fingerprint;
use crate::shaping::redact::Redactor;
use crate::telemetry::Redaction;
use crate::time::{Monotonic, rfc3339, wall};
use crate::transport::task;
use crate::wire::envelope;

/// Jobs that are written in one go.
const BUNDLE_LEN_MAX: usize = 64;
/// Longest time for which the end of a call stays unwritten.
const END_WAIT_MAX: Duration = Duration::from_millis(100);

/// A write that took longer has the next one done on a thread.
const QUICK_MAX: Duration = Duration::from_millis(2);

/// Texts that are remembered as they are written, and the longest of them in bytes.
const SHOWN_MAX: usize = 512;
const SHOWN_LEN_MAX: usize = 256;

/// What the task owns.
pub(super) struct Desk {
    ledger: Result<Ledger, String>,
    boot: String,
    strict: bool,
    ends: mpsc::WeakSender<Box<End>>,
    /// Calls whose start was written and whose end has not come.
    running: usize,
    redaction: Redaction,
    /// Lines that could not be written since one could.
    lost: u64,
    /// The trouble was told already.
    told: bool,
    /// The last write was quick.
    is_quick: bool,
    /// Never writes on a thread: a run that is to be repeatable.
    aboard: bool,
    /// Names and rules as they are written.
    shown: Shown,
}

/// What the task hears.
pub(super) struct Inbox {
    pub jobs: mpsc::Receiver<Job>,
    pub ends: mpsc::Receiver<Box<End>>,
}

/// The life of the task: it ends when nobody can send any more.
pub(super) async fn run(mut desk: Desk, mut inbox: Inbox) {
    let mut jobs = Vec::with_capacity(2 * BUNDLE_LEN_MAX);
    loop {
        let more = inbox.jobs.recv_many(&mut jobs, BUNDLE_LEN_MAX);
        let came = match desk.running {
            // No end can come before the next start.
            0 => more.await,
            _ => timeout(END_WAIT_MAX, more).await.unwrap_or(1),
        };
        // The ends are older than the starts: whoever began after an answer is written after it.
        let before = jobs.len();
        while let Ok(end) = inbox.ends.try_recv() {
            jobs.push(Job::End(end));
        }
        jobs.rotate_left(before);
        if desk.may_stall(&jobs) {
            let write = move || {
                desk.bundle(&mut jobs);
                (desk, jobs)
            };
            // Lost with its thread: whoever sends finds nobody here, and decides without.
            let Some(back) = task::blocking(write).await else { return };
            (desk, jobs) = back;
        } else {
            desk.bundle(&mut jobs);
        }
        if came == 0 {
            return;
        }
    }
}

/// A call whose start could not be written.
pub(super) fn unwritten(begin: Begin, strict: bool, why: &str) {
    let Begin { call, to, passage } = begin;
    if strict && !passage.read_only {
        let error = refusal(why).on(to.id()).about(call.request.name());
        let _ = call.reply.send(Err(error));
    } else {
        to.submit(call);
    }
}

impl Desk {
    pub(super) fn new(
        place: Result<Place, String>,
        (strict, aboard): (bool, bool),
        ends: mpsc::WeakSender<Box<End>>,
    ) -> Self {
        let boot = fresh_boot();
        let ledger = place.map(|place| Ledger::new(place, boot.clone()));
        let redaction = Redaction::default();
        Self {
            ledger,
            boot,
            strict,
            ends,
            running: 0,
            redaction,
            lost: 0,
            told: false,
            is_quick: true,
            aboard,
            shown: Shown::default(),
        }
    }

    /// Whether writing these may take longer than the event loop can spare.
    fn may_stall(&self, jobs: &[Job]) -> bool {
        let lines = lines_of(jobs);
        let is_free = || self.ledger.as_ref().is_ok_and(|ledger| ledger.is_free(lines));
        lines > 0 && !self.aboard && !(self.is_quick && is_free())
    }

    fn bundle(&mut self, jobs: &mut Vec<Job>) {
        let began = Monotonic::now();
        let why = self.put_down(jobs).err().map(|error| error.to_string());
        let lines = lines_of(jobs);
        if lines > 0 {
            self.is_quick = Monotonic::now().since(began) <= QUICK_MAX;
        }
        self.keep_count(why.as_deref(), lines);
        for job in jobs.drain(..) {
            match (job, &why) {
                (Job::Begin(begin), None) => self.go_on(*begin),
                (Job::Begin(begin), Some(why)) => unwritten(*begin, self.strict, why),
                (Job::Flush(done), _) => {
                    let _ = done.send(());
                }
                // Its place among the calls in flight is free again.
                (Job::Turned(turned), _) => drop(turned.permit),
                (Job::End(_), _) => self.running = self.running.saturating_sub(1),
                (Job::Note(_) | Job::Redact(_), _) => {}
            }
        }
    }

    /// Writes the lines of all jobs.
    fn put_down(&mut self, jobs: &[Job]) -> Result<(), AuditError> {
        for job in jobs {
            if let Job::Redact(redaction) = job {
                self.redaction = redaction.clone();
            }
        }
        let ts = rfc3339(wall());
        let mut records = Vec::with_capacity(jobs.len() + 1);
        if self.lost > 0 {
            let reason = format!("{} lines could not be written before this one", self.lost);
            records.push(Record { reason: Some(reason), ..self.blank(Event::Lost, &ts) });
        }
        let before = records.len();
        if jobs.iter().any(|job| !matches!(job, Job::Redact(_) | Job::Flush(_))) {
            // Opened here, once: what can't be opened is not tried again for each line.
            self.open()?;
        }
        for job in jobs {
            match job {
                Job::Begin(begin) => records.push(self.started(begin, &ts)),
                Job::End(end) => records.push(self.finished(end, &ts)),
                Job::Turned(turned) => records.push(self.refused(turned, &ts)),
                Job::Note(note) => records.push(self.noted(note, &ts)),
                Job::Redact(_) | Job::Flush(_) => {}
            }
        }
        if records.len() == before { Ok(()) } else { self.write(&mut records) }
    }

    fn open(&mut self) -> Result<(), AuditError> {
        match &mut self.ledger {
            Ok(ledger) => ledger.prepare(),
            Err(why) => Err(AuditError::NoHome(why.clone())),
        }
    }

    fn write(&mut self, records: &mut [Record]) -> Result<(), AuditError> {
        match &mut self.ledger {
            Ok(ledger) => ledger.append(records, false),
            Err(why) => Err(AuditError::NoHome(why.clone())),
        }
    }

    fn keep_count(&mut self, why: Option<&str>, count: usize) {
        match why {
            None if count > 0 => (self.lost, self.told) = (0, false),
            None => {}
            Some(why) => {
                self.lost += count as u64;
                if !std::mem::replace(&mut self.told, true) {
                    let rule = if self.strict {
                        "calls that may change something are refused"
                    } else {
                        "calls go on without"
                    };
                    tracing::warn!(why, rule, "the audit log can't be written");
                }
            }
        }
    }

    fn go_on(&mut self, begin: Begin) {
        let Begin { mut call, to, .. } = begin;
        let request = &call.request;
        self.running += 1;
        call.reply.follow(Ending {
            ends: self.ends.clone(),
            admitted: call.admitted,
            call: request.id,
            session: request.session,
            door: call.door,
            server: to.id().clone(),
            kind: kind_word(request.kind()),
            tool: request.name().to_owned(),
        });
        to.submit(call);
    }

    fn blank(&self, event: Event, ts: &str) -> Record {
        Record::new(event, self.boot.as_str(), ts)
    }

    /// A text that others wrote, fit for the log.
    fn text(&mut self, text: &str) -> Option<String> {
        Some(self.shown.text(text, &self.redaction))
    }

    /// What every line of a call says.
    fn of_call(&mut self, event: Event, ts: &str, door: Door, request: &CallRequest) -> Record {
        let (server, kind, tool) = match &request.target {
            Target::Exposed(name) => (None, ItemKind::Tool, name),
            Target::Direct { server, kind, name } => (self.text(server.as_str()), *kind, name),
        };
        let tool = self.text(tool);
        let kept = self
            .ledger
            .as_ref()
            .ok()
            .and_then(|ledger| Some(arguments::kept(ledger.key()?, &request.params)));
        let (args_hash, trace_id) = kept.map_or((None, None), |kept| (Some(kept.hash), kept.trace));
        Record {
            door: Some(door.as_str().to_owned()),
            session: Some(request.session.0),
            call_id: Some(request.id.0),
            trace_id,
            server,
            kind: Some(kind_word(kind).to_owned()),
            tool,
            args_hash,
            bytes_out: Some(request.params.len() as u64),
            ..self.blank(event, ts)
        }
    }

    fn started(&mut self, begin: &Begin, ts: &str) -> Record {
        let record = self.of_call(Event::Started, ts, begin.call.door, &begin.call.request);
        let decided_by = begin.passage.rule.as_deref().and_then(|rule| self.text(rule));
        Record { decision: Some("run".to_owned()), decided_by, pin: pin(begin.passage.pin), ..record }
    }

    fn refused(&mut self, turned: &Turned, ts: &str) -> Record {
        let event = if turned.said.is_some() { Event::ApprovalDenied } else { Event::Refused };
        let mut record = self.of_call(event, ts, turned.door, &turned.request);
        if let Some((server, tool)) = &turned.passage.found {
            (record.server, record.tool) = (self.text(server.as_str()), self.text(tool));
        }
        let phase = || serde_json::to_value(turned.phase).ok()?.as_str().map(str::to_owned);
        Record {
            decision: Some(if turned.passage.asks { "ask" } else { "refuse" }.to_owned()),
            decided_by: turned.passage.rule.as_deref().and_then(|rule| self.text(rule)).or_else(phase),
            reason: self.text(&turned.reason),
            outcome: Some("refused".to_owned()),
            error_type: Some(turned.code.as_str().to_owned()),
            exec_count: Some(0),
            pin: pin(turned.passage.pin),
            ..said(turned.said, record)
        }
    }

    fn finished(&mut self, end: &End, ts: &str) -> Record {
        let (outcome, error_type, bytes_in) = match &end.how {
            How::Answered { body, is_error, bytes } => {
                let (outcome, error) = answered(body, *is_error);
                (outcome, error, Some(*bytes as u64))
            }
            How::Failed(code) => ("failed", Some(code.as_str().to_owned()), None),
            How::Abandoned => ("abandoned", Some(ErrorCode::Cancelled.as_str().to_owned()), None),
            How::Lost => ("lost", None, None),
        };
        Record {
            door: Some(end.door.as_str().to_owned()),
            session: Some(end.session.0),
            call_id: Some(end.call.0),
            server: self.text(end.server.as_str()),
            kind: Some(end.kind.to_owned()),
            tool: self.text(&end.tool),
            outcome: Some(outcome.to_owned()),
            error_type,
            duration_ms: Some((end.took.as_secs_f64() * 1e6).round() / 1e3),
            bytes_in,
            exec_count: Some(u64::from(end.sends)),
            ..self.blank(Event::Finished, ts)
        }
    }

    fn noted(&mut self, note: &Note, ts: &str) -> Record {
        let record = Record {
            door: Some(note.door.as_str().to_owned()),
            session: Some(note.session.0),
            call_id: Some(note.call.0),
            server: self.text(note.server.as_str()),
            kind: Some(kind_word(note.kind).to_owned()),
            tool: self.text(&note.tool),
            pin: pin(note.pin),
            decision: (note.event == Event::ApprovalGiven).then(|| "run".to_owned()),
            decided_by: self.text(&note.rule),
            reason: (note.event == Event::RuleAllowed).then(|| "a person said always".to_owned()),
            ..self.blank(note.event, ts)
        };
        said(note.said, record)
    }
}

/// Texts that come with every call, as the redactor made them fit for the log: it reads each once.
#[derive(Default)]
struct Shown {
    by: Arc<Redactor>,
    texts: HashMap<String, String>,
}

impl Shown {
    fn text(&mut self, text: &str, redaction: &Redaction) -> String {
        let by = redaction.now();
        if !Arc::ptr_eq(&by, &self.by) {
            // It has learned something.
            (self.by, self.texts) = (by, HashMap::new());
        }
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shown = fit(&self.by.text(text));
        if text.len() <= SHOWN_LEN_MAX {
            if self.texts.len() >= SHOWN_MAX {
                self.texts.clear();
            }
            self.texts.insert(text.to_owned(), shown.clone());
        }
        shown
    }
}

/// How many of these are lines.
fn lines_of(jobs: &[Job]) -> usize {
    jobs.iter().filter(|job| !matches!(job, Job::Redact(_) | Job::Flush(_))).count()
}

fn pin(pin: Option<Fingerprint>) -> Option<String> {
    pin.map(|pin| pin.to_string())
}

/// The record with what a person said.
fn said(said: Option<Said>, record: Record) -> Record {
    let (answer, listener) = said.map(|said| (said.answer.as_str().to_owned(), said.by.0)).unzip();
    Record { answer, listener, ..record }
}

fn kind_word(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Resource => "resource",
        ItemKind::Prompt => "prompt",
        ItemKind::Method => "method",
    }
}

/// What an answer says about its call, and its error.
fn answered(body: &[u8], is_error: bool) -> (&'static str, Option<String>) {
    let value = |key| envelope::member(body, key).and_then(|span| std::str::from_utf8(&body[span]).ok());
    if is_error {
        // A code that is no number is not repeated: it could be anything.
        let code = value("code").and_then(|code| code.trim().parse::<i64>().ok());
        return ("rpc_error", Some(code.map_or_else(|| "rpc".to_owned(), |code| code.to_string())));
    }
    match value("isError") {
        Some("true") => ("tool_error", Some("tool_error".to_owned())),
        _ => ("ok", None),
    }
}
