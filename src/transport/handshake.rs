//! Floor 2. The handshake over a fresh link: which era, which revision, who the
//! server is. `initialize` first on pipes (most servers of today stall or die on
//! anything else), `server/discover` first on HTTP (harmless there); `ground.md` 1.2.

mod refusal;

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::refusal::{RpcError, names_modern, older_version, older_version_in_http, rpc_error};
use super::link::{ExchangeError, ExchangeFault, Link, Outbound, Reply};
use super::misfit::{handshake_fault, stranger};
use super::probe::{self, Probe};
use super::{LinkFault, LinkSettings, ProtocolChoice};
use crate::catalog::items::{ListKind, ListKinds};
use crate::wire::envelope;
use crate::wire::era::{Era, Revision};
use crate::wire::splice::{self, MetaRewrite, RequestSplice, SpliceError};

/// How long a `server/discover` on a pipe may stay unanswered before `initialize` is tried.
pub const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Name that we give ourselves.
pub const CLIENT_NAME: &str = "callboard";

/// What the handshake found out.
#[derive(Clone, Debug)]
pub struct Established {
    /// The revision that both sides use from now on.
    pub revision: Revision,
    /// The revision to open with next time; `None` when it was found behind what may have
    /// been an outage.
    pub remember: Option<Revision>,
    /// `name version` of the server, as it says; not yet cleaned for display.
    pub server_info: Option<String>,
    /// What it announces.
    pub offers: Offers,
    /// `instructions`.
    pub instructions: Option<String>,
    /// What goes into the `_meta` of every request.
    pub meta: MetaRewrite,
    /// Its `capabilities` as it wrote them; `{}` when there are none.
    pub capabilities: Bytes,
}

/// The server's capabilities, as far as routing needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// `tools`
    pub tools: bool,
    /// `resources`
    pub resources: bool,
    /// `prompts`
    pub prompts: bool,
    /// Lists whose changes it says it announces (`listChanged`).
    pub announced: ListKinds,
}

/// How the handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// This connection is of no use; a fresh one, opened like this, may be.
    Reconnect(Era),
    /// It failed for good.
    Fault(LinkFault),
}

/// Which kind of carrier the link runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierKind {
    /// Pipes: a wrong first request may end the server.
    Pipe,
    /// HTTP: each request stands alone.
    Http,
}

#[derive(Deserialize)]
struct InitializeResult<'a> {
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    #[serde(rename = "supportedVersions", default)]
    supported: Option<Vec<String>>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(rename = "serverInfo", borrow, default)]
    info: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
    #[serde(default)]
    instructions: Option<serde_json::Value>,
}

/// Runs the handshake. `first` is the era to open with; the caller changes it after a
/// [`HandshakeError::Reconnect`]. Bounded by the caller's start limit.
pub async fn run(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
    first: Option<Era>,
) -> Result<Established, HandshakeError> {
    let first = first.unwrap_or_else(|| opening(kind, settings));
    let established = match first {
        Era::Legacy => legacy_opened(link, kind, settings).await?,
        Era::Modern => modern_first(link, kind, settings).await?,
    };
    link.established(&established);
    if established.revision.era() == Era::Legacy {
        link.notify(splice::notification("notifications/initialized", None));
    }
    Ok(established)
}

/// The era to open with on a first attempt.
pub fn opening(kind: CarrierKind, settings: &LinkSettings) -> Era {
    match (settings.protocol, settings.remembered, kind) {
        (ProtocolChoice::Legacy, _, _) => Era::Legacy,
        (ProtocolChoice::Modern, _, _) => Era::Modern,
        (ProtocolChoice::Auto, Some(revision), _) => revision.era(),
        (ProtocolChoice::Auto, None, CarrierKind::Pipe) => Era::Legacy,
        (ProtocolChoice::Auto, None, CarrierKind::Http) => Era::Modern,
    }
}

/// Whether what answered `initialize` may still answer `server/discover`.
fn is_refusal(fault: &LinkFault) -> bool {
    matches!(fault, LinkFault::Protocol(_) | LinkFault::Config(_) | LinkFault::Misfit { .. })
}

