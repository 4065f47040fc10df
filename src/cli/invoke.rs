//! Floor 5. One call on its way: sends it, shows progress on a terminal, asks the person
//! where policy wants one asked, and turns what comes back into an answer or a failure.
//! Used by `call` and the use verbs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::ask::{self, Reply};
use super::course::{self, Course};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{self, Far};
use super::labels;
use super::out::write_stderr;
use super::question::{Question, question};
use super::session::StatusLine;
use super::text;
use crate::actors::approvals::ListenerRef;
use crate::actors::frontend::CALL_EVENTS_MAX;
use crate::call::{
    CallError, CallEvent, CallLimits, CallReply, CallRequest, Delivery, Door, ErrorCode, ItemKind, Phase,
    Target,
};
use crate::id::{ServerId, SessionId, shell_word};
use crate::policy::approve::{Answer, Notice, Prompt};
use crate::runtime::Runtime;
use crate::time::{Monotonic, wall};

/// This process's own edge.
const OWN_SESSION: SessionId = SessionId(0);

/// After that long a call on a terminal shows that it is still running.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// What is called, and with what.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The server.
    pub server: ServerId,
    /// The kind of item.
    pub kind: ItemKind,
    /// Its raw name or URI.
    pub name: String,
    /// The value of `arguments`, for tools and prompts.
    pub arguments: Option<Box<RawValue>>,
    /// Longest duration in all.
    pub timeout: Option<Duration>,
}

impl Invocation {
    /// `params` of the request.
    fn params(&self) -> Bytes {
        let name = serde_json::Value::from(self.name.as_str());
        let Some(key) = self.kind.name_key() else { return Bytes::from_static(b"{}") };
        Bytes::from(match &self.arguments {
            Some(arguments) => format!("{{\"{key}\":{name},\"arguments\":{}}}", arguments.get()),
            None => format!("{{\"{key}\":{name}}}"),
        })
    }

    fn request(&self, runtime: &Runtime, session: SessionId) -> CallRequest {
        CallRequest {
            id: runtime.frontend().next_call_id(),
            session,
            target: Target::Direct { server: self.server.clone(), kind: self.kind, name: self.name.clone() },
            params: self.params(),
            limits: CallLimits { idle: None, total: self.timeout },
            grant: None,
        }
    }
}

/// A result, byte for byte.
#[derive(Debug)]
pub struct Outcome {
    /// The bytes of `result`.
    pub body: Bytes,
    /// The same as JSON.
    pub result: Box<RawValue>,
    /// From admission to the answer.
    pub elapsed: Duration,
}

/// Sends it and waits for its end. Where policy asks and a person is there, the person is asked
/// meanwhile. `course` is for whoever interrupts it.
pub async fn invoke(
    ctx: &Ctx,
    runtime: &Runtime,
    call: &Invocation,
    course: &Course,
) -> Result<Outcome, Failure> {
    let mut person = Person {
        ctx,
        runtime,
        call,
        ear: match &ctx.far {
            Some(far) => Ear::Far(far.clone()),
            // Whoever can't be asked does not listen: then what asks is refused at once.
            None if ctx.term.can_ask() && !ctx.global.json => Ear::Desk(runtime.approvals().listen()),
            None => Ear::Deaf,
        },
        refused: false,
        course,
    };
    let reply = send(ctx, runtime, call, course, &mut person).await;
    if person.refused {
        return Err(Failure::refused("not_approved", "not called: the answer was no")
            .on(call.server.as_str())
            .about(&call.name));
    }
    let reply = reply.map_err(|error| refused(ctx, far::unasked(ctx, error)))?;
    outcome(ctx, call, &reply)
}

/// How requests for approval come to whoever is asked.
enum Ear {
    /// Not at all.
    Deaf,
    /// From the desk of a runtime of this process's own.
    Desk(ListenerRef),
    /// From the host's desk, to the process that asked.
    Far(Arc<Far>),
}

/// One request, and where the host takes its answer.
struct Asked {
    prompt: Prompt,
    answer: Option<oneshot::Sender<Answer>>,
}

/// Whoever sits at the terminal.
struct Person<'a> {
    ctx: &'a Ctx,
    runtime: &'a Runtime,
    call: &'a Invocation,
    ear: Ear,
    /// The answer was no.
    refused: bool,
    course: &'a Course,
}

