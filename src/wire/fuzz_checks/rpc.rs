//! Messages: the scan, the envelope and the splices against serde_json.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::envelope::{self, BATCH_MAX, Envelope, EnvelopeError};
use crate::wire::era::Era;
use crate::wire::scan::{self, DEPTH_MAX};
use crate::wire::splice::{self, AnswerSplice, MetaRewrite, RequestSplice, SpliceError};

/// The members of an object in order, repeated ones too.
struct Members<'a>(Vec<(String, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    all.push((key, value.get()));
                }
                Ok(Members(all))
            }
        }
        deserializer.deserialize_map(Walk)
    }
}

fn members(text: &[u8]) -> Option<Vec<(String, &str)>> {
    serde_json::from_slice::<Members<'_>>(text).ok().map(|m| m.0)
}

/// Deepest nesting outside strings; `text` is well-formed.
fn depth(text: &[u8]) -> usize {
    let (mut now, mut most, mut inside, mut escaped) = (0_usize, 0, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' | b'[' if !inside => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !inside => now -= 1,
            _ => {}
        }
    }
    most
}

/// Blocks and tokens see the same, wherever in a block the bytes come to stand.
fn blocks(data: &[u8]) {
    let (by_blocks, by_token) = scan::both_ends(data);
    if let Some(end) = by_blocks {
        assert_eq!(by_token, Ok(end), "blocks say yes, tokens no");
    }
    let seed = data.iter().fold(7_usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    let padded = [b"[".as_slice(), &vec![b' '; seed % 67], data, b"]"].concat();
    match scan::both_ends(&padded) {
        (Some(end), by_token) => assert_eq!(by_token, Ok(end), "blocks say yes, tokens no: {padded:?}"),
        (None, Ok(end)) if end == padded.len() => {
            assert!(depth(&padded) > 64, "blocks do their part: {}", String::from_utf8_lossy(&padded));
        }
        (None, _) => {}
    }
}

/// Any bytes as one frame.
pub fn envelope(data: &[u8]) {
    blocks(data);
    let valid = std::str::from_utf8(data).is_ok() && serde_json::from_slice::<IgnoredAny>(data).is_ok();
    let checked = scan::check(data, DEPTH_MAX);
    assert_eq!(checked.is_ok(), valid && depth(data) <= DEPTH_MAX, "{checked:?}");
    if let Err(error) = checked {
        assert!(error.at() <= data.len(), "the place lies in the frame");
    }
    let parsed = envelope::parse(data);
    let json_error = match &parsed {
        Err(EnvelopeError::Json(error)) => Some(*error),
        _ => None,
    };
    assert_eq!(json_error, checked.err(), "parse and check agree");
    if checked.is_err() {
        hint(data);
        return;
    }
    spans(data);
    if let Some(expected) = classify(data) {
        assert_eq!(shape(data, &parsed), expected, "the rules of the envelope");
    }
    if let Ok(Envelope::Response(response)) = &parsed {
        if let Some(hinted) = hint(data) {
            assert_eq!(response.number, Some(hinted), "a hint on a whole answer is right");
        }
        let frame = Bytes::copy_from_slice(data);
        answer(&frame, response, None);
        answer(&frame, response, Some(Era::Legacy));
        answer(&frame, response, Some(Era::Modern));
    }
}

fn hint(data: &[u8]) -> Option<u64> {
    envelope::id_hint(&data[..data.len().min(4096)], &data[data.len().saturating_sub(256)..])
}

/// Spans of members and elements are those that serde_json sees.
fn spans(data: &[u8]) {
    let value = data.trim_ascii();
    let text = |span: Range<usize>| String::from_utf8_lossy(&value[span]).into_owned();
    let elements: Vec<_> = envelope::elements(value).into_iter().map(text).collect();
    let expected = serde_json::from_slice::<Vec<&RawValue>>(value).unwrap_or_default();
    assert_eq!(elements, expected.iter().map(|raw| raw.get()).collect::<Vec<_>>());

    let found = envelope::members(value);
    if !value.starts_with(b"{") {
        assert!(found.is_empty(), "only objects have members");
        return;
    }
    let Some(expected) = members(value) else { return };
    let keys = found.iter().map(|(key, _)| {
        let quoted = &value[key.start - 1..key.end + 1];
        serde_json::from_slice::<String>(quoted).unwrap_or_default()
    });
    let found: Vec<_> = keys.zip(found.iter().map(|(_, span)| text(span.clone()))).collect();
    let expected: Vec<_> = expected.into_iter().map(|(key, raw)| (key, raw.to_owned())).collect();
    assert_eq!(found, expected);
    for key in ["id", "a", "_meta"] {
        let last = expected.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw.clone());
        assert_eq!(envelope::member(value, key).map(text), last, "the last {key}");
    }
}

