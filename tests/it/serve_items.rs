//! Resources, prompts, completion, subscriptions, log levels and tasks of several servers through the
//! host, and an independent client.

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use serde_json::{Value, json};

use callboard::serve::{Caller, ClientEra, stdio};

use crate::serve_protocol::echo;
use crate::support::client::{Raw, host, said};
use crate::support::{Fleet, Script, Tape, Wire, good, idle, method_of, spec};

/// A server with everything, that says its name in what it answers.
fn rich(name: &'static str) -> impl Script {
    move |message: &Value, wire: &Wire| {
        let params = &message["params"];
        let result = match method_of(message) {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {
                    "tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {},
                    "tasks": {"requests": {"tools": {"call": {}}}},
                },
                "serverInfo": {"name": name, "version": "1"},
                "instructions": format!("how to use {name}"),
            }),
            "tools/list" => json!({"tools": [{"name": "job", "inputSchema": {"type": "object"}}]}),
            "resources/list" => json!({"resources": [
                {"uri": format!("{name}://one"), "name": "one"}, {"uri": "shared://one", "name": "one"},
            ]}),
            "resources/templates/list" => json!({"resourceTemplates": [
                {"uriTemplate": format!("{name}://item/{{id}}"), "name": "item"},
            ]}),
            "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
            "resources/read" => json!({"contents": [{"uri": params["uri"], "text": name}]}),
            "prompts/get" => json!({"messages": [], "description": format!("{name} {}", params["name"])}),
            "completion/complete" => json!({"completion": {"values": [name, params["ref"].to_string()]}}),
            "tools/call" => json!({"task": {"taskId": "t-1", "status": "working"}}),
            "tasks/get" => json!({"taskId": params["taskId"], "status": name}),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "ping" => json!({}),
            _ => return,
        };
        wire.result(message, &result.to_string());
    }
}

fn rich_two(tapes: (&Tape, &Tape)) -> Fleet {
    Fleet::default().with(trusted("a"), tapes.0.of(rich("a"))).with(trusted("b"), tapes.1.of(rich("b")))
}

fn trusted(name: &str) -> callboard::config::spec::ServerSpec {
    let mut spec = spec(name);
    spec.trust = callboard::config::spec::Trust::Trusted;
    spec
}

