//! The rungs: the same calls through more and more of Callboard, each in a fresh
//! one-threaded runtime.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard::audit::file::Place;
use callboard::call::{CallLimits, CallRequest, ItemKind, Target};
use callboard::config::spec::*;
use callboard::id::{CallId, SessionId};
use callboard::runtime::{AuditPlan, Runtime, RuntimePlan};
use callboard::transport::link::{Link, Outbound};
use callboard::transport::{
    Attempt, Connection, Connector, DuplexPeer, LinkSettings, ProtocolChoice, StdioLaunch, connect,
};
use callboard::wire::splice::{self, MetaRewrite, RequestSplice};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::entry::entry;
use crate::{Load, Measured, peer};

/// Where the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On an in-process pipe.
    InProcess,
    /// A child process.
    Child,
}

/// How much of Callboard is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// A client as small as can be: writes lines, reads lines, finds the id at the head.
    Bare,
    /// Our link: framing, structural scan, pending table.
    Link,
    /// The server actor.
    Actor,
    /// Front end and server actor: what an edge uses.
    Front,
    /// The same with every call in the audit log.
    Audited,
}

impl Rung {
    /// All, bottom first.
    pub const ALL: [Self; 5] = [Self::Bare, Self::Link, Self::Actor, Self::Front, Self::Audited];
}

const PARAMS: &str = r#"{"name":"t","arguments":{"path":"src/lib.rs","limit":20}}"#;

/// Calls before a round, one after the other.
const WARM_UP_MAX: usize = 1_000;

/// One round of one rung.
pub fn measure(rung: Rung, place: Where, load: Load) -> Measured {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match rung {
            Rung::Bare => bare(place, load).await,
            Rung::Link => link(place, load).await,
            Rung::Actor | Rung::Front | Rung::Audited => actors(rung, place, load).await,
        }
    })
}

/// Keeps `in_flight` calls running until `calls` are done.
async fn drive<F, T>(load: Load, mut call: impl FnMut() -> F) -> Measured
where
    F: Future<Output = T>,
{
    for _ in 0..(load.calls / 10).min(WARM_UP_MAX) {
        call().await;
    }
    let mut latencies = Vec::with_capacity(load.calls);
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut timed = || {
        let at = Instant::now();
        // Not an `async` block: that would keep room for the call twice.
        call().map(move |_| at.elapsed())
    };
    if load.in_flight == 1 {
        for _ in 0..load.calls {
            latencies.push(timed().await);
        }
    } else {
        let mut running = FuturesUnordered::new();
        for _ in 0..load.in_flight {
            running.push(timed());
        }
        while let Some(latency) = running.next().await {
            latencies.push(latency);
            if latencies.len() + running.len() < load.calls {
                running.push(timed());
            }
        }
    }
    let took = began.elapsed();
    let cpu = (cpu_time() - cpu) / u32::try_from(latencies.len()).unwrap();
    latencies.sort();
    let per_second = latencies.len() as f64 / took.as_secs_f64();
    Measured { p50: latencies[latencies.len() / 2], per_second, cpu }
}

/// What this process has used so far, user and kernel.
fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap())
}

fn launch(load: Load) -> StdioLaunch {
    StdioLaunch {
        command: std::env::current_exe().unwrap().display().to_string(),
        args: vec!["--child".into(), format!("{:?}", load.shape), load.size.to_string()],
        env: Vec::new(),
        cwd: None,
        guard: None,
        sandbox: None,
    }
}

fn duplex(load: Load) -> DuplexPeer {
    let result: Arc<str> = peer::result(load.shape, load.size).into();
    DuplexPeer(Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let result = result.clone();
        tokio::spawn(async move {
            let (input, mut output) = tokio::io::split(theirs);
            let mut input = BufReader::new(input);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            while input.read_until(b'\n', &mut line).await.is_ok_and(|n| n > 0) {
                let _ = peer::answer(&line, &result, &mut out);
                line.clear();
                if input.buffer().is_empty() && !out.is_empty() {
                    if output.write_all(&out).await.is_err() {
                        return;
                    }
                    out.clear();
                }
            }
        });
        ours
    }))
}

type Waiting = (u64, oneshot::Sender<Vec<u8>>);

async fn bare(place: Where, load: Load) -> Measured {
    match place {
        Where::InProcess => {
            let (input, output) = tokio::io::split((duplex(load).0)());
            bare_over(input, output, load).await
        }
        Where::Child => {
            let launch = launch(load);
            let mut child = tokio::process::Command::new(&launch.command)
                .args(&launch.args)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let (stdout, stdin) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            let measured = bare_over(stdout, stdin, load).await;
            child.kill().await.unwrap();
            measured
        }
    }
}

