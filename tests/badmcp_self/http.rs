//! Streamable HTTP: what is right without flags, sessions, methods, headers, redirects.

use serde_json::{Value, json};

use super::pipe::eventually;
use super::web::{ACCEPT, Web, Wire};

#[test]
fn a_session_lives_from_initialize_to_delete() {
    let mut web = Web::start(&[]);
    let first = web.initialize();
    assert_eq!((first.status, first.header("content-type")), (200, "application/json"));
    assert_eq!(first.all("mcp-session-id").len(), 1);
    assert_eq!(web.open()["protocolVersion"], "2025-11-25");
    assert_eq!(
        web.ask("tools/list", &json!({})).json()["result"]["tools"].as_array().map(Vec::len),
        Some(13)
    );
    assert_eq!(web.call("t0", &json!({"a": 1})).json()["result"]["content"][0]["text"], r#"t0 {"a":1}"#);
    assert_eq!(web.call("none", &json!({})).code(), -32602);
    let session = web.session.clone().expect("a session");
    let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let mut stream = web.stream();
    assert_eq!(web.exchange("DELETE", "/mcp", &own, "").status, 200);
    assert_eq!(stream.event(), None, "the stream ends with its session");
    assert_eq!(web.exchange("DELETE", "/mcp", &own, "").status, 404);
    assert_eq!(web.call("t0", &json!({})).status, 404);
    let what: Vec<Value> =
        web.pipe.trace().iter().filter(|e| e["ev"] == "session").map(|e| e["what"].clone()).collect();
    assert_eq!(what, ["new", "new", "deleted", "refused", "refused"]);
}

#[test]
fn requests_that_miss_something_get_their_status() {
    let mut web = Web::opened(&[]);
    let session = web.session.clone().expect("a session");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let status = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        web.exchange(method, path, headers, body).status
    };
    let own = ("mcp-session-id", session.as_str());
    assert_eq!(status("POST", "/mcp", &[ACCEPT], &ping), 400);
    assert_eq!(status("POST", "/mcp", &[ACCEPT, ("mcp-session-id", "made-up")], &ping), 404);
    assert_eq!(status("POST", "/mcp", &[ACCEPT, own], &ping), 200);
    assert_eq!(status("POST", "/mcp", &[ACCEPT, own, ("mcp-protocol-version", "1999-01-01")], &ping), 400);
    assert_eq!(status("POST", "/elsewhere", &[ACCEPT, own], &ping), 404);
    assert_eq!(status("POST", "/mcp", &[ACCEPT, own], "{oops"), 400);
    assert_eq!(status("POST", "/mcp", &[ACCEPT, own], &format!("[{ping}]")), 400);
    assert_eq!(status("GET", "/mcp", &[("accept", "application/json"), own], ""), 406);
    assert_eq!(status("GET", "/mcp", &[("accept", "text/event-stream")], ""), 400);
    assert_eq!(status("PUT", "/mcp", &[own], ""), 405);
    assert_eq!(web.ask("server/discover", &json!({})).code(), -32601);
}

#[test]
fn one_connection_carries_many_requests_and_chunked_bodies() {
    let web = Web::opened(&[]);
    let session = web.session.clone().expect("a session");
    let mut wire = Wire::connect(web.port);
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}).to_string();
    for _ in 0..3 {
        wire.send("POST", "/mcp", &[ACCEPT, ("mcp-session-id", &session)], &body);
        assert_eq!(wire.read().expect("an answer").json()["id"], 5);
    }
    use std::io::Write;
    let (a, b) = body.split_at(10);
    let chunked = format!(
        "POST /mcp HTTP/1.1\r\nhost: x\r\nmcp-session-id: {session}\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
        a.len(),
        b.len()
    );
    wire.socket.write_all(chunked.as_bytes()).expect("badmcp reads");
    assert_eq!(wire.read().expect("an answer").json()["result"], json!({}));
}

#[test]
fn keep_alive_can_be_denied() {
    let web = Web::opened(&["--no-keep-alive"]);
    let mut wire = web.send("/mcp", &json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}));
    assert_eq!(wire.read().expect("an answer").header("connection"), "close");
    assert!(wire.head().is_none(), "the connection is closed");
}

#[test]
fn list_changed_comes_on_the_get_stream() {
    let web = Web::opened(&["--control", "{dir}/control"]);
    let mut stream = web.stream();
    eventually("the stream is heard", || {
        web.pipe.control("notify tools");
        stream.socket.set_nonblocking(true).expect("nonblocking");
        let heard = stream.socket.peek(&mut [0]).is_ok();
        stream.socket.set_nonblocking(false).expect("blocking");
        heard.then_some(())
    });
    assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
    drop(stream);
    web.pipe.traced("stream-end", |_| true);
}