#[tokio::test(start_paused = true)]
async fn resources_and_prompts_find_their_server() {
    let host = host(rich_two((&Tape::default(), &Tape::default())), |_| {}).await;
    let mut client = Raw::attach(&host);
    let welcome = client.welcome(json!({})).await;
    let instructions = welcome["instructions"].as_str().unwrap();
    assert_eq!(instructions, "# Server a\nhow to use a\n\n# Server b\nhow to use b");
    assert_eq!(welcome["capabilities"]["resources"]["subscribe"], true);
    let listed = client.ask("resources/list", json!({})).await;
    let uris: Vec<&Value> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|r| &r["uri"]).collect();
    assert_eq!(uris, ["a://one", "shared://one", "b://one"], "two owners of one URI: the first by name");
    for (uri, owner) in [("a://one", "a"), ("b://one", "b"), ("shared://one", "a"), ("b://item/7", "b")] {
        let read = client.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"][0], json!({"uri": uri, "text": owner}));
    }
    assert_eq!(
        client.ask("resources/read", json!({"uri": "c://one"})).await["error"]["data"]["uri"],
        "c://one"
    );
    let prompts = client.ask("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"], json!([{"name": "a__greet"}, {"name": "b__greet"}]));
    let got = client.ask("prompts/get", json!({"name": "b__greet"})).await;
    assert_eq!(got["result"]["description"], "b \"greet\"");
    let reference = json!({"type": "ref/prompt", "name": "b__greet", "x": 1.0});
    let params = json!({"ref": reference, "argument": {"name": "n", "value": "v"}});
    let completed = client.ask("completion/complete", params).await;
    assert_eq!(
        completed["result"]["completion"]["values"],
        json!(["b", r#"{"type":"ref/prompt","name":"greet","x":1.0}"#])
    );
    let params = json!({"ref": {"type": "ref/resource", "uri": "a://item/{id}"}, "argument": {"name": "id", "value": ""}});
    assert_eq!(client.ask("completion/complete", params).await["result"]["completion"]["values"][0], "a");
}

#[tokio::test(start_paused = true)]
async fn updates_reach_those_who_subscribed_and_the_server_is_told_when_the_last_one_leaves() {
    let (a, b) = (Tape::default(), Tape::default());
    let wires: std::sync::Arc<std::sync::Mutex<Option<Wire>>> = std::sync::Arc::default();
    let kept = wires.clone();
    let inner = rich("a");
    let script = move |message: &Value, wire: &Wire| {
        *kept.lock().unwrap() = Some(wire.clone());
        inner(message, wire);
    };
    let fleet = Fleet::default().with(trusted("a"), a.of(script)).with(trusted("b"), b.of(rich("b")));
    let host = host(fleet, |_| {}).await;
    let mut one = Raw::legacy(&host, json!({})).await;
    let mut two = Raw::legacy(&host, json!({})).await;
    let mut none = Raw::legacy(&host, json!({})).await;
    let uri = json!({"uri": "a://one"});
    for client in [&mut one, &mut two] {
        assert_eq!(client.ask("resources/subscribe", uri.clone()).await["result"], json!({}));
    }
    let update = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://one", "x": [1.10]}});
    wires.lock().unwrap().as_ref().unwrap().line(update.to_string());
    for client in [&mut one, &mut two] {
        client.told("notifications/resources/updated").await;
        assert_eq!(client.line, update.to_string(), "byte for byte");
    }
    assert_eq!(one.ask("resources/unsubscribe", uri.clone()).await["result"], json!({}));
    idle().await;
    assert_eq!(a.received("resources/unsubscribe").len(), 0, "another follows it");
    two.hang_up().await;
    assert_eq!(two.read().await, None);
    idle().await;
    assert_eq!(a.received("resources/unsubscribe").len(), 1);
    assert!(b.received("resources/subscribe").is_empty());
    none.ask("ping", json!({})).await;
    assert!(none.aside.is_empty());
}

#[tokio::test(start_paused = true)]
async fn servers_are_asked_for_the_lowest_level_and_each_client_hears_its_own() {
    let (a, b) = (Tape::default(), Tape::default());
    let wires: std::sync::Arc<std::sync::Mutex<Option<Wire>>> = std::sync::Arc::default();
    let (kept, inner) = (wires.clone(), rich("a"));
    let script = move |message: &Value, wire: &Wire| {
        *kept.lock().unwrap() = Some(wire.clone());
        inner(message, wire);
    };
    let fleet = Fleet::default().with(trusted("a"), a.of(script)).with(trusted("b"), b.of(rich("b")));
    let host = host(fleet, |_| {}).await;
    let mut loud = Raw::legacy(&host, json!({})).await;
    let mut calm = Raw::legacy(&host, json!({})).await;
    assert_eq!(calm.ask("logging/setLevel", json!({"level": "error"})).await["result"], json!({}));
    loud.ask("logging/setLevel", json!({"level": "debug"})).await;
    idle().await;
    for tape in [&a, &b] {
        let levels: Vec<Value> =
            tape.received("logging/setLevel").iter().map(|m| m["params"]["level"].clone()).collect();
        assert_eq!(levels, ["error", "debug"]);
    }
    for level in ["info", "critical"] {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": 1}});
        wires.lock().unwrap().as_ref().unwrap().line(note.to_string());
    }
    assert_eq!(loud.told("notifications/message").await["params"]["level"], "info");
    assert_eq!(loud.told("notifications/message").await["params"]["level"], "critical");
    assert_eq!(calm.told("notifications/message").await["params"]["level"], "critical");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_found_by_the_client_that_made_it_and_by_nobody_else() {
    let host = host(rich_two((&Tape::default(), &Tape::default())), |_| {}).await;
    let mut one = Raw::legacy(&host, json!({})).await;
    let mut two = Raw::legacy(&host, json!({})).await;
    one.ask("tools/call", json!({"name": "a__job", "task": {}})).await;
    two.ask("tools/call", json!({"name": "b__job", "task": {}})).await;
    let id = json!({"taskId": "t-1"});
    assert_eq!(one.ask("tasks/get", id.clone()).await["result"]["status"], "a");
    assert_eq!(two.ask("tasks/get", id.clone()).await["result"]["status"], "b");
    let mut three = Raw::legacy(&host, json!({})).await;
    assert_eq!(three.ask("tasks/get", id).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_listens_and_hears_changes_under_its_own_id() {
    let wires: std::sync::Arc<std::sync::Mutex<Option<Wire>>> = std::sync::Arc::default();
    let (kept, more) = (wires.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let grown = more.clone();
    let script = move |message: &Value, wire: &Wire| {
        *kept.lock().unwrap() = Some(wire.clone());
        if method_of(message) == "tools/list" && grown.load(std::sync::atomic::Ordering::SeqCst) {
            wire.result(message, r#"{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}"#);
        } else {
            good(message, wire);
        }
    };
    let host = host(Fleet::default().with(spec("s"), script), |_| {}).await;
    let mut client = Raw::attach(&host);
    client.ask_modern("tools/list", json!({})).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wants = json!({"toolsListChanged": true});
    client.request("sub", "subscriptions/listen", json!({"_meta": meta, "notifications": wants})).await;
    let heard = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(heard["params"]["notifications"], wants);
    idle().await;
    more.store(true, std::sync::atomic::Ordering::SeqCst);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    wires.lock().unwrap().as_ref().unwrap().line(note.to_string());
    let changed = client.told("notifications/tools/list_changed").await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
}

#[tokio::test]
async fn an_independent_client_gets_on_with_the_host() {
    let host = host(Fleet::default().with(spec("s"), echo()), |_| {}).await;
    let client = host.open(Caller::same_user(), ClientEra::Open);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(theirs);
    let carried = tokio::spawn(async move { stdio::carry(&client, input, output, 16 << 20).await });
    let config = ClientConfig::default().with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let peer = config.serve(ours).await.unwrap();
    let tools = peer.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 2);
    let arguments = json!({"x": 1}).as_object().unwrap().clone();
    let result =
        peer.call_tool(CallToolRequestParams::new("s__echo").with_arguments(arguments)).await.unwrap();
    let result = serde_json::to_value(&result).unwrap();
    assert_eq!(said(&json!({"result": result})), r#"{"x":1}"#);
    peer.cancel().await.unwrap();
    assert_eq!(carried.await.unwrap(), stdio::End::Eof);
}
