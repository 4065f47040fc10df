//! The HTTP/2 side of the scripted server: each request is a stream of one connection, a
//! client that gives up on one resets it, and the connection stays.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::testserver::{Answer, Books, Seen};

/// Interim answers before others get their turn.
const HINTS_AT_ONCE: usize = 100;

/// What becomes of the connection after an answer.
enum After {
    Stays,
    /// GOAWAY: what runs may end, nothing new begins.
    Ends,
    /// GOAWAY, with that stream as the last that was taken.
    EndsBehind(u32),
    /// It breaks off.
    Breaks,
}

pub(super) async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, connection: usize, books: Books) {
    let mut socket = Both(Arc::new(Mutex::new(socket)));
    let Ok(mut h2) = h2::server::handshake(socket.clone()).await else { return };
    let mut answers = JoinSet::new();
    let mut ends = false;
    // Dropped, they would reset their streams.
    let mut left_out = Vec::new();
    loop {
        tokio::select! {
            request = h2.accept() => match request {
                Some(Ok((request, respond))) => {
                    let books = books.clone();
                    answers.spawn(async move { answer(request, respond, connection, books).await });
                }
                _ => return,
            },
            Some(done) = answers.join_next() => match done {
                Ok((After::Stays, _)) => {}
                Ok((After::Ends, _)) if !ends => {
                    ends = true;
                    h2.graceful_shutdown();
                }
                Ok((After::Ends, _)) => {}
                Ok((After::EndsBehind(last), respond)) => {
                    left_out.push(respond);
                    // Length 8, type GOAWAY, no flags, stream 0; the last stream, NO_ERROR. The library never
                    // leaves out a stream that it has seen, and has nothing half-written now.
                    let head = [0, 0, 8, 7, 0, 0, 0, 0, 0];
                    let goodbye = [&head[..], &last.to_be_bytes(), &[0; 4]].concat();
                    if socket.write_all(&goodbye).await.is_err() || socket.flush().await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    connection: usize,
    books: Books,
) -> (After, SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut text = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        text.extend_from_slice(&piece);
    }
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
    };
    let seen = Seen {
        verb: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: head.headers.iter().map(header).collect(),
        body: String::from_utf8(text).unwrap(),
        connection,
    };
    let answer = books.answer(seen);
    let after = write(&mut respond, answer, &books).await;
    (after, respond)
}

async fn write(respond: &mut SendResponse<Bytes>, answer: Answer, books: &Books) -> After {
    match answer {
        Answer::Full { status, headers, body } => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            let response = response.body(()).unwrap();
            if let Ok(mut stream) = respond.send_response(response, body.is_empty())
                && !body.is_empty()
            {
                let _ = stream.send_data(body.into(), true);
            }
            After::Stays
        }
        Answer::Stream { status, content_type, feed } => {
            let response =
                Response::builder().status(status).header("content-type", content_type).body(()).unwrap();
            let Ok(stream) = respond.send_response(response, false) else { return After::Stays };
            pieces(stream, feed, true, books).await
        }
        Answer::Broken { feed } => {
            let response = Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
            let Ok(stream) = respond.send_response(response, false) else { return After::Stays };
            pieces(stream, feed, false, books).await
        }
        Answer::Silence => {
            let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
            books.left();
            After::Stays
        }
        Answer::Last(answer) => match Box::pin(write(respond, *answer, books)).await {
            After::Stays => After::Ends,
            other => other,
        },
        Answer::Refused => {
            respond.send_reset(Reason::REFUSED_STREAM);
            After::Stays
        }
        Answer::NotTaken => After::EndsBehind(u32::from(respond.stream_id()) - 2),
        Answer::Hints => {
            let hint = || Response::builder().status(103).header("link", "</x>").body(()).unwrap();
            loop {
                let reset = std::future::poll_fn(|cx| Poll::Ready(respond.poll_reset(cx).is_ready())).await;
                let sent = (0..HINTS_AT_ONCE).all(|_| respond.send_informational(hint()).is_ok());
                if reset || !sent {
                    books.left();
                    return After::Stays;
                }
                tokio::task::yield_now().await;
            }
        }
        Answer::Hangup | Answer::Flood { .. } => After::Breaks,
    }
}

async fn pieces(
    mut stream: SendStream<Bytes>,
    mut feed: mpsc::UnboundedReceiver<Vec<u8>>,
    clean_end: bool,
    books: &Books,
) -> After {
    loop {
        let piece = tokio::select! {
            piece = feed.recv() => piece,
            _ = std::future::poll_fn(|cx| stream.poll_reset(cx)) => {
                books.left();
                return After::Stays;
            }
        };
        match piece {
            Some(piece) => {
                if stream.send_data(piece.into(), false).is_err() {
                    books.left();
                    return After::Stays;
                }
            }
            None if clean_end => {
                let _ = stream.send_data(Bytes::new(), true);
                return After::Stays;
            }
            None => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return After::Stays;
            }
        }
    }
}

/// A socket for two: the HTTP library, and frames that it would not write.
struct Both<S>(Arc<Mutex<S>>);

impl<S> Clone for Both<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Both<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock().unwrap()).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Both<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock().unwrap()).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock().unwrap()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock().unwrap()).poll_shutdown(cx)
    }
}
