//! Floor 2, pure. The faults of a handshake that will be the same next time: what answers is no
//! server of ours. Each with what to change. Made by `handshake` alone.

use super::handshake::{CarrierKind, HandshakeError, after_colon, fault_of};
use super::link::{ExchangeError, ExchangeFault};
use super::{LinkFault, Side, probe};
use crate::call::Delivery;

/// Cure of a server that speaks another protocol or revision than we do.
const OTHER_PROTOCOL: &str = "update the server (or Callboard), or look whether this is an MCP server at all";
/// Cure of a URL at which something else than MCP answers.
const OTHER_PLACE: &str = "correct the URL of the entry: check its host, port and path (often /mcp)";
/// Cure of a request that the place behind a URL refuses.
const REFUSED_THERE: &str =
    "see what it says; then correct URL or `headers` of the entry, or set its `protocol`";

/// The fault of a server whose answer will be the same next time.
pub(super) fn stranger(text: String) -> LinkFault {
    LinkFault::Misfit { text, cure: OTHER_PROTOCOL, detail: None, side: Side::Server }
}

/// The fault of a URL behind which there is no server of ours.
fn elsewhere(text: String, cure: &'static str) -> LinkFault {
    LinkFault::Misfit { text, cure, detail: None, side: Side::Entry }
}

/// The fault of a handshake that got no answer. What its request met there is met next time too,
/// unless it speaks of time or load.
pub(super) fn handshake_fault(error: ExchangeError, kind: CarrierKind, method: &str) -> HandshakeError {
    HandshakeError::Fault(match error.fault {
        ExchangeFault::Malformed(cause) if error.delivery == Delivery::NotSent => {
            LinkFault::Protocol(format!("{method}: {cause}"))
        }
        ExchangeFault::Malformed(cause) => {
            let text = format!("{method}: {cause}");
            if kind == CarrierKind::Http { elsewhere(text, OTHER_PLACE) } else { stranger(text) }
        }
        ExchangeFault::Http { status, body } if probe::is_lasting(status) => {
            let cure = if matches!(status, 404 | 405 | 410) { OTHER_PLACE } else { REFUSED_THERE };
            elsewhere(format!("the URL answers {method} with HTTP {status}{}", after_colon(&body)), cure)
        }
        _ => fault_of(error, method),
    })
}
