//! Floor 5. The course of one call as its caller follows it: what is known about it when the
//! person at the keyboard ends the wait, and what it waits for. Written and read by the edge's one
//! task; used by `invoke` and by the verbs that name a failure.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;

use super::text;
use crate::call::{CallEvent, Delivery};
use crate::view::{LifeState, ServerView};

/// What is known about a call whose end nobody waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// No byte of it left.
    #[default]
    NotSent,
    /// It was sent and refused before it ran, and waits to be sent again.
    PutOff,
    /// It may have left.
    Sent,
}

/// Follows one call.
#[derive(Debug, Default)]
pub struct Course(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    known: Known,
    waits: bool,
    /// Kept here, so that what was told before the wait ended is still read after it.
    events: Option<mpsc::Receiver<CallEvent>>,
}

impl Course {
    /// The call is handed over; from now on it may leave at any time, unless it is said to wait.
    pub fn begun(&self, events: mpsc::Receiver<CallEvent>) {
        *self.seen() = Seen { known: Known::Sent, waits: false, events: Some(events) };
    }

    /// A person is asked about it, or said no: nothing of it leaves until they say yes.
    pub fn holds(&self, is_held: bool) {
        self.seen().known = if is_held { Known::NotSent } else { Known::Sent };
    }

    /// Held for a moment only, by one task after the other.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event; `None` when there are no more.
    pub async fn next(&self) -> Option<CallEvent> {
        let event = poll_fn(|cx| match self.seen().events.as_mut() {
            Some(events) => events.poll_recv(cx),
            None => std::task::Poll::Ready(None),
        });
        let event = event.await?;
        self.seen().take(&event);
        Some(event)
    }

    /// Whether it waits for its turn.
    pub fn waits(&self) -> bool {
        self.seen().waits
    }

    /// What is known about it by now.
    pub fn known(&self) -> Known {
        let mut seen = self.seen();
        while let Some(Ok(event)) = seen.events.as_mut().map(mpsc::Receiver::try_recv) {
            seen.take(&event);
        }
        seen.known
    }
}

impl Seen {
    fn take(&mut self, event: &CallEvent) {
        match event {
            // Nobody here can answer a server's questions: the drop of one says so.
            CallEvent::Progress(_)
            | CallEvent::Note { .. }
            | CallEvent::Asked(_)
            | CallEvent::Withdrawn(_) => {}
            CallEvent::Waits { before } => {
                self.waits = true;
                self.known = match before {
                    None => Known::NotSent,
                    Some(Delivery::NotSent) => Known::PutOff,
                    Some(Delivery::Unknown | Delivery::Executed) => Known::Sent,
                };
            }
            CallEvent::Sent => {
                self.waits = false;
                self.known = Known::Sent;
            }
        }
    }
}

/// What a call waits for, going by the view of its server.
pub fn waits_for(view: &ServerView, now: SystemTime) -> String {
    let left = |until: SystemTime| until.duration_since(now).ok().filter(|left| *left > Duration::ZERO);
    let seconds = |left: Duration| text::span(Duration::from_secs(left.as_millis().div_ceil(1000) as u64));
    if let Some(wait) = view.paused_until.and_then(left) {
        return format!("{} asks to wait {}", view.id, seconds(wait));
    }
    match view.state {
        LifeState::Connecting => format!("waits for {} to start", view.id),
        LifeState::BackingOff => match view.next_attempt.and_then(left) {
            Some(wait) => format!("waits for {} to start again, in {}", view.id, seconds(wait)),
            None => format!("waits for {} to start again", view.id),
        },
        _ => format!("waits for a place on {}", view.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_view::tests::view;

    #[tokio::test]
    async fn what_is_known_follows_the_call_and_misses_nothing_that_was_told() {
        let course = Course::default();
        assert_eq!(course.known(), Known::NotSent, "not handed over yet");
        let (events, seen) = mpsc::channel(8);
        course.begun(seen);
        assert_eq!(course.known(), Known::Sent, "it may have left already");
        events.try_send(CallEvent::Waits { before: None }).unwrap();
        assert!(course.next().await.is_some() && course.waits());
        assert_eq!(course.known(), Known::NotSent);
        // Told, and not read by anybody before the wait ended.
        events.try_send(CallEvent::Sent).unwrap();
        assert_eq!((course.known(), course.waits()), (Known::Sent, false));
        events.try_send(CallEvent::Waits { before: Some(Delivery::NotSent) }).unwrap();
        assert_eq!(course.known(), Known::PutOff);
        events.try_send(CallEvent::Waits { before: Some(Delivery::Unknown) }).unwrap();
        assert_eq!(course.known(), Known::Sent, "a try before it may have run");
        course.holds(true);
        assert_eq!(course.known(), Known::NotSent);
        course.holds(false);
        assert_eq!(course.known(), Known::Sent);
    }

    #[test]
    fn each_wait_is_told_with_what_it_is_for() {
        let now = SystemTime::UNIX_EPOCH;
        let mut server = view("s", LifeState::Connecting);
        assert_eq!(waits_for(&server, now), "waits for s to start");
        server.state = LifeState::BackingOff;
        server.next_attempt = Some(now + Duration::from_millis(2500));
        assert_eq!(waits_for(&server, now), "waits for s to start again, in 3 s");
        server.state = LifeState::Ready;
        assert_eq!(waits_for(&server, now), "waits for a place on s");
        server.paused_until = Some(now + Duration::from_secs(30));
        assert_eq!(waits_for(&server, now), "s asks to wait 30 s");
    }
}
