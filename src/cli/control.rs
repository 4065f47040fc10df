//! Floor 5. The side of a verb that asks the running host of this user: says what is wanted, shows what is
//! going on, asks whoever sits here, and takes the outcome. Nothing is started for it. Called by the verbs.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{Known, NOT_HERE, Uses, Work, ms};
use super::host::SCHEMA;
use super::invoke::reply;
use super::out::{Answer, write_stderr};
use super::question::Question;
use super::session::{StatusLine, interrupted};
use crate::id::ServerId;
use crate::policy::approve::Answer as Approval;
use crate::serve::share::{Command, Deed, Failing, Hello, Join, Place, Reply, Screen, Wants};
use crate::serve::talk::{Asking, Decided, Heard, Said};
use crate::time::Monotonic;
use crate::transport::task;

/// A host that runs answers within that time, and what a verb may wait besides.
const REPLY_MAX: Duration = Duration::from_secs(30);
/// How long the host has to say what came of what was given up.
const GIVE_UP_MAX: Duration = Duration::from_secs(2);

/// A command about these servers; none: all.
pub fn command(client: &Join, verb: &str, servers: Vec<String>) -> Command {
    let (within_ms, args, screen) = (None, None, Screen::default());
    Command { client: client.clone(), verb: verb.to_owned(), servers, within_ms, args, screen }
}

fn of(ctx: &Ctx, verb: &str, servers: &[ServerId]) -> Command {
    let style = ctx.style();
    let screen = Screen {
        width: style.width,
        color: style.color,
        width_err: ctx.term.stderr.then_some(ctx.term.width_err),
        json: ctx.global.json,
        asks: ctx.term.can_ask() && !ctx.global.json,
    };
    let names = servers.iter().map(ToString::to_string).collect();
    Command { screen, ..command(&Join::of(&ctx.options), verb, names) }
}

/// What the running host answers to a verb about its servers; `None` when none runs.
pub async fn ask(
    ctx: &Ctx,
    verb: &str,
    schema: &'static str,
    servers: &[ServerId],
    within: Option<Duration>,
) -> Result<Option<Answer>, Failure> {
    let command = Command { within_ms: ms(within), ..of(ctx, verb, servers) };
    let limit = REPLY_MAX + within.unwrap_or_default();
    let mut talk = Talking { limit: Some(limit), lost: Exit::Unavailable, piece: &mut |_, _| Ok(true) };
    let ended = talk.hold(ctx, command).await?;
    ended.map(|deed| answer(deed, schema)).transpose()
}

/// Does something with servers on the running host; `None` when none runs, or not with these entries.
pub async fn using(
    ctx: &Ctx,
    schema: &'static str,
    entries: Vec<Known>,
    work: &Work,
) -> Result<Option<Answer>, Failure> {
    if entries.is_empty() {
        return Ok(None);
    }
    let args = to_raw_value(&Uses { entries, work });
    let args = args.map_err(|e| Failure::usage(format!("that can't be asked of the host: {e}")))?;
    let command = Command { args: Some(args), ..of(ctx, "use", &[]) };
    // A call may have left when the host is lost.
    let lost = if matches!(work, Work::Perform { .. }) { Exit::OutcomeUnknown } else { Exit::Unavailable };
    let mut talk = Talking { limit: None, lost, piece: &mut |_, _| Ok(true) };
    let ended = talk.hold(ctx, command).await?;
    ended.map(|deed| answer(deed, schema)).transpose()
}

/// What takes one part of a stream: as JSON, and for a person. `false`: nobody reads any more.
pub type Piece<'a> = &'a mut (dyn FnMut(&RawValue, &str) -> Result<bool, Failure> + Send);

/// Follows a stream of the running host until it or its reader ends; `None` when none runs.
pub async fn follow(
    ctx: &Ctx,
    verb: &str,
    servers: &[ServerId],
    args: Option<Box<RawValue>>,
    piece: Piece<'_>,
) -> Result<Option<Exit>, Failure> {
    let command = Command { args, ..of(ctx, verb, servers) };
    let mut talk = Talking { limit: None, lost: Exit::Unavailable, piece };
    let Some(deed) = talk.hold(ctx, command).await? else { return Ok(None) };
    answer(deed, SCHEMA).map(|answer| Some(answer.exit))
}

fn answer(deed: Deed, schema: &'static str) -> Result<Answer, Failure> {
    let exit = Exit::ALL.into_iter().map(|(exit, _)| exit).find(|exit| exit.code() == deed.exit);
    let exit = exit.unwrap_or(Exit::Unhealthy);
    let Some(failing) = deed.failure else {
        return Ok(Answer { schema, data: deed.data, human: deed.human, warnings: deed.warnings, exit });
    };
    let Failing { code, message, detail, fix, server, tool, phase, delivery, retry_after_ms, rpc_error } =
        failing;
    Err(Failure {
        code: Cow::Owned(code),
        message,
        detail,
        fix,
        exit,
        server,
        tool,
        phase,
        delivery,
        retry_after: retry_after_ms.map(Duration::from_millis),
        rpc_error,
        warnings: deed.warnings,
    })
}

/// The versions of other programs whose hosts run beside the one of this version.
pub async fn others(ctx: &Ctx) -> Vec<String> {
    let Ok(home) = ctx.home() else { return Vec::new() };
    let place = Place::below(home);
    task::blocking(move || place.others()).await.unwrap_or_default()
}

/// One talk with the host.
struct Talking<'a> {
    /// How long the outcome is waited for.
    limit: Option<Duration>,
    /// What the process ends with when the host is lost.
    lost: Exit,
    piece: Piece<'a>,
}

