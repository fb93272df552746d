//! The checker against histories written by hand.

use crate::{Event, Interval, Operation, Problem, Semantics, Time, check_history};
use Event::{
    Claimed, Completed, Duplicate, Evict, Forget, Fresh, InProgress, Lost, Mismatch, Released, Renewed, Unanswered,
};
use hapax::Timestamp;
use std::time::Duration;

/// A window of 100 ns, remembered up to 10 ns longer.
const SEMANTICS: Semantics = Semantics {
    window: Duration::from_nanos(100),
    slack: Duration::from_nanos(10),
    refresh_on_duplicate: false,
    forgets_meanwhile: false,
    accepts_meanwhile: false,
    time: Time::LargestSoFar,
    lease: None,
};
const REFRESH: Semantics = Semantics { refresh_on_duplicate: true, ..SEMANTICS };
const AS_GIVEN: Semantics = Semantics { time: Time::AsGiven, ..SEMANTICS };

/// The columns of a row: thread, invoked, returned (0: never), at, event.
type Row = (u16, u64, u64, u64, Event);

fn history(rows: &[Row]) -> Vec<Operation> {
    let operation = |&(thread, invoked, returned, at, event): &Row| {
        let returned = if returned == 0 { Interval::NEVER } else { returned };
        Operation {
            id: 1,
            at: Timestamp::from_nanos(at),
            interval: Interval { invoked, returned },
            thread,
            event,
            ..Operation::default()
        }
    };
    rows.iter().map(operation).collect()
}

fn verdict(semantics: &Semantics, evicted: u64, rows: &[Row]) -> Result<(), Problem> {
    check_history(&history(rows), semantics, evicted).map(|_| ()).map_err(|violation| violation.problem)
}

#[track_caller]
fn accepted(semantics: &Semantics, rows: &[Row]) {
    assert_eq!(verdict(semantics, 0, rows), Ok(()));
}

#[track_caller]
fn rejected(semantics: &Semantics, rows: &[Row]) {
    let problem = verdict(semantics, 0, rows).expect_err("it is wrong");
    assert!(!matches!(problem, Problem::TooManyOrders | Problem::TooManyEvictions { .. }), "{problem}");
}

#[test]
fn one_of_two_that_overlap_is_fresh() {
    accepted(&SEMANTICS, &[(0, 1, 4, 0, Duplicate), (1, 2, 3, 0, Fresh)]);
    accepted(&SEMANTICS, &[(0, 1, 4, 0, Fresh), (1, 2, 3, 0, Duplicate)]);
    rejected(&SEMANTICS, &[(0, 1, 4, 0, Fresh), (1, 2, 3, 0, Fresh)]);
    rejected(&SEMANTICS, &[(0, 1, 4, 0, Duplicate), (1, 2, 3, 0, Duplicate)]);
    // They do not overlap any more.
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Duplicate), (1, 3, 4, 0, Fresh)]);
    // One stamp does not tell which was first.
    accepted(&SEMANTICS, &[(0, 1, 2, 0, Duplicate), (1, 2, 3, 0, Fresh)]);
    // A thread knows the order of its own.
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Duplicate), (0, 2, 3, 0, Fresh)]);
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Duplicate), (0, 1, 2, 0, Fresh)]);
}

