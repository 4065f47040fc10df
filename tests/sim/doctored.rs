//! The judge is judged: each promise has records that break it, and the oracle notices every one.
//! A record that nobody touched breaks none.

use callboard::audit::record::Event;
use callboard::call::{Delivery, ErrorCode};
use callboard::view::{BreakerState, LifeState, ParkReason};

use super::audit_log::Line;
use super::oracle::{Promise, breaches};
use super::schedule::{CallPlan, FaultKind, LAST_CALLS, PARTING_CALLS, Schedule, TOOLS, What};
use super::trace::{Entry, Fact, Outcome};
use super::world::{self, Run};

/// A run of two servers, the first of them healthy, with a few calls and one crash.
fn sound() -> Run {
    let mut schedule = Schedule::of(1);
    schedule.servers.truncate(2);
    for server in &mut schedule.servers {
        (server.failures, server.open_for) = (3, 60_000);
        (server.idle_stop, server.announces) = (None, true);
        (server.tools, server.page, server.start, server.lazy, server.trusted) = (3, 0, 0, false, false);
        (server.idle, server.total, server.rate) = (10_000, 30_000, None);
    }
    (schedule.servers[0].healthy, schedule.servers[1].healthy) = (true, false);
    let call = |nonce: u64, server| CallPlan {
        nonce,
        at: 1_000 * (nonce + 1),
        what: What::Tool(0),
        delay: 10,
        server,
        ..CallPlan::nowhere()
    };
    schedule.calls = vec![call(0, 0), call(1, 1), call(2, 0), call(3, 1)];
    schedule.calls[2].leave = Some(5);
    schedule.faults = vec![super::schedule::FaultPlan {
        at: 1_500,
        server: 1,
        kind: FaultKind::CrashAfter,
        lasts: 1_000,
        uses: 1,
        arg: 1,
        lists: false,
    }];
    schedule.acts.clear();
    world::run(&schedule)
}

/// Changes a sound run and expects exactly that promise to be broken.
#[track_caller]
fn breaks(promise: Promise, change: impl FnOnce(&mut Run)) {
    let mut run = sound();
    assert_eq!(breaches(&run), [], "the run is sound");
    change(&mut run);
    let found = breaches(&run);
    assert!(found.iter().any(|breach| breach.promise == promise), "{promise:?} is not noticed: {found:?}");
}

fn place(run: &Run, wanted: impl Fn(&Fact) -> bool) -> usize {
    run.trace.iter().position(|entry| wanted(&entry.fact)).expect("it happened")
}

fn end_of(run: &mut Run, call: u64) -> &mut Entry {
    let at = place(run, |fact| matches!(fact, Fact::Ended { nonce, .. } if *nonce == call));
    &mut run.trace[at]
}

fn ends(run: &mut Run, call: u64, with: Outcome) {
    end_of(run, call).fact = Fact::Ended { nonce: call, outcome: with };
}

fn failed(code: ErrorCode, delivery: Delivery, text: &str) -> Outcome {
    Outcome::Failed { code, delivery, text: text.to_owned() }
}

#[test]
fn a_panic_is_noticed() {
    breaks(Promise::V0, |run| run.end.panics = 1);
}

#[test]
fn a_lost_or_doubled_or_late_outcome_is_noticed() {
    breaks(Promise::V1, |run| {
        let at = place(run, |fact| matches!(fact, Fact::Ended { nonce: 1, .. }));
        run.trace.remove(at);
    });
    breaks(Promise::V1, |run| {
        let again = end_of(run, 1).clone();
        run.trace.push(again);
    });
    breaks(Promise::V1, |run| end_of(run, 1).at += 40_000);
}

#[test]
fn a_limit_that_fires_early_and_a_shutdown_that_takes_long_are_noticed() {
    let early = |code| move |run: &mut Run| ends(run, 1, failed(code, Delivery::Unknown, "beta: a limit"));
    breaks(Promise::V1, early(ErrorCode::TimeoutTotal));
    breaks(Promise::V1, early(ErrorCode::TimeoutIdle));
    breaks(Promise::V1, |run| {
        let done = place(run, |fact| matches!(fact, Fact::Shutdown { done: true }));
        run.trace[done].at += 100;
    });
    breaks(Promise::V1, |run| run.trace.retain(|e| !matches!(e.fact, Fact::Shutdown { done: true })));
    breaks(Promise::V1, |run| end_of(run, PARTING_CALLS).at += 3_000);
}

#[test]
fn a_cancellation_told_twice_or_not_at_all_is_noticed() {
    let told = |run: &Run| place(run, |fact| matches!(fact, Fact::Cancelled { server: 0, .. }));
    breaks(Promise::V1, |run| {
        let again = run.trace[told(run)].clone();
        run.trace.push(again);
    });
    breaks(Promise::V1, |run| {
        let at = told(run);
        run.trace.remove(at);
    });
}

