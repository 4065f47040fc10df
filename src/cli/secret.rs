//! Floor 5. `secret set NAME`, `secret list`, `secret rm NAME`: the file that `${secret:NAME}`
//! reads. A value is typed where nobody sees it, or piped in; it is never shown, and never taken
//! from the command line. Called by `cli::run`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::ask;
use super::call_args::ReadText;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::out::Answer;
use super::secret_args::{SecretRm, SecretSet};
use super::table::{Column, Field, table};
use super::text::quoted;
use crate::config::expand::is_secret_name;
use crate::config::secret_store::{self, SecretStoreError};
use crate::config::secret_uses::{Use, uses};
use crate::config::spec::SecretText;

/// Names and versions of the shapes of the answers.
pub const SET: &str = "callboard.secret_set/1";
/// See [`SET`].
pub const LIST: &str = "callboard.secret_list/1";
/// See [`SET`].
pub const RM: &str = "callboard.secret_rm/1";

/// Places that a refusal names; more are counted.
const PLACES_MAX: usize = 3;

#[derive(Serialize)]
struct UseView {
    server: String,
    key: String,
    source: String,
}

#[derive(Serialize)]
struct SecretView {
    name: String,
    stored: bool,
    used_by: Vec<UseView>,
}

#[derive(Serialize)]
struct ChangeView {
    name: String,
    path: String,
    replaced: bool,
    used_by: Vec<UseView>,
}

#[derive(Serialize)]
struct ListView {
    path: String,
    secrets: Vec<SecretView>,
}

fn views(places: Option<&Vec<Use>>) -> Vec<UseView> {
    let view = |place: &Use| UseView {
        server: place.server.clone(),
        key: place.key.clone(),
        source: place.source.clone(),
    };
    places.into_iter().flatten().map(view).collect()
}

/// Names and keys of places, the first of them.
fn places_text(ctx: &Ctx, places: &[UseView]) -> String {
    let shown = places.iter().take(PLACES_MAX).map(|place| format!("{} ({})", place.server, place.key));
    let mut text = ctx.clean(&shown.collect::<Vec<_>>().join(", "));
    if places.len() > PLACES_MAX {
        text.push_str(&format!(" and {} more", places.len() - PLACES_MAX));
    }
    text
}

/// `secret set NAME`
pub fn set(ctx: &Ctx, args: &SecretSet, read: &mut dyn ReadText) -> Result<Answer, Failure> {
    if !args.extra.is_empty() {
        return Err(Failure::usage(
            "the value does not belong on the command line: the shell keeps it, and others can see it",
        )
        .fix("callboard secret set NAME asks for it; or pipe it in"));
    }
    let name = named(&args.name)?;
    let home = ctx.home()?;
    let known = stored(home)?;
    let value = value(ctx, name, read)?;
    secret_store::set(home, name, &SecretText::new(value)).map_err(|error| broken(home, &error))?;
    let path = secret_store::file(home).display().to_string();
    let used_by = views(uses(&ctx.loaded.definitions).get(name));
    let replaced = known.contains_key(name);
    let mut human = format!("{} {name} in {path}", if replaced { "Replaced" } else { "Stored" });
    human.push_str(&match used_by.as_slice() {
        [] => format!("\nNothing reads it yet: write ${{secret:{name}}} in the entry of a server."),
        places => format!("\nRead by {}.", places_text(ctx, places)),
    });
    let view = ChangeView { name: name.to_owned(), path, replaced, used_by };
    Answer::new(SET, &view, human)
}

/// `secret list`
pub fn list(ctx: &Ctx) -> Result<Answer, Failure> {
    let home = ctx.home()?;
    let known = stored(home)?;
    let uses = uses(&ctx.loaded.definitions);
    let mut names: Vec<&String> = known.keys().chain(uses.keys()).collect();
    names.sort();
    names.dedup();
    let secrets: Vec<SecretView> = names
        .into_iter()
        .map(|name| SecretView {
            name: name.clone(),
            stored: known.contains_key(name),
            used_by: views(uses.get(name)),
        })
        .collect();
    let path = secret_store::file(home).display().to_string();
    let human = if secrets.is_empty() {
        "No secrets. `callboard secret set NAME` stores one.".to_owned()
    } else {
        list_text(ctx, &secrets)
    };
    let missing = secrets.iter().filter(|secret| !secret.stored);
    let warnings: Vec<String> = missing
        .map(|secret| {
            let places = places_text(ctx, &secret.used_by);
            format!("{} is not stored, and read by {places}: callboard secret set {0}", secret.name)
        })
        .collect();
    Ok(Answer::new(LIST, &ListView { path, secrets }, human)?.warn(warnings))
}