#[test]
fn the_edges_of_the_window() {
    for (at, may_be_duplicate, may_be_fresh) in
        [(99, true, false), (100, true, true), (109, true, true), (110, false, true)]
    {
        let again = |event| verdict(&SEMANTICS, 0, &[(0, 1, 2, 0, Fresh), (0, 3, 4, at, event)]).is_ok();
        assert_eq!((again(Duplicate), again(Fresh)), (may_be_duplicate, may_be_fresh), "{at} later");
    }
    // A duplicate shows that it cannot have been accepted earlier, fresh ones that it cannot have
    // been accepted later.
    let long = |rows: &[Row]| [&[(0, 1, 4, 0, Fresh), (1, 2, 3, 50, Duplicate)], rows].concat();
    accepted(&SEMANTICS, &long(&[(0, 5, 6, 159, Duplicate)]));
    accepted(&SEMANTICS, &long(&[(0, 5, 6, 100, Fresh)]));
    accepted(&SEMANTICS, &long(&[(0, 5, 6, 110, Duplicate), (0, 7, 8, 111, Fresh)]));
    rejected(&SEMANTICS, &long(&[(0, 5, 6, 110, Duplicate), (0, 7, 8, 100, Duplicate), (0, 9, 10, 160, Duplicate)]));
    rejected(&SEMANTICS, &long(&[(0, 5, 6, 159, Duplicate), (0, 7, 8, 159, Fresh), (0, 9, 10, 159, Fresh)]));
}

#[test]
fn nobodys_time_runs_backwards() {
    let other_told = |at, event| {
        let mut operations = history(&[(0, 1, 2, 0, Fresh), (1, 3, 4, 200, Fresh), (0, 5, 6, at, event)]);
        operations[1].id = 2;
        operations
    };
    // It is 200 by then.
    assert!(check_history(&other_told(0, Fresh), &SEMANTICS, 0).is_ok());
    assert!(check_history(&other_told(0, Duplicate), &SEMANTICS, 0).is_err());
    assert!(check_history(&other_told(0, Fresh), &AS_GIVEN, 0).is_err());
    assert!(check_history(&other_told(0, Duplicate), &AS_GIVEN, 0).is_ok());
    // It may be 200 by then.
    let mut overlapping = other_told(0, Fresh);
    overlapping[1].interval = Interval { invoked: 5, returned: 7 };
    assert!(check_history(&overlapping, &SEMANTICS, 0).is_ok());
    overlapping[2].event = Duplicate;
    assert!(check_history(&overlapping, &SEMANTICS, 0).is_ok());
    // A call that gave no answer may have told it.
    overlapping[1] =
        Operation { event: Unanswered, interval: Interval { invoked: 1, returned: Interval::NEVER }, ..overlapping[1] };
    assert!(check_history(&overlapping, &SEMANTICS, 0).is_ok());
    overlapping[2].event = Fresh;
    assert!(check_history(&overlapping, &SEMANTICS, 0).is_ok());
    // An operation that forgets may tell a time, or not.
    for event in [Fresh, Duplicate] {
        let mut forgotten = other_told(0, event);
        forgotten[1].event = Forget;
        assert!(check_history(&forgotten, &SEMANTICS, 0).is_ok());
    }
}

#[test]
fn a_duplicate_refreshes_if_it_is_to() {
    let rows = |last| [(0, 1, 2, 0, Fresh), (0, 3, 4, 80, Duplicate), (0, 5, 6, 170, last)];
    accepted(&SEMANTICS, &rows(Fresh));
    rejected(&SEMANTICS, &rows(Duplicate));
    accepted(&REFRESH, &rows(Duplicate));
    rejected(&REFRESH, &rows(Fresh));
    // Only ever to a later time.
    let mut late = history(&[(0, 1, 4, 50, Fresh), (1, 2, 3, 0, Duplicate), (0, 5, 6, 149, Fresh)]);
    assert!(check_history(&late, &REFRESH, 0).is_err());
    late[2].event = Duplicate;
    assert!(check_history(&late, &REFRESH, 0).is_ok());
    // A check that gave no answer may have refreshed.
    let rows = |last| [(0, 1, 2, 0, Fresh), (1, 3, 0, 80, Unanswered), (0, 5, 6, 170, last)];
    accepted(&REFRESH, &rows(Duplicate));
    accepted(&REFRESH, &rows(Fresh));
}

