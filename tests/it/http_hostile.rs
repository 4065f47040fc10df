//! The HTTP front before clients that mean it harm: floods of connections, and requests of all shapes.
//! Others are served meanwhile, nothing hangs, and no answer is a fault of ours.

use std::sync::Arc;
use std::time::Duration;

use callboard::serve::Host;
use callboard::serve::http::HttpFront;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::bad::until;
use crate::support::client::{host, said};
use crate::support::http_client::{Wire, front, mirrored, modern, request};
use crate::support::{Fleet, Tape, Wire as Pipe, good, method_of, spec};

/// Longer than anything takes that ends at all.
const FOR_EVER: Duration = Duration::from_secs(120);
/// Requests of the fuzz.
const CASES: u32 = 2000;
/// Connections of the flood, and how many the front takes at once.
const FLOOD: usize = 10_000;
const PLACES: usize = 200;

fn echo(message: &Value, wire: &Pipe) {
    if !good(message, wire) && method_of(message) == "tools/call" {
        let text = &message["params"]["arguments"]["text"];
        wire.result(message, &json!({"content": [{"type": "text", "text": text}]}).to_string());
    }
}

fn call(text: &str) -> Value {
    json!({"name": "s__echo", "arguments": {"text": text}})
}

/// One call of a client that does nothing wrong, on a connection that it keeps.
async fn legit(wire: &mut Wire, nonce: &str) {
    let body = modern(1, "tools/call", call(nonce));
    let answer = wire.post(&mirrored("tools/call", Some("s__echo")), &body).await;
    assert_eq!((answer.status, said(&answer.json())), (200, nonce));
}

#[tokio::test]
async fn ten_thousand_connections_stay_within_the_cap_and_others_are_served_meanwhile() {
    let tape = Tape::default();
    let host = host(Fleet::default().with(spec("s"), tape.of(echo)), |_| {}).await;
    let front = front(&host, |plan| plan.limits.connections_max = PLACES).await;
    let mut kept = Wire::open(&front).await;
    legit(&mut kept, "before").await;
    // All places but one are held by clients that never finish their heads.
    let mut slow = Vec::new();
    for _ in 1..PLACES {
        let mut wire = Wire::open(&front).await;
        wire.write("POST /mcp HTTP/1.1\r\nHost: loc").await;
        slow.push(wire);
    }
    until("all places are taken", || front.connections() == PLACES).await;
    let mut refused = 0;
    for n in PLACES..FLOOD {
        let mut wire = Wire::open(&front).await;
        let mut text = String::new();
        let read = tokio::time::timeout(FOR_EVER, wire.stream.read_to_string(&mut text)).await;
        read.unwrap().unwrap();
        refused += usize::from(text.starts_with("HTTP/1.1 503 "));
        assert!(front.connections() <= PLACES);
        if n % 100 == 0 {
            legit(&mut kept, &format!("n{n}")).await;
        }
    }
    assert_eq!(refused, FLOOD - PLACES, "each is told, and none is kept");
    assert_eq!(tape.received("tools/call").len(), 1 + (FLOOD - PLACES) / 100, "no call was lost or repeated");
    drop(slow);
    until("their places are free", || front.connections() == 1).await;
    legit(&mut Wire::open(&front).await, "after").await;
}

#[tokio::test]
async fn each_kind_of_abuse_leaves_the_calls_of_others_alone() {
    let tape = Tape::default();
    let host = host(Fleet::default().with(spec("s"), tape.of(echo)), |_| {}).await;
    let front = front(&host, |plan| plan.limits.body_max = 100_000).await;
    let mut kept = Wire::open(&front).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let abuse = [
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1 << 20)),
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}", "X: y\r\n".repeat(100_000)),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", "1\r\nx\r\n".repeat(150_000)),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}", "x".repeat(1000)),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n1;{}", "x".repeat(1 << 20)),
        format!("{head}Content-Length: 99999\r\n\r\n{}", "[".repeat(99_999)),
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000),
    ];
    let mut open = Vec::new();
    for round in 0..5 {
        for (kind, bytes) in abuse.iter().enumerate() {
            let mut wire = Wire::open(&front).await;
            // What is refused half-way can't be written to its end.
            let bytes = &bytes.as_bytes()[..bytes.len().min(64 << 10)];
            let _ = tokio::time::timeout(FOR_EVER, wire.stream.write_all(bytes)).await.unwrap();
            legit(&mut kept, &format!("r{round}k{kind}")).await;
            open.push(wire);
        }
    }
    assert_eq!(tape.received("tools/call").len(), 5 * abuse.len());
    drop(open);
    until("nothing of it stays", || front.connections() == 1).await;
}

