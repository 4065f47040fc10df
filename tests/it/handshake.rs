//! Eras and revisions: which request opens a connection, what is accepted, what every
//! request carries then, and that every request to us gets an answer.

use std::time::Duration;

use callboard::config::spec::Protocol;
use callboard::view::{LifeState, ParkReason};
use serde_json::{Value, json};

use crate::support::*;

const META: &str = "io.modelcontextprotocol/protocolVersion";

/// A server of the modern era only.
fn modern(m: &Value, w: &Wire) {
    let refused = |code: i64, text: &str| {
        let error = json!({"code": code, "message": text, "data": {"supported": ["2026-07-28"]}});
        w.line(json!({"jsonrpc": "2.0", "id": m["id"], "error": error}).to_string());
    };
    if m["id"].is_null() {
        return;
    }
    if m["params"]["_meta"][META] != "2026-07-28" {
        return refused(-32022, "unsupported protocol version");
    }
    let result = match method_of(m) {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "instructions": "be kind", "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}}}),
        "tools/list" => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        _ => json!({"resultType": "complete", "content": []}),
    };
    w.result(m, &result.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_modern_only_server_is_found_after_its_refusal_of_initialize() {
    let tape = Tape::default();
    let runtime = one(tape.of(modern)).await;
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.revision), (LifeState::Ready, Some("2026-07-28")), "{view:?}");
    assert_eq!(view.server_info.as_deref(), Some("new 2"));
    assert_eq!(tape.received("initialize").len(), 1, "initialize comes first on a pipe");
    call(&runtime, "s", "echo").await.unwrap();
    let meta = &tape.received("tools/call")[0]["params"]["_meta"];
    assert_eq!(meta[META], "2026-07-28");
    assert!(meta["io.modelcontextprotocol/clientInfo"]["name"].is_string(), "{meta}");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{meta}");
    assert!(meta["progressToken"].is_number());
    assert!(tape.received("notifications/initialized").is_empty(), "the modern era has no handshake");
}

#[tokio::test(start_paused = true)]
async fn a_modern_only_server_that_leaves_after_its_refusal_is_met_on_a_fresh_connection() {
    let leaves = |m: &Value, w: &Wire| {
        modern(m, w);
        if method_of(m) == "initialize" {
            w.hang_up();
        }
    };
    let runtime = one(leaves).await;
    let view = runtime.status().remove(0);
    assert_eq!((view.state, view.revision), (LifeState::Ready, Some("2026-07-28")), "{view:?}");
    assert_eq!(view.restarts, 0, "finding the era is no failure");
}

