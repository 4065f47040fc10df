//! What an approval is bound to, and that none is ever borrowed (C4).

use super::*;
use crate::config::spec::{EntryState, Scope, Source};
use proptest::prelude::*;

pub(super) fn request(id: u64) -> RequestId {
    RequestId(id)
}

pub(super) fn listener(id: u64) -> ListenerId {
    ListenerId(id)
}

fn entry(scope: Scope, hash: &str) -> Entry {
    Entry {
        id: "s".into(),
        source: Source { scope, origin: "mcp.json".into() },
        project: None,
        shadows: vec![],
        state: EntryState::Disabled,
        issues: vec![],
        hash: hash.into(),
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        down: None,
    }
}

/// The key of a call of a tool with one argument.
pub(super) fn key(tool: usize, argument: u64) -> CallKey {
    let params = format!("{{\"n\":{argument}}}");
    CallKey::of(&entry(Scope::User, "h"), ["read", "write"][tool], Some(b"{}"), params.as_bytes())
}

fn at(seconds: u64) -> Monotonic {
    Monotonic::base() + Duration::from_secs(seconds)
}

fn desk() -> Approvals {
    Approvals::new(Duration::from_secs(10))
}

fn asked(id: u64, session: u64, tool: usize) -> Event {
    Event::Asked(request(id), SessionId(session), key(tool, id))
}

#[test]
fn a_key_is_another_one_as_soon_as_anything_of_the_call_is() {
    let base = || CallKey::of(&entry(Scope::User, "h"), "t", Some(b"{}"), b"{\"a\":1}");
    assert_eq!(base(), base());
    let others = [
        CallKey::of(&entry(Scope::Project, "h"), "t", Some(b"{}"), b"{\"a\":1}"),
        CallKey::of(&entry(Scope::User, "i"), "t", Some(b"{}"), b"{\"a\":1}"),
        CallKey::of(&entry(Scope::User, "h"), "T", Some(b"{}"), b"{\"a\":1}"),
        CallKey::of(&entry(Scope::User, "h"), "t", Some(b"{ }"), b"{\"a\":1}"),
        CallKey::of(&entry(Scope::User, "h"), "t", None, b"{\"a\":1}"),
        CallKey::of(&entry(Scope::User, "h"), "t", Some(b"{}"), b"{\"a\":1,\"a\":2}"),
        CallKey::of(&entry(Scope::User, "h"), "t", Some(b"{}{"), b"\"a\":1}"),
    ];
    let calls: BTreeSet<_> = others.iter().chain([&base()]).map(|key| key.call).collect();
    assert_eq!(calls.len(), others.len() + 1);
    let other_server = Entry { id: "S".into(), ..entry(Scope::User, "h") };
    assert_ne!(CallKey::of(&other_server, "t", Some(b"{}"), b"{\"a\":1}").call, base().call);
}

#[test]
fn nobody_there_means_no_at_once() {
    let denied = |id, why| vec![Action::Deny(request(id), why)];
    let mut desk = desk();
    assert_eq!(desk.on(asked(1, 1, 0), at(0)), denied(1, Denied::NoListener));
    assert_eq!(desk.next_expiry(), None);
    desk.on(Event::Came(listener(1)), at(0));
    desk.on(Event::Left(listener(1)), at(0));
    assert_eq!(desk.on(asked(2, 1, 0), at(0)), denied(2, Denied::NoListener));
}

#[test]
fn a_listener_that_goes_away_denies_what_it_alone_held() {
    let mut desk = desk();
    desk.on(Event::Came(listener(1)), at(0));
    desk.on(asked(1, 1, 0), at(0));
    desk.on(Event::Came(listener(2)), at(0));
    desk.on(Event::Left(listener(1)), at(1));
    desk.on(Event::Unseen(listener(2), request(7)), at(1));
    assert_eq!(
        desk.on(Event::Left(listener(2)), at(1)),
        [Action::Deny(request(1), Denied::ListenerLeft)],
        "the other one could still have answered"
    );
}

