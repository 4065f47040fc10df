//! The circuit breaker, as callers and servers see it: when it opens, who is let through
//! when, and what never moves it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use callboard::call::{CallError, CallLimits, CallRequest, Delivery, ErrorCode};
use callboard::config::spec::{BreakerSpec, RestartSpec, ServerSpec, Timeouts, Trust};
use callboard::runtime::Runtime;
use callboard::view::{BreakerState, LifeState, ParkReason, ServerView};
use serde_json::{Value, json};

use crate::support::*;

const OPEN_FOR: Duration = Duration::from_secs(60);

fn echo(m: &Value, w: &Wire) {
    if !good(m, w) && !m["id"].is_null() {
        w.result(m, r#"{"ok":1}"#);
    }
}

/// Answers like `echo`, but hangs up when `other` is called.
fn dies_on_other(m: &Value, w: &Wire) {
    if m["params"]["name"] == "other" { w.hang_up() } else { echo(m, w) }
}

/// Restarts as often as it takes: the law has its own tests.
fn lively(name: &str) -> ServerSpec {
    let restart = RestartSpec { max: 0, min_delay: Duration::from_millis(1), ..RestartSpec::default() };
    ServerSpec { restart: RestartSpec { max_delay: restart.min_delay, ..restart }, ..spec(name) }
}

/// Resolves when the paused clock has gone that far.
async fn after(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

fn view(runtime: &Runtime, server: &str) -> ServerView {
    runtime.status().into_iter().find(|view| view.id.as_str() == server).expect("it is configured")
}

async fn ready(runtime: &Runtime, server: &str) {
    runtime.settle(&[server.into()], Duration::from_secs(600)).await;
}

/// A runtime with the servers `s`, whose breaker has just been opened by three deaths, and `fine`.
async fn opened(tape: &Tape) -> Runtime {
    let runtime =
        Fleet::default().with(lively("s"), tape.of(dies_on_other)).with(spec("fine"), echo).ready().await;
    for _ in 0..3 {
        let error = call(&runtime, "s", "other").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ConnectionLost, "{error}");
        idle().await;
        tokio::time::advance(Duration::from_millis(60)).await;
        ready(&runtime, "s").await;
    }
    runtime
}

fn refused(error: &CallError) {
    assert_eq!((error.code, error.delivery), (ErrorCode::BreakerOpen, Delivery::NotSent), "{error:?}");
    assert!(
        error.message.contains("s is") && error.message.contains("do not retry this tool yet"),
        "{error}"
    );
    assert!(error.retry_after.is_some_and(|wait| !wait.is_zero()), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn three_failures_in_a_row_open_it_and_open_is_silent() {
    let tape = Tape::default();
    let runtime = opened(&tape).await;
    let sent = tape.received("tools/call").len();
    for _ in 0..100 {
        refused(&call(&runtime, "s", "echo").await.unwrap_err());
    }
    assert_eq!(tape.received("tools/call").len(), sent, "not one frame");
    let seen = view(&runtime, "s");
    assert_eq!(seen.state, LifeState::Ready, "the state stays the true one");
    assert_eq!((seen.breaker.state, seen.breaker.failures), (BreakerState::Open, 3));
    assert!(seen.breaker.until.is_some());
    assert_eq!(view(&runtime, "fine").breaker.state, BreakerState::Closed);
    call(&runtime, "fine", "echo").await.expect("nobody else notices");
}

#[tokio::test(start_paused = true)]
async fn it_opens_for_its_time_to_the_millisecond_and_then_one_call_decides() {
    let tape = Tape::default();
    let runtime = opened(&tape).await;
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    let left = error.retry_after.unwrap();
    assert!(left <= OPEN_FOR, "{left:?}");
    let secs = left.as_millis().div_ceil(1_000).to_string();
    assert!(error.message.contains(&format!("for {secs} s more")), "{error}");
    tokio::time::advance(left - Duration::from_millis(1)).await;
    let error = call(&runtime, "s", "echo").await.unwrap_err();
    refused(&error);
    assert!(error.message.contains("for 1 s more"), "never zero: {error}");
    tokio::time::advance(Duration::from_millis(1)).await;
    call(&runtime, "s", "echo").await.expect("the probe");
    assert_eq!(view(&runtime, "s").breaker.state, BreakerState::Closed);
    call(&runtime, "s", "echo").await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_failed_probe_opens_it_again_for_the_whole_time() {
    let tape = Tape::default();
    let runtime = opened(&tape).await;
    tokio::time::advance(OPEN_FOR).await;
    assert_eq!(call(&runtime, "s", "other").await.unwrap_err().code, ErrorCode::ConnectionLost);
    tokio::time::advance(OPEN_FOR - Duration::from_millis(1)).await;
    refused(&call(&runtime, "s", "echo").await.unwrap_err());
    tokio::time::advance(Duration::from_millis(1)).await;
    call(&runtime, "s", "echo").await.expect("the next probe");
}

/// Answers calls of `echo` only when told to.
fn held(open: Arc<AtomicBool>) -> impl Script {
    move |m: &Value, w: &Wire| {
        if m["params"]["name"] == "other" {
            w.hang_up();
        } else if open.load(Ordering::Relaxed) || method_of(m) != "tools/call" {
            echo(m, w);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_after_the_pause_are_one_probe_and_the_rest_is_refused() {
    let (tape, open) = (Tape::default(), Arc::new(AtomicBool::new(true)));
    let runtime = Fleet::default().with(lively("s"), tape.of(held(open.clone()))).ready().await;
    for _ in 0..3 {
        let _ = call(&runtime, "s", "other").await;
        idle().await;
        tokio::time::advance(Duration::from_millis(60)).await;
        ready(&runtime, "s").await;
    }
    tokio::time::advance(OPEN_FOR).await;
    open.store(false, Ordering::Relaxed);
    let (sent, connections) = (tape.received("tools/call").len(), tape.received("initialize").len());
    let all = futures_util::future::join_all((0..1_000).map(|_| call(&runtime, "s", "echo")));
    let probed = async {
        while tape.received("tools/call").len() == sent {
            tokio::task::yield_now().await;
        }
        idle().await;
        assert_eq!(view(&runtime, "s").breaker.state, BreakerState::HalfOpen);
        let limits = CallLimits { idle: Some(Duration::from_millis(1)), total: None };
        let late = CallRequest { limits, ..request("s", "echo", "{}") };
        refused(&runtime.frontend().call(late, None).await.unwrap_err());
        assert_eq!(tape.received("tools/call").len(), sent + 1, "one probe");
        runtime.restart_server(&"s".into());
    };
    let (results, ()) = tokio::join!(all, probed);
    let refusals = results.iter().filter(|r| matches!(r, Err(e) if e.code == ErrorCode::BreakerOpen)).count();
    assert_eq!(refusals, 999);
    assert_eq!(
        tape.received("initialize").len(),
        connections + 1,
        "the restart that a person asked for, no more"
    );
    open.store(true, Ordering::Relaxed);
    ready(&runtime, "s").await;
    call(&runtime, "s", "echo").await.expect("a restart closes it");
}

/// Hangs up at the handshake while `down`. Takes a second for its list.
fn falls_silent(down: Arc<AtomicBool>, starts: Arc<AtomicUsize>) -> impl Script {
    move |m: &Value, w: &Wire| {
        if method_of(m) == "initialize" {
            starts.fetch_add(1, Ordering::Relaxed);
        }
        if down.load(Ordering::Relaxed) {
            w.hang_up();
        } else if method_of(m) == "tools/list" {
            let (m, w) = (m.clone(), w.clone());
            tokio::spawn(async move {
                after(Duration::from_secs(1)).await;
                echo(&m, &w);
            });
        } else {
            echo(m, w);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_dead_transport_the_probe_is_one_fresh_connection_with_its_list() {
    let (down, starts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let tape = Tape::default();
    let script = tape.of(falls_silent(down.clone(), starts.clone()));
    let runtime = Fleet::default().with(spec("s"), script).ready().await;
    down.store(true, Ordering::Relaxed);
    assert!(call(&runtime, "s", "echo").await.is_err());
    while view(&runtime, "s").state != LifeState::Parked(ParkReason::GivenUp) {
        tokio::time::advance(Duration::from_millis(500)).await;
        idle().await;
    }
    assert_eq!(view(&runtime, "s").breaker.state, BreakerState::Open, "starts that fail count");
    tokio::time::advance(OPEN_FOR).await;
    down.store(false, Ordering::Relaxed);
    let (before, sent) = (starts.load(Ordering::Relaxed), tape.received("tools/call").len());
    let results = futures_util::future::join_all((0..1_000).map(|_| call(&runtime, "s", "echo"))).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "the one that brought the probe about");
    assert_eq!(
        results.iter().filter(|r| matches!(r, Err(e) if e.code == ErrorCode::BreakerOpen)).count(),
        999
    );
    assert_eq!(starts.load(Ordering::Relaxed), before + 1, "one start");
    assert_eq!(tape.received("tools/call").len(), sent + 1, "and its call was sent once");
    let order: Vec<usize> = ["tools/list", "tools/call"].map(|method| tape.received(method).len()).into();
    assert_eq!(order[0], 2, "the list was read before: {order:?}");
    call(&runtime, "s", "echo").await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn what_tools_report_never_opens_it() {
    let script = |m: &Value, w: &Wire| match m["params"]["name"].as_str() {
        Some("echo") => w.result(m, r#"{"isError":true,"content":[]}"#),
        Some("other") => w.line(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no"}}}}"#,
            m["id"]
        )),
        _ => echo(m, w),
    };
    let runtime = one(script).await;
    for _ in 0..5_000 {
        assert!(!call(&runtime, "s", "echo").await.expect("an answer").is_error);
        assert!(call(&runtime, "s", "other").await.expect("an answer").is_error);
    }
    assert_eq!(view(&runtime, "s").breaker.failures, 0);

    let strict = BreakerSpec { count_tool_errors: true, ..BreakerSpec::default() };
    for (tools, opens) in [(["echo"; 3], true), (["other"; 3], true)] {
        let runtime =
            Fleet::default().with(ServerSpec { breaker: strict, ..spec("s") }, script).ready().await;
        for tool in tools {
            call(&runtime, "s", tool).await.expect("an answer");
            idle().await;
        }
        assert_eq!(call(&runtime, "s", "echo").await.is_err(), opens, "{tools:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_with_sixteen_calls_in_flight_is_one_failure() {
    let script = |m: &Value, w: &Wire| match m["params"]["name"].as_str() {
        Some("echo") => {}
        _ => dies_on_other(m, w),
    };
    let runtime = Fleet::default().with(lively("s"), script).ready().await;
    let running = futures_util::future::join_all((0..16).map(|_| call(&runtime, "s", "echo")));
    let death = async {
        idle().await;
        call(&runtime, "s", "other").await
    };
    let (results, _) = tokio::join!(running, death);
    assert!(results.iter().all(|r| matches!(r, Err(e) if e.code == ErrorCode::ConnectionLost)));
    idle().await;
    assert_eq!(view(&runtime, "s").breaker.failures, 1);
}

/// Leaves `other` unanswered. Answers `ping` if it `lives`.
fn silent_on_other(lives: bool) -> impl Script {
    move |m: &Value, w: &Wire| {
        if m["params"]["name"] != "other" && (lives || method_of(m) != "ping") {
            echo(m, w);
        }
    }
}

async fn three_timeouts(script: impl Script) -> Runtime {
    let timeouts = Timeouts { idle: Duration::from_secs(2), ..Timeouts::default() };
    let runtime = Fleet::default().with(ServerSpec { timeouts, ..spec("s") }, script).ready().await;
    for _ in 0..3 {
        assert_eq!(call(&runtime, "s", "other").await.unwrap_err().code, ErrorCode::TimeoutIdle);
        idle().await;
        tokio::time::advance(Duration::from_secs(6)).await;
        idle().await;
    }
    runtime
}

#[tokio::test(start_paused = true)]
async fn unanswered_calls_count_only_when_the_server_shows_no_life_either() {
    let tape = Tape::default();
    let runtime = three_timeouts(tape.of(silent_on_other(true))).await;
    assert_eq!(tape.received("ping").len(), 3);
    assert_eq!(view(&runtime, "s").breaker.failures, 0);
    call(&runtime, "s", "echo").await.expect("it lives");

    let runtime = three_timeouts(silent_on_other(false)).await;
    refused(&call(&runtime, "s", "echo").await.unwrap_err());
    assert_eq!(view(&runtime, "s").restarts, 0, "a silent ping restarts nothing");
}

#[tokio::test(start_paused = true)]
async fn any_frame_since_the_call_is_a_sign_of_life() {
    let tape = Tape::default();
    let talks = |m: &Value, w: &Wire| {
        if m["params"]["name"] == "other" {
            w.line(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}"#);
        } else if method_of(m) != "ping" {
            echo(m, w);
        }
    };
    let runtime = three_timeouts(tape.of(talks)).await;
    assert_eq!(tape.received("ping").len(), 0, "nobody had to ask");
    assert_eq!(view(&runtime, "s").breaker.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn late_answers_are_inert_and_a_refused_ping_is_life() {
    let script = |m: &Value, w: &Wire| {
        if method_of(m) == "ping" {
            w.line(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no ping"}}}}"#,
                m["id"]
            ));
        } else if m["params"]["name"] == "other" {
            let (w, m) = (w.clone(), m.clone());
            tokio::spawn(async move {
                after(Duration::from_secs(10)).await;
                w.result(&m, r#"{"late":1}"#);
            });
        } else {
            echo(m, w);
        }
    };
    let runtime = three_timeouts(script).await;
    let before = view(&runtime, "s");
    tokio::time::advance(Duration::from_secs(30)).await;
    idle().await;
    call(&runtime, "s", "echo").await.expect("nothing broke");
    let after = view(&runtime, "s");
    assert_eq!((after.breaker.failures, after.generation), (0, before.generation));
    assert!(after.warnings.iter().any(|w| w.contains("3 answers came late")), "{:?}", after.warnings);
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_here_says_nothing_about_the_server() {
    let script = |m: &Value, w: &Wire| {
        if m["params"]["name"] != "other" {
            echo(m, w);
        }
    };
    let limits = callboard::config::spec::Limits { in_flight: 1, queue: 1, ..Default::default() };
    let runtime = Fleet::default().with(ServerSpec { limits, ..spec("s") }, script).ready().await;
    for _ in 0..20 {
        let frontend = runtime.frontend();
        let left =
            tokio::time::timeout(Duration::from_millis(5), frontend.call(request("s", "other", "{}"), None));
        assert!(left.await.is_err(), "the caller leaves");
        let bad = frontend.call(request("s", "echo", "[]"), None).await.unwrap_err();
        assert_eq!(bad.code, ErrorCode::InvalidArguments);
    }
    idle().await;
    assert_eq!(view(&runtime, "s").breaker.failures, 0);
    call(&runtime, "s", "echo").await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_start_are_refused_when_it_opens() {
    let down = |_: &Value, w: &Wire| w.hang_up();
    let runtime = Fleet::default().with(spec("s"), down).start().await;
    let results = futures_util::future::join_all((0..10).map(|_| call(&runtime, "s", "echo"))).await;
    for result in results {
        refused(&result.unwrap_err());
    }
    assert_eq!(view(&runtime, "s").breaker.state, BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_restart_or_a_changed_entry_closes_it() {
    let tape = Tape::default();
    let runtime = opened(&tape).await;
    refused(&call(&runtime, "s", "echo").await.unwrap_err());
    runtime.restart_server(&"s".into());
    idle().await;
    ready(&runtime, "s").await;
    call(&runtime, "s", "echo").await.expect("restarted");

    let runtime = opened(&tape).await;
    refused(&call(&runtime, "s", "echo").await.unwrap_err());
    let changed = ServerSpec { hash: "changed".into(), ..lively("s") };
    let plan = Fleet::default().with(changed, dies_on_other).with(spec("fine"), echo).into_plan();
    runtime.reload(&plan).await.expect("it can be read");
    ready(&runtime, "s").await;
    call(&runtime, "s", "echo").await.expect("a changed entry");
}

#[tokio::test(start_paused = true)]
async fn zero_failures_turn_it_off() {
    let never = BreakerSpec { failures: 0, ..BreakerSpec::default() };
    let runtime =
        Fleet::default().with(ServerSpec { breaker: never, ..lively("s") }, dies_on_other).ready().await;
    for _ in 0..50 {
        assert_eq!(call(&runtime, "s", "other").await.unwrap_err().code, ErrorCode::ConnectionLost);
    }
    call(&runtime, "s", "echo").await.expect("never refused");
}

/// Offers a tool of each kind of hint, and one resource; dies at the first `deaths` uses of each.
fn mortal(deaths: usize, uses: Arc<std::sync::Mutex<BTreeMap<String, usize>>>) -> impl Script {
    move |m: &Value, w: &Wire| match method_of(m) {
        "initialize" => {
            let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}});
            let version = &m["params"]["protocolVersion"];
            let info = json!({"name": "mortal", "version": "1"});
            w.result(
                m,
                &json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
                    .to_string(),
            );
        }
        "tools/list" => {
            let tool = |name: &str, hints: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
            let tools = [
                tool("plain", json!({})),
                tool("reads", json!({"readOnlyHint": true})),
                tool("again", json!({"idempotentHint": true})),
            ];
            w.result(m, &json!({"tools": tools}).to_string());
        }
        "resources/list" => w.result(m, r#"{"resources":[{"uri":"a://b","name":"b"}]}"#),
        "resources/templates/list" => w.result(m, r#"{"resourceTemplates":[]}"#),
        "prompts/list" => w.result(m, r#"{"prompts":[{"name":"p"}]}"#),
        "tools/call" | "resources/read" | "prompts/get" => {
            let params = &m["params"];
            let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
            let mut uses = uses.lock().unwrap();
            let count = uses.entry(name).or_default();
            *count += 1;
            if *count <= deaths { w.hang_up() } else { w.result(m, "{}") }
        }
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_again_only_where_a_second_run_does_no_harm() {
    use callboard::call::{ItemKind, Target};
    for (trust, deaths, wanted) in [
        // plain, reads, again, resource, prompt: how often each is sent; 100 + n: and then fails
        (Trust::Trusted, 1, [101, 2, 2, 2, 2]),
        (Trust::Untrusted, 1, [101, 101, 101, 2, 2]),
        (Trust::ReadOnly, 1, [101, 101, 101, 2, 2]),
        (Trust::Trusted, 2, [101, 102, 102, 3, 3]),
        (Trust::Trusted, 3, [101, 102, 102, 103, 103]),
    ] {
        let items = [
            (ItemKind::Tool, "plain"),
            (ItemKind::Tool, "reads"),
            (ItemKind::Tool, "again"),
            (ItemKind::Resource, "a://b"),
            (ItemKind::Prompt, "p"),
        ];
        for ((kind, name), wanted) in items.into_iter().zip(wanted) {
            let uses = Arc::default();
            let never = BreakerSpec { failures: 0, ..BreakerSpec::default() };
            let spec = ServerSpec { trust, breaker: never, ..lively("s") };
            let runtime = Fleet::default().with(spec, mortal(deaths, Arc::clone(&uses))).ready().await;
            let target = Target::Direct { server: "s".into(), kind, name: name.to_owned() };
            let call = CallRequest { target, ..request("s", name, "{}") };
            let outcome = runtime.frontend().call(call, None).await;
            let failed = match outcome {
                Ok(_) => 0,
                Err(error) if error.code == ErrorCode::Denied => continue,
                Err(error) => {
                    assert!(error.message.contains("outcome unknown"), "{error}");
                    assert_eq!(error.delivery, Delivery::Unknown);
                    100
                }
            };
            let sent = uses.lock().unwrap()[name];
            assert_eq!(sent + failed, wanted, "{trust:?} {deaths} {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_never_called_not_sent_because_its_second_try_found_no_place() {
    let mut narrow = lively("s");
    (narrow.limits.in_flight, narrow.limits.queue) = (1, 1);
    let runtime = Fleet::default()
        .with(
            narrow,
            |m: &Value, w: &Wire| {
                if m["params"]["uri"] == "x://dies" { w.hang_up() } else { echo(m, w) }
            },
        )
        .ready()
        .await;
    let read = |uri: &str| {
        let mut request = request("s", "", &json!({ "uri": uri }).to_string());
        request.target = callboard::call::Target::Direct {
            server: "s".into(),
            kind: callboard::call::ItemKind::Resource,
            name: uri.to_owned(),
        };
        let frontend = runtime.frontend();
        async move { frontend.call(request, None).await }
    };
    let (first, second) = tokio::join!(read("x://dies"), read("x://fine"));
    second.expect("it waited for its turn");
    let error = first.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown), "{error}");
}
