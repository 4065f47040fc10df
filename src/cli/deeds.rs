//! Floor 5. The verbs that act on a running host, done by that host: what comes of a command, ready to be
//! shown by the process that asked. Called by `host_process`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::args::Global;
use super::call;
use super::course::{Course, Known};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{Far, NOT_HERE, Use, Work, are_here, ms};
use super::look;
use super::out::{Answer, Terminal};
use super::perform::{perform, sent};
use super::status;
use super::status_view::is_expected;
use super::tail::{self, Tail};
use super::why;
use crate::config::host::ColorChoice;
use crate::config::load::{LoadOptions, Loaded};
use crate::id::{Generation, ServerId};
use crate::runtime::Runtime;
use crate::serve::Host;
use crate::serve::share::{Command, Deed, Failing, Hold, Keeper, Lent, Reply, Same, Scene, Screen, Wanted};
use crate::serve::talk::Talk;
use crate::telemetry::Redaction;
use crate::view::ServerView;

/// Shape of the answers of all verbs but `status`.
pub const SCHEMA: &str = "callboard.host/1";
/// How long `start`, `restart` and the like look how it went.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// How long `wait` waits, when it is not said.
const WAIT_DEFAULT: Duration = Duration::from_secs(120);

/// What a verb works with, for the configuration and the screen of who asked.
pub fn ctx(options: LoadOptions, loaded: Loaded, redaction: Redaction, screen: Screen) -> Ctx {
    let color = if screen.color { ColorChoice::Always } else { ColorChoice::Never };
    let term = Terminal {
        stdin: screen.asks,
        stdout: screen.width.is_some(),
        stderr: screen.width_err.is_some(),
        color,
        width: screen.width.unwrap_or(80),
        height: 24,
        width_err: screen.width_err.unwrap_or(80),
    };
    let (global, argv) = (Global { json: screen.json, ..Global::default() }, Vec::new());
    Ctx { global, term, argv, options, loaded, once: None, guard: None, redaction, far: None, house: None }
}

/// Does what is asked by somebody who wants these entries.
pub async fn act(
    keeper: &Arc<Keeper>,
    wanted: &[Wanted<Same>],
    ctx: Ctx,
    command: &Command,
    talk: Talk,
) -> Reply {
    if command.verb == "use" {
        let outcome = using(keeper, wanted, ctx, command, talk).await;
        let refused = || Reply::refused(NOT_HERE, "the running host has not these entries");
        return outcome.map_or_else(refused, did);
    }
    let scene = keeper.scene(wanted).await;
    let streamed = match (command.verb.as_str(), &scene) {
        ("watch" | "follow", None) => None,
        ("watch", Some(scene)) => watch(scene.clone(), &ctx, command, &talk).await,
        ("follow", Some(scene)) => follow(scene.clone(), &ctx, command, &talk).await,
        _ => return did(deed(keeper, scene, &ctx, command).await),
    };
    streamed.map_or_else(|| Reply::refused(NOT_HERE, "the running host has no client yet"), did)
}

fn did(outcome: Result<Answer, Failure>) -> Reply {
    Reply::Did(match outcome {
        Ok(answer) => Deed {
            exit: answer.exit.code(),
            data: answer.data,
            human: answer.human,
            warnings: answer.warnings,
            failure: None,
        },
        Err(failure) => Deed {
            exit: failure.exit.code(),
            data: RawValue::NULL.to_owned(),
            human: String::new(),
            warnings: failure.warnings,
            failure: Some(Failing {
                code: failure.code.into_owned(),
                message: failure.message,
                detail: failure.detail,
                fix: failure.fix,
                server: failure.server,
                tool: failure.tool,
                phase: failure.phase,
                delivery: failure.delivery,
                retry_after_ms: ms(failure.retry_after),
                rpc_error: failure.rpc_error,
            }),
        },
    })
}

/// Uses servers for the process that asked; `None` when they are not among those that run here.
async fn using(
    keeper: &Arc<Keeper>,
    entries: &[Wanted<Same>],
    ctx: Ctx,
    command: &Command,
    talk: Talk,
) -> Option<Result<Answer, Failure>> {
    let mut wanted: Use = serde_json::from_str(command.args.as_ref()?.get()).ok()?;
    if keeper.is_off().await {
        return Some(Err(off()));
    }
    let names = are_here(&ctx, &wanted.entries)?;
    let meant: Vec<_> = entries.iter().filter(|one| names.contains(&one.name)).cloned().collect();
    let Lent { host, servers } =
        keeper.lent(&meant).await.filter(|lent| lent.servers.len() == names.len())?;
    wanted.work.lead(|name| servers.get(name).map(|(id, _)| id.clone()));
    let given = matches!(wanted.work, Work::Perform { given: true, .. });
    let visitor = host.visit(command.screen.asks || given);
    let servers = servers.into_values().collect();
    let far = Arc::new(Far { talk, visitor, given, servers });
    let ctx = Ctx { far: Some(far.clone()), ..ctx };
    let course = Course::default();
    let named = |failure: Failure| match &wanted.work {
        Work::Perform { wanted, .. } => failure.of_call(wanted.server.as_str(), &wanted.name, course.known()),
        Work::Why { server, tool: Some(tool), .. } => failure.on(server.as_str()).about(tool),
        Work::Why { server, tool: None, .. } | Work::Help { server, .. } => failure.on(server.as_str()),
        Work::Look { .. } => failure,
    };
    let outcome = tokio::select! {
        biased;
        () = far.talk.given_up() => Err(Failure::interrupted()),
        () = far.visitor.over() => Err(ends(&course)),
        outcome = work(&ctx, &host, &wanted.work, &course) => outcome,
    };
    Some(outcome.map_err(named))
}

