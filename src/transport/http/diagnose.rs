//! Finds out what is at a URL that does not answer the handshake as MCP: the old
//! HTTP+SSE transport, or nothing of ours. Asked only for a handshake that failed.

use std::sync::Arc;
use std::time::Duration;

use super::reading::{self, Event, EventStream, Kind, Trail};
use super::shared::{Head, Shared};
use crate::transport::{LinkFault, ProtocolChoice};

/// Limit of the look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// The first event is short, in bytes.
const EVENT_MAX: usize = 4096;

/// Whether a refusal of this request with this status calls for a look: the last
/// request of a handshake that has nothing else to try.
pub(super) fn applies(shared: &Shared, method: &str, status: u16) -> bool {
    let last = match method {
        "initialize" => true,
        "server/discover" => shared.protocol == ProtocolChoice::Modern,
        _ => false,
    };
    last && shared.now().revision.is_none() && matches!(status, 400 | 404 | 405)
}

/// The fault behind a POST that was answered with `status`; `None` when the status
/// itself says all there is.
pub(super) async fn endpoint(shared: &Arc<Shared>, status: u16) -> Option<LinkFault> {
    let place = &shared.target.shown;
    let old = tokio::time::timeout(LOOK_TIMEOUT, opens_with_endpoint(shared)).await.unwrap_or(false);
    if old {
        return Some(LinkFault::Config(format!(
            "{place} speaks the old HTTP+SSE transport, which is not spoken yet; use the server's Streamable HTTP URL (often /mcp)"
        )));
    }
    matches!(status, 404 | 405).then(|| {
        LinkFault::Config(format!(
            "{place} answers a POST with HTTP {status}: there is no MCP endpoint at this URL; check its path (often /mcp)"
        ))
    })
}

async fn opens_with_endpoint(shared: &Arc<Shared>) -> bool {
    let Ok(response) = shared.get(&Head::default()).await else { return false };
    if !response.status().is_success() || reading::kind(&response) != Kind::Events {
        return false;
    }
    let mut stream = EventStream::new(response, EVENT_MAX, Trail::default());
    matches!(stream.next().await, Ok(Some(Event::Endpoint)))
}
