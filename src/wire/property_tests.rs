//! Random messages, whole and damaged, against the second readings in `fuzz_checks`.

use proptest::prelude::*;

use super::fuzz_checks;

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        one_of(&[
            "null",
            "true",
            "false",
            "0",
            "-0",
            "7",
            "-1.50",
            "1E400",
            "2e-3",
            "18446744073709551616",
            "7.0",
            "\"\"",
            "\"2.0\"",
            r#""\ud800""#,
            r#""a\"b\\""#,
            r#""\u00e9é漢🎉""#,
            "\"7\"",
            "{}",
            "[]",
            "-32601",
            "\"complete\"",
            r#""a text that is longer than one block of sixty-four bytes, with \"quotes\" \\ and a lone end\\""#,
        ]),
        "[a-z\"\\\\ ]{0,9}".prop_map(|text| serde_json::Value::from(text).to_string()),
        any::<f64>().prop_filter_map("JSON has no NaN", |n| n.is_finite().then(|| format!("{n:e}"))),
        any::<i64>().prop_map(|n| n.to_string()),
    ]
}

fn key() -> impl Strategy<Value = String> {
    one_of(&[
        "\"jsonrpc\"",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"code\"",
        "\"message\"",
        "\"_meta\"",
        "\"name\"",
        "\"arguments\"",
        "\"progressToken\"",
        "\"resultType\"",
        r#""\u0069d""#,
        "\"a\"",
        r#""_m\u0065ta""#,
        "\"\"",
        r#""\ud800""#,
        "\"io.modelcontextprotocol/clientInfo\"",
        "\"uri\"",
        "\"ID\"",
    ])
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![6 => Just(String::new()), 1 => one_of(&[" ", "\n", "\r\n", "\t ", "          "])]
}

fn joined(open: &str, items: Vec<(String, String, String)>, close: &str) -> String {
    let items: Vec<_> = items.into_iter().map(|(a, b, c)| a + &b + &c).collect();
    format!("{open}{}{close}", items.join(","))
}

fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(5, 60, 8, |inner| {
        let member = (key(), space(), inner.clone()).prop_map(|(k, s, v)| format!("{k}{s}:{s}{v}"));
        prop_oneof![
            prop::collection::vec((space(), inner, space()), 0..8).prop_map(|all| joined("[", all, "]")),
            prop::collection::vec((space(), member, space()), 0..8).prop_map(|all| joined("{", all, "}")),
        ]
    })
}

/// Objects that nearly are messages: every envelope key is there or not.
fn message() -> impl Strategy<Value = String> {
    let version = prop_oneof![6 => Just("\"2.0\"".to_owned()), 1 => scalar()];
    let id = prop_oneof![4 => any::<u32>().prop_map(|n| n.to_string()), 2 => scalar()];
    let method = one_of(&["\"tools/call\"", "\"notifications/x\"", "\"a\\/b\"", "7"]);
    let error = (scalar(), scalar(), json())
        .prop_map(|(code, message, data)| format!(r#"{{"code":{code},"message":{message},"data":{data}}}"#));
    let good_error = json().prop_map(|data| format!(r#"{{"code":-1,"message":"","data":{data}}}"#));
    let members = vec![
        version.prop_map(|v| format!("\"jsonrpc\":{v}")).boxed(),
        id.prop_map(|v| format!("\"id\":{v}")).boxed(),
        method.prop_map(|v| format!("\"method\":{v}")).boxed(),
        json().prop_map(|v| format!("\"params\":{v}")).boxed(),
        json().prop_map(|v| format!("\"result\": {v}")).boxed(),
        prop_oneof![error, good_error].prop_map(|v| format!("\"error\":{v}")).boxed(),
        (key(), json()).prop_map(|(k, v)| format!("{k} :{v}")).boxed(),
    ];
    let weights: Vec<_> = members.into_iter().zip([0.95, 0.9, 0.4, 0.5, 0.5, 0.3, 0.3]).collect();
    let maybe: Vec<_> = weights.into_iter().map(|(m, p)| prop::option::weighted(p, m)).collect();
    maybe
        .prop_map(|all| all.into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|all| format!("{{{}}}", all.join(",")))
}

/// Bytes put in, taken out or changed.
fn damaged(text: String, damage: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    for (at, kind, byte) in damage {
        let byte = b"\"\\{}[]:,0-.eE+u tfn\n\x00\xff"[usize::from(*byte) % 22];
        let at = at.index(bytes.len() + 1);
        match kind % 4 {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

fn damage(most: usize) -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn scan_and_spans_agree_with_serde_json(text in json(), damage in damage(4)) {
        fuzz_checks::envelope(&damaged(text, &damage));
    }

    #[test]
    fn envelopes_agree_with_the_rules_read_plainly(text in message(), damage in damage(2)) {
        fuzz_checks::envelope(text.as_bytes());
        fuzz_checks::envelope(&damaged(text, &damage));
    }

    #[test]
    fn batches_show_their_messages(all in prop::collection::vec(message(), 0..4)) {
        fuzz_checks::envelope(format!("[{}]", all.join(" , ")).as_bytes());
    }

    #[test]
    fn spliced_requests_keep_what_is_not_ours(flags in 0..32_u8, text in json(), damage in damage(2)) {
        fuzz_checks::splice(&[&[flags], text.as_bytes()].concat());
        fuzz_checks::splice(&[&[flags][..], &damaged(text, &damage)].concat());
    }
}
