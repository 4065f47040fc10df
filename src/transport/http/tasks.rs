//! All tasks of one HTTP link. Each is tracked from its start to its end; requests can
//! be cancelled by id; after `close` nothing starts any more. The lock is held for
//! table work only.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

/// The task table.
#[derive(Debug)]
pub(super) struct Tasks {
    runtime: Handle,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    all: JoinSet<()>,
    requests: HashMap<u64, Running>,
    closed: bool,
}

#[derive(Debug)]
struct Running {
    abort: AbortHandle,
    sent: Arc<AtomicBool>,
}

impl Tasks {
    /// An empty table whose tasks run on `runtime`.
    pub(super) fn new(runtime: Handle) -> Self {
        Self { runtime, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task; `false` after `close`.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut table = self.lock();
        if table.closed {
            return false;
        }
        while table.all.try_join_next().is_some() {}
        table.all.spawn_on(task, &self.runtime);
        true
    }

    /// Starts the task of request `id`; `false` after `close`. The task itself must
    /// call `finish` when the request is settled.
    pub(super) fn spawn_request(
        &self,
        id: u64,
        sent: Arc<AtomicBool>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let mut table = self.lock();
        if table.closed {
            return false;
        }
        while table.all.try_join_next().is_some() {}
        // Under the lock, so that a task that ends at once finds its entry to take out.
        let abort = table.all.spawn_on(task, &self.runtime);
        table.requests.insert(id, Running { abort, sent });
        true
    }

    /// Request `id` is settled: it can't be cancelled any more.
    pub(super) fn finish(&self, id: u64) {
        self.lock().requests.remove(&id);
    }

    /// Ends the task of request `id`. Says whether bytes of it may have left; `None`
    /// when it was settled before.
    pub(super) fn cancel(&self, id: u64) -> Option<bool> {
        let running = self.lock().requests.remove(&id)?;
        running.abort.abort();
        Some(running.sent.load(Ordering::Acquire))
    }

    /// Nothing starts any more; everything that runs is told to end and handed out, to be waited for.
    pub(super) fn close(&self) -> JoinSet<()> {
        let mut all = {
            let mut table = self.lock();
            table.closed = true;
            table.requests.clear();
            std::mem::take(&mut table.all)
        };
        all.abort_all();
        all
    }

    /// How many tasks have not ended.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        let mut table = self.lock();
        while table.all.try_join_next().is_some() {}
        table.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Resolves when the task that owns the sender is gone.
    fn gone() -> (oneshot::Sender<()>, oneshot::Receiver<()>) {
        oneshot::channel()
    }

    #[tokio::test]
    async fn cancel_ends_one_task_and_says_whether_bytes_left() {
        let tasks = Tasks::new(Handle::current());
        for (id, sent) in [(1, true), (2, false)] {
            let (tx, rx) = gone();
            tasks.spawn_request(id, Arc::new(AtomicBool::new(sent)), async move {
                let _tx = tx;
                std::future::pending::<()>().await;
            });
            assert_eq!(tasks.cancel(id), Some(sent));
            assert!(rx.await.is_err());
            assert_eq!(tasks.cancel(id), None);
        }
    }

    #[tokio::test]
    async fn close_ends_everything_and_lets_nothing_start() {
        let tasks = Tasks::new(Handle::current());
        let (tx, rx) = gone();
        tasks.spawn(async move {
            let _tx = tx;
            std::future::pending::<()>().await;
        });
        let mut all = tasks.close();
        while all.join_next().await.is_some() {}
        assert!(rx.await.is_err());
        assert!(!tasks.spawn(async {}));
        assert!(!tasks.spawn_request(1, Arc::default(), async {}));
        assert_eq!(tasks.running(), 0);
    }

    #[tokio::test]
    async fn ended_tasks_do_not_pile_up() {
        let tasks = Tasks::new(Handle::current());
        for _ in 0..50 {
            let (tx, rx) = oneshot::channel();
            tasks.spawn(async move {
                let _ = tx.send(());
            });
            rx.await.unwrap();
        }
        tokio::task::yield_now().await;
        assert!(tasks.running() <= 1);
    }
}
