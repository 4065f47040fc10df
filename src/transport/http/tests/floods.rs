//! Answers without end: each is bounded in memory, ends its own request with the cause, and
//! holds nobody else up.

use super::*;

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
const REFUSAL: &str = "HTTP/1.1 500 No\r\ncontent-type: application/json\r\n\r\n";

/// A legacy link whose `tools/call` is answered by this, and by more of it without end.
async fn flooding(start: String, again: &'static str) -> Rig {
    legacy(move |seen| match seen.method().as_str() {
        "tools/call" => Answer::Flood { start: start.clone().into(), again: again.into() },
        _ => polite(seen),
    })
    .await
}

#[tokio::test]
async fn a_flood_that_can_be_no_answer_fails_its_request_with_the_cause() {
    let cases = [
        ("many headers", "HTTP/1.1 200 OK\r\n".to_owned(), "x: y\r\n", "message head is too large"),
        ("one header", "HTTP/1.1 200 OK\r\nx: ".to_owned(), "yyyyyyyyyyyyyyyy", "message head is too large"),
        ("one chunk extension", format!("{CHUNKED}1;"), "aaaaaaaaaaaaaaaa", "chunk extensions over limit"),
        ("chunk extensions", CHUNKED.to_owned(), "1;a=b\r\n \r\n", "chunk extensions over limit"),
        ("trailers", format!("{CHUNKED}0\r\n"), "a: b\r\n", "trailers"),
        ("one line of an event", format!("{EVENTS}data: "), "xxxxxxxxxxxxxxxx", "TooLong(65536)"),
        ("lines of one event", EVENTS.to_owned(), "data: x\n", "TooLong(65536)"),
        ("one event name", format!("{EVENTS}event: "), "xxxxxxxxxxxxxxxx", "TooLong(65536)"),
        ("one event id", format!("{EVENTS}id: "), "xxxxxxxxxxxxxxxx", "TooLong(65536)"),
        ("a body", format!("{JSON}{{"), "                ", "TooLong(65536)"),
        ("a refusal", format!("{REFUSAL}{{"), "                ", "status: 500"),
    ];
    for (name, start, again, cause) in cases {
        let rig = flooding(start, again).await;
        let error = rig.fault("tools/call").await;
        assert!(format!("{error:?}").contains(cause), "{name}: {error:?}");
        rig.server.until_left(1).await;
        rig.call("tools/list").await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
}

#[tokio::test]
async fn a_flood_of_events_that_say_nothing_holds_nobody_up_and_ends_with_its_request() {
    let notice = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n";
    for again in [": c\n", "\n", "retry: 1\n", "foo: bar\n", "data:\n\n", notice] {
        let rig = flooding(EVENTS.to_owned(), again).await;
        let exchange = rig.start("tools/call");
        for _ in 0..20 {
            rig.call("tools/list").await.unwrap_or_else(|e| panic!("{again:?}: {e:?}"));
        }
        assert!(rig.carrier.shared.inbound.is_waiting(exchange.id), "{again:?}");
        rig.link.cancel(exchange.id, "the idle limit passed");
        rig.server.until_left(1).await;
        assert!(rig.link.counters().noise < 10, "{again:?}");
    }
}
