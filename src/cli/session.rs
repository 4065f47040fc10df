//! Floor 5. A runtime for the time of one command: starts only what is needed, ends
//! everything whatever happens, hears Ctrl-C. Used by every verb that needs servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{self, Far};
use super::out::{Answer, answer_text, failure_text, tell, told, write_stderr};
use super::stand_in::StandIn;
use super::status_view::state_word;
use super::{state_folders, text};
use crate::call::{Delivery, Phase};
use crate::config::spec::ServerSet;
use crate::id::{ServerId, shell_word};
use crate::runtime::{PinsAt, Runtime, RuntimePlan, is_settled};
use crate::shaping::render::one_line;
use crate::time::wall;
use crate::view::{LifeState, ParkReason, ServerView};

/// The plan that runs these servers of a configuration; all when `only` is empty.
pub fn plan(ctx: &Ctx, only: &[ServerId]) -> RuntimePlan {
    let servers = &ctx.loaded.servers;
    let wanted = |id: &ServerId| only.is_empty() || only.contains(id);
    let entries: Vec<_> = servers.entries.iter().filter(|entry| wanted(&entry.id)).cloned().collect();
    let start: BTreeSet<ServerId> = entries.iter().map(|entry| entry.id.clone()).collect();
    RuntimePlan {
        servers: ServerSet { entries, ..servers.clone() },
        // A command that asks for a server starts it, lazy or not.
        only: Some(start),
        guard: ctx.guard.clone(),
        // One that runs once is nobody's: what it shows is pinned for this run alone.
        pins: PinsAt::of(&ctx.loaded).filter(|_| ctx.once.is_none()),
        redaction: ctx.redaction.clone(),
        ..RuntimePlan::of(&ctx.loaded, &ctx.options.env)
    }
}

/// Runs `body` on a runtime and ends it afterwards, also after Ctrl-C. A second Ctrl-C does
/// not wait for the servers to end on their own.
pub async fn with_runtime<T>(
    ctx: &Ctx,
    plan: RuntimePlan,
    body: impl AsyncFnOnce(&Runtime) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if let Some(house) = &ctx.house {
        return beside(house.runtime(), body).await;
    }
    let runtime =
        Runtime::start(plan).await.map_err(|e| Failure::new("internal", Exit::Unavailable, e.to_string()))?;
    let outcome = beside(&runtime, body).await;
    tokio::select! {
        biased;
        () = interrupted() => {}
        () = shutdown(ctx, runtime) => {}
    }
    outcome
}

/// Runs `body`, and hears Ctrl-C and the end of the core meanwhile.
async fn beside<T>(
    runtime: &Runtime,
    body: impl AsyncFnOnce(&Runtime) -> Result<T, Failure>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = interrupted() => Err(Failure::interrupted()),
        () = runtime.broken() => Err(Failure::new(
            "internal",
            Exit::Unavailable,
            "the core of the host failed again and again: a bug of Callboard, please report it".to_owned(),
        )),
        outcome = body(runtime) => outcome,
    }
}

/// Ends all servers; a line on stderr says that they are awaited: on a terminal while they are, in a
/// pipe once.
pub async fn shutdown(ctx: &Ctx, runtime: Runtime) {
    let mut watch = runtime.watch(&[]);
    let done = runtime.shutdown();
    tokio::pin!(done);
    if !ctx.term.stderr || ctx.global.json {
        if tokio::time::timeout(TELL_AFTER, &mut done).await.is_err() {
            if !ctx.global.json {
                write_stderr(&format!("{}\n", ending_text(&watch.look())));
            }
            done.await;
        }
        return;
    }
    if tokio::time::timeout(SHOW_AFTER, &mut done).await.is_err() {
        let mut line = StatusLine::new(ctx);
        loop {
            line.show(&ending_text(&watch.look()));
            if tokio::time::timeout(REDRAW_AFTER, &mut done).await.is_ok() {
                return;
            }
        }
    }
}

/// After that long the end of the servers is worth a line where nobody looks on.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// How often the line about servers that linger is brought up to date.
const REDRAW_AFTER: Duration = Duration::from_millis(200);

/// One line that says which servers have not left yet.
fn ending_text(views: &[ServerView]) -> String {
    let lingers = |view: &&ServerView| view.leaving || view.state == LifeState::Draining;
    let names: Vec<&str> = views.iter().filter(lingers).map(|view| view.id.as_str()).collect();
    let whom = match names.len() {
        0 => "the servers".to_owned(),
        n if n > NAMES_MAX => format!("{} and {} more", names[..NAMES_MAX].join(", "), n - NAMES_MAX),
        _ => names.join(", "),
    };
    format!("waiting for {whom} to end; Ctrl-C does not wait")
}

