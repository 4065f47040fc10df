//! Floor 5. `add`, `add-json`, `remove`, `enable`, `disable`: changes one entry of one
//! file and says what it means now. Called by `cli::run`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::add_form::{self, Plan};
use super::ask;
use super::call_args::ReadText;
use super::ctx::Ctx;
use super::edit_args::{AddArgs, AddJsonArgs, EditScope, RemoveArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::out::Answer;
use super::text::quoted;
use crate::config::edit::{Edit, EditError, EditFault, Edited, Target, apply, check};
use crate::config::effective::state_word;
use crate::config::literal::credentials;
use crate::config::load::load;
use crate::config::mask::mask_definition;
use crate::config::spec::{Entry, Issue, IssueCode, SecretText, Severity};
use crate::config::{document, secret_store, suggest};
use crate::id::shell_word;
use crate::shaping::redact::Redactor;

#[derive(Serialize)]
struct EditView<'a> {
    name: &'a str,
    path: String,
    created: bool,
    changed: bool,
    /// The state of the name in the effective configuration now; null when it is gone.
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets_stored: Vec<String>,
}

/// `add`
pub fn add(ctx: &Ctx, args: AddArgs) -> Result<Answer, Failure> {
    let plan = add_form::plan(args, &ctx.argv)?;
    let asking = !plan.ask.is_empty();
    if asking && (!ctx.term.can_ask() || ctx.global.json) {
        let name = &plan.ask[0];
        return Err(Failure::usage(format!(
            "`-e {name}` asks for the value, and there is no terminal to ask on"
        ))
        .fix(format!("write `-e {name}='${{{name}}}'` to read it from the environment at the start")));
    }
    put(ctx, plan)
}

/// `add-json`
pub fn add_json(ctx: &Ctx, args: AddJsonArgs, read: &mut dyn ReadText) -> Result<Answer, Failure> {
    let text = match args.entry.as_str() {
        "-" => read.stdin().map_err(|e| Failure::usage(format!("can't read stdin: {e}")))?,
        text => text.to_owned(),
    };
    let shape = "write one entry, such as '{\"command\":\"uvx\",\"args\":[\"mcp-server-time\"]}'";
    let entry: Map<String, Value> = match serde_json::from_str(text.trim()) {
        Ok(Value::Object(entry)) => entry,
        Ok(_) => return Err(Failure::usage("the entry is not a JSON object").fix(shape)),
        Err(e) => return Err(Failure::usage(format!("the entry is not valid JSON: {e}")).fix(shape)),
    };
    if let Some(flaw) = document::flaws(text.trim()).first() {
        let (what, fix) = match flaw.code {
            IssueCode::Duplicate => ("is written twice; nothing was added", "keep one of them"),
            _ => (flaw.message.as_str(), shape),
        };
        return Err(Failure::usage(format!("{} {what}", quoted(&flaw.path))).fix(fix).on(&args.name));
    }
    if entry.contains_key("mcpServers") || entry.contains_key("servers") {
        return Err(Failure::usage("that is a whole configuration, not one entry").fix(shape));
    }
    put(ctx, Plan { name: args.name, scope: args.scope, force: args.force, entry, ask: Vec::new() })
}

fn target(ctx: &Ctx, scope: EditScope) -> Result<Target, Failure> {
    Ok(match scope {
        EditScope::User => Target::User { home: ctx.home()?.to_path_buf() },
        EditScope::Project => Target::Project { root: ctx.loaded.project_root.clone() },
    })
}

fn put(ctx: &Ctx, plan: Plan) -> Result<Answer, Failure> {
    let target = target(ctx, plan.scope)?;
    let issues = check(&target, &plan.name, &plan.entry);
    if let Some(error) = issues.iter().find(|issue| issue.severity == Severity::Error) {
        return Err(Failure::usage(issue_words(error)).on(&plan.name).fix(
            error.fix.clone().unwrap_or_else(|| "`callboard mcp add --help` shows examples".to_owned()),
        ));
    }
    let home = if plan.ask.is_empty() { None } else { Some(ctx.home()?) };
    let secrets = ask_for(&plan.ask)?;
    let edit = Edit::Put { name: plan.name.clone(), entry: plan.entry.clone(), replace: plan.force };
    let edited = apply(&target, &edit).map_err(|e| failure(&plan.name, e))?;
    for ((name, value), home) in secrets.iter().zip(home.into_iter().cycle()) {
        secret_store::set(home, name, value).map_err(|e| {
            Failure::io(
                Exit::Config,
                format!("{} was added, but its secret {name} was not stored: {e}", plan.name),
            )
            .fix("add it again with --force")
        })?;
    }
    let mut warnings: Vec<String> = issues.iter().map(issue_words).collect();
    warnings.extend(exposed_secrets(plan.scope, &plan.entry));
    let done = Done { name: &plan.name, verb: "added", edited, entry: Some(plan.entry), secrets: plan.ask };
    answer("callboard.add/1", ctx, done, warnings)
}

