//! Floor 5. `call S TOOL [ARGS]`: reads and checks the arguments, calls the tool, shows
//! the result; `--help` shows the parameters of the tool. Called by `cli::run`.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::args::CallArgs;
use super::as_model::{self, ForView};
use super::call_args::{self, Arguments, ReadText};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::far::{self, Work, ms};
use super::invoke::Outcome;
use super::labels::{self, LabelView};
use super::once::{Picked, pick};
use super::out::{Answer, Tone};
use super::parameters;
use super::perform::{Performed, Wanted};
use super::save;
use super::session::{answering, plan, ready, unread};
use super::use_verbs::{blocks_text, performing, redaction_note, saved_text};
use crate::call::ItemKind;
use crate::catalog::items::Item;
use crate::catalog::merge::Catalog;
use crate::catalog::schema::{CompiledSchema, check};
use crate::catalog::typed::{Argument, typed_args};
use crate::catalog::violation::{self, Violation};
use crate::config::rules::{self, AllowRules};
use crate::config::spec::Scope;
use crate::id::{ServerId, shell_word};
use crate::runtime::Runtime;
use crate::shaping::model::Said;
use crate::shaping::render::render_result;

const SCHEMA: &str = "callboard.call/1";

const HELP_SCHEMA: &str = "callboard.call_help/1";

#[derive(Serialize)]
struct CallView<'a> {
    server: &'a str,
    tool: &'a str,
    is_error: bool,
    result: &'a RawValue,
    elapsed_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    saved: Vec<String>,
}

/// Server, item and arguments from the words, whose first is no server when a command follows `--`.
pub fn words(
    first: Option<String>,
    second: Option<String>,
    rest: Vec<String>,
    once: &[String],
) -> (Option<String>, Option<String>, Vec<String>) {
    if once.is_empty() {
        return (first, second, rest);
    }
    (None, first, second.into_iter().chain(rest).collect())
}

/// `call S TOOL [ARGS]`
pub async fn call(ctx: &Ctx, args: CallArgs, read: &mut dyn ReadText) -> Result<Done, Failure> {
    let (server, tool, typed) = words(args.server, args.tool, args.args, &args.once);
    let Some(tool) = tool else {
        return Err(
            Failure::usage("the name of a tool is missing").fix("`callboard mcp tools SERVER` lists them")
        );
    };
    let picked = pick(ctx, server.as_deref(), &args.once)?;
    if args.help {
        return help(&picked, &tool, args.timeout).await;
    }
    // Unreadable arguments are refused before anything is started.
    let typed = call_args::parse(&typed, read)?;
    let mut plan = plan(picked.ctx.as_ref(), std::slice::from_ref(&picked.server));
    plan.gate.of_run = Arc::new(of_run(&picked, &tool, args.yes, &args.allow)?);
    let (ctx, server) = (picked.ctx.as_ref(), &picked.server);
    let wanted = Wanted::new(server, ItemKind::Tool, &tool).with(typed).within(args.timeout);
    let work = Work::Perform { wanted, given: is_given(&args.allow, args.yes, &tool) };
    let shape = |performed: Result<Performed, Failure>| {
        let model = ForView { schema: SCHEMA, server, name: &tool, source: &tool };
        let Performed { outcome, warnings } = match performed {
            Ok(performed) => performed,
            Err(failure) => return as_model::of_failure(ctx, &model, failure, args.model),
        };
        let shown = answer(ctx, server, &tool, &outcome, args.output.as_deref())?;
        if !args.model.as_model {
            return Ok(shown.warn(warnings));
        }
        Ok(as_model::answer(ctx, &model, Said::Result(&outcome.body), args.model)?.warn(warnings))
    };
    performing(ctx, SCHEMA, plan, work, shape).await
}

/// Whether the allow rules of this run, which [`of_run`] has found good, are about this tool.
fn is_given(allow: &[String], yes: bool, tool: &str) -> bool {
    let rules = allow.iter().filter_map(|rule| rules::split(rule).ok());
    yes || rules.into_iter().any(|(_, named)| named == tool || named == rules::EVERY_TOOL)
}