#[test]
fn an_answer_of_another_call_or_server_is_noticed() {
    let answered = |nonce, server: &str| Outcome::Answered { nonce, server: server.to_owned(), elapsed: 10 };
    breaks(Promise::V2, |run| ends(run, 0, answered(1, "alpha")));
    breaks(Promise::V2, |run| ends(run, 0, answered(0, "beta")));
    breaks(Promise::V2, |run| run.trace.push(Entry { at: 5_000, fact: Fact::Told { nonce: 1, of: 3 } }));
}

#[test]
fn a_second_run_of_a_call_and_a_false_word_about_delivery_are_noticed() {
    breaks(Promise::V3, |run| {
        let at = place(run, |fact| matches!(fact, Fact::Executed { nonce: 1, .. }));
        let again = run.trace[at].clone();
        run.trace.push(again);
    });
    breaks(Promise::V3, |run| {
        ends(run, 1, failed(ErrorCode::ConnectionLost, Delivery::NotSent, "beta: nothing was sent"));
    });
    breaks(Promise::V3, |run| run.trace.retain(|e| !matches!(e.fact, Fact::Executed { nonce: 0, .. })));
}

/// A breaker of the second server that opened right before its second call.
fn opened(run: &mut Run) {
    let at = run.schedule.calls[3].at - 1;
    let place = run.trace.iter().position(|entry| entry.at > at).expect("a call comes later");
    run.trace.insert(place, Entry { at, fact: Fact::Breaker { server: 1, state: BreakerState::Open } });
}

#[test]
fn a_call_behind_an_open_breaker_and_a_second_probe_are_noticed() {
    breaks(Promise::V4, opened);
    breaks(Promise::V4, |run| {
        opened(run);
        run.schedule.servers[1].open_for = 0;
        for nonce in [100, 101] {
            let at = 10_000;
            run.trace.push(Entry { at, fact: Fact::Asked { nonce } });
            run.trace.push(Entry { at, fact: Fact::Got { server: 1, conn: 1, nonce, id: nonce } });
            run.trace.push(Entry { at: at + 5, fact: Fact::Ended { nonce, outcome: Outcome::Left } });
        }
    });
}

#[test]
fn a_sixth_restart_in_a_minute_is_noticed() {
    breaks(Promise::V5, |run| {
        for conn in 10..15 {
            run.trace.push(Entry { at: 59_000 + conn, fact: Fact::Connected { server: 1, conn } });
        }
        let at = 3_000;
        run.trace.insert(0, Entry { at, fact: Fact::Connected { server: 1, conn: 9 } });
        run.trace.push(Entry { at: 60_000, fact: Fact::Connected { server: 1, conn: 16 } });
    });
}

#[test]
fn a_healthy_server_that_is_slower_or_fails_is_noticed() {
    breaks(Promise::V6, |run| {
        ends(run, 0, Outcome::Answered { nonce: 0, server: "alpha".to_owned(), elapsed: 11 });
    });
    breaks(Promise::V6, |run| ends(run, 0, failed(ErrorCode::Busy, Delivery::NotSent, "alpha is busy")));
    breaks(Promise::V6, |run| {
        let ready = place(run, |fact| matches!(fact, Fact::State { server: 0, state: LifeState::Ready }));
        run.trace[ready].at += 5;
    });
}

#[test]
fn a_server_that_stays_away_is_noticed() {
    let state = |state| {
        move |run: &mut Run| {
            run.end.settled.insert(1, state);
        }
    };
    breaks(Promise::V7, state(LifeState::Connecting));
    breaks(Promise::V7, state(LifeState::Dormant));
    breaks(Promise::V7, state(LifeState::Parked(ParkReason::ConfigError)));
    breaks(Promise::V7, state(LifeState::Parked(ParkReason::GivenUp)));
    breaks(Promise::V7, |run| {
        ends(run, LAST_CALLS + 1, failed(ErrorCode::NotReady, Delivery::NotSent, "beta is not ready"));
    });
}

#[test]
fn whatever_is_still_held_is_noticed() {
    breaks(Promise::V8, |run| {
        run.end.busy.insert(1, (1, 0));
    });
    breaks(Promise::V8, |run| {
        run.end.busy.insert(1, (0, 1));
    });
    breaks(Promise::V8, |run| run.end.permits_missing = 1);
    breaks(Promise::V8, |run| run.schedule.servers[0].in_flight = 0);
    breaks(Promise::V8, |run| run.end.tasks_after = 1);
    breaks(Promise::V8, |run| {
        run.end.open.insert(1, 2);
    });
    breaks(Promise::V8, |run| {
        run.end.open_after.insert(1, 1);
    });
}

