//! HTTP/2, which a server with TLS chooses: the same promises as over HTTP/1.1, with many
//! requests on one connection.

use super::super::testserver::event;
use super::super::testtls::{Authority, Paper};
use super::*;
use crate::call::Delivery;

/// A link to a server that speaks HTTP/2; its handshake is done.
async fn http2(protocol: ProtocolChoice, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Rig {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server(Paper::Good, &["h2", "http/1.1"]), script).await;
    let settings = LinkSettings { http: authority.client(), ..settings(protocol) };
    let mut rig = rig_to(HttpEndpoint { url: server.url(), headers: Vec::new() }, settings.clone(), server);
    let established = within(run(&rig.link, CarrierKind::Http, &settings, None)).await.unwrap();
    rig.meta = established.meta;
    rig
}

fn legacy2(
    reply: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Answer + Send + Sync + 'static {
    move |seen| if seen.method() == "tools/call" { reply(seen) } else { polite(seen) }
}

fn connections(rig: &Rig) -> usize {
    let all: std::collections::BTreeSet<_> = rig.server.seen().iter().map(|s| s.connection).collect();
    all.len()
}

#[tokio::test]
async fn both_eras_work_over_http2_on_one_connection() {
    let old = http2(ProtocolChoice::Auto, polite).await;
    let new = http2(ProtocolChoice::Auto, |seen| polite_modern(seen, "{}")).await;
    for rig in [old, new] {
        for _ in 0..3 {
            assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"ok":true}"#);
        }
        assert_eq!(connections(&rig), 1);
    }
}

#[tokio::test]
async fn an_answer_in_a_stream_and_progress_before_it_arrive_over_http2() {
    let rig = http2(
        ProtocolChoice::Auto,
        legacy2(|seen| {
            let note = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
            let answer = event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"n":2}}}}"#, seen.id()));
            Answer::events(format!(": hello\n\n{note}{answer}"))
        }),
    )
    .await;
    let mut rig = rig;
    assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"n":2}"#);
    assert!(matches!(rig.event().await, LinkEvent::Notification { .. }));
}

#[tokio::test]
async fn the_stream_beside_the_requests_is_heard_over_http2() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = http2(ProtocolChoice::Auto, move |seen| match seen.verb.as_str() {
        "GET" => stream.take().unwrap_or(Answer::status(405)),
        _ => polite(seen),
    })
    .await;
    let list = event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    tx.send(list.into_bytes()).unwrap();
    assert!(matches!(rig.event().await, LinkEvent::Notification { .. }));
    rig.call("tools/call").await.unwrap();
    assert_eq!(connections(&rig), 1);
}

#[tokio::test]
async fn giving_up_on_a_request_resets_its_stream_alone() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let rig = http2(ProtocolChoice::Auto, move |seen| match seen.method().as_str() {
        "tools/call" => stream.take().unwrap_or(Answer::Silence),
        _ => polite_modern(seen, "{}"),
    })
    .await;
    for left in 1..=2 {
        let exchange = rig.start("tools/call");
        rig.server.until("the call arrived", |s| s.iter().filter(is_call).count() == left).await;
        rig.link.cancel(exchange.id, "the caller left");
        rig.server.until_left(left).await;
    }
    rig.call("tools/list").await.unwrap();
    assert_eq!(connections(&rig), 1);
    drop(tx);
}

fn is_call(seen: &&Seen) -> bool {
    seen.method() == "tools/call"
}

