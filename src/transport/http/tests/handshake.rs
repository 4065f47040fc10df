//! The handshake of `transport::handshake` over this link.

use super::*;
use crate::wire::era::Revision;

#[tokio::test]
async fn a_modern_server_is_found_with_one_request() {
    let (rig, outcome) = shake(ProtocolChoice::Auto, |seen| polite_modern(seen, "{}")).await;
    assert_eq!(outcome.unwrap().revision, Revision::R2026_07_28);
    rig.call("tools/list").await.unwrap();
    let methods: Vec<_> = rig.server.seen().iter().map(Seen::method).collect();
    assert_eq!(methods, ["server/discover", "tools/list"]);
}

#[tokio::test]
async fn a_legacy_server_is_found_behind_each_refusal_of_the_probe() {
    let refusals: [fn(&Seen) -> Answer; 7] = [
        |_| Answer::error(400, &serde_json::Value::Null, -32000, "Bad Request: Server not initialized"),
        |_| Answer::status(404),
        |_| Answer::status(405),
        |_| Answer::status(400).body("Missing session ID"),
        |seen| Answer::error(200, &seen.id(), -32601, "Method not found"),
        |seen| Answer::error(404, &seen.id(), -32601, "Method not found"),
        |seen| Answer::result(seen, "{}"),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        let (rig, outcome) = shake(ProtocolChoice::Auto, move |seen| match seen.method().as_str() {
            "server/discover" => refusal(seen),
            _ => polite(seen),
        })
        .await;
        let established = outcome.unwrap_or_else(|e| panic!("refusal {n}: {e:?}"));
        assert_eq!(established.revision, Revision::R2025_11_25, "refusal {n}");
        rig.call("tools/list").await.unwrap();
        let initialize = &rig.server.calls("initialize")[0];
        assert_eq!(initialize.header("mcp-protocol-version"), None, "refusal {n}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_newest_version_by_http_400_gets_an_older_one() {
    let (rig, outcome) = shake(ProtocolChoice::Legacy, |seen| {
        if seen.method() != "initialize" {
            return polite(seen);
        }
        match seen.json()["params"]["protocolVersion"].as_str() {
            Some("2025-06-18") => initialized(seen, "2025-06-18"),
            _ => Answer::status(400)
                .with("content-type", "application/json")
                .body(r#"{"error":"unsupported","supported":["2024-11-05","2025-06-18"]}"#),
        }
    })
    .await;
    assert_eq!(outcome.unwrap().revision, Revision::R2025_06_18);
    rig.call("tools/list").await.unwrap();
    assert_eq!(rig.server.calls("tools/list")[0].header("mcp-protocol-version"), Some("2025-06-18"));
}

#[tokio::test]
async fn nothing_overtakes_initialized() {
    let rig = legacy(polite).await;
    let exchanges: Vec<_> = (0..10).map(|_| rig.start("tools/list")).collect();
    for exchange in exchanges {
        answer(exchange).await.unwrap();
    }
    let methods: Vec<_> = rig.server.seen().iter().filter(|s| s.verb == "POST").map(Seen::method).collect();
    assert_eq!(methods[..2], ["initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn an_initialized_that_is_answered_by_an_endless_stream_holds_nobody_up() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = legacy(move |seen| match seen.method().as_str() {
        "notifications/initialized" => stream.take().unwrap(),
        _ => polite(seen),
    })
    .await;
    rig.call("tools/list").await.unwrap();
    tx.send(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".to_vec()).unwrap();
    assert!(matches!(rig.event().await, LinkEvent::Notification { .. }));
}

#[tokio::test]
async fn the_old_sse_transport_is_recognised_and_named() {
    for status in [404, 405, 400] {
        let (_rig, outcome) = shake(ProtocolChoice::Auto, move |seen| match seen.verb.as_str() {
            "GET" => Answer::events("event: endpoint\ndata: /messages?session_id=1\n\n"),
            _ => Answer::status(status),
        })
        .await;
        let Err(HandshakeError::Fault(LinkFault::Config(text))) = outcome else {
            panic!("{status}: {outcome:?}")
        };
        assert!(text.contains("speaks the old HTTP+SSE transport, which is not spoken yet"), "{text}");
    }
}

#[tokio::test]
async fn a_url_without_an_mcp_endpoint_is_a_config_error() {
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Legacy, ProtocolChoice::Modern] {
        for status in [404, 405] {
            let (rig, outcome) = shake(protocol, move |_| Answer::status(status).body("nope")).await;
            let Err(HandshakeError::Fault(LinkFault::Config(text))) = outcome else { panic!("{outcome:?}") };
            assert!(
                text.contains("no MCP endpoint at this URL") && text.contains(&rig.server.url()),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn a_login_wall_is_told_as_such_from_the_first_request_on() {
    let (rig, outcome) =
        shake(ProtocolChoice::Auto, |_| Answer::status(401).with("www-authenticate", "Bearer realm=\"r\""))
            .await;
    let Err(HandshakeError::Fault(LinkFault::NeedsAuth(text))) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("realm \"r\""), "{text}");
    assert_eq!(rig.server.seen().len(), 1);
}

#[tokio::test]
async fn initialize_may_be_answered_in_a_stream_with_notifications_and_requests_before_it() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = raw(ProtocolChoice::Legacy, move |seen| match seen.method().as_str() {
        "initialize" => stream.take().unwrap(),
        _ => polite(seen),
    })
    .await;
    let settings = settings(ProtocolChoice::Legacy);
    let (outcome, ()) = tokio::join!(within(run(&rig.link, CarrierKind::Http, &settings, None)), async {
        for early in [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#,
        ] {
            tx.send(format!("data: {early}\n\n").into_bytes()).unwrap();
        }
        // The answer comes only after ours: a server may wait for it.
        let seen = rig.server.until("roots/list was answered", |s| s.iter().any(|s| s.id() == "r")).await;
        assert_eq!(seen.last().unwrap().json()["error"]["code"], -32601);
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
        tx.send(format!("data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n\n").into_bytes())
            .unwrap();
    });
    outcome.unwrap();
    assert!(matches!(rig.event().await, LinkEvent::Notification { .. }));
}
