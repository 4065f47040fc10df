//! Floor 3. The one way in which actors spawn: a task belongs to its handle and
//! reports to its actor exactly once, whether it finished, panicked or was aborted.

use std::future::Future;

use futures_util::FutureExt;
use ractor::{ActorRef, Message};

/// Why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It panicked: a bug of ours.
    Panicked,
    /// Its handle was dropped.
    Aborted,
}

/// Owns a task; dropping it aborts the task.
#[derive(Debug)]
pub(crate) struct TaskHandle(tokio::task::JoinHandle<()>);

impl Drop for TaskHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TaskHandle {
    /// Whether the task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

struct Report<M: Message, L: FnOnce(Lost) -> M> {
    to: ActorRef<M>,
    lost: Option<L>,
}

impl<M: Message, L: FnOnce(Lost) -> M> Drop for Report<M, L> {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            let why = if std::thread::panicking() { Lost::Panicked } else { Lost::Aborted };
            // The actor may be gone already; then nobody needs to know.
            let _ = self.to.cast(lost(why));
        }
    }
}

/// Spawns `work`; its result, or `lost`, is cast to `to`.
#[expect(clippy::disallowed_methods, reason = "the one spawn of the actor floor; it reports exactly once")]
pub(crate) fn spawn<M: Message, L: FnOnce(Lost) -> M + Send + 'static>(
    to: &ActorRef<M>,
    work: impl Future<Output = M> + Send + 'static,
    lost: L,
) -> TaskHandle {
    #[cfg(test)]
    let work = super::panics::in_task::<L, M>(work);
    let mut report = Report { to: to.clone(), lost: Some(lost) };
    // Not an `async` block: that would keep room for `work` twice.
    TaskHandle(tokio::spawn(work.map(move |message| {
        report.lost.take();
        let _ = report.to.cast(message);
    })))
}

/// Casts `message` to `to` at that instant, unless the handle is dropped before.
pub(crate) fn wake<M: Message>(to: &ActorRef<M>, at: crate::time::Monotonic, message: M) -> TaskHandle {
    let to = to.clone();
    #[expect(clippy::disallowed_methods, reason = "a timer; dropping the handle takes it back")]
    TaskHandle(tokio::spawn(async move {
        tokio::time::sleep_until(at.into_tokio()).await;
        let _ = to.cast(message);
    }))
}
