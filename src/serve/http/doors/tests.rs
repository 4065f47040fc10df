//! The doors, case by case: which Host, Origin, Accept and Content-Type come in.

use http::HeaderValue;

use super::*;

/// Host lines, Origin, and whether such a request comes in; the port is 8931.
const MATRIX: [(&[&str], Option<&str>, bool); 60] = [
    (&["127.0.0.1:8931"], None, true),
    (&["localhost:8931"], None, true),
    (&["LOCALHOST:8931"], None, true),
    (&["LocalHost"], None, true),
    (&["127.0.0.1"], None, true),
    (&["127.8.9.10:8931"], None, true),
    (&["[::1]:8931"], None, true),
    (&["[::1]"], None, true),
    (&["[0:0:0:0:0:0:0:1]:8931"], None, true),
    (&["localhost:9000"], None, true),
    (&[], None, false),
    (&[""], None, false),
    (&["127.0.0.1:8931", "127.0.0.1:8931"], None, false),
    (&["127.0.0.1:8931", "evil.com"], None, false),
    (&["evil.com"], None, false),
    (&["evil.com:8931"], None, false),
    (&["127.0.0.1.evil.com"], None, false),
    (&["127.0.0.1.evil.com:8931"], None, false),
    (&["localhost.evil.com:8931"], None, false),
    (&["evil-localhost"], None, false),
    (&["localhost."], None, false),
    (&["localhost.:8931"], None, false),
    (&["a.localhost"], None, false),
    (&["localhost@evil.com"], None, false),
    (&["evil.com@localhost"], None, false),
    (&["user:pw@127.0.0.1:8931"], None, false),
    (&["localhost, evil.com"], None, false),
    (&["localhost evil.com"], None, false),
    (&["localhost/evil.com"], None, false),
    (&["http://localhost:8931"], None, false),
    (&["localhost:"], None, false),
    (&["localhost:x"], None, false),
    (&["localhost:99999"], None, false),
    (&["localhost:8931:1"], None, false),
    (&["::1"], None, false),
    (&["[::1"], None, false),
    (&["[::1]x"], None, false),
    (&["[evil.com]"], None, false),
    (&["[::ffff:192.168.0.1]:8931"], None, false),
    (&["[fe80::1]:8931"], None, false),
    (&["0.0.0.0:8931"], None, false),
    (&["192.168.1.10:8931"], None, false),
    (&["127.1:8931"], None, false),
    (&["2130706433:8931"], None, false),
    (&["0x7f.0.0.1:8931"], None, false),
    (&["0177.0.0.1:8931"], None, false),
    (&["127.0.0.1:8931"], Some("http://127.0.0.1:8931"), true),
    (&["localhost:8931"], Some("http://localhost:8931"), true),
    (&["[::1]:8931"], Some("http://[::1]:8931"), true),
    (&["localhost:8931"], Some("http://localhost:3000"), false),
    (&["localhost:8931"], Some("http://localhost"), false),
    (&["localhost:8931"], Some("https://localhost:8931"), false),
    (&["localhost:8931"], Some("null"), false),
    (&["localhost:8931"], Some("file://"), false),
    (&["localhost:8931"], Some("chrome-extension://abcdefgh"), false),
    (&["localhost:8931"], Some("http://evil.com"), false),
    (&["localhost:8931"], Some("http://127.0.0.1.evil.com:8931"), false),
    (&["localhost:8931"], Some("http://localhost:8931@evil.com"), false),
    (&["localhost:8931"], Some("http://localhost:8931/"), false),
    (&["localhost:8931"], Some(""), false),
];

fn headers(hosts: &[&str], origin: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for host in hosts {
        headers.append(HOST, HeaderValue::from_str(host).unwrap());
    }
    if let Some(origin) = origin {
        headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
    }
    headers
}

fn names() -> Names {
    Names { port: 8931, ..Names::default() }
}

#[test]
fn sixty_cases_of_host_and_origin_are_decided_right() {
    for (hosts, origin, comes_in) in MATRIX {
        let verdict = names().admit(&headers(hosts, origin), &Uri::from_static("/mcp"));
        assert_eq!(verdict.is_ok(), comes_in, "{hosts:?} {origin:?}: {verdict:?}");
        let shut = if origin.is_some() { Shut::Origin } else { Shut::Host };
        assert!(comes_in || verdict == Err(shut), "{hosts:?} {origin:?}: {verdict:?}");
    }
}

#[test]
fn a_name_that_is_listed_comes_in_and_a_refusal_names_the_setting() {
    let mut names = names();
    names.hosts.push("mcp.example".to_owned());
    names.origins.push("https://mcp.example".to_owned());
    let uri = Uri::from_static("/mcp");
    assert_eq!(names.admit(&headers(&["MCP.example"], Some("https://mcp.example")), &uri), Ok(()));
    assert_eq!(
        names.admit(&headers(&["mcp.example"], Some("https://mcp.example.evil")), &uri),
        Err(Shut::Origin)
    );
    assert!(Shut::Host.text().contains("http.hosts") && Shut::Origin.text().contains("http.origins"));
}

#[test]
fn a_target_with_another_authority_and_a_request_of_another_site_are_refused() {
    let good = headers(&["localhost:8931"], None);
    let uri = |text: &'static str| Uri::from_static(text);
    assert_eq!(names().admit(&good, &uri("http://evil.com/mcp")), Err(Shut::Host));
    assert_eq!(names().admit(&good, &uri("http://localhost:8931/mcp")), Ok(()));
    for (site, verdict) in [
        ("cross-site", Err(Shut::Site)),
        ("same-site", Err(Shut::Site)),
        ("same-origin", Ok(())),
        ("none", Ok(())),
    ] {
        let mut from = good.clone();
        from.insert("sec-fetch-site", HeaderValue::from_static(site));
        assert_eq!(names().admit(&from, &uri("/mcp")), verdict, "{site}");
    }
}

#[test]
fn other_addresses_come_in_only_where_other_addresses_are_bound() {
    let names = Names { remote: true, ..names() };
    for (host, comes_in) in [("192.168.1.10:8931", true), ("[fe80::1]:8931", true), ("evil.com:8931", false)]
    {
        let verdict = names.admit(&headers(&[host], None), &Uri::from_static("/mcp"));
        assert_eq!(verdict.is_ok(), comes_in, "{host}");
    }
}

#[test]
fn accept_is_read_by_kinds_and_refusals() {
    let of = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(text).unwrap());
        let found = accepts(&headers);
        (found.json, found.events)
    };
    assert_eq!(of("application/json, text/event-stream"), (true, true));
    assert_eq!(of("Application/JSON;q=0.5"), (true, false));
    assert_eq!(of("text/event-stream;q=0, */*"), (true, true));
    assert_eq!(of("application/json;q=0"), (false, false));
    assert_eq!(of("text/html"), (false, false));
    assert_eq!(of("*/*"), (true, true));
    assert_eq!(accepts(&HeaderMap::new()), Accepts { json: true, events: true });
}

#[test]
fn only_plain_json_in_utf_8_is_read() {
    let of = |kind: &str, coding: Option<&str>| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        if let Some(coding) = coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap());
        }
        is_json(&headers)
    };
    assert!(of("application/json", None) && of("Application/Json; charset=\"UTF-8\"", Some("identity")));
    assert!(!of("text/plain", None) && !of("application/json; charset=utf-16", None));
    assert!(!of("application/jsonx", None) && !of("application/json", Some("gzip")));
    assert!(!is_json(&HeaderMap::new()));
}
