//! Invariants that hold between servers and across restarts: nothing is sent twice, nothing is
//! misrouted while the catalogue changes, and a fault stays with the server that has it.

use std::time::Duration;

use bytes::Bytes;
use callboard::call::{Delivery, ErrorCode, Target};
use callboard::runtime::Runtime;
use callboard::view::{LifeState, ServerView};
use serde_json::{Value, json};

use crate::support::*;

/// Long enough for every limit of the tests; the clock is paused.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_call_whose_connection_died_is_never_sent_twice() {
    let tape = Tape::default();
    let script = tape.of(|message: &Value, wire: &Wire| {
        let deadly = message["params"]["arguments"]["die"] == true;
        if good(message, wire) {
            return;
        }
        if deadly { wire.hang_up() } else { wire.result(message, "{}") }
    });
    let runtime = one(script).await;
    let die = request("s", "echo", r#"{"name":"echo","arguments":{"die":true}}"#);
    let error = runtime.frontend().call(die, None).await.unwrap_err();
    assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown), "{error}");
    runtime.settle(&[], LONG).await;
    call(&runtime, "s", "other").await.unwrap();
    idle().await;
    assert_eq!(tape.received("initialize").len(), 2, "the server was restarted");
    let names: Vec<Value> =
        tape.received("tools/call").iter().map(|call| call["params"]["name"].clone()).collect();
    assert_eq!(names, ["echo", "other"], "each call was sent once");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_left_says_so_and_one_that_waited_is_sent_once() {
    let tape = Tape::default();
    let script = tape.of(|message: &Value, wire: &Wire| {
        // The first connection ends in the first call, the second one never gets ready.
        let silent = wire.connection == 2 && method_of(message) == "initialize";
        if !silent && !good(message, wire) {
            if wire.connection == 1 { wire.hang_up() } else { wire.result(message, "{}") }
        }
    });
    let runtime = one(script).await;
    call(&runtime, "s", "echo").await.unwrap_err();
    let mut hasty = request("s", "echo", "{}");
    hasty.limits.total = Some(Duration::from_secs(3));
    let error = runtime.frontend().call(hasty, None).await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent, "{error}");
    assert_eq!(tape.received("tools/call").len(), 1);
    let mut patient = request("s", "echo", "{}");
    patient.limits.total = Some(LONG);
    runtime.frontend().call(patient, None).await.unwrap();
    assert_eq!(tape.received("tools/call").len(), 2);
}

