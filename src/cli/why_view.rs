//! Floor 5. How `why` looks: the JSON with everything, and for people the verdict with the
//! timeline below it, repeated rounds folded. Pure: takes `now`. Used by `why`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::out::{Style, Tone};
use super::status_view::{StatusRow, in_words, state_word, until};
use super::table::{Field, sheet};
use super::text;
use super::why_tool::ToolView;
use crate::policy::blame::{Fault, Next, Verdict, blame};
use crate::time::rfc3339;
use crate::view::history::{Record, What};
use crate::view::{ServerView, named};

/// Rounds that are alike: from so many on they are folded.
const ROUNDS_MIN: usize = 3;

/// The verdict in `--json`.
#[derive(Debug, Serialize)]
struct VerdictView {
    fault: &'static str,
    text: String,
    next: &'static str,
    next_text: Option<&'static str>,
    next_at: Option<String>,
    fix: Option<String>,
}

/// Everything in `--json`.
#[derive(Debug, Serialize)]
pub struct WhyView {
    server: String,
    healthy: bool,
    verdict: VerdictView,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<ToolView>,
    events: Vec<Map<String, Value>>,
    events_dropped: u64,
    status: StatusRow,
    #[serde(skip)]
    judged: Verdict,
}

impl WhyView {
    /// What is known about a server at `now`.
    pub fn new(view: &ServerView, tool: Option<ToolView>, now: SystemTime) -> Self {
        let history = view.whole_history();
        let judged = blame(view, now);
        let (next, next_text, next_at) = match judged.next {
            Next::Nothing => ("nothing", None, None),
            Next::At(what, at) => ("at", Some(what), Some(rfc3339(at))),
            Next::WaitsFor(what) => ("waits_for", Some(what), None),
        };
        Self {
            server: view.id.as_str().to_owned(),
            healthy: super::status_view::is_healthy(view.state),
            verdict: VerdictView {
                fault: judged.fault.as_str(),
                text: judged.text.clone(),
                next,
                next_text,
                next_at,
                fix: judged.fix.clone(),
            },
            tool,
            events: history.records().map(event).collect(),
            events_dropped: history.dropped(),
            status: StatusRow::from(view),
            judged,
        }
    }
}

fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// One event as JSON: what all have, then what only its kind has.
fn event(record: &Record) -> Map<String, Value> {
    let mut all = Map::new();
    let (kind, own) = details(&record.what);
    all.insert("event".into(), kind.into());
    all.insert("at".into(), rfc3339(record.at).into());
    all.insert("last_at".into(), rfc3339(record.last).into());
    all.insert("times".into(), record.times.into());
    all.insert("generation".into(), record.generation.0.into());
    all.insert("text".into(), record.what.to_string().into());
    if let Value::Object(own) = own {
        all.extend(own);
    }
    all
}

fn details(what: &What) -> (&'static str, Value) {
    match what {
        What::Started(why) => ("started", json!({"why": why.as_str()})),
        What::Spawned(pid) => ("spawned", json!({"pid": pid})),
        What::Connected { revision, took } => {
            ("connected", json!({"revision": revision, "took_ms": ms(*took)}))
        }
        What::Late(limit) => ("late", json!({"limit_ms": ms(*limit)})),
        What::Listed(counts) => (
            "listed",
            json!({"tools": counts.tools, "tools_quarantined": counts.quarantined, "tools_held": counts.held,
                "tools_filtered": counts.filtered, "resources": counts.resources,
                "resource_templates": counts.templates, "prompts": counts.prompts}),
        ),
        What::ListFailed { list, text } => ("list_failed", json!({"list": list, "why": text.as_str()})),
        What::StartFailed { cause, text } => {
            ("start_failed", json!({"cause": cause.as_str(), "why": text.as_str()}))
        }
        What::Lost { cause, text, calls } => {
            ("connection_lost", json!({"cause": cause.as_str(), "why": text.as_str(), "calls_lost": calls}))
        }
        What::Stderr(lines) => {
            ("stderr", json!({"lines": lines.iter().map(|line| line.as_str()).collect::<Vec<_>>()}))
        }
        What::BackingOff(wait) => ("backing_off", json!({"wait_ms": ms(*wait)})),
        What::Parked { reason, text } => {
            ("parked", json!({"reason": reason.as_str(), "why": text.as_ref().map(|text| text.as_str())}))
        }
        What::BreakerOpened { failures, open_for, last } => (
            "breaker_opened",
            json!({"failures": failures, "open_for_ms": ms(*open_for),
                "last": last.as_ref().map(|last| last.as_str())}),
        ),
        What::BreakerProbing => ("breaker_half_open", Value::Null),
        What::BreakerClosed => ("breaker_closed", Value::Null),
        What::CallFailed { item, code, delivery, class } => (
            "call_failed",
            json!({"item": item.as_str(), "code": code.as_str(), "delivery": delivery, "class": class}),
        ),
        What::Checked { lives, calls } => ("liveness_checked", json!({"lives": lives, "calls": calls})),
        What::Answered => ("calls_answered", Value::Null),
        What::Refused => ("calls_refused", Value::Null),
        What::Paused(wait) => ("pause_asked", json!({"wait_ms": ms(*wait)})),
        What::IdleStopped(limit) => ("idle_stopped", json!({"limit_ms": ms(*limit)})),
        What::RestartAsked => ("restart_asked", Value::Null),
        What::StopAsked => ("stop_asked", Value::Null),
        What::Stopped => ("stopped", Value::Null),
        What::EntryChanged => ("entry_changed", Value::Null),
        What::ActorFailed(text) => ("actor_failed", json!({"text": text.as_str()})),
    }
}

