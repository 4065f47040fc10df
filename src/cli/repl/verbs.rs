//! Floor 5. The verbs that run servers (`start`, `stop`, `restart`, `reload`, `on`, `off`, `logs`,
//! `wait`), for the servers behind the prompt. Called by `host`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::house::House;
use crate::cli::ctx::Ctx;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::host::SCHEMA;
use crate::cli::out::Answer;
use crate::cli::session::waiting;
use crate::cli::status_view::{is_expected, is_healthy};
use crate::cli::text;
use crate::config::diff::Change;
use crate::id::{OWN_PREFIX, ServerId};
use crate::runtime::Reloaded;
use crate::serve::share::Hold;
use crate::view::ServerView;

/// How long `start`, `restart` and the like look how it went.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// How long `wait` waits, when it is not said.
const WAIT_DEFAULT: Duration = Duration::from_secs(120);

/// Does it.
///
/// # Errors
/// When no server has that name, or the configuration can't be read.
pub async fn act(
    ctx: &Ctx,
    house: &Arc<House>,
    verb: &str,
    servers: &[ServerId],
    within: Option<Duration>,
) -> Result<Answer, Failure> {
    let runtime = house.runtime();
    let known: Vec<ServerId> = runtime.status().into_iter().map(|view| view.id).collect();
    let configured = || known.iter().filter(|id| !id.as_str().starts_with(OWN_PREFIX));
    for server in servers {
        if !known.contains(server) {
            return Err(Failure::unknown_server(server.as_str(), configured().map(ServerId::as_str)));
        }
    }
    let meant: Vec<ServerId> =
        if servers.is_empty() { configured().cloned().collect() } else { servers.to_vec() };
    match verb {
        "start" => {
            house.hold(Hold::Start, servers).await?;
            meant.iter().for_each(|server| _ = runtime.start_server(server));
        }
        "stop" => house.hold(Hold::Stop, servers).await?,
        "on" => house.hold(Hold::On, &[]).await?,
        "off" => house.hold(Hold::Off, &[]).await?,
        "restart" | "reconnect" => meant.iter().for_each(|server| _ = runtime.restart_server(server)),
        "reload" => {
            let done = house.reload().await?;
            return reloaded(&done);
        }
        "logs" => return logs(ctx, runtime.status(), servers),
        "wait" => {}
        verb => return Err(Failure::usage(format!("there is no verb {verb}"))),
    }
    let limit = if verb == "wait" { within.unwrap_or(WAIT_DEFAULT) } else { within.unwrap_or(LOOK_MAX) };
    let views = waiting(ctx, runtime, runtime.settle(&meant, limit)).await;
    let views: Vec<ServerView> = views.into_iter().filter(|view| meant.contains(&view.id)).collect();
    told(ctx, &views, verb == "wait", servers.is_empty())
}

#[derive(Serialize)]
struct Told<'a> {
    servers: Vec<ToldServer<'a>>,
}

#[derive(Serialize)]
struct ToldServer<'a> {
    name: &'a str,
    state: &'static str,
    why: Option<&'a str>,
}

/// How the servers are; with `strict`, one that is not as it should be makes it a failure.
fn told(ctx: &Ctx, views: &[ServerView], strict: bool, all: bool) -> Result<Answer, Failure> {
    let fine =
        views.iter().all(|view| if all { is_expected(view) } else { is_healthy(view.state) && view.listed });
    let lines = views.iter().map(|view| match &view.why {
        Some(why) => format!("{}: {} ({})", view.id, view.state.as_str(), ctx.clean(why)),
        None => format!("{}: {}", view.id, view.state.as_str()),
    });
    let human = lines.collect::<Vec<_>>().join("\n");
    let servers = views.iter().map(|view| ToldServer {
        name: view.id.as_str(),
        state: view.state.as_str(),
        why: view.why.as_deref(),
    });
    let exit = if strict && !fine { Exit::Unhealthy } else { Exit::Ok };
    Ok(Answer::new(SCHEMA, &Told { servers: servers.collect() }, human)?.ending(exit))
}

#[derive(Serialize)]
struct ReloadView<'a> {
    added: Vec<&'a str>,
    removed: Vec<&'a str>,
    changed: Vec<&'a str>,
    unchanged: usize,
}

impl<'a> ReloadView<'a> {
    fn of(done: &'a Reloaded) -> Self {
        let mut view = Self { added: Vec::new(), removed: Vec::new(), changed: Vec::new(), unchanged: 0 };
        for server in &done.servers {
            match &server.change {
                Change::Added(id) => view.added.push(id.as_str()),
                Change::Removed(id) => view.removed.push(id.as_str()),
                Change::Changed(id) => view.changed.push(id.as_str()),
                Change::Unchanged(_) => view.unchanged += 1,
            }
        }
        view
    }
}

/// What a reload did, in a line; empty when nothing changed.
pub fn reload_text(done: &Reloaded) -> String {
    let view = ReloadView::of(done);
    let part =
        |what: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    let parts = [part("added", &view.added), part("changed", &view.changed), part("removed", &view.removed)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn reloaded(done: &Reloaded) -> Result<Answer, Failure> {
    let view = ReloadView::of(done);
    let text = reload_text(done);
    let rest = text::count(view.unchanged, "server");
    let human = if text.is_empty() { format!("nothing changed ({rest})") } else { text };
    Answer::new(SCHEMA, &view, human)
}

#[derive(Serialize)]
struct Logs<'a> {
    server: &'a str,
    lines: &'a [String],
}

fn logs(ctx: &Ctx, views: Vec<ServerView>, servers: &[ServerId]) -> Result<Answer, Failure> {
    let view = views.into_iter().find(|view| servers.contains(&view.id));
    let Some(view) = view else { return Err(Failure::usage("`logs` needs the name of a server")) };
    let lines: Vec<String> = view.stderr_tail.iter().map(|line| ctx.clean(line)).collect();
    let human =
        if lines.is_empty() { format!("{} wrote nothing to stderr", view.id) } else { lines.join("\n") };
    Answer::new(SCHEMA, &Logs { server: view.id.as_str(), lines: &lines }, human)
}
