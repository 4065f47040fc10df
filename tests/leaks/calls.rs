//! Many calls: none runs twice, none that was left behind holds anything, and what a tool reports
//! is never held against its server.

use std::time::{Duration, Instant};

use callboard::call::{Delivery, ErrorCode};
use callboard::view::BreakerState;
use futures_util::future::join_all;

use crate::holdings::*;
use crate::support::bad::until;
use crate::support::{call, request};
use crate::trees::rounds;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_call_that_dies_after_it_ran_ran_once() {
    alone("calls::a_call_that_dies_after_it_ran_ran_once", async {
        const SERVERS: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let flags = words(&format!("--count {} --exit-after-execute", count.display()));
        let specs = (0..SERVERS).map(|number| {
            let mut one = server(&format!("s{number}"), &flags);
            lively(&mut one);
            one
        });
        let runtime = running(specs.collect()).await;
        let times = rounds("CALLBOARD_CRASHES", 400) as usize / SERVERS;
        let runtime = &runtime;
        let each = (0..SERVERS).map(|number| async move {
            let name = format!("s{number}");
            for _ in 0..times {
                let old = fresh(runtime, &name, None).await.pid;
                let error = call(runtime, &name, "count").await.unwrap_err();
                assert_eq!((error.code, error.delivery), (ErrorCode::ConnectionLost, Delivery::Unknown));
                fresh(runtime, &name, old).await;
            }
        });
        join_all(each).await;
        let ran = std::fs::read_to_string(&count).unwrap().lines().count();
        figure(&format!("{} calls whose server died after they ran: {ran} runs", times * SERVERS));
        assert_eq!(ran, times * SERVERS);
    });
}

#[test]
fn ten_thousand_cancelled_calls_leave_nothing() {
    alone("calls::ten_thousand_cancelled_calls_leave_nothing", async {
        const AT_ONCE: usize = 64;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("trace");
        let flags = words(&format!("--slow 600000 --trace {}", log.display()));
        let runtime = running(vec![server("s", &flags)]).await;
        let frontend = runtime.frontend();
        let (mut before, mut memory, mut cancelled) = (None, 0, 0);
        while cancelled < rounds("CALLBOARD_CANCELLED", 10_000) as usize {
            let calls: Vec<_> =
                (0..AT_ONCE).map(|_| tokio::spawn(frontend.call(request("s", "t0", "{}"), None))).collect();
            until("all run", || view(&runtime, "s").in_flight == AT_ONCE).await;
            for call in calls {
                call.abort();
            }
            until("all places are free", || view(&runtime, "s").in_flight == 0).await;
            cancelled += AT_ONCE;
            if before.is_none() && cancelled > 500 {
                before = Some(Holdings::now());
                memory = resident();
            }
        }
        let grown = resident().saturating_sub(memory);
        let (calls, told) = ("tools/call", "notifications/cancelled");
        let text = || std::fs::read_to_string(&log).unwrap();
        let received = |method: &str| text().matches(&format!(r#""method":"{method}""#)).count();
        // One that was taken back before it left is never heard of.
        until("it is told of each that it got", || received(told) == received(calls)).await;
        assert!((cancelled / 2..=cancelled).contains(&received(calls)), "{}", received(calls));
        let after = Holdings::settle(&before.unwrap(), "after the cancelled calls").await;
        figure(&format!(
            "{cancelled} cancelled calls: {after:?} as before, {} KiB more resident",
            grown >> 10
        ));
        runtime.shutdown().await;
    });
}

#[test]
fn what_a_tool_reports_never_opens_a_breaker() {
    alone("calls::what_a_tool_reports_never_opens_a_breaker", async {
        const CALLS: usize = 10_000;
        let reports = [("isError", "--is-error"), ("-32602", "--rpc-error -32602")];
        let names = reports.map(|(name, _)| name.to_owned());
        let reports = reports.map(|(name, flags)| server(name, &words(flags)));
        let runtime = running(reports.into()).await;
        for name in &names {
            let began = Instant::now();
            for _ in 0..CALLS / 50 {
                let answers = join_all((0..50).map(|_| call(&runtime, name, "t0"))).await;
                for answer in answers {
                    answer.expect("it is an answer, and none is refused");
                }
            }
            until("all are counted", || {
                let seen = view(&runtime, name);
                seen.calls_ok + seen.calls_failed == CALLS as u64
            })
            .await;
            let seen = view(&runtime, name);
            assert_eq!((seen.breaker.state, seen.breaker.failures), (BreakerState::Closed, 0), "{name}");
            assert_eq!(seen.restarts, 0);
            figure(&format!("{name}: {CALLS} in a row, none refused, in {:.1?}", began.elapsed()));
        }
        runtime.shutdown().await;
    });
}

#[test]
fn a_thousand_callers_at_the_end_of_the_pause_are_one_start_and_one_probe() {
    alone("calls::a_thousand_callers_at_the_end_of_the_pause_are_one_start_and_one_probe", async {
        const CALLERS: usize = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let flags = format!("--crash-calls 3 --slow 500 --count-starts {}", starts.display());
        let mut one = server("s", &words(&flags));
        lively(&mut one);
        one.breaker.failures = 3;
        one.breaker.open_for = Duration::from_secs(2);
        let runtime = running(vec![one]).await;
        for _ in 0..3 {
            let old = fresh(&runtime, "s", None).await.pid;
            call(&runtime, "s", "t0").await.unwrap_err();
            fresh(&runtime, "s", old).await;
        }
        until("the pause is over", || {
            let until = view(&runtime, "s").breaker.until.expect("it is open");
            std::time::SystemTime::now() > until + Duration::from_millis(20)
        })
        .await;
        let calls = (0..CALLERS).map(|_| async {
            let began = Instant::now();
            let answer = call(&runtime, "s", "t0").await;
            (began.elapsed(), answer)
        });
        let (mut refused, mut tried) = (Vec::new(), 0);
        for (took, answer) in join_all(calls).await {
            match answer {
                Ok(_) => tried += 1,
                Err(error) => {
                    assert_eq!((error.code, error.delivery), (ErrorCode::BreakerOpen, Delivery::NotSent));
                    refused.push(took);
                }
            }
        }
        figure(&format!(
            "{CALLERS} callers at half-open: {tried} probe; refusals: {}",
            percentiles(&mut refused)
        ));
        assert_eq!((tried, refused.len()), (1, CALLERS - 1));
        let starts = std::fs::read_to_string(&starts).unwrap().lines().count();
        assert_eq!(starts, 4, "one start after the last death, and none for the probe");
        until("the probe is heard of", || view(&runtime, "s").breaker.state == BreakerState::Closed).await;
        call(&runtime, "s", "t0").await.expect("closed");
        runtime.shutdown().await;
    });
}
