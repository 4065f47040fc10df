//! The thread that writes: takes what waits, makes records of it, puts all of them down at once, and
//! then lets the calls go on. What can't be written is decided here: refused or gone without.
//!
//! Nobody waits for the end of a call to be written, so ends wake nobody: they are put down together
//! with the next start, or a moment later.

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
use crate::telemetry::Redaction;
use crate::time::{rfc3339, wall};
use crate::wire::envelope;

/// Jobs that are written in one go.
const BUNDLE_LEN_MAX: usize = 64;
/// Longest time for which the end of a call stays unwritten.
const END_WAIT_MAX: Duration = Duration::from_millis(100);

/// What the thread owns.
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
}

/// What the thread hears.
pub(super) struct Inbox {
    pub jobs: mpsc::Receiver<Job>,
    pub ends: mpsc::Receiver<Box<End>>,
}

/// The life of the thread: it ends when nobody can send any more.
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
        desk.bundle(&mut jobs);
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
    pub(super) fn new(place: Result<Place, String>, strict: bool, ends: mpsc::WeakSender<Box<End>>) -> Self {
        let boot = fresh_boot();
        let ledger = place.map(|place| Ledger::new(place, boot.clone()));
        let redaction = Redaction::default();
        Self { ledger, boot, strict, ends, running: 0, redaction, lost: 0, told: false }
    }

    fn bundle(&mut self, jobs: &mut Vec<Job>) {
        let why = self.put_down(jobs).err().map(|error| error.to_string());
        let lines = jobs.iter().filter(|job| !matches!(job, Job::Redact(_) | Job::Flush(_))).count();
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
    fn text(&self, text: &str) -> Option<String> {
        Some(fit(&self.redaction.text(text)))
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

    fn finished(&self, end: &End, ts: &str) -> Record {
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

    fn noted(&self, note: &Note, ts: &str) -> Record {
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