impl Person<'_> {
    /// The next request; never returns when nobody is there.
    async fn asked(&mut self) -> Asked {
        match &mut self.ear {
            Ear::Desk(listener) => loop {
                match listener.next().await {
                    Some(Notice::Asked(prompt)) => return Asked { prompt, answer: None },
                    Some(Notice::Settled(_)) => {}
                    None => break,
                }
            },
            Ear::Far(far) => {
                let request = far.visitor.asked().await;
                return Asked { prompt: request.prompt, answer: Some(request.answer) };
            }
            Ear::Deaf => {}
        }
        self.ear = Ear::Deaf;
        std::future::pending().await
    }

    /// Asks, and answers the request.
    async fn answer(&mut self, Asked { prompt, answer: to }: Asked) {
        // What is typed at a prompt is its own approval; what may never run was refused before.
        if self.ctx.house.is_some() && prompt.session == OWN_SESSION {
            match (&self.ear, to) {
                (_, Some(to)) => _ = to.send(Answer::Once),
                (Ear::Desk(listener), None) => listener.answer(prompt.id, Answer::Once),
                (Ear::Far(_) | Ear::Deaf, None) => {}
            }
            return;
        }
        self.course.holds(true);
        let question = || {
            let looks = second_looks(self.ctx, self.runtime, self.call);
            asked(self.ctx, &looks, &prompt, self.call)
        };
        let answer = match &self.ear {
            Ear::Far(far) => far.ask(question, prompt.can_keep).await,
            Ear::Desk(_) | Ear::Deaf => reply(&question(), prompt.can_keep).await,
        };
        self.refused = answer == Answer::Deny;
        self.course.holds(self.refused);
        match (&self.ear, to) {
            (_, Some(to)) => _ = to.send(answer),
            (Ear::Desk(listener), None) => listener.answer(prompt.id, answer),
            (Ear::Far(_) | Ear::Deaf, None) => {}
        }
    }
}

/// What the person says, who may look at everything first.
pub(super) async fn reply(asked: &Question, can_keep: bool) -> Answer {
    write_stderr(&asked.head);
    loop {
        match ask::approval(&asked.line, can_keep, asked.whole.is_some()).await {
            Reply::Answer(answer) => return answer,
            Reply::Show => write_stderr(asked.whole.as_deref().unwrap_or_default()),
        }
    }
}

/// What deserves a second look before this is called.
fn second_looks(ctx: &Ctx, runtime: &Runtime, call: &Invocation) -> Vec<String> {
    let catalog = far::catalog(ctx, runtime);
    let item = catalog.find(&call.server, call.kind, &call.name).filter(|_| call.kind == ItemKind::Tool);
    item.map(|item| labels::lines(ctx, &catalog, call.server.as_str(), item)).unwrap_or_default()
}

/// The question about the call that was typed: with all of its arguments, where a prompt has a gap.
fn asked(ctx: &Ctx, labels: &[String], prompt: &Prompt, call: &Invocation) -> Question {
    let server = ctx.clean(prompt.server.as_str());
    let arguments = ctx.clean(call.arguments.as_ref().map_or("{}", |arguments| arguments.get()));
    let asked = question(&server, &prompt.tool, &arguments, ctx.term.width_err);
    let looks: String = labels.iter().map(|line| format!("look twice: {line}\n")).collect();
    Question { head: looks + &asked.head, ..asked }
}

fn refused(ctx: &Ctx, error: CallError) -> Failure {
    let needs_person = error.code == ErrorCode::NeedsApproval;
    let mut failure = Failure::from(error);
    failure.message = ctx.clean(&failure.message);
    if needs_person && failure.fix.is_none() {
        failure.fix = Some("run it on a terminal, or approve it with -y".to_owned());
    }
    failure
}

async fn send(
    ctx: &Ctx,
    runtime: &Runtime,
    call: &Invocation,
    course: &Course,
    person: &mut Person<'_>,
) -> Result<CallReply, CallError> {
    let (events, seen) = mpsc::channel(CALL_EVENTS_MAX);
    course.begun(seen);
    let (frontend, session) =
        (runtime.frontend().through(Door::Cli), far::session(ctx).unwrap_or(OWN_SESSION));
    let frontend = far::bound(ctx, frontend);
    let running = frontend.call(call.request(runtime, session), Some(events));
    tokio::pin!(running);
    let shows = ctx.term.stderr && !ctx.global.json;
    let mut started = Monotonic::now();
    let mut line = StatusLine::new(ctx);
    let mut tick = tokio::time::interval_at((started + SHOW_AFTER).into_tokio(), SHOW_AFTER);
    let mut progress = String::new();
    loop {
        tokio::select! {
            biased;
            reply = &mut running => return reply,
            asked = person.asked() => {
                line.clear();
                tokio::select! {
                    biased;
                    // It expired, or somebody else answered.
                    reply = &mut running => return reply,
                    () = person.answer(asked) => {}
                }
                // The time that the tool takes begins now.
                started = Monotonic::now();
                tick.reset();
                continue;
            }
            Some(event) = course.next() => match event {
                CallEvent::Progress(params) => progress = ctx.clean_piece(&progress_text(&params)),
                CallEvent::Asked(asked) => {
                    line.clear();
                    tokio::select! {
                        biased;
                        reply = &mut running => return reply,
                        () = super::repl::asking::answer(ctx, asked) => {}
                    }
                    started = Monotonic::now();
                    tick.reset();
                    continue;
                }
                _ => {}
            },
            _ = tick.tick(), if shows => {}
        }
        let elapsed = Monotonic::now().since(started);
        if !shows || elapsed < SHOW_AFTER && progress.is_empty() {
            continue;
        }
        let name = ctx.clean(&call.name);
        let view = runtime.status().into_iter().find(|view| view.id == call.server && course.waits());
        line.show(&match view {
            Some(view) => {
                format!("{}: {}", running_text(&name, elapsed, ""), course::waits_for(&view, wall()))
            }
            None => running_text(&name, elapsed, &progress),
        });
    }
}

