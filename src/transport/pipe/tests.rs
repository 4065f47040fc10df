//! A server that writes without end has no more than its turn; a request that was taken back never leaves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::*;
use crate::transport::inbound::InboundEnds;
use crate::transport::link::Link;
use crate::transport::stderr;

/// A stream that always has the same text again, up to a length: its reader never has to wait.
struct Flood {
    text: &'static [u8],
    left: usize,
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left > 0 && out.remaining() >= self.text.len() {
            out.put_slice(self.text);
            self.left = self.left.saturating_sub(self.text.len());
        }
        Poll::Ready(Ok(()))
    }
}

/// How often somebody else had a turn while `work` went on, on one thread.
async fn turns_beside(work: impl Future) -> usize {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let other = tokio::task::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    work.await;
    other.abort();
    turns.load(Ordering::Relaxed)
}

async fn turns_beside_reading(text: &'static [u8], bytes: usize) -> usize {
    let inbound = Inbound::open(Vec::new(), 1 << 30).inbound;
    let (writer, _queue) = PipeWriter::new(inbound.clone());
    let flood = Flood { text, left: bytes };
    turns_beside(read_loop(flood, inbound, writer, 1 << 30)).await
}

#[tokio::test]
async fn a_flood_of_lines_leaves_the_others_their_turn() {
    const NOTE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n";
    for text in [NOTE, b"no protocol\n"] {
        let lines = 200 * TURN_LINES_MAX;
        let turns = turns_beside_reading(text, lines * text.len()).await;
        assert!(turns >= 199, "{turns} turns beside {lines} lines");
    }
}

#[tokio::test]
async fn a_line_without_end_leaves_the_others_their_turn() {
    let turns = turns_beside_reading(b"xxxxxxxxxxxxxxxx", 100 * TURN_BYTES_MAX).await;
    // A line that grows is read in pieces of up to a MiB.
    assert!(turns >= 20, "{turns} turns");
}

#[tokio::test]
async fn a_flood_of_stderr_leaves_the_others_their_turn() {
    let flood = Flood { text: b"some words of a log\n", left: 100 * TURN_BYTES_MAX };
    let turns = turns_beside(stderr::drain(flood, stderr::StderrRing::default())).await;
    assert!(turns >= 95, "{turns} turns");
}

#[tokio::test]
async fn a_request_that_was_taken_back_before_it_left_is_never_heard_of() {
    let InboundEnds { inbound, events: _events, ended } = Inbound::open(Vec::new(), 1024);
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, _stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (_gone_in, gone) = watch::channel(false);
    let carrier = Arc::new(PipeCarrier { writer, stop, gone, child: None });
    let link = Link::new(carrier, inbound.clone(), ended);
    let start = |id: u64| {
        let mut parts = Parts::default();
        parts.push(format!(r#"{{"id":{id}}}"#));
        link.start(Outbound { id, method: "ping", name: None, parts, headers: Vec::new() })
    };
    let _taken_back = start(1);
    link.cancel(1, "the caller left");
    let _sent = start(2);
    let (ours, theirs) = tokio::io::duplex(1024);
    let writing = write_loop(ours, queue, inbound);
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(theirs));
    let reading = async {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), r#"{"id":2}"#);
        link.cancel(2, "the caller left");
        let told = lines.next_line().await.unwrap().unwrap();
        assert!(told.contains("notifications/cancelled") && told.contains(r#""requestId":2"#), "{told}");
    };
    tokio::select! {
        () = reading => {}
        () = writing => panic!("it has not ended"),
    }
}
