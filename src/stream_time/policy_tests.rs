use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn id(n: u64) -> Digest {
    Digest::from(u128::from(n))
}

fn jumping(max: u64, agreeing: usize) -> Policy {
    Policy { bound: Bound::Jump { max, agreeing }, allowed_lateness: None }
}

#[test]
fn the_wall_bounds_the_future_and_2116_does() {
    let policy = Policy { bound: Bound::Wall { max_skew: 60 }, allowed_lateness: None };
    // An event that is ahead by the skew is accepted, one nanosecond more is refused.
    assert_eq!(policy.limit(|| 1_000), 1_061);
    assert_eq!(policy.limit(|| END - 10), END);
    assert_eq!(policy.limit(|| u64::MAX), END);
    assert_eq!(jumping(5, 1).limit(|| unreachable!("it reads no clock")), END);
}

#[test]
fn events_are_late_or_far_ahead_by_more_than_is_allowed() {
    let policy = Policy { allowed_lateness: Some(100), ..jumping(10, 3) };
    let order = |at| policy.order(at, Some(1_000));
    assert_eq!([order(900), order(899), order(-1)], [Order::Near, Order::Late, Order::Late]);
    assert_eq!([order(1_010), order(1_011), order(END.cast_signed() - 1)], [Order::Near, Order::Jump, Order::Jump]);
    assert_eq!(policy.order(END.cast_signed() - 1, None), Order::Near);
    let allowed = Policy { allowed_lateness: Some(u64::MAX), ..jumping(u64::MAX, 1) };
    assert_eq!([allowed.order(0, Some(END)), allowed.order(END.cast_signed(), Some(0))], [Order::Near, Order::Near]);
}

#[test]
fn different_ids_of_about_one_time_make_a_jump() {
    let hear_all = |events: &[(u64, u64)]| {
        let mut agreement = Agreement::new(&jumping(10, 3)).unwrap();
        events.iter().map(|&(n, at)| agreement.hear(id(n), at)).collect::<Vec<_>>()
    };
    assert_eq!(hear_all(&[(1, 500), (2, 505), (3, 510)]), [false, false, true]);
    // One id is one witness, however often it comes.
    assert_eq!(hear_all(&[(1, 500), (1, 501), (1, 502), (2, 503), (3, 504)]), [false, false, false, false, true]);
    // Events that are farther apart do not agree.
    assert_eq!(hear_all(&[(1, 500), (2, 511), (3, 522), (4, 533)]), [false; 4]);
    // Others between them do no harm.
    assert_eq!(hear_all(&[(1, 500), (9, 9_000), (2, 501), (8, 70_000), (3, 502)]), [false, false, false, false, true]);
    // Events that have led to a jump are not counted again.
    assert_eq!(hear_all(&[(1, 500), (2, 500), (3, 500), (4, 500)]), [false, false, true, false]);
}

#[test]
fn witnesses_take_no_more_memory_than_at_first() {
    let mut agreement = Agreement::new(&jumping(10, 3)).unwrap();
    let capacity = agreement.heard.capacity();
    assert!((0..1_000).all(|n| !agreement.hear(id(n), n * 100)));
    assert_eq!(agreement.heard.capacity(), capacity);
}

#[test]
fn the_first_event_is_the_windows_present() {
    let offset = |before: Before, first| before.offset(first);
    let unused = Before { tick: 10, ..Before::default() };
    assert_eq!(offset(unused, 7), 0);
    // The clock was in 2026, the events are of 2020; or they are ahead of it.
    let by_clock = Before { latest: Some(2_026), clock: Some(2_027), ..unused };
    assert_eq!((offset(by_clock, 2_020), offset(by_clock, 2_030)), (7, 0));
    // Time stood still at its origin: whole ticks.
    let waiting = Before { latest: Some(0), ..unused };
    assert_eq!((offset(waiting, 2_025), offset(waiting, 5)), (-2_020, 0));
    // A journal has told its time, and nothing has happened since; or the clock has gone on by 9.
    let events = Resumed::Events { offset: 3, latest: 100 };
    let resumed = Before { latest: Some(100), resumed: Some(events), ..unused };
    assert_eq!(offset(resumed, 50), 3);
    assert_eq!(offset(Before { clock: Some(109), ..resumed }, 50), 12);
    // A journal of an engine that went by its clock; one that does not say.
    let by_clock = Before { resumed: Some(Resumed::Clock), ..resumed };
    assert_eq!((offset(by_clock, 50), offset(by_clock, 150)), (50, 0));
    assert_eq!(offset(Before { resumed: None, ..resumed }, 50), 0);
}

#[test]
fn times_from_before_the_windows_beginning_count_as_its_beginning_and_it_ends_for_good() {
    assert_eq!(internal(5, -10), Some(0));
    assert_eq!(internal(15, -10), Some(5));
    assert_eq!(internal(END - 1, 0), Some(END - 1));
    assert_eq!(internal(END - 1, 1), None);
    assert_eq!(internal(u64::MAX, i64::MAX), None);
}

proptest! {
    #[test]
    fn a_first_event_that_is_not_ahead_is_neither_late_nor_a_jump(
        latest in 0..END / 2, clock in 0..END / 2, first in 0..END / 2, tick in 1..100 * SECOND,
    ) {
        let before = Before { latest: Some(latest), clock: Some(clock), resumed: None, tick };
        let now = internal(first, before.offset(first)).unwrap();
        prop_assert_eq!(now, latest.max(clock).max(first));
    }

    #[test]
    fn what_is_mapped_comes_back(at in 0..END / 2, offset in -(END as i64) / 2..END as i64 / 2) {
        let mapped = internal(at, offset).unwrap();
        prop_assert_eq!(external(mapped, offset), if mapped == 0 { offset.unsigned_abs() } else { at });
    }

    /// Checks that, whatever comes, a jump needs as many different ids as were asked for, within
    /// its bound of each other.
    #[test]
    fn nothing_jumps_without_witnesses(
        events in prop::collection::vec((0..6_u64, 0..60_u64), 0..60), within in 0..20_u64, enough in 1..5_usize,
    ) {
        let mut agreement = Agreement::new(&jumping(within, enough)).unwrap();
        let mut since = 0;
        for (i, &(n, at)) in events.iter().enumerate() {
            if agreement.hear(id(n), at) {
                let mut ids: Vec<_> =
                    events[since..=i].iter().filter(|(_, other)| other.abs_diff(at) <= within).map(|e| e.0).collect();
                ids.sort_unstable();
                ids.dedup();
                prop_assert!(ids.len() >= enough);
                since = i + 1;
            }
        }
    }

    /// Checks that a stream that has gone on is accepted after as many events as were asked for, in
    /// any order, even with others between them.
    #[test]
    fn enough_that_agree_are_taken(
        times in prop::collection::vec(0..=100_u64, 32..40), junk in prop::collection::vec(1_000..90_000_u64, 40),
    ) {
        let mut agreement = Agreement::new(&jumping(100, 8)).unwrap();
        let taken = times.iter().zip(junk).enumerate().any(|(n, (at, junk))| {
            agreement.hear(id(1_000 + n as u64), junk * 1_000) || agreement.hear(id(n as u64), 5_000 + at)
        });
        prop_assert!(taken);
    }
}
