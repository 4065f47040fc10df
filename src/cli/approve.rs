//! Floor 5. `approve`, `revoke`: shows what an entry of the project would be allowed,
//! asks, and records the approval outside the project. Called by `cli::run`.

use serde::Serialize;
use serde_json::Value;

use super::args::ApproveArgs;
use super::ask;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Style, Tone, write_stderr};
use super::table::{Field, sheet};
use crate::config::approvals::{self, Request, RequestError, approve as record, revoke as take_back};
use crate::time::{rfc3339, wall};

#[derive(Serialize)]
struct ApproveView<'a> {
    name: &'a str,
    approved: bool,
    changed: bool,
    entry_sha256: &'a str,
    entry: &'a Value,
    program: Option<String>,
    reads: &'a [String],
    grants: &'a [String],
    project_root: String,
}

/// `approve S`
pub async fn approve(ctx: &Ctx, args: &ApproveArgs) -> Result<Answer, Failure> {
    let request = approvals::request(&ctx.loaded, &ctx.options, &args.server)
        .map_err(|e| unusable(ctx, &args.server, &e))?;
    if request.approved {
        let human = format!("{} is approved already, exactly as it stands", request.name);
        return answer(&request, false, human);
    }
    let home = ctx.home()?;
    if !args.yes {
        if !ctx.term.can_ask() || ctx.global.json {
            return Err(Failure::refused(
                "not_approved",
                format!("{} was not approved: there is no terminal to ask on", request.name),
            )
            .on(&request.name)
            .fix(format!(
                "read it with `callboard mcp get {0}`, then `callboard mcp approve {0} -y`",
                request.name
            )));
        }
        write_stderr(&request_text(ctx, &request, ctx.term.style_err()));
        write_stderr("\n\n");
        if !ask::yes_or_no("Approve exactly this?").await {
            return Err(Failure::refused("not_approved", format!("{} was not approved", request.name))
                .on(&request.name));
        }
    }
    record(home, request.approval(rfc3339(wall())))
        .map_err(|e| Failure::io(Exit::Config, e.to_string()).fix("check the folder of Callboard's files"))?;
    let human = if args.yes {
        format!("{}\n\napproved {}", request_text(ctx, &request, ctx.style()), request.name)
    } else {
        format!("approved {}", request.name)
    };
    answer(&request, true, human)
}

fn unusable(ctx: &Ctx, name: &str, error: &RequestError) -> Failure {
    match error {
        RequestError::Unknown(_) => match ctx.entry(name) {
            Err(failure) => failure,
            Ok(_) => Failure::new("unknown_server", Exit::NotFound, error.to_string()).on(name),
        },
        RequestError::NotOfProject(..) => Failure::usage(error.to_string()).on(name).fix(
            "only servers that a project brings along are approved; `callboard mcp on` and `off` turn others on and off",
        ),
        RequestError::Invalid(..) => {
            Failure::config(ctx.clean(&error.to_string())).on(name).fix("correct the entry first")
        }
    }
}

/// Everything that an approval covers.
fn request_text(ctx: &Ctx, request: &Request, style: Style) -> String {
    let list = |items: &[String], none: &str| {
        if items.is_empty() { none.to_owned() } else { items.join(", ") }
    };
    let entry = serde_json::to_string_pretty(&request.entry).unwrap_or_default();
    let program = match &request.program {
        Some(path) => path.display().to_string(),
        None if request.entry.get("command").is_some() => "not found on this machine".to_owned(),
        None => String::new(),
    };
    let rows = [
        ("from", Field::new(request.source.to_string())),
        ("entry", Field::new(ctx.clean(&entry))),
        ("runs", Field::toned(ctx.clean(&program), Tone::Strong)),
        ("reads", Field::new(ctx.clean(&list(&request.reads, "no variable of yours")))),
        ("asks for", Field::toned(ctx.clean(&list(&request.grants, "")), Tone::Warn)),
    ];
    format!("{}\n{}", style.paint(Tone::Strong, &ctx.clean(&request.name)), sheet(&rows, style))
}

fn answer(request: &Request, changed: bool, human: String) -> Result<Answer, Failure> {
    let view = ApproveView {
        name: &request.name,
        approved: true,
        changed,
        entry_sha256: &request.hash,
        entry: &request.entry,
        program: request.program.as_ref().map(|path| path.display().to_string()),
        reads: &request.reads,
        grants: &request.grants,
        project_root: request.project.display().to_string(),
    };
    Answer::new("callboard.approve/1", &view, human)
}

#[derive(Serialize)]
struct RevokeView<'a> {
    name: &'a str,
    approved: bool,
    changed: bool,
}

/// `revoke S`
pub fn revoke(ctx: &Ctx, name: &str) -> Result<Answer, Failure> {
    let changed = take_back(ctx.home()?, &ctx.loaded.project_root, name)
        .map_err(|e| Failure::io(Exit::Config, e.to_string()))?;
    if !changed {
        ctx.entry(name)?;
    }
    let human = if changed {
        format!("took the approval of {name} back; it waits for approval again")
    } else {
        format!("nothing to do: {name} had no approval in this project")
    };
    Answer::new("callboard.revoke/1", &RevokeView { name, approved: false, changed }, human)
}
