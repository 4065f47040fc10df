//! What makes a JSON object a JSON-RPC message: the rules, applied to the members
//! that one walk has found. Called by `envelope::parse` only.

use std::ops::Range;

use super::{Envelope, EnvelopeError, Response, key_is, walk_members};
use crate::wire::scan::Member;

const KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The envelope members of one object.
#[derive(Debug, Default)]
pub(super) struct Found {
    jsonrpc: Option<Range<usize>>,
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    repeated: Option<&'static str>,
    /// Repeated ids that differ can be attributed to none.
    ids_differ: bool,
}

impl Found {
    /// Takes a member down if it belongs to the envelope.
    pub(super) fn note(&mut self, frame: &[u8], member: Member) {
        let raw = &frame[member.key];
        let Some(key) = KEYS.into_iter().find(|key| key_is(raw, key)) else { return };
        let (slot, cause) = match key {
            "jsonrpc" => (&mut self.jsonrpc, "\"jsonrpc\" is repeated"),
            "id" => (&mut self.id, "\"id\" is repeated"),
            "method" => (&mut self.method, "\"method\" is repeated"),
            "params" => (&mut self.params, "\"params\" is repeated"),
            "result" => (&mut self.result, "\"result\" is repeated"),
            _ => (&mut self.error, "\"error\" is repeated"),
        };
        if let Some(first) = slot {
            self.ids_differ |= key == "id" && frame[first.clone()] != frame[member.value];
            self.repeated = Some(cause);
        } else {
            *slot = Some(member.value);
        }
    }

    fn number(&self, frame: &[u8]) -> Option<u64> {
        if self.ids_differ { None } else { self.id.clone().and_then(|id| number(&frame[id])) }
    }
}

/// Applies the rules of `envelope::parse`.
pub(super) fn classify(frame: &[u8], found: Found) -> Result<Envelope, EnvelopeError> {
    let answers = found.result.is_some() || found.error.is_some();
    if found.method.is_some() && !answers {
        return request(frame, found);
    }
    let number = found.number(frame);
    let claims = if answers {
        found.id.is_some() || found.jsonrpc.is_some()
    } else {
        found.jsonrpc.is_some() && number.is_some()
    };
    if !claims {
        return Err(EnvelopeError::NotRpc);
    }
    response(frame, found).map_err(|cause| EnvelopeError::Malformed { number, cause })
}

fn request(frame: &[u8], found: Found) -> Result<Envelope, EnvelopeError> {
    let malformed = |cause| Err(EnvelopeError::Malformed { number: None, cause });
    if found.jsonrpc.is_none() && found.id.is_none() {
        return Err(EnvelopeError::NotRpc);
    }
    if let Err(cause) = version(frame, &found) {
        return malformed(cause);
    }
    let method = match found.method {
        Some(span) if frame[span.clone()].starts_with(b"\"") => span.start + 1..span.end - 1,
        _ => return malformed("\"method\" is not a string"),
    };
    let params = found.params;
    match found.id {
        None => Ok(Envelope::Notification { method, params }),
        Some(id) if is_id(&frame[id.clone()]) => Ok(Envelope::Request { id, method, params }),
        Some(id) if &frame[id.clone()] == b"null" && frame[method.clone()].starts_with(b"notifications/") => {
            Ok(Envelope::Notification { method, params })
        }
        Some(_) => malformed("\"id\" is not a string or a number"),
    }
}

fn response(frame: &[u8], found: Found) -> Result<Envelope, &'static str> {
    version(frame, &found)?;
    if found.method.is_some() {
        return Err("both \"method\" and an answer are present");
    }
    let Some(id) = found.id else { return Err("\"id\" is missing") };
    let value = &frame[id.clone()];
    if !is_id(value) && value != b"null" {
        return Err("\"id\" is not a string or a number");
    }
    let number = number(value);
    match (found.result, found.error) {
        (Some(body), None) => Ok(Envelope::Response(Response { id, number, body, is_error: false })),
        (None, Some(body)) => {
            check_error(&frame[body.clone()])?;
            Ok(Envelope::Response(Response { id, number, body, is_error: true }))
        }
        (Some(_), Some(_)) => Err("both \"result\" and \"error\" are present"),
        (None, None) => Err("neither \"method\", \"result\" nor \"error\" is present"),
    }
}

fn version(frame: &[u8], found: &Found) -> Result<(), &'static str> {
    match &found.jsonrpc {
        None => Err("\"jsonrpc\" is missing"),
        Some(value) if &frame[value.clone()] != b"\"2.0\"" => Err("\"jsonrpc\" is not \"2.0\""),
        Some(_) => found.repeated.map_or(Ok(()), Err),
    }
}

/// An error object needs a code that fits an i32 and a text.
fn check_error(error: &[u8]) -> Result<(), &'static str> {
    if !error.starts_with(b"{") {
        return Err("\"error\" is not an object");
    }
    let (mut code, mut message) = (None, None);
    let mut repeated = false;
    walk_members(error, |member| {
        let slot = if key_is(&error[member.key.clone()], "code") {
            &mut code
        } else if key_is(&error[member.key.clone()], "message") {
            &mut message
        } else {
            return;
        };
        repeated |= slot.replace(member.value).is_some();
    });
    if repeated {
        return Err("\"code\" or \"message\" of \"error\" is repeated");
    }
    let code = code.and_then(|span| std::str::from_utf8(&error[span]).ok()?.parse::<i32>().ok());
    if code.is_none() {
        return Err("\"error.code\" is not a 32-bit integer");
    }
    match message {
        Some(span) if error[span.clone()].starts_with(b"\"") => Ok(()),
        _ => Err("\"error.message\" is not a string"),
    }
}

fn is_id(value: &[u8]) -> bool {
    matches!(value.first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// An id value as a number of ours.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    if let Some(text) = value.strip_prefix(b"\"") {
        return plain(text.strip_suffix(b"\"")?);
    }
    match memchr::memchr(b'.', value) {
        Some(point) if value[point + 1..].iter().all(|&b| b == b'0') => plain(&value[..point]),
        Some(_) => None,
        None => plain(value),
    }
}

/// Plain decimal without sign and leading zeros.
fn plain(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    digits.iter().try_fold(0_u64, |n, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}
