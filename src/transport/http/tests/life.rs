//! Cancelling, closing, dropping: nothing is left, and the server is told what it must be.

use super::*;

/// `tools/call` stays unanswered in an open stream.
fn holding(seen: &Seen) -> Answer {
    if seen.method() == "tools/call" { Answer::Silence } else { polite(seen) }
}

#[tokio::test]
async fn cancelling_a_legacy_call_tells_the_server_once_and_closes_the_stream() {
    let rig = legacy(holding).await;
    let exchange = rig.start("tools/call");
    rig.server.until("called", |s| s.iter().any(|s| s.method() == "tools/call")).await;
    rig.link.cancel(exchange.id, "the caller left");
    rig.link.cancel(exchange.id, "the caller left");
    let seen =
        rig.server.until("cancelled", |s| s.iter().any(|s| s.method() == "notifications/cancelled")).await;
    rig.server.until_left(1).await;
    let sent = seen.iter().find(|s| s.method() == "tools/call").unwrap().id();
    let cancelled = seen.iter().find(|s| s.method() == "notifications/cancelled").unwrap();
    assert_eq!(cancelled.json()["params"]["requestId"], sent);
    assert_eq!(cancelled.json()["params"]["reason"], "the caller left");
    assert!(exchange.waiting.answer().await.is_none());
    rig.call("tools/list").await.unwrap();
    assert_eq!(rig.server.calls("notifications/cancelled").len(), 1);
}

#[tokio::test]
async fn cancelling_a_modern_call_closes_its_stream_and_says_nothing() {
    let rig = modern(|seen| match seen.method().as_str() {
        "tools/call" => Answer::Silence,
        _ => polite_modern(seen, "{}"),
    })
    .await;
    let exchange = rig.start("tools/call");
    rig.server.until("called", |s| s.iter().any(|s| s.method() == "tools/call")).await;
    rig.link.cancel(exchange.id, "the caller left");
    rig.server.until_left(1).await;
    rig.call("tools/list").await.unwrap();
    assert!(rig.server.calls("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn a_call_that_never_left_is_cancelled_in_silence() {
    // While a session is renewed, calls wait; the renewal here takes as long as the test.
    let opened = Counter::default();
    let rig = legacy(move |seen| match seen.method().as_str() {
        "initialize" if opened.next() > 0 => Answer::Silence,
        "initialize" => initialized(seen, "2025-11-25").with("mcp-session-id", "s0"),
        "tools/call" => Answer::status(404),
        _ => polite(seen),
    })
    .await;
    let exchange = rig.start("tools/call");
    rig.server.until("renewing", |s| s.iter().filter(|s| s.method() == "initialize").count() == 2).await;
    let waiting = rig.start("tools/list");
    for id in [waiting.id, exchange.id] {
        rig.link.cancel(id, "the caller left");
    }
    assert!(exchange.waiting.answer().await.is_none() && waiting.waiting.answer().await.is_none());
    rig.link.notify(splice::notification("notifications/roots/list_changed", None));
    rig.server
        .until("the later notification", |s| {
            s.iter().any(|s| s.method() == "notifications/roots/list_changed")
        })
        .await;
    assert!(rig.server.calls("notifications/cancelled").is_empty());
    assert!(rig.server.calls("tools/list").is_empty());
}

#[tokio::test]
async fn initialize_is_never_cancelled_by_a_message() {
    let rig = raw(ProtocolChoice::Legacy, |seen| match seen.method().as_str() {
        "initialize" => Answer::Silence,
        _ => polite(seen),
    })
    .await;
    let exchange = rig.start("initialize");
    rig.server.until("asked", |s| s.len() == 1).await;
    rig.link.cancel(exchange.id, "too slow");
    rig.server.until_left(1).await;
    assert_eq!(rig.server.seen().len(), 1);
}

#[tokio::test]
async fn closing_ends_the_session_fails_what_waits_and_leaves_no_task() {
    let rig = legacy(|seen| match (seen.verb.as_str(), seen.method().as_str()) {
        (_, "initialize") => initialized(seen, "2025-11-25").with("mcp-session-id", "s0"),
        (_, "tools/call") => Answer::Silence,
        ("DELETE", _) => Answer::status(200),
        _ => polite(seen),
    })
    .await;
    let exchange = rig.start("tools/call");
    rig.server.until("called", |s| s.iter().any(|s| s.method() == "tools/call")).await;
    within(rig.link.close()).await;
    let error = answer(exchange).await.unwrap_err();
    assert_eq!(error.fault, ExchangeFault::Lost(LinkFault::Closed));
    let deletes: Vec<_> = rig.server.seen().into_iter().filter(|s| s.verb == "DELETE").collect();
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].header("mcp-session-id"), Some("s0"));
    assert_eq!(deletes[0].header("x-api-key"), Some("canary-key"));
    assert_eq!(rig.carrier.shared.tasks.running(), 0);
    within(rig.link.close()).await;
    assert!(matches!(rig.fault("tools/list").await.fault, ExchangeFault::Lost(LinkFault::Closed)));
    rig.link.notify(splice::notification("notifications/late", None));
    assert!(rig.server.calls("tools/list").is_empty() && rig.server.calls("notifications/late").is_empty());
}

