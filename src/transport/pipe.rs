//! Floor 2. Newline-delimited messages over a pair of byte streams: what a stdio
//! child and an in-process peer have in common. Writes are coalesced, whole lines
//! only; reads go through the framer into the inbound side.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::LinkFault;
use super::inbound::Inbound;
use super::link::{Carrier, ExchangeFault, Outbound};
use super::stderr::StderrRing;
use super::turn::Turn;
use crate::wire::era::Revision;
use crate::wire::frame::{FrameEvent, Framer};
use crate::wire::splice::{self, Parts};

/// Messages that may wait for the writer. Calls are bounded well below by the bulkhead.
pub const WRITE_QUEUE_MAX: usize = 4096;
/// Asking twice for the end of a link is the same as asking once.
pub(super) const STOP_ASKS_MAX: usize = 1;
/// Messages taken into one write.
const COALESCE_MAX: usize = 128;
/// Pieces below this are copied together into one write; larger ones are written as they are.
const COPY_MAX: usize = 64 * 1024;
/// Smallest room offered to one read.
const READ_ROOM_MIN: usize = 16 * 1024;
/// Room offered to the next read when short lines come in numbers: what waits costs one read.
const READ_ROOM_BURST: usize = 64 * 1024;
/// How far past the cap a line may run before the stream is given up, as a multiple of the cap.
const OVERRUN_FACTOR: u64 = 4;

/// One message for the writer.
#[derive(Debug)]
pub(super) struct Write {
    /// The request that it is, if it is one.
    id: Option<u64>,
    parts: Parts,
}

/// The sending half of a pipe.
#[derive(Clone, Debug)]
pub(super) struct PipeWriter {
    queue: mpsc::Sender<Write>,
    inbound: Arc<Inbound>,
}

impl PipeWriter {
    /// A writer handle and the queue for [`write_loop`].
    pub(super) fn new(inbound: Arc<Inbound>) -> (Self, mpsc::Receiver<Write>) {
        let (queue, rx) = mpsc::channel(WRITE_QUEUE_MAX);
        (Self { queue, inbound }, rx)
    }

    /// Queues one request; a full queue fails it as not sent.
    pub(super) fn submit(&self, request: Outbound<'_>) {
        let id = request.id;
        if let Err(error) = self.queue.try_send(Write { id: Some(id), parts: request.parts }) {
            match error {
                mpsc::error::TrySendError::Full(_) => self.inbound.fail(
                    id,
                    ExchangeFault::Lost(LinkFault::Network(
                        "the server does not read its input: the write queue is full".to_owned(),
                    )),
                ),
                mpsc::error::TrySendError::Closed(_) => self.inbound.fail_lost(id),
            }
        }
    }

    /// Queues one notification or answer.
    pub(super) fn notify(&self, message: Bytes) {
        let mut parts = Parts::default();
        parts.push(message);
        let _ = self.queue.try_send(Write { id: None, parts });
    }

    /// Tells the server that the caller of `id` is gone.
    pub(super) fn cancel(&self, id: u64, reason: &str) {
        let reason = serde_json::Value::from(reason);
        let params = format!(r#"{{"requestId":{id},"reason":{reason}}}"#);
        self.notify(splice::notification("notifications/cancelled", Some(&params)));
    }
}

/// What is known about the child behind a pipe.
#[derive(Debug)]
pub(super) struct ChildEnd {
    pub pid: Option<u32>,
    pub guard_pid: Option<u32>,
    pub ring: StderrRing,
    /// Tells whoever watches the child that its handshake is done.
    pub handshake_done: watch::Sender<bool>,
}

/// A pair of pipes in use; what ends them listens on the other side of `stop`.
#[derive(Debug)]
pub(crate) struct PipeCarrier {
    pub(super) writer: PipeWriter,
    /// Asks for the ordered end, as does dropping it; `gone` reports that it is over.
    pub(super) stop: mpsc::Sender<()>,
    pub(super) gone: watch::Receiver<bool>,
    /// `None` for an in-process peer.
    pub(super) child: Option<ChildEnd>,
}

impl Carrier for PipeCarrier {
    fn submit(&self, request: Outbound<'_>) {
        self.writer.submit(request);
    }

    fn notify(&self, message: Bytes) {
        self.writer.notify(message);
    }

    fn cancel(&self, id: u64, reason: &str, sent: bool) {
        // A server must hear nothing of a request that it never got.
        if sent {
            self.writer.cancel(id, reason);
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let _ = self.stop.try_send(());
        let mut gone = self.gone.clone();
        async move {
            let _ = gone.wait_for(|gone| *gone).await;
        }
        .boxed()
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(|child| child.pid)
    }

    fn guard_pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(|child| child.guard_pid)
    }

    fn stderr_tail(&self) -> String {
        self.child.as_ref().map(|child| child.ring.text()).unwrap_or_default()
    }

    fn stderr_recent(&self) -> String {
        self.child.as_ref().map(|child| child.ring.recent()).unwrap_or_default()
    }

