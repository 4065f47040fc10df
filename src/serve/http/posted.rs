//! The messages of one POST, looked at as far as the front needs: what they are, and whose.

use std::ops::Range;

use bytes::Bytes;
use http::StatusCode;

use super::reply::{self, Reply};
use crate::wire::envelope::{self, Envelope, EnvelopeError};
use crate::wire::splice;

/// JSON-RPC code: not JSON.
const PARSE_ERROR: i64 = -32700;
/// JSON-RPC code: no message, or not one that may come here.
pub const INVALID_REQUEST: i64 = -32600;

/// One message, on one line.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its bytes.
    pub frame: Bytes,
    kind: Envelope,
}

/// What came with one POST.
#[derive(Clone, Debug)]
pub enum Posted {
    /// One message.
    One(Message),
    /// A batch, of at least one.
    Batch(Vec<Message>),
}

impl Message {
    /// Whether it is to be answered.
    pub fn is_request(&self) -> bool {
        matches!(self.kind, Envelope::Request { .. })
    }

    /// Whether it is an answer.
    pub fn is_response(&self) -> bool {
        matches!(self.kind, Envelope::Response(_))
    }

    /// Its method; empty for an answer.
    pub fn method(&self) -> &str {
        match &self.kind {
            Envelope::Request { method, .. } | Envelope::Notification { method, .. } => {
                std::str::from_utf8(&self.frame[method.clone()]).unwrap_or_default()
            }
            Envelope::Response(_) => "",
        }
    }

    /// Its params; empty without.
    pub fn params(&self) -> &[u8] {
        let span: Option<Range<usize>> = match &self.kind {
            Envelope::Request { params, .. } | Envelope::Notification { params, .. } => params.clone(),
            Envelope::Response(_) => None,
        };
        span.map_or(&[], |span| &self.frame[span])
    }

    /// The id under which it is refused; `null` for what has none.
    pub fn id(&self) -> &[u8] {
        match &self.kind {
            Envelope::Request { id, .. } => &self.frame[id.clone()],
            _ => b"null",
        }
    }
}

/// Reads a body.
///
/// # Errors
/// The refusal of what is no message.
pub fn read(body: Bytes) -> Result<Posted, Reply> {
    let frame = splice::one_line(body);
    match envelope::parse(&frame) {
        Ok(kind) => Ok(Posted::One(Message { frame, kind })),
        Err(EnvelopeError::Batch(spans)) if spans.is_empty() => {
            Err(refused(INVALID_REQUEST, "the batch is empty"))
        }
        Err(EnvelopeError::Batch(spans)) => {
            let one = |(at, span): (usize, Range<usize>)| {
                let frame = frame.slice(span);
                let kind = envelope::parse(&frame).map_err(|error| {
                    refused(INVALID_REQUEST, &format!("message {} of the batch: {}", at + 1, cause(&error)))
                })?;
                Ok(Message { frame, kind })
            };
            spans.into_iter().enumerate().map(one).collect::<Result<_, Reply>>().map(Posted::Batch)
        }
        Err(error @ EnvelopeError::Json(_)) => Err(refused(PARSE_ERROR, &cause(&error))),
        Err(error) => Err(refused(INVALID_REQUEST, &cause(&error))),
    }
}

fn refused(code: i64, text: &str) -> Reply {
    reply::refusal(StatusCode::BAD_REQUEST, b"null", code, text)
}

fn cause(error: &EnvelopeError) -> String {
    match error {
        EnvelopeError::Json(_) => "the body is not well-formed JSON in UTF-8, or too deep".to_owned(),
        EnvelopeError::NotRpc => "the body is JSON, but no JSON-RPC message".to_owned(),
        EnvelopeError::Batch(_) => "a batch in a batch".to_owned(),
        EnvelopeError::Malformed { cause, .. } => format!("no JSON-RPC message: {cause}"),
    }
}
