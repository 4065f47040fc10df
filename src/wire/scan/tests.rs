//! Tests of `wire::scan`: its promises and the inputs that broke others.

use super::*;

#[test]
fn accepts_what_rfc_8259_allows() {
    for text in [
        "0",
        "-0",
        "1.5e+10",
        "1E400",
        "true",
        " null ",
        "\"\"",
        r#""\ud800""#,
        r#""\u00e9\"\\\/\b\f\n\r\t""#,
        "[]",
        "{}",
        "[ ]",
        "{ }",
        r#"{"a":[1,2,{"b":null}],"c":"é🎉"}"#,
        "\r\n\t [1 , 2 ] \n",
        "123456789012345678901234567890.00000000000000000000001",
    ] {
        assert_eq!(check(text.as_bytes(), DEPTH_MAX), Ok(()), "{text}");
    }
}

#[test]
fn names_the_place_where_it_stops_being_json() {
    for (text, at) in [
        ("", 0),
        (" ", 1),
        ("01", 1),
        ("-", 1),
        ("1.", 2),
        ("1e", 2),
        ("1e+", 3),
        (".5", 0),
        ("+1", 0),
        ("tru", 3),
        ("nulll", 4),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("{\"a\"}", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{a:1}", 1),
        ("[1}", 2),
        ("{\"a\":1]", 6),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 5),
        ("1 2", 2),
        ("{} {}", 3),
        ("\u{feff}1", 0),
        ("NaN", 0),
        ("[1", 2),
        ("{", 1),
    ] {
        assert_eq!(check(text.as_bytes(), DEPTH_MAX), Err(ScanError::Syntax { at }), "{text:?}");
    }
}

#[test]
fn reports_the_first_byte_that_is_not_utf8() {
    assert_eq!(check(b"\"ab\xff\"", DEPTH_MAX), Err(ScanError::Utf8 { at: 3 }));
    assert_eq!(check(b"[1,\xc3", DEPTH_MAX), Err(ScanError::Utf8 { at: 3 }));
}

#[test]
fn depth_is_bounded_at_the_bracket_that_is_one_too_many() {
    let nested = |n: usize| [vec![b'['; n], vec![b']'; n]].concat();
    assert_eq!(check(&nested(DEPTH_MAX), DEPTH_MAX), Ok(()));
    assert_eq!(check(&nested(DEPTH_MAX + 1), DEPTH_MAX), Err(ScanError::TooDeep { at: DEPTH_MAX }));
    assert_eq!(check(&nested(1_000_000), usize::MAX), Err(ScanError::TooDeep { at: DEPTH_MAX }));
    assert_eq!(check(b"{\"a\":[1]}", 1), Err(ScanError::TooDeep { at: 5 }));
    assert_eq!(check(b"7", 0), Ok(()));
    assert_eq!(check(b"[[],[],{}]", 2), Ok(()));
}

/// A container of everything that JSON has, longer than some blocks.
const ALL_SORTS: &str = r#"{"a":[1,-2.50,3e+4,4E-05,0,-0,0.1,[],{},[ ],{ }],"b\"\\":{"c":null,"d":true,"e":false},
  "long text with \u00e9, \n, \\\\ and \"quotes\" that goes on over the end of a block, é漢🎉": "\\",
  "f" : [ [ [ "x" , "y" ] , { "z" : { } } ] , 123456789012345678901234567890 , 1.7976931348623157E+308 ] , "g":"" }"#;

#[test]
fn blocks_and_tokens_agree_at_every_offset_and_for_every_damage() {
    for pad in 0..64 {
        let text = format!("[{}{ALL_SORTS}]", " ".repeat(pad));
        assert_eq!(both_ends(text.as_bytes()), (Some(text.len()), Ok(text.len())), "{pad}");
    }
    let whole = format!("[{ALL_SORTS},{ALL_SORTS}]");
    for at in 0..whole.len() {
        for gone in 1..4 {
            let mut shorter = whole.clone().into_bytes();
            shorter.drain(at..(at + gone).min(whole.len()));
            both_see_the_same(&shorter);
        }
        for byte in b"\"\\{}[]:, 0-.eE+utfn\nx\x01" {
            let mut changed = whole.clone().into_bytes();
            changed[at] = *byte;
            both_see_the_same(&changed);
            let mut longer = whole.clone().into_bytes();
            longer.insert(at, *byte);
            both_see_the_same(&longer);
        }
    }
}

fn both_see_the_same(text: &[u8]) {
    match both_ends(text) {
        (Some(end), by_token) => assert_eq!(by_token, Ok(end), "{}", String::from_utf8_lossy(text)),
        (None, by_token) => assert_ne!(by_token, Ok(text.len()), "{}", String::from_utf8_lossy(text)),
    }
}

#[test]
fn blocks_leave_what_is_deep_or_cut_off_to_the_tokens() {
    let nested = |n: usize| [vec![b'['; n], vec![b']'; n]].concat();
    assert_eq!(both_ends(&nested(64)), (Some(128), Ok(128)));
    assert_eq!(both_ends(&nested(65)), (None, Ok(130)));
    let text = ALL_SORTS.as_bytes();
    for end in 0..text.len() {
        assert_eq!(both_ends(&text[..end]).0, None, "cut off after {end} bytes");
    }
    let long = format!("{{\"a\":{}}}", "[".repeat(500));
    assert_eq!(check(long.as_bytes(), DEPTH_MAX), Err(ScanError::TooDeep { at: 132 }));
}
