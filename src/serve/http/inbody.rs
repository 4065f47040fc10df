//! Reads the body of a request: within its limit, within its time, and within what all bodies
//! together may take.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use std::pin::pin;
use tokio::sync::Semaphore;

use super::reply::{self, Reply};
use crate::time::Monotonic;

/// Bytes of all bodies that are being read.
pub const BODIES_BYTES_MAX: usize = 64 << 20;
/// Longest wait for the next piece of a body.
pub const PIECE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for a whole body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(120);

/// Refuses a body that says itself that it is too large.
pub fn too_long(headers: &HeaderMap, body_max: usize) -> Option<Reply> {
    let length = headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse::<u64>().ok()?;
    (length > body_max as u64).then(|| too_large(body_max))
}

/// The whole body, or the refusal.
pub async fn read<B>(body: B, body_max: usize, shared: &Arc<Semaphore>) -> Result<Bytes, Reply>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut all = BytesMut::new();
    let mut held = Vec::new();
    let until = Monotonic::now() + BODY_TIMEOUT;
    loop {
        let next = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let piece_until = (Monotonic::now() + PIECE_TIMEOUT).min(until);
        let frame = match tokio::time::timeout_at(piece_until.into_tokio(), next).await {
            Err(_) => {
                let text = "the body did not come in time; send it whole, without pauses";
                return Err(reply::refusal(StatusCode::REQUEST_TIMEOUT, b"null", -32000, text));
            }
            Ok(None) => return Ok(all.freeze()),
            Ok(Some(Err(_))) => {
                let text = "the body broke off, or its chunks are malformed";
                return Err(reply::refusal(StatusCode::BAD_REQUEST, b"null", -32700, text));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(piece) = frame.into_data() else { continue };
        if all.len() + piece.len() > body_max {
            return Err(too_large(body_max));
        }
        let share = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        match shared.clone().try_acquire_many_owned(share) {
            Ok(permit) => held.push(permit),
            Err(_) => {
                let text = "too many large requests are being read; try again";
                return Err(reply::later(StatusCode::SERVICE_UNAVAILABLE, text, Duration::from_secs(1)));
            }
        }
        // Many tiny chunks must not cost more than their bytes.
        if held.len() > 1 {
            let last = held.pop();
            if let (Some(first), Some(last)) = (held.first_mut(), last) {
                first.merge(last);
            }
        }
        all.extend_from_slice(&piece);
    }
}

fn too_large(body_max: usize) -> Reply {
    let text = format!("the message has more than {body_max} bytes (serve.body_max)");
    reply::refusal(StatusCode::PAYLOAD_TOO_LARGE, b"null", -32600, &text)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;
    use tokio::time::Interval;

    use super::*;

    /// So many bytes, one after each pause.
    struct Drops(Interval, usize);

    impl Body for Drops {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            if self.1 == 0 {
                return Poll::Ready(None);
            }
            self.0.poll_tick(cx).map(|_| {
                self.1 -= 1;
                Some(Ok(Frame::data(Bytes::from_static(b"x"))))
            })
        }
    }

    /// How a body of that many bytes ends that comes with such pauses, and after how long.
    async fn dripping(pause: Duration, bytes: usize) -> (Result<usize, StatusCode>, Duration) {
        let begun = Monotonic::now();
        let ticks = tokio::time::interval_at((begun + pause).into_tokio(), pause);
        let shared = Arc::new(Semaphore::new(100));
        let read = read(Drops(ticks, bytes), 1000, &shared).await;
        assert_eq!(shared.available_permits(), 100, "what was held is given back");
        (read.map(|body| body.len()).map_err(|refusal| refusal.status()), Monotonic::now().since(begun))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_comes_drop_by_drop_is_refused_with_408_in_bounded_time() {
        let late = Err(StatusCode::REQUEST_TIMEOUT);
        assert_eq!(dripping(PIECE_TIMEOUT * 2, 5).await, (late, PIECE_TIMEOUT));
        let (outcome, after) = dripping(PIECE_TIMEOUT - Duration::from_secs(1), 99).await;
        assert_eq!((outcome, after), (late, BODY_TIMEOUT), "drops don't prolong it");
        assert_eq!(dripping(Duration::from_secs(1), 50).await, (Ok(50), Duration::from_secs(50)));
    }
}
