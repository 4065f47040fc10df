//! The breaker in every state that it can reach.

use std::collections::BTreeSet;
use std::hash::Hash;

use super::tests::{OPEN_FOR, spec};
use super::*;
use crate::policy::explore::explore_by;

/// The breaker with its clock and the passes that are out.
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
    /// The same for all of the same shape.
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
    let explored = explore_by(World::key, first, &steps(), advance, |before, step, after| {
        holds(before, step, after);
        kinds.insert(format!("{:?}", after.breaker.state).chars().take(18).collect::<String>());
    });
    assert!(explored.states > 100 && kinds.len() >= 5, "{explored:?} {kinds:?}");
}
