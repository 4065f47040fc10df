//! Floor 5. `read`, `prompt`, and what they share with `call`: one request to one server, through the
//! running host if it has that server, else on a runtime of this process that starts it and ends it.
//! Called by `cli::run`.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::args::{ReadArgs, UseArgs};
use super::as_model::{self, ForView, ModelArgs};
use super::call_args::{self, Arguments, ReadText};
use super::course::{Course, Known};
use super::ctx::Ctx;
use super::failure::Failure;
use super::far::{self, Work};
use super::invoke::{Invocation, Outcome};
use super::once::pick;
use super::out::Answer;
use super::perform::{Performed, Wanted, perform, received};
use super::save;
use super::session::{answering, plan};
use crate::call::ItemKind;
use crate::catalog::merge::Catalog;
use crate::catalog::prompt;
use crate::id::{ServerId, shell_word};
use crate::runtime::{Runtime, RuntimePlan};
use crate::shaping::model::Said;
use crate::shaping::redact::MARK;
use crate::shaping::render::{BlockKind, Rendered, render_prompt, render_resource};

const READ: &str = "callboard.read/1";
const PROMPT: &str = "callboard.prompt/1";

#[derive(Serialize)]
struct ResultView<'a> {
    server: &'a str,
    name: &'a str,
    result: &'a RawValue,
    elapsed_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    saved: Vec<String>,
}

impl<'a> ResultView<'a> {
    fn new(server: &'a ServerId, name: &'a str, outcome: &'a Outcome) -> Self {
        Self {
            server: server.as_str(),
            name,
            result: &outcome.result,
            elapsed_ms: u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            saved: Vec::new(),
        }
    }
}