#[tokio::test]
async fn closing_does_not_wait_for_a_server_that_ignores_delete() {
    let rig = legacy(|seen| match (seen.verb.as_str(), seen.method().as_str()) {
        (_, "initialize") => initialized(seen, "2025-11-25").with("mcp-session-id", "s0"),
        ("DELETE", _) => Answer::Silence,
        _ => polite(seen),
    })
    .await;
    let before = clock();
    within(rig.link.close()).await;
    assert!(before.elapsed() < millis(3000), "{:?}", before.elapsed());
}

#[tokio::test]
async fn a_server_without_sessions_gets_no_delete() {
    let rig = legacy(polite).await;
    within(rig.link.close()).await;
    assert!(rig.server.seen().iter().all(|s| s.verb != "DELETE"));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_every_stream() {
    let streams = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = streams.clone();
    let rig = legacy(move |seen| match (seen.verb.as_str(), seen.method().as_str()) {
        ("GET", _) | (_, "tools/call") => {
            let (tx, stream) = Answer::stream();
            kept.lock().unwrap().push(tx);
            stream
        }
        _ => polite(seen),
    })
    .await;
    let exchange = rig.start("tools/call");
    rig.server
        .until("both are open", |s| {
            s.iter().any(|s| s.verb == "GET") && s.iter().any(|s| s.method() == "tools/call")
        })
        .await;
    let Rig { link, server, carrier, .. } = rig;
    let shared = Arc::downgrade(&carrier.shared);
    drop((link, carrier));
    server.until_left(2).await;
    let error = answer(exchange).await.unwrap_err();
    assert_eq!(error.fault, ExchangeFault::Lost(LinkFault::Closed));
    let freed = async {
        while shared.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(freed).await;
}

#[tokio::test]
async fn a_flood_of_questions_is_answered_within_bounds() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let rig = legacy(move |seen| match (seen.verb.as_str(), seen.method().as_str()) {
        (_, "tools/call") => stream.take().unwrap(),
        ("POST", "") => Answer::Silence,
        _ => polite(seen),
    })
    .await;
    let exchange = rig.start("tools/call");
    for n in 0..200 {
        let ping = format!(r#"{{"jsonrpc":"2.0","id":"p{n}","method":"ping"}}"#);
        tx.send(format!("data: {ping}\n\n").into_bytes()).unwrap();
    }
    tx.send(format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n\n", exchange.id).into_bytes())
        .unwrap();
    answer(exchange).await.expect("the flood holds up nobody");
    assert_eq!(rig.link.counters().dropped, 200 - 64);
}
