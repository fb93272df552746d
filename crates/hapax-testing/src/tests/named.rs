//! Handmade histories, each with its name, the shortest part that shows it, and its diagram.

use super::judged::Row;
use crate::{Event, Operation, Problem, Semantics, Time, Violation, check_history};
use Event::{Claimed, Completed, Duplicate, Forget, Fresh, InProgress, Lost, Mismatch, Released, Renewed, Unanswered};
use std::time::Duration;

const MS: u64 = 1_000_000;

/// A window of 100 ms, remembered up to 2 ms longer, and leases of 50 ms.
const SEMANTICS: Semantics = Semantics {
    window: Duration::from_millis(100),
    slack: Duration::from_millis(2),
    refresh_on_duplicate: false,
    forgets_meanwhile: false,
    accepts_meanwhile: false,
    time: Time::AsGiven,
    lease: Some(Duration::from_millis(50)),
};

fn history(rows: &[Row]) -> Vec<Operation> {
    super::judged::history(7, MS, rows)
}

#[track_caller]
fn violation(semantics: &Semantics, operations: &[Operation]) -> Violation {
    let violation = check_history(operations, semantics, 0).expect_err("it is wrong");
    println!("{violation}\n");
    for line in violation.to_string().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    *violation
}

#[track_caller]
fn assert_prints(semantics: &Semantics, operations: &[Operation], expected: &str) {
    assert_eq!(violation(semantics, operations).to_string(), expected.trim_matches('\n'));
}

#[test]
fn two_overlapping_calls_are_fresh() {
    let rows = [(0, 1, 6, 0, Fresh), (1, 2, 5, 0, Duplicate), (2, 3, 7, 1, Fresh), (0, 8, 9, 2, Duplicate)];
    let expected = "
id 7: fresh to two overlapping calls
(remembered for 100ms, at most 2ms longer; shown: 2 of 4 answers)
before: not remembered
thread 0  [fresh]
thread 2       [fresh]
time      0ns  1ms
";
    assert_prints(&SEMANTICS, &history(&rows), expected);
}

#[test]
fn an_id_is_forgotten_early_or_remembered_too_long() {
    let mut rows = vec![(0, 1, 2, 0, Fresh)];
    rows.extend((1..40).map(|i| (i as u16 % 3, 10 * i, 10 * i + 1, 2 * i, Duplicate)));
    rows.extend([(1, 600, 601, 97, Fresh), (0, 700, 701, 98, Duplicate)]);
    let expected = "
id 7: forgotten 3ms early, 3.0 % of the window
(remembered for 100ms, at most 2ms longer; shown: 2 of 42 answers)
before: not remembered
thread 0  [fresh]
thread 1           [fresh]
time      0ns      97ms
";
    assert_prints(&SEMANTICS, &history(&rows), expected);
    let expected = "
id 7: remembered 10ms too long, 10 % of the window
(remembered for 100ms, at most 2ms longer; shown: 2 of 3 answers)
before: not remembered
thread 0  [fresh]
thread 1           [duplicate]
time      0ns      110ms
";
    let rows = [(0, 1, 2, 0, Fresh), (0, 3, 4, 50, Duplicate), (1, 5, 6, 110, Duplicate)];
    assert_prints(&SEMANTICS, &history(&rows), expected);
    let exact = Semantics { slack: Duration::ZERO, ..SEMANTICS };
    let rows = [(0, 1, 2, 0, Fresh), (1, 3, 4, 100, Duplicate)];
    let expected = "
id 7: still remembered at the end of the window
(remembered for 100ms; shown: 2 of 2 answers)
before: not remembered
thread 0  [fresh]
thread 1           [duplicate]
time      0ns      100ms
";
    assert_prints(&exact, &history(&rows), expected);
}

#[test]
fn an_id_is_lost_in_its_batch() {
    let mut operations = history(&[(1, 1, 2, 0, Fresh), (1, 1, 2, 0, Fresh), (0, 3, 4, 1, Duplicate)]);
    (operations[0].batch, operations[1].batch) = (5, 5);
    let expected = "
id 7: lost in its batch, which has it twice: both are fresh
(remembered for 100ms, at most 2ms longer; shown: 2 of 3 answers)
before: not remembered
thread 1  [batch: fresh, fresh]
time      0ns
";
    assert_prints(&SEMANTICS, &operations, expected);
}

