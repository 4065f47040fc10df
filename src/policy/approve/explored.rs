//! Every state that approvals can reach with two listeners, two sessions, two tools and three
//! requests, over every order of events.

use super::tests::{key, listener, request};
use super::*;
use crate::policy::explore::explore;

/// The machine, and what an observer who keeps the books plainly knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    desk: Approvals,
    /// Seconds since the beginning.
    time: u64,
    /// Of each request: not asked, waiting since, or settled.
    ends: [End; 3],
    /// Which listener is here.
    here: [bool; 2],
    /// What a person approved for a session.
    sessions: BTreeSet<(u64, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Not,
    Since(u64),
    Done,
}

/// Session and tool of each request: two of one tool in one session, one of another session.
const ASKS: [(u64, usize); 3] = [(1, 0), (1, 0), (2, 0)];
const EXPIRES: u64 = 2;

fn at(time: u64) -> Monotonic {
    Monotonic::base() + Duration::from_secs(time)
}

fn step(world: &World, event: &Event) -> Option<World> {
    let mut next = world.clone();
    match event {
        Event::Asked(id, ..) if world.ends[number(*id)] != End::Not => return None,
        // Answers come at any time: late, twice, from somebody who was never asked.
        Event::Came(id) if world.here[place(*id)] => return None,
        Event::Left(id) if !world.here[place(*id)] => return None,
        Event::Woke if world.time >= 3 => return None,
        Event::Woke => next.time += 1,
        Event::Came(id) => next.here[place(*id)] = true,
        Event::Left(id) => next.here[place(*id)] = false,
        Event::Asked(id, ..) => next.ends[number(*id)] = End::Since(world.time),
        _ => {}
    }
    let waits = |ends: &[End; 3], id: RequestId| matches!(ends[number(id)], End::Since(_));
    let before = next.clone();
    for action in next.desk.on(event.clone(), at(next.time)) {
        match action {
            Action::Show(listener, id) => {
                assert!(next.here[place(listener)] && waits(&next.ends, id), "{world:?} {event:?}");
            }
            Action::Withdraw(..) => {}
            Action::Keep(id) => {
                assert!(matches!(event, Event::Answered(_, asked, Answer::Always) if *asked == id));
                assert!(waits(&next.ends, id));
            }
            Action::Grant(id) => {
                assert!(waits(&next.ends, id), "granted once, and only what waits: {world:?} {event:?}");
                assert!(allowed(&before, event, id), "borrowed: {world:?} {event:?} {action:?}");
                next.ends[number(id)] = End::Done;
            }
            Action::Deny(id, _) => {
                assert!(waits(&next.ends, id), "{world:?} {event:?}");
                next.ends[number(id)] = End::Done;
            }
        }
    }
    match event {
        Event::Answered(_, id, Answer::Session)
            if waits(&world.ends, *id) && next.ends[number(*id)] == End::Done && !over(world, *id) =>
        {
            next.sessions.insert(ASKS[number(*id)]);
        }
        Event::SessionOver(session) => next.sessions.retain(|(of, _)| *of != session.0),
        Event::Abandoned(id) => next.ends[number(*id)] = End::Done,
        _ => {}
    }
    Some(next)
}

fn over(world: &World, id: RequestId) -> bool {
    matches!(world.ends[number(id)], End::Since(since) if world.time >= since + EXPIRES)
}

/// Whether a person's word covers this request: said of it, or of its tool in its session.
fn allowed(world: &World, event: &Event, id: RequestId) -> bool {
    let said = match event {
        Event::Answered(by, asked, answer) if world.here[place(*by)] && *answer != Answer::Deny => {
            let same = *answer == Answer::Session && ASKS[number(*asked)] == ASKS[number(id)];
            !over(world, id) && (*asked == id || same)
        }
        _ => false,
    };
    said || (matches!(event, Event::Asked(asked, ..) if *asked == id)
        && world.sessions.contains(&ASKS[number(id)]))
}

fn number(id: RequestId) -> usize {
    usize::try_from(id.0).unwrap()
}

fn place(id: ListenerId) -> usize {
    usize::try_from(id.0).unwrap()
}

#[test]
fn no_order_of_events_grants_what_nobody_approved_or_grants_it_twice() {
    let mut events =
        vec![Event::Woke, Event::SessionOver(SessionId(1)), Event::Unseen(listener(0), request(0))];
    for id in 0..3 {
        let (session, tool) = ASKS[usize::try_from(id).unwrap()];
        events.push(Event::Asked(request(id), SessionId(session), key(tool, id)));
        events.push(Event::Abandoned(request(id)));
        for by in 0..2 {
            for answer in [Answer::Once, Answer::Session, Answer::Always, Answer::Deny] {
                events.push(Event::Answered(listener(by), request(id), answer));
            }
        }
    }
    for by in 0..2 {
        events.extend([Event::Came(listener(by)), Event::Left(listener(by))]);
    }
    let first = World {
        desk: Approvals::new(Duration::from_secs(EXPIRES)),
        time: 0,
        ends: [End::Not; 3],
        here: [false; 2],
        sessions: BTreeSet::new(),
    };
    let explored = explore(first, &events, step, |_, event, after| {
        for (id, end) in after.ends.iter().enumerate() {
            let id = request(u64::try_from(id).unwrap());
            let waits = after.desk.waiting.contains_key(&id);
            assert_eq!(waits, matches!(end, End::Since(_)), "after {event:?}: {after:?}");
            if waits {
                assert!(!over(after, id), "nothing outlives its time: {after:?}");
                assert!(after.here.iter().any(|here| *here), "nothing waits for nobody: {after:?}");
            }
        }
    });
    assert!(explored.states > 1_000, "{explored:?}");
}
