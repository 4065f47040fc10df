//! HTTP links against `badmcp --http`: the reproductions of the field reports about
//! sessions, streams, headers and redirects, from [`connect`] to the server's own trace.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard::call::{AskedAnswer, Delivery, ErrorCode};
use callboard::catalog::items::ListKind;
use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::id::SessionId;
use callboard::runtime::RuntimePlan;
use callboard::transport::asked::LinkAsked;
use callboard::transport::http::{Client, param_headers};
use callboard::transport::link::{Exchange, ExchangeError, ExchangeFault, LinkEvent, Outbound, Reply};
use callboard::transport::waiting::Heard;
use callboard::transport::{
    Attempt, ConnectError, Connection, Connector, HttpEndpoint, LinkFault, LinkSettings, ProtocolChoice,
    connect, list,
};
use callboard::wire::splice::{self, RequestSplice};
use serde_json::Value;

use crate::support;
use crate::support::bad::{self, PATIENCE, SOON, Web, Yard, until};

const FRAME_MAX: usize = 16 << 20;

/// A running `badmcp --http` with the files that a test looks at.
pub(crate) struct Bad {
    pub(crate) web: Web,
    folder: tempfile::TempDir,
}

/// The sets of flags of a field report, each as one text.
fn runs<const N: usize>(report: &str) -> [String; N] {
    bad::runs(report).map(|flags| flags.join(" "))
}

