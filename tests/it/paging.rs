//! Field reports about lists in pages: all of them are read, and a server that never comes
//! to an end is left in time.

use callboard::time::Monotonic;
use serde_json::json;

use crate::support::bad::{self, Host, TOOLS, Yard};

#[tokio::test]
async fn all_pages_are_followed() {
    let host = Host::of(&bad::flags("B052")).await;
    let tools = host.tools("s");
    let plain: Vec<String> = (0..101).map(|n| format!("t{n}")).collect();
    assert_eq!(tools.len(), 101 + 5, "and the five that badmcp always has");
    assert_eq!(tools[5..], plain);
    assert_eq!(host.view("s").counts.tools, 106);
    host.call("s", "t100", &json!({})).await.unwrap();
    assert_eq!(host.executed("s"), ["t100"]);
    assert_eq!(host.received("s", "tools/list").len(), 3);
    host.end().await;
}

#[tokio::test]
async fn cursors_that_repeat_or_go_round_end_the_walk() {
    let [same, round] = bad::runs("B053");
    let began = Monotonic::now();
    let host = Yard::new().with("same", &same).await.with("round", &round).await.ready().await;
    assert!(Monotonic::now() - began < bad::SOON);
    for server in ["same", "round"] {
        let view = host.warned(server, "tools/list: a cursor came back a second time").await;
        assert_eq!(view.counts.tools, TOOLS, "{server}");
        assert!(host.received(server, "tools/list").len() <= 3, "{server}");
        host.echo(server, "usable").await;
    }
    host.end().await;
}