/// The whole answer for people.
pub fn why_text(view: &ServerView, whole: &WhyView, now: SystemTime, style: Style) -> String {
    let verdict = &whole.judged;
    let (_, tone) = state_word(view);
    let whose = match verdict.fault {
        Fault::Nobody => "nobody's",
        Fault::Server => "the server's",
        Fault::Config => "the configuration's",
        Fault::Network => "the network's",
        Fault::Host => "this host's",
        Fault::Caller => "the caller's",
    };
    let next = match verdict.next {
        Next::Nothing => String::new(),
        Next::At(what, at) => format!("{what} {}", until(at, now)),
        Next::WaitsFor(what) => format!("waits for {what}"),
    };
    let rows = [
        ("state", Field::toned(in_words(view, now), tone)),
        ("fault", Field::new(whose)),
        ("why", Field::new(&verdict.text)),
        ("next", Field::new(next)),
        ("sandbox", Field::new(view.sandbox.as_deref().unwrap_or_default())),
        ("fix", Field::toned(verdict.fix.clone().unwrap_or_default(), Tone::Good)),
    ];
    let mut parts = vec![format!(
        "{}\n{}",
        style.paint(Tone::Strong, &named(&view.id, view.label.as_deref())),
        sheet(&rows, style)
    )];
    parts.extend(whole.tool.as_ref().map(|tool| tool_text(tool, style)));
    parts.extend(timeline(view, style));
    parts.join("\n\n")
}

fn tool_text(tool: &ToolView, style: Style) -> String {
    let decision = match (tool.decision, &tool.text) {
        ("run", _) => format!("a call runs without a question ({})", tool.rule),
        ("ask", _) => format!("a call needs a person's yes ({})", tool.rule),
        (_, Some(text)) => text.clone(),
        (_, None) => format!("a call is refused ({})", tool.rule),
    };
    let tone = match tool.decision {
        "run" => Tone::Good,
        "ask" => Tone::Warn,
        _ => Tone::Bad,
    };
    let listing = match &tool.reason {
        Some(reason) => format!("{}: {reason}", tool.listing),
        None => tool.listing.to_owned(),
    };
    let rows = [
        ("tool", Field::toned(tool.name.as_str(), Tone::Strong)),
        ("shown as", Field::new(tool.exposed_name.clone().unwrap_or_default())),
        ("listing", Field::new(listing)),
        ("policy", Field::toned(decision, tone)),
        ("fix", Field::toned(tool.fix.clone().unwrap_or_default(), Tone::Good)),
    ];
    sheet(&rows, style)
}

fn timeline(view: &ServerView, style: Style) -> Option<String> {
    let history = view.whole_history();
    let begin = history.records().next()?.at;
    let records: Vec<&Record> = history.records().collect();
    let rows: Vec<(String, Field)> = folded(&records)
        .into_iter()
        .map(|row| match row {
            Row::One(record) => (when(record, begin), Field::toned(said(record), tone_of(&record.what))),
            Row::Rounds { rounds, last } => {
                let until = offset(last.last, begin);
                (
                    String::new(),
                    Field::toned(format!("… and {rounds} times more like that, until {until}"), Tone::Dim),
                )
            }
        })
        .collect();
    let rows: Vec<(&str, Field)> = rows.iter().map(|(at, field)| (at.as_str(), field.clone())).collect();
    let mut head = format!("timeline from {}", rfc3339(begin));
    if history.dropped() > 0 {
        head.push_str(&format!(
            ", {} before that left out",
            text::count(usize::try_from(history.dropped()).unwrap_or(usize::MAX), "event")
        ));
    }
    Some(format!("{}\n{}", style.paint(Tone::Dim, &head), sheet(&rows, style)))
}

