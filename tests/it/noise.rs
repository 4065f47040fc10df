//! Field reports about what servers write where they should not: text and foreign JSON on
//! stdout, floods on stderr.

use serde_json::json;

use crate::support::bad::{self, Host, TOOLS, Yard};

/// How each line of badmcp's flood begins.
const FLOOD: &str = "badmcp: a line of log";
const NOISE: &str = "writes text to stdout";

#[tokio::test]
async fn a_banner_and_log_lines_on_stdout_are_skipped_and_counted() {
    let host = Host::of(&bad::flags("B022")).await;
    assert_eq!(host.tools("s").len(), TOOLS);
    host.echo("s", "heard through the noise").await;
    host.warned("s", NOISE).await;
    let noise = host.trace("s", "noise").len() + 1;
    assert!(noise > 2);
    let counted = format!("({noise} lines");
    let view = host.until("s", &counted, |v| v.warnings.iter().any(|w| w.contains(&counted))).await;
    assert_eq!(view.restarts, 0);
    host.end().await;
}

#[tokio::test]
async fn json_that_is_no_message_does_not_fail_a_call() {
    let host = Host::of(&bad::flags("B023")).await;
    assert_eq!(host.view("s").warnings, Vec::<String>::new());
    for n in 0..3 {
        host.echo("s", &format!("the real answer {n}")).await;
    }
    let noise = host.trace("s", "noise").len();
    assert!(noise >= 12);
    host.warned("s", NOISE).await;
    assert_eq!(host.view("s").restarts, 0);
    host.end().await;
}

#[tokio::test]
async fn a_flood_on_stderr_never_blocks_a_server() {
    let [at_call, at_start] = bad::runs("B025");
    let host = Yard::new().with("call", &at_call).await.with("start", &at_start).await.ready().await;
    for server in ["call", "start"] {
        for n in 0..3 {
            host.echo(server, &format!("answer {n}")).await;
        }
        // The flood stops in the middle of a line.
        let logged = |line: String| line.starts_with(FLOOD) || FLOOD.starts_with(&line);
        let kept = || host.view(server).last_stderr.is_some_and(logged);
        bad::until("its log is kept", kept).await;
        assert_eq!(host.view(server).restarts, 0);
    }
    host.end().await;
}

#[test]
fn stderr_without_newlines_keeps_memory_flat() {
    bad::alone("noise::stderr_without_newlines_keeps_memory_flat", async {
        let host = Host::of(&bad::flags("B026")).await;
        let before = bad::memory("VmRSS");
        let reply = host.call("s", "echo", &json!({"text": "after the flood"})).await.unwrap();
        assert_eq!(bad::text_of(&reply), "after the flood");
        let grown = bad::memory("VmHWM") - before;
        assert!(grown < 16 << 20, "memory grew by {} MiB", grown >> 20);
        assert_eq!(host.view("s").restarts, 0);
        host.end().await;
    });
}
