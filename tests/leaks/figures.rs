//! How fast supervision is: from a death to the last error and to readiness, and what servers that
//! hang in their start cost the others.

use std::time::{Duration, Instant};

use callboard::call::{Delivery, ErrorCode};
use callboard::runtime::Runtime;
use callboard::view::LifeState;
use futures_util::future::join_all;
use rustix::process::Signal;

use crate::holdings::*;
use crate::support::bad::{PATIENCE, until};
use crate::support::call;
use crate::trees::{id, plan, rounds, signal};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_death_in_mid_call_is_told_and_mended_in_no_time() {
    alone("figures::a_death_in_mid_call_is_told_and_mended_in_no_time", async {
        const PENDING: usize = 16;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("trace");
        let mut one = server("s", &words(&format!("--slow 600000 --trace {}", log.display())));
        lively(&mut one);
        let runtime = running(vec![one]).await;
        let (mut told, mut ready) = (Vec::new(), Vec::new());
        for _ in 0..rounds("CALLBOARD_DEATHS", 200) {
            let old = fresh(&runtime, "s", None).await.pid;
            until("the last round is over", || view(&runtime, "s").in_flight == 0).await;
            std::fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
            let mut death = None;
            let calls = join_all((0..PENDING).map(|_| async {
                let error = call(&runtime, "s", "t0").await.unwrap_err();
                (Instant::now(), error)
            }));
            let killing = async {
                // One that has not left yet is rightly sent to the next process.
                let arrived = || std::fs::read_to_string(&log).unwrap().matches(r#""tools/call""#).count();
                until("all have arrived", || arrived() == PENDING).await;
                death = Some(Instant::now());
                signal(id(old.unwrap()), Signal::KILL);
            };
            let (errors, ()) = tokio::join!(calls, killing);
            let death = death.unwrap();
            for (at, error) in errors {
                assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown));
                told.push(at - death);
            }
            fresh(&runtime, "s", old).await;
            ready.push(death.elapsed());
        }
        figure(&format!("from a death to the error of each of {PENDING} calls: {}", percentiles(&mut told)));
        figure(&format!("from a death to ready again: {}", percentiles(&mut ready)));
        assert!(
            told[told.len() / 2] < Duration::from_millis(100),
            "the middle of all: {:?}",
            told[told.len() / 2]
        );
        runtime.shutdown().await;
    });
}

/// How long it takes until all healthy servers are ready, beside so many that never answer.
async fn last_ready(healthy: usize, hanging: usize) -> Duration {
    let mut specs = Vec::new();
    for number in 0..healthy.max(hanging) {
        if number < hanging {
            specs.push(server(&format!("a{number:02}"), &words("--never-initialize")));
        }
        if number < healthy {
            specs.push(server(&format!("b{number:02}"), &[]));
        }
    }
    let began = Instant::now();
    let runtime = Runtime::start(plan(specs)).await.unwrap();
    let mut watch = runtime.watch(&[]);
    let all = async {
        loop {
            let ready = |view: &callboard::view::ServerView| view.state == LifeState::Ready;
            if watch.look().iter().filter(|view| ready(view)).count() == healthy {
                return began.elapsed();
            }
            watch.changed().await;
        }
    };
    let took = tokio::time::timeout(PATIENCE, all).await.expect("the healthy ones become ready");
    runtime.shutdown().await;
    took
}

#[test]
fn servers_that_hang_in_their_start_delay_nobody() {
    alone("figures::servers_that_hang_in_their_start_delay_nobody", async {
        let (mut without, mut with, mut twice) = (Vec::new(), Vec::new(), Vec::new());
        last_ready(25, 25).await;
        for _ in 0..5 {
            without.push(last_ready(25, 0).await);
            with.push(last_ready(25, 25).await);
            twice.push(last_ready(50, 0).await);
        }
        for (what, times) in [
            ("25 servers", &mut without),
            ("25 servers beside 25 that never answer", &mut with),
            ("50 servers", &mut twice),
        ] {
            times.sort_unstable();
            figure(&format!("{what}: the last one ready after {:.1?} (middle of 5)", times[2]));
        }
        assert!(with[2] < PATIENCE / 2, "no start limit is waited for: {:?}", with[2]);
    });
}
