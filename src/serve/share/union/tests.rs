//! Who shares which server, whatever the order in which clients come, change and go.

use proptest::prelude::*;

use super::*;

const LINGER: Duration = Duration::from_secs(60);
const NAMES: [&str; 4] = ["a", "a_b", "b", "c"];

fn at(secs: u64) -> Monotonic {
    Monotonic::base() + Duration::from_secs(secs)
}

fn wants(entries: &[(&str, u8)]) -> Vec<Wanted<u8>> {
    entries
        .iter()
        .map(|(name, key)| Wanted { name: ServerId::new(name), key: *key, alone: *key == 0 })
        .collect()
}

/// What an instance is called in here: its name, and its number if it is not the plain one.
fn told(id: &ServerId) -> String {
    let number = (0..1000).find(|number| id.plain().instance(*number) == *id).unwrap();
    if number == 0 { id.to_string() } else { format!("{id}/{number}") }
}

/// What a name of a client leads to.
fn id(union: &Union<u8>, member: u64, name: &str) -> String {
    told(&union.leads(Member(member)).unwrap()[&ServerId::new(name)])
}

fn ids(union: &Union<u8>) -> Vec<String> {
    union.instances().map(|(id, ..)| told(id)).collect()
}

fn set(union: &mut Union<u8>, member: u64, entries: &[(&str, u8)], now: Monotonic) {
    union.set(vec![(Member(member), wants(entries))], now);
}

fn due(union: &mut Union<u8>, now: Monotonic) -> Vec<String> {
    union.due(now).iter().map(told).collect()
}

#[test]
fn clients_that_differ_in_one_entry_share_the_others() {
    let mut union = Union::new(LINGER);
    set(&mut union, 1, &[("a", 1), ("b", 1)], at(0));
    set(&mut union, 2, &[("a", 1), ("b", 2)], at(0));
    assert_eq!(ids(&union), ["a", "b", "b/2"]);
    assert_eq!((id(&union, 1, "a"), id(&union, 2, "a")), ("a".into(), "a".into()));
    assert_eq!((id(&union, 1, "b"), id(&union, 2, "b")), ("b".into(), "b/2".into()));
    assert_eq!(union.users(&"a".into()).collect::<Vec<_>>(), [Member(1), Member(2)]);
}

#[test]
fn who_comes_or_goes_renames_nothing_that_others_use() {
    let mut union = Union::new(LINGER);
    set(&mut union, 1, &[("a", 1)], at(0));
    set(&mut union, 2, &[("a", 2)], at(0));
    union.leave(Member(1), at(1));
    assert_eq!(due(&mut union, at(61)), ["a"]);
    assert_eq!(id(&union, 2, "a"), "a/2", "it runs on under the id that it has");
    set(&mut union, 3, &[("a", 3)], at(62));
    assert_eq!(id(&union, 3, "a"), "a", "the plain name is free again");
}

#[test]
fn an_instance_waits_for_its_next_user_and_is_ended_once() {
    let mut union = Union::new(LINGER);
    set(&mut union, 1, &[("a", 1)], at(0));
    assert_eq!(union.next_due(), None);
    union.leave(Member(1), at(1));
    assert_eq!(union.next_due(), Some(at(61)));
    assert!(union.due(at(60)).is_empty());
    set(&mut union, 2, &[("a", 1)], at(60));
    assert!(union.due(at(100)).is_empty() && union.next_due().is_none(), "in time");
    union.leave(Member(2), at(100));
    assert_eq!(due(&mut union, at(160)), ["a"]);
    assert!(union.due(at(200)).is_empty() && union.is_empty());
}

#[test]
fn a_server_of_ones_own_has_one_instance_for_each_client_and_none_lingers() {
    let mut union = Union::new(LINGER);
    (1..4).for_each(|member| set(&mut union, member, &[("a", 0), ("b", 1)], at(0)));
    assert_eq!(ids(&union), ["a", "a/2", "a/3", "b"]);
    set(&mut union, 2, &[("a", 0), ("b", 2)], at(5));
    assert_eq!(id(&union, 2, "a"), "a/2", "a change elsewhere in the file leaves it alone");
    union.leave(Member(2), at(9));
    assert_eq!(due(&mut union, at(9)), ["a/2"]);
}

#[test]
fn an_entry_that_changes_for_all_who_use_it_keeps_its_instance() {
    let mut union = Union::new(LINGER);
    (1..4).for_each(|member| set(&mut union, member, &[("a", 1), ("b", 1)], at(0)));
    let all = |key| (1..4).map(|member| (Member(member), wants(&[("a", key), ("b", 1)]))).collect();
    union.set(all(2), at(1));
    assert_eq!(ids(&union), ["a", "b"], "what runs ends before the new one begins");
    union.set(vec![(Member(1), wants(&[("a", 1)])), (Member(2), wants(&[("a", 3), ("b", 1)]))], at(2));
    let led: Vec<String> = (1..4).map(|member| id(&union, member, "a")).collect();
    assert_eq!(led, ["a/2", "a/3", "a"], "one uses it still: it is left alone");
    union.set(vec![(Member(2), wants(&[("a", 2), ("b", 1)]))], at(3));
    assert_eq!(id(&union, 2, "a"), "a", "to the one that fits");
    assert_eq!(due(&mut union, at(63)), ["a/3"]);
}

