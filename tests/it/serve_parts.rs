//! Clients of one host that have different parts of it: what each sees, is told and may do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use callboard::config::mode::Mode;
use callboard::config::spec::{EntryState, ServerSpec, ToolFilter};
use callboard::id::ServerId;
use callboard::serve::{Caller, ClientEra, Host, HostPlan, Identity, Part, Reach, ServeSettings};
use serde_json::{Value, json};

use crate::support::client::{Raw, said};
use crate::support::{Fleet, Wire, good, method_of, spec};

/// A host with two servers called `s`, and one called `t`; each of `s` answers with what it is.
async fn host(wires: &Arc<Mutex<Vec<Wire>>>) -> Arc<Host> {
    let script = |what: &'static str, wires: Option<Arc<Mutex<Vec<Wire>>>>| {
        move |message: &Value, wire: &Wire| {
            if method_of(message) == "tools/call" {
                let result = json!({"content": [{"type": "text", "text": what}]});
                return wire.result(message, &result.to_string());
            }
            if method_of(message) == "tools/list"
                && let Some(wires) = &wires
            {
                wires.lock().unwrap().push(wire.clone());
            }
            good(message, wire);
        }
    };
    let fleet = Fleet::default()
        .with(spec("s"), script("first", None))
        .with(spec("s2"), script("second", Some(wires.clone())))
        .with(spec("t"), script("third", None));
    let mut plan = fleet.into_plan();
    let second = ServerId::new("s").instance(2);
    for entry in &mut plan.servers.entries {
        if entry.id.as_str() == "s2" {
            entry.id = second.clone();
            if let EntryState::Ready(spec) = &mut entry.state {
                Arc::make_mut(spec).id = second.clone();
            }
        }
    }
    if let Some(peer) = plan.in_process.remove(&ServerId::new("s2")) {
        plan.in_process.insert(second, peer);
    }
    Host::start(HostPlan::with(plan, ServeSettings::default())).await.unwrap()
}

fn part(ids: &[ServerId]) -> Part {
    let servers: BTreeMap<ServerId, ToolFilter> =
        ids.iter().map(|id| (id.clone(), ToolFilter::default())).collect();
    Part {
        reach: Reach::These(servers),
        settings: ServeSettings::default(),
        reserved: Vec::new(),
        mode: None,
    }
}

async fn client(host: &Arc<Host>, part: Part) -> Raw {
    let client = host.open_part(Caller::same_user(), ClientEra::Open, part);
    let mut raw = Raw::over(client);
    raw.welcome(json!({})).await;
    raw
}

async fn names(client: &mut Raw) -> Vec<String> {
    let listed = client.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn ids() -> [ServerId; 3] {
    [ServerId::new("s"), ServerId::new("s").instance(2), ServerId::new("t")]
}

#[tokio::test(start_paused = true)]
async fn two_servers_of_one_name_answer_each_its_own_client() {
    let host = host(&Arc::default()).await;
    let [one, two, other] = ids();
    let mut first = client(&host, part(&[one.clone(), other])).await;
    let mut second = client(&host, part(&[two])).await;
    let mut third = client(&host, part(&[one])).await;
    assert!(names(&mut first).await.iter().any(|name| name.starts_with("t__")));
    for (client, what) in [(&mut first, "first"), (&mut second, "second"), (&mut third, "first")] {
        assert!(names(client).await.contains(&"s__echo".to_owned()));
        let answer = client.ask("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
        assert_eq!(said(&answer), what);
    }
    for name in ["t__echo", "s/2__echo"] {
        let answer = second.ask("tools/call", json!({"name": name, "arguments": {}})).await;
        assert_eq!(answer["error"]["code"], -32602, "there is no {name} for it: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap().contains("mean t__"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_of_changes_of_its_own_servers_only() {
    let wires = Arc::default();
    let host = host(&wires).await;
    let [one, two, _] = ids();
    let (mut first, mut second) = (client(&host, part(&[one])).await, client(&host, part(&[two])).await);
    let _ = (names(&mut first).await, names(&mut second).await);
    let message = json!({"level": "error", "data": "x"});
    let wire = wires.lock().unwrap().last().unwrap().clone();
    wire.line(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": message}).to_string());
    second.told("notifications/message").await;
    assert_eq!(first.ask("ping", json!({})).await["result"], json!({}));
    assert!(first.aside.is_empty(), "{:?}", first.aside);
}

#[tokio::test(start_paused = true)]
async fn a_clients_own_mode_holds_for_its_own_calls_alone() {
    let host = host(&Arc::default()).await;
    let [one, ..] = ids();
    let strict = Part { mode: Some(Mode::Plan), ..part(std::slice::from_ref(&one)) };
    let (mut strict, mut free) = (client(&host, strict).await, client(&host, part(&[one])).await);
    let call = json!({"name": "s__echo", "arguments": {}});
    assert_eq!(strict.ask("tools/call", call.clone()).await["result"]["isError"], true);
    assert_eq!(said(&free.ask("tools/call", call).await), "first");
}

#[tokio::test(start_paused = true)]
async fn what_acts_as_one_person_is_for_that_person_alone() {
    let script = |message: &Value, wire: &Wire| {
        if method_of(message) == "tools/call" {
            return wire.result(message, r#"{"content":[]}"#);
        }
        good(message, wire);
    };
    let personal = ServerSpec { is_personal: true, ..spec("mine") };
    let fleet = Fleet::default().with(personal, script).with(spec("s"), script);
    let host = Host::start(HostPlan::with(fleet.into_plan(), ServeSettings::default())).await.unwrap();
    let mut me = Raw::legacy(&host, json!({})).await;
    let token = Caller { identity: Identity::Token("ci".into()), ..Caller::same_user() };
    let mut other = Raw::attach_as(&host, token);
    other.welcome(json!({})).await;
    let (mine, others) = (names(&mut me).await, names(&mut other).await);
    assert!(mine.iter().any(|name| name.starts_with("mine__")) && mine.contains(&"s__echo".to_owned()));
    assert!(!others.iter().any(|name| name.starts_with("mine__")) && others.contains(&"s__echo".to_owned()));
    let call = json!({"name": "mine__echo", "arguments": {}});
    assert_eq!(other.ask("tools/call", call.clone()).await["error"]["code"], -32602);
    assert_eq!(me.ask("tools/call", call).await["result"]["content"], json!([]));
    assert_eq!(names(&mut other).await, others);
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_part_changes_is_told_and_goes_by_it() {
    let host = host(&Arc::default()).await;
    let [one, two, other] = ids();
    let (mut first, mut second) =
        (client(&host, part(&[one])).await, client(&host, part(std::slice::from_ref(&two))).await);
    let _ = (names(&mut first).await, names(&mut second).await);
    first.client.becomes(part(&[two, other]));
    first.told("notifications/tools/list_changed").await;
    let answer = first.ask("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
    assert_eq!(said(&answer), "second");
    assert!(names(&mut first).await.iter().any(|name| name.starts_with("t__")));
    assert_eq!(second.ask("ping", json!({})).await["result"], json!({}));
    assert!(second.aside.is_empty(), "nobody else is told: {:?}", second.aside);
}
