//! The timeline and the JSON of `why`.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::call::{BreakerClass, Delivery, ErrorCode};
use crate::cli::status_view::tests::view;
use crate::id::Generation;
use crate::shaping::redact::Redactor;
use crate::view::history::{Cause, History, Line, StartWhy};
use crate::view::{ItemCounts, LifeState, ParkReason};

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn line(text: &str) -> Line {
    Line::new(&Redactor::default(), text)
}

const EXIT: Cause = Cause::Exited { code: Some(1), signal: None };

/// Six starts that fail, then given up.
fn crash_loop() -> ServerView {
    let mut history = History::default();
    for n in 0..6_u64 {
        let why = if n == 0 { StartWhy::Host } else { StartWhy::BackoffOver };
        let generation = Generation(n + 2);
        let mut note = |ms: u64, what| history.note(at(n * 1_000 + ms), generation, what);
        note(0, What::Started(why));
        note(4, What::Spawned(u32::try_from(n).unwrap() + 100));
        note(31, What::StartFailed { cause: EXIT, text: line("the server exited with code 1") });
        note(31, What::Stderr(Arc::from([line("loading"), line("boom")])));
        if n == 2 {
            note(31, What::BreakerOpened { failures: 3, open_for: Duration::from_secs(60), last: None });
        }
        note(
            32,
            match n {
                5 => What::Parked { reason: ParkReason::GivenUp, text: Some(line("5 starts in a row")) },
                n => What::BackingOff(Duration::from_millis(500 * n)),
            },
        );
    }
    let mut broken = view("fs", LifeState::Parked(ParkReason::GivenUp));
    broken.why = Some("gave up after 5 starts in a row: the server exited with code 1".into());
    broken.history = Arc::new(history);
    broken.since = at(5_032);
    broken
}

fn text(view: &ServerView, width: Option<u16>) -> String {
    let now = at(8_000);
    why_text(view, &WhyView::new(view, None, now), now, Style { color: false, width })
}

#[test]
fn a_crash_loop_reads_as_one_round_and_a_count() {
    assert_eq!(
        text(&crash_loop(), Some(90)),
        "fs\n\
         state  error (given up), since 2 s\n\
         fault  the server's\n\
         why    gave up after 5 starts in a row: the server exited with code 1\n\
         next   waits for a restart or a changed entry\n\
         fix    run its command by itself to see what it says; callboard mcp get fs shows it\n\n\
         timeline from 1970-01-01T00:00:00.000Z\n\
         \u{20} +0.000 s  g2  start: it is wanted\n\
         \u{20} +0.004 s  g2  process 100 runs\n\
         \u{20} +0.031 s  g2  start failed: the server exited with code 1\n\
         \u{20} +0.031 s  g2  stderr: loading\n\
         \u{20}                       boom\n\
         \u{20} +0.032 s  g2  the next start is at once\n\
         \u{20} +2.031 s  g4  breaker opened for 1m after 3 failures in a row\n\
         \u{20}               … and 4 times more like that, until +4.032 s\n\
         \u{20} +5.000 s  g7  start: the wait is over\n\
         \u{20} +5.004 s  g7  process 105 runs\n\
         \u{20} +5.031 s  g7  start failed: the server exited with code 1\n\
         \u{20} +5.031 s  g7  stderr: loading\n\
         \u{20}                       boom\n\
         \u{20} +5.032 s  g7  parked (given up): 5 starts in a row"
    );
}

#[test]
fn calls_are_counted_and_failures_are_folded() {
    let mut seen = view("fs", LifeState::Ready);
    let mut history = History::default();
    history.note(at(0), Generation(1), What::Listed(ItemCounts { tools: 3, ..ItemCounts::default() }));
    for n in 0..6 {
        let what = What::CallFailed {
            item: line("read"),
            code: ErrorCode::TimeoutIdle,
            delivery: Delivery::Unknown,
            class: BreakerClass::Neutral,
        };
        history.note(at(n * 2_400), Generation(1), what);
    }
    seen.history = Arc::new(history);
    seen.tally.answered(at(13_000));
    seen.tally.answered(at(15_000));
    let shown = text(&seen, None);
    assert!(shown.contains("lists read: 3 tools"), "{shown}");
    assert!(shown.contains("says nothing about the server (× 6 in 12 s)"), "{shown}");
    assert!(shown.contains("+13.000 s  g1  2 calls answered in 2 s"), "{shown}");
}

#[test]
fn the_json_has_everything_with_units_and_times() {
    let broken = crash_loop();
    let json = serde_json::to_value(WhyView::new(&broken, None, at(8_000))).unwrap();
    assert_eq!(json["verdict"]["fault"], "server");
    assert_eq!(json["verdict"]["next"], "waits_for");
    assert_eq!(json["healthy"], false);
    assert_eq!(json["status"]["state"], "parked");
    let events = json["events"].as_array().unwrap();
    assert_eq!((events.len(), &json["events_dropped"]), (31, &json!(0)), "nothing is folded for scripts");
    let expected = json!({"event": "spawned", "at": "1970-01-01T00:00:00.004Z", "last_at": "1970-01-01T00:00:00.004Z",
        "times": 1, "generation": 2, "text": "process 100 runs", "pid": 100});
    assert_eq!(events[1], expected);
    assert_eq!(events[3]["lines"], json!(["loading", "boom"]));
    assert_eq!(events[4]["wait_ms"], 0);
    assert!(json.get("tool").is_none());
}

#[test]
fn a_server_that_never_did_anything_has_no_timeline() {
    let off = view("fs", LifeState::Parked(ParkReason::Disabled));
    assert!(!text(&off, Some(80)).contains("timeline"));
}

#[test]
fn a_tool_says_which_rule_decides() {
    let tool = ToolView {
        name: "write".into(),
        exposed_name: Some("mcp__fs__write".into()),
        listing: "listed",
        reason: None,
        decision: "ask",
        rule: "mode readonly".into(),
        text: Some("write on fs needs approval".into()),
        fix: Some("answer y".into()),
    };
    let seen = view("fs", LifeState::Ready);
    let whole = WhyView::new(&seen, Some(tool), at(0));
    let shown = why_text(&seen, &whole, at(0), Style::PLAIN);
    assert!(shown.contains("shown as  mcp__fs__write") && shown.contains("(mode readonly)"), "{shown}");
    assert_eq!(serde_json::to_value(&whole).unwrap()["tool"]["decision"], "ask");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_line_is_wider_than_the_screen(width in 60_u16..140, why in "[ -~]{0,300}") {
        let mut broken = crash_loop();
        let mut history = (*broken.history).clone();
        history.note(at(9_000), Generation(9), What::StartFailed { cause: EXIT, text: line(&why) });
        broken.history = Arc::new(history);
        for shown in text(&broken, Some(width)).lines() {
            prop_assert!(shown.chars().count() <= usize::from(width), "{shown:?} at {width}");
        }
    }
}