fn answer(
    ctx: &Ctx,
    server: &ServerId,
    tool: &str,
    outcome: &Outcome,
    output: Option<&Path>,
) -> Result<Answer, Failure> {
    let rendered = render_result(&outcome.body);
    let saved = match output {
        Some(to) => save::save(&rendered, to)?,
        None => Vec::new(),
    };
    let view = CallView {
        server: server.as_str(),
        tool,
        is_error: rendered.is_error,
        result: &outcome.result,
        elapsed_ms: u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        saved: saved.iter().map(|path| path.display().to_string()).collect(),
    };
    let text = blocks_text(ctx, &rendered);
    let note = redaction_note(ctx, &rendered, &text);
    let human = join(text, &saved_text(&saved));
    let answer = Answer::new(SCHEMA, &view, human)?.warn(note).warn(nothing_saved(output, &saved));
    if !rendered.is_error {
        return Ok(answer);
    }
    Ok(answer.warn(["the tool says that it failed (isError)".to_owned()]).ending(Exit::Unhealthy))
}

fn join(text: String, saved: &str) -> String {
    if saved.is_empty() { text } else { format!("{}\n{saved}", text.trim_end()) }
}

fn nothing_saved(output: Option<&Path>, saved: &[std::path::PathBuf]) -> Option<String> {
    output
        .filter(|_| saved.is_empty())
        .map(|path| format!("the result has no binary part: nothing was saved to {}", path.display()))
}

/// The allow rules of this run: `--allow S/TOOL`, and `-y`, which is that of the tool that is called.
/// They count for servers of the user's own: a project can't have its calls approved by a script.
fn of_run(picked: &Picked<'_>, tool: &str, yes: bool, allow: &[String]) -> Result<AllowRules, Failure> {
    let mut rules = AllowRules::default();
    if !yes && allow.is_empty() {
        return Ok(rules);
    }
    let entry = picked.ctx.entry(picked.server.as_str())?;
    if entry.source.scope == Scope::Project {
        let given = if yes { "-y" } else { "--allow" };
        return Err(Failure::refused(
            "needs_approval",
            format!("{given} does not count for {}: it comes from the project", entry.id),
        )
        .on(entry.id.as_str())
        .fix(format!(
            "leave {given} out and answer on a terminal, or allow it for good: callboard mcp allow {} {tool}",
            entry.id
        )));
    }
    if yes {
        rules.allow(entry.source.scope, entry.id.clone(), tool);
    }
    for rule in allow {
        let refused = |why: String| {
            let shown = super::text::quoted(rule);
            Failure::usage(format!("--allow {shown} {why}")).fix(format!("--allow {}/{tool}", entry.id))
        };
        let (server, named) = rules::split(rule).map_err(refused)?;
        if server != entry.id {
            return Err(refused(format!("names another server than {}", entry.id)));
        }
        rules.allow(entry.source.scope, server, named);
    }
    Ok(rules)
}

/// What the list of a server says about a name.
pub(super) enum Found {
    /// It has a tool of that name.
    Tool(Arc<Item>),
    /// It is not whole, and the name is not in what is there: the server itself decides.
    Unlisted {
        /// The name.
        tool: String,
        /// Why the list is not whole.
        cause: String,
    },
}

/// The tool of that raw name; an error when a whole list does not have it.
pub(super) fn find(ctx: &Ctx, catalog: &Catalog, server: &ServerId, tool: &str) -> Result<Found, Failure> {
    if let Some(item) = catalog.find(server, ItemKind::Tool, tool) {
        return Ok(Found::Tool(Arc::clone(item)));
    }
    let list = catalog.servers.get(server).map(|of_server| &of_server.tools);
    if let Some(bad) = list.and_then(|list| list.quarantined.iter().find(|bad| bad.name == tool)) {
        return Err(unknown(server, tool, format!("the definition of {tool} is broken: {}", bad.reason))
            .fix(format!("callboard mcp check {}", shell_word(server.as_str()))));
    }
    if let Some(list) = list.filter(|list| list.incomplete) {
        let cause = list.unread.as_ref().or(list.warnings.last());
        let cause = cause.map_or_else(|| "the server stopped listing".to_owned(), |cause| ctx.clean(cause));
        return Ok(Found::Unlisted { tool: tool.to_owned(), cause });
    }
    let names = list.into_iter().flat_map(|list| list.items.iter().map(|item| item.name.as_str()));
    let word = shell_word(server.as_str());
    let fix = match nearest(tool, names) {
        Some(near) => format!("did you mean {near}? `callboard mcp tools {word}` lists all"),
        None => format!("callboard mcp tools {word}"),
    };
    let shown = super::text::quoted(tool);
    Err(unknown(server, tool, format!("{server} has no tool {shown}")).fix(fix))
}