/// Runs `body` as [`with_runtime`] does, and tells its answer or failure as soon as it is there:
/// some servers take seconds to leave. `name` completes every failure, also an interruption.
pub async fn answering(
    ctx: &Ctx,
    schema: &str,
    plan: RuntimePlan,
    body: impl AsyncFnOnce(&Runtime) -> Result<Answer, Failure>,
    name: impl Fn(Failure) -> Failure,
) -> Result<Done, Failure> {
    let (json, stderr) = (ctx.global.json, ctx.term.style_err());
    let exit = with_runtime(ctx, plan, async |runtime| {
        let mut errors = ctx.source_errors();
        errors.extend(ctx.loaded.home.as_deref().ok().and_then(state_folders::warning));
        let outcome = body(runtime).await.map_err(|failure| ctx.fitting(name(failure)));
        let (printed, exit) = match told(outcome, &errors) {
            Ok(answer) => (answer_text(&answer, json, stderr), answer.exit),
            Err(failure) => (failure_text(schema, &failure, json, stderr), failure.exit),
        };
        let printed = if ctx.house.is_some() { super::repl::mcp::here(printed) } else { printed };
        Ok(tell(&printed, exit))
    })
    .await;
    exit.map(Done::Streamed).map_err(|failure| ctx.fitting(name(failure)))
}

/// Resolves on Ctrl-C, and when the system asks us to end.
/// From the call on, not from the first poll: what comes in between is heard.
pub fn interrupted() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let heard = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        async move {
            let (Ok(mut term), Ok(mut int)) = heard else { return std::future::pending().await };
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        }
    }
    #[cfg(not(unix))]
    async {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Waits for `done`; on a terminal a line on stderr says meanwhile which servers are awaited.
pub async fn waiting<T>(ctx: &Ctx, runtime: &Runtime, done: impl Future<Output = T>) -> T {
    if !ctx.term.stderr || ctx.global.json {
        return done.await;
    }
    let mut watch = runtime.watch(&[]);
    tokio::pin!(done);
    // A wait that is hardly noticed needs no words.
    if let Ok(outcome) = tokio::time::timeout(SHOW_AFTER, &mut done).await {
        return outcome;
    }
    let mut line = StatusLine::new(ctx);
    loop {
        line.show(&waiting_text(&watch.look()));
        tokio::select! {
            biased;
            outcome = &mut done => return outcome,
            () = watch.changed() => {}
            () = tokio::time::sleep(COUNT_EVERY) => {}
        }
    }
}

/// How often the line of a wait is counted down when nothing changes.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// After that long a wait on a terminal says whom it waits for.
const SHOW_AFTER: Duration = Duration::from_millis(400);

/// What an awaited server is doing.
fn waiting_word(view: &ServerView) -> String {
    let left = view.next_attempt.and_then(|at| at.duration_since(wall()).ok());
    match (view.state, left) {
        (LifeState::Ready, _) => "listing".to_owned(),
        (LifeState::BackingOff, Some(left)) if left >= Duration::from_secs(1) => {
            format!("starts again in {}", text::span(Duration::from_secs(left.as_secs())))
        }
        _ => state_word(view).0.to_owned(),
    }
}

/// One line that says who is still awaited; empty when nobody is.
pub fn waiting_text(views: &[ServerView]) -> String {
    let open: Vec<&ServerView> = views.iter().filter(|view| !is_settled(view)).collect();
    if open.is_empty() {
        return String::new();
    }
    let names: Vec<String> =
        open.iter().take(NAMES_MAX).map(|view| format!("{} ({})", view.id, waiting_word(view))).collect();
    let more = open.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} of {} settled; waiting for {}{more}", views.len() - open.len(), views.len(), names.join(", "))
}

/// Servers that the waiting line names.
const NAMES_MAX: usize = 4;

/// A line on a terminal's stderr that is written over again and leaves nothing behind.
#[derive(Debug)]
pub struct StatusLine {
    width: usize,
    shown: bool,
    /// The process that shows it, where that is another one.
    far: Option<Arc<Far>>,
}

impl StatusLine {
    /// For the screen of whoever asked.
    pub fn new(ctx: &Ctx) -> Self {
        Self { width: usize::from(ctx.term.width_err), shown: false, far: ctx.far.clone() }
    }

