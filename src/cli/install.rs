//! Floor 5. `install CLIENT` and `uninstall CLIENT`: writes Callboard into the file of another
//! client, with the client's own servers moved here; and takes it out again. The file is
//! backed up first and changed in one step under a lock; nothing else in it changes.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ask;
use super::client_args::{InstallArgs, UninstallArgs};
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::import::target;
use super::import_plan::{self, Clash, ClientFile, Planned, PlannedView, Planner, State, broken, unreadable};
use super::install_diff::diff;
use super::out::{Answer, write_stderr};
use crate::clients::document::{self, Found};
use crate::clients::files::{self, Kept, Record, hash};
use crate::clients::ours::{self, is_ours};
use crate::clients::rewrite::{self, Change};
use crate::config::edit::{Target, stays_inside};
use crate::config::literal::credentials;
use crate::config::spec::EntryState;
use crate::id::shell_word;
use crate::shaping::redact::Redactor;
use crate::store::{self, FILE_BYTES_MAX, Lock, Mode};
use crate::time::{rfc3339, wall};

/// The shape of the answer of `install`.
pub const INSTALL: &str = "callboard.install/1";
/// The shape of the answer of `uninstall`.
pub const UNINSTALL: &str = "callboard.uninstall/1";

#[derive(Serialize)]
struct InstallView<'a> {
    client: &'static str,
    file: String,
    dry_run: bool,
    changed: bool,
    entries: Vec<&'a str>,
    backup: Option<String>,
    target: String,
    servers: Vec<PlannedView<'a>>,
}

#[derive(Serialize)]
struct UninstallView<'a> {
    client: &'static str,
    file: String,
    dry_run: bool,
    changed: bool,
    /// Whether the file is byte for byte what it was before.
    restored: bool,
    entries_removed: Vec<&'a str>,
    /// Those of the client's own that were taken out by the install and are in its file again.
    entries_restored: Vec<&'a str>,
    backup: Option<String>,
    still_in_callboard: Vec<String>,
}

/// A change that is ready to be written.
struct Draft {
    file: ClientFile,
    plan: Vec<Planned>,
    change: Change,
    after: String,
    kept: Option<Kept>,
}

/// `install`
pub async fn install(ctx: &Ctx, args: &InstallArgs) -> Result<Answer, Failure> {
    let client = args.client;
    let path = import_plan::locate(ctx, client, args.project)?;
    guarded(ctx, &path, args.project)?;
    if !args.project {
        let trace = client.trace(&import_plan::places(ctx)?);
        if !trace.exists() && !path.exists() {
            return Err(import_plan::no_client(client, &trace));
        }
    }
    let to = target(ctx, args.project)?;
    let draft = draft(ctx, args, import_plan::read(ctx, client, path)?, &to)?;
    let before = draft.file.text.clone().unwrap_or_default();
    let changes = draft.after != before;
    let shown = diff(&before, &draft.after, &hidden(&draft.file.document.found));
    if !args.dry_run && changes {
        confirm(ctx, args, &draft, &shown).await?;
    }
    if args.dry_run || !changes {
        return installed(ctx, args, &draft, &to, (None, &shown));
    }
    import_plan::carry_out(ctx, &to, &draft.plan)?;
    let backup = write(ctx, &draft)?;
    installed(ctx, args, &draft, &to, (Some(backup), &shown))
}

/// A project is not trusted to lead our writes elsewhere.
fn guarded(ctx: &Ctx, path: &Path, project: bool) -> Result<(), Failure> {
    if project {
        stays_inside(path, &ctx.loaded.project_root).map_err(|e| Failure::config(e.to_string()))?;
    }
    Ok(())
}

