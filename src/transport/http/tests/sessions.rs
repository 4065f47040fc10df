//! Sessions of legacy servers: handed out, lost in every spelling, renewed once for all.

use std::sync::Mutex;

use super::*;
use crate::call::Delivery;

/// A server with sessions `s0`, `s1`, …; `serves` says whether a session is still known for a request.
struct Sessions {
    opened: Counter,
    lost: fn(&Seen) -> Answer,
    known: fn(&str, &Seen) -> bool,
}

impl Sessions {
    fn answer(&self, seen: &Seen) -> Answer {
        if seen.method() == "initialize" {
            let id = format!("s{}", self.opened.next());
            return initialized(seen, "2025-06-18").with("mcp-session-id", &id);
        }
        match seen.header("mcp-session-id") {
            Some(id) if (self.known)(id, seen) => polite(seen),
            _ => (self.lost)(seen),
        }
    }
}

/// Session `s0` is forgotten as soon as a `tools/call` comes; later ones live.
fn forgets_first(lost: fn(&Seen) -> Answer) -> impl Fn(&Seen) -> Answer + Send + Sync {
    let sessions = Sessions {
        opened: Counter::default(),
        lost,
        known: |id, seen| id != "s0" || seen.method() != "tools/call",
    };
    move |seen| sessions.answer(seen)
}

fn not_found(_: &Seen) -> Answer {
    Answer::status(404).body("Not Found")
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_and_the_request_sent_once_more() {
    let mut rig = legacy(forgets_first(not_found)).await;
    rig.call("tools/call").await.unwrap();
    let posts: Vec<_> = rig.server.seen().into_iter().filter(|s| s.verb == "POST").collect();
    let order: Vec<_> =
        posts.iter().map(|s| (s.method(), s.header("mcp-session-id").map(str::to_owned))).collect();
    let s = |id: &str| Some(id.to_owned());
    assert_eq!(
        order,
        [
            ("initialize".to_owned(), None),
            ("notifications/initialized".to_owned(), s("s0")),
            ("tools/call".to_owned(), s("s0")),
            ("initialize".to_owned(), None),
            ("notifications/initialized".to_owned(), s("s1")),
            ("tools/call".to_owned(), s("s1")),
        ]
    );
    assert_eq!(posts[0].body, posts[3].body, "initialize again with the same params");
    assert_eq!(posts[3].header("mcp-protocol-version"), None);
    assert_eq!(posts[4].header("mcp-protocol-version"), Some("2025-06-18"));
    assert!(matches!(rig.event().await, LinkEvent::SessionRenewed), "the owner reads its lists again");
}

#[tokio::test]
async fn every_spelling_of_a_lost_session_leads_to_one_renewal() {
    let spellings: [fn(&Seen) -> Answer; 6] = [
        |seen| Answer::error(200, &seen.id(), -32001, "Session not found"),
        |_| Answer::error(200, &serde_json::Value::Null, -32600, "Session terminated"),
        |seen| Answer::error(400, &seen.id(), -32000, "Bad Request: No valid session ID provided"),
        |_| Answer::status(400).body("Invalid session ID"),
        |seen| Answer::error(404, &seen.id(), -32001, "Session not found"),
        |seen| {
            let error = format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"Session expired"}}}}"#,
                seen.id()
            );
            Answer::events(format!("data: {error}\n\n"))
        },
    ];
    for (n, lost) in spellings.into_iter().enumerate() {
        let rig = legacy(forgets_first(lost)).await;
        rig.call("tools/call").await.unwrap_or_else(|e| panic!("spelling {n}: {e:?}"));
        assert_eq!(rig.server.calls("initialize").len(), 2, "spelling {n}");
        assert_eq!(rig.server.calls("tools/call").len(), 2, "spelling {n}");
    }
}

#[tokio::test]
async fn a_session_header_sent_twice_is_one_id() {
    for joined in [false, true] {
        let rig = legacy(move |seen| match seen.method().as_str() {
            "initialize" if joined => initialized(seen, "2025-11-25").with("mcp-session-id", "a, a"),
            "initialize" => {
                initialized(seen, "2025-11-25").with("mcp-session-id", "a").with("Mcp-Session-Id", "a")
            }
            _ => polite(seen),
        })
        .await;
        rig.call("tools/call").await.unwrap();
        assert_eq!(rig.server.calls("tools/call")[0].header("mcp-session-id"), Some("a"));
    }
}

#[tokio::test]
async fn many_calls_that_lose_the_session_share_one_renewal() {
    // All twenty are out in the old session before the first of them is answered.
    let gate = Arc::new(Mutex::new((0, Vec::new())));
    let sessions = Counter::default();
    let script_gate = gate.clone();
    let rig = legacy(move |seen| match (seen.method().as_str(), seen.header("mcp-session-id")) {
        ("initialize", _) => {
            initialized(seen, "2025-11-25").with("mcp-session-id", &format!("s{}", sessions.next()))
        }
        ("tools/call", Some("s0")) => {
            let mut gate = script_gate.lock().unwrap();
            gate.0 += 1;
            let (tx, feed) = super::super::testserver::feed();
            gate.1.push((tx, seen.id()));
            if gate.0 == 20 {
                for (tx, id) in gate.1.drain(..) {
                    let lost = format!(
                        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"Session not found"}}}}"#
                    );
                    tx.send(format!("data: {lost}\n\n").into_bytes()).unwrap();
                }
            }
            Answer::Stream { status: 200, content_type: "text/event-stream".into(), feed }
        }
        _ => polite(seen),
    })
    .await;
    let exchanges: Vec<_> = (0..20).map(|_| rig.start("tools/call")).collect();
    for exchange in exchanges {
        answer(exchange).await.unwrap();
    }
    assert_eq!(rig.server.calls("initialize").len(), 2);
    assert_eq!(rig.server.calls("tools/call").len(), 40);
}

