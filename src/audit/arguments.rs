//! Floor 1. What the log keeps of the parameters of a call: a keyed hash of the arguments in the
//! canonical form of RFC 8785, so that equal calls can be found and none can be read; and the trace
//! that the caller named.

mod plain;

use serde_json::Value;

use super::chain::Key;

/// Parameters over this many bytes are hashed as they are: to read and sort them would hold up
/// other calls.
pub const CANONICAL_BYTES_MAX: usize = 64 * 1024;

/// What is kept of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// `jcs:` and the hash of the canonical arguments, or `raw:` and that of the parameters as sent.
    pub hash: String,
    /// The trace id of `_meta.traceparent`.
    pub trace: Option<String>,
}

/// Looks at the `params` of a call.
pub fn kept(key: &Key, params: &[u8]) -> Kept {
    let small = params.len() <= CANONICAL_BYTES_MAX;
    if let Some(arguments) = small.then(|| plain::arguments(params)).flatten() {
        return Kept { hash: hash(key, "jcs:", arguments), trace: None };
    }
    let parsed = small.then(|| serde_json::from_slice::<Value>(params).ok()).flatten();
    let Some(parsed) = parsed else {
        return Kept { hash: hash(key, "raw:", params), trace: None };
    };
    let arguments = match parsed.get("arguments") {
        Some(arguments) => canonical(arguments),
        None => "{}".to_owned(),
    };
    let trace = parsed.get("_meta").and_then(|meta| meta.get("traceparent")).and_then(Value::as_str);
    Kept { hash: hash(key, "jcs:", arguments.as_bytes()), trace: trace.and_then(trace_id).map(str::to_owned) }
}

fn hash(key: &Key, form: &str, text: &[u8]) -> String {
    let mut hash = Vec::with_capacity(form.len() + 64);
    hash.extend_from_slice(form.as_bytes());
    key.arguments(form.as_bytes(), text).write_hex(&mut hash);
    String::from_utf8(hash).unwrap_or_default()
}

/// The trace id of a W3C `traceparent`.
fn trace_id(parent: &str) -> Option<&str> {
    let id = parent.split('-').nth(1)?;
    let hex = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (hex && id.bytes().any(|byte| byte != b'0')).then_some(id)
}

