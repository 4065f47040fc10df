//! Floor 5. What `add` was given becomes one entry: the forms of Callboard
//! (`NAME -- CMD…`, `NAME URL`) and of its forerunners (`NAME stdio|http …`). Pure.
//! Used by `edit`.

use std::ffi::OsString;

use clap::Parser;
use serde_json::{Map, Value};

use super::address::{self, is_url};
use super::edit_args::{AddArgs, AddOptions, EditScope};
use super::failure::Failure;
use super::text::quoted;

/// An entry to write.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// Name of the server.
    pub name: String,
    /// Which file.
    pub scope: EditScope,
    /// Whether an entry of that name may be replaced.
    pub force: bool,
    /// The entry, without the values that are still to be asked for.
    pub entry: Map<String, Value>,
    /// Variables whose value is to be asked for and kept as a secret.
    pub ask: Vec<String>,
}

/// How the server is reached.
#[derive(Debug, PartialEq)]
enum Target {
    Command(Vec<String>),
    Url(String),
}

/// Reads the words of `add`. `argv` is the whole command line: it tells whether a `--` stood
/// before the command.
pub fn plan(args: AddArgs, argv: &[OsString]) -> Result<Plan, Failure> {
    let dashed = dashes_before(&args.rest, argv);
    let (target, options) = target(args.rest, args.options, dashed)?;
    let mut ask = Vec::new();
    let entry = entry(target, &options, &mut ask)?;
    let scope = options.scope.unwrap_or_default();
    Ok(Plan { name: args.name, scope, force: options.force, entry, ask })
}

/// Whether the words that end the command line were set off by `--`.
fn dashes_before(rest: &[String], argv: &[OsString]) -> bool {
    let before = argv.len().checked_sub(rest.len() + 1);
    !rest.is_empty() && before.and_then(|i| argv.get(i)).is_some_and(|word| word == "--")
}

fn target(rest: Vec<String>, options: AddOptions, dashed: bool) -> Result<(Target, AddOptions), Failure> {
    let Some((first, more)) = rest.split_first() else {
        return Err(Failure::usage("neither a command nor a URL is given")
            .fix("write `callboard mcp add NAME -- COMMAND…` or `callboard mcp add NAME URL`"));
    };
    if first.starts_with('-') {
        return Err(Failure::usage(format!("{} stands where a command should be", quoted(first)))
            .fix("write `callboard mcp add NAME -- COMMAND…`; options of `add` stand before the `--`"));
    }
    if dashed {
        return Ok((Target::Command(rest), options));
    }
    if more.first().is_some_and(|word| word == "--") {
        return Err(Failure::usage(format!("{} stands between the name and the `--`", quoted(first))).fix(
            "a name is one word, and the command follows the `--`: `callboard mcp add NAME -- COMMAND…`",
        ));
    }
    match first.as_str() {
        "stdio" => {
            let (command, options) = trailing_project(more, options);
            if command.is_empty() {
                return Err(Failure::usage("a command is missing after `stdio`")
                    .fix("write `callboard mcp add NAME stdio COMMAND…`"));
            }
            Ok((Target::Command(command), options))
        }
        "http" => {
            let (more, options) = trailing_project(more, options);
            let Some((url, flags)) = more.split_first() else {
                return Err(Failure::usage("a URL is missing after `http`")
                    .fix("write `callboard mcp add NAME http URL`"));
            };
            reject_mistaken(url, "")?;
            Ok((Target::Url(url.clone()), merge_flags(options, flags)?))
        }
        url if is_url(url) => Ok((Target::Url(first.clone()), merge_flags(options, more)?)),
        word => {
            reject_mistaken(word, "; a command of that name follows a `--`")?;
            Ok((Target::Command(rest), options))
        }
    }
}

/// What looks like an address and is none must not be taken for a command, or be written down.
fn reject_mistaken(word: &str, or_else: &str) -> Result<(), Failure> {
    match address::mistaken(word) {
        Some(told) => {
            let fix = format!("{}{or_else}", told.fix("callboard mcp add NAME"));
            Err(Failure::usage(told.message).fix(fix))
        }
        None => Ok(()),
    }
}

/// One `--project` at the very end means the project's file; everything before it is verbatim.
fn trailing_project(words: &[String], mut options: AddOptions) -> (Vec<String>, AddOptions) {
    match words.split_last() {
        Some((last, before)) if last == "--project" => {
            options.scope = Some(EditScope::Project);
            (before.to_vec(), options)
        }
        _ => (words.to_vec(), options),
    }
}

#[derive(Parser)]
#[command(name = "callboard mcp add", no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    options: AddOptions,
}

