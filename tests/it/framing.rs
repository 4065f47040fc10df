//! Field reports about frames on pipes: line ends, characters cut in two, long lines and
//! lines without end, from the server's bytes to what a caller of the runtime gets.

use std::sync::Mutex;

use callboard::call::{Delivery, ErrorCode};
use callboard::config::spec::Limits;
use callboard::view::LifeState;
use serde_json::{Value, json};
use tokio::join;

use crate::support::bad::{self, Host, TOOLS, Yard};
use crate::support::{self, Fleet, Wire, answer, good};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn crlf_bom_and_blank_lines_are_accepted() {
    let host = Host::of(&bad::flags("B016")).await;
    assert_eq!(host.tools("s").len(), TOOLS);
    host.echo("s", "a\r\nb").await;
    assert_eq!(host.view("s").warnings, Vec::<String>::new(), "nothing about it is odd");
    host.end().await;
}

#[tokio::test]
async fn characters_split_over_reads_arrive_whole() {
    let host = Host::of(&bad::flags("B017")).await;
    let raw = r#"{"content":[{"type":"text","text":"é—🎉漢"}],"ключ":"ẞ\u00e9"}"#;
    let arguments: Value = serde_json::from_str(&format!(r#"{{"raw":{raw}}}"#)).unwrap();
    let reply = host.call("s", "echo", &arguments).await.unwrap();
    // The text of our own request had its escapes read already; what the server sent came byte for byte.
    let sent = host.trace("s", "out").pop().unwrap();
    assert_eq!(reply.frame, sent["raw"].as_str().unwrap().as_bytes());
    host.echo("s", "é—🎉漢").await;
    assert_eq!(host.view("s").warnings, Vec::<String>::new());
    host.end().await;
}

/// The length of a line that `--huge-line` of these flags gives.
fn huge(flags: &[String]) -> usize {
    let word = flags[1].split('@').next().unwrap();
    (word.parse::<f64>().unwrap() * MIB as f64) as usize
}

#[tokio::test]
async fn long_lines_arrive_in_calls_lists_and_instructions() {
    let runs: [_; 9] = bad::runs("B019");
    let mut yard = Yard::new();
    for (n, flags) in runs.iter().enumerate() {
        yard = yard.with(&format!("s{n}"), flags).await;
    }
    let host = yard.ready().await;
    for (n, flags) in runs.iter().enumerate() {
        let (server, bytes) = (format!("s{n}"), huge(flags));
        let slack = 64 * 1024;
        let reply = host.call(&server, "echo", &json!({"text": "x"})).await.unwrap();
        match flags[1].split_once('@') {
            None => assert_eq!(reply.frame.len(), bytes, "{flags:?}"),
            Some((_, "list")) => {
                let last = host.tool(&server, host.tools(&server).last().unwrap());
                assert!(last.raw.len() + slack > bytes, "{flags:?}: {}", last.raw.len());
                let cut = last.notes.iter().any(|note| note.contains("description"));
                assert!(cut, "{:?}", last.notes);
            }
            Some(_) => {
                let instructions = host.catalog(&server).instructions.clone().unwrap();
                assert!(instructions.len() + slack > bytes, "{flags:?}: {}", instructions.len());
            }
        }
        assert_eq!(host.view(&server).restarts, 0);
    }
    host.end().await;
}

#[test]
fn a_line_without_end_fails_that_server_alone() {
    bad::alone("framing::a_line_without_end_fails_that_server_alone", async {
        let host = Yard::new().with("s", &bad::flags("B020")).await.good(&["fine"]).await.ready().await;
        host.echo("fine", "before").await;
        let (neighbour, first) = (host.pid("fine"), host.pid("s"));
        let before = bad::memory("VmRSS");

        let error = host.call("s", "echo", &json!({"text": "x"})).await.unwrap_err();
        assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown));
        assert!(error.message.contains("limits.frame_max"), "{error}");
        let again = host.until("s", "it is back", |view| view.restarts == 1 && view.listed).await;
        assert_eq!(again.state, LifeState::Ready);
        assert_ne!(again.pid, Some(first));

        let limit = 16 * MIB as u64;
        let peak = bad::memory("VmHWM") - before;
        assert!(peak < limit + 50 * MIB as u64, "the peak was {} MiB above", peak >> 20);
        let left = bad::memory("VmRSS").saturating_sub(before);
        assert!(left < limit, "{} MiB stay", left >> 20);
        host.echo("fine", "after").await;
        assert_eq!((host.pid("fine"), host.view("fine").restarts), (neighbour, 0));
        host.end().await;
    });
}

#[tokio::test]
async fn whole_answers_before_a_line_without_end_still_arrive() {
    const CAP: usize = 32 * 1024;
    let first = Mutex::new(None);
    let script = move |message: &Value, wire: &Wire| {
        if good(message, wire) {
            return;
        }
        let mut first = first.lock().unwrap();
        match first.take() {
            None => *first = Some(message.clone()),
            // The answer to the first call and a line that never ends, in one go.
            Some(asked) => {
                let endless = r#"{"jsonrpc":"2.0","method":"x","params":""#;
                wire.raw(format!("{}\n{endless}{}", answer(&asked, r#"{"ok":1}"#), "e".repeat(5 * CAP)));
            }
        }
    };
    let mut small = support::spec("s");
    small.limits = Limits { frame_max: CAP, ..small.limits };
    let runtime = Fleet::default().with(small, script).ready().await;
    let (one, two) = join!(support::call(&runtime, "s", "echo"), support::call(&runtime, "s", "other"));
    assert_eq!(support::text(&one.unwrap()), r#"{"ok":1}"#);
    let error = two.unwrap_err();
    assert!(error.message.contains("limits.frame_max"), "{error}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_line_over_the_cap_fails_its_call_and_the_connection_goes_on() {
    let [_, flags, ..]: [_; 9] = bad::runs("B019");
    let small = |spec: &mut callboard::config::spec::ServerSpec| {
        spec.limits = Limits { frame_max: MIB - 1, ..spec.limits };
    };
    let host = Yard::new().tuned("s", &flags, small).await.ready().await;
    let pid = host.pid("s");
    let error = host.call("s", "echo", &json!({"text": "x"})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::FrameTooLarge);
    assert!(error.message.contains("limits.frame_max"), "{error}");
    assert_eq!((host.pid("s"), host.view("s").restarts), (pid, 0));
    host.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_off_by_the_end_of_its_server_is_one_lost_connection() {
    let held: Mutex<Vec<Value>> = Mutex::default();
    let mut fragile = support::spec("s");
    fragile.breaker.failures = 2;
    let runtime = Fleet::default()
        .with(fragile, move |m: &Value, w: &Wire| {
            if good(m, w) || support::method_of(m) != "tools/call" {
                return;
            }
            let mut held = held.lock().unwrap();
            held.push(m.clone());
            if held.len() == 2 {
                w.raw(&answer(&held[0], r#"{"content":[]}"#).as_bytes()[..30]);
                w.hang_up();
            }
        })
        .ready()
        .await;
    let (first, second) = join!(support::call(&runtime, "s", "echo"), support::call(&runtime, "s", "echo"));
    for end in [first, second] {
        let error = end.unwrap_err();
        assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown), "{error}");
    }
    support::idle().await;
    assert_eq!(runtime.status()[0].breaker.failures, 1, "one incident counts once");
}
