//! What happens to a call while it runs, on its way to its caller: bounded, and nothing is set aside
//! for it before the first event, because most calls have none.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::CallEvent;

/// Events that may wait for one caller; a caller that does not read loses them.
pub const CALL_EVENTS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Slot {
    waiting: VecDeque<CallEvent>,
    waker: Option<Waker>,
    /// One of the two ends is gone.
    over: bool,
}

type Shared = Arc<Mutex<Slot>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Slot> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call's end.
#[derive(Debug)]
pub struct EventsIn(Shared);

/// The caller's end. Dropped, what waits in it is dropped: questions are refused.
#[derive(Debug)]
pub struct Events(Shared);

/// The two ends of the way to one caller.
pub fn events() -> (EventsIn, Events) {
    let shared = Shared::default();
    (EventsIn(shared.clone()), Events(shared))
}

impl EventsIn {
    /// Adds an event; it is dropped when nobody listens, or too many wait.
    pub fn put(&self, event: CallEvent) {
        let (refused, waker) = {
            let mut slot = lock(&self.0);
            if slot.over || slot.waiting.len() >= CALL_EVENTS_MAX {
                (Some(event), None)
            } else {
                slot.waiting.push_back(event);
                (None, slot.waker.take())
            }
        };
        // Behind the lock: what it holds may have something to say to the server.
        drop(refused);
        wake(waker);
    }
}

impl Drop for EventsIn {
    fn drop(&mut self) {
        let waker = {
            let mut slot = lock(&self.0);
            slot.over = true;
            slot.waker.take()
        };
        wake(waker);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Events {
    /// The next event; `None` when none can come any more. Cancel-safe.
    pub async fn recv(&mut self) -> Option<CallEvent> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        let mut slot = lock(&self.0);
        if let Some(event) = slot.waiting.pop_front() {
            return Poll::Ready(Some(event));
        }
        if slot.over {
            return Poll::Ready(None);
        }
        if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let left = {
            let mut slot = lock(&self.0);
            slot.over = true;
            std::mem::take(&mut slot.waiting)
        };
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Delivery;

    fn poll(events: &Events) -> Poll<Option<CallEvent>> {
        events.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn events_come_in_order_are_bounded_and_end_with_either_side() {
        let (call, caller) = events();
        assert!(poll(&caller).is_pending());
        for _ in 0..=CALL_EVENTS_MAX {
            call.put(CallEvent::Waits { before: Some(Delivery::NotSent) });
        }
        call.put(CallEvent::Sent);
        drop(call);
        for _ in 0..CALL_EVENTS_MAX {
            assert!(matches!(poll(&caller), Poll::Ready(Some(CallEvent::Waits { .. }))));
        }
        assert!(matches!(poll(&caller), Poll::Ready(None)));
        let (call, caller) = events();
        drop(caller);
        call.put(CallEvent::Sent);
        assert!(lock(&call.0).waiting.is_empty(), "nobody is there");
    }
}