fn ask_for(names: &[String]) -> Result<Vec<(String, SecretText)>, Failure> {
    names
        .iter()
        .map(|name| {
            let value = ask::hidden(&format!("Value of {name} (not shown)"))?;
            if value.is_empty() {
                return Err(Failure::usage(format!("the value of {name} is empty; nothing was added"))
                    .fix("run it again and type the value"));
            }
            Ok((name.clone(), SecretText::new(value)))
        })
        .collect()
}

fn issue_words(issue: &Issue) -> String {
    let path = suggest::first(&issue.path).1;
    if path.is_empty() { issue.message.clone() } else { format!("{path}: {}", issue.message) }
}

/// A credential that was written out stands in a file in clear. A file of the project is shared,
/// so there it is given away.
fn exposed_secrets(scope: EditScope, entry: &Map<String, Value>) -> Vec<String> {
    let forms = Redactor::default();
    let has_form = |text: &str| forms.text(text) != text;
    let whose = match scope {
        EditScope::User => "",
        EditScope::Project => ", and the project's file is shared",
    };
    let told = |path: String| {
        let (key, name) = path.split_once('.').unwrap_or((path.as_str(), ""));
        let cure = match key {
            "env" => format!(
                "`-e {name}` asks for the value and keeps it apart as ${{secret:{name}}}; `-e {name}='${{{name}}}'` reads it from the environment"
            ),
            "headers" => "write ${VAR} in its place and set that variable, or ${secret:NAME}".to_owned(),
            _ => "write ${VAR} in its place and set that variable".to_owned(),
        };
        format!("{path} looks like a credential and is kept in clear{whose}: {cure}")
    };
    credentials(entry, &has_form).into_iter().map(told).collect()
}

/// Why an entry can't be used.
fn config_error(entry: &Entry) -> Option<&Issue> {
    if state_word(entry) != "config_error" {
        return None;
    }
    entry.issues.iter().find(|issue| issue.severity == Severity::Error)
}

/// A finished edit.
struct Done<'a> {
    name: &'a str,
    verb: &'static str,
    edited: Edited,
    entry: Option<Map<String, Value>>,
    secrets: Vec<String>,
}

fn answer(
    schema: &'static str,
    ctx: &Ctx,
    done: Done<'_>,
    mut warnings: Vec<String>,
) -> Result<Answer, Failure> {
    let now = load(&ctx.options);
    let effective = now.servers.get(done.name);
    let path = done.edited.path.display().to_string();
    let mut human = if done.edited.changed {
        format!("{} {} in {path}", done.verb, done.name)
    } else {
        format!("nothing to do: {} is as wanted in {path}", done.name)
    };
    let state = effective.map(state_word);
    let here = |entry: &&Entry| entry.id.as_str() == done.name && *entry.source.origin == *path;
    let alone = effective.filter(|_| state == Some("pending_approval"));
    let pending = now.servers.pending.iter().chain(alone).any(|entry| here(&entry));
    if pending {
        human.push_str(&format!(
            "\nIt comes from the project and waits for approval: callboard mcp approve {}",
            shell_word(done.name)
        ));
    } else if let Some(error) = effective.filter(here).and_then(config_error) {
        warnings.push(format!("it can't start as it is: {}", issue_words(error)));
    } else if done.verb == "added" {
        human.push_str(&format!("\nTry it: callboard mcp status {}", shell_word(done.name)));
    }
    if let Some(entry) = effective
        && *entry.source.origin != *path
        && !pending
    {
        let what = if done.verb == "removed" { "is still defined in" } else { "is decided by" };
        warnings.push(format!("{} {what} {}", done.name, entry.source));
    }
    let entry_view = done.entry.map(|entry| mask_definition(&Value::Object(entry)));
    let view = EditView {
        name: done.name,
        path,
        created: done.edited.created,
        changed: done.edited.changed,
        state,
        entry: entry_view,
        secrets_stored: done.secrets,
    };
    Ok(Answer::new(schema, &view, human)?.warn(warnings))
}

fn failure(name: &str, error: EditError) -> Failure {
    let message = error.to_string();
    let failure = match error {
        EditError::Fault { fault: EditFault::Exists, .. } => Failure::new("exists", Exit::Usage, message)
            .fix(format!(
                "take another name, or `callboard mcp add --force {} …` to replace it",
                shell_word(name)
            )),
        EditError::Fault { fault: EditFault::Missing, .. } => {
            Failure::new("unknown_server", Exit::NotFound, message).fix("callboard mcp list")
        }
        EditError::Fault { fault: EditFault::BadName(_), .. } => {
            Failure::usage(message).fix("take a name of letters, digits, `-`, `_` and `.`")
        }
        EditError::Fault { fault: EditFault::Broken { .. }, .. } => {
            Failure::config(message).fix("repair the file at that place; nothing was changed")
        }
        EditError::Outside { .. } => Failure::config(message),
        EditError::Store(_) => {
            Failure::io(Exit::Config, message).fix("check the path, its permissions and the free space")
        }
    };
    failure.on(name)
}

