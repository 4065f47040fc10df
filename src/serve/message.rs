//! What a client asks, and our own answers to it: spans of the envelope as slices, errors as values.
//! Pure. Used by the client and everything that answers for it.

use std::ops::Range;

use bytes::Bytes;

use super::sink::Outgoing;
use crate::wire::envelope::{member, members, text};
use crate::wire::scan::key_is;
use crate::wire::splice::{self, Parts};

/// The key of `_meta` that says the revision of a modern request.
pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of `_meta` with the client's capabilities.
pub(super) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// One request of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// The id value, raw.
    pub(super) id: Bytes,
    pub(super) method: String,
    /// The `params` object as written; empty when there is none.
    pub(super) params: Bytes,
    /// Its members: keys and values, found once.
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl Request {
    pub(super) fn new(id: Bytes, method: String, params: Bytes) -> Self {
        let members = members(&params);
        Self { id, method, params, members }
    }

    /// The same with its `params` changed.
    pub(super) fn with_params(self, change: impl FnOnce(&Bytes) -> Bytes) -> Self {
        let params = change(&self.params);
        Self::new(self.id, self.method, params)
    }

    /// Where the value of a member of `params` stands: the last one if it is repeated.
    fn span(&self, key: &str) -> Option<Range<usize>> {
        let found = self.members.iter().rev().find(|(name, _)| key_is(&self.params[name.clone()], key));
        found.map(|(_, value)| value.clone())
    }

    /// The raw value of a member of `params`.
    pub(super) fn raw(&self, key: &str) -> Option<&[u8]> {
        self.span(key).map(|span| &self.params[span])
    }

    /// The same as bytes of their own.
    pub(super) fn param(&self, key: &str) -> Option<Bytes> {
        self.span(key).map(|span| self.params.slice(span))
    }

    /// A member of `params` that is text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        text(self.raw(key)?).map(std::borrow::Cow::into_owned)
    }

    /// A text that has to be there.
    pub(super) fn named(&self, key: &str) -> Result<String, RpcError> {
        self.text(key).ok_or_else(|| RpcError::params(format!("`params.{key}` is missing, or is no text")))
    }

    /// The raw value of a member of `params._meta`.
    pub(super) fn meta(&self, key: &str) -> Option<Bytes> {
        let meta = self.param("_meta")?;
        let span = member(&meta, key)?;
        Some(meta.slice(span))
    }

    /// The token under which the client wants progress, raw: text or a number.
    pub(super) fn token(&self) -> Option<Bytes> {
        self.meta("progressToken")
            .filter(|token| token.first().is_some_and(|first| matches!(first, b'"' | b'-' | b'0'..=b'9')))
    }
}

/// A JSON-RPC error of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    /// Raw JSON.
    pub(super) data: Option<String>,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Parameters that are wrong.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// A method that we don't have.
    pub(super) fn method(method: &str) -> Self {
        let method: String = method.chars().take(128).collect();
        Self::new(-32601, format!("unknown method: {method}"))
    }

    /// A message that has no place here.
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    #[must_use]
    pub(super) fn data(mut self, data: &serde_json::Value) -> Self {
        self.data = Some(data.to_string());
        self
    }

    /// The answer to a request of that id.
    pub(super) fn answer(&self, id: &[u8]) -> Outgoing {
        whole(splice::failure(id, self.code, &self.message, self.data.as_deref()))
    }
}

/// An answer in one piece.
pub(super) fn whole(frame: Bytes) -> Outgoing {
    let mut parts = Parts::default();
    parts.push(frame);
    Outgoing::Answer(parts)
}

/// A success of ours; `result` is raw JSON.
pub(super) fn success(id: &[u8], result: &str) -> Outgoing {
    whole(splice::success(id, result))
}

/// The value of a JSON object with one member's value replaced; as it was when the member is not there.
pub(super) fn with_member(object: &Bytes, key: &str, value: &[u8]) -> Bytes {
    match member(object, key) {
        Some(span) => splice::replace(object, span, value).to_bytes(),
        None => object.clone(),
    }
}
