//! What comes back: bodies, streams in every dialect, batches, sizes, odd statuses.

use super::super::testserver::{event, feed};
use super::*;
use crate::call::Delivery;
use crate::transport::waiting::Heard;
use crate::wire::era::Revision;

type Dialect = fn(&str) -> String;
type Script = fn(&Seen) -> Answer;

/// A legacy link whose `tools/call` is answered by this.
async fn answering(reply: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Rig {
    legacy(move |seen| if seen.method() == "tools/call" { reply(seen) } else { polite(seen) }).await
}

fn result(seen: &Seen) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"n":1}}}}"#, seen.id())
}

#[tokio::test]
async fn every_dialect_of_event_stream_is_understood() {
    let dialects: [(&str, Dialect); 10] = [
        ("text/event-stream", |m| format!("event: message\ndata: {m}\n\n")),
        ("text/event-stream; charset=utf-8", |m| format!("data: {m}\n\n")),
        ("text/event-stream;charset=UTF-8", |m| format!("event:message\r\ndata:{m}\r\n\r\n")),
        ("text/event-stream", |m| format!("id: 1\rdata: {m}\r\r")),
        ("text/event-stream", |m| format!("data: {}\ndata: {}\n\n", &m[..16], &m[16..])),
        ("text/event-stream", |m| format!(": hello\n\n: ping\ndata: {m}\nfoo: bar\n\n")),
        ("text/event-stream", |m| {
            format!("\u{feff}retry: 10\n\ndata:\n\nevent: ping\ndata: x\n\ndata: {m}\n\n")
        }),
        ("Text/Event-Stream", |m| format!("event: answer\ndata: {m}\n\n")),
        ("text/event-stream", |m| format!(": no blank line at the end\n\nevent: message\ndata: {m}\n")),
        ("text/event-stream", |m| format!("data: {m}")),
    ];
    for (content_type, dialect) in dialects {
        let rig = answering(move |seen| {
            Answer::status(200).with("content-type", content_type).body(dialect(&result(seen)))
        })
        .await;
        let reply = rig.call("tools/call").await.unwrap_or_else(|e| panic!("{content_type}: {e:?}"));
        assert_eq!(text(&reply), r#"{"n":1}"#);
        assert_eq!(rig.link.counters().noise, 0, "{content_type}");
    }
}

#[tokio::test]
async fn a_stream_in_single_bytes_is_understood() {
    let (tx, rx) = feed();
    let rx = Once::new(rx);
    let rig = answering(move |_| Answer::Stream {
        status: 200,
        content_type: "text/event-stream".into(),
        feed: rx.take().unwrap(),
    })
    .await;
    let exchange = rig.start("tools/call");
    let message = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"ä":"€"}}}}"#, exchange.id);
    for byte in format!("data: {message}\r\n\r\n").bytes() {
        tx.send(vec![byte]).unwrap();
    }
    assert_eq!(text(&answer(exchange).await.unwrap()), r#"{"ä":"€"}"#);
}

#[tokio::test]
async fn the_answer_is_handed_on_before_the_stream_ends_and_the_rest_is_heard() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let mut rig = answering(move |_| stream.take().unwrap()).await;
    let exchange = rig.start("tools/call");
    let id = exchange.id;
    tx.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).into_bytes()).unwrap();
    answer(exchange).await.unwrap();
    tx.send(event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).into_bytes()).unwrap();
    let LinkEvent::Notification { method, .. } = rig.event().await else { panic!("another event") };
    assert_eq!(method, "notifications/tools/list_changed");
}

#[tokio::test]
async fn progress_reaches_its_caller_and_comments_do_not() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let rig = answering(move |_| stream.take().unwrap()).await;
    let mut exchange = rig.start("tools/call");
    let id = exchange.id;
    tx.send(b": keep-alive\n\n".to_vec()).unwrap();
    let note = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1}}}}"#
    );
    tx.send(event(&note).into_bytes()).unwrap();
    let Some(Heard::Progress(params)) = within(exchange.waiting.heard()).await else { panic!("no progress") };
    assert_eq!(params, format!(r#"{{"progressToken":{id},"progress":1}}"#));
    tx.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).into_bytes()).unwrap();
    let heard = within(exchange.waiting.heard()).await;
    assert!(matches!(heard, Some(Heard::Answer(Ok(_)))), "{heard:?}");
}

