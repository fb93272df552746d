//! Models of the first event beside calls that go by the clock, under loom: no call
//! leaves the window's time behind the event's.

use super::*;
use crate::sync::model;
use std::sync::Arc;

const FIRST: u64 = 20;

/// A clock far ahead of the events, which goes on whenever it is read, and a window's time.
struct World {
    time: StreamTime,
    clock: AtomicU64,
    latest: AtomicU64,
}

impl World {
    fn new() -> Self {
        let policy = Policy { bound: Bound::None, allowed_lateness: None };
        World { time: StreamTime::new(policy, false), clock: AtomicU64::new(1_000), latest: AtomicU64::new(0) }
    }

    /// Calls as `Engine::now` and a check after it do. Returns the reading, if there was one.
    fn call(&self) -> Option<u64> {
        if !self.time.is_by_clock() && !self.time.note_clock() {
            return None;
        }
        let reading = self.clock();
        if !self.time.is_by_clock() {
            return None;
        }
        self.latest.fetch_max(reading, Ordering::AcqRel);
        Some(reading)
    }

    /// Handles an event as `Engine::check_event` does.
    fn event(&self, at: u64) -> u64 {
        let at = Timestamp::from_nanos(at);
        let taken = self.time.admit(at).map_or_else(|| self.time.decide(at, || None, self), Ok);
        let internal = taken.expect("there is no reason to refuse it").as_nanos();
        self.latest.fetch_max(internal, Ordering::AcqRel);
        internal
    }
}

impl Around for World {
    fn wall(&self) -> u64 {
        unreachable!("the policy does not ask")
    }

    fn clock(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn latest(&self) -> Option<u64> {
        Some(self.latest.load(Ordering::Acquire)).filter(|latest| *latest > 0)
    }

    fn tick(&self) -> u64 {
        1
    }

    fn moved(&self, _offset: i64) {}
}

#[test]
fn the_first_event_is_no_earlier_than_any_call_by_the_clock() {
    model::check("the_first_event", || {
        let world = Arc::new(World::new());
        let (caller, sender) = (world.clone(), world.clone());
        model::run_at_once(vec![
            Box::new(move || _ = (caller.call(), caller.call())),
            Box::new(move || _ = sender.event(FIRST)),
        ]);
        // Whatever the calls did: the next event is later by as much as it says.
        let latest = world.latest.load(Ordering::Acquire);
        let next = world.event(FIRST + 1);
        assert!(next > latest, "the window is at {latest}, the event at {next}");
        assert_eq!(world.call(), None);
    });
}

#[test]
fn two_first_events_agree() {
    model::check("two_first_events", || {
        let world = Arc::new(World::new());
        assert_eq!(world.call(), Some(1_000));
        let (one, other) = (world.clone(), world.clone());
        model::run_at_once(vec![Box::new(move || _ = one.event(FIRST)), Box::new(move || _ = other.event(FIRST + 7))]);
        assert_eq!(world.event(FIRST + 100) - world.event(FIRST + 90), 10);
    });
}

#[test]
fn a_reset_beside_an_event_leaves_time_as_far_as_that_event() {
    model::check("a_reset", || {
        let world = Arc::new(World::new());
        world.event(500);
        let (operator, sender) = (world.clone(), world.clone());
        model::run_at_once(vec![
            Box::new(move || _ = operator.time.reset(Timestamp::from_nanos(100), &*operator)),
            Box::new(move || _ = sender.event(501)),
        ]);
        // By the old offset the event is one ahead, by the new one 401: nothing else is possible.
        let latest = world.latest.load(Ordering::Acquire);
        assert!([501, 901, 902].contains(&latest), "{latest}");
        assert!(world.event(100 + 402) >= latest);
    });
}
