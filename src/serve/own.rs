//! What one client has of the host, from its own side: its way to call, its snapshot, its mode; and what
//! happens when that becomes something else. Called by `client` and what answers its requests.

use std::sync::Arc;

use bytes::Bytes;

use super::caller::Caller;
use super::client::Client;
use super::host::{Host, locked};
use super::part::{Pane, Part, Reach};
use super::subscriptions::Follow;
use super::view::View;
use crate::actors::frontend::FrontendRef;
use crate::builtins::guests;
use crate::call::{CallError, CallReply, CallRequest, EventsIn};
use crate::config::mode::Mode;
use crate::id::ServerId;

/// The mode that holds for a client; `None`: the host's.
fn mode(who: &Caller, pane: &Pane) -> Option<Mode> {
    match (who.mode, pane.part.mode) {
        (Some(one), Some(other)) => Some(one.stricter(other)),
        (one, other) => one.or(other),
    }
}

pub(super) fn way(host: &Host, who: &Caller, pane: &Pane) -> FrontendRef {
    host.frontend(who.door).at_most(mode(who, pane)).among(pane.servers.clone())
}

impl Client {
    /// What it has of the host.
    pub(super) fn pane(&self) -> Arc<Pane> {
        locked(&self.pane).clone()
    }

    /// What it has is something else from now on: its configuration changed. It is told what it would see
    /// another way; what it follows at a server that it has no more is over.
    pub fn becomes(self: &Arc<Self>, part: Part) {
        let pane = self.host.pane(part);
        *locked(&self.way) = way(&self.host, &self.who, &pane);
        *locked(&self.pane) = pane.clone();
        let over: Vec<(String, Follow)> = {
            let mut state = self.state();
            let gone = |follow: &Follow| !self.host.reaches(&pane, follow.server());
            let mut over: Vec<_> = state.subscribed.extract_if(|_, follow| gone(follow)).collect();
            for listen in state.listens.values_mut() {
                over.extend(listen.follows.extract_if(.., |(_, follow)| gone(follow)));
            }
            over
        };
        // Dropped behind the lock: their servers are told.
        drop(over);
        self.tell_changes(&self.view());
        self.host.level_servers();
    }

    /// The mode that holds for its calls; `None`: the host's.
    pub(super) fn mode(&self) -> Option<Mode> {
        mode(&self.who, &self.pane())
    }

    /// Calls for it; the client can this in a request of its own.
    pub(super) fn call(
        &self,
        capabilities: Option<Bytes>,
        call: CallRequest,
        events: EventsIn,
    ) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
        let era = self.era();
        locked(&self.way).call_for((era, capabilities), call, events)
    }

    /// Whether it may see a whole server.
    pub(super) fn sees_server(&self, server: &ServerId) -> bool {
        self.host.reaches(&self.pane(), server) && self.who.sees_server(server)
    }

    /// What the host's own tools know of what it has; `None`: it has everything.
    pub(super) fn share(&self) -> Option<guests::Own> {
        let pane = self.pane();
        if pane.part.reach == Reach::All && self.mode().is_none() {
            return None;
        }
        let (host, of) = (self.host.clone(), pane.clone());
        let reaches = Box::new(move |server: &ServerId| host.reaches(&of, server));
        Some(guests::Own { catalog: self.view().catalog.clone(), reaches, mode: self.mode() })
    }

    /// The snapshot, as soon as it has what is looked for, or when a new client has waited for long.
    pub(super) async fn view_with(&self, found: impl Fn(&View) -> bool) -> Arc<View> {
        let view = self.view();
        if found(&view) {
            return view;
        }
        self.host.settle_for(&self.pane(), self.hopeful_until, found).await;
        self.view()
    }

    /// The snapshot as of now.
    pub(super) fn view(&self) -> Arc<View> {
        self.host.view_of(&self.pane())
    }
}