/// What a frame is, in words that the reference and the parser share.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Request(String),
    Notification(String),
    Response { number: Option<u64>, body: String, is_error: bool },
    Noise,
    Batch(usize),
    Malformed(Option<u64>),
}

fn shape(data: &[u8], parsed: &Result<Envelope, EnvelopeError>) -> Shape {
    let text = |span: &Range<usize>| String::from_utf8_lossy(&data[span.clone()]).into_owned();
    match parsed {
        Ok(Envelope::Request { method, .. }) => Shape::Request(text(method)),
        Ok(Envelope::Notification { method, .. }) => Shape::Notification(text(method)),
        Ok(Envelope::Response(r)) => {
            Shape::Response { number: r.number, body: text(&r.body), is_error: r.is_error }
        }
        Err(EnvelopeError::NotRpc | EnvelopeError::Json(_)) => Shape::Noise,
        Err(EnvelopeError::Batch(elements)) => Shape::Batch(elements.len()),
        Err(EnvelopeError::Malformed { number, .. }) => Shape::Malformed(*number),
    }
}

/// The rules of `envelope::parse` once more; `None` when serde_json can't hold the keys (lone surrogates).
fn classify(data: &[u8]) -> Option<Shape> {
    let value = data.trim_ascii();
    if value.starts_with(b"[") {
        let count = serde_json::from_slice::<Vec<&RawValue>>(value).ok()?.len();
        return Some(if count > BATCH_MAX { Shape::Malformed(None) } else { Shape::Batch(count) });
    }
    if !value.starts_with(b"{") {
        return Some(Shape::Noise);
    }
    let mut fields: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (key, raw) in members(value)? {
        if ["jsonrpc", "id", "method", "params", "result", "error"].contains(&key.as_str()) {
            fields.entry(key).or_default().push(raw);
        }
    }
    let has = |key: &str| fields.contains_key(key);
    let first = |key: &str| fields.get(key).and_then(|all| all.first()).copied();
    let broken = fields.values().any(|all| all.len() > 1) || first("jsonrpc") != Some("\"2.0\"");
    let id_like = |raw: &str| raw.starts_with(['"', '-']) || raw.starts_with(|c: char| c.is_ascii_digit());
    let answers = has("result") || has("error");
    if has("method") && !answers {
        if !has("jsonrpc") && !has("id") {
            return Some(Shape::Noise);
        }
        let method = first("method").and_then(|m| m.strip_prefix('"')?.strip_suffix('"'));
        return Some(match (broken, method, first("id")) {
            (true, _, _) | (_, None, _) => Shape::Malformed(None),
            (_, Some(method), None) => Shape::Notification(method.to_owned()),
            (_, Some(method), Some(id)) if id_like(id) => Shape::Request(method.to_owned()),
            (_, Some(method), Some("null")) if method.starts_with("notifications/") => {
                Shape::Notification(method.to_owned())
            }
            _ => Shape::Malformed(None),
        });
    }
    let same_ids = fields.get("id").is_none_or(|all| all.iter().all(|id| *id == all[0]));
    let number = if same_ids { first("id").and_then(number) } else { None };
    let claims = if answers { has("id") || has("jsonrpc") } else { has("jsonrpc") && number.is_some() };
    if !claims {
        return Some(Shape::Noise);
    }
    let good_id = first("id").is_some_and(|id| id_like(id) || id == "null");
    Some(match (broken || has("method") || !good_id, first("result"), first("error")) {
        (false, Some(body), None) => Shape::Response { number, body: body.to_owned(), is_error: false },
        (false, None, Some(body)) if good_error(body)? => {
            Shape::Response { number, body: body.to_owned(), is_error: true }
        }
        _ => Shape::Malformed(number),
    })
}

