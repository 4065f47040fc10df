//! Field reports about starts: a stalled server, slow ones side by side, talk before the
//! handshake, servers that wait for `initialized`.

use std::collections::BTreeMap;
use std::time::Duration;

use callboard::config::spec::{ServerSpec, Timeouts};
use callboard::time::Monotonic;
use callboard::view::LifeState;
use serde_json::Value;

use crate::support::bad::{self, Host, PATIENCE, TOOLS, Yard};
use crate::support::{Fleet, Wire, spec};

#[tokio::test]
async fn one_stalled_server_delays_nobody() {
    const GOOD: [&str; 5] = ["a", "b", "c", "d", "e"];
    let impatient = |spec: &mut ServerSpec| {
        let (connect, max_start) = (Duration::from_millis(200), Duration::from_secs(6));
        spec.timeouts = Timeouts { connect, max_start, ..spec.timeouts };
    };
    let yard = Yard::new().tuned("stalled", &bad::flags("B028"), impatient).await;
    let yard = yard.good(&GOOD).await;
    let host = yard.start().await;
    let good: Vec<_> = GOOD.into_iter().map(Into::into).collect();
    host.runtime.settle(&good, PATIENCE).await;
    for server in GOOD {
        host.echo(server, "soon").await;
        assert_eq!(host.tools(server).len(), TOOLS);
    }
    // All that before its limit: nobody has waited for it.
    let stalled = host.view("stalled");
    assert_eq!((stalled.state, stalled.restarts), (LifeState::Connecting, 0), "{stalled:?}");
    host.until("stalled", "it is called late", |view| view.late).await;

    let failed = host.until("stalled", "its own limit ends it", |view| view.restarts > 0).await;
    assert!(failed.why.as_deref().is_some_and(|why| why.contains("max_start")), "{failed:?}");
    for server in GOOD {
        assert_eq!((host.view(server).state, host.view(server).restarts), (LifeState::Ready, 0));
    }
    host.end().await;
}

#[tokio::test]
async fn slow_starters_start_side_by_side() {
    let flags = bad::flags("B029");
    let names: Vec<String> = (0..10).map(|n| format!("slow{n}")).collect();
    let mut yard = Yard::new();
    for name in &names {
        yard = yard.with(name, &flags).await;
    }
    let began = Monotonic::now();
    let host = yard.ready().await;
    let took = Monotonic::now() - began;
    assert!(took > Duration::from_secs(5) && took < PATIENCE, "{took:?}");
    for name in &names {
        assert_eq!(host.view(name).restarts, 0, "none failed on the way");
        host.echo(name, name).await;
    }
    host.end().await;
}

#[tokio::test]
async fn notifications_before_the_handshake_are_tolerated() {
    let host = Host::of(&bad::flags("B031")).await;
    assert_eq!(host.tools("s").len(), TOOLS);
    let view = host.view("s");
    assert_eq!((view.restarts, view.warnings), (0, Vec::new()));
    // Its ping got its answer before anything else was said.
    let heard = host.trace("s", "in");
    let place = |what: &dyn Fn(&Value) -> bool| heard.iter().position(what).expect("it came");
    let pong = place(&|event| event["raw"].as_str().unwrap().contains(r#""result":{}"#));
    let initialized = place(&|event| event["method"] == "notifications/initialized");
    assert!(pong < initialized, "{heard:?}");
    host.end().await;
}

/// Methods as they reached a server, by session; the empty one on pipes.
fn by_session(host: &Host, server: &str) -> BTreeMap<String, Vec<String>> {
    let mut sessions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in host.trace(server, "in") {
        let session = event["session"].as_str().unwrap_or_default().to_owned();
        sessions.entry(session).or_default().push(event["method"].as_str().unwrap_or_default().to_owned());
    }
    sessions
}

#[tokio::test]
async fn initialized_is_sent_before_the_first_list() {
    let [pipe, http, renewing] = bad::runs("B032");
    let yard = Yard::new().with("pipe", &pipe).await.with("http", &http).await;
    let host = yard.with("renewing", &renewing).await.ready().await;
    for server in ["pipe", "http", "renewing"] {
        assert_eq!(host.tools(server).len(), TOOLS, "{server}");
    }
    // Each call ends its session: from then on every list is read in a renewed one.
    for n in 0..3 {
        host.echo("renewing", &format!("call {n}")).await;
    }
    let lists = || host.received("renewing", "tools/list").len();
    bad::until("the lists are read again", || lists() > 1).await;
    host.runtime.settle(&[], PATIENCE).await;
    assert_eq!(host.tools("renewing").len(), TOOLS);
    assert!(host.received("renewing", "initialize").len() > 1);
    let starts = ["initialize", "server/discover", ""];
    for server in ["pipe", "http", "renewing"] {
        for (session, methods) in by_session(&host, server) {
            let first = methods.iter().find(|method| !starts.contains(&method.as_str()));
            let expected = first.is_none_or(|method| method == "notifications/initialized");
            assert!(expected, "{server} {session}: {methods:?}");
        }
    }
    host.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_program_that_copies_its_input_is_told_to_be_no_server() {
    let copies = |message: &Value, wire: &Wire| wire.line(message.to_string());
    let runtime = Fleet::default().with(spec("s"), copies).ready().await;
    let why = runtime.status().remove(0).why.unwrap_or_default();
    assert!(why.contains("it sends our own messages back: it is no MCP server"), "{why}");
}
