//! Levels of log messages across eras: a legacy client sets one for its session, a modern client says one
//! with each request, and servers go by what their own era has. Called for each request that leaves.

use bytes::Bytes;

use super::client::Client;
use super::message::Request;
use super::notes::{self, LEVELS};
use crate::id::ServerId;
use crate::wire::envelope::text;
use crate::wire::era::{Era, Revision};
use crate::wire::splice;

/// The key of `_meta` with the level that a modern client wants.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The level that a modern request says; without one its client wants no log messages.
pub(super) fn said(request: &Request) -> Option<usize> {
    let raw = request.meta(LOG_LEVEL)?;
    let word = text(&raw)?;
    LEVELS.iter().position(|known| *known == word)
}

/// Whether a notification reaches a modern client whose request said this level.
pub(super) fn reaches(least: Option<usize>, method: &str, frame: &[u8]) -> bool {
    if method != "notifications/message" {
        return true;
    }
    let level = notes::param(frame, "level").and_then(|word| LEVELS.iter().position(|known| *known == word));
    least.is_some_and(|least| level.is_none_or(|level| level >= least))
}

/// Tells the server of a request the level that its client wants, in the way of the server's era; returns
/// the `params` to send.
pub(super) fn cross(client: &Client, request: &Request, server: &ServerId, params: Bytes) -> Bytes {
    let ours = client.era();
    let wanted = match ours {
        Era::Modern => said(request),
        Era::Legacy => client.state().level,
    };
    let Some(level) = wanted else { return params };
    match (ours, client.host.revision_of(server).map(Revision::era)) {
        (Era::Modern, Some(Era::Legacy)) => {
            client.host.level_down(server, level);
            params
        }
        (Era::Legacy, Some(Era::Modern)) => {
            splice::with_meta(&params, LOG_LEVEL, format!("\"{}\"", LEVELS[level]).as_bytes())
        }
        _ => params,
    }
}
