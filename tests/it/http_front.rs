//! The host over HTTP, on real sockets: doors, codes, sessions, streams, and clients that misbehave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::serve::http::HttpFront;
use callboard::serve::{Host, tokens};
use serde_json::{Value, json};

use crate::support::bad::until;
use crate::support::client::{host, said};
use crate::support::http_client::{Wire, front, mirrored, modern, request};
use crate::support::{Fleet, Tape, Wire as Pipe, good, method_of, spec};

/// Answers `echo` with its text, after progress if there is a token; leaves `slow` unanswered.
fn echo(message: &Value, wire: &Pipe) {
    if good(message, wire) || method_of(message) != "tools/call" {
        return;
    }
    let params = &message["params"];
    if params["arguments"]["slow"] == true {
        return;
    }
    if let Some(token) = params["_meta"].get("progressToken") {
        let params = json!({"progressToken": token, "progress": 1});
        wire.line(
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string(),
        );
    }
    let text = &params["arguments"]["text"];
    wire.result(message, &json!({"content": [{"type": "text", "text": text}]}).to_string());
}

async fn serving() -> (Arc<Host>, HttpFront, Tape) {
    let tape = Tape::default();
    let host = host(Fleet::default().with(spec("s"), tape.of(echo)), |_| {}).await;
    let front = front(&host, |_| {}).await;
    (host, front, tape)
}

fn call(text: &str) -> Value {
    json!({"name": "s__echo", "arguments": {"text": text}})
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_on_every_method_and_path_before_anything_happens() {
    let (_host, front, tape) = serving().await;
    let before = tape.received("tools/call").len();
    for method in ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"] {
        for path in ["/mcp", "/healthz", "/readyz", "/", "/nothing"] {
            for bad in [
                ("Host", "evil.com"),
                ("Origin", "http://evil.com"),
                ("Origin", "null"),
                ("Sec-Fetch-Site", "cross-site"),
            ] {
                let mut wire = Wire::open(&front).await;
                let body = request(1, "initialize", json!({})).to_string();
                wire.send(method, path, &[bad], &body).await;
                assert_eq!(wire.head().await.status, 403, "{method} {path} {bad:?}");
            }
        }
    }
    assert_eq!((front.sessions(), tape.received("tools/call").len()), (0, before));
}

/// Method, path, headers, body, and the status.
type Misuse<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16);

