//! Floor 5. The verbs that act on a running host, done by that host: what comes of a command, ready to be
//! shown by the process that asked. Called by `host_process`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::args::Global;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Terminal};
use super::status;
use super::status_view::is_expected;
use crate::config::host::ColorChoice;
use crate::config::load::{LoadOptions, Loaded};
use crate::id::ServerId;
use crate::runtime::Runtime;
use crate::serve::Host;
use crate::serve::share::{Command, Deed, Failing, Hold, Keeper, Reply, Same, Scene, Wanted};
use crate::telemetry::Redaction;
use crate::view::ServerView;

/// Shape of the answers of all verbs but `status`.
pub const SCHEMA: &str = "callboard.host/1";
/// How long `start`, `restart` and the like look how it went.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// How long `wait` waits, when it is not said.
const WAIT_DEFAULT: Duration = Duration::from_secs(120);

/// What a verb works with, for the configuration and the screen of who asked.
pub fn ctx(options: LoadOptions, loaded: Loaded, redaction: Redaction, command: &Command) -> Ctx {
    let color = if command.color { ColorChoice::Always } else { ColorChoice::Never };
    let (width, screen) = (command.width.unwrap_or(80), command.width.is_some());
    let term =
        Terminal { stdin: false, stdout: screen, stderr: false, color, width, height: 24, width_err: width };
    let (global, argv) = (Global::default(), Vec::new());
    Ctx { global, term, argv, options, loaded, once: None, guard: None, redaction }
}

/// Does what is asked.
pub async fn act(keeper: &Arc<Keeper>, wanted: &[Wanted<Same>], ctx: &Ctx, command: &Command) -> Reply {
    let scene = keeper.scene(wanted).await;
    let deed = match deed(keeper, scene, ctx, command).await {
        Ok(answer) => Deed {
            exit: answer.exit.code(),
            data: answer.data.get().to_owned(),
            human: answer.human,
            warnings: answer.warnings,
            failure: None,
        },
        Err(failure) => Deed {
            exit: failure.exit.code(),
            data: "null".to_owned(),
            human: String::new(),
            warnings: failure.warnings,
            failure: Some(Failing {
                code: failure.code.into_owned(),
                message: failure.message,
                fix: failure.fix,
                server: failure.server,
            }),
        },
    };
    Reply::Did(deed)
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
        "logs" => logs(host, &meant).await,
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
            host.with(async |runtime| each(runtime, &meant, Runtime::restart_server)).await;
            told(host, &meant, LOOK_MAX, false, false).await
        }
        "reload" => {
            keeper.reload().await;
            told(host, &meant, LOOK_MAX, false, false).await
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

async fn logs(host: &Host, meant: &[ServerId]) -> Result<Answer, Failure> {
    let views = settled(host, meant, Duration::ZERO).await;
    let Some(view) = views.first() else {
        return Err(Failure::new("needs_host", Exit::Unavailable, "the host shuts down"));
    };
    let logs = Logs { server: view.id.to_string(), lines: view.stderr_tail.clone() };
    Answer::new(SCHEMA, &logs, view.stderr_tail.join("\n"))
}
