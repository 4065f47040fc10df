//! A status outside of 2xx: what was in it, and the fault that it means.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};

use super::challenge;
use super::endpoint::Target;
use super::fault::Miss;
use super::reading::{self, Kind, Whole};
use super::response::Response;
use super::status::{self, Meaning};
use crate::transport::link::ExchangeFault;

/// Limit for reading the body of a refusal.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Most that is read of a body that is not JSON, in bytes.
const TEXT_BODY_MAX: usize = 64 * 1024;
/// Most of a body that an error repeats, in bytes.
const SHOWN_MAX: usize = 2048;

/// A refusal, read.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The status.
    pub(super) status: u16,
    /// The body, or its start.
    pub(super) body: Bytes,
    challenge: Option<String>,
    retry_after: Option<String>,
}

impl Refusal {
    /// Reads what the server says. A body that is slow, broken or over `json_max`
    /// bytes only shortens the text.
    pub(super) async fn read(mut response: Response, json_max: usize) -> Self {
        let status = response.status().as_u16();
        let challenge = challenge_of(response.headers());
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let max = if reading::kind(&response) == Kind::Json { json_max } else { json_max.min(TEXT_BODY_MAX) };
        let body = match tokio::time::timeout(BODY_TIMEOUT, reading::whole(&mut response, max)).await {
            Ok(Ok(Whole::Body(body) | Whole::TooLong(body))) => body,
            _ => Bytes::new(),
        };
        Self { status, body, challenge, retry_after }
    }

    /// The fault.
    pub(super) fn miss(&self, target: &Target) -> Miss {
        match status::meaning(self.status, self.retry_after.as_deref(), crate::time::wall()) {
            Meaning::NeedsAuth => {
                let text = challenge::text(self.status, self.challenge.as_deref());
                Miss::not_run(ExchangeFault::NeedsAuth(target.scrub(&text)))
            }
            Meaning::Throttled(after) => {
                let fault = ExchangeFault::Throttled(after);
                // A 503 may come from a gateway whose server took the request.
                if status::proves_not_run(self.status) { Miss::not_run(fault) } else { Miss::new(fault) }
            }
            Meaning::Other => {
                let body = start(&target.scrub(&String::from_utf8_lossy(&self.body)));
                let fault = ExchangeFault::Http { status: self.status, body };
                if status::proves_not_run(self.status) { Miss::not_run(fault) } else { Miss::new(fault) }
            }
        }
    }
}

/// The challenge to show: the first for a bearer token, else the first.
fn challenge_of(headers: &HeaderMap) -> Option<String> {
    let lines = || headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok());
    let bearer =
        lines().find(|line| line.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")));
    bearer.or_else(|| lines().next()).map(str::to_owned)
}

/// The start of a text, cut between characters.
fn start(text: &str) -> String {
    let text = text.trim();
    let mut end = text.len().min(SHOWN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_is_cut_between_characters() {
        assert_eq!(start(" hi \n"), "hi");
        let text = "é".repeat(2000);
        assert_eq!(start(&text).len(), 2048);
        let text = format!("x{text}");
        assert_eq!(start(&text).len(), 2047);
    }

    #[test]
    fn the_bearer_challenge_is_shown_before_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(challenge_of(&headers), None);
        headers.append(WWW_AUTHENTICATE, "Basic realm=\"b\"".parse().unwrap());
        assert_eq!(challenge_of(&headers).as_deref(), Some("Basic realm=\"b\""));
        headers.append(WWW_AUTHENTICATE, "bearer realm=\"t\"".parse().unwrap());
        assert_eq!(challenge_of(&headers).as_deref(), Some("bearer realm=\"t\""));
    }
}