#[test]
fn the_first_answer_wins_and_the_others_are_told() {
    let mut desk = desk();
    (1..=3).for_each(|by| _ = desk.on(Event::Came(listener(by)), at(0)));
    desk.on(asked(1, 1, 0), at(0));
    assert_eq!(
        desk.on(Event::Answered(listener(2), request(1), Answer::Once), at(1)),
        [
            Action::Withdraw(listener(1), request(1)),
            Action::Withdraw(listener(3), request(1)),
            Action::Grant(request(1))
        ]
    );
    for answer in [Answer::Once, Answer::Deny, Answer::Session] {
        assert_eq!(desk.on(Event::Answered(listener(1), request(1), answer), at(1)), []);
    }
    assert_eq!(desk.on(asked(2, 1, 0), at(1)).len(), 3, "nothing was approved for the session");
}

#[test]
fn an_answer_that_comes_with_the_end_of_the_time_is_late() {
    let mut desk = desk();
    desk.on(Event::Came(listener(1)), at(0));
    desk.on(asked(1, 1, 0), at(0));
    desk.on(asked(2, 1, 0), at(1));
    assert_eq!(desk.next_expiry(), Some(at(10)));
    assert_eq!(
        desk.on(Event::Answered(listener(1), request(1), Answer::Once), at(10)),
        [Action::Withdraw(listener(1), request(1)), Action::Deny(request(1), Denied::Expired)]
    );
    assert_eq!(desk.next_expiry(), Some(at(11)));
}

#[test]
fn a_session_has_its_tool_to_its_own_end_and_no_other() {
    let mut desk = desk();
    desk.on(Event::Came(listener(1)), at(0));
    desk.on(asked(1, 1, 0), at(0));
    desk.on(asked(2, 1, 0), at(0));
    desk.on(asked(3, 1, 1), at(0));
    desk.on(asked(4, 2, 0), at(0));
    let granted = |actions: Vec<Action>| {
        let only = |action: &Action| matches!(action, Action::Grant(_) | Action::Deny(..));
        actions.into_iter().filter(only).collect::<Vec<_>>()
    };
    let session = Event::Answered(listener(1), request(1), Answer::Session);
    assert_eq!(granted(desk.on(session, at(0))), [Action::Grant(request(1)), Action::Grant(request(2))]);
    assert_eq!(desk.on(asked(5, 1, 0), at(0)), [Action::Grant(request(5))]);
    desk.on(Event::Left(listener(1)), at(0));
    assert_eq!(granted(desk.on(asked(6, 1, 0), at(99))), [Action::Grant(request(6))]);
    assert_eq!(granted(desk.on(asked(7, 2, 0), at(99))), [Action::Deny(request(7), Denied::NoListener)]);
    desk.on(Event::SessionOver(SessionId(1)), at(99));
    assert_eq!(granted(desk.on(asked(8, 1, 0), at(99))), [Action::Deny(request(8), Denied::NoListener)]);
}

#[test]
fn everything_that_grows_is_bounded() {
    let mut desk = desk();
    for by in 0..100 {
        desk.on(Event::Came(listener(by)), at(0));
    }
    assert_eq!(desk.listeners.len(), LISTENERS_MAX);
    assert!(desk.is_listening(listener(0)) && !desk.is_listening(listener(99)));
    for id in 0..100 {
        let actions = desk.on(asked(id, id, 0), at(0));
        let denied = actions == [Action::Deny(request(id), Denied::TooMany)];
        assert_eq!(denied, id >= PENDING_MAX as u64);
    }
    assert_eq!(desk.waiting.len(), PENDING_MAX);
    desk.on(Event::Woke, at(10));
    for id in 0..5_000 {
        desk.on(asked(1_000 + id, id, 1), at(10));
        desk.on(Event::Answered(listener(0), request(1_000 + id), Answer::Session), at(10));
    }
    assert_eq!((desk.waiting.len(), desk.sessions.len()), (0, SESSION_GRANTS_MAX));
}