/// The files that define `name` and can be edited, weakest first.
fn editable(ctx: &Ctx, name: &str) -> Vec<Target> {
    let (home, root) = (ctx.loaded.home.as_deref().ok(), &ctx.loaded.project_root);
    let defined = ctx.loaded.definitions.iter().filter(|definition| definition.name == name);
    let mut targets: Vec<Target> =
        defined.filter_map(|definition| Target::of_source(&definition.source, home, root)).collect();
    targets.dedup();
    targets
}

/// `remove S [-s SCOPE]`
pub fn remove(ctx: &Ctx, args: &RemoveArgs) -> Result<Answer, Failure> {
    let name = args.server.as_str();
    let mut targets = editable(ctx, name);
    if let Some(scope) = args.scope {
        let user = scope == EditScope::User;
        targets.retain(|target| matches!(target, Target::User { .. }) == user);
        if targets.is_empty() {
            return Err(failure_not_there(ctx, name, &target(ctx, scope)?));
        }
    }
    let target = match targets.as_slice() {
        [] => return Err(not_editable(ctx, name)),
        [one] => one,
        many => {
            let places: Vec<String> = many.iter().map(|t| t.path().display().to_string()).collect();
            return Err(Failure::usage(format!("{name} is defined in {}", places.join(" and in ")))
                .on(name)
                .fix("say which with `-s user` or `-s project`"));
        }
    };
    let edited = apply(target, &Edit::Remove { name: name.to_owned() }).map_err(|e| failure(name, e))?;
    let done = Done { name, verb: "removed", edited, entry: None, secrets: Vec::new() };
    answer("callboard.remove/1", ctx, done, Vec::new())
}

fn failure_not_there(ctx: &Ctx, name: &str, target: &Target) -> Failure {
    let path = target.path();
    let mut failure = Failure::new(
        "unknown_server",
        Exit::NotFound,
        format!("{} does not define {}", path.display(), quoted(name)),
    );
    failure.fix = Some("`callboard mcp list` shows where each server is defined".to_owned());
    failure.warnings = ctx.source_warnings();
    failure.on(name)
}

/// No file that we may edit defines it: either nothing does, or something else.
fn not_editable(ctx: &Ctx, name: &str) -> Failure {
    match ctx.entry(name) {
        Err(failure) => failure,
        Ok(entry) => {
            Failure::config(format!("{name} is defined by {}, which is not edited from here", entry.source))
                .on(name)
                .fix("change it there")
        }
    }
}

/// `enable S`, `on S`
pub fn enable(ctx: &Ctx, name: &str) -> Result<Answer, Failure> {
    let edited = turn(ctx, name, &Edit::Enable { name: name.to_owned() })?;
    let done = Done { name, verb: "turned on", edited, entry: None, secrets: Vec::new() };
    answer("callboard.enable/1", ctx, done, Vec::new())
}

/// `disable S`, `off S`
pub fn disable(ctx: &Ctx, name: &str) -> Result<Answer, Failure> {
    let edited = turn(ctx, name, &Edit::Disable { name: name.to_owned(), mask: false })?;
    let done = Done { name, verb: "turned off", edited, entry: None, secrets: Vec::new() };
    answer("callboard.disable/1", ctx, done, Vec::new())
}

/// Edits the file whose definition is in force.
fn turn(ctx: &Ctx, name: &str, edit: &Edit) -> Result<Edited, Failure> {
    let entry = ctx.entry(name)?;
    match Target::of_source(&entry.source, ctx.loaded.home.as_deref().ok(), &ctx.loaded.project_root) {
        Some(target) => apply(&target, edit).map_err(|e| failure(name, e)),
        None => Err(not_editable(ctx, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_credential_in_clear_is_warned_of_without_its_value() {
        let literal = entry(json!({"command": "x", "env": {"API_TOKEN": "abcdef123", "MODE": "fast"}}));
        for (scope, shared) in [(EditScope::Project, true), (EditScope::User, false)] {
            let warnings = exposed_secrets(scope, &literal);
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains("`-e API_TOKEN` asks"), "{warnings:?}");
            assert!(!warnings[0].contains("abcdef123"), "{warnings:?}");
            assert_eq!(warnings[0].contains("shared"), shared);
        }
        let reference = entry(json!({"url": "https://x", "headers": {"Authorization": "Bearer ${T}"}}));
        assert!(exposed_secrets(EditScope::Project, &reference).is_empty());
    }
}
