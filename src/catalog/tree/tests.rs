//! The canonical form against RFC 8785, and what that leaves out.

use proptest::prelude::*;

use super::*;

fn form(json: &str) -> String {
    Node::parse(json).unwrap().canonical()
}

#[test]
fn the_examples_of_the_rfc_come_out_byte_for_byte() {
    let json = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
        "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
    let want = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
    assert_eq!(form(json), want);
    let keys = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
    let want = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}";
    assert_eq!(form(keys), want);
}

#[test]
fn numbers_are_written_as_the_rfc_wants_them() {
    for (literal, want) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("10e-1", "1"),
        ("-12.50", "-12.5"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("9007199254740992", "9007199254740992"),
        ("295147905179352830000.0", "295147905179352830000"),
        ("9.999999999999997e22", "9.999999999999997e+22"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("333333333.33333325", "333333333.33333325"),
        ("1424953923781206.2", "1424953923781206.2"),
    ] {
        assert_eq!(number(literal), want, "{literal}");
    }
}

#[test]
fn numbers_that_no_double_holds_stay_apart() {
    assert_ne!(number("9007199254740993"), number("9007199254740992"));
    assert_ne!(number("123456789012345678901"), number("123456789012345678902"));
    assert_ne!(number("1e999"), number("1e998"));
    assert_ne!(number("1e-999"), number("0"));
}

#[test]
fn a_repeated_key_counts_unless_it_says_the_same_again() {
    assert_eq!(form(r#"{"a":1,"a":1.0}"#), form(r#"{"a":1}"#));
    assert_eq!(
        form(r#"{"a":{"x":1,"y":2},"b":0,"\u0061":{"y":2,"x":1}}"#),
        form(r#"{"b":0,"a":{"x":1,"y":2}}"#)
    );
    let all = [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#].map(form);
    for (index, one) in all.iter().enumerate() {
        assert!(all[index + 1..].iter().all(|other| other != one), "{one}");
    }
}

#[test]
fn a_lone_surrogate_is_like_nothing_else() {
    let all = [r#""\ud800""#, r#""\udc00""#, r#""\\ud800""#, r#""\ufffd""#, r#""\ud800\udc00""#].map(form);
    for (index, one) in all.iter().enumerate() {
        assert!(all[index + 1..].iter().all(|other| other != one), "{one}");
    }
    assert_eq!(form(r#""\uD83D\uDE00""#), "\"😀\"");
}

#[test]
fn what_is_no_json_is_none_and_depth_is_bounded() {
    for json in ["", "{", "[1,", "{\"a\"}", "[1]]", "\"\\", "nul l", "{,}", "\"a"] {
        assert!(Node::parse(json).is_none(), "{json}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(form(&deep), deep);
    let other = deep.replace('1', "2");
    assert_ne!(form(&other), form(&deep));
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Into::into),
        "\\PC{0,8}|[\u{0}-\u{20}\"\\\\é😀]{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec(("[a-zé\"\\\\\u{1}]{0,4}", inner), 0..6)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_canonical_form_means_the_same_and_is_its_own(value in any_json()) {
        let once = form(&value.to_string());
        let back: serde_json::Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(form(&once), once.clone());
        prop_assert_eq!(form(&back.to_string()), once.clone());
        prop_assert_eq!(form(&serde_json::to_string_pretty(&value).unwrap()), once);
    }

    #[test]
    fn doubles_come_back_from_their_text(value in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        let text = shortest(value);
        prop_assert_eq!(text.parse::<f64>().unwrap(), value);
        prop_assert_eq!(number(&text), text.as_str());
    }
}
