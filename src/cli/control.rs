//! Floor 5. The side of a verb that asks the running host of this user: sends one line, reads one.
//! Nothing is started for it. Called by the verbs.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::Answer;
use crate::id::ServerId;
use crate::serve::share::{Command, Deed, Hello, Join, Place, Reply, Wants, join as way};
use crate::transport::task;

/// A command about these servers; none: all.
pub fn command(client: &Join, verb: &str, servers: Vec<String>) -> Command {
    let (within_ms, width, color) = (None, None, false);
    Command { client: client.clone(), verb: verb.to_owned(), servers, within_ms, width, color }
}

/// What the running host answers; `None` when none runs.
pub async fn ask(
    ctx: &Ctx,
    verb: &str,
    schema: &'static str,
    servers: &[ServerId],
    within: Option<Duration>,
) -> Result<Option<Answer>, Failure> {
    let Ok(home) = ctx.home() else { return Ok(None) };
    // What a command names for itself alone is no matter of a host.
    if ctx.global.strict_mcp_config || !ctx.global.mcp_config.is_empty() {
        return Ok(None);
    }
    let style = ctx.style();
    let names = servers.iter().map(ToString::to_string).collect();
    let command = Command {
        within_ms: within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
        width: style.width,
        color: style.color,
        ..command(&Join::of(&ctx.options), verb, names)
    };
    let (place, hello) = (Place::below(home), Hello::new(home.to_path_buf(), Wants::Command(command)));
    let limit = within.unwrap_or_default();
    let asked = task::blocking(move || way::ask_within(&place, &hello, limit)).await;
    match asked {
        Some(Ok((_, Reply::Did(deed)))) => answer(deed, schema).map(Some),
        Some(Ok((_, Reply::Refused { message, .. }))) => {
            Err(Failure::new("needs_host", Exit::Unavailable, message))
        }
        Some(Ok((_, Reply::Joined { .. })) | Err(_)) | None => Ok(None),
    }
}

fn answer(deed: Deed, schema: &'static str) -> Result<Answer, Failure> {
    let exit = Exit::ALL.into_iter().map(|(exit, _)| exit).find(|exit| exit.code() == deed.exit);
    let exit = exit.unwrap_or(Exit::Unhealthy);
    if let Some(failing) = deed.failure {
        let mut failure = Failure::new("internal", exit, failing.message);
        failure.code = Cow::Owned(failing.code);
        failure.fix = failing.fix;
        failure.server = failing.server;
        failure.warnings = deed.warnings;
        return Err(failure);
    }
    let data = RawValue::from_string(deed.data)
        .map_err(|e| Failure::new("internal", Exit::Unhealthy, format!("the host's answer is none: {e}")))?;
    Ok(Answer { schema, data, human: deed.human, warnings: deed.warnings, exit })
}

/// Whether a host of this user runs.
pub async fn is_there(ctx: &Ctx) -> bool {
    let Ok(home) = ctx.home() else { return false };
    let place = Place::below(home);
    task::blocking(move || place.connect().is_ok()).await.unwrap_or_default()
}
