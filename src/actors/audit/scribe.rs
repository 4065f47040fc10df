//! What the log says of each job: its line, with the texts of others made fit for it. Called by the task
//! that writes, with the pen in hand.

use std::collections::HashMap;
use std::sync::Arc;

use super::ending::{End, How};
use super::reference::{Begin, Job, Note, Said, Turned};
use crate::audit::arguments::{self, Kept};
use crate::audit::file::{AuditError, Pen};
use crate::audit::record::{Event, Line, fit};
use crate::call::{CallRequest, Door, ErrorCode, ItemKind, Target};
use crate::shaping::redact::Redactor;
use crate::wire::envelope;

/// Texts that are remembered as they are written, and the longest of them in bytes.
const SHOWN_MAX: usize = 512;
const SHOWN_LEN_MAX: usize = 256;

/// Who words the lines of one run.
pub(super) struct Scribe {
    boot: String,
    /// Names and rules as they are written.
    shown: Shown,
}

/// What every line of a call says, as it is written.
struct CallTexts {
    server: Option<Arc<str>>,
    kind: ItemKind,
    tool: Arc<str>,
    kept: Kept,
}

impl Scribe {
    pub(super) fn new(boot: String) -> Self {
        Self { boot, shown: Shown::default() }
    }

    /// From here on texts are shown through this redactor.
    pub(super) fn begin(&mut self, by: Arc<Redactor>) {
        self.shown.goes_by(by);
    }

    /// Puts down the line of a job, if it has one.
    pub(super) fn put(&mut self, pen: &mut Pen<'_>, job: &Job, ts: &str) -> Result<(), AuditError> {
        match job {
            Job::Begin(begin) => self.started(pen, begin, ts),
            Job::End(end) => self.finished(pen, end, ts),
            Job::Turned(turned) => self.refused(pen, turned, ts),
            Job::Note(note) => self.noted(pen, note, ts),
            Job::Redact(_) | Job::Flush(_) => Ok(()),
        }
    }

    /// Puts down that lines are missing.
    pub(super) fn lost(&self, pen: &mut Pen<'_>, lost: u64, ts: &str) -> Result<(), AuditError> {
        let reason = format!("{lost} lines could not be written before this one");
        pen.put(&Line { reason: Some(&reason), ..Line::new(Event::Lost, &self.boot, ts) })
    }

    /// A text that others wrote, fit for the log.
    fn text(&mut self, text: &str) -> Arc<str> {
        self.shown.text(text)
    }

    fn call_texts(&mut self, pen: &Pen<'_>, request: &CallRequest) -> CallTexts {
        let (server, kind, tool) = match &request.target {
            Target::Exposed(name) => (None, ItemKind::Tool, name),
            Target::Direct { server, kind, name } => (Some(self.text(server.as_str())), *kind, name),
        };
        CallTexts { server, kind, tool: self.text(tool), kept: arguments::kept(pen.key(), &request.params) }
    }

