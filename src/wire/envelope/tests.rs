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