#[tokio::test]
async fn each_misuse_has_the_code_that_clients_expect() {
    let (_host, front, _) = serving().await;
    let mut wire = Wire::open(&front).await;
    let id = wire.session("2025-11-25").await;
    let list = request(1, "tools/list", json!({})).to_string();
    let mine = ("Mcp-Session-Id", id.as_str());
    let other = ("Mcp-Session-Id", "AAAA");
    let table: [Misuse<'_>; 17] = [
        ("POST", "/mcp", &[mine], &list, 200),
        ("POST", "/mcp", &[], &list, 400),
        ("POST", "/mcp", &[other], &list, 404),
        ("GET", "/mcp", &[], "", 400),
        ("GET", "/mcp", &[other], "", 404),
        ("GET", "/mcp", &[mine, ("Accept", "application/json")], "", 406),
        ("GET", "/mcp", &[("MCP-Protocol-Version", "2026-07-28")], "", 405),
        ("DELETE", "/mcp", &[], "", 400),
        ("DELETE", "/mcp", &[other], "", 404),
        ("PUT", "/mcp", &[mine], "", 405),
        ("POST", "/mcp", &[mine, ("Accept", "text/html")], &list, 406),
        ("POST", "/mcp", &[mine, ("Content-Type", "text/plain")], &list, 415),
        ("POST", "/mcp", &[mine, ("MCP-Protocol-Version", "1999-01-01")], &list, 400),
        ("POST", "/mcp", &[mine], "{", 400),
        ("POST", "/mcp", &[mine], "{}", 400),
        ("GET", "/nothing", &[], "", 404),
        ("GET", "/sse", &[], "", 404),
    ];
    for (method, path, headers, body, status) in table {
        let answer = wire.ask(method, path, headers, body).await;
        assert_eq!(answer.status, status, "{method} {path} {headers:?} {body}: {answer:?}");
    }
    assert_eq!(wire.ask("GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(wire.ask("GET", "/readyz", &[], "").await.status, 200);
    assert_eq!(wire.ask("DELETE", "/mcp", &[mine], "").await.status, 204);
    assert_eq!(wire.ask("DELETE", "/mcp", &[mine], "").await.status, 404);
    assert_eq!(wire.ask("POST", "/mcp", &[mine], &list).await.status, 404);
    assert_eq!(front.sessions(), 0);
}

#[tokio::test]
async fn an_answer_is_json_and_a_stream_only_when_something_goes_before_it() {
    let (_host, front, _) = serving().await;
    let mut wire = Wire::open(&front).await;
    let id = wire.session("2025-11-25").await;
    let mine = [("Mcp-Session-Id", id.as_str())];
    let plain = wire.post(&mine, &request(1, "tools/call", call("hi"))).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    assert_eq!(said(&plain.json()), "hi");
    let mut params = call("hi");
    params["_meta"] = json!({"progressToken": "t"});
    wire.send("POST", "/mcp", &mine, &request(2, "tools/call", params).to_string()).await;
    assert_eq!(wire.head().await.header("content-type"), Some("text/event-stream"));
    let first = wire.event().await.unwrap();
    assert!(first.data.is_null() && first.id.is_some(), "it primes");
    let progress = wire.event().await.unwrap();
    assert_eq!(progress.data["params"], json!({"progressToken": "t", "progress": 1}));
    assert_eq!(said(&wire.event().await.unwrap().data), "hi");
    assert!(wire.event().await.is_none());
    // What a broken connection missed comes again.
    let last = progress.id.unwrap();
    let mut again = Wire::open(&front).await;
    again.send("GET", "/mcp", &[mine[0], ("Last-Event-ID", &last)], "").await;
    assert_eq!(again.head().await.status, 200);
    assert!(again.event().await.unwrap().data.is_null());
    assert_eq!(said(&again.event().await.unwrap().data), "hi");
    assert!(again.event().await.is_none());
    let gone = wire.ask("GET", "/mcp", &[mine[0], ("Last-Event-ID", "99-0-1")], "").await;
    assert_eq!(gone.status, 400);
}

#[tokio::test]
async fn batches_are_answered_together_where_the_revision_has_them() {
    let (_host, front, _) = serving().await;
    let mut wire = Wire::open(&front).await;
    let id = wire.session("2025-03-26").await;
    let batch = json!([request(1, "ping", json!({})), request(2, "tools/call", call("two"))]);
    let answer = wire.post(&[("Mcp-Session-Id", &id)], &batch).await.json();
    let mut ids: Vec<u64> =
        answer.as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    let new = wire.session("2025-11-25").await;
    assert_eq!(wire.post(&[("Mcp-Session-Id", &new)], &batch).await.status, 400);
    assert_eq!(wire.post(&[("Mcp-Session-Id", &id)], &json!([])).await.status, 400);
}

#[tokio::test]
async fn modern_requests_need_no_session_and_headers_that_say_what_the_body_says() {
    let (_host, front, _) = serving().await;
    let mut wire = Wire::open(&front).await;
    let body = modern(7, "tools/call", call("new"));
    let answer = wire.post(&mirrored("tools/call", Some("s__echo")), &body).await;
    assert_eq!((answer.status, said(&answer.json())), (200, "new"));
    assert!(answer.header("mcp-session-id").is_none());
    let code = |answer: crate::support::http_client::Answer| {
        (answer.status, answer.json()["error"]["code"].as_i64().unwrap())
    };
    assert_eq!(code(wire.post(&mirrored("tools/call", Some("other")), &body).await), (400, -32020));
    assert_eq!(code(wire.post(&mirrored("tools/call", None), &body).await), (400, -32020));
    assert_eq!(code(wire.post(&mirrored("tools/list", Some("s__echo")), &body).await), (400, -32020));
    assert_eq!(code(wire.post(&[("Mcp-Method", "tools/call")], &body).await), (400, -32020));
    let unknown = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")];
    assert_eq!(code(wire.post(&unknown, &request(1, "tools/list", json!({}))).await), (400, -32022));
    // What only the other era has. A method that nobody knows goes to the one server.
    let nothing = modern(1, "logging/setLevel", json!({}));
    assert_eq!(code(wire.post(&mirrored("logging/setLevel", None), &nothing).await), (404, -32601));
    let bare = request(1, "tools/list", json!({}));
    assert_eq!(code(wire.post(&mirrored("tools/list", None), &bare).await), (400, -32602));
    assert_eq!(front.sessions(), 0);
}

/// A server whose tool wants its region mirrored in a header.
fn mirroring(message: &Value, wire: &Pipe) {
    if method_of(message) != "tools/list" {
        return echo(message, wire);
    }
    let tool = json!({"name": "echo", "inputSchema": {"type": "object", "properties": {
        "text": {"type": "string"}, "region": {"type": "string", "x-mcp-header": "Region"},
    }}});
    wire.result(message, &json!({ "tools": [tool] }).to_string());
}

#[tokio::test]
async fn arguments_that_a_tool_wants_mirrored_must_be_in_their_headers_as_in_the_body() {
    let tape = Tape::default();
    let host = host(Fleet::default().with(spec("s"), tape.of(mirroring)), |_| {}).await;
    let front = front(&host, |_| {}).await;
    let mut wire = Wire::open(&front).await;
    type Row<'a> = (&'a [(&'a str, &'a str)], Value, u16);
    let table: [Row<'_>; 7] = [
        (&[("Mcp-Param-Region", "eu")], json!({"text": "t", "region": "eu"}), 200),
        (&[("mcp-param-region", "=?base64?ZXU=?=")], json!({"text": "t", "region": "eu"}), 200),
        (&[], json!({"text": "t"}), 200),
        (&[], json!({"text": "t", "region": "eu"}), 400),
        (&[("Mcp-Param-Region", "us")], json!({"text": "t", "region": "eu"}), 400),
        (&[("Mcp-Param-Region", "eu")], json!({"text": "t"}), 400),
        (&[("Mcp-Param-Region", "=?base64?ZXU?=")], json!({"text": "t", "region": "eu"}), 400),
    ];
    for (more, arguments, status) in table {
        let body = modern(1, "tools/call", json!({"name": "s__echo", "arguments": arguments}));
        let mut headers = mirrored("tools/call", Some("s__echo"));
        headers.extend_from_slice(more);
        let answer = wire.post(&headers, &body).await;
        assert_eq!(answer.status, status, "{more:?} {body}: {answer:?}");
        if status == 400 {
            let error = &answer.json()["error"];
            assert_eq!(error["code"], -32020);
            assert!(error["message"].as_str().unwrap().contains("Mcp-Param-Region"), "{error}");
        }
    }
    assert_eq!(tape.received("tools/call").len(), 3, "what was refused reached no server");
    let old = wire.session("2025-11-25").await;
    let body =
        request(1, "tools/call", json!({"name": "s__echo", "arguments": {"text": "t", "region": "eu"}}));
    assert_eq!(wire.post(&[("Mcp-Session-Id", &old)], &body).await.status, 200, "the old era has none");
}

#[tokio::test]
async fn closing_the_stream_cancels_a_modern_request_and_not_a_legacy_one() {
    let (_host, front, tape) = serving().await;
    let slow = json!({"name": "s__echo", "arguments": {"slow": true}});
    let mut old = Wire::open(&front).await;
    let id = old.session("2025-11-25").await;
    old.send("POST", "/mcp", &[("Mcp-Session-Id", &id)], &request(1, "tools/call", slow.clone()).to_string())
        .await;
    until("the call arrives", || tape.received("tools/call").len() == 1).await;
    drop(old);
    let mut new = Wire::open(&front).await;
    let body = modern(1, "tools/call", slow).to_string();
    new.send("POST", "/mcp", &mirrored("tools/call", Some("s__echo")), &body).await;
    until("the call arrives", || tape.received("tools/call").len() == 2).await;
    drop(new);
    until("it is cancelled", || !tape.received("notifications/cancelled").is_empty()).await;
    until("connections close", || front.connections() == 0).await;
    assert_eq!(tape.received("notifications/cancelled").len(), 1);
    let mut wire = Wire::open(&front).await;
    assert_eq!(wire.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "").await.status, 204);
    until("its end cancels it", || tape.received("notifications/cancelled").len() == 2).await;
}