/// Says which server and tool was really called.
fn sign(name: &'static str) -> impl Script {
    move |message: &Value, wire: &Wire| {
        if !good(message, wire) {
            let tool = &message["params"]["name"];
            wire.result(message, &json!({"server": name, "tool": tool}).to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_snapshot_can_refuse_and_never_misroutes() {
    // Two servers take turns in being configured; callers hold on to the names of both.
    let plan = |names: &[&'static str]| {
        names.iter().fold(Fleet::default(), |fleet, name| fleet.with(spec(name), sign(name))).into_plan()
    };
    let plans = [plan(&["a", "b"]), plan(&["b"]), plan(&["a", "b"]), plan(&["a"])];
    let runtime = std::sync::Arc::new(Runtime::start(plans[0].clone()).await.unwrap());
    runtime.settle(&[], LONG).await;
    let names: Vec<(String, String, String)> = runtime
        .catalog()
        .tools
        .iter()
        .map(|tool| (tool.name.clone(), tool.route.server.to_string(), tool.route.item.name.clone()))
        .collect();
    assert_eq!(names.len(), 4);

    let mut callers = Vec::new();
    for (exposed, server, tool) in names {
        let runtime = runtime.clone();
        callers.push(tokio::spawn(async move {
            let mut answered = 0;
            for _ in 0..300 {
                let mut call = request(&server, &tool, &json!({"name": exposed}).to_string());
                call.target = Target::Exposed(exposed.clone());
                match runtime.frontend().call(call, None).await {
                    Ok(reply) => {
                        let body: Value = serde_json::from_slice(&reply.body()).unwrap();
                        assert_eq!(body, json!({"server": server, "tool": tool}), "{exposed} was misrouted");
                        answered += 1;
                    }
                    Err(error) => assert_ne!(error.code, ErrorCode::Internal, "{error}"),
                }
            }
            answered
        }));
    }
    for plan in plans.iter().cycle().skip(1).take(24) {
        runtime.reload(plan).await.unwrap();
        runtime.settle(&[], LONG).await;
    }
    let mut answered = 0;
    for caller in callers {
        answered += caller.await.unwrap();
    }
    assert!(answered > 0, "the callers were not all refused");
}

/// What must not change for a neighbour.
fn lasting(views: &[ServerView], name: &str) -> (LifeState, u64, u32, u64, usize) {
    let view = views.iter().find(|view| view.id.as_str() == name).unwrap();
    (view.state, view.generation.0, view.restarts, view.calls_failed, view.counts.tools)
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_server_changes_no_other_servers_view() {
    type Fault = fn(&Value, &Wire);
    let faults: [(&str, Fault); 5] = [
        ("hangs_up", |_, wire| wire.hang_up()),
        ("answers_garbage", |_, wire| wire.line("}{ not json \u{0}")),
        ("answers_others", |_, wire| wire.line(r#"{"jsonrpc":"2.0","id":424242,"result":{}}"#)),
        ("says_nothing", |_, _| {}),
        ("floods", |message, wire| {
            for _ in 0..2_000 {
                wire.line(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#);
            }
            wire.result(message, "{}");
        }),
    ];
    let mut fleet = Fleet::default().with(spec("good"), sign("good"));
    for (name, fault) in faults {
        let mut bad = spec(name);
        bad.timeouts.idle = Duration::from_secs(2);
        fleet = fleet.with(bad, move |message: &Value, wire: &Wire| {
            if !good(message, wire) && method_of(message) == "tools/call" {
                fault(message, wire);
            }
        });
    }
    let runtime = fleet.ready().await;
    call(&runtime, "good", "echo").await.unwrap();
    let before = lasting(&runtime.status(), "good");
    let calls = faults.map(|(name, _)| call(&runtime, name, "echo"));
    let beside = async {
        for _ in 0..50 {
            let reply = call(&runtime, "good", "echo").await.unwrap();
            assert_eq!(reply.body(), Bytes::from_static(br#"{"server":"good","tool":"echo"}"#));
        }
    };
    let (ended, ()) = tokio::join!(futures_util::future::join_all(calls), beside);
    assert_eq!(ended.iter().filter(|end| end.is_err()).count(), 4, "all but the flood failed: {ended:?}");
    runtime.settle(&[], LONG).await;
    assert_eq!(lasting(&runtime.status(), "good"), before);
}

#[tokio::test(start_paused = true)]
async fn calls_that_pile_up_at_some_servers_leave_places_for_the_others() {
    let mute = |message: &Value, wire: &Wire| {
        good(message, wire);
    };
    let answers = |message: &Value, wire: &Wire| {
        if !good(message, wire) {
            wire.result(message, "{}");
        }
    };
    let mut fleet = Fleet::default().with(spec("well"), answers);
    for name in ["stuck1", "stuck2", "stuck3"] {
        fleet = fleet.with(spec(name), mute);
    }
    let runtime = fleet.plan(|plan| plan.in_flight_max = 64).ready().await;
    let frontend = runtime.frontend();
    let mut stuck = tokio::task::JoinSet::new();
    let mut refused = 0;
    for n in 0..100 {
        let name = ["stuck1", "stuck2", "stuck3"][n % 3];
        stuck.spawn(frontend.call(request(name, "echo", "{}"), None));
        idle().await;
        while let Some(answer) = stuck.try_join_next() {
            let error = answer.unwrap().unwrap_err();
            assert_eq!((error.code, error.delivery), (ErrorCode::Busy, Delivery::NotSent), "{error}");
            assert!(error.message.contains("in_flight_max"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0 && stuck.len() <= 64, "{refused} refused");
    for _ in 0..100 {
        call(&runtime, "well", "echo").await.unwrap();
    }
    stuck.abort_all();
    idle().await;
    // The places are given back: now one of them may have as many as before.
    assert!(runtime.status().iter().all(|view| view.in_flight == 0 && view.queued == 0));
}
