//! Canaries at the doors that no command line shows: questions to a person, by a form of the host and at
//! the desk; errors, noise and notices of a server in views and histories.

use callboard::config::spec::{SecretText, ServerSpec};
use callboard::policy::approve::Notice;
use callboard::runtime::RuntimePlan;
use serde_json::{Value, json};

use crate::secrets::{CANARIES, FORMS, canary, forms, telling};
use crate::support::client::{Raw, host};
use crate::support::{Fleet, Wire, good, id_of, method_of, request, spec};

/// Longest text of arguments that a question shows whole, in bytes; beyond it there is a gap.
const SHOWN_MAX: usize = 4096;

fn canaries() -> Vec<String> {
    (0..CANARIES).map(canary).collect()
}

/// A plan that knows all canaries.
fn knowing(plan: &mut RuntimePlan) {
    plan.servers.secrets = canaries().into_iter().map(SecretText::new).collect();
}

/// Every form of every canary, with the part of it that tells the value.
fn all_forms() -> Vec<(String, String)> {
    let forms = canaries().into_iter().flat_map(|value| forms(&value));
    forms.map(|form| (telling(&form).to_owned(), form)).collect()
}

#[track_caller]
fn assert_hidden(telling: &str, shown: &str) {
    assert!(!shown.contains(telling), "{telling} in {shown}");
    let in_json = json!(telling).to_string();
    assert!(!shown.contains(&in_json[1..in_json.len() - 1]), "{telling} as JSON in {shown}");
}

fn asking() -> Fleet {
    let script = |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(message, r#"{"content":[]}"#);
        }
    };
    Fleet::default().with(ServerSpec { allow_all_tools: false, ..spec("s") }, script).plan(knowing)
}

#[tokio::test(start_paused = true)]
async fn no_form_that_asks_a_person_shows_a_canary_in_any_encoding() {
    let host = host(asking(), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({"elicitation": {}})).await;
    let mut cells = 0;
    for (telling, form) in all_forms() {
        let arguments = json!({"text": format!("x {form} y"), form.as_str(): 1});
        client.request(1, "tools/call", json!({"name": "s__echo", "arguments": arguments})).await;
        let asked = client.told("elicitation/create").await;
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("[redacted]"), "{message}");
        assert_hidden(&telling, message);
        assert_hidden(&telling, &client.line);
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
        assert_hidden(&telling, &client.answer(1).await.to_string());
        cells += 2;
    }
    assert_eq!(cells, CANARIES * FORMS * 2);
}

#[tokio::test(start_paused = true)]
async fn no_request_at_the_desk_shows_a_canary_even_where_it_is_cut() {
    let runtime = asking().ready().await;
    let mut listener = runtime.approvals().listen();
    let value = canary(3);
    // The gap in the middle of long arguments moves over the value, byte by byte.
    let pads = (0..2 * value.len()).map(|more| SHOWN_MAX / 2 - value.len() + more);
    let pads: Vec<usize> =
        pads.chain((0..2 * value.len()).map(|more| SHOWN_MAX - value.len() + more)).collect();
    let long = pads
        .into_iter()
        .map(|pad| (value.clone(), format!("{}{value}{}", "p".repeat(pad), "q".repeat(5000))));
    for (telling, text) in all_forms().into_iter().chain(long) {
        let asked = request("s", "echo", &json!({"arguments": {"text": text}}).to_string());
        let call = tokio::spawn(runtime.frontend().call(asked, None));
        let prompt = loop {
            match listener.next().await {
                Some(Notice::Asked(prompt)) => break prompt,
                Some(_) => {}
                None => panic!("it is asked about"),
            }
        };
        let shown = format!("{prompt:?}");
        assert_hidden(&telling, &shown);
        // Of a value that is cut no long piece is left either.
        for at in (0..telling.len().saturating_sub(10)).filter(|at| telling.is_char_boundary(*at)) {
            let piece = telling.get(at..at + 10).unwrap_or(&telling);
            assert!(!shown.contains(piece), "{piece} of {telling} in {shown}");
        }
        call.abort();
        let _ = call.await;
    }
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_view_and_no_history_shows_a_canary_that_a_server_says_in_any_encoding() {
    let script = |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
            wire.line(format!("noise {text}"));
            let notice = json!({"level": "error", "data": text});
            wire.line(
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": notice}).to_string(),
            );
            let error = json!({"code": -32000, "message": text, "data": {"why": text}});
            wire.line(json!({"jsonrpc": "2.0", "id": id_of(message), "error": error}).to_string());
        }
    };
    let runtime = Fleet::default().with(spec("s"), script).plan(knowing).ready().await;
    let mut cells = 0;
    for (telling, form) in all_forms() {
        let asked = request("s", "other", &json!({"arguments": {"text": form}}).to_string());
        let _ = runtime.frontend().call(asked, None).await;
        let view = runtime.status().remove(0);
        assert_hidden(&telling, &format!("{view:?}"));
        assert_hidden(&telling, &format!("{:?}", view.whole_history()));
        cells += 2;
    }
    assert_eq!(cells, CANARIES * FORMS * 2);
    runtime.shutdown().await;
}
