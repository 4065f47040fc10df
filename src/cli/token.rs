//! Floor 5. `token add NAME`, `token list`, `token rm NAME`: who else may use the host over HTTP. A
//! token is shown once, when it is made; kept is its hash. Called by `cli::run`.

use serde::Serialize;

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::out::Answer;
use super::table::{Column, Field, table};
use super::token_args::{TokenAdd, TokenRm, TokenVerb};
use crate::config::mode::Mode;
use crate::serve::Globs;
use crate::serve::tokens::{self, TokenEntry, TokenError, TokenRate, TokenTerms};

const ADD: &str = "callboard.token_add/1";
const LIST: &str = "callboard.token_list/1";
const RM: &str = "callboard.token_rm/1";

#[derive(Serialize)]
struct AddView {
    name: String,
    token: String,
    path: String,
}

#[derive(Serialize)]
struct TokenView {
    name: String,
    only: Vec<String>,
    rate: Option<u32>,
    mode: Option<String>,
    created: String,
    expires: Option<String>,
    expired: bool,
}

#[derive(Serialize)]
struct ListView {
    path: String,
    tokens: Vec<TokenView>,
}

#[derive(Serialize)]
struct RmView {
    name: String,
    path: String,
}

/// Name and version of the shape that a verb answers with.
pub fn schema(verb: &TokenVerb) -> &'static str {
    match verb {
        TokenVerb::Add(_) => ADD,
        TokenVerb::List => LIST,
        TokenVerb::Rm(_) => RM,
    }
}

/// Runs a verb.
pub fn token(ctx: &Ctx, verb: &TokenVerb) -> Result<Answer, Failure> {
    match verb {
        TokenVerb::Add(args) => add(ctx, args),
        TokenVerb::List => list(ctx),
        TokenVerb::Rm(args) => rm(ctx, args),
    }
}

fn add(ctx: &Ctx, args: &TokenAdd) -> Result<Answer, Failure> {
    let home = ctx.home()?;
    Globs::new(args.only.iter().map(String::as_str)).map_err(Failure::usage)?;
    let now = crate::time::wall();
    let terms = TokenTerms {
        only: args.only.clone(),
        rate: args.rate.map(|per_second| TokenRate { per_second, burst: 0 }),
        mode: args.mode.as_deref().and_then(Mode::parse),
        expires: args.expires.and_then(|time| now.checked_add(time)),
    };
    let token = tokens::add(home, &args.name, &terms, now).map_err(|error| failed(&error))?;
    let path = tokens::file(home).display().to_string();
    let human = format!(
        "{token}\n\nThis is the only time that it is shown. Clients send it as a header:\n  \
         Authorization: Bearer {token}"
    );
    Answer::new(ADD, &AddView { name: args.name.clone(), token, path }, human)
}

fn list(ctx: &Ctx) -> Result<Answer, Failure> {
    let home = ctx.home()?;
    let now = crate::time::rfc3339(crate::time::wall());
    let known = tokens::read(home).map_err(|error| failed(&error))?;
    let view = |token: TokenEntry| TokenView {
        // Both are RFC 3339 in UTC of one length, so their order is that of the times.
        expired: token.expires.as_ref().is_some_and(|until| *until <= now),
        rate: token.rate.map(|rate| rate.per_second),
        name: token.name,
        only: token.only,
        mode: token.mode,
        created: token.created,
        expires: token.expires,
    };
    let all: Vec<TokenView> = known.into_iter().map(view).collect();
    let human = if all.is_empty() {
        "No tokens. `callboard token add NAME` makes one.".to_owned()
    } else {
        list_text(ctx, &all)
    };
    Answer::new(LIST, &ListView { path: tokens::file(home).display().to_string(), tokens: all }, human)
}

fn list_text(ctx: &Ctx, all: &[TokenView]) -> String {
    let columns = [
        Column::wide("token", 8),
        Column::wide("only", 8),
        Column::text("rate"),
        Column::text("mode"),
        Column::text("expires"),
    ];
    let row = |token: &TokenView| {
        let until = match (&token.expires, token.expired) {
            (Some(until), true) => format!("{until} (over)"),
            (Some(until), false) => until.clone(),
            (None, _) => "-".to_owned(),
        };
        vec![
            Field::new(token.name.as_str()),
            Field::new(if token.only.is_empty() {
                "all".to_owned()
            } else {
                ctx.clean(&token.only.join(" "))
            }),
            Field::new(token.rate.map_or("-".to_owned(), |rate| format!("{rate}/s"))),
            Field::new(token.mode.as_deref().unwrap_or("-")),
            Field::new(until),
        ]
    };
    table(&columns, &all.iter().map(row).collect::<Vec<_>>(), ctx.style())
}

fn rm(ctx: &Ctx, args: &TokenRm) -> Result<Answer, Failure> {
    let home = ctx.home()?;
    if let Err(error) = tokens::remove(home, &args.name) {
        let TokenError::Unknown(name) = &error else { return Err(failed(&error)) };
        let known = tokens::read(home).map_err(|error| failed(&error))?;
        return Err(failed(&error).fix(match nearest(name, known.iter().map(|token| token.name.as_str())) {
            Some(near) => format!("did you mean {near}? `callboard token list` shows all names"),
            None => "`callboard token list` shows the names".to_owned(),
        }));
    }
    let path = tokens::file(home).display().to_string();
    let human = format!("Removed {} from {path}; a running host ends its sessions.", args.name);
    Answer::new(RM, &RmView { name: args.name.clone(), path }, human)
}

fn failed(error: &TokenError) -> Failure {
    let text = error.to_string();
    match error {
        TokenError::BadName(_) => Failure::usage(text),
        TokenError::Taken(name) => Failure::new("token_exists", Exit::Refused, text)
            .fix(format!("callboard token rm {name}, or take another name")),
        TokenError::Unknown(_) => Failure::new("unknown_token", Exit::NotFound, text),
        TokenError::Full => Failure::new("too_many_tokens", Exit::Refused, text),
        TokenError::Store(_) | TokenError::Exposed(_) | TokenError::Broken(..) | TokenError::NoChance(_) => {
            Failure::new("config_store", Exit::Config, text)
        }
    }
}
