//! Builds outgoing messages around bytes that are not ours: ids, names, tokens
//! and `_meta` keys are spliced, everything else is passed through.

use bytes::Bytes;

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

/// What is put into the `_meta` of an outgoing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaRewrite {
    /// Legacy era: our progress token replaces the caller's. Keys that only the modern
    /// era knows (`io.modelcontextprotocol/protocolVersion`, `…/clientCapabilities`, `…/clientInfo`) are taken out.
    Legacy,
    /// Modern era: progress token, and these three `_meta` members (JSON values) set.
    Modern {
        /// The revision text, such as `2026-07-28`.
        revision: String,
        /// Our client capabilities, a JSON object.
        capabilities: Bytes,
        /// Our client info, a JSON object.
        client_info: Bytes,
    },
}

/// One outgoing request.
#[derive(Clone, Debug)]
pub struct RequestSplice<'a> {
    /// Our id on this link; also the progress token.
    pub id: u64,
    /// The method.
    pub method: &'a str,
    /// The caller's `params` object; empty means none.
    pub params: &'a Bytes,
    /// Key in `params` and the raw value (unescaped text) to put there: `("name", "echo")`. Added when absent.
    pub name: Option<(&'a str, &'a str)>,
    /// Whether a missing `arguments` is added as `{}` (`tools/call`: strict servers refuse its absence).
    pub arguments_default: bool,
    /// Whether a progress token is sent.
    pub progress: bool,
    /// The era's `_meta` keys.
    pub meta: &'a MetaRewrite,
}

/// Why a request can't be spliced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpliceError {
    /// `params` is not a well-formed JSON object.
    NotAnObject,
    /// `params` is broken JSON.
    Json(super::scan::ScanError),
    /// `params._meta` is there and no object.
    MetaNotAnObject,
}

/// Builds `{"jsonrpc":"2.0","id":N,"method":M,"params":{…}}` around the caller's
/// params. With nothing to put in and empty params, `params` is left out (legacy) .
pub fn request(s: &RequestSplice<'_>) -> Result<Parts, SpliceError> {
    let _ = s;
    unimplemented!()
}

/// Replaces the span of an id in a message: used to hand an answer back under the caller's own id.
pub fn replace(message: &Bytes, span: std::ops::Range<usize>, with: &[u8]) -> Parts {
    let mut parts = Parts::default();
    parts.push(message.slice(..span.start));
    parts.push(Bytes::copy_from_slice(with));
    parts.push(message.slice(span.end..));
    parts
}

/// A notification of ours: `{"jsonrpc":"2.0","method":M[,"params":P]}`.
pub fn notification(method: &str, params: Option<&str>) -> Bytes {
    let _ = (method, params);
    unimplemented!()
}

/// A success answer of ours to a request whose id value is `id` (raw JSON).
pub fn success(id: &[u8], result: &str) -> Bytes {
    let _ = (id, result);
    unimplemented!()
}

/// An error answer of ours; `data` is raw JSON.
pub fn failure(id: &[u8], code: i64, message: &str, data: Option<&str>) -> Bytes {
    let _ = (id, code, message, data);
    unimplemented!()
}
