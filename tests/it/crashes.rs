//! Field reports about servers that die: in the middle of a call, in a loop, before they ever
//! answered. What was pending is told at once, and coming back has its law.

use std::time::{Duration, SystemTime};

use callboard::call::{Delivery, ErrorCode};
use callboard::config::spec::{SecretText, ServerSpec, TransportSpec};
use callboard::time::Monotonic;
use callboard::view::{LifeState, ParkReason};
use serde_json::json;

use crate::support::bad::{self, Host, Yard};

#[tokio::test]
async fn a_death_in_mid_call_is_told_at_once_with_its_signal_and_the_last_words() {
    let [killed, shut, speaks] = bad::runs("B010");
    let yard = Yard::new().with("killed", &killed).await.with("shut", &shut).await;
    let host = yard.with("speaks", &speaks).await.ready().await;
    for (server, words) in [
        ("killed", "signal 9 (SIGKILL)"),
        ("shut", "closed the connection"),
        ("speaks", "last stderr line: half of it is written"),
    ] {
        let (pid, began) = (host.pid(server), Monotonic::now());
        let error = host.call(server, "echo", &json!({"text": "x"})).await.unwrap_err();
        let took = Monotonic::now() - began;
        assert!(took < bad::SOON, "{server}: {took:?}");
        assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown), "{error}");
        assert!(error.message.contains(words) && error.message.contains("outcome unknown"), "{error}");
        host.until(server, "it is back", |v| v.state == LifeState::Ready && v.pid != Some(pid)).await;
        assert_eq!(host.received(server, "tools/call").len(), 1, "it is not sent again");
    }
    host.end().await;
}

/// How many processes of `s` were started.
fn starts(host: &Host) -> usize {
    host.trace("s", "start").len()
}

#[tokio::test]
async fn a_handshake_that_works_forgives_no_crash_loop() {
    let folder = tempfile::tempdir().unwrap();
    let [flags] = bad::runs_in("B011", folder.path());
    let host = Yard::new().good(&["fine"]).await.with("s", &flags).await.start().await;
    let given_up = |state| state == LifeState::Parked(ParkReason::GivenUp);
    let ready = |state| state == LifeState::Ready;
    let before = host.until("fine", "it is ready", |view| ready(view.state)).await;
    host.until("s", "it is given up", |view| given_up(view.state)).await;
    let counted = std::fs::read_to_string(folder.path().join("starts")).unwrap().lines().count();
    assert_eq!((starts(&host), counted), (6, 6), "one start and five restarts");
    host.echo("fine", "unaffected").await;
    let fine = host.view("fine");
    assert_eq!((fine.restarts, fine.generation), (0, before.generation));
    host.end().await;
}

#[tokio::test]
async fn a_back_off_is_capped_and_ends_at_once_when_somebody_asks() {
    // The breaker has its own tests; here the law of restarts is alone.
    let unguarded = |spec: &mut ServerSpec| spec.breaker.failures = 0;
    let host = Yard::new().tuned("s", &bad::flags("B013"), unguarded).await.start().await;
    let waits = host.until("s", "its fourth start has failed", |view| {
        view.state == LifeState::BackingOff && starts(&host) == 4
    });
    let next = waits.await.next_attempt.expect("it says when");
    assert!(next <= SystemTime::now() + Duration::from_secs(60), "no more than `restart.max_delay`");
    let arguments = json!({"text": "I waited"});
    let waiting = host.call("s", "echo", &arguments);
    let asked = async {
        bad::until("the call waits for it", || host.view("s").queued == 1).await;
        assert_eq!((starts(&host), host.view("s").state), (4, LifeState::BackingOff), "a call only waits");
        assert!(host.runtime.restart_server(&"s".into()));
        bad::until("the next attempt", || starts(&host) == 5).await;
        assert!(SystemTime::now() < next, "it did not wait for its time");
    };
    let (answer, ()) = tokio::join!(waiting, asked);
    assert_eq!(bad::text_of(&answer.expect("the seventh start is healthy")), "I waited");
    assert_eq!(starts(&host), 7);
    host.end().await;
}

#[tokio::test]
async fn an_exit_before_the_handshake_is_told_at_once_with_code_and_stderr() {
    let began = Monotonic::now();
    let host = Yard::new().with("s", &bad::flags("B014")).await.start().await;
    let view = host.until("s", "the first failure", |view| view.why.is_some()).await;
    assert!(Monotonic::now() - began < bad::SOON, "{:?}", Monotonic::now() - began);
    let why = view.why.as_deref().unwrap();
    assert!(why.contains("code 3") && why.contains("missing db"), "{why}");
    let given_up = LifeState::Parked(ParkReason::GivenUp);
    let view = host.until("s", "it is given up", |view| view.state == given_up).await;
    assert_eq!(starts(&host), 5, "five starts that never became ready");
    let why = view.why.as_deref().unwrap();
    assert!(why.contains("code 3") && why.contains("missing db"), "{why}");
    host.end().await;
}

/// Offers one tool, then closes its input and lives on.
const DEAF: &str = r#"while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    answer() { echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
    case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}'; break ;;
    esac
done
exec sleep 600 <&-"#;

#[tokio::test]
async fn a_server_that_closes_its_input_is_lost_and_restarted_although_it_lives() {
    let deaf = |spec: &mut ServerSpec| {
        let args = ["-c", DEAF].map(SecretText::new).into();
        let env = vec![("PATH".to_owned(), SecretText::new("/usr/local/bin:/usr/bin:/bin"))];
        spec.transport = TransportSpec::Stdio { command: "/bin/sh".to_owned(), args, env, cwd: None };
    };
    let host = Yard::new().tuned("s", &[], deaf).await.ready().await;
    let pid = host.pid("s");
    let deaf = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    bad::until("it has closed its input", deaf).await;
    let began = Monotonic::now();
    let error = host.call("s", "t", &json!({})).await.unwrap_err();
    assert!(Monotonic::now() - began < bad::SOON, "{:?}", Monotonic::now() - began);
    assert_eq!(error.code, ErrorCode::ConnectionLost, "{error}");
    host.until("s", "it is restarted", |v| v.state == LifeState::Ready && v.pid != Some(pid)).await;
    host.end().await;
}