    fn stderr_last(&self) -> Option<String> {
        self.child.as_ref().and_then(|child| child.ring.last_line())
    }

    fn stderr_total(&self) -> u64 {
        self.child.as_ref().map_or(0, |child| child.ring.total())
    }

    fn established(&self, _revision: Revision) {
        if let Some(child) = &self.child {
            let _ = child.handshake_done.send(true);
        }
    }
}

/// Writes what is queued until the queue closes; an error when the stream breaks, and what was
/// queued is lost. A request that was forgotten before its turn is left out.
pub(super) async fn write_loop(
    mut out: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Write>,
    inbound: Arc<Inbound>,
) -> std::io::Result<()> {
    let mut batch = Vec::with_capacity(COALESCE_MAX);
    let mut buffer = BytesMut::with_capacity(READ_ROOM_MIN);
    while queue.recv_many(&mut batch, COALESCE_MAX).await > 0 {
        for write in batch.drain(..) {
            if write.id.is_some_and(|id| !inbound.begin_send(id)) {
                continue;
            }
            inbound.passes(&write.parts);
            for piece in write.parts.pieces() {
                if piece.len() > COPY_MAX {
                    flush(&mut out, &mut buffer).await?;
                    out.write_all(piece).await?;
                } else {
                    buffer.extend_from_slice(piece);
                }
            }
            buffer.extend_from_slice(b"\n");
        }
        flush(&mut out, &mut buffer).await?;
        out.flush().await?;
    }
    let _ = out.shutdown().await;
    Ok(())
}

async fn flush(out: &mut (impl AsyncWrite + Unpin), buffer: &mut BytesMut) -> std::io::Result<()> {
    if buffer.is_empty() {
        return Ok(());
    }
    let result = out.write_all(buffer).await;
    buffer.clear();
    if buffer.capacity() > 4 * COPY_MAX {
        *buffer = BytesMut::with_capacity(READ_ROOM_MIN);
    }
    result
}

/// Reads until the end of the stream; returns why it ended.
pub(super) async fn read_loop(
    mut input: impl AsyncRead + Unpin,
    inbound: Arc<Inbound>,
    writer: PipeWriter,
    frame_max: usize,
) -> LinkFault {
    let mut framer = Framer::new(frame_max);
    let mut buffer = BytesMut::with_capacity(READ_ROOM_MIN);
    let mut long_head = Bytes::new();
    let mut read = 0;
    let mut turn = Turn::default();
    loop {
        let mut lines = 0;
        while let Some(event) = framer.next(&mut buffer) {
            take(event, &inbound, &writer, &mut long_head);
            lines += 1;
            turn.line(&inbound).await;
        }
        if framer.discarding() > OVERRUN_FACTOR * frame_max as u64 {
            return LinkFault::TooLong(format!(
                "a line ran past {frame_max} bytes and did not end (limits.frame_max)"
            ));
        }
        let burst = lines > 1 && read >= READ_ROOM_MIN;
        if !burst && buffer.is_empty() && buffer.capacity() >= READ_ROOM_BURST {
            // It is over: a server that idles holds little.
            buffer = BytesMut::with_capacity(READ_ROOM_MIN);
        }
        let room = if burst { READ_ROOM_BURST } else { READ_ROOM_MIN };
        // A frame that is still growing gets room in proportion, so a big one costs few reads.
        buffer.reserve(room.max(buffer.len().min(1024 * 1024)));
        match input.read_buf(&mut buffer).await {
            Ok(0) => break,
            Ok(bytes) => {
                read = bytes;
                turn.read(bytes, framer.discarding() > 0).await;
            }
            Err(error) => return LinkFault::Network(format!("reading failed: {error}")),
        }
    }
    match framer.finish(&mut buffer) {
        Some(FrameEvent::Line(frame)) if frame.first() == Some(&b'{') => {
            for back in inbound.accept_last(frame) {
                writer.notify(back);
            }
        }
        Some(event) => take(event, &inbound, &writer, &mut long_head),
        None => {}
    }
    LinkFault::Closed
}

fn take(event: FrameEvent, inbound: &Inbound, writer: &PipeWriter, long_head: &mut Bytes) {
    match event {
        FrameEvent::Line(frame) => {
            if frame.first().is_some_and(|b| matches!(b, b'{' | b'[')) {
                for back in inbound.accept(frame) {
                    writer.notify(back);
                }
            } else {
                inbound.noise(&frame);
            }
        }
        FrameEvent::TooLong { head } => {
            if inbound.too_long(&head, b"") {
                *long_head = Bytes::new();
            } else {
                *long_head = head;
            }
        }
        FrameEvent::TooLongEnd { tail, .. } => {
            let head = std::mem::take(long_head);
            if !head.is_empty() && !inbound.too_long(&head, &tail) {
                inbound.too_long_unattributed(&head);
            }
        }
    }
}

#[cfg(test)]
mod tests;
