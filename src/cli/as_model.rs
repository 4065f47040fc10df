//! Floor 5. `--as-model`: shows exactly what a model would be given of an answer, fence and
//! all, and the pages of one that was cut. Used by `call`, `read` and `prompt`.

use clap::Args;
use serde::Serialize;

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::Answer;
use crate::config::spec::EntryState;
use crate::fence_id;
use crate::id::ServerId;
use crate::outputs::Outputs;
use crate::shaping::fence::Source;
use crate::shaping::model::{ForModel, Part, Prepared, Said, page, prepare};
use crate::store::StoreError;

/// The options of a verb whose answer a model could be given.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ModelArgs {
    /// Print exactly what a model would be given
    #[arg(long)]
    pub as_model: bool,
    /// With --as-model: the page from this byte on, as a model reads on after a cut
    #[arg(long, value_name = "BYTE", requires = "as_model")]
    pub offset: Option<usize>,
}

/// What is answered, and how.
pub struct ForView<'a> {
    /// Of the answer.
    pub schema: &'static str,
    /// Who said it.
    pub server: &'a ServerId,
    /// What was asked there: a tool, a resource, a prompt.
    pub name: &'a str,
    /// For the second line of the fence.
    pub source: &'a str,
}

#[derive(Serialize)]
struct ModelView<'a> {
    server: &'a str,
    name: &'a str,
    is_error: bool,
    parts: Vec<PartView<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PartView<'a> {
    Text {
        text: &'a str,
    },
    Image {
        #[serde(rename = "mimeType")]
        mime: &'a str,
        data: &'a str,
    },
}

/// The answer of a verb with `--as-model`.
pub fn answer(ctx: &Ctx, view: &ForView<'_>, said: Said<'_>, args: ModelArgs) -> Result<Answer, Failure> {
    let result_max = result_max(ctx, view.server);
    let prepared = paged(ctx, prepare(said, &ctx.redactor(), result_max), args.offset, result_max)?;
    // The text is complete: only now has the fence a name.
    let id = fence_id::draw().map_err(|e| {
        Failure::io(Exit::Unhealthy, format!("the system gives no random numbers, so there is no fence: {e}"))
    })?;
    let given = prepared.fenced(&Source::new(view.server.as_str(), view.source), id);
    let data = ModelView {
        server: view.server.as_str(),
        name: view.name,
        is_error: given.is_error,
        parts: parts(&given),
        notes: &given.notes,
    };
    let exit = if given.is_error { Exit::Unhealthy } else { Exit::Ok };
    Ok(Answer::new(view.schema, &data, given.as_text())?.warn(given.notes.clone()).ending(exit))
}

/// As `answer`, for a call that failed after it may have left: its error in the fence, ending as
/// the failure does. Other failures stay what they are.
pub fn of_failure(
    ctx: &Ctx,
    view: &ForView<'_>,
    failure: Failure,
    args: ModelArgs,
) -> Result<Answer, Failure> {
    let said = match &failure.rpc_error {
        Some(error) if args.as_model => Said::Error(error.get().as_bytes()),
        None if args.as_model && failure.exit == Exit::OutcomeUnknown => Said::Words(&failure.message),
        _ => return Err(failure),
    };
    let warnings = failure.warnings.clone();
    Ok(answer(ctx, view, said, args)?.warn(warnings).ending(failure.exit))
}

fn parts(given: &ForModel) -> Vec<PartView<'_>> {
    let all = given.parts.iter().map(|part| match part {
        Part::Text(text) => PartView::Text { text },
        Part::Image(image) => PartView::Image { mime: image.mime, data: &image.base64 },
    });
    all.collect()
}

/// Keeps what was cut, and turns to the page that is asked for.
fn paged(
    ctx: &Ctx,
    mut prepared: Prepared,
    offset: Option<usize>,
    limit: usize,
) -> Result<Prepared, Failure> {
    let Some(whole) = prepared.whole() else {
        return Ok(match offset {
            Some(offset) => page(prepared.text(), offset, limit),
            None => prepared,
        });
    };
    let kept = keep(ctx, whole)?;
    if let Some(offset) = offset {
        return Ok(page(&kept, offset, limit));
    }
    let end = prepared.text().rfind("[mcp output truncated:").unwrap_or_default();
    prepared.note(format!("`--offset {}` shows what a model gets when it reads on", end.saturating_sub(1)));
    Ok(prepared)
}

/// The text as it comes back from where the session keeps it.
fn keep(ctx: &Ctx, whole: &str) -> Result<String, Failure> {
    let failed = |error: StoreError| {
        Failure::io(Exit::Unhealthy, format!("the whole result can't be kept: {error}"))
            .fix("the call itself has run; check the folder `run` below Callboard's own folder")
    };
    let mut outputs = Outputs::open(ctx.home()?).map_err(failed)?;
    let id = outputs.keep(whole).map_err(failed)?;
    Ok(outputs.read(id).map_err(failed)?.unwrap_or_default())
}

fn result_max(ctx: &Ctx, server: &ServerId) -> usize {
    match ctx.entry(server.as_str()).map(|entry| &entry.state) {
        Ok(EntryState::Ready(spec)) => spec.limits.result_max,
        _ => ctx.loaded.settings.limits.result_max,
    }
}
