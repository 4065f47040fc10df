//! Turns of the agent: a model that follows a script, servers in process, the real runtime between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard::agent::chat::Message;
use callboard::agent::engine::{Agent, Ask, EngineSettings, Nobody, Plan, Stopper, TOLD_MAX, Told};
use callboard::agent::log::Log;
use callboard::agent::model::scripted::{Scripted, calls, says};
use callboard::agent::turn::{Conversation, End, fold};
use callboard::config::host::HostSettings;
use callboard::config::model::Exposure;
use callboard::config::spec::ServerSpec;
use callboard::policy::approve::{Answer, Prompt};
use callboard::runtime::Runtime;
use callboard::telemetry::Redaction;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::support::{Fleet, Tape, Wire, good, method_of, spec};

/// What one turn came to.
struct Ran {
    end: End,
    told: Vec<Told>,
}

fn agent(runtime: Runtime, model: &Arc<Scripted>, change: impl FnOnce(&mut Plan)) -> Agent {
    let mut plan = Plan {
        runtime: Arc::new(runtime),
        model: model.clone(),
        settings: EngineSettings::of(&HostSettings::default()),
        redaction: Redaction::default(),
        home: None,
        log: None,
        entries: Vec::new(),
        notes: None,
        may: Arc::new(|_, _| true),
    };
    plan.settings.exposure = Exposure::Direct;
    change(&mut plan);
    Agent::new(plan)
}

async fn turn(agent: &mut Agent, text: &str, ask: Arc<dyn Ask>) -> Ran {
    stopped_at(agent, text, ask, |_| false).await
}

/// A turn that is stopped as soon as something is told.
async fn stopped_at(agent: &mut Agent, text: &str, ask: Arc<dyn Ask>, stops: impl Fn(&Told) -> bool) -> Ran {
    let (tell, mut heard) = mpsc::channel(TOLD_MAX);
    let stopper = Stopper::default();
    let mut told = Vec::new();
    let running = agent.turn(text.to_owned(), Vec::new(), ask, (tell, stopper.clone()));
    tokio::pin!(running);
    let end = loop {
        tokio::select! {
            biased;
            Some(one) = heard.recv() => {
                if stops(&one) {
                    stopper.stop();
                }
                told.push(one);
            }
            end = &mut running => break end,
        }
    };
    while let Ok(one) = heard.try_recv() {
        told.push(one);
    }
    Ran { end, told }
}

fn nobody() -> Arc<dyn Ask> {
    Arc::new(Nobody)
}

/// The results of the last request that the model got.
fn results(model: &Scripted) -> Vec<(String, bool)> {
    let asked = model.asked();
    let chat = asked.last().expect("the model was asked");
    assert_eq!(fold::fault(&chat.messages), None);
    let last = chat.messages.iter().rev().find_map(|message| match message {
        Message::Results(results) => Some(results.iter().map(|one| (one.text(true), one.is_error)).collect()),
        _ => None,
    });
    last.expect("results came back")
}

