//! Resources that clients follow: asked for once, again after a restart, and told to exactly those who
//! follow them; what a modern server on a pipe is listened to for.

use std::sync::{Arc, Mutex};

use callboard::config::mode::Mode;
use callboard::config::spec::{Protocol, ServerSpec, Trust};
use callboard::serve::Caller;
use serde_json::{Value, json};

use crate::support::client::{Raw, host, said};
use crate::support::{Fleet, Tape, Wire, idle, method_of, spec};

type Wires = Arc<Mutex<Option<Wire>>>;

const META: &str = "io.modelcontextprotocol/subscriptionId";

fn trusted(name: &str) -> ServerSpec {
    ServerSpec { trust: Trust::Trusted, ..spec(name) }
}

/// A legacy server with one resource, which refuses to be followed at `no:/a`.
fn legacy(kept: Wires) -> impl Fn(&Value, &Wire) + Send + Sync + 'static {
    move |message: &Value, wire: &Wire| {
        *kept.lock().unwrap() = Some(wire.clone());
        let result = match method_of(message) {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
                "capabilities": {"tools": {}, "resources": {"subscribe": true}},
            }),
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "resources/list" => {
                json!({"resources": [{"uri": "mem:/a", "name": "a"}, {"uri": "no:/a", "name": "n"}]})
            }
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "resources/subscribe" if message["params"]["uri"] == "no:/a" => {
                let error = json!({"code": -32055, "message": "not this one"});
                wire.line(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
                return;
            }
            "resources/subscribe" | "resources/unsubscribe" => json!({}),
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            _ => return,
        };
        wire.result(message, &result.to_string());
    }
}

