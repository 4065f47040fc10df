//! The stream beside the requests, in both eras.

use super::super::testserver::event;
use super::*;

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn gets(seen: &[Seen]) -> Vec<Seen> {
    seen.iter().filter(|s| s.verb == "GET").cloned().collect()
}

async fn list_changed(rig: &mut Rig) {
    match rig.event().await {
        LinkEvent::Notification { method, .. } => assert_eq!(method, "notifications/tools/list_changed"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_legacy_server_speaks_on_a_get_stream_and_is_answered() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = legacy(move |seen| match seen.verb.as_str() {
        "GET" => stream.take().unwrap_or(Answer::status(409)),
        _ => polite(seen),
    })
    .await;
    tx.send(event(CHANGED).into_bytes()).unwrap();
    list_changed(&mut rig).await;
    tx.send(event(r#"{"jsonrpc":"2.0","id":"p1","method":"ping"}"#).into_bytes()).unwrap();
    let seen = rig.server.until("the ping was answered", |s| s.iter().any(|s| s.id() == "p1")).await;
    let get = &gets(&seen)[0];
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert_eq!(get.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(get.header("content-type"), None);
    let order: Vec<_> = seen.iter().take(3).map(|s| (s.verb.clone(), s.method())).collect();
    assert_eq!(order[1].1, "notifications/initialized", "the stream opens behind the handshake: {order:?}");
}

#[tokio::test]
async fn a_get_stream_that_ends_is_opened_again_behind_its_last_event() {
    let mut rig = legacy(move |seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", None) => Answer::events(format!("retry: 100\nid: 7\n{}", event(CHANGED))),
        ("GET", Some("7")) => Answer::events(format!("id: 8\n{}", event(CHANGED))),
        ("GET", Some(_)) => Answer::status(405),
        _ => polite(seen),
    })
    .await;
    list_changed(&mut rig).await;
    list_changed(&mut rig).await;
    rig.server.until("the third GET", |seen| gets(seen).len() == 3).await;
}

#[tokio::test]
async fn a_server_without_a_get_stream_is_asked_once() {
    for status in [405, 404, 401, 403, 400] {
        let rig = legacy(move |seen| match seen.verb.as_str() {
            "GET" => Answer::status(status),
            _ => polite(seen),
        })
        .await;
        rig.server.until("the GET", |seen| gets(seen).len() == 1).await;
        rig.call("tools/list").await.expect("calls work without it");
        // A second GET would come after a wait; the task has nothing to wait for.
        assert_eq!(gets(&rig.server.seen()).len(), 1, "{status}");
        assert!(rig.carrier.shared.tasks.running() <= 1);
    }
}

#[tokio::test]
async fn after_an_outage_the_stream_is_opened_again_and_the_owner_told_to_look() {
    let tries = Counter::default();
    let (_tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = legacy(move |seen| match (seen.verb.as_str(), seen.method().as_str()) {
        ("GET", _) => match tries.next() {
            0 => Answer::status(502),
            _ => stream.take().unwrap_or(Answer::status(405)),
        },
        _ => polite(seen),
    })
    .await;
    assert!(matches!(rig.event().await, LinkEvent::SessionRenewed));
    assert_eq!(gets(&rig.server.seen()).len(), 2);
}

#[tokio::test]
async fn a_renewed_session_gets_a_stream_of_its_own() {
    let opened = Counter::default();
    let (_first, stream) = Answer::stream();
    let (second, other) = Answer::stream();
    let (stream, other) = (Once::new(stream), Once::new(other));
    let mut rig = legacy(move |seen| {
        match (seen.verb.as_str(), seen.method().as_str(), seen.header("mcp-session-id")) {
            (_, "initialize", _) => {
                initialized(seen, "2025-11-25").with("mcp-session-id", &format!("s{}", opened.next()))
            }
            ("GET", _, Some("s0")) => stream.take().unwrap(),
            ("GET", _, Some("s1")) => other.take().unwrap(),
            (_, "tools/call", Some("s0")) => Answer::status(404),
            _ => polite(seen),
        }
    })
    .await;
    rig.server.until("the first GET", |seen| gets(seen).len() == 1).await;
    rig.call("tools/call").await.unwrap();
    rig.server.until_left(1).await;
    rig.server.until("the second GET", |seen| gets(seen).len() == 2).await;
    assert!(matches!(rig.event().await, LinkEvent::SessionRenewed));
    second.send(event(CHANGED).into_bytes()).unwrap();
    list_changed(&mut rig).await;
}

#[tokio::test]
async fn a_modern_server_is_listened_to_for_the_changes_that_it_declares() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = modern(move |seen| match seen.method().as_str() {
        "subscriptions/listen" => stream.take().unwrap(),
        _ => polite_modern(
            seen,
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{}}"#,
        ),
    })
    .await;
    let seen = rig.server.until("listened", |s| s.iter().any(|s| s.method() == "subscriptions/listen")).await;
    let listen = seen.iter().find(|s| s.method() == "subscriptions/listen").unwrap();
    assert_eq!(
        listen.json()["params"]["notifications"],
        serde_json::json!({"toolsListChanged": true, "promptsListChanged": true})
    );
    assert_eq!(
        listen.json()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        serde_json::json!("2026-07-28")
    );
    assert_eq!(listen.header("mcp-method"), Some("subscriptions/listen"));
    assert_eq!(listen.header("mcp-protocol-version"), Some("2026-07-28"));
    assert!(gets(&seen).is_empty(), "the modern era has no GET stream");
    tx.send(
        event(r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}"#)
            .into_bytes(),
    )
    .unwrap();
    tx.send(event(CHANGED).into_bytes()).unwrap();
    list_changed(&mut rig).await;
}

#[tokio::test]
async fn a_listen_stream_that_breaks_is_opened_again() {
    let (first, feed) = super::super::testserver::feed();
    let (second, stream) = Answer::stream();
    let (feed, stream) = (Once::new(feed), Once::new(stream));
    let mut rig = modern(move |seen| match seen.method().as_str() {
        "subscriptions/listen" => match feed.take() {
            Some(feed) => Answer::Broken { feed },
            None => stream.take().unwrap(),
        },
        _ => polite_modern(seen, r#"{"tools":{"listChanged":true}}"#),
    })
    .await;
    first.send(event(CHANGED).into_bytes()).unwrap();
    list_changed(&mut rig).await;
    drop(first);
    second.send(event(CHANGED).into_bytes()).unwrap();
    list_changed(&mut rig).await;
    let ids: Vec<_> = rig.server.calls("subscriptions/listen").iter().map(Seen::id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[tokio::test]
async fn a_modern_server_that_declares_no_changes_or_refuses_is_left_alone() {
    let rig = modern(|seen| polite_modern(seen, r#"{"tools":{}}"#)).await;
    rig.call("tools/list").await.unwrap();
    assert!(rig.server.calls("subscriptions/listen").is_empty());

    let rig = modern(|seen| match seen.method().as_str() {
        "subscriptions/listen" => Answer::error(404, &seen.id(), -32601, "no"),
        _ => polite_modern(seen, r#"{"tools":{"listChanged":true}}"#),
    })
    .await;
    rig.server.until("listened", |s| s.iter().any(|s| s.method() == "subscriptions/listen")).await;
    rig.call("tools/list").await.unwrap();
    assert_eq!(rig.server.calls("subscriptions/listen").len(), 1);
    assert_eq!(rig.link.counters().unmatched, 0);
}
