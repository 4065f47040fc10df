//! The host over HTTP (`--mcp-http`): one endpoint, `/mcp`, for sessions of the legacy era and
//! stateless requests of the modern one. Owns listeners, connections, sessions and their streams;
//! what messages mean is the core's matter. HTTP/1.1; nothing is looked at before the doors.

pub mod bind;
pub mod core;
pub mod doors;
pub mod endpoint;
pub mod exchange;
pub mod front;
pub mod inbody;
pub mod log;
pub mod mirror;
pub mod pace;
pub mod patient;
pub mod peer;
pub mod posted;
pub mod reply;
pub mod sessions;
pub mod until;
pub mod who;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use self::core::{Attached, Core, Served};
pub use bind::{BindError, addresses};
pub use front::{ENDPOINT, HttpLimits};

use self::doors::Names;
use self::front::{Front, Peer};
use self::patient::Patient;
use self::until::Phase;
use self::who::Gate;
use crate::serve::Leave;
use crate::time::Monotonic;
use crate::transport::task;

/// Longest time for the head of a request, and for an idle connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest head of a request, bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most header lines of a request.
pub const HEADERS_MAX: usize = 100;
/// How often sessions and tokens are looked at.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Pause after the system refused a connection (no descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the front is started with.
#[derive(Debug)]
pub struct HttpPlan {
    /// Where to listen, from [`addresses`].
    pub addresses: Vec<IpAddr>,
    /// With which port; 0 takes a free one.
    pub port: u16,
    /// `http.hosts`: further names by which it may be reached.
    pub hosts: Vec<String>,
    /// `http.origins`: sites whose pages may use it.
    pub origins: Vec<String>,
    /// The folder of the tokens; `None`: only the same user comes in.
    pub home: Option<PathBuf>,
    /// `--no-auth`: whoever reaches the port is let in.
    pub open: bool,
    /// Limits.
    pub limits: HttpLimits,
}

/// The front, as long as it runs.
#[derive(Debug)]
pub struct HttpFront {
    front: Arc<Front>,
    addresses: Vec<SocketAddr>,
    places: Arc<Semaphore>,
    tasks: Vec<task::Owned>,
}

/// A front whose port and tokens are there, and which answers nobody yet: what fails, fails before any
/// server is started for it.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    names: Names,
    gate: Arc<Gate>,
    limits: HttpLimits,
}

impl HttpFront {
    /// Reads the tokens and takes the port.
    ///
    /// # Errors
    /// When it can't listen, or the tokens can't be used.
    pub async fn bind(plan: HttpPlan) -> Result<Bound, BindError> {
        let gate = Arc::new(Gate::new(plan.home, plan.open).map_err(BindError::Tokens)?);
        let listeners = bind::listen(&plan.addresses, plan.port).await?;
        let addresses: Vec<SocketAddr> = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
        let names = Names {
            port: addresses.first().map_or(plan.port, SocketAddr::port),
            remote: addresses.iter().any(|at| !at.ip().to_canonical().is_loopback()),
            hosts: plan.hosts,
            origins: plan.origins,
        };
        if plan.open {
            tracing::warn!("--no-auth: every program of every user of this machine can use this host");
        }
        Ok(Bound { listeners, addresses, names, gate, limits: plan.limits })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Legacy sessions that are open.
    pub fn sessions(&self) -> usize {
        self.front.sessions.len()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.front.limits.connections_max - self.places.available_permits()
    }

    /// Stops in order: new requests are refused, what runs has `grace` to finish, streams are closed,
    /// sessions end.
    pub async fn shutdown(mut self, grace: Duration) {
        self.front.phase.send_replace(Phase::Draining);
        self.front.sessions.close_standing();
        let _ = tokio::time::timeout(grace, self.front.idle()).await;
        self.front.sessions.end_all(Leave::Shutdown);
        self.front.phase.send_replace(Phase::Over);
        self.tasks.clear();
        // Connections close by themselves, having written what was ready.
        let all = u32::try_from(self.front.limits.connections_max).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(CLOSING, self.places.acquire_many(all)).await;
    }
}

impl Bound {
    /// Answers from now on.
    pub fn serve(self, core: Arc<dyn Core>) -> HttpFront {
        let places = Arc::new(Semaphore::new(self.limits.connections_max));
        let front = Front::new(core, self.names, self.gate, self.limits);
        let mut tasks: Vec<task::Owned> = self
            .listeners
            .into_iter()
            .map(|listener| task::spawn(accept(listener, front.clone(), places.clone())))
            .collect();
        tasks.push(task::spawn(sweep(front.clone())));
        HttpFront { front, addresses: self.addresses, places, tasks }
    }
}

/// Longest wait for connections to close.
const CLOSING: Duration = Duration::from_secs(1);

async fn sweep(front: Arc<Front>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let gate = front.gate.clone();
        let _ = task::blocking(move || gate.refresh()).await;
        front.gate.tick_expiring();
        let wall = crate::time::wall();
        front.sessions.sweep(Monotonic::now(), |pass| front.gate.still(pass, wall));
    }
}

async fn accept(listener: TcpListener, front: Arc<Front>, places: Arc<Semaphore>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without it, the second piece of an answer waits for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        match places.clone().try_acquire_owned() {
            Ok(place) => task::spawn(connection(stream, peer, front.clone(), place)).detach(),
            Err(_) => refuse(&stream),
        }
    }
}

/// One connection too many: told so, without waiting.
fn refuse(stream: &TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
        Content-Type: text/plain\r\nContent-Length: 37\r\n\r\ntoo many connections; close some first";
    let _ = stream.try_write(FULL);
}

async fn connection(stream: TcpStream, at: SocketAddr, front: Arc<Front>, _place: OwnedSemaphorePermit) {
    let own = stream.local_addr();
    let uid = match own {
        Ok(own) => task::blocking(move || peer::uid(at, own)).await.flatten(),
        Err(_) => None,
    };
    let peer = Peer { at, uid };
    let mut phase = front.phase.subscribe();
    let service = service_fn(|request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(peer, request).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(Patient::new(stream)), service)
    );
    let mut told = Phase::Serving;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
                return;
            }
            now = next_phase(&mut phase, told) => {
                told = now;
                connection.as_mut().graceful_shutdown();
                if now == Phase::Over {
                    let _ = tokio::time::timeout(CLOSING, connection.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// The phase after this one.
async fn next_phase(phase: &mut watch::Receiver<Phase>, told: Phase) -> Phase {
    phase.wait_for(|now| *now > told).await.map_or(Phase::Over, |now| *now)
}
