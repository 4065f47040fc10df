//! One call from its caller to the server and back: nothing is lost, nothing is mixed
//! up, nothing hangs, nothing is sent twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::call::{CallLimits, Delivery, ErrorCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::*;

const BODIES: [&str; 6] = [
    r#"{"content":[{"type":"text","text":"x","annotations":{"audience":["robot"],"vendor":1}}],"vendorField":{"b":1,"a":2}}"#,
    r#"{"content":null,"structuredContent":{"n":12345678901234567890123,"f":1.10,"e":1E400,"z":-0}}"#,
    r#"{"content":[{"type":"hologram","data":[1,2,3]}],"isError":false,"isError":false}"#,
    r#"{"content":[{"type":"text","text":"\ud800 \u00e9 \/ 漢 🎉"}],"resultType":"odd"}"#,
    r#"{ "content" : [ ] , "_meta" : { "io.x/y" : [ ] } }"#,
    r#"[1,"a result that is no object",null]"#,
];

#[tokio::test(start_paused = true)]
async fn what_we_do_not_understand_passes_byte_for_byte() {
    for body in BODIES {
        let runtime = one(move |m: &Value, w: &Wire| {
            if !good(m, w) {
                w.result(m, body);
            }
        })
        .await;
        let reply = call(&runtime, "s", "echo").await.unwrap();
        assert_eq!(text(&reply), body);
        assert!(!reply.is_error);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_server_keeps_code_message_and_data() {
    let error = r#"{"code":-32042,"message":"no","data":{"k":1,"k2":[1.50]},"vendor":true}"#;
    let runtime = one(move |m: &Value, w: &Wire| {
        if !good(m, w) {
            w.line(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, m["id"]));
        }
    })
    .await;
    let reply = call(&runtime, "s", "echo").await.unwrap();
    assert!(reply.is_error);
    assert_eq!(text(&reply), error);
}

#[tokio::test(start_paused = true)]
async fn arguments_reach_the_server_as_written_with_its_own_name_and_a_progress_token() {
    let tape = Tape::default();
    let script = tape.of(|m: &Value, w: &Wire| {
        if !good(m, w) {
            w.result(m, "{}");
        }
    });
    let runtime = one(script).await;
    let params = r#"{"name":"exposed__echo","arguments":{"big":9007199254740993,"path":"C:\\new\\d"},"_meta":{"progressToken":"mine","traceparent":"00-1"}}"#;
    runtime.frontend().call(request("s", "echo", params), None).await.unwrap();
    let sent = &tape.received("tools/call")[0];
    assert_eq!(sent["params"]["name"], "echo");
    assert_eq!(sent["params"]["arguments"], json!({"big": 9_007_199_254_740_993_u64, "path": "C:\\new\\d"}));
    assert_eq!(sent["params"]["_meta"]["traceparent"], "00-1");
    assert_eq!(sent["params"]["_meta"]["progressToken"], sent["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_arguments_sends_an_empty_object() {
    let tape = Tape::default();
    let script = tape.of(|m: &Value, w: &Wire| {
        if !good(m, w) {
            w.result(m, "{}");
        }
    });
    let runtime = one(script).await;
    call(&runtime, "s", "echo").await.unwrap();
    assert_eq!(tape.received("tools/call")[0]["params"]["arguments"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn answers_in_any_order_reach_their_own_callers() {
    let held: Arc<Mutex<Vec<Value>>> = Arc::default();
    let runtime = one(move |m: &Value, w: &Wire| {
        if good(m, w) {
            return;
        }
        let mut held = held.lock().unwrap();
        held.push(m.clone());
        if held.len() == 20 {
            for request in held.drain(..).rev() {
                w.result(&request, &request["params"]["arguments"].to_string());
            }
        }
    })
    .await;
    let calls = (0..20).map(|n| {
        let frontend = runtime.frontend();
        async move {
            let params = format!(r#"{{"arguments":{{"nonce":{n}}}}}"#);
            let reply = frontend.call(request("s", "echo", &params), None).await.unwrap();
            assert_eq!(text(&reply), format!(r#"{{"nonce":{n}}}"#));
        }
    });
    futures_util::future::join_all(calls).await;
}

/// One broken answer to the first call, while a second one waits.
async fn breaks_only_its_own_call(broken: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static, code: ErrorCode) {
    let waiting: Arc<Mutex<Option<Value>>> = Arc::default();
    let runtime = one(move |m: &Value, w: &Wire| {
        if good(m, w) {
            return;
        }
        let mut waiting = waiting.lock().unwrap();
        match m["params"]["name"].as_str() {
            Some("other") => *waiting = Some(m.clone()),
            _ => {
                w.line(broken(id_of(m)));
                if let Some(other) = waiting.take() {
                    w.result(&other, r#"{"fine":true}"#);
                }
            }
        }
    })
    .await;
    let other = {
        let frontend = runtime.frontend();
        tokio::spawn(async move { frontend.call(request("s", "other", "{}"), None).await })
    };
    idle().await;
    let began = tokio::time::Instant::now();
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(1), "it fails at once, not at a limit");
    assert_eq!(error.code, code, "{error}");
    assert_eq!(error.delivery, Delivery::Unknown);
    assert!(!error.message.is_empty());
    assert_eq!(text(&other.await.unwrap().unwrap()), r#"{"fine":true}"#, "nothing else notices");
    assert_eq!(runtime.status()[0].restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn every_malformed_answer_fails_exactly_its_own_call_at_once() {
    let malformed: [fn(u64) -> String; 8] = [
        |id| format!(r#"{{"id":{id},"result":{{}}}}"#),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":null}}"#),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":"x","message":"m"}}}}"#),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":2147483648,"message":"m"}}}}"#),
        |id| format!(r#"[{{"jsonrpc":"2.0","id":{id},"result":{{}}}}]"#),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":}}}}"#),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}{}}}"#, "[".repeat(200), "]".repeat(200)),
        |id| format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
    ];
    for line in malformed {
        breaks_only_its_own_call(move |id| line(id).into_bytes(), ErrorCode::MalformedAnswer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_fail_exactly_their_own_call() {
    let line = |id: u64| {
        let mut bytes = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"t":""#).into_bytes();
        bytes.extend(b"\xff\xfe\"}}");
        bytes
    };
    breaks_only_its_own_call(line, ErrorCode::MalformedAnswer).await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_cap_fails_exactly_its_own_call() {
    let long = |id: u64| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"t":"{}"}}}}"#, "x".repeat(17 << 20)).into_bytes()
    };
    breaks_only_its_own_call(long, ErrorCode::FrameTooLarge).await;
    let id_last = |id: u64| {
        format!(r#"{{"result":{{"t":"{}"}},"jsonrpc":"2.0","id":{id}}}"#, "x".repeat(17 << 20)).into_bytes()
    };
    breaks_only_its_own_call(id_last, ErrorCode::FrameTooLarge).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_unpacked_where_the_revision_has_batches() {
    let runtime = one(|m: &Value, w: &Wire| match method_of(m) {
        "initialize" => {
            w.result(m, r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{}}"#)
        }
        "tools/call" => {
            w.line(format!("[{},{{\"jsonrpc\":\"2.0\",\"method\":\"x\"}}]", answer(m, r#"{"ok":1}"#)))
        }
        _ => {
            good(m, w);
        }
    })
    .await;
    assert_eq!(text(&call(&runtime, "s", "echo").await.unwrap()), r#"{"ok":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_numeric_id_that_comes_back_as_text_settles_its_request() {
    let runtime = one(|m: &Value, w: &Wire| {
        if m["id"].is_null() {
            return;
        }
        let result = match method_of(m) {
            "initialize" => r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{}}"#,
            "tools/list" => r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
            _ => r#"{"ok":1}"#,
        };
        w.line(format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{result}}}"#, m["id"]));
    })
    .await;
    assert_eq!(text(&call(&runtime, "s", "echo").await.unwrap()), r#"{"ok":1}"#);
}

#[tokio::test(start_paused = true)]
async fn noise_around_an_answer_does_not_hurt_it_and_is_counted() {
    let runtime = one(|m: &Value, w: &Wire| {
        if good(m, w) {
            return;
        }
        for noise in ["npm WARN deprecated", r#"{"level":"info"}"#, "42", "null", r#""text""#, "", "   "] {
            w.line(noise);
        }
        w.result(m, r#"{"ok":1}"#);
    })
    .await;
    assert_eq!(text(&call(&runtime, "s", "echo").await.unwrap()), r#"{"ok":1}"#);
    idle().await;
    let warnings = runtime.status().remove(0).warnings;
    assert!(warnings.iter().any(|w| w.contains("5 lines") && w.contains("stdout")), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn the_idle_limit_fires_and_the_server_is_told_once() {
    let tape = Tape::default();
    let runtime = one(tape.of(|m: &Value, w: &Wire| {
        good(m, w);
    }))
    .await;
    let began = tokio::time::Instant::now();
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TimeoutIdle);
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(began.elapsed().as_secs(), 120);
    assert!(error.message.contains("idle") && error.message.contains("2m"), "{error}");
    idle().await;
    let call_id = tape.received("tools/call")[0]["id"].clone();
    let cancelled = tape.received("notifications/cancelled");
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0]["params"]["requestId"], call_id);
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_idle_limit_up_to_the_absolute_one() {
    let runtime = one(|m: &Value, w: &Wire| {
        if good(m, w) || method_of(m) != "tools/call" {
            return;
        }
        let (token, w) = (m["params"]["_meta"]["progressToken"].clone(), w.clone());
        tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_secs(1));
            for n in 0.. {
                every.tick().await;
                let params = json!({"progressToken": token, "progress": n, "vendor": "kept"});
                w.line(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                        .to_string(),
                );
                if n > 100 {
                    return;
                }
            }
        });
    })
    .await;
    let (events, mut seen) = mpsc::channel(64);
    let mut slow = request("s", "echo", "{}");
    slow.limits = CallLimits { idle: Some(Duration::from_secs(2)), total: Some(Duration::from_secs(10)) };
    let began = tokio::time::Instant::now();
    let error = runtime.frontend().call(slow, Some(events)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TimeoutTotal);
    assert!(error.message.contains("absolute"), "{error}");
    assert_eq!(began.elapsed().as_secs(), 10);
    let Some(callboard::call::CallEvent::Progress(first)) = seen.recv().await else { panic!() };
    let first: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(first["vendor"], "kept");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_dropped_and_hurts_nothing() {
    let runtime = one(|m: &Value, w: &Wire| {
        if good(m, w) || method_of(m) != "tools/call" {
            return;
        }
        let (m, w) = (m.clone(), w.clone());
        tokio::spawn(async move {
            if m["params"]["name"] == "echo" {
                tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(3)).await;
            }
            w.result(&m, r#"{"ok":1}"#);
        });
    })
    .await;
    let mut hasty = request("s", "echo", "{}");
    hasty.limits.idle = Some(Duration::from_secs(1));
    let error = runtime.frontend().call(hasty, None).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TimeoutIdle);
    tokio::time::advance(Duration::from_secs(5)).await;
    idle().await;
    assert_eq!(text(&call(&runtime, "s", "other").await.unwrap()), r#"{"ok":1}"#);
    assert_eq!(runtime.status()[0].restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_never_called_one_with_a_wrong_id() {
    let runtime = one(|m: &Value, w: &Wire| {
        if good(m, w) || m["params"]["name"] != "echo" {
            return;
        }
        let (m, w) = (m.clone(), w.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(3)).await;
            w.result(&m, "{}");
        });
    })
    .await;
    for (tool, wait) in [("echo", 1), ("other", 5)] {
        let mut hasty = request("s", tool, "{}");
        hasty.limits.total = Some(Duration::from_secs(wait));
        let error = runtime.frontend().call(hasty, None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::TimeoutTotal);
        assert!(!error.message.contains("wrong id"), "the other one is just late: {error}");
    }
    let view = runtime.status().remove(0);
    assert!(view.warnings.iter().any(|w| w.contains("1 answer came late")), "{:?}", view.warnings);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_cancels_its_call_once_and_frees_its_place() {
    let tape = Tape::default();
    let mut narrow = spec("s");
    narrow.limits.in_flight = 1;
    let script = tape.of(|m: &Value, w: &Wire| {
        if !good(m, w) && m["params"]["name"] == "other" {
            w.result(m, "{}");
        }
    });
    let runtime = Fleet::default().with(narrow, script).ready().await;
    let frontend = runtime.frontend();
    let left = tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await });
    idle().await;
    left.abort();
    idle().await;
    assert_eq!(tape.received("notifications/cancelled").len(), 1);
    call(&runtime, "s", "other").await.expect("the place is free again");
    assert_eq!(tape.received("notifications/cancelled").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_limits_wait_then_are_refused_with_the_name_of_the_limit() {
    let mut narrow = spec("s");
    narrow.limits.in_flight = 2;
    narrow.limits.queue = 3;
    let tape = Tape::default();
    let script = tape.of(|m: &Value, w: &Wire| {
        good(m, w);
    });
    let runtime = Fleet::default().with(narrow, script).ready().await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let frontend = runtime.frontend();
        waiting.push(tokio::spawn(async move { frontend.call(request("s", "echo", "{}"), None).await }));
        idle().await;
    }
    assert_eq!(tape.received("tools/call").len(), 2, "no more than limits.in_flight reach the server");
    let view = runtime.status().remove(0);
    assert_eq!((view.in_flight, view.queued), (2, 3));
    let refused = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Busy);
    assert_eq!(refused.delivery, Delivery::NotSent);
    assert!(refused.message.contains("limits.queue"), "{refused}");
    assert!(refused.retry_after.is_some());
    let waited = waiting.remove(2).await.unwrap().unwrap_err();
    assert_eq!(waited.code, ErrorCode::Busy, "the wait for a place ends after 5 s");
    assert!(waited.message.contains("5.0 s"), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_refuses_with_the_time_to_come_back() {
    let mut limited = spec("s");
    limited.rate = Some(callboard::config::spec::Rate { per_second: 1, burst: 2 });
    let script = |m: &Value, w: &Wire| {
        if !good(m, w) {
            w.result(m, "{}");
        }
    };
    let runtime = Fleet::default().with(limited, script).ready().await;
    call(&runtime, "s", "echo").await.unwrap();
    call(&runtime, "s", "echo").await.unwrap();
    let refused = call(&runtime, "s", "echo").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    assert!(refused.retry_after.is_some_and(|wait| wait <= Duration::from_secs(1)));
}