/// The blocks of a result as text, fit for a person. What a role says stands below it.
pub fn blocks_text(ctx: &Ctx, rendered: &Rendered) -> String {
    let roles = rendered.blocks.iter().any(|block| block.kind == BlockKind::Role);
    let mut out = String::new();
    for block in &rendered.blocks {
        let text = ctx.clean(&block.text);
        match block.kind {
            BlockKind::Role => {
                out.push_str(if out.is_empty() { "" } else { "\n" });
                out.push_str(&text);
            }
            _ if roles => out.push_str(&super::text::indent(&text, "  ")),
            _ => out.push_str(&text),
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// What is said once when something in a shown result was replaced; `--json` replaces nothing.
pub fn redaction_note(ctx: &Ctx, rendered: &Rendered, shown: &str) -> Option<String> {
    let count = |text: &str| text.matches(MARK).count();
    let sent: usize = rendered.blocks.iter().map(|block| count(&block.text)).sum();
    (!ctx.global.json && count(shown) > sent).then(|| {
        format!("{MARK} stands for a secret of the configuration, or for what looks like a credential; --json has it as it was sent")
    })
}

/// `read S URI`
pub async fn read(ctx: &Ctx, args: ReadArgs) -> Result<Done, Failure> {
    let (server, uri) = match (&args.uri, args.once.is_empty()) {
        (Some(uri), true) => (Some(args.server.as_str()), uri.clone()),
        (None, false) => (None, args.server.clone()),
        (None, true) => {
            return Err(Failure::usage("the URI of a resource is missing")
                .fix("`callboard mcp resources SERVER` lists them"));
        }
        (Some(_), false) => {
            return Err(Failure::usage("both a server and a command after `--` are given")
                .fix("write `callboard mcp read URI -- COMMAND…`"));
        }
    };
    let picked = pick(ctx, server, &args.once)?;
    let wanted = Wanted::new(&picked.server, ItemKind::Resource, &uri).within(args.timeout);
    let ask = Ask { schema: READ, source: "resource", model: args.model };
    use_one(picked.ctx.as_ref(), wanted, ask, |ctx, server, outcome| {
        let rendered = render_resource(&outcome.body);
        let saved = match &args.output {
            Some(to) => save_resource(&rendered, outcome, to)?,
            None => Vec::new(),
        };
        let mut view = ResultView::new(server, &uri, outcome);
        view.saved = saved.iter().map(|path| path.display().to_string()).collect();
        let human = if saved.is_empty() { blocks_text(ctx, &rendered) } else { saved_text(&saved) };
        let note = redaction_note(ctx, &rendered, &human);
        Ok(Answer::new(READ, &view, human)?.warn(note))
    })
    .await
}

/// One line for each saved file.
pub fn saved_text(saved: &[PathBuf]) -> String {
    saved.iter().map(|path| format!("saved {}", path.display())).collect::<Vec<_>>().join("\n")
}

/// Binary parts; a resource that is text is saved as that text.
fn save_resource(
    rendered: &Rendered,
    outcome: &Outcome,
    to: &std::path::Path,
) -> Result<Vec<PathBuf>, Failure> {
    let saved = save::save(rendered, to)?;
    if !saved.is_empty() {
        return Ok(saved);
    }
    let value: serde_json::Value = serde_json::from_slice(&outcome.body).unwrap_or_default();
    let contents = value.get("contents").and_then(serde_json::Value::as_array);
    let text: String = contents
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(serde_json::Value::as_str))
        .collect();
    save::write(to, text.as_bytes())?;
    Ok(vec![to.to_owned()])
}

/// `prompt S NAME [ARGS]`
pub async fn prompt(ctx: &Ctx, args: UseArgs, read: &mut dyn ReadText) -> Result<Done, Failure> {
    let (server, name, words) = super::call::words(Some(args.server), args.name, args.args, &args.once);
    let Some(name) = name else {
        return Err(Failure::usage("the name of a prompt is missing")
            .fix("`callboard mcp prompts SERVER` lists them"));
    };
    let arguments = call_args::texts(call_args::parse(&words, read)?)?;
    let picked = pick(ctx, server.as_deref(), &args.once)?;
    let wanted = Wanted::new(&picked.server, ItemKind::Prompt, &name).within(args.timeout);
    let wanted = wanted.with(Arguments::Object(arguments));
    let ask = Ask { schema: PROMPT, source: &name, model: args.model };
    use_one(picked.ctx.as_ref(), wanted, ask, |ctx, server, outcome| {
        let rendered = render_prompt(&outcome.body);
        let human = blocks_text(ctx, &rendered);
        let note = redaction_note(ctx, &rendered, &human);
        Ok(Answer::new(PROMPT, &ResultView::new(server, &name, outcome), human)?.warn(note))
    })
    .await
}

/// Whether the arguments are those that the prompt declares. One that the catalogue does not know
/// is left to the runtime, which says why, or to the server.
pub(super) fn check_prompt(ctx: &Ctx, catalog: &Catalog, call: &Invocation) -> Result<(), Failure> {
    let Some(item) = catalog.find(&call.server, ItemKind::Prompt, &call.name) else { return Ok(()) };
    let given = call.arguments.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let violations = prompt::check(&prompt::arguments(item), &given.unwrap_or_default());
    let Some(first) = violations.first() else { return Ok(()) };
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let text = format!("the arguments of {} do not fit the prompt: {}", call.name, list.join("; "));
    let failure = Failure::invalid_arguments(ctx.clean(&text));
    let (server, name) = (shell_word(call.server.as_str()), shell_word(&call.name));
    let fix = match first.message.as_str() {
        "is required" => format!("callboard mcp prompt {server} {name} {}=…", first.path),
        _ => format!("callboard mcp prompts {server}"),
    };
    Err(failure.fix(ctx.clean(&fix)))
}

/// How the answer to one request is made.
struct Ask<'a> {
    /// Of the answer.
    schema: &'static str,
    /// For a fence around the answer.
    source: &'a str,
    model: ModelArgs,
}

/// Sends one request to one server, and tells what `answer` makes of the result.
async fn use_one(
    ctx: &Ctx,
    wanted: Wanted,
    ask: Ask<'_>,
    answer: impl Fn(&Ctx, &ServerId, &Outcome) -> Result<Answer, Failure>,
) -> Result<Done, Failure> {
    let Ask { schema, source, model } = ask;
    let (server, kind, name) = (wanted.server.clone(), wanted.kind, wanted.name.clone());
    let shape = |performed: Result<Performed, Failure>| {
        let view = ForView { schema, server: &server, name: &name, source };
        let Performed { outcome, warnings } = match performed {
            Ok(performed) => performed,
            Err(failure) => return as_model::of_failure(ctx, &view, failure, model),
        };
        let shown = answer(ctx, &server, &outcome)?;
        if !model.as_model {
            return Ok(shown.warn(warnings));
        }
        let said = match kind {
            ItemKind::Prompt => Said::Prompt(&outcome.body),
            ItemKind::Resource => Said::Resource(&outcome.body),
            ItemKind::Tool | ItemKind::Method => Said::Result(&outcome.body),
        };
        Ok(as_model::answer(ctx, &view, said, model)?.warn(warnings))
    };
    let work = Work::Perform { wanted, given: false };
    performing(ctx, schema, plan(ctx, std::slice::from_ref(&server)), work, shape).await
}

/// Does one request: through the running host if it has the server, else on a runtime of this plan; `shape`
/// makes the answer.
pub async fn performing(
    ctx: &Ctx,
    schema: &'static str,
    plan: RuntimePlan,
    work: Work,
    shape: impl Fn(Result<Performed, Failure>) -> Result<Answer, Failure>,
) -> Result<Done, Failure> {
    let (server, name) = match &work {
        Work::Perform { wanted, .. } => (wanted.server.clone(), wanted.name.clone()),
        Work::Look { .. } | Work::Why { .. } | Work::Help { .. } => {
            return Err(Failure::usage("that is no request"));
        }
    };
    let named = |failure: Failure, known: Known| failure.of_call(server.as_str(), &name, known);
    match far::using(ctx, schema, Some(&server), &work).await {
        Ok(Some(answer)) => return shape(received(answer)).map(Done::from),
        Ok(None) => {}
        Err(failure) => return shape(Err(named(failure, Known::Sent))).map(Done::from),
    }
    let Work::Perform { wanted, .. } = &work else { return Err(Failure::usage("that is no request")) };
    let course = Course::default();
    let body = async |runtime: &Runtime| shape(perform(ctx, runtime, wanted, &course).await);
    answering(ctx, schema, plan, body, |failure| named(failure, course.known())).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::render::render_result;
    use bytes::Bytes;
    use std::time::Duration;

    fn ctx() -> (tempfile::TempDir, Ctx) {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        (home, ctx)
    }

    #[test]
    fn what_a_role_says_stands_below_it() {
        let (_home, ctx) = ctx();
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"text","text":"one\ntwo"}},
            {"role":"assistant","content":{"type":"text","text":"three"}}]}"#;
        let text = blocks_text(&ctx, &render_prompt(&Bytes::from(prompt)));
        assert_eq!(text, "user:\n  one\n  two\n\nassistant:\n  three\n");
    }

    #[test]
    fn the_blocks_of_a_result_follow_each_other() {
        let (_home, ctx) = ctx();
        let result = r#"{"content":[{"type":"text","text":"one"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#;
        assert_eq!(
            blocks_text(&ctx, &render_result(&Bytes::from(result))),
            "one\n[image image/png, 3 bytes]\n"
        );
    }

    #[test]
    fn what_was_replaced_is_explained_once_and_never_in_json() {
        let home = tempfile::tempdir().unwrap();
        let file = r#"{"mcpServers":{"a":{"command":"x","env":{"TOKEN":"${TOKEN}"}}}}"#;
        std::fs::write(home.path().join("mcp.json"), file).unwrap();
        let mut ctx = Ctx::for_test(home.path(), &[("TOKEN", "s3cr3t-value-1")]);
        let of = |text: &str| {
            let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
            render_result(result.as_bytes())
        };
        let note = |ctx: &Ctx, text: &str| redaction_note(ctx, &of(text), &blocks_text(ctx, &of(text)));
        assert!(note(&ctx, "s3cr3t-value-1, s3cr3t-value-1").is_some_and(|note| note.contains("--json")));
        assert_eq!(note(&ctx, "all is [redacted] here"), None, "the server wrote that");
        ctx.global.json = true;
        assert_eq!(note(&ctx, "s3cr3t-value-1"), None);
    }

    #[test]
    fn a_text_resource_is_saved_as_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let body = Bytes::from(r#"{"contents":[{"uri":"a:b","text":"caf\u00e9\u001b[0m"}]}"#);
        let result = RawValue::from_string(String::from_utf8(body.to_vec()).unwrap()).unwrap();
        let outcome = Outcome { body: body.clone(), result, elapsed: Duration::ZERO };
        let to = dir.path().join("x.txt");
        assert_eq!(save_resource(&render_resource(&body), &outcome, &to).unwrap(), std::slice::from_ref(&to));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "café\u{1b}[0m", "a file gets every byte");
    }
}
