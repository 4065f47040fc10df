//! Floor 2. The two ends of one request that waits: the link reports progress and then
//! answers, its call hears both in that order. Progress is bounded; a call that gets
//! none pays nothing for it. Used by [`super::inbound`] and the call tasks.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::asked::LinkAsked;
use super::link::{ExchangeError, Reply};

/// Reports that may wait for one caller; more are dropped.
pub const PROGRESS_MAX: usize = 64;

/// The one answer, or why there is none.
pub type Answer = Result<Reply, ExchangeError>;

/// What a call hears while it waits.
#[derive(Debug)]
pub enum Heard {
    /// The `params` of one progress report.
    Progress(Bytes),
    /// Another notification that belongs to it: method, and the whole message.
    Note(String, Bytes),
    /// The server asks something.
    Asked(LinkAsked),
    /// One of what it asked is answered; withdrawn when it is named.
    AskedOver(Option<Bytes>),
    /// The answer: nothing comes after it.
    Answer(Answer),
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    reports: VecDeque<Heard>,
    answer: Option<Answer>,
    /// The link's end is gone; what it left behind is still there.
    left: bool,
    waker: Option<Waker>,
}

type Shared = Arc<Mutex<Slot>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Slot> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two ends of a new request: who answers, and who waits.
pub(super) fn pair() -> (Answering, Waiting) {
    let shared = Shared::default();
    (Answering(shared.clone()), Waiting(shared))
}

/// The link's end. Dropped without an answer, it tells the call that none will come.
#[derive(Debug)]
pub(super) struct Answering(Shared);

impl Answering {
    /// Adds one report; `false` when the caller did not take the earlier ones.
    pub(super) fn report(&self, report: Heard) -> bool {
        let room = self.has_room();
        if room {
            self.tell(report);
        }
        room
    }

    /// Whether the caller took enough of the earlier reports for one more.
    pub(super) fn has_room(&self) -> bool {
        lock(&self.0).reports.len() < PROGRESS_MAX
    }

    /// Adds what has a bound of its own.
    pub(super) fn tell(&self, report: Heard) {
        tell(&self.0, report);
    }

    /// A way to tell the call something as long as it waits.
    pub(super) fn teller(&self) -> Teller {
        Teller(Arc::downgrade(&self.0))
    }

    /// Gives the answer.
    pub(super) fn answer(self, answer: Answer) {
        // The drop wakes the call.
        lock(&self.0).answer = Some(answer);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let waker = {
            let mut slot = lock(&self.0);
            slot.left = true;
            slot.waker.take()
        };
        wake(waker);
    }
}

/// Tells a call that still waits that one of the things it was asked is over.
#[derive(Debug)]
pub(super) struct Teller(Weak<Mutex<Slot>>);

impl Teller {
    /// The server has its answer.
    pub(super) fn asked_over(&self) {
        if let Some(slot) = self.0.upgrade() {
            tell(&slot, Heard::AskedOver(None));
        }
    }
}

fn tell(shared: &Shared, report: Heard) {
    let waker = {
        let mut slot = lock(shared);
        slot.reports.push_back(report);
        slot.waker.take()
    };
    wake(waker);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The call's end.
#[derive(Debug)]
pub struct Waiting(Shared);

impl Waiting {
    /// The next report, or the answer behind all of them; `None` when the link is gone
    /// without one. Cancel-safe.
    pub async fn heard(&mut self) -> Option<Heard> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The answer, past all reports.
    pub async fn answer(mut self) -> Option<Answer> {
        loop {
            match self.heard().await {
                Some(Heard::Answer(answer)) => return Some(answer),
                None => return None,
                Some(_) => {}
            }
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut slot = lock(&self.0);
        if let Some(report) = slot.reports.pop_front() {
            return Poll::Ready(Some(report));
        }
        if let Some(answer) = slot.answer.take() {
            return Poll::Ready(Some(Heard::Answer(answer)));
        }
        if slot.left {
            return Poll::Ready(None);
        }
        if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Delivery;
    use crate::transport::LinkFault;
    use crate::transport::link::ExchangeFault;

    fn lost() -> Answer {
        Err(ExchangeError { fault: ExchangeFault::Lost(LinkFault::Closed), delivery: Delivery::Unknown })
    }

    #[tokio::test]
    async fn reports_come_in_order_before_the_answer_and_are_bounded() {
        let (link, mut call) = pair();
        for n in 0..PROGRESS_MAX {
            assert!(link.report(Heard::Progress(Bytes::from(n.to_string()))));
        }
        assert!(!link.report(Heard::Progress(Bytes::from_static(b"one too many"))));
        link.answer(lost());
        for n in 0..PROGRESS_MAX {
            let Some(Heard::Progress(params)) = call.heard().await else { panic!("report {n} is missing") };
            assert_eq!(params, n.to_string());
        }
        assert!(matches!(call.heard().await, Some(Heard::Answer(Err(_)))));
        assert!(call.heard().await.is_none());
    }

    #[tokio::test]
    async fn a_call_that_waits_is_woken_by_a_report_by_the_answer_and_by_the_end() {
        let (link, mut call) = pair();
        let waits = |call: &mut Waiting| futures_util::FutureExt::now_or_never(call.heard()).is_none();
        assert!(waits(&mut call));
        let teller = async {
            tokio::task::yield_now().await;
            assert!(link.report(Heard::Progress(Bytes::from_static(b"{}"))));
            tokio::task::yield_now().await;
            link.answer(lost());
        };
        let listener = async {
            assert!(matches!(call.heard().await, Some(Heard::Progress(_))));
            call.answer().await
        };
        let ((), answer) = tokio::join!(teller, listener);
        assert_eq!(answer.map(|answer| answer.is_err()), Some(true));

        let (link, call) = pair();
        let (answer, ()) = tokio::join!(call.answer(), async move { drop(link) });
        assert!(answer.is_none());
    }
}
