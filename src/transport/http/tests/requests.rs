//! What we send: headers of both eras, bodies, pooling, redirects.

use super::*;
use crate::call::Delivery;
use crate::transport::http::param_headers;

#[tokio::test]
async fn every_post_has_our_accept_and_content_type_whatever_is_configured() {
    let rig = legacy(polite).await;
    rig.call("tools/list").await.unwrap();
    let seen =
        rig.server.until("initialized", |seen| seen.iter().filter(|s| s.verb == "POST").count() == 3).await;
    for post in seen.iter().filter(|s| s.verb == "POST") {
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"), "{post:?}");
        assert_eq!(post.header("content-type"), Some("application/json"));
        assert_eq!(post.header("x-api-key"), Some("canary-key"));
        assert!(post.header("user-agent").unwrap().starts_with("callboard/"));
        assert_eq!(post.header("cookie"), None);
    }
}

#[tokio::test]
async fn the_version_header_is_exactly_the_negotiated_one_and_absent_before() {
    let rig = legacy(|seen| match seen.method().as_str() {
        "initialize" => initialized(seen, "2025-03-26").with("mcp-session-id", "s1"),
        _ => polite(seen),
    })
    .await;
    rig.call("tools/list").await.unwrap();
    rig.server.until("a GET came", |seen| seen.iter().any(|s| s.verb == "GET")).await;
    within(rig.link.close()).await;
    let seen = rig.server.seen();
    assert_eq!(seen[0].method(), "initialize");
    assert_eq!((seen[0].header("mcp-protocol-version"), seen[0].header("mcp-session-id")), (None, None));
    let verbs: Vec<_> = seen[1..].iter().map(|s| s.verb.as_str()).collect();
    assert!(verbs.contains(&"GET") && verbs.contains(&"DELETE"), "{verbs:?}");
    for request in &seen[1..] {
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-03-26"), "{request:?}");
        assert_eq!(request.header("mcp-session-id"), Some("s1"), "{request:?}");
        assert!(request.headers.iter().all(|(n, _)| n != "mcp-method" && n != "mcp-name"));
    }
}

