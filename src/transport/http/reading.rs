//! Reads HTTP answers: a whole body under a cap, or an event stream message by message.
//! Knows the dialects (content types with parameters, events with and without names);
//! does not know what the messages mean.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};

use super::response::{HttpError, Response};
use crate::wire::scan::{self, DEPTH_MAX};
use crate::wire::sse::{SseDecoder, SseItem};

/// First bytes kept of a body over the cap.
const HEAD_MAX: usize = 4096;
/// What some servers write before UTF-8 text.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Most that is reserved on a server's word that so much will come, in bytes.
const RESERVE_MAX: usize = 1024 * 1024;

/// A body that was read to its end or to the cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// All of it.
    Body(Bytes),
    /// More than the cap; the first bytes.
    TooLong(Bytes),
}

/// Reads the body up to `max` bytes. A byte order mark before it is no part of it.
pub(super) async fn whole(response: &mut Response, max: usize) -> Result<Whole, HttpError> {
    let announced = response.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let mut body = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(chunk) = response.chunk().await? {
        if body.is_empty() && first.is_none() {
            // Most bodies are one chunk: no copy then.
            first = Some(chunk);
        } else {
            if let Some(first) = first.take() {
                body.reserve(announced.unwrap_or(0).min(RESERVE_MAX).max(first.len() + chunk.len()));
                body.extend_from_slice(&first);
            }
            body.extend_from_slice(&chunk);
        }
        if first.as_ref().map_or(body.len(), Bytes::len) > max {
            let all = first.unwrap_or_else(|| body.freeze());
            return Ok(Whole::TooLong(all.slice(..all.len().min(HEAD_MAX))));
        }
    }
    Ok(Whole::Body(without_bom(first.unwrap_or_else(|| body.freeze()))))
}

fn without_bom(body: Bytes) -> Bytes {
    if body.starts_with(BOM) { body.slice(BOM.len()..) } else { body }
}

/// What an answer says to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `text/event-stream`.
    Events,
    /// JSON by its content type.
    Json,
    /// No content type, or another one: the body has to show what it is.
    Unclear(String),
    /// A compressed body, which we did not ask for.
    Encoded(String),
}

/// The kind of an answer by its headers.
pub(super) fn kind(response: &Response) -> Kind {
    let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    kind_of(header(CONTENT_TYPE), header(CONTENT_ENCODING))
}

fn kind_of(content_type: &str, content_encoding: &str) -> Kind {
    let encoding = content_encoding.trim().to_ascii_lowercase();
    if !encoding.is_empty() && encoding != "identity" {
        return Kind::Encoded(encoding);
    }
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/event-stream" => Kind::Events,
        "application/json" => Kind::Json,
        other if other.ends_with("+json") => Kind::Json,
        _ => Kind::Unclear(essence),
    }
}

/// Whether a body may be a JSON-RPC message or a batch.
pub(super) fn looks_like_json(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Where a stream would go on, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    /// The id of the last event that had one.
    pub(super) last_event_id: Option<String>,
    /// The wait before a new connection that the server asked for.
    pub(super) retry: Option<Duration>,
}

/// One event that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A message.
    Message(Bytes),
    /// An event over the cap; its first bytes.
    TooLong(Bytes),
    /// The first event of the old HTTP+SSE transport.
    Endpoint,
}

/// An answer read as an event stream.
#[derive(Debug)]
pub(super) struct EventStream {
    response: Response,
    decoder: SseDecoder,
    items: VecDeque<SseItem>,
    /// Ids and waits seen so far.
    pub(super) trail: Trail,
    /// Whether any event came.
    pub(super) fruitful: bool,
}

impl EventStream {
    /// A stream with a cap per event, in bytes, that goes on from `trail`.
    pub(super) fn new(response: Response, event_max: usize, trail: Trail) -> Self {
        let decoder = SseDecoder::new(event_max);
        Self { response, decoder, items: VecDeque::new(), trail, fruitful: false }
    }

    /// The next event that matters; `None` at the end. Nothing is lost when the future
    /// is dropped before it is done.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, HttpError> {
        loop {
            while let Some(item) = self.items.pop_front() {
                if let Some(event) = self.sort(item) {
                    return Ok(Some(event));
                }
            }
            match self.response.chunk().await? {
                Some(chunk) => self.items.extend(self.decoder.push(&chunk)),
                None => return Ok(self.last()),
            }
        }
    }

    /// A message without the blank line behind it, when the stream ended well and it is whole.
    fn last(&mut self) -> Option<Event> {
        let data = self.decoder.unfinished()?;
        let whole = looks_like_json(&data) && scan::check(&data, DEPTH_MAX).is_ok();
        whole.then_some(Event::Message(data))
    }

    fn sort(&mut self, item: SseItem) -> Option<Event> {
        match item {
            SseItem::Event { event, data, id } => {
                self.fruitful = true;
                if id.is_some() {
                    // An empty id resets it.
                    self.trail.last_event_id = id.filter(|id| !id.is_empty());
                }
                match event.as_str() {
                    "endpoint" => Some(Event::Endpoint),
                    _ if data.trim_ascii().is_empty() => None,
                    "" | "message" => Some(Event::Message(data)),
                    // Keep-alives and the like, unless it is a message under another name.
                    _ => looks_like_json(&data).then_some(Event::Message(data)),
                }
            }
            SseItem::TooLong { head } => Some(Event::TooLong(head)),
            SseItem::Retry(millis) => {
                self.trail.retry = Some(Duration::from_millis(millis));
                None
            }
            SseItem::Comment => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_read_in_every_spelling() {
        let cases = [
            ("text/event-stream", "", Kind::Events),
            ("text/event-stream; charset=utf-8", "", Kind::Events),
            ("Text/Event-Stream ;charset=UTF-8", "identity", Kind::Events),
            ("application/json", "", Kind::Json),
            ("application/json;charset=utf-8", "", Kind::Json),
            ("application/problem+json", "", Kind::Json),
            ("text/html; charset=utf-8", "", Kind::Unclear("text/html".into())),
            ("", "", Kind::Unclear(String::new())),
            ("application/json", "gzip", Kind::Encoded("gzip".into())),
        ];
        for (content_type, encoding, want) in cases {
            assert_eq!(kind_of(content_type, encoding), want, "{content_type} {encoding}");
        }
    }

    #[test]
    fn json_is_told_from_other_bodies_by_its_first_byte() {
        for body in ["{}", " \n[1]", "{"] {
            assert!(looks_like_json(body.as_bytes()), "{body}");
        }
        for body in ["", "<html>", "ok", "  "] {
            assert!(!looks_like_json(body.as_bytes()), "{body}");
        }
    }
}
