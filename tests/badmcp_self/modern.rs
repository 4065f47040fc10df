//! The modern era (2026-07-28), on both transports, and how the eras meet.

use serde_json::{Value, json};

use super::pipe::Pipe;
use super::web::{MODERN, Web, modern};

fn ask(pipe: &mut Pipe, method: &str, params: Value) -> Value {
    let message = modern(&json!({"params": params}));
    pipe.ask(method, &message["params"])
}

#[test]
fn discover_names_versions_and_capabilities() {
    let mut pipe = Pipe::start(&["--era", "modern"]);
    let result = ask(&mut pipe, "server/discover", json!({}))["result"].clone();
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["resultType"], "complete");
    assert!(result["capabilities"]["tools"].is_object() && result["capabilities"].get("logging").is_none());
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "badmcp");
    let both = ask(&mut Pipe::start(&["--era", "both"]), "server/discover", json!({}));
    assert_eq!(
        both["result"]["supportedVersions"],
        json!([MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
}

#[test]
fn results_carry_their_type_and_lists_their_hints() {
    let mut pipe = Pipe::start(&["--era", "modern"]);
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let result = ask(&mut pipe, method, json!({}))["result"].clone();
        assert_eq!(
            (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
            (&json!("complete"), &json!(0), &json!("private"))
        );
    }
    let call =
        ask(&mut pipe, "tools/call", json!({"name": "echo", "arguments": {"text": "x"}}))["result"].clone();
    assert_eq!(
        (&call["resultType"], &call["content"][0]["text"], call.get("ttlMs")),
        (&json!("complete"), &json!("x"), None)
    );
    assert_eq!(ask(&mut pipe, "resources/read", json!({"uri": "badmcp://none"}))["error"]["code"], -32602);
    assert_eq!(ask(&mut pipe, "resources/read", json!({"uri": "badmcp://text/1"}))["result"]["ttlMs"], 0);
}

#[test]
fn requests_without_their_meta_or_of_the_old_era_are_refused() {
    let mut pipe = Pipe::start(&["--era", "modern"]);
    assert_eq!(pipe.ask("tools/list", &json!({}))["error"]["code"], -32602);
    let version_only = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}});
    assert_eq!(pipe.ask("tools/list", &version_only)["error"]["code"], -32602);
    let mut newer = modern(&json!({}))["params"].clone();
    newer["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let error = pipe.ask("tools/list", &newer)["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32022), &json!({"requested": "2099-01-01", "supported": [MODERN]}))
    );
    let error = pipe.initialize("2025-11-25")["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32022), &json!({"requested": "2025-11-25", "supported": [MODERN]}))
    );
    for method in ["ping", "logging/setLevel", "resources/subscribe"] {
        assert_eq!(ask(&mut pipe, method, json!({}))["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn a_modern_server_may_leave_after_refusing_initialize() {
    let mut pipe = Pipe::start(&["--era", "modern", "--exit-on-unsupported"]);
    assert_eq!(pipe.initialize("2025-11-25")["error"]["code"], -32022);
    assert_eq!(pipe.raw_line(), None);
    assert_eq!(pipe.exit().code(), Some(0));
}

#[test]
fn both_eras_live_on_one_pipe() {
    let mut pipe = Pipe::start(&["--era", "both"]);
    assert_eq!(pipe.ask("tools/list", &json!({}))["error"]["code"], -32002);
    assert_eq!(ask(&mut pipe, "tools/list", json!({}))["result"]["resultType"], "complete");
    pipe.open();
    assert_eq!(pipe.ask("tools/list", &json!({}))["result"].get("resultType"), None);
}

#[test]
fn a_subscription_is_acknowledged_tagged_and_cancelled() {
    let mut pipe = Pipe::start(&["--era", "modern", "--control", "{dir}/control"]);
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": false,
                        "resourceSubscriptions": ["badmcp://text/1"]}});
    let params = modern(&json!({"params": wanted}))["params"].clone();
    let id = pipe.begin("subscriptions/listen", &params);
    let ack = pipe.message();
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        ack["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["badmcp://text/1"]})
    );
    let tag = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(tag(&ack), id);
    for command in
        ["notify prompts", "notify updated badmcp://text/2", "notify tools", "notify updated badmcp://text/1"]
    {
        pipe.control(command);
    }
    let heard = [pipe.message(), pipe.message()];
    assert_eq!(heard[0]["method"], "notifications/tools/list_changed");
    assert_eq!(heard[1]["params"]["uri"], "badmcp://text/1");
    assert!(heard.iter().all(|message| tag(message) == id));
    pipe.notify("notifications/cancelled", &json!({"requestId": id}));
    pipe.traced("cancelled", |_| true);
    pipe.control("notify tools");
    ask(&mut pipe, "tools/list", json!({}));
    assert!(pipe.aside.is_empty());
}

