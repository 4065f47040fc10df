//! Reads `WWW-Authenticate` (RFC 9110, 11.6.1) for the text that tells a user which
//! login a server wants. Pure.

/// Longest piece of a server's text that is repeated, in characters.
const SHOWN_MAX: usize = 200;

/// The text of a refusal: status, scheme, realm, scope and error where the server named them.
pub(super) fn text(status: u16, challenge: Option<&str>) -> String {
    let mut out = match status {
        403 => String::from("HTTP 403: the server refuses these credentials"),
        _ => format!("HTTP {status}: the server wants a login"),
    };
    let Some(challenge) = challenge.map(str::trim).filter(|c| !c.is_empty()) else { return out };
    let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
    let mut facts = vec![cut(scheme)];
    let parameters = parameters(rest);
    for key in ["realm", "scope", "error", "error_description", "resource_metadata"] {
        if let Some((_, value)) = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
            facts.push(format!("{key} \"{}\"", cut(value)));
        }
    }
    out.push_str(" (");
    out.push_str(&facts.join(", "));
    out.push(')');
    out
}

/// `name=value` and `name="quoted \" value"` pairs, in order. What is no pair is skipped.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| *c == ',' || c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return found;
        }
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| !matches!(c, '=' | ',') && !c.is_whitespace()) {
            name.push(c);
        }
        if chars.next_if_eq(&'=').is_none() {
            continue;
        }
        found.push((name, value(&mut chars)));
    }
}

fn value(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut value = String::new();
    if chars.next_if_eq(&'"').is_none() {
        while let Some(c) = chars.next_if(|c| *c != ',' && !c.is_whitespace()) {
            value.push(c);
        }
        return value;
    }
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    value
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn realm_and_scope_are_named_when_the_server_names_them() {
        let cases = [
            (401, None, "HTTP 401: the server wants a login"),
            (401, Some(""), "HTTP 401: the server wants a login"),
            (401, Some("Bearer"), "HTTP 401: the server wants a login (Bearer)"),
            (
                401,
                Some(r#"Bearer realm="mcp", scope="read write""#),
                r#"HTTP 401: the server wants a login (Bearer, realm "mcp", scope "read write")"#,
            ),
            (
                403,
                Some(r#"Bearer error=insufficient_scope,scope="files:write",foo=bar"#),
                r#"HTTP 403: the server refuses these credentials (Bearer, scope "files:write", error "insufficient_scope")"#,
            ),
            (
                401,
                Some(r#"Bearer REALM="a \"b\", c" , resource_metadata="https://h/.well-known/x""#),
                r#"HTTP 401: the server wants a login (Bearer, realm "a "b", c", resource_metadata "https://h/.well-known/x")"#,
            ),
            (401, Some("Basic dG9rZW4="), "HTTP 401: the server wants a login (Basic)"),
        ];
        for (status, challenge, want) in cases {
            assert_eq!(text(status, challenge), want, "{challenge:?}");
        }
    }

    #[test]
    fn a_long_challenge_is_cut_and_control_characters_are_left_out() {
        let shown = text(401, Some(&format!("Bearer realm=\"\u{1b}[31m{}\"", "x".repeat(5000))));
        assert!(shown.len() < 300 && !shown.contains('\u{1b}'), "{shown}");
    }

    proptest! {
        #[test]
        fn any_challenge_gives_a_bounded_text(challenge in ".*") {
            let shown = text(401, Some(&challenge));
            prop_assert!(shown.starts_with("HTTP 401"));
            prop_assert!(shown.chars().count() < 6 * (SHOWN_MAX + 30));
        }
    }
}
