//! Floor 5. Verbs that act on the running host of this user; without one they say so. Called by
//! `cli::run`.

use std::time::Duration;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::text::parse_timeout;
use crate::id::ServerId;

/// Name and version of what these verbs answer.
pub const SCHEMA: &str = "callboard.host/1";

/// The failure of `verb`: exit 7, nothing was sent.
pub fn needs_host(verb: &str) -> Failure {
    let fix = match verb {
        "logs" => "`callboard mcp status SERVER` starts the server for a look and shows its stderr",
        "wait" => "`callboard mcp status --wait D` starts the servers and waits for them",
        "on" | "off" => "name a server to turn it on or off in the configuration",
        _ => {
            "`callboard mcp status` starts the servers for a look; changes of files count from the next start"
        }
    };
    let message = format!(
        "`callboard mcp {verb}` needs a running host: the first client of `callboard --mcp-serve` starts it"
    );
    Failure::new("needs_host", Exit::Unavailable, message).fix(fix)
}

/// What the words behind a verb mean.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    servers: Vec<ServerId>,
    within: Option<Duration>,
}

fn words(verb: &str, typed: &[String]) -> Result<Words, Failure> {
    let mut words = Words::default();
    let mut typed = typed.iter();
    while let Some(word) = typed.next() {
        match word.as_str() {
            "--json" => {}
            "--timeout" if verb == "wait" => {
                let limit = typed.next().ok_or_else(|| Failure::usage("--timeout needs a duration"))?;
                words.within = Some(parse_timeout(limit).map_err(Failure::usage)?);
            }
            option if option.starts_with('-') => {
                let text = format!("`mcp {verb}` has no option {option} in this version");
                return Err(Failure::new("not_in_this_version", Exit::Usage, text)
                    .fix(format!("callboard mcp {verb} --help")));
            }
            name => words.servers.push(ServerId::new(name)),
        }
    }
    let count = words.servers.len();
    let lacks = match verb {
        "start" | "stop" => count == 0,
        "logs" => count != 1,
        _ => false,
    };
    if lacks {
        return Err(Failure::usage(format!("`mcp {verb}` needs the name of a server"))
            .fix(format!("callboard mcp {verb} SERVER")));
    }
    Ok(words)
}

/// Does it on the running host.
#[cfg(unix)]
pub async fn act(ctx: &Ctx, verb: &str, typed: &[String]) -> Result<Done, Failure> {
    let parsed = words(verb, typed);
    let within = parsed.as_ref().ok().and_then(|words| words.within);
    let servers = parsed.as_ref().map(|words| words.servers.clone()).unwrap_or_default();
    if let Some(house) = &ctx.house {
        parsed?;
        return super::repl::verbs::act(ctx, house, verb, &servers, within).await.map(Done::from);
    }
    // Whether there is a host is said before what is wrong with the words.
    if !super::control::is_there(ctx).await {
        return Err(needs_host(verb));
    }
    parsed?;
    let answer = super::control::ask(ctx, verb, SCHEMA, &servers, within).await?;
    answer.map(Done::from).ok_or_else(|| needs_host(verb))
}

/// There is no shared host on this system.
#[cfg(not(unix))]
pub async fn act(_ctx: &Ctx, verb: &str, typed: &[String]) -> Result<Done, Failure> {
    words(verb, typed)?;
    Err(needs_host(verb))
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

    #[test]
    fn words_are_names_and_the_options_of_the_verb() {
        let typed = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wait = words("wait", &typed("a --timeout 2s --json b")).unwrap();
        assert_eq!((wait.servers.len(), wait.within), (2, Some(Duration::from_secs(2))));
        for (verb, bad) in [("start", ""), ("logs", "a b"), ("stop", "--all"), ("wait", "--timeout")] {
            assert_eq!(words(verb, &typed(bad)).unwrap_err().exit, Exit::Usage, "{verb} {bad}");
        }
    }
}