#[tokio::test]
async fn sixty_four_http_clients_with_equal_ids_get_their_own_answers() {
    let (_host, front, _) = serving().await;
    let front = Arc::new(front);
    let wrong: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..64 {
        let (front, wrong) = (front.clone(), wrong.clone());
        clients.spawn(async move {
            let mut wire = Wire::open(&front).await;
            let id = if n % 2 == 0 { Some(wire.session("2025-06-18").await) } else { None };
            for at in 0..10 {
                let nonce = format!("nonce-{n}-{at}");
                let answer = match &id {
                    Some(id) => {
                        wire.post(&[("Mcp-Session-Id", id)], &request(at, "tools/call", call(&nonce))).await
                    }
                    None => {
                        let body = modern(at, "tools/call", call(&nonce));
                        wire.post(&mirrored("tools/call", Some("s__echo")), &body).await
                    }
                };
                let body = answer.json();
                if said(&body) != nonce || body["id"] != at {
                    wrong.lock().unwrap().push(answer.body);
                }
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_token_that_is_shown_must_count_and_a_removed_one_ends_its_sessions() {
    let home = tempfile::tempdir().unwrap();
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let path = home.path().to_path_buf();
    let terms = tokens::TokenTerms {
        rate: Some(tokens::TokenRate { per_second: 1000, burst: 4 }),
        ..tokens::TokenTerms::default()
    };
    let token = tokens::add(&path, "ci", &terms, std::time::SystemTime::now()).unwrap();
    let front = front(&host, |plan| plan.home = Some(path.clone())).await;
    let bearer = format!("Bearer {token}");
    let mut wire = Wire::open(&front).await;
    let answer = wire.ask("GET", "/healthz", &[("Authorization", &bearer)], "").await;
    assert_eq!(answer.status, 200);
    let init = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let opened = wire.post(&[("Authorization", &bearer)], &request(1, "initialize", init)).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    // The same user is another identity: the session is not there for it.
    assert_eq!(wire.post(&[("Mcp-Session-Id", &id)], &request(2, "ping", json!({}))).await.status, 404);
    tokens::remove(&path, "ci").unwrap();
    until("its session ends", || front.sessions() == 0).await;
    let refused = wire.ask("GET", "/healthz", &[("Authorization", &bearer)], "").await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("invalid_token"));
}

#[tokio::test]
async fn a_limit_of_requests_is_told_with_when_to_come_again() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| {
        plan.limits.rate = Some(callboard::config::spec::Rate { per_second: 1, burst: 2 });
    })
    .await;
    let mut wire = Wire::open(&front).await;
    let list = modern(1, "tools/list", json!({}));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(wire.post(&mirrored("tools/list", None), &list).await);
    }
    assert_eq!(statuses.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(statuses[2].header("retry-after"), Some("1"));
}

#[tokio::test]
async fn large_heads_and_bodies_chunk_bombs_and_pipelines_are_bounded() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| plan.limits.body_max = 100_000).await;
    let mut wire = Wire::open(&front).await;
    wire.send("GET", "/healthz", &[("X-Long", &"x".repeat(60_000))], "").await;
    assert_eq!(wire.answer().await.status, 200);
    let mut wire = Wire::open(&front).await;
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1 << 20));
    let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.stream, head.as_bytes()).await;
    assert!(wire.closed().await || front.connections() <= 1);
    let mut wire = Wire::open(&front).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    wire.write(format!("{head}Content-Length: 100001\r\n\r\n")).await;
    assert_eq!(wire.head().await.status, 413, "before a byte of it is read");
    let mut wire = Wire::open(&front).await;
    wire.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await;
    let bomb = "1\r\nx\r\n".repeat(100_002);
    let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.stream, bomb.as_bytes()).await;
    assert_eq!(wire.head().await.status, 413);
    let mut wire = Wire::open(&front).await;
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    wire.write(one.repeat(50)).await;
    for _ in 0..50 {
        assert_eq!(wire.answer().await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_head_or_body_drop_by_drop_is_let_go() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| plan.open = true).await;
    let mut wire = Wire::open(&front).await;
    wire.write("GET /healthz HTTP/1.1\r\nHost: loc").await;
    assert!(wire.closed().await);
    let mut wire = Wire::open(&front).await;
    wire.write("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
        .await;
    assert_eq!(wire.head().await.status, 408);
    until("both are let go", || front.connections() == 0).await;
}

#[tokio::test]
async fn a_thousand_sessions_that_are_abandoned_leave_nothing() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| {
        plan.limits.sessions_max = 2000;
        plan.limits.session_idle = Duration::from_secs(1);
    })
    .await;
    let mut wire = Wire::open(&front).await;
    let first = wire.session("2025-11-25").await;
    for _ in 0..999 {
        wire.session("2025-11-25").await;
    }
    let mut stream = Wire::open(&front).await;
    let id = wire.session("2025-11-25").await;
    stream.send("GET", "/mcp", &[("Mcp-Session-Id", &id)], "").await;
    assert_eq!(stream.head().await.status, 200);
    until("they expire", || front.sessions() == 1 && host.clients().len() == 1).await;
    let gone = wire.post(&[("Mcp-Session-Id", &first)], &request(1, "ping", json!({}))).await;
    assert_eq!(gone.status, 404);
    drop(stream);
    until("one that is listened to no more expires too", || front.sessions() == 0).await;
}

