//! Every account that the restart law can reach, with small numbers: two restarts in a window of six
//! steps of the clock.

#![cfg(test)]

use std::hash::Hash;

use super::*;
use crate::policy::explore::explore_by;

const STEP: Duration = Duration::from_secs(10);
const MAX: u32 = 2;

/// The law and the clock.
#[derive(Clone, Debug)]
struct World {
    law: RestartLaw,
    now: Monotonic,
    /// What really happened, for the check: starts that the law asked for, newest last.
    restarts: Vec<Monotonic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Tick,
    Start,
    Ready,
    Work,
    Fail,
    Forgive,
    Demand,
}

impl World {
    /// How long ago, as far as it matters.
    fn ago(&self, at: Option<Monotonic>, matters: Duration) -> Option<Duration> {
        at.map(|at| (self.now - at).min(matters))
    }

    /// The same for all of the same future.
    fn key(&self) -> impl Eq + Hash + std::fmt::Debug + use<> {
        let law = &self.law;
        let left = |due: &Monotonic| (*due - self.now, (self.now - *due).min(law.spec.window));
        let phase = match law.phase {
            Phase::Down => (0, None, false),
            Phase::Starting => (1, None, false),
            Phase::Ready { since, worked } => (2, self.ago(Some(since), STABLE_AFTER), worked),
        };
        let pending = law.pending.map(|verdict| match verdict {
            Verdict::Again(due) => (0, due - self.now),
            Verdict::GiveUp(Cause::TooOften { .. }) => (1, Duration::ZERO),
            Verdict::GiveUp(Cause::NeverReady { .. }) => (2, Duration::ZERO),
        });
        (
            law.backoff.clone().next(0),
            law.restarts.iter().map(left).collect::<Vec<_>>(),
            law.unready.min(MAX),
            self.ago(law.last_start, STARTS_APART),
            phase,
            pending,
            law.was_ready,
            law.on_demand.is_some(),
            self.ago(law.last_demand, DEMAND_APART),
            self.restarts.iter().map(left).collect::<Vec<_>>(),
        )
    }
}

/// What the server actor would do: it starts when the law's time has come, or when it is asked to.
fn advance(world: &World, event: &Event) -> Option<World> {
    let mut next = world.clone();
    let now = world.now;
    let law = &mut next.law;
    match *event {
        Event::Tick => next.now = now + STEP,
        Event::Start => match (law.phase, law.pending) {
            (Phase::Down, None) => law.started(now),
            (Phase::Down, Some(Verdict::Again(due))) if due <= now => {
                law.started(now);
                next.restarts.push(now);
            }
            _ => return None,
        },
        Event::Ready if law.phase == Phase::Starting => law.ready(now),
        Event::Work if matches!(law.phase, Phase::Ready { .. }) => law.completed(),
        // The longest delay; the shortest has tests of its own.
        Event::Fail if law.phase != Phase::Down => _ = law.failed(now, u64::MAX),
        Event::Forgive => {
            law.forgive();
            next.restarts.clear();
        }
        Event::Demand => {
            let given_up = matches!(law.pending, Some(Verdict::GiveUp(_)));
            if !given_up || law.demanded(now).is_err() {
                return None;
            }
            law.started(now);
        }
        Event::Ready | Event::Work | Event::Fail => return None,
    }
    next.restarts.retain(|at| next.now - *at < next.law.spec.window);
    Some(next)
}

#[test]
fn no_account_allows_more_restarts_than_the_law() {
    let spec = RestartSpec { max: MAX, window: 6 * STEP, min_delay: STEP, max_delay: 2 * STEP };
    let first = World { law: RestartLaw::new(spec), now: Monotonic::base(), restarts: vec![] };
    let events =
        [Event::Tick, Event::Start, Event::Ready, Event::Work, Event::Fail, Event::Forgive, Event::Demand];
    let (mut gave_up, mut on_demand) = (0, 0);
    let explored = explore_by(World::key, first, &events, advance, |before, event, after| {
        let law = &after.law;
        // Paying all debts opens a new window; until then the window holds.
        let paid = matches!(before.law.phase, Phase::Ready { since, worked: true } if before.now - since >= STABLE_AFTER);
        if !paid && !before.restarts.is_empty() {
            assert!(after.restarts.len() <= MAX as usize, "{event:?} {after:?}");
        }
        assert!(law.restarts.len() <= MAX as usize, "the account is bounded");
        match (event, law.pending) {
            (Event::Fail, None) => panic!("a failure without a verdict"),
            (Event::Fail, Some(Verdict::Again(due))) => {
                assert!(due >= after.now && due - after.now <= law.spec.max_delay);
            }
            (Event::Fail, Some(Verdict::GiveUp(_))) => {
                gave_up += 1;
                assert!(!paid, "debts that are paid give nobody up");
            }
            (Event::Demand, pending) => {
                on_demand += 1;
                assert!(law.was_ready && pending.is_none());
            }
            (Event::Tick | Event::Start | Event::Ready | Event::Work | Event::Forgive, _) => {}
        }
    });
    assert!(explored.states > 500 && gave_up > 0 && on_demand > 0, "{explored:?} {gave_up} {on_demand}");
}
