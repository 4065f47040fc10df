//! What to do with a redirect. Pure. A request goes on only within the same origin
//! (scheme, host, port), so configured headers never reach somebody else; a POST
//! goes on only where the status keeps method and body (307, 308).

use url::Url;

/// Redirects followed for one request.
pub(super) const REDIRECT_HOPS_MAX: usize = 3;

/// Longest target that a refusal shows, in characters: it is the server's word.
const SHOWN_CHARS_MAX: usize = 300;

/// The verdict on one redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// Send the same request there.
    Follow(Url),
    /// Don't; the text says why and what to do.
    Refuse(String),
}

/// Whether this status is a redirect that names a place.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Judges a redirect of a request to `from`. `keeps_body` says that the request has a
/// body which must arrive (POST); without one (GET) every same-origin redirect is fine.
/// `hops` is how many were followed before.
pub(super) fn verdict(from: &Url, status: u16, location: Option<&str>, keeps_body: bool, hops: usize) -> Hop {
    let Some(location) = location else {
        return Hop::Refuse(format!("HTTP {status} without a Location header"));
    };
    let Ok(mut to) = from.join(location) else {
        return Hop::Refuse(format!("HTTP {status} to a place that is no URL"));
    };
    to.set_fragment(None);
    let shown: String = shown(&to).chars().take(SHOWN_CHARS_MAX).collect();
    if !same_origin(from, &to) {
        return Hop::Refuse(format!(
            "HTTP {status} to another origin, {shown}: not followed, since the configured headers must not go there; if you trust it, put that URL into the configuration"
        ));
    }
    if keeps_body && !matches!(status, 307 | 308) {
        return Hop::Refuse(format!(
            "HTTP {status} to {shown}: a POST can't follow it without losing its body; put that URL into the configuration"
        ));
    }
    if hops >= REDIRECT_HOPS_MAX {
        return Hop::Refuse(format!(
            "more than {REDIRECT_HOPS_MAX} redirects, the last one (HTTP {status}) to {shown}"
        ));
    }
    // Credentials written into the URL belong to the origin, which is the same.
    let _ = to.set_username(from.username());
    let _ = to.set_password(from.password());
    Hop::Follow(to)
}

/// Same scheme, host and port.
pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host() == b.host()
        && a.port_or_known_default() == b.port_or_known_default()
        && a.host().is_some()
}