fn tell(wires: &Wires, method: &str, params: &Value) {
    let note = json!({"jsonrpc": "2.0", "method": method, "params": params});
    wires.lock().unwrap().as_ref().unwrap().line(note.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_asked_for_once_and_again_on_every_new_connection() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let host = host(Fleet::default().with(trusted("s"), tape.of(legacy(wires.clone()))), |_| {}).await;
    let mut one = Raw::legacy(&host, json!({})).await;
    let mut two = Raw::legacy(&host, json!({})).await;
    for client in [&mut one, &mut two] {
        assert_eq!(client.ask("resources/subscribe", json!({"uri": "mem:/a"})).await["result"], json!({}));
    }
    assert_eq!(tape.received("resources/subscribe").len(), 1);
    wires.lock().unwrap().take().unwrap().hang_up();
    for _ in 0..100 {
        if tape.received("resources/subscribe").len() > 1 {
            break;
        }
        idle().await;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(tape.received("resources/subscribe").len(), 2, "the new connection knows of it");
    tell(&wires, "notifications/resources/updated", &json!({"uri": "mem:/a"}));
    for client in [&mut one, &mut two] {
        client.told("notifications/resources/updated").await;
    }
    drop((one, two));
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_is_told_and_nothing_is_left_of_it() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let host = host(Fleet::default().with(trusted("s"), tape.of(legacy(wires.clone()))), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    for _ in 0..2 {
        let answer = client.ask("resources/subscribe", json!({"uri": "no:/a"})).await;
        assert_eq!(answer["error"]["code"], -32055, "{answer}");
    }
    tell(&wires, "notifications/resources/updated", &json!({"uri": "no:/a"}));
    client.hang_up().await;
    idle().await;
    assert_eq!(tape.received("resources/unsubscribe").len(), 0);
    assert!(client.aside.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_listen_of_one_client_is_told_under_its_own_id_until_it_ends() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let host = host(Fleet::default().with(trusted("s"), tape.of(legacy(wires.clone()))), |_| {}).await;
    let mut client = Raw::attach(&host);
    client.ask_modern("tools/list", json!({})).await;
    for id in ["one", "two"] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"_meta": meta, "notifications": {"resourceSubscriptions": ["mem:/a"]}});
        client.request(id, "subscriptions/listen", params).await;
        client.told("notifications/subscriptions/acknowledged").await;
    }
    tell(&wires, "notifications/resources/updated", &json!({"uri": "mem:/a"}));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let told = client.told("notifications/resources/updated").await;
        ids.push(told["params"]["_meta"][META].as_str().unwrap().to_owned());
    }
    ids.sort();
    assert_eq!(ids, ["one", "two"]);
    let over = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "one"}});
    client.send(&over).await;
    idle().await;
    assert_eq!(tape.received("resources/unsubscribe").len(), 0, "the other one goes on");
    tell(&wires, "notifications/resources/updated", &json!({"uri": "mem:/a"}));
    assert_eq!(client.told("notifications/resources/updated").await["params"]["_meta"][META], "two");
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_a_task_or_is_unknown_reaches_no_client_of_another_identity() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let host = host(Fleet::default().with(trusted("s"), tape.of(legacy(wires.clone()))), |_| {}).await;
    let mut mine = Raw::legacy(&host, json!({})).await;
    let told = |method: &str, params: Value| tell(&wires, method, &params);
    told("notifications/x/y", json!({"n": 1}));
    assert_eq!(mine.told("notifications/x/y").await["params"]["n"], 1, "nobody else is here");
    let token = callboard::serve::Identity::Token("ci".into());
    let mut other = Raw::attach_as(&host, Caller { identity: token, ..Caller::same_user() });
    other.welcome(json!({})).await;
    told("notifications/x/y", json!({"n": 2}));
    told("notifications/tasks/status", json!({"taskId": "t", "status": "working"}));
    told("notifications/elicitation/complete", json!({"elicitationId": "e"}));
    idle().await;
    for client in [&mut mine, &mut other] {
        client.ask("ping", json!({})).await;
        assert!(client.aside.is_empty(), "{:?}", client.aside);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_on_a_pipe_is_listened_to_for_its_lists() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let kept = wires.clone();
    let script = move |message: &Value, wire: &Wire| {
        *kept.lock().unwrap() = Some(wire.clone());
        let result = match method_of(message) {
            "server/discover" => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}},
            }),
            "tools/list" => json!({
                "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private", "tools": [],
            }),
            "subscriptions/listen" => {
                let meta = json!({META: message["id"]});
                for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
                {
                    let params = json!({"_meta": meta, "notifications": message["params"]["notifications"]});
                    wire.line(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
                }
                return;
            }
            _ => return,
        };
        wire.result(message, &result.to_string());
    };
    let mut of_server = trusted("s");
    of_server.protocol = Protocol::Modern;
    let host = host(Fleet::default().with(of_server, tape.of(script)), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    client.ask("tools/list", json!({})).await;
    for _ in 0..20 {
        idle().await;
        tokio::time::advance(std::time::Duration::from_millis(500)).await;
    }
    let streams = tape.received("subscriptions/listen");
    assert_eq!(streams.len(), 1);
    assert_eq!(streams[0]["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(tape.received("tools/list").len(), 2, "it said that they changed");
}

#[tokio::test(start_paused = true)]
async fn a_mode_of_a_client_is_stricter_than_the_hosts_and_never_looser() {
    let (wires, tape) = (Wires::default(), Tape::default());
    let mut of_server = trusted("s");
    of_server.allow_all_tools = true;
    let host = host(Fleet::default().with(of_server, tape.of(legacy(wires))), |_| {}).await;
    for (mode, runs) in [(None, true), (Some(Mode::Plan), false), (Some(Mode::Auto), true)] {
        let mut client = Raw::attach_as(&host, Caller { mode, ..Caller::same_user() });
        client.welcome(json!({})).await;
        let answer = client.ask("tools/call", json!({"name": "s__t", "arguments": {}})).await;
        assert_eq!(answer["result"]["isError"] != true, runs, "{mode:?}: {}", said(&answer));
    }
    assert_eq!(tape.received("tools/call").len(), 2);
}
