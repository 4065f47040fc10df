//! Tests of `wire::envelope`: its promises and the inputs that broke others.

use super::*;

fn response(text: &str) -> Response {
    match parse(text.as_bytes()) {
        Ok(Envelope::Response(response)) => response,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_response_shows_its_id_and_its_body() {
    let text = r#" {"jsonrpc":"2.0","id":7,"result":{"a":[1,2]}} "#;
    let found = response(text);
    assert_eq!(found.number, Some(7));
    assert_eq!(&text[found.id], "7");
    assert_eq!(&text[found.body], r#"{"a":[1,2]}"#);
    assert!(!found.is_error);
    let text = r#"{"error":{"code":-32601,"message":"no","data":[]},"id":"9","jsonrpc":"2.0","x":1}"#;
    let found = response(text);
    assert_eq!((found.number, found.is_error), (Some(9), true));
    assert_eq!(&text[found.body], r#"{"code":-32601,"message":"no","data":[]}"#);
}

#[test]
fn ids_that_are_no_number_of_ours_are_kept_as_they_are() {
    for (id, number) in [
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-1", None),
        ("7.0", Some(7)),
        ("7.5", None),
        ("7e0", None),
        ("\"7\"", Some(7)),
        ("\"07\"", None),
        ("\"+7\"", None),
        ("\"\"", None),
        ("\"7 \"", None),
        ("\"a\"", None),
        ("null", None),
    ] {
        let found = response(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        assert_eq!(found.number, number, "{id}");
    }
}

/// What becomes of one answer to request 7.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Answer,
    Malformed(&'static str),
    Json(ScanError),
    Batch(usize),
    Noise,
}

fn verdict(frame: &[u8]) -> Verdict {
    match parse(frame) {
        Ok(Envelope::Response(r)) => {
            assert_eq!(r.number, Some(7));
            Verdict::Answer
        }
        Ok(other) => panic!("{other:?}"),
        Err(EnvelopeError::Malformed { number, cause }) => {
            assert_eq!(number, Some(7), "the broken answer is attributed to its request");
            Verdict::Malformed(cause)
        }
        Err(EnvelopeError::Json(error)) => {
            let tail = &frame[frame.len().saturating_sub(256)..];
            assert_eq!(id_hint(frame, tail), Some(7), "the broken frame is attributed to its request");
            Verdict::Json(error)
        }
        Err(EnvelopeError::Batch(spans)) => Verdict::Batch(spans.len()),
        Err(EnvelopeError::NotRpc) => Verdict::Noise,
    }
}

const ANSWERS: &[(&str, Verdict)] = &[
    (r#"{"jsonrpc":"2.0","id":7,"result":{"structuredContent":1E400}}"#, Verdict::Answer),
    (r#"{"jsonrpc":"2.0","id":7,"result":{"content":"\ud800"}}"#, Verdict::Answer),
    (r#"{"jsonrpc":"2.0","id":"7","result":{}}"#, Verdict::Answer),
    (r#"{"jsonrpc":"2.0","id":7,"result":null}"#, Verdict::Answer),
    (r#"{"jsonrpc":"2.0","id":7,"error":{"code":2147483647,"message":""}}"#, Verdict::Answer),
    (r#"{"id":7,"result":{}}"#, Verdict::Malformed("\"jsonrpc\" is missing")),
    (r#"{"id":7,"error":{"code":1,"message":""}}"#, Verdict::Malformed("\"jsonrpc\" is missing")),
    (r#"{"jsonrpc":2.0,"id":7,"result":{}}"#, Verdict::Malformed("\"jsonrpc\" is not \"2.0\"")),
    (r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, Verdict::Malformed("\"jsonrpc\" is not \"2.0\"")),
    (
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null}"#,
        Verdict::Malformed("both \"result\" and \"error\" are present"),
    ),
    (r#"{"jsonrpc":"2.0","id":7,"error":null}"#, Verdict::Malformed("\"error\" is not an object")),
    (r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#, Verdict::Malformed("\"error\" is not an object")),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":"1","message":""}}"#,
        Verdict::Malformed("\"error.code\" is not a 32-bit integer"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":2147483648,"message":""}}"#,
        Verdict::Malformed("\"error.code\" is not a 32-bit integer"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1.5,"message":""}}"#,
        Verdict::Malformed("\"error.code\" is not a 32-bit integer"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"message":""}}"#,
        Verdict::Malformed("\"error.code\" is not a 32-bit integer"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#,
        Verdict::Malformed("\"error.message\" is not a string"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"","code":2}}"#,
        Verdict::Malformed("\"code\" or \"message\" of \"error\" is repeated"),
    ),
    (r#"{"jsonrpc":"2.0","id":7,"id":7,"result":{}}"#, Verdict::Malformed("\"id\" is repeated")),
    (
        r#"{"jsonrpc":"2.0","id":7,"result":{},"r\u0065sult":{}}"#,
        Verdict::Malformed("\"result\" is repeated"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"x","result":{}}"#,
        Verdict::Malformed("both \"method\" and an answer are present"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7}"#,
        Verdict::Malformed("neither \"method\", \"result\" nor \"error\" is present"),
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"Result":{}}"#,
        Verdict::Malformed("neither \"method\", \"result\" nor \"error\" is present"),
    ),
    (r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#, Verdict::Batch(1)),
    ("[]", Verdict::Batch(0)),
    ("{\"log\":1}", Verdict::Noise),
    ("42", Verdict::Noise),
    ("null", Verdict::Noise),
    (r#"{"level":"info","msg":"id 7","id":7}"#, Verdict::Noise),
    (r#"{"error":"boom"}"#, Verdict::Noise),
    (r#"{"result":"ok"}"#, Verdict::Noise),
    (r#"{"method":"GET","path":"/mcp"}"#, Verdict::Noise),
];

#[test]
fn each_malformed_answer_is_told_apart_and_attributed() {
    let deep =
        |n: usize| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}1{}}}"#, "[".repeat(n), "]".repeat(n));
    let fixed = ANSWERS.iter().map(|(text, verdict)| ((*text).to_owned(), *verdict));
    let table = fixed.chain([
        (deep(127), Verdict::Answer),
        (deep(128), Verdict::Json(ScanError::TooDeep { at: 33 + 127 })),
        (deep(200), Verdict::Json(ScanError::TooDeep { at: 33 + 127 })),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":tru}}"#.to_owned(),
            Verdict::Json(ScanError::Syntax { at: 41 }),
        ),
        (
            r#"{"result":{"a":'x'},"jsonrpc":"2.0","id":7}"#.to_owned(),
            Verdict::Json(ScanError::Syntax { at: 15 }),
        ),
    ]);
    for (text, expected) in table {
        assert_eq!(verdict(text.as_bytes()), expected, "{text}");
    }
    let bad = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}";
    assert_eq!(verdict(bad), Verdict::Json(ScanError::Utf8 { at: 34 }));
}

#[test]
fn broken_requests_of_a_peer_are_never_attributed_to_a_request_of_ours() {
    for text in [
        r#"{"id":7,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"x","method":"y"}"#,
        r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":[7],"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#,
    ] {
        match parse(text.as_bytes()) {
            Err(EnvelopeError::Malformed { number: None, cause }) => assert!(!cause.is_empty()),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn requests_and_notifications_show_their_method_and_params() {
    let text = r#"{"params": [1] ,"id":"a\u0031","method":"tools/call","jsonrpc":"2.0"}"#;
    let Ok(Envelope::Request { id, method, params }) = parse(text.as_bytes()) else { panic!() };
    assert_eq!((&text[id], &text[method]), (r#""a\u0031""#, "tools/call"));
    assert_eq!(&text[params.unwrap()], "[1]");
    for text in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","id":null}"#,
    ] {
        let Ok(Envelope::Notification { method, params: None }) = parse(text.as_bytes()) else { panic!() };
        assert_eq!(&text[method], "notifications/initialized");
    }
}

#[test]
fn a_batch_beyond_the_bound_is_not_unpacked() {
    let batch = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    assert!(
        matches!(parse(batch(BATCH_MAX).as_bytes()), Err(EnvelopeError::Batch(b)) if b.len() == BATCH_MAX)
    );
    assert!(matches!(
        parse(batch(BATCH_MAX + 1).as_bytes()),
        Err(EnvelopeError::Malformed { number: None, .. })
    ));
}

#[test]
fn the_id_is_found_at_either_end_of_a_broken_frame() {
    for (head, tail, expected) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{"#, "", Some(7)),
        (r#" { "jsonrpc" : "2.0" , "id" : "7" , "result" : {"#, "", Some(7)),
        (r#"{"id":7,"jsonrpc":"2.0","result":{"#, "", Some(7)),
        (r#"{"id":7,"result":{"#, "", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7}"#, "", Some(7)),
        (r#"{"result":{"id":1,"#, r#"}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
        (r#"{"result":{"id":1,"#, r#"}]}, "id": "7" , "jsonrpc": "2.0" } "#, Some(7)),
        (r#"{"jsonrpc":"2.0","result":{"#, r#"..."id\":8},"id":7}"#, Some(7)),
        // Cut off, or no number of ours.
        (r#"{"jsonrpc":"2.0","id":7"#, "", None),
        (r#"{"jsonrpc":"2.0","id":"7"#, "", None),
        (r#"{"jsonrpc":"2.0","id":-7,"#, "", None),
        (r#"{"jsonrpc":"2.0","id":7e1,"#, "", None),
        (r#"{"jsonrpc":"2.0","id":18446744073709551616,"result":"#, "", None),
        (
            r#"{"jsonrpc":"2.0","id":99999999999999999999999999,"result":"#,
            r#","id":99999999999999999999999999}"#,
            None,
        ),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"#, "", None),
        // A request: the id is the peer's.
        (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":"#, r#","id":7}"#, None),
        (r#"{"jsonrpc":"2.0","method":"x","params":{"#, r#"},"id":7}"#, None),
        // Not the end of the message.
        ("", r#","id":7}]"#, None),
        ("", r#""id":7}"#, None),
        ("", r#","xid":7}"#, None),
        ("", r#",\"id\":7}"#, None),
        ("", "}", None),
        ("", "7}", None),
        ("", "", None),
        ("npm WARN id 7", "npm WARN id 7", None),
    ] {
        assert_eq!(id_hint(head.as_bytes(), tail.as_bytes()), expected, "{head} … {tail}");
    }
}

#[test]
fn a_member_of_a_large_object_is_found_however_it_is_spelled() {
    let long = "x".repeat(2 * LOOKED_FOR_FIRST);
    for (key, spelled) in [("isError", "isError"), ("isError", r"is\u0045rror"), ("a.b/c", r"a.b\/c")] {
        let text = format!(r#"{{"t":"{long}","{spelled}":1,"u":2}}"#);
        assert_eq!(member(text.as_bytes(), key).map(|span| &text[span]), Some("1"), "{spelled}");
        assert_eq!(member(text.as_bytes(), "other"), None);
    }
    let inside = format!(r#"{{"t":{{"isError":"{long}"}}}}"#);
    assert_eq!(member(inside.as_bytes(), "isError"), None);
}

#[test]
fn members_and_elements_are_found_at_the_top_level_only() {
    let text = br#" {"a":1,"b":{"a":2},"\u0061":[3],"c":"x"} "#;
    assert_eq!(member(text, "a").map(|span| &text[span]), Some(&b"[3]"[..]), "the last one counts");
    assert_eq!(member(text, "x"), None);
    assert_eq!(members(text).len(), 4);
    assert_eq!(member(b"[1]", "a"), None);
    assert_eq!(member(b"", "a"), None);
    let text = b"[1, [2,3] ,{}]";
    let found: Vec<_> = elements(text).into_iter().map(|span| &text[span]).collect();
    assert_eq!(found, [&b"1"[..], b"[2,3]", b"{}"]);
    assert!(elements(b"{}").is_empty() && elements(b"[]").is_empty());
}

#[test]
fn texts_are_read_with_their_escapes_undone() {
    assert_eq!(text(br#""a\u00e9\n""#).as_deref(), Some("aé\n"));
    assert_eq!(text(b"\"plain\"").as_deref(), Some("plain"));
    assert_eq!(text(br#""\ud800""#), None);
    assert_eq!(text(b"7"), None);
}
