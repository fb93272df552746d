//! Times that come with events: from before the clock's, and late.

use super::tests::World;
use crate::{Certainty, Dedup, Timestamp};

/// An event's verdict: whether it is a duplicate, and whether that is certain.
fn event(dedup: &Dedup, id: &str, seconds: u64) -> (bool, Certainty) {
    let verdict = dedup.check_at(id, Timestamp::from_secs(1_000 + seconds));
    (verdict.is_duplicate(), verdict.certainty())
}

#[test]
fn events_of_the_past_are_sealed_though_the_clock_is_ahead_of_them() {
    for looks in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert!(!looks || dedup.contains("a").is_none());
        assert_eq!(event(&dedup, "a", 0), (false, Certainty::Exact));
        assert_eq!(event(&dedup, "b", 300), (false, Certainty::Exact));
        assert_eq!(event(&dedup, "a", 300), (true, Certainty::Exact));
    }
}

#[test]
fn a_late_event_is_not_answered_as_if_the_window_had_what_was_before_it() {
    for is_full in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert_eq!(event(&dedup, "a", 0), (false, Certainty::Exact));
        let claim = dedup.claim("b").claimed().expect("it is fresh");
        if is_full {
            world.disk.set_capacity(Some(0));
        }
        // It tells the time, and asks for nothing.
        assert_eq!(event(&dedup, "b", 300), (false, Certainty::Exact));
        let answer = if is_full { (false, Certainty::Guess) } else { (true, Certainty::Exact) };
        assert_eq!(event(&dedup, "a", 10), answer);
        claim.release().unwrap();
    }
}