    fn of_call<'a>(
        &'a self,
        (event, ts): (Event, &'a str),
        door: Door,
        request: &CallRequest,
        texts: &'a CallTexts,
    ) -> Line<'a> {
        Line {
            door: Some(door.as_str()),
            session: Some(request.session.0),
            call_id: Some(request.id.0),
            trace_id: texts.kept.trace.as_deref(),
            server: texts.server.as_deref(),
            kind: Some(kind_word(texts.kind)),
            tool: Some(&texts.tool),
            args_hash: Some(&texts.kept.hash),
            bytes_out: Some(request.params.len() as u64),
            ..Line::new(event, &self.boot, ts)
        }
    }

    fn started(&mut self, pen: &mut Pen<'_>, begin: &Begin, ts: &str) -> Result<(), AuditError> {
        let request = &begin.call.request;
        let texts = self.call_texts(pen, request);
        let decided_by = begin.passage.rule.as_deref().map(|rule| self.text(rule));
        let pin = begin.passage.pin.map(|pin| pin.to_string());
        pen.put(&Line {
            decision: Some("run"),
            decided_by: decided_by.as_deref(),
            pin: pin.as_deref(),
            ..self.of_call((Event::Started, ts), begin.call.door, request, &texts)
        })
    }

    fn refused(&mut self, pen: &mut Pen<'_>, turned: &Turned, ts: &str) -> Result<(), AuditError> {
        let event = if turned.said.is_some() { Event::ApprovalDenied } else { Event::Refused };
        let mut texts = self.call_texts(pen, &turned.request);
        if let Some((server, tool)) = &turned.passage.found {
            (texts.server, texts.tool) = (Some(self.text(server.as_str())), self.text(tool));
        }
        let rule = turned.passage.rule.as_deref().map(|rule| self.text(rule));
        let phase = || Some(serde_json::to_value(turned.phase).ok()?.as_str()?.into());
        let decided_by: Option<Arc<str>> = rule.or_else(phase);
        let reason = self.text(&turned.reason);
        let pin = turned.passage.pin.map(|pin| pin.to_string());
        let line = Line {
            decision: Some(if turned.passage.asks { "ask" } else { "refuse" }),
            decided_by: decided_by.as_deref(),
            reason: Some(&reason),
            outcome: Some("refused"),
            error_type: Some(turned.code.as_str()),
            exec_count: Some(0),
            pin: pin.as_deref(),
            ..self.of_call((event, ts), turned.door, &turned.request, &texts)
        };
        pen.put(&said(turned.said, line))
    }

    fn finished(&mut self, pen: &mut Pen<'_>, end: &End, ts: &str) -> Result<(), AuditError> {
        let (outcome, error_type, bytes_in) = match &end.how {
            How::Answered { body, is_error, bytes } => {
                let (outcome, error) = answered(body, *is_error);
                (outcome, error, Some(*bytes as u64))
            }
            How::Failed(code) => ("failed", Some(code.as_str().to_owned()), None),
            How::Abandoned => ("abandoned", Some(ErrorCode::Cancelled.as_str().to_owned()), None),
            How::Lost => ("lost", None, None),
        };
        let (server, tool) = (self.text(end.server.as_str()), self.text(&end.tool));
        pen.put(&Line {
            door: Some(end.door.as_str()),
            session: Some(end.session.0),
            call_id: Some(end.call.0),
            server: Some(&server),
            kind: Some(end.kind),
            tool: Some(&tool),
            outcome: Some(outcome),
            error_type: error_type.as_deref(),
            duration_ms: Some((end.took.as_secs_f64() * 1e6).round() / 1e3),
            bytes_in,
            exec_count: Some(u64::from(end.sends)),
            ..Line::new(Event::Finished, &self.boot, ts)
        })
    }

    fn noted(&mut self, pen: &mut Pen<'_>, note: &Note, ts: &str) -> Result<(), AuditError> {
        let (server, tool) = (self.text(note.server.as_str()), self.text(&note.tool));
        let (rule, pin) = (self.text(&note.rule), note.pin.map(|pin| pin.to_string()));
        let line = Line {
            door: Some(note.door.as_str()),
            session: Some(note.session.0),
            call_id: Some(note.call.0),
            server: Some(&server),
            kind: Some(kind_word(note.kind)),
            tool: Some(&tool),
            pin: pin.as_deref(),
            decision: (note.event == Event::ApprovalGiven).then_some("run"),
            decided_by: Some(&rule),
            reason: (note.event == Event::RuleAllowed).then_some("a person said always"),
            ..Line::new(note.event, &self.boot, ts)
        };
        pen.put(&said(note.said, line))
    }
}

/// Texts that come with every call, as the redactor made them fit for the log: it reads each once.
#[derive(Default)]
struct Shown {
    by: Arc<Redactor>,
    texts: HashMap<String, Arc<str>>,
}

impl Shown {
    fn goes_by(&mut self, by: Arc<Redactor>) {
        if !Arc::ptr_eq(&by, &self.by) {
            // It has learned something.
            (self.by, self.texts) = (by, HashMap::new());
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shown: Arc<str> = fit(&self.by.text(text)).into();
        if text.len() <= SHOWN_LEN_MAX {
            if self.texts.len() >= SHOWN_MAX {
                self.texts.clear();
            }
            self.texts.insert(text.to_owned(), shown.clone());
        }
        shown
    }
}

/// The line with what a person said.
fn said(said: Option<Said>, line: Line<'_>) -> Line<'_> {
    let (answer, listener) = said.map(|said| (said.answer.as_str(), said.by.0)).unzip();
    Line { answer, listener, ..line }
}

pub(super) fn kind_word(kind: ItemKind) -> &'static str {
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