fn running_text(name: &str, elapsed: Duration, progress: &str) -> String {
    let gap = if progress.is_empty() { "" } else { ": " };
    match elapsed.as_secs() {
        0 => format!("{name}{gap}{progress}"),
        seconds => format!("{name}, {}{gap}{progress}", text::span(Duration::from_secs(seconds))),
    }
}

#[derive(Deserialize)]
struct Progress {
    progress: Option<f64>,
    total: Option<f64>,
    message: Option<String>,
}

/// A progress notification in a few words.
fn progress_text(params: &[u8]) -> String {
    let Ok(seen) = serde_json::from_slice::<Progress>(params) else { return String::new() };
    let amount = match (seen.progress, seen.total) {
        (Some(done), Some(total)) if total > 0.0 => {
            format!("{:.0} %", (done / total * 100.0).clamp(0.0, 100.0))
        }
        (Some(done), _) => format!("{done}"),
        _ => String::new(),
    };
    let message = seen.message.unwrap_or_default();
    let gap = if amount.is_empty() || message.is_empty() { "" } else { " " };
    format!("{amount}{gap}{message}")
}

#[derive(Deserialize)]
struct RpcError {
    code: Option<i64>,
    message: Option<String>,
}

fn outcome(ctx: &Ctx, call: &Invocation, reply: &CallReply) -> Result<Outcome, Failure> {
    let body = reply.body();
    let raw = std::str::from_utf8(&body).ok().and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let Some(raw) = raw else {
        let mut failure =
            Failure::new("malformed_answer", Exit::OutcomeUnknown, "the answer is not valid JSON")
                .on(call.server.as_str())
                .about(&call.name);
        failure.phase = Some(Phase::Await);
        failure.delivery = Some(Delivery::Executed);
        return Err(failure);
    };
    if !reply.is_error {
        return Ok(Outcome { body, result: raw, elapsed: reply.elapsed });
    }
    let error = serde_json::from_str(raw.get()).unwrap_or(RpcError { code: None, message: None });
    Err(server_error(ctx, call, error, raw))
}

