//! Server-sent events (WHATWG HTML, section 9.2): LF, CRLF and CR line ends, any
//! chunking, multi-line `data`, comments, unknown fields, BOM. Bounded per event.
//! Bytes go from the chunk into the event they belong to, once; what is not needed
//! is not kept. An event that the stream's end cuts off is not dispatched; what it held can
//! be asked for.

use bytes::{Bytes, BytesMut};

/// Longest head of an over-long event that is reported, in bytes.
pub const HEAD_MAX: usize = 4096;
/// More digits than a `u64` has: longer `retry` values are no number.
const RETRY_DIGITS_MAX: usize = 20;
/// Longest field name that means something.
const NAME_MAX: usize = 5;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseItem {
    /// A dispatched event with data.
    Event {
        /// The `event` field; empty text means `message`.
        event: String,
        /// The data lines joined by LF.
        data: Bytes,
        /// The `id` field of this event, or of ones without data right before it, if it had one without NUL.
        id: Option<String>,
    },
    /// A `retry` field, in milliseconds.
    Retry(u64),
    /// A comment line: a sign of life of the stream.
    Comment,
    /// An event passed `event_max`; it is discarded up to its end.
    TooLong {
        /// Its first bytes (at most 4 KiB).
        head: Bytes,
    },
}

/// What the value of a line goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Comment,
    Unknown,
}

/// Where in a line we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the name, of which these bytes have come (more than `NAME_MAX`: unknown).
    Name,
    /// Behind the colon: one space is skipped.
    Space(Field),
    Value(Field),
}

/// Cuts a byte stream into events.
#[derive(Debug)]
pub struct SseDecoder {
    event_max: usize,
    /// Bytes of a BOM seen at the very start; `None` once the start is over.
    bom: Option<usize>,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    place: Place,
    /// The field name so far.
    name: Vec<u8>,
    /// The value of an `id` or `retry` line so far.
    value: Vec<u8>,
    data: BytesMut,
    has_data: bool,
    event: Vec<u8>,
    id: Option<Vec<u8>>,
    /// The event passed the cap.
    over: bool,
}

impl SseDecoder {
    /// A decoder with a cap per event, in bytes: its data, name and id together.
    pub fn new(event_max: usize) -> Self {
        Self {
            event_max,
            bom: Some(0),
            after_cr: false,
            place: Place::Name,
            name: Vec::with_capacity(NAME_MAX + 1),
            value: Vec::new(),
            data: BytesMut::new(),
            has_data: false,
            event: Vec::new(),
            id: None,
            over: false,
        }
    }