#[test]
fn a_session_expires_after_its_calls() {
    let mut web = Web::opened(&["--session-expire", "3"]);
    let first = web.session.clone();
    for _ in 0..3 {
        assert_eq!(web.call("t0", &json!({})).status, 200);
    }
    assert_eq!(web.ask("tools/list", &json!({})).status, 200);
    let over = web.call("t0", &json!({}));
    assert_eq!((over.status, over.json()["error"]["message"].clone()), (404, json!("Session not found")));
    assert_eq!(web.ask("tools/list", &json!({})).status, 404);
    web.open();
    assert_ne!(web.session, first);
    assert_eq!(web.call("t0", &json!({})).status, 200);
}

#[test]
fn a_session_that_never_holds_is_refused_at_once() {
    let mut web = Web::start(&["--session-expire", "0"]);
    assert_eq!(web.initialize().status, 200);
    assert_eq!(web.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status, 404);
    assert_eq!(web.ask("tools/list", &json!({})).status, 404);
}

#[test]
fn other_spellings_of_a_lost_session() {
    for (flag, status, code) in [("--session-expire-200", 200, -32001), ("--session-400", 400, -32000)] {
        let mut web = Web::opened(&[flag]);
        assert_eq!(web.call("t0", &json!({})).json()["result"]["content"][0]["text"], "t0 {}");
        let lost = web.call("t0", &json!({}));
        assert_eq!((lost.status, lost.code()), (status, json!(code)), "{flag}");
        assert!(lost.body.contains("Session"), "{lost:?}");
        web.open();
        assert_eq!(web.call("t0", &json!({})).json()["result"]["content"][0]["text"], "t0 {}");
    }
}

#[test]
fn the_session_header_comes_twice_and_both_joined_are_unknown() {
    let mut web = Web::start(&["--session-id-dup-header"]);
    let ids: Vec<String> = web.initialize().all("mcp-session-id").iter().map(|id| (*id).to_owned()).collect();
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]));
    web.session = Some(format!("{}, {}", ids[0], ids[0]));
    assert_eq!(web.ask("ping", &json!({})).status, 404);
    web.session = Some(ids[0].clone());
    assert_eq!(web.ask("ping", &json!({})).status, 200);
}

#[test]
fn sessions_streams_and_deletion_can_be_missing() {
    let mut web = Web::start(&["--stateless"]);
    assert!(web.initialize().all("mcp-session-id").is_empty());
    assert_eq!(web.call("t0", &json!({})).status, 200);
    for (flags, method) in [(&["--stateless"], "GET"), (&["--no-get"], "GET"), (&["--no-delete"], "DELETE")] {
        let web = Web::opened(flags);
        let session = web.session.clone().unwrap_or_default();
        let headers = [("accept", "text/event-stream"), ("mcp-session-id", session.as_str())];
        assert_eq!(web.exchange(method, "/mcp", &headers, "").status, 405, "{flags:?}");
    }
}

#[test]
fn a_strict_accept_takes_nothing_else() {
    let web = Web::opened(&["--strict-accept"]);
    let session = web.session.clone().expect("a session");
    let own = ("mcp-session-id", session.as_str());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/x"}).to_string();
    let status = |method: &str, accept: &str, body: &str| {
        web.exchange(method, "/mcp", &[("accept", accept), own], body).status
    };
    assert_eq!(status("POST", "text/event-stream, application/json", &ping), 200);
    for wrong in ["*/*", "application/json", "text/event-stream", "application/json, text/event-stream, */*"]
    {
        assert_eq!(status("POST", wrong, &ping), 406, "{wrong}");
        assert_eq!(status("POST", wrong, &notice), 406, "{wrong}");
    }
    assert_eq!(status("GET", "*/*", ""), 406);
    web.stream();
}

#[test]
fn a_strict_version_header_holds_on_every_method() {
    let mut web = Web::start(&["--strict-version-header", "--init-version", "2025-03-26"]);
    assert_eq!(web.open()["protocolVersion"], "2025-03-26");
    let session = web.session.clone().expect("a session");
    let own = ("mcp-session-id", session.as_str());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (method, body, accept) in
        [("POST", ping.as_str(), ACCEPT.1), ("GET", "", "text/event-stream"), ("DELETE", "", "*/*")]
    {
        for wrong in [None, Some("2025-11-25")] {
            let mut headers = vec![("accept", accept), own];
            headers.extend(wrong.map(|v| ("mcp-protocol-version", v)));
            assert_eq!(web.exchange(method, "/mcp", &headers, body).status, 400, "{method} {wrong:?}");
        }
    }
    assert_eq!(web.ask("ping", &json!({})).status, 200);
    web.stream();
    let right = [own, ("mcp-protocol-version", "2025-03-26")];
    assert_eq!(web.exchange("DELETE", "/mcp", &right, "").status, 200);
}

