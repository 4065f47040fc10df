//! Clients of the host beside each other, and their ends: whose answers are whose, what a slow or
//! leaving client costs, and what servers ask in the middle of calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::serve::{ServeApproval, ServeSettings, stdio};
use serde_json::{Value, json};

use crate::serve_protocol::echo;
use crate::support::client::{Raw, host, said};
use crate::support::{Fleet, Script, Tape, Wire, good, idle, method_of, spec};

#[tokio::test(start_paused = true)]
async fn sixty_four_clients_with_equal_ids_and_tokens_get_their_own_answers_only() {
    // Answers come in the wrong order, each with progress before it.
    let held: Arc<Mutex<Vec<(Value, Wire)>>> = Arc::default();
    let script = move |message: &Value, wire: &Wire| {
        if good(message, wire) || method_of(message) != "tools/call" {
            return;
        }
        let mut held = held.lock().unwrap();
        held.push((message.clone(), wire.clone()));
        if held.len() == 64 {
            for (message, wire) in held.drain(..).rev() {
                let nonce = &message["params"]["arguments"]["nonce"];
                let token = &message["params"]["_meta"]["progressToken"];
                let params = json!({"progressToken": token, "progress": 1, "message": nonce});
                wire.line(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                        .to_string(),
                );
                let result = json!({"content": [{"type": "text", "text": nonce}]});
                wire.result(&message, &result.to_string());
            }
        }
    };
    let host = host(Fleet::default().with(spec("s"), script), |_| {}).await;
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(Raw::legacy(&host, json!({})).await);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        let arguments = json!({"nonce": format!("nonce-{n}-end")});
        let params = json!({"name": "s__echo", "arguments": arguments, "_meta": {"progressToken": "tok"}});
        client.request(1, "tools/call", params).await;
    }
    for (n, client) in clients.iter_mut().enumerate() {
        let nonce = format!("nonce-{n}-end");
        let progress = client.read().await.unwrap();
        assert_eq!(progress["params"], json!({"progressToken": "tok", "progress": 1, "message": nonce}));
        let answer = client.read().await.unwrap();
        assert_eq!((&answer["id"], said(&answer)), (&json!(1), nonce.as_str()));
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}), "and nothing else");
        assert!(client.aside.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_delays_no_ping_no_list_and_no_other_call_and_can_be_cancelled() {
    let tape = Tape::default();
    let script = |message: &Value, wire: &Wire| {
        if !good(message, wire) && message["params"]["name"] == "other" {
            wire.result(message, r#"{"content":[{"type":"text","text":"quick"}]}"#);
        }
    };
    let host = host(Fleet::default().with(spec("s"), tape.of(script)), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    client.request(1, "tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    assert!(client.ask("tools/list", json!({})).await["result"]["tools"].is_array());
    assert_eq!(said(&client.ask("tools/call", json!({"name": "s__other"})).await), "quick");
    client.request(1, "ping", json!({})).await;
    assert_eq!(client.answer(1).await["result"], json!({}), "a ping is answered under any id");
    let twice = {
        client.request(1, "tools/call", json!({"name": "s__other"})).await;
        client.answer(1).await
    };
    assert_eq!(twice["error"]["code"], -32600, "an id that is in use");
    assert_eq!(client.client.running(), 1);
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    client.ask("ping", json!({})).await;
    idle().await;
    assert_eq!((client.client.running(), tape.received("notifications/cancelled").len()), (0, 1));
    assert!(client.aside.is_empty(), "what was cancelled has no answer: {:?}", client.aside);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_answered_beside_servers_that_never_do_and_late_ones_are_told_once() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let late = move |message: &Value, wire: &Wire| {
        let (message, wire, mut gate) = (message.clone(), wire.clone(), gate.clone());
        tokio::spawn(async move {
            let _ = gate.wait_for(|open| *open).await;
            good(&message, &wire);
        });
    };
    let silent = |_: &Value, _: &Wire| {};
    let fleet = Fleet::default().with(spec("a"), echo()).with(spec("late"), late).with(spec("never"), silent);
    let begun = tokio::time::Instant::now();
    let host = host(fleet, |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    let first = client.ask("tools/list", json!({})).await;
    assert!(begun.elapsed() <= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 2);
    open.send(true).unwrap();
    client.told("notifications/tools/list_changed").await;
    let second = client.ask("tools/list", json!({})).await;
    assert_eq!(second["result"]["tools"].as_array().unwrap().len(), 4);
    tokio::time::advance(Duration::from_secs(5)).await;
    idle().await;
    client.ask("ping", json!({})).await;
    assert!(client.aside.is_empty(), "once: {:?}", client.aside);
}

#[tokio::test(start_paused = true)]
async fn while_no_server_has_told_anything_first_lists_and_calls_wait_for_one_within_bounds() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let late = move |message: &Value, wire: &Wire| {
        let (message, wire, mut gate) = (message.clone(), wire.clone(), gate.clone());
        tokio::spawn(async move {
            let _ = gate.wait_for(|open| *open).await;
            if !good(&message, &wire) && method_of(&message) == "tools/call" {
                wire.result(&message, r#"{"content":[{"type":"text","text":"late"}]}"#);
            }
        });
    };
    let silent = |_: &Value, _: &Wire| {};
    let host_of_late =
        host(Fleet::default().with(spec("late"), late).with(spec("never"), silent), |_| {}).await;
    let mut client = Raw::legacy(&host_of_late, json!({})).await;
    client.request(1, "tools/list", json!({})).await;
    client.request(2, "tools/call", json!({"name": "late__echo"})).await;
    tokio::time::advance(Duration::from_secs(3)).await;
    idle().await;
    open.send(true).unwrap();
    assert_eq!(client.answer(1).await["result"]["tools"].as_array().unwrap().len(), 2, "not an empty list");
    assert_eq!(said(&client.answer(2).await), "late");
    // One that never tells costs a new client a few seconds once, and nobody an answer.
    let host_of_never = host(Fleet::default().with(spec("never"), silent), |_| {}).await;
    let begun = tokio::time::Instant::now();
    let mut client = Raw::legacy(&host_of_never, json!({})).await;
    let list = client.ask("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"], json!([]));
    let waited = begun.elapsed();
    assert!(waited <= Duration::from_secs(6), "{waited:?}");
    client.ask("prompts/list", json!({})).await;
    client.ask("tools/call", json!({"name": "never__echo"})).await;
    assert!(begun.elapsed() <= waited + Duration::from_millis(10), "waits once: {:?}", begun.elapsed());
}

/// A server that asks its client that in the middle of each call, and answers with what it was told.
fn asking(method: &'static str, params: Value) -> impl Script {
    let call: Arc<Mutex<Option<Value>>> = Arc::default();
    move |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        if method_of(message) == "tools/call" {
            *call.lock().unwrap() = Some(message.clone());
            let ask = json!({"jsonrpc": "2.0", "id": "theirs/1", "method": method, "params": params});
            wire.line(ask.to_string());
        } else if message["id"] == "theirs/1" {
            let call = call.lock().unwrap().take().unwrap();
            let told = message.get("result").or(message.get("error")).unwrap().to_string();
            wire.result(&call, &json!({"content": [{"type": "text", "text": told}]}).to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_reaches_the_client_of_the_call_if_it_can_answer() {
    let form =
        json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "x-odd": 1.10});
    let url = json!({"mode": "url", "message": "go", "url": "https://example.com", "elicitationId": "e"});
    let answer = json!({"action": "accept", "content": {"n": 1}, "x-more": []});
    for (method, params, can, reached) in [
        ("elicitation/create", &form, json!({"elicitation": {}}), true),
        ("elicitation/create", &form, json!({"elicitation": {"url": {}}}), false),
        ("elicitation/create", &url, json!({"elicitation": {"form": {}, "url": {}}}), true),
        ("elicitation/create", &url, json!({"elicitation": {}}), false),
        ("elicitation/create", &form, json!({}), false),
        ("sampling/createMessage", &form, json!({"sampling": {}}), true),
        ("sampling/createMessage", &form, json!({}), false),
        ("roots/list", &form, json!({"roots": {}}), true),
        ("roots/list", &form, json!({}), false),
        ("odd/question", &form, json!({}), true),
    ] {
        let host = host(Fleet::default().with(spec("s"), asking(method, params.clone())), |_| {}).await;
        let mut other = Raw::legacy(&host, json!({"sampling": {}, "elicitation": {}})).await;
        let mut client = Raw::legacy(&host, can.clone()).await;
        client.request(7, "tools/call", json!({"name": "s__echo"})).await;
        if reached {
            let asked = client.told(method).await;
            assert_eq!(&asked["params"], params, "{method} {can}");
            client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
        }
        let result = client.answer(7).await;
        let told: Value = serde_json::from_str(said(&result)).unwrap();
        match (reached, method) {
            (true, _) => assert_eq!(told, answer),
            (false, "elicitation/create") => assert_eq!(told, json!({"action": "decline"})),
            (false, _) => assert_eq!(told["code"], -32601, "{told}"),
        }
        other.ask("ping", json!({})).await;
        assert!(other.aside.is_empty() && client.aside.is_empty(), "nobody else was asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_withdrawn_when_its_call_is_cancelled() {
    let host =
        host(Fleet::default().with(spec("s"), asking("sampling/createMessage", json!({}))), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({"sampling": {}})).await;
    client.request(7, "tools/call", json!({"name": "s__echo"})).await;
    let asked = client.told("sampling/createMessage").await;
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
        .await;
    let withdrawn = client.told("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
}

fn guarded(change: impl FnOnce(&mut ServeSettings)) -> impl Future<Output = Arc<callboard::serve::Host>> {
    let mut asks = spec("s");
    asks.allow_all_tools = false;
    host(Fleet::default().with(asks, echo()), change)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_needs_approval_asks_exactly_the_client_that_called() {
    let host = guarded(|_| {}).await;
    let mut other = Raw::legacy(&host, json!({"elicitation": {}})).await;
    let mut client = Raw::legacy(&host, json!({"elicitation": {}})).await;
    for (action, decision, runs) in
        [("accept", "once", true), ("decline", "once", false), ("accept", "session", true)]
    {
        client.request(1, "tools/call", json!({"name": "s__echo", "arguments": {"k": 1}})).await;
        let asked = client.told("elicitation/create").await;
        assert!(asked["params"]["message"].as_str().unwrap().contains(r#"{"k":1}"#), "{asked}");
        let result = json!({"action": action, "content": {"decision": decision}});
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
        let answer = client.answer(1).await;
        assert_eq!(answer["result"]["isError"].is_null(), runs, "{answer}");
    }
    let free = client.ask("tools/call", json!({"name": "s__echo", "arguments": {"k": 2}})).await;
    assert_eq!(said(&free), r#"{"k":2}"#, "approved for the session");
    other.request(1, "tools/call", json!({"name": "s__echo"})).await;
    other.told("elicitation/create").await;
    assert!(other.aside.is_empty() && client.aside.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_can_not_be_asked_is_refused_with_the_cure_or_asks_by_itself() {
    let strict = guarded(|_| {}).await;
    let mut client = Raw::legacy(&strict, json!({})).await;
    let refused = client.ask("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(refused["result"]["isError"], true);
    assert!(said(&refused).contains("can't be asked") && said(&refused).contains("mcp allow"), "{refused}");
    assert_eq!(refused["result"]["_meta"]["callboard/error"]["code"], "needs_approval");
    let trusting = guarded(|settings| settings.approval = ServeApproval::Client).await;
    let mut client = Raw::legacy(&trusting, json!({})).await;
    assert_eq!(said(&client.ask("tools/call", json!({"name": "s__echo"})).await), "{}");
}

#[tokio::test(start_paused = true)]
async fn running_calls_have_their_grace_when_the_input_ends_and_then_the_stream_ends() {
    let script = |message: &Value, wire: &Wire| {
        if good(message, wire) || message["params"]["name"] != "echo" {
            return;
        }
        let (message, wire) = (message.clone(), wire.clone());
        tokio::spawn(async move {
            let ready = tokio::time::Instant::now() + Duration::from_secs(2);
            tokio::time::sleep_until(ready).await;
            wire.result(&message, r#"{"content":[{"type":"text","text":"done"}]}"#);
        });
    };
    let tape = Tape::default();
    let host = host(Fleet::default().with(spec("s"), tape.of(script)), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    client.request(1, "tools/call", json!({"name": "s__echo"})).await;
    client.request(2, "tools/call", json!({"name": "s__other"})).await;
    client.hang_up().await;
    assert_eq!(said(&client.answer(1).await), "done");
    assert_eq!(client.read().await, None, "what hangs has no answer");
    assert_eq!(client.carried.await.unwrap(), stdio::End::Eof);
    idle().await;
    assert_eq!(tape.received("notifications/cancelled").len(), 1, "and its server was told");
    assert!(host.clients().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from_and_holds_nobody_up() {
    let result = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(1 << 20));
    let script = move |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(message, &result);
        }
    };
    let fleet = Fleet::default().with(spec("s"), echo()).with(spec("big"), script);
    let host = host(fleet, |settings| settings.calls_max = 8).await;
    let mut deaf = Raw::legacy(&host, json!({})).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    let flooding = async {
        for id in 0..100_000 {
            deaf.request(id, "tools/call", json!({"name": "big__echo"})).await;
        }
    };
    let stuck = tokio::time::timeout(Duration::from_secs(20), flooding).await.is_err();
    assert!(stuck, "its pipe fills up");
    assert_eq!(said(&client.ask("tools/call", json!({"name": "s__echo"})).await), "{}");
    tokio::time::advance(Duration::from_secs(90)).await;
    idle().await;
    assert!(deaf.client.is_gone(), "in the end it is let go");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_one_client_is_told_with_the_time_to_come_back_and_is_not_the_others() {
    let rate = Some(callboard::config::spec::Rate { per_second: 1, burst: 2 });
    let host = host(Fleet::default().with(spec("s"), echo()), |settings| settings.rate = rate).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    let mut other = Raw::legacy(&host, json!({})).await;
    let call = json!({"name": "s__echo"});
    for _ in 0..2 {
        assert_eq!(said(&client.ask("tools/call", call.clone()).await), "{}");
    }
    let refused = client.ask("tools/call", call.clone()).await;
    let told = &refused["result"]["_meta"]["callboard/error"];
    assert_eq!((&told["code"], &told["delivery"]), (&json!("rate_limited"), &json!("not_sent")));
    assert!(told["retry_after_ms"].as_u64().unwrap() > 0);
    assert_eq!(said(&other.ask("tools/call", call.clone()).await), "{}");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(said(&client.ask("tools/call", call).await), "{}");
}
