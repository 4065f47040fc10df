//! One refusal of an open breaker, end to end: from the front end's reference through front end and
//! server actor back to the caller, one at a time. Nothing of it reaches the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard::call::{CallLimits, CallRequest, ErrorCode, ItemKind, Target};
use callboard::config::spec::{BreakerSpec, ServerSpec, TransportSpec};
use callboard::id::{CallId, SessionId};
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::DuplexPeer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::entry::entry;
use crate::peer;

/// Refusals measured.
const REFUSALS: usize = 50_000;

/// Prints the figures of `REFUSALS / scale` refusals.
pub fn tell(scale: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut took = runtime.block_on(refusals(REFUSALS / scale));
    took.sort();
    let at = |part: usize| took[(took.len() * part / 1_000).min(took.len() - 1)].as_secs_f64() * 1e6;
    println!("\n{:<10} {:>10} {:>10} {:>10}  (goal: 50 µs)", "refusal", "p50 µs", "p99 µs", "p99.9 µs");
    println!("{:<10} {:>10.2} {:>10.2} {:>10.2}", "breaker", at(500), at(990), at(999));
}

/// A peer that answers until a tool is called, and hangs up then.
fn mortal() -> DuplexPeer {
    DuplexPeer(Arc::new(|| {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let (input, mut output) = tokio::io::split(theirs);
            let mut input = BufReader::new(input);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            while input.read_until(b'\n', &mut line).await.is_ok_and(|n| n > 0) {
                if String::from_utf8_lossy(&line).contains("\"tools/call\"") {
                    return;
                }
                let _ = peer::answer(&line, "{}", &mut out);
                if output.write_all(&out).await.is_err() {
                    return;
                }
                line.clear();
                out.clear();
            }
        });
        ours
    }))
}

async fn refusals(count: usize) -> Vec<Duration> {
    let transport =
        TransportSpec::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    let breaker = BreakerSpec { failures: 1, open_for: Duration::from_secs(3_600), ..BreakerSpec::default() };
    let spec = ServerSpec { allow_all_tools: true, breaker, ..ServerSpec::new("toy", transport) };
    let id = spec.id.clone();
    let mut plan = RuntimePlan::default();
    plan.in_process.insert(id.clone(), mortal());
    plan.servers.entries.push(entry(spec));
    let runtime = Runtime::start(plan).await.unwrap();
    runtime.settle(&[], Duration::from_secs(10)).await;
    let frontend = runtime.frontend();
    let request = || CallRequest {
        id: CallId::fresh(),
        session: SessionId(0),
        target: Target::Direct { server: id.clone(), kind: ItemKind::Tool, name: "t".into() },
        params: Bytes::from_static(br#"{"name":"t","arguments":{}}"#),
        limits: CallLimits::default(),
        grant: None,
    };
    frontend.call(request(), None).await.unwrap_err();
    runtime.settle(&[], Duration::from_secs(10)).await;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let request = request();
        let began = Instant::now();
        let error = frontend.call(request, None).await.unwrap_err();
        took.push(began.elapsed());
        assert_eq!(error.code, ErrorCode::BreakerOpen);
    }
    runtime.shutdown().await;
    took
}