/// A value in the canonical form of RFC 8785.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_text(text, out),
        Value::Number(number) => match number.as_f64() {
            Some(number) if number.is_finite() => write_number(number, out),
            _ => out.push_str(&number.to_string()),
        },
        Value::Bool(_) | Value::Null => out.push_str(&value.to_string()),
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// A number as ECMAScript writes it: the fewest digits that mean the same double.
fn write_number(number: f64, out: &mut String) {
    if number == 0.0 {
        return out.push('0');
    }
    let short = format!("{:e}", number.abs());
    // Of two equally short ones the even one, as ECMAScript has it.
    let places = short.bytes().filter(u8::is_ascii_digit).count();
    let places =
        places - short.rsplit('e').next().map_or(0, |e| e.bytes().filter(u8::is_ascii_digit).count());
    let even = format!("{:.*e}", places.saturating_sub(1), number.abs());
    let short = if even.parse() == Ok(number.abs()) { even } else { short };
    let (mantissa, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    if number < 0.0 {
        out.push('-');
    }
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.push_str(&zeros(point - count));
    } else if (1..=21).contains(&point) {
        let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(&format!("{whole}.{part}"));
    } else if (-5..=0).contains(&point) {
        out.push_str(&format!("0.{}{digits}", zeros(-point)));
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { "+" } else { "-" };
        out.push_str(&format!("{first}{dot}{rest}e{sign}{}", (point - 1).abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canon(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap())
    }

    /// The examples of RFC 8785, appendix B and section 3.2.
    #[test]
    fn numbers_texts_and_keys_are_written_as_the_rfc_says() {
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let mut out = String::new();
            write_number(f64::from_bits(bits), &mut out);
            assert_eq!(out, text);
        }
        assert_eq!(
            canon(
                r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#
            ),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        // Sorted by UTF-16, not by code point.
        assert_eq!(canon(r#"{"\ufb33":1,"\ud83d\ude00":2,"\r":3}"#), "{\"\\r\":3,\"😀\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn equal_arguments_have_one_hash_however_they_are_written_and_the_key_counts() {
        let key = Key::new(&[1; 32]);
        let one = kept(&key, br#"{"name":"t","arguments":{"a":1.0,"b":[]}}"#);
        let other = kept(&key, b"{ \"arguments\" : {\"b\":[ ],\"a\":1}, \"name\":\"u\"}");
        assert_eq!(one, other);
        assert_ne!(one, kept(&Key::new(&[2; 32]), br#"{"arguments":{"a":1.0,"b":[]}}"#));
        assert_ne!(one, kept(&key, br#"{"arguments":{"a":2,"b":[]}}"#));
        assert_eq!(kept(&key, b"{}"), kept(&key, br#"{"arguments":{}}"#));
    }

    /// What is canonical as it stands is found without a parser, and never what is not.
    #[test]
    fn arguments_that_are_canonical_as_they_stand_are_taken_as_they_are() {
        for (params, plain) in [
            (r#"{"name":"t","arguments":{"a":1,"b":[true,null,-12,"x y"],"c":{}}}"#, true),
            (r#"{"arguments":{},"_meta":{"progressToken":7,"a":{"z":1,"b":2}},"name":"t"}"#, true),
            (r#"{"name":"t"}"#, true),
            ("{}", true),
            (r#"{"arguments":{"b":1,"a":2}}"#, false),
            (r#"{"arguments":{"a":1,"a":2}}"#, false),
            (r#"{"arguments":{},"arguments":{"a":1}}"#, false),
            (r#"{"arguments":{"a":1.0}}"#, false),
            (r#"{"arguments":{"a":-0}}"#, false),
            (r#"{"arguments":{"a":1e3}}"#, false),
            (r#"{"arguments":{"a":1234567890123456}}"#, false),
            (r#"{"arguments":{"a":01}}"#, false),
            (r#"{"arguments":{"a": 1}}"#, false),
            (r#"{"arguments":{"a":"\u0041"}}"#, false),
            ("{\"arguments\":{\"a\":\"é\"}}", false),
            ("{\"arguments\":{\"a\":\"\t\"}}", false),
            (r#"{"arguments":{},"_meta":{"traceparent":"00-1-1-1"}}"#, false),
            (r#"{"arguments":{}"#, false),
            (r#"{"arguments":{}} "#, false),
            (r#"{"arguments":{"a":[1,]}}"#, false),
            (r#"{"arguments":{"a":tru}}"#, false),
            (r#"{"arguments":{"a":"x}}"#, false),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(plain::arguments(params.as_bytes()).is_some(), plain, "{params}");
        }
        assert!(
            plain::arguments(format!("{{\"a\":{}1{}}}", "[".repeat(99), "]".repeat(99)).as_bytes()).is_none()
        );
    }

    proptest::proptest! {
        #[test]
        fn a_plain_look_and_a_parser_agree(params in "\\{(\"(arguments|_meta|b|a)\":(\\{\"[ab]\":[0-9-]{1,3},\"[b-d]\":(\"[ -!#-~]{0,3}\"|null|true)\\}|[0-9]{1,2}|\\{\\}|\\[1,[0-9]\\]),?){0,3}\\}") {
            if let Some(plain) = plain::arguments(params.as_bytes()) {
                let parsed: Value = serde_json::from_str(&params).unwrap();
                let whole = parsed.get("arguments").map_or_else(|| "{}".to_owned(), canonical);
                proptest::prop_assert_eq!(plain, whole.as_bytes());
            }
        }
    }

    #[test]
    fn what_is_too_large_or_no_json_is_hashed_as_it_is() {
        let key = Key::new(&[1; 32]);
        let large = format!("{{\"arguments\":\"{}\"}}", "x".repeat(CANONICAL_BYTES_MAX));
        for text in [large.as_bytes(), b"{", b"\xff"] {
            assert!(kept(&key, text).hash.starts_with("raw:"));
        }
    }

    #[test]
    fn the_trace_of_the_caller_is_kept_and_nothing_that_is_none() {
        let key = Key::new(&[1; 32]);
        let trace = |parent: &str| {
            kept(&key, format!(r#"{{"_meta":{{"traceparent":"{parent}"}}}}"#).as_bytes()).trace
        };
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace(&format!("00-{id}-00f067aa0ba902b7-01")).as_deref(), Some(id));
        for wrong in [
            "",
            "00-zz-1",
            "00-00000000000000000000000000000000-1-1",
            &format!("00-{}-1-1", id.to_uppercase()),
        ] {
            assert_eq!(trace(wrong), None);
        }
    }
}