#[tokio::test]
async fn many_calls_share_one_connection_and_none_waits_for_another() {
    let rig = http2(
        ProtocolChoice::Auto,
        legacy2(|seen| match seen.json()["params"]["n"].as_u64() {
            Some(0) => Answer::Silence,
            _ => Answer::result(seen, &seen.json()["params"]["n"].to_string()),
        }),
    )
    .await;
    let stuck = rig.start_with("tools/call", r#"{"n":0}"#, |_| {});
    let all: Vec<_> =
        (1..=100).map(|n| (n, rig.start_with("tools/call", &format!(r#"{{"n":{n}}}"#), |_| {}))).collect();
    for (n, exchange) in all {
        assert_eq!(text(&answer(exchange).await.unwrap()), n.to_string());
    }
    assert_eq!((connections(&rig), rig.server.calls("tools/call").len()), (1, 101));
    rig.link.cancel(stuck.id, "enough");
}

#[tokio::test]
async fn a_server_that_says_goodbye_between_calls_gets_a_new_connection() {
    let rig = http2(
        ProtocolChoice::Auto,
        legacy2(|seen| Answer::Last(Box::new(Answer::result(seen, r#"{"ok":true}"#)))),
    )
    .await;
    for n in 1..=5 {
        // Right at the goodbye a call may be refused, and then surely did not run.
        match rig.call("tools/call").await {
            Ok(reply) => assert_eq!(text(&reply), r#"{"ok":true}"#, "{n}"),
            Err(error) => panic!("{n}: {error:?}"),
        }
    }
    let calls = rig.server.calls("tools/call");
    assert_eq!(calls.len(), 5);
    assert!(connections(&rig) >= 3, "{}", connections(&rig));
}

#[tokio::test]
async fn a_connection_that_breaks_off_fails_the_call_and_sends_it_no_second_time() {
    let rig = http2(ProtocolChoice::Auto, legacy2(|_| Answer::Hangup)).await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Lost(_)), "{error:?}");
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(rig.server.calls("tools/call").len(), 1);
    rig.call("tools/list").await.unwrap();
}

#[tokio::test]
async fn a_stream_that_the_server_refuses_fails_its_call_alone_as_one_that_was_not_sent() {
    let rig = http2(ProtocolChoice::Auto, legacy2(|_| Answer::Refused)).await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Lost(_)), "{error:?}");
    assert_eq!(error.delivery, Delivery::NotSent, "{error:?}");
    assert_eq!(rig.server.calls("tools/call").len(), 1);
    rig.call("tools/list").await.unwrap();
    assert_eq!(connections(&rig), 1);
}

#[tokio::test]
async fn a_goodbye_that_leaves_a_call_out_says_that_it_was_not_sent() {
    let rig = http2(
        ProtocolChoice::Auto,
        legacy2(|seen| match seen.json()["params"]["taken"].as_bool() {
            Some(true) => Answer::Silence,
            _ => Answer::NotTaken,
        }),
    )
    .await;
    let taken = rig.start_with("tools/call", r#"{"taken":true}"#, |_| {});
    rig.server.until("the first arrived", |s| s.iter().any(|s| s.method() == "tools/call")).await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Lost(_)), "{error:?}");
    assert_eq!(error.delivery, Delivery::NotSent, "{error:?}");
    assert_eq!(rig.server.calls("tools/call").len(), 2, "each once");
    // A new connection takes the next one, and the end of the old one says nothing of the call that it has.
    rig.call("tools/list").await.unwrap();
    assert_eq!(connections(&rig), 2);
    rig.link.cancel(taken.id, "enough");
}

#[tokio::test]
async fn a_stream_that_breaks_in_the_answer_fails_its_call_alone() {
    let rig = http2(ProtocolChoice::Modern, |seen| match seen.method().as_str() {
        "tools/call" => {
            let (tx, feed) = super::super::testserver::feed();
            tx.send(b"data: {\"json".to_vec()).unwrap();
            Answer::Broken { feed }
        }
        _ => polite_modern(seen, "{}"),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(rig.server.calls("tools/call").len(), 1);
    rig.call("tools/list").await.unwrap();
    assert_eq!(connections(&rig), 1);
}

#[tokio::test]
async fn a_server_with_tls_that_chooses_http1_gets_http1() {
    let authority = Authority::new();
    for alpn in [&["http/1.1"][..], &[]] {
        let server = Server::start_tls(authority.server(Paper::Good, alpn), polite).await;
        let settings = LinkSettings { http: authority.client(), ..settings(ProtocolChoice::Auto) };
        let rig = rig_to(HttpEndpoint { url: server.url(), headers: Vec::new() }, settings.clone(), server);
        within(run(&rig.link, CarrierKind::Http, &settings, None)).await.unwrap();
        assert!(rig.server.seen()[0].header("host").is_some(), "HTTP/1.1 names the host in a header");
    }
}

#[tokio::test]
async fn interim_answers_without_end_end_with_their_request_and_hold_nobody_up() {
    let rig = http2(ProtocolChoice::Auto, legacy2(|_| Answer::Hints)).await;
    let exchange = rig.start("tools/call");
    rig.server.until("the call arrived", |s| s.iter().any(|s| s.method() == "tools/call")).await;
    for _ in 0..5 {
        rig.call("tools/list").await.unwrap();
    }
    rig.link.cancel(exchange.id, "the idle limit passed");
    rig.server.until_left(1).await;
    rig.call("tools/list").await.unwrap();
}
