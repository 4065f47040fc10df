//! Floor 5. How servers look in `status`: the JSON shape, the table, the sheet of one
//! server, and what counts as healthy. Pure: takes `now`. Used by `status` and `watch`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::out::{Style, Tone};
use super::table::{Column, Field, sheet, table};
use super::text;
use crate::shaping::render::one_line;
use crate::time::rfc3339;
use crate::view::{BreakerState, LifeState, ParkReason, ServerView, named};

/// Bytes of a definition that make about one token of a model.
const BYTES_PER_TOKEN: u64 = 4;

/// One server in `--json`.
#[derive(Debug, Serialize)]
pub struct StatusRow {
    name: String,
    label: Option<String>,
    state: &'static str,
    reason: Option<&'static str>,
    healthy: bool,
    since: String,
    why: Option<String>,
    detail: Option<String>,
    fix: Option<String>,
    next_attempt: Option<String>,
    late: bool,
    generation: u64,
    restarts: u32,
    breaker: &'static str,
    breaker_failures: u32,
    breaker_until: Option<String>,
    paused_until: Option<String>,
    pid: Option<u32>,
    guard_pid: Option<u32>,
    sandbox: Option<String>,
    transport: &'static str,
    revision: Option<&'static str>,
    server_info: Option<String>,
    trust: &'static str,
    required: bool,
    tools: usize,
    tools_quarantined: usize,
    tools_held: usize,
    tools_with_hidden_characters: usize,
    tools_filtered: usize,
    resources: usize,
    resource_templates: usize,
    prompts: usize,
    definition_bytes: u64,
    definition_tokens_estimate: u64,
    in_flight: usize,
    queued: usize,
    calls_ok: u64,
    calls_failed: u64,
    start_took_ms: Option<u64>,
    last_stderr: Option<String>,
    stderr_tail: Vec<String>,
    warnings: Vec<String>,
}

impl From<&ServerView> for StatusRow {
    fn from(view: &ServerView) -> Self {
        Self {
            name: view.id.as_str().to_owned(),
            label: view.label.clone(),
            state: view.state.as_str(),
            reason: reason(view.state).map(ParkReason::as_str),
            healthy: is_healthy(view.state),
            since: rfc3339(view.since),
            why: view.why.clone(),
            detail: view.detail.clone(),
            fix: view.fix.clone(),
            next_attempt: view.next_attempt.map(rfc3339),
            late: view.late,
            generation: view.generation.0,
            restarts: view.restarts,
            breaker: view.breaker.state.as_str(),
            breaker_failures: view.breaker.failures,
            breaker_until: view.breaker.until.map(rfc3339),
            paused_until: view.paused_until.map(rfc3339),
            pid: view.pid,
            guard_pid: view.guard_pid,
            sandbox: view.sandbox.as_deref().map(str::to_owned),
            transport: view.transport,
            revision: view.revision,
            server_info: view.server_info.clone(),
            trust: view.trust.as_str(),
            required: view.required,
            tools: view.counts.tools,
            tools_quarantined: view.counts.quarantined,
            tools_held: view.counts.held,
            tools_with_hidden_characters: view.counts.unseen,
            tools_filtered: view.counts.filtered,
            resources: view.counts.resources,
            resource_templates: view.counts.templates,
            prompts: view.counts.prompts,
            definition_bytes: view.definition_bytes,
            definition_tokens_estimate: tokens(view.definition_bytes),
            in_flight: view.in_flight,
            queued: view.queued,
            calls_ok: view.calls_ok,
            calls_failed: view.calls_failed,
            start_took_ms: view.start_took.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            last_stderr: view.last_stderr.clone(),
            stderr_tail: view.stderr_tail.clone(),
            warnings: view.warnings.clone(),
        }
    }
}

fn tokens(definition_bytes: u64) -> u64 {
    definition_bytes.div_ceil(BYTES_PER_TOKEN)
}

fn reason(state: LifeState) -> Option<ParkReason> {
    match state {
        LifeState::Parked(reason) => Some(reason),
        _ => None,
    }
}

/// Whether a server can be used right now, or at its first use.
pub fn is_healthy(state: LifeState) -> bool {
    matches!(state, LifeState::Ready | LifeState::Dormant)
}

/// Whether a server is as its owner wants it: what is off, or waits for an approval, is not
/// expected to run, unless it is a required one.
pub fn is_expected(view: &ServerView) -> bool {
    let rests = matches!(
        view.state,
        LifeState::Parked(ParkReason::Disabled | ParkReason::PendingApproval) | LifeState::Stopped
    );
    is_healthy(view.state) || (rests && !view.required)
}