fn draft(ctx: &Ctx, args: &InstallArgs, file: ClientFile, to: &Target) -> Result<Draft, Failure> {
    let client = args.client;
    let found = &file.document.found;
    let plan = Planner::new(ctx, client, to, Clash::Tell, args.secrets)?.plan(found);
    let program = std::env::current_exe()
        .map_err(|e| Failure::io(Exit::Config, format!("can't tell where this program is: {e}")))?;
    let program = program.to_string_lossy();
    let mut change = Change::default();
    if args.split {
        let names = split_names(ctx, &plan);
        if names.is_empty() {
            return Err(Failure::usage("there are no servers to split").fix("leave --split out"));
        }
        change.put =
            names.iter().map(|name| (name.clone(), ours::entry(client, &program, Some(name)))).collect();
    } else {
        change.put = vec![(ours::NAME.to_owned(), ours::entry(client, &program, None))];
    }
    let goes = |one: &&Planned| one.state == State::Ourselves || (one.state.is_here() && !args.keep);
    change.take =
        plan.iter().filter(goes).map(|one| (one.found.place.clone(), one.found.name.clone())).collect();
    for (name, _) in &change.put {
        let main = |one: &&Planned| one.found.place == [client.key()] && one.found.name == *name;
        if let Some(one) = plan.iter().find(main).filter(|one| !goes(one)) {
            return Err(Failure::new(
                "exists",
                Exit::Usage,
                format!("{} has a server called {name} that stays there", client.title()),
            )
            .on(&one.found.name)
            .fix("rename it there first"));
        }
    }
    let text = file.text.as_deref().unwrap_or_default();
    let mut after = rewrite::apply(client, text, &change).map_err(|fault| broken(&file.path, &fault))?;
    let kept = files::latest(ctx.home()?, client, &file.path);
    if settled(&file, &change, &plan, args.keep) {
        after = text.to_owned();
    }
    Ok(Draft { file, plan, change, after, kept })
}

/// Whether the file has all of it already, however it is laid out.
fn settled(file: &ClientFile, change: &Change, plan: &[Planned], keep: bool) -> bool {
    let ours: Vec<&Found> = file.document.found.iter().filter(|one| is_ours(&one.value)).collect();
    let put = |one: &&&Found| change.put.iter().any(|(name, value)| *name == one.name && *value == one.value);
    let left = plan.iter().any(|one| one.state.is_here() && !keep);
    !left && ours.len() == change.put.len() && ours.iter().filter(put).count() == ours.len()
}

/// The servers that are split: those that come, and those that are here already and on.
fn split_names(ctx: &Ctx, plan: &[Planned]) -> Vec<String> {
    let is_on = |one: &&Planned| one.entry.get("disabled").is_none_or(|off| off != true);
    let coming = plan.iter().filter(|one| one.state.is_here()).filter(is_on).map(|one| one.name.clone());
    let mut names: Vec<String> = coming.collect();
    let here = ctx.loaded.servers.entries.iter().filter(|entry| matches!(entry.state, EntryState::Ready(_)));
    for entry in here {
        if !names.iter().any(|name| name == entry.id.as_str()) {
            names.push(entry.id.as_str().to_owned());
        }
    }
    names
}

/// What of the client's servers is not for the eyes: every value of env and headers, and what the
/// command line and the address may carry.
fn hidden(found: &[Found]) -> Vec<String> {
    const LEN_MIN: usize = 4;
    let forms = Redactor::default();
    let mut out = Vec::new();
    for one in found {
        for key in ["env", "headers", "http_headers"] {
            let map = one.value.get(key).and_then(serde_json::Value::as_object);
            out.extend(map.into_iter().flatten().filter_map(|(_, value)| value.as_str().map(str::to_owned)));
        }
        let entry = one.value.as_object().cloned().unwrap_or_default();
        let telling = credentials(&entry, &|text| forms.text(text) != text);
        let args = one.value.get("args").and_then(serde_json::Value::as_array).into_iter().flatten();
        let told = args.enumerate().filter(|(at, _)| telling.contains(&format!("args[{at}]")));
        out.extend(told.filter_map(|(_, arg)| arg.as_str().map(str::to_owned)));
        for key in ["url", "serverUrl", "httpUrl"] {
            let url = one.value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
            out.extend(url.split_once('?').map(|(_, query)| query.to_owned()));
        }
    }
    out.retain(|text| text.len() >= LEN_MIN && !text.starts_with('$'));
    out.sort_by_key(|text| std::cmp::Reverse(text.len()));
    out
}

