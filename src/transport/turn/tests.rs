//! A server that writes without end has no more than its turn, and no more than its pace.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::transport::pipe::{PipeWriter, read_loop};
use crate::transport::{stderr, task};

/// What one read gets at most, as from a pipe.
const READ_MAX: usize = 64 * 1024;

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
        let most = out.filled().len() + READ_MAX;
        while self.left > 0 && out.remaining() >= self.text.len() && out.filled().len() < most {
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
    let other = task::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    work.await;
    drop(other);
    turns.load(Ordering::Relaxed)
}

async fn read(text: &'static [u8], bytes: usize) {
    let inbound = Inbound::open(Vec::new(), 1 << 30).inbound;
    let (writer, _queue) = PipeWriter::new(inbound.clone());
    read_loop(Flood { text, left: bytes }, inbound, writer, 1 << 30).await;
}

// While another task always runs, a paused clock stands: these stay within the credit.

#[tokio::test(start_paused = true)]
async fn a_flood_of_lines_leaves_the_others_their_turn() {
    const NOTE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n";
    for text in [NOTE, b"no protocol\n"] {
        let lines = 100 * TURN_LINES_MAX;
        let turns = turns_beside(read(text, lines * text.len())).await;
        assert!(turns >= 99, "{turns} turns beside {lines} lines");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_leaves_the_others_their_turn() {
    let turns = turns_beside(read(b"xxxxxxxxxxxxxxxx", 100 * TURN_BYTES_MAX)).await;
    assert!(turns >= 99, "{turns} turns");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_stderr_leaves_the_others_their_turn() {
    let flood = Flood { text: b"some words of a log\n", left: 20 * TURN_BYTES_MAX };
    let turns = turns_beside(stderr::drain(flood, stderr::StderrRing::default())).await;
    assert!(turns >= 19, "{turns} turns");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_for_is_read_at_a_pace() {
    let began = Monotonic::now();
    read(b"no protocol\n", 8_000 * 12).await;
    assert_eq!(Monotonic::now(), began, "what comes at once is read at once");
    read(b"no protocol\n", 108_000 * 12).await;
    let took = Monotonic::now() - began;
    assert!((1.9..2.1).contains(&took.as_secs_f64()), "100,000 more lines took {took:?}");
    let began = Monotonic::now();
    let flood = Flood { text: b"some words of a log\n", left: 264 << 20 };
    stderr::drain(flood, stderr::StderrRing::default()).await;
    let took = Monotonic::now() - began;
    assert!((1.9..2.3).contains(&took.as_secs_f64()), "240 MiB more of stderr took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn answers_are_read_as_fast_as_they_come() {
    const ANSWER: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n";
    let began = Monotonic::now();
    let inbound = Inbound::open(Vec::new(), 1 << 20).inbound;
    let mut turn = Turn::default();
    for _ in 0..50_000 {
        let waiting = inbound.expect(7, None);
        assert!(inbound.accept(bytes::Bytes::from_static(&ANSWER[..ANSWER.len() - 1])).is_empty());
        drop(waiting);
        turn.line(&inbound).await;
    }
    // A large one that has not ended yet may be an answer, too.
    read(b"xxxxxxxxxxxxxxxx", 100 << 20).await;
    assert_eq!(Monotonic::now(), began);
}