#[test]
fn a_token_is_wanted_and_can_change() {
    let mut web = Web::start(&["--auth", "bearer", "--token", "first", "--control", "{dir}/control"]);
    let refused = web.initialize();
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").starts_with("Bearer "), "{refused:?}");
    web.extra.push(("authorization".into(), "Bearer first".into()));
    web.open();
    assert_eq!(web.call("t0", &json!({})).status, 200);
    web.pipe.control("token second");
    assert_eq!(web.call("t0", &json!({})).status, 401);
    web.extra[0].1 = "Bearer second".into();
    assert_eq!(web.call("t0", &json!({})).status, 200);
    web.pipe.control("expire-sessions");
    assert_eq!(web.call("t0", &json!({})).status, 404);
}

#[test]
fn posts_are_redirected() {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let web = Web::start(&["--redirect", "307:/mcp/"]);
    let first = web.post(&ping);
    assert_eq!((first.status, first.header("location")), (307, "/mcp/"));
    assert_eq!(web.send("/mcp/", &ping).read().expect("an answer").status, 200);
    for to in ["301:/mcp/", "308:/other", "307:http://127.0.0.1:9/mcp"] {
        let (code, target) = to.split_once(':').expect("code");
        let answer = Web::start(&["--redirect", to]).post(&ping);
        assert_eq!((answer.status.to_string().as_str(), answer.header("location")), (code, target));
    }
    let web = Web::start(&["--redirect", "loop"]);
    let mut path = "/mcp".to_owned();
    for hop in 1..=3 {
        let answer = web.send(&path, &ping).read().expect("an answer");
        assert_eq!((answer.status, answer.header("location")), (307, format!("/mcp?hop={hop}").as_str()));
        path = answer.header("location").to_owned();
    }
}

#[test]
fn statuses_are_forced_for_a_while() {
    let mut web = Web::opened(&["--http-fail", "503x2:1@call"]);
    assert_eq!(web.ask("tools/list", &json!({})).status, 200);
    for _ in 0..2 {
        let answer = web.call("t0", &json!({}));
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    }
    assert_eq!(web.call("t0", &json!({})).status, 200);
    let mut any = Web::start(&["--http-fail", "500"]);
    assert_eq!(any.initialize().status, 500);
    assert_eq!(any.ask("ping", &json!({})).status, 500);
}

#[test]
fn an_answer_is_cut_in_the_middle() {
    let mut web = Web::opened(&["--drop-mid-answer"]);
    assert_eq!(web.ask("tools/list", &json!({})).status, 200);
    assert!(web.call("t0", &json!({})).cut);
    let mut streamed = Web::opened(&["--drop-mid-answer", "--http-answer", "sse"]);
    assert!(streamed.call("t0", &json!({})).cut);
}

#[test]
fn a_serial_server_over_http_takes_one_request_at_a_time() {
    let mut web = Web::opened(&["--serial", "--progress-every", "10"]);
    let params = json!({"name": "sleep", "arguments": {"ms": 100}, "_meta": {"progressToken": 1}});
    let call = web.message("tools/call", &params);
    let mut slow = web.send("/mcp", &call);
    assert!(slow.head().expect("a head").streams());
    assert_eq!(slow.message()["method"], "notifications/progress", "the call runs");
    assert_eq!(web.ask("ping", &json!({})).status, 200);
    let trace = web.pipe.trace();
    let left = |id: &Value| trace.iter().position(|e| e["ev"] == "out" && e["id"] == *id).expect("an answer");
    assert!(left(&call["id"]) < left(&json!(3)), "ping waits for the call");
}

#[test]
fn the_old_transport_answers_on_its_one_stream() {
    let web = Web::start(&["--old-sse"]);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}});
    let refused = web.send("/sse", &ping).read().expect("an answer");
    assert_eq!((refused.status, refused.header("allow")), (405, "GET"));
    let mut stream = Wire::connect(web.port);
    stream.send("GET", "/sse", &[("accept", "text/event-stream")], "");
    assert!(stream.head().expect("a head").streams());
    let endpoint = stream.event().expect("the first event");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    assert!(endpoint.data.starts_with("/messages?sessionId="), "{endpoint:?}");
    assert_eq!(web.send(&endpoint.data, &ping).read().expect("an answer").status, 202);
    assert_eq!(stream.message()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(web.send("/messages?sessionId=none", &ping).read().expect("an answer").status, 404);
}