fn unknown(server: &ServerId, tool: &str, message: String) -> Failure {
    let mut failure = Failure::new("unknown_tool", Exit::NotFound, message).on(server.as_str()).about(tool);
    failure.phase = Some(crate::call::Phase::Resolve);
    failure.delivery = Some(crate::call::Delivery::NotSent);
    failure
}

#[derive(Serialize)]
struct HelpView<'a> {
    server: &'a str,
    tool: &'a str,
    description: Option<&'a str>,
    parameters: &'a [parameters::Parameter],
    input_schema: Option<Box<RawValue>>,
    held: Option<String>,
    labels: Vec<LabelView>,
}

/// `call S TOOL --help`
async fn help(
    picked: &Picked<'_>,
    tool: &str,
    timeout: Option<std::time::Duration>,
) -> Result<Done, Failure> {
    let (ctx, server) = (picked.ctx.as_ref(), &picked.server);
    let work = Work::Help { server: server.clone(), tool: tool.to_owned(), within_ms: ms(timeout) };
    if let Some(answer) = far::using(ctx, HELP_SCHEMA, Some(server), &work).await? {
        return Ok(answer.into());
    }
    let body = async |runtime: &Runtime| help_of(ctx, runtime, server, tool, timeout).await;
    answering(ctx, HELP_SCHEMA, plan(ctx, std::slice::from_ref(server)), body, |failure| failure).await
}

/// The parameters of a tool.
pub(super) async fn help_of(
    ctx: &Ctx,
    runtime: &Runtime,
    server: &ServerId,
    tool: &str,
    timeout: Option<std::time::Duration>,
) -> Result<Answer, Failure> {
    ready(ctx, runtime, server, timeout).await?;
    match find(ctx, &far::catalog(ctx, runtime), server, tool)? {
        Found::Tool(item) => help_answer(ctx, server, &item, &far::catalog(ctx, runtime)),
        Found::Unlisted { cause, .. } => Err(unread(ctx, server, &cause).about(tool)),
    }
}

fn help_answer(ctx: &Ctx, server: &ServerId, item: &Item, catalog: &Catalog) -> Result<Answer, Failure> {
    let tool = item.name.as_str();
    let raw = item.input_schema.clone().and_then(|span| item.raw.get(span));
    let raw = raw.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let schema: serde_json::Value = raw.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let parameters = parameters::parameters(&schema);
    let help = parameters::ToolHelp {
        call: &|words| match &ctx.once {
            Some(stand_in) => stand_in.command("call", words),
            None => format!("callboard mcp call {} {words}", shell_word(server.as_str())),
        },
        tool,
        description: item.description.as_deref(),
        parameters: &parameters,
    };
    let labels = labels::of(&|text| ctx.clean(text), server.as_str(), item, &labels::others(catalog));
    let held = catalog.held(server, tool).map(|held| ctx.clean(&held.why()));
    let mut human = parameters::help_text(&help, ctx.style(), &|text| ctx.clean(text));
    let notes = held.iter().map(|why| format!("held: {why}"));
    for note in notes.chain(labels.iter().map(|label| format!("look twice: {}", label.line()))) {
        human = format!("{}\n{}", human.trim_end(), ctx.style().paint(Tone::Warn, &note));
    }
    let view = HelpView {
        server: server.as_str(),
        tool,
        description: item.description.as_deref(),
        parameters: &parameters,
        input_schema: raw.and_then(|text| RawValue::from_string(text.to_owned()).ok()),
        held,
        labels,
    };
    Answer::new(HELP_SCHEMA, &view, human)
}

