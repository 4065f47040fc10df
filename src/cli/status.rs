//! Floor 5. `status`: starts the approved servers, shows how they are, ends them; with
//! `--watch` keeps them running and shows every change. Called by `cli::run`.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::list::{nothing, source_exit};
use super::list_args::StatusArgs;
use super::out::{self, Answer};
use super::session::{answering, plan, waiting, with_runtime};
use super::status_view::{StatusRow, counts_down, is_expected, is_healthy, sheet_text, table_text};
use crate::catalog::flow::{Flow, flow};
use crate::id::ServerId;
use crate::runtime::{Runtime, ViewWatch};
use crate::serve::Talk;
use crate::time::wall;
use crate::view::ServerView;

pub(super) const SCHEMA: &str = "callboard.status/1";

/// How long slower servers are waited for after the last one became ready.
const GRACE: Duration = Duration::from_secs(2);

/// Between two pictures of `--watch` while something is counted down; with the least time between
/// pictures it makes a second.
const TICK: Duration = Duration::from_millis(900);

/// Least time between two pictures of `--watch`.
const REDRAW_EVERY: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct StatusView {
    healthy: bool,
    mode: &'static str,
    servers: Vec<StatusRow>,
    toxic_flow: Option<Flow>,
}

impl StatusView {
    fn of(ctx: &Ctx, healthy: bool, views: &[ServerView]) -> Self {
        let mode = ctx.loaded.settings.mode.as_str();
        let toxic_flow = flow(views.iter().map(|view| (view.id.as_str(), &view.reach)));
        let toxic_flow = toxic_flow.map(|flow| flow.cleaned(&|text| ctx.clean(text)));
        Self { healthy, mode, servers: views.iter().map(StatusRow::from).collect(), toxic_flow }
    }
}

/// `status [S]`
pub async fn status(ctx: &Ctx, args: StatusArgs) -> Result<Done, Failure> {
    let wanted = match &args.server {
        Some(name) => vec![ctx.entry(name)?.id.clone()],
        None => Vec::new(),
    };
    if ctx.loaded.servers.entries.is_empty() {
        let view = StatusView::of(ctx, !ctx.has_broken_source(), &[]);
        let answer = Answer::new(SCHEMA, &view, nothing(ctx))?.warn(ctx.warnings());
        return Ok(answer.ending(source_exit(ctx)).into());
    }
    #[cfg(unix)]
    if args.watch {
        if ctx.house.is_none()
            && let Some(exit) = watch_host(ctx, &wanted).await.transpose()
        {
            return streamed(exit);
        }
    } else if ctx.house.is_none()
        && let Some(answer) = super::control::ask(ctx, "status", SCHEMA, &wanted, args.wait).await?
    {
        return Ok(answer.into());
    }
    let plan = plan(ctx, &wanted);
    if args.watch {
        for warning in ctx.warnings() {
            tracing::warn!("{warning}");
        }
        let exit = with_runtime(ctx, plan, async |runtime| watch(ctx, runtime).await).await;
        return streamed(exit);
    }
    let body = async |runtime: &Runtime| {
        let views = match args.wait {
            Some(wait) => waiting(ctx, runtime, runtime.settle(&[], wait)).await,
            None if ctx.house.is_some() => runtime.settle(&[], Duration::ZERO).await,
            None => waiting(ctx, runtime, runtime.settle_or_grace(GRACE)).await,
        };
        answer(ctx, &views, wanted.first())
    };
    answering(ctx, SCHEMA, plan, body, |failure| failure).await
}

/// The end of a stream: Ctrl-C is how one ends it, and needs no words.
pub(super) fn streamed(exit: Result<Exit, Failure>) -> Result<Done, Failure> {
    match exit {
        Err(failure) if failure.exit == Exit::Interrupted => Ok(Done::Streamed(Exit::Interrupted)),
        other => other.map(Done::Streamed),
    }
}

pub(super) fn answer(ctx: &Ctx, views: &[ServerView], one: Option<&ServerId>) -> Result<Answer, Failure> {
    let healthy = match one {
        Some(_) => views.iter().all(|view| is_healthy(view.state)),
        None => views.iter().all(is_expected) && !ctx.has_broken_source(),
    };
    let human = match (one, views) {
        (Some(_), [view]) => sheet_text(view, wall(), ctx.style()),
        _ => fleet_text(ctx, views, ctx.style()),
    };
    let view = StatusView::of(ctx, healthy, views);
    let exit = match (healthy, one) {
        (true, _) => Exit::Ok,
        (false, None) if ctx.has_broken_source() => Exit::Config,
        (false, _) => Exit::Unhealthy,
    };
    // The sheet of one server has its own warnings.
    let told = |warning: &String| one.is_some() && views.iter().any(|view| view.warnings.contains(warning));
    let warnings = ctx.warnings().into_iter().filter(|warning| !told(warning));
    let toxic = view.toxic_flow.as_ref().map(Flow::to_string);
    Ok(Answer::new(SCHEMA, &view, human)?.warn(warnings).warn(toxic).ending(exit))
}

