//! The breaker row by row.

use super::*;

pub(super) const OPEN_FOR: Duration = Duration::from_secs(60);

pub(super) fn spec(failures: u32) -> BreakerSpec {
    BreakerSpec { failures, open_for: OPEN_FOR, count_tool_errors: false }
}

pub(super) fn at(ms: u64) -> Monotonic {
    Monotonic::base() + Duration::from_millis(ms)
}

fn pass(breaker: &mut Breaker, now: Monotonic) -> Pass {
    match breaker.admit(now, true) {
        Admit::Pass(pass) => pass,
        other => panic!("not let through: {other:?}"),
    }
}

/// One call from its pass to its class.
fn call(breaker: &mut Breaker, now: Monotonic, class: BreakerClass) -> Move {
    let pass = pass(breaker, now);
    breaker.settle(pass, class, Loss::None, now)
}

/// Opened at `now`.
fn opened(now: Monotonic) -> Breaker {
    let mut breaker = Breaker::new(spec(3));
    let moves: Vec<Move> = (0..3).map(|_| call(&mut breaker, now, BreakerClass::Trip)).collect();
    assert_eq!(moves, [Move::Stayed, Move::Stayed, Move::Opened]);
    breaker
}

#[test]
fn the_third_failure_in_a_row_opens_it_and_a_sign_of_life_starts_the_count_again() {
    let mut breaker = Breaker::new(spec(3));
    for class in [BreakerClass::Trip, BreakerClass::Trip, BreakerClass::Heal, BreakerClass::Trip] {
        assert_eq!(call(&mut breaker, at(0), class), Move::Stayed);
    }
    for class in [BreakerClass::Neutral, BreakerClass::Exhausted] {
        assert_eq!(call(&mut breaker, at(0), class), Move::Stayed, "says nothing");
        assert_eq!(breaker.standing(at(0)), Standing::Closed(1));
    }
    assert_eq!(call(&mut breaker, at(0), BreakerClass::Trip), Move::Stayed);
    assert_eq!(call(&mut breaker, at(7), BreakerClass::Trip), Move::Opened);
    assert_eq!(breaker.standing(at(7)), Standing::Open(at(60_007)));
}

#[test]
fn it_is_open_for_exactly_its_time_and_nothing_inside_moves_the_end() {
    let mut breaker = opened(at(0));
    assert_eq!(breaker.admit(at(0), true), Admit::Refuse(Refusal::Open(OPEN_FOR)));
    assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(30_000)), Move::Stayed);
    assert_eq!(breaker.listed(true, at(0)), Move::Stayed);
    breaker.connect_failed(BreakerClass::Neutral, at(0));
    let left = Duration::from_millis(1);
    assert_eq!(breaker.admit(at(59_999), true), Admit::Refuse(Refusal::Open(left)));
    assert_eq!(breaker.standing(at(59_999)), Standing::Open(at(60_000)));
    assert_eq!(breaker.standing(at(60_000)), Standing::HalfOpen);
    assert!(pass(&mut breaker, at(60_000)).is_probe());
}

#[test]
fn half_open_lets_one_probe_out() {
    for connected in [true, false] {
        let mut breaker = opened(at(0));
        let first = breaker.admit(at(60_000), connected);
        assert!(
            matches!(
                (connected, first),
                (true, Admit::Pass(pass)) if pass.is_probe()
            ) || matches!((connected, first), (false, Admit::Connect(pass)) if !pass.is_probe())
        );
        for other in [true, false] {
            for _ in 0..1_000 {
                assert_eq!(breaker.admit(at(60_000), other), Admit::Refuse(Refusal::Probing));
            }
        }
        assert_eq!(breaker.standing(at(60_000)), Standing::HalfOpen);
    }
}

#[test]
fn the_probing_call_decides() {
    let cases = [
        (BreakerClass::Heal, Move::Closed, Standing::Closed(0)),
        (BreakerClass::Trip, Move::Opened, Standing::Open(at(121_000))),
        (BreakerClass::Exhausted, Move::Opened, Standing::Open(at(121_000))),
        (BreakerClass::Neutral, Move::Stayed, Standing::HalfOpen),
    ];
    for (class, moved, standing) in cases {
        let mut breaker = opened(at(0));
        let probe = pass(&mut breaker, at(60_000));
        assert_eq!(
            breaker.connect_failed(BreakerClass::Trip, at(60_500)),
            Move::Stayed,
            "the call decides, not the connection"
        );
        assert_eq!(breaker.listed(true, at(0)), Move::Stayed);
        breaker.connect_failed(BreakerClass::Neutral, at(0));
        assert_eq!(breaker.admit(at(60_500), true), Admit::Refuse(Refusal::Probing));
        assert_eq!(breaker.settle(probe, class, Loss::None, at(61_000)), moved, "{class:?}");
        assert_eq!(breaker.standing(at(61_000)), standing, "{class:?}");
        assert_eq!(
            breaker.settle(probe, BreakerClass::Trip, Loss::None, at(61_000)),
            Move::Stayed,
            "told twice"
        );
        assert_eq!(breaker.standing(at(61_000)), standing);
    }
}