async fn confirm(ctx: &Ctx, args: &InstallArgs, draft: &Draft, shown: &str) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let name = args.client.title();
    if ctx.global.json || !ctx.term.stdin || !ctx.term.stderr {
        return Err(Failure::refused(
            "not_approved",
            format!("{name} was left as it is: there is no terminal to ask on"),
        )
        .fix("look at it with --dry-run, then run it again with --yes"));
    }
    write_stderr(&format!("{}\n{}\n", draft.file.path.display(), ctx.clean(shown)));
    let moved = import_plan::lines(ctx, &draft.plan, true);
    write_stderr(&format!("In Callboard:\n{moved}\n\n"));
    if ask::yes_or_no(&format!("Write this for {name}?")).await {
        return Ok(());
    }
    Err(Failure::refused("not_approved", format!("{name} was left as it is")))
}

/// Backs the file up and writes it, if nobody has changed it since it was read.
fn write(ctx: &Ctx, draft: &Draft) -> Result<PathBuf, Failure> {
    let home = ctx.home()?;
    let (client, file) = (draft.file.client, &draft.file);
    let _lock = Lock::acquire(&file.path).map_err(|e| unreadable(&e))?;
    unchanged(file)?;
    // An install over an install is undone by going back to what was there before the first.
    let fresh = draft
        .kept
        .as_ref()
        .filter(|kept| file.text.as_deref().is_some_and(|text| hash(text) == kept.record.after_sha256));
    let before = match fresh.and_then(Kept::original) {
        Some(original) => original,
        None => without_ours(file, &[])?,
    };
    let mut moved: Vec<String> = fresh.map(|kept| kept.record.moved.clone()).unwrap_or_default();
    moved.extend(draft.plan.iter().filter(|one| one.state.is_here()).map(|one| one.name.clone()));
    moved.sort();
    moved.dedup();
    let mut taken = fresh.map(|kept| kept.record.taken.clone()).unwrap_or_default();
    let goes = |one: &&Planned| one.state.is_here();
    let goes = draft.plan.iter().filter(goes).map(|one| (one.found.place.clone(), one.found.name.clone()));
    taken.extend(goes.filter(|one| draft.change.take.contains(one)));
    taken.sort();
    taken.dedup();
    let record = Record {
        client: client.name().to_owned(),
        file: file.path.to_string_lossy().into_owned(),
        backup: None,
        before_sha256: None,
        after_sha256: hash(&draft.after),
        moved,
        taken,
    };
    let stamp: String = rfc3339(wall()).chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let backup = files::keep(home, client, &stamp, before.as_deref(), record).map_err(|e| unreadable(&e))?;
    store::write_atomic(&file.path, draft.after.as_bytes(), Mode::Keep).map_err(|e| unreadable(&e))?;
    Ok(backup)
}

/// The text with older entries of ours taken out and these put back; as it is when there is nothing to do.
fn without_ours(file: &ClientFile, back: &[Found]) -> Result<Option<String>, Failure> {
    let Some(text) = &file.text else { return Ok(None) };
    let take: Vec<_> = ours_in(file).map(|one| (one.place.clone(), one.name.clone())).collect();
    if take.is_empty() && back.is_empty() {
        return Ok(Some(text.clone()));
    }
    let change = Change { take, back: back.to_vec(), ..Change::default() };
    rewrite::apply(file.client, text, &change).map(Some).map_err(|fault| broken(&file.path, &fault))
}

fn ours_in(file: &ClientFile) -> impl Iterator<Item = &Found> {
    file.document.found.iter().filter(|one| is_ours(&one.value))
}

fn unchanged(file: &ClientFile) -> Result<(), Failure> {
    let now = store::read_text(&file.path, FILE_BYTES_MAX).map_err(|e| unreadable(&e))?;
    if now == file.text {
        return Ok(());
    }
    Err(Failure::config(format!(
        "{} was changed by another program meanwhile; it was left as it is",
        file.path.display()
    ))
    .fix("close the client and run it again"))
}

