//! Floor 5. What clap refuses, told in our words: the same error and fix lines, and
//! the same JSON, as every other failure. Also the words that belong to Callboard
//! but not to this version. Pure. Called by `cli::main`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::exit::Exit;
use super::failure::Failure;

/// Verbs that this version does not have.
const LATER_VERBS: [&str; 4] = ["agent", "console", "login", "logout"];

/// Options that this version does not have.
const LATER_OPTIONS: [&str; 1] = ["--profile"];

/// What to do with a command line that clap did not take.
#[derive(Debug)]
pub enum Refused {
    /// Help or version was asked for: this text, on stdout.
    Help(String),
    /// The verb is missing: this help, on stderr, with exit 2.
    Missing(String),
    /// A failure.
    Failure(Failure),
}

/// Sorts out clap's refusal. `colored` is for the help text.
pub fn refused(error: &clap::Error, colored: bool) -> Refused {
    let text = |e: &clap::Error| {
        let rendered = e.render();
        if colored { rendered.ansi().to_string() } else { rendered.to_string() }
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Refused::Help(text(error)),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Refused::Missing(text(error)),
        _ => Refused::Failure(failure(error)),
    }
}

/// The same as [`Refused::Missing`] for scripts.
pub fn missing_verb() -> Failure {
    Failure::usage("a verb is missing").fix("`--help` shows the verbs with examples")
}

fn failure(error: &clap::Error) -> Failure {
    if let Some(word) = later_word(error) {
        return Failure::new(
            "not_in_this_version",
            Exit::Usage,
            format!("`{word}` is not part of this version of Callboard"),
        )
        .fix("`callboard --help` and `callboard mcp --help` show what there is");
    }
    if let (ErrorKind::MissingRequiredArgument, Some(missing)) =
        (error.kind(), error.get(ContextKind::InvalidArg).map(texts))
    {
        return Failure::usage(format!("{} is missing", missing.join(" "))).fix(fix(error));
    }
    let rendered = error.render().to_string();
    let mut message = String::new();
    for line in rendered.lines().take_while(|line| !line.trim().is_empty()) {
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(line.trim().trim_start_matches("error: ").trim_end_matches(':'));
    }
    if message.is_empty() {
        message.push_str("this command line can't be understood");
    }
    Failure::usage(message).fix(fix(error))
}

fn fix(error: &clap::Error) -> String {
    let suggestion =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue]
            .into_iter()
            .find_map(|kind| first_text(error.get(kind)?));
    if let Some(word) = suggestion {
        return format!("did you mean `{word}`? `--help` shows the form with examples");
    }
    match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => {
            let usage = usage.to_string();
            let line = usage.trim().trim_start_matches("Usage:").trim().lines().next().unwrap_or_default();
            format!("write `{}`; `--help` shows examples", line.trim())
        }
        _ => "`--help` shows the form with examples".to_owned(),
    }
}

fn texts(value: &ContextValue) -> Vec<String> {
    match value {
        ContextValue::String(text) => vec![text.clone()],
        ContextValue::Strings(texts) => texts.clone(),
        ContextValue::StyledStr(text) => vec![text.to_string()],
        _ => Vec::new(),
    }
}

fn first_text(value: &ContextValue) -> Option<String> {
    texts(value).into_iter().next()
}

/// The word that is not part of this version, if that is what was refused.
fn later_word(error: &clap::Error) -> Option<String> {
    let (kind, words): (_, Vec<&str>) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, LATER_VERBS.to_vec()),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, LATER_OPTIONS.to_vec()),
        _ => return None,
    };
    let word = first_text(error.get(kind)?)?;
    let bare = word.split(['=', ' ']).next().unwrap_or_default();
    words.contains(&bare).then(|| bare.to_owned())
}

/// Whether `--json` stands among the options, before any `--`.
pub fn wants_json(argv: &[OsString]) -> bool {
    argv.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Whether `--no-color` stands among the options, before any `--`.
pub fn wants_no_color(argv: &[OsString]) -> bool {
    argv.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--no-color")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::Parser;

    fn refuse(words: &[&str]) -> Failure {
        let argv = ["callboard"].iter().chain(words);
        let error = Cli::try_parse_from(argv).expect_err("clap took it");
        match refused(&error, false) {
            Refused::Failure(failure) => failure,
            other => panic!("help instead of a failure: {other:?}"),
        }
    }

    #[test]
    fn a_misspelt_verb_gets_the_one_that_was_meant() {
        let failure = refuse(&["mcp", "sttus"]);
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("sttus"), "{}", failure.message);
        assert!(failure.fix.unwrap().contains("did you mean `status`?"));
    }

    #[test]
    fn a_missing_word_shows_the_form() {
        let failure = refuse(&["mcp", "get"]);
        assert_eq!(failure.message, "<SERVER> is missing");
        assert!(failure.fix.unwrap().contains("callboard mcp get"));
    }

    #[test]
    fn words_of_later_versions_are_named_as_such() {
        for words in [
            &["mcp", "login", "git"][..],
            &["agent"],
            &["console", "--no-color"],
            &["--profile", "x"],
            &["mcp", "status", "--profile=x"],
        ] {
            let failure = refuse(words);
            assert_eq!(failure.code, "not_in_this_version", "{words:?}: {}", failure.message);
            assert_eq!(failure.exit, Exit::Usage);
        }
    }

    #[test]
    fn no_word_of_a_later_version_is_advertised() {
        use clap::CommandFactory;
        let top = Cli::command();
        let mcp = top.find_subcommand("mcp").unwrap();
        for verb in LATER_VERBS {
            assert!(top.find_subcommand(verb).is_none(), "{verb}");
            assert!(mcp.find_subcommand(verb).is_none(), "{verb}");
        }
    }

    #[test]
    fn json_is_seen_even_when_the_rest_is_wrong() {
        let argv = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&argv(&["callboard", "mcp", "sttus", "--json"])));
        assert!(!wants_json(&argv(&["callboard", "mcp", "add", "x", "--", "tool", "--json"])));
    }
}
