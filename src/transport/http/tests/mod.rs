//! The HTTP link against a scripted server: the whole way from [`Link`] to the socket.
//! Clocks run for real here, since a paused one would jump while a socket is waited for.

mod answers;
mod faults;
mod floods;
mod handshake;
mod http2;
mod life;
mod requests;
mod sessions;
mod side;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::testserver::{Answer, PATIENCE, Seen, Server};
use super::{Client, connect};
use crate::transport::handshake::{CarrierKind, Established, HandshakeError, run};
use crate::transport::inbound::{Inbound, InboundEnds};
use crate::transport::link::{Exchange, ExchangeError, ExchangeFault, Link, LinkEvent, Outbound, Reply};
use crate::transport::{HttpEndpoint, LinkFault, LinkSettings, ProtocolChoice};
use crate::wire::splice::{self, MetaRewrite, RequestSplice};

const FRAME_MAX: usize = 64 * 1024;

/// A link to a scripted server.
struct Rig {
    link: Link,
    events: mpsc::Receiver<LinkEvent>,
    server: Server,
    meta: MetaRewrite,
    carrier: Arc<super::HttpCarrier>,
}

fn settings(protocol: ProtocolChoice) -> LinkSettings {
    LinkSettings {
        frame_max: FRAME_MAX,
        protocol,
        remembered: None,
        roots: Vec::new(),
        declared: crate::transport::Declared::default(),
        list_timeout: PATIENCE,
        http: Client::new(),
        spawns: crate::transport::spawns::Spawns::default(),
        tap: Default::default(),
    }
}

/// A link without handshake.
async fn raw(protocol: ProtocolChoice, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Rig {
    let server = Server::start(script).await;
    let headers =
        vec![("X-Api-Key".to_owned(), "canary-key".to_owned()), ("accept".to_owned(), "*/*".to_owned())];
    let endpoint = HttpEndpoint { url: server.url(), headers };
    rig_to(endpoint, settings(protocol), server)
}

fn rig_to(endpoint: HttpEndpoint, settings: LinkSettings, server: Server) -> Rig {
    let InboundEnds { inbound, events, ended } = Inbound::open(settings.roots.clone(), settings.frame_max);
    let carrier = connect(&endpoint, &settings, &settings.http, inbound.clone()).unwrap();
    let link = Link::new(carrier.clone(), inbound, ended);
    Rig { link, events, server, meta: MetaRewrite::Legacy, carrier }
}

/// A link whose handshake is tried.
async fn shake(
    protocol: ProtocolChoice,
    script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> (Rig, Result<Established, HandshakeError>) {
    let mut rig = raw(protocol, script).await;
    let outcome = within(run(&rig.link, CarrierKind::Http, &settings(protocol), None)).await;
    if let Ok(established) = &outcome {
        rig.meta = established.meta.clone();
    }
    (rig, outcome)
}

/// A legacy link with its handshake done.
async fn legacy(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Rig {
    let (rig, outcome) = shake(ProtocolChoice::Legacy, script).await;
    outcome.expect("handshake");
    rig
}

/// A modern link with its handshake done.
async fn modern(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Rig {
    let (rig, outcome) = shake(ProtocolChoice::Modern, script).await;
    outcome.expect("handshake");
    rig
}

impl Rig {
    fn start_with(&self, method: &str, params: &str, adapt: impl FnOnce(&mut Outbound<'_>)) -> Exchange {
        let id = self.link.next_id();
        let params = Bytes::from(params.to_owned());
        let request = RequestSplice {
            session: None,
            id,
            method,
            params: &params,
            name: None,
            arguments_default: false,
            progress: true,
            meta: &self.meta,
        };
        let parts = splice::request(&request).unwrap();
        let mut outbound = Outbound { id, method, name: None, parts, headers: Vec::new(), session: None };
        adapt(&mut outbound);
        self.link.start(outbound)
    }

    fn start(&self, method: &str) -> Exchange {
        self.start_with(method, "{}", |_| {})
    }

    async fn call(&self, method: &str) -> Result<Reply, ExchangeError> {
        answer(self.start(method)).await
    }

    /// Calls and expects a fault.
    async fn fault(&self, method: &str) -> ExchangeError {
        self.call(method).await.expect_err("an answer came")
    }

    async fn event(&mut self) -> LinkEvent {
        let event = within(self.events.recv()).await.expect("events ended");
        // As the owner does: the next announcement is told again.
        assert!(!self.link.take_stale().is_empty() || matches!(event, LinkEvent::Notification { .. }));
        event
    }
}

async fn answer(exchange: Exchange) -> Result<Reply, ExchangeError> {
    within(exchange.waiting.answer()).await.expect("an exchange resolves")
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body().to_vec()).unwrap()
}

/// A well-behaved legacy server without session, GET stream and DELETE.
fn polite(seen: &Seen) -> Answer {
    match (seen.verb.as_str(), seen.method().as_str()) {
        ("POST", "initialize") => initialized(seen, "2025-11-25"),
        ("POST", "server/discover") => {
            Answer::error(400, &serde_json::Value::Null, -32600, "initialize first")
        }
        ("POST", _) if seen.id().is_null() => Answer::status(202),
        ("POST", _) => Answer::result(seen, r#"{"ok":true}"#),
        _ => Answer::status(405),
    }
}

fn initialized(seen: &Seen, version: &str) -> Answer {
    Answer::result(
        seen,
        &format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#
        ),
    )
}

/// A well-behaved modern server; `capabilities` as given.
fn polite_modern(seen: &Seen, capabilities: &str) -> Answer {
    match (seen.verb.as_str(), seen.method().as_str()) {
        ("POST", "server/discover") => Answer::result(
            seen,
            &format!(
                r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities},"resultType":"complete"}}"#
            ),
        ),
        ("POST", "initialize") => Answer::error(400, &seen.id(), -32022, "unsupported protocol version"),
        ("POST", _) if seen.id().is_null() => Answer::status(202),
        ("POST", _) => Answer::result(seen, r#"{"ok":true}"#),
        _ => Answer::status(405),
    }
}

/// Counts from 0.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A value that the script hands out once.
struct Once<T>(std::sync::Mutex<Option<T>>);

impl<T> Once<T> {
    fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(Some(value)))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap().take()
    }
}

#[expect(clippy::disallowed_methods, reason = "tests measure how long something real takes")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