#[test]
fn a_changed_entry_moves_its_client_and_nobody_else() {
    let mut union = Union::new(LINGER);
    set(&mut union, 1, &[("a", 1), ("b", 1)], at(0));
    set(&mut union, 2, &[("a", 1), ("b", 1)], at(0));
    set(&mut union, 1, &[("a", 2), ("b", 1)], at(1));
    assert_eq!((id(&union, 1, "a"), id(&union, 2, "a")), ("a/2".into(), "a".into()));
    assert_eq!((id(&union, 1, "b"), id(&union, 2, "b")), ("b".into(), "b".into()));
    set(&mut union, 2, &[("a", 2)], at(2));
    assert_eq!(id(&union, 2, "a"), "a/2");
    assert_eq!(due(&mut union, at(62)), ["a"], "the first has `b` still");
}

#[test]
fn what_turns_out_to_depend_on_its_client_is_that_clients_alone_from_then_on() {
    let mut union = Union::new(LINGER);
    (1..4).for_each(|member| set(&mut union, member, &[("a", 1), ("b", 1)], at(0)));
    assert_eq!(union.bind(Member(2), &"a".into()), [Member(1), Member(3)]);
    let led: Vec<String> = (1..4).map(|member| id(&union, member, "a")).collect();
    assert_eq!(led, ["a/2", "a", "a/3"], "it keeps what it told one, the others begin anew");
    assert!((1..4).all(|member| id(&union, member, "b") == "b"));
    assert!(union.bind(Member(2), &"a".into()).is_empty() && union.bind(Member(9), &"b".into()).is_empty());
    set(&mut union, 4, &[("a", 1)], at(1));
    assert_eq!(id(&union, 4, "a"), "a/4", "who comes later has one of its own as well");
    union.leave(Member(2), at(2));
    assert_eq!(due(&mut union, at(2)), ["a"], "it told one client's matters, so nobody gets it again");
}

/// The entries of one client: for each name, nothing or what it comes to; 0 is for one client only.
fn entries() -> impl Strategy<Value = Vec<Option<u8>>> {
    proptest::collection::vec(proptest::option::of(0u8..4), NAMES.len())
}

fn named(entries: &[Option<u8>]) -> Vec<(&'static str, u8)> {
    NAMES.iter().zip(entries).filter_map(|(name, key)| Some((*name, (*key)?))).collect()
}

proptest! {
    /// Two clients share the server of a name exactly if it comes to the same for both and is nobody's own.
    #[test]
    fn arrival_never_decides_who_shares_what(
        clients in proptest::collection::vec(entries(), 0..8), order in any::<u64>(),
    ) {
        let mut mixed: Vec<usize> = (0..clients.len()).collect();
        mixed.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(order | 1));
        let mut union = Union::new(LINGER);
        for client in mixed {
            set(&mut union, client as u64, &named(&clients[client]), at(0));
        }
        for (a, of_a) in clients.iter().enumerate() {
            for (b, of_b) in clients.iter().enumerate() {
                for (at, name) in NAMES.iter().enumerate() {
                    let (Some(one), Some(two)) = (of_a[at], of_b[at]) else { continue };
                    let shared = id(&union, a as u64, name) == id(&union, b as u64, name);
                    prop_assert_eq!(shared, a == b || (one == two && one != 0));
                }
            }
        }
    }

    /// Whatever happens: a client reaches its own entries and no other, an instance that is used is there
    /// and is what its users want, one id is never two things at once, and what nobody uses ends in time.
    #[test]
    fn nobody_reaches_a_foreign_entry_and_nothing_outlives_its_users(
        steps in proptest::collection::vec((0u64..5, proptest::option::of(entries())), 0..60),
    ) {
        let mut union = Union::new(LINGER);
        let mut here: BTreeMap<u64, Vec<(&'static str, u8)>> = BTreeMap::new();
        for (step, (member, entries)) in steps.into_iter().enumerate() {
            let now = at(step as u64 * 25);
            let of_others: Vec<(String, u8)> = union
                .instances()
                .filter(|(id, ..)| union.users(id).any(|user| user != Member(member)))
                .map(|(id, _, key)| (told(id), *key))
                .collect();
            match entries {
                Some(entries) => {
                    here.insert(member, named(&entries));
                    set(&mut union, member, &named(&entries), now);
                }
                None => {
                    here.remove(&member);
                    union.leave(Member(member), now);
                }
            }
            let all: BTreeMap<String, (String, u8)> =
                union.instances().map(|(id, name, key)| (told(id), (name.to_string(), *key))).collect();
            prop_assert!(of_others.iter().all(|(id, key)| all[id].1 == *key), "what others use is left alone");
            for (member, own) in &here {
                let leads = union.leads(Member(*member)).unwrap();
                prop_assert_eq!(leads.len(), own.len());
                for (name, key) in own {
                    prop_assert_eq!(&all[&id(&union, *member, name)], &((*name).to_owned(), *key));
                }
            }
            for (id, _, key) in union.instances() {
                let users: Vec<Member> = union.users(id).collect();
                let leading = here.keys().filter(|member| {
                    union.leads(Member(**member)).unwrap().values().any(|led| led == id)
                });
                prop_assert_eq!(users.len(), leading.count());
                prop_assert!(*key != 0 || users.len() <= 1);
            }
            for due in union.due(now) {
                prop_assert!(!here.keys().any(|m| union.leads(Member(*m)).unwrap().values().any(|led| *led == due)));
            }
        }
        here.keys().for_each(|member| union.leave(Member(*member), at(10_000)));
        union.due(at(10_060));
        prop_assert!(union.is_empty());
    }
}
