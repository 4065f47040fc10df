//! Secrets that are known by their form alone: vendors' keys, bearer values, values
//! of credential-named fields, passwords in URLs. Linear-time patterns; the part that
//! is hidden is the value, never the words around it. Called by `redact` only.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};

/// One form, over bytes: every class that is not ASCII alone takes whole characters, because it
/// takes all bytes above. The groups named `s` (sure) and `m` (maybe) are the secret.
struct Shape(Regex);

/// `s` is a secret whenever it matches; `m` only if it looks like one, because
/// the words around it are used in plain English too ("token: missing").
const FORMS: &[&str] = &[
    // Keys with a vendor's mark.
    r"\b(?P<m>sk-[A-Za-z0-9_-]{16,})",
    r"\b(?P<s>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,})",
    r"\b(?P<s>xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})",
    r"\b(?P<s>(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b",
    r"\b(?P<s>AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})",
    r"\b(?P<s>(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{20,})",
    r"\b(?P<s>npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,})",
    r"\b(?P<s>SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|tvly-[A-Za-z0-9-]{16,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})",
    r"\b(?P<s>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?P<s>[^-]*)",
    // Values by the word before them.
    r"(?i)\b(?:bearer|basic)\s+(?P<m>[A-Za-z0-9._~+/=-]{8,})",
    r#"(?i)\b(?:authorization|proxy-authorization|cookie|set-cookie|x-api-key)["']?\s*:\s*["']?(?:[a-z]+\s+)?(?P<m>[^\s"'<>,\\]{6,})"#,
    r#"(?i)(?:^|[^A-Za-z0-9_])-{0,2}(?:api[_-]?key|apikey|(?:access|auth|refresh|session|id)[_-]?token|token|(?:client[_-]?)?secret|password|passwd|pwd|sig|signature)=["']?(?P<f>[^\s"'&;<>,\\\[\]]{3,})"#,
    r#"(?i)\b[A-Z0-9_]*(?:API_?KEY|TOKEN|SECRET|PASSWORD)=["']?(?P<f>[^\s"'&;<>,\\\[\]]{3,})"#,
    r#"(?i)(?:^|[^A-Za-z0-9_])(?:api[_-]?key|apikey|(?:access|auth|refresh)[_-]?token|token|(?:client[_-]?)?secret|password|passwd)["']?\s*:\s*["']?(?P<m>[^\s"'&;<>,\\{}\[\]]{8,})"#,
    r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/@:"'<>\\]*:(?P<s>[^\s/@"'<>\\]+)@"#,
];

/// Words that stand where a value is absent.
const NOT_VALUES: [&str; 14] = [
    "true",
    "false",
    "null",
    "none",
    "unset",
    "missing",
    "required",
    "undefined",
    "empty",
    "invalid",
    "expired",
    "redacted",
    "string",
    "object",
];

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    FORMS.iter().filter_map(|form| Regex::new(&format!("(?-u){form}")).ok()).map(Shape).collect()
});

/// Spans of everything that has the form of a secret, in no order.
pub(super) fn find(text: &[u8], into: &mut Vec<Range<usize>>) {
    for Shape(regex) in SHAPES.iter() {
        into.extend(regex.captures_iter(text).filter_map(|found| secret(&found)));
    }
}

fn secret(found: &Captures<'_>) -> Option<Range<usize>> {
    if let Some(sure) = found.name("s") {
        return (!sure.as_bytes().is_empty()).then(|| sure.range());
    }
    if let Some(field) = found.name("f") {
        return (!is_word(field.as_bytes())).then(|| field.range());
    }
    let maybe = found.name("m")?;
    looks_secret(maybe.as_bytes()).then(|| maybe.range())
}

fn is_word(value: &[u8]) -> bool {
    NOT_VALUES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Text without a digit is English unless it ends as base64 does, changes case all the
/// time, or is long and mixes cases.
fn looks_secret(value: &[u8]) -> bool {
    let any = |test: fn(&u8) -> bool| value.iter().any(test);
    let turns =
        value.windows(2).filter(|two| two[0].is_ascii_uppercase() != two[1].is_ascii_uppercase()).count();
    any(u8::is_ascii_digit)
        || value.ends_with(b"=")
        || turns * 3 >= value.len()
        || (value.len() >= 20 && any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> Vec<&str> {
        let mut spans = Vec::new();
        find(text.as_bytes(), &mut spans);
        spans.sort_by_key(|s| (s.start, s.end));
        spans.into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn every_form_compiles() {
        assert_eq!(SHAPES.len(), FORMS.len());
    }

    #[test]
    fn vendor_keys_are_found() {
        let body = "Ab1".repeat(20);
        for key in [
            format!("sk-proj-{}", &body[..40]),
            format!("sk-ant-api03-{}", &body[..40]),
            format!("ghp_{}", &body[..36]),
            format!("github_pat_{}", &body[..50]),
            format!("glpat-{}", &body[..20]),
            "xoxb-123456789012-abcdef".to_owned(),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("AIza{}", &body[..35]),
            format!("sk_live_{}", &body[..24]),
            format!("npm_{}", &body[..36]),
            format!("hf_{}", &body[..34]),
            format!("eyJ{}.eyJ{}.{}", &body[..12], &body[..20], &body[..20]),
        ] {
            assert_eq!(hidden(&format!("key {key} refused")), [key.as_str()]);
        }
    }

    #[test]
    fn values_are_found_by_the_word_before_them() {
        for (text, want) in [
            ("Authorization: Bearer abc.def-123456", "abc.def-123456"),
            ("authorization: Basic dXNlcjpwdzE=", "dXNlcjpwdzE="),
            ("X-Api-Key: 0123abcd", "0123abcd"),
            ("GET /x?token=hunter&y=1", "hunter"),
            ("--api-key=canary-value", "canary-value"),
            ("GITHUB_TOKEN=opensesame", "opensesame"),
            (r#"{"password":"correct1horse"}"#, "correct1horse"),
            ("https://user:p%40ss@host/x", "p%40ss"),
            ("postgres://u:opensesame@db:5432/x", "opensesame"),
        ] {
            assert!(hidden(text).contains(&want), "{text}: {:?}", hidden(text));
        }
    }

    #[test]
    fn plain_words_schemas_and_paging_keys_are_left_alone() {
        for text in [
            "bearer token required, basic authentication is off",
            "token: missing, password: required; secret is invalid",
            r#"{"nextPageToken":"CAUQAA1234567","total_tokens":12345678,"page_token":"abc12345"}"#,
            r#"{"properties":{"token":{"type":"string"},"password":{"type":"string","minLength":8}}}"#,
            "sk-folding-cube-wrapper-small task-0123456789012345678",
            "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, uuid 123e4567-e89b-12d3-a456-426614174000",
            "https://example.com:8080/a@b and mailto:a@b.c, time=12:30",
            "token=null&password=&secret=",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        ] {
            assert_eq!(hidden(text), Vec::<&str>::new(), "{text}");
        }
    }
}
