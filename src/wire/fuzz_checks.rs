//! Properties of the wire as functions that panic when one does not hold: shared by the fuzz
//! targets and by the test that replays their corpus. Each compares with a plain second
//! reading of the rules, made with serde_json or line by line. Not part of the library's API.

use bytes::{Bytes, BytesMut};

use super::frame::{FrameEvent, Framer, HEAD_MAX, TAIL_MAX};
use super::sse::{SseDecoder, SseItem};

mod reference;
mod rpc;

pub use rpc::{envelope, splice};

/// Lengths of pieces, derived from the input so that a run can be repeated.
fn pieces(seed: u8, input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed) | 1;
    let mut rest = input;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (state >> 24) as usize % 11 + 1;
        let (piece, later) = rest.split_at(length.min(rest.len()));
        rest = later;
        Some(piece)
    })
}

/// First byte: seed of the pieces; second byte: the cap; rest: a stream of lines.
pub fn frame(data: &[u8]) {
    let [seed, cap, input @ ..] = data else { return };
    let frame_max = usize::from(*cap);
    let expected = reference::frames(frame_max, input);
    assert_eq!(frames(frame_max, std::iter::once(input)), expected, "whole");
    assert_eq!(frames(frame_max, pieces(*seed, input)), expected, "in pieces");
    assert_eq!(frames(frame_max, input.chunks(1)), expected, "byte by byte");
}

fn frames<'a>(frame_max: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<FrameEvent> {
    let mut framer = Framer::new(frame_max);
    let mut buf = BytesMut::new();
    let mut events = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        while let Some(event) = framer.next(&mut buf) {
            events.push(event);
        }
        assert!(buf.len() <= frame_max + 4, "what can't become a frame is not kept");
    }
    while let Some(event) = framer.finish(&mut buf) {
        events.push(event);
    }
    assert!(buf.is_empty() && framer.discarding() == 0, "nothing is left behind");
    for event in &events {
        match event {
            FrameEvent::Line(line) => assert!(line.len() <= frame_max && !line.is_empty(), "within the cap"),
            FrameEvent::TooLong { head } => assert!(head.len() <= HEAD_MAX, "heads are short"),
            FrameEvent::TooLongEnd { tail, .. } => assert!(tail.len() <= TAIL_MAX, "tails are short"),
        }
    }
    events
}

/// First byte: seed of the pieces; second byte: the cap; rest: an event stream.
pub fn sse(data: &[u8]) {
    let [seed, cap, input @ ..] = data else { return };
    let event_max = usize::from(*cap) + 1;
    let whole = events(event_max, std::iter::once(input));
    assert_eq!(events(event_max, pieces(*seed, input)), whole, "in pieces");
    assert_eq!(events(event_max, input.chunks(1)), whole, "byte by byte");
    // What an unfinished last line does to the cap is not for the reference.
    let ended = [input, b"\n"].concat();
    let found = events(event_max, std::iter::once(&ended[..]));
    let found: Vec<_> = found.into_iter().map(without_head).collect();
    assert_eq!(found, reference::events(event_max, &ended), "as the standard reads it");
}

fn events<'a>(event_max: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<SseItem> {
    let mut decoder = SseDecoder::new(event_max);
    pieces.flat_map(|piece| decoder.push(piece)).collect()
}

/// The reference does not tell heads.
fn without_head(item: SseItem) -> SseItem {
    match item {
        SseItem::TooLong { .. } => SseItem::TooLong { head: Bytes::new() },
        other => other,
    }
}
