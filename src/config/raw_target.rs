//! Floor 1. The part of an entry that says how to reach its server: `command` or `url`, and
//! what belongs to each. Called by `config::raw`.

use super::expand;
use super::fields::Fields;
use super::issue::{IssueCode, Severity};
use super::raw::RawTarget;
use super::suggest;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Stdio,
    Http,
    Sse,
}

/// Reads the target; `None` with an issue, or for an entry that only turns a name off.
pub(super) fn read(fields: &mut Fields<'_>, disabled: bool) -> Option<RawTarget> {
    const WORDS: [(&str, Wanted); 5] = [
        ("stdio", Wanted::Stdio),
        ("http", Wanted::Http),
        ("streamable-http", Wanted::Http),
        ("streamableHttp", Wanted::Http),
        ("sse", Wanted::Sse),
    ];
    let wanted = fields.word("transport", &WORDS);
    match (fields.has("command"), fields.has("url")) {
        (true, true) => {
            let fix = "keep \"command\" for a program, or \"url\" for an address";
            fields.error(
                IssueCode::Conflict,
                "url",
                "stands beside \"command\"; exactly one of them is allowed",
                Some(fix),
            );
            None
        }
        (false, false) => {
            if !disabled {
                fields.report(
                    IssueCode::Missing,
                    Severity::Error,
                    "",
                    "has neither \"command\" nor \"url\"",
                    Some("write \"command\" for a program, or \"url\" for an address".into()),
                );
            }
            None
        }
        (true, false) => {
            if matches!(wanted, Some(Wanted::Http | Wanted::Sse)) {
                fields.error(
                    IssueCode::Conflict,
                    "transport",
                    "an address is wanted, but \"command\" is given",
                    Some("write \"url\""),
                );
            }
            read_stdio(fields)
        }
        (false, true) => {
            if wanted == Some(Wanted::Stdio) {
                fields.error(
                    IssueCode::Conflict,
                    "transport",
                    "a program is wanted, but \"url\" is given",
                    Some("write \"command\""),
                );
            }
            read_http(fields, wanted == Some(Wanted::Sse))
        }
    }
}

fn read_stdio(fields: &mut Fields<'_>) -> Option<RawTarget> {
    for useless in ["headers", "bearer_token_env", "oauth"] {
        if fields.has(useless) {
            fields.warn(IssueCode::Conflict, useless, "has no effect on a program", Some("use \"env\""));
        }
    }
    let command = fields.text("command");
    let args = fields.texts("args");
    let env = fields.pairs("env");
    let cwd = fields.text("cwd");
    if let Some(command) = &command {
        if command.trim().is_empty() {
            fields.error(IssueCode::Value, "command", "is empty", Some("name a program"));
        } else if args.is_none() && command.contains(' ') && !command.contains(['/', '\\']) {
            fields.warn(
                IssueCode::Value,
                "command",
                "has a space in it; it is taken as one program name",
                Some("move what follows the program into \"args\""),
            );
        }
        check_expansion(fields, "command", command);
    }
    for (index, arg) in args.iter().flatten().enumerate() {
        check_expansion(fields, &format!("args[{index}]"), arg);
    }
    for (name, value) in env.iter().flatten() {
        let at = suggest::join("env", name);
        if name.is_empty() || name.contains(['=', '\0']) {
            fields.report(IssueCode::Value, Severity::Error, &at, "can't be the name of a variable", None);
        }
        check_expansion(fields, &at, value);
    }
    if let Some(cwd) = &cwd {
        check_expansion(fields, "cwd", cwd);
    }
    Some(RawTarget::Stdio {
        command: command?,
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default(),
        cwd,
    })
}

fn read_http(fields: &mut Fields<'_>, sse: bool) -> Option<RawTarget> {
    for useless in ["args", "env", "cwd", "env_passthrough", "sandbox", "allowHostProcess"] {
        if fields.has(useless) {
            fields.warn(IssueCode::Conflict, useless, "has no effect on an address", None);
        }
    }
    if fields.has("oauth") {
        fields.warn(
            IssueCode::NotYet,
            "oauth",
            "logging in is not available yet; ignored",
            Some("use \"bearer_token_env\""),
        );
    }
    if sse {
        fields.warn(
            IssueCode::NotYet,
            "transport",
            "the old HTTP+SSE transport is not spoken yet; the server will not start",
            Some("write \"http\" if the server speaks Streamable HTTP"),
        );
    }
    let url = fields.text("url");
    let headers = fields.pairs("headers");
    let bearer_token_env = fields.text("bearer_token_env");
    if let Some(url) = &url {
        check_expansion(fields, "url", url);
    }
    for (name, value) in headers.iter().flatten() {
        check_expansion(fields, &suggest::join("headers", name), value);
    }
    if bearer_token_env.as_deref().is_some_and(|name| !expand::is_variable_name(name)) {
        let fix = "write the name of the variable that holds the token";
        fields.error(IssueCode::Value, "bearer_token_env", "is not the name of a variable", Some(fix));
    }
    Some(RawTarget::Http { url: url?, headers: headers.unwrap_or_default(), bearer_token_env, sse })
}

fn check_expansion(fields: &mut Fields<'_>, within: &str, text: &str) {
    if let Err(error) = expand::check(text) {
        fields.report(IssueCode::Reference, Severity::Error, within, error.to_string(), Some(error.fix()));
    }
}
