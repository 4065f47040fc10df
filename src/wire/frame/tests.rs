//! Tests of `wire::frame`: its promises and the inputs that broke others.

use proptest::prelude::*;

use super::*;
use crate::wire::fuzz_checks;

const LONG: &str = "a text that is longer than the tail which is kept of a line that is too long, so that the cut is seen to be right: \
    it goes on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on; \
    it ends here, after more than 256 bytes.";

/// Feeds `input` in pieces of the given lengths (the last one takes the rest).
fn frames(frame_max: usize, input: &[u8], cuts: &[usize]) -> Vec<FrameEvent> {
    let mut framer = Framer::new(frame_max);
    let mut buf = BytesMut::new();
    let mut events = Vec::new();
    let mut rest = input;
    for &cut in cuts.iter().chain([&usize::MAX]) {
        let (piece, later) = rest.split_at(cut.min(rest.len()));
        rest = later;
        buf.extend_from_slice(piece);
        while let Some(event) = framer.next(&mut buf) {
            events.push(event);
        }
        assert!(buf.len() <= frame_max + 4, "{} bytes are kept", buf.len());
    }
    while let Some(event) = framer.finish(&mut buf) {
        events.push(event);
    }
    assert!(buf.is_empty());
    assert_eq!(framer.discarding(), 0);
    events
}

fn line(text: &str) -> FrameEvent {
    FrameEvent::Line(Bytes::copy_from_slice(text.as_bytes()))
}

fn over(head: &str, tail: &str, total: u64) -> [FrameEvent; 2] {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    [FrameEvent::TooLong { head: bytes(head) }, FrameEvent::TooLongEnd { tail: bytes(tail), total }]
}

#[test]
fn lf_crlf_and_blank_lines_separate_frames() {
    let input = b"{}\n\r\n  \t\r\n[1]\r\n\n7";
    assert_eq!(frames(10, input, &[]), [line("{}"), line("[1]"), line("7")]);
    assert_eq!(frames(10, b"", &[]), []);
    assert_eq!(frames(10, b"\n\n \n", &[]), []);
    assert_eq!(frames(10, b"7\r", &[]), [line("7")]);
}

#[test]
fn a_bom_is_skipped_before_the_first_message_only() {
    assert_eq!(frames(10, "\u{feff}{}\n\u{feff}{}\n".as_bytes(), &[]), [line("{}"), line("\u{feff}{}")]);
    assert_eq!(frames(10, "\n\r\n\u{feff}{}\n".as_bytes(), &[1, 1, 1, 1, 1]), [line("{}")]);
    assert_eq!(frames(10, "\u{feff}\n{}".as_bytes(), &[1, 1]), [line("{}")]);
}

#[test]
fn a_line_of_exactly_the_cap_is_whole() {
    for input in ["abcd\n", "abcd\r\n", "abcd", "abcd\r", "\u{feff}abcd\r\n"] {
        for cut in 0..input.len() {
            assert_eq!(frames(4, input.as_bytes(), &[cut]), [line("abcd")], "{input:?} {cut}");
        }
    }
}

#[test]
fn a_line_over_the_cap_is_reported_and_the_next_one_is_read() {
    for input in ["abcde\n{}\n", "abcde\r\n{}\r\n", "\u{feff}abcde\n{}\n"] {
        for cut in 0..input.len() {
            let mut expected = over("abcd", "abcde", 5).to_vec();
            expected.push(line("{}"));
            assert_eq!(frames(4, input.as_bytes(), &[cut]), expected, "{input:?} {cut}");
        }
    }
    assert_eq!(frames(2, b"abc", &[]), over("ab", "abc", 3));
}

#[test]
fn complete_lines_before_an_endless_one_are_delivered_and_memory_is_released() {
    let mut framer = Framer::new(1 << 20);
    let mut buf = BytesMut::from(&b"{\"id\":1}\nx"[..]);
    assert_eq!(framer.next(&mut buf), Some(line("{\"id\":1}")));
    let chunk = [b'y'; 4096];
    let mut reports = 0;
    for _ in 0..4096 {
        buf.extend_from_slice(&chunk);
        match framer.next(&mut buf) {
            Some(FrameEvent::TooLong { head }) => {
                assert_eq!(head.len(), HEAD_MAX);
                reports += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        if reports > 0 {
            assert!(buf.is_empty() && buf.capacity() <= KEEP_MAX);
        }
    }
    assert_eq!((reports, framer.discarding()), (1, 4096 * 4096 + 1));
    buf.extend_from_slice(b"id\":9}\nok\n");
    match framer.next(&mut buf) {
        Some(FrameEvent::TooLongEnd { tail, total }) => {
            assert_eq!((tail.len(), total), (TAIL_MAX, 4096 * 4096 + 7));
            assert!(tail.ends_with(b"yid\":9}"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(framer.next(&mut buf), Some(line("ok")));
    assert_eq!(framer.discarding(), 0);
}

#[test]
fn a_large_frame_is_a_slice_of_the_buffer_and_takes_it_along() {
    let mut framer = Framer::new(8 << 20);
    let mut buf = BytesMut::from(&vec![b'z'; 4 << 20][..]);
    buf.extend_from_slice(b"\nrest");
    let at = buf.as_ptr();
    let Some(FrameEvent::Line(frame)) = framer.next(&mut buf) else { panic!("no frame") };
    assert_eq!((frame.as_ptr(), frame.len()), (at, 4 << 20), "not copied");
    assert_eq!(&buf[..], b"rest");
    assert!(frame.is_unique(), "the buffer keeps no hold of the big allocation");
}

#[test]
fn dribbled_input_is_scanned_once() {
    // A quadratic framer would look at 2^41 bytes here.
    let mut framer = Framer::new(usize::MAX);
    let mut buf = BytesMut::with_capacity(1 << 21);
    for _ in 0..(1 << 21) {
        buf.extend_from_slice(b"x");
        assert_eq!(framer.next(&mut buf), None);
        assert_eq!(framer.scanned, buf.len());
    }
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_frames(
        words in prop::collection::vec(prop::sample::select(vec![
            "\n", "\r\n", "\r", " ", "{}", "a", "\u{feff}", "漢", "0123456789", "\t", LONG,
        ]), 0..40),
        seed in any::<u8>(),
        frame_max in prop_oneof![0..30_u8, any::<u8>()],
    ) {
        fuzz_checks::frame(&[&[seed, frame_max], words.concat().as_bytes()].concat());
    }
}
