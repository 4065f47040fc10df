//! The verdict for every state and cause, as a table.

use super::*;
use crate::call::{BreakerClass, Delivery};
use crate::id::{Generation, ServerId};
use crate::shaping::redact::Redactor;
use crate::view::BreakerView;
use crate::view::history::{History, Line, StartWhy};

fn at(s: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(s)
}

fn line(text: &str) -> Line {
    Line::new(&Redactor::default(), text)
}

fn view(state: LifeState, transport: &'static str, events: Vec<What>) -> ServerView {
    let mut history = History::default();
    for (n, what) in events.into_iter().enumerate() {
        history.note(at(n as u64), Generation(1), what);
    }
    ServerView {
        history: history.into(),
        listed: true,
        ..ServerView::unknown(ServerId::new("s"), transport, state, at(0))
    }
}

fn failed(cause: Cause) -> What {
    What::StartFailed { cause, text: line("it broke") }
}

fn connected() -> What {
    What::Connected { revision: "2025-11-25", took: Duration::from_millis(5) }
}

fn call_failed(code: ErrorCode) -> What {
    What::CallFailed { item: line("t"), code, delivery: Delivery::Unknown, class: BreakerClass::Trip }
}

const PARKED_CONFIG: LifeState = LifeState::Parked(ParkReason::ConfigError);
const GIVEN_UP: LifeState = LifeState::Parked(ParkReason::GivenUp);
const EXIT_1: Cause = Cause::Exited { code: Some(1), signal: None };
const KILLED: Cause = Cause::Exited { code: None, signal: Some(9) };

#[test]
fn every_end_has_somebody_whose_fault_it_is() {
    for (cause, stdio, http) in [
        (Cause::Config, Fault::Config, Fault::Config),
        (Cause::NeedsAuth, Fault::Config, Fault::Config),
        (EXIT_1, Fault::Server, Fault::Server),
        (KILLED, Fault::Server, Fault::Server),
        (Cause::Closed, Fault::Server, Fault::Server),
        (Cause::Protocol, Fault::Server, Fault::Server),
        (Cause::Network, Fault::Host, Fault::Network),
        (Cause::ServerStatus, Fault::Server, Fault::Server),
        (Cause::TimedOut, Fault::Server, Fault::Network),
        (Cause::TooLong, Fault::Server, Fault::Server),
        (Cause::Throttled, Fault::Server, Fault::Server),
    ] {
        for (transport, fault) in [("stdio", stdio), ("http", http)] {
            for state in [LifeState::BackingOff, GIVEN_UP, LifeState::Connecting] {
                let verdict = blame(&view(state, transport, vec![failed(cause)]), at(9));
                assert_eq!(verdict.fault, fault, "{cause:?} over {transport} in {state:?}");
                assert!(!verdict.text.is_empty());
                assert_eq!(verdict.fix.is_none(), cause == Cause::Throttled, "{cause:?}: {verdict:?}");
            }
        }
    }
}

#[test]
fn every_parked_server_says_what_it_waits_for() {
    let lost = What::Lost { cause: EXIT_1, text: line("exit 1"), calls: 1 };
    for (state, events, fault, waits) in [
        (LifeState::Parked(ParkReason::Disabled), vec![], Fault::Nobody, "somebody to turn it on"),
        (LifeState::Parked(ParkReason::PendingApproval), vec![], Fault::Nobody, "your approval"),
        (PARKED_CONFIG, vec![], Fault::Config, "a changed entry, or a restart"),
        (PARKED_CONFIG, vec![failed(Cause::Config)], Fault::Config, "a changed entry, or a restart"),
        (LifeState::Parked(ParkReason::NeedsAuth), vec![], Fault::Config, "credentials, then a restart"),
        (GIVEN_UP, vec![failed(EXIT_1)], Fault::Server, "a restart or a changed entry"),
        (GIVEN_UP, vec![connected(), lost], Fault::Server, "the next call, a restart or a changed entry"),
        (GIVEN_UP, vec![connected(), What::ActorFailed(line("a bug"))], Fault::Host, "a restart of the host"),
    ] {
        let verdict = blame(&view(state, "stdio", events), at(9));
        assert_eq!((verdict.fault, verdict.next), (fault, Next::WaitsFor(waits)), "{state:?}");
        assert!(!verdict.text.is_empty());
    }
}

#[test]
fn the_cure_that_the_view_knows_goes_before_the_general_one() {
    let mut known = view(GIVEN_UP, "stdio", vec![failed(EXIT_1)]);
    known.why = Some("gave up after 5 starts in a row: exit 1".into());
    assert!(blame(&known, at(9)).fix.unwrap().contains("callboard mcp get s"));
    known.fix = Some("install it".into());
    let verdict = blame(&known, at(9));
    assert_eq!(verdict.fix.as_deref(), Some("install it"));
    assert_eq!(verdict.text, "gave up after 5 starts in a row: exit 1");
    let killed = blame(&view(LifeState::BackingOff, "stdio", vec![failed(KILLED)]), at(9));
    assert!(killed.fix.unwrap().contains("memory"));
}