/// A sound server that answers each call with this text.
fn telling(text: &'static str) -> impl Fn(&Value, &Wire) + Send + Sync + 'static {
    move |message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            wire.result(
                message,
                &serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string(),
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_answer_run_at_several_servers_at_once() {
    // The first server answers only when the second one was called too.
    let held: Arc<Mutex<Option<(Value, Wire)>>> = Arc::default();
    let (first, second) = (held.clone(), held);
    let text = |text: &str| serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
    let runtime = Fleet::default()
        .with(spec("a"), move |message: &Value, wire: &Wire| {
            if !good(message, wire) && method_of(message) == "tools/call" {
                *first.lock().unwrap() = Some((message.clone(), wire.clone()));
            }
        })
        .with(spec("b"), move |message: &Value, wire: &Wire| {
            if !good(message, wire) && method_of(message) == "tools/call" {
                let (asked, to) = second.lock().unwrap().take().expect("the other call came first");
                to.result(&asked, &text("from a"));
                wire.result(message, &text("from b"));
            }
        })
        .ready()
        .await;
    let both = calls(&[("1", "mcp__a__echo", "{}"), ("2", "mcp__b__echo", "{\"n\":1.00}")]);
    let model = Arc::new(Scripted::new([both, says("done")]));
    let mut agent = agent(runtime, &model, |_| {});
    let ran = turn(&mut agent, "go", nobody()).await;
    assert_eq!(ran.end, End::Done);
    let results = results(&model);
    assert!(results[0].0.contains("from a") && results[1].0.contains("from b"), "{results:?}");
    assert!(
        results
            .iter()
            .all(|(text, is_error)| text.starts_with("<<<EXTERNAL_UNTRUSTED_CONTENT>>>") && !is_error)
    );
    assert_eq!(agent.conversation().last_words(), Some("done"));
    let began = ran.told.iter().filter(|told| matches!(told, Told::Began { .. })).count();
    assert_eq!(began, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_turn_within_half_a_second_and_the_server_is_told_once() {
    let tape = Tape::default();
    let silent = tape.of(|message: &Value, wire: &Wire| {
        if !good(message, wire) && method_of(message) == "tools/call" {
            let token = &message["params"]["_meta"]["progressToken"];
            let params =
                serde_json::json!({"progressToken": token, "progress": 1, "total": 2, "message": "half"});
            let note =
                serde_json::json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            wire.line(note.to_string());
        }
    });
    let runtime = Fleet::default().with(spec("s"), silent).ready().await;
    let model = Arc::new(Scripted::new([calls(&[("1", "mcp__s__echo", "{}")]), says("after")]));
    let mut agent = agent(runtime, &model, |_| {});
    let begun = tokio::time::Instant::now();
    let ran = stopped_at(
        &mut agent,
        "go",
        nobody(),
        |told| matches!(told, Told::Progress { text, .. } if text == "50 % half"),
    )
    .await;
    assert_eq!(ran.end, End::Cancelled);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    crate::support::idle().await;
    assert_eq!((tape.received("tools/call").len(), tape.received("notifications/cancelled").len()), (1, 1));
    let ran = turn(&mut agent, "and now?", nobody()).await;
    assert_eq!(ran.end, End::Done);
    assert!(results(&model)[0].0.contains("cancelled by the user"));
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_a_wrong_name_and_wrong_arguments_are_results_and_the_turn_goes_on() {
    let tape = Tape::default();
    let script = tape.of(|message: &Value, wire: &Wire| match method_of(message) {
        "tools/list" => wire.result(
            message,
            r#"{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}"#,
        ),
        "tools/call" => wire.hang_up(),
        _ => {
            let _ = good(message, wire);
        }
    });
    let runtime = Fleet::default().with(spec("s"), script).ready().await;
    let wanted = [
        ("1", "mcp__s__echo", "{\"n\":1}"),
        ("2", "mcp__s__ehco", "{}"),
        ("3", "mcp__s__echo", "{\"n\":\"x\"}"),
        ("4", "mcp__s__echo", "{broken"),
    ];
    let model = Arc::new(Scripted::new([calls(&wanted), says("sorry")]));
    let mut agent = agent(runtime, &model, |_| {});
    assert_eq!(turn(&mut agent, "go", nobody()).await.end, End::Done);
    let results = results(&model);
    assert!(results.iter().all(|(_, is_error)| *is_error), "{results:?}");
    assert!(results[0].0.contains("whether it ran is not known"), "{}", results[0].0);
    assert!(results[1].0.contains("did you mean mcp__s__echo"), "{}", results[1].0);
    assert!(
        results[2].0.contains("invalid_arguments") && results[2].0.contains("it was not sent"),
        "{}",
        results[2].0
    );
    assert!(results[3].0.contains("no JSON object"), "{}", results[3].0);
    assert_eq!(tape.received("tools/call").len(), 1);
}

/// Somebody who answers so, and keeps what was asked.
struct Person(Answer, Mutex<Vec<Prompt>>);

impl Ask for Person {
    fn is_there(&self) -> bool {
        true
    }

    fn approve(&self, prompt: Prompt) -> BoxFuture<'static, Answer> {
        self.1.lock().unwrap().push(prompt);
        std::future::ready(self.0).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn what_asks_is_asked_of_the_person_and_refused_where_nobody_is() {
    for (answer, runs) in [(Some(Answer::Once), true), (Some(Answer::Deny), false), (None, false)] {
        let tape = Tape::default();
        let asks = ServerSpec { allow_all_tools: false, ..spec("s") };
        let runtime = Fleet::default().with(asks, tape.of(telling("done"))).ready().await;
        let model = Arc::new(Scripted::new([calls(&[("1", "mcp__s__echo", "{\"n\":1}")]), says("x")]));
        let mut agent = agent(runtime, &model, |_| {});
        let person = answer.map(|answer| Arc::new(Person(answer, Mutex::default())));
        let ask: Arc<dyn Ask> = person.clone().map_or_else(nobody, |person| person as Arc<dyn Ask>);
        assert_eq!(turn(&mut agent, "go", ask).await.end, End::Done);
        assert_eq!(tape.received("tools/call").len(), usize::from(runs), "{answer:?}");
        assert_eq!(results(&model)[0].1, !runs);
        if let Some(person) = person {
            let asked = person.1.lock().unwrap();
            assert!(asked.len() == 1 && asked[0].arguments.contains("\"n\":1"), "{asked:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_cut_can_be_read_on_in_every_exposure() {
    let long: &'static str = Box::leak(format!("{}THE END", "line of text\n".repeat(400)).into_boxed_str());
    let home = tempfile::tempdir().unwrap();
    let page = "{\"id\":1,\"offset\":5000}";
    let through = format!("{{\"server\":\"callboard\",\"name\":\"mcp_read_output\",\"arguments\":{page}}}");
    for (exposure, first, second) in [
        (Exposure::Direct, ("mcp__s__echo", "{}"), ("mcp_read_output", page)),
        (
            Exposure::Search,
            ("mcp_call_tool", "{\"server\":\"s\",\"name\":\"echo\"}"),
            ("mcp_read_output", page),
        ),
        (
            Exposure::Bridge,
            ("mcp_call_tool", "{\"server\":\"s\",\"tool\":\"echo\",\"args\":{}}"),
            ("mcp_call_tool", &*through),
        ),
    ] {
        let runtime = Fleet::default().with(spec("s"), telling(long)).ready().await;
        let answers = [calls(&[("1", first.0, first.1)]), calls(&[("2", second.0, second.1)]), says("x")];
        let model = Arc::new(Scripted::new(answers));
        let mut agent = agent(runtime, &model, |plan| {
            plan.home = Some(home.path().to_path_buf());
            plan.settings.exposure = exposure;
            plan.settings.result_max = 2000;
        });
        assert_eq!(turn(&mut agent, "go", nobody()).await.end, End::Done, "{exposure:?}");
        let (text, is_error) = results(&model).pop().unwrap();
        assert!(text.contains("THE END") && !is_error, "{exposure:?}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_bridge_lists_what_there_is_inside_a_fence() {
    let runtime = Fleet::default().with(spec("s"), telling("x")).ready().await;
    let wanted = [
        ("1", "mcp_list_servers", ""),
        ("2", "mcp_list_tools", "{\"server\":\"s\"}"),
        ("3", "mcp_list_tools", "{\"server\":\"gone\"}"),
    ];
    let model = Arc::new(Scripted::new([calls(&wanted), says("x")]));
    let mut agent = agent(runtime, &model, |plan| plan.settings.exposure = Exposure::Bridge);
    turn(&mut agent, "go", nobody()).await;
    let asked = model.asked();
    assert_eq!(asked[0].tools.len(), 7);
    let results = results(&model);
    assert!(
        results[0].0.contains("\"state\":\"ready\"") && results[1].0.contains("\"name\":\"echo\""),
        "{results:?}"
    );
    assert!(results[1].0.starts_with("<<<EXTERNAL_UNTRUSTED_CONTENT>>>"));
    assert!(results[2].1 && results[2].0.contains("there is no server gone"));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_taken_up_again_where_it_was_left() {
    let home = tempfile::tempdir().unwrap();
    let log = Log::create(home.path(), Redaction::default()).unwrap();
    let id = log.id().to_owned();
    let runtime = Fleet::default().with(spec("s"), telling("found")).ready().await;
    let model = Arc::new(Scripted::new([calls(&[("1", "mcp__s__echo", "{}")]), says("first")]));
    let mut first = agent(runtime, &model, |plan| plan.log = Some(log));
    turn(&mut first, "one", nobody()).await;
    let before = first.conversation().messages();
    drop(first);

    let (log, read) = Log::resume(home.path(), &id, Redaction::default()).unwrap();
    assert_eq!(Conversation::of(&read.entries).messages(), before);
    let runtime = Fleet::default().with(spec("s"), telling("found")).ready().await;
    // An endpoint that counts its ids from one again.
    let model = Arc::new(Scripted::new([calls(&[("1", "mcp__s__echo", "{}")]), says("second")]));
    let mut again = agent(runtime, &model, |plan| {
        plan.log = Some(log);
        plan.entries = read.entries;
    });
    assert_eq!(turn(&mut again, "two", nobody()).await.end, End::Done);
    let asked = model.asked();
    assert_eq!(asked[0].messages[..before.len()], before[..]);
    assert_eq!(fold::fault(&asked[1].messages), None);
    assert!(!results(&model)[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_outgrows_the_window_is_shortened_and_that_is_told() {
    let long: &'static str = Box::leak("word ".repeat(2000).into_boxed_str());
    let runtime = Fleet::default().with(spec("s"), telling(long)).ready().await;
    let mut script = Vec::new();
    for n in 0..6 {
        let id = format!("c{n}");
        script.push(calls(&[(id.as_str(), "mcp__s__echo", "{}")]));
        script.push(says("so"));
    }
    let scripted = Scripted::new(script).known_as(|about| about.window = Some(12_000));
    let model = Arc::new(scripted);
    let mut agent = agent(runtime, &model, |_| {});
    let mut told = Vec::new();
    for n in 0..6 {
        told.extend(turn(&mut agent, &format!("question {n}"), nobody()).await.told);
    }
    let made = told
        .iter()
        .filter(|told| matches!(told, Told::MadeRoom { before, after, .. } if after < before))
        .count();
    assert!(made > 0, "{told:?}");
    for chat in model.asked() {
        assert_eq!(fold::fault(&chat.messages), None);
    }
}
