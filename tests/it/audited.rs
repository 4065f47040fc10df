//! What the audit log has of calls that a person was asked about: who said what, by which rule, and
//! one line for each that did not run.

use std::path::Path;

use callboard::actors::approvals::{ListenerRef, RulePlace};
use callboard::audit::file::Place;
use callboard::call::{CallError, CallReply};
use callboard::config::spec::ServerSpec;
use callboard::id::SessionId;
use callboard::policy::approve::{Answer, Notice, Prompt};
use callboard::runtime::{AuditPlan, Runtime};
use serde_json::{Value, json};

use crate::support::{Fleet, Wire, good, idle, method_of, request, spec};

const FILE_MAX: u64 = 1 << 20;

async fn audited(home: &Path) -> Runtime {
    let script = |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(message, r#"{"content":[]}"#);
        }
    };
    let asking = ServerSpec { allow_all_tools: false, ..spec("s") };
    let plan = AuditPlan { place: Ok(Place::below(home, FILE_MAX)), strict: true };
    let rules = RulePlace { home: home.to_path_buf(), root: "/p".into(), servers: Default::default() };
    let fleet = Fleet::default().with(asking, script).plan(|to| {
        to.audit = Some(plan);
        to.gate.place = Some(rules);
    });
    fleet.ready().await
}

fn call(runtime: &Runtime) -> impl Future<Output = Result<CallReply, CallError>> + Send + use<> {
    let mut request = request("s", "echo", "{}");
    request.session = SessionId(7);
    runtime.frontend().call(request, None)
}

async fn asked(listener: &mut ListenerRef) -> Prompt {
    loop {
        match listener.next().await {
            Some(Notice::Asked(prompt)) => return prompt,
            Some(Notice::Settled(_)) => {}
            None => panic!("the desk is gone"),
        }
    }
}

/// The lines of the log, once the runtime has ended.
async fn lines(runtime: Runtime, home: &Path) -> Vec<Value> {
    runtime.shutdown().await;
    let text = std::fs::read_to_string(Place::below(home, FILE_MAX).log()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The named fields of a line.
fn of<const N: usize>(line: &Value, fields: [&str; N]) -> Value {
    fields.iter().map(|field| line[*field].clone()).collect::<Vec<_>>().into()
}

async fn said(runtime: &Runtime, listener: &mut ListenerRef, answer: Answer) -> bool {
    let running = tokio::spawn(call(runtime));
    let prompt = asked(listener).await;
    listener.answer(prompt.id, answer);
    running.await.unwrap().is_ok()
}

#[tokio::test]
async fn a_yes_is_a_line_before_its_call_and_a_no_is_the_only_one_of_its_call() {
    let home = tempfile::tempdir().unwrap();
    let runtime = audited(home.path()).await;
    let mut listener = runtime.approvals().listen();
    assert!(said(&runtime, &mut listener, Answer::Once).await);
    assert!(!said(&runtime, &mut listener, Answer::Deny).await);
    let item = runtime.catalog().find(&"s".into(), callboard::call::ItemKind::Tool, "echo").cloned().unwrap();
    let lines = lines(runtime, home.path()).await;
    let told: Vec<Value> =
        lines.iter().map(|line| of(line, ["event", "decision", "decided_by", "answer", "outcome"])).collect();
    let expected = [
        json!(["approval.given", "run", "mode readonly", "once", null]),
        json!(["started", "run", "granted", null, null]),
        json!(["finished", null, null, null, "ok"]),
        json!(["approval.denied", "ask", "mode readonly", "no", "refused"]),
    ];
    assert_eq!(told, expected);
    let pin = json!(item.pinned_by().to_string());
    for line in [&lines[0], &lines[1], &lines[3]] {
        assert_eq!(of(line, ["session", "server", "tool", "pin"]), json!([7, "s", "echo", pin]));
    }
    assert_eq!(lines[0]["call_id"], lines[1]["call_id"]);
    assert!(lines[0]["listener"].is_u64() && lines[0]["listener"] == lines[3]["listener"]);
    assert!(lines[3]["reason"].as_str().unwrap().contains("the answer was no"), "{}", lines[3]);
}

#[tokio::test]
async fn what_nobody_said_a_word_about_is_one_line_with_its_rule_and_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let runtime = audited(home.path()).await;
    call(&runtime).await.expect_err("nobody listens");
    let mut listener = runtime.approvals().listen();
    let running = tokio::spawn(call(&runtime));
    asked(&mut listener).await;
    running.abort();
    assert!(matches!(listener.next().await, Some(Notice::Settled(_))), "the caller has left");
    let running = tokio::spawn(call(&runtime));
    asked(&mut listener).await;
    drop(listener);
    running.await.unwrap().expect_err("whoever was asked has left");
    let lines = lines(runtime, home.path()).await;
    let told: Vec<Value> = lines
        .iter()
        .map(|line| of(line, ["event", "decision", "decided_by", "error_type", "answer"]))
        .collect();
    let line = |code: &str| json!(["refused", "ask", "mode readonly", code, null]);
    assert_eq!(told, [line("needs_approval"), line("cancelled"), line("needs_approval")]);
    for (line, why) in lines.iter().zip(["nobody was there", "the caller left", "went away"]) {
        assert!(line["reason"].as_str().unwrap().contains(why), "{line}");
    }
}

#[tokio::test]
async fn an_answer_for_more_than_one_call_is_one_line_and_a_rule_that_comes_of_it_another() {
    let home = tempfile::tempdir().unwrap();
    let runtime = audited(home.path()).await;
    let mut listener = runtime.approvals().listen();
    assert!(said(&runtime, &mut listener, Answer::Always).await);
    drop(listener);
    // The rule is written aside; from then on nobody has to say anything.
    while call(&runtime).await.is_err() {
        idle().await;
    }
    let lines = lines(runtime, home.path()).await;
    let of_event = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let (given, made) = (of_event("approval.given"), of_event("rule.allowed"));
    assert_eq!((given.len(), made.len()), (1, 1), "{lines:?}");
    assert_eq!(of(given[0], ["answer", "tool"]), json!(["always", "echo"]));
    assert_eq!(of(made[0], ["server", "tool", "session"]), json!(["s", "echo", 7]));
    let last = of_event("started").pop().unwrap();
    assert_eq!(last["decided_by"], "allow s/echo");
}

#[tokio::test]
async fn an_end_is_written_before_what_began_after_it_and_without_it_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let runtime = audited(home.path()).await;
    let mut listener = runtime.approvals().listen();
    let log = Place::below(home.path(), FILE_MAX).log();
    let ends = || std::fs::read_to_string(&log).unwrap_or_default().matches("\"event\":\"finished\"").count();
    for _ in 0..3 {
        assert!(said(&runtime, &mut listener, Answer::Once).await);
    }
    while ends() < 3 {
        idle().await;
    }
    let lines = lines(runtime, home.path()).await;
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["approval.given", "started", "finished"].repeat(3));
}
