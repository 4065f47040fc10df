//! One HTTP exchange as the rest of the link sees it: an answer whose body comes piece by
//! piece, or the error that took its place. Interim answers (1xx) are counted: a server that
//! sends them without end gives no answer, and must not keep this process busy.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::task::coop;

/// Interim answers that one request may get.
pub(super) const INTERIM_MAX: usize = 100;
/// Units that a task of tokio may work before it must make way; more are never there.
const UNITS_MAX: usize = 256;

/// An answer.
#[derive(Debug)]
pub(super) struct Response(pub(super) http::Response<Incoming>);

impl Response {
    /// The status.
    pub(super) fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The headers.
    pub(super) fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The next piece of the body; `None` at its end. Nothing is lost when the future is
    /// dropped before it is done.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let body = self.0.body_mut();
            match std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(HttpError::Body(error)),
                // Trailers say nothing to us.
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(super) enum HttpError {
    /// No connection, or it broke before the answer began.
    Request(hyper_util::client::legacy::Error),
    /// It broke in the body.
    Body(hyper::Error),
    /// Interim answers without end.
    Interim,
}

/// Counts the interim answers to one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Interim(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    seen: AtomicUsize,
    over: Notify,
}

impl Interim {
    /// Listens to the interim answers to this request.
    pub(super) fn watch<B>(&self, request: &mut Request<B>) {
        let count = self.0.clone();
        hyper::ext::on_informational(request, move |_| {
            if count.seen.fetch_add(1, Ordering::Relaxed) >= INTERIM_MAX {
                count.over.notify_one();
                make_way();
            }
        });
    }

    /// Resolves when there were too many.
    pub(super) async fn too_many(&self) {
        self.0.over.notified().await;
    }
}

/// Takes the rest of what the current task may work at a stretch, so that it reads no further
/// before others had their turn. The HTTP library reads interim answers in one go, for as long
/// as there are any.
fn make_way() {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..UNITS_MAX {
        match coop::poll_proceed(&mut cx) {
            std::task::Poll::Ready(unit) => unit.made_progress(),
            std::task::Poll::Pending => return,
        }
    }
}
