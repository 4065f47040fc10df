//! Tests of `wire::splice`: its promises and the inputs that broke others.

use super::*;
use crate::wire::era::Era;
use crate::wire::scan::ScanError;

fn splice<'a>(params: &'a Bytes, meta: &'a MetaRewrite) -> RequestSplice<'a> {
    RequestSplice {
        session: None,
        id: 7,
        method: "tools/call",
        params,
        name: Some(("name", "echo")),
        arguments_default: true,
        progress: true,
        meta,
    }
}

fn legacy(params: &str) -> String {
    let params = Bytes::copy_from_slice(params.as_bytes());
    let parts = request(&splice(&params, &MetaRewrite::Legacy)).unwrap();
    String::from_utf8(parts.to_bytes().to_vec()).unwrap()
}

const HEAD: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"#;

#[test]
fn a_call_gets_our_id_name_token_and_arguments() {
    for (params, expected) in [
        ("", r#"{"name":"echo","arguments":{},"_meta":{"progressToken":7}}"#),
        ("{ }", r#"{"name":"echo","arguments":{},"_meta":{"progressToken":7} }"#),
        (
            r#"{"name":"x__echo","arguments":{"a": 1.10}}"#,
            r#"{"name":"echo","arguments":{"a": 1.10},"_meta":{"progressToken":7}}"#,
        ),
        (
            r#"{"_meta":{"progressToken":"abc","k":1},"arguments":{"b":null},"x":[ ],"name":5}"#,
            r#"{"_meta":{"progressToken":7,"k":1},"arguments":{"b":null},"x":[ ],"name":"echo"}"#,
        ),
        (
            r#"{"n\u0061me":"evil","name":"y","arguments":{}, "name":"z" , "_meta":{}}"#,
            r#"{"arguments":{}, "name":"echo" , "_meta":{"progressToken":7}}"#,
        ),
        (
            r#"{"_meta":{"a":1},"arguments":1,"_meta":{"b":2},"arguments":{"c":2},"name":"q"}"#,
            r#"{"_meta":{"b":2,"progressToken":7},"arguments":{"c":2},"name":"echo"}"#,
        ),
        (
            "{\"name\":\"a\",\n\r\t\"arguments\":\n{}}",
            "{\"name\":\"echo\",  \t\"arguments\": {},\"_meta\":{\"progressToken\":7}}",
        ),
    ] {
        assert_eq!(legacy(params), format!("{HEAD}{expected}}}"), "{params}");
    }
}

#[test]
fn with_nothing_to_put_in_params_are_left_out_or_left_alone() {
    let bare = |params: &'static str| {
        let params = Bytes::from_static(params.as_bytes());
        let meta = MetaRewrite::Legacy;
        let mut s = splice(&params, &meta);
        (s.name, s.arguments_default, s.progress, s.method) = (None, false, false, "x\"y");
        String::from_utf8(request(&s).unwrap().to_bytes().to_vec()).unwrap()
    };
    assert_eq!(bare(""), r#"{"jsonrpc":"2.0","id":7,"method":"x\"y"}"#);
    assert_eq!(bare("{}"), r#"{"jsonrpc":"2.0","id":7,"method":"x\"y","params":{}}"#);
    assert_eq!(
        bare(r#"{"cursor":"c","_meta":{"progressToken":"caller's"}}"#),
        r#"{"jsonrpc":"2.0","id":7,"method":"x\"y","params":{"cursor":"c","_meta":{}}}"#,
        "a token of the caller means nothing to the server"
    );
}

#[test]
fn params_that_are_no_object_are_refused_with_the_reason() {
    let refused = |params: &str| {
        let params = Bytes::copy_from_slice(params.as_bytes());
        request(&splice(&params, &MetaRewrite::Legacy)).unwrap_err()
    };
    for params in ["[]", "null", "\"x\"", "7", " "] {
        assert_eq!(refused(params), SpliceError::NotAnObject, "{params}");
    }
    for meta in ["null", "[]", "\"x\"", "7"] {
        assert_eq!(refused(&format!(r#"{{"_meta":{meta}}}"#)), SpliceError::MetaNotAnObject, "{meta}");
    }
    for arguments in ["null", "[]", "\"x\"", "7", "{},\"\\u0061rguments\":null"] {
        let params = format!(r#"{{"arguments": {arguments}}}"#);
        assert_eq!(refused(&params), SpliceError::ArgumentsNotAnObject, "{arguments}");
    }
    assert_eq!(refused("{\"a\":\"x\ny\"}"), SpliceError::Json(ScanError::Syntax { at: 7 }));
    assert_eq!(refused("{} {}"), SpliceError::Json(ScanError::Syntax { at: 3 }));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(127), "]".repeat(127));
    assert_eq!(
        refused(&deep),
        SpliceError::Json(ScanError::TooDeep { at: 131 }),
        "with the request around it"
    );
}

#[test]
fn large_values_are_slices_of_what_came_in() {
    let big = "x".repeat(1 << 20);
    let params = Bytes::from(format!(
        r#"{{"name":"a","arguments":{{"text":"{big}"}},"_meta":{{"progressToken":1}}}}"#
    ));
    let parts = request(&splice(&params, &MetaRewrite::Legacy)).unwrap();
    assert_eq!(parts.pieces().len(), 3);
    let from = params.as_ptr() as usize;
    let at = parts.pieces()[1].as_ptr() as usize;
    assert!(at > from && at < from + params.len(), "the payload is not copied");
    assert!(parts.pieces()[0].len() + parts.pieces()[2].len() < 200);

    let frame = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"text":"{big}"}}}}"#));
    let answer = replace(&frame, 22..23, b"\"caller\"");
    assert_eq!(answer.pieces().len(), 2);
    assert_eq!(answer.pieces()[1].as_ptr(), frame[23..].as_ptr());
    assert_eq!(answer.len(), answer.to_bytes().len());
}

#[test]
fn line_ends_between_tokens_become_spaces() {
    let message = Bytes::from_static(b"{\r\n  \"a\": [1,\n2]}");
    assert_eq!(one_line(message), &b"{    \"a\": [1, 2]}"[..]);
    let message = Bytes::from_static(b"{\"a\":\"\\n\"}");
    assert_eq!(one_line(message.clone()).as_ptr(), message.as_ptr(), "nothing is copied");
}

#[test]
fn messages_of_our_own_are_well_formed() {
    for (message, expected) in [
        (
            notification("notifications/initialized", None),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        ),
        (
            notification("notifications/cancelled", Some(r#"{"requestId":7}"#)),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
        ),
        (success(b"\"a\"", "{}"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
        (
            failure(b"7", -32601, "no \"x\"\n", None),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no \"x\"\n"}}"#,
        ),
        (
            failure(b"null", 1, "", Some("[1]")),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":[1]}}"#,
        ),
    ] {
        assert_eq!(std::str::from_utf8(&message).unwrap(), expected);
        assert!(crate::wire::envelope::parse(&message).is_ok());
    }
}

#[test]
fn a_modern_reader_of_a_legacy_resource_is_told_that_nothing_of_it_may_be_kept() {
    let read = |result: &str| {
        let frame = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
        let body = frame.len() - 1 - result.len()..frame.len() - 1;
        let splice = AnswerSplice {
            frame: &frame,
            id: 22..23,
            body,
            is_error: false,
            caller_id: b"7",
            method: "resources/read",
            adapt: Some(Era::Modern),
        };
        serde_json::from_slice::<serde_json::Value>(&answer(&splice).to_bytes()).unwrap()["result"].clone()
    };
    let all = serde_json::json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    assert_eq!(read("{}"), all);
    let kept = read(r#"{"contents":[],"ttlMs":5}"#);
    assert_eq!(kept["ttlMs"], 5, "what the server says stays");
    assert_eq!(kept["cacheScope"], "private");
    assert_eq!(kept["contents"], serde_json::json!([]));
}

#[test]
fn a_member_of_meta_is_added_once_and_all_else_stays() {
    for (params, wanted) in [
        ("", r#"{"_meta":{"k":"v"}}"#),
        (r#"{ "a":1.0 }"#, r#"{ "a":1.0,"_meta":{"k":"v"} }"#),
        (r#"{"_meta":{},"a":1}"#, r#"{"_meta":{"k":"v"},"a":1}"#),
        (r#"{"_meta":{"x":[1.0]}}"#, r#"{"_meta":{"x":[1.0],"k":"v"}}"#),
        (r#"{"_meta":{"k":"mine"}}"#, r#"{"_meta":{"k":"mine"}}"#),
        (r#"{"_meta":7}"#, r#"{"_meta":7}"#),
        ("[1]", "[1]"),
    ] {
        let back = with_meta(&Bytes::from(params), "k", br#""v""#);
        assert_eq!(std::str::from_utf8(&back).unwrap(), wanted);
    }
}
