//! Floor 5. `serve` without `--private`: this process becomes a pipe into the host of the user, which it
//! starts when none runs. Called by `serve`.

use std::os::unix::net::UnixStream;
use std::path::Path;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::serve_args::ServeArgs;
use super::session::interrupted;
use crate::config::serve::ServeApproval;
use crate::serve::pipes;
use crate::serve::share::bridge::{self, End};
use crate::serve::share::{Hello, Join, Place, Reply, Wants, join as way};
use crate::transport::task;

/// Hosts that may end one after the other before the client has said a word.
const HOSTS_MAX: usize = 5;

/// What this process tells the host about its client.
pub fn client(ctx: &Ctx, args: &ServeArgs) -> Join {
    let approves = args.approval.map(|word| ServeApproval::from(word) == ServeApproval::Client);
    Join { only: args.only.clone(), approves, watch: !args.no_watch, ..Join::of(&ctx.options) }
}

/// Serves the client through the host of the user; `None` when there can be none, so that this process
/// must serve by itself.
pub async fn join(ctx: &Ctx, args: &ServeArgs) -> Result<Option<Done>, Failure> {
    let Ok(home) = ctx.home() else { return Ok(None) };
    // A client that wants its files read again asks its own process.
    let _hangup = task::spawn(hear(home.to_path_buf(), client(ctx, args)));
    let asked = interrupted();
    tokio::pin!(asked);
    for _ in 0..HOSTS_MAX {
        let Some(stream) = joined(ctx, args, home).await? else { return Ok(None) };
        let bridged = match pipes::can_be_lent() {
            true => bridge::lend(stream, &mut asked).await,
            false => bridge::run(stream, &mut asked).await,
        };
        match bridged {
            Ok(End::Client) => return Ok(Some(Done::Streamed(Exit::Ok))),
            // Nothing is lost: the next host hears the first word.
            Ok(End::Host { spoken: false }) => {
                tracing::info!("the shared host ended before its client spoke")
            }
            Ok(End::Host { spoken: true }) => return Err(gone(true, home)),
            Err(error) => {
                return Err(Failure::usage(format!("stdin and stdout can't be used: {error}"))
                    .fix("an MCP client starts this, with pipes"));
            }
        }
    }
    Err(gone(false, home))
}

/// A connection that this client is served on.
async fn joined(ctx: &Ctx, args: &ServeArgs, home: &Path) -> Result<Option<UnixStream>, Failure> {
    let join = Join { lends: pipes::can_be_lent(), ..client(ctx, args) };
    let hello = Hello::new(home.to_path_buf(), Wants::Join(join));
    match connect(Place::below(home), hello).await {
        Ok((stream, Reply::Joined { pid })) => {
            tracing::info!(host = pid, "joined");
            return Ok(Some(stream));
        }
        Ok((_, Reply::Refused { code, message })) if code == "usage" => return Err(Failure::usage(message)),
        Ok((_, Reply::Refused { message, .. })) => {
            tracing::warn!("the shared host refuses: {message}; this client has one of its own");
        }
        Ok((_, Reply::Did(_) | Reply::Says(_))) => {}
        Err(error) => {
            let log = Place::below(home).log();
            tracing::warn!(
                "no shared host could be reached ({error}; its log is {}): this client has one of its own",
                log.display()
            );
        }
    }
    Ok(None)
}

async fn connect(place: Place, hello: Hello) -> std::io::Result<(UnixStream, Reply)> {
    let joined = task::blocking(move || way::join(&place, &hello, &way::program()?)).await;
    joined.unwrap_or_else(|| Err(std::io::ErrorKind::Interrupted.into()))
}

/// The host ended the connection: what was under way may have been done.
fn gone(spoken: bool, home: &Path) -> Failure {
    let exit = if spoken { Exit::OutcomeUnknown } else { Exit::Unavailable };
    let log = Place::below(home).log();
    Failure::new("host_gone", exit, "the shared host ended this connection, or itself").fix(format!(
        "start the client again: it gets a fresh host; {} may say why, and --private needs none",
        log.display()
    ))
}

/// Hands SIGHUP on.
async fn hear(home: std::path::PathBuf, client: Join) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        let command = super::control::command(&client, "reload", Vec::new());
        let (place, hello) = (Place::below(&home), Hello::new(home.clone(), Wants::Command(command)));
        task::blocking(move || way::ask(&place, &hello).map(drop)).await;
    }
}