impl Bad {
    pub(crate) async fn start(flags: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        for file in ["trace", "control", "count"] {
            words.extend([format!("--{file}"), folder.path().join(file).display().to_string()]);
        }
        Self { web: Web::start(&words, &folder.path().join("port")).await, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn endpoint(&self, path: &str) -> HttpEndpoint {
        HttpEndpoint { url: self.web.url(path), headers: Vec::new() }
    }

    fn command(&self, line: &str) {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(self.path("control")).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// The events of one kind in the trace.
    pub(crate) fn trace(&self, kind: &str) -> Vec<Value> {
        bad::trace(&self.path("trace"), kind)
    }

    /// How often a method arrived.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.trace("in").iter().filter(|event| event["method"] == method).count()
    }

    /// How often the tool `count` ran.
    pub(crate) fn executed(&self) -> usize {
        std::fs::read_to_string(self.path("count")).unwrap_or_default().lines().count()
    }
}

fn settings(protocol: ProtocolChoice) -> LinkSettings {
    LinkSettings {
        frame_max: FRAME_MAX,
        protocol,
        remembered: None,
        roots: Vec::new(),
        declared: callboard::transport::Declared::default(),
        list_timeout: PATIENCE,
        http: Client::new(),
        spawns: callboard::transport::spawns::Spawns::default(),
        tap: Default::default(),
    }
}

async fn try_connect(endpoint: HttpEndpoint, protocol: ProtocolChoice) -> Result<Connection, ConnectError> {
    let (connector, settings, attempt) = (Connector::Http(endpoint), settings(protocol), Attempt::default());
    let connecting = connect(&connector, &settings, &attempt);
    tokio::time::timeout(PATIENCE, connecting).await.expect("connecting takes too long")
}

/// A server with these flags, connected.
async fn connected(flags: &str) -> (Bad, Connection) {
    let bad = Bad::start(flags).await;
    let connection = try_connect(bad.endpoint("/mcp"), ProtocolChoice::Auto).await;
    (bad, connection.unwrap_or_else(|e| panic!("{flags}: {e:?}")))
}

/// The fault with which a connection to a server with these flags fails.
async fn refused(flags: &str, path: &str) -> LinkFault {
    let bad = Bad::start(flags).await;
    try_connect(bad.endpoint(path), ProtocolChoice::Auto).await.expect_err(flags).fault
}

/// A call as it goes out.
fn outbound<'a>(connection: &Connection, tool: &'a str, arguments: &str) -> Outbound<'a> {
    let id = connection.link.next_id();
    let params = Bytes::from(format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
    let parts = splice::request(&RequestSplice {
        session: None,
        id,
        method: "tools/call",
        params: &params,
        name: None,
        arguments_default: false,
        progress: true,
        meta: &connection.established.meta,
    })
    .unwrap();
    Outbound { id, method: "tools/call", name: Some(tool), parts, headers: Vec::new(), session: None }
}

async fn call_with(
    connection: &Connection,
    tool: &str,
    arguments: &str,
    headers: Vec<(String, String)>,
) -> Result<Reply, ExchangeError> {
    let exchange = connection.link.start(Outbound { headers, ..outbound(connection, tool, arguments) });
    tokio::time::timeout(PATIENCE, exchange.waiting.answer()).await.expect("the call takes too long").unwrap()
}

/// Starts a call of `echo` for a session.
fn started(connection: &Connection, session: u64) -> Exchange {
    let session = Some(SessionId(session));
    connection.link.start(Outbound { session, ..outbound(connection, "echo", "{}") })
}

async fn asked(exchange: &mut Exchange) -> LinkAsked {
    let heard = tokio::time::timeout(PATIENCE, exchange.waiting.heard()).await;
    match heard.expect("the server asks") {
        Some(Heard::Asked(asked)) => asked,
        other => panic!("{other:?}"),
    }
}

async fn call(connection: &Connection, tool: &str, arguments: &str) -> Result<Reply, ExchangeError> {
    call_with(connection, tool, arguments, Vec::new()).await
}

/// Calls `echo` and expects the text back.
async fn echo(connection: &Connection, text: &str) {
    let arguments = serde_json::json!({ "text": text }).to_string();
    let reply = call(connection, "echo", &arguments).await.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let body: Value = serde_json::from_slice(&reply.body()).unwrap();
    assert_eq!(body["content"][0]["text"], text, "{body}");
}

async fn tools(connection: &Connection) -> usize {
    let listed = list::fetch(&connection.link, &connection.established, ListKind::Tools, PATIENCE).await;
    listed.expect("tools/list").list.items.len()
}

#[tokio::test]
async fn an_expired_session_is_renewed_once_per_expiry() {
    let [flags, _] = runs("B082");
    let (bad, connection) = connected(&flags).await;
    for n in 0..10 {
        echo(&connection, &format!("call {n}")).await;
    }
    assert_eq!(bad.count("initialize"), 1 + 3, "10 calls, 3 in each session");
    assert_eq!(bad.count("notifications/initialized"), 1 + 3);
}

#[tokio::test]
async fn a_session_that_never_works_is_a_clear_failure_after_two_initializes() {
    let [_, flags] = runs("B082");
    let (bad, connection) = connected(&flags).await;
    let error = call(&connection, "echo", "{}").await.unwrap_err();
    assert!(matches!(&error.fault, ExchangeFault::Lost(LinkFault::Config(text)) if text.contains("session")));
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(call(&connection, "echo", "{}").await.is_err());
    assert!(bad.count("initialize") <= 2);
}

#[tokio::test]
async fn other_spellings_of_a_lost_session_are_renewed_too() {
    let [as_success, as_bad_request, twice] = runs("B083");
    for flags in [as_success, as_bad_request] {
        let (bad, connection) = connected(&flags).await;
        for n in 0..4 {
            echo(&connection, &format!("call {n}")).await;
        }
        assert_eq!(bad.count("initialize"), 1 + 3, "{flags}");
    }
    let (bad, connection) = connected(&twice).await;
    echo(&connection, "one id").await;
    assert_eq!(bad.count("initialize"), 1);
}

#[tokio::test]
async fn every_stream_dialect_works() {
    let [all, others] = runs("B085");
    for flags in [
        all.as_str(),
        &others,
        "--http-answer sse --sse-prime --sse-multiline",
        "--http-answer sse --dribble 3 --no-keep-alive",
        "--http-answer json --content-charset",
        "--stateless --no-get --no-delete",
        "--era modern --http-answer sse --sse-crlf",
    ] {
        let (_bad, connection) = connected(flags).await;
        assert_eq!(tools(&connection).await, 13, "{flags}");
        echo(&connection, "zwölf € 🦀").await;
    }
}

#[tokio::test]
async fn comments_are_life_of_the_stream_and_no_progress_of_the_call() {
    let [answers, silent] = bad::runs("B086");
    let idle = |millis| move |spec: &mut ServerSpec| spec.timeouts.idle = Duration::from_millis(millis);
    let yard = Yard::new().tuned("answers", &answers, idle(9000)).await;
    let host = yard.tuned("silent", &silent, idle(700)).await.ready().await;
    let arguments = serde_json::json!({"text": "x"});
    let (_, failed) = tokio::join!(host.echo("answers", "late"), host.call("silent", "echo", &arguments));
    let error = failed.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::TimeoutIdle, Delivery::Unknown), "{error:?}");
    for server in ["answers", "silent"] {
        assert_eq!(host.view(server).restarts, 0, "the connection itself is well");
        let streams = host.trace(server, "http").iter().filter(|head| head["method"] == "GET").count();
        assert!(streams <= 1, "{server}: its stream was opened again");
    }
    host.end().await;
}

