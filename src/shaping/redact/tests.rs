//! What the redactor hides, and what it leaves alone.

use proptest::prelude::*;

use super::encodings::{encodings, percent};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

fn redactor(values: &[&str]) -> Redactor {
    Redactor::new(&values.iter().map(|v| SecretText::new(*v)).collect::<Vec<_>>())
}

#[test]
fn known_value_is_hidden_in_every_encoding() {
    let value = "pä$s \"word\"/+&=\\1";
    let redactor = redactor(&[value]);
    for text in [
        value.to_owned(),
        percent(value.as_bytes(), false, true),
        percent(value.as_bytes(), false, false),
        percent(value.as_bytes(), true, true),
        serde_json::to_string(value).unwrap(),
        STANDARD.encode(value),
        URL_SAFE.encode(value).trim_end_matches('=').to_owned(),
        value.bytes().map(|b| format!("{b:02x}")).collect(),
        r#"p\u00e4$s \"word\"/+&=\\1"#.to_owned(),
        r#"pä$s \"word\"\/+&=\\1"#.to_owned(),
    ] {
        let out = redactor.values(&format!("<{text}>")).into_owned();
        assert!(out.contains(MARK), "{text}");
        assert!(out.len() <= MARK.len() + 6, "{text}: {out}");
        assert!(redactor.holds_value(text.as_bytes()));
    }
}

#[test]
fn value_inside_a_basic_header_is_hidden_at_every_offset() {
    let redactor = redactor(&["opensesame42"]);
    for user in ["", "a", "ab", "abc", "user"] {
        for tail in ["", "x", "xy"] {
            let header = STANDARD.encode(format!("{user}:opensesame42{tail}"));
            let out = redactor.values(&header).into_owned();
            assert!(out.contains(MARK), "{header}");
            let rest = out.replace(MARK, "");
            assert!(rest.len() + 13 <= header.len(), "{header}: {out}");
        }
    }
}

#[test]
fn overlapping_values_leave_no_rest() {
    let redactor = redactor(&["abcdefgh", "efghijkl", "abcdefgh-longer"]);
    assert_eq!(redactor.text("1 abcdefghijkl 2"), "1 [redacted] 2");
    assert_eq!(redactor.text("abcdefgh-longer"), "[redacted]");
    assert_eq!(redactor.text("abcdefghabcdefgh"), "[redacted][redacted]");
}

#[test]
fn short_values_are_hidden_as_words_only() {
    let redactor = redactor(&["pw1x", "true", "8080", "abc", "1.2", "p$w", "pa$s"]);
    assert_eq!(redactor.text("pw1x, \"pw1x\" xpw1x pw1xy"), "[redacted], \"[redacted]\" xpw1x pw1xy");
    assert_eq!(redactor.text("true 8080 abc 1.2 p$w"), "true 8080 abc 1.2 p$w");
    assert_eq!(redactor.text("(pa$s)"), "([redacted])");
}

#[test]
fn limits_of_length_hold_at_one_below_at_and_one_above() {
    for (value, text, hidden) in [
        ("a1b2c3d", "xa1b2c3dx", false),
        ("a1b2c3d4", "xa1b2c3d4x", true),
        ("a1b2c3d4e", "xa1b2c3d4ex", true),
        ("a1b", "a1b", false),
        ("a1b2", "a1b2", true),
        ("a1b2c", "a1b2c", true),
    ] {
        assert_eq!(redactor(&[value]).text(text) != text, hidden, "{value}");
    }
}

#[test]
fn every_line_of_a_key_file_is_hidden() {
    let key = "-----BEGIN X KEY-----\nMIIEpAIBAAKCAQEAx1\nAbCdEfGhIjKlMnOpQr\n-----END X KEY-----\n";
    let redactor = redactor(&[key]);
    let out = redactor.text("read AbCdEfGhIjKlMnOpQr from file").into_owned();
    assert_eq!(out, "read [redacted] from file");
    assert_eq!(redactor.text(key.trim()), MARK);
}

#[test]
fn redactor_never_shows_what_it_knows() {
    assert_eq!(format!("{:?}", redactor(&["opensesame42"])), "Redactor(1 values)");
}

#[test]
fn mark_survives_values_that_look_like_it() {
    let redactor = redactor(&["redacted", "[redacted]", ""]);
    assert_eq!(redactor.text("[redacted] redacted"), "[redacted] redacted");
}

#[test]
fn bytes_that_are_no_text_are_redacted_too() {
    let redactor = redactor(&["opensesame42"]);
    let out = redactor.bytes(b"\xff opensesame42 \xfe ghp_0123456789012345678901234567890123");
    assert_eq!(&out[..], b"\xff [redacted] \xfe [redacted]");
    assert!(matches!(redactor.bytes(b"plain"), Cow::Borrowed(_)));
    assert!(matches!(redactor.text("plain"), Cow::Borrowed(_)));
}

#[test]
fn forms_are_hidden_without_knowing_the_value() {
    let none = Redactor::default();
    assert_eq!(none.text("Authorization: Bearer abc123def456"), "Authorization: Bearer [redacted]");
    assert_eq!(none.text("https://u:pw@h/?token=x1yz&n=1"), "https://u:[redacted]@h/?token=[redacted]&n=1");
    assert_eq!(none.values("Bearer abc123def456"), "Bearer abc123def456");
    let schema = r#"{"properties":{"token":{"type":"string"}},"nextPageToken":"abc12345678"}"#;
    assert_eq!(none.text(schema), schema);
}