fn installed(
    ctx: &Ctx,
    args: &InstallArgs,
    draft: &Draft,
    to: &Target,
    (backup, shown): (Option<PathBuf>, &str),
) -> Result<Answer, Failure> {
    let client = args.client;
    let changes = draft.after != draft.file.text.as_deref().unwrap_or_default();
    let file = draft.file.path.display().to_string();
    let view = InstallView {
        client: client.name(),
        file: file.clone(),
        dry_run: args.dry_run,
        changed: backup.is_some(),
        entries: draft.change.put.iter().map(|(name, _)| name.as_str()).collect(),
        backup: backup.as_ref().map(|path| path.display().to_string()),
        target: to.path().display().to_string(),
        servers: import_plan::views(ctx, &draft.plan),
    };
    let mut human = Vec::new();
    if !changes {
        human.push(format!("nothing to do: Callboard is in {file} already"));
    } else {
        if args.dry_run || args.yes {
            human.push(format!("{file}\n{}", ctx.clean(shown)));
        }
        human.push(import_plan::lines(ctx, &draft.plan, args.dry_run));
        if let Some(backup) = &backup {
            human.push(format!("installed in {file}\nThe file as it was: {}", backup.display()));
            let project = if args.project { " --project" } else { "" };
            human.push(format!(
                "Start {} again. Undo: callboard uninstall {}{project}",
                client.title(),
                client.name()
            ));
        }
    }
    human.retain(|part| !part.is_empty());
    let mut warnings = import_plan::warnings(ctx, client, &draft.plan);
    let twice: Vec<&str> =
        draft.plan.iter().filter(|one| one.state.is_here()).map(|one| one.found.name.as_str()).collect();
    if args.keep && !twice.is_empty() {
        warnings.push(ctx.clean(&format!(
            "{} runs each of these itself too, so they run twice: {}",
            client.title(),
            twice.join(", ")
        )));
    }
    for one in draft.plan.iter().filter(|one| one.state == State::Impossible) {
        warnings.push(ctx.clean(&format!(
            "{} stays in {}: {}",
            one.found.name,
            client.title(),
            one.lost.join("; ")
        )));
    }
    if args.project && changes {
        warnings.push("the entry names this program by its path on this machine; others who share the project need it in the same place".to_owned());
        warnings.push("what was moved waits for approval, as everything that a project brings: callboard mcp approve NAME".to_owned());
    }
    Ok(Answer::new(INSTALL, &view, human.join("\n\n"))?.warn(warnings))
}

/// `uninstall`
pub fn uninstall(ctx: &Ctx, args: &UninstallArgs) -> Result<Answer, Failure> {
    let client = args.client;
    let path = import_plan::locate(ctx, client, args.project)?;
    guarded(ctx, &path, args.project)?;
    let text = store::read_text(&path, FILE_BYTES_MAX).map_err(|e| unreadable(&e))?;
    let Some(text) = text else { return Err(import_plan::no_client(client, &path)) };
    let home = ctx.home()?;
    let _lock = if args.dry_run { None } else { Some(Lock::acquire(&path).map_err(|e| unreadable(&e))?) };
    let kept = files::latest(home, client, &path);
    // A file that is what we wrote is given back unread.
    let fresh = kept.as_ref().filter(|kept| hash(&text) == kept.record.after_sha256);
    if let Some((kept, original)) = fresh.and_then(|kept| Some((kept, kept.original()?))) {
        if !args.dry_run {
            match &original {
                Some(original) => {
                    store::write_atomic(&path, original.as_bytes(), Mode::Keep).map_err(|e| unreadable(&e))?
                }
                None => std::fs::remove_file(&path)
                    .map_err(|e| Failure::io(Exit::Config, format!("{}: {e}", path.display())))?,
            }
            kept.forget().map_err(|e| unreadable(&e))?;
        }
        let human = match original {
            Some(_) => format!("{} is byte for byte what it was", path.display()),
            None => format!("{} was not there before, and is gone again", path.display()),
        };
        return uninstalled(
            ctx,
            args,
            &path,
            Some(kept),
            Undone { human, restored: true, ..Undone::default() },
        );
    }
    let file = import_plan::read(ctx, client, path)?;
    let removed: Vec<&str> = ours_in(&file).map(|one| one.name.as_str()).collect();
    let kept = kept.filter(|_| !removed.is_empty());
    let (back, lost) = kept.as_ref().map(|kept| missing(ctx, kept, &file)).unwrap_or_default();
    let after = without_ours(&file, &back)?.unwrap_or_default();
    if !args.dry_run && !removed.is_empty() {
        unchanged(&file)?;
        store::write_atomic(&file.path, after.as_bytes(), Mode::Keep).map_err(|e| unreadable(&e))?;
        if let Some(kept) = &kept {
            kept.forget().map_err(|e| unreadable(&e))?;
        }
    }
    let back: Vec<&str> = back.iter().map(|one| one.name.as_str()).collect();
    let human = match (removed.is_empty(), back.is_empty()) {
        (true, _) => format!("nothing to do: Callboard is not in {}", file.path.display()),
        (false, true) => format!(
            "{} was changed since the install, so only our own entries were taken out: {}",
            file.path.display(),
            removed.join(", ")
        ),
        (false, false) => format!(
            "{} was changed since the install: our own entries were taken out ({}), its servers put back ({}), and nothing else touched",
            file.path.display(),
            removed.join(", "),
            back.join(", ")
        ),
    };
    let undone = Undone { human, removed, back, lost, restored: false };
    uninstalled(ctx, args, &file.path, kept.as_ref(), undone)
}