#[test]
fn times_that_are_not_exactly_known_are_ranges() {
    // Others have told later times meanwhile.
    let mut operations =
        history(&[(0, 3, 5, 0, Fresh), (1, 7, 9, 10, Fresh), (2, 1, 2, 5, Fresh), (2, 4, 8, 20, Fresh)]);
    operations[2].id = 8;
    operations[3].id = 9;
    let expected = "
id 7: forgotten 85ms early, 85 % of the window
(remembered for 100ms, at most 2ms longer; shown: 2 of 2 answers)
before: not remembered
thread 0  [fresh]
thread 1               [fresh]
time      0ns to 15ms  5ms to 15ms
";
    assert_prints(&Semantics { time: Time::LargestSoFar, ..SEMANTICS }, &operations, expected);
}

#[test]
fn a_call_without_an_answer_has_a_row_that_does_not_end() {
    // Whether it has refreshed the id or not, the id is over.
    let refreshing = Semantics { refresh_on_duplicate: true, ..SEMANTICS };
    let rows = [(0, 1, 0, 0, Unanswered), (0, 2, 3, 0, Duplicate), (0, 4, 5, 200, Duplicate)];
    let expected = "
id 7: remembered 100ms too long, 100 % of the window
(remembered for 100ms, at most 2ms longer, extended by duplicates; shown: 3 of 3 answers)
before: not remembered
thread 0   [duplicate] [duplicate]
thread 0  [no answer               …
time      0ns          200ms
";
    assert_prints(&refreshing, &history(&rows), expected);
}

#[test]
fn long_histories_are_broken_where_no_call_is_under_way() {
    // Each duplicate extends the stay, so none may be left out but the first ones.
    let refreshing = Semantics { refresh_on_duplicate: true, ..SEMANTICS };
    let mut rows = vec![(0, 1, 2, 0, Fresh)];
    rows.extend((1..8).map(|i| (i as u16 % 3, 10 * i, 10 * i + 1, 90 * i, Duplicate)));
    rows.push((0, 600, 601, 720, Fresh));
    let shown = violation(&refreshing, &history(&rows)).to_string();
    let rows = shown.lines().filter(|line| line.starts_with("time")).count();
    assert_eq!((rows, shown.matches("[duplicate]").count(), shown.matches("[fresh]").count()), (2, 7, 2), "{shown}");
}

#[test]
fn who_forgets_again_what_was_accepted_meanwhile_is_shown_with_it() {
    let rows = [
        (0, 1, 2, 0, Fresh),
        (1, 3, 10, 1, Forget),
        (0, 4, 5, 2, Fresh),
        (2, 6, 7, 2, Duplicate),
        (0, 11, 12, 3, Fresh),
    ];
    // The duplicate shows that the second one was accepted before the forgetting, which need not be
    // known to see that one forgetting explains one of the three only.
    let expected = "
id 7: accepted while it was being forgotten, and forgotten again
(remembered for 100ms, at most 2ms longer; shown: 4 of 5 answers)
before: not remembered
thread 0  [fresh]       [fresh]    [fresh]
thread 1           [forgotten   ]
time      0ns      1ms  2ms        3ms
";
    assert_prints(&SEMANTICS, &history(&rows), expected);
}

#[test]
fn a_mismatch_with_what_is_no_longer_known_is_late() {
    let ms = Duration::from_millis;
    let mismatch = |rows: &[Row]| {
        let mut operations = history(rows);
        let last = operations.len() - 1;
        (operations[0].fingerprint, operations[last].fingerprint) = (1, 2);
        violation(&SEMANTICS, &operations).problem
    };
    let claimed = (0, 1, 2, 0, Claimed);
    assert_eq!(mismatch(&[claimed, (1, 3, 4, 60, Mismatch)]), Problem::KeptTooLong { by: ms(10), of: ms(50) });
    let completed = (0, 3, 4, 10, Completed);
    let late = Problem::RememberedTooLong { by: ms(5), of: ms(100) };
    assert_eq!(mismatch(&[claimed, completed, (1, 5, 6, 115, Mismatch)]), late);
    assert_eq!(mismatch(&[claimed, (0, 3, 4, 1, Released), (1, 5, 6, 2, Mismatch)]), Problem::FalseMismatch);
}

/// Returns the name of what is wrong with a history, and the number of operations that show it.
fn named(semantics: &Semantics, rows: &[Row]) -> (Problem, usize) {
    let violation = violation(semantics, &history(rows));
    (violation.problem, violation.operations.len())
}

#[test]
fn each_problem_has_its_name() {
    let ms = Duration::from_millis;
    let (window, lease) = (SEMANTICS.window, ms(50));
    let lasting = Semantics { lease: None, ..SEMANTICS };
    let refreshing = Semantics { refresh_on_duplicate: true, ..SEMANTICS };
    let fresh = (0, 1, 2, 0, Fresh);
    let claimed = (0, 1, 2, 0, Claimed);
    let taken = [claimed, (1, 3, 4, 60, Claimed)];
    let cases: Vec<(&Semantics, Vec<Row>, (Problem, usize))> = vec![
        (&SEMANTICS, vec![(0, 1, 3, 0, Duplicate), (1, 2, 4, 0, Duplicate)], (Problem::FreshToNobody, 1)),
        (&SEMANTICS, vec![fresh, (1, 3, 4, 1, Forget), (0, 5, 6, 2, Duplicate)], (Problem::NotForgotten, 2)),
        (&SEMANTICS, vec![claimed, (0, 3, 4, 1, Released), (1, 5, 6, 2, Duplicate)], (Problem::NotReleased, 3)),
        (&lasting, vec![claimed, (1, 3, 4, 60, Fresh)], (Problem::TakenWhileClaimed, 2)),
        (&lasting, vec![claimed, (0, 3, 6, 60, Completed), (1, 4, 5, 60, Fresh)], (Problem::TakenWhileClaimed, 3)),
        (
            &SEMANTICS,
            vec![claimed, (2, 3, 4, 20, InProgress), (1, 5, 6, 45, Claimed)],
            (Problem::TakenOverEarly { by: ms(5), of: lease }, 2),
        ),
        (&SEMANTICS, vec![claimed, (1, 3, 4, 60, InProgress)], (Problem::KeptTooLong { by: ms(10), of: lease }, 2)),
        (&SEMANTICS, vec![claimed, (1, 3, 4, 1, Duplicate)], (Problem::DuplicateInProgress, 2)),
        (&SEMANTICS, vec![fresh, (1, 3, 4, 1, InProgress)], (Problem::InProgressForNobody, 2)),
        (&SEMANTICS, [&taken[..], &[(0, 5, 6, 61, Completed)]].concat(), (Problem::LateHolder, 3)),
        (&SEMANTICS, [&taken[..], &[(0, 5, 6, 61, Renewed)]].concat(), (Problem::LateHolder, 3)),
        (&SEMANTICS, vec![claimed, (0, 3, 4, 10, Lost)], (Problem::HolderRefused, 2)),
        (&SEMANTICS, vec![claimed, (1, 3, 4, 10, Forget)], (Problem::ForgottenWhileClaimed, 2)),
        (&SEMANTICS, vec![fresh, (1, 3, 4, 10, Mismatch)], (Problem::FalseMismatch, 2)),
        (
            &refreshing,
            vec![fresh, (1, 3, 4, 80, Duplicate), (2, 5, 6, 120, Fresh)],
            (Problem::ForgottenEarly { by: ms(60), of: window }, 3),
        ),
        (
            &SEMANTICS,
            vec![claimed, (0, 3, 4, 10, Completed), (2, 5, 6, 105, Fresh)],
            (Problem::ForgottenEarly { by: ms(5), of: window }, 3),
        ),
        // What was forgotten, and accepted anew, is not what was lost.
        (
            &SEMANTICS,
            vec![fresh, (1, 3, 4, 1, Forget), (0, 5, 6, 2, Fresh), (1, 7, 8, 3, Fresh)],
            (Problem::ForgottenEarly { by: ms(99), of: window }, 2),
        ),
        // A call without an answer explains nothing here.
        (
            &SEMANTICS,
            vec![(2, 1, 0, 0, Unanswered), (0, 2, 3, 0, Fresh), (1, 4, 5, 1, Fresh)],
            (Problem::ForgottenEarly { by: ms(99), of: window }, 2),
        ),
    ];
    for (semantics, rows, expected) in cases {
        assert_eq!(named(semantics, &rows), expected, "{rows:?}");
    }
}