#[test]
fn a_probe_that_said_nothing_leaves_its_place_to_the_next_call() {
    for connected in [true, false] {
        let mut breaker = opened(at(0));
        let probe = pass(&mut breaker, at(60_000));
        breaker.settle(probe, BreakerClass::Neutral, Loss::None, at(60_100));
        assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(60_100)), Move::Stayed);
        assert_eq!(breaker.listed(true, at(0)), Move::Stayed);
        let next = breaker.admit(at(60_100), connected);
        assert!(!matches!(next, Admit::Refuse(_)), "{next:?}");
        assert_eq!(breaker.admit(at(60_100), connected), Admit::Refuse(Refusal::Probing));
    }
}

#[test]
fn on_a_dead_transport_the_fresh_connection_and_its_list_are_the_probe() {
    let mut breaker = opened(at(0));
    let Admit::Connect(waiting) = breaker.admit(at(60_000), false) else { panic!("not connecting") };
    assert_eq!(breaker.settle(waiting, BreakerClass::Trip, Loss::None, at(60_001)), Move::Stayed);
    assert_eq!(breaker.listed(true, at(0)), Move::Closed);
    assert_eq!(breaker.standing(at(61_000)), Standing::Closed(0));
    // The call that waited runs now and counts like any other.
    let waiting = breaker.renew(waiting);
    assert_eq!(breaker.settle(waiting, BreakerClass::Trip, Loss::None, at(61_000)), Move::Stayed);
    assert_eq!(breaker.standing(at(61_000)), Standing::Closed(1));

    let mut breaker = opened(at(0));
    assert!(matches!(breaker.admit(at(60_000), false), Admit::Connect(_)));
    assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(62_000)), Move::Opened);
    assert_eq!(breaker.standing(at(62_000)), Standing::Open(at(122_000)));

    let mut breaker = opened(at(0));
    assert!(matches!(breaker.admit(at(60_000), false), Admit::Connect(_)));
    assert_eq!(breaker.connect_failed(BreakerClass::Neutral, at(61_000)), Move::Stayed);
    assert!(matches!(breaker.admit(at(61_000), false), Admit::Connect(_)), "the next one may try");
    assert_eq!(breaker.connect_failed(BreakerClass::Exhausted, at(62_000)), Move::Opened);

    let mut breaker = opened(at(0));
    assert!(matches!(breaker.admit(at(60_000), false), Admit::Connect(_)));
    assert!(breaker.connection_decides());
    assert_eq!(
        breaker.listed(false, at(70_000)),
        Move::Opened,
        "a connection without its list is no success"
    );
    assert!(!breaker.connection_decides());
    assert_eq!(breaker.standing(at(70_000)), Standing::Open(at(130_000)));
}

#[test]
fn a_probe_that_waited_stays_the_probe() {
    let mut breaker = opened(at(0));
    let probe = pass(&mut breaker, at(60_000));
    assert_eq!(breaker.renew(probe), probe);
    let probe = breaker.renew(probe);
    assert_eq!(breaker.settle(probe, BreakerClass::Heal, Loss::None, at(63_000)), Move::Closed);
}

#[test]
fn another_call_that_was_let_run_meanwhile_decides_nothing() {
    let mut breaker = Breaker::new(spec(3));
    let waited = pass(&mut breaker, at(0));
    for _ in 0..3 {
        call(&mut breaker, at(0), BreakerClass::Trip);
    }
    let probe = pass(&mut breaker, at(60_000));
    for class in [BreakerClass::Heal, BreakerClass::Trip, BreakerClass::Neutral] {
        let other = breaker.renew(waited);
        assert!(!other.is_probe());
        assert_eq!(breaker.settle(other, class, Loss::None, at(60_001)), Move::Stayed);
        assert_eq!(breaker.admit(at(60_001), true), Admit::Refuse(Refusal::Probing), "{class:?}");
    }
    assert_eq!(breaker.settle(probe, BreakerClass::Heal, Loss::None, at(60_002)), Move::Closed);
}

#[test]
fn all_calls_that_end_with_one_connection_are_one_incident() {
    let mut breaker = Breaker::new(spec(3));
    let died = Loss::Connection(Generation(7));
    let passes: Vec<Pass> = (0..16).map(|_| pass(&mut breaker, at(0))).collect();
    for one in passes {
        assert_eq!(breaker.settle(one, BreakerClass::Trip, died, at(0)), Move::Stayed);
    }
    assert_eq!(breaker.standing(at(0)), Standing::Closed(1));
    let one = pass(&mut breaker, at(1));
    breaker.settle(one, BreakerClass::Trip, Loss::None, at(1));
    assert_eq!(breaker.standing(at(1)), Standing::Closed(2), "another kind of failure counts");
    let one = pass(&mut breaker, at(2));
    breaker.settle(one, BreakerClass::Trip, died, at(2));
    assert_eq!(breaker.standing(at(2)), Standing::Closed(2), "still the same incident");
    let one = pass(&mut breaker, at(3));
    assert_eq!(breaker.settle(one, BreakerClass::Trip, Loss::Connection(Generation(8)), at(3)), Move::Opened);
}