/// The word and tone of a state in tables.
pub fn state_word(view: &ServerView) -> (&'static str, Tone) {
    match view.state {
        LifeState::Ready => ("ready", Tone::Good),
        LifeState::Dormant => ("dormant", Tone::Dim),
        LifeState::Connecting if view.late => ("late", Tone::Warn),
        LifeState::Connecting => ("connecting", Tone::Warn),
        LifeState::BackingOff => ("backing off", Tone::Warn),
        LifeState::Draining => ("draining", Tone::Warn),
        LifeState::Stopped => ("stopped", Tone::Dim),
        LifeState::Parked(ParkReason::Disabled) => ("off", Tone::Dim),
        LifeState::Parked(ParkReason::PendingApproval) => ("pending", Tone::Warn),
        LifeState::Parked(ParkReason::NeedsAuth) => ("needs auth", Tone::Warn),
        LifeState::Parked(ParkReason::ConfigError | ParkReason::GivenUp) => ("error", Tone::Bad),
    }
}

const COLUMNS: [Column; 8] = [
    Column::wide("server", 8),
    Column::wide("state", 10),
    Column::number("tools"),
    Column::number("tokens≈"),
    Column::number("restarts"),
    Column::wide("revision", 10),
    Column::number("pid"),
    WHY,
];

const WHY: Column = Column::wide("why", 16);

/// Columns that a narrow screen goes without: the first of these first.
const DISPENSABLE: [&str; 4] = ["pid", "revision", "tokens≈", "restarts"];

/// All servers, one line each. A screen gets only the columns that fit; below them it is told
/// what is wrong with whom and what cures it, and a sum.
pub fn table_text(views: &[ServerView], now: SystemTime, style: Style) -> String {
    let rows: Vec<Vec<Field>> = views.iter().map(|view| row(view, now)).collect();
    let Some(width) = style.width else { return table(&COLUMNS, &rows, style) };
    let mut parts = vec![fitting(&rows, usize::from(width), style)];
    let notes: Vec<(&str, Field)> = views.iter().flat_map(|view| notes(view, now)).collect();
    if !notes.is_empty() {
        parts.push(sheet(&notes, style));
    }
    // In one line, or `--watch` could not draw over it.
    parts.push(style.paint(Tone::Dim, &one_line(&sum(views), usize::from(width).saturating_sub(1))));
    parts.join("\n\n")
}

/// The table without what is told below it, and without columns for which there is no room.
fn fitting(rows: &[Vec<Field>], width: usize, style: Style) -> String {
    let mut left_out = vec![WHY.head];
    let mut dispensable = DISPENSABLE.into_iter();
    loop {
        let kept = |i: usize| COLUMNS.get(i).is_some_and(|column| !left_out.contains(&column.head));
        let columns: Vec<Column> = COLUMNS.into_iter().filter(|c| !left_out.contains(&c.head)).collect();
        let rows: Vec<Vec<Field>> = rows
            .iter()
            .map(|row| row.iter().enumerate().filter(|(i, _)| kept(*i)).map(|(_, f)| f.clone()).collect())
            .collect();
        let unbound = Style { width: Some(u16::MAX), ..style };
        let natural = table(&columns, &rows, Style { color: false, ..unbound });
        // The last cell has a blank behind it.
        let fits = natural.lines().all(|line| UnicodeWidthStr::width(line) < width);
        if fits {
            return table(&columns, &rows, unbound);
        }
        match dispensable.next() {
            Some(next) => left_out.push(next),
            None => return table(&columns, &rows, style),
        }
    }
}

/// What is wrong with a server or odd about it, and what cures it, below its name.
fn notes(view: &ServerView, now: SystemTime) -> Vec<(&str, Field)> {
    let why = why(view, now);
    if why.is_empty() {
        return Vec::new();
    }
    let fix = view.fix.iter().map(|fix| ("", Field::toned(format!("fix: {fix}"), Tone::Good)));
    std::iter::once((view.id.as_str(), Field::new(why))).chain(fix).collect()
}

