//! What goes back: whole answers, refusals with their text, and streams of events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::mirror::Clash;
use crate::wire::splice::{self, Parts};

/// An answer of ours.
pub type Reply = Response<ReplyBody>;

/// The body of an answer.
pub struct ReplyBody {
    kind: Kind,
    /// Given back when the last byte is on its way, or the client is gone.
    _held: Option<Box<dyn Send>>,
}

enum Kind {
    Whole(VecDeque<Bytes>),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Whole(_) => "Whole",
            Kind::Events(_) => "Events",
        })
    }
}

impl ReplyBody {
    fn whole(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Self { kind: Kind::Whole(pieces), _held: None }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().kind {
            Kind::Whole(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Kind::Events(events) => {
                events.as_mut().poll_next(cx).map(|next| next.map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Whole(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

fn reply(status: StatusCode, kind: Option<&'static str>, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    if let Some(kind) = kind {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    reply
}

/// No body.
pub fn empty(status: StatusCode) -> Reply {
    reply(status, None, ReplyBody::whole([]))
}

/// A line of text for whoever looks.
pub fn text(status: StatusCode, text: &str) -> Reply {
    let body = ReplyBody::whole([Bytes::from(format!("{text}\n"))]);
    reply(status, Some("text/plain; charset=utf-8"), body)
}

/// A refusal as a JSON-RPC error, which every client shows; `id` is raw JSON, `null` when unknown.
pub fn refusal(status: StatusCode, id: &[u8], code: i64, message: &str) -> Reply {
    let body = splice::failure(id, code, message, None);
    reply(status, Some("application/json"), ReplyBody::whole([body]))
}

/// A refusal of a modern request: always 400.
pub fn clash(id: &[u8], clash: &Clash) -> Reply {
    let body = splice::failure(id, clash.code, &clash.text, clash.data.as_deref());
    reply(StatusCode::BAD_REQUEST, Some("application/json"), ReplyBody::whole([body]))
}

/// A refusal that passes by itself.
pub fn later(status: StatusCode, message: &str, wait: Duration) -> Reply {
    let mut reply = refusal(status, b"null", -32000, message);
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    reply
}

/// A JSON answer.
pub fn json(status: StatusCode, answer: Parts) -> Reply {
    let pieces: Vec<Bytes> = answer.pieces().to_vec();
    reply(status, Some("application/json"), ReplyBody::whole(pieces))
}

/// A stream of events.
pub fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let body = ReplyBody { kind: Kind::Events(Box::pin(events)), _held: None };
    let mut reply = reply(StatusCode::OK, Some("text/event-stream"), body);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that collect answers would hold events back.
    reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

/// Holds something until the answer is out or its reader gone.
pub fn holding(mut reply: Reply, held: impl Send + 'static) -> Reply {
    reply.body_mut()._held = Some(Box::new(held));
    reply
}

/// One event with a message. Line ends in it can only be white space between tokens; each becomes a
/// space, so the message is one line of data whatever comes.
pub fn event(id: Option<&str>, message: &Parts) -> Vec<Bytes> {
    /// Up to here copying is cheaper than a piece of its own.
    const COPIED_MAX: usize = 8 << 10;
    let head = match id {
        Some(id) => format!("id: {id}\nevent: message\ndata: "),
        None => "event: message\ndata: ".to_owned(),
    };
    let pieces = message.pieces().iter().cloned().map(splice::one_line);
    if message.len() <= COPIED_MAX {
        let mut whole = head.into_bytes();
        pieces.for_each(|piece| whole.extend_from_slice(&piece));
        whole.extend_from_slice(b"\n\n");
        return vec![whole.into()];
    }
    let mut all = vec![Bytes::from(head)];
    all.extend(pieces);
    all.push(Bytes::from_static(b"\n\n"));
    all
}

/// The event that gives a client an id before there is a message.
pub fn priming(id: &str) -> Bytes {
    format!("id: {id}\ndata: \n\n").into()
}

/// What shows both ends, and all that stands between, that the stream lives.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": \n\n");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_event_whatever_line_ends_it_has() {
        let mut parts = Parts::default();
        parts.push(Bytes::from_static(b"{\"a\":\r\n1,\n"));
        parts.push(Bytes::from_static(b"\"b\":\r2}"));
        let text = event(Some("1-2-3"), &parts).concat();
        assert_eq!(text, b"id: 1-2-3\nevent: message\ndata: {\"a\":  1, \"b\": 2}\n\n");
        let mut large = Parts::default();
        large.push(Bytes::from("x\n".repeat(8 << 10)));
        let pieces = event(None, &large);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.concat().iter().filter(|b| **b == b'\n').count(), 3);
    }

    #[test]
    fn waits_are_told_in_whole_seconds_that_are_long_enough() {
        let of = |wait| {
            let reply = later(StatusCode::TOO_MANY_REQUESTS, "x", wait);
            reply.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!(of(Duration::from_millis(1)), "1");
        assert_eq!(of(Duration::from_secs(2)), "2");
        assert_eq!(of(Duration::from_millis(2001)), "3");
    }
}
