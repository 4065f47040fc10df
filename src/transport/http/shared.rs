//! What all tasks of one HTTP link share, and the request that each of them makes: one
//! HTTP exchange with our headers, following redirects within the origin. The carrier
//! owns it; when the carrier is dropped, the tasks end and with them this.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use tokio::sync::watch;

use super::body::{MessageBody, SentMark};
use super::client::Built;
use super::endpoint::Target;
use super::fault::{self, Miss};
use super::redirect::{self, Hop};
use super::response::{HttpError, INTERIM_MAX, Response};
use super::standing::Standing;
use super::tasks::Tasks;
use super::{encode, session};
use crate::transport::inbound::Inbound;
use crate::transport::link::ExchangeFault;
use crate::transport::{LinkFault, ProtocolChoice};
use crate::wire::era::{Era, Revision};
use crate::wire::splice::Parts;

/// The negotiated revision.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The server's session.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method of a modern message.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The item that a modern request addresses.
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a broken stream is to go on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The shared part of a link.
#[derive(Debug)]
pub(super) struct Shared {
    /// The HTTP client for this server.
    pub(super) client: Built,
    /// URL and configured headers.
    pub(super) target: Target,
    /// Cap of one body or event, in bytes.
    pub(super) frame_max: usize,
    /// Limit of one control request.
    pub(super) control_timeout: Duration,
    /// The era that the configuration asks for.
    pub(super) protocol: ProtocolChoice,
    /// The receiving side.
    pub(super) inbound: Arc<Inbound>,
    /// All tasks.
    pub(super) tasks: Tasks,
    /// Where we stand with the server.
    pub(super) standing: watch::Sender<Standing>,
    /// Notifications and answers of ours that may be on their way at once.
    pub(super) notes: Arc<tokio::sync::Semaphore>,
}

/// The session id that an answer hands out.
pub(super) fn session_of(response: &Response) -> Option<HeaderValue> {
    let lines = response.headers().get_all(&SESSION_ID);
    let id = session::id(lines.iter().map(HeaderValue::as_bytes))?;
    let mut value = HeaderValue::from_str(&id).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The protocol headers of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Head<'a> {
    /// The revision to name, if any.
    pub(super) version: Option<Revision>,
    /// The session to name, if any.
    pub(super) session: Option<&'a HeaderValue>,
    /// The method of the message; named in the modern era.
    pub(super) method: Option<&'a str>,
    /// The item that it addresses; named in the modern era.
    pub(super) name: Option<&'a str>,
    /// Headers computed by the caller.
    pub(super) extra: &'a [(String, String)],
    /// Where to go on.
    pub(super) last_event_id: Option<&'a str>,
}

impl Head<'_> {
    /// Adds these headers to the fixed ones.
    fn write(&self, headers: &mut HeaderMap) {
        if let Some(session) = self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = self.version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        if self.version.is_some_and(|version| version.era() == Era::Modern) {
            let set = |headers: &mut HeaderMap, name: HeaderName, text: &str| {
                if let Ok(value) = HeaderValue::from_str(&encode::value(text)) {
                    headers.insert(name, value);
                }
            };
            if let Some(method) = self.method {
                set(headers, METHOD, method);
            }
            if let (Some(name), true) = (self.name, self.method.is_some_and(encode::carries_name)) {
                set(headers, NAME, name);
            }
            for (name, value) in self.extra {
                // Wrapped already, where it was needed.
                if let (Ok(name), Ok(value)) =
                    (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
                {
                    headers.insert(name, value);
                }
            }
        }
        if let Some(Ok(id)) = self.last_event_id.map(HeaderValue::from_str) {
            headers.insert(LAST_EVENT_ID, id);
        }
    }
}

