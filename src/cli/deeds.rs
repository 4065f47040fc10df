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
use crate::serve::share::{Command, Deed, Failing, Hold, HouseId, Keeper, Reply, Sameness};
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
    Ctx { global, term, argv, options, loaded, once: None, guard: None, redaction, house: None }
}

/// Does what is asked.
pub async fn act(keeper: &Arc<Keeper>, same: &Sameness, ctx: &Ctx, command: &Command) -> Reply {
    let houses = keeper.houses_of(same).await;
    let deed = match deed(keeper, &houses, ctx, command).await {
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

type Houses = [(HouseId, Arc<Host>)];

async fn deed(
    keeper: &Arc<Keeper>,
    houses: &Houses,
    ctx: &Ctx,
    command: &Command,
) -> Result<Answer, Failure> {
    if houses.is_empty() {
        return Err(Failure::new(
            "needs_host",
            Exit::Unavailable,
            "the host has no client yet: nothing runs",
        ));
    }
    let meant = meant(houses, &command.servers).await?;
    match command.verb.as_str() {
        "status" => show(houses, ctx, &meant, command).await,
        "wait" => {
            let within = command.within_ms.map_or(WAIT_DEFAULT, Duration::from_millis);
            told(houses, &meant, within, true).await
        }
        "logs" => logs(houses, &meant).await,
        "start" | "stop" | "on" | "off" => {
            let hold = match command.verb.as_str() {
                "start" => Hold::Start,
                "stop" => Hold::Stop,
                "on" => Hold::On,
                _ => Hold::Off,
            };
            for (id, host) in houses {
                keeper.hold(*id, hold, &meant).await;
                if hold == Hold::Start {
                    host.with(async |runtime| each(runtime, &meant, Runtime::start_server)).await;
                }
            }
            told(houses, &meant, LOOK_MAX, false).await
        }
        "restart" | "reconnect" => {
            for (_, host) in houses {
                host.with(async |runtime| each(runtime, &meant, Runtime::restart_server)).await;
            }
            told(houses, &meant, LOOK_MAX, false).await
        }
        "reload" => {
            for (id, _) in houses {
                keeper.reload_house(*id).await;
            }
            told(houses, &meant, LOOK_MAX, false).await
        }
        verb => Err(Failure::usage(format!("this host has no verb {verb}"))),
    }
}

/// The servers of those names; a name that no house has is an error.
async fn meant(houses: &Houses, names: &[String]) -> Result<Vec<ServerId>, Failure> {
    let mut known: Vec<ServerId> = Vec::new();
    for (_, host) in houses {
        let views = host.with(async |runtime| runtime.status()).await.unwrap_or_default();
        known.extend(views.into_iter().map(|view| view.id));
    }
    let find = |name: &String| known.iter().find(|id| id.as_str() == name).cloned();
    let all = names.iter().map(|name| {
        find(name).ok_or_else(|| Failure::unknown_server(name, known.iter().map(ServerId::as_str)))
    });
    all.collect()
}

fn each(runtime: &Runtime, meant: &[ServerId], act: impl Fn(&Runtime, &ServerId) -> bool) {
    let all = || runtime.status().into_iter().map(|view| view.id).collect();
    let meant: Vec<ServerId> = if meant.is_empty() { all() } else { meant.to_vec() };
    for server in &meant {
        act(runtime, server);
    }
}

/// The servers that were meant, once they have settled or when that time has passed; those of the first
/// house that has them.
async fn settled(houses: &Houses, meant: &[ServerId], within: Duration) -> Vec<ServerView> {
    for (_, host) in houses {
        let views = host.with(async |runtime| runtime.settle(meant, within).await).await.unwrap_or_default();
        let fits = |view: &ServerView| meant.is_empty() || meant.contains(&view.id);
        let views: Vec<ServerView> = views.into_iter().filter(fits).collect();
        if !views.is_empty() {
            return views;
        }
    }
    Vec::new()
}

async fn show(houses: &Houses, ctx: &Ctx, meant: &[ServerId], command: &Command) -> Result<Answer, Failure> {
    let within = command.within_ms.map_or(LOOK_MAX, Duration::from_millis);
    let views = settled(houses, meant, within).await;
    let answer = status::answer(ctx, &views, meant.first())?;
    let more = houses.len() - 1;
    let other = format!("{more} other groups of clients run with other configurations: not shown here");
    Ok(answer.warn((more > 0).then_some(other)))
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

/// How the servers are that were meant; with `strict`, one that is not as it should be is a failure.
async fn told(
    houses: &Houses,
    meant: &[ServerId],
    within: Duration,
    strict: bool,
) -> Result<Answer, Failure> {
    let views = settled(houses, meant, within).await;
    let fine = if meant.is_empty() {
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

async fn logs(houses: &Houses, meant: &[ServerId]) -> Result<Answer, Failure> {
    let views = settled(houses, meant, Duration::ZERO).await;
    let Some(view) = views.first() else {
        return Err(Failure::new("needs_host", Exit::Unavailable, "the host shuts down"));
    };
    let logs = Logs { server: view.id.to_string(), lines: view.stderr_tail.clone() };
    Answer::new(SCHEMA, &logs, view.stderr_tail.join("\n"))
}