    /// Shows that text in place of the last one; nothing at all for an empty text.
    pub fn show(&mut self, text: &str) {
        if text.is_empty() {
            return self.clear();
        }
        self.shown = true;
        match &self.far {
            Some(far) => far.talk.line(text),
            None => write_stderr(&self.over(text)),
        }
    }

    /// The text, cut so that it never wraps, with what takes the last one away.
    fn over(&self, text: &str) -> String {
        format!("\r\u{1b}[2K{}", one_line(text, self.width.saturating_sub(1)))
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            match &self.far {
                Some(far) => far.talk.line(""),
                None => write_stderr("\r\u{1b}[2K"),
            }
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// How much longer than one start may take a server is waited for when the user sets no limit.
const WAIT_EXTRA: Duration = Duration::from_secs(15);

/// Waits for one server. `Ok` when it is ready and its lists are read, or need not be; else why not.
pub async fn ready(
    ctx: &Ctx,
    runtime: &Runtime,
    server: &ServerId,
    within: Option<Duration>,
) -> Result<ServerView, Failure> {
    let wanted = std::slice::from_ref(server);
    let one_start = ctx.loaded.settings.timeouts.max_start + WAIT_EXTRA;
    if ctx.far.is_some() {
        far::wake(runtime, server);
    }
    let views = waiting(ctx, runtime, runtime.settle(wanted, within.unwrap_or(one_start))).await;
    match views.into_iter().find(|view| view.id == *server) {
        Some(view) if view.state == LifeState::Ready && view.listed => Ok(view),
        // What it offers is known, and nobody asked to start it.
        Some(view) if view.state == LifeState::Dormant && view.kept_from.is_some() => Ok(view),
        Some(view) => Err(unavailable(ctx, &view)),
        None => Err(Failure::unknown_server(server.as_str(), [])),
    }
}

/// The failure of a verb that needs the list of tools of a server which did not give it.
pub fn unread(ctx: &Ctx, server: &ServerId, cause: &str) -> Failure {
    let message = format!("the tools of {server} could not be listed: {}", ctx.clean(cause));
    let mut failure = Failure::new("not_ready", Exit::Unavailable, message).on(server.as_str());
    failure.phase = Some(Phase::Resolve);
    failure.delivery = Some(Delivery::NotSent);
    failure.fix(format!("callboard mcp why {}", shell_word(server.as_str())))
}

/// Why a server can't be used, in the words of its view.
pub fn unavailable(ctx: &Ctx, view: &ServerView) -> Failure {
    let (code, exit) = match view.state {
        LifeState::Parked(ParkReason::NeedsAuth) => ("needs_auth", Exit::NeedsAuth),
        LifeState::Parked(ParkReason::ConfigError) => ("config_error", Exit::Config),
        LifeState::Parked(ParkReason::Disabled) => ("disabled", Exit::Refused),
        LifeState::Parked(ParkReason::PendingApproval) => ("pending_approval", Exit::Refused),
        LifeState::Parked(ParkReason::GivenUp) => ("given_up", Exit::Unavailable),
        _ => ("not_ready", Exit::Unavailable),
    };
    let (word, _) = state_word(view);
    let mut message = match &view.why {
        Some(why) => format!("{}: {}", view.id, ctx.clean(why)),
        None if view.state == LifeState::Ready => {
            format!("{} has not listed what it offers in time", view.id)
        }
        None => format!("{} is not usable: {word}", view.id),
    };
    if let Some(line) = view.last_stderr.as_deref().filter(|line| !message.contains(*line)) {
        message.push_str(&format!("\n  its last words on stderr: {}", ctx.clean(line)));
    }
    let mut failure = Failure::new(code, exit, message).on(view.id.as_str());
    failure.detail.clone_from(&view.detail);
    failure.phase = Some(Phase::Connect);
    failure.delivery = Some(Delivery::NotSent);
    failure.fix = Some(match (&ctx.once, &view.fix) {
        (Some(stand_in), _) if exit == Exit::NeedsAuth => {
            format!("keep it with its credentials: {} -H 'Authorization=Bearer ${{TOKEN}}'", stand_in.keep())
        }
        // A cause that is understood has its cure, entry or not.
        (Some(_), Some(fix)) if view.detail.is_some() || exit == Exit::Config => ctx.clean(fix),
        (Some(StandIn::Url(_)), _) => "open the URL by itself to see what answers there".to_owned(),
        (Some(StandIn::Command(_)), _) => "run the command by itself to see what it says".to_owned(),
        (None, Some(fix)) => ctx.clean(fix),
        (None, None) => format!("callboard mcp why {}", shell_word(view.id.as_str())),
    });
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_view::tests::view;

    #[test]
    fn the_waiting_line_names_those_that_are_awaited() {
        let mut listing = view("e", LifeState::Ready);
        listing.listed = false;
        let views = [
            view("a", LifeState::Ready),
            view("b", LifeState::Connecting),
            view("c", LifeState::BackingOff),
            view("d", LifeState::Parked(ParkReason::Disabled)),
            listing,
        ];
        assert_eq!(
            waiting_text(&views),
            "2 of 5 settled; waiting for b (connecting), c (backing off), e (listing)"
        );
        assert_eq!(waiting_text(&views[..1]), "");
    }

    #[test]
    fn a_slow_end_says_what_is_awaited() {
        let mut views: Vec<ServerView> = (0..9).map(|n| view(&format!("s{n}"), LifeState::Stopped)).collect();
        assert_eq!(ending_text(&views), "waiting for the servers to end; Ctrl-C does not wait");
        views[2].leaving = true;
        assert_eq!(ending_text(&views), "waiting for s2 to end; Ctrl-C does not wait");
        views[5].state = LifeState::Draining;
        assert_eq!(ending_text(&views), "waiting for s2, s5 to end; Ctrl-C does not wait");
        views.iter_mut().for_each(|view| view.leaving = true);
        assert_eq!(ending_text(&views), "waiting for s0, s1, s2, s3 and 5 more to end; Ctrl-C does not wait");
    }

    #[test]
    fn the_line_never_wraps() {
        let line = StatusLine { width: 20, shown: false, far: None };
        assert_eq!(line.over("short"), "\r\u{1b}[2Kshort");
        let long = line.over("waiting for a very long list of servers");
        assert!(long.trim_start_matches("\r\u{1b}[2K").chars().count() < 20, "{long:?}");
        assert!(
            line.over("漢字漢字漢字漢字漢字漢字").chars().filter(|c| *c == '漢' || *c == '字').count() < 10
        );
    }

    #[test]
    fn every_state_that_is_not_ready_has_its_code_and_a_cure() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let of = |state, once: bool| {
            let mut broken = view("s", state);
            broken.why = Some("because".into());
            broken.last_stderr = Some("last words".into());
            let mut ctx = ctx.clone();
            ctx.once = once.then(|| StandIn::Url("https://h/".into()));
            unavailable(&ctx, &broken)
        };
        for (state, code, exit) in [
            (LifeState::Parked(ParkReason::NeedsAuth), "needs_auth", 6),
            (LifeState::Parked(ParkReason::ConfigError), "config_error", 3),
            (LifeState::Parked(ParkReason::Disabled), "disabled", 5),
            (LifeState::Parked(ParkReason::PendingApproval), "pending_approval", 5),
            (LifeState::Parked(ParkReason::GivenUp), "given_up", 7),
            (LifeState::Connecting, "not_ready", 7),
            (LifeState::BackingOff, "not_ready", 7),
            (LifeState::Stopped, "not_ready", 7),
        ] {
            let failure = of(state, false);
            assert_eq!((failure.code.as_ref(), failure.exit.code()), (code, exit), "{state:?}");
            assert_eq!(failure.delivery, Some(Delivery::NotSent));
            assert!(failure.message.contains("because") && failure.message.contains("last words"));
            assert_eq!(failure.fix.as_deref(), Some("callboard mcp why s"));
            let fix = of(state, true).fix.unwrap();
            assert!(!fix.contains("mcp why"), "a server that runs once is not configured: {fix}");
        }
    }

    #[test]
    fn a_plan_has_the_wanted_servers_alone_and_starts_them() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(
            home.path().join("mcp.json"),
            r#"{"mcpServers":{"a":{"command":"x"},"lazy":{"command":"x","start":"lazy"}}}"#,
        )
        .unwrap();
        let ctx = Ctx::for_test(home.path(), &[("SEEN", "yes")]);
        let all = plan(&ctx, &[]);
        assert_eq!(all.servers.entries.len(), 2);
        assert_eq!(all.only.map(|only| only.len()), Some(2), "lazy ones too: they were asked for");
        assert_eq!(all.host_env.get("SEEN").map(String::as_str), Some("yes"));
        let one = plan(&ctx, &[ServerId::new("lazy")]);
        assert_eq!(one.servers.entries.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["lazy"]);
    }

    #[test]
    fn many_awaited_servers_are_counted() {
        let views: Vec<ServerView> = (0..9).map(|n| view(&format!("s{n}"), LifeState::Connecting)).collect();
        assert!(waiting_text(&views).ends_with(" and 5 more"));
    }
}