#[test]
fn what_is_forgotten_is_fresh_once() {
    accepted(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (0, 3, 4, 0, Forget), (0, 5, 6, 1, Fresh), (1, 7, 8, 2, Duplicate)]);
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (0, 3, 4, 0, Forget), (0, 5, 6, 1, Duplicate)]);
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (1, 3, 9, 0, Forget), (0, 4, 5, 1, Fresh), (0, 6, 7, 2, Fresh)]);
    accepted(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (1, 3, 9, 0, Forget), (0, 4, 5, 1, Duplicate), (0, 6, 7, 2, Fresh)]);
    // It may be forgotten more than once while that is under way, if that is allowed, and not
    // afterwards.
    let meanwhile = Semantics { forgets_meanwhile: true, ..SEMANTICS };
    let rows =
        [(0, 1, 2, 0, Fresh), (1, 3, 9, 0, Forget), (0, 4, 5, 1, Fresh), (0, 6, 7, 2, Fresh), (0, 10, 11, 2, Fresh)];
    accepted(&meanwhile, &rows);
    rejected(&meanwhile, &[&rows[..], &[(0, 12, 13, 3, Fresh)]].concat());
    rejected(&meanwhile, &[&rows[..2], &[(1, 9, 11, 1, Fresh), (0, 10, 11, 2, Fresh)]].concat());
    // Its thread, too, sees that it is not forgotten afterwards, whatever the stamps are.
    let rows = [(1, 1, 3, 0, Fresh), (0, 2, 4, 0, Forget), (0, 4, 4, 0, Duplicate), (1, 5, 6, 1, Fresh)];
    rejected(&meanwhile, &rows);
    // It was forgotten before it was accepted, or after: the next answer decides.
    let rows = |last| [(0, 1, 4, 0, Fresh), (1, 2, 3, 0, Forget), (0, 5, 6, 1, last)];
    accepted(&SEMANTICS, &rows(Fresh));
    accepted(&SEMANTICS, &rows(Duplicate));
}

#[test]
fn a_check_under_way_accepts_again_what_was_forgotten_if_that_is_allowed() {
    // It has inserted the id, another found it, a third forgot it; then a table was started.
    let rows = [(1, 1, 9, 0, Fresh), (0, 2, 3, 0, Duplicate), (2, 4, 8, 0, Forget), (1, 10, 11, 50, Duplicate)];
    let meanwhile = Semantics { accepts_meanwhile: true, ..SEMANTICS };
    accepted(&meanwhile, &rows);
    rejected(&SEMANTICS, &rows);
    // Not when it has returned.
    let rows = [(1, 1, 4, 0, Fresh), (0, 2, 3, 0, Duplicate), (2, 5, 8, 0, Forget), (1, 10, 11, 50, Duplicate)];
    rejected(&meanwhile, &rows);
    // Not for another check, and not while the id is known.
    let rows = [(1, 1, 9, 0, Fresh), (0, 2, 3, 0, Duplicate), (2, 4, 8, 0, Forget), (0, 10, 11, 50, Fresh)];
    accepted(&meanwhile, &[&rows[..], &[(1, 12, 13, 60, Duplicate)]].concat());
    rejected(&meanwhile, &[&rows[..], &[(1, 12, 13, 60, Fresh)]].concat());
}

#[test]
fn a_check_that_finds_an_id_in_progress_may_have_accepted_it_before_it_was_forgotten_if_that_is_allowed() {
    // It has inserted the id, another found it, a third forgot it and claimed it.
    let rows = |returned, forgotten| {
        [(1, 1, returned, 0, InProgress), (0, 2, 3, 0, Duplicate), forgotten, (2, 6, 7, 0, Claimed)]
    };
    let meanwhile = Semantics { accepts_meanwhile: true, ..SEMANTICS };
    accepted(&meanwhile, &rows(9, (2, 4, 5, 0, Forget)));
    rejected(&SEMANTICS, &rows(9, (2, 4, 5, 0, Forget)));
    // It was claimed too late for that check, or nobody forgot it.
    rejected(&meanwhile, &rows(5, (2, 4, 5, 0, Forget)));
    rejected(&meanwhile, &rows(9, (2, 4, 5, 0, Duplicate)));
    // What it has accepted does not stay.
    let rows = &[&rows(9, (2, 4, 5, 0, Forget))[..], &[(2, 10, 11, 0, Released), (0, 12, 13, 0, Duplicate)]].concat();
    rejected(&meanwhile, rows);
}

