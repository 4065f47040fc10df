//! The HTTP/2 side of the scripted server: each request is a stream of one connection, a
//! client that gives up on one resets it, and the connection stays.

use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
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
    /// It breaks off.
    Breaks,
}

pub(super) async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, connection: usize, books: Books) {
    let Ok(mut h2) = h2::server::handshake(socket).await else { return };
    let mut answers = JoinSet::new();
    let mut ends = false;
    loop {
        tokio::select! {
            request = h2.accept() => match request {
                Some(Ok((request, respond))) => {
                    let books = books.clone();
                    answers.spawn(async move { answer(request, respond, connection, books).await });
                }
                _ => return,
            },
            Some(after) = answers.join_next() => match after {
                Ok(After::Stays) => {}
                Ok(After::Ends) if !ends => {
                    ends = true;
                    h2.graceful_shutdown();
                }
                Ok(After::Ends) => {}
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
) -> After {
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
    write(&mut respond, answer, &books).await
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
