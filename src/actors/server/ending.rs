//! How a server's connection ends on purpose: in order, in the background, and at a stop after
//! the calls that run. Nothing here waits.

use tokio::sync::oneshot;

use super::msg::{ServerMsg, Wake};
use super::state::{DRAIN_MAX, ServerState};
use crate::actors::task;
use crate::id::Generation;
use crate::policy::lifecycle::{Event, Life};
use crate::policy::refresh::Refresh;
use crate::time::Monotonic;
use crate::transport::link::Link;
use crate::view::LifeState;
use crate::view::history::What;

impl ServerState {
    /// Ends the current connection or attempt in order, in the background; gives it, if there is one.
    pub(super) fn disconnect(&mut self) -> Option<Link> {
        self.bulkhead.close();
        self.restart_due = false;
        self.suspects_lost();
        self.refresh_stderr();
        let from_attempt = self.attempt.take().and_then(|(attempt, _task)| attempt.take());
        let link = self.live.take().map(|live| live.link).or(from_attempt);
        self.lists.clear();
        self.refreshes.values_mut().for_each(Refresh::dropped);
        self.timers.clear();
        let link = link?;
        let (generation, ending) = (self.generation, link.clone());
        let work = async move {
            ending.close().await;
            ServerMsg::Disconnected(generation)
        };
        let handle = task::spawn(&self.me, work, move |_| ServerMsg::Disconnected(generation));
        self.closing.insert(generation, handle);
        Some(link)
    }

    pub(super) fn disconnected(&mut self, generation: Generation) {
        self.closing.remove(&generation);
        if self.closing.is_empty() {
            self.predecessor = None;
        }
        self.dirty = true;
        self.finish_stop();
    }

    pub(super) fn stop_asked(&mut self, done: oneshot::Sender<()>) {
        self.stop_ports.push(done);
        if self.life.state() != LifeState::Stopped {
            self.note(What::StopAsked);
        }
        self.feed(Event::StopAsked);
        if self.life == Life::Draining {
            if self.bulkhead.in_flight() == 0 {
                self.feed(Event::Drained);
            } else {
                self.wake_at("drain", Monotonic::now() + DRAIN_MAX, Wake::Drain);
            }
        }
        self.finish_stop();
    }

    pub(super) fn finish_stop(&mut self) {
        if self.life == Life::Stopped && self.closing.is_empty() {
            for port in self.stop_ports.drain(..) {
                let _ = port.send(());
            }
        }
    }

    /// Lets go of everything; tasks end with their handles.
    pub(super) fn release(&mut self) {
        self.bulkhead.drain_waiting();
        self.liveness = None;
        self.calls.clear();
        self.lists.clear();
        self.timers.clear();
        self.files = None;
        self.attempt = None;
        self.live = None;
    }
}