#[tokio::test]
async fn strict_servers_are_satisfied_whatever_headers_are_configured() {
    let ([accept], [version]) = (runs("B088"), runs("B089"));
    for flags in [accept.as_str(), &version, "--era modern --strict-accept"] {
        let bad = Bad::start(flags).await;
        let mut endpoint = bad.endpoint("/mcp");
        endpoint.headers = vec![("accept".into(), "*/*".into()), ("MCP-Protocol-Version".into(), "1".into())];
        let connection = try_connect(endpoint, ProtocolChoice::Auto).await.expect(flags);
        echo(&connection, "strict").await;
        // Closing before the side stream is open would race it with the DELETE.
        if !flags.contains("--era modern") {
            let is_stream = |e: &Value| e["headers"].to_string().contains("text/event-stream");
            until("the GET is answered", || bad.trace("http-out").iter().any(is_stream)).await;
        }
        connection.link.close().await;
        let refused: Vec<_> =
            bad.trace("http-out").into_iter().filter(|e| e["status"].as_u64() >= Some(400)).collect();
        let after_the_probe: Vec<_> = refused.iter().skip(1).collect();
        assert!(after_the_probe.is_empty(), "{flags}: {refused:?}");
    }
}

#[tokio::test]
async fn redirects_follow_the_rules() {
    let ([same_method, other_method, endless], [elsewhere]) = (runs("B091"), runs("B092"));
    let (_bad, connection) = connected(&same_method).await;
    echo(&connection, "followed").await;

    let began = Instant::now();
    let LinkFault::Config(text) = refused(&other_method, "/mcp").await else { panic!("another fault") };
    assert!(text.contains("/mcp/") && began.elapsed() < SOON, "{text}");
    assert!(matches!(refused(&endless, "/mcp").await, LinkFault::Config(_)));

    let other = Bad::start("").await;
    let bad = Bad::start(&elsewhere.replace("OTHER", &other.web.port.to_string())).await;
    let mut endpoint = bad.endpoint("/mcp");
    endpoint.headers = vec![("X-Api-Key".into(), "canary".into())];
    assert!(try_connect(endpoint, ProtocolChoice::Auto).await.is_err());
    assert!(other.trace("http").is_empty(), "the other origin saw nothing");
}