/// Options may also stand after a URL.
fn merge_flags(mut options: AddOptions, flags: &[String]) -> Result<AddOptions, Failure> {
    let after = Flags::try_parse_from(flags).map_err(|e| {
        let text = e.render().to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::usage(line).fix("put the options before the URL; a command goes after `--`")
    })?;
    let after = after.options;
    options.scope = after.scope.or(options.scope);
    options.env.extend(after.env);
    options.header.extend(after.header);
    options.trust = after.trust.or(options.trust);
    options.cwd = after.cwd.or(options.cwd);
    options.force |= after.force;
    Ok(options)
}

fn entry(target: Target, options: &AddOptions, ask: &mut Vec<String>) -> Result<Map<String, Value>, Failure> {
    let mut entry = Map::new();
    match target {
        Target::Command(words) => {
            if !options.header.is_empty() {
                return Err(Failure::usage("a command has no headers")
                    .fix("use `-e K=V` for its environment, or give a URL"));
            }
            let mut words = words.into_iter();
            entry.insert("command".into(), words.next().unwrap_or_default().into());
            let args: Vec<Value> = words.map(Value::from).collect();
            if !args.is_empty() {
                entry.insert("args".into(), args.into());
            }
            let env = env(&options.env, ask)?;
            if !env.is_empty() {
                entry.insert("env".into(), env.into());
            }
            if let Some(cwd) = &options.cwd {
                entry.insert("cwd".into(), cwd.clone().into());
            }
        }
        Target::Url(url) => {
            if !options.env.is_empty() || options.cwd.is_some() {
                return Err(Failure::usage("a URL has neither an environment nor a folder")
                    .fix("use `-H K=V` for its headers, or give a command after `--`"));
            }
            entry.insert("type".into(), "http".into());
            entry.insert("url".into(), url.into());
            let headers = headers(&options.header)?;
            if !headers.is_empty() {
                entry.insert("headers".into(), headers.into());
            }
        }
    }
    if let Some(trust) = options.trust {
        entry.insert("trust".into(), trust.as_str().into());
    }
    Ok(entry)
}

fn env(words: &[String], ask: &mut Vec<String>) -> Result<Map<String, Value>, Failure> {
    let mut env = Map::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                ask.push(word.clone());
                (word.as_str(), format!("${{secret:{word}}}"))
            }
        };
        let fine = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !fine {
            return Err(Failure::usage(format!("{} is no name of a variable", quoted(name)))
                .fix("write `-e NAME=value`"));
        }
        if env.insert(name.to_owned(), value.into()).is_some() {
            return Err(Failure::usage(format!("the variable {} is given twice", quoted(name)))
                .fix("give each variable once"));
        }
    }
    Ok(env)
}

