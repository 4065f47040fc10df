//! Floor 1. How the places of the whole host are shared among its servers. While there is plenty
//! everybody may take more; the last quarter is for those that hold little, so that calls which
//! pile up at some servers never keep those of the others out. Asked by the front end.

/// One part in so many of all places is kept for servers that hold little.
const KEPT_PART: usize = 4;

/// Whether `free` of `all` places are so few that shares count.
pub fn is_scarce(free: usize, all: usize) -> bool {
    free < all / KEPT_PART
}

/// Whether a server that has `held` calls running or waiting must not have one more, with `free`
/// of `all` places left for `servers` servers.
pub fn is_spent(held: usize, free: usize, all: usize, servers: usize) -> bool {
    servers > 1 && is_scarce(free, all) && held >= (all / KEPT_PART / servers).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_server_may_have_all_and_several_leave_the_last_quarter() {
        assert!(!is_spent(1000, 0, 1024, 1));
        assert!(!is_spent(700, 256, 1024, 20), "a quarter is left");
        assert!(is_spent(700, 255, 1024, 20));
        assert!(is_spent(12, 255, 1024, 20), "its share of that quarter is taken");
        assert!(!is_spent(11, 255, 1024, 20));
        assert!(is_spent(1, 255, 1024, 1000), "one each, where there are many");
        assert!(!is_spent(0, 1, 1024, 1000));
        for held in 0..4 {
            assert!(!is_spent(held, 0, 3, 2), "of few places none is kept");
        }
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
