//! Floor 2. What a refused handshake says about the era and the revisions of the server. Reads
//! text, waits for nothing. Called by the handshake.

use bytes::Bytes;
use serde::Deserialize;

use crate::transport::link::ExchangeFault;
use crate::wire::era::Revision;

/// A JSON-RPC error as the server wrote it.
#[derive(Deserialize)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    #[serde(default)]
    data: serde_json::Value,
}

/// Reads the error of an answer.
pub(super) fn rpc_error(body: &Bytes) -> RpcError {
    serde_json::from_slice(body).unwrap_or(RpcError {
        code: 0,
        message: "an error without code and message".to_owned(),
        data: serde_json::Value::Null,
    })
}

/// Whether a refusal of `initialize` points to the modern era: unsupported version,
/// unknown method, or parameters that make no sense to it.
pub(super) fn names_modern(error: &RpcError) -> bool {
    matches!(error.code, -32022 | -32601 | -32602)
}

/// A legacy revision that the refusal names as supported, older than what was proposed.
pub(super) fn older_version(error: &RpcError) -> Option<Revision> {
    let named = format!("{} {}", error.data, error.message);
    best_legacy_named(&named)
}

pub(super) fn older_version_in_http(fault: &ExchangeFault) -> Option<Revision> {
    match fault {
        ExchangeFault::Http { status: 400, body } => best_legacy_named(body),
        _ => None,
    }
}

fn best_legacy_named(text: &str) -> Option<Revision> {
    Revision::ALL
        .into_iter()
        .rev()
        .filter(|r| *r < Revision::LATEST_LEGACY)
        .find(|r| text.contains(r.as_str()))
}
