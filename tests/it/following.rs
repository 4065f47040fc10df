//! Reload while things are under way: who is there, who is listed, who is followed.

use std::sync::Arc;
use std::time::Duration;

use callboard::runtime::Runtime;
use callboard::view::LifeState;
use serde_json::Value;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_a_reload_adds_is_followed_like_the_others() {
    let before = Fleet::default().with(spec("a"), quick).into_plan();
    let after = Fleet::default().with(spec("a"), quick).with(spec("b"), quick).into_plan();
    let runtime = Runtime::start(before).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    let mut watch = runtime.watch(&[]);
    assert_eq!(watch.look().len(), 1);
    let followed = tokio::spawn(async move {
        loop {
            watch.changed().await;
            let views = watch.look();
            if views.len() == 2 && views.iter().all(|view| view.state == LifeState::Ready) {
                return;
            }
        }
    });
    idle().await;
    runtime.reload(&after).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), followed).await.expect("it is seen").unwrap();
}

/// Holds its calls; lists its tools when asked, and says that they changed when a call arrives.
fn lists_to_the_end(message: &Value, wire: &Wire) {
    if !good(message, wire) && method_of(message) == "tools/call" {
        wire.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_removed_lists_nothing_while_it_drains() {
    let runtime =
        Arc::new(Fleet::default().with(spec("a"), lists_to_the_end).with(spec("b"), quick).ready().await);
    assert_eq!(runtime.catalog().tools.len(), 4);
    let held = {
        let runtime = runtime.clone();
        tokio::spawn(async move { call(&runtime, "a", "echo").await })
    };
    idle().await;
    runtime.reload(&Fleet::default().with(spec("b"), quick).into_plan()).await.unwrap();
    held.await.unwrap().unwrap_err();
    idle().await;
    let owners: Vec<_> = runtime.catalog().tools.iter().map(|tool| tool.route.server.to_string()).collect();
    assert_eq!(owners, ["b", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_comes_back_while_its_predecessor_drains_is_the_new_one() {
    // Holds its call, and lists a tool of its own each time it is asked.
    let old = |m: &Value, w: &Wire| match method_of(m) {
        "tools/call" => w.line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
        "tools/list" => w.result(m, r#"{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}"#),
        _ => _ = good(m, w),
    };
    let runtime = Arc::new(Fleet::default().with(spec("a"), old).with(spec("b"), quick).ready().await);
    let held = {
        let runtime = runtime.clone();
        tokio::spawn(async move { call(&runtime, "a", "old").await })
    };
    idle().await;
    let removed = {
        let runtime = runtime.clone();
        tokio::spawn(async move {
            runtime.reload(&Fleet::default().with(spec("b"), quick).into_plan()).await.unwrap();
        })
    };
    idle().await;
    let again = Fleet::default().with(spec("a"), quick).with(spec("b"), quick).into_plan();
    runtime.reload(&again).await.unwrap();
    runtime.settle(&[], Duration::from_secs(60)).await;
    tokio::time::advance(Duration::from_millis(1_500)).await;
    idle().await;
    let tools: Vec<_> = runtime.catalog().tools.iter().map(|tool| tool.route.item.name.clone()).collect();
    assert!(!tools.contains(&"old".into()), "{tools:?}");
    assert_eq!(tools.len(), 4, "{tools:?}");
    held.await.unwrap().unwrap_err();
    removed.await.unwrap();
}
