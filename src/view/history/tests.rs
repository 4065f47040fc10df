//! The bounds, the folding and the order of a history.

use proptest::prelude::*;

use super::*;
use crate::config::spec::SecretText;

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn line(text: &str) -> Line {
    Line::new(&Redactor::default(), text)
}

fn failed(item: &str, code: ErrorCode) -> What {
    What::CallFailed {
        item: line(item),
        code,
        delivery: Delivery::Unknown,
        class: if code == ErrorCode::InvalidArguments { BreakerClass::Neutral } else { BreakerClass::Trip },
    }
}

fn lost(calls: usize) -> What {
    What::Lost { cause: Cause::Closed, text: line("closed"), calls }
}

const ONE: Generation = Generation(1);

fn whats(history: &History) -> Vec<(u64, &What)> {
    history.records().map(|record| (record.times, &record.what)).collect()
}

#[test]
fn equal_failures_are_one_event_that_counts() {
    let mut history = History::default();
    for n in 0..6 {
        history.note(at(n * 2_000), ONE, failed("read", ErrorCode::TimeoutIdle));
        history.note(at(n * 2_000 + 1), ONE, failed("write", ErrorCode::HttpStatus));
    }
    assert_eq!(
        whats(&history),
        [(6, &failed("read", ErrorCode::TimeoutIdle)), (6, &failed("write", ErrorCode::HttpStatus))]
    );
    let first = history.records().next().unwrap();
    assert_eq!((first.at, first.last), (at(0), at(10_000)));
}

#[test]
fn nothing_is_folded_across_a_turn_in_its_life_or_another_connection() {
    let mut history = History::default();
    let timeout = failed("read", ErrorCode::TimeoutIdle);
    history.note(at(0), ONE, timeout.clone());
    history.note(at(1), ONE, What::BreakerProbing);
    history.note(at(2), ONE, timeout.clone());
    history.note(at(3), Generation(2), timeout.clone());
    assert_eq!(whats(&history), [(1, &timeout), (1, &What::BreakerProbing), (1, &timeout), (1, &timeout)]);
    history.note(at(4), Generation(2), What::RestartAsked);
    history.note(at(5), Generation(2), What::RestartAsked);
    assert_eq!(history.records().last().unwrap().times, 2);
}

#[test]
fn answered_calls_are_one_line_that_counts_up() {
    let mut tally = Tally::default();
    for n in 0..1_000 {
        tally.answered(at(n));
    }
    tally.refused(at(2_000));
    let mut history = History::default();
    history.note(at(0), ONE, What::Spawned(7));
    assert_eq!(history.with(tally, ONE).records().len(), 3);
    history.take(tally, ONE);
    history.note(at(3_000), ONE, failed("read", ErrorCode::HttpStatus));
    let mut more = Tally::default();
    more.answered(at(4_000));
    history.take(more, ONE);
    assert_eq!(
        whats(&history),
        [
            (1, &What::Spawned(7)),
            (1_001, &What::Answered),
            (1, &What::Refused),
            (1, &failed("read", ErrorCode::HttpStatus))
        ]
    );
    history.take(Tally::default(), ONE);
    assert_eq!(history.records().len(), 4, "nothing counted is no event");
}

#[test]
fn what_ended_the_calls_stands_before_their_failures() {
    let mut history = History::default();
    history.note(at(0), ONE, failed("read", ErrorCode::TimeoutIdle));
    history.note(at(5), ONE, failed("read", ErrorCode::ConnectionLost));
    history.note(at(6), ONE, failed("write", ErrorCode::ConnectionLost));
    history.note(at(7), ONE, lost(2));
    let codes: Vec<&What> = history.records().map(|record| &record.what).collect();
    assert_eq!(codes[1], &lost(2));
    assert!(history.records().zip(history.records().skip(1)).all(|(a, b)| a.at <= b.at));
    assert_eq!(history.last_end().map(|record| &record.what), Some(&lost(2)));
}

#[test]
fn what_counted_for_the_breaker_is_found() {
    let mut history = History::default();
    assert_eq!(history.last_counted(), None);
    history.note(at(0), ONE, failed("read", ErrorCode::HttpStatus));
    history.note(at(1), ONE, failed("read", ErrorCode::InvalidArguments));
    history.note(at(2), ONE, What::Checked { lives: true, calls: 1 });
    history.note(at(3), ONE, What::StartFailed { cause: Cause::Throttled, text: line("asks to wait 2s") });
    assert_eq!(history.last_counted().map(|record| record.at), Some(at(0)));
    history.note(at(4), ONE, What::Checked { lives: false, calls: 2 });
    assert_eq!(history.last_counted().map(|record| record.at), Some(at(4)));
}

#[test]
fn secrets_and_escape_sequences_never_get_in() {
    let redactor = Redactor::new(&[SecretText::new("s3cr3t-value-1")]);
    for text in ["\u{1b}[31mkey s3cr3t-value-1\u{1b}[0m", "key s3cr3t-\u{1b}[1mvalue-1"] {
        let shown = Line::new(&redactor, text);
        assert_eq!(shown.as_str(), "key [redacted]", "{text:?}");
    }
    let long = Line::new(&redactor, &"x ".repeat(10_000));
    assert!(long.as_str().chars().count() <= LINE_WIDTH_MAX);
    assert!(!Line::new(&redactor, "two\nlines").as_str().contains('\n'));
}

fn any_what() -> impl Strategy<Value = What> {
    let text = || (0_usize..600).prop_map(|len| line(&"x".repeat(len)));
    prop_oneof![
        Just(What::Answered),
        Just(What::BreakerProbing),
        Just(What::Started(StartWhy::BackoffOver)),
        (0_u32..5).prop_map(What::Spawned),
        text().prop_map(|text| What::StartFailed { cause: Cause::Network, text }),
        text().prop_map(|text| What::Lost { cause: Cause::Closed, text, calls: 1 }),
        proptest::collection::vec(text(), 0..6).prop_map(|lines| What::Stderr(lines.into())),
        ("[a-d]", 0_usize..ErrorCode::ALL.len()).prop_map(|(item, n)| failed(&item, ErrorCode::ALL[n])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_never_grows_beyond_its_bounds_and_loses_no_count(
        events in proptest::collection::vec((any_what(), 0_u64..3), 0..600)
    ) {
        let mut history = History::default();
        for (n, (what, generation)) in events.iter().enumerate() {
            history.note(at(n as u64), Generation(*generation), what.clone());
            prop_assert!(history.records().len() <= EVENTS_MAX && history.bytes <= BYTES_MAX);
        }
        let bytes: usize = history.records().map(Record::bytes).sum();
        prop_assert_eq!(bytes, history.bytes);
        let kept: u64 = history.records().map(|record| record.times).sum();
        prop_assert_eq!(kept + history.dropped(), events.len() as u64);
        prop_assert!(history.records().zip(history.records().skip(1)).all(|(a, b)| a.at <= b.at));
        prop_assert!(history.records().all(|record| record.at <= record.last));
    }
}
