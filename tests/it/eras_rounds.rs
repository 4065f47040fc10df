//! Calls of several rounds across eras: a server that asks its client something in the middle of a call,
//! and one that asks by its result, with clients of either era. Raw frames over the stdio edge.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::config::spec::{Protocol, ServerSpec};
use callboard::serve::{Caller, ClientEra, Host, Identity, Leave, Outgoing, ServeSettings, Sink};
use serde_json::{Value, json};

use crate::support::client::{Raw, host, said};
use crate::support::{Fleet, Script, Tape, Wire, good, idle, method_of, modern, spec};

const TTL: Duration = Duration::from_secs(60);

fn elicit(id: &str, message: &str) -> String {
    // Spelled in a way that no JSON library would write again.
    format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"elicitation/create","params":{{"message":"{message}","n":1.00,"requestedSchema":{{"type":"object","properties":{{}}}}}}}}"#
    )
}

/// A legacy server that asks one question after the other, as many as the argument `ask` says at once, until
/// `rounds` of them were answered, and then says what it heard.
fn asking() -> impl Script {
    let state: Arc<Mutex<(Value, Vec<Value>)>> = Arc::default();
    move |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        let mut state = state.lock().unwrap();
        if method_of(message) == "tools/call" {
            *state = (message.clone(), Vec::new());
            let count = message["params"]["arguments"]["ask"].as_u64().unwrap_or(1);
            for n in 0..count {
                wire.line(elicit(&format!("e{n}"), "who?"));
            }
        } else if message.get("method").is_none() {
            state.1.push(message.clone());
            let wanted = &state.0["params"]["arguments"];
            let ask = wanted["ask"].as_u64().unwrap_or(1) as usize;
            let all = ask * wanted["rounds"].as_u64().unwrap_or(1) as usize;
            if state.1.len() == all {
                let text = Value::from(state.1.clone()).to_string();
                let result = json!({"content": [{"type": "text", "text": text}], "x": 1});
                wire.result(&state.0, &result.to_string());
            } else if state.1.len().is_multiple_of(ask) {
                for n in 0..ask {
                    wire.line(elicit(&format!("r{}-{n}", state.1.len()), "and?"));
                }
            }
        }
    }
}

async fn legacy_host(tape: &Tape) -> Arc<Host> {
    let fleet = Fleet::default().with(spec("s"), tape.of(asking()));
    host(fleet, |settings: &mut ServeSettings| settings.park_ttl = TTL).await
}

/// Asks as a client of the modern era that can be asked.
async fn call(client: &mut Raw, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    client.ask("tools/call", params).await
}

fn answers(asked: &Value, with: &Value) -> Value {
    let requests =
        asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("no round: {asked}"));
    requests.keys().map(|key| (key.clone(), with.clone())).collect::<serde_json::Map<_, _>>().into()
}