/// One request of the fuzz.
#[derive(Debug)]
struct Case {
    method: String,
    path: &'static str,
    version: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    length: Length,
    /// Where its bytes are cut into pieces, in thousandths.
    cuts: Vec<usize>,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Right,
    Chunked,
    Short,
    Long,
    Absent,
    Doubled,
    BrokenChunks,
}

/// A session of the legacy era, in place of which a header says this.
const OWN: &str = "OWN";

fn header() -> impl Strategy<Value = (&'static str, String)> {
    let of = |name: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| (name, value.to_owned()))
    };
    prop_oneof![
        of("Host", &["localhost", "evil.example", "", "[::1]", "localhost:x", "127.0.0.1:1"]),
        of("Origin", &["http://localhost", "null", "http://evil.example", "\u{ff}"]),
        of("Accept", &["application/json", "text/event-stream", "text/html", "*/*;q=0", ""]),
        of("Content-Type", &["application/json", "application/json; charset=latin1", "text/plain", ""]),
        of("Content-Encoding", &["gzip", "identity"]),
        of("Mcp-Session-Id", &[OWN, "AAAA", "", "\u{e9}"]),
        of("MCP-Protocol-Version", &["2026-07-28", "2025-11-25", "2025-03-26", "1999-01-01", "x"]),
        of("Mcp-Method", &["tools/call", "tools/list", "ping", "=?base64?!?="]),
        of("Mcp-Name", &["s__echo", "=?base64?c19fZWNobw==?=", "=?base64?!!?=", ""]),
        of("Mcp-Param-Text", &["x", "=?base64?eA==?="]),
        of("Last-Event-ID", &["1-0-1", "99999999999999999999", "a", ""]),
        of("Authorization", &["Bearer x", "Basic eDp5", "Bearer", ""]),
        of("Connection", &["close", "keep-alive", "upgrade"]),
        of("Sec-Fetch-Site", &["same-origin", "cross-site"]),
        "[ -~]{0,40}".prop_map(|value| ("X-Any", value)),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec![
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "resources/read",
        "server/discover",
        "notifications/initialized",
        "notifications/cancelled",
        "no/such",
        "",
    ]);
    let params = prop_oneof![
        Just(json!({})),
        Just(call("x")),
        Just(json!({"name": "nobody", "uri": "x:y"})),
        Just(
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
        ),
        Just(json!([1])),
        Just(Value::Null),
    ];
    let message = (method, params, 0..5_u8).prop_map(|(method, params, kind)| match kind {
        0 => json!({"jsonrpc": "2.0", "method": method, "params": params}),
        1 if params.is_object() => modern(1, method, params),
        2 => json!({"jsonrpc": "2.0", "id": 3, "result": params}),
        3 => json!({"jsonrpc": "1.0", "id": null, "method": method}),
        _ => request(2, method, params),
    });
    let messages = prop::collection::vec(message.clone(), 0..4);
    prop_oneof![
        4 => message.prop_map(|message| message.to_string().into_bytes()),
        1 => messages.prop_map(|all| json!(all).to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (1..3000_usize).prop_map(|depth| b"[{\"a\":".repeat(depth)),
        1 => Just(Vec::new()),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let method = prop_oneof![
        6 => Just("POST".to_owned()),
        2 => Just("GET".to_owned()),
        1 => prop::sample::select(vec!["DELETE", "PUT", "HEAD", "OPTIONS", "TRACE"]).prop_map(str::to_owned),
        1 => "[A-Z !]{0,8}",
    ];
    let path = prop::sample::select(vec![
        "/mcp",
        "/mcp",
        "/mcp",
        "/mcp?x=%00",
        "/healthz",
        "/readyz",
        "/sse",
        "*",
        "/é",
        "",
    ]);
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "x"]);
    let length = prop_oneof![
        6 => Just(Length::Right),
        2 => Just(Length::Chunked),
        1 => prop::sample::select(vec![
            Length::Short, Length::Long, Length::Absent, Length::Doubled, Length::BrokenChunks,
        ]),
    ];
    let headers = prop::collection::vec(header(), 0..6);
    let cuts = prop::collection::vec(0..1000_usize, 0..4);
    (method, path, version, headers, body(), length, cuts).prop_map(
        |(method, path, version, headers, body, length, cuts)| Case {
            method,
            path,
            version,
            headers,
            body,
            length,
            cuts,
        },
    )
}

