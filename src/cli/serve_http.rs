//! Floor 5. `serve --mcp-http`: the host over HTTP until the system asks it to end. Where it listens
//! is told on stderr. Called by `cli::serve`.

use std::io::Write as _;
use std::sync::Arc;

use super::Done;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::serve::{Reloads, reload};
use super::serve_args::ServeArgs;
use super::session::interrupted;
use crate::serve::http::{self, BindError, Bound, ENDPOINT, HttpFront, HttpLimits, HttpPlan, Served};
use crate::serve::{Globs, Host, tokens};

/// Reads the tokens and takes the port: what can't be had is told before a server is started.
pub async fn bind(ctx: &Ctx, args: &ServeArgs) -> Result<Bound, Failure> {
    HttpFront::bind(plan(ctx, args)?).await.map_err(|error| refused(&error))
}

/// Serves over HTTP.
pub async fn over_http(
    ctx: &Ctx,
    args: &ServeArgs,
    bound: Bound,
    host: &Arc<Host>,
    only: Option<Globs>,
) -> Result<Done, Failure> {
    // Before anybody is told where it is: whoever knows may ask it to end.
    let asked = interrupted();
    tokio::pin!(asked);
    let front = bound.serve(Arc::new(Served { host: host.clone(), only }));
    for at in front.addresses() {
        // Whoever started it without a port has to learn which one it is.
        let _ = writeln!(std::io::stderr(), "Serving MCP at http://{at}{ENDPOINT}");
    }
    if let (Ok(home), false) = (ctx.home(), args.no_auth) {
        let file = tokens::own_file(home);
        let _ = writeln!(
            std::io::stderr(),
            "Your own programs come in as they are; others need a token: {}",
            file.display()
        );
    }
    let mut reloads = Reloads::new();
    let outcome = loop {
        tokio::select! {
            biased;
            () = &mut asked => break Ok(Done::Streamed(Exit::Ok)),
            () = host.broken() => {
                let text = "the core of the host failed again and again: a bug of Callboard, please report it";
                break Err(Failure::new("internal", Exit::Unavailable, text));
            }
            () = reloads.asked() => reload(ctx, args, host).await,
        }
    };
    front.shutdown(ctx.loaded.settings.serve.grace).await;
    outcome
}

fn plan(ctx: &Ctx, args: &ServeArgs) -> Result<HttpPlan, Failure> {
    let settings = &ctx.loaded.settings.serve;
    let name = args.mcp_host.as_deref().unwrap_or(&settings.http_host);
    let addresses =
        http::addresses(name, args.allow_remote, args.no_auth).map_err(|error| refused(&error))?;
    Ok(HttpPlan {
        addresses,
        port: args.mcp_port.unwrap_or(settings.http_port),
        hosts: settings.http_hosts.clone(),
        origins: settings.http_origins.clone(),
        home: ctx.loaded.home.as_ref().ok().cloned(),
        open: args.no_auth,
        limits: HttpLimits {
            body_max: settings.body_max,
            sessions_max: settings.sessions_max,
            session_idle: settings.session_idle,
            rate: settings.rate,
            ..HttpLimits::default()
        },
    })
}

fn refused(error: &BindError) -> Failure {
    let fix = error.fix();
    match error {
        BindError::Name(_) | BindError::Remote(_) | BindError::Open(_) => Failure::usage(error.to_string()),
        BindError::Tokens(_) => Failure::new("config_store", Exit::Config, error.to_string()),
        BindError::Taken(..) | BindError::Io(..) => {
            Failure::new("port_unavailable", Exit::Unavailable, error.to_string())
        }
    }
    .fix(fix)
}
