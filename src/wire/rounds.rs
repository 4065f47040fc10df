//! Calls of several rounds (2026-07-28, SEP-2322): a result that asks its client something
//! (`resultType: "input_required"`), and the call that is made again with the answers. Reads and
//! builds them around bytes that are not ours. Used by the edges that cross eras.

use std::ops::Range;

use bytes::Bytes;

use super::envelope;
use super::era;

/// The kind of result that asks something.
const INPUT_REQUIRED: &[u8] = b"\"input_required\"";
/// What is asked, by keys of the server's choice.
const INPUT_REQUESTS: &str = "inputRequests";
/// The answers, under the same keys.
const INPUT_RESPONSES: &str = "inputResponses";
/// What the server wants back, byte for byte.
const REQUEST_STATE: &str = "requestState";

/// One thing that a result asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// Its key, raw JSON text with quotes.
    pub key: Bytes,
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or what we do not know.
    pub method: String,
    /// `params`, raw; empty when there is none.
    pub params: Bytes,
}

/// A result that asks something before there is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequired {
    /// What it asks, in its order.
    pub requests: Vec<InputRequest>,
    /// The value of `requestState`, raw, to be given back as it is.
    pub state: Option<Bytes>,
}

/// Reads a `result` (raw, well-formed); `None` when it asks nothing.
pub fn input_required(result: &Bytes) -> Option<InputRequired> {
    let kind = envelope::member(result, era::RESULT_TYPE)?;
    if &result[kind] != INPUT_REQUIRED {
        return None;
    }
    let asked = envelope::member(result, INPUT_REQUESTS).map(|span| result.slice(span)).unwrap_or_default();
    let requests = envelope::members(&asked).into_iter().filter_map(|(key, value)| {
        let request = asked.slice(value);
        let method = envelope::member(&request, "method").map(|span| request.slice(span))?;
        let params = envelope::member(&request, "params").map(|span| request.slice(span)).unwrap_or_default();
        let key = asked.slice(key.start - 1..key.end + 1);
        Some(InputRequest { key, method: envelope::text(&method)?.into_owned(), params })
    });
    let state = envelope::member(result, REQUEST_STATE).map(|span| result.slice(span));
    Some(InputRequired { requests: requests.collect(), state })
}

/// A result of ours that asks: `requests` are (key, method, raw params).
pub fn ask<'a>(requests: impl Iterator<Item = (&'a str, &'a str, &'a [u8])>, state: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let requests: Vec<String> = requests
        .map(|(key, method, params)| {
            let params = String::from_utf8_lossy(params);
            let params = if params.is_empty() { String::new() } else { format!(",\"params\":{params}") };
            format!("{}:{{\"method\":{}{params}}}", quoted(key), quoted(method))
        })
        .collect();
    format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{{{}}},\"requestState\":{}}}",
        requests.join(","),
        quoted(state)
    )
}

/// What a call that is made again brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// Keys and values of `inputResponses`; keys as text, values raw.
    pub responses: Vec<(String, Bytes)>,
    /// `requestState`, when it is text.
    pub state: Option<String>,
}

/// Reads the `params` of a call; `None` for a first call.
pub fn retry(params: &Bytes) -> Option<Retry> {
    let state = envelope::member(params, REQUEST_STATE);
    let responses = envelope::member(params, INPUT_RESPONSES);
    if state.is_none() && responses.is_none() {
        return None;
    }
    let state = state.and_then(|span| envelope::text(&params[span]).map(std::borrow::Cow::into_owned));
    let given = responses.map(|span| params.slice(span)).unwrap_or_default();
    let responses = envelope::members(&given).into_iter().filter_map(|(key, value)| {
        let key = envelope::text(&given[key.start - 1..key.end + 1])?.into_owned();
        Some((key, given.slice(value)))
    });
    Some(Retry { responses: responses.collect(), state })
}

/// The `params` of a first call, without what makes it one that is made again: whatever a person
/// approves of a call is approved of all its rounds.
pub fn first(params: &Bytes) -> Bytes {
    let Some(cuts) = removals(params, &[INPUT_RESPONSES, REQUEST_STATE]) else { return params.clone() };
    let mut out = Vec::with_capacity(params.len());
    let mut from = 0;
    for cut in cuts {
        out.extend_from_slice(&params[from..cut.start]);
        from = cut.end;
    }
    out.extend_from_slice(&params[from..]);
    out.into()
}

/// The `params` of the call that is made again: those of the first one with the answers (key and
/// value, raw) and the state, raw.
pub fn again(params: &Bytes, responses: &[(Bytes, Bytes)], state: Option<&Bytes>) -> Bytes {
    let base = first(params);
    let text = base.trim_ascii_end();
    let body = text.strip_suffix(b"}").unwrap_or(b"{");
    let mut out = body.to_vec();
    let separate = |out: &mut Vec<u8>| {
        if !out.trim_ascii_end().ends_with(b"{") {
            out.push(b',');
        }
    };
    if !responses.is_empty() {
        separate(&mut out);
        out.extend_from_slice(b"\"inputResponses\":{");
        for (at, (key, value)) in responses.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
    }
    if let Some(state) = state {
        separate(&mut out);
        out.extend_from_slice(b"\"requestState\":");
        out.extend_from_slice(state);
    }
    out.push(b'}');
    out.into()
}