impl Case {
    fn bytes(&self, session: &str) -> Vec<u8> {
        let mut head = format!("{} {} {}\r\n", self.method, self.path, self.version);
        let has = |name: &str| self.headers.iter().any(|(key, _)| *key == name);
        let usual =
            [("Host", "localhost"), ("Content-Type", "application/json"), ("Mcp-Session-Id", session)];
        for (name, value) in usual.into_iter().filter(|(name, _)| !has(name)) {
            head += &format!("{name}: {value}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {}\r\n", if value == OWN { session } else { value });
        }
        let len = self.body.len();
        head += &match self.length {
            Length::Right => format!("Content-Length: {len}\r\n\r\n"),
            Length::Short => format!("Content-Length: {}\r\n\r\n", len / 2),
            Length::Long => format!("Content-Length: {}\r\n\r\n", len + 7),
            Length::Doubled => format!("Content-Length: {len}\r\nContent-Length: {}\r\n\r\n", len + 1),
            Length::Absent => "\r\n".to_owned(),
            Length::Chunked | Length::BrokenChunks => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        };
        let mut bytes = head.into_bytes();
        match self.length {
            Length::Chunked => {
                for piece in self.body.chunks(50) {
                    bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                    bytes.extend([piece, b"\r\n"].concat());
                }
                bytes.extend(b"0\r\n\r\n");
            }
            Length::BrokenChunks => bytes.extend([b"zz\r\n", self.body.as_slice()].concat()),
            _ => bytes.extend(&self.body),
        }
        bytes
    }

    /// Whether it is a whole request, that has to be answered.
    fn is_whole(&self) -> bool {
        let ends = matches!(self.length, Length::Right | Length::Chunked);
        let named = !self.method.is_empty() && self.method.bytes().all(|byte| byte.is_ascii_uppercase());
        ends && named && self.version == "HTTP/1.1" && self.path.starts_with('/') && self.path.is_ascii()
    }
}

/// The status of the answer; `None` when the connection was closed without one.
async fn answered(front: &HttpFront, case: &Case, session: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(front.addresses()[0]).await.unwrap();
    let bytes = case.bytes(session);
    let mut cuts: Vec<usize> = case.cuts.iter().map(|cut| cut * bytes.len() / 1000).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        // It may be refused before its last piece.
        if stream.write_all(&bytes[pair[0]..pair[1]]).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    if !case.is_whole() {
        let _ = stream.shutdown().await;
    }
    let mut seen = Vec::new();
    while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut seen).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let text = String::from_utf8_lossy(&seen);
    text.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

async fn serving() -> (Arc<Host>, HttpFront, String) {
    let host = host(Fleet::default().with(spec("s"), echo), |_| {}).await;
    let front = front(&host, |plan| {
        plan.limits.sessions_max = 2 * CASES as usize;
        plan.limits.body_max = 10_000;
    })
    .await;
    let session = Wire::open(&front).await.session("2025-11-25").await;
    (host, front, session)
}

#[test]
fn no_request_of_whatever_shape_hangs_or_is_answered_by_a_fault_of_ours() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_host, front, session) = runtime.block_on(serving());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let done = TestRunner::new_with_rng(config, rng).run(&case(), |case| {
        let answered = answered(&front, &case, &session);
        let status = runtime.block_on(async { tokio::time::timeout(FOR_EVER, answered).await });
        let status = status.map_err(|_| TestCaseError::fail("it hangs"))?;
        prop_assert!(status.is_none_or(|status| (200..500).contains(&status)), "{:?}", status);
        prop_assert!(status.is_some() || !case.is_whole(), "a whole request has no answer");
        Ok(())
    });
    done.unwrap();
    runtime.block_on(async {
        let mut kept = Wire::open(&front).await;
        legit(&mut kept, "after").await;
        until("its connections are closed", || front.connections() == 1).await;
    });
}
