//! Floor 5. `serve` (`--mcp-serve`): the servers of the configuration for one MCP client on stdin and
//! stdout. Stdout carries messages of the protocol and nothing else; everything for people goes to
//! stderr. Called by `cli::run`.

use std::path::Path;
use std::sync::Arc;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::serve_args::ServeArgs;
use super::serve_http;
use super::session::interrupted;
use crate::builtins::Builtins;
use crate::config::child_env::depends_on_folder;
use crate::config::load::{LoadOptions, load};
use crate::config::spec::{EntryState, Sandbox, Scope, ServerSet, TransportSpec};
use crate::runtime::{PinsAt, RuntimePlan};
use crate::serve::{Caller, Client, ClientEra, Globs, Host, HostPlan, Leave, pipes, stdio};

/// Serves one client until it leaves or the system asks us to end.
pub async fn serve(ctx: &Ctx, args: &ServeArgs) -> Result<Done, Failure> {
    ctx.named_sources()?;
    let only = match args.only.as_slice() {
        [] => None,
        globs => Some(Globs::new(globs.iter().map(String::as_str)).map_err(Failure::usage)?),
    };
    for error in ctx.source_errors() {
        tracing::warn!("{error}");
    }
    #[cfg(unix)]
    if !args.private
        && !args.is_http()
        && let Some(done) = super::join::join(ctx, args).await?
    {
        return Ok(done);
    }
    let bound = if args.is_http() { Some(serve_http::bind(ctx, args).await?) } else { None };
    let builtins = Builtins::default();
    let host = Host::start(plan(ctx, args, &builtins))
        .await
        .map_err(|e| Failure::new("internal", Exit::Unavailable, e.to_string()))?;
    if let Some(bound) = bound {
        let outcome = serve_http::over_http(ctx, args, bound, &host, only).await;
        tokio::select! {
            biased;
            () = interrupted() => {}
            () = host.shutdown() => {}
        }
        return outcome;
    }
    let client = host.open(Caller { only, ..Caller::same_user() }, ClientEra::Open);
    let outcome = attached(ctx, args, &host, &client).await;
    tokio::select! {
        biased;
        () = interrupted() => {}
        () = host.shutdown() => {}
    }
    outcome
}

/// The plan of the host. The project's files count only where the user's own settings say so.
fn plan(ctx: &Ctx, args: &ServeArgs, builtins: &Builtins) -> HostPlan {
    let options = &ctx.options;
    let read_project = ctx.loaded.settings.serve.read_project_mcp;
    let loaded = load(&LoadOptions { project: options.project && read_project, ..options.clone() });
    ctx.redaction.learn(&loaded.servers.secrets);
    let servers = without_ourselves(loaded.servers.clone(), std::env::current_exe().ok().as_deref());
    let servers = at_home(servers, options);
    let mut runtime = RuntimePlan {
        servers,
        guard: ctx.guard.clone(),
        pins: PinsAt::of(&loaded),
        redaction: ctx.redaction.clone(),
        ..RuntimePlan::of(&loaded, &options.env)
    };
    let mut settings = loaded.settings.serve.clone();
    if let Some(approval) = args.approval {
        settings.approval = approval.into();
    }
    builtins.plan(&loaded, &mut runtime);
    HostPlan { builtins: builtins.clone(), ..HostPlan::with(runtime, settings) }
}

/// Without entries that start a host again: it would serve itself, without end.
pub(super) fn without_ourselves(mut servers: ServerSet, program: Option<&Path>) -> ServerSet {
    let is_host = |entry: &crate::config::spec::Entry| match &entry.state {
        EntryState::Ready(spec) => match &spec.transport {
            TransportSpec::Stdio { command, .. } => {
                // As written: an argument that is a secret is no word of ours.
                let mut words = entry.summary.split_whitespace();
                is_ourselves(command, program) && words.any(|word| matches!(word, "--mcp-serve" | "serve"))
            }
            TransportSpec::Http { .. } | TransportSpec::LegacySse { .. } => false,
        },
        _ => false,
    };
    servers.entries.retain(|entry| {
        let skip = is_host(entry);
        if skip {
            tracing::warn!(server = %entry.id, "left out: it is this host itself");
        }
        !skip
    });
    servers
}

/// The servers, each in a working folder that says where it runs: one of the user's own that names none is
/// the same server in every project, so it runs in the home folder. One that depends on a folder, because it
/// has relative paths, is confined to its working folder, or was given to this client alone, runs in the
/// client's.
pub(super) fn at_home(mut servers: ServerSet, options: &LoadOptions) -> ServerSet {
    let home = options.env.get("HOME").map(Path::new).filter(|home| home.is_dir());
    for entry in &mut servers.entries {
        let of_user = matches!(entry.source.scope, Scope::User | Scope::Managed);
        let EntryState::Ready(spec) = &mut entry.state else { continue };
        let TransportSpec::Stdio { cwd: None, .. } = &spec.transport else { continue };
        let of_folder = !of_user || spec.sandbox != Sandbox::Off || depends_on_folder(spec);
        let folder = home.filter(|_| !of_folder).unwrap_or(&options.cwd).to_path_buf();
        if let TransportSpec::Stdio { cwd, .. } = &mut Arc::make_mut(spec).transport {
            *cwd = Some(folder);
        }
    }
    servers
}

