//! Field reports about callers that share one server: ids and progress tokens are ours, so that
//! an answer, a progress and a change reach whom they belong to, and nobody else.

use std::time::Duration;

use callboard::call::{CallEvent, CallRequest};
use callboard::id::SessionId;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::bad::{self, Host};
use crate::support::request;

/// A call as a client makes it that counts its own ids and tokens from 1.
fn from_session(session: u64, tool: &str, arguments: &Value) -> CallRequest {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}).to_string();
    CallRequest { session: SessionId(session), ..request("s", tool, &params) }
}

#[tokio::test]
async fn callers_with_the_same_tokens_get_their_own_answers() {
    let host = Host::of(&bad::flags("B103")).await;
    let frontend = host.runtime.frontend();
    let calls = (0..200u64).map(|n| {
        let nonce = format!("session {} call {n}", n % 2);
        let asked = from_session(n % 2, "echo", &json!({"text": nonce}));
        let call = frontend.call(asked, None);
        async move { (nonce, call.await) }
    });
    // Half of them wait for a place; the front end takes 64 at a time to one server.
    for (nonce, reply) in join_all(calls).await {
        assert_eq!(bad::text_of(&reply.expect(&nonce)), nonce);
    }
    let sent = host.received("s", "tools/call");
    let tokens: std::collections::BTreeSet<String> =
        sent.iter().map(|call| call["params"]["_meta"]["progressToken"].to_string()).collect();
    assert_eq!(tokens.len(), 200, "each call has a token of its own");
    host.end().await;
}

#[tokio::test]
async fn progress_reaches_the_caller_whose_call_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [progress, changes] = bad::runs_in("B104", folder.path());
    let host = Host::of(&progress).await;
    let frontend = host.runtime.frontend();
    let (to_a, mut of_a) = mpsc::channel(64);
    let (to_b, mut of_b) = mpsc::channel(64);
    let long = frontend.call(from_session(1, "sleep", &json!({"ms": 1_000})), Some(to_a));
    let short = async {
        bad::until("the long one runs", || host.received("s", "tools/call").len() == 1).await;
        frontend.call(from_session(2, "echo", &json!({"text": "b"})), Some(to_b)).await
    };
    let (long, short) = tokio::join!(long, short);
    assert_eq!(
        (bad::text_of(&long.unwrap()), bad::text_of(&short.unwrap())),
        ("slept 1000 ms".into(), "b".into())
    );
    let mut steps = Vec::new();
    while let Some(CallEvent::Progress(params)) = of_a.recv().await {
        let params: Value = serde_json::from_slice(&params).unwrap();
        steps.push(params["progress"].as_u64().unwrap());
    }
    assert_eq!(steps, [1, 2, 3, 4]);
    assert!(of_b.recv().await.is_none(), "nothing of it reached the other");
    host.end().await;

    // A change of the list is one new version of the catalogue, for whoever looks.
    let host = Host::of(&changes).await;
    let before = host.runtime.catalog().version;
    std::fs::write(folder.path().join("control"), "add-tool fresh\nnotify tools\n").unwrap();
    host.until("s", "it is read again", |_| host.tools("s").iter().any(|tool| tool == "fresh")).await;
    let settled = std::time::Instant::now() + Duration::from_millis(500);
    bad::until("no second one follows", || std::time::Instant::now() >= settled).await;
    assert_eq!(host.runtime.catalog().version, before + 1);
    host.end().await;
}
