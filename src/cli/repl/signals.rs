//! Floor 5. Ctrl-C while no line is edited, and the end that the system asks for. Used by `repl`.

use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Hears them from its start on.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    int: tokio::signal::unix::Signal,
    #[cfg(unix)]
    term: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hup: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system has no place for it.
    #[cfg(unix)]
    pub fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |e: std::io::Error| {
            Failure::new("internal", Exit::Unavailable, format!("can't hear signals: {e}"))
        };
        Ok(Self {
            int: signal(SignalKind::interrupt()).map_err(failed)?,
            term: signal(SignalKind::terminate()).map_err(failed)?,
            hup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Ctrl-C. Cancel-safe.
    pub async fn interrupted(&mut self) {
        #[cfg(unix)]
        let _ = self.int.recv().await;
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }

    /// The system asks us to end: SIGTERM, or the terminal is gone. Cancel-safe.
    #[cfg(unix)]
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.hup.recv() => {}
        }
    }

    /// Never, where there is no such signal.
    #[cfg(not(unix))]
    pub async fn ended(&mut self) {
        std::future::pending().await
    }

    /// Either, by a flag that says whether it is the end.
    pub async fn any(&mut self) -> bool {
        #[cfg(unix)]
        {
            tokio::select! {
                biased;
                _ = self.term.recv() => true,
                _ = self.hup.recv() => true,
                _ = self.int.recv() => false,
            }
        }
        #[cfg(not(unix))]
        {
            self.interrupted().await;
            false
        }
    }

    /// Forgets each Ctrl-C that was heard so far.
    pub fn forget(&mut self) {
        #[cfg(unix)]
        while futures_util::FutureExt::now_or_never(self.int.recv()).is_some() {}
    }
}