fn row(view: &ServerView, now: SystemTime) -> Vec<Field> {
    let (word, tone) = state_word(view);
    let listed = view.listed || view.counts.tools > 0;
    let number = |n: u64| Field::new(if listed { n.to_string() } else { String::new() });
    vec![
        Field::toned(named(&view.id, view.label.as_deref()), Tone::Strong),
        Field::toned(word, tone),
        number(view.counts.tools as u64),
        number(tokens(view.definition_bytes)),
        Field::toned(view.restarts.to_string(), if view.restarts > 0 { Tone::Warn } else { Tone::Plain }),
        Field::new(view.revision.unwrap_or_default()),
        Field::new(view.pid.map(|pid| pid.to_string()).unwrap_or_default()),
        Field::new(why(view, now)),
    ]
}

/// What needs saying about a server in one line: the cause, the last words of its stderr when it
/// does not work, or what is odd about a server that does.
fn why(view: &ServerView, now: SystemTime) -> String {
    let mut parts = Vec::new();
    if view.required && !is_healthy(view.state) {
        parts.push("required".to_owned());
    }
    if let Some(why) = &view.why {
        parts.push(why.clone());
    }
    if !is_expected(view)
        && let Some(line) = &view.last_stderr
        && !view.why.as_ref().is_some_and(|why| why.contains(line.as_str()))
    {
        parts.push(format!("stderr: {line}"));
    }
    parts.extend(view.next_attempt.map(|at| format!("next start {}", until(at, now))));
    parts.extend(held_back(view, now));
    if view.counts.quarantined > 0 {
        parts.push(format!("{} skipped", text::count(view.counts.quarantined, "bad tool")));
    }
    if view.counts.held > 0 {
        parts.push(format!("{} held", text::count(view.counts.held, "tool")));
    }
    if view.counts.unseen > 0 {
        parts.push(format!("{} with hidden characters", text::count(view.counts.unseen, "tool")));
    }
    if let (LifeState::Ready, Some(warning)) = (view.state, view.warnings.first()) {
        parts.push(warning.clone());
    }
    parts.join("; ")
}

/// A breaker or a pause that stands between a server and its calls.
fn held_back(view: &ServerView, now: SystemTime) -> Option<String> {
    match (view.breaker.state_at(now), view.breaker.until) {
        (BreakerState::Open, Some(at)) => Some(format!("breaker open, next try {}", until(at, now))),
        (BreakerState::Open, None) => Some("breaker open".to_owned()),
        (BreakerState::HalfOpen, _) => Some("breaker half-open, the next call decides".to_owned()),
        (BreakerState::Closed, _) => {
            let paused = view.paused_until.filter(|at| *at > now)?;
            Some(format!("asked to be left alone, goes on {}", until(paused, now)))
        }
    }
}

/// Whether what is shown of a server counts down to an instant that is still ahead.
pub fn counts_down(view: &ServerView, now: SystemTime) -> bool {
    [view.next_attempt, view.breaker.until, view.paused_until].into_iter().flatten().any(|at| at > now)
}

fn sum(views: &[ServerView]) -> String {
    let mut words: Vec<(&str, usize)> = Vec::new();
    for view in views {
        let word = state_word(view).0;
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, n)) => *n += 1,
            None => words.push((word, 1)),
        }
    }
    let states: Vec<String> = words.iter().map(|(word, n)| format!("{n} {word}")).collect();
    let tools: usize = views.iter().map(|v| v.counts.tools).sum();
    let cost: u64 = views.iter().map(|v| tokens(v.definition_bytes)).sum();
    format!("{} · {} · about {cost} tokens of definitions", states.join(", "), text::count(tools, "tool"))
}

/// The state with its reason, and since when.
pub fn in_words(view: &ServerView, now: SystemTime) -> String {
    let (word, _) = state_word(view);
    let ago = now.duration_since(view.since).unwrap_or_default();
    let state = match reason(view.state) {
        Some(ParkReason::Disabled) | None => word.to_owned(),
        Some(reason) => {
            let reason = reason.as_str().replace('_', " ");
            if reason.starts_with(word) { reason } else { format!("{word} ({reason})") }
        }
    };
    state + &since(ago)
}