#[tokio::test]
async fn what_the_server_asks_during_a_call_is_answered_by_a_post() {
    let (tx, stream) = Answer::stream();
    let stream = Once::new(stream);
    let rig = answering(move |_| stream.take().unwrap()).await;
    let exchange = rig.start("tools/call");
    for (id, method) in [("1", "ping"), ("\"a\"", "roots/list"), ("3", "sampling/createMessage")] {
        tx.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)).into_bytes())
            .unwrap();
    }
    let is_answer = |s: &Seen| s.json()["result"].is_object() || s.json()["error"].is_object();
    let seen =
        rig.server.until("three answers", |seen| seen.iter().filter(|s| is_answer(s)).count() == 3).await;
    let mut answers: Vec<_> = seen
        .iter()
        .filter(|s| is_answer(s))
        .map(|s| (s.id().to_string(), s.json()["error"]["code"].clone()))
        .collect();
    answers.sort_by_key(|(id, _)| id.clone());
    assert_eq!(
        answers,
        [
            ("\"a\"".into(), (-32601).into()),
            ("1".into(), serde_json::Value::Null),
            ("3".into(), (-32601).into())
        ]
    );
    let id = exchange.id;
    tx.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).into_bytes()).unwrap();
    answer(exchange).await.unwrap();
}

#[tokio::test]
async fn a_batch_is_unpacked_where_the_revision_has_batches() {
    let batch = |seen: &Seen| {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        Answer::json(format!("[{note},{}]", result(seen)))
    };
    let mut rig = legacy(move |seen| match seen.method().as_str() {
        "initialize" => initialized(seen, "2025-03-26"),
        "tools/call" => batch(seen),
        _ => polite(seen),
    })
    .await;
    assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"n":1}"#);
    assert!(matches!(rig.event().await, LinkEvent::Notification { .. }));

    let rig = answering(batch).await;
    let error = rig.fault("tools/call").await;
    assert!(matches!(&error.fault, ExchangeFault::Malformed(text) if text.contains("batch")), "{error:?}");
}