#[test]
fn a_server_that_backs_off_says_when_it_starts_again() {
    let mut waits = view(LifeState::BackingOff, "stdio", vec![failed(EXIT_1)]);
    waits.next_attempt = Some(at(12));
    assert_eq!(blame(&waits, at(9)).next, Next::At("the next start", at(12)));
    let mut throttled = view(LifeState::BackingOff, "http", vec![failed(Cause::Throttled)]);
    throttled.next_attempt = Some(at(30));
    let verdict = blame(&throttled, at(9));
    assert_eq!((verdict.fault, verdict.fix), (Fault::Server, None), "it only has to be waited for");
}

#[test]
fn a_start_is_nobodys_fault_until_it_is_late_or_has_failed() {
    let starts = vec![What::Started(StartWhy::Host), What::Spawned(7)];
    let first = view(LifeState::Connecting, "stdio", starts.clone());
    assert_eq!(blame(&first, at(9)).fault, Fault::Nobody);
    let again = vec![connected(), failed(EXIT_1), connected()];
    assert_eq!(blame(&view(LifeState::Connecting, "stdio", again), at(9)).fault, Fault::Nobody);
    for (transport, fault) in [("stdio", Fault::Server), ("http", Fault::Network)] {
        let late = ServerView { late: true, ..view(LifeState::Connecting, transport, starts.clone()) };
        let verdict = blame(&late, at(9));
        assert_eq!(verdict.fault, fault);
        assert!(verdict.text.contains("late is not failed") && verdict.fix.is_some(), "{verdict:?}");
    }
}

#[test]
fn an_open_breaker_names_what_opened_it_and_when_it_tries_again() {
    let open = BreakerView { state: BreakerState::Open, failures: 3, until: Some(at(60)) };
    for state in [LifeState::Ready, LifeState::Dormant] {
        let events = vec![call_failed(ErrorCode::TimeoutIdle)];
        let broken = ServerView { breaker: open, ..view(state, "stdio", events) };
        let verdict = blame(&broken, at(9));
        assert_eq!(verdict.fault, Fault::Server);
        assert!(
            verdict.text.contains("3 calls in a row") && verdict.text.contains("timeout_idle"),
            "{verdict:?}"
        );
        assert_eq!(verdict.next, Next::At("the next call is let through as a probe", at(60)));
        assert_eq!(blame(&broken, at(61)).next, Next::WaitsFor("the next call, which is the probe"));
    }
    let by_network = vec![connected(), failed(Cause::Network)];
    let broken = ServerView { breaker: open, ..view(LifeState::Ready, "http", by_network) };
    assert_eq!(blame(&broken, at(9)).fault, Fault::Network);
}

#[test]
fn a_pause_is_the_wish_of_the_server_and_ends_by_itself() {
    let paused = ServerView { paused_until: Some(at(20)), ..view(LifeState::Ready, "http", vec![]) };
    let verdict = blame(&paused, at(9));
    assert_eq!((verdict.fault, verdict.next), (Fault::Server, Next::At("calls go out again", at(20))));
    assert_eq!(blame(&paused, at(20)), nobody("it works", Next::Nothing));
}

#[test]
fn a_healthy_server_is_nobodys_fault_and_tells_of_trouble_that_is_over() {
    assert_eq!(
        blame(&view(LifeState::Ready, "stdio", vec![connected()]), at(9)),
        nobody("it works", Next::Nothing)
    );
    let unread = ServerView { listed: false, ..view(LifeState::Ready, "stdio", vec![connected()]) };
    assert_eq!(blame(&unread, at(9)).fault, Fault::Nobody);
    let slow = Some(Duration::from_secs(12));
    let slow = ServerView { start_took: slow, ..view(LifeState::Ready, "stdio", vec![connected()]) };
    assert!(blame(&slow, at(9)).text.contains("its start took 12 s"));
    for (event, fault) in [
        (failed(EXIT_1), Fault::Server),
        (What::ListFailed { list: "tools/list", text: line("no") }, Fault::Server),
        (call_failed(ErrorCode::InvalidArguments), Fault::Caller),
        (call_failed(ErrorCode::Busy), Fault::Host),
        (call_failed(ErrorCode::NeedsAuth), Fault::Config),
    ] {
        let verdict = blame(&view(LifeState::Ready, "stdio", vec![event.clone(), connected()]), at(9));
        assert_eq!(verdict.fault, fault, "{event:?}");
        assert!(verdict.text.starts_with("it works; before that: "), "{verdict:?}");
    }
}

#[test]
fn servers_that_rest_or_stop_are_nobodys_fault() {
    for (state, next) in [
        (LifeState::Dormant, Next::WaitsFor("the next use")),
        (LifeState::Draining, Next::Nothing),
        (LifeState::Stopped, Next::WaitsFor("a start that somebody asks for")),
    ] {
        let verdict = blame(&view(state, "stdio", vec![]), at(9));
        assert_eq!((verdict.fault, verdict.next), (Fault::Nobody, next), "{state:?}");
    }
}

#[test]
fn every_code_of_a_failed_call_has_its_fault() {
    for code in ErrorCode::ALL {
        let fault = fault_of_call(code, "stdio");
        assert!(fault != Fault::Nobody && fault != Fault::Network, "{code}");
    }
    assert_eq!(fault_of_call(ErrorCode::ConnectionLost, "http"), Fault::Network);
}
