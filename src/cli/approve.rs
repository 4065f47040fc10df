//! Floor 5. `approve`, `revoke`: shows what an entry of the project would be allowed,
//! asks, and records the approval outside the project. Called by `cli::run`.

use serde::Serialize;
use serde_json::Value;

use super::ask;
use super::audit_note::{Change, note, note_taken};
use super::ctx::Ctx;
use super::edit_args::ApproveArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::out::{Answer, Style, Tone, write_stderr};
use super::table::{Field, sheet};
use crate::audit::record::Event;
use crate::config::approvals::{self, Request, RequestError, approve as record, revoke as take_back};
use crate::config::reveal::{self, Revealed};
use crate::config::spec::{Scope, Source};
use crate::id::shell_word;
use crate::shaping::redact::Redactor;
use crate::shaping::render::{one_line, printable};
use crate::time::{rfc3339, wall};

/// Longest name that is repeated whole, in columns.
const NAME_WIDTH_MAX: usize = 80;

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
    /// Allow rules that this name was given in this project before.
    allow_rules: Vec<String>,
    project_root: String,
}

/// `approve S`
pub async fn approve(ctx: &Ctx, args: &ApproveArgs) -> Result<Answer, Failure> {
    let request = approvals::request(&ctx.loaded, &ctx.options, &args.server)
        .map_err(|e| unusable(ctx, &args.server, &e))?;
    let seen = theirs(ctx, &request.name, &request.source).unwrap_or_else(|| Revealed {
        entry: request.entry.clone(),
        hidden: Vec::new(),
        loaders: Vec::new(),
    });
    if request.approved {
        let human = format!("{} is approved already, exactly as it stands", request.name);
        return answer(ctx, &request, &seen, false, human);
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
                shell_word(&request.name)
            )));
        }
        write_stderr(&request_text(ctx, &request, &seen, ctx.term.style_err()));
        write_stderr("\n\n");
        if !ask::yes_or_no(&format!("Approve exactly this entry of the project, {}?", shown(&request))).await
        {
            return Err(Failure::refused("not_approved", format!("{} was not approved", request.name))
                .on(&request.name));
        }
    }
    let reason = format!("entry {} of {}", request.hash, request.project.display());
    note(ctx, Event::TrustApproved, &request.name, &[Change { reason, ..Change::default() }])?;
    record(home, request.approval(rfc3339(wall())))
        .map_err(|e| Failure::io(Exit::Config, e.to_string()).fix("check the folder of Callboard's files"))?;
    let human = if args.yes {
        format!("{}\n\napproved {}", request_text(ctx, &request, &seen, ctx.style()), request.name)
    } else {
        format!("approved {}", request.name)
    };
    let answer = answer(ctx, &request, &seen, true, human)?;
    // A person has read them with the entry.
    Ok(if ctx.global.json { answer.warn(doubts(ctx, &request, &seen)) } else { answer })
}