/// The table of all servers; on a screen with the mode below it.
fn fleet_text(ctx: &Ctx, views: &[ServerView], style: out::Style) -> String {
    let table = table_text(views, wall(), style);
    if style.width.is_none() {
        return table;
    }
    let mode = format!("mode {}", ctx.loaded.settings.mode.as_str());
    format!("{table}\n{}", style.paint(out::Tone::Dim, &mode))
}

/// Shows every change until the reader is gone or Ctrl-C ends it.
async fn watch(ctx: &Ctx, runtime: &Runtime) -> Result<Exit, Failure> {
    let mut watching = Watching::new(runtime.watch(&[]));
    let mut shown = Shown::new(ctx);
    loop {
        let views = watching.next(shown.is_screen()).await;
        let text = picture(ctx, &views, ctx.term.resized())?;
        if !shown.show(text)? {
            return Ok(Exit::Ok);
        }
    }
}

/// What a watched status shows of these views: a line of JSON, a table for a screen, or one for a pipe.
fn picture(ctx: &Ctx, views: &[ServerView], term: out::Terminal) -> Result<String, Failure> {
    Ok(match ctx.global.json {
        true => json_line(ctx, views)?,
        false => fleet_text(ctx, views, term.style()),
    })
}

/// The views of servers, each time that something about them changed.
#[derive(Debug)]
pub struct Watching {
    watch: ViewWatch,
    views: Option<Vec<ServerView>>,
}

impl Watching {
    /// Of those that `watch` follows.
    pub fn new(watch: ViewWatch) -> Self {
        Self { watch, views: None }
    }

    /// The first time at once. Seconds that are counted down are a change on a screen only: a pipe gets what
    /// happened.
    pub async fn next(&mut self, screen: bool) -> Vec<ServerView> {
        if let Some(views) = &self.views {
            let now = wall();
            let ticks = screen && views.iter().any(|view| counts_down(view, now));
            tokio::select! {
                biased;
                () = self.watch.changed() => {}
                () = tokio::time::sleep(TICK), if ticks => {}
            }
            // Changes come in bursts; one picture shows them all.
            tokio::time::sleep(REDRAW_EVERY).await;
        }
        let views = self.watch.look();
        self.views = Some(views.clone());
        views
    }
}

/// Where a watched status is shown.
#[derive(Debug)]
struct Shown {
    screen: Picture,
    last: String,
}

impl Shown {
    fn new(ctx: &Ctx) -> Self {
        Self { screen: Picture::new(ctx.term.stdout && !ctx.global.json), last: String::new() }
    }

    fn is_screen(&self) -> bool {
        self.screen.redraw
    }

    /// Shows what is another picture than the last; `false` when the reader is gone.
    fn show(&mut self, text: String) -> Result<bool, Failure> {
        if text == self.last {
            return Ok(true);
        }
        self.last = text;
        if !self.is_screen() {
            return self.screen.draw(&self.last);
        }
        let height = usize::from(out::Terminal::detect(true).height);
        self.screen.draw(&cut(&self.last, height))
    }
}

/// Watches the servers of the running host; `None` when none runs, or it has no client.
#[cfg(unix)]
async fn watch_host(ctx: &Ctx, wanted: &[ServerId]) -> Result<Option<Exit>, Failure> {
    let mut shown = Shown::new(ctx);
    let mut piece = |json: &RawValue, human: &str| {
        if !ctx.global.json {
            return shown.show(human.to_owned());
        }
        let answer = Answer { data: json.to_owned(), ..Answer::new(SCHEMA, &(), "")? };
        shown.show(out::answer_text(&answer, true, out::Style::PLAIN).stdout)
    };
    super::control::follow(ctx, "watch", wanted, None, &mut piece).await
}

/// The same at the host: sends each picture until the process that asked, or the host, is gone.
pub async fn send(ctx: &Ctx, mut watching: Watching, talk: &Talk) {
    let (mut last, is_screen) = (String::new(), ctx.term.stdout && !ctx.global.json);
    loop {
        let views = watching.next(is_screen).await;
        let width = talk.width().unwrap_or(ctx.term.width);
        let Ok(Answer { data, human, .. }) = watched(ctx, &views, width) else { return };
        let text = if ctx.global.json { data.get() } else { &human };
        if text != last {
            text.clone_into(&mut last);
            if !talk.piece(data, human).await {
                return;
            }
        }
    }
}

