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
        ("100", String::new(), "HTTP/1.1 100 Continue\r\n\r\n", "more than 100 interim answers (HTTP 1xx)"),
        ("103", String::new(), "HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n", "more than 100 interim answers"),
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
        for _ in 0..5 {
            rig.call("tools/list").await.unwrap_or_else(|e| panic!("{again:?}: {e:?}"));
        }
        assert!(rig.carrier.shared.inbound.is_waiting(exchange.id), "{again:?}");
        rig.link.cancel(exchange.id, "the idle limit passed");
        rig.server.until_left(1).await;
        assert!(rig.link.counters().noise < 10, "{again:?}");
    }
}

/// The answer to a call behind that many interim answers.
fn after_interim(seen: &Seen, count: usize) -> Answer {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.id());
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(count);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let start = format!("{interim}{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    Answer::Flood { start: start.into(), again: b" ".to_vec() }
}

#[tokio::test]
async fn interim_answers_up_to_the_bound_are_passed_over() {
    for count in [0, 1, 99, 100] {
        let rig = legacy(move |seen| match seen.method().as_str() {
            "tools/call" => after_interim(seen, count),
            _ => polite(seen),
        })
        .await;
        rig.call("tools/call").await.unwrap_or_else(|e| panic!("{count}: {e:?}"));
    }
}

#[tokio::test]
async fn interim_answers_without_end_leave_turns_to_others() {
    // A handshake without an end, and beside it a link that works.
    let rig = raw(ProtocolChoice::Auto, |_| Answer::Flood {
        start: Vec::new(),
        again: b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
    })
    .await;
    let beside = legacy(polite).await;
    let settings = settings(ProtocolChoice::Auto);
    let (outcome, ()) = tokio::join!(within(run(&rig.link, CarrierKind::Http, &settings, None)), async {
        for _ in 0..20 {
            beside.call("tools/call").await.unwrap();
        }
    });
    assert!(format!("{outcome:?}").contains("interim answers"), "{outcome:?}");
}