#[test]
fn a_call_without_an_answer_may_have_happened() {
    let rows = |last| [(0, 1, 0, 0, Unanswered), (1, 2, 3, 1, last)];
    accepted(&SEMANTICS, &rows(Fresh));
    accepted(&SEMANTICS, &rows(Duplicate));
    // But not before it was invoked.
    rejected(&SEMANTICS, &[(1, 1, 2, 0, Duplicate), (0, 3, 0, 0, Unanswered)]);
    // It happens once: not each time that it suits.
    let happened = [(0, 1, 0, 0, Unanswered), (1, 2, 3, 1, Duplicate)];
    accepted(&SEMANTICS, &[&happened[..], &[(1, 4, 5, 2, Forget), (1, 6, 7, 3, Fresh)]].concat());
    rejected(&SEMANTICS, &[&happened[..], &[(1, 4, 5, 2, Forget), (1, 6, 7, 3, Duplicate)]].concat());
    // It may happen late.
    let late = [(0, 1, 0, 0, Unanswered), (1, 2, 3, 0, Fresh), (1, 4, 5, 500, Duplicate), (1, 6, 7, 590, Duplicate)];
    accepted(&SEMANTICS, &late);
    rejected(&SEMANTICS, &[&late[..], &[(1, 8, 9, 700, Duplicate)]].concat());
}

#[test]
fn an_eviction_explains_one_fresh_answer() {
    accepted(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (1, 3, 4, 0, Evict), (0, 5, 6, 1, Fresh)]);
    rejected(&SEMANTICS, &[(0, 1, 2, 0, Fresh), (1, 3, 4, 0, Evict), (0, 5, 6, 1, Fresh), (0, 7, 8, 1, Fresh)]);
    let counted = [(0, 1, 2, 0, Fresh), (0, 3, 4, 1, Fresh), (0, 5, 6, 2, Duplicate), (0, 7, 8, 3, Fresh)];
    for evicted in 0..4 {
        let expected = match evicted {
            0 => Err(Problem::ForgottenEarly { by: Duration::from_nanos(99), of: SEMANTICS.window }),
            1 => Err(Problem::TooManyEvictions { needed: 2, counted: 1 }),
            _ => Ok(()),
        };
        assert_eq!(verdict(&SEMANTICS, evicted, &counted), expected);
    }
    // Not a duplicate.
    assert_eq!(verdict(&SEMANTICS, 9, &[(0, 1, 2, 0, Duplicate)]), Err(Problem::FreshToNobody));
}