    /// Feeds one chunk; returns what it completed, in order.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<SseItem> {
        let mut items = Vec::new();
        let mut rest = self.skip_bom(chunk, &mut items);
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            match memchr::memchr2(b'\n', b'\r', rest) {
                Some(end) => {
                    self.text(&rest[..end], &mut items);
                    self.end_line(&mut items);
                    self.after_cr = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                }
                None => {
                    self.text(rest, &mut items);
                    break;
                }
            }
        }
        items
    }

    /// The data of the event that the end of the stream cut off, if it had any: the standard
    /// drops it, though a server that forgot the last blank line may have sent all of it. Only
    /// its reader can tell. Taken out: a second call finds nothing.
    pub fn unfinished(&mut self) -> Option<Bytes> {
        let whole = std::mem::take(&mut self.has_data) && !self.over;
        whole.then(|| std::mem::take(&mut self.data).freeze())
    }

    /// Swallows a BOM at the start of the stream, however it is cut; what only looked like one is text.
    fn skip_bom<'c>(&mut self, chunk: &'c [u8], items: &mut Vec<SseItem>) -> &'c [u8] {
        let Some(mut seen) = self.bom else { return chunk };
        let mut rest = chunk;
        while seen < BOM.len() {
            let Some(&byte) = rest.first() else {
                self.bom = Some(seen);
                return rest;
            };
            if byte != BOM[seen] {
                self.text(&BOM[..seen], items);
                break;
            }
            seen += 1;
            rest = &rest[1..];
        }
        self.bom = None;
        rest
    }

    /// A piece of a line without its end.
    fn text(&mut self, mut piece: &[u8], items: &mut Vec<SseItem>) {
        while !piece.is_empty() {
            match self.place {
                Place::Name => piece = self.name(piece),
                Place::Space(field) => {
                    piece = piece.strip_prefix(b" ").unwrap_or(piece);
                    self.place = Place::Value(field);
                }
                Place::Value(field) => {
                    self.value(field, piece, items);
                    return;
                }
            }
        }
    }

    /// Takes bytes of the name up to its colon; returns what follows.
    fn name<'p>(&mut self, piece: &'p [u8]) -> &'p [u8] {
        let room = NAME_MAX + 1 - self.name.len();
        let window = &piece[..piece.len().min(room)];
        match memchr::memchr(b':', window) {
            Some(colon) => {
                self.name.extend_from_slice(&window[..colon]);
                let field = self.begin_field();
                self.place = Place::Space(field);
                &piece[colon + 1..]
            }
            None => {
                self.name.extend_from_slice(window);
                if self.name.len() > NAME_MAX {
                    self.place = Place::Value(Field::Unknown);
                }
                &piece[window.len()..]
            }
        }
    }

    /// The name is whole: makes room for the value.
    fn begin_field(&mut self) -> Field {
        match self.name.as_slice() {
            b"" => Field::Comment,
            b"data" => {
                if self.has_data && !self.over {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                Field::Data
            }
            b"event" => {
                self.event.clear();
                Field::Event
            }
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Unknown,
        }
    }

    /// Bytes of a value go where they belong.
    fn value(&mut self, field: Field, bytes: &[u8], items: &mut Vec<SseItem>) {
        match field {
            Field::Comment | Field::Unknown => return,
            Field::Retry => {
                let room = (RETRY_DIGITS_MAX + 1).saturating_sub(self.value.len());
                self.value.extend_from_slice(&bytes[..bytes.len().min(room)]);
                return;
            }
            _ if self.over => return,
            _ => {}
        }
        let room = self.event_max.saturating_sub(self.size());
        let fits = &bytes[..bytes.len().min(room)];
        match field {
            Field::Data => self.data.extend_from_slice(fits),
            Field::Event => self.event.extend_from_slice(fits),
            _ => self.value.extend_from_slice(fits),
        }
        if fits.len() < bytes.len() {
            self.too_long(items);
        }
    }

    /// Bytes that the event holds.
    fn size(&self) -> usize {
        self.data.len() + self.event.len() + self.value.len() + self.id.as_ref().map_or(0, Vec::len)
    }

    fn too_long(&mut self, items: &mut Vec<SseItem>) {
        let head = Bytes::copy_from_slice(&self.data[..self.data.len().min(HEAD_MAX)]);
        items.push(SseItem::TooLong { head });
        self.over = true;
        self.data = BytesMut::new();
        self.event = Vec::new();
        self.value = Vec::new();
        self.id = None;
    }

    fn end_line(&mut self, items: &mut Vec<SseItem>) {
        let field = match self.place {
            Place::Name if self.name.is_empty() => {
                self.dispatch(items);
                return;
            }
            // A line without a colon is a name with an empty value.
            Place::Name => self.begin_field(),
            Place::Space(field) | Place::Value(field) => field,
        };
        match field {
            Field::Comment => items.push(SseItem::Comment),
            Field::Id if !self.over && !self.value.contains(&0) => self.id = Some(self.value.clone()),
            Field::Retry
                if self.value.len() <= RETRY_DIGITS_MAX && self.value.iter().all(u8::is_ascii_digit) =>
            {
                if let Some(ms) = std::str::from_utf8(&self.value).ok().and_then(|v| v.parse().ok()) {
                    items.push(SseItem::Retry(ms));
                }
            }
            _ => {}
        }
        // A joining LF can be what passes the cap.
        if !self.over && self.size() - self.value.len() > self.event_max {
            self.too_long(items);
        }
        self.value.clear();
        self.name.clear();
        self.place = Place::Name;
    }

    fn dispatch(&mut self, items: &mut Vec<SseItem>) {
        let event = std::mem::take(&mut self.event);
        let over = std::mem::take(&mut self.over);
        if std::mem::take(&mut self.has_data) && !over {
            items.push(SseItem::Event {
                event: text(event),
                data: std::mem::take(&mut self.data).freeze(),
                id: self.id.take().map(text),
            });
        }
    }
}

/// UTF-8 with what is not replaced, as the standard decodes the stream.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