#[tokio::test]
async fn a_server_that_wants_a_token_needs_auth_until_it_gets_it() {
    let fault = refused("--auth bearer", "/mcp").await;
    assert!(matches!(&fault, LinkFault::NeedsAuth(text) if text.contains("401")), "{fault:?}");
    let bad = Bad::start("--auth bearer --token tok-canary --echo-auth-in-error --http-fail 500@call").await;
    let mut endpoint = bad.endpoint("/mcp");
    endpoint.headers = vec![("Authorization".into(), "Bearer tok-canary".into())];
    let connection = try_connect(endpoint, ProtocolChoice::Auto).await.unwrap();
    let error = call(&connection, "echo", "{}").await.unwrap_err();
    assert!(matches!(error.fault, ExchangeFault::Http { status: 500, .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn throttling_and_server_faults_are_told_apart() {
    let (_bad, connection) = connected("--http-fail 429:7@call").await;
    let error = call(&connection, "echo", "{}").await.unwrap_err();
    assert_eq!(error.fault, ExchangeFault::Throttled(Duration::from_secs(7)));
    let (_bad, connection) = connected("--http-fail 503@call").await;
    let error = call(&connection, "echo", "{}").await.unwrap_err();
    assert!(matches!(error.fault, ExchangeFault::Http { status: 503, .. }));
}

#[tokio::test]
async fn what_the_server_asks_before_and_during_a_call_is_answered() {
    let flags = "--request-roots-before-init --request sampling,elicitation,unknown,ping@call --request-wait";
    let (_bad, connection) = connected(flags).await;
    let began = Instant::now();
    call(&connection, "echo", "{}").await.unwrap();
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn what_a_server_asks_on_the_stream_of_a_call_is_its_callers_and_elsewhere_a_single_sessions() {
    let (bad, connection) = connected("--request elicitation@call --request-wait").await;
    until("the GET came", || bad.trace("http").iter().any(|e| e["method"] == "GET")).await;
    let result = || AskedAnswer::Result(Bytes::from_static(b"{}"));
    let mut first = started(&connection, 1);
    let to_first = asked(&mut first).await;
    bad.command("ask sampling");
    let beside = asked(&mut first).await;
    assert_eq!((&*to_first.method, &*beside.method), ("elicitation/create", "sampling/createMessage"));
    let mut second = started(&connection, 2);
    let to_second = asked(&mut second).await;
    assert_ne!(to_first.id, to_second.id, "each hears its own");
    bad.command("ask sampling");
    until("it is refused", || bad.trace("replied").iter().any(|event| event["code"] == -32010)).await;
    for question in [beside, to_second, to_first] {
        question.reply.answer(result());
    }
    for exchange in [first, second] {
        let reply =
            tokio::time::timeout(PATIENCE, exchange.waiting.answer()).await.unwrap().unwrap().unwrap();
        assert!(!reply.response.is_error);
    }
}

#[tokio::test]
async fn notifications_before_the_handshake_are_fine_and_initialized_comes_before_the_first_list() {
    for flags in ["--notify-before-init 3 --require-initialized", "--require-initialized error"] {
        let (_bad, connection) = connected(flags).await;
        assert_eq!(tools(&connection).await, 13, "{flags}");
    }
}

#[tokio::test]
async fn revisions_are_negotiated() {
    for (flags, want) in [
        ("--reject-newer-version 2025-06-18", "2025-06-18"),
        ("--init-version 2024-11-05", "2024-11-05"),
        ("--init-version 2025-03-26", "2025-03-26"),
        ("--era both", "2026-07-28"),
        ("--era modern", "2026-07-28"),
        ("", "2025-11-25"),
    ] {
        let (_bad, connection) = connected(flags).await;
        assert_eq!(connection.established.revision.as_str(), want, "{flags}");
        echo(&connection, want).await;
    }
    let fault = refused("--init-version 1999-01-01", "/mcp").await;
    assert!(
        matches!(&fault, LinkFault::Misfit { text, .. } if text.contains("1999-01-01") && text.contains("2025-11-25"))
    );
}

#[tokio::test]
async fn the_old_transport_is_recognised() {
    let LinkFault::Config(text) = refused("--old-sse", "/sse").await else { panic!("another fault") };
    assert!(text.contains("old HTTP+SSE transport, which is not spoken yet"), "{text}");
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_answer_is_outcome_unknown_and_never_replayed() {
    for flags in ["--drop-mid-answer", "--drop-mid-answer --era modern"] {
        let (bad, connection) = connected(flags).await;
        let error = call(&connection, "count", "{}").await.unwrap_err();
        assert!(matches!(error.fault, ExchangeFault::Lost(_)), "{flags}: {error:?}");
        assert_eq!(error.delivery, Delivery::Unknown, "{flags}");
        assert_eq!(bad.executed(), 1, "{flags}");
    }
    let (mut bad, connection) = connected("--exit-after-execute").await;
    let error = call(&connection, "count", "{}").await.unwrap_err();
    assert_eq!((error.delivery, bad.executed()), (Delivery::Unknown, 1));
    until("it is gone", || bad.web.child.try_wait().unwrap().is_some()).await;
    // Now nobody listens: known not to have been sent.
    let error = call(&connection, "count", "{}").await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent, "{error:?}");
}

#[tokio::test]
async fn parallel_calls_do_not_wait_for_each_other() {
    let (_bad, connection) = connected("--slow 500 --reorder").await;
    let began = Instant::now();
    let calls = (0..20).map(|n| echo_owned(&connection, n));
    futures_util::future::join_all(calls).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

async fn echo_owned(connection: &Connection, n: usize) {
    echo(connection, &format!("payload {n}")).await;
}

#[tokio::test]
async fn an_answer_over_the_cap_fails_its_call_alone() {
    let (_bad, connection) = connected("--huge-line 17@call").await;
    let error = call(&connection, "echo", "{}").await.unwrap_err();
    assert_eq!(error.fault, ExchangeFault::TooLong(FRAME_MAX));
    assert_eq!(tools(&connection).await, 13);
}

#[tokio::test]
async fn list_changes_are_heard_in_both_eras() {
    for flags in ["", "--era modern"] {
        let (bad, mut connection) = connected(flags).await;
        let open = if flags.is_empty() {
            |event: &Value| event["ev"] == "http" && event["method"] == "GET"
        } else {
            |event: &Value| event["method"] == "subscriptions/listen"
        };
        until("the stream is open", || bad.trace("http").iter().chain(&bad.trace("in")).any(open)).await;
        bad.command("add-tool late");
        bad.command("notify tools");
        let event = tokio::time::timeout(PATIENCE, connection.events.recv()).await.unwrap().unwrap();
        let LinkEvent::Notification { method, .. } = event else { panic!("{event:?}") };
        assert_eq!(method, "notifications/tools/list_changed", "{flags}");
        assert_eq!(tools(&connection).await, 14);
    }
}

#[tokio::test]
async fn sessions_that_expire_in_the_background_are_renewed_and_the_owner_is_told() {
    let (bad, mut connection) = connected("").await;
    bad.command("expire-sessions");
    until("the sessions are gone", || !bad.trace("control").is_empty()).await;
    echo(&connection, "renewed").await;
    let told =
        async { while !matches!(connection.events.recv().await.unwrap(), LinkEvent::SessionRenewed) {} };
    tokio::time::timeout(PATIENCE, told).await.expect("never told");
    assert_eq!(bad.count("initialize"), 2);
}

#[tokio::test]
async fn mirrored_parameters_are_accepted_by_a_server_that_checks_them() {
    let (_bad, connection) = connected("--era modern --param-headers").await;
    let listed = list::fetch(&connection.link, &connection.established, ListKind::Tools, PATIENCE).await;
    let list = listed.unwrap().list;
    let tool = list.items.iter().find(|item| item.name == "located").unwrap();
    let tool: Value = serde_json::from_slice(&tool.raw).unwrap();
    let schema = tool["inputSchema"].to_string();
    for arguments in [r#"{"region":"eu-west"}"#, r#"{"region":"Zürich"}"#, r#"{"region":" edge "}"#] {
        let headers = param_headers(schema.as_bytes(), arguments.as_bytes());
        assert_eq!(headers.len(), 1);
        let reply = call_with(&connection, "located", arguments, headers).await.unwrap();
        assert!(!reply.response.is_error, "{:?}", reply.body());
    }
    let reply = call(&connection, "located", r#"{"region":"eu-west"}"#).await.unwrap();
    assert!(reply.response.is_error, "without the header the server refuses");
}

/// A runtime with one HTTP server of this name.
pub(crate) async fn runtime(bad: &Bad, name: &str) -> callboard::runtime::Runtime {
    tuned(bad, name, |_| {}).await
}

/// The same with another specification.
pub(crate) async fn tuned(
    bad: &Bad,
    name: &str,
    tune: impl FnOnce(&mut ServerSpec),
) -> callboard::runtime::Runtime {
    let mut spec = support::spec(name);
    tune(&mut spec);
    spec.transport =
        TransportSpec::Http { url: SecretText::new(bad.endpoint("/mcp").url), headers: Vec::new() };
    let mut plan = RuntimePlan::default();
    plan.servers.entries.push(support::entry(spec));
    let runtime = callboard::runtime::Runtime::start(plan).await.unwrap();
    runtime.settle(&[], PATIENCE).await;
    runtime
}

#[tokio::test]
async fn the_runtime_mirrors_parameters_for_the_server() {
    let bad = Bad::start("--era modern --param-headers").await;
    let runtime = runtime(&bad, "s").await;
    for region in ["eu-west", "Zürich"] {
        let params = format!(r#"{{"name":"located","arguments":{{"region":"{region}"}}}}"#);
        let request = support::request("s", "located", &params);
        let reply = runtime.frontend().call(request, None).await.unwrap_or_else(|e| panic!("{e:?}"));
        assert!(support::text(&reply).contains(region), "{}", support::text(&reply));
    }
    runtime.shutdown().await;
}

#[tokio::test]
async fn the_catalogue_is_read_again_after_a_renewed_session() {
    let bad = Bad::start("").await;
    let runtime = runtime(&bad, "s").await;
    let before = bad.count("tools/list");
    bad.command("add-tool late");
    bad.command("expire-sessions");
    until("both are done", || bad.trace("control").len() == 2).await;
    support::call(&runtime, "s", "echo").await.unwrap();
    until("the list was read again", || bad.count("tools/list") > before).await;
    let late = async {
        while support::call(&runtime, "s", "late").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, late).await.expect("the new tool is never callable");
    runtime.shutdown().await;
}