/// The arguments as they are sent: pairs get the types of the schema, and everything is checked
/// against it. With them what was odd about the schema.
pub(super) fn arguments(
    ctx: &Ctx,
    server: &ServerId,
    found: &Found,
    typed: Arguments,
) -> Result<(Box<RawValue>, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let (name, item) = match found {
        Found::Tool(item) => (&item.name, Some(item)),
        Found::Unlisted { tool, cause } => {
            warnings.push(format!(
                "the list of tools of {server} is incomplete ({cause}); {} is not in it, and its arguments are not checked here: the server decides",
                super::text::quoted(tool)
            ));
            (tool, None)
        }
    };
    let schema = item.and_then(|item| item.raw.get(item.input_schema.clone()?));
    let schema = match schema.map(CompiledSchema::compile) {
        Some(Ok(schema)) => Some(schema),
        Some(Err(why)) => {
            warnings.push(format!("the arguments are not checked here: {}", ctx.clean(&why)));
            None
        }
        None => None,
    };
    let refused = |violations: Vec<Violation>| {
        let text = ctx.clean(&violation::sentence(name, &violations));
        Failure::invalid_arguments(text).on(server.as_str()).about(name).fix(format!(
            "callboard mcp call {} {} --help",
            shell_word(server.as_str()),
            shell_word(name)
        ))
    };
    let raw = match typed {
        Arguments::Object(raw) => raw,
        Arguments::Pairs(pairs) => {
            let given: Vec<Argument<'_>> = pairs
                .iter()
                .map(|pair| Argument { key: &pair.key, value: &pair.value, json: pair.json })
                .collect();
            typed_args(schema.as_ref().map(CompiledSchema::as_value), &given).map_err(refused)?
        }
    };
    check(schema.as_ref(), Some(raw.get().as_bytes())).map_err(refused)?;
    let known = schema.as_ref().map(CompiledSchema::as_value);
    warnings.extend(slips(known, raw.get()).iter().map(|slip| ctx.clean(slip)));
    Ok((raw, warnings))
}

/// Arguments that the schema lets through and does not name, and that look like a misspelling of
/// one that it names.
fn slips(schema: Option<&serde_json::Value>, arguments: &str) -> Vec<String> {
    let named = schema.and_then(|schema| schema.get("properties")).and_then(serde_json::Value::as_object);
    let given: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(arguments).ok();
    let (Some(named), Some(given)) = (named, given) else { return Vec::new() };
    let open = named.keys().map(String::as_str).filter(|name| !given.contains_key(*name));
    let unknown = given.keys().filter(|key| !named.contains_key(*key));
    unknown
        .filter_map(|key| {
            let near = nearest(key, open.clone())?;
            let [key, near] = [key, near].map(super::text::quoted);
            Some(format!(
                "the tool names no argument {key}; did you mean {near}? It was passed on as it stands"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn a_command_after_the_dashes_stands_for_the_server() {
        let w = |s: &str| Some(s.to_owned());
        assert_eq!(words(w("s"), w("t"), words_of(&["a=1"]), &[]), (w("s"), w("t"), words_of(&["a=1"])));
        assert_eq!(
            words(w("t"), w("a=1"), words_of(&["b=2"]), &words_of(&["cmd"])),
            (None, w("t"), words_of(&["a=1", "b=2"]))
        );
        assert_eq!(words(w("t"), None, Vec::new(), &words_of(&["cmd"])), (None, w("t"), Vec::new()));
    }

    #[test]
    fn a_misspelt_argument_that_the_schema_lets_through_is_told_with_the_one_that_is_meant() {
        let schema = serde_json::json!({"type": "object", "properties": {"path": {}, "max_depth": {}}});
        let told = slips(Some(&schema), r#"{"paht":1,"maxDepth":2,"color":3}"#);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("\"paht\"") && told[0].contains("mean \"path\""), "{told:?}");
        assert!(told[1].contains("mean \"max_depth\""), "{told:?}");
        assert!(slips(Some(&schema), r#"{"path":1,"paths":[]}"#).is_empty(), "the one that is near is given");
        assert!(slips(Some(&serde_json::json!({})), r#"{"paht":1}"#).is_empty());
        assert!(slips(None, r#"{"paht":1}"#).is_empty());
    }

    #[test]
    fn a_saved_file_is_named_below_the_result() {
        assert_eq!(join("text\n".into(), "saved x"), "text\nsaved x");
        assert_eq!(join("text\n".into(), ""), "text\n");
    }
}