#[derive(Clone, Debug)]
enum Move {
    Ask { session: u64, tool: usize },
    Answer { by: u64, back: u64, answer: Answer },
    Come(u64),
    Leave(u64),
    Pass(u64),
    Over(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let answer = prop::sample::select(vec![Answer::Once, Answer::Session, Answer::Always, Answer::Deny]);
    prop_oneof![
        4 => (0u64..3, 0usize..2).prop_map(|(session, tool)| Move::Ask { session, tool }),
        4 => (0u64..3, 0u64..5, answer).prop_map(|(by, back, answer)| Move::Answer { by, back, answer }),
        2 => (0u64..3).prop_map(Move::Come),
        1 => (0u64..3).prop_map(Move::Leave),
        1 => (0u64..8).prop_map(Move::Pass),
        1 => (0u64..3).prop_map(Move::Over),
    ]
}

/// What an honest clerk would have written down.
#[derive(Default)]
struct Clerk {
    /// Asked requests: session, tool, second.
    asked: BTreeMap<u64, (u64, usize, u64)>,
    seen: BTreeSet<(u64, u64)>,
    ended: BTreeSet<u64>,
    sessions: BTreeSet<(u64, usize)>,
    here: BTreeSet<u64>,
}

impl Clerk {
    /// Whether some person's word covers this request now.
    fn covers(&self, id: u64, event: &Event, now: u64) -> bool {
        let (session, tool, since) = self.asked[&id];
        match event {
            Event::Asked(..) => self.sessions.contains(&(session, tool)),
            Event::Answered(by, about, answer) => {
                let (its_session, its_tool, its_since) = self.asked[&about.0];
                let may = self.here.contains(&by.0) && self.seen.contains(&(by.0, about.0));
                let fresh = now < since + 10 && now < its_since + 10;
                let same = *answer == Answer::Session && (its_session, its_tool) == (session, tool);
                may && fresh && *answer != Answer::Deny && (about.0 == id || same)
            }
            _ => false,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    /// C4
    #[test]
    fn no_approval_is_ever_borrowed(moves in prop::collection::vec(moves(), 1..40)) {
        let (mut desk, mut clerk, mut now, mut next) = (desk(), Clerk::default(), 0u64, 0u64);
        for step in moves {
            let event = match step {
                Move::Pass(seconds) => { now += seconds; Event::Woke }
                Move::Come(by) => { clerk.here.insert(by); Event::Came(listener(by)) }
                Move::Leave(by) => { clerk.here.remove(&by); Event::Left(listener(by)) }
                Move::Over(session) => Event::SessionOver(SessionId(session)),
                Move::Ask { session, tool } => {
                    next += 1;
                    clerk.asked.insert(next, (session, tool, now));
                    asked(next, session, tool)
                }
                Move::Answer { by, back, answer } => {
                    let Some(id) = next.checked_sub(back).filter(|id| *id > 0) else { continue };
                    Event::Answered(listener(by), request(id), answer)
                }
            };
            let actions = desk.on(event.clone(), at(now));
            let mut granted_asked = false;
            for action in actions {
                match action {
                    Action::Show(by, id) => { clerk.seen.insert((by.0, id.0)); }
                    Action::Grant(id) => {
                        prop_assert!(clerk.covers(id.0, &event, now), "borrowed: {id:?} on {event:?}");
                        prop_assert!(clerk.ended.insert(id.0), "used twice: {id:?}");
                        granted_asked |= matches!(&event, Event::Answered(_, about, _) if *about == id);
                    }
                    Action::Deny(id, _) => prop_assert!(clerk.ended.insert(id.0), "ended twice: {id:?}"),
                    Action::Keep(_) | Action::Withdraw(..) => {}
                }
            }
            match event {
                Event::Answered(_, id, Answer::Session) if granted_asked => {
                    let (session, tool, _) = clerk.asked[&id.0];
                    clerk.sessions.insert((session, tool));
                }
                Event::SessionOver(session) => clerk.sessions.retain(|(of, _)| *of != session.0),
                _ => {}
            }
        }
    }
}