fn is_ourselves(command: &str, program: Option<&Path>) -> bool {
    let Some(program) = program else { return false };
    let command = Path::new(command);
    command.file_name().is_some_and(|name| Some(name) == program.file_name())
        || command.canonicalize().is_ok_and(|command| command == program)
}

/// Carries the client's messages, and hears the system meanwhile.
async fn attached(
    ctx: &Ctx,
    args: &ServeArgs,
    host: &Arc<Host>,
    client: &Arc<Client>,
) -> Result<Done, Failure> {
    let frame_max = ctx.loaded.settings.limits.frame_max;
    let closed = |e: std::io::Error| {
        Failure::usage(format!("stdin and stdout can't be used: {e}"))
            .fix("an MCP client starts this, with pipes")
    };
    let (input, output) = (pipes::input().map_err(closed)?, pipes::output().map_err(closed)?);
    let carried = stdio::carry_apart(client.clone(), input, output, frame_max);
    let ending = async {
        interrupted().await;
        // What runs may come to its end; then the client is told by the end of the stream.
        client.drain().await;
        client.leave(Leave::Shutdown);
        std::future::pending::<()>().await;
    };
    tokio::pin!(carried, ending);
    let mut reloads = Reloads::new();
    loop {
        tokio::select! {
            biased;
            () = host.broken() => {
                let text = "the core of the host failed again and again: a bug of Callboard, please report it";
                return Err(Failure::new("internal", Exit::Unavailable, text));
            }
            end = &mut carried => {
                tracing::debug!(?end, "the client is gone");
                return Ok(Done::Streamed(Exit::Ok));
            }
            () = &mut ending => {}
            () = reloads.asked() => reload(ctx, args, host).await,
        }
    }
}

/// Reads the configuration again, and makes the servers equal to it.
pub(super) async fn reload(ctx: &Ctx, args: &ServeArgs, host: &Arc<Host>) {
    match host.reload(&plan(ctx, args, host.builtins())).await {
        Ok(done) => tracing::info!(servers = done.servers.len(), "the configuration was read again"),
        Err(refused) => tracing::warn!("{}", ctx.clean(&refused.to_string())),
    }
}

/// SIGHUP, where there is one.
pub(super) struct Reloads {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Reloads {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    pub(super) async fn asked(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_user_runs_at_home_unless_it_depends_on_a_folder() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = home.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let entries = format!(
            r#"{{"mcpServers":{{
            "plain":{{"command":"x","args":["-y","@scope/pkg",".hidden","a/../b"]}},
            "relative":{{"command":"x","args":["--root=."]}},
            "above":{{"command":"x","args":["../up"]}},
            "confined":{{"command":"x","sandbox":"fs"}},
            "own":{{"command":"x","cwd":{:?}}}
        }}}}"#,
            elsewhere.display().to_string()
        );
        std::fs::write(home.path().join("mcp.json"), entries).unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let mut options = ctx.options.clone();
        options.env = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
        options.cwd = "/project".into();
        let folder = |entry: &crate::config::spec::Entry| match &entry.state {
            EntryState::Ready(spec) => match &spec.transport {
                TransportSpec::Stdio { cwd, .. } => cwd.clone().unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let set = at_home(ctx.loaded.servers.clone(), &options);
        for (name, want) in [
            ("plain", home.path()),
            ("relative", Path::new("/project")),
            ("above", Path::new("/project")),
            ("confined", Path::new("/project")),
            ("own", elsewhere.as_path()),
        ] {
            assert_eq!(folder(set.get(name).unwrap()), want, "{name}");
        }
    }

    #[test]
    fn a_host_in_its_own_configuration_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let entries = r#"{"mcpServers":{
            "self":{"command":"callboard","args":["--mcp-serve"]},
            "alias":{"command":"/opt/bin/callboard","args":["-C","/x","serve","--private"]},
            "other":{"command":"callboard","args":["demo"]},
            "theirs":{"command":"npx","args":["serve"]}
        }}"#;
        std::fs::write(home.path().join("mcp.json"), entries).unwrap();
        let ctx = Ctx::for_test(home.path(), &[]);
        let left = without_ourselves(ctx.loaded.servers.clone(), Some(Path::new("/usr/bin/callboard")));
        let names: Vec<&str> = left.entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(names, ["other", "theirs"]);
    }
}
