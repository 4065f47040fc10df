//! Field reports about the merged view: what fails stays out of it, what is late joins it,
//! and what passes through is not touched.

use std::time::Duration;

use callboard::call::ErrorCode;
use callboard::catalog::merge::exposed_definition;
use callboard::config::spec::{ServerSpec, Timeouts};
use callboard::id::ServerId;
use callboard::time::Monotonic;
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};

use crate::support::bad::{self, Host, PATIENCE, SOON, TOOLS, Yard};
use crate::support::{self, Fleet, Wire, method_of};

#[tokio::test]
async fn failing_servers_leave_the_healthy_part_whole() {
    let [no_list, no_token, mute] = bad::runs("B106");
    let impatient = |spec: &mut ServerSpec| {
        let (connect, max_start) = (Duration::from_millis(200), Duration::from_millis(1500));
        spec.timeouts = Timeouts { connect, max_start, ..spec.timeouts };
    };
    let yard = Yard::new().with("nolist", &no_list).await.with("notoken", &no_token).await;
    let yard = yard.tuned("mute", &mute, impatient).await.good(&["good"]).await;
    let began = Monotonic::now();
    let host = yard.start().await;
    host.runtime.settle(&["good".into()], PATIENCE).await;
    assert_eq!(host.exposed("good").len(), TOOLS);
    host.echo("good", "served").await;
    assert!(Monotonic::now() - began < SOON, "{:?}", Monotonic::now() - began);

    let parked = LifeState::Parked(ParkReason::NeedsAuth);
    let view = host.until("notoken", "it wants a token", |view| view.state == parked).await;
    assert!(view.why.as_deref().is_some_and(|why| why.contains("401")), "{view:?}");
    assert!(view.fix.is_some());
    let view = host.warned("nolist", "tools/list failed").await;
    assert!(view.warnings.iter().any(|warning| warning.contains("-32000")), "{view:?}");
    let view = host.until("mute", "its limit ends it", |view| view.restarts > 0).await;
    assert!(view.why.as_deref().is_some_and(|why| why.contains("max_start")), "{view:?}");

    let catalog = host.runtime.catalog();
    assert!(catalog.tools.iter().all(|tool| tool.route.server.as_str() == "good"));
    assert_eq!(catalog.tools.len(), TOOLS);
    // A server whose list could not be read still takes calls by name.
    host.echo("nolist", "callable").await;
    let error = host.call("notoken", "echo", &json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NeedsAuth, "{error:?}");
    host.end().await;
}

