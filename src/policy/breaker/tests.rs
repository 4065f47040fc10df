//! The breaker against a second, slower description of itself, against every reachable
//! state, and row by row.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use proptest::prelude::*;

use super::*;
use crate::policy::explore::explore;

const OPEN_FOR: Duration = Duration::from_secs(60);

fn spec(failures: u32) -> BreakerSpec {
    BreakerSpec { failures, open_for: OPEN_FOR, count_tool_errors: false }
}

fn at(ms: u64) -> Monotonic {
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

/// The breaker with its clock and the passes that are out, equal to every other of the same shape.
#[derive(Clone, Debug)]
struct World {
    breaker: Breaker,
    now: Monotonic,
    out: Vec<Pass>,
    generation: u64,
}

/// Passes out at once in the exploration.
const OUT_MAX: usize = 3;
/// Steps of the clock: three make the time that it is open.
const TICK: Duration = Duration::from_secs(20);

impl World {
    fn key(&self) -> impl Eq + Hash + use<> {
        let until = match self.breaker.state {
            State::Open { until } => until - self.now,
            _ => Duration::ZERO,
        };
        let state = match self.breaker.state {
            State::Open { .. } => State::Open { until: Monotonic::base() },
            other => other,
        };
        let shape =
            |p: &Pass| (p.epoch == self.breaker.epoch, p.is_probe(), p.number <= self.breaker.lost_before);
        let mut out: Vec<(bool, bool, bool)> = self.out.iter().map(shape).collect();
        out.sort_unstable();
        (state, until, out, self.breaker.lost == Some(Generation(self.generation)))
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.key().hash(into);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Alone,
    WithOthers,
    WithConnection,
}

impl Ends {
    fn loss(self, generation: u64) -> Loss {
        match self {
            Self::Alone => Loss::None,
            Self::WithOthers => Loss::Request,
            Self::WithConnection => Loss::Connection(Generation(generation)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tick,
    Call { connected: bool },
    End { which: usize, class: BreakerClass, loss: Ends },
    Reconnected,
    ConnectFailed(BreakerClass),
    Listed { read: bool },
    Restarted,
}

fn steps() -> Vec<Step> {
    use BreakerClass::{Exhausted, Heal, Neutral, Trip};
    let mut steps = vec![
        Step::Tick,
        Step::Call { connected: true },
        Step::Call { connected: false },
        Step::Reconnected,
        Step::Listed { read: true },
        Step::Listed { read: false },
        Step::Restarted,
    ];
    steps.extend([Trip, Neutral, Exhausted].map(Step::ConnectFailed));
    for which in 0..OUT_MAX {
        steps.extend([Trip, Heal, Neutral, Exhausted].map(|class| Step::End {
            which,
            class,
            loss: Ends::Alone,
        }));
        let together = [Ends::WithOthers, Ends::WithConnection];
        steps.extend(together.map(|loss| Step::End { which, class: Trip, loss }));
    }
    steps
}

fn advance(world: &World, step: &Step) -> Option<World> {
    let mut next = world.clone();
    let now = world.now;
    match *step {
        Step::Tick => next.now = now + TICK,
        Step::Call { connected } => {
            if world.out.len() == OUT_MAX {
                return None;
            }
            match next.breaker.admit(now, connected) {
                Admit::Pass(pass) | Admit::Connect(pass) => next.out.push(pass),
                Admit::Refuse(_) => {}
            }
        }
        Step::End { which, class, loss } => {
            if which >= world.out.len() {
                return None;
            }
            let pass = next.out.remove(which);
            next.breaker.settle(pass, class, loss.loss(world.generation), now);
        }
        Step::Reconnected => next.generation += 1,
        Step::ConnectFailed(class) => _ = next.breaker.connect_failed(class, now),
        Step::Listed { read } => _ = next.breaker.listed(read, now),
        Step::Restarted => _ = next.breaker.reset(),
    }
    Some(next)
}

/// Everything that must hold at one step, whatever came before.
fn holds(before: &World, step: &Step, after: &World) {
    let (was, is) = (before.breaker.standing(before.now), after.breaker.standing(after.now));
    let probes = |w: &World| w.out.iter().filter(|p| p.is_probe() && p.epoch == w.breaker.epoch).count();
    let probing = usize::from(after.breaker.state == State::HalfOpen(Probe::Call));
    assert_eq!(probes(after), probing, "a probing call is out exactly while it is waited for");
    if let Standing::Open(until) = was {
        assert!(after.out.len() <= before.out.len(), "open is silent");
        match is {
            Standing::Open(now) => assert_eq!(until, now, "the end stays where it is"),
            Standing::HalfOpen => assert_eq!(*step, Step::Tick, "only time half-opens it"),
            Standing::Closed(_) => assert_eq!(*step, Step::Restarted, "only a person closes it"),
        }
    }
    if let (Standing::Closed(_), Standing::Open(until)) = (was, is) {
        assert_eq!(until, after.now + OPEN_FOR);
        assert!(matches!(
            step,
            Step::ConnectFailed(BreakerClass::Trip) | Step::End { class: BreakerClass::Trip, .. }
        ));
    }
    if let Step::End { which, .. } = step
        && before.out[*which].epoch != before.breaker.epoch
    {
        assert_eq!(before.breaker.state, after.breaker.state, "a late result changes nothing");
        assert_eq!(before.breaker.epoch, after.breaker.epoch);
    }
    if let Standing::Closed(failures) = is {
        assert!(failures < 3, "it would be open");
    }
}

#[test]
fn every_reachable_state_keeps_the_promises() {
    let first = World { breaker: Breaker::new(spec(3)), now: Monotonic::base(), out: vec![], generation: 1 };
    let mut kinds = BTreeSet::new();
    let explored = explore(first, &steps(), advance, |before, step, after| {
        holds(before, step, after);
        kinds.insert(format!("{:?}", after.breaker.state).chars().take(18).collect::<String>());
    });
    assert!(explored.states > 100 && kinds.len() >= 5, "{explored:?} {kinds:?}");
}

/// A call of the model.
struct Out {
    pass: Pass,
    epoch: u64,
    call: u64,
}

/// The breaker a second time, told in other words: a list of what counted.
struct Model {
    row: Vec<Loss>,
    counted: Option<u64>,
    /// Every call out when the last loss was counted.
    together: BTreeSet<u64>,
    next: u64,
    opened: Option<u64>,
    probe: Option<&'static str>,
    epoch: u64,
}

impl Model {
    fn turn(&mut self, opened: Option<u64>) -> Move {
        (self.opened, self.probe, self.epoch) = (opened, None, self.epoch + 1);
        self.row.clear();
        if opened.is_some() { Move::Opened } else { Move::Closed }
    }

    fn note(&mut self, loss: Loss) {
        if loss != Loss::None {
            self.together = (0..self.next).collect();
        }
        if let Loss::Connection(Generation(generation)) = loss {
            self.counted = Some(generation);
        }
    }

    fn fails(&mut self, call: Option<u64>, loss: Loss, ms: u64) -> Move {
        let same_connection = matches!(loss, Loss::Connection(Generation(g)) if self.counted == Some(g));
        let together = loss != Loss::None && call.is_some_and(|call| self.together.contains(&call));
        if same_connection || together {
            return Move::Stayed;
        }
        self.note(loss);
        self.row.push(loss);
        if self.row.len() == 3 { self.turn(Some(ms)) } else { Move::Stayed }
    }

    /// `None`: refused; else whether it is a probing call.
    fn admit(&mut self, ms: u64, connected: bool) -> Option<bool> {
        let Some(opened) = self.opened else { return Some(false) };
        if ms < opened + 60_000 || self.probe.is_some() {
            return None;
        }
        self.epoch += 1;
        self.probe = Some(if connected { "call" } else { "connection" });
        Some(connected)
    }

    fn settle(&mut self, out: &Out, class: BreakerClass, loss: Loss, ms: u64) -> Move {
        if out.epoch != self.epoch {
            return Move::Stayed;
        }
        if self.opened.is_none() {
            return match class {
                BreakerClass::Trip => self.fails(Some(out.call), loss, ms),
                BreakerClass::Heal => {
                    self.row.clear();
                    Move::Stayed
                }
                _ => Move::Stayed,
            };
        }
        if !out.pass.is_probe() || self.probe != Some("call") {
            return Move::Stayed;
        }
        match class {
            BreakerClass::Heal => self.turn(None),
            BreakerClass::Neutral => {
                self.probe = None;
                Move::Stayed
            }
            _ => {
                self.note(loss);
                self.turn(Some(ms))
            }
        }
    }
}

proptest! {
    /// Any history gives the same verdicts in both descriptions.
    #[test]
    fn it_agrees_with_its_model(
        history in prop::collection::vec((0u8..12, 0u8..6, 0usize..8, 0u64..25_000), 0..120)
    ) {
        use BreakerClass::{Exhausted, Heal, Neutral, Trip};
        let mut breaker = Breaker::new(spec(3));
        let mut model = Model {
            row: vec![],
            counted: None,
            together: BTreeSet::new(),
            next: 0,
            opened: None,
            probe: None,
            epoch: 0,
        };
        let (mut ms, mut out, mut generation) = (0u64, Vec::<Out>::new(), 1u64);
        for (event, class, which, wait) in history {
            let now = at(ms);
            match event {
                0..=3 => {
                    let wanted = model.admit(ms, event != 3);
                    let got = match breaker.admit(now, event != 3) {
                        Admit::Pass(pass) | Admit::Connect(pass) => Some(pass),
                        Admit::Refuse(_) => None,
                    };
                    prop_assert_eq!(got.map(Pass::is_probe), wanted);
                    if let Some(pass) = got {
                        out.push(Out { pass, epoch: model.epoch, call: model.next });
                        model.next += 1;
                    }
                }
                4..=7 if !out.is_empty() => {
                    let one = out.swap_remove(which % out.len());
                    let class = [Trip, Trip, Trip, Heal, Neutral, Exhausted][usize::from(class)];
                    let loss = match event {
                        6 => Loss::Request,
                        7 => Loss::Connection(Generation(generation)),
                        _ => Loss::None,
                    };
                    let wanted = model.settle(&one, class, loss, ms);
                    prop_assert_eq!(breaker.settle(one.pass, class, loss, now), wanted);
                }
                8 => {
                    generation += 1;
                    let wanted = match (model.opened, model.probe) {
                        (None, _) => model.fails(None, Loss::None, ms),
                        (Some(_), Some("connection")) => model.turn(Some(ms)),
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.connect_failed(BreakerClass::Trip, now), wanted);
                }
                9 => {
                    let read = class > 0;
                    let wanted = match model.probe {
                        Some("connection") => model.turn((!read).then_some(ms)),
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.listed(read, now), wanted);
                }
                11 if class < 2 => {
                    let ended = [Neutral, Exhausted][usize::from(class)];
                    let wanted = match (model.probe, ended) {
                        (Some("connection"), Exhausted) => model.turn(Some(ms)),
                        (Some("connection"), _) => {
                            model.probe = None;
                            Move::Stayed
                        }
                        _ => Move::Stayed,
                    };
                    prop_assert_eq!(breaker.connect_failed(ended, now), wanted);
                }
                10 if class == 0 => {
                    let was = model.opened.is_some();
                    let _ = model.turn(None);
                    prop_assert_eq!(breaker.reset(), if was { Move::Closed } else { Move::Stayed });
                }
                _ => ms += wait,
            }
            let now = at(ms);
            let open = model.opened.is_some_and(|from| ms < from + 60_000);
            match breaker.standing(now) {
                Standing::Closed(failures) => {
                    prop_assert!(model.opened.is_none());
                    prop_assert_eq!(failures as usize, model.row.len());
                }
                Standing::Open(until) => {
                    prop_assert!(open && model.probe.is_none());
                    prop_assert_eq!(until, at(model.opened.unwrap_or(0) + 60_000));
                }
                Standing::HalfOpen => prop_assert!(model.opened.is_some() && !open),
            }
        }
    }
}
