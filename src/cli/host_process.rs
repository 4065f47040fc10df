//! Floor 5. The process of the host that all clients of a user share (`callboard __host`): started by the
//! first of them, with its log as stderr and nothing to read. It reads each client's configuration in that
//! client's own environment. Called by `cli::main`.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::Arc;

use super::args::{Global, LogFormat};
use super::ctx::Ctx;
use super::deeds;
use super::exit::Exit;
use super::logging;
use super::out::Terminal;
use super::serve::{at_home, without_ourselves};
use super::session::interrupted;
use crate::builtins::Builtins;
use crate::config::load::{LoadOptions, Loaded, load};
use crate::config::serve::ServeApproval;
use crate::runtime::{PinsAt, RuntimePlan};
use crate::serve::share::keeper::Doing;
use crate::serve::share::{Command, Common, Join, Keeper, Place, Planned, Plans, Reply, Served};
use crate::serve::talk::Talk;
use crate::serve::{Caller, Globs, HostPlan};
use crate::telemetry::Redaction;
use crate::transport::guard::Guarding;
use crate::transport::task;

/// Runs the host until it is asked to end, or nobody needs it any more.
pub fn run(argv: Vec<OsString>) -> Exit {
    let ctx = Ctx::new(Global::default(), Terminal::detect(true), argv);
    logging::init(ctx.loaded.settings.log_level, LogFormat::Text, false);
    // Of its own, so that the end of the first client's terminal is not its end.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "no session of its own");
    }
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(keep(&ctx)));
    match outcome {
        Ok(()) => Exit::Ok,
        Err(error) => {
            tracing::error!(%error, "the host can't run");
            Exit::Unavailable
        }
    }
}

async fn keep(ctx: &Ctx) -> std::io::Result<()> {
    let home = ctx.home().map_err(|failure| std::io::Error::other(failure.message))?;
    let place = Place::below(home);
    // Another one was faster: who started us finds it.
    let Some(claim) = place.claim()? else { return Ok(()) };
    let door = claim.listen()?;
    for version in place.others() {
        tracing::warn!(version, "a host of another version runs beside this one");
    }
    let plans = Arc::new(Planner { guard: ctx.guard.clone(), redaction: ctx.redaction.clone() });
    let keeper = Keeper::new(place, plans, ctx.loaded.settings.serve.linger);
    let mut hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
    let hearing = keeper.clone();
    let _hearing = task::spawn(async move {
        while hangup.recv().await.is_some() {
            drop(hearing.reload().await);
        }
    });
    // Who waits for the door hears that it is open.
    let _ = std::io::stdout().write_all(b"\n").and_then(|()| std::io::stdout().flush());
    keeper.run(claim, door, interrupted()).await
}

/// Reads the configurations of clients.
struct Planner {
    guard: Option<Guarding>,
    redaction: Redaction,
}

impl Planner {
    /// The configuration of a client. The project's files count only where the user's own settings say so.
    fn load(join: &Join) -> (LoadOptions, Loaded) {
        let mut options = join.options();
        options.project = false;
        let loaded = load(&options);
        if !loaded.settings.serve.read_project_mcp {
            return (options, loaded);
        }
        options.project = true;
        let loaded = load(&options);
        (options, loaded)
    }
}

impl Plans for Planner {
    fn plan(&self, join: &Join, builtins: &Builtins) -> Result<Planned, Box<Reply>> {
        let only = match join.only.as_slice() {
            [] => None,
            globs => Some(
                Globs::new(globs.iter().map(String::as_str))
                    .map_err(|text| Box::new(Reply::refused("usage", text)))?,
            ),
        };
        let (options, mut loaded) = Self::load(join);
        self.redaction.learn(&loaded.servers.secrets);
        match join.approves {
            Some(true) => loaded.settings.serve.approval = ServeApproval::Client,
            Some(false) => loaded.settings.serve.approval = ServeApproval::Elicitation,
            None => {}
        }
        let program = std::env::current_exe().ok();
        let servers = without_ourselves(loaded.servers.clone(), program.as_deref());
        let servers = at_home(servers, &options);
        let mut runtime = RuntimePlan {
            servers,
            guard: self.guard.clone(),
            pins: PinsAt::of(&loaded),
            redaction: self.redaction.clone(),
            ..RuntimePlan::of(&loaded, &options.env)
        };
        builtins.plan(&loaded, &mut runtime);
        let host = HostPlan::with(runtime, loaded.settings.serve.clone());
        Ok(Planned {
            common: Common::of(&loaded.settings),
            search_key: loaded.search_key.clone(),
            host: HostPlan { builtins: builtins.clone(), ..host },
            caller: Caller { only, ..Caller::same_user() },
            frame_max: loaded.settings.limits.frame_max,
            files: loaded.files.iter().map(|file| file.path.clone()).collect(),
        })
    }

    fn act<'a>(&'a self, keeper: &'a Arc<Keeper>, command: Command, talk: Talk) -> Doing<'a> {
        Box::pin(async move {
            let client = command.client.clone();
            let plans = Self { guard: self.guard.clone(), redaction: self.redaction.clone() };
            let planned = task::blocking(move || {
                let (options, loaded) = Self::load(&client);
                plans.plan(&client, &Builtins::default()).map(|planned| (planned, options, loaded))
            })
            .await;
            match planned {
                Some(Ok((planned, options, loaded))) => {
                    let redaction = self.redaction.clone();
                    let wanted: Vec<_> = planned.served().iter().map(Served::wanted).collect();
                    let ctx = deeds::ctx(options, loaded, redaction, command.screen);
                    deeds::act(keeper, &wanted, ctx, &command, talk).await
                }
                Some(Err(refusal)) => *refusal,
                None => Reply::refused("internal", "the host is ending"),
            }
        })
    }
}