/// The name of the entry, on one line: what is shown before it may have scrolled it away.
fn shown(request: &Request) -> String {
    one_line(&request.name, NAME_WIDTH_MAX)
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

/// The entry of a project as its reader has to see it.
pub fn theirs(ctx: &Ctx, name: &str, source: &Source) -> Option<Revealed> {
    let definitions = ctx.loaded.definitions.iter().rev();
    let definition = definitions.filter(|d| d.name == name).find(|d| d.source == *source)?;
    // Its text is no secret of the user's: only the form of a vendor's key is taken out.
    Some(reveal::reveal(&definition.value, &|text| Redactor::forms(text, &reveal::mark)))
}

/// What deserves a second look in an entry of a project.
pub fn dangers(seen: &Revealed) -> Vec<String> {
    let mut dangers = Vec::new();
    if !seen.loaders.is_empty() {
        let which = printable(&seen.loaders.join(", ")).into_owned();
        dangers.push(format!("{which}: may change what program code is loaded"));
    }
    if !seen.hidden.is_empty() {
        let which = printable(&seen.hidden.join(", ")).into_owned();
        dangers.push(format!("{which}: not shown, because it looks like a credential in clear"));
    }
    dangers
}

/// What is said of an approval that replaces an entry of the user's own.
pub fn replacing(ctx: &Ctx, name: &str, own: &Source) -> String {
    ctx.clean(&format!("approving it replaces your own {name} from {own}"))
}

/// Everything about a request that deserves a second look.
fn doubts(ctx: &Ctx, request: &Request, seen: &Revealed) -> Vec<String> {
    let own = request.replaces.as_ref().filter(|_| !request.approved);
    let mut doubts: Vec<String> = own.map(|own| replacing(ctx, &request.name, own)).into_iter().collect();
    doubts.extend(dangers(seen));
    doubts
}

/// Everything that an approval covers.
fn request_text(ctx: &Ctx, request: &Request, seen: &Revealed, style: Style) -> String {
    let list = |items: &[String], none: &str| {
        if items.is_empty() { none.to_owned() } else { items.join(", ") }
    };
    let entry = serde_json::to_string_pretty(&seen.entry).unwrap_or_default();
    let program = match &request.program {
        Some(path) => path.display().to_string(),
        None if request.entry.get("command").is_some() => "not found on this machine".to_owned(),
        None => String::new(),
    };
    let rows = [
        ("from", Field::new(request.source.to_string())),
        ("entry", Field::new(printable(&entry).into_owned())),
        ("runs", Field::toned(ctx.clean(&program), Tone::Strong)),
        ("reads", Field::new(ctx.clean(&list(&request.reads, "no variable of yours")))),
        ("asks for", Field::toned(ctx.clean(&list(&request.grants, "")), Tone::Warn)),
        ("you allow", Field::new(ctx.clean(&rules_of(ctx, &request.name).join(", ")))),
        ("warning", Field::toned(doubts(ctx, request, seen).join("\n"), Tone::Warn)),
    ];
    format!("{}\n{}", style.paint(Tone::Strong, &ctx.clean(&request.name)), sheet(&rows, style))
}

/// Allow rules that a project's entry of that name was given: they count again once it is approved.
fn rules_of(ctx: &Ctx, name: &str) -> Vec<String> {
    let written = ctx.loaded.rules.written().into_iter();
    let own = written.filter(|(scope, rule)| {
        *scope == Scope::Project && rule.split_once('/').is_some_and(|(server, _)| server == name)
    });
    own.map(|(_, rule)| rule).collect()
}

fn answer(
    ctx: &Ctx,
    request: &Request,
    seen: &Revealed,
    changed: bool,
    human: String,
) -> Result<Answer, Failure> {
    let view = ApproveView {
        name: &request.name,
        approved: true,
        changed,
        entry_sha256: &request.hash,
        entry: &seen.entry,
        program: request.program.as_ref().map(|path| path.display().to_string()),
        reads: &request.reads,
        grants: &request.grants,
        allow_rules: rules_of(ctx, &request.name),
        project_root: request.project.display().to_string(),
    };
    Answer::new("callboard.approve/1", &view, human)
}

#[derive(Serialize)]
struct RevokeView<'a> {
    name: &'a str,
    approved: bool,
    changed: bool,
    /// Allow rules that stay, and count again once it is approved.
    allow_rules: &'a [String],
}

/// `revoke S`
pub fn revoke(ctx: &Ctx, name: &str) -> Result<Answer, Failure> {
    let changed = take_back(ctx.home()?, &ctx.loaded.project_root, name)
        .map_err(|e| Failure::io(Exit::Config, e.to_string()))?;
    if !changed {
        ctx.entry(name)?;
    } else {
        let reason = format!("project {}", ctx.loaded.project_root.display());
        note_taken(ctx, Event::TrustRevoked, name, &[Change { reason, ..Change::default() }]);
    }
    let mut human = if changed {
        format!("took the approval of {name} back; it waits for approval again")
    } else {
        format!("nothing to do: {name} had no approval in this project")
    };
    let left = rules_of(ctx, name);
    if !left.is_empty() {
        let tools = left.iter().filter_map(|rule| rule.split_once('/'));
        let tools: Vec<String> = tools.map(|(_, tool)| shell_word(tool).to_string()).collect();
        human.push_str(&ctx.clean(&format!(
            "\nwhat you allowed it stays written down, and counts again once it is approved: {}; take it back \
             with `callboard mcp allow {} {} --revoke`",
            left.join(", "),
            shell_word(name),
            tools.join(" ")
        )));
    }
    let view = RevokeView { name, approved: false, changed, allow_rules: &left };
    Answer::new("callboard.revoke/1", &view, human)
}
