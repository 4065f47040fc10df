//! Streamable HTTP, both eras: one POST per request, answers as JSON or as a stream,
//! sessions, the stream beside. Decisions are in pure files of their own (`standing`,
//! `session`, `redirect`, `status`, `retry_after`, `encode`, `params`, `challenge`,
//! `endpoint`, `message`); this file joins them to a `Carrier`. The handshake runs
//! above it. A fault of one request fails that request alone; the link ends when its
//! owner closes it, or when the server wants another handshake.

mod body;
mod cause;
mod challenge;
mod client;
mod diagnose;
mod dial;
mod encode;
mod endpoint;
mod exchange;
mod fault;
pub mod fetch;
mod message;
mod mirrored;
mod note;
mod params;
mod post;
mod reading;
mod redirect;
mod refusal;
mod renew;
mod response;
mod retry_after;
mod session;
mod shared;
mod side;
mod standing;
mod status;
mod tasks;
mod tls;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod testserver;
#[cfg(test)]
mod testserver_h2;
#[cfg(test)]
mod testtls;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{OnceCell, Semaphore, watch};

pub use self::client::Client;
pub use self::encode::unwrapped;
pub use self::endpoint::is_reserved;
pub use self::mirrored::MirroredParams;
pub use self::params::{ParamHeaders, param_headers};
pub use self::post::{NoReply, Reply};

use self::endpoint::Target;
use self::exchange::Request;
use self::shared::{Head, Shared};
use self::standing::Standing;
use self::tasks::Tasks;
use super::inbound::Inbound;
use super::link::{Carrier, Outbound};
use super::{HttpEndpoint, LinkFault, LinkSettings};
use crate::wire::era::{Era, Revision};

/// Limit for ending the server's session at the end of a link.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// The carrier of one HTTP link.
#[derive(Debug)]
pub(crate) struct HttpCarrier {
    shared: Arc<Shared>,
    gone: Arc<OnceCell<()>>,
}

/// Makes the link to `endpoint`; nothing is sent before the first request. Must be called
/// within a tokio runtime. Errors: a URL or header that is of no use.
pub(crate) fn connect(
    endpoint: &HttpEndpoint,
    settings: &LinkSettings,
    client: &Client,
    inbound: Arc<Inbound>,
) -> Result<Arc<HttpCarrier>, LinkFault> {
    let target = Target::new(endpoint)?;
    let client = client.for_url(&target.url)?;
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|_| LinkFault::Config("an HTTP link needs a running tokio runtime".to_owned()))?;
    let shared = Shared {
        client,
        target,
        frame_max: settings.frame_max,
        control_timeout: settings.list_timeout,
        protocol: settings.protocol,
        inbound,
        tasks: Tasks::new(runtime),
        standing: watch::Sender::new(Standing::default()),
        notes: Arc::new(Semaphore::new(note::NOTES_MAX)),
    };
    Ok(Arc::new(HttpCarrier { shared: Arc::new(shared), gone: Arc::default() }))
}

impl Carrier for HttpCarrier {
    fn submit(&self, outbound: Outbound<'_>) {
        let id = outbound.id;
        if outbound.method == "initialize" {
            self.shared.change(|standing| standing.opening(outbound.parts.to_bytes()));
        }
        let sent = Arc::new(AtomicBool::new(false));
        let request = Request::new(&self.shared, outbound, sent.clone());
        if !self.shared.tasks.spawn_request(id, sent, request.run(self.shared.clone())) {
            self.shared.inbound.fail_lost(id);
        }
    }

    fn notify(&self, message: Bytes) {
        self.shared.note(message);
    }

    fn cancel(&self, id: u64, reason: &str, _sent: bool) {
        // Ending the task closes the stream, which is the cancellation of the modern era.
        let may_have_left = self.shared.tasks.cancel(id).unwrap_or(false);
        if may_have_left && self.shared.now().era() == Some(Era::Legacy) {
            self.shared.note(message::cancelled(id, reason));
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let (shared, gone) = (self.shared.clone(), self.gone.clone());
        Box::pin(async move {
            gone.get_or_init(|| close(shared)).await;
        })
    }

    fn tells_of_lists(&self) -> bool {
        true
    }

    fn established(&self, revision: Revision) {
        let before = self.shared.now().revision;
        self.shared.change(|standing| standing.revision = Some(revision));
        if before.is_none() {
            self.shared.tasks.spawn(side::keep(self.shared.clone()));
        }
    }
}

impl Drop for HttpCarrier {
    fn drop(&mut self) {
        self.shared.inbound.end(LinkFault::Closed);
        drop(self.shared.tasks.close());
    }
}

async fn close(shared: Arc<Shared>) {
    shared.inbound.end(LinkFault::Closed);
    let mut tasks = shared.tasks.close();
    let standing = shared.now();
    if let Some(session) = standing.session() {
        let head = Head { version: standing.revision, session: Some(session), ..Head::default() };
        // A server that does not end sessions on request (405) ends them by itself.
        let _ = tokio::time::timeout(DELETE_TIMEOUT, shared.delete(&head)).await;
    }
    while tasks.join_next().await.is_some() {}
}