/// One server with everything that is known of it.
pub fn sheet_text(view: &ServerView, now: SystemTime, style: Style) -> String {
    let (_, tone) = state_word(view);
    let rows = [
        ("state", Field::toned(in_words(view, now), tone)),
        ("why", Field::new(view.why.clone().unwrap_or_default())),
        ("fix", Field::toned(view.fix.clone().unwrap_or_default(), Tone::Good)),
        ("next attempt", Field::new(view.next_attempt.map(|at| until(at, now)).unwrap_or_default())),
        ("server", Field::new(view.server_info.clone().unwrap_or_default())),
        ("transport", Field::new(transport(view))),
        ("revision", Field::new(view.revision.unwrap_or_default())),
        ("offers", Field::new(if view.listed { offers(view) } else { String::new() })),
        ("definitions", Field::new(definitions(view))),
        ("start took", Field::new(view.start_took.map(text::span).unwrap_or_default())),
        ("restarts", Field::new(restarts(view))),
        ("breaker", Field::toned(breaker(view, now), Tone::Warn)),
        ("paused", Field::toned(paused(view, now), Tone::Warn)),
        ("calls", Field::new(calls(view))),
        ("sandbox", Field::new(view.sandbox.as_deref().unwrap_or_default())),
        ("trust", Field::new(view.trust.as_str())),
        ("required", Field::new(if view.required { "yes" } else { "" })),
        (stderr_head(view), Field::new(stderr(view))),
        ("warnings", Field::toned(view.warnings.join("\n"), Tone::Warn)),
    ];
    format!("{}\n{}", style.paint(Tone::Strong, &named(&view.id, view.label.as_deref())), sheet(&rows, style))
}

/// The circuit breaker, when there is something to say.
fn breaker(view: &ServerView, now: SystemTime) -> String {
    match (view.breaker.state_at(now), view.breaker.until) {
        (BreakerState::Closed, _) if view.breaker.failures == 0 => String::new(),
        (BreakerState::Closed, _) => {
            format!("closed, {} in a row", text::count(view.breaker.failures as usize, "failure"))
        }
        (BreakerState::Open, Some(at)) => format!("open: calls are refused, the next try {}", until(at, now)),
        (BreakerState::Open | BreakerState::HalfOpen, _) => "half-open: the next call is a probe".to_owned(),
    }
}

/// The pause that the server asked for, while it lasts.
fn paused(view: &ServerView, now: SystemTime) -> String {
    let until_then = view.paused_until.filter(|at| *at > now);
    until_then.map(|at| format!("calls go out again {}", until(at, now))).unwrap_or_default()
}

/// The kept end of stderr, or the last line where that is all there is.
fn stderr(view: &ServerView) -> String {
    match view.stderr_tail.as_slice() {
        [] | [_] => view.last_stderr.clone().unwrap_or_default(),
        lines => lines.join("\n"),
    }
}

fn stderr_head(view: &ServerView) -> &'static str {
    if view.stderr_tail.len() > 1 { "stderr, end" } else { "last stderr" }
}

fn since(ago: Duration) -> String {
    if ago.as_secs() == 0 { String::new() } else { format!(", since {}", text::span(whole(ago))) }
}

fn whole(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs())
}

/// How far away an instant is.
pub fn until(at: SystemTime, now: SystemTime) -> String {
    match at.duration_since(now) {
        Ok(left) => format!("in {}", text::span(whole(left))),
        Err(_) => "now".to_owned(),
    }
}

fn transport(view: &ServerView) -> String {
    match (view.pid, view.guard_pid) {
        (Some(pid), Some(guard)) => format!("{}, pid {pid}, below guard {guard}", view.transport),
        (Some(pid), None) => format!("{}, pid {pid}", view.transport),
        (None, _) => view.transport.to_owned(),
    }
}

fn offers(view: &ServerView) -> String {
    let c = view.counts;
    let mut parts = vec![text::count(c.tools, "tool")];
    let more = [
        (c.quarantined, "bad tool", " skipped"),
        (c.held, "tool", " held"),
        (c.unseen, "tool", " with hidden characters (callboard mcp tools -v)"),
        (c.filtered, "tool", " filtered out"),
        (c.resources, "resource", ""),
        (c.templates, "resource template", ""),
        (c.prompts, "prompt", ""),
    ];
    for (n, word, after) in more {
        if n > 0 {
            parts.push(format!("{}{after}", text::count(n, word)));
        }
    }
    parts.join(", ")
}

fn definitions(view: &ServerView) -> String {
    if view.definition_bytes == 0 {
        return String::new();
    }
    format!("{}, about {} tokens", text::bytes(view.definition_bytes), tokens(view.definition_bytes))
}

fn restarts(view: &ServerView) -> String {
    if view.restarts == 0 { String::new() } else { view.restarts.to_string() }
}

