//! Builds outgoing messages around bytes that are not ours: ids, names, tokens
//! and `_meta` keys are spliced, everything else is passed through. Called by the
//! server actors (requests), the links (answers to servers) and the edges (answers to callers).

use std::ops::Range;

use bytes::Bytes;

mod answer;
mod edit;
mod request;

pub use answer::{AnswerSplice, answer};
pub use request::{MetaRewrite, RequestSplice, SESSION, SpliceError, request, with_meta};

use edit::{ROOM, Writer, push_quoted};

/// A message as pieces that are written one after the other: large payloads are
/// slices of what came in, never copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts(Vec<Bytes>);

impl Parts {
    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.0
    }

    /// Length of the whole message in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    /// Adds a piece; empty ones are left out.
    pub fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.0.push(piece);
        }
    }

    /// One contiguous copy.
    pub fn to_bytes(&self) -> Bytes {
        match self.0.as_slice() {
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }
}

/// Replaces the span of an id in a message: used to hand an answer back under the caller's own id.
/// `with` is raw JSON.
pub fn replace(message: &Bytes, span: Range<usize>, with: &[u8]) -> Parts {
    let mut writer = Writer::with_room(ROOM);
    writer.splice(message, 0..message.len(), vec![(span, with.to_vec().into())]);
    writer.finish(b"")
}

/// The message with its line ends turned into spaces, so that it fits on one line of a
/// stdio stream. In well-formed JSON they can only be white space between tokens. Without
/// any (nearly always) it is the same bytes, not a copy.
pub fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    message.iter().map(|&b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }).collect()
}

/// A notification of ours: `{"jsonrpc":"2.0","method":M[,"params":P]}`; `params` is raw JSON.
pub fn notification(method: &str, params: Option<&str>) -> Bytes {
    let mut out = br#"{"jsonrpc":"2.0","method":"#.to_vec();
    push_quoted(&mut out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
    out.into()
}

/// A success answer of ours to a request whose id value is `id` (raw JSON); `result` is raw JSON.
pub fn success(id: &[u8], result: &str) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#, result.as_bytes(), b"}"].concat().into()
}

/// An answer of somebody else's making to the request whose id value is `id` (raw JSON): `value` is the
/// raw JSON of its `result` or `error`, as `key` says.
pub fn answer_with(id: &[u8], key: &str, value: &[u8]) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":"#, id, br#",""#, key.as_bytes(), br#"":"#, value, b"}"].concat().into()
}

/// An error answer of ours; `data` is raw JSON.
pub fn failure(id: &[u8], code: i64, message: &str, data: Option<&str>) -> Bytes {
    let message = serde_json::Value::from(message);
    let error = match data {
        Some(data) => format!(r#"{{"code":{code},"message":{message},"data":{data}}}"#),
        None => format!(r#"{{"code":{code},"message":{message}}}"#),
    };
    [br#"{"jsonrpc":"2.0","id":"#, id, br#","error":"#, error.as_bytes(), b"}"].concat().into()
}

#[cfg(test)]
mod tests;
