//! The bulkhead of one server: how many calls run on it at once, and how many wait
//! for their turn, first come first served. It counts and orders; the calls themselves
//! are the caller's. Called by the server actor.

use std::collections::VecDeque;

/// A bulkhead over waiters of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bulkhead<W> {
    in_flight_max: usize,
    queue_len_max: usize,
    in_flight: usize,
    waiting: VecDeque<W>,
    gate: Gate,
}

/// Whether calls may begin at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gate {
    Open,
    Closed,
}

/// What becomes of a call that asks for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<W> {
    /// It runs now, and settles once when it ends.
    Run(W),
    /// It waits.
    Queued,
    /// There is no place: it is refused.
    Full(W),
}

impl<W> Bulkhead<W> {
    /// Closed, and empty. A limit of zero calls in flight is taken as one.
    pub fn new(in_flight_max: usize, queue_len_max: usize) -> Self {
        Self {
            in_flight_max: in_flight_max.max(1),
            queue_len_max,
            in_flight: 0,
            waiting: VecDeque::new(),
            gate: Gate::Closed,
        }
    }

    /// Takes a place at once, if there is one and nobody waits.
    pub fn enter(&mut self) -> bool {
        let free = self.has_room() && self.waiting.is_empty();
        if free {
            self.in_flight += 1;
        }
        free
    }

    /// Asks for admission. Nobody overtakes one who waits.
    pub fn admit(&mut self, waiter: W) -> Admission<W> {
        if self.enter() {
            return Admission::Run(waiter);
        }
        if self.waiting.len() >= self.queue_len_max {
            return Admission::Full(waiter);
        }
        self.waiting.push_back(waiter);
        Admission::Queued
    }

    /// The server became ready: who may run now, in order.
    pub fn open(&mut self) -> Vec<W> {
        self.gate = Gate::Open;
        self.next_waiters()
    }

    /// The server is not ready any more: nobody begins; those in flight still settle.
    pub fn close(&mut self) {
        self.gate = Gate::Closed;
    }

