//! What a log of a stream keeps, gives again, and gives up.

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::*;

fn message(text: &str) -> Parts {
    let mut parts = Parts::default();
    parts.push(Bytes::from(text.to_owned()));
    parts
}

fn now(reader: &mut Reader) -> Option<(EventId, String)> {
    let (id, parts) = reader.next().now_or_never()??;
    Some((id, String::from_utf8(parts.to_bytes().to_vec()).unwrap()))
}

fn texts(reader: &mut Reader) -> Vec<String> {
    std::iter::from_fn(|| now(reader)).map(|(_, text)| text).collect()
}

#[tokio::test]
async fn what_a_broken_connection_missed_comes_again_and_nothing_twice() {
    let log = Log::new(3);
    let mut first = log.read();
    for text in ["a", "b", "c"] {
        log.push(message(text)).await;
    }
    let (id, text) = now(&mut first).unwrap();
    assert_eq!((id, text.as_str()), (EventId { log: 3, reader: 0, seq: 1 }, "a"));
    assert_eq!(now(&mut first).unwrap().1, "b");
    // It is not known yet that this connection is gone.
    let mut second = log.resume(id).unwrap();
    assert_eq!(texts(&mut second), ["b", "c"]);
    assert_eq!(now(&mut first), None);
    drop(first);
    log.push(message("d")).await;
    log.end();
    assert_eq!(texts(&mut second), ["d"]);
    drop(second);
    assert!(log.is_done());
}

#[tokio::test]
async fn of_two_connections_each_message_reaches_one_and_the_older_takes_over() {
    let log = Log::new(0);
    let (mut old, mut new) = (log.read(), log.read());
    log.push(message("a")).await;
    assert_eq!(now(&mut old), None);
    let (id, _) = now(&mut new).unwrap();
    drop(new);
    log.push(message("b")).await;
    assert_eq!(texts(&mut old), ["b"]);
    // Only what would have come on that connection comes again.
    assert_eq!(texts(&mut log.resume(EventId { seq: 0, ..id }).unwrap()), ["a"]);
}

#[tokio::test]
async fn without_a_connection_the_oldest_make_room_and_a_gap_is_told() {
    let log = Log::new(0);
    let begin = log.read().begin();
    for at in 0..FRESH_MAX + 10 {
        log.push(message(&at.to_string())).await;
    }
    assert!(log.resume(begin).is_none(), "ten are lost");
    let mut reader = log.read();
    assert_eq!(reader.begin().seq, 10);
    assert_eq!(texts(&mut reader).len(), FRESH_MAX);
    let large = message(&"x".repeat(FRESH_BYTES_MAX));
    log.push(large.clone()).await;
    assert!(log.push(large).now_or_never().is_none(), "a reader that is slow holds up who writes");
    assert_eq!(texts(&mut reader).len(), 1);
}

#[tokio::test]
async fn what_was_sent_is_kept_within_bounds() {
    let log = Log::new(0);
    let mut reader = log.read();
    let begin = reader.begin();
    for _ in 0..SENT_MAX * 2 {
        log.push(message("x")).await;
        now(&mut reader).unwrap();
    }
    assert_eq!(log.kept().sent.len(), SENT_MAX);
    assert!(log.resume(begin).is_none());
    let last = EventId { seq: SENT_MAX as u64 * 2, ..begin };
    assert!(log.resume(last).is_some());
    log.push(message(&"y".repeat(SENT_BYTES_MAX + 1))).await;
    texts(&mut log.read());
    assert_eq!(log.kept().sent_bytes, 0);
}

#[test]
fn ids_are_read_as_they_are_written_and_nothing_else_is() {
    let id = EventId { log: 1, reader: 20, seq: 300 };
    assert_eq!(EventId::parse(&id.text()), Some(id));
    for bad in ["", "1", "1-2", "1-2-3-4", "1-2-", "-1-2-3", "+1-2-3", "a-b-c", "1-2-99999999999999999999999"]
    {
        assert_eq!(EventId::parse(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn a_closed_log_ends_its_connections() {
    let log = Log::new(0);
    let mut reader = log.read();
    log.push(message("a")).await;
    log.close();
    assert_eq!(reader.next().await.map(|_| ()), None);
    drop(reader);
    assert!(log.is_done());
}