/// A server on HTTP that was remembered as an older one and refuses `initialize` may have
/// become a newer one: asking costs one request.
async fn legacy_opened(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
) -> Result<Established, HandshakeError> {
    let outcome = legacy_first(link, kind, settings).await;
    let refused = matches!(&outcome, Err(HandshakeError::Fault(fault)) if is_refusal(fault));
    if !(refused && kind == CarrierKind::Http && settings.protocol == ProtocolChoice::Auto) {
        return outcome;
    }
    match discover(link, settings).await {
        Ok(reply) if !reply.response.is_error => accept_discover(&reply.body(), settings).or(outcome),
        _ => outcome,
    }
}

async fn legacy_first(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
) -> Result<Established, HandshakeError> {
    let auto = settings.protocol == ProtocolChoice::Auto;
    match initialize(link, settings, Revision::LATEST_LEGACY).await {
        Ok(reply) if !reply.response.is_error => accept_initialize(&reply.body()),
        Ok(reply) => {
            let error = rpc_error(&reply.body());
            if let Some(older) = older_version(&error) {
                return retry_older(link, kind, settings, older).await;
            }
            if auto && names_modern(&error) && kind == CarrierKind::Pipe {
                return discover_after_refusal(link, kind, settings).await;
            }
            Err(refused("initialize", &error))
        }
        Err(error) => {
            if let Some(older) = older_version_in_http(&error.fault) {
                return retry_older(link, kind, settings, older).await;
            }
            match error.fault {
                // A modern-only server may refuse and leave in one step.
                ExchangeFault::Lost(LinkFault::Exited { .. } | LinkFault::Closed)
                    if auto && settings.remembered.is_some_and(|r| r.era() == Era::Modern) =>
                {
                    Err(HandshakeError::Reconnect(Era::Modern))
                }
                _ => Err(handshake_fault(error, kind, "initialize")),
            }
        }
    }
}

/// The server refused `initialize` and named another era: ask on the same pipe, or anew if it left meanwhile.
async fn discover_after_refusal(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
) -> Result<Established, HandshakeError> {
    match tokio::time::timeout(DISCOVER_TIMEOUT, discover(link, settings)).await {
        Ok(Ok(reply)) if !reply.response.is_error => accept_discover(&reply.body(), settings),
        Ok(Ok(reply)) => Err(refused("server/discover", &rpc_error(&reply.body()))),
        Ok(Err(ExchangeError { fault: ExchangeFault::Lost(_), .. })) => {
            Err(HandshakeError::Reconnect(Era::Modern))
        }
        Ok(Err(error)) => Err(handshake_fault(error, kind, "server/discover")),
        Err(_) => Err(HandshakeError::Fault(LinkFault::TimedOut(
            "initialize was refused and server/discover got no answer".to_owned(),
        ))),
    }
}

async fn retry_older(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
    older: Revision,
) -> Result<Established, HandshakeError> {
    match initialize(link, settings, older).await {
        Ok(reply) if !reply.response.is_error => accept_initialize(&reply.body()),
        Ok(reply) => Err(refused("initialize", &rpc_error(&reply.body()))),
        Err(error) => Err(handshake_fault(error, kind, "initialize")),
    }
}

async fn modern_first(
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
) -> Result<Established, HandshakeError> {
    let forced = settings.protocol == ProtocolChoice::Modern;
    let answer = match kind {
        CarrierKind::Pipe => {
            match tokio::time::timeout(DISCOVER_TIMEOUT, discover(link, settings)).await {
                Ok(answer) => answer,
                Err(_) if forced => {
                    return Err(HandshakeError::Fault(LinkFault::TimedOut(format!(
                        "server/discover got no answer within {DISCOVER_TIMEOUT:?}"
                    ))));
                }
                // The old process may still chew on it: a fresh one answers `initialize` first.
                Err(_) => return Err(HandshakeError::Reconnect(Era::Legacy)),
            }
        }
        CarrierKind::Http => discover(link, settings).await,
    };
    match answer {
        Ok(reply) if !reply.response.is_error => match accept_discover(&reply.body(), settings) {
            // A sloppy server answers anything with success.
            Err(_) if !forced => legacy_first(link, kind, settings).await,
            other => other,
        },
        Ok(_) if !forced => legacy_first(link, kind, settings).await,
        Ok(reply) => Err(refused("server/discover", &rpc_error(&reply.body()))),
        Err(error) if forced => Err(handshake_fault(error, kind, "server/discover")),
        Err(error) => older_or_fault(error, link, kind, settings).await,
    }
}