    /// One call in flight ended: who may run now.
    pub fn settle(&mut self) -> Option<W> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.next_waiter()
    }

    /// A waiter was told to run and turned out to be gone: who may run instead.
    pub fn declined(&mut self) -> Option<W> {
        self.settle()
    }

    /// Takes out the waiters that `is_gone` names.
    pub fn forget(&mut self, mut is_gone: impl FnMut(&W) -> bool) {
        self.waiting.retain(|waiter| !is_gone(waiter));
    }

    /// The waiters, in order.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.waiting.iter_mut()
    }

    /// Takes out the waiters that `is_refused` names, to refuse them.
    pub fn take(&mut self, is_refused: impl Fn(&W) -> bool) -> Vec<W> {
        let (taken, kept) = self.waiting.drain(..).partition(|waiter| is_refused(waiter));
        self.waiting = kept;
        Vec::from(taken)
    }

    /// Takes out all waiters, to refuse them.
    pub fn drain_waiting(&mut self) -> Vec<W> {
        self.waiting.drain(..).collect()
    }

    /// New limits. A smaller one takes effect as calls settle; waiters over it stay.
    pub fn set_limits(&mut self, in_flight_max: usize, queue_len_max: usize) -> Vec<W> {
        self.in_flight_max = in_flight_max.max(1);
        self.queue_len_max = queue_len_max;
        self.next_waiters()
    }

    /// Calls running.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Calls waiting.
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }

    fn has_room(&self) -> bool {
        self.gate == Gate::Open && self.in_flight < self.in_flight_max
    }

    fn next_waiter(&mut self) -> Option<W> {
        if !self.has_room() {
            return None;
        }
        let waiter = self.waiting.pop_front()?;
        self.in_flight += 1;
        Some(waiter)
    }

    fn next_waiters(&mut self) -> Vec<W> {
        std::iter::from_fn(|| self.next_waiter()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use crate::policy::explore::explore;

    use super::*;

    fn open(in_flight_max: usize, queue_len_max: usize) -> Bulkhead<u32> {
        let mut bulkhead = Bulkhead::new(in_flight_max, queue_len_max);
        assert!(bulkhead.open().is_empty());
        bulkhead
    }

    #[test]
    fn limits_hold_at_one_below_at_and_one_above() {
        let mut bulkhead = open(64, 256);
        for call in 0..64 {
            assert_eq!(bulkhead.admit(call), Admission::Run(call));
        }
        for call in 64..320 {
            assert_eq!(bulkhead.admit(call), Admission::Queued, "{call}");
        }
        assert_eq!(bulkhead.admit(320), Admission::Full(320));
        assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (64, 256));
        assert_eq!(bulkhead.settle(), Some(64));
        assert_eq!(bulkhead.admit(321), Admission::Queued);
        assert_eq!(bulkhead.admit(322), Admission::Full(322));
    }

    #[test]
    fn calls_wait_while_the_server_is_not_ready_and_run_in_order_when_it_is() {
        let mut bulkhead = Bulkhead::new(2, 3);
        for call in 0..3 {
            assert_eq!(bulkhead.admit(call), Admission::Queued);
        }
        assert_eq!(bulkhead.admit(3), Admission::Full(3));
        assert_eq!(bulkhead.open(), [0, 1]);
        bulkhead.close();
        assert_eq!(bulkhead.settle(), None, "closed: nobody begins");
        assert_eq!(bulkhead.open(), [2]);
        assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (2, 0));
    }

    #[test]
    fn who_left_is_passed_over() {
        let mut bulkhead = open(1, 9);
        assert_eq!(bulkhead.admit(0), Admission::Run(0));
        for call in 1..5 {
            bulkhead.admit(call);
        }
        bulkhead.forget(|call| *call == 2);
        assert_eq!(bulkhead.settle(), Some(1));
        assert_eq!(bulkhead.declined(), Some(3), "1 was gone when its turn came");
        assert_eq!(bulkhead.drain_waiting(), [4]);
        assert_eq!(bulkhead.settle(), None);
        assert_eq!(bulkhead.settle(), None, "one settle too many changes nothing");
        assert_eq!(bulkhead.in_flight(), 0);
        assert_eq!(bulkhead.admit(5), Admission::Run(5));
    }

    #[test]
    fn limits_may_change_while_calls_run() {
        let mut bulkhead = open(1, 4);
        for call in 0..4 {
            bulkhead.admit(call);
        }
        assert_eq!(bulkhead.set_limits(3, 1), [1, 2]);
        assert_eq!(bulkhead.admit(9), Admission::Full(9));
        assert!(bulkhead.set_limits(0, 9).is_empty());
        assert_eq!((bulkhead.settle(), bulkhead.settle()), (None, None));
        assert_eq!(bulkhead.settle(), Some(3), "a limit of zero is one");
    }

    /// One bulkhead with the calls that run because of it.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        bulkhead: Bulkhead<u8>,
        running: BTreeSet<u8>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Move {
        Enter(u8),
        Admit(u8),
        Settle(u8),
        Decline(u8),
        Leave(u8),
        Open,
        Close,
        Drain,
    }

    /// Every order of every move of four calls, at the smallest bounds: nobody runs beyond them,
    /// runs twice, or is lost, and a free place is never kept from one who waits.
    #[test]
    fn every_order_of_moves_keeps_the_bounds_and_loses_nobody() {
        let calls = 0u8..4;
        let of = |make: fn(u8) -> Move| calls.clone().map(make);
        let mut moves = vec![Move::Open, Move::Close, Move::Drain];
        for make in [Move::Enter, Move::Admit, Move::Settle, Move::Decline, Move::Leave] {
            moves.extend(of(make));
        }
        for (in_flight_max, queue_len_max) in [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2)] {
            let first =
                World { bulkhead: Bulkhead::new(in_flight_max, queue_len_max), running: BTreeSet::new() };
            let step = |world: &World, one: &Move| {
                let mut next = world.clone();
                let World { bulkhead, running } = &mut next;
                let knows = |call: &u8| running.contains(call) || bulkhead.waiting.contains(call);
                let mut begun = Vec::new();
                match one {
                    Move::Enter(call) | Move::Admit(call) if knows(call) => return None,
                    Move::Settle(call) | Move::Decline(call) if !running.contains(call) => return None,
                    Move::Leave(call) if !bulkhead.waiting.contains(call) => return None,
                    Move::Enter(call) => begun.extend(bulkhead.enter().then_some(*call)),
                    Move::Admit(call) => match bulkhead.admit(*call) {
                        Admission::Run(call) => begun.push(call),
                        Admission::Queued => assert!(bulkhead.waiting.contains(call)),
                        Admission::Full(_) => assert_eq!(bulkhead.queued(), queue_len_max),
                    },
                    Move::Settle(call) => {
                        running.remove(call);
                        begun.extend(bulkhead.settle());
                    }
                    Move::Decline(call) => {
                        running.remove(call);
                        begun.extend(bulkhead.declined());
                    }
                    Move::Leave(call) => bulkhead.forget(|waiting| waiting == call),
                    Move::Open => begun = bulkhead.open(),
                    Move::Close => bulkhead.close(),
                    Move::Drain => assert_eq!(bulkhead.drain_waiting().len(), world.bulkhead.queued()),
                }
                for call in begun {
                    assert!(running.insert(call), "{call} runs twice: {world:?} {one:?}");
                }
                Some(next)
            };
            let explored = explore(first, &moves, step, |before, one, after| {
                let World { bulkhead, running } = after;
                assert_eq!(bulkhead.in_flight(), running.len(), "{before:?} {one:?}");
                assert!(running.len() <= in_flight_max && bulkhead.queued() <= queue_len_max);
                let begun = running.difference(&before.running).count();
                assert!(begun == 0 || bulkhead.gate == Gate::Open, "closed: nobody begins");
                let kept = bulkhead.has_room() && bulkhead.queued() > 0;
                assert!(!kept, "a free place is kept from one who waits: {before:?} {one:?}");
            });
            assert!(explored.states >= 10, "{explored:?}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Admit,
        Settle,
        Leave(prop::sample::Index),
        Open,
        Close,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Admit),
            3 => Just(Step::Settle),
            1 => any::<prop::sample::Index>().prop_map(Step::Leave),
            1 => Just(Step::Open),
            1 => Just(Step::Close),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]
        #[test]
        fn every_call_runs_once_in_order_or_is_told_so(
            in_flight_max in 1usize..4, queue_len_max in 0usize..5, steps in proptest::collection::vec(step(), 0..60),
        ) {
            let mut bulkhead = Bulkhead::new(in_flight_max, queue_len_max);
            let mut running = 0usize;
            let mut model: VecDeque<u32> = VecDeque::new();
            let mut ran = BTreeSet::new();
            let mut last = None;
            for (call, step) in (0u32..).zip(steps) {
                let mut started = Vec::new();
                match step {
                    Step::Admit => match bulkhead.admit(call) {
                        Admission::Run(id) => {
                            prop_assert!(model.is_empty() && id == call);
                            started.push(id);
                        }
                        Admission::Queued => model.push_back(call),
                        Admission::Full(id) => prop_assert!(id == call && model.len() == queue_len_max),
                    },
                    Step::Settle if running > 0 => {
                        running -= 1;
                        started.extend(bulkhead.settle());
                    }
                    Step::Settle => {}
                    Step::Leave(which) if !model.is_empty() => {
                        let gone = *which.get(model.make_contiguous());
                        model.retain(|id| *id != gone);
                        bulkhead.forget(|id| *id == gone);
                    }
                    Step::Leave(_) => {}
                    Step::Open => started = bulkhead.open(),
                    Step::Close => bulkhead.close(),
                }
                for id in started {
                    if model.front() == Some(&id) {
                        model.pop_front();
                    }
                    prop_assert!(ran.insert(id) && last < Some(id), "{id} ran twice or out of order");
                    last = Some(id);
                    running += 1;
                }
                prop_assert!(running <= in_flight_max && model.len() <= queue_len_max);
                prop_assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (running, model.len()));
            }
        }
    }
}
