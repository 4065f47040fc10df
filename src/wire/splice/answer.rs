//! An answer on its way back: the caller's own id, and what its era wants to see;
//! all else as the server sent it. Called by the edges.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::Parts;
use super::edit::{Cut, Object, ROOM, Writer};
use crate::wire::envelope;
use crate::wire::era::{self, Era};
use crate::wire::scan::{Cursor, DEPTH_MAX};

/// One answer, well-formed, with the spans that `envelope::parse` found.
#[derive(Clone, Debug)]
pub struct AnswerSplice<'a> {
    /// The whole response as the server sent it.
    pub frame: &'a Bytes,
    /// Span of the id value.
    pub id: Range<usize>,
    /// Span of the value of `result` or `error`.
    pub body: Range<usize>,
    /// Whether the body is an error.
    pub is_error: bool,
    /// The id that the caller's request had, raw JSON.
    pub caller_id: &'a [u8],
    /// The method of the request.
    pub method: &'a str,
    /// The caller's era, if the server speaks the other one; `None` leaves the body alone.
    pub adapt: Option<Era>,
}

/// Hands an answer back under the caller's id. Legacy to modern: a result without `resultType`
/// gets `"resultType":"complete"` in front, and error codes are those of the modern era. Modern to
/// legacy: `"resultType":"complete"` is taken out. Any other `resultType` stays: the edge decides about
/// it before.
pub fn answer(s: &AnswerSplice<'_>) -> Parts {
    let mut cuts = vec![(s.id.clone(), Cow::Owned(s.caller_id.to_vec()))];
    let body = s.frame.get(s.body.clone()).unwrap_or_default();
    match s.adapt {
        Some(to) if s.is_error => cuts.extend(adapt_error(body, s.body.start, s.method, to)),
        Some(to) => cuts.extend(adapt_result(body, s.body.start, s.method, to)),
        None => {}
    }
    let mut writer = Writer::with_room(ROOM);
    writer.splice(s.frame, 0..s.frame.len(), cuts);
    writer.finish(b"")
}

/// What a modern client may go by when a server of the legacy era said nothing about it: nothing of a
/// resource may be kept.
const NOT_TO_BE_KEPT: [(&str, &[u8]); 2] =
    [("ttlMs", br#""ttlMs":0"#), ("cacheScope", br#""cacheScope":"private""#)];

/// The era's edits of a result; `base` is the offset of `result` in the message.
fn adapt_result(result: &[u8], base: usize, method: &str, to: Era) -> Vec<Cut> {
    if !result.starts_with(b"{") {
        return Vec::new();
    }
    if to == Era::Modern && method == "resources/read" {
        return front_members(result, base);
    }
    if !may_have_result_type(result) {
        return match to {
            Era::Modern => vec![front_insert(result, base)],
            Era::Legacy => Vec::new(),
        };
    }
    let keys = [era::RESULT_TYPE];
    let mut cursor = Cursor::new(result, DEPTH_MAX);
    let Ok(mut object) = Object::walk(&mut cursor, result, base, &keys) else { return Vec::new() };
    match (to, object.value(era::RESULT_TYPE)) {
        (Era::Modern, None) => vec![front_insert(result, base)],
        (Era::Legacy, Some(value)) if &result[value.start - base..value.end - base] == b"\"complete\"" => {
            object.remove(era::RESULT_TYPE);
            object.into_cuts()
        }
        _ => Vec::new(),
    }
}

/// A cheap look that never says no wrongly: a key is spelled plainly or with `\u00…` escapes.
fn may_have_result_type(result: &[u8]) -> bool {
    memchr::memmem::find(result, era::RESULT_TYPE.as_bytes()).is_some()
        || memchr::memmem::find(result, br"\u00").is_some()
}

/// What a modern result of a read has to have and this one has not, in front.
fn front_members(result: &[u8], base: usize) -> Vec<Cut> {
    let missing = |key: &str| envelope::member(result, key).is_none();
    let mut members: Vec<&[u8]> = Vec::new();
    if missing(era::RESULT_TYPE) {
        members.push(br#""resultType":"complete""#);
    }
    members.extend(NOT_TO_BE_KEPT.iter().filter(|(key, _)| missing(key)).map(|(_, member)| *member));
    if members.is_empty() {
        return Vec::new();
    }
    let mut front = members.join(&b","[..]);
    if !result[1..].trim_ascii_start().starts_with(b"}") {
        front.push(b',');
    }
    vec![(base + 1..base + 1, Cow::Owned(front))]
}

fn front_insert(result: &[u8], base: usize) -> Cut {
    let empty = result[1..].trim_ascii_start().starts_with(b"}");
    let member: &'static [u8] =
        if empty { br#""resultType":"complete""# } else { br#""resultType":"complete","# };
    (base + 1..base + 1, Cow::Borrowed(member))
}

fn adapt_error(error: &[u8], base: usize, method: &str, to: Era) -> Option<Cut> {
    let span = envelope::member(error, "code")?;
    let code = std::str::from_utf8(&error[span.clone()]).ok()?.parse().ok()?;
    let wanted = era::error_code(code, method, to);
    (wanted != code).then(|| (base + span.start..base + span.end, wanted.to_string().into_bytes().into()))
}
