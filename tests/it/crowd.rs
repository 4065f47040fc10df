//! Many clients at once that use equal ids and equal progress tokens: each receives its own and nothing
//! else, through the socket of the shared host and over HTTP, beside a call that takes for ever.
//! `CALLBOARD_CROWD_CALLS` makes more calls than the 10,000 of each run.

use std::io::BufRead as _;
use std::sync::Arc;

use callboard::serve::http::HttpFront;
use serde_json::{Value, json};

use crate::cli_home::Home;
use crate::shared_host::{Client, gone, with_server};
use crate::support::client::host;
use crate::support::http_client::{Wire, front, mirrored, modern, request};
use crate::support::{Fleet, Wire as Pipe, good, method_of, spec};

const CLIENTS: usize = 64;
/// Each client asks for the lists and pings once in so many calls.
const LOOK_EVERY: usize = 16;

/// Calls of each client.
fn rounds() -> usize {
    let more = std::env::var("CALLBOARD_CROWD_CALLS").ok();
    let calls: usize = more.map_or(10_000, |calls| calls.parse().expect("a number of calls"));
    calls.div_ceil(CLIENTS)
}

/// What no other client's text contains.
fn mark(client: usize) -> String {
    format!("<client {client}>")
}

/// Whether a text is of this client: its mark is there, and no other one.
fn is_own(text: &str, client: usize) -> bool {
    let mine = mark(client);
    text.contains(&mine) && text.matches("<client ").count() == text.matches(&mine).count()
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "token"}})
}

impl Client {
    /// The next message that is not about a list.
    fn next(&mut self) -> (String, Value) {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the stream goes on");
            let message: Value = serde_json::from_str(&line).unwrap();
            if !message["method"].as_str().is_some_and(|method| method.ends_with("list_changed")) {
                return (line, message);
            }
        }
    }

    /// Asks under this id. The answer is the next thing that comes, after so many reports of progress.
    fn expect(&mut self, id: usize, method: &str, params: Value, progress: usize) -> String {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        for _ in 0..progress {
            let (line, message) = self.next();
            assert_eq!(message["params"]["progressToken"], "token", "{line}");
        }
        let (line, message) = self.next();
        assert!(message["id"] == id && message["result"].is_object(), "{method} {id}: {line}");
        line
    }
}

fn one_of_the_crowd(home: &Home, n: usize) {
    let mut client = Client::ready(home);
    for round in 0..rounds() {
        let id = round + 1;
        let line = client.expect(id, "tools/call", call("s__echo", json!({"text": mark(n)})), 0);
        assert!(is_own(&line, n), "client {n}: {line}");
        if round % LOOK_EVERY == 0 {
            client.expect(id, "tools/call", call("s__sleep", json!({"ms": 2})), 1);
            client.expect(id, "ping", json!({}), 0);
            assert!(client.expect(id, "tools/list", json!({}), 0).contains("s__echo"));
        }
    }
    client.expect(0, "ping", json!({}), 0);
    assert_eq!(client.leave(), 0);
}

#[tokio::test]
async fn joined_clients_with_equal_ids_and_tokens_receive_nothing_of_each_other() {
    let home = with_server(&json!({"args": ["--progress-every", "1"], "allowedTools": ["*"]}));
    let mut slow = Client::ready(&home);
    // Without a token, or it would report progress.
    let endless = json!({"name": "s__sleep", "arguments": {"ms": 100_000_000}});
    slow.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": endless}));
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            let home = &home;
            scope.spawn(move || one_of_the_crowd(home, n));
        }
    });
    // It has received nothing meanwhile, and what it asks beside its call is answered.
    slow.expect(2, "ping", json!({}), 0);
    let cancel = json!({"requestId": 1});
    slow.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    slow.expect(3, "ping", json!({}), 0);
    assert_eq!(slow.leave(), 0);
    gone(&home).await;
}

/// Answers with its text after progress that has it too; leaves `slow` unanswered.
fn echo(message: &Value, wire: &Pipe) {
    if good(message, wire) || method_of(message) != "tools/call" {
        return;
    }
    let params = &message["params"];
    let text = &params["arguments"]["text"];
    if text == "slow" {
        return;
    }
    let token = &params["_meta"]["progressToken"];
    let told = json!({"progressToken": token, "progress": 1, "message": text});
    wire.line(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}).to_string());
    wire.result(message, &json!({"content": [{"type": "text", "text": text}]}).to_string());
}

/// A client of one of the eras: what it sends with a request.
enum Speaks {
    Legacy(String),
    Modern,
}

impl Speaks {
    async fn ask(&self, wire: &mut Wire, id: u64, method: &str, params: Value) -> String {
        let answer = match self {
            Self::Legacy(session) => {
                wire.post(&[("Mcp-Session-Id", session)], &request(id, method, params)).await
            }
            Self::Modern => {
                let name = params["name"].as_str().map(str::to_owned);
                wire.post(&mirrored(method, name.as_deref()), &modern(id, method, params)).await
            }
        };
        assert_eq!(answer.status, 200, "{method}: {answer:?}");
        answer.body
    }
}

async fn one_of_the_crowd_over_http(front: Arc<HttpFront>, n: usize) {
    let mut wire = Wire::open(&front).await;
    let speaks = match n % 2 {
        0 => Speaks::Legacy(wire.session("2025-11-25").await),
        _ => Speaks::Modern,
    };
    for round in 0..rounds() {
        let id = round as u64 + 1;
        let body = speaks.ask(&mut wire, id, "tools/call", call("s__echo", json!({"text": mark(n)}))).await;
        assert!(is_own(&body, n) && body.contains(&format!("\"id\":{id}")), "client {n}: {body}");
        assert_eq!(body.matches("\"progressToken\":\"token\"").count(), 1, "client {n}: {body}");
        if round % LOOK_EVERY == 0 {
            assert!(speaks.ask(&mut wire, id, "tools/list", json!({})).await.contains("s__echo"));
        }
    }
}

#[tokio::test]
async fn clients_over_http_with_equal_ids_and_tokens_receive_nothing_of_each_other() {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = Arc::new(front(&host, |_| {}).await);
    let mut slow = Wire::open(&front).await;
    let session = slow.session("2025-11-25").await;
    let endless = request(1, "tools/call", json!({"name": "s__echo", "arguments": {"text": "slow"}}));
    slow.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &endless.to_string()).await;
    let crowd = (0..CLIENTS).map(|n| tokio::spawn(one_of_the_crowd_over_http(front.clone(), n)));
    for one in futures_util::future::join_all(crowd).await {
        one.unwrap();
    }
    // Beside its call, whose server never answers, it is served on another connection.
    let mut beside = Wire::open(&front).await;
    let ping = beside.post(&[("Mcp-Session-Id", &session)], &request(2, "ping", json!({}))).await;
    assert_eq!(ping.status, 200, "{ping:?}");
}
