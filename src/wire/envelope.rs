//! The JSON-RPC envelope of one message, as spans into its bytes.

use std::ops::Range;

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
        /// Span of the `params` value.
        params: Option<Range<usize>>,
    },
    /// A notification: `method` without `id`.
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
    /// The id as a number of ours: a number, or a string that is one; `None` for any other id.
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
    /// A JSON array: a batch. Its elements' spans.
    Batch(Vec<Range<usize>>),
    /// JSON-RPC in shape but broken: names the fault; `number` is the id it can be
    /// attributed to.
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
/// envelope keys must not repeat and match in case.
pub fn parse(frame: &[u8]) -> Result<Envelope, EnvelopeError> {
    let _ = frame;
    unimplemented!()
}

/// Finds the number id of a response without reading its payload: at the head
/// (`{"jsonrpc":"2.0","id":7,`) or at the tail (`,"id":7}`). A hint to attribute a
/// broken or oversize frame, never a proof.
pub fn id_hint(head: &[u8], tail: &[u8]) -> Option<u64> {
    let _ = (head, tail);
    unimplemented!()
}

/// Span of the value of `key` at the top level of the object in `value` (offsets
/// relative to `value`), the last one if repeated; `None` when absent or when
/// `value` is no object. `value` must be well-formed.
pub fn member(value: &[u8], key: &str) -> Option<Range<usize>> {
    let _ = (value, key);
    unimplemented!()
}

/// All members of the object in `value`: key text (between the quotes, escapes as
/// written) and value spans in order. `value` must be well-formed.
pub fn members(value: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let _ = value;
    unimplemented!()
}

/// Spans of the elements of the array in `value`. `value` must be well-formed.
pub fn elements(value: &[u8]) -> Vec<Range<usize>> {
    let _ = value;
    unimplemented!()
}