fn list_text(ctx: &Ctx, secrets: &[SecretView]) -> String {
    let columns = [Column::wide("secret", 8), Column::text("stored"), Column::wide("read by", 16)];
    let rows: Vec<Vec<Field>> = secrets
        .iter()
        .map(|secret| {
            vec![
                Field::new(secret.name.as_str()),
                Field::new(if secret.stored { "yes" } else { "no" }),
                Field::new(places_text(ctx, &secret.used_by)),
            ]
        })
        .collect();
    table(&columns, &rows, ctx.style())
}

/// `secret rm NAME`
pub fn rm(ctx: &Ctx, args: &SecretRm) -> Result<Answer, Failure> {
    let name = named(&args.name)?;
    let home = ctx.home()?;
    let known = stored(home)?;
    if !known.contains_key(name) {
        let failure = Failure::new("unknown_secret", Exit::NotFound, format!("no secret is called {name}"));
        return Err(failure.fix(match nearest(name, known.keys().map(String::as_str)) {
            Some(near) => format!("did you mean {near}? `callboard secret list` shows all names"),
            None => "`callboard secret list` shows the names".to_owned(),
        }));
    }
    let used_by = views(uses(&ctx.loaded.definitions).get(name));
    if !used_by.is_empty() && !args.force {
        let places = places_text(ctx, &used_by);
        let message = format!("{name} is read by {places}, which could not start without it");
        return Err(Failure::new("secret_in_use", Exit::Refused, message)
            .fix("take ${secret:…} out of these entries first, or remove it all the same with --force"));
    }
    secret_store::remove(home, name).map_err(|error| broken(home, &error))?;
    let path = secret_store::file(home).display().to_string();
    let mut human = format!("Removed {name} from {path}");
    if !used_by.is_empty() {
        human.push_str(&format!("\nRead by {}, which can't start without it.", places_text(ctx, &used_by)));
    }
    let view = ChangeView { name: name.to_owned(), path, replaced: false, used_by };
    Answer::new(RM, &view, human)
}

fn named(name: &str) -> Result<&str, Failure> {
    if is_secret_name(name) {
        return Ok(name);
    }
    Err(Failure::usage(format!("{} can't name a secret", quoted(name)))
        .fix("use up to 128 letters, digits, and _ - . /"))
}

fn stored(home: &Path) -> Result<BTreeMap<String, SecretText>, Failure> {
    secret_store::read(home).map_err(|error| broken(home, &error))
}

fn broken(home: &Path, error: &SecretStoreError) -> Failure {
    let path = secret_store::file(home);
    let path = path.display();
    let failure = Failure::new("config_store", Exit::Config, format!("{path}: {error}"));
    failure.fix(match error {
        SecretStoreError::Exposed(_) => format!("chmod 600 {path}"),
        SecretStoreError::Broken(_) => format!("repair or delete {path}"),
        SecretStoreError::BadName(_) => "use letters, digits, and _ - . /".to_owned(),
        SecretStoreError::Store(_) => "check the path, its permissions and the free space".to_owned(),
    })
}

/// The value: typed without echo, or the one line that was piped in.
fn value(ctx: &Ctx, name: &str, read: &mut dyn ReadText) -> Result<String, Failure> {
    let text = if ctx.term.stdin {
        if !ctx.term.can_ask() {
            return Err(Failure::usage("the value is asked for on stderr, and stderr is no terminal")
                .fix("run it on a terminal, or pipe the value in"));
        }
        ask::hidden(&format!("Value of {name} (not shown)"))?
    } else {
        read.stdin().map_err(|error| Failure::usage(format!("can't read the value from stdin: {error}")))?
    };
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    let flaw = match value {
        "" => "the value is empty",
        value if value.contains(['\n', '\r']) => "the value has more than one line",
        value if value.contains(|c: char| c.is_control() && c != '\t') => {
            "the value has a character that can't be seen"
        }
        value => return Ok(value.to_owned()),
    };
    Err(Failure::usage(format!("{flaw}; nothing was stored")).fix("give the value as one line of text"))
}

#[cfg(test)]
mod tests;