impl Shared {
    /// A snapshot of where we stand.
    pub(super) fn now(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Changes where we stand and wakes those who wait for it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Standing)) {
        self.standing.send_modify(change);
    }

    /// Waits until `wanted` holds; gives where we stand then.
    pub(super) async fn until(&self, wanted: impl FnMut(&Standing) -> bool) -> Standing {
        let mut standing = self.standing.subscribe();
        match standing.wait_for(wanted).await {
            Ok(standing) => standing.clone(),
            // The sender is a part of `self`, which outlives this borrow.
            Err(_) => self.now(),
        }
    }

    /// POSTs a message. A redirect that can't be followed is an error.
    pub(super) async fn post(
        &self,
        head: &Head<'_>,
        message: &Parts,
        mark: Option<&SentMark>,
    ) -> Result<Response, Miss> {
        self.inbound.passes(message);
        let mut headers = self.target.post_headers();
        head.write(&mut headers);
        self.exchange(&Method::POST, headers, Some((message, mark))).await
    }

    /// GETs an event stream.
    pub(super) async fn get(&self, head: &Head<'_>) -> Result<Response, Miss> {
        let mut headers = self.target.get_headers();
        head.write(&mut headers);
        self.exchange(&Method::GET, headers, None).await
    }

    /// Ends the server's session.
    pub(super) async fn delete(&self, head: &Head<'_>) -> Result<Response, Miss> {
        let mut headers = self.target.get_headers();
        head.write(&mut headers);
        self.exchange(&Method::DELETE, headers, None).await
    }

    async fn exchange(
        &self,
        method: &Method,
        headers: HeaderMap,
        message: Option<(&Parts, Option<&SentMark>)>,
    ) -> Result<Response, Miss> {
        let mut url = self.target.url.clone();
        let mut hops = 0;
        loop {
            let Some(to) = self.target.uri(&url) else {
                let text = format!("{} can't be asked for: the URL is too long or odd", self.target.shown);
                return Err(Miss::not_run(ExchangeFault::Lost(LinkFault::Config(text))));
            };
            let body = match message {
                Some((parts, mark)) => MessageBody::new(parts, mark.cloned()),
                None => MessageBody::new(&Parts::default(), None),
            };
            let sending = self.client.send(method.clone(), to, headers.clone(), body);
            let response = sending.await.map_err(|error| self.network(error))?;
            let status = response.status().as_u16();
            if !redirect::is_redirect(status) {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            match redirect::verdict(&url, status, location, *method != Method::GET, hops) {
                Hop::Follow(to) => url = to,
                Hop::Refuse(text) => {
                    let text = self.target.scrub(&format!("{} answered {text}", self.target.shown));
                    return Err(Miss::not_run(ExchangeFault::Lost(LinkFault::Config(text))));
                }
            }
            hops += 1;
        }
    }

    /// The fault behind an error of the HTTP client.
    pub(super) fn network(&self, error: HttpError) -> Miss {
        match error {
            HttpError::Interim => Miss::malformed(format!(
                "it sent more than {INTERIM_MAX} interim answers (HTTP 1xx) and no final one"
            )),
            HttpError::Request(error) => {
                let fault = fault::of(&error, error.is_connect(), &self.target.shown, self.client.has_roots);
                Miss { not_run: fault::is_unprocessed(&error), ..Miss::lost(fault) }
            }
            HttpError::Body(error) => Miss::lost(fault::of(&error, false, &self.target.shown, true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(head: &Head<'_>) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        head.write(&mut headers);
        let mut all: Vec<_> =
            headers.iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
        all.sort();
        all
    }

    #[test]
    fn legacy_requests_name_version_and_session_only() {
        let session = HeaderValue::from_static("s");
        let head = Head {
            version: Some(Revision::R2025_03_26),
            session: Some(&session),
            method: Some("tools/call"),
            name: Some("echo"),
            extra: &[("Mcp-Param-X".into(), "1".into())],
            last_event_id: Some("7"),
        };
        let want = [("last-event-id", "7"), ("mcp-protocol-version", "2025-03-26"), ("mcp-session-id", "s")];
        assert_eq!(written(&head), want.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(written(&Head::default()), []);
    }

    #[test]
    fn modern_requests_name_method_item_and_parameters() {
        let extra = [("Mcp-Param-X".to_owned(), "1".to_owned())];
        let head = |method, name| Head {
            version: Some(Revision::R2026_07_28),
            method: Some(method),
            name,
            extra: &extra,
            ..Head::default()
        };
        let want = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?R3LDvMOfZQ==?="),
            ("mcp-param-x", "1"),
            ("mcp-protocol-version", "2026-07-28"),
        ];
        assert_eq!(
            written(&head("tools/call", Some("Grüße"))),
            want.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
        assert!(written(&head("tools/list", Some("x"))).iter().all(|(n, _)| n != "mcp-name"));
    }
}