#[test]
fn a_catalogue_that_lacks_or_invents_or_confuses_is_noticed() {
    breaks(Promise::V9, |run| {
        run.end.catalog.insert(1, vec!["echo".to_owned()]);
    });
    breaks(Promise::V9, |run| {
        run.end.catalog.remove(&0);
    });
    breaks(Promise::V9, |run| {
        run.end.renewed.insert(1, vec!["old".to_owned()]);
    });
    breaks(Promise::V9, |run| {
        run.end.wanted.insert(1, false);
    });
    breaks(Promise::V9, |run| {
        let again = run.end.exposed[0].clone();
        run.end.exposed.push(again);
    });
    breaks(Promise::V9, |run| run.end.exposed[0].0 = "not a name".to_owned());
}

/// The lines of a call in the audit log.
fn lines(run: &mut Run, call: u64) -> &mut Vec<Line> {
    run.end.log.lines.get_mut(&call).expect("it was written down")
}

#[test]
fn a_call_that_is_not_in_the_log_as_it_was_is_noticed() {
    breaks(Promise::V10, |run| drop(run.end.log.lines.remove(&0)));
    breaks(Promise::V10, |run| drop(run.end.log.lines.remove(&2)));
    breaks(Promise::V10, |run| drop(lines(run, 0).pop()));
    breaks(Promise::V10, |run| drop(lines(run, 0).remove(0)));
    breaks(Promise::V10, |run| {
        let again = lines(run, 0)[1].clone();
        lines(run, 0).push(again);
    });
    breaks(Promise::V10, |run| lines(run, 0)[1].sent = 0);
    breaks(Promise::V10, |run| lines(run, 0)[1].outcome = Some("failed".to_owned()));
    breaks(Promise::V10, |run| lines(run, 1)[1].error = Some("busy".to_owned()));
    breaks(Promise::V10, |run| lines(run, 2)[1].outcome = Some("lost".to_owned()));
    breaks(Promise::V10, |run| {
        let refused = Line { event: Event::Refused, outcome: None, error: None, sent: 0 };
        *lines(run, 2) = vec![refused];
    });
}

#[test]
fn a_log_that_does_not_verify_or_lacks_an_end_is_noticed() {
    breaks(Promise::V10, |run| run.end.log.differences.push("deleted".to_owned()));
    breaks(Promise::V10, |run| run.end.log.open = 1);
    breaks(Promise::V10, |run| run.end.log.troubles = 1);
}

/// The second server's list arrived once more, with another definition of its last tool, before its
/// second call.
fn turned(run: &mut Run) {
    let at = run.schedule.calls[3].at - 500;
    let place = run.trace.iter().position(|entry| entry.at > at).expect("a call comes later");
    let (server, conn, version, changed, sure) = (1, 99, 0, true, true);
    let listed = Fact::Listed { server, conn, version, changed, sure };
    for fact in [listed, Fact::Shown { server, conn, changed }] {
        run.trace.insert(place, Entry { at, fact });
    }
}

#[test]
fn a_changed_definition_that_is_not_held_or_runs_is_noticed() {
    let tool = || vec![TOOLS[2].to_owned()];
    breaks(Promise::V11, turned);
    breaks(Promise::V11, |run| {
        turned(run);
        run.end.held.insert(1, tool());
        run.schedule.calls[3].what = What::Tool(2);
    });
    let mut run = sound();
    turned(&mut run);
    run.end.held.insert(1, tool());
    assert_eq!(breaches(&run), [], "held, and not called");
}

#[test]
fn what_is_held_as_it_was_is_noticed() {
    breaks(Promise::V11, |run| {
        run.end.held.insert(1, vec![TOOLS[2].to_owned()]);
    });
    breaks(Promise::V11, |run| {
        run.end.held.insert(0, vec![TOOLS[0].to_owned()]);
    });
    breaks(Promise::V11, |run| ends(run, 1, failed(ErrorCode::Held, Delivery::NotSent, "beta: held")));
}

#[test]
fn a_refusal_without_a_name_and_a_bug_are_noticed() {
    breaks(Promise::V12, |run| ends(run, 1, failed(ErrorCode::Busy, Delivery::Unknown, "try again later")));
    breaks(Promise::V12, |run| ends(run, 1, failed(ErrorCode::Busy, Delivery::Unknown, "")));
    breaks(Promise::V12, |run| ends(run, 1, failed(ErrorCode::Internal, Delivery::Unknown, "beta: a bug")));
}