/// A URL as errors show it: without credentials, query and fragment, which may be secret.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn refusal(from: &str, status: u16, to: &str, post: bool, hops: usize) -> String {
        match verdict(&url(from), status, Some(to), post, hops) {
            Hop::Refuse(text) => text,
            Hop::Follow(to) => panic!("followed to {to}"),
        }
    }

    #[test]
    fn same_origin_307_and_308_are_followed_with_the_body() {
        let cases = [
            ("http://h:1/mcp", "/mcp/", "http://h:1/mcp/"),
            ("http://h:1/mcp", "http://h:1/v2?k=1#f", "http://h:1/v2?k=1"),
            ("http://h/mcp", "http://h:80/x", "http://h/x"),
            ("https://u:p@h/mcp", "/x", "https://u:p@h/x"),
            ("http://h:1/a/b", "c", "http://h:1/a/c"),
        ];
        for (from, to, want) in cases {
            for status in [307, 308] {
                assert_eq!(
                    verdict(&url(from), status, Some(to), true, 0),
                    Hop::Follow(url(want)),
                    "{from} {to}"
                );
            }
        }
    }

    #[test]
    fn another_origin_is_never_followed() {
        for to in ["http://h:2/mcp", "https://h:1/mcp", "http://other:1/mcp", "//other/mcp", "file:///etc/x"]
        {
            for (status, post) in [(307, true), (308, true), (302, false), (307, false)] {
                let text = refusal("http://h:1/mcp", status, to, post, 0);
                assert!(text.contains("another origin"), "{to}: {text}");
            }
        }
    }

    #[test]
    fn a_post_does_not_follow_what_would_drop_its_body_and_names_the_target() {
        for status in [301, 302, 303] {
            let text = refusal("http://h:1/mcp", status, "/mcp/?token=canary", true, 0);
            assert!(text.contains("http://h:1/mcp/") && text.contains(&status.to_string()), "{text}");
            assert!(!text.contains("canary"), "{text}");
            assert_eq!(
                verdict(&url("http://h:1/mcp"), status, Some("/mcp/"), false, 0),
                Hop::Follow(url("http://h:1/mcp/"))
            );
        }
    }

    #[test]
    fn a_redirect_loop_ends_at_the_bound() {
        assert!(matches!(verdict(&url("http://h/a"), 307, Some("/a"), true, 2), Hop::Follow(_)));
        assert!(refusal("http://h/a", 307, "/a", true, 3).contains("more than 3 redirects"));
    }

    #[test]
    fn a_refusal_is_no_longer_than_the_target_needs() {
        let text = refusal("http://h/a", 302, &format!("/{}", "a".repeat(9000)), true, 0);
        assert!(text.contains("http://h/aaa") && text.len() < SHOWN_CHARS_MAX + 200, "{}", text.len());
    }

    #[test]
    fn a_redirect_to_nowhere_is_an_error() {
        assert!(matches!(verdict(&url("http://h/a"), 307, None, true, 0), Hop::Refuse(_)));
        assert!(refusal("http://h/a", 307, "http://[", true, 0).contains("no URL"));
    }

    #[test]
    fn credentials_and_queries_are_not_shown() {
        assert_eq!(shown(&url("https://user:pass@h:8/p?key=1#f")), "https://h:8/p");
    }

    #[test]
    fn configured_headers_go_to_no_other_origin_in_any_of_hundreds_of_spellings() {
        // A request is sent where the verdict says, with all headers, or not at all.
        let froms = [
            "http://h.example/mcp",
            "https://h.example/mcp",
            "https://h.example:8443/a/b?k=v",
            "http://127.0.0.1:80/mcp",
            "http://[::1]:9/mcp",
        ];
        let elsewhere = [
            "http://evil.example/mcp",
            "https://evil.example/",
            "//evil.example/mcp",
            "\\\\evil.example/mcp",
            "/\\evil.example/mcp",
            "http:\\\\evil.example",
            "http://h.example@evil.example/",
            "http://h.example:80@evil.example/",
            "https://h.example.evil.example/mcp",
            "https://h.example.:8443/a",
            "http://xn--h-example/",
            "ftp://h.example/mcp",
            "http://h.example:81/mcp",
            "https://h.example:444/mcp",
            "http://2130706434/",
            "http://0x7f000002/mcp",
            "http://127.0.0.1.evil.example/",
            "http://[::2]:9/mcp",
            "http://[::1]:10/mcp",
            "\thttp://evil.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/plain,x",
            "http://evil.example#http://h.example/",
            "http://evil.example?@h.example/",
        ];
        let mut cases = 0;
        for from in froms.map(url) {
            for to in elsewhere {
                for status in [301, 302, 303, 307, 308] {
                    for post in [true, false] {
                        let verdict = verdict(&from, status, Some(to), post, 0);
                        assert!(
                            matches!(verdict, Hop::Refuse(_)),
                            "{from} to {to} with {status}: {verdict:?}"
                        );
                        cases += 1;
                    }
                }
            }
            // The same origin in other words.
            for same in ["?x=1", "/other", "./a/../b", "#part"] {
                let Hop::Follow(to) = verdict(&from, 307, Some(same), true, 0) else {
                    panic!("{from} to {same}")
                };
                assert!(same_origin(&from, &to) && to.fragment().is_none());
                cases += 1;
            }
        }
        assert!(cases >= 200, "{cases}");
    }
}
