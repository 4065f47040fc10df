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

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::ending::{End, Ending};
use super::reference::{Begin, Job, refusal};
use super::scribe::{Scribe, kind_word};
use crate::audit::file::{AuditError, Ledger, Place, fresh_boot};
use crate::telemetry::Redaction;
use crate::time::{Monotonic, rfc3339, wall};
use crate::transport::task;

/// Jobs that are written in one go.
const BUNDLE_LEN_MAX: usize = 64;
/// Longest time for which the end of a call stays unwritten.
const END_WAIT_MAX: Duration = Duration::from_millis(100);

/// A write that took longer has the next one done on a thread.
const QUICK_MAX: Duration = Duration::from_millis(2);

/// What the task owns.
pub(super) struct Desk {
    ledger: Result<Ledger, String>,
    scribe: Scribe,
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
}

/// What the task hears.
pub(super) struct Inbox {
    pub jobs: mpsc::Receiver<Job>,
    pub ends: mpsc::Receiver<Box<End>>,
}

/// The life of the task: it ends when nobody can send any more.
pub(super) async fn run(mut desk: Desk, mut inbox: Inbox) {
    let mut jobs = Vec::with_capacity(2 * BUNDLE_LEN_MAX);
    // One timer for all, which goes on as calls come: to set one for each costs more than its tick.
    let tick = sleep_until((Monotonic::now() + END_WAIT_MAX).into_tokio());
    tokio::pin!(tick);
    loop {
        let came = tokio::select! {
            biased;
            came = inbox.jobs.recv_many(&mut jobs, BUNDLE_LEN_MAX) => came,
            // No end can come before the next start.
            () = &mut tick, if desk.running > 0 => {
                tick.as_mut().reset((Monotonic::now() + END_WAIT_MAX).into_tokio());
                1
            }
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
            scribe: Scribe::new(boot),
            strict,
            ends,
            running: 0,
            redaction,
            lost: 0,
            told: false,
            is_quick: true,
            aboard,
        }
    }

    /// Whether writing these may take longer than the event loop can spare.
    fn may_stall(&mut self, jobs: &[Job]) -> bool {
        let lines = lines_of(jobs);
        let mut is_free = || self.ledger.as_mut().is_ok_and(|ledger| ledger.is_free(lines));
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
        if lines_of(jobs) == 0 {
            return Ok(());
        }
        let ledger = self.ledger.as_mut().map_err(|why| AuditError::NoHome(why.clone()))?;
        let (scribe, lost) = (&mut self.scribe, self.lost);
        scribe.begin(self.redaction.now());
        let ts = rfc3339(wall());
        ledger.write(false, |pen| {
            if lost > 0 {
                scribe.lost(pen, lost, &ts)?;
            }
            jobs.iter().try_for_each(|job| scribe.put(pen, job, &ts))
        })
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
}

/// How many of these are lines.
fn lines_of(jobs: &[Job]) -> usize {
    jobs.iter().filter(|job| !matches!(job, Job::Redact(_) | Job::Flush(_))).count()
}