#[tokio::test]
async fn modern_requests_mirror_method_name_and_parameters_in_headers() {
    let rig = modern(|seen| polite_modern(seen, "{}")).await;
    let schema = br#"{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}"#;
    let exchange =
        rig.start_with("tools/call", r#"{"name":"wetter é","arguments":{"city":"Köln"}}"#, |out| {
            out.name = Some("wetter é");
            out.headers = param_headers(schema, br#"{"city":"K\u00f6ln"}"#);
        });
    answer(exchange).await.unwrap();
    let discover = &rig.server.calls("server/discover")[0];
    assert_eq!(discover.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(discover.header("mcp-method"), Some("server/discover"));
    assert_eq!(discover.header("mcp-name"), None);
    let call = &rig.server.calls("tools/call")[0];
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?d2V0dGVyIMOp?="));
    assert_eq!(call.header("mcp-param-city"), Some("=?base64?S8O2bG4=?="));
    assert_eq!(call.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_large_message_arrives_byte_for_byte_with_its_length() {
    let rig = legacy(polite).await;
    let text = "x".repeat(3_000_000);
    let params = format!(r#"{{"name":"echo","arguments":{{"text":"{text}"}}}}"#);
    answer(rig.start_with("tools/call", &params, |_| {})).await.unwrap();
    let call = &rig.server.calls("tools/call")[0];
    assert_eq!(call.json()["params"]["arguments"]["text"].as_str().unwrap(), text);
    assert_eq!(call.header("content-length"), Some(call.body.len().to_string().as_str()));
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let rig = legacy(polite).await;
    for _ in 0..5 {
        rig.call("tools/call").await.unwrap();
    }
    let connections: std::collections::HashSet<_> =
        rig.server.calls("tools/call").iter().map(|s| s.connection).collect();
    assert_eq!(connections.len(), 1);
}

#[tokio::test]
async fn many_calls_at_once_each_get_their_own_answer() {
    let rig = legacy(|seen| match seen.method().as_str() {
        "tools/call" => Answer::result(seen, &format!(r#"{{"nonce":{}}}"#, seen.json()["params"]["nonce"])),
        _ => polite(seen),
    })
    .await;
    let started: Vec<_> =
        (0..50).map(|n| (n, rig.start_with("tools/call", &format!(r#"{{"nonce":{n}}}"#), |_| {}))).collect();
    for (n, exchange) in started {
        assert_eq!(text(&answer(exchange).await.unwrap()), format!(r#"{{"nonce":{n}}}"#));
    }
    assert_eq!(rig.link.counters().unmatched, 0);
}

#[tokio::test]
async fn a_same_origin_307_is_followed_with_body_and_headers() {
    let rig = legacy(|seen| match seen.path.as_str() {
        "/mcp" => Answer::status(307).with("location", "/mcp/"),
        _ => polite(seen),
    })
    .await;
    rig.call("tools/list").await.unwrap();
    let list = rig.server.calls("tools/list");
    assert_eq!(list.iter().map(|s| s.path.as_str()).collect::<Vec<_>>(), ["/mcp", "/mcp/"]);
    assert_eq!(list[0].body, list[1].body);
    assert_eq!(list[1].header("x-api-key"), Some("canary-key"));
}

#[tokio::test]
async fn a_301_on_a_post_is_an_error_that_names_the_target() {
    let (rig, outcome) =
        shake(ProtocolChoice::Auto, |_| Answer::status(301).with("location", "/elsewhere/")).await;
    let Err(HandshakeError::Fault(LinkFault::Config(text))) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("301") && text.contains("/elsewhere/"), "{text}");
    assert_eq!(rig.server.seen().len(), 1);
}

#[tokio::test]
async fn a_redirect_loop_is_bounded() {
    let (rig, outcome) =
        shake(ProtocolChoice::Legacy, |_| Answer::status(308).with("location", "/mcp")).await;
    let Err(HandshakeError::Fault(LinkFault::Config(text))) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("more than 3 redirects"), "{text}");
    assert_eq!(rig.server.seen().len(), 4);
}

#[tokio::test]
async fn another_origin_never_sees_a_request() {
    let other = Server::start(polite).await;
    let place = format!("{}/mcp", other.origin);
    let rig = legacy(move |seen| match seen.method().as_str() {
        "tools/call" => Answer::status(307).with("location", &place),
        _ => polite(seen),
    })
    .await;
    let error = rig.fault("tools/call").await;
    let ExchangeFault::Lost(LinkFault::Config(text)) = &error.fault else { panic!("{error:?}") };
    assert!(text.contains("another origin") && text.contains(&other.origin), "{text}");
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn no_byte_has_left_when_nobody_listens() {
    let rig = legacy(polite).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:hunter22@{}/mcp?key=querysecret", free.local_addr().unwrap());
    drop(free);
    let endpoint = HttpEndpoint { url, headers: Vec::new() };
    let rig = rig_to(endpoint, settings(ProtocolChoice::Legacy), rig.server);
    let error = rig.fault("initialize").await;
    let ExchangeFault::Lost(LinkFault::Unreachable { text, cure, detail }) = &error.fault else {
        panic!("{error:?}")
    };
    let port = text.trim_start_matches("could not connect to http://127.0.0.1:");
    assert!(text != port && text.ends_with(": connection refused"), "one sentence: {text}");
    assert!(cure.contains("start the server") && detail.contains("os error"), "{cure}; {detail}");
    assert!(!format!("{error:?}").contains("hunter22") && !format!("{error:?}").contains("querysecret"));
    assert_eq!(error.delivery, Delivery::NotSent);
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_a_network_fault() {
    let server = Server::start(polite).await;
    let url = server.url().replace("http:", "https:");
    let rig = rig_to(HttpEndpoint { url, headers: Vec::new() }, settings(ProtocolChoice::Legacy), server);
    let error = rig.fault("initialize").await;
    let ExchangeFault::Lost(LinkFault::Unreachable { text, cure, .. }) = &error.fault else {
        panic!("{error:?}")
    };
    assert!(
        text.contains("could not connect to https://127.0.0.1:") && text.ends_with("in the TLS handshake"),
        "{text}"
    );
    assert!(cure.contains("http://"), "{cure}");
    assert_eq!(error.delivery, Delivery::NotSent);
}

#[tokio::test]
async fn a_connection_that_breaks_after_sending_leaves_the_outcome_unknown() {
    let rig = legacy(|seen| match seen.method().as_str() {
        "tools/call" => Answer::Hangup,
        _ => polite(seen),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Lost(LinkFault::Unreachable { .. })), "{error:?}");
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(rig.server.calls("tools/call").len(), 1, "never sent twice");
    rig.call("tools/list").await.expect("the link lives on");
}
