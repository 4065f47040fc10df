//! The stream beside the requests, on which a server says things unasked: a GET in the
//! legacy era, `subscriptions/listen` in the modern one. Opened after the handshake,
//! opened again after a loss with growing waits, left alone where a server has none.

use std::sync::Arc;
use std::time::Duration;

use super::message;
use super::reading::{self, Event, EventStream, Kind, Trail};
use super::refusal::Refusal;
use super::response::Response;
use super::shared::{Head, Shared};
use super::standing::Standing;
use crate::time::Monotonic;
use crate::transport::link::ExchangeFault;
use crate::wire::envelope::{self, Envelope};
use crate::wire::era::Era;

/// The first wait before the stream is opened again; doubles with each try in vain.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The shortest wait that a server can ask for.
const ASKED_MIN: Duration = Duration::from_millis(100);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Ids of `subscriptions/listen` requests begin here: requests of callers never get so far.
const LISTEN_ID_FIRST: u64 = 1 << 52;
/// Errors of `subscriptions/listen` that another try can't change.
const FINAL_CODES: [i64; 5] = [-32601, -32602, -32020, -32021, -32022];

/// How an attempt to have the stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server has no such stream, or not for us.
    Refused,
    /// The server could not be reached, or has a fault.
    Away,
    /// It was open, and ended soon without having brought anything.
    Empty,
    /// It was open, and brought something or stood for long.
    Closed,
    /// The session was renewed: the stream of the old one is of no use.
    Stale,
    /// Come back after this long.
    Later(Duration),
}

/// Keeps the stream open for as long as the link lives.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut side = Side { shared, trail: Trail::default(), opened: 0, in_vain: 0, was_away: false };
    loop {
        let standing = side.shared.until(Standing::allows_side_stream).await;
        let end = side.once(&standing).await;
        match end {
            End::Refused if standing.era() == Some(Era::Modern) => return,
            End::Refused | End::Stale => {
                // A new session is a new chance.
                side.trail = Trail::default();
                side.in_vain = 0;
                let epoch = standing.epoch();
                side.shared.until(|now| now.epoch() != epoch).await;
            }
            End::Closed => {
                side.in_vain = 0;
                tokio::time::sleep(side.wait()).await;
            }
            End::Away | End::Empty => {
                side.was_away |= end == End::Away;
                side.in_vain = side.in_vain.saturating_add(1);
                tokio::time::sleep(side.wait()).await;
            }
            End::Later(after) => tokio::time::sleep(after).await,
        }
    }
}

struct Side {
    shared: Arc<Shared>,
    trail: Trail,
    /// Streams asked for so far.
    opened: u64,
    /// Tries in a row that brought nothing.
    in_vain: u32,
    /// Whether the server was away since the stream stood last.
    was_away: bool,
}

impl Side {
    fn wait(&self) -> Duration {
        wait(self.trail.retry, self.in_vain)
    }

    async fn once(&mut self, standing: &Standing) -> End {
        let shared = self.shared.clone();
        let epoch = standing.epoch();
        tokio::select! {
            biased;
            _ = shared.until(|now| now.epoch() != epoch) => End::Stale,
            end = self.open(standing) => end,
        }
    }

    async fn open(&mut self, standing: &Standing) -> End {
        let id = LISTEN_ID_FIRST + self.opened;
        self.opened += 1;
        let head = Head { version: standing.revision, session: standing.session(), ..Head::default() };
        let opened = if standing.era() == Some(Era::Modern) {
            let Some(params) = standing.listen_params.clone() else { return End::Refused };
            let head = Head { method: Some(message::LISTEN), ..head };
            self.shared.post(&head, &message::listen(id, params), None).await
        } else {
            let head = Head { last_event_id: self.trail.last_event_id.as_deref(), ..head };
            self.shared.get(&head).await
        };
        let response = match opened {
            Ok(response) => response,
            Err(miss) if miss.not_run => return End::Refused,
            Err(_) => return End::Away,
        };
        if !response.status().is_success() {
            return self.not_opened(response).await;
        }
        if reading::kind(&response) != Kind::Events {
            return End::Refused;
        }
        // What changed while the server was away was told to nobody.
        if std::mem::take(&mut self.was_away) {
            self.shared.inbound.renewed();
        }
        self.listen(response, id).await
    }