fn again(arguments: &Value, asked: &Value, with: &Value) -> Value {
    json!({"name": "s__echo", "arguments": arguments, "inputResponses": answers(asked, with),
        "requestState": asked["result"]["requestState"]})
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_answers_a_legacy_server_in_rounds_and_the_bytes_pass() {
    let host = legacy_host(&Tape::default()).await;
    let mut client = Raw::attach(&host);
    let arguments = json!({"ask": 3, "rounds": 2});
    let mut asked = call(&mut client, json!({"name": "s__echo", "arguments": arguments})).await;
    let mut states = vec![asked["result"]["requestState"].clone()];
    assert_eq!(asked["result"]["resultType"], "input_required");
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().len(), 3, "those of one moment");
    assert!(client.line.contains(r#""params":{"message":"who?","n":1.00,"#), "{}", client.line);
    assert_eq!(client.client.running(), 0, "the request itself is over");
    asked = call(&mut client, again(&arguments, &asked, &accept("one"))).await;
    states.push(asked["result"]["requestState"].clone());
    let done = call(&mut client, again(&arguments, &asked, &accept("two"))).await;
    assert_eq!((&done["result"]["resultType"], &done["result"]["x"]), (&json!("complete"), &json!(1)));
    let heard: Vec<Value> = serde_json::from_str(said(&done)).unwrap();
    let ids: Vec<&str> = heard.iter().map(|answer| answer["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e0", "e1", "e2", "r3-0", "r3-1", "r3-2"], "under the server's own ids, once each");
    assert_eq!((&heard[0]["result"], &heard[5]["result"]), (&accept("one"), &accept("two")));
    assert_ne!(states[0], states[1], "each round has a state of its own");
    assert!(states.iter().all(|state| state.as_str().unwrap().len() * 4 >= 128));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_reports_while_a_call_is_parked_costs_no_question() {
    let kept: Arc<Mutex<Option<(Value, Wire)>>> = Arc::default();
    let state = kept.clone();
    let answered: Arc<Mutex<Vec<Value>>> = Arc::default();
    let heard = answered.clone();
    let script = move |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        if method_of(message) == "tools/call" {
            *state.lock().unwrap() = Some((message.clone(), wire.clone()));
            wire.line(elicit("first", "who?"));
        } else if message.get("method").is_none() {
            let mut heard = heard.lock().unwrap();
            heard.push(message["id"].clone());
            if heard.len() == 2 {
                let call = &state.lock().unwrap().clone().unwrap().0;
                wire.result(call, r#"{"content":[{"type":"text","text":"both"}]}"#);
            }
        }
    };
    let fleet = Fleet::default().with(spec("s"), script);
    let host = host(fleet, |settings: &mut ServeSettings| settings.park_ttl = TTL).await;
    let mut client = Raw::attach(&host);
    let arguments = json!({});
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": arguments})).await;
    let (request, wire) = kept.lock().unwrap().clone().unwrap();
    for n in 0..500 {
        let token = &request["params"]["_meta"]["progressToken"];
        wire.line(
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
                .to_string(),
        );
    }
    idle().await;
    wire.line(elicit("second", "and?"));
    idle().await;
    let second = call(&mut client, again(&arguments, &asked, &accept("a"))).await;
    let done = call(&mut client, again(&arguments, &second, &accept("b"))).await;
    assert_eq!(said(&done), "both");
    assert_eq!(*answered.lock().unwrap(), [json!("first"), json!("second")]);
}

#[tokio::test(start_paused = true)]
async fn questions_that_a_client_leaves_open_are_put_again() {
    let host = legacy_host(&Tape::default()).await;
    let mut client = Raw::attach(&host);
    let arguments = json!({"ask": 2});
    let first = call(&mut client, json!({"name": "s__echo", "arguments": arguments})).await;
    let mut params = again(&arguments, &first, &accept("a"));
    let half = params["inputResponses"].as_object_mut().unwrap();
    let key = half.keys().next().unwrap().clone();
    half.remove(&key);
    let second = call(&mut client, params).await;
    assert_eq!(second["result"]["inputRequests"].as_object().unwrap().len(), 1, "{second}");
    let done = call(&mut client, again(&arguments, &second, &accept("b"))).await;
    assert_eq!(serde_json::from_str::<Vec<Value>>(said(&done)).unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_state_serves_only_its_owner_and_its_call_and_only_once() {
    let tape = Tape::default();
    let host = legacy_host(&tape).await;
    let (mut client, mut other) = (Raw::attach(&host), Raw::attach(&host));
    let arguments = json!({"x": 1});
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": arguments})).await;
    let right = again(&arguments, &asked, &accept("a"));
    assert_eq!(code(&call(&mut other, right.clone()).await), -32602, "somebody else's");
    let changed = [
        ("requestState", json!("0".repeat(48))),
        ("requestState", json!("")),
        ("requestState", json!(7)),
        ("arguments", json!({"x": 2})),
        ("name", json!("s__other")),
    ];
    for (key, value) in changed {
        let mut wrong = right.clone();
        wrong[key] = value;
        let refused = call(&mut client, wrong.clone()).await;
        assert_eq!(code(&refused), -32602, "{wrong}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("requestState"), "{refused}");
    }
    let mut stateless = right.clone();
    stateless.as_object_mut().unwrap().remove("requestState");
    assert_eq!(code(&call(&mut client, stateless).await), -32602);
    assert_eq!(tape.received("tools/call").len(), 1, "nothing of this reached the server");
    let done = call(&mut client, right.clone()).await;
    assert_eq!(done["result"]["resultType"], "complete", "the right one still serves: {done}");
    assert_eq!(code(&call(&mut client, right).await), -32602, "once");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_ends_at_its_time_and_its_server_is_told() {
    let tape = Tape::default();
    let host = legacy_host(&tape).await;
    let mut client = Raw::attach(&host);
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": {}})).await;
    tokio::time::advance(TTL - Duration::from_secs(1)).await;
    idle().await;
    assert!(tape.received("notifications/cancelled").is_empty());
    tokio::time::advance(Duration::from_secs(2)).await;
    idle().await;
    assert_eq!(tape.received("notifications/cancelled").len(), 1);
    let late = call(&mut client, again(&json!({}), &asked, &accept("a"))).await;
    assert_eq!(code(&late), -32602, "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_ends_with_the_connection_of_its_client() {
    let tape = Tape::default();
    let host = legacy_host(&tape).await;
    let mut client = Raw::attach(&host);
    call(&mut client, json!({"name": "s__echo", "arguments": {}})).await;
    assert!(tape.received("notifications/cancelled").is_empty());
    client.hang_up().await;
    let _ = client.carried.await;
    idle().await;
    assert_eq!(tape.received("notifications/cancelled").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_that_can_not_be_asked_gets_a_result_and_the_server_a_refusal() {
    let tape = Tape::default();
    let host = legacy_host(&tape).await;
    let mut client = Raw::attach(&host);
    let done = client.ask_modern("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
    let heard: Vec<Value> = serde_json::from_str(said(&done)).unwrap();
    assert_eq!(heard[0]["result"], json!({"action": "decline"}), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_came_while_the_call_was_parked_is_given_to_who_comes_back() {
    let held: Arc<Mutex<Option<(Value, Wire)>>> = Arc::default();
    let theirs = held.clone();
    let script = move |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            *theirs.lock().unwrap() = Some((message.clone(), wire.clone()));
            wire.line(elicit("e", "who?"));
        }
    };
    let host = host(Fleet::default().with(spec("s"), script), |_| {}).await;
    let mut client = Raw::attach(&host);
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let (message, wire) = held.lock().unwrap().take().unwrap();
    wire.result(&message, r#"{"content":[{"type":"text","text":"without you"}]}"#);
    idle().await;
    let done = call(&mut client, again(&json!({}), &asked, &accept("a"))).await;
    assert_eq!(said(&done), "without you");
}

fn modern_spec() -> ServerSpec {
    ServerSpec { protocol: Protocol::Modern, ..spec("s") }
}

/// A modern server that asks by its result until it was answered `rounds` times; its state is spelled
/// in a way that no JSON library would write again.
fn asks_by_result(rounds: usize, requests: &str) -> impl Script {
    let requests = requests.to_owned();
    move |message: &Value, wire: &Wire| {
        if method_of(message) != "tools/call" {
            return modern(message, wire);
        }
        let state = message["params"]["requestState"].as_str().unwrap_or("round-0").to_owned();
        let round: usize = state.strip_prefix("round-").unwrap().parse().unwrap();
        if round < rounds {
            let next = format!(r#""\u0072ound-{}""#, round + 1);
            wire.result(
                message,
                &format!(
                    r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{next}}}"#
                ),
            );
        } else {
            let text = message["params"]["inputResponses"].to_string();
            let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
            wire.result(message, &result.to_string());
        }
    }
}

const WHO: &str = r#"{"w\u0068o":{"method":"elicitation/create","params":{"message":"who?","n":1.00,"requestedSchema":{"type":"object","properties":{}}}}}"#;

#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_asked_what_a_modern_server_asks_by_its_result() {
    let tape = Tape::default();
    let requests = format!(r#"{},"files":{{"method":"roots/list"}}}}"#, WHO.strip_suffix('}').unwrap());
    let fleet = Fleet::default().with(modern_spec(), tape.of(asks_by_result(2, &requests)));
    let host = host(fleet, |_| {}).await;
    let mut client = Raw::legacy(&host, json!({"elicitation": {}, "roots": {}})).await;
    client.request(1, "tools/call", json!({"name": "s__echo", "arguments": {"a": 1}})).await;
    for round in ["one", "two"] {
        let asked = client.told("elicitation/create").await;
        assert_eq!(asked["params"]["message"], "who?");
        let roots = client.told("roots/list").await;
        client.send(&json!({"jsonrpc": "2.0", "id": roots["id"], "result": {"roots": []}})).await;
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": accept(round)})).await;
    }
    let done = client.answer(1).await;
    assert!(done["result"].get("resultType").is_none(), "{done}");
    let heard: Value = serde_json::from_str(said(&done)).unwrap();
    assert_eq!(heard, json!({"who": accept("two"), "files": {"roots": []}}));
    let calls = tape.received("tools/call");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call["params"]["arguments"] == json!({"a": 1})));
    assert_eq!(calls[2]["params"]["requestState"], "round-2");
    let can = &calls[0]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(can, &json!({"elicitation": {}, "roots": {}}), "the server hears what this client can");
}

#[tokio::test(start_paused = true)]
async fn what_a_legacy_client_can_not_answer_is_declined_or_ends_the_call() {
    for (requests, answered) in
        [(WHO, true), (r#"{"s":{"method":"sampling/createMessage","params":{}}}"#, false)]
    {
        let fleet = Fleet::default().with(modern_spec(), asks_by_result(1, requests));
        let host = host(fleet, |_| {}).await;
        let mut client = Raw::legacy(&host, json!({})).await;
        let done = client.ask("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
        if answered {
            let heard: Value = serde_json::from_str(said(&done)).unwrap();
            assert_eq!(heard, json!({"who": {"action": "decline"}}));
        } else {
            assert_eq!(done["result"]["isError"], true, "{done}");
            assert!(said(&done).contains("sampling/createMessage"), "{done}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_asks_without_end_is_given_up() {
    let tape = Tape::default();
    let fleet = Fleet::default().with(modern_spec(), tape.of(asks_by_result(usize::MAX, WHO)));
    let host = host(fleet, |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    let done = client.ask("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
    assert_eq!(done["result"]["isError"], true, "{done}");
    assert_eq!(tape.received("tools/call").len(), 10);
}

#[tokio::test(start_paused = true)]
async fn between_modern_peers_rounds_pass_byte_for_byte() {
    let tape = Tape::default();
    let host = host(Fleet::default().with(modern_spec(), tape.of(asks_by_result(1, WHO))), |_| {}).await;
    let mut client = Raw::attach(&host);
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": {}})).await;
    let result = format!(
        r#""result":{{"resultType":"input_required","inputRequests":{WHO},"requestState":"\u0072ound-1"}}"#
    );
    assert!(client.line.contains(&result), "{}", client.line);
    let done = call(&mut client, again(&json!({}), &asked, &accept("me"))).await;
    assert_eq!(serde_json::from_str::<Value>(said(&done)).unwrap(), json!({"who": accept("me")}));
    assert_eq!(tape.received("tools/call").len(), 2, "each round is a request of its own");
}

#[tokio::test(start_paused = true)]
async fn a_capability_that_a_modern_server_misses_is_named_to_its_client() {
    let script = |message: &Value, wire: &Wire| {
        if method_of(message) != "tools/call" {
            return modern(message, wire);
        }
        let can = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(can, &json!({}), "those of the client, not ours");
        let error = json!({"code": -32021, "message": "needs sampling", "data": {"requiredCapabilities": {"sampling": {}}}});
        wire.line(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
    };
    let host = host(Fleet::default().with(modern_spec(), script), |_| {}).await;
    let mut client = Raw::attach(&host);
    let refused = client.ask_modern("tools/call", json!({"name": "s__echo", "arguments": {}})).await;
    assert_eq!(code(&refused), -32021);
    assert_eq!(refused["error"]["data"], json!({"requiredCapabilities": {"sampling": {}}}));
}

#[tokio::test(start_paused = true)]
async fn a_question_with_a_url_is_put_to_clients_that_declare_it() {
    const URL: &str = r#"{"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","elicitationId":"1","message":"look"}}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":"u","method":"elicitation/create","params":{"mode":"url","url":"https://a.example","elicitationId":"1","message":"look"}}"#;
    let legacy = move |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        if method_of(message) == "tools/call" {
            wire.line(ask);
        }
    };
    // A modern client of a legacy server: it is told, in the same words.
    let host_of_legacy = host(Fleet::default().with(spec("s"), legacy), |_| {}).await;
    for (can, told) in [(json!({"url": {}}), true), (json!({"form": {}}), false)] {
        let mut client = Raw::attach(&host_of_legacy);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": can},
        });
        let params = json!({"name": "s__echo", "arguments": {}, "_meta": meta});
        client.request(1, "tools/call", params).await;
        if told {
            let asked = client.answer(1).await;
            let first =
                asked["result"]["inputRequests"].as_object().unwrap().values().next().unwrap().clone();
            assert_eq!(first["params"]["url"], "https://a.example");
        } else {
            idle().await;
            assert_eq!(client.client.running(), 1, "it is not asked, and the call goes on");
        }
    }
    // A legacy client of a modern server: asked if it declares it, and else declined for.
    for (can, asked) in [(json!({"url": {}}), true), (json!({"form": {}}), false)] {
        let fleet = Fleet::default().with(modern_spec(), asks_by_result(1, URL));
        let host = host(fleet, |_| {}).await;
        let mut client = Raw::legacy(&host, json!({"elicitation": can})).await;
        client.request(1, "tools/call", json!({"name": "s__echo", "arguments": {}})).await;
        let mut wanted = json!({"action": "decline"});
        if asked {
            let question = client.told("elicitation/create").await;
            assert_eq!(question["params"]["elicitationId"], "1");
            wanted = json!({"action": "accept"});
            client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": wanted})).await;
        }
        let done = client.answer(1).await;
        assert_eq!(serde_json::from_str::<Value>(said(&done)).unwrap(), json!({"u": wanted}));
    }
}

/// One modern request without a connection, as each of HTTP is: its client is gone with the answer.
async fn passing(host: &Arc<Host>, identity: Identity, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let client = host.open(Caller { identity, ..Caller::same_user() }, ClientEra::Modern);
    let (sink, mut outlet) = Sink::pair();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    client.accept(request.to_string().into(), &sink);
    let answer = loop {
        if let Outgoing::Answer(parts) = outlet.next().await.unwrap() {
            break serde_json::from_slice(&parts.to_bytes()).unwrap();
        }
    };
    client.leave(Leave::Gone);
    answer
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_the_same_identity_comes_back_and_no_other() {
    let tape = Tape::default();
    let host = legacy_host(&tape).await;
    let token = |name: &str| Identity::Token(name.into());
    let asked = passing(&host, token("a"), json!({"name": "s__echo", "arguments": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let right = again(&json!({}), &asked, &accept("me"));
    for other in [token("b"), Identity::SameUser] {
        assert_eq!(code(&passing(&host, other, right.clone()).await), -32602);
    }
    let done = passing(&host, token("a"), right).await;
    let heard: Vec<Value> = serde_json::from_str(said(&done)).unwrap();
    assert_eq!(heard[0]["result"], accept("me"));
    assert!(tape.received("notifications/cancelled").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_object_is_refused_and_the_call_still_waits() {
    let host = legacy_host(&Tape::default()).await;
    let mut client = Raw::attach(&host);
    let asked = call(&mut client, json!({"name": "s__echo", "arguments": {}})).await;
    let refused = call(&mut client, again(&json!({}), &asked, &json!(5))).await;
    assert_eq!(code(&refused), -32602, "{refused}");
    let done = call(&mut client, again(&json!({}), &asked, &accept("a"))).await;
    assert_eq!(done["result"]["resultType"], "complete");
}
