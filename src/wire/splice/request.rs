//! A request around the caller's `params`: our id, the server's own name for the
//! item, our progress token and the era's `_meta` keys; all else as the caller wrote it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::edit::{Cut, Object, ROOM, SLICE_MIN, Writer, push_quoted, quoted};
use super::{Parts, one_line};
use crate::id::SessionId;
use crate::wire::scan::{self, Cursor, DEPTH_MAX, ScanError};

const META: &str = "_meta";
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const PROGRESS_TOKEN: &str = "progressToken";
/// The session of the caller, for the tools of the host itself. Nobody else is told, and what a
/// caller wrote under it never leaves.
pub const SESSION: &str = "callboard/session";
const META_KEYS: [&str; 5] = [PROGRESS_TOKEN, PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, SESSION];

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

impl MetaRewrite {
    /// The same with other client capabilities, a JSON object, where the era has them in requests.
    #[must_use]
    pub fn with_capabilities(self, with: Bytes) -> Self {
        match self {
            Self::Modern { revision, client_info, .. } => {
                Self::Modern { revision, capabilities: with, client_info }
            }
            Self::Legacy => Self::Legacy,
        }
    }
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
    /// Whether a missing `arguments` is added as `{}` (`tools/call`: strict servers refuse its absence), and
    /// one that is no object refused: the protocol has no other, and servers read it as they please.
    pub arguments_default: bool,
    /// Whether a progress token is sent. If not, one of the caller's is taken out: it means nothing on this link.
    pub progress: bool,
    /// The era's `_meta` keys.
    pub meta: &'a MetaRewrite,
    /// The caller's session, for a server that is told; see [`SESSION`].
    pub session: Option<SessionId>,
}

/// Why a request can't be spliced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpliceError {
    /// `params` is not a well-formed JSON object.
    NotAnObject,
    /// `params` is broken JSON.
    Json(ScanError),
    /// `params._meta` is there and no object.
    MetaNotAnObject,
    /// `params.arguments` of a call is there and no object.
    ArgumentsNotAnObject,
}