async fn work(ctx: &Ctx, host: &Host, work: &Work, course: &Course) -> Result<Answer, Failure> {
    let runtime = host.borrow().await.ok_or_else(|| ends(course))?;
    let within = |ms: &Option<u64>| ms.map(Duration::from_millis);
    match work {
        Work::Look { what, server, within_ms } => {
            look::look(ctx, &runtime, *what, server.as_ref(), within(within_ms)).await
        }
        Work::Why { server, tool, within_ms } => {
            why::look(ctx, &runtime, server, tool.as_deref(), within(within_ms)).await
        }
        Work::Help { server, tool, within_ms } => {
            call::help_of(ctx, &runtime, server, tool, within(within_ms)).await
        }
        Work::Perform { wanted, .. } => sent(perform(ctx, &runtime, wanted, course).await?),
    }
}

/// Sends every change until the process that asked gives up, or the host ends.
async fn watch(scene: Scene, ctx: &Ctx, command: &Command, talk: &Talk) -> Option<Result<Answer, Failure>> {
    let wanted = match meant(&scene, &command.servers) {
        Ok(wanted) => wanted,
        Err(failure) => return Some(Err(failure)),
    };
    let host = &scene.host;
    let watch = host.borrow().await?.watch(&wanted);
    let visitor = host.visit(false);
    tokio::select! {
        biased;
        () = talk.given_up() => Some(Err(Failure::interrupted())),
        () = visitor.over() => Some(Err(ends(&Course::default()))),
        () = status::send(ctx, status::Watching::new(watch), talk) => None,
    }
}

/// Why nothing can be used while everything is off.
fn off() -> Failure {
    Failure::refused("disabled", "all servers are turned off in the running host").fix("callboard mcp on")
}

/// Why nothing more can be done: the host is on its way out.
fn ends(course: &Course) -> Failure {
    let (exit, fix) = match course.known() {
        Known::NotSent | Known::PutOff => (Exit::Unavailable, "try again: the next command needs no host"),
        Known::Sent => (Exit::OutcomeUnknown, "look whether it was done before you try again"),
    };
    Failure::new("host_gone", exit, "the running host ended meanwhile").fix(fix)
}

async fn deed(
    keeper: &Arc<Keeper>,
    scene: Option<Scene>,
    ctx: &Ctx,
    command: &Command,
) -> Result<Answer, Failure> {
    let Some(scene) = scene else {
        return Err(Failure::new(
            "needs_host",
            Exit::Unavailable,
            "the host has no client yet: nothing runs",
        ));
    };
    let host = &scene.host;
    let meant = meant(&scene, &command.servers)?;
    match command.verb.as_str() {
        "status" => show(&scene, ctx, &meant, command).await,
        "wait" => {
            let within = command.within_ms.map_or(WAIT_DEFAULT, Duration::from_millis);
            told(host, &meant, within, !command.servers.is_empty(), true).await
        }
        "logs" => logs(&scene, ctx, &meant).await,
        "start" | "stop" | "on" | "off" => {
            let hold = match command.verb.as_str() {
                "start" => Hold::Start,
                "stop" => Hold::Stop,
                "on" => Hold::On,
                _ => Hold::Off,
            };
            keeper.hold(hold, &meant).await;
            if hold == Hold::Start {
                host.with(async |runtime| each(runtime, &meant, Runtime::start_server)).await;
            }
            told(host, &meant, LOOK_MAX, false, false).await
        }
        "restart" | "reconnect" => {
            restarted(host, &meant).await;
            told(host, &meant, LOOK_MAX, false, false).await
        }
        "reload" => {
            let later = keeper.reload().await;
            let told = told(host, &meant, LOOK_MAX, false, false).await?;
            Ok(told.warn(later))
        }
        verb => Err(Failure::usage(format!("this host has no verb {verb}"))),
    }
}

/// The servers of those names, of which there may be several of one name; without names those of the
/// configuration of who asks. A name that no client has is an error.
fn meant(scene: &Scene, names: &[String]) -> Result<Vec<ServerId>, Failure> {
    if names.is_empty() {
        return Ok(scene.own.clone());
    }
    let mut meant = Vec::new();
    for name in names {
        let named = |ids: &[ServerId]| -> Vec<ServerId> {
            ids.iter().filter(|id| id.as_str() == name).cloned().collect()
        };
        let mut found = named(&scene.own);
        if found.is_empty() {
            found = named(&scene.others);
        }
        if found.is_empty() {
            let known = scene.own.iter().chain(&scene.others).map(ServerId::as_str);
            return Err(Failure::unknown_server(name, known));
        }
        meant.extend(found);
    }
    Ok(meant)
}