#[tokio::test]
async fn a_body_over_the_cap_fails_its_own_call_and_one_at_the_cap_passes() {
    for (content_type, wrap) in [("application/json", false), ("text/event-stream", true)] {
        let rig = legacy(move |seen| {
            if seen.method() != "tools/call" {
                return polite(seen);
            }
            let size = usize::try_from(seen.json()["params"]["size"].as_u64().unwrap()).unwrap();
            let frame = format!(r#"{{"jsonrpc":"2.0","result":{{"t":""}},"id":{}}}"#, seen.id());
            let frame = frame.replace(r#""t":"""#, &format!(r#""t":"{}""#, "x".repeat(size - frame.len())));
            assert_eq!(frame.len(), size);
            let body = if wrap { format!("data: {frame}\n\n") } else { frame };
            Answer::status(200).with("content-type", content_type).body(body)
        })
        .await;
        let sized = |size: usize| rig.start_with("tools/call", &format!(r#"{{"size":{size}}}"#), |_| {});
        answer(sized(FRAME_MAX)).await.unwrap_or_else(|e| panic!("{content_type}: {e:?}"));
        for size in [FRAME_MAX + 1, 40 * FRAME_MAX] {
            let error = answer(sized(size)).await.unwrap_err();
            assert_eq!(error.fault, ExchangeFault::TooLong(FRAME_MAX), "{content_type} {size}");
            assert_eq!(error.delivery, Delivery::Unknown);
        }
        rig.call("tools/list").await.expect("the link lives on");
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_fails_at_once_and_says_how() {
    let cases: [(&str, Script); 9] = [
        ("empty body", |_| Answer::status(202)),
        ("empty body", |_| Answer::status(204)),
        ("text/html", |_| {
            Answer::status(200).with("content-type", "text/html").body("<html>canary-key</html>")
        }),
        ("of no type", |_| Answer::status(200).body("hello")),
        ("no answer to this request", |_| Answer::json(r#"{"jsonrpc":"2.0","id":9999,"result":{}}"#)),
        ("no answer to this request", |_| Answer::json("42")),
        ("not valid JSON", |s| Answer::json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, s.id()))),
        ("jsonrpc", |s| Answer::json(format!(r#"{{"id":{},"result":{{}}}}"#, s.id()))),
        ("gzip", |s| Answer::json(result(s)).with("content-encoding", "gzip")),
    ];
    for (want, reply) in cases {
        let rig = answering(reply).await;
        let error = rig.fault("tools/call").await;
        let ExchangeFault::Malformed(text) = &error.fault else { panic!("{want}: {error:?}") };
        assert!(text.contains(want) && !text.contains("canary-key"), "{want}: {text}");
    }
}

#[tokio::test]
async fn json_without_its_content_type_is_taken() {
    for content_type in ["text/plain", "", "application/octet-stream"] {
        let rig = answering(move |seen| {
            Answer::status(200).with("content-type", content_type).body(format!("\n {}", result(seen)))
        })
        .await;
        assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"n":1}"#, "{content_type}");
    }
}

#[tokio::test]
async fn a_json_rpc_answer_counts_whatever_the_status() {
    for status in [400, 403, 404, 500] {
        let rig = answering(move |seen| {
            Answer::status(status).with("content-type", "application/json").body(result(seen))
        })
        .await;
        assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"n":1}"#, "{status}");
    }
    for status in [400, 404, 500] {
        let rig = answering(move |seen| Answer::error(status, &seen.id(), -32601, "no such method")).await;
        let reply = rig.call("tools/call").await.unwrap();
        assert!(reply.response.is_error && text(&reply).contains("no such method"), "{status}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_the_answer_leaves_the_outcome_unknown() {
    for ends in [": nothing\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"resu"] {
        let rig = answering(move |_| Answer::events(ends)).await;
        let error = rig.fault("tools/call").await;
        assert_eq!(error.fault, ExchangeFault::Lost(LinkFault::Closed), "{ends}");
        assert_eq!(error.delivery, Delivery::Unknown, "{ends}");
        assert_eq!(rig.server.calls("tools/call").len(), 1, "{ends}");
    }
}

#[tokio::test]
async fn a_broken_legacy_stream_is_resumed_behind_its_last_event() {
    let resumed = Arc::new(Once::new(()));
    let script_state = resumed.clone();
    let rig = legacy(move |seen| match (seen.verb.as_str(), seen.method().as_str()) {
        ("POST", "tools/call") => Answer::events("retry: 120\nid: e-1\ndata:\n\n"),
        ("GET", _) if seen.header("last-event-id") == Some("e-1") => {
            // Closed once more, behind another event: the server polls this way.
            script_state.take();
            Answer::events("id: e-2\ndata: \n\n")
        }
        ("GET", _) if seen.header("last-event-id") == Some("e-2") => {
            Answer::events(event(r#"{"jsonrpc":"2.0","id":2,"result":{"resumed":true}}"#))
        }
        _ => polite(seen),
    })
    .await;
    let before = clock();
    assert_eq!(text(&rig.call("tools/call").await.unwrap()), r#"{"resumed":true}"#);
    assert!(before.elapsed() >= millis(240), "the wait that the server asks for is kept");
    assert!(resumed.take().is_none());
    assert_eq!(rig.server.calls("tools/call").len(), 1, "the call itself is never sent again");
}

#[tokio::test]
async fn resuming_gives_up_after_a_few_tries_in_vain() {
    let rig = legacy(move |seen| match (seen.verb.as_str(), seen.method().as_str()) {
        ("POST", "tools/call") => Answer::events("retry: 1\nid: e-1\ndata:\n\n"),
        ("GET", _) if seen.header("last-event-id").is_some() => Answer::events(""),
        _ => polite(seen),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert_eq!((error.fault, error.delivery), (ExchangeFault::Lost(LinkFault::Closed), Delivery::Unknown));
    let resumes = rig.server.seen().iter().filter(|s| s.header("last-event-id").is_some()).count();
    assert_eq!(resumes, 3);
}

#[tokio::test]
async fn the_modern_era_never_resumes() {
    let rig = modern(|seen| match seen.method().as_str() {
        "tools/call" => Answer::events("id: e-1\ndata:\n\n"),
        _ => polite_modern(seen, "{}"),
    })
    .await;
    let error = rig.fault("tools/call").await;
    assert_eq!(error.fault, ExchangeFault::Lost(LinkFault::Closed));
    assert!(rig.server.seen().iter().all(|s| s.verb == "POST"));
    assert_eq!(Revision::R2026_07_28.as_str(), rig.server.seen()[0].header("mcp-protocol-version").unwrap());
}

/// An answer over several lines, with every kind of line end and with escapes that only look like one.
fn pretty(seen: &Seen) -> String {
    let id = seen.id();
    format!(
        "\r\n{{\n  \"jsonrpc\": \"2.0\",\r\n\t\"id\": {id},\r  \"result\": {{\n    \"text\": \"a\\nb\\r\\u000ac\",\n    \"n\": 1.50e0,\n    \"n\": []\n  }}\n}}\n\n"
    )
}

#[tokio::test]
async fn an_answer_over_several_lines_fits_on_one_and_is_the_same_otherwise() {
    let json = answering(|seen| Answer::json(pretty(seen))).await;
    let exchange = json.start("tools/call");
    let sent = format!("\r\n{{\n  \"jsonrpc\": \"2.0\",\r\n\t\"id\": {},", exchange.id);
    let reply = answer(exchange).await.unwrap();
    let frame = std::str::from_utf8(&reply.frame).unwrap();
    assert!(!frame.contains(['\n', '\r']), "{frame:?}");
    assert!(frame.starts_with(&sent.replace(['\n', '\r'], " ")), "{frame:?}");
    let body = r#"{     "text": "a\nb\r\u000ac",     "n": 1.50e0,     "n": []   }"#;
    assert_eq!(text(&reply), body, "spans, escapes, numbers and repeated keys stay");

    let stream = answering(|seen| {
        let lines = pretty(seen).replace("\r\n", "\n").replace('\r', "\n");
        let data: String = lines.lines().map(|line| format!("data: {line}\n")).collect();
        Answer::events(format!("{data}\n"))
    })
    .await;
    let reply = stream.call("tools/call").await.unwrap();
    assert!(!reply.frame.iter().any(|b| matches!(b, b'\n' | b'\r')));
    assert_eq!(text(&reply), body);
}

#[tokio::test]
async fn a_raw_line_end_within_a_string_stays_a_broken_answer() {
    let rig = answering(|seen| {
        Answer::json(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"t\":\"a\nb\"}}}}", seen.id()))
    })
    .await;
    assert!(matches!(rig.fault("tools/call").await.fault, ExchangeFault::Malformed(_)));
}

#[tokio::test]
async fn a_notification_over_several_lines_fits_on_one() {
    let mut rig = answering(|seen| {
        let note = "data: {\ndata: \"jsonrpc\": \"2.0\",\ndata: \"method\": \"notifications/x\"\ndata: }\n\n";
        Answer::events(format!("{note}{}", event(&result(seen))))
    })
    .await;
    rig.call("tools/call").await.unwrap();
    let LinkEvent::Notification { frame, .. } = rig.event().await else { panic!("another event") };
    assert_eq!(&frame[..], br#"{ "jsonrpc": "2.0", "method": "notifications/x" }"#);
}