/// Builds `{"jsonrpc":"2.0","id":N,"method":M,"params":{…}}` around the caller's
/// params. With nothing to put in and empty params, `params` is left out.
///
/// A key that we set is set once: what the caller wrote under it goes, however often and however
/// escaped. Of repeated `arguments` or `_meta` the last one stays, as most parsers read it, so that
/// what was checked is what runs. Line ends between tokens become spaces (see [`one_line`]).
pub fn request(s: &RequestSplice<'_>) -> Result<Parts, SpliceError> {
    let given = !s.params.is_empty();
    let params = if given { s.params.clone() } else { Bytes::from_static(b"{}") };
    let cuts = edits(s, &params)?;
    // Only now: in a broken string a line end is a fault that must be seen. Offsets stay.
    let params = one_line(params);
    let mut writer = Writer::with_room(params.len().min(SLICE_MIN) + ROOM);
    writer.copy(br#"{"jsonrpc":"2.0","id":"#);
    writer.copy(s.id.to_string().as_bytes());
    writer.copy(br#","method":"#);
    writer.copy(&quoted(s.method));
    if !given && cuts.is_empty() {
        return Ok(writer.finish(b"}"));
    }
    writer.copy(br#","params":"#);
    let whole = 0..params.len();
    writer.splice(&params, whole, cuts);
    Ok(writer.finish(b"}"))
}

/// A caller's `params` with one more member of `_meta`, raw JSON; as they are where they have it already,
/// or are no well-formed object.
pub fn with_meta(params: &Bytes, key: &str, value: &[u8]) -> Bytes {
    let params = if params.is_empty() { Bytes::from_static(b"{}") } else { params.clone() };
    let mut cursor = Cursor::new(&params, DEPTH_MAX);
    cursor.white();
    if cursor.peek() != Some(b'{') {
        return params;
    }
    let keys = [META];
    let Ok(mut object) = Object::walk(&mut cursor, &params, 0, &keys) else { return params };
    let cuts = match object.value(META) {
        None => {
            object.add(META, |out| push_object(out, &[(key, Cow::Borrowed(value))]));
            object.into_cuts()
        }
        Some(span) => {
            let inner = &params[span.clone()];
            if !inner.starts_with(b"{") {
                return params;
            }
            let keys = [key];
            let mut cursor = Cursor::new(inner, DEPTH_MAX);
            let Ok(mut meta) = Object::walk(&mut cursor, inner, span.start, &keys) else { return params };
            if meta.value(key).is_some() {
                return params;
            }
            meta.add(key, |out| out.extend_from_slice(value));
            meta.into_cuts()
        }
    };
    let mut writer = Writer::with_room(params.len().min(SLICE_MIN) + ROOM);
    writer.splice(&params, 0..params.len(), cuts);
    writer.finish(b"").to_bytes()
}

fn edits(s: &RequestSplice<'_>, params: &Bytes) -> Result<Vec<Cut>, SpliceError> {
    scan::utf8(params).map_err(SpliceError::Json)?;
    // The request around it is one bracket more.
    let mut cursor = Cursor::new(params, DEPTH_MAX - 1);
    cursor.white();
    if cursor.peek() != Some(b'{') {
        return Err(SpliceError::NotAnObject);
    }
    let name_key = s.name.map_or("arguments", |(key, _)| key);
    let keys = [META, "arguments", name_key];
    let mut object = Object::walk(&mut cursor, params, 0, &keys).map_err(SpliceError::Json)?;
    cursor.end().map_err(SpliceError::Json)?;

    if let Some((key, value)) = s.name {
        object.set(key, quoted(value));
    }
    object.keep_last("arguments");
    if s.arguments_default {
        match object.value("arguments") {
            None => object.add("arguments", |out| out.extend_from_slice(b"{}")),
            Some(span) if params[span.start] != b'{' => return Err(SpliceError::ArgumentsNotAnObject),
            Some(_) => {}
        }
    }
    object.keep_last(META);
    let meta = match object.value(META) {
        Some(span) => meta_edits(s, params, span)?,
        None => {
            let members = meta_wanted(s);
            if !members.is_empty() {
                object.add(META, |out| push_object(out, &members));
            }
            Vec::new()
        }
    };
    let mut cuts = object.into_cuts();
    cuts.extend(meta);
    Ok(cuts)
}

/// The members that `_meta` must have.
fn meta_wanted<'a>(s: &RequestSplice<'a>) -> Vec<(&'static str, Cow<'a, [u8]>)> {
    let mut wanted: Vec<(_, Cow<'a, [u8]>)> = Vec::with_capacity(META_KEYS.len());
    if s.progress {
        wanted.push((PROGRESS_TOKEN, s.id.to_string().into_bytes().into()));
    }
    if let Some(SessionId(session)) = s.session {
        wanted.push((SESSION, session.to_string().into_bytes().into()));
    }
    if let MetaRewrite::Modern { revision, capabilities, client_info } = s.meta {
        wanted.push((PROTOCOL_VERSION, quoted(revision).into()));
        wanted.push((CLIENT_CAPABILITIES, capabilities[..].into()));
        wanted.push((CLIENT_INFO, client_info[..].into()));
    }
    wanted
}

/// The edits of the caller's `_meta` at `span` of `params`, which has been checked.
fn meta_edits(s: &RequestSplice<'_>, params: &Bytes, span: Range<usize>) -> Result<Vec<Cut>, SpliceError> {
    let value = &params[span.clone()];
    let mut cursor = Cursor::new(value, DEPTH_MAX);
    if cursor.peek() != Some(b'{') {
        return Err(SpliceError::MetaNotAnObject);
    }
    let mut meta = Object::walk(&mut cursor, value, span.start, &META_KEYS).map_err(SpliceError::Json)?;
    let wanted = meta_wanted(s);
    for key in META_KEYS {
        match wanted.iter().find(|(wanted, _)| *wanted == key) {
            Some((_, value)) => meta.set(key, value.to_vec()),
            None => meta.remove(key),
        }
    }
    Ok(meta.into_cuts())
}

fn push_object(out: &mut Vec<u8>, members: &[(&str, Cow<'_, [u8]>)]) {
    out.push(b'{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_quoted(out, key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
}