fn watched(ctx: &Ctx, views: &[ServerView], width: u16) -> Result<Answer, Failure> {
    let term = out::Terminal { width, ..ctx.term };
    let view = fleet_view(ctx, views);
    Answer::new(SCHEMA, &view, if ctx.global.json { String::new() } else { picture(ctx, views, term)? })
}

fn fleet_view(ctx: &Ctx, views: &[ServerView]) -> StatusView {
    StatusView::of(ctx, views.iter().all(is_expected), views)
}

fn json_line(ctx: &Ctx, views: &[ServerView]) -> Result<String, Failure> {
    let answer = Answer::new(SCHEMA, &fleet_view(ctx, views), "")?;
    Ok(out::answer_text(&answer, true, out::Style::PLAIN).stdout)
}

/// As many lines as can be drawn over again on a screen of that height.
fn cut(text: &str, height: usize) -> String {
    let lines = text.lines().count();
    let room = height.saturating_sub(2).max(1);
    if lines <= room {
        return text.to_owned();
    }
    let shown: Vec<&str> = text.lines().take(room).collect();
    format!("{}\n… {} more lines", shown.join("\n"), lines - room)
}

/// What is on the screen: the next picture is drawn over it. In a pipe one follows the other.
#[derive(Debug)]
struct Picture {
    redraw: bool,
    lines: usize,
}

impl Picture {
    fn new(redraw: bool) -> Self {
        Self { redraw, lines: 0 }
    }

    /// `false` when the reader is gone.
    fn draw(&mut self, text: &str) -> Result<bool, Failure> {
        let picture = self.over(text);
        out::write_stdout(&picture)
    }

    /// The text with what moves the cursor back over the last one.
    fn over(&mut self, text: &str) -> String {
        let text = text.trim_end_matches('\n');
        if !self.redraw {
            return format!("{text}\n");
        }
        let mut out = String::new();
        if self.lines > 0 {
            out.push_str(&format!("\u{1b}[{}F\u{1b}[0J", self.lines));
        }
        out.push_str(text);
        out.push('\n');
        self.lines = text.lines().count();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_view::tests::view;
    use crate::view::{LifeState, ParkReason};

    #[test]
    fn one_server_gets_a_sheet_and_all_get_a_table() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let off = view("off", LifeState::Parked(ParkReason::Disabled));
        let good = view("good", LifeState::Ready);
        let all = answer(&ctx, &[good.clone(), off.clone()], None).unwrap();
        assert_eq!(all.exit, Exit::Ok, "what is off on purpose makes nothing unhealthy");
        assert_eq!(all.human.lines().count(), 3);
        let one = answer(&ctx, std::slice::from_ref(&off), Some(&off.id)).unwrap();
        assert_eq!(one.exit, Exit::Unhealthy, "but it is not usable when it was asked about");
        assert!(one.human.starts_with("off\nstate"), "{}", one.human);
        let broken = view("broken", LifeState::Parked(ParkReason::GivenUp));
        assert_eq!(answer(&ctx, &[good, broken], None).unwrap().exit, Exit::Unhealthy);
    }

    #[test]
    fn every_picture_for_scripts_is_one_line() {
        let home = tempfile::tempdir().unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let line = json_line(&ctx, &[view("a", LifeState::Ready)]).unwrap();
        assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line}");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["data"]["healthy"], true);
    }

    #[test]
    fn a_picture_is_drawn_over_the_last_one() {
        let mut picture = Picture::new(true);
        assert_eq!(picture.over("a\nb"), "a\nb\n");
        assert_eq!(picture.over("c"), "\u{1b}[2F\u{1b}[0Jc\n");
        assert_eq!(picture.over("d\n"), "\u{1b}[1F\u{1b}[0Jd\n");
    }

    #[test]
    fn a_picture_is_never_higher_than_the_screen() {
        let text = (0..30).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let shown = cut(&text, 10);
        assert_eq!(shown.lines().count(), 9);
        assert!(shown.ends_with("7\n… 22 more lines"), "{shown}");
        assert_eq!(cut("a\nb", 10), "a\nb");
    }

    #[test]
    fn a_pipe_gets_no_cursor_moves() {
        let mut picture = Picture::new(false);
        assert_eq!(picture.over("a\nb"), "a\nb\n");
        assert_eq!(picture.over("{}\n"), "{}\n");
    }
}
