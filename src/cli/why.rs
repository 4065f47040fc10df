//! Floor 5. `why S [TOOL]`: runs one server until there is something to say about it, then tells
//! whose fault its state is, what comes next, what cures it, and what happened in order; with a
//! tool also what policy says to its calls. Called by `cli::run`.

use std::time::{Duration, SystemTime};

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{self, Work, ms};
use super::list_args::WhyArgs;
use super::out::Answer;
use super::session::{answering, plan, waiting};
use super::status_view::is_healthy;
use super::why_tool::{self, ToolView};
use super::why_view::{WhyView, why_text};
use crate::id::ServerId;
use crate::runtime::{Runtime, is_settled};
use crate::time::wall;
use crate::view::ServerView;

/// Name and version of the shape of the answer.
pub const SCHEMA: &str = "callboard.why/1";

/// A next start that is further away than this is not waited for.
const NEXT_START_MAX: Duration = Duration::from_secs(10);

/// `why S [TOOL]`
pub async fn why(ctx: &Ctx, args: WhyArgs) -> Result<Done, Failure> {
    let server = ctx.entry(&args.server)?.id.clone();
    let work = Work::Why { server: server.clone(), tool: args.tool.clone(), within_ms: ms(args.wait) };
    if let Some(answer) = far::using(ctx, SCHEMA, Some(&server), &work).await? {
        return Ok(answer.into());
    }
    let plan = plan(ctx, std::slice::from_ref(&server));
    let body = async |runtime: &Runtime| look(ctx, runtime, &server, args.tool.as_deref(), args.wait).await;
    let name = |failure: Failure| match &args.tool {
        Some(tool) => failure.on(&args.server).about(tool),
        None => failure.on(&args.server),
    };
    answering(ctx, SCHEMA, plan, body, name).await
}

/// The account of one server, and of one of its tools.
pub async fn look(
    ctx: &Ctx,
    runtime: &Runtime,
    server: &ServerId,
    tool: Option<&str>,
    wait: Option<Duration>,
) -> Result<Answer, Failure> {
    if ctx.far.is_some() {
        far::wake(runtime, server);
    }
    let view = watched(ctx, runtime, server, wait).await?;
    let tool = match tool {
        Some(name) => {
            let entry = ctx.entry(server.as_str())?;
            let (mode, rules) = (ctx.loaded.settings.mode, &ctx.loaded.rules);
            let asked = why_tool::Asked { entry, view: &view, name, mode, rules };
            Some(why_tool::look(ctx, &far::catalog(ctx, runtime), &asked)?)
        }
        None => None,
    };
    answer(ctx, &view, tool, wall())
}

fn answer(ctx: &Ctx, view: &ServerView, tool: Option<ToolView>, now: SystemTime) -> Result<Answer, Failure> {
    let whole = WhyView::new(view, tool, now);
    let human = why_text(view, &whole, now, ctx.style());
    let exit = if is_healthy(view.state) { Exit::Ok } else { Exit::Unhealthy };
    let told = |warning: &String| view.warnings.contains(warning);
    let warnings = ctx.warnings().into_iter().filter(|warning| !told(warning));
    Ok(Answer::new(SCHEMA, &whole, human)?.warn(warnings).ending(exit))
}

/// The view of the server when nothing more is to be expected of it soon, or when `wait` is over.
async fn watched(
    ctx: &Ctx,
    runtime: &Runtime,
    server: &ServerId,
    wait: Option<Duration>,
) -> Result<ServerView, Failure> {
    let wanted = std::slice::from_ref(server);
    let views = match wait {
        Some(wait) => waiting(ctx, runtime, runtime.settle(wanted, wait)).await,
        None => {
            waiting(ctx, runtime, told_enough(runtime, wanted)).await;
            // The merged catalogue may lag behind for a moment.
            runtime.settle(wanted, Duration::ZERO).await
        }
    };
    let view = views.into_iter().find(|view| view.id == *server);
    view.ok_or_else(|| Failure::unknown_server(server.as_str(), []))
}

async fn told_enough(runtime: &Runtime, wanted: &[ServerId]) {
    let mut watch = runtime.watch(wanted);
    while watch.look().iter().any(|view| is_expecting(view, wall())) {
        watch.changed().await;
    }
}

/// Whether more will be known soon. A server that is late has shown what it does, and a next start
/// that is far away can be named.
fn is_expecting(view: &ServerView, now: SystemTime) -> bool {
    let far = |at: SystemTime| at.duration_since(now).is_ok_and(|left| left > NEXT_START_MAX);
    !is_settled(view) && !view.late && !view.next_attempt.is_some_and(far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_view::tests::view;
    use crate::view::{LifeState, ParkReason};

    #[test]
    fn it_waits_until_there_is_something_to_say() {
        let now = SystemTime::UNIX_EPOCH;
        let of = |state, late, next: Option<u64>| {
            let mut seen = view("s", state);
            seen.late = late;
            seen.next_attempt = next.map(|s| now + Duration::from_secs(s));
            is_expecting(&seen, now)
        };
        assert!(of(LifeState::Connecting, false, None));
        assert!(!of(LifeState::Connecting, true, None), "late");
        assert!(of(LifeState::BackingOff, false, Some(8)));
        assert!(!of(LifeState::BackingOff, false, Some(300)), "throttled for minutes");
        assert!(!of(LifeState::Ready, false, None));
        assert!(!of(LifeState::Parked(ParkReason::GivenUp), false, None));
        let unlisted = ServerView { listed: false, ..view("s", LifeState::Ready) };
        assert!(is_expecting(&unlisted, now));
    }

    #[test]
    fn it_ends_as_the_status_of_one_server_does() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        for (state, exit) in [
            (LifeState::Ready, Exit::Ok),
            (LifeState::Dormant, Exit::Ok),
            (LifeState::Parked(ParkReason::Disabled), Exit::Unhealthy),
            (LifeState::BackingOff, Exit::Unhealthy),
        ] {
            assert_eq!(answer(&ctx, &view("s", state), None, wall()).unwrap().exit, exit, "{state:?}");
        }
    }
}