fn each(runtime: &Runtime, meant: &[ServerId], act: impl Fn(&Runtime, &ServerId) -> bool) {
    for server in meant {
        act(runtime, server);
    }
}

/// Has servers connect afresh, and waits until they are about to, so that nobody is told how they were before.
async fn restarted(host: &Host, meant: &[ServerId]) {
    let Some(runtime) = host.borrow().await else { return };
    let mut watch = runtime.watch(meant);
    let before: BTreeMap<ServerId, Generation> =
        watch.look().into_iter().map(|view| (view.id, view.generation)).collect();
    let begun: Vec<&ServerId> = meant.iter().filter(|server| runtime.restart_server(server)).collect();
    drop(runtime);
    let is_anew = |view: &ServerView| {
        !begun.contains(&&view.id) || before.get(&view.id).is_none_or(|before| view.generation > *before)
    };
    let moved = async {
        while !watch.look().iter().all(is_anew) {
            watch.changed().await;
        }
    };
    let _ = tokio::time::timeout(LOOK_MAX, moved).await;
}

/// The servers that were meant, once they have settled or when that time has passed.
async fn settled(host: &Host, meant: &[ServerId], within: Duration) -> Vec<ServerView> {
    if meant.is_empty() {
        return Vec::new();
    }
    let mut views = host.with(async |runtime| runtime.settle(meant, within).await).await.unwrap_or_default();
    views.retain(|view| meant.contains(&view.id));
    views
}

async fn show(scene: &Scene, ctx: &Ctx, meant: &[ServerId], command: &Command) -> Result<Answer, Failure> {
    let within = command.within_ms.map_or(LOOK_MAX, Duration::from_millis);
    let views = settled(&scene.host, meant, within).await;
    let named = meant.first().filter(|_| !command.servers.is_empty());
    let answer = status::answer(ctx, &views, named)?;
    let more = scene.others.len();
    let other = format!("{more} more servers run for clients with other configurations: not shown here");
    Ok(answer.warn((more > 0 && command.servers.is_empty()).then_some(other)))
}

#[derive(Serialize)]
struct Told {
    servers: Vec<ToldServer>,
}

#[derive(Serialize)]
struct ToldServer {
    name: String,
    state: &'static str,
    why: Option<String>,
}

/// How the servers are that were meant, by name (`named`) or as all; with `strict`, one that is not as it
/// should be is a failure.
async fn told(
    host: &Host,
    meant: &[ServerId],
    within: Duration,
    named: bool,
    strict: bool,
) -> Result<Answer, Failure> {
    let views = settled(host, meant, within).await;
    let fine = if !named {
        views.iter().all(is_expected)
    } else {
        views.iter().all(|view| super::status_view::is_healthy(view.state) && view.listed)
    };
    let lines = views.iter().map(|view| match &view.why {
        Some(why) => format!("{}: {} ({why})", view.id, view.state.as_str()),
        None => format!("{}: {}", view.id, view.state.as_str()),
    });
    let human = lines.collect::<Vec<_>>().join("\n");
    let server = |view: &ServerView| ToldServer {
        name: view.id.to_string(),
        state: view.state.as_str(),
        why: view.why.clone(),
    };
    let told = Told { servers: views.iter().map(server).collect() };
    let exit = if strict && !fine { Exit::Unhealthy } else { Exit::Ok };
    Ok(Answer::new(SCHEMA, &told, human)?.ending(exit))
}

#[derive(Serialize)]
struct Logs {
    server: String,
    lines: Vec<String>,
}

async fn logs(scene: &Scene, ctx: &Ctx, meant: &[ServerId]) -> Result<Answer, Failure> {
    let server = meant.first().ok_or_else(|| Failure::usage("the name of a server is missing"))?;
    let runtime = scene.host.borrow().await.ok_or_else(|| ends(&Course::default()))?;
    let lines = tail::kept(ctx, &runtime, server);
    let human = lines.join("\n");
    Answer::new(SCHEMA, &Logs { server: server.to_string(), lines }, human)
}

/// Sends what a server says until the process that asked gives up, or the host ends.
async fn follow(scene: Scene, ctx: &Ctx, command: &Command, talk: &Talk) -> Option<Result<Answer, Failure>> {
    let wanted = command.args.as_ref().and_then(|args| serde_json::from_str(args.get()).ok());
    let meant = match meant(&scene, &command.servers) {
        Ok(meant) => meant,
        Err(failure) => return Some(Err(failure)),
    };
    let tail = Tail::new(ctx, &*scene.host.borrow().await?, meant.first()?, wanted.unwrap_or_default());
    let tail = match tail {
        Ok(tail) => tail,
        Err(failure) => return Some(Err(failure)),
    };
    let visitor = scene.host.visit(false);
    tokio::select! {
        biased;
        () = talk.given_up() => Some(Err(Failure::interrupted())),
        () = visitor.over() => Some(Err(ends(&Course::default()))),
        () = tail.send(ctx, talk) => None,
    }
}
