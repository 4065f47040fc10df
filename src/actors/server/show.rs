//! What everyone may see of one server: keeps the texts of its view fresh and publishes
//! it. Everything is redacted on its way in. Called at the end of every handler.

use std::sync::Arc;

use super::state::ServerState;
use crate::catalog::items::ListKind;
use crate::policy::lifecycle::Life;
use crate::shaping::render::{one_line, printable};
use crate::transport::Attempt;
use crate::transport::link::LinkCounters;
use crate::view::STDERR_LINES_MAX;

/// Longest text in a view, in characters.
const VIEW_TEXT_MAX: usize = 500;

impl ServerState {
    /// Redacted, one line, without control characters.
    pub(super) fn clean(&self, text: &str) -> String {
        let text = self.args.redactor.piece(text);
        one_line(&text, VIEW_TEXT_MAX)
    }

    /// The last lines of a text, each as [`Self::clean`] leaves it. Escape sequences go first, and
    /// the whole is redacted at once: neither they nor line ends may hide a secret.
    pub(super) fn clean_lines(&self, text: &str) -> Vec<String> {
        let text = text.replace('\r', "\n");
        let text = printable(&text);
        let text = self.args.redactor.piece(&text);
        let lines = text.lines().map(|line| one_line(line, VIEW_TEXT_MAX)).filter(|line| !line.is_empty());
        let mut last: Vec<String> = lines.collect();
        last.drain(..last.len().saturating_sub(STDERR_LINES_MAX));
        last
    }

    /// Publishes the view; readers wake only when something besides counters changed.
    pub(super) fn publish(&mut self) {
        self.track_idle();
        let late = matches!(self.life, Life::Connecting { late: true, .. });
        if late != self.view.late {
            self.view.late = late;
            self.dirty = true;
        }
        let breaker = self.breaker_view();
        if breaker.state != self.view.breaker.state || breaker.failures != self.view.breaker.failures {
            self.view.breaker = breaker;
            self.dirty = true;
        }
        self.view.in_flight = self.bulkhead.in_flight();
        self.view.queued = self.bulkhead.queued();
        self.refresh_stderr();
        if self.dirty {
            self.refresh_texts();
        }
        let (view, dirty) = (&self.view, std::mem::take(&mut self.dirty));
        self.args.view.send_if_modified(|out| {
            if dirty {
                out.clone_from(view);
            } else {
                out.in_flight = view.in_flight;
                out.queued = view.queued;
                out.calls_ok = view.calls_ok;
                out.calls_failed = view.calls_failed;
                out.tally = view.tally;
                if !Arc::ptr_eq(&out.history, &view.history) {
                    out.history = view.history.clone();
                }
                if out.last_stderr != view.last_stderr || out.stderr_tail != view.stderr_tail {
                    out.last_stderr.clone_from(&view.last_stderr);
                    out.stderr_tail.clone_from(&view.stderr_tail);
                }
            }
            dirty
        });
    }

    /// What a server logs reaches the view with the next call; nobody is woken for it.
    pub(super) fn refresh_stderr(&mut self) {
        let (seen, last, recent) = match (&self.live, &self.attempt) {
            (Some(live), _) => match live.link.stderr_total() {
                seen if seen == self.stderr_seen => return,
                seen => (seen, live.link.stderr_last(), live.link.stderr_recent()),
            },
            (None, Some((attempt, _))) => (0, attempt.stderr_last(), attempt.stderr_recent()),
            (None, None) => return,
        };
        self.stderr_seen = seen;
        if let Some(last) = last {
            self.view.last_stderr = Some(self.clean(&last));
            self.view.stderr_tail = self.clean_lines(&recent);
        }
    }

    fn refresh_texts(&mut self) {
        let attempt = self.attempt.as_ref().map(|(attempt, _)| attempt);
        (self.view.pid, self.view.guard_pid) = match &self.live {
            Some(live) => (live.link.pid(), live.link.guard_pid()),
            None => (attempt.and_then(Attempt::pid), attempt.and_then(Attempt::guard_pid)),
        };
        self.view.warnings = self.warnings();
        self.view.listed = self.live.is_some() && self.catalog.listed;
        self.view.leaving = !self.closing.is_empty();
    }

    /// The start limit has passed: what is known of a server that has not answered.
    pub(super) fn tell_late(&mut self) {
        let timeouts = self.args.spec.timeouts;
        let (limit, end) =
            (humantime::format_duration(timeouts.connect), humantime::format_duration(timeouts.max_start));
        let counters = self.attempt.as_ref().and_then(|(attempt, _)| attempt.counters());
        let noise = counters.as_ref().and_then(noise);
        self.view.fix = Some(match noise {
            Some(_) => {
                "run its command by itself: it may be no MCP server, or write its log to stdout".to_owned()
            }
            None => "wait, or run its command by itself to see what it does".to_owned(),
        });
        let more = noise.map(|noise| format!("; {noise}")).unwrap_or_default();
        let text = format!("no answer to the handshake within {limit}; its start is ended after {end}{more}");
        self.view.why = Some(self.clean(&text));
        self.dirty = true;
    }

    /// What the link counted since the last look belongs into the view.
    pub(super) fn notice_oddities(&mut self) {
        let seen = self.live.as_ref().map_or(0, |live| live.link.oddities());
        if seen != self.oddities {
            self.oddities = seen;
            self.dirty = true;
        }
    }

    fn warnings(&self) -> Vec<String> {
        let lists = ListKind::ALL.map(|kind| self.catalog.list(kind));
        let unread = lists.iter().filter_map(|list| list.unread.as_ref());
        let odd = lists.iter().flat_map(|list| &list.warnings);
        let mut warnings: Vec<String> = unread.chain(odd).map(|text| self.clean(text)).collect();
        warnings.extend(self.held_warning().map(|text| self.clean(&text)));
        let attempt = self.attempt.as_ref().and_then(|(attempt, _)| attempt.counters());
        let Some(counters) = self.live.as_ref().map(|live| live.link.counters()).or(attempt) else {
            return warnings;
        };
        warnings.extend(noise(&counters).map(|text| self.clean(&text)));
        if counters.malformed > 0 {
            warnings.push(format!("{} broke the protocol", answers(counters.malformed)));
        }
        if counters.late > 0 {
            warnings.push(format!("{} came late, when nobody waited any more", answers(counters.late)));
        }
        if counters.unmatched > 0 {
            let id = counters.last_unmatched.as_deref().unwrap_or_default();
            warnings.push(self.clean(&format!(
                "{} came for nobody (with a wrong id; last id {id})",
                answers(counters.unmatched)
            )));
        }
        warnings
    }
}

/// What a server writes to stdout that is no protocol.
pub(super) fn noise(counters: &LinkCounters) -> Option<String> {
    let sample = counters.last_noise.as_deref().unwrap_or_default();
    let lines = if counters.noise == 1 { "line" } else { "lines" };
    (counters.noise > 0).then(|| {
        format!(
            "the server writes text to stdout that is no protocol ({} {lines}, last: {sample})",
            counters.noise
        )
    })
}

fn answers(count: u64) -> String {
    if count == 1 { "1 answer".to_owned() } else { format!("{count} answers") }
}
