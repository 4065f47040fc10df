//! Floor 2. Tasks of links: a task lives as long as its owner holds the handle.
//! The only place below the actors that spawns.

use std::future::Future;

use tokio::task::JoinHandle;

/// A task that is aborted when its handle is dropped.
#[derive(Debug)]
pub struct Owned(Option<JoinHandle<()>>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Owned {
    /// Lets the task run to its end by itself.
    pub fn detach(mut self) {
        self.0.take();
    }

    /// Waits for the task's end.
    pub async fn join(mut self) {
        self.ended().await;
    }

    /// Waits for the task's end, and may be given up.
    pub async fn ended(&mut self) {
        if let Some(handle) = self.0.as_mut() {
            let _ = handle.await;
            self.0 = None;
        }
    }

    /// Ends the task now.
    pub fn abort(&self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

/// Runs work that may block off the threads of the event loop; `None` if it was lost. Given
/// up, the work goes on, and what it returns is dropped.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Spawns a task that belongs to whoever holds the handle.
#[expect(
    clippy::disallowed_methods,
    reason = "the one spawn of the transport floor; its handle owns the task"
)]
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Owned {
    Owned(Some(tokio::spawn(future)))
}
