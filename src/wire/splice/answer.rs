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

/// Hands an answer back under the caller's id. Legacy to modern: a result gets in front what the modern
/// era requires of it and it lacks (`"resultType":"complete"`, and where clients cache it
/// `"ttlMs":0,"cacheScope":"private"`), and error codes are those of the modern era. Modern to
/// legacy: `"resultType":"complete"` is taken out, and so is a `structuredContent` that is no object, which
/// stands as text in the content instead if that is empty. Any other `resultType` stays: the edge decides
/// about it before. What one era has and the other does not know passes: clients skip unknown fields.
pub fn answer(s: &AnswerSplice<'_>) -> Parts {
    let mut cuts = vec![(s.id.clone(), Cow::Owned(s.caller_id.to_vec()))];
    let body = s.frame.get(s.body.clone()).unwrap_or_default();
    match s.adapt {
        Some(to) if s.is_error => cuts.extend(adapt_error(body, s.body.start, s.method, to)),
        Some(_) if !body.starts_with(b"{") => {}
        Some(Era::Modern) => cuts.extend(to_modern(body, s.body.start, s.method)),
        Some(Era::Legacy) => cuts.extend(to_legacy(body, s.body.start, s.method)),
        None => {}
    }
    let mut writer = Writer::with_room(ROOM);
    writer.splice(s.frame, 0..s.frame.len(), cuts);
    writer.finish(b"")
}

/// What a result of the modern era must have, with the value that claims nothing.
const REQUIRED: [(&str, &str); 3] =
    [(era::RESULT_TYPE, "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")];
/// The result of a tool for programs.
const STRUCTURED: &str = "structuredContent";
/// The result of a tool for models.
const CONTENT: &str = "content";

/// Adds what the modern era requires; `base` is the offset of `result` in the message.
fn to_modern(result: &[u8], base: usize, method: &str) -> Option<Cut> {
    let required = if era::is_cached(method) { &REQUIRED[..] } else { &REQUIRED[..1] };
    let has = |name: &str| may_have(result, name) && envelope::member(result, name).is_some();
    // Whatever says its own kind is of the modern era, and nothing is added to other kinds.
    if has(era::RESULT_TYPE) {
        return None;
    }
    let missing = required.iter().filter(|(name, _)| !has(name));
    let members: Vec<String> = missing.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let empty = result[1..].trim_ascii_start().starts_with(b"}");
    let front = format!("{}{}", members.join(","), if empty { "" } else { "," });
    Some((base + 1..base + 1, Cow::Owned(front.into_bytes())))
}

/// Takes out what breaks clients of the legacy era.
fn to_legacy(result: &[u8], base: usize, method: &str) -> Vec<Cut> {
    let of_tool = method == "tools/call";
    let touched = may_have(result, era::RESULT_TYPE) || of_tool && may_have(result, STRUCTURED);
    if !touched {
        return Vec::new();
    }
    let keys = [era::RESULT_TYPE, STRUCTURED, CONTENT];
    let mut cursor = Cursor::new(result, DEPTH_MAX);
    let Ok(mut object) = Object::walk(&mut cursor, result, base, &keys) else { return Vec::new() };
    let value = |span: std::ops::Range<usize>| &result[span.start - base..span.end - base];
    if object.value(era::RESULT_TYPE).is_some_and(|span| value(span) == b"\"complete\"") {
        object.remove(era::RESULT_TYPE);
    }
    let structured = object.value(STRUCTURED).filter(|_| of_tool).map(value);
    if let Some(structured) = structured.filter(|json| !json.starts_with(b"{")) {
        object.remove(STRUCTURED);
        let content = object.value(CONTENT).map(value);
        let is_empty = |list: &[u8]| list.starts_with(b"[") && envelope::elements(list).is_empty();
        if content.is_none_or(is_empty) {
            let text = serde_json::Value::from(String::from_utf8_lossy(structured));
            object.set(CONTENT, format!(r#"[{{"type":"text","text":{text}}}]"#).into_bytes());
        }
    }
    object.into_cuts()
}

/// A cheap look that never says no wrongly: a key is spelled plainly or with `\u00…` escapes.
fn may_have(result: &[u8], key: &str) -> bool {
    memchr::memmem::find(result, key.as_bytes()).is_some() || memchr::memmem::find(result, br"\u00").is_some()
}

fn adapt_error(error: &[u8], base: usize, method: &str, to: Era) -> Option<Cut> {
    let span = envelope::member(error, "code")?;
    let code = std::str::from_utf8(&error[span.clone()]).ok()?.parse().ok()?;
    let wanted = era::error_code(code, method, to);
    (wanted != code).then(|| (base + span.start..base + span.end, wanted.to_string().into_bytes().into()))
}