/// What came of an `uninstall`.
#[derive(Default)]
struct Undone<'a> {
    human: String,
    /// Entries of ours that went.
    removed: Vec<&'a str>,
    /// The client's own that came back.
    back: Vec<&'a str>,
    /// Those that could not be put back.
    lost: Vec<String>,
    /// The file is byte for byte what it was.
    restored: bool,
}

/// What the install took out of the file and nobody has put there since, as it was; and the names of
/// those of which nothing is known any more.
fn missing(ctx: &Ctx, kept: &Kept, file: &ClientFile) -> (Vec<Found>, Vec<String>) {
    let project = ctx.loaded.project_root.to_string_lossy();
    let text = kept.original().flatten().unwrap_or_default();
    let was = document::read(file.client, &text, &project).map(|was| was.found).unwrap_or_default();
    let theirs = || file.document.found.iter().filter(|one| !is_ours(&one.value));
    let (mut back, mut lost) = (Vec::new(), Vec::new());
    for (place, name) in &kept.record.taken {
        let is = |one: &&Found| one.place == *place && one.name == *name;
        match was.iter().find(is) {
            _ if theirs().any(|one| is(&one)) => {}
            Some(one) => back.push(one.clone()),
            None => lost.push(name.clone()),
        }
    }
    // An older record says nothing about places.
    if kept.record.taken.is_empty() {
        lost.clone_from(&kept.record.moved);
    }
    (back, lost)
}

fn uninstalled(
    ctx: &Ctx,
    args: &UninstallArgs,
    path: &Path,
    kept: Option<&Kept>,
    undone: Undone<'_>,
) -> Result<Answer, Failure> {
    let Undone { mut human, removed, back, lost, restored } = undone;
    let moved = kept.map(|kept| kept.record.moved.clone()).unwrap_or_default();
    let is_here = |name: &String| ctx.loaded.definitions.iter().any(|definition| definition.name == *name);
    let still: Vec<String> = moved.into_iter().filter(is_here).collect();
    let backup = kept.and_then(Kept::backup).map(|path| path.display().to_string());
    if args.dry_run {
        human = format!("(not done, only shown) {human}");
    }
    if !lost.is_empty() {
        human.push_str(&format!("\nNot put back, and in Callboard alone: {}", lost.join(", ")));
        human.push_str("\nTo have them in the client again, take them from the file below.");
    } else if !still.is_empty() {
        human.push_str("\nThe servers that were moved stay in Callboard too. To remove them:");
        for name in &still {
            human.push_str(&format!("\n    callboard mcp remove {}", shell_word(name)));
        }
    }
    if let Some(backup) = backup.as_ref().filter(|_| !restored) {
        human.push_str(&format!("\nThe file as it was before the install: {backup}"));
    }
    let view = UninstallView {
        client: args.client.name(),
        file: path.display().to_string(),
        dry_run: args.dry_run,
        changed: !args.dry_run && (restored || !removed.is_empty()),
        restored,
        entries_removed: removed,
        entries_restored: back,
        backup,
        still_in_callboard: still,
    };
    Answer::new(UNINSTALL, &view, human)
}