fn calls(view: &ServerView) -> String {
    let mut parts = Vec::new();
    for (n, word) in [
        (view.calls_ok, "answered"),
        (view.calls_failed, "failed"),
        (view.in_flight as u64, "running"),
        (view.queued as u64, "waiting"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    use crate::id::{Generation, ServerId};
    use crate::view::ItemCounts;
    use proptest::prelude::*;

    pub(crate) fn view(name: &str, state: LifeState) -> ServerView {
        ServerView {
            listed: true,
            generation: Generation(1),
            pid: Some(4711),
            revision: Some("2025-06-18"),
            server_info: Some("git 1.2".into()),
            counts: ItemCounts { tools: 12, ..ItemCounts::default() },
            definition_bytes: 4001,
            start_took: Some(Duration::from_millis(340)),
            ..ServerView::unknown(ServerId::new(name), "stdio", state, SystemTime::UNIX_EPOCH)
        }
    }

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn broken() -> ServerView {
        let mut view = view("fs", LifeState::Parked(ParkReason::ConfigError));
        view.why = Some("command not found: npx".into());
        view.fix = Some("install Node".into());
        view.last_stderr = Some("sh: npx: not found".into());
        view.pid = None;
        view.revision = None;
        view.generation = Generation(0);
        view.listed = false;
        view.counts = ItemCounts::default();
        view.definition_bytes = 0;
        view
    }

    #[test]
    fn a_pipe_gets_one_line_per_server_in_stable_columns() {
        let text = table_text(&[broken(), view("git", LifeState::Ready)], NOW, Style::PLAIN);
        assert_eq!(
            text,
            "server  state  tools  tokens≈  restarts  revision     pid  why\n\
             fs      error      -        -         0  -              -  command not found: npx; stderr: sh: npx: not found\n\
             git     ready     12     1001         0  2025-06-18  4711  -"
        );
    }

    #[test]
    fn a_screen_gets_a_sum_and_lines_that_fit() {
        let style = Style { color: false, width: Some(100) };
        let text = table_text(&[broken(), view("git", LifeState::Ready)], NOW, style);
        assert!(text.ends_with("1 error, 1 ready · 12 tools · about 1001 tokens of definitions"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn a_screen_is_told_causes_and_cures_below_the_table() {
        let text = |width| {
            table_text(
                &[broken(), view("git", LifeState::Ready)],
                NOW,
                Style { color: false, width: Some(width) },
            )
        };
        assert_eq!(
            text(80),
            "server  state     tools  tokens≈  restarts  revision     pid\n\
             fs      error                            0\n\
             git     ready        12     1001         0  2025-06-18  4711\n\n\
             fs  command not found: npx; stderr: sh: npx: not found\n    \
             fix: install Node\n\n\
             1 error, 1 ready · 12 tools · about 1001 tokens of definitions"
        );
        for (width, gone) in [(61, &[][..]), (60, &["pid"]), (50, &["pid", "revision"]), (30, &DISPENSABLE)] {
            let text = text(width);
            let head = text.lines().next().unwrap();
            for column in DISPENSABLE {
                assert_eq!(head.contains(column), !gone.contains(&column), "{column} at {width}:\n{text}");
            }
        }
    }

    #[test]
    fn what_comes_next_is_counted_down_where_it_matters() {
        let in_s = |s: u64| Some(NOW + Duration::from_secs(s));
        let mut waits = view("fs", LifeState::BackingOff);
        waits.why = Some("the server exited with code 1".into());
        waits.next_attempt = in_s(4);
        waits.restarts = 3;
        let mut open = view("git", LifeState::Ready);
        open.breaker = crate::view::BreakerView { state: BreakerState::Open, failures: 3, until: in_s(42) };
        let paused = ServerView { paused_until: in_s(20), ..view("web", LifeState::Ready) };
        let views = [waits, open, paused];
        for width in [80, 40] {
            let style = Style { color: false, width: Some(width) };
            let text = table_text(&views, NOW, style);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [
                "fs the server exited with code 1; next start in 4 s",
                "git breaker open, next try in 42 s",
                "web asked to be left alone, goes on in 20 s",
            ] {
                assert!(flat.contains(part), "{part:?} at {width}:\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            let later = table_text(&views, NOW + Duration::from_secs(1), style);
            assert!(later.contains("in 3 s") && later.contains("in 41 s"), "{later}");
            assert_eq!(later.lines().count(), text.lines().count());
        }
        assert!(views.iter().all(|view| counts_down(view, NOW)));
        assert!(!views.iter().any(|view| counts_down(view, NOW + Duration::from_secs(42))));
        let half = table_text(&views, NOW + Duration::from_secs(50), Style::PLAIN);
        assert!(half.contains("breaker half-open") && !half.contains("left alone"), "{half}");
    }

    #[test]
    fn the_json_has_units_in_its_keys_and_rfc_3339_times() {
        let row = StatusRow::from(&broken());
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["state"], "parked");
        assert_eq!(json["reason"], "config_error");
        assert_eq!(json["since"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json["start_took_ms"], 340);
        assert_eq!(json["healthy"], false);
    }

    #[test]
    fn every_state_has_its_word() {
        let word = |state| state_word(&view("x", state)).0;
        assert_eq!(word(LifeState::Parked(ParkReason::GivenUp)), "error");
        assert_eq!(word(LifeState::Parked(ParkReason::ConfigError)), "error");
        assert_eq!(word(LifeState::Parked(ParkReason::NeedsAuth)), "needs auth");
        assert_eq!(word(LifeState::Parked(ParkReason::Disabled)), "off");
        assert_eq!(word(LifeState::Parked(ParkReason::PendingApproval)), "pending");
        let mut late = view("x", LifeState::Connecting);
        late.late = true;
        assert_eq!(state_word(&late).0, "late");
    }

    #[test]
    fn what_is_off_on_purpose_makes_no_status_unhealthy() {
        let expected = |state, required| is_expected(&ServerView { required, ..view("x", state) });
        for state in [LifeState::Ready, LifeState::Dormant] {
            assert!(expected(state, false) && expected(state, true), "{state:?}");
        }
        for reason in [ParkReason::Disabled, ParkReason::PendingApproval] {
            let state = LifeState::Parked(reason);
            assert!(expected(state, false) && !is_healthy(state), "{state:?}");
            assert!(!expected(state, true), "a required server must be usable: {state:?}");
        }
        for state in [LifeState::Connecting, LifeState::BackingOff, LifeState::Parked(ParkReason::NeedsAuth)]
        {
            assert!(!expected(state, false) && !expected(state, true), "{state:?}");
        }
    }

    #[test]
    fn a_required_server_that_is_not_usable_says_that_it_is_required() {
        let mut off = view("db", LifeState::Parked(ParkReason::Disabled));
        (off.required, off.why) = (true, Some("turned off in user (f)".into()));
        assert_eq!(why(&off, NOW), "required; turned off in user (f)");
        off.state = LifeState::Ready;
        off.why = None;
        assert_eq!(why(&off, NOW), "");
    }

    #[test]
    fn a_label_stands_beside_the_name() {
        let labelled = ServerView { label: Some("My files".into()), ..view("fs", LifeState::Ready) };
        let table = table_text(std::slice::from_ref(&labelled), NOW, Style::PLAIN);
        assert!(table.lines().nth(1).unwrap().starts_with("fs (My files)  ready"), "{table}");
        let sheet = sheet_text(&labelled, SystemTime::UNIX_EPOCH, Style::PLAIN);
        assert!(sheet.starts_with("fs (My files)\n"), "{sheet}");
        let json = serde_json::to_value(StatusRow::from(&labelled)).unwrap();
        assert_eq!((json["name"].as_str(), json["label"].as_str()), (Some("fs"), Some("My files")));
    }

    #[test]
    fn a_sheet_tells_cause_cure_and_last_words() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(75);
        let text = sheet_text(&broken(), now, Style::PLAIN);
        for part in ["fs\n", "error (config error), since 1m 15s", "command not found: npx", "install Node"] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(text.contains("last stderr  sh: npx: not found"), "{text}");
        let mut talker = broken();
        talker.stderr_tail = vec!["first".into(), "sh: npx: not found".into()];
        let text = sheet_text(&talker, SystemTime::UNIX_EPOCH, Style::PLAIN);
        assert!(text.contains("stderr, end  first\n             sh: npx: not found"), "{text}");
    }

    proptest! {
        #[test]
        fn no_status_is_wider_than_the_screen(width in 60_u16..160, why in "[ -~]{0,200}", name in "[a-z]{1,12}") {
            let mut one = view(&name, LifeState::BackingOff);
            one.why = Some(why);
            let style = Style { color: false, width: Some(width) };
            for line in table_text(std::slice::from_ref(&one), NOW, style).lines() {
                prop_assert!(line.chars().count() <= usize::from(width), "{line:?} at {width}");
            }
        }
    }
}