/// When an event was, and on which connection.
fn when(record: &Record, begin: SystemTime) -> String {
    format!("{:>10}  g{}", offset(record.at, begin), record.generation)
}

fn offset(at: SystemTime, begin: SystemTime) -> String {
    let since = at.duration_since(begin).unwrap_or_default();
    match since.as_secs() {
        0..1_000 => format!("+{:.3} s", since.as_secs_f64()),
        s => format!("+{}", text::span(Duration::from_secs(s))),
    }
}

/// What an event says, several that were alike at once.
fn said(record: &Record) -> String {
    let span = record.last.duration_since(record.at).unwrap_or_default();
    let within = if span.is_zero() { String::new() } else { format!(" in {}", text::span(span)) };
    match (&record.what, record.times) {
        (What::Answered, n) => format!("{} answered{within}", calls(n)),
        (What::Refused, n) => format!("{} refused here, never sent{within}", calls(n)),
        (What::Stderr(lines), _) => {
            let lines: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
            format!("stderr: {}", lines.join("\n        "))
        }
        (what, 1) => what.to_string(),
        (what, n) => format!("{what} (× {n}{within})"),
    }
}

fn calls(n: u64) -> String {
    text::count(usize::try_from(n).unwrap_or(usize::MAX), "call")
}

fn tone_of(what: &What) -> Tone {
    match what {
        What::StartFailed { .. } | What::Lost { .. } | What::Parked { .. } | What::ActorFailed(_) => {
            Tone::Bad
        }
        What::Late(_)
        | What::ListFailed { .. }
        | What::BreakerOpened { .. }
        | What::CallFailed { .. }
        | What::Checked { lives: false, .. }
        | What::Paused(_) => Tone::Warn,
        What::Connected { .. } | What::BreakerClosed => Tone::Good,
        What::Stderr(_) => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// One line of the timeline.
#[derive(Debug, PartialEq, Eq)]
enum Row<'a> {
    One(&'a Record),
    /// So many rounds like the one before, with the last event of the last.
    Rounds {
        rounds: usize,
        last: &'a Record,
    },
}

/// The events with rounds left out that only repeat the one before: a round is a start and what came
/// of it. What the breaker did in them stays.
fn folded<'a>(records: &[&'a Record]) -> Vec<Row<'a>> {
    let rounds: Vec<&[&Record]> =
        records.chunk_by(|_, next| !matches!(next.what, What::Started(_))).collect();
    let mut rows = Vec::new();
    for alike in rounds.chunk_by(|a, b| is_alike(a, b)) {
        let shown = if alike.len() >= ROUNDS_MIN { 1 } else { alike.len() };
        rows.extend(alike[..shown].concat().into_iter().map(Row::One));
        let Some(last) = alike[shown..].last().and_then(|round| round.last()) else { continue };
        rows.extend(alike[shown..].concat().into_iter().filter(|record| is_of_breaker(record)).map(Row::One));
        rows.push(Row::Rounds { rounds: alike.len() - shown, last });
    }
    rows
}

fn is_of_breaker(record: &Record) -> bool {
    matches!(record.what, What::BreakerOpened { .. } | What::BreakerProbing | What::BreakerClosed)
}

fn is_alike(a: &[&Record], b: &[&Record]) -> bool {
    let same = |a: &What, b: &What| match (a, b) {
        (What::Started(_), What::Started(_))
        | (What::Spawned(_), What::Spawned(_))
        | (What::BackingOff(_), What::BackingOff(_)) => true,
        (What::Connected { revision: a, .. }, What::Connected { revision: b, .. }) => a == b,
        (a, b) => a == b,
    };
    let rest = |round: &[&Record]| -> Vec<What> {
        round.iter().filter(|record| !is_of_breaker(record)).map(|record| record.what.clone()).collect()
    };
    let (a, b) = (rest(a), rest(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
}

#[cfg(test)]
mod tests;