#[test]
fn a_clock_of_its_own_is_read_during_the_call() {
    const OWN: Semantics = Semantics { time: Time::Own, ..SEMANTICS };
    let own = |rows: &[(u16, u64, u64, Event)]| {
        // Times are stamps here.
        let operation = |&(thread, invoked, returned, event): &(u16, u64, u64, Event)| Operation {
            at: Timestamp::from_nanos(invoked),
            until: Timestamp::from_nanos(returned),
            ..history(&[(thread, invoked, returned, 0, event)])[0]
        };
        let operations: Vec<_> = rows.iter().map(operation).collect();
        check_history(&operations, &OWN, 0).is_ok()
    };
    // Accepted between 0 and 30, so forgotten between 100 and 140.
    for (invoked, returned, may_be_duplicate, may_be_fresh) in
        [(40, 99, true, false), (40, 100, true, true), (139, 200, true, true), (140, 200, false, true)]
    {
        let again = |event| own(&[(0, 0, 30, Fresh), (0, invoked, returned, event)]);
        assert_eq!((again(Duplicate), again(Fresh)), (may_be_duplicate, may_be_fresh), "{invoked} to {returned}");
    }
    // An answer shows when the clock was read: at 20 or before, at 20 or after.
    assert!(!own(&[(0, 0, 30, Fresh), (0, 110, 120, Fresh), (0, 130, 131, Duplicate), (0, 240, 240, Duplicate)]));
    assert!(own(&[(0, 0, 30, Fresh), (0, 110, 120, Duplicate), (0, 130, 131, Fresh), (0, 240, 240, Duplicate)]));
    assert!(!own(&[(0, 0, 30, Fresh), (0, 110, 120, Fresh), (0, 129, 129, Fresh)]));
    // One that never returned may read it as late as it likes.
    assert!(own(&[(0, 0, 0, Unanswered), (1, 500, 501, Duplicate), (1, 609, 610, Duplicate)]));
    assert!(!own(&[(0, 0, 0, Unanswered), (1, 500, 501, Duplicate), (1, 611, 612, Duplicate)]));
}

#[test]
fn a_lease_that_has_ended_is_taken_over_by_one() {
    let semantics = Semantics { lease: Some(Duration::from_nanos(50)), time: Time::AsGiven, ..SEMANTICS };
    let claimed = (0, 1, 2, 0, Claimed);
    for (at, keeps_out, may_take) in [(49, true, false), (50, true, true), (59, true, true), (60, false, true)] {
        let other = |event| verdict(&semantics, 0, &[claimed, (1, 3, 4, at, event)]).is_ok();
        assert_eq!((other(InProgress), other(Claimed), other(Fresh)), (keeps_out, may_take, may_take), "{at}");
    }
    let over = [claimed, (1, 3, 4, 60, Claimed)];
    let then = |rows: &[Row]| [&over[..], rows].concat();
    rejected(&semantics, &then(&[(2, 5, 6, 61, Claimed)]));
    // The late holder is refused, whatever it wants; the new one is not.
    for event in [Completed, Released, Renewed] {
        rejected(&semantics, &then(&[(0, 5, 6, 61, event)]));
        accepted(&semantics, &then(&[(0, 5, 6, 61, Lost), (1, 7, 8, 62, event)]));
    }
    rejected(&semantics, &then(&[(1, 5, 6, 61, Lost)]));
    accepted(&semantics, &then(&[(1, 5, 6, 111, Lost)]));
    // As long as nobody has taken it over, it is still the holder's.
    accepted(&semantics, &[claimed, (0, 3, 4, 500, Completed), (1, 5, 6, 501, Duplicate)]);
    // A renewed lease begins anew.
    accepted(&semantics, &[claimed, (0, 3, 4, 40, Renewed), (1, 5, 6, 89, InProgress), (1, 7, 8, 90, Claimed)]);
    rejected(&semantics, &[claimed, (0, 3, 4, 40, Renewed), (1, 5, 6, 89, Claimed)]);
    // A check takes it over as well, and forgetting ends it.
    rejected(&semantics, &[claimed, (1, 3, 4, 60, Fresh), (0, 5, 6, 61, Completed)]);
    rejected(&semantics, &[claimed, (1, 3, 4, 49, Forget)]);
    accepted(&semantics, &[claimed, (1, 3, 4, 50, Forget), (0, 5, 6, 51, Lost)]);
    // Claims that last never end by themselves.
    rejected(&AS_GIVEN, &[claimed, (1, 3, 4, 5_000, Claimed)]);
    rejected(&AS_GIVEN, &[claimed, (0, 3, 4, 5_000, Lost)]);
}