#[test]
fn questions_come_as_a_result_and_answers_with_the_same_call() {
    let mut pipe = Pipe::start(&["--era", "modern", "--request", "elicitation,sampling,ping"]);
    let call = json!({"name": "t0", "arguments": {}});
    let first = ask(&mut pipe, "tools/call", call.clone())["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["inputRequests"]["q0"]["method"], "elicitation/create");
    assert_eq!(first["inputRequests"]["q1"]["method"], "sampling/createMessage");
    let mut again = call.clone();
    again["inputResponses"] = json!({"q0": {"action": "accept", "content": {}}});
    assert_eq!(ask(&mut pipe, "tools/call", again.clone())["error"]["code"], -32602);
    again["requestState"] = first["requestState"].clone();
    let done = ask(&mut pipe, "tools/call", again)["result"].clone();
    assert_eq!(done["resultType"], "complete");
    assert_eq!(
        done["content"][0]["text"],
        r#"{"elicitation/create":"result","sampling/createMessage":"none"}"#
    );
}

#[test]
fn over_http_headers_must_say_what_the_body_says() {
    let mut web = Web::start(&["--era", "modern"]);
    let answer = web.modern("tools/call", &json!({"name": "echo", "arguments": {"text": "x"}}));
    assert_eq!((answer.status, answer.json()["result"]["resultType"].clone()), (200, json!("complete")));
    assert!(answer.all("mcp-session-id").is_empty());
    let call = json!({"name": "echo", "arguments": {}});
    let refused = |web: &mut Web, change: fn(&mut Vec<(String, String)>)| {
        let answer = web.modern_with("tools/call", &call, change).read().expect("an answer");
        (answer.status, answer.code())
    };
    let mismatch = (400, json!(-32020));
    let drop_header =
        |name: &'static str| move |headers: &mut Vec<(String, String)>| headers.retain(|(n, _)| n != name);
    for name in ["mcp-method", "mcp-name", "mcp-protocol-version"] {
        let answer = web.modern_with("tools/call", &call, drop_header(name)).read().expect("an answer");
        assert_eq!((answer.status, answer.code()), mismatch, "{name}");
    }
    assert_eq!(refused(&mut web, |h| h[2].1 = "tools/list".into()), mismatch);
    assert_eq!(refused(&mut web, |h| h[3].1 = "t0".into()), mismatch);
    assert_eq!(refused(&mut web, |h| h[1].1 = "2025-11-25".into()), mismatch);
    assert_eq!(refused(&mut web, |h| h.push(("mcp-name".into(), "t0".into()))), mismatch);
    let encoded = web.modern_with("tools/call", &call, |h| h[3].1 = "=?base64?ZWNobw==?=".into());
    assert_eq!({ encoded }.read().expect("an answer").status, 200);
}

#[test]
fn over_http_modern_refusals_have_their_status() {
    let mut web = Web::start(&["--era", "modern"]);
    let unknown = web.modern("no/such", &json!({}));
    assert_eq!((unknown.status, unknown.code()), (404, json!(-32601)));
    let tool = web.modern("tools/call", &json!({"name": "none"}));
    assert_eq!((tool.status, tool.code()), (200, json!(-32602)));
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let answer = web.exchange("POST", "/mcp", &headers, &bare.to_string());
    assert_eq!((answer.status, answer.code()), (400, json!(-32602)));
    let initialize = web.initialize();
    assert_eq!((initialize.status, initialize.code()), (400, json!(-32022)));
    for method in ["GET", "DELETE"] {
        let answer = web.exchange(method, "/mcp", &[("accept", "text/event-stream")], "");
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"), "{method}");
    }
}

#[test]
fn over_http_a_subscription_is_a_stream_that_ends_with_its_client() {
    let mut web = Web::start(&["--era", "both", "--control", "{dir}/control"]);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut wire = web.modern_with("subscriptions/listen", &wanted, |_| {});
    assert!(wire.head().expect("a head").streams());
    let ack = wire.message();
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    web.pipe.control("notify tools");
    let changed = wire.message();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"], ack["params"]["_meta"]);
    drop(wire);
    web.pipe.traced("stream-end", |_| true);
}

#[test]
fn over_http_closing_a_modern_call_cancels_it() {
    let mut web = Web::start(&["--era", "modern", "--slow", "60000"]);
    let wire = web.modern_with("tools/call", &json!({"name": "t0", "arguments": {}}), |_| {});
    web.pipe.traced("in", |e| e["method"] == "tools/call");
    drop(wire);
    web.pipe.traced("client-left", |_| true);
}

#[test]
fn a_legacy_server_refuses_the_modern_version_over_http() {
    let mut web = Web::start(&[]);
    let probe = web.modern("server/discover", &json!({}));
    assert_eq!((probe.status, probe.code()), (400, json!(-32000)));
    assert!(probe.body.contains("supported versions: 2025-11-25"), "{probe:?}");
    let mut both = Web::start(&["--era=both"]);
    assert_eq!(both.modern("server/discover", &json!({})).status, 200);
    assert_eq!(both.open()["protocolVersion"], "2025-11-25");
    assert_eq!(both.call("t0", &json!({})).status, 200);
}