#[tokio::test]
async fn late_servers_join_and_a_partial_list_is_never_final() {
    let flags = bad::flags("B107");
    let began = Monotonic::now();
    let host = Yard::new().with("late", &flags).await.good(&["good"]).await.start().await;
    host.runtime.settle(&["good".into()], PATIENCE).await;
    let early = host.runtime.catalog();
    assert_eq!(early.tools.len(), TOOLS, "what is there is served");
    assert!(!early.servers.contains_key(&ServerId::new("late")));
    let view = host.view("late");
    assert_eq!((view.state, view.listed), (LifeState::Connecting, false), "nobody takes it for empty");

    // A call does not need to know better: it waits for the server.
    host.echo("late", "as soon as it is there").await;
    host.runtime.settle(&[], PATIENCE).await;
    let took = Monotonic::now() - began;
    assert!(took > Duration::from_secs(3) && took < SOON, "{took:?}");
    let whole = host.runtime.catalog();
    assert_eq!(whole.tools.len(), 2 * TOOLS);
    assert!(whole.version > early.version && !whole.same_content(&early));
    for tool in &early.tools {
        assert!(whole.exposed(&tool.name).is_some(), "{} kept its name", tool.name);
    }
    host.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_never_unknown_once_its_server_shows_as_listed() {
    let script = |message: &Value, wire: &Wire| {
        let result = match method_of(message) {
            "initialize" => json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "x"},
                                   "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}),
            "resources/list" => json!({"resources": [{"uri": "a:b", "name": "a"}]}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "prompts/list" => json!({"prompts": []}),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": []}),
            _ => return,
        };
        wire.result(message, &result.to_string());
    };
    let hundred = async |settled: bool| {
        for _ in 0..100 {
            let mut fleet = Fleet::default().with(support::spec("s"), script);
            for n in 0..5 {
                fleet = fleet.with(support::spec(&format!("other{n}")), script);
            }
            let runtime = fleet.start().await;
            if settled {
                runtime.settle(&["s".into()], PATIENCE).await;
                assert_eq!(runtime.catalog().servers[&ServerId::new("s")].tools.items.len(), 1);
            } else {
                runtime.watch(&["s".into()]).settled().await;
            }
            support::call(&runtime, "s", "echo").await.unwrap_or_else(|e| panic!("{e:?}"));
            runtime.shutdown().await;
        }
    };
    hundred(false).await;
    hundred(true).await;
}

/// The last answer that a server sent with these words in it.
fn sent(host: &Host, words: &str) -> String {
    let mut lines = host.trace("s", "out");
    lines.retain(|event| event["raw"].as_str().unwrap().contains(words));
    lines.pop().expect("it answered")["raw"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn tools_and_results_pass_unchanged_but_for_the_name() {
    let host = Host::of(&bad::flags("B109")).await;
    let list = sent(&host, r#""tools":["#);
    let defined: Value = serde_json::from_str(&list).unwrap();
    let catalog = host.runtime.catalog();
    assert_eq!(catalog.tools.len(), TOOLS);
    for tool in &catalog.tools {
        let item = &tool.route.item;
        let raw = std::str::from_utf8(&item.raw).unwrap();
        assert!(list.contains(raw), "the very bytes of {}", item.name);
        for part in ["title", "icons", "annotations", "execution", "outputSchema", "_meta", "x-vendor"] {
            assert!(raw.contains(&format!("\"{part}\":")), "badmcp gives {part}");
        }
        // Nothing but the name differs, down to the order of the keys.
        let shown = exposed_definition(tool).to_bytes();
        let shown = std::str::from_utf8(&shown).unwrap();
        let (exposed, own) = (format!("\"name\":\"{}\"", tool.name), format!("\"name\":\"{}\"", item.name));
        assert_eq!(shown.replacen(&exposed, &own, 1), raw);
    }
    assert_eq!(defined["result"]["tools"].as_array().map(Vec::len), Some(TOOLS));

    let reply = host.call("s", "echo", &json!({"text": "x"})).await.unwrap();
    let line = sent(&host, r#""x-vendor":"kept""#);
    assert_eq!(reply.frame, line.as_bytes(), "the whole answer");
    let body = reply.body();
    let body = std::str::from_utf8(&body).unwrap();
    assert!(line.ends_with(&format!("\"result\":{body}}}")));
    for part in ["_meta", "x-vendor", "structuredContent", "12345678901234567890", "x-hint"] {
        assert!(body.contains(part), "{part} is missing: {body}");
    }
    let resource = host.catalog("s").resources.items[0].clone();
    assert!(std::str::from_utf8(&resource.raw).unwrap().contains(r#""x-vendor":{"kept":true}"#));
    host.end().await;
}

#[tokio::test]
async fn an_error_keeps_its_code_message_and_data() {
    let host = Host::of(&bad::flags("B110")).await;
    let reply = host.call("s", "echo", &json!({"text": "x"})).await.unwrap();
    assert!(reply.is_error);
    let line = sent(&host, r#""error":"#);
    assert_eq!(reply.frame, line.as_bytes());
    let body = reply.body();
    assert!(line.ends_with(&format!("\"error\":{}}}", std::str::from_utf8(&body).unwrap())));
    let body: Value = serde_json::from_slice(&body).unwrap();
    let expected = json!({"code": -32042, "message": "badmcp answers with error -32042", "data": {"k": 1}});
    assert_eq!(body, expected, "wrapped by nobody");

    // Our own refusals have codes of their own and name the server once.
    let error = host.call("s", "no-such-tool", &json!({})).await.unwrap_err();
    assert_eq!(error.message, "s has no tool called no-such-tool");
    assert_ne!(i64::from(error.code.json_rpc()), -32042);
    host.end().await;
}