#[tokio::test]
async fn beyond_the_cap_of_sessions_those_in_use_stay_and_a_new_one_is_told_to_wait() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| plan.limits.sessions_max = 2).await;
    let mut wire = Wire::open(&front).await;
    let first = wire.session("2025-11-25").await;
    wire.session("2025-11-25").await;
    let init = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let refused = wire.post(&[], &request(1, "initialize", init)).await;
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    let ping = wire.post(&[("Mcp-Session-Id", &first)], &request(1, "ping", json!({}))).await;
    assert_eq!(ping.status, 200);
}

#[tokio::test]
async fn a_stop_lets_running_requests_finish_and_refuses_new_ones() {
    let held: Arc<Mutex<Vec<(Value, Pipe)>>> = Arc::default();
    let keep = held.clone();
    let script = move |message: &Value, wire: &Pipe| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            keep.lock().unwrap().push((message.clone(), wire.clone()));
        }
    };
    let host = host(Fleet::default().with(spec("s"), script), |_| {}).await;
    let front = front(&host, |_| {}).await;
    let mut running = Wire::open(&front).await;
    let id = running.session("2025-11-25").await;
    let mine = [("Mcp-Session-Id", id.as_str())];
    running.send("POST", "/mcp", &mine, &request(1, "tools/call", call("x")).to_string()).await;
    until("it runs", || held.lock().unwrap().len() == 1).await;
    let mut listening = Wire::open(&front).await;
    listening.send("GET", "/mcp", &mine, "").await;
    listening.head().await;
    let at = front.addresses()[0];
    let stopping = tokio::spawn(front.shutdown(Duration::from_secs(60)));
    while listening.event().await.is_some() {}
    let mut late = tokio::net::TcpStream::connect(at).await.unwrap();
    let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut late, get.as_bytes()).await.unwrap();
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut late, &mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    let (message, pipe) = held.lock().unwrap().pop().unwrap();
    pipe.result(&message, r#"{"content":[{"type":"text","text":"done"}]}"#);
    assert_eq!(said(&running.answer().await.json()), "done");
    stopping.await.unwrap();
    assert!(tokio::net::TcpStream::connect(at).await.is_err());
}