fn number(raw: &str) -> Option<u64> {
    let plain = match raw.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => match raw.split_once('.') {
            Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
            Some(_) => return None,
            None => raw,
        },
    };
    let number: u64 = plain.parse().ok()?;
    (number.to_string() == plain).then_some(number)
}

fn good_error(raw: &str) -> Option<bool> {
    if !raw.starts_with('{') {
        return Some(false);
    }
    let all = members(raw.as_bytes())?;
    let only = |key: &str| {
        let mut found = all.iter().filter(|(name, _)| name == key).map(|(_, raw)| *raw);
        let first = found.next();
        if found.next().is_some() { None } else { first }
    };
    let code = only("code").is_some_and(|code| code.parse::<i32>().is_ok());
    Some(code && only("message").is_some_and(|message| message.starts_with('"')))
}

/// An answer handed back has the caller's id and otherwise the same members.
fn answer(frame: &Bytes, response: &envelope::Response, adapt: Option<Era>) {
    let back = splice::answer(&AnswerSplice {
        frame,
        id: response.id.clone(),
        body: response.body.clone(),
        is_error: response.is_error,
        caller_id: b"\"caller\"",
        method: "resources/read",
        adapt,
    })
    .to_bytes();
    let Ok(Envelope::Response(seen)) = envelope::parse(&back) else {
        panic!("the answer is still an answer: {}", String::from_utf8_lossy(&back))
    };
    assert_eq!(&back[seen.id.clone()], b"\"caller\"");
    let (old, new) = (&frame[response.body.clone()], &back[seen.body]);
    let Some(adapt) = adapt else {
        assert_eq!(old, new, "the body is not touched");
        return;
    };
    if response.is_error {
        assert!(old.len() == new.len(), "only the code may differ");
        return;
    }
    let (Some(mut old), Some(mut new)) = (members(old), members(new)) else { return };
    let kind = old.iter().rev().find(|(key, _)| key == "resultType").map(|(_, raw)| *raw);
    match (adapt, kind) {
        (Era::Modern, None) => {
            for (key, value) in
                [("resultType", "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")]
            {
                if !old.iter().any(|(known, _)| known == key) {
                    assert_eq!(new.remove(0), (key.to_owned(), value));
                }
            }
        }
        (Era::Legacy, Some("\"complete\"")) => old.retain(|(key, _)| key != "resultType"),
        _ => {}
    }
    assert_eq!(old, new, "the other members are not touched");
}

