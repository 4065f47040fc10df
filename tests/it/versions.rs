//! Field reports about older and newer peers: which revisions connect, and how a refused
//! proposal goes on.

use callboard::view::LifeState;
use serde_json::Value;

use crate::support::bad::{self, Host, TOOLS, Yard};

#[tokio::test]
async fn every_known_version_connects_and_an_unknown_one_names_both() {
    let [first, second, unknown] = bad::runs("B034");
    let yard = Yard::new().with("first", &first).await.with("second", &second).await;
    let host = yard.with("unknown", &unknown).await.start().await;
    for (server, revision) in [("first", "2024-11-05"), ("second", "2025-03-26")] {
        let view = host.until(server, "ready", |v| v.state == LifeState::Ready && v.listed).await;
        assert_eq!(view.revision, Some(revision));
        host.echo(server, revision).await;
    }
    let view = host.until("unknown", "failed", |v| v.why.is_some()).await;
    assert!(matches!(view.state, LifeState::BackingOff | LifeState::Connecting | LifeState::Parked(_)));
    let why = view.why.unwrap();
    assert!(why.contains("1999-01-01") && why.contains("2024-11-05") && why.contains("2025-11-25"), "{why}");
    host.end().await;
}

/// The versions that were proposed to a server, in order.
fn proposed(host: &Host, server: &str) -> Vec<String> {
    let asked = host.received(server, "initialize");
    asked.iter().map(|m| m["params"]["protocolVersion"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_refused_version_is_proposed_once_more_with_one_that_the_server_names() {
    let [http, pipe] = bad::runs("B035");
    let host = Yard::new().with("http", &http).await.with("pipe", &pipe).await.ready().await;
    for server in ["http", "pipe"] {
        assert_eq!(host.view(server).revision, Some("2025-06-18"), "{server}");
        assert_eq!(host.view(server).restarts, 0, "{server}");
        assert_eq!(proposed(&host, server), ["2025-11-25", "2025-06-18"], "{server}");
        assert_eq!(host.tools(server).len(), TOOLS);
        host.echo(server, "spoken").await;
    }
    // From then on each request carries the older one.
    let sent: Vec<Value> = host.trace("http", "http");
    let later = sent.iter().skip_while(|event| event["headers"]["mcp-session-id"].is_null());
    let versions: Vec<&Value> = later.map(|event| &event["headers"]["mcp-protocol-version"]).collect();
    assert!(!versions.is_empty() && versions.iter().all(|version| **version == "2025-06-18"), "{versions:?}");
    host.end().await;
}
