//! JSON-RPC: reading a message, building an answer, and what the id flags do to it.
//! Owns envelopes, must never know a method's meaning. Called by `stdio`, `http`, `methods`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Flags;
use crate::values::WrongId;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const NOT_INITIALIZED: i64 = -32002;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// Stands for the filler of an answer that must have an exact length.
pub(crate) const FILLER: &str = "@@badmcp-filler@@";

/// A JSON-RPC error.
#[derive(Debug, Clone)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
    pub(crate) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// An object whose values are JSON texts, so that bytes can pass through as they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Obj(Vec<(String, String)>);

impl Obj {
    pub(crate) fn of(value: Value) -> Self {
        let mut obj = Self::default();
        if let Value::Object(map) = value {
            for (key, value) in map {
                obj.put(&key, value);
            }
        }
        obj
    }
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.raw(key, value.into().to_string());
    }
    pub(crate) fn raw(&mut self, key: &str, json: String) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = json,
            None => self.0.push((key.to_owned(), json)),
        }
    }
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, json)| json.as_str())
    }
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.0.iter().map(|(k, v)| k.len() + v.len() + 4).sum());
        for (key, json) in &self.0 {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&Value::from(key.as_str()).to_string());
            text.push(':');
            text.push_str(json);
        }
        if text.is_empty() { "{}".into() } else { text + "}" }
    }
}

/// A result: an object of ours, or bytes that are not touched.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Obj(Obj),
    Raw(String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

/// A request or notification.
#[derive(Debug)]
pub(crate) struct Request {
    /// As JSON text; none for a notification.
    pub(crate) id: Option<String>,
    pub(crate) method: String,
    /// As JSON text, exactly as it came.
    pub(crate) params: Option<String>,
}

impl Request {
    /// The parameters as a value; an empty object when there are none.
    pub(crate) fn value(&self) -> Value {
        self.params.as_deref().and_then(|p| serde_json::from_str(p).ok()).unwrap_or_else(|| json!({}))
    }
}

/// What one message is.
#[derive(Debug)]
pub(crate) enum Incoming {
    Request(Request),
    /// An answer to one of our requests: its id, and the error's code or none.
    Answer {
        id: String,
        code: Option<i64>,
    },
    /// Not a message; the error that is due, with the id if it could be read.
    Bad(Option<String>, RpcError),
}

pub(crate) fn read(bytes: &[u8]) -> Incoming {
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    if first == Some(&b'[') && serde_json::from_slice::<&RawValue>(bytes).is_ok() {
        return Incoming::Bad(None, RpcError::new(INVALID_REQUEST, "batches are not accepted"));
    }
    let envelope: Envelope<'_> = match serde_json::from_slice(bytes) {
        Ok(envelope) => envelope,
        Err(e) if e.is_data() => {
            return Incoming::Bad(None, RpcError::new(INVALID_REQUEST, format!("not a message: {e}")));
        }
        Err(e) => return Incoming::Bad(None, RpcError::new(PARSE_ERROR, format!("not JSON: {e}"))),
    };
    let id = envelope.id.map(|id| id.get().to_owned()).filter(|id| id != "null");
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Incoming::Bad(id, RpcError::new(INVALID_REQUEST, "jsonrpc must be \"2.0\""));
    }
    match (envelope.method, id) {
        (Some(method), id) => {
            Incoming::Request(Request { id, method, params: envelope.params.map(|p| p.get().to_owned()) })
        }
        (None, Some(id)) if envelope.result.is_some() || envelope.error.is_some() => {
            let code = envelope.error.map(|e| e.get("code").and_then(Value::as_i64).unwrap_or(0));
            Incoming::Answer { id, code }
        }
        (None, id) => Incoming::Bad(id, RpcError::new(INVALID_REQUEST, "neither method, result nor error")),
    }
}

/// The id of an answer, as the flags want it. `random` gives the random id's number.
pub(crate) fn answer_id(flags: &Flags, id: &str, handshake: bool, random: impl FnOnce() -> u64) -> String {
    match flags.wrong_id {
        Some(WrongId::Zero) if !handshake => "0".into(),
        Some(WrongId::Null) if !handshake => "null".into(),
        Some(WrongId::Random) if !handshake => (1_000_000 + random() % 1_000_000).to_string(),
        _ if flags.string_id && !id.starts_with('"') => format!("\"{id}\""),
        _ => id.to_owned(),
    }
}

/// The whole answer. `exact_len` replaces [`FILLER`] so that the text has exactly that many bytes.
pub(crate) fn answer(id: &str, outcome: &Result<Body, RpcError>, exact_len: Option<u64>) -> String {
    let text = match outcome {
        Ok(Body::Obj(obj)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, obj.text()),
        Ok(Body::Raw(raw)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#),
        Err(e) => {
            let mut error = json!({"code": e.code, "message": e.message});
            if let Some(data) = &e.data {
                error["data"] = data.clone();
            }
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
        }
    };
    match exact_len {
        Some(len) if text.contains(FILLER) => {
            let room = (len as usize).saturating_sub(text.len() - FILLER.len());
            text.replacen(FILLER, &"x".repeat(room), 1)
        }
        _ => text,
    }
}

pub(crate) fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

pub(crate) fn request(id: &str, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}