/// First byte: what is asked; rest: a caller's params.
pub fn splice(data: &[u8]) {
    let [flags, params @ ..] = data else { return };
    let set = |bit: u8| flags & (1 << bit) != 0;
    let modern = MetaRewrite::Modern {
        revision: "2026-07-28".to_owned(),
        capabilities: Bytes::from_static(b"{}"),
        client_info: Bytes::from_static(br#"{"name":"i"}"#),
    };
    let params = Bytes::copy_from_slice(params);
    let request = RequestSplice {
        session: None,
        id: 7,
        method: "tools/call",
        params: &params,
        name: set(0).then_some((if set(1) { "uri" } else { "name" }, "n\"\u{e9}")),
        arguments_default: set(2),
        progress: set(3),
        meta: if set(4) { &modern } else { &MetaRewrite::Legacy },
    };
    let spliced = splice::request(&request);
    let whole = [br#"{"params":"#, &params[..], b"}"].concat();
    let valid = scan::check(&params, DEPTH_MAX).is_ok() && scan::check(&whole, DEPTH_MAX).is_ok();
    let object = params.trim_ascii_start().starts_with(b"{");
    match &spliced {
        Ok(parts) => {
            assert!(
                params.is_empty() || (valid && object),
                "only objects are spliced: {:?}",
                parts.to_bytes()
            );
            let message = parts.to_bytes();
            assert_eq!(parts.len(), message.len());
            assert!(!parts.is_empty() && parts.pieces().iter().all(|piece| !piece.is_empty()));
            spliced_request(&request, &message);
        }
        Err(SpliceError::MetaNotAnObject) => {
            let meta = envelope::member(params.trim_ascii(), "_meta");
            assert!(valid && meta.is_some_and(|span| params.trim_ascii()[span.start] != b'{'));
        }
        Err(SpliceError::ArgumentsNotAnObject) => {
            let arguments = envelope::member(params.trim_ascii(), "arguments");
            let other = arguments.is_some_and(|span| params.trim_ascii()[span.start] != b'{');
            assert!(valid && request.arguments_default && other);
        }
        Err(SpliceError::NotAnObject | SpliceError::Json(_)) => {
            assert!(!(valid && object), "{spliced:?}");
        }
    }
}

fn spliced_request(request: &RequestSplice<'_>, message: &[u8]) {
    assert!(!message.contains(&b'\n') && !message.contains(&b'\r'), "one line");
    let Ok(Envelope::Request { id, method, params }) = envelope::parse(message) else {
        panic!("not a request: {}", String::from_utf8_lossy(message))
    };
    assert_eq!((&message[id], &message[method]), (&b"7"[..], &b"tools/call"[..]));
    let new = params.map(|span| &message[span]);
    let old = splice::one_line(if request.params.is_empty() {
        Bytes::from_static(b"{}")
    } else {
        request.params.clone()
    });
    let Some(new) = new else {
        assert!(request.params.is_empty() && request.name.is_none() && !request.arguments_default);
        return;
    };
    let (Some(old), Some(new)) = (members(&old), members(new)) else { return };
    let last = |all: &[(String, &str)], key: &str| {
        all.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| (*raw).to_owned())
    };
    let name_key = request.name.map_or("arguments", |(key, _)| key);
    let touched = |key: &str| ["_meta", "arguments", name_key].contains(&key);
    for key in ["_meta", "arguments", name_key] {
        assert!(new.iter().filter(|(name, _)| name == key).count() <= 1, "{key} is there once");
    }
    let rest = |all: &[(String, &str)]| -> Vec<(String, String)> {
        let kept = all.iter().filter(|(key, _)| !touched(key));
        kept.map(|(key, raw)| (key.clone(), (*raw).to_owned())).collect()
    };
    assert_eq!(rest(&old), rest(&new), "the other members are not touched");
    if let Some((key, value)) = request.name {
        assert_eq!(last(&new, key), Some(Value::from(value).to_string()));
    }
    let default = request.arguments_default.then(|| "{}".to_owned());
    assert_eq!(last(&new, "arguments"), last(&old, "arguments").or(default));
    assert!(!request.arguments_default || last(&new, "arguments").is_some_and(|raw| raw.starts_with('{')));
    meta(request, last(&old, "_meta"), last(&new, "_meta"));
}

fn meta(request: &RequestSplice<'_>, old: Option<String>, new: Option<String>) {
    let mut wanted = BTreeMap::from([
        ("progressToken", request.progress.then(|| "7".to_owned())),
        ("io.modelcontextprotocol/protocolVersion", None),
        ("io.modelcontextprotocol/clientCapabilities", None),
        ("io.modelcontextprotocol/clientInfo", None),
    ]);
    if let MetaRewrite::Modern { .. } = request.meta {
        wanted.insert("io.modelcontextprotocol/protocolVersion", Some("\"2026-07-28\"".to_owned()));
        wanted.insert("io.modelcontextprotocol/clientCapabilities", Some("{}".to_owned()));
        wanted.insert("io.modelcontextprotocol/clientInfo", Some(r#"{"name":"i"}"#.to_owned()));
    }
    if new.is_none() {
        assert!(old.is_none() && wanted.values().all(Option::is_none), "_meta is kept");
        return;
    }
    let (old, new) = (old.unwrap_or("{}".to_owned()), new.unwrap_or_default());
    let (Some(old), Some(new)) = (members(old.as_bytes()), members(new.as_bytes())) else { return };
    for (key, value) in &wanted {
        let found: Vec<_> = new.iter().filter(|(name, _)| name == key).map(|(_, raw)| *raw).collect();
        assert_eq!(found, value.iter().map(String::as_str).collect::<Vec<_>>(), "{key} of _meta");
    }
    let rest = |all: Vec<(String, &str)>| -> Vec<(String, String)> {
        let kept = all.into_iter().filter(|(key, _)| !wanted.contains_key(key.as_str()));
        kept.map(|(key, raw)| (key, raw.to_owned())).collect()
    };
    assert_eq!(rest(old), rest(new), "the other members of _meta are not touched");
}