/// `K=V`, or `K: V` as curl writes it: whichever separator comes first.
fn headers(words: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut headers = Map::new();
    for word in words {
        let Some((name, value)) = word.split_once(['=', ':']) else {
            return Err(Failure::usage("a header is written without its value")
                .fix("write `-H 'Name=value'`, and keep secrets in variables: `-H 'Authorization=Bearer ${TOKEN}'`"));
        };
        let name = name.trim();
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return Err(Failure::usage(format!("{} is no name of a header", quoted(name)))
                .fix("write `-H 'Name=value'`"));
        }
        if value.contains(['\r', '\n', '\0']) {
            return Err(Failure::usage(format!("the value of the header {name} has more than one line"))
                .fix("write it on one line"));
        }
        if headers.keys().any(|known: &String| known.eq_ignore_ascii_case(name)) {
            return Err(
                Failure::usage(format!("the header {name} is given twice")).fix("give each header once")
            );
        }
        headers.insert(name.to_owned(), value.trim().into());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command, Mcp};
    use crate::cli::edit_args::TrustArg;
    use serde_json::json;

    fn read(words: &[&str]) -> Result<Plan, Failure> {
        let argv: Vec<OsString> =
            ["callboard", "mcp", "add"].iter().chain(words).map(OsString::from).collect();
        let cli = Cli::try_parse_from(&argv).unwrap_or_else(|e| panic!("{words:?}: {e}"));
        match cli.command {
            Some(Command::Mcp { verb: Mcp::Add(args) }) => plan(args, &argv),
            other => panic!("{other:?}"),
        }
    }

    fn entry(words: &[&str]) -> Value {
        Value::Object(read(words).unwrap_or_else(|f| panic!("{words:?}: {}", f.message)).entry)
    }

    fn refusal(words: &[&str]) -> String {
        let failure = read(words).expect_err("accepted");
        assert!(failure.fix.is_some());
        failure.message
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        assert_eq!(
            entry(&["fs", "--", "npx", "-y", "server", "--project", "--json", "--"]),
            json!({"command": "npx", "args": ["-y", "server", "--project", "--json", "--"]})
        );
        assert_eq!(entry(&["s", "--", "stdio", "x"]), json!({"command": "stdio", "args": ["x"]}));
        assert_eq!(entry(&["s", "--", "http://x"]), json!({"command": "http://x"}));
    }

    #[test]
    fn a_url_may_be_followed_by_options() {
        let want =
            json!({"type": "http", "url": "https://h/mcp", "headers": {"A-B": "c=d"}, "trust": "trusted"});
        assert_eq!(entry(&["d", "-H", "A-B=c=d", "--trust", "trusted", "https://h/mcp"]), want);
        assert_eq!(entry(&["d", "https://h/mcp", "-H", "A-B: c=d", "--trust", "trusted"]), want);
        assert_eq!(read(&["d", "https://h/mcp", "-s", "project"]).unwrap().scope, EditScope::Project);
        assert!(refusal(&["d", "https://h/mcp", "more"]).contains("more"));
    }

    #[test]
    fn the_forms_of_the_forerunners_work() {
        let plan = read(&["t", "stdio", "uvx", "time", "--project"]).unwrap();
        assert_eq!(plan.scope, EditScope::Project);
        assert_eq!(Value::Object(plan.entry), json!({"command": "uvx", "args": ["time"]}));
        let twice = read(&["t", "stdio", "uvx", "--project", "--project"]).unwrap();
        assert_eq!(
            Value::Object(twice.entry),
            json!({"command": "uvx", "args": ["--project"]}),
            "one is ours"
        );
        let inner = read(&["t", "stdio", "uvx", "--project", "x"]).unwrap();
        assert_eq!(inner.scope, EditScope::User, "only a trailing one is ours");
        let http = read(&["t", "http", "https://h/mcp", "--project"]).unwrap();
        assert_eq!(http.scope, EditScope::Project);
        assert_eq!(Value::Object(http.entry), json!({"type": "http", "url": "https://h/mcp"}));
    }

    #[test]
    fn a_command_without_dashes_is_taken_as_it_stands() {
        assert_eq!(entry(&["fs", "npx", "-y", "x"]), json!({"command": "npx", "args": ["-y", "x"]}));
    }

    #[test]
    fn what_looks_like_an_address_is_no_command() {
        for words in [
            &["x", "ftp://h/x"][..],
            &["x", "http:/h"],
            &["x", "localhost:3000/mcp"],
            &["x", "http", "ftp://h"],
        ] {
            let failure = read(words).unwrap_err();
            assert!(failure.message.contains(words[words.len() - 1]), "{failure:?}");
            assert!(
                failure.fix.is_some_and(|fix| fix.contains("callboard mcp add NAME http://")),
                "{words:?}"
            );
        }
        assert_eq!(entry(&["x", "--", "localhost:3000/mcp"]), json!({"command": "localhost:3000/mcp"}));
    }

    #[test]
    fn a_forgotten_name_or_one_of_two_words_is_noticed() {
        assert!(refusal(&["npx", "-y", "server"]).contains("\"-y\" stands where a command should be"));
        assert!(refusal(&["x", "--", "--header", "A=b"]).contains("\"--header\" stands where"));
        assert!(refusal(&["my", "files", "--", "npx"]).contains("\"files\" stands between the name and"));
        assert_eq!(
            entry(&["x", "npx", "-y", "--", "p"]),
            json!({"command": "npx", "args": ["-y", "--", "p"]})
        );
    }

    #[test]
    fn variables_keep_their_references_and_a_bare_name_is_asked_for() {
        let plan = read(&["g", "-e", "A=${A:-x}", "-e", "TOKEN", "--trust", "read-only", "--", "g"]).unwrap();
        assert_eq!(plan.ask, ["TOKEN"]);
        assert_eq!(
            Value::Object(plan.entry),
            json!({"command": "g", "env": {"A": "${A:-x}", "TOKEN": "${secret:TOKEN}"}, "trust": "read-only"})
        );
        assert_eq!(TrustArg::ReadOnly.as_str(), "read-only");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        assert!(refusal(&["x"]).contains("neither"));
        assert!(refusal(&["x", "stdio"]).contains("missing after `stdio`"));
        assert!(refusal(&["x", "http"]).contains("missing after `http`"));
        assert!(refusal(&["x", "-H", "A=b", "--", "cmd"]).contains("no headers"));
        assert!(refusal(&["x", "-e", "A=b", "https://h"]).contains("neither an environment"));
        assert!(refusal(&["x", "-e", "1A=b", "--", "c"]).contains("no name of a variable"));
        assert!(refusal(&["x", "-e", "A=1", "-e", "A=2", "--", "c"]).contains("given twice"));
        assert!(refusal(&["x", "-H", "Auth", "https://h"]).contains("without its value"));
        assert!(refusal(&["x", "-H", "A b=c", "https://h"]).contains("no name of a header"));
        assert!(refusal(&["x", "-H", "a=1", "-H", "A=2", "https://h"]).contains("given twice"));
    }

    #[test]
    fn a_refusal_never_shows_a_value() {
        for words in [&["x", "-e", "1A=s3cret", "--", "c"][..], &["x", "-H", "s3cret", "https://h"]] {
            let failure = read(words).unwrap_err();
            assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
        }
    }
}
