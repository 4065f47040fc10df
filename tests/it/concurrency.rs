//! Field reports about calls side by side: on one server, and on others while one is slow.

use std::time::Duration;

use callboard::call::{Delivery, ErrorCode};
use callboard::config::spec::{Limits, ServerSpec, Timeouts};
use callboard::time::Monotonic;
use futures_util::future::join_all;
use serde_json::json;

use crate::support::bad::{self, Host, TOOLS, Yard};

#[tokio::test]
async fn parallel_calls_overlap_and_each_gets_its_own_payload() {
    let host = Host::of(&bad::flags("B100")).await;
    let texts: Vec<String> = (0..20).map(|n| format!("payload {n}")).collect();
    let began = Monotonic::now();
    join_all(texts.iter().map(|text| host.echo("s", text))).await;
    let took = Monotonic::now() - began;
    assert!(took > Duration::from_secs(1) && took < bad::SOON, "{took:?}");
    assert_eq!(host.executed("s").len(), 20);
    host.end().await;
}

#[tokio::test]
async fn a_slow_call_blocks_nothing_else() {
    let [fast, slow] = bad::runs("B101");
    let narrow = |spec: &mut ServerSpec| {
        spec.limits = Limits { in_flight: 2, queue: 1, ..spec.limits };
        spec.timeouts = Timeouts { permit: Duration::from_millis(100), ..spec.timeouts };
    };
    let host = Yard::new().with("fast", &fast).await.tuned("slow", &slow, narrow).await.ready().await;
    let arguments = json!({"text": "x"});
    let mut stuck = Box::pin(join_all([(); 2].map(|()| host.call("slow", "echo", &arguments))));
    let others = async {
        bad::until("both run", || host.received("slow", "tools/call").len() == 2).await;
        let began = Monotonic::now();
        for n in 0..10 {
            host.echo("fast", &format!("call {n}")).await;
            assert_eq!(host.runtime.catalog().tools.len(), 2 * TOOLS);
            assert_eq!(host.view("slow").restarts, 0);
        }
        // What runs is bounded, and so is what waits: the rest is told at once, or after its wait.
        let excess = join_all([(); 2].map(|()| host.call("slow", "echo", &arguments))).await;
        for error in excess.into_iter().map(Result::unwrap_err) {
            assert_eq!((error.code, error.delivery), (ErrorCode::Busy, Delivery::NotSent), "{error:?}");
        }
        assert!(Monotonic::now() - began < bad::SOON);
    };
    tokio::select! {
        _ = &mut stuck => panic!("twenty seconds have not passed"),
        () = others => {}
    }
    // The callers leave: the server hears it, once for each, and takes calls again.
    let began = Monotonic::now();
    drop(stuck);
    bad::until("it is told", || host.received("slow", "notifications/cancelled").len() == 2).await;
    assert!(Monotonic::now() - began < bad::SOON, "{:?}", Monotonic::now() - began);
    bad::until("the places are free", || host.view("slow").in_flight == 0).await;
    host.end().await;
}