async fn bare_over(
    input: impl AsyncRead + Unpin + Send + 'static,
    mut output: impl AsyncWrite + Unpin + Send + 'static,
    load: Load,
) -> Measured {
    let (to_write, mut queue) = mpsc::channel::<Waiting>(1024);
    let pending: Arc<std::sync::Mutex<HashMap<u64, oneshot::Sender<Vec<u8>>>>> = Arc::default();
    let waiting = pending.clone();
    tokio::spawn(async move {
        let (mut batch, mut out) = (Vec::new(), Vec::new());
        while queue.recv_many(&mut batch, 64).await > 0 {
            for (id, answer) in batch.drain(..) {
                waiting.lock().unwrap().insert(id, answer);
                let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":"#);
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(PARAMS.as_bytes());
                out.extend_from_slice(b"}\n");
            }
            if output.write_all(&out).await.is_err() {
                return;
            }
            out.clear();
        }
    });
    tokio::spawn(async move {
        let mut input = BufReader::with_capacity(64 * 1024, input);
        loop {
            let mut line = Vec::new();
            if input.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let digits = line[22..].iter().take_while(|b| b.is_ascii_digit());
            let id = digits.fold(0, |n, b| n * 10 + u64::from(b - b'0'));
            if let Some(answer) = pending.lock().unwrap().remove(&id) {
                let _ = answer.send(line);
            }
        }
    });
    let mut next = 0;
    drive(load, || {
        next += 1;
        let (id, to_write) = (next, to_write.clone());
        async move {
            let (answer, rx) = oneshot::channel();
            to_write.send((id, answer)).await.unwrap();
            rx.await.unwrap()
        }
    })
    .await
}

fn connector(place: Where, load: Load) -> Connector {
    match place {
        Where::InProcess => Connector::Duplex(duplex(load)),
        Where::Child => Connector::Stdio(launch(load)),
    }
}

async fn link(place: Where, load: Load) -> Measured {
    let settings = LinkSettings {
        frame_max: 16 << 20,
        protocol: ProtocolChoice::Auto,
        remembered: None,
        roots: Vec::new(),
        declared: callboard::transport::Declared::default(),
        list_timeout: Duration::from_secs(30),
        http: callboard::transport::http::Client::default(),
        spawns: callboard::transport::spawns::Spawns::default(),
        tap: Default::default(),
    };
    let Connection { link, established, .. } =
        connect(&connector(place, load), &settings, &Attempt::default()).await.unwrap();
    let meta = Arc::new(established.meta);
    let measured = drive(load, || {
        let (link, meta) = (link.clone(), meta.clone());
        async move { through_link(&link, &meta).await }
    })
    .await;
    link.close().await;
    measured
}

async fn through_link(link: &Link, meta: &MetaRewrite) -> Bytes {
    let id = link.next_id();
    let params = Bytes::from_static(PARAMS.as_bytes());
    let parts = splice::request(&RequestSplice {
        session: None,
        id,
        method: "tools/call",
        params: &params,
        name: Some(("name", "t")),
        arguments_default: true,
        progress: true,
        meta,
    })
    .unwrap();
    let request =
        Outbound { id, method: "tools/call", name: Some("t"), headers: Vec::new(), parts, session: None };
    link.start(request).waiting.answer().await.unwrap().unwrap().frame
}

async fn actors(rung: Rung, place: Where, load: Load) -> Measured {
    let spec = spec(load);
    let id = spec.id.clone();
    let mut plan = RuntimePlan { in_flight_max: 4096, ..RuntimePlan::default() };
    let folder = tempfile::tempdir().unwrap();
    if rung == Rung::Audited {
        let place = Place::below(folder.path(), 64 << 20);
        plan.audit = Some(AuditPlan { place: Ok(place), strict: true });
    }
    if place == Where::InProcess {
        plan.in_process.insert(id.clone(), duplex(load));
    }
    plan.servers.entries.push(entry(spec));
    let runtime = Runtime::start(plan).await.unwrap();
    runtime.settle(&[], Duration::from_secs(10)).await;
    let frontend = runtime.frontend();
    let server = runtime.directory().entries[&id].server.clone().unwrap();
    let request = || CallRequest {
        id: CallId::fresh(),
        session: SessionId(0),
        target: Target::Direct { server: id.clone(), kind: ItemKind::Tool, name: "t".into() },
        params: Bytes::from_static(PARAMS.as_bytes()),
        limits: CallLimits::default(),
        grant: None,
    };
    let measured = drive(load, || {
        let answer = match rung {
            Rung::Actor => server.call_unchecked(request()).left_future(),
            _ => frontend.call(request(), None).right_future(),
        };
        answer.map(|answer| answer.unwrap().frame)
    })
    .await;
    runtime.shutdown().await;
    measured
}

fn spec(load: Load) -> ServerSpec {
    let launch = launch(load);
    let transport = TransportSpec::Stdio {
        command: launch.command,
        args: launch.args.into_iter().map(SecretText::new).collect(),
        env: Vec::new(),
        cwd: None,
    };
    ServerSpec {
        allow_all_tools: true,
        protocol: Protocol::Legacy,
        limits: Limits { in_flight: 256, ..Limits::default() },
        ..ServerSpec::new("toy", transport)
    }
}