type Answering = Pin<Box<dyn Future<Output = Approval>>>;

impl Talking<'_> {
    /// The outcome; `None` when no host runs, or it has not what is wanted.
    async fn hold(&mut self, ctx: &Ctx, command: Command) -> Result<Option<Deed>, Failure> {
        let Ok(home) = ctx.home() else { return Ok(None) };
        // What a command names for itself alone is no matter of a host.
        if ctx.global.strict_mcp_config || !ctx.global.mcp_config.is_empty() {
            return Ok(None);
        }
        let place = Place::below(home);
        let hello = Hello::new(home.to_path_buf(), Wants::Command(command));
        let connected = task::blocking(move || {
            let stream = place.connect()?;
            stream.set_nonblocking(true)?;
            std::io::Result::Ok(stream)
        });
        let Some(Ok(stream)) = connected.await else { return Ok(None) };
        let Ok(stream) = UnixStream::from_std(stream) else { return Ok(None) };
        let (input, mut output) = stream.into_split();
        if say(&mut output, &hello).await.is_err() {
            return Ok(None);
        }
        match self.heard(ctx, BufReader::new(input), output).await? {
            Reply::Did(deed) => Ok(Some(deed)),
            Reply::Refused { code, .. } if code == NOT_HERE => Ok(None),
            Reply::Refused { message, .. } => Err(Failure::new("needs_host", Exit::Unavailable, message)),
            Reply::Joined { .. } | Reply::Says(_) => Ok(None),
        }
    }

    /// The last word of the host. Ctrl-C gives up, and waits a moment for what came of it.
    async fn heard(
        &mut self,
        ctx: &Ctx,
        mut input: BufReader<OwnedReadHalf>,
        mut output: OwnedWriteHalf,
    ) -> Result<Reply, Failure> {
        let (mut line, mut shown) = (Vec::new(), StatusLine::new(ctx));
        let mut ends_at = self.limit.map(|limit| Monotonic::now() + limit);
        let mut asking: Option<(u64, Answering)> = None;
        let (mut stop, mut gives_up) = (Box::pin(interrupted()), false);
        let mut wide = ctx.term.width;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    let told = !gives_up && say(&mut output, &Heard::GiveUp).await.is_ok();
                    if !told {
                        return Err(Failure::interrupted());
                    }
                    (gives_up, asking) = (true, None);
                    ends_at = Some(Monotonic::now() + GIVE_UP_MAX);
                    stop = Box::pin(interrupted());
                }
                () = sleep(ends_at) => {
                    return Err(if gives_up { Failure::interrupted() } else { self.gone(ctx, "does not answer") });
                }
                (number, answer) = answered(&mut asking) => {
                    asking = None;
                    let decided = decided(answer);
                    _ = say(&mut output, &Heard::Answer(number, decided)).await;
                }
                read = input.read_until(b'\n', &mut line) => {
                    if read.is_err() || !line.ends_with(b"\n") {
                        return Err(self.gone(ctx, "ended before it had answered"));
                    }
                    let word = serde_json::from_slice(&line)
                        .map_err(|e| self.gone(ctx, &format!("says what makes no sense: {e}")))?;
                    line.clear();
                    match word {
                        Reply::Says(Said::Line(text)) => shown.show(&text),
                        Reply::Says(Said::Ask(question)) => {
                            shown.clear();
                            asking = Some((question.number, Box::pin(person(question))));
                        }
                        Reply::Says(Said::Settled(number)) => {
                            if asking.as_ref().is_some_and(|(open, _)| *open == number) {
                                asking = None;
                                write_stderr("\n");
                            }
                        }
                        Reply::Says(Said::Piece(json, human)) => {
                            if !(self.piece)(&json, &human)? {
                                return Ok(Reply::Did(done()));
                            }
                            let now = ctx.term.resized().width;
                            if now != wide {
                                wide = now;
                                _ = say(&mut output, &Heard::Width(now)).await;
                            }
                        }
                        last => return Ok(last),
                    }
                }
            }
        }
    }

    fn gone(&self, ctx: &Ctx, what: &str) -> Failure {
        let log = ctx.home().map(|home| Place::below(home).log().display().to_string()).unwrap_or_default();
        Failure::new("host_gone", self.lost, format!("the running host {what}"))
            .fix(format!("{log} may say why; without a host the command does it by itself"))
    }
}

/// The end of a stream whose reader left.
fn done() -> Deed {
    let (data, human, warnings) = (RawValue::NULL.to_owned(), String::new(), Vec::new());
    Deed { exit: Exit::Ok.code(), data, human, warnings, failure: None }
}

async fn say(output: &mut OwnedWriteHalf, word: &impl serde::Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    output.write_all(&line).await
}

async fn sleep(until: Option<Monotonic>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into_tokio()).await,
        None => std::future::pending().await,
    }
}

async fn person(question: Asking) -> Approval {
    let Asking { head, line, whole, can_keep, .. } = question;
    reply(&Question { head, line, whole }, can_keep).await
}

async fn answered(asking: &mut Option<(u64, Answering)>) -> (u64, Approval) {
    match asking {
        Some((number, answering)) => (*number, answering.as_mut().await),
        None => std::future::pending().await,
    }
}

fn decided(answer: Approval) -> Decided {
    match answer {
        Approval::Once | Approval::Session => Decided::Once,
        Approval::Always => Decided::Always,
        Approval::Deny => Decided::No,
    }
}