/// `server/discover` brought no answer: an older server is asked in its own way.
async fn older_or_fault(
    error: ExchangeError,
    link: &Link,
    kind: CarrierKind,
    settings: &LinkSettings,
) -> Result<Established, HandshakeError> {
    if kind == CarrierKind::Pipe {
        return match &error.fault {
            ExchangeFault::Lost(LinkFault::Exited { .. } | LinkFault::Closed) => {
                Err(HandshakeError::Reconnect(Era::Legacy))
            }
            ExchangeFault::Malformed(_) => legacy_first(link, kind, settings).await,
            _ => Err(handshake_fault(error, kind, "server/discover")),
        };
    }
    match probe::meaning(&error.fault) {
        Probe::Older => legacy_first(link, kind, settings).await,
        Probe::Doubtful => {
            let established = legacy_first(link, kind, settings).await?;
            Ok(Established { remember: None, ..established })
        }
        Probe::Fault => Err(handshake_fault(error, kind, "server/discover")),
    }
}

fn client_info() -> serde_json::Value {
    serde_json::json!({"name": CLIENT_NAME, "version": env!("CARGO_PKG_VERSION")})
}

fn capabilities(settings: &LinkSettings) -> serde_json::Value {
    let declared = serde_json::from_str(settings.declared.as_str());
    let mut capabilities: serde_json::Map<String, serde_json::Value> = declared.unwrap_or_default();
    if !settings.roots.is_empty() {
        capabilities.insert("roots".to_owned(), serde_json::json!({"listChanged": false}));
    }
    capabilities.into()
}

async fn initialize(
    link: &Link,
    settings: &LinkSettings,
    revision: Revision,
) -> Result<Reply, ExchangeError> {
    let params = serde_json::json!({
        "protocolVersion": revision.as_str(),
        "capabilities": capabilities(settings),
        "clientInfo": client_info(),
    });
    ask(link, link.next_id(), "initialize", params, &MetaRewrite::Legacy).await
}

/// What a modern server asks stands in its results, for whoever called: our own roots are not declared.
fn modern_meta(settings: &LinkSettings) -> MetaRewrite {
    MetaRewrite::Modern {
        revision: Revision::LATEST.as_str().to_owned(),
        capabilities: settings.declared.as_str().to_owned().into(),
        client_info: client_info().to_string().into(),
    }
}

async fn discover(link: &Link, settings: &LinkSettings) -> Result<Reply, ExchangeError> {
    ask(link, link.next_id(), "server/discover", serde_json::json!({}), &modern_meta(settings)).await
}

/// One control request and its answer. Giving up on it never sends a cancellation:
/// the protocol forbids that for `initialize`.
pub(super) async fn ask(
    link: &Link,
    id: u64,
    method: &str,
    params: serde_json::Value,
    meta: &MetaRewrite,
) -> Result<Reply, ExchangeError> {
    let params = Bytes::from(params.to_string());
    let splice = RequestSplice {
        session: None,
        id,
        method,
        params: &params,
        name: None,
        arguments_default: false,
        progress: false,
        meta,
    };
    let parts = splice::request(&splice).map_err(splice_fault)?;
    let request = Outbound { id, method, name: None, parts, headers: Vec::new(), session: None };
    link.start(request).waiting.answer().await.unwrap_or_else(|| Err(lost()))
}

fn lost() -> ExchangeError {
    ExchangeError { fault: ExchangeFault::Lost(LinkFault::Closed), delivery: crate::call::Delivery::Unknown }
}

fn splice_fault(error: SpliceError) -> ExchangeError {
    ExchangeError {
        fault: ExchangeFault::Malformed(format!("the request could not be built: {error:?}")),
        delivery: crate::call::Delivery::NotSent,
    }
}

fn accept_initialize(body: &Bytes) -> Result<Established, HandshakeError> {
    let result: InitializeResult = serde_json::from_slice(body)
        .map_err(|e| protocol(format!("the answer to initialize makes no sense: {e}")))?;
    let Some(version) = result.version.as_deref() else {
        return Err(protocol("the answer to initialize has no protocolVersion".to_owned()));
    };
    // A modern revision has no `initialize`: such an answer is read as "the newest that has one".
    let Some(revision) = Revision::parse(version) else {
        let ours: Vec<_> = Revision::ALL.iter().map(|r| r.as_str()).collect();
        return Err(protocol(format!("the server offered {version:?}, we speak {}", ours.join(", "))));
    };
    let revision = revision.min(Revision::LATEST_LEGACY);
    Ok(established(&result, revision, MetaRewrite::Legacy))
}

