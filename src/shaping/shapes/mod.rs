//! Secrets that are known by their form alone: vendors' keys, bearer values, values
//! of credential-named fields, passwords in URLs. The part that
//! is hidden is the value, never the words around it. Called by `redact` only.

mod fields;
mod values;
mod vendors;

use std::ops::Range;

/// Spans of everything that has the form of a secret, in no order.
pub(super) fn find(text: &[u8], into: &mut Vec<Range<usize>>) {
    vendors::find(text, into);
    fields::find(text, into);
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
