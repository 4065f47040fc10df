//! The files of a server (`watch`): when one changes, the server is started afresh. One that
//! rests is left alone; its next start sees the files as they are. Calls that run then have the
//! time of a drain to end; those that come meanwhile wait for the new process.

use super::msg::{ServerMsg, Wake};
use super::state::{DRAIN_MAX, ServerState};
use crate::actors::task;
use crate::config::spec::TransportSpec;
use crate::policy::lifecycle::Life;
use crate::time::Monotonic;
use crate::transport::watch::Watch;
use crate::view::history::StartWhy;

/// How a look at the files ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// At least one changed.
    Changed,
    /// The look itself was lost.
    Lost,
}

impl ServerState {
    /// Begins to watch, if the entry names files.
    pub(super) fn watch_files(&mut self) {
        if self.args.spec.watch.is_empty() {
            return;
        }
        let cwd = match &self.args.spec.transport {
            TransportSpec::Stdio { cwd, .. } => cwd.as_deref(),
            TransportSpec::Http { .. } | TransportSpec::LegacySse { .. } => None,
        };
        let watch = Watch::new(&self.args.spec.watch, cwd);
        let work = async move {
            watch.changed().await;
            ServerMsg::Files(Files::Changed)
        };
        self.files = Some(task::spawn(&self.me, work, |_| ServerMsg::Files(Files::Lost)));
    }

    pub(super) fn files_ended(&mut self, how: Files) {
        if matches!(self.life, Life::Draining | Life::Stopped) || self.files.take().is_none() {
            return;
        }
        if how == Files::Changed && self.life != Life::Dormant {
            tracing::info!(server = %self.args.spec.id, "watched files changed; the server is restarted");
            self.restart_drained();
        }
        self.watch_files();
    }

    fn restart_drained(&mut self) {
        if self.bulkhead.in_flight() == 0 {
            return self.restart_asked(StartWhy::Files);
        }
        if !self.restart_due {
            self.restart_due = true;
            self.bulkhead.close();
            self.wake_at("files", Monotonic::now() + DRAIN_MAX, Wake::Files);
        }
    }

    /// The last call has ended, or the time for it.
    pub(super) fn restart_for_files(&mut self) {
        if self.restart_due {
            self.restart_asked(StartWhy::Files);
        }
    }
}