/// What has to go so that an object has none of these members, commas included, in order; `None` when
/// it has none.
fn removals(object: &[u8], keys: &[&str]) -> Option<Vec<Range<usize>>> {
    let members = envelope::members(object);
    let is_one = |key: &Range<usize>| {
        envelope::text(&object[key.start - 1..key.end + 1]).is_some_and(|text| keys.contains(&text.as_ref()))
    };
    let gone: Vec<bool> = members.iter().map(|(key, _)| is_one(key)).collect();
    if !gone.contains(&true) {
        return None;
    }
    let mut cuts = Vec::new();
    let mut kept_before: Option<usize> = None;
    for (at, (key, value)) in members.iter().enumerate() {
        if !gone[at] {
            kept_before = Some(value.end);
            continue;
        }
        let next = members.get(at + 1).map(|(key, _)| key.start - 1);
        cuts.push(match (kept_before, next) {
            // With the comma before it.
            (Some(before), _) => {
                let cut = before..value.end;
                kept_before = Some(value.end);
                cut
            }
            // The first of all: with the comma behind it.
            (None, Some(next)) => key.start - 1..next,
            (None, None) => key.start - 1..value.end,
        });
    }
    Some(cuts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn bytes(value: &Value) -> Bytes {
        value.to_string().into()
    }

    #[test]
    fn what_a_result_asks_is_read_with_its_bytes() {
        let result = Bytes::from_static(
            br#"{"inputRequests":{"na\u006de":{"params":{"n":1.00},"method":"elicitation/create"},"r":{"method":"roots/list"}},"requestState":"s\u0074","resultType":"input_required"}"#,
        );
        let asked = input_required(&result).unwrap();
        assert_eq!(asked.state.as_deref(), Some(&br#""s\u0074""#[..]));
        let keys: Vec<_> = asked.requests.iter().map(|r| (r.key.as_ref(), r.method.as_str())).collect();
        assert_eq!(keys, [(&br#""na\u006de""#[..], "elicitation/create"), (&br#""r""#[..], "roots/list")]);
        assert_eq!(asked.requests[0].params, r#"{"n":1.00}"#);
        assert!(asked.requests[1].params.is_empty());
        for plain in [r#"{"resultType":"complete"}"#, "{}", r#"{"x":{"resultType":"input_required"}}"#] {
            assert_eq!(input_required(&Bytes::from(plain)), None, "{plain}");
        }
    }

    #[test]
    fn what_we_ask_is_read_back_by_the_same_rules() {
        let text =
            ask([("q1", "roots/list", &b""[..]), ("q\"2", "x/y", br#"{"a":[1]}"#)].into_iter(), "st\"ate");
        let asked = input_required(&Bytes::from(text.clone())).unwrap();
        assert_eq!(asked.requests.len(), 2);
        assert_eq!(asked.requests[1].key, r#""q\"2""#);
        assert_eq!(asked.requests[1].params, r#"{"a":[1]}"#);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["requestState"], "st\"ate");
    }

    #[test]
    fn a_call_made_again_brings_its_answers_and_nothing_else_changes() {
        let params = Bytes::from_static(br#"{ "name":"t", "arguments":{"n":1.0} }"#);
        assert_eq!(retry(&params), None);
        let key = Bytes::from_static(b"\"q1\"");
        let value = Bytes::from_static(br#"{"action":"accept"}"#);
        let state = Bytes::from_static(b"\"s\"");
        let again = again(&params, &[(key, value.clone())], Some(&state));
        let read = retry(&again).unwrap();
        assert_eq!((read.state.as_deref(), read.responses), (Some("s"), vec![("q1".to_owned(), value)]));
        assert!(again.starts_with(br#"{ "name":"t", "arguments":{"n":1.0}"#));
        let same = |a: &Bytes, b: &Bytes| {
            serde_json::from_slice::<Value>(a).unwrap() == serde_json::from_slice::<Value>(b).unwrap()
        };
        assert!(same(&first(&again), &params));
        assert_eq!(super::again(&Bytes::new(), &[], Some(&state)), r#"{"requestState":"s"}"#);
        assert_eq!(super::again(&Bytes::from_static(b"{}"), &[], None), "{}");
    }

    proptest! {
        #[test]
        fn removing_and_adding_are_inverse(
            keys in prop::collection::vec(prop::sample::select(vec!["a", "inputResponses", "b", "requestState", "c"]), 0..6),
            spaces in prop::collection::vec(0_usize..3, 8),
        ) {
            let mut seen = std::collections::BTreeSet::new();
            let mut text = String::from("{");
            for (at, key) in keys.iter().filter(|key| seen.insert(**key)).enumerate() {
                if at > 0 { text.push(','); }
                text.push_str(&" ".repeat(spaces[at]));
                text.push_str(&format!("\"{key}\":{{\"k\":[{at}]}}"));
                text.push_str(&" ".repeat(spaces[at + 1]));
            }
            text.push('}');
            let params = Bytes::from(text.clone());
            let bare = first(&params);
            let mut wanted: Value = serde_json::from_str(&text).unwrap();
            for key in ["inputResponses", "requestState"] {
                wanted.as_object_mut().unwrap().remove(key);
            }
            prop_assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), wanted.clone(), "{}", text);
            let response = (Bytes::from_static(b"\"k\""), bytes(&json!(1)));
            let again = again(&params, &[response], Some(&bytes(&json!("s"))));
            wanted["inputResponses"] = json!({"k": 1});
            wanted["requestState"] = json!("s");
            prop_assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), wanted, "{}", text);
        }
    }
}
