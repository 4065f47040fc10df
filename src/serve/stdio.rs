//! The edge of a client on a pair of pipes: lines in, lines out. One reader, which stops while the
//! client does not read; one writer, which puts waiting messages into one write. Nothing but messages
//! of the protocol is ever written.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::client::{Client, Leave};
use super::message::RpcError;
use super::sink::{Outgoing, Outlet, Sink};
use crate::transport::task;
use crate::wire::envelope::id_hint;
use crate::wire::frame::{FrameEvent, Framer};

/// Bytes that are read at once.
const READ_LEN: usize = 64 * 1024;
/// Bytes that are gathered into one write.
const WRITE_LEN: usize = 64 * 1024;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client ended its input.
    Eof,
    /// The client does not take what is written any more, or reading failed.
    Broken,
    /// The client was ended: it does not read, or the host shuts down.
    Ended,
}

/// Carries the messages of one client until it leaves. What runs when its input ends has the grace of
/// the settings to come to an answer. A line longer than `frame_max` bytes is refused, not kept.
pub async fn carry<R, W>(client: &Arc<Client>, input: R, output: W, frame_max: usize) -> End
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (sink, outlet) = Sink::pair();
    client.standing(sink.clone());
    let grace = client.grace();
    let reading = async {
        let end = read(client, input, &sink, frame_max).await;
        if end == End::Eof {
            client.drain().await;
        }
        client.leave(Leave::Gone);
        // The writer ends when nobody can write any more.
        drop(sink);
        end
    };
    let writing = write(outlet, output);
    tokio::pin!(reading, writing);
    let mut end = End::Broken;
    tokio::select! {
        biased;
        wrote = &mut writing => {
            client.leave(Leave::Gone);
            if wrote { end = End::Ended; }
        }
        read = &mut reading => {
            end = read;
            // A client that does not take the rest is not waited for.
            let _ = tokio::time::timeout(grace, writing).await;
        }
    }
    end
}

/// The same in a task of its own, so that its messages wake nobody else; it ends when this is dropped.
pub async fn carry_apart<R, W>(client: Arc<Client>, input: R, output: W, frame_max: usize) -> End
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (done, end) = oneshot::channel();
    let carrying = async move {
        let _ = done.send(carry(&client, input, output, frame_max).await);
    };
    let _carrying = task::spawn(carrying);
    end.await.unwrap_or(End::Broken)
}

async fn read<R: AsyncRead + Unpin>(
    client: &Arc<Client>,
    mut input: R,
    sink: &Sink,
    frame_max: usize,
) -> End {
    let mut framer = Framer::new(frame_max);
    let mut buf = BytesMut::with_capacity(READ_LEN);
    let mut head = Bytes::new();
    let (over, closed) = (client.over(), sink.closed());
    tokio::pin!(over, closed);
    loop {
        while let Some(event) = framer.next(&mut buf) {
            take(client, sink, event, &mut head, frame_max).await;
        }
        buf.reserve(READ_LEN);
        let count = tokio::select! {
            biased;
            () = &mut over => return End::Ended,
            () = &mut closed => return End::Broken,
            count = input.read_buf(&mut buf) => count,
        };
        match count {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return End::Broken,
        }
    }
    while let Some(event) = framer.finish(&mut buf) {
        take(client, sink, event, &mut head, frame_max).await;
    }
    End::Eof
}

async fn take(client: &Arc<Client>, sink: &Sink, event: FrameEvent, head: &mut Bytes, frame_max: usize) {
    // Who does not read is not read from.
    sink.room().await;
    match event {
        FrameEvent::Line(line) => client.accept(line, sink),
        FrameEvent::TooLong { head: begins } => *head = begins,
        FrameEvent::TooLongEnd { tail, total } => {
            let id = id_hint(head, &tail).map_or_else(|| "null".to_owned(), |id| id.to_string());
            let text = format!("the message has {total} bytes; at most {frame_max} are taken");
            client.reply(sink, RpcError::request(text).answer(id.as_bytes()));
        }
    }
}

/// Writes until nobody sends any more (`true`), or the output fails.
async fn write<W: AsyncWrite + Unpin>(mut outlet: Outlet, mut output: W) -> bool {
    let mut gathered: Vec<u8> = Vec::with_capacity(WRITE_LEN);
    while let Some(first) = outlet.next().await {
        let mut next = Some(first);
        while let Some(message) = next {
            if line(&mut gathered, message, &mut output).await.is_err() {
                return false;
            }
            next = if gathered.len() < WRITE_LEN { outlet.try_next() } else { None };
        }
        if output.write_all(&gathered).await.is_err() || output.flush().await.is_err() {
            return false;
        }
        gathered.clear();
        gathered.shrink_to(WRITE_LEN);
    }
    let _ = output.shutdown().await;
    true
}

/// Puts one message behind what is gathered; large pieces are written as they are.
async fn line<W: AsyncWrite + Unpin>(
    gathered: &mut Vec<u8>,
    message: Outgoing,
    output: &mut W,
) -> std::io::Result<()> {
    for piece in message.into_parts().pieces() {
        if piece.len() >= WRITE_LEN {
            output.write_all(gathered).await?;
            gathered.clear();
            output.write_all(piece).await?;
        } else {
            gathered.extend_from_slice(piece);
        }
    }
    gathered.push(b'\n');
    Ok(())
}