#[test]
fn a_piece_hides_what_its_ends_have_of_a_known_value() {
    let redactor = redactor(&["open-sesame-4242"]);
    for (piece, want) in [
        ("key open-ses", "key [redacted]"),
        ("ame-4242 was refused", "[redacted] was refused"),
        ("an open door", "an open door"),
        ("sesame-4242", "[redacted]"),
        ("42 is the answer", "42 is the answer"),
        ("b3Blbi1zZXN", "[redacted]"),
        ("6f70656e2d7365", "[redacted]"),
        ("x open-sesame-4242 y", "x [redacted] y"),
    ] {
        assert_eq!(redactor.piece(piece), want, "{piece}");
    }
}

#[test]
fn values_that_come_later_are_known_from_then_on() {
    let first = redactor(&["opensesame42"]);
    assert_eq!(first.text("later-value-77"), "later-value-77");
    let both = first.with(&[SecretText::new("later-value-77"), SecretText::new("opensesame42")]).unwrap();
    assert_eq!(both.text("opensesame42 later-value-77"), "[redacted] [redacted]");
    assert!(both.with(&[SecretText::new("later-value-77")]).is_none());
    assert_eq!(both.values_in(b"x later-value-77").into_iter().collect::<Vec<_>>(), [1]);
    assert_eq!(both.values_in(b"6f70656e736573616d653432").into_iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn writers_of_json_html_and_shells_are_seen_through() {
    let value = r#"a<b>&'c"d/é\e"#;
    let redactor = redactor(&[value]);
    for form in [
        r#"a\u003cb\u003e\u0026\u0027c\"d/\u00e9\\e"#,
        r#"a\u003Cb\u003E\u0026\u0027c\"d/\u00E9\\e"#,
        r#"a<b>&'c\\\"d/é\\\\e"#,
        "a&lt;b&gt;&amp;&#39;c&quot;d/é\\e",
        "a&lt;b&gt;&amp;&#x27;c&quot;d/é\\e",
        r#"a<b>&'\''c"d/é\e"#,
        r#"a\<b\>\&\'c\"d/é\\e"#,
        "a%3Cb%3E%26'c%22d%2F%C3%A9%5Ce",
    ] {
        assert_eq!(redactor.values(&format!("<{form}>")), "<[redacted]>", "{form}");
    }
}

#[test]
fn a_line_that_never_ends_is_told_in_parts_and_hides_what_crosses_them() {
    let redactor = redactor(&["open-sesame-4242"]);
    let text = format!("{}open-sesame-4242 ", "x".repeat(1000)).repeat(700);
    let mut stream = Stream::default();
    let mut out = Vec::new();
    for piece in text.as_bytes().chunks(777) {
        out.extend(stream.push(&redactor, piece));
    }
    assert!(out.len() > 100_000, "it is told before its end");
    out.extend(stream.finish(&redactor));
    assert_eq!(String::from_utf8(out).unwrap(), redactor.text(&text));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn no_known_value_survives_and_a_second_pass_changes_nothing(
        values in proptest::collection::vec("[a-c1/+ é\"]{8,14}", 1..4),
        between in proptest::collection::vec("[a-c1 =:\"]{0,6}", 4),
        pick in proptest::collection::vec((0usize..4, 0usize..13), 3),
    ) {
        let redactor = redactor(&values.iter().map(String::as_str).collect::<Vec<_>>());
        let mut text = between[0].clone();
        for (i, (which, form)) in pick.iter().enumerate() {
            let value = values[which % values.len()].trim();
            if value.len() >= VALUE_LEN_MIN {
                let forms = encodings(value);
                text += std::str::from_utf8(&forms[form % forms.len()]).unwrap();
            }
            text += &between[i + 1];
        }
        let out = redactor.text(&text).into_owned();
        for value in values.iter().map(|v| v.trim()).filter(|v| v.len() >= VALUE_LEN_MIN) {
            for form in encodings(value) {
                prop_assert!(!out.contains(std::str::from_utf8(&form).unwrap()), "{:?} in {:?}", value, out);
            }
        }
        prop_assert_eq!(redactor.text(&out).into_owned(), out.clone());
        let bytes = redactor.bytes(text.as_bytes()).into_owned();
        prop_assert_eq!(bytes, out.into_bytes());
    }

    #[test]
    fn any_text_is_taken_without_a_panic(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        static REDACTOR: std::sync::LazyLock<Redactor> =
            std::sync::LazyLock::new(|| redactor(&["opensesame42", "é€é€é€é€"]));
        let redactor = &*REDACTOR;
        let _ = (redactor.text(&text), redactor.bytes(&bytes), redactor.holds_value(&bytes));
    }

    #[test]
    fn text_in_pieces_comes_out_as_the_whole_does(
        parts in proptest::collection::vec(0usize..12, 0..24), cuts in proptest::collection::vec(0usize..400, 0..9),
    ) {
        const PARTS: [&str; 12] = [
            "open-sesame-4242", "open-ses", "ame-4242", "\n", "line one\nline two is here", " plain text ", "\n\n",
            "ghp_0123456789abcdefghij0123456789abcdef", "Authorization: Bearer abc123def456", "token=",
            "-----BEGIN X PRIVATE KEY-----\nMIIEabc\n", "-----END X PRIVATE KEY-----\n",
        ];
        static REDACTOR: std::sync::LazyLock<Redactor> =
            std::sync::LazyLock::new(|| redactor(&["open-sesame-4242", "line one\nline two is here\nthree"]));
        let text: String = parts.iter().map(|part| PARTS[*part]).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut stream = Stream::default();
        let mut out = Vec::new();
        for two in cuts.windows(2) {
            out.extend(stream.push(&REDACTOR, &text.as_bytes()[two[0]..two[1]]));
        }
        out.extend(stream.finish(&REDACTOR));
        prop_assert_eq!(String::from_utf8(out).unwrap(), REDACTOR.text(&text).into_owned());
    }
}
