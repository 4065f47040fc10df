//! Floor 5. `/mcp …`: the verbs of `callboard mcp` at the prompt, by the same functions, on the servers
//! that run already. Called by `repl`.

use std::ffi::OsString;
use std::sync::Arc;

use clap::FromArgMatches;

use super::house::House;
use super::words::texts;
use crate::cli::args::{Cli, Command, Mcp};
use crate::cli::ctx::Ctx;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::out::{self, Printed};
use crate::cli::{Done, help, mcp as verb, mcp_schema, usage};

/// How a verb is written in a shell, and how at the prompt.
const IN_SHELL: &str = "callboard mcp ";
const AT_PROMPT: &str = "/mcp ";

/// Does what was typed behind `/mcp`, and shows what came of it.
pub async fn run(house: &Arc<House>, typed: &str) -> Exit {
    let words = texts(typed);
    if words.is_empty() {
        let seen = one(house, &["status".to_owned()]).await;
        out::tell(&Printed { stdout: "\n".to_owned(), ..Printed::default() }, seen);
        return one(house, &["tools".to_owned()]).await;
    }
    one(house, &words).await
}

/// One verb with its words.
pub async fn one(house: &Arc<House>, words: &[String]) -> Exit {
    let base = house.ctx().await;
    let argv: Vec<OsString> = ["callboard", "mcp"]
        .into_iter()
        .map(OsString::from)
        .chain(words.iter().map(OsString::from))
        .collect();
    let (verb, json) = match parse(&argv, base.style().color) {
        Ok(parsed) => parsed,
        Err(usage::Refused::Help(text) | usage::Refused::Missing(text)) => {
            return out::tell(&here(Printed { stdout: text, ..Printed::default() }), Exit::Ok);
        }
        Err(usage::Refused::Failure(failure)) => {
            return show(&base, "callboard.error/1", Err(failure), false);
        }
    };
    let mut ctx = Ctx { argv, ..base };
    ctx.global.json = json;
    let (schema, edits) = (mcp_schema(&verb), edits(&verb));
    let outcome = Box::pin(self::verb(&ctx, verb)).await;
    let done = outcome.is_ok();
    let exit = show(&ctx, schema, outcome, json);
    if done
        && edits
        && let Err(failure) = house.reload().await
    {
        return show(&ctx, schema, Err(failure), false);
    }
    exit
}

/// The verb, and whether its answer is wanted as JSON. Options of the whole program have no place here.
fn parse(argv: &[OsString], color: bool) -> Result<(Mcp, bool), usage::Refused> {
    let parsed = help::command()
        .try_get_matches_from(argv)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|e| usage::refused(&e, color))?;
    let global = parsed.global;
    if !global.mcp_config.is_empty()
        || global.strict_mcp_config
        || global.directory.is_some()
        || global.mode.is_some()
    {
        let failure = Failure::usage("this option is for the start of the program")
            .fix("leave, and start with it; `/mode MODE` changes the mode");
        return Err(usage::Refused::Failure(failure));
    }
    match parsed.command {
        Some(Command::Mcp { verb }) => Ok((verb, global.json)),
        _ => Err(usage::Refused::Failure(usage::missing_verb())),
    }
}

/// Whether the verb changes what is configured, so that it has to be read again.
fn edits(verb: &Mcp) -> bool {
    match verb {
        Mcp::Add(_)
        | Mcp::AddJson(_)
        | Mcp::Remove(_)
        | Mcp::Import(_)
        | Mcp::Enable(_)
        | Mcp::Disable(_) => true,
        Mcp::Approve(_) | Mcp::Revoke(_) | Mcp::Allow(_) => true,
        Mcp::On(of) | Mcp::Off(of) => of.server.is_some(),
        _ => false,
    }
}

/// Shows an outcome.
fn show(ctx: &Ctx, schema: &str, outcome: Result<Done, Failure>, json: bool) -> Exit {
    let stderr = ctx.term.style_err();
    match outcome {
        Ok(Done::Streamed(exit)) => exit,
        Ok(Done::Answer(answer)) => out::tell(&here(out::answer_text(&answer, json, stderr)), answer.exit),
        Err(failure) => out::tell(&here(out::failure_text(schema, &failure, json, stderr)), failure.exit),
    }
}

/// What is told as it is typed here.
pub fn here(printed: Printed) -> Printed {
    if printed.is_json {
        return printed;
    }
    let [stdout, stderr] = [printed.stdout, printed.stderr].map(|text| text.replace(IN_SHELL, AT_PROMPT));
    Printed { stdout, stderr, is_json: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Mcp, bool), usage::Refused> {
        let words = texts(line);
        let argv: Vec<OsString> =
            ["callboard", "mcp"].iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
        parse(&argv, false)
    }

    #[test]
    fn json_stands_as_typed_and_options_of_the_program_are_refused() {
        let Ok((Mcp::Call(args), false)) = parsed(r#"call s t {"a":  [1, 2]}"#) else { panic!() };
        assert_eq!(args.args, [r#"{"a":  [1, 2]}"#]);
        assert!(matches!(parsed("status --json"), Ok((Mcp::Status(_), true))));
        for line in ["status --mode auto", "-C / list", "tools --mcp-config x"] {
            assert!(matches!(parsed(line), Err(usage::Refused::Failure(_))), "{line}");
        }
        assert!(matches!(parsed("status --help"), Err(usage::Refused::Help(_))));
        assert!(
            matches!(parsed("sttus"), Err(usage::Refused::Failure(f)) if f.fix.as_deref().is_some_and(|fix| fix.contains("status")))
        );
    }

    #[test]
    fn what_is_told_can_be_typed_here() {
        let told = here(Printed { stderr: "fix: callboard mcp why s\n".into(), ..Printed::default() });
        assert_eq!(told.stderr, "fix: /mcp why s\n");
    }
}
