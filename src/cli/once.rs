//! Floor 5. Which server a *use* verb means: a configured one, or one that is not
//! configured and runs for this command alone (`-- COMMAND…`, or a URL in place of the
//! name). Used by the use verbs, `call` and `check`.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::address::{self, is_url};
use super::ctx::Ctx;
use super::failure::Failure;
use super::stand_in::StandIn;
use crate::config::load::load;
use crate::id::ServerId;

/// The name that a server goes by that runs once.
pub const ONCE: &str = "once";

/// The variable that carries such an entry: the strongest source below flags.
const INLINE_VAR: &str = "CALLBOARD_MCP_SERVERS";

/// A server to use.
#[derive(Debug)]
pub struct Picked<'a> {
    /// The configuration that has it.
    pub ctx: Cow<'a, Ctx>,
    /// Its name there.
    pub server: ServerId,
    /// Whether it runs for this command alone.
    pub once: bool,
}

/// The server that `word` or the command after `--` means. The entry may run.
pub fn pick<'a>(ctx: &'a Ctx, word: Option<&str>, command: &[String]) -> Result<Picked<'a>, Failure> {
    let entry = match (word, command) {
        (None, []) => {
            return Err(Failure::usage("a server is missing")
                .fix("name a configured server, give a URL, or a command after `--`"));
        }
        (None, [program, args @ ..]) => {
            json!({"command": literal(program), "args": args.iter().map(|a| literal(a)).collect::<Vec<_>>()})
        }
        (Some(url), []) if is_url(url) => json!({"url": literal(url)}),
        (Some(name), []) => {
            if let Some(told) = address::mistaken(name).filter(|_| ctx.loaded.servers.get(name).is_none()) {
                let fix = told.meant.as_ref().map(|url| format!("write {url} in its place"));
                let fix = fix
                    .unwrap_or_else(|| "give the name of a server, or an http:// or https:// URL".to_owned());
                return Err(Failure::usage(told.message).fix(fix));
            }
            let server = ctx.runnable(name)?.id.clone();
            return Ok(Picked { ctx: Cow::Borrowed(ctx), server, once: false });
        }
        (Some(word), _) => {
            let shown = super::text::quoted(word);
            return Err(Failure::usage(format!("both {shown} and a command after `--` are given"))
                .fix("leave one of them out"));
        }
    };
    let stand_in = match (word, command) {
        (Some(url), _) => StandIn::Url(ctx.clean(url)),
        (None, command) => StandIn::Command(command.iter().map(|word| ctx.clean(word)).collect()),
    };
    let ctx = alone(ctx, &entry, stand_in);
    let server = ctx.runnable(ONCE)?.id.clone();
    Ok(Picked { ctx: Cow::Owned(ctx), server, once: true })
}

/// What was typed stands for itself: the shell has expanded it already.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

/// A configuration that has this entry and no other.
fn alone(ctx: &Ctx, entry: &Value, stand_in: StandIn) -> Ctx {
    let mut options = ctx.options.clone();
    options.config_files.clear();
    options.strict = false;
    options.project = false;
    for other in ["CALLBOARD_MCP_CONFIG", "CALLBOARD_MCP_CONFIG_JSON"] {
        options.env.set(other, "");
    }
    options.env.set(INLINE_VAR, json!({ ONCE: entry }).to_string());
    let mut loaded = load(&options);
    loaded.servers.entries.retain(|entry| entry.id.as_str() == ONCE);
    loaded.servers.pending.clear();
    // What is wrong with the sources of this run is told all the same.
    loaded.servers.issues.clone_from(&ctx.loaded.servers.issues);
    // The server itself must see the environment as it is.
    options.env = ctx.options.env.clone();
    ctx.once(options, loaded, stand_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{EntryState, TransportSpec};

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_name_a_url_or_a_command_is_a_server() {
        let home = tempfile::tempdir().unwrap();
        let file = r#"{"mcpServers":{"mine":{"command":"x"},"once":{"command":"other"}}}"#;
        std::fs::write(home.path().join("mcp.json"), file).unwrap();
        std::fs::write(home.path().join(".mcp.json"), r#"{"mcpServers":{"once":{"command":"theirs"}}}"#)
            .unwrap();
        let ctx = Ctx::for_test(home.path(), &[("SEEN", "yes"), ("CALLBOARD_MCP_SERVERS", "{}")]);

        let named = pick(&ctx, Some("mine"), &[]).unwrap();
        assert!(!named.once && named.ctx.once.is_none() && named.server.as_str() == "mine");

        for (word, command) in [(Some("https://example.com/mcp"), &[][..]), (None, &["tool", "$HOME"][..])] {
            let once = pick(&ctx, word, &words(command)).unwrap();
            assert!(once.once && once.ctx.once.is_some());
            let entries = &once.ctx.loaded.servers.entries;
            assert_eq!(entries.len(), 1, "nobody else runs");
            let EntryState::Ready(spec) = &entries[0].state else { panic!("{:?}", entries[0]) };
            match &spec.transport {
                TransportSpec::Http { url, .. } => assert_eq!(url.reveal(), "https://example.com/mcp"),
                TransportSpec::Stdio { command, args, .. } => {
                    assert_eq!((command.as_str(), args[0].reveal()), ("tool", "$HOME"));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(once.ctx.options.env.get("SEEN"), Some("yes"));
            assert_eq!(
                once.ctx.options.env.get("CALLBOARD_MCP_SERVERS"),
                Some("{}"),
                "the server sees no trick"
            );
        }
    }

    #[test]
    fn none_and_both_are_usage_errors() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        for (word, command) in
            [(None, &[][..]), (Some("name"), &["cmd"][..]), (Some("https://x"), &["cmd"][..])]
        {
            let failure = pick(&ctx, word, &words(command)).unwrap_err();
            assert_eq!(failure.code, "usage", "{word:?} {command:?}");
            assert!(failure.fix.is_some());
        }
    }

    #[test]
    fn what_looks_like_an_address_is_no_name() {
        let home = tempfile::tempdir().unwrap();
        let file = r#"{"mcpServers":{"localhost:1":{"command":"x"}}}"#;
        std::fs::write(home.path().join("mcp.json"), file).unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        for (word, meant) in
            [("localhost:2/mcp", "http://localhost:2/mcp"), ("ftp://h", "http:// or https://")]
        {
            let failure = pick(&ctx, Some(word), &[]).unwrap_err();
            assert_eq!(failure.code, "usage");
            assert!(failure.fix.as_ref().is_some_and(|fix| fix.contains(meant)), "{failure:?}");
        }
        assert!(pick(&ctx, Some("localhost:1"), &[]).is_ok(), "a configured name is one");
    }

    #[test]
    fn what_was_typed_is_not_expanded_again() {
        assert_eq!(literal("$HOME ${X} $$"), "$$HOME $${X} $$$$");
    }
}
