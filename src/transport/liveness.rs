//! Floor 2. Whether the other end of a link still lives: one small request that every server
//! must answer. Any answer proves life, a refusal too. Asked by the server actor about a
//! server that left a call unanswered.

use std::time::Duration;

use super::handshake::{Established, ask};
use super::link::{ExchangeFault, Link};
use crate::wire::era::Era;

/// Asks, and waits for a sign of life for at most `limit`: the answer, or any other message.
pub async fn check(link: &Link, established: &Established, limit: Duration) -> bool {
    // `ping` is gone from the modern era.
    let method = match established.revision.era() {
        Era::Legacy => "ping",
        Era::Modern => "server/discover",
    };
    let (id, heard) = (link.next_id(), link.heard());
    let asked = ask(link, id, method, serde_json::json!({}), &established.meta);
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => !matches!(error.fault, ExchangeFault::Lost(_)),
        Err(_) => {
            link.cancel(id, "no answer to the liveness check");
            link.heard() != heard
        }
    }
}
