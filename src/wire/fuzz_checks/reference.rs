//! The rules of lines and events read the plain way: all input at once, line by line.

use bytes::Bytes;

use crate::wire::frame::{FrameEvent, HEAD_MAX, TAIL_MAX};
use crate::wire::sse::SseItem;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What `Framer` must find in `input`.
pub(super) fn frames(frame_max: usize, input: &[u8]) -> Vec<FrameEvent> {
    let mut events = Vec::new();
    for line in input.split(|&b| b == b'\n') {
        let line = if events.is_empty() { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > frame_max {
            let head = Bytes::copy_from_slice(&line[..frame_max.min(HEAD_MAX)]);
            let tail = Bytes::copy_from_slice(&line[line.len().saturating_sub(TAIL_MAX)..]);
            events.push(FrameEvent::TooLong { head });
            events.push(FrameEvent::TooLongEnd { tail, total: line.len() as u64 });
        } else if !line.iter().all(|b| b" \t\r".contains(b)) {
            events.push(FrameEvent::Line(Bytes::copy_from_slice(line)));
        }
    }
    events
}

#[derive(Default)]
struct Event<'a> {
    data: Vec<&'a [u8]>,
    name: &'a [u8],
    id: Option<&'a [u8]>,
    over: bool,
}

/// What `SseDecoder` must find in `input`, whose last line has ended; heads are left empty.
pub(super) fn events(event_max: usize, input: &[u8]) -> Vec<SseItem> {
    let mut items = Vec::new();
    let mut event = Event::default();
    for line in lines(input.strip_prefix(BOM).unwrap_or(input)) {
        if line.is_empty() {
            let done = std::mem::take(&mut event);
            if done.over {
                continue;
            }
            if done.data.is_empty() {
                event.id = done.id;
                continue;
            }
            items.push(SseItem::Event {
                event: String::from_utf8_lossy(done.name).into_owned(),
                data: done.data.join(&b'\n').into(),
                id: done.id.map(|id| String::from_utf8_lossy(id).into_owned()),
            });
            continue;
        }
        let colon = line.iter().position(|&b| b == b':');
        let (field, value) = colon.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        items.extend(event.take(field, value, event_max));
    }
    items
}

impl<'a> Event<'a> {
    fn take(&mut self, field: &'a [u8], value: &'a [u8], event_max: usize) -> Option<SseItem> {
        // While a new id comes in, the old one is still held.
        let mut held_too = 0;
        match field {
            b"" => return Some(SseItem::Comment),
            b"data" => self.data.push(value),
            b"event" => self.name = value,
            b"id" if value.contains(&0) => held_too = value.len(),
            b"id" => held_too = self.id.replace(value).map_or(0, <[u8]>::len),
            b"retry" if !value.is_empty() && value.len() <= 20 && value.iter().all(u8::is_ascii_digit) => {
                return std::str::from_utf8(value).ok()?.parse().ok().map(SseItem::Retry);
            }
            _ => return None,
        }
        let data = self.data.join(&b'\n').len();
        let size = data + self.name.len() + self.id.map_or(0, <[u8]>::len) + held_too;
        if size <= event_max || self.over {
            return None;
        }
        self.over = true;
        Some(SseItem::TooLong { head: Bytes::new() })
    }
}

/// The lines that have an end.
fn lines(mut input: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = input.iter().position(|b| matches!(b, b'\n' | b'\r')) {
        lines.push(&input[..end]);
        let crlf = input[end..].starts_with(b"\r\n");
        input = &input[end + 1 + usize::from(crlf)..];
    }
    lines
}
