//! Floor 5. Verbs that act on the running host of this user; without one they say so. Called by
//! `cli::run`.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::host_args::LogsArgs;
use super::out::{self, Answer};
use super::status;
use crate::config::switch;
use crate::id::ServerId;
use crate::time::wall;

/// Name and version of what these verbs answer.
pub const SCHEMA: &str = "callboard.host/1";
/// Of each line of a log that is followed.
const LOG: &str = "callboard.log/1";

/// The failure of `verb`: exit 7, nothing was sent.
pub fn needs_host(verb: &str) -> Failure {
    let fix = match verb {
        "logs" => "`callboard mcp status SERVER` starts the server for a look and shows its stderr",
        "wait" => "`callboard mcp status --wait D` starts the servers and waits for them",
        "on" | "off" => {
            "--save keeps it without a host; with a name a server is turned on or off in the configuration"
        }
        _ => {
            "`callboard mcp status` starts the servers for a look; changes of files count from the next start"
        }
    };
    let message = format!(
        "`callboard mcp {verb}` needs a running host: the first client of `callboard --mcp-serve` starts it"
    );
    Failure::new("needs_host", Exit::Unavailable, message).fix(fix)
}

/// The failure with a word about hosts of other versions, which this program can't talk to.
#[cfg(unix)]
fn older(mut failure: Failure, others: &[String]) -> Failure {
    if let [version, ..] = others {
        let text = format!(
            "a host of version {version} runs, and this program is version {}: they do not talk to each other",
            env!("CARGO_PKG_VERSION")
        );
        failure.message = text;
        failure.fix = Some(format!(
            "use the program of version {version}, or end its clients: the next one starts a host of this version"
        ));
    }
    failure
}

/// Does it on the running host.
#[cfg(unix)]
pub async fn act(
    ctx: &Ctx,
    verb: &str,
    servers: &[String],
    within: Option<Duration>,
) -> Result<Done, Failure> {
    let servers: Vec<ServerId> = servers.iter().map(ServerId::new).collect();
    if let Some(house) = &ctx.house {
        return super::repl::verbs::act(ctx, house, verb, &servers, within).await.map(Done::from);
    }
    match super::control::ask(ctx, verb, SCHEMA, &servers, within).await? {
        Some(answer) => Ok(answer.into()),
        None => Err(older(needs_host(verb), &super::control::others(ctx).await)),
    }
}

/// `logs S`
#[cfg(unix)]
pub async fn logs(ctx: &Ctx, args: &LogsArgs) -> Result<Done, Failure> {
    use super::tail::Following;
    if !args.follow && !args.wire {
        return act(ctx, "logs", std::slice::from_ref(&args.server), None).await;
    }
    if ctx.house.is_some() {
        return Err(Failure::usage(
            "a prompt can't be followed and typed at: `-f` and `--wire` are for the command line",
        )
        .fix("leave them out here, or run `callboard mcp logs -f` elsewhere, where a host runs"));
    }
    let wanted = Following { stderr: args.follow, wire: args.wire };
    let wanted = serde_json::value::to_raw_value(&wanted)
        .map_err(|e| Failure::usage(format!("that can't be asked of the host: {e}")))?;
    let server = ServerId::new(&args.server);
    let mut piece = |json: &RawValue, human: &str| match ctx.global.json {
        true => {
            let answer = Answer { data: json.to_owned(), ..Answer::new(LOG, &(), "")? };
            out::write_stdout(&out::answer_text(&answer, true, out::Style::PLAIN).stdout)
        }
        false => out::write_stdout(&format!("{human}\n")),
    };
    let followed =
        super::control::follow(ctx, "follow", std::slice::from_ref(&server), Some(wanted), &mut piece).await;
    match followed.transpose() {
        Some(exit) => status::streamed(exit),
        None => Err(older(needs_host("logs"), &super::control::others(ctx).await)),
    }
}

/// `on` without a name.
pub async fn on(ctx: &Ctx, save: bool) -> Result<Done, Failure> {
    if !save {
        let done = act(ctx, "on", &[], None).await?;
        return Ok(match (done, &ctx.loaded.off) {
            (Done::Answer(answer), Some(off)) => {
                let word = off.down();
                answer.warn([format!("{}: nothing starts before `{}`", word.why, word.fix)]).into()
            }
            (done, _) => done,
        });
    }
    let home = ctx.home()?;
    let was_off = switch::turn_on(home).map_err(|e| {
        Failure::io(Exit::Config, format!("{} can't be removed: {e}", switch::file(home).display()))
    })?;
    saved(ctx, "on", if was_off { "all servers may run again" } else { "all servers were on already" }).await
}

/// `off` without a name.
pub async fn off(ctx: &Ctx, save: bool) -> Result<Done, Failure> {
    if !save {
        return act(ctx, "off", &[], None).await;
    }
    switch::turn_off(ctx.home()?, wall())
        .map_err(|e| Failure::io(Exit::Config, format!("that can't be kept: {e}")))?;
    saved(
        ctx,
        "off",
        "all servers are turned off, for every host and command, until `callboard mcp on --save`",
    )
    .await
}

#[derive(Serialize)]
struct SavedView {
    all: &'static str,
    file: String,
    /// Whether a host runs, and did so too.
    host: bool,
}

/// The answer when the switch was moved, which a running host hears of at once.
async fn saved(ctx: &Ctx, verb: &'static str, words: &str) -> Result<Done, Failure> {
    let file = switch::file(ctx.home()?).display().to_string();
    if let Some(house) = &ctx.house {
        super::repl::verbs::act(ctx, house, verb, &[], None).await?;
    }
    #[cfg(unix)]
    let host = {
        let told = super::control::ask(ctx, "reload", SCHEMA, &[], None).await;
        match super::control::ask(ctx, verb, SCHEMA, &[], None).await {
            Ok(answer) => answer.is_some() && told.is_ok(),
            // A host without a client has nothing that runs.
            Err(_) => false,
        }
    };
    #[cfg(not(unix))]
    let host = false;
    Ok(Answer::new(SCHEMA, &SavedView { all: verb, file, host }, words)?.into())
}

/// There is no shared host on this system.
#[cfg(not(unix))]
pub async fn act(_: &Ctx, verb: &str, _: &[String], _: Option<Duration>) -> Result<Done, Failure> {
    Err(needs_host(verb))
}

/// There is no shared host on this system.
#[cfg(not(unix))]
pub async fn logs(_: &Ctx, _: &LogsArgs) -> Result<Done, Failure> {
    Err(needs_host("logs"))
}

/// Name and version of what `logs` answers.
pub fn logs_schema(args: &LogsArgs) -> &'static str {
    if args.follow || args.wire { LOG } else { SCHEMA }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_without_a_host_is_safe_to_retry() {
        for verb in ["start", "stop", "restart", "reload", "reconnect", "logs", "wait", "on", "off"] {
            let failure = needs_host(verb);
            assert_eq!(failure.exit.code(), 7);
            assert!(failure.message.contains(&format!("mcp {verb}`")));
            assert!(failure.fix.is_some());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_host_of_another_version_is_named_in_place_of_none() {
        let failure = older(needs_host("stop"), &["0.0.9".to_owned()]);
        assert!(failure.message.contains("a host of version 0.0.9 runs") && failure.exit.code() == 7);
        assert_eq!(older(needs_host("stop"), &[]).message, needs_host("stop").message);
    }
}