#[tokio::test(start_paused = true)]
async fn the_era_is_remembered_for_the_next_connection() {
    let tape = Tape::default();
    let leaves_once = |m: &Value, w: &Wire| {
        if method_of(m) == "tools/call" && w.connection == 1 { w.hang_up() } else { modern(m, w) }
    };
    let runtime = one(tape.of(leaves_once)).await;
    call(&runtime, "s", "echo").await.unwrap_err();
    call(&runtime, "s", "echo").await.unwrap();
    assert_eq!(tape.received("initialize").len(), 1);
    assert_eq!(tape.received("server/discover").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn every_revision_that_we_speak_is_accepted_and_an_unknown_one_names_both_sides() {
    let offers = |version: &'static str| {
        move |m: &Value, w: &Wire| {
            if method_of(m) == "initialize" {
                let result =
                    json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}});
                w.result(m, &result.to_string());
            } else {
                good(m, w);
            }
        }
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let runtime = one(offers(version)).await;
        assert_eq!(runtime.status()[0].revision, Some(version));
    }
    let mut once = spec("s");
    once.restart.max = 1;
    let runtime = Fleet::default().with(once, offers("1999-01-01")).ready().await;
    let why = runtime.status().remove(0).why.unwrap();
    assert!(why.contains("1999-01-01") && why.contains("2025-11-25"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_will_never_fit_parks_at_once_and_says_what_to_change() {
    let answers: [(&str, Value); 3] = [
        ("1999-01-01", json!({"result": {"protocolVersion": "1999-01-01", "capabilities": {}}})),
        ("no protocolVersion", json!({"result": {"hello": true}})),
        ("-32601", json!({"error": {"code": -32601, "message": "Method not found"}})),
    ];
    for (says, answer) in answers {
        let tape = Tape::default();
        let stranger = tape.of(move |m: &Value, w: &Wire| {
            let mut answer = answer.clone();
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = m["id"].clone();
            w.line(answer.to_string());
        });
        let view = one(stranger).await.status().remove(0);
        assert_eq!(view.state, LifeState::Parked(ParkReason::ConfigError), "{view:?}");
        assert!(view.why.as_ref().is_some_and(|why| why.contains(says)), "{view:?}");
        assert!(view.fix.as_ref().is_some_and(|fix| fix.contains("update the server")), "{view:?}");
        assert_eq!((tape.received("initialize").len(), view.restarts), (1, 0), "{says}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_may_pass_and_a_server_that_fitted_before_are_tried_again() {
    let starting = |m: &Value, w: &Wire| {
        if method_of(m) == "initialize" && w.connection == 1 {
            let error = json!({"code": -32000, "message": "still starting"});
            w.line(json!({"jsonrpc": "2.0", "id": m["id"], "error": error}).to_string());
        } else {
            good(m, w);
        }
    };
    assert_eq!(one(starting).await.status()[0].state, LifeState::Ready);

    let rolled_out = |m: &Value, w: &Wire| match (method_of(m), w.connection) {
        ("tools/call", 1) => w.hang_up(),
        ("initialize", 2) => w.result(m, r#"{"protocolVersion":"1999-01-01","capabilities":{}}"#),
        _ => {
            if !good(m, w) {
                w.result(m, "{}");
            }
        }
    };
    let runtime = one(rolled_out).await;
    call(&runtime, "s", "echo").await.unwrap_err();
    call(&runtime, "s", "echo").await.unwrap();
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_refused_proposal_is_repeated_once_with_a_revision_that_the_refusal_names() {
    let tape = Tape::default();
    let picky = tape.of(|m: &Value, w: &Wire| {
        if method_of(m) == "initialize" && m["params"]["protocolVersion"] != "2025-06-18" {
            let error = json!({"code": -32602, "message": "Unsupported protocol version",
                "data": {"supported": ["2024-11-05", "2025-06-18"]}});
            w.line(json!({"jsonrpc": "2.0", "id": m["id"], "error": error}).to_string());
        } else {
            good(m, w);
        }
    });
    let runtime = one(picky).await;
    assert_eq!(runtime.status()[0].revision, Some("2025-06-18"));
    assert_eq!(tape.received("initialize").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn initialized_is_sent_before_the_first_list() {
    let tape = Tape::default();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = order.clone();
    let runtime = one(tape.of(move |m: &Value, w: &Wire| {
        seen.lock().unwrap().push(method_of(m).to_owned());
        good(m, w);
    }))
    .await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    assert_eq!(order.lock().unwrap()[..3], ["initialize", "notifications/initialized", "tools/list"]);
}

#[tokio::test(start_paused = true)]
async fn a_forced_era_is_the_only_one_that_is_tried() {
    let tape = Tape::default();
    let mut forced = spec("s");
    forced.protocol = Protocol::Modern;
    let legacy_only = |m: &Value, w: &Wire| {
        if method_of(m) == "server/discover" {
            let error = json!({"code": -32601, "message": "Method not found"});
            w.line(json!({"jsonrpc": "2.0", "id": m["id"], "error": error}).to_string());
        } else {
            good(m, w);
        }
    };
    forced.restart.max = 1;
    let runtime = Fleet::default().with(forced, tape.of(legacy_only)).ready().await;
    assert!(tape.received("initialize").is_empty());
    assert_eq!(runtime.status()[0].state, LifeState::Parked(ParkReason::ConfigError));
}

#[tokio::test(start_paused = true)]
async fn requests_to_us_are_answered_at_once_even_before_the_handshake_is_done() {
    let tape = Tape::default();
    let asks = |m: &Value, w: &Wire| {
        if method_of(m) == "initialize" {
            for (id, method) in
                [("1", "ping"), ("\"a\"", "roots/list"), ("3", "sampling/createMessage"), ("4", "x/y")]
            {
                w.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
            }
        }
        good(m, w);
    };
    let answers = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = answers.clone();
    let runtime = one(tape.of(move |m: &Value, w: &Wire| {
        if m["method"].is_null() {
            seen.lock().unwrap().push((
                m["id"].to_string(),
                m["result"].to_string(),
                m["error"]["code"].to_string(),
            ));
        }
        asks(m, w);
    }))
    .await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
    let answers = answers.lock().unwrap();
    let expected =
        [("1", "{}", "null"), ("\"a\"", "null", "-32601"), ("3", "null", "-32601"), ("4", "null", "-32601")];
    let got: Vec<_> = answers.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(got, expected);
}

#[tokio::test(start_paused = true)]
async fn notifications_before_the_answer_to_initialize_are_tolerated() {
    let runtime = one(|m: &Value, w: &Wire| {
        if method_of(m) == "initialize" {
            for method in ["notifications/tools/list_changed", "notifications/message", "notifications/x"] {
                w.line(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
            }
        }
        good(m, w);
    })
    .await;
    assert_eq!(runtime.status()[0].state, LifeState::Ready);
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_times_out_is_never_cancelled() {
    let tape = Tape::default();
    let runtime = Fleet::default().with(spec("s"), tape.of(|_: &Value, _: &Wire| {})).start().await;
    tokio::time::advance(Duration::from_secs(130)).await;
    idle().await;
    assert!(!tape.received("initialize").is_empty());
    assert!(tape.received("notifications/cancelled").is_empty());
    runtime.shutdown().await;
}
