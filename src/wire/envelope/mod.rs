//! The JSON-RPC envelope of one message, as spans into its bytes. One walk checks
//! the whole frame and finds the members that routing needs; the payload is never
//! built. Called by the links and the edges for every message.

use std::ops::Range;

use super::scan::{self, Cursor, DEPTH_MAX, Member, ScanError, key_is, unescaped};

mod hint;
mod rules;

pub use hint::id_hint;

/// Most messages in one batch that are looked at; a longer one is malformed.
pub const BATCH_MAX: usize = 1000;

/// From that many bytes on a member is looked for as text before the object is walked: most that are asked
/// for are not there.
const LOOKED_FOR_FIRST: usize = 256;

/// A message classified, with the spans that routing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A request: has `id` and `method`.
    Request {
        /// Span of the id value.
        id: Range<usize>,
        /// Span of the method's text, without quotes. Escapes are not resolved: a
        /// method written with escapes is unknown to us.
        method: Range<usize>,
        /// Span of the `params` value, whatever its type.
        params: Option<Range<usize>>,
    },
    /// A notification: `method` without `id`. A method `notifications/…` with `id: null`
    /// is one too: JSON-RPC 1.0 wrote notifications so, and nobody can wait for its answer.
    Notification {
        /// Span of the method's text, without quotes.
        method: Range<usize>,
        /// Span of the `params` value.
        params: Option<Range<usize>>,
    },
    /// A response.
    Response(Response),
}

/// A response: `id` and one of `result` and `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Span of the id value.
    pub id: Range<usize>,
    /// The id as a number of ours: a whole number (`7`, `7.0`), or a string that is one in plain
    /// decimal (`"7"`); `None` for any other id.
    pub number: Option<u64>,
    /// Span of the value of `result` or `error`.
    pub body: Range<usize>,
    /// Whether the body is an error.
    pub is_error: bool,
}

/// Why a JSON value is no JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Not well-formed (see `scan`), too deep, or not UTF-8.
    Json(super::scan::ScanError),
    /// JSON, but nothing that looks like JSON-RPC: noise (`42`, `{"level":…}`).
    NotRpc,
    /// A JSON array: a batch. Its elements' spans, at most `BATCH_MAX`.
    Batch(Vec<Range<usize>>),
    /// JSON-RPC in shape but broken: names the fault; `number` is the id of *ours* that it can be
    /// attributed to. A broken request never has one: its id is a number of the peer's.
    Malformed {
        /// The id, when one could be found.
        number: Option<u64>,
        /// Short cause, such as `"jsonrpc" is missing`.
        cause: &'static str,
    },
}

/// Classifies one frame. Runs the structural scan first, so a frame that passes
/// may be forwarded as it is. A response needs `"jsonrpc":"2.0"`, exactly one of
/// result and error, and an error with an integer code within i32 and a string message;
/// envelope keys must not repeat (also not spelled with escapes) and match in case.
///
/// - An id is a string or a number. `id: null` with a method is malformed (MCP forbids
///   it), but see [`Envelope::Notification`]; with an error it is a response that
///   belongs to no request.
/// - An object without method, result and error is malformed if it has `jsonrpc` and a number
///   for an id, else it is noise. The same holds for a method without `jsonrpc`
///   (log lines have such keys) unless it has an id.
pub fn parse(frame: &[u8]) -> Result<Envelope, EnvelopeError> {
    scan::utf8(frame).map_err(EnvelopeError::Json)?;
    let mut cursor = Cursor::new(frame, DEPTH_MAX);
    cursor.white();
    match cursor.peek() {
        Some(b'{') => {
            let mut found = rules::Found::default();
            let mut more = cursor.open(b'}')?;
            while more {
                let (member, another) = cursor.member()?;
                found.note(frame, member);
                more = another;
            }
            cursor.end()?;
            rules::classify(frame, found)
        }
        Some(b'[') => {
            let mut elements = Vec::new();
            let mut count = 0_usize;
            let mut more = cursor.open(b']')?;
            while more {
                let (element, another) = cursor.element()?;
                count += 1;
                if count <= BATCH_MAX {
                    elements.push(element);
                }
                more = another;
            }
            cursor.end()?;
            if count > BATCH_MAX {
                return Err(EnvelopeError::Malformed {
                    number: None,
                    cause: "the batch has too many messages",
                });
            }
            Err(EnvelopeError::Batch(elements))
        }
        _ => {
            cursor.value()?;
            cursor.end()?;
            Err(EnvelopeError::NotRpc)
        }
    }
}

impl From<ScanError> for EnvelopeError {
    fn from(error: ScanError) -> Self {
        Self::Json(error)
    }
}

/// Span of the value of `key` (ASCII) at the top level of the object in `value` (offsets
/// relative to `value`), the last one if repeated; `None` when absent or when
/// `value` is no object. `value` must be well-formed.
pub fn member(value: &[u8], key: &str) -> Option<Range<usize>> {
    if value.len() >= LOOKED_FOR_FIRST && !may_have(value, key) {
        return None;
    }
    let mut found = None;
    walk_members(value, |member| {
        if key_is(&value[member.key], key) {
            found = Some(member.value);
        }
    });
    found
}

/// A cheap look that never says no wrongly: a key (ASCII) is spelled plainly, or with an escape of its own.
fn may_have(value: &[u8], key: &str) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(value, needle).is_some();
    has(key.as_bytes()) || has(br"\u00") || key.contains('/') && has(br"\/")
}

/// All members of the object in `value`: key text (between the quotes, escapes as
/// written) and value spans in order. `value` must be well-formed.
pub fn members(value: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut all = Vec::new();
    walk_members(value, |member| all.push((member.key, member.value)));
    all
}

/// Spans of the elements of the array in `value`. `value` must be well-formed.
pub fn elements(value: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut cursor = Cursor::new(value, DEPTH_MAX);
    cursor.white();
    if cursor.peek() != Some(b'[') {
        return all;
    }
    let mut more = cursor.open(b']').unwrap_or(false);
    while more {
        let Ok((element, another)) = cursor.element() else { break };
        all.push(element);
        more = another;
    }
    all
}

/// The text of the JSON string in `value` with its escapes undone; `None` when it is no string,
/// or holds a lone surrogate. `value` must be well-formed.
pub fn text(value: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
    unescaped(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

fn walk_members(value: &[u8], mut each: impl FnMut(Member)) {
    let mut cursor = Cursor::new(value, DEPTH_MAX);
    cursor.white();
    if cursor.peek() != Some(b'{') {
        return;
    }
    let mut more = cursor.open(b'}').unwrap_or(false);
    while more {
        let Ok((member, another)) = cursor.member() else { return };
        each(member);
        more = another;
    }
}

#[cfg(test)]
mod tests;
