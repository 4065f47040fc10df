//! Floor 1. How the places of the whole host are shared among its servers, so that calls which
//! pile up at some never keep those of the others out. The fewer are free, the fewer one server
//! may hold; and of the last quarter each may have its equal share only. Asked by the front end.

/// One part in so many of all places is kept for servers that hold little.
const KEPT_PART: usize = 4;

/// Whether a server that has `held` calls holds so many, with `free` of `all` places left, that its
/// share counts: more than are free for everybody, the asked one included.
pub fn is_much(held: usize, free: usize, all: usize) -> bool {
    held > 0 && held >= (free + 1).saturating_sub(all / KEPT_PART)
}

/// Whether a server that has `held` calls running or waiting must not have one more, with `free`
/// of `all` places left for `servers` servers.
pub fn is_spent(held: usize, free: usize, all: usize, servers: usize) -> bool {
    servers > 1 && is_much(held, free, all) && held >= all / KEPT_PART / servers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fewer_are_free_the_fewer_one_server_may_hold() {
        assert!(!is_spent(1023, 0, 1024, 1), "one alone may have all");
        assert!(!is_spent(383, 640, 1024, 20) && is_spent(385, 638, 1024, 20), "three eighths at most");
        assert!(!is_spent(44, 300, 1024, 20) && is_spent(45, 300, 1024, 20));
        for (all, most) in [(2, 1), (3, 2), (4, 2), (8, 3)] {
            assert!(
                !is_spent(most - 1, all - most, all, 2) && is_spent(most, all - most - 1, all, 2),
                "{all}"
            );
        }
    }

    #[test]
    fn of_the_last_quarter_each_server_has_its_share() {
        assert!(is_spent(12, 255, 1024, 20) && !is_spent(11, 255, 1024, 20));
        assert!(!is_spent(0, 1, 1024, 1000) && is_spent(1, 1, 1024, 1000), "one each, where there are many");
    }

    #[test]
    fn beside_eighteen_that_hang_there_is_room_for_a_busy_one() {
        let mut held = [0; 20];
        let mut take = |server: usize| {
            let free = 1024 - held.iter().sum::<usize>();
            let takes = free > 0 && !is_spent(held[server], free - 1, 1024, 20);
            held[server] += usize::from(takes);
            takes
        };
        // The busy one gives its places back; here it asks for more and more of them.
        (0..500).for_each(|_| {
            (2..20).for_each(|server| {
                take(server);
            })
        });
        let room = (0..500).take_while(|_| take(0)).count();
        assert!(room >= 20, "{room}");
    }

    proptest! {
        /// Whatever the others do, a server that holds less than its share finds a place.
        #[test]
        fn no_crowd_keeps_a_server_out(
            all in 1usize..300, servers in 2usize..20, asked in proptest::collection::vec(1usize..20, 0..2000),
        ) {
            prop_assume!(all / KEPT_PART >= servers);
            let mut held = vec![0; servers];
            // Server 0 asks last; the rest take what they get.
            for server in asked.into_iter().filter(|server| *server < servers) {
                let free = all - held.iter().sum::<usize>();
                if free > 0 && !is_spent(held[server], free - 1, all, servers) {
                    held[server] += 1;
                }
            }
            let share = all / KEPT_PART / servers;
            for _ in 0..share {
                let free = all - held.iter().sum::<usize>();
                prop_assert!(free > 0 && !is_spent(held[0], free - 1, all, servers));
                held[0] += 1;
            }
        }
    }
}
