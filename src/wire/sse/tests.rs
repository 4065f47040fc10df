//! Tests of `wire::sse`: its promises and the inputs that broke others.

use proptest::prelude::*;

use super::*;
use crate::wire::fuzz_checks;

fn decode(event_max: usize, input: &[u8], cuts: &[usize]) -> Vec<SseItem> {
    let mut decoder = SseDecoder::new(event_max);
    let mut items = Vec::new();
    let mut rest = input;
    for &cut in cuts.iter().chain([&usize::MAX]) {
        let (piece, later) = rest.split_at(cut.min(rest.len()));
        rest = later;
        items.extend(decoder.push(piece));
        assert!(decoder.size() <= event_max + 1 + RETRY_DIGITS_MAX, "{} bytes are kept", decoder.size());
    }
    items
}

fn event(event: &str, data: &str, id: Option<&str>) -> SseItem {
    SseItem::Event {
        event: event.to_owned(),
        data: Bytes::copy_from_slice(data.as_bytes()),
        id: id.map(str::to_owned),
    }
}

fn too_long(head: &str) -> SseItem {
    SseItem::TooLong { head: Bytes::copy_from_slice(head.as_bytes()) }
}

#[test]
fn every_line_end_and_every_cut_gives_the_same_events() {
    let lines = "\u{feff}: hello||event: message|id: 1|data: {\"a\":|data:1}|||data|data||retry: 250|foo: bar|id|data:  x||";
    let expected = [
        SseItem::Comment,
        event("message", "{\"a\":\n1}", Some("1")),
        event("", "\n", None),
        SseItem::Retry(250),
        event("", " x", Some("")),
    ];
    for end in ["\n", "\r\n", "\r"] {
        let input = lines.replace('|', end).into_bytes();
        for cut in 0..=input.len() {
            assert_eq!(decode(100, &input, &[cut]), expected, "{end:?} {cut}");
        }
        assert_eq!(decode(100, &input, &vec![1; input.len()]), expected);
    }
}

#[test]
fn fields_follow_the_standard() {
    for (input, expected) in [
        ("data\n\n", vec![event("", "", None)]),
        ("data:\n\n", vec![event("", "", None)]),
        ("event: x\n\ndata: 1\n\n", vec![event("", "1", None)]),
        ("event: x\nevent: y\ndata: 1\n\ndata: 2\n\n", vec![event("y", "1", None), event("", "2", None)]),
        ("id: 5\n\ndata: 1\n\ndata: 2\n\n", vec![event("", "1", Some("5")), event("", "2", None)]),
        ("id: 1\nid: 2\0\ndata: 1\n\n", vec![event("", "1", Some("1"))]),
        ("id: a:b\ndata: c: d\n\n", vec![event("", "c: d", Some("a:b"))]),
        ("Data: 1\n data: 2\ndata : 3\ndatas: 4\n\n", vec![]),
        ("data: 1\n", vec![]),
        ("data: 1", vec![]),
        ("retry: 1s\nretry:\nretry: -1\nretry: 99999999999999999999\nretry:007\n", vec![SseItem::Retry(7)]),
        (":\n:a\n", vec![SseItem::Comment, SseItem::Comment]),
        ("data: 漢é🎉\n\n", vec![event("", "漢é🎉", None)]),
        ("data: \u{feff}\n\n", vec![event("", "\u{feff}", None)]),
    ] {
        assert_eq!(decode(100, input.as_bytes(), &[]), expected, "{input:?}");
    }
}

#[test]
fn bytes_that_only_begin_like_a_bom_are_text() {
    assert_eq!(decode(9, b"\xef\xbbdata: 1\n\ndata: 2\n\n", &[1]), [event("", "2", None)]);
    assert_eq!(decode(9, b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", &[2]), [event("", "2", None)]);
}

#[test]
fn an_event_over_the_cap_is_reported_once_and_the_next_one_is_read() {
    let next = event("", "ok", None);
    for (input, head) in [
        ("data: 12345\n\ndata: ok\n\n", "1234"),
        ("data: 12\ndata: 345\ndata: 6\nevent: zzzzzz\nid: zzzzzz\n\ndata: ok\n\n", "12\n3"),
        ("data: 1234\ndata\n\ndata: ok\n\n", "1234\n"),
        ("event: 12345\n\ndata: ok\n\n", ""),
        ("id: 12345\n\ndata: ok\n\n", ""),
        ("data: 12\nid: 345\n\ndata: ok\n\n", "12"),
    ] {
        for cut in 0..input.len() {
            assert_eq!(
                decode(4, input.as_bytes(), &[cut]),
                [too_long(head), next.clone()],
                "{input:?} {cut}"
            );
        }
    }
    assert_eq!(
        decode(4, b"data: 1234\n\n: long comment\nunknown: long value\ndata: 1\n\n", &[]),
        [event("", "1234", None), SseItem::Comment, event("", "1", None)]
    );
}

#[test]
fn what_the_end_cuts_off_is_not_dispatched_and_can_be_asked_for_once() {
    let cases: [(&str, Option<&str>); 7] = [
        ("data: a", Some("a")),
        ("data: a\n", Some("a")),
        ("data: a\ndata: b\r\nid: 1", Some("a\nb")),
        ("data: a\n\n", None),
        ("data: a\n\ndat", None),
        (": comment", None),
        ("data: more than twenty bytes are over the cap", None),
    ];
    for (input, held) in cases {
        let mut decoder = SseDecoder::new(20);
        let events = decoder.push(input.as_bytes());
        let dispatched = events.iter().any(|item| matches!(item, SseItem::Event { .. }));
        assert_eq!(dispatched, input.contains("\n\n"), "{input:?}");
        assert_eq!(decoder.unfinished().as_deref(), held.map(str::as_bytes), "{input:?}");
        assert_eq!(decoder.unfinished(), None, "{input:?}");
    }
}

#[test]
fn an_endless_line_keeps_memory_flat() {
    for field in [": ", "foo: ", "data: ", "event: ", "id: ", "retry: ", "no colon at all "] {
        let mut decoder = SseDecoder::new(10_000);
        let mut items = decoder.push(field.as_bytes());
        for _ in 0..1000 {
            items.extend(decoder.push(&[b'7'; 1000]));
            assert!(decoder.size() <= 10_000);
        }
        let reports = items.len();
        items.extend(decoder.push(b"\n\ndata: ok\n\n"));
        assert_eq!(items.last(), Some(&event("", "ok", None)), "{field}");
        assert_eq!(reports, usize::from(matches!(field, "data: " | "event: " | "id: ")), "{field}");
    }
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(
        words in prop::collection::vec(prop::sample::select(vec![
            "\n", "\n\n", "\r\n", "\r", "data", "data: ", "data:", "event: ", "id:", "id: ", "retry: ", ":", " ", "7",
            "x", "\u{feff}", "漢", "abcdefghij", "unknown: ", "\0",
        ]), 0..60),
        seed in any::<u8>(),
        event_max in prop_oneof![0..40_u8, any::<u8>()],
    ) {
        fuzz_checks::sse(&[&[seed, event_max], words.concat().as_bytes()].concat());
    }
}
