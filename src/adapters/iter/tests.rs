use super::*;
use crate::{Int, ManualClock};
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn engine() -> Dedup {
    Dedup::builder().capacity(10_000).seed(7).clock(ManualClock::new()).build().unwrap()
}

/// Counts the items that are taken from a source, whose `size_hint` stays.
fn counted<'a, It: Iterator<Item: 'a> + 'a>(source: It, taken: &'a Cell<usize>) -> impl Iterator<Item = It::Item> + 'a {
    source.inspect(|_| taken.set(taken.get() + 1))
}

proptest! {
    #[test]
    fn it_yields_what_a_filter_would(ids in proptest::collection::vec(0_u16..500, 0..1_000)) {
        let (filtering, adapting) = (engine(), engine());
        let expected: Vec<_> = ids.iter().filter(|id| filtering.check(Int::from(**id)).is_fresh()).collect();
        let fresh = ids.iter().dedup_by(&adapting, |id| Int::from(**id));
        prop_assert_eq!(fresh.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn an_id_is_marked_when_its_turn_has_come() {
    let dedup = engine();
    let ids: Vec<_> = (0..100).map(|i| i.to_string()).collect();
    let taken = Cell::new(0);
    let mut fresh = counted(ids.iter(), &taken).dedup_by_id(&dedup, |id| id.as_str());
    for turn in 0..10 {
        assert_eq!(fresh.next(), Some(&ids[turn]));
        assert_eq!(taken.get(), turn + 1 + READ_AHEAD);
        let marked = ids.iter().filter(|id| dedup.contains(id).is_some()).count();
        assert_eq!(marked, turn + 1);
    }
}

#[test]
fn a_source_that_promises_nothing_is_asked_for_one_item_at_a_time() {
    let dedup = engine();
    let taken = Cell::new(0);
    let mut ids = ["a", "a", "b", "c"].into_iter();
    let mut fresh = counted(std::iter::from_fn(|| ids.next()), &taken).dedup_by_id(&dedup, |id| *id);
    assert_eq!((fresh.next(), taken.get()), (Some("a"), 1));
    assert_eq!((fresh.next(), taken.get()), (Some("b"), 3));
    assert_eq!((fresh.next(), taken.get()), (Some("c"), 4));
    assert_eq!(fresh.next(), None);
}

#[test]
fn a_check_is_at_the_time_of_the_turn() {
    let clock = ManualClock::new();
    let dedup = Dedup::builder().window(Duration::from_secs(10)).clock(clock.clone()).build().unwrap();
    let mut fresh = ["a", "b", "a", "b"].into_iter().dedup_by_id(&dedup, |id| *id);
    assert_eq!((fresh.next(), fresh.next()), (Some("a"), Some("b")));
    clock.advance(Duration::from_secs(11));
    assert_eq!((fresh.next(), fresh.next()), (Some("a"), Some("b")));
    assert_eq!(fresh.next(), None);
}

#[test]
fn its_size_is_that_of_what_may_come() {
    let dedup = engine();
    let mut fresh = (0_u8..40).dedup_by(&dedup, |id| [*id]);
    for turns in 0..40 {
        assert_eq!(fresh.size_hint(), (0, Some(40 - turns)));
        assert!(fresh.next().is_some());
    }
    assert_eq!((fresh.next(), fresh.size_hint()), (None, (0, Some(0))));
    let endless = (0_u64..).dedup_by(&dedup, |id| Int::from(*id));
    assert_eq!(endless.size_hint(), (0, None));
}

#[test]
fn it_ends_once_and_for_all() {
    /// Has an item, promises more, ends, and must not be asked again.
    struct Ends(u8);

    impl Iterator for Ends {
        type Item = [u8; 1];

        fn next(&mut self) -> Option<[u8; 1]> {
            self.0 += 1;
            assert!(self.0 <= 2, "it was asked after its end");
            (self.0 == 1).then_some([0])
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (5, None)
        }
    }

    let dedup = engine();
    let mut fresh = Ends(0).dedup_by_id(&dedup, |id| id);
    assert_eq!([fresh.next(), fresh.next(), fresh.next()], [Some([0]), None, None]);
    assert_eq!(fresh.size_hint(), (0, Some(0)));
}

#[test]
fn a_panic_loses_no_item_but_its_own() {
    let dedup = engine();
    let id_of = |id: &u8| if *id == 3 { panic!("no id") } else { dedup.prepare([*id]) };
    let mut fresh = (0_u8..30).dedup_by(&dedup, id_of);
    let (mut all, mut panics) = (Vec::new(), 0);
    while catch_unwind(AssertUnwindSafe(|| fresh.by_ref().for_each(|id| all.push(id)))).is_err() {
        assert!(dedup.contains([3]).is_none());
        panics += 1;
    }
    assert_eq!(panics, 1);
    assert_eq!(all, (0..30).filter(|id| *id != 3).collect::<Vec<_>>());
}

#[test]
fn it_can_be_sent_and_shown() {
    fn sent<T: Send>(it: T) -> T {
        it
    }
    let dedup = engine();
    let fresh = sent(["a"].into_iter().dedup_by_id(&dedup, |id| *id));
    assert!(format!("{fresh:?}").starts_with("DedupById"));
    assert!(fresh.eq(["a"]));
}
