//! The machine of a turn, by hand and over every order of events.

use proptest::prelude::*;

use super::*;
use crate::agent::chat::Part;
use crate::agent::turn::fold::{Conversation, fault};

const LIMITS: Limits = Limits { rounds_max: 3, calls_max: 5, turn_max: Duration::from_secs(60) };

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into() }
}

fn begin() -> (Turn, Vec<Action>) {
    Turn::begin(LIMITS, vec![Entry::User { text: "hi".into() }], Monotonic::base())
}

fn says(ids: &[&str]) -> Event {
    let calls = ids.iter().map(|id| call(id)).collect();
    Event::Said { said: Said { text: "x".into(), calls, ..Said::default() }, stop: Stop::Done, usage: None }
}

fn answers(id: &str, denied: bool) -> Event {
    let result =
        ToolResult { id: id.into(), name: "t".into(), parts: vec![Part::Text("r".into())], is_error: denied };
    Event::Answered { result, server: None, elapsed: Duration::ZERO, denied }
}

fn end(actions: &[Action]) -> Option<&End> {
    actions.iter().find_map(|action| match action {
        Action::Over(end) => Some(end),
        _ => None,
    })
}

#[test]
fn several_calls_run_at_once_and_the_model_is_asked_when_all_have_answered() {
    let now = Monotonic::base();
    let (mut turn, first) = begin();
    assert_eq!(first.last(), Some(&Action::Ask));
    let actions = turn.on(says(&["a", "b"]), now);
    assert_eq!(actions[1..], [Action::Call(call("a")), Action::Call(call("b"))]);
    assert_eq!(turn.on(answers("b", false), now).len(), 1);
    assert_eq!(turn.on(answers("b", false), now), [], "once is enough");
    assert_eq!(turn.on(answers("a", false), now).last(), Some(&Action::Ask));
    assert_eq!(end(&turn.on(says(&[]), now)), Some(&End::Done));
    assert_eq!(turn.on(says(&[]), now), []);
}

#[test]
fn a_turn_that_is_cancelled_drops_its_calls_and_gives_each_a_result() {
    let now = Monotonic::base();
    let (mut turn, _) = begin();
    turn.on(says(&["a", "b"]), now);
    turn.on(answers("a", false), now);
    let actions = turn.on(Event::Cancelled { partial: Said::default() }, now);
    assert_eq!(actions[0], Action::DropCalls);
    let Action::Log(Entry::Result { result, .. }) = &actions[1] else { panic!("{actions:?}") };
    assert!(result.id == "b" && result.text(true).contains("cancelled by the user"));
    assert_eq!(end(&actions), Some(&End::Cancelled));

    let (mut turn, _) = begin();
    let partial = Said { text: "half a".into(), calls: vec![call("z")], ..Said::default() };
    let actions = turn.on(Event::Cancelled { partial }, now);
    let Action::Log(Entry::Said { said, .. }) = &actions[0] else { panic!("{actions:?}") };
    assert!(said.text == "half a" && said.calls.is_empty());
}

#[test]
fn each_limit_ends_the_turn_and_says_which() {
    let now = Monotonic::base();
    let (mut turn, _) = begin();
    let actions = turn.on(says(&["a", "b", "c", "d", "e", "f"]), now);
    assert_eq!(end(&actions), Some(&End::Limit(LimitKind::Calls)));
    assert_eq!(
        actions.iter().filter(|action| matches!(action, Action::Log(Entry::Result { .. }))).count(),
        6
    );

    let (mut turn, _) = begin();
    for id in ["a", "b"] {
        turn.on(says(&[id]), now);
        assert_eq!(turn.on(answers(id, false), now).last(), Some(&Action::Ask));
    }
    turn.on(says(&["c"]), now);
    assert_eq!(end(&turn.on(answers("c", false), now)), Some(&End::Limit(LimitKind::Rounds)));

    let (mut turn, _) = begin();
    turn.on(says(&["a"]), now);
    assert_eq!(turn.on(Event::TimePassed, now), [], "not yet");
    assert_eq!(end(&turn.on(Event::TimePassed, now + LIMITS.turn_max)), Some(&End::Limit(LimitKind::Time)));
}

#[test]
fn a_no_that_is_not_understood_ends_the_turn() {
    let now = Monotonic::base();
    let (mut turn, _) = begin();
    turn.on(says(&["a", "b", "c"]), now);
    turn.on(answers("a", true), now);
    turn.on(answers("b", true), now);
    assert_eq!(end(&turn.on(answers("c", true), now)), Some(&End::Denied));
}

#[test]
fn what_is_too_long_is_shortened_once() {
    let now = Monotonic::base();
    let (mut turn, _) = begin();
    let fails =
        || Event::Failed { error: ModelError::new(Trouble::TooLong, "long"), partial: Said::default() };
    assert_eq!(turn.on(fails(), now), [Action::Compact]);
    assert_eq!(turn.on(Event::Compacted { made_room: true }, now), [Action::Ask]);
    assert!(matches!(end(&turn.on(fails(), now)), Some(End::Failed(_))));
    let (mut turn, _) = begin();
    turn.on(fails(), now);
    let none = turn.on(Event::Compacted { made_room: false }, now);
    assert!(matches!(end(&none), Some(End::Failed(error)) if error.fix.is_some()));
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "g"]);
    prop_oneof![
        3 => prop::collection::btree_set(id.clone(), 0..4).prop_map(|ids| says(&ids.into_iter().collect::<Vec<_>>())),
        5 => (id, any::<bool>()).prop_map(|(id, denied)| answers(id, denied)),
        1 => Just(Event::Cancelled { partial: Said { text: "half".into(), ..Said::default() } }),
        1 => Just(Event::TimePassed),
        1 => any::<bool>().prop_map(|made_room| Event::Compacted { made_room }),
        1 => any::<bool>().prop_map(|long| {
            let trouble = if long { Trouble::TooLong } else { Trouble::Network };
            Event::Failed { error: ModelError::new(trouble, "x"), partial: Said::default() }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn whatever_happens_a_turn_ends_once_and_leaves_no_call_without_a_result(
        events in prop::collection::vec(any_event(), 0..30),
    ) {
        let now = Monotonic::base();
        let (mut turn, mut actions) = begin();
        for event in events {
            actions.extend(turn.on(event, now));
        }
        // Whatever runs still is ended here.
        actions.extend(turn.on(Event::Cancelled { partial: Said::default() }, now));
        let overs = actions.iter().filter(|action| matches!(action, Action::Over(_))).count();
        prop_assert_eq!(overs, 1);
        let entries: Vec<&Entry> = actions.iter().filter_map(|action| match action {
            Action::Log(entry) => Some(entry),
            _ => None,
        }).collect();
        let conversation = Conversation::of(entries);
        prop_assert!(conversation.unanswered().is_empty());
        prop_assert_eq!(fault(&conversation.messages()), None);
        let calls = actions.iter().filter(|action| matches!(action, Action::Call(_))).count();
        prop_assert!(calls <= LIMITS.calls_max as usize);
    }
}