#[test]
fn a_thread_that_takes_over_its_own_claim_has_two() {
    let semantics = Semantics { lease: Some(Duration::from_nanos(50)), ..SEMANTICS };
    let rows = |first: Event, second: Event| {
        let rows =
            history(&[(0, 1, 2, 0, Claimed), (0, 3, 4, 60, Claimed), (0, 5, 6, 61, first), (0, 7, 8, 62, second)]);
        let claims = [1, 2, 1, 2];
        rows.into_iter().zip(claims).map(|(row, claim)| Operation { claim, ..row }).collect::<Vec<_>>()
    };
    assert!(check_history(&rows(Lost, Completed), &semantics, 0).is_ok());
    assert!(check_history(&rows(Completed, Lost), &semantics, 0).is_err());
}

#[test]
fn a_mismatch_is_certain() {
    let fingerprinted = |rows: &[(u8, Event)]| {
        let row = |(i, &(fingerprint, event)): (u64, &(u8, Event))| Operation {
            fingerprint,
            ..history(&[(0, 2 * i + 1, 2 * i + 2, i, event)])[0]
        };
        let operations: Vec<_> = (0..).zip(rows).map(row).collect();
        check_history(&operations, &SEMANTICS, 0).is_ok()
    };
    for done in [&[][..], &[(0, Completed)]] {
        let after = |first: u8, second: u8| {
            let rows = [&[(first, Claimed)], done, &[(second, Mismatch)]].concat();
            fingerprinted(&rows)
        };
        assert!(after(1, 2) && !after(1, 1) && !after(0, 2) && !after(1, 0), "{done:?}");
    }
    assert!(!fingerprinted(&[(1, Claimed), (0, Completed), (0, Forget), (2, Mismatch)]));
    assert!(!fingerprinted(&[(1, Claimed), (0, Released), (2, Mismatch)]));
    assert!(!fingerprinted(&[(0, Fresh), (2, Mismatch)]));
    // It need not be said.
    assert!(fingerprinted(&[(1, Claimed), (2, InProgress), (0, Completed), (2, Duplicate)]));
}

#[test]
fn pieces_are_checked_as_one() {
    let rows = history(&[
        (0, 1, 2, 0, Fresh),
        (1, 3, 0, 0, Unanswered),
        (0, 4, 5, 50, Forget),
        (0, 6, 7, 60, Duplicate),
        (0, 8, 9, 155, Duplicate),
        (0, 10, 11, 180, Fresh),
    ]);
    for cut in 0..=rows.len() {
        let mut checker = crate::Checker::new(&SEMANTICS);
        checker.check(&rows[..cut], 0).unwrap();
        checker.check(&rows[cut..], 0).unwrap();
        assert_eq!((checker.report().operations, checker.report().fresh), (6, 2));
        // The operation that gave no answer has happened already.
        let again = history(&[(0, 12, 13, 181, Forget), (0, 14, 15, 182, Duplicate)]);
        assert_eq!(checker.check(&again, 0).unwrap_err().problem, Problem::NotForgotten);
    }
}

#[test]
fn many_calls_without_an_answer_are_any_number() {
    let unanswered = |n: u64| (0..n).map(|i| (0, 2 * i + 1, 0, i, Unanswered));
    let happens = |n: u64| {
        (0..n).flat_map(|i| {
            [(1, 1_000 + 4 * i, 1_001 + 4 * i, 300, Duplicate), (1, 1_002 + 4 * i, 1_003 + 4 * i, 300, Forget)]
        })
    };
    let rows = |calls, times| unanswered(calls).chain(happens(times)).collect::<Vec<_>>();
    accepted(&SEMANTICS, &rows(6, 6));
    rejected(&SEMANTICS, &rows(6, 7));
    let many = crate::tests::judged::long(150, 500);
    accepted(&SEMANTICS, &rows(many, many));
    accepted(&SEMANTICS, &rows(many, many + 1));
}

#[test]
fn too_much_at_once_is_not_called_wrong() {
    let rows: Vec<_> = (0..200).map(|i| (i, 1, 2, 0, Fresh)).collect();
    assert_eq!(verdict(&SEMANTICS, 0, &rows), Err(Problem::TooManyOrders));
}
