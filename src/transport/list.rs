//! Floor 2. Reads one list of a server, all pages, each request with its own limit.

use std::time::Duration;

use super::handshake::{Established, ask, fault_of};
use super::link::Link;
use crate::catalog::items::ListKind;
use crate::catalog::pages::{Listed, PageCaps, PageWalk, WalkStep};

/// Fetches every page of one list. The error says why not even the first one came.
pub async fn fetch(
    link: &Link,
    established: &Established,
    kind: ListKind,
    limit: Duration,
) -> Result<Listed, String> {
    let mut walk = PageWalk::new(kind, PageCaps::default());
    let mut cursor: Option<String> = None;
    loop {
        let params = match &cursor {
            Some(cursor) => serde_json::json!({ "cursor": cursor }),
            None => serde_json::json!({}),
        };
        let step = match page(link, established, kind, params, limit).await {
            Ok(result) => walk.next(&result),
            Err(cause) => walk.fail(&cause),
        };
        match step {
            WalkStep::Fetch(next) => cursor = Some(next),
            WalkStep::Done => return walk.finish(),
        }
    }
}

async fn page(
    link: &Link,
    established: &Established,
    kind: ListKind,
    params: serde_json::Value,
    limit: Duration,
) -> Result<bytes::Bytes, String> {
    let method = kind.method();
    let id = link.next_id();
    match tokio::time::timeout(limit, ask(link, id, method, params, &established.meta)).await {
        Ok(Ok(reply)) if reply.response.is_error => Err(rpc_cause(method, &reply.body())),
        Ok(Ok(reply)) => Ok(reply.body()),
        Ok(Err(error)) => {
            let fault = fault_of(error, method).to_string();
            Err(if fault.starts_with(method) { fault } else { format!("{method}: {fault}") })
        }
        Err(_) => {
            link.cancel(id, "the list limit passed");
            let hint = match link.counters().last_unmatched {
                Some(id) => format!("; the server answered with a wrong id: {id}"),
                None => String::new(),
            };
            Err(format!(
                "{method} got no answer within {} (list limit){hint}",
                humantime::format_duration(limit)
            ))
        }
    }
}

fn rpc_cause(method: &str, body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct RpcError {
        code: i64,
        message: String,
    }
    match serde_json::from_slice::<RpcError>(body) {
        Ok(error) => format!("{method} failed: {} (code {})", error.message, error.code),
        Err(_) => format!("{method} failed with an error without code and message"),
    }
}
