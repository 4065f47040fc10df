//! Every state that the life of a server can reach, over every order of events, together with
//! what its actor would hold because of it: one attempt or connection, one timer, a queue.

#![cfg(test)]

use super::tests::{base, events};
use super::*;
use crate::policy::explore::explore;

/// What the actor holds when it does what the machine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holds {
    Nothing,
    Attempt,
    Connection,
}

/// The world around one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    life: Life,
    holds: Holds,
    /// A timer for the next attempt is set.
    timer: bool,
    /// The bulkhead is open: calls go to the connection.
    open: bool,
    /// Calls wait for a state that takes them.
    queue: bool,
}

/// One event, and what the actor does because of it; `None` when it can't happen here.
fn step(world: &World, event: &Event) -> Option<World> {
    let mut next = *world;
    match event {
        // A link reports only what exists, and the actor drops what is stale.
        Event::Connected | Event::StartLimitPassed if world.holds != Holds::Attempt => return None,
        Event::ConnectFailed(_) if world.holds != Holds::Attempt => return None,
        Event::Lost(_) if world.holds != Holds::Connection => return None,
        Event::IdlePassed if world.holds != Holds::Connection || world.queue => return None,
        Event::BackoffPassed if !world.timer => return None,
        Event::BackoffPassed => next.timer = false,
        Event::Connected => next.holds = Holds::Connection,
        // The actor lets go of a connection before it tells its end.
        Event::ConnectFailed(_) | Event::Lost(_) => (next.holds, next.open) = (Holds::Nothing, false),
        _ => {}
    }
    for action in next.life.on(*event, base()) {
        match action {
            Action::Connect => {
                assert_eq!(next.holds, Holds::Nothing, "one attempt at a time: {world:?} {event:?}");
                (next.holds, next.timer) = (Holds::Attempt, false);
            }
            Action::WakeAt(_) => {
                assert!(!next.timer, "one timer at a time: {world:?} {event:?}");
                next.timer = true;
            }
            Action::AdmitWaiting => (next.open, next.queue) = (true, false),
            Action::RefuseWaiting => next.queue = false,
            Action::Disconnect => {
                (next.holds, next.open, next.timer) = (Holds::Nothing, false, false);
            }
        }
    }
    Some(next)
}

/// A call arrives: it waits, unless it runs or is refused.
fn call(world: &World) -> World {
    let mut next = *world;
    match next.life.for_call() {
        ForCall::Start => {
            next = step(world, &Event::Wanted).unwrap_or(next);
            next.queue = true;
        }
        ForCall::Wait => next.queue = true,
        ForCall::Run | ForCall::Refuse(_) => {}
    }
    next
}

#[derive(Debug)]
enum Step {
    Call,
    Event(Event),
}

#[test]
fn every_order_of_events_keeps_the_promises_of_a_life() {
    let first = World { life: Life::Dormant, holds: Holds::Nothing, timer: false, open: false, queue: false };
    let steps: Vec<Step> = events().into_iter().map(Step::Event).chain([Step::Call]).collect();
    let explored = explore(
        first,
        &steps,
        |world, one| match one {
            Step::Call => Some(call(world)),
            Step::Event(event) => step(world, event),
        },
        |before, one, after| {
            let told = format!("{before:?} {one:?} {after:?}");
            let holds = match after.life {
                Life::Connecting { .. } => after.holds == Holds::Attempt,
                Life::Ready { .. } => after.holds == Holds::Connection,
                Life::Draining => after.holds != Holds::Nothing,
                Life::Dormant | Life::BackingOff { .. } | Life::Parked(_) | Life::Stopped => {
                    after.holds == Holds::Nothing
                }
            };
            assert!(holds, "what is held fits the state: {told}");
            assert_eq!(
                after.timer,
                matches!(after.life, Life::BackingOff { .. }),
                "a timer runs while backing off, and never for one that rests: {told}"
            );
            let ready = matches!(after.life, Life::Ready { .. });
            let draining = after.life == Life::Draining;
            assert!(after.open == ready || (draining && after.open), "calls run while it is ready: {told}");
            let comes = matches!(after.life, Life::Connecting { .. } | Life::BackingOff { .. });
            assert!(!after.queue || comes, "who waits is let in or refused: {told}");
            let asked = matches!(one, Step::Event(Event::RestartAsked));
            if before.life == Life::Stopped && !asked {
                assert_eq!(before, after, "what was stopped starts only when asked");
            }
        },
    );
    assert_eq!(explored.states, 15, "{explored:?}");
}

#[test]
fn a_drain_ends_whatever_comes() {
    for event in events() {
        for holds in [Holds::Attempt, Holds::Connection] {
            let draining = World { life: Life::Draining, holds, timer: false, open: false, queue: false };
            let Some(after) = step(&draining, &event) else { continue };
            assert!(matches!(after.life, Life::Draining | Life::Stopped), "{event:?}");
            let ended = step(&after, &Event::Drained).map(|world| (world.life, world.holds));
            assert_eq!(ended, Some((Life::Stopped, Holds::Nothing)), "{event:?}");
        }
    }
}
