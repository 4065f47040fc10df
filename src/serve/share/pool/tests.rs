//! Who shares what, whatever the order in which clients come and go.

use proptest::prelude::*;

use super::*;
use crate::config::spec::{Source, TransportSpec};

const LINGER: Duration = Duration::from_secs(60);

fn at(secs: u64) -> Monotonic {
    Monotonic::base() + Duration::from_secs(secs)
}

#[test]
fn a_house_waits_for_its_next_client_and_is_ended_once() {
    let mut pool = Pool::new(LINGER);
    let (first, fresh) = pool.enter("a", false);
    assert!(fresh);
    assert_eq!(pool.enter("a", false), (first, false));
    pool.leave(first, at(0));
    assert_eq!(pool.next_due(), None, "one is still there");
    pool.leave(first, at(1));
    assert_eq!(pool.next_due(), Some(at(61)));
    assert!(pool.due(at(60)).is_empty());
    assert_eq!(pool.enter("a", false), (first, false), "in time");
    assert!(pool.due(at(100)).is_empty());
    pool.leave(first, at(100));
    assert_eq!(pool.due(at(160)), [first]);
    assert!(pool.due(at(200)).is_empty() && pool.is_empty());
    let (second, fresh) = pool.enter("a", false);
    assert!(fresh && second != first, "a house that was ended is never entered again");
}

#[test]
fn who_has_a_server_of_its_own_is_alone_and_nothing_of_it_lingers() {
    let mut pool = Pool::new(LINGER);
    let (one, _) = pool.enter("a", true);
    let (two, fresh) = pool.enter("a", true);
    assert!(fresh && one != two);
    pool.leave(one, at(5));
    assert_eq!(pool.due(at(5)), [one]);
}

#[test]
fn a_house_whose_files_changed_is_entered_by_those_who_read_the_new_ones() {
    let mut pool = Pool::new(LINGER);
    let (house, _) = pool.enter("old", false);
    pool.becomes(house, "new", false);
    assert_eq!(pool.enter("new", false), (house, false));
    assert!(pool.enter("old", false).1);
    assert_eq!(pool.equal(&"new"), [house]);
}

#[test]
fn an_entry_comes_to_the_same_only_with_its_environment_its_scope_and_all_that_is_written() {
    let entry = |scope, command: &str, sharing| {
        let (args, env) = (Vec::new(), Vec::new());
        let transport = TransportSpec::Stdio { command: command.into(), args, env, cwd: None };
        let spec = ServerSpec { sharing, ..ServerSpec::new("s", transport) };
        Entry {
            id: "s".into(),
            source: Source { scope, origin: "f".into() },
            shadows: Vec::new(),
            state: EntryState::Ready(Arc::new(spec)),
            issues: Vec::new(),
            hash: String::new(),
            transport: "stdio",
            summary: String::new(),
            label: None,
            description: None,
            required: false,
        }
    };
    let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let same = |entry: &Entry, pairs: &[(&str, &str)]| Same::of(entry, &env(pairs), &["X".to_owned()]);
    let plain = entry(Scope::User, "c", Sharing::Shared);
    let base = same(&plain, &[("HOME", "/h")]);
    assert!(base == same(&plain, &[("HOME", "/h"), ("TERM", "dumb"), ("UNSEEN", "1")]));
    assert!(base != same(&plain, &[("HOME", "/other")]));
    assert!(base != same(&plain, &[("HOME", "/h"), ("X", "1")]), "what is passed through counts");
    assert!(base != same(&entry(Scope::Project, "c", Sharing::Shared), &[("HOME", "/h")]));
    assert!(base != same(&entry(Scope::User, "d", Sharing::Shared), &[("HOME", "/h")]));
    assert!(!base.is_for_one() && same(&entry(Scope::User, "c", Sharing::Session), &[]).is_for_one());
}

proptest! {
    /// Clients: a configuration, and whether it wants to be alone. The partition is the same in any order.
    #[test]
    fn arrival_never_decides_who_shares_with_whom(
        clients in proptest::collection::vec((0u8..4, any::<bool>()), 0..20).prop_shuffle(),
        order in any::<u64>(),
    ) {
        let together = |order: Vec<usize>| {
            let mut pool = Pool::new(LINGER);
            let mut houses = vec![HouseId(0); clients.len()];
            for at in order {
                let (key, alone) = clients[at];
                // Alone or not is a matter of the configuration: equal ones agree.
                houses[at] = pool.enter((key, alone), alone).0;
            }
            let pairs = (0..houses.len()).flat_map(|a| (0..houses.len()).map(move |b| (a, b)));
            pairs.map(|(a, b)| houses[a] == houses[b]).collect::<Vec<bool>>()
        };
        let straight: Vec<usize> = (0..clients.len()).collect();
        let mut mixed = straight.clone();
        mixed.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(order | 1));
        prop_assert_eq!(together(straight), together(mixed));
    }

    /// Whoever lives in a house has the configuration that the house was opened with, and is counted.
    #[test]
    fn nobody_is_served_what_is_not_in_the_own_configuration(
        steps in proptest::collection::vec((any::<bool>(), 0u8..3, any::<bool>()), 0..60),
    ) {
        let mut pool = Pool::new(LINGER);
        let mut opened: BTreeMap<HouseId, (u8, bool)> = BTreeMap::new();
        let mut living: Vec<(HouseId, (u8, bool))> = Vec::new();
        for (now, (comes, key, alone)) in steps.into_iter().enumerate() {
            let now = at(now as u64 * 20);
            if comes || living.is_empty() {
                let (house, fresh) = pool.enter((key, alone), alone);
                prop_assert_eq!(fresh, opened.insert(house, (key, alone)).is_none());
                living.push((house, (key, alone)));
            } else {
                pool.leave(living.swap_remove(key as usize % living.len()).0, now);
            }
            for due in pool.due(now) {
                prop_assert!(living.iter().all(|(house, _)| *house != due), "somebody lives there");
            }
            for (house, own) in &living {
                prop_assert_eq!(opened[house], *own);
                let others = living.iter().filter(|(other, _)| other == house).count();
                prop_assert!(!own.1 || others == 1);
            }
        }
    }
}