fn accept_discover(body: &Bytes, settings: &LinkSettings) -> Result<Established, HandshakeError> {
    let result: InitializeResult = serde_json::from_slice(body)
        .map_err(|e| protocol(format!("the answer to server/discover makes no sense: {e}")))?;
    let offered = result.supported.clone().unwrap_or_default();
    let ours = |text: &String| Revision::parse(text).filter(|r| r.era() == Era::Modern);
    match offered.iter().filter_map(ours).max() {
        Some(revision) => Ok(established(&result, revision, modern_meta(settings))),
        None => Err(protocol(format!(
            "the server offered {}, of the modern revisions we speak {}",
            if offered.is_empty() { "no revision".to_owned() } else { offered.join(", ") },
            Revision::LATEST
        ))),
    }
}

fn established(result: &InitializeResult<'_>, revision: Revision, meta: MetaRewrite) -> Established {
    #[derive(Deserialize)]
    struct Info {
        name: Option<String>,
        version: Option<String>,
    }
    let has = |key: &str| {
        result.capabilities.is_some_and(|raw| {
            envelope::member(raw.get().as_bytes(), key).is_some_and(|span| &raw.get()[span] != "null")
        })
    };
    let stamped = result.meta.and_then(|raw| {
        let raw = raw.get();
        envelope::member(raw.as_bytes(), "io.modelcontextprotocol/serverInfo")
            .map(|span| raw[span].to_owned())
    });
    let info = result.info.map(|raw| raw.get().to_owned()).or(stamped);
    let server_info = info.and_then(|raw| serde_json::from_str::<Info>(&raw).ok()).map(|info| {
        let parts = [info.name, info.version];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    });
    let instructions = match &result.instructions {
        Some(serde_json::Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
        _ => None,
    };
    let offers = Offers {
        tools: has("tools"),
        resources: has("resources"),
        prompts: has("prompts"),
        announced: announced(result.capabilities),
    };
    let capabilities = result.capabilities.map_or("{}", RawValue::get).to_owned().into();
    Established { revision, remember: Some(revision), server_info, offers, instructions, meta, capabilities }
}

/// The lists whose capability says `listChanged: true`.
fn announced(capabilities: Option<&RawValue>) -> ListKinds {
    let raw = capabilities.map_or("", RawValue::get);
    let announces = |kind: &ListKind| {
        let capability = envelope::member(raw.as_bytes(), kind.capability()).map(|span| &raw[span]);
        let word = capability
            .and_then(|text| envelope::member(text.as_bytes(), "listChanged").map(|span| &text[span]));
        word == Some("true")
    };
    let kinds = ListKind::ALL.into_iter().filter(announces);
    kinds.fold(ListKinds::default(), |all, kind| all.and(ListKinds::of(kind)))
}

fn protocol(text: String) -> HandshakeError {
    HandshakeError::Fault(stranger(text))
}

/// A refusal that speaks of the method or its parameters stays one; any other may pass.
fn refused(method: &str, error: &RpcError) -> HandshakeError {
    let text = format!("the server refused {method}: {} (code {})", error.message, error.code);
    if names_modern(error) { protocol(text) } else { HandshakeError::Fault(LinkFault::Protocol(text)) }
}

/// The link's view of a failed control request.
pub fn fault_of(error: ExchangeError, method: &str) -> LinkFault {
    match error.fault {
        ExchangeFault::Lost(fault) => fault,
        ExchangeFault::NeedsAuth(text) => LinkFault::NeedsAuth(text),
        ExchangeFault::Throttled(after) => LinkFault::Throttled { after },
        ExchangeFault::Malformed(cause) => LinkFault::Protocol(format!("{method}: {cause}")),
        ExchangeFault::TooLong(max) => LinkFault::TooLong(format!(
            "the answer to {method} is larger than {max} bytes (limits.frame_max)"
        )),
        ExchangeFault::Http { status, body } if matches!(status, 404 | 405 | 410) => {
            LinkFault::Config(format!("the URL answers {method} with HTTP {status}{}", after_colon(&body)))
        }
        ExchangeFault::Http { status, body } => {
            LinkFault::Network(format!("{method} got HTTP {status}{}", after_colon(&body)))
        }
    }
}

pub(super) fn after_colon(body: &str) -> String {
    let line = body.trim().lines().next().unwrap_or_default();
    if line.is_empty() { String::new() } else { format!(": {line}") }
}
