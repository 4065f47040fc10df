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

/// What a server answers to `server/discover`, and what we do then.
type Row = (&'static str, fn(&Seen) -> Answer, Then);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// `initialize`, and that is remembered.
    Older,
    /// `initialize`, and that is not remembered.
    Doubtful,
    /// Nothing more: the attempt failed.
    Fails,
}

fn plain(status: u16) -> Answer {
    Answer::status(status).with("content-type", "text/plain").body("what is this?")
}

const ROWS: [Row; 37] = [
    ("200 -32601", |seen| Answer::error(200, &seen.id(), -32601, "Method not found"), Then::Older),
    ("200 -32600", |seen| Answer::error(200, &seen.id(), -32600, "Invalid Request"), Then::Older),
    ("200 -32602", |seen| Answer::error(200, &seen.id(), -32602, "Invalid params"), Then::Older),
    ("200 -32603", |seen| Answer::error(200, &seen.id(), -32603, "Internal error"), Then::Older),
    ("200 -32000", |seen| Answer::error(200, &seen.id(), -32000, "not initialized"), Then::Older),
    ("200 -32002", |seen| Answer::error(200, &seen.id(), -32002, "before initialization"), Then::Older),
    ("200 code 0", |seen| Answer::error(200, &seen.id(), 0, "no"), Then::Older),
    ("200 code 7", |seen| Answer::error(200, &seen.id(), 7, "no"), Then::Older),
    ("200 id null", |_| Answer::error(200, &serde_json::Value::Null, -32600, "no session"), Then::Older),
    ("200 {}", |seen| Answer::result(seen, "{}"), Then::Older),
    ("200 page", |_| Answer::status(200).with("content-type", "text/html").body("<html>hi"), Then::Older),
    ("200 text", |_| plain(200), Then::Older),
    ("200 other JSON", |_| Answer::json(r#"{"status":"ok"}"#), Then::Older),
    ("200 nothing", |_| Answer::status(200), Then::Older),
    ("202 nothing", |_| Answer::status(202), Then::Older),
    ("204", |_| Answer::status(204), Then::Older),
    ("200 empty stream", |_| Answer::events(""), Then::Doubtful),
    ("400 -32000", |_| Answer::error(400, &serde_json::Value::Null, -32000, "Bad Request"), Then::Older),
    ("400 JSON", |_| Answer::status(400).with("content-type", "application/json").body("{}"), Then::Older),
    ("400 text", |_| Answer::status(400).body("Missing session ID"), Then::Older),
    ("404", |_| Answer::status(404), Then::Older),
    ("404 -32601", |seen| Answer::error(404, &seen.id(), -32601, "Method not found"), Then::Older),
    ("405", |_| plain(405), Then::Older),
    ("406", |_| plain(406), Then::Older),
    ("409", |_| plain(409), Then::Older),
    ("415", |_| plain(415), Then::Older),
    ("422", |_| Answer::error(422, &serde_json::Value::Null, -32600, "unprocessable"), Then::Older),
    ("422 text", |_| plain(422), Then::Older),
    ("428", |_| plain(428), Then::Older),
    ("501", |_| plain(501), Then::Older),
    ("500", |_| plain(500), Then::Doubtful),
    ("502", |_| plain(502), Then::Fails),
    ("503", |_| plain(503), Then::Fails),
    ("503 later", |_| plain(503).with("retry-after", "3"), Then::Fails),
    ("504", |_| plain(504), Then::Fails),
    ("408", |_| plain(408), Then::Fails),
    ("hang up", |_| Answer::Hangup, Then::Fails),
];

#[tokio::test]
async fn what_old_servers_answer_to_the_probe_leads_to_initialize_and_an_outage_is_not_remembered() {
    for (name, answer, then) in ROWS {
        let (rig, outcome) = shake(ProtocolChoice::Auto, move |seen| match seen.method().as_str() {
            "server/discover" => answer(seen),
            _ => polite(seen),
        })
        .await;
        let Ok(established) = outcome else {
            assert_eq!(then, Then::Fails, "{name}: {outcome:?}");
            assert!(rig.server.calls("initialize").is_empty(), "{name}");
            continue;
        };
        let remember = (then == Then::Older).then_some(Revision::R2025_11_25);
        assert_ne!(then, Then::Fails, "{name}");
        assert_eq!((established.revision, established.remember), (Revision::R2025_11_25, remember), "{name}");
        rig.call("tools/list").await.unwrap();
        assert_eq!(rig.server.calls("server/discover").len(), 1, "{name}");
        let initialize = &rig.server.calls("initialize")[0];
        assert_eq!(initialize.header("mcp-protocol-version"), None, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_was_remembered_and_changed_is_found_out() {
    let newer = |seen: &Seen| polite_modern(seen, "{}");
    let refuses = |seen: &Seen| match seen.method().as_str() {
        "initialize" => plain(404),
        _ => polite_modern(seen, "{}"),
    };
    for (n, script) in [newer, refuses as fn(&Seen) -> Answer].into_iter().enumerate() {
        let rig = raw(ProtocolChoice::Auto, script).await;
        let settings =
            LinkSettings { remembered: Some(Revision::R2025_06_18), ..settings(ProtocolChoice::Auto) };
        let established = within(run(&rig.link, CarrierKind::Http, &settings, None)).await.unwrap();
        assert_eq!(established.remember, Some(Revision::R2026_07_28), "{n}");
        assert_eq!(rig.server.seen()[0].method(), "initialize", "{n}");
    }
    let rig = raw(ProtocolChoice::Auto, polite).await;
    let settings = LinkSettings { remembered: Some(Revision::R2026_07_28), ..settings(ProtocolChoice::Auto) };
    let established = within(run(&rig.link, CarrierKind::Http, &settings, None)).await.unwrap();
    assert_eq!(established.remember, Some(Revision::R2025_11_25));
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
async fn a_page_or_a_refusal_of_the_request_lasts_and_names_what_to_correct() {
    let page = || Answer::status(200).with("content-type", "text/html").body("<html>hi");
    type Case = (fn() -> Answer, &'static str, &'static str);
    let cases: [Case; 4] = [
        (page, "text/html", "correct the URL"),
        (|| Answer::status(200), "empty body", "correct the URL"),
        (|| plain(400), "HTTP 400", "see what it says"),
        (|| plain(415), "HTTP 415", "see what it says"),
    ];
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Legacy, ProtocolChoice::Modern] {
        for (answer, says, cures) in cases {
            let (_rig, outcome) = shake(protocol, move |_| answer()).await;
            let Err(HandshakeError::Fault(LinkFault::Misfit { text, cure, .. })) = outcome else {
                panic!("{says}: {outcome:?}")
            };
            assert!(text.contains(says) && cure.contains(cures), "{text}; {cure}");
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
