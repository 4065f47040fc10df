//! Field reports about envelopes: ids that come back as text or wrong, batches, and what
//! servers ask of us.

use std::time::Duration;

use callboard::call::ErrorCode;
use callboard::config::spec::{ServerSpec, Timeouts};
use callboard::time::Monotonic;
use callboard::view::LifeState;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::bad::{self, Host, TOOLS, Yard};

#[tokio::test]
async fn a_numeric_id_may_come_back_as_a_string() {
    let host = Host::of(&bad::flags("B046")).await;
    assert_eq!(host.tools("s").len(), TOOLS);
    let texts: Vec<String> = (0..8).map(|n| format!("payload {n}")).collect();
    join_all(texts.iter().map(|text| host.echo("s", text))).await;
    assert_eq!(host.view("s").warnings, Vec::<String>::new());
    host.end().await;
}

#[tokio::test]
async fn a_wrong_id_fails_its_own_request_with_that_hint() {
    let runs: [_; 3] = bad::runs("B047");
    let limit = Duration::from_millis(400);
    let impatient =
        |spec: &mut ServerSpec| spec.timeouts = Timeouts { list: limit, idle: limit, ..spec.timeouts };
    let mut yard = Yard::new();
    for flags in &runs {
        yard = yard.tuned(&flags[1], flags, impatient).await;
    }
    let host = yard.good(&["fine"]).await.start().await;
    host.runtime.settle(&[], bad::PATIENCE).await;
    for flags in &runs {
        let server = flags[1].as_str();
        let view = host.warned(server, "answered with a wrong id").await;
        assert!(view.warnings.iter().any(|warning| warning.contains("tools/list")), "{view:?}");
        let shown = match server {
            "zero" => "wrong id: 0",
            "null" => "wrong id: null",
            _ => "wrong id: ",
        };
        let error = host.call(server, "echo", &json!({"text": "x"})).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::TimeoutIdle, "nothing else may settle it: {error:?}");
        assert!(error.message.contains(shown), "{error}");
        assert_eq!((host.view(server).state, host.view(server).restarts), (LifeState::Ready, 0));
    }
    host.echo("fine", "untouched").await;
    host.end().await;
}

#[tokio::test]
async fn every_request_of_a_server_gets_an_answer() {
    let host = Host::of(&bad::flags("B049")).await;
    let began = Monotonic::now();
    let reply = host.call("s", "echo", &json!({})).await.unwrap();
    assert!(Monotonic::now() - began < bad::SOON);
    let codes: Value = serde_json::from_str(&bad::text_of(&reply)).unwrap();
    let unsupported = json!({
        "sampling/createMessage": -32601, "elicitation/create": -32601, "vendor/unknown": -32601,
    });
    assert_eq!(codes, unsupported);
    let replied = host.trace("s", "replied");
    assert_eq!(replied.len(), host.trace("s", "asked").len());
    assert_eq!(replied.len(), 4, "roots before the handshake, the others in the call: {replied:?}");
    assert!(replied.iter().all(|event| event["code"] == -32601), "{replied:?}");
    host.end().await;
}

#[tokio::test]
async fn a_batch_of_answers_ends_in_an_outcome() {
    let [unknown_there, known_there] = bad::runs("B050");
    let yard = Yard::new().with("strict", &unknown_there).await.with("old", &known_there).await;
    let host = yard.start().await;
    host.runtime.settle(&[], bad::PATIENCE).await;

    assert_eq!(host.tools("old").len(), TOOLS, "that revision has batches");
    let texts: Vec<String> = (0..5).map(|n| format!("payload {n}")).collect();
    join_all(texts.iter().map(|text| host.echo("old", text))).await;

    host.warned("strict", "batch").await;
    let arguments = json!({"text": "x"});
    let calls = (0..5).map(|_| host.call("strict", "echo", &arguments));
    for outcome in join_all(calls).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.code, ErrorCode::MalformedAnswer, "{error:?}");
        assert!(error.message.contains("batch"), "{error}");
    }
    assert_eq!(host.view("strict").restarts, 0);
    host.end().await;
}
