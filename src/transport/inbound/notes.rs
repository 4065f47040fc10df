//! Notifications of the server: to the call that they belong to, or to the owner of the link. Each
//! goes one way. Part of [`Inbound`].

use std::ops::Range;

use bytes::Bytes;

use super::{Inbound, Pending};
use crate::catalog::items::ListKinds;
use crate::transport::follow::ACKNOWLEDGED;
use crate::transport::link::LinkEvent;
use crate::transport::waiting::Heard;
use crate::wire::{envelope, splice};

/// A line for a client's log.
const LOG_MESSAGE: &str = "notifications/message";
/// The key of `_meta` that says on which stream a server tells something.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

impl Inbound {
    pub(super) fn notification(
        &self,
        frame: Bytes,
        method: Range<usize>,
        params: Option<Range<usize>>,
        stream: Option<u64>,
    ) {
        let frame = splice::one_line(frame);
        let name = String::from_utf8_lossy(&frame[method]);
        if name == "notifications/progress" {
            if let Some(params) = params.map(|span| frame.slice(span)) {
                self.progress(params);
            }
            return;
        }
        if name == ACKNOWLEDGED {
            self.acknowledged(frame);
            return;
        }
        if name == "notifications/cancelled" && params.is_some_and(|span| self.withdrawn(&frame.slice(span)))
        {
            return;
        }
        if self.told_its_call(&name, &frame, stream) {
            return;
        }
        let announced = ListKinds::announced_by(&name);
        if !announced.is_empty() {
            let stale = &mut self.lock().stale.announced;
            if stale.has_all(announced) {
                // It waits to be looked at already: a storm costs nothing but the reading of it.
                return;
            }
            *stale = stale.and(announced);
        }
        let name = name.into_owned();
        if self.events.try_send(LinkEvent::Notification { method: name, frame }).is_err() {
            self.lock().counters.dropped += 1;
        }
    }

    /// What the server will tell of: to the request of ours that opened that stream.
    fn acknowledged(&self, frame: Bytes) {
        let stream = envelope::member(&frame, "params").and_then(|params| {
            let params = &frame[params];
            let meta = &params[envelope::member(params, "_meta")?];
            let id = &meta[envelope::member(meta, SUBSCRIPTION_ID)?];
            std::str::from_utf8(id).ok()?.trim_matches('"').parse::<u64>().ok()
        });
        let state = self.lock();
        if let Some(waiting) =
            stream.and_then(|id| state.waiting.get(&id)).filter(|one| one.session.is_none())
        {
            waiting.call.report(Heard::Note(ACKNOWLEDGED.to_owned(), frame));
        }
    }

    fn progress(&self, params: Bytes) {
        let Some(token) = envelope::member(&params, "progressToken") else { return };
        let text = std::str::from_utf8(&params[token]).unwrap_or_default();
        let Ok(id) = text.trim_matches('"').parse::<u64>() else { return };
        let mut state = self.lock();
        if let Some(waiting) = state.waiting.get(&id)
            && !waiting.call.report(Heard::Progress(params))
        {
            state.counters.dropped += 1;
        }
    }

    /// Tells a call a notification that belongs to it: what came on its own stream, unless everybody
    /// who subscribed has to know of it; on a pipe, a log line while no other call of a client runs.
    fn told_its_call(&self, method: &str, frame: &Bytes, stream: Option<u64>) -> bool {
        if is_for_subscribers(method) {
            return false;
        }
        let mut state = self.lock();
        let of_client = |(_, one): &(&u64, &Pending)| one.session.is_some();
        let call = match stream {
            Some(id) => Some(id),
            None if method == LOG_MESSAGE => {
                let mut running = state.waiting.iter().filter(of_client).map(|(id, _)| *id);
                running.next().filter(|_| running.next().is_none())
            }
            None => None,
        };
        let Some(waiting) = call.and_then(|id| state.waiting.get(&id)).filter(|one| one.session.is_some())
        else {
            return false;
        };
        if !waiting.call.report(Heard::Note(method.to_owned(), frame.clone())) {
            state.counters.dropped += 1;
        }
        true
    }
}

/// Notifications that belong to more than the call on whose stream they come.
fn is_for_subscribers(method: &str) -> bool {
    matches!(
        method,
        "notifications/resources/updated"
            | "notifications/elicitation/complete"
            | "notifications/tasks/status"
    ) || !ListKinds::announced_by(method).is_empty()
}
