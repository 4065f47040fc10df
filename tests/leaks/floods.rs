//! Floods: what a server may write without end, on stderr, as one line, as frames. Its own fault is
//! told, memory stays what it was, and its neighbours answer meanwhile.

use std::time::{Duration, Instant};

use callboard::call::ErrorCode;
use callboard::runtime::Runtime;
use callboard::view::LifeState;

use crate::holdings::*;
use crate::support::bad::{memory, until};
use crate::support::{call, request};

/// The default cap of a frame, in bytes.
const CAP: u64 = 16 * MIB;
/// The kept end of stderr.
const RING: u64 = 64 << 10;

/// How much is written, in mebibytes.
fn size() -> u64 {
    u64::from(crate::trees::rounds("CALLBOARD_FLOOD_MIB", 128))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_flood_on_stderr_in_a_call_costs_the_ring_and_nothing_more() {
    alone("floods::a_flood_on_stderr_in_a_call_costs_the_ring_and_nothing_more", async {
        for flag in ["--flood-stderr", "--stderr-no-newline"] {
            let flags = words(&format!("{flag} {}@call", size() * MIB));
            let runtime = running(vec![server("s", &flags)]).await;
            call(&runtime, "s", "t0").await.expect("the warm-up");
            let before = memory("VmHWM");
            let began = Instant::now();
            call(&runtime, "s", "t0").await.expect("it is answered after the flood");
            let rate = size() as f64 / began.elapsed().as_secs_f64();
            let grown = memory("VmHWM") - before;
            figure(&format!("{flag}: {} MiB in a call, {rate:.0} MiB/s, {} KiB more", size(), grown >> 10));
            assert!(grown <= MIB + RING, "{flag}: {} KiB more", grown >> 10);
            assert_eq!(view(&runtime, "s").restarts, 0);
            runtime.shutdown().await;
        }
    });
}

/// Calls the neighbour until `done`; how long each call took.
async fn neighbour(runtime: &Runtime, mut done: impl FnMut() -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while !done() {
        let began = Instant::now();
        call(runtime, "fine", "t0").await.expect("the neighbour answers");
        times.push(began.elapsed());
        tokio::task::yield_now().await;
    }
    times
}

#[test]
fn a_line_without_end_stays_below_twice_the_cap_and_hurts_no_neighbour() {
    alone("floods::a_line_without_end_stays_below_twice_the_cap_and_hurts_no_neighbour", async {
        let endless = words(&format!("--endless-line {}", size() * 10 * MIB));
        let runtime = running(vec![server("fine", &[]), server("s", &endless)]).await;
        call(&runtime, "fine", "t0").await.unwrap();
        let (fine, before) = (view(&runtime, "fine").pid, memory("VmHWM"));
        let over = std::cell::Cell::new(false);
        let flooded = async {
            let error = call(&runtime, "s", "t0").await.unwrap_err();
            over.set(true);
            error
        };
        let (error, mut times) = tokio::join!(flooded, neighbour(&runtime, || over.get()));
        assert!(error.message.contains("limits.frame_max"), "{error}");
        let grown = memory("VmHWM") - before;
        figure(&format!("a line without end: {:.1} MiB more at the peak", grown as f64 / MIB as f64));
        figure(&format!("  the neighbour's calls meanwhile: {}", percentiles(&mut times)));
        assert!(grown <= 2 * CAP, "{} MiB more", grown >> 20);
        assert_eq!((view(&runtime, "fine").pid, view(&runtime, "fine").restarts), (fine, 0));
        runtime.shutdown().await;
    });
}

#[test]
fn a_flood_of_frames_costs_no_memory_and_no_call() {
    alone("floods::a_flood_of_frames_costs_no_memory_and_no_call", async {
        let storm = words("--list-changed-storm 1000000");
        let runtime = running(vec![server("fine", &[]), server("s", &storm)]).await;
        for server in ["fine", "s"] {
            call(&runtime, server, "t0").await.unwrap();
        }
        let before = memory("VmHWM");
        let until = Instant::now() + Duration::from_secs(3);
        let mut of_storm = Vec::new();
        let own = async {
            while Instant::now() < until {
                let began = Instant::now();
                call(&runtime, "s", "t0").await.expect("its own calls are answered too");
                of_storm.push(began.elapsed());
            }
        };
        let (mut times, ()) = tokio::join!(neighbour(&runtime, || Instant::now() >= until), own);
        let grown = memory("VmHWM") - before;
        figure(&format!("a flood of frames: {:.1} MiB more at the peak", grown as f64 / MIB as f64));
        figure(&format!("  calls of the neighbour: {}", percentiles(&mut times)));
        figure(&format!("  calls of the flooding one: {}", percentiles(&mut of_storm)));
        assert!(grown <= 2 * CAP, "{} MiB more", grown >> 20);
        let seen = view(&runtime, "s");
        assert_eq!((seen.state, seen.restarts), (LifeState::Ready, 0));
        runtime.shutdown().await;
    });
}

#[test]
fn a_hundred_thousand_calls_to_a_stuck_server_are_refused_clearly_and_cost_no_memory() {
    const TEST: &str =
        "floods::a_hundred_thousand_calls_to_a_stuck_server_are_refused_clearly_and_cost_no_memory";
    const CALLS: usize = 100_000;
    alone(TEST, async {
        let mut stuck = server("s", &words("--slow 600000"));
        stuck.timeouts.permit = Duration::from_secs(300);
        let held = stuck.limits.in_flight + stuck.limits.queue;
        let runtime = running(vec![stuck]).await;
        let before = (Holdings::now(), resident());
        let frontend = runtime.frontend();
        let holding: Vec<_> =
            (0..held).map(|_| tokio::spawn(frontend.call(request("s", "t0", "{}"), None))).collect();
        until("all places are taken", || view(&runtime, "s").queued == 256).await;
        let mut times = Vec::with_capacity(CALLS);
        while times.len() < CALLS {
            let calls = (0..500).map(|_| async {
                let began = Instant::now();
                let error = call(&runtime, "s", "t0").await.unwrap_err();
                (began.elapsed(), error)
            });
            for (took, error) in futures_util::future::join_all(calls).await {
                assert_eq!(error.code, ErrorCode::Busy, "{error}");
                assert!(error.message.contains("s has 256 calls waiting already (limits.queue)"), "{error}");
                times.push(took);
            }
        }
        let grown = resident().saturating_sub(before.1);
        figure(&format!("refusals of a stuck server, 500 at once: {}", percentiles(&mut times)));
        figure(&format!("  {:.1} MiB more resident", grown as f64 / MIB as f64));
        assert!(grown <= 64 * MIB, "{} MiB more", grown >> 20);
        for call in holding {
            call.abort();
        }
        until("all places are free", || view(&runtime, "s").in_flight == 0).await;
        Holdings::settle(&before.0, "after the callers have left").await;
        runtime.shutdown().await;
    });
}
