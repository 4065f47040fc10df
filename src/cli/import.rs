//! Floor 5. `mcp import CLIENT`: takes the servers of another client over, and says of each
//! what was written differently and what has no counterpart. The client's file stays as it is.

use serde::Serialize;

use super::client_args::ImportArgs;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::{Failure, nearest};
use super::import_plan::{self, Clash, Planned, PlannedView, Planner, State};
use super::out::Answer;
use super::text::quoted;
use crate::clients::client::Client;
use crate::config::edit::Target;

/// The shape of the answer.
pub const SCHEMA: &str = "callboard.import/1";

#[derive(Serialize)]
struct ImportView<'a> {
    client: &'static str,
    file: String,
    target: String,
    dry_run: bool,
    servers: Vec<PlannedView<'a>>,
}

/// `import`
pub fn import(ctx: &Ctx, args: &ImportArgs) -> Result<Answer, Failure> {
    let client = args.client;
    let path = match &args.from {
        Some(path) => ctx.options.cwd.join(path),
        None => import_plan::locate(ctx, client, args.project)?,
    };
    let target = target(ctx, args.project)?;
    if args.project && args.from.is_none() && client == Client::ClaudeCode {
        return Err(Failure::usage(
            "the project's .mcp.json is read by Callboard as it is: there is nothing to import",
        )
        .fix("callboard mcp list"));
    }
    let file = import_plan::read(ctx, client, path)?;
    if file.text.is_none() {
        return Err(import_plan::no_client(client, &file.path));
    }
    let mut found = file.document.found.clone();
    if !args.names.is_empty() {
        for name in &args.names {
            let known = || found.iter().map(|one| one.name.as_str());
            if !known().any(|known| known == name) {
                let near = nearest(name, known()).map_or_else(
                    || format!("`callboard mcp import {} --dry-run` shows them all", client.name()),
                    |near| format!("did you mean {near}?"),
                );
                let message = format!("{} has no server called {}", file.path.display(), quoted(name));
                return Err(Failure::new("unknown_server", Exit::NotFound, message).on(name).fix(near));
            }
        }
        found.retain(|one| args.names.contains(&one.name));
    }
    let clash = match (args.rename, args.overwrite) {
        (true, _) => Clash::Rename,
        (_, true) => Clash::Overwrite,
        _ => Clash::Tell,
    };
    let plan = Planner::new(ctx, client, &target, clash, args.secrets)?.plan(&found);
    if !args.dry_run {
        import_plan::carry_out(ctx, &target, &plan)?;
    }
    answer(ctx, args, &file, &target, &plan)
}

/// Where servers of a client go.
pub fn target(ctx: &Ctx, project: bool) -> Result<Target, Failure> {
    Ok(if project {
        Target::ProjectOwn { root: ctx.loaded.project_root.clone() }
    } else {
        Target::User { home: ctx.home()?.to_path_buf() }
    })
}

fn answer(
    ctx: &Ctx,
    args: &ImportArgs,
    file: &import_plan::ClientFile,
    target: &Target,
    plan: &[Planned],
) -> Result<Answer, Failure> {
    let client = args.client;
    let view = ImportView {
        client: client.name(),
        file: file.path.display().to_string(),
        target: target.path().display().to_string(),
        dry_run: args.dry_run,
        servers: import_plan::views(ctx, plan),
    };
    let mut human = if plan.is_empty() {
        format!("{} has no MCP servers", file.path.display())
    } else {
        import_plan::lines(ctx, plan, args.dry_run)
    };
    let added = plan.iter().filter(|one| matches!(one.state, State::Added | State::Replaced)).count();
    if added > 0 && !args.dry_run {
        human.push_str(&format!("\n\n{added} in {}\nTry them: callboard mcp status", view.target));
        if args.project {
            human.push_str(
                "\nThey wait for approval, as everything that a project brings: callboard mcp approve NAME",
            );
        }
    }
    let mut warnings = import_plan::warnings(ctx, client, plan);
    if added > 0 && client != Client::Codex {
        warnings.push(format!(
            "{} gives a server its whole environment, Callboard only what its entry names: add env or env_passthrough where a server misses a variable",
            client.title()
        ));
    }
    for (folder, count) in &file.document.elsewhere {
        warnings.push(format!(
            "{} of the folder {} not looked at: run it there, or with -C",
            if *count == 1 { "one server".to_owned() } else { format!("{count} servers") },
            format_args!("{} {}", ctx.clean(folder), if *count == 1 { "was" } else { "were" }),
        ));
    }
    let out = plan.iter().any(|one| matches!(one.state, State::Clash | State::Impossible));
    let exit = if out { Exit::Unhealthy } else { Exit::Ok };
    Ok(Answer::new(SCHEMA, &view, human)?.warn(warnings).ending(exit))
}
