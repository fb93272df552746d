//! The checker against histories written by hand: counts, pieces and limits, which the tiny
//! histories of `brute_force` do not have.

use super::judged::Row;
use crate::{Event, Operation, Problem, Semantics, Time, check_history};
use Event::{Duplicate, Evict, Forget, Fresh, Unanswered};
use std::time::Duration;

/// A window of 100 ns, remembered up to 10 ns longer.
pub(super) const SEMANTICS: Semantics = Semantics {
    window: Duration::from_nanos(100),
    slack: Duration::from_nanos(10),
    refresh_on_duplicate: false,
    forgets_meanwhile: false,
    accepts_meanwhile: false,
    time: Time::LargestSoFar,
    lease: None,
};

fn history(rows: &[Row]) -> Vec<Operation> {
    super::judged::history(1, 1, rows)
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