#[tokio::test]
async fn a_server_that_always_forgets_is_a_clear_failure_after_two_initializes() {
    let sessions = Sessions { opened: Counter::default(), lost: not_found, known: |_, _| false };
    let rig = legacy(move |seen| {
        if seen.method() == "notifications/initialized" { Answer::status(202) } else { sessions.answer(seen) }
    })
    .await;
    let error = rig.fault("tools/list").await;
    let ExchangeFault::Lost(LinkFault::Config(text)) = &error.fault else { panic!("{error:?}") };
    assert!(text.contains("forgets its session"), "{text}");
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(matches!(within(rig.link.ended()).await, LinkFault::Config(_)));
    assert!(rig.call("tools/list").await.is_err());
    assert_eq!(rig.server.calls("initialize").len(), 2);
    assert_eq!(rig.server.calls("tools/list").len(), 2);
}

#[tokio::test]
async fn a_session_that_expires_again_and_again_is_renewed_each_time() {
    let uses = Counter::default();
    let sessions = Counter::default();
    let current = Mutex::new(String::new());
    let rig = legacy(move |seen| match seen.method().as_str() {
        "initialize" => {
            let id = format!("s{}", sessions.next());
            current.lock().unwrap().clone_from(&id);
            initialized(seen, "2025-11-25").with("mcp-session-id", &id)
        }
        "tools/call" => {
            if uses.next() % 4 == 3 {
                current.lock().unwrap().clear();
            }
            let known = seen.header("mcp-session-id") == Some(current.lock().unwrap().as_str());
            if known { polite(seen) } else { not_found(seen) }
        }
        _ => polite(seen),
    })
    .await;
    for n in 0..10 {
        rig.call("tools/call").await.unwrap_or_else(|e| panic!("call {n}: {e:?}"));
    }
    let expiries = rig.server.calls("tools/call").len() - 10;
    assert!(expiries >= 3);
    assert_eq!(rig.server.calls("initialize").len(), 1 + expiries, "one renewal per expiry");
}

#[tokio::test]
async fn a_renewal_that_fails_fails_its_calls_as_not_sent_and_the_next_call_tries_again() {
    let opened = Counter::default();
    let rig = legacy(move |seen| match (seen.method().as_str(), seen.header("mcp-session-id")) {
        ("initialize", _) => match opened.next() {
            1 => Answer::status(503),
            n => initialized(seen, "2025-11-25").with("mcp-session-id", &format!("s{n}")),
        },
        ("tools/call", Some("s0")) => not_found(seen),
        _ => polite(seen),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Http { status: 503, .. }), "{error:?}");
    assert_eq!(error.delivery, Delivery::NotSent);
    rig.call("tools/call").await.expect("renewed by the next call");
    assert_eq!(rig.server.calls("initialize").len(), 3);
}

#[tokio::test]
async fn a_server_that_wants_no_initialize_any_more_ends_the_link() {
    let opened = Counter::default();
    let rig = legacy(move |seen| match (seen.method().as_str(), seen.header("mcp-session-id")) {
        ("initialize", _) => match opened.next() {
            0 => initialized(seen, "2025-11-25").with("mcp-session-id", "s0"),
            _ => Answer::error(400, &seen.id(), -32022, "unsupported protocol version"),
        },
        ("tools/call", _) => not_found(seen),
        _ => polite(seen),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert!(
        matches!(&error.fault, ExchangeFault::Lost(LinkFault::Protocol(text)) if text.contains("changed"))
    );
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(matches!(within(rig.link.ended()).await, LinkFault::Protocol(_)));
}

#[tokio::test]
async fn a_404_without_a_session_is_just_a_404() {
    let rig = legacy(|seen| if seen.method() == "tools/call" { not_found(seen) } else { polite(seen) }).await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(error.fault, ExchangeFault::Http { status: 404, .. }), "{error:?}");
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(rig.server.calls("initialize").len(), 1);
    assert_eq!(rig.server.calls("tools/call").len(), 1);
}

#[tokio::test]
async fn an_unknown_method_with_status_404_is_an_answer_even_in_a_session() {
    let rig = legacy(|seen| match seen.method().as_str() {
        "initialize" => initialized(seen, "2025-11-25").with("mcp-session-id", "s"),
        "tools/call" => Answer::error(404, &seen.id(), -32601, "Method not found"),
        _ => polite(seen),
    })
    .await;
    assert!(rig.call("tools/call").await.unwrap().response.is_error);
    assert_eq!(rig.server.calls("initialize").len(), 1);
}

#[tokio::test]
async fn what_the_server_asks_while_the_session_is_renewed_is_answered() {
    let opened = Counter::default();
    let rig = legacy(move |seen| match (seen.method().as_str(), seen.header("mcp-session-id")) {
        ("initialize", _) if opened.next() == 0 => {
            initialized(seen, "2025-11-25").with("mcp-session-id", "s0")
        }
        ("initialize", _) => {
            let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id());
            Answer::events(format!("data: {ping}\n\ndata: {answer}\n\n"))
        }
        ("tools/call", Some(_)) => not_found(seen),
        _ => polite(seen),
    })
    .await;
    rig.call("tools/call").await.expect("the new server has no sessions");
    rig.server.until("the ping was answered", |seen| seen.iter().any(|s| s.id() == "p")).await;
}
