//! One request to an endpoint that the user configured, outside of any link: the chat model of the agent.
//! Over the client that all links share, with its pool, proxies and authorities; redirects are not
//! followed. Reads the answer piece by piece; dropped, the exchange ends at once.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Uri};
use url::Url;

use super::body::MessageBody;
use super::client::Client;
use super::response::{HttpError, Response};
use super::{fault, retry_after};
use crate::transport::LinkFault;
use crate::wire::splice::Parts;

/// An answer whose body is still coming.
#[derive(Debug)]
pub struct Reply {
    response: Response,
    place: String,
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoReply {
    /// One clause that names the place; never a header, a credential or a query.
    pub text: String,
    /// What to do about it, where that is known.
    pub cure: Option<&'static str>,
    /// Whether it may be gone at the next try.
    pub may_pass: bool,
}

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoReply {}

impl From<LinkFault> for NoReply {
    fn from(fault: LinkFault) -> Self {
        let cure = match &fault {
            LinkFault::Unreachable { cure, .. } | LinkFault::Misfit { cure, .. } => Some(*cure),
            _ => None,
        };
        Self { text: fault.to_string(), cure, may_pass: fault.may_pass() }
    }
}

impl Client {
    /// Sends one request and waits for the head of its answer. The headers that carry a credential should
    /// be marked as sensitive.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, NoReply> {
        let place = place(url);
        let built = self.for_url(url)?;
        let uri: Uri = url.as_str().parse().map_err(|_| NoReply {
            text: format!("{place} is no address that can be asked"),
            cure: None,
            may_pass: false,
        })?;
        let mut parts = Parts::default();
        parts.push(body);
        let sent = built.send(method, uri, headers, MessageBody::new(&parts, None)).await;
        match sent {
            Ok(response) => Ok(Reply { response, place }),
            Err(error) => Err(of(&error, &place, built.has_roots)),
        }
    }
}

impl Reply {
    /// The status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The media type in lower case, without parameters.
    pub fn media(&self) -> String {
        let written = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        written.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// How long the endpoint asks to be left alone; within the bounds of `Retry-After` elsewhere.
    pub fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let written = self.response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        retry_after::wait(written, now)
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NoReply> {
        self.response.chunk().await.map_err(|error| of(&error, &self.place, true))
    }
}

fn of(error: &HttpError, place: &str, has_roots: bool) -> NoReply {
    match error {
        HttpError::Request(error) => fault::of(error, error.is_connect(), place, has_roots).into(),
        HttpError::Body(error) => fault::of(error, false, place, true).into(),
        HttpError::Interim => NoReply {
            text: format!("{place} sends interim answers without end"),
            cure: Some("look at what runs there, or at a proxy on the way"),
            may_pass: false,
        },
    }
}

/// Scheme, host and port: nothing of a URL that may hold a secret.
fn place(url: &Url) -> String {
    url[..url::Position::BeforePath].split('@').next_back().map_or_else(String::new, |rest| {
        if rest.contains("://") { rest.to_owned() } else { format!("{}://{rest}", url.scheme()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_without_path_query_and_password() {
        let told = |url: &str| place(&Url::parse(url).unwrap());
        assert_eq!(told("https://h.example:8443/v1?key=secret"), "https://h.example:8443");
        assert_eq!(told("http://user:secret@h.example/v1"), "http://h.example");
        assert_eq!(told("http://[::1]:1/"), "http://[::1]:1");
    }
}