/// The server answered with a JSON-RPC error: it has seen the call.
fn server_error(ctx: &Ctx, call: &Invocation, error: RpcError, raw: Box<RawValue>) -> Failure {
    let number = error.code.map(|code| format!(" {code}")).unwrap_or_default();
    // Many servers put the number into the words once more.
    let again = format!("MCP error{number}: ");
    let words = error.message.map(|m| ctx.clean(&m)).filter(|m| !m.trim().is_empty());
    let words = words.map(|m| m.strip_prefix(&again).map_or(m.clone(), str::to_owned));
    let words = words.unwrap_or_else(|| "without saying why".to_owned());
    let message = format!("{} answered with error{number}: {words}", call.server);
    let mut failure =
        Failure::new("server_error", Exit::Unhealthy, message).on(call.server.as_str()).about(&call.name);
    failure.phase = Some(Phase::Await);
    failure.delivery = Some(Delivery::Executed);
    failure.rpc_error = Some(raw);
    if matches!(error.code, Some(-32602 | -32002)) {
        let (server, name) = (shell_word(call.server.as_str()), shell_word(&call.name));
        failure.fix = Some(match call.kind {
            ItemKind::Tool => format!("callboard mcp call {server} {name} --help"),
            ItemKind::Prompt => format!("`callboard mcp prompts {server}` shows what each takes"),
            ItemKind::Resource | ItemKind::Method => {
                format!("`callboard mcp resources {server}` lists what there is")
            }
        });
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Origin;
    use crate::id::Generation;

    fn call(name: &str, arguments: Option<&str>) -> Invocation {
        Invocation {
            server: ServerId::new("s"),
            kind: ItemKind::Tool,
            name: name.into(),
            arguments: arguments.map(|text| RawValue::from_string(text.into()).unwrap()),
            timeout: None,
        }
    }

    #[test]
    fn arguments_go_into_the_request_byte_for_byte() {
        let params = call("a\"b", Some(r#"{"n":1.00,"s":"\u00e9"}"#)).params();
        assert_eq!(params, r#"{"name":"a\"b","arguments":{"n":1.00,"s":"\u00e9"}}"#);
        let read = Invocation { kind: ItemKind::Resource, ..call("file:///x", None) };
        assert_eq!(read.params(), r#"{"uri":"file:///x"}"#);
    }

    fn reply(body: &str, is_error: bool) -> CallReply {
        let frame = Bytes::copy_from_slice(body.as_bytes());
        CallReply {
            era: crate::wire::era::Era::Legacy,
            body: 0..frame.len(),
            id: 0..0,
            frame,
            is_error,
            server: ServerId::new("s"),
            generation: Generation(1),
            elapsed: Duration::from_millis(5),
        }
    }

    #[test]
    fn an_answer_is_a_result_an_error_of_the_server_or_a_broken_one() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let asked = call("t", Some("{}"));
        let good = outcome(&ctx, &asked, &reply(r#"{"n":1.0}"#, false)).unwrap();
        assert_eq!(good.result.get(), r#"{"n":1.0}"#);

        let body = r#"{"code":-32602,"message":"no\u001b[2J such path","data":{"n":1.0}}"#;
        let failure = outcome(&ctx, &asked, &reply(body, true)).unwrap_err();
        assert_eq!((failure.code.as_ref(), failure.exit), ("server_error", Exit::Unhealthy));
        assert_eq!(failure.message, "s answered with error -32602: no such path");
        assert_eq!(failure.rpc_error.unwrap().get(), body, "scripts get it as sent");
        assert_eq!(failure.fix.as_deref(), Some("callboard mcp call s t --help"));

        let twice = r#"{"code":-32602,"message":"MCP error -32602: no such city"}"#;
        for (kind, cure) in [(ItemKind::Prompt, "mcp prompts s"), (ItemKind::Resource, "mcp resources s")] {
            let failure =
                outcome(&ctx, &Invocation { kind, ..asked.clone() }, &reply(twice, true)).unwrap_err();
            assert_eq!(failure.message, "s answered with error -32602: no such city");
            assert!(failure.fix.as_ref().is_some_and(|fix| fix.contains(cure)), "{failure:?}");
        }

        let silent = outcome(&ctx, &asked, &reply("{}", true)).unwrap_err();
        assert_eq!(silent.message, "s answered with error: without saying why");

        let broken = outcome(&ctx, &asked, &reply("{", false)).unwrap_err();
        assert_eq!((broken.code.as_ref(), broken.exit), ("malformed_answer", Exit::OutcomeUnknown));
    }

    #[test]
    fn a_question_shows_server_tool_and_arguments_and_nothing_that_steers() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let prompt = Prompt {
            id: crate::policy::approve::RequestId(1),
            session: OWN_SESSION,
            server: ServerId::new("s\u{1b}[2J"),
            tool: "t".into(),
            arguments: "{\"a\":1}".into(),
            rule: "mode readonly".into(),
            can_keep: true,
            expires_in: Duration::from_secs(1),
        };
        let asked = asked(&ctx, &[], &prompt, &call("t", Some(r#"{"a":1}"#)));
        assert_eq!(asked.head, "Call t of s with\n  {\"a\":1}\n");
        assert_eq!(asked.line, "Call t of s?");
    }

    #[test]
    fn whoever_is_refused_for_want_of_a_person_is_told_how_to_be_one() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let error = CallError::refused(ErrorCode::NeedsApproval, Phase::Policy, Origin::Config, "asks");
        let failure = refused(&ctx, error);
        assert_eq!(failure.exit, Exit::Refused);
        assert!(failure.fix.unwrap().contains("-y"));
    }

    #[test]
    fn progress_is_told_in_few_words() {
        assert_eq!(progress_text(br#"{"progress":3,"total":10,"message":"copying"}"#), "30 % copying");
        assert_eq!(progress_text(br#"{"progress":3}"#), "3");
        assert_eq!(progress_text(br#"{"message":"x"}"#), "x");
        assert_eq!(progress_text(br#"{"progress":30,"total":10}"#), "100 %");
        assert_eq!(progress_text(br#"{"progress":3,"total":0}"#), "3");
        assert_eq!(progress_text(b"nonsense"), "");
    }

    #[test]
    fn a_running_call_says_how_long() {
        assert_eq!(running_text("t", Duration::from_millis(3900), ""), "t, 3 s");
        assert_eq!(running_text("t", Duration::from_secs(90), "50 %"), "t, 1m 30s: 50 %");
        assert_eq!(running_text("t", Duration::from_millis(10), "50 %"), "t: 50 %");
    }
}
