//! Times that are not those of the clock: events from before it, events that come late, and checks
//! of which the journal is told late.

use super::tests::{RETENTION, WINDOW, World};
use crate::{Dedup, Tier, Timestamp};

/// An event's verdict: whether it is a duplicate, and whether that is certain.
fn event(dedup: &Dedup, id: &str, seconds: u64) -> (bool, bool) {
    let verdict = dedup.check_at(id, Timestamp::from_secs(1_000 + seconds));
    (verdict.is_duplicate(), verdict.is_certain())
}

#[test]
fn events_of_the_past_are_sealed_though_the_clock_is_ahead_of_them() {
    for looks in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert!(!looks || dedup.contains("a").is_none());
        assert_eq!(event(&dedup, "a", 0), (false, true));
        assert_eq!(event(&dedup, "b", 300), (false, true));
        assert_eq!(event(&dedup, "a", 300), (true, true));
    }
}

#[test]
fn a_late_event_is_not_answered_as_if_the_window_had_what_was_before_it() {
    for is_full in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert_eq!(event(&dedup, "a", 0), (false, true));
        let claim = dedup.claim("b").claimed().expect("it is fresh");
        if is_full {
            world.disk.set_capacity(Some(0));
        }
        // It tells the time, and asks for nothing.
        assert_eq!(event(&dedup, "b", 300), (false, true));
        let answer = if is_full { (false, false) } else { (true, true) };
        assert_eq!(event(&dedup, "a", 10), answer);
        claim.release().unwrap();
    }
}

#[test]
fn an_id_of_which_the_journal_is_told_within_half_a_window_is_known_for_the_retention() {
    for told_after in [0, 10, 25, 30, 49] {
        let world = World { deferred: true, ..World::new() };
        let dedup = world.open();
        let id = dedup.prepare("a");
        let verdict = dedup.check(id);
        world.pass(told_after);
        // What is due is sealed, and has not got it.
        assert!(dedup.check("b").is_fresh());
        dedup.journal().unwrap().append_batch([(id, verdict)]).unwrap();
        for passed in [WINDOW.as_secs() + 1, RETENTION.as_secs() / 2] {
            world.pass(passed - told_after);
            let tier = dedup.contains("a");
            assert_eq!(tier, Some(Tier::Segments), "told after {told_after} s, asked {passed} s later");
        }
    }
}
