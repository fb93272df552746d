//! Tests of who makes the next table ready, at moments that threads rarely meet.

use super::super::growth::Started;
use super::*;

/// The last size of the window that is tested.
const LAST: usize = 3;

/// Returns a window that has a table of each size but the last, and room for one of that and no
/// more.
fn grown() -> Window {
    let window = Window::with_growth(Duration::from_secs(100), Some(10_000), Some(4 << 20), false).unwrap();
    let mut outcomes = Vec::new();
    for from in (0..).step_by(1_000) {
        let digests: Vec<_> = (from..from + 1_000).map(digest).collect();
        window.check_batch(&digests, Timestamp::from_secs(1_000), &mut outcomes);
        if window.tables().roster().len() == LAST {
            assert_eq!(window.evicted_live(), 0);
            return window;
        }
    }
    unreachable!("it grows")
}

#[test]
fn a_table_that_is_being_made_ready_has_its_room_and_no_other_table_goes_for_it() {
    let window = grown();
    assert!(window.growth.begin_table(LAST) && !window.growth.begin_table(LAST), "there is room for one");
    assert_eq!(window.growth.start(LAST), Started::Yes);
    assert_eq!((window.tables().roster().len(), window.evicted_live()), (LAST + 1, 0));
}

#[test]
fn a_table_whose_last_part_another_caller_makes_ready_was_not_asked_for_in_vain() {
    let window = std::rc::Rc::new(grown());
    assert!(window.growth.begin_table(LAST));
    let other = window.clone();
    mutation::at(mutation::Place::LastPart, move || assert_eq!(other.growth.start(LAST), Started::Soon));
    // The caller that stalls has made it ready in the end.
    assert_eq!(window.growth.start(LAST), Started::Yes);
    assert_eq!((window.tables().roster().len(), window.evicted_live()), (LAST + 1, 0));
}
