//! What a client of the host is owed by the protocol, in every revision, as raw frames.

use callboard::serve::{Caller, Globs};
use serde_json::{Value, json};

use crate::support::client::{Raw, host, said};
use crate::support::{Fleet, Script, Wire, good, method_of, spec};

/// A server whose tool `echo` says its arguments.
pub fn echo() -> impl Script {
    |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            let text = message["params"]["arguments"].to_string();
            let result = json!({"content": [{"type": "text", "text": text}]});
            wire.result(message, &result.to_string());
        }
    }
}

fn two() -> Fleet {
    Fleet::default().with(spec("a"), echo()).with(spec("b"), echo())
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

fn names(answer: &Value) -> Vec<&str> {
    answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_known_revision_is_kept_and_an_unknown_one_gets_the_newest_with_a_handshake() {
    let host = host(two(), |_| {}).await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = Raw::attach(&host);
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let answer = client.ask("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], given, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "callboard");
        assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn before_its_handshake_a_client_gets_a_pong_and_nothing_else() {
    let host = host(two(), |_| {}).await;
    let mut client = Raw::attach(&host);
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    let refused = client.ask("tools/list", json!({})).await;
    assert_eq!(code(&refused), -32600);
    assert_eq!(refused["error"]["data"]["supported"][0], "2026-07-28");
    assert_eq!(code(&client.ask("initialize", json!({})).await), -32602, "without a revision");
    client.welcome(json!({})).await;
    let again = client.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
    assert_eq!(code(&again), -32600, "{again}");
    assert_eq!(names(&client.ask("tools/list", json!({})).await).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn every_broken_message_gets_its_code_and_the_next_one_is_answered() {
    let host = host(two(), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    for (line, code) in [
        ("{oops", -32700),
        ("42", -32600),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"nobody"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:/y"}}"#, -32002),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"junk"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"theirs"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"what/ever"}"#, -32601),
    ] {
        client.text(line).await;
        let answer = client.read().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn batches_are_answered_together_where_the_revision_has_them() {
    let host = host(two(), |_| {}).await;
    let mut client = Raw::attach(&host);
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    client.ask("initialize", params).await;
    let call = json!({"name": "a__echo", "arguments": {"x": 1}});
    client
        .send(&json!([
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": call},
            {"jsonrpc": "2.0", "id": 3, "method": "what/ever"},
        ]))
        .await;
    let answers = client.read().await.unwrap();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answers:?}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(said(of(json!("two"))), r#"{"x":1}"#);
    assert_eq!(code(of(json!(3))), -32601);
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_says_its_revision_and_gets_modern_results() {
    let host = host(two(), |_| {}).await;
    let mut client = Raw::attach(&host);
    let refused = client.ask("server/discover", json!({})).await;
    assert_eq!(code(&refused), -32022);
    let old = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}});
    let refused = client.ask("tools/list", old).await;
    assert_eq!((code(&refused), &refused["error"]["data"]["requested"]), (-32022, &json!("2099-01-01")));
    let found = client.ask_modern("server/discover", json!({})).await;
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    assert_eq!(found["result"]["resultType"], "complete");
    let listed = client.ask_modern("tools/list", json!({})).await;
    assert_eq!(listed["result"]["cacheScope"], "private");
    assert_eq!(names(&listed).len(), 4);
    let called = client.ask_modern("tools/call", json!({"name": "b__echo", "arguments": {"y": 2}})).await;
    assert_eq!((said(&called), &called["result"]["resultType"]), (r#"{"y":2}"#, &json!("complete")));
    let refused = client.ask_modern("tools/call", json!({"name": "b__echo", "arguments": []})).await;
    assert_eq!(
        (&refused["result"]["isError"], &refused["result"]["resultType"]),
        (&json!(true), &json!("complete"))
    );
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        let answer = client.ask_modern(method, json!({"level": "info", "uri": "x"})).await;
        assert_eq!(code(&answer), -32601, "{method}");
    }
    assert_eq!(code(&client.ask("tools/list", json!({})).await), -32022, "the era of a connection stays");
    let missing = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    assert_eq!(code(&client.ask("tools/list", missing).await), -32602, "without its capabilities");
}

#[tokio::test(start_paused = true)]
async fn definitions_and_answers_pass_byte_for_byte() {
    let odd = r#"{ "z" :1.10,"name":"odd","inputSchema":{"type":"object"},"title":"\u00e9","unknown":{"b":[1e400]} }"#;
    let result = r#"{"structuredContent" : {"n":12345678901234567890123,"f":1.0},"content":[],"x-odd":[ ]}"#;
    let script = move |message: &Value, wire: &Wire| match method_of(message) {
        "tools/list" => wire.result(message, &format!(r#"{{"tools":[{odd}]}}"#)),
        "tools/call" => wire.result(message, result),
        _ => {
            good(message, wire);
        }
    };
    let host = host(Fleet::default().with(spec("s"), script), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    client.request(1, "tools/list", json!({})).await;
    // A number that no reader of ours could hold.
    client.line().await.unwrap();
    assert!(client.line.contains(&odd.replace(r#""odd""#, r#""s__odd""#)), "{}", client.line);
    client
        .text(r#"{"jsonrpc":"2.0","id":"\u0061/1","method":"tools/call","params":{"name":"s__odd"}}"#)
        .await;
    client.read().await;
    assert_eq!(client.line, format!(r#"{{"jsonrpc":"2.0","id":"\u0061/1","result":{result}}}"#));
}

#[tokio::test(start_paused = true)]
async fn pages_lose_and_repeat_nothing_and_a_foreign_cursor_is_refused() {
    let count = 2 * callboard::serve::lists::PAGE_ITEMS_MAX + 5;
    let script = move |message: &Value, wire: &Wire| {
        if method_of(message) == "tools/list" {
            let tools: Vec<Value> = (0..count)
                .map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}}))
                .collect();
            wire.result(message, &json!({"tools": tools}).to_string());
        } else {
            good(message, wire);
        }
    };
    let host = host(Fleet::default().with(spec("a"), script).with(spec("b"), echo()), |_| {}).await;
    let mut client = Raw::legacy(&host, json!({})).await;
    let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.ask("tools/list", params).await;
        seen.extend(names(&page).into_iter().map(str::to_owned));
        pages += 1;
        cursor = page["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
        assert_eq!(code(&client.ask("prompts/list", json!({"cursor": cursor})).await), -32602);
    }
    assert_eq!((pages, seen.len()), (3, count + 2));
    let unique: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_see_a_part_sees_and_calls_that_part_only() {
    let host = host(two(), |_| {}).await;
    let only = Some(Globs::new(["a", "b/other"]).unwrap());
    let mut client = Raw::attach_as(&host, Caller { only, ..Caller::same_user() });
    client.welcome(json!({})).await;
    let listed = client.ask("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["a__echo", "a__other", "b__other"]);
    let refused = client.ask("tools/call", json!({"name": "b__echo"})).await;
    assert_eq!(code(&refused), -32602, "{refused}");
}