    async fn not_opened(&self, response: Response) -> End {
        let refusal = Refusal::read(response, self.shared.frame_max).await;
        match refusal.miss(&self.shared.target).fault {
            ExchangeFault::Throttled(after) => End::Later(after),
            ExchangeFault::Http { status, .. } if status >= 500 || status == 408 => End::Away,
            _ => End::Refused,
        }
    }

    async fn listen(&mut self, response: Response, id: u64) -> End {
        let trail = std::mem::take(&mut self.trail);
        let mut stream = EventStream::new(response, self.shared.frame_max, trail);
        let since = Monotonic::now();
        let mut end = None;
        while let Ok(Some(event)) = stream.next().await {
            match event {
                Event::Message(frame) => match own_answer(&frame, id) {
                    // The server ends the subscription.
                    Some(is_final) => {
                        end = Some(if is_final { End::Refused } else { End::Closed });
                        break;
                    }
                    None if is_acknowledgement(&frame) => {}
                    None => self.shared.take(frame),
                },
                Event::TooLong(head) => {
                    self.shared.inbound.too_long(&head, &[]);
                }
                Event::Endpoint => {}
            }
        }
        let stood = stream.fruitful || Monotonic::now().since(since) >= WAIT_MAX;
        self.trail = stream.trail;
        end.unwrap_or(if stood { End::Closed } else { End::Empty })
    }
}

/// Whether a message answers our `subscriptions/listen`, and if so whether for good.
fn own_answer(frame: &[u8], id: u64) -> Option<bool> {
    let Ok(Envelope::Response(response)) = envelope::parse(frame) else { return None };
    if response.number != Some(id) {
        return None;
    }
    let error = &frame[response.body.clone()];
    let code = envelope::member(error, "code")
        .filter(|_| response.is_error)
        .and_then(|span| std::str::from_utf8(&error[span]).ok()?.parse().ok());
    Some(code.is_some_and(|code| FINAL_CODES.contains(&code)))
}

fn is_acknowledgement(frame: &[u8]) -> bool {
    message::method(frame).as_deref() == Some("notifications/subscriptions/acknowledged")
}

/// The wait before the next try: what the server asked for, or longer after tries in vain.
fn wait(asked: Option<Duration>, in_vain: u32) -> Duration {
    let least = match in_vain {
        0 => ASKED_MIN,
        n => WAIT_MIN.saturating_mul(1 << (n - 1).min(6)),
    };
    asked.unwrap_or(WAIT_MIN).max(least).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_tries_in_vain_and_respect_what_the_server_asks() {
        let s = Duration::from_secs;
        let cases = [
            (None, 0, s(1)),
            (Some(Duration::from_millis(500)), 0, Duration::from_millis(500)),
            (Some(Duration::ZERO), 0, Duration::from_millis(100)),
            (Some(Duration::from_millis(50)), 1, s(1)),
            (None, 1, s(1)),
            (None, 2, s(2)),
            (None, 5, s(16)),
            (None, 7, s(60)),
            (None, u32::MAX, s(60)),
            (Some(s(5)), 1, s(5)),
            (Some(s(86_400)), 0, s(60)),
        ];
        for (asked, in_vain, want) in cases {
            assert_eq!(wait(asked, in_vain), want, "{asked:?} {in_vain}");
        }
    }

    #[test]
    fn the_answer_to_our_own_listen_request_is_told_from_notifications() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, Some(false)),
            (r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no"}}"#, Some(true)),
            (r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"busy"}}"#, Some(false)),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, None),
        ];
        for (frame, want) in cases {
            assert_eq!(own_answer(frame.as_bytes(), 9), want, "{frame}");
        }
    }
}
