//! The body of a POST: the pieces of a message, written one after the other without a
//! copy. It also knows when the first byte is asked for, which only happens on a
//! connection that stands: until then nothing can have left this process.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::transport::inbound::Inbound;
use crate::wire::splice::Parts;

/// Notes that bytes of one request may have left.
#[derive(Clone, Debug)]
pub(super) struct SentMark {
    inbound: Arc<Inbound>,
    id: u64,
    sent: Arc<AtomicBool>,
}

impl SentMark {
    /// For request `id`; `sent` is set together with the mark in the pending table.
    pub(super) fn new(inbound: Arc<Inbound>, id: u64, sent: Arc<AtomicBool>) -> Self {
        Self { inbound, id, sent }
    }

    fn set(&self) {
        self.sent.store(true, Ordering::Release);
        self.inbound.mark_sent(self.id);
    }
}

/// A message as a request body.
#[derive(Debug)]
pub(super) struct MessageBody {
    pieces: VecDeque<Bytes>,
    left: u64,
    mark: Option<SentMark>,
}

impl MessageBody {
    /// The body for `parts`; `mark` is set when sending begins.
    pub(super) fn new(parts: &Parts, mark: Option<SentMark>) -> Self {
        Self { pieces: parts.pieces().iter().cloned().collect(), left: parts.len() as u64, mark }
    }
}

impl Body for MessageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(mark) = self.mark.take() {
            mark.set();
        }
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
