//! Calls that are parked: their server waits for an answer of their client, and their client, of the
//! modern era, was told so by the result of its request and will make it again. Whose they are, until
//! when, and which state leads back to them. Pure: knows no clock, no task, and not what is parked.

use std::collections::HashMap;

use crate::id::SessionId;
use crate::time::Monotonic;

use super::caller::Identity;

/// Calls that may be parked in all.
pub const PARKED_MAX: usize = 256;
/// Calls that one owner may have parked.
pub const PARKED_PER_OWNER_MAX: usize = 32;

/// Who may come back for a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// A client with a connection: only over that one.
    Connection(SessionId),
    /// Whoever shows the same identity with a request of its own.
    Identity(Identity),
}

/// One parked call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place<T> {
    owner: Owner,
    /// SHA-256 of what was asked: method, name, arguments.
    call: [u8; 32],
    until: Monotonic,
    what: T,
}

/// All parked calls, by the state that leads back.
#[derive(Clone, Debug)]
pub(super) struct Park<T> {
    places: HashMap<String, Place<T>>,
}

impl<T> Default for Park<T> {
    fn default() -> Self {
        Self { places: HashMap::new() }
    }
}

/// There is no call for this state: it never was, is over, is somebody else's, or belongs to another call.
/// Which of these is told to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotParked;

impl<T> Park<T> {
    /// Parks a call under a state that nobody can guess; gives it back when there is no place.
    pub(super) fn put(
        &mut self,
        state: String,
        (owner, call): (Owner, [u8; 32]),
        until: Monotonic,
        what: T,
    ) -> Result<(), T> {
        let of_owner = self.places.values().filter(|place| place.owner == owner).count();
        if self.places.len() >= PARKED_MAX || of_owner >= PARKED_PER_OWNER_MAX {
            return Err(what);
        }
        self.places.insert(state, Place { owner, call, until, what });
        Ok(())
    }

    /// Takes a call out, once: only its owner, only with the same call, only in time.
    pub(super) fn take(
        &mut self,
        state: &str,
        (owner, call): (&Owner, &[u8; 32]),
        now: Monotonic,
    ) -> Result<T, NotParked> {
        match self.places.get(state) {
            Some(place) if place.owner == *owner && place.call == *call && now < place.until => {}
            _ => return Err(NotParked),
        }
        self.places.remove(state).map(|place| place.what).ok_or(NotParked)
    }

    /// Takes out what nobody came back for.
    pub(super) fn expired(&mut self, now: Monotonic) -> Vec<T> {
        let over = |place: &Place<T>| now >= place.until;
        let states: Vec<String> =
            self.places.iter().filter(|(_, place)| over(place)).map(|(state, _)| state.clone()).collect();
        states.iter().filter_map(|state| Some(self.places.remove(state)?.what)).collect()
    }

    /// Takes out what is parked for a connection that is gone.
    pub(super) fn of_connection(&mut self, session: SessionId) -> Vec<T> {
        let owner = Owner::Connection(session);
        let states: Vec<String> = self
            .places
            .iter()
            .filter(|(_, place)| place.owner == owner)
            .map(|(state, _)| state.clone())
            .collect();
        states.iter().filter_map(|state| Some(self.places.remove(state)?.what)).collect()
    }

    /// When the next one expires.
    pub(super) fn next_end(&self) -> Option<Monotonic> {
        self.places.values().map(|place| place.until).min()
    }

    /// How many are parked.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::policy::explore::explore;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::base() + Duration::from_secs(seconds)
    }

    fn owner(n: u64) -> Owner {
        match n {
            0 => Owner::Connection(SessionId(7)),
            1 => Owner::Identity(Identity::SameUser),
            _ => Owner::Identity(Identity::Token("t".into())),
        }
    }

    /// Two calls of two owners and a third who tries everything.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    enum Event {
        Put(u64, u8),
        Take { state: u64, owner: u64, call: u8 },
        Tick,
        Gone,
    }

    /// The park as a value that can be compared, and what came out of it.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        places: BTreeMap<String, Place<u64>>,
        now: u64,
        out: Vec<(u64, u64)>,
        put: Vec<u64>,
    }

    fn step(world: &World, event: &Event) -> Option<World> {
        let mut next = world.clone();
        let mut park = Park { places: world.places.clone().into_iter().collect() };
        match event {
            Event::Put(of, call) => {
                if world.put.contains(of) {
                    return None;
                }
                next.put.push(*of);
                let key = (owner(*of), [*call; 32]);
                park.put(format!("state{of}"), key, at(world.now + 2), *of).unwrap();
            }
            Event::Take { state, owner: by, call } => {
                let taken = park.take(&format!("state{state}"), (&owner(*by), &[*call; 32]), at(world.now));
                next.out.extend(taken.map(|what| (what, *by)));
            }
            Event::Tick => {
                if world.now >= 4 {
                    return None;
                }
                next.now += 1;
                park.expired(at(next.now));
            }
            Event::Gone => {
                park.of_connection(SessionId(7));
            }
        }
        next.places = park.places.into_iter().collect();
        Some(next)
    }

    #[test]
    fn in_every_order_of_events_a_call_leaves_once_and_only_to_its_owner() {
        let mut events = vec![Event::Tick, Event::Gone];
        for of in 0..2 {
            events.push(Event::Put(of, of as u8));
            for by in 0..3 {
                for call in 0..2 {
                    events.push(Event::Take { state: of, owner: by, call });
                }
            }
        }
        let first = World { places: BTreeMap::new(), now: 0, out: Vec::new(), put: Vec::new() };
        let seen = explore(first, &events, step, |before, event, after| {
            for (what, by) in &after.out {
                assert_eq!(what, by, "{event:?} gave a call to somebody else: {after:?}");
            }
            let mut out: Vec<u64> = after.out.iter().map(|(what, _)| *what).collect();
            out.sort_unstable();
            out.dedup();
            assert_eq!(out.len(), after.out.len(), "{event:?} gave a call twice");
            if after.out.len() > before.out.len() {
                assert!(
                    matches!(event, Event::Take { state, owner, call } if state == owner && u64::from(*call) == *state)
                );
            }
            for place in after.places.values() {
                assert!(at(after.now) < place.until, "{event:?} left one that is over");
            }
        });
        assert!(seen.states > 50, "{seen:?}");
    }

    #[test]
    fn places_are_bounded_for_all_and_for_each() {
        let mut park = Park::default();
        let mine = (owner(1), [0; 32]);
        for n in 0..PARKED_PER_OWNER_MAX {
            park.put(format!("m{n}"), mine.clone(), at(9), n).unwrap();
        }
        assert_eq!(park.put("one".to_owned(), mine, at(9), 99), Err(99));
        let mut n = 0;
        while park.len() < PARKED_MAX {
            let other = (Owner::Connection(SessionId(100 + n as u64 / 20)), [0; 32]);
            park.put(format!("o{n}"), other, at(5), n).unwrap();
            n += 1;
        }
        assert!(park.put("more".to_owned(), (owner(0), [0; 32]), at(9), 1).is_err());
        assert_eq!(park.next_end(), Some(at(5)));
        assert_eq!(park.expired(at(5)).len(), PARKED_MAX - PARKED_PER_OWNER_MAX);
        assert_eq!(park.next_end(), Some(at(9)));
    }
}