#[test]
fn requests_that_were_out_together_and_are_lost_are_one_incident() {
    let mut breaker = Breaker::new(spec(3));
    for failures in 1..3 {
        let out: Vec<Pass> = (0..16).map(|_| pass(&mut breaker, at(0))).collect();
        for one in out {
            assert_eq!(breaker.settle(one, BreakerClass::Trip, Loss::Request, at(0)), Move::Stayed);
        }
        assert_eq!(breaker.standing(at(0)), Standing::Closed(failures));
    }
    let (first, second) = (pass(&mut breaker, at(1)), pass(&mut breaker, at(1)));
    breaker.settle(first, BreakerClass::Heal, Loss::None, at(1));
    assert_eq!(breaker.settle(second, BreakerClass::Trip, Loss::Request, at(1)), Move::Stayed);
    assert_eq!(breaker.standing(at(1)), Standing::Closed(1), "a loss after an answer is a new one");
}

#[test]
fn a_lost_probe_is_counted_with_its_connection() {
    let mut breaker = opened(at(0));
    let probe = pass(&mut breaker, at(60_000));
    assert_eq!(
        breaker.settle(probe, BreakerClass::Trip, Loss::Connection(Generation(9)), at(60_001)),
        Move::Opened
    );
    let probe = pass(&mut breaker, at(120_001));
    breaker.settle(probe, BreakerClass::Heal, Loss::None, at(120_002));
    let late = pass(&mut breaker, at(120_003));
    breaker.settle(late, BreakerClass::Trip, Loss::Connection(Generation(9)), at(120_003));
    assert_eq!(breaker.standing(at(120_003)), Standing::Closed(0), "that end was counted already");
}

#[test]
fn late_results_of_an_older_epoch_change_nothing() {
    let mut breaker = Breaker::new(spec(3));
    let old: Vec<Pass> = (0..40).map(|_| pass(&mut breaker, at(0))).collect();
    for _ in 0..3 {
        call(&mut breaker, at(0), BreakerClass::Trip);
    }
    for (n, late) in old.iter().enumerate() {
        let class = if n % 2 == 0 { BreakerClass::Heal } else { BreakerClass::Trip };
        assert_eq!(breaker.settle(*late, class, Loss::None, at(1_000)), Move::Stayed);
        assert_eq!(breaker.standing(at(1_000)), Standing::Open(at(60_000)));
    }
    let probe = pass(&mut breaker, at(60_000));
    for late in &old {
        assert_eq!(breaker.settle(*late, BreakerClass::Heal, Loss::None, at(60_001)), Move::Stayed);
    }
    assert_eq!(breaker.settle(probe, BreakerClass::Heal, Loss::None, at(60_002)), Move::Closed);
    for late in &old {
        breaker.settle(*late, BreakerClass::Trip, Loss::None, at(60_003));
    }
    assert_eq!(breaker.standing(at(60_003)), Standing::Closed(0));
}

#[test]
fn starts_that_fail_open_it_too() {
    let mut breaker = Breaker::new(spec(3));
    assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(0)), Move::Stayed);
    assert_eq!(breaker.listed(true, at(0)), Move::Stayed, "a list is no call: it zeroes nothing");
    assert_eq!(breaker.listed(false, at(0)), Move::Stayed, "nor does it count");
    for class in [BreakerClass::Neutral, BreakerClass::Exhausted, BreakerClass::Heal] {
        assert_eq!(breaker.connect_failed(class, at(0)), Move::Stayed);
    }
    assert_eq!(breaker.standing(at(0)), Standing::Closed(1));
    assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(1)), Move::Stayed);
    assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(2)), Move::Opened);
}

#[test]
fn a_threshold_of_zero_never_opens_it() {
    let mut breaker = Breaker::new(spec(0));
    for n in 0..10_000 {
        assert_eq!(call(&mut breaker, at(n), BreakerClass::Trip), Move::Stayed);
        assert_eq!(breaker.connect_failed(BreakerClass::Trip, at(n)), Move::Stayed);
    }
}

#[test]
fn a_person_closes_it_without_debts() {
    let mut breaker = opened(at(0));
    assert_eq!(breaker.reset(), Move::Closed);
    assert_eq!(breaker.standing(at(1)), Standing::Closed(0));
    let old = pass(&mut breaker, at(1));
    call(&mut breaker, at(1), BreakerClass::Trip);
    assert_eq!(breaker.reset(), Move::Stayed, "nobody was kept out");
    assert_eq!(breaker.standing(at(1)), Standing::Closed(0));
    breaker.settle(old, BreakerClass::Trip, Loss::None, at(1));
    assert_eq!(breaker.standing(at(1)), Standing::Closed(0), "a call of before the restart");
    let mut breaker = opened(at(0));
    let probe = pass(&mut breaker, at(60_000));
    assert_eq!(breaker.reset(), Move::Closed);
    assert_eq!(breaker.settle(probe, BreakerClass::Trip, Loss::None, at(60_001)), Move::Stayed);
}
