//! The exhaustive explorer of the tests: visits every state that a pure machine can reach
//! from its first one, over every event, and shows each step to a check. Complete when it
//! returns: a machine whose states don't end is a failure.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// More states than any machine here may have.
const STATES_MAX: usize = 200_000;

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps between them, those that lead back to the same state included.
    pub steps: usize,
}

/// Visits all states that `events` and `step` reach from `first`. `step` returns `None` for an
/// event that can't happen there. `check` sees the state before, the event, and the state after.
///
/// # Panics
/// When there are more than [`STATES_MAX`] states, and when `check` does.
pub(crate) fn explore<S, E>(
    first: S,
    events: &[E],
    step: impl Fn(&S, &E) -> Option<S>,
    check: impl FnMut(&S, &E, &S),
) -> Explored
where
    S: Clone + Eq + Hash + Debug,
    E: Debug,
{
    explore_by(S::clone, first, events, step, check)
}

/// The same for states of which those with the same `key` have the same future: only the first of
/// them that is met goes on.
pub(crate) fn explore_by<S, E, K>(
    key: impl Fn(&S) -> K,
    first: S,
    events: &[E],
    step: impl Fn(&S, &E) -> Option<S>,
    mut check: impl FnMut(&S, &E, &S),
) -> Explored
where
    S: Debug,
    E: Debug,
    K: Eq + Hash,
{
    let mut seen: HashSet<K> = HashSet::from([key(&first)]);
    let mut open = VecDeque::from([first]);
    let mut steps = 0;
    while let Some(state) = open.pop_front() {
        for event in events {
            let Some(next) = step(&state, event) else { continue };
            steps += 1;
            check(&state, event, &next);
            if seen.insert(key(&next)) {
                assert!(seen.len() <= STATES_MAX, "no end of states; the last one: {next:?}");
                open.push_back(next);
            }
        }
    }
    Explored { states: seen.len(), steps }
}

#[test]
fn every_reachable_state_is_visited_once_and_nothing_else() {
    let mut checked = 0;
    let explored = explore(
        0u8,
        &[1u8, 2],
        |state, event| (*state < 10).then(|| state + event),
        |before, event, after| {
            checked += 1;
            assert_eq!(before + event, *after);
        },
    );
    assert_eq!((explored.states, explored.steps, checked), (12, 20, 20));
}
